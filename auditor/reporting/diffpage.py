"""The page of ``audit diff``: what changed in meaning first, what only moved as a count."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from auditor.history.causes import folded, following
from auditor.history.model import KINDS, Change, Diff
from auditor.reporting.notes import PATCH_LINES, PATCH_NEWS, arm_lines, commit_words
from auditor.reporting.terminal import WIDEST
from auditor.reporting.text import Page, Places, Span, clean

if TYPE_CHECKING:
    from rich.console import Console

    from auditor.trees.base import SourceTree

#: Kinds that are counted in the head and listed only with -v.
QUIET_KINDS = ("moved", "respelled", "flag")
_STYLES = {"outcome": "bold yellow", "kernel": "bold yellow", "forced": "bold red", "default": "bold red"}
_INDENT = 16


def render(
    diff: Diff,
    console: Console,
    *,
    verbose: int = 0,
    quiet: bool = False,
    tree: SourceTree | None = None,
    commits: str = "",
    empty: str,
    everything: bool = False,
) -> None:
    """Print a comparison. ``tree`` is the newer one, for links; ``commits`` says how many lie between.

    ``everything``: patches that go, and changes that follow from others, are listed too.
    """
    page = Page(min(console.width, WIDEST))
    paths = {change.path for change in diff.changes} | {c.old_path for c in diff.changes if c.old_path}
    places = Places(paths, tree, console.is_terminal)
    if not quiet:
        _header(diff, page, commits)
    _patches(diff, page, everything)
    shown, counts = (list(diff.changes), {}) if everything else folded(diff.changes)
    for kind, meaning in KINDS.items():
        listed = [change for change in shown if change.kind == kind]
        if not listed or (kind in QUIET_KINDS and not verbose):
            continue
        page.blank()
        page.add(Span(kind.ljust(_INDENT), _STYLES.get(kind, "bold")), Span(f"{meaning}"))
        for change in listed:
            _entry(change, page, places, counts.get(change.gate, 0))
    if not quiet:
        _footer(diff, page, verbose, empty)
    page.write(console)


def header_lines(diff: Diff, commits: str) -> list[str]:
    """What was compared, what came out as numbers, and for which targets."""
    dates = " → ".join(date for date in (diff.old.date, diff.new.date) if date)
    words = [f"{diff.project} {diff.old.label} → {diff.new.label}", commits, dates]
    counts = [_counted(kind, diff.stats[kind]) for kind in KINDS if kind in diff.stats]
    same = f"{diff.stats.get('same', 0):,} gates the same"
    undecided = diff.stats.get("undecided in both", 0)
    same += f" ({undecided:,} undecided in both)" if undecided else ""
    return [
        " · ".join(word for word in words if word),
        " · ".join([*counts, same]),
        f"for {', '.join(diff.targets)}",
        *patch_lines(diff),
        *(f"note: {clean(note)}" for note in diff.notes),
    ]


def patch_lines(diff: Diff) -> list[str]:
    """One line a patchset: ``patches of sm120: 8 clean, 1 upstream, 1 conflict``."""
    out = []
    for name in dict.fromkeys(state.patchset for state in diff.patches):
        own = [state for state in diff.patches if state.patchset == name]
        counts = Counter(state.status for state in own if state.kind == "patch")
        failed = [state.name for state in own if state.kind == "check" and state.trips]
        text = f"patches of {name}: " + ", ".join(f"{n} {status}" for status, n in counts.items())
        out.append(f"{text}; not held: {', '.join(failed)}" if failed else text)
    return out


def _patches(diff: Diff, page: Page, everything: bool) -> None:
    """What trips, then what is news, then what is asked for besides."""
    listed = [s for s in diff.patches if s.trips or s.status in PATCH_NEWS or everything]
    if not listed:
        return
    page.blank()
    page.add(Span("patches".ljust(_INDENT), "bold yellow"), Span("what becomes of them on the newer tree"))
    for state in sorted(listed, key=lambda state: not state.trips):
        way = f"{state.before} → {state.status}" if state.before not in ("", state.status) else state.status
        name = f"{state.patchset}: {state.name}"
        page.add(Span(clean(f"  {name}").ljust(_INDENT - 1) + "  "), Span(way, "bold" if state.trips else ""))
        for text in (state.note, *state.detail[:PATCH_LINES]):
            if text:
                page.paragraph(text, indent=_INDENT)
        left = len(state.detail) - PATCH_LINES
        if left > 0:
            page.paragraph(f"… and {left:,} more; --format json lists them", indent=_INDENT)


def _header(diff: Diff, page: Page, commits: str) -> None:
    first, *rest = header_lines(diff, commits)
    page.paragraph(first, style="bold")
    for line in rest:
        note = line.startswith("note: ")
        page.paragraph(line.removeprefix("note: ") if note else line, **_NOTE if note else {})


_NOTE: dict[str, Any] = {"head": "note:", "indent": 6}
_WORDS = {
    "outcome": ("outcome changed", "outcomes changed"),
    "kernel": ("kernel changed", "kernels changed"),
    "forced": ("forced setting changed", "forced settings changed"),
    "default": ("default changed", "defaults changed"),
    "predicate": ("condition changed", "conditions changed"),
    "added": ("gate added", "gates added"),
    "removed": ("gate removed", "gates removed"),
    "flag": ("flag changed", "flags changed"),
    "respelled": ("respelled", "respelled"),
    "moved": ("moved", "moved"),
}


def _counted(kind: str, number: int) -> str:
    return f"{number:,} {_WORDS[kind][number != 1]}"


def _entry(change: Change, page: Page, places: Places, follow: int) -> None:
    head = Span(clean(f"  {change.area}").ljust(_INDENT - 1) + " ")
    place = places.span(change.path, change.line) if change.path else Span("")
    page.add(head, place, Span(clean(f"  {change.symbol}") if change.symbol else ""))
    if change.old_what and change.old_what != change.what:
        page.paragraph(f"{change.old_what} → {change.what}", indent=_INDENT, most=3)
    else:
        page.paragraph(change.what, indent=_INDENT, most=2)
    if change.old_path:
        page.paragraph(f"was at {places.text(change.old_path, change.old_line)}", indent=_INDENT)
    for text in _ways(change):
        page.paragraph(text, indent=_INDENT)
    if change.own:
        page.paragraph(f"{' '.join(change.own)} had an arm of its own here", indent=_INDENT)
    if change.refuses:
        page.paragraph(f"{' '.join(change.refuses)} went on here, and is refused", indent=_INDENT)
    for text in arm_lines(change):
        page.paragraph(text, indent=_INDENT, most=2)
    if change.why and change.kind not in ("forced", "default"):
        page.paragraph(change.why, indent=_INDENT, most=2)
    if follow:
        page.paragraph(f"{following(follow)}; -v lists them", indent=_INDENT)
    if change.commits:
        page.paragraph(commit_words(change), indent=_INDENT)


def _ways(change: Change) -> list[str]:
    """One line per way that targets went: ``sm_120 sm_121: no → yes``."""
    groups: dict[tuple[str, str], list[str]] = {}
    for target in dict.fromkeys((*change.before, *change.after)):
        pair = change.before.get(target, ""), change.after.get(target, "")
        groups.setdefault(pair, []).append(target)
    out = []
    for (before, after), names in groups.items():
        way = f"{before} → {after}" if before and after else before or after
        out.append(f"{' '.join(names)}: {way}")
    return out


def _footer(diff: Diff, page: Page, verbose: int, empty: str) -> None:
    hidden = [kind for kind in QUIET_KINDS if kind in diff.stats and not verbose]
    if not diff.changes and not any(state.trips for state in diff.patches):
        page.blank()
        page.paragraph(empty)
    if hidden:
        page.blank()
        page.paragraph(f"not listed: {', '.join(hidden)}; -v lists them")
