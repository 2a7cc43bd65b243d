"""The pages of ``audit history``: one line a commit that changed a gate, and the published JSON."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from auditor.history.model import KINDS, Change
from auditor.history.past import Past
from auditor.reporting.notes import commit_words
from auditor.reporting.published import described, line_by_line, report_schema
from auditor.reporting.terminal import WIDEST
from auditor.reporting.text import Page, Span, clean

if TYPE_CHECKING:
    from rich.console import Console

SCHEMA_ID = "urn:sglang-auditor:schema:history:1"


def dumps(past: Past) -> bytes:
    """UTF-8 JSON, one event a line, with a final newline."""
    return line_by_line(past, SCHEMA_ID, {"events": past.events})


def history_schema() -> bytes:
    """The schema (draft 2020-12) as UTF-8 JSON with a final newline, made from the types."""
    return report_schema(Past, SCHEMA_ID, "The past of a gate", _narrow)


def _narrow(definitions: dict[str, Any]) -> None:
    described(definitions)
    definitions["Change"]["properties"]["kind"]["enum"] = list(KINDS)


def render(past: Past, console: Console, *, quiet: bool = False) -> None:
    """Print the table: newest last, each event with commit, date, pull request, and from what to what."""
    page = Page(min(console.width, WIDEST))
    if not quiet:
        page.paragraph(f"{past.path}  {past.symbol or '(module)'}", style="bold")
        page.paragraph(past.what)
        looked = f"{past.touching:,} of {past.commits:,} commits touch what it depends on"
        page.paragraph(f"{past.project} {past.old} → {past.new} · {looked} · {past.audited:,} trees audited")
        for note in past.notes:
            page.paragraph(clean(note), head="note:", indent=6)
        page.blank()
    for event in past.events:
        _event(event, page)
    if not past.events:
        words = "no commit changed what it means"
        page.paragraph(
            words if past.every else f"{words}, unless it was taken back in between (--every looks)"
        )
        page.paragraph(
            f"it stood as it is in {clean(past.old)} already: begin the range earlier to see where it came"
        )
    page.write(console)


def _event(event: Change, page: Page) -> None:
    page.add(Span(clean(commit_words(event)) if event.commits else "", "cyan"))
    groups: dict[tuple[str, str], list[str]] = {}
    for target in dict.fromkeys((*event.before, *event.after)):
        groups.setdefault((event.before.get(target, ""), event.after.get(target, "")), []).append(target)
    ways = [
        f"{' '.join(names)}: {' → '.join(word for word in pair if word)}" for pair, names in groups.items()
    ]
    page.paragraph(f"{event.kind}  {' · '.join(ways)}", indent=10, head="")
    if event.old_what:
        page.paragraph(f"{event.old_what} → {event.what}", indent=10, most=3)
    if event.old_path:
        page.paragraph(f"was at {event.old_path}:{event.old_line}", indent=10)
