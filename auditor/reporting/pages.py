"""The smaller pages: what a tree's predicates mean, and one gate in full."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from auditor.gates.model import Finding, Gate, Predicate, Report, Tri
from auditor.reporting.items import MEANING
from auditor.reporting.jsonout import finding_key, gate_key, predicate_key
from auditor.reporting.terminal import WIDEST, arm_text, chain_text, per_value, tree_line
from auditor.reporting.text import TRUTH_GLYPHS, TRUTH_WORDS, Page, Places, Span, clean

if TYPE_CHECKING:
    from rich.console import Console

    from auditor.trees.base import SourceTree

#: A value that is longer is cut in the table; -v shows it whole.
_LONGEST = 9
#: Places of readers that are listed without -v.
_READERS = 6


def render_predicates(
    report: Report,
    console: Console,
    *,
    predicates: Iterable[Predicate] | None = None,
    verbose: int = 0,
    quiet: bool = False,
    tree: SourceTree | None = None,
) -> None:
    """One line a predicate, by file: its value on every target, and in words where there is room.

    ``predicates`` limits the page (default: all of the report). ``verbose`` adds what each one is made of.
    """
    chosen = sorted(report.predicates if predicates is None else predicates, key=predicate_key)
    page = Page(min(console.width, WIDEST))
    places = Places((item.path for item in chosen), tree, console.is_terminal)
    if not quiet:
        page.paragraph(tree_line(report, tree), style="bold")
        page.paragraph(f"{len(chosen):,} predicates · ✓ true   · false   ? depends   else the value")
        page.blank()
    cells = [{name: _cell(item, name) for name in report.targets} for item in chosen]
    widths = [
        max([len(name.removeprefix("sm_")), *(len(row[name]) for row in cells)]) + 1
        for name in report.targets
    ]
    names = [f"  {item.line:>5}  {clean(local_name(item))}" for item in chosen]
    room = page.width - sum(widths)
    left = max(min(max((len(name) for name in names), default=20) + 1, room), 24)
    heads = "".join(
        name.removeprefix("sm_").rjust(width) for name, width in zip(report.targets, widths, strict=True)
    )
    page.add(" " * left, Span(heads, "dim"))
    path = ""
    for item, name, row in zip(chosen, names, cells, strict=True):
        if item.path != path:
            path = item.path
            page.add(Span(clean(path), "bold", places.span(path, 0).link))
        line = [Span(name.ljust(left))]
        if len(name) >= left:
            page.add(name)
            line = [Span(" " * left)]
        line += [
            Span(row[target].rjust(width), _STYLES.get(row[target], ""))
            for target, width in zip(report.targets, widths, strict=True)
        ]
        words = clean(meaning(item, report.targets))
        if left + sum(widths) + 3 + len(words) <= page.width:
            line.append(Span(f"   {words}", "dim"))
        page.add(*line)
        if verbose:
            _predicate_lines(item, report, page)
    page.write(console)


_STYLES = {"✓": "green", "?": "magenta", "·": "dim"}


def _cell(item: Predicate, target: str) -> str:
    value = item.value.get(target)
    if value is None:
        return TRUTH_GLYPHS[item.truth.get(target, "unknown")]
    value = clean(value)
    return value if len(value) <= _LONGEST else value[: _LONGEST - 1] + "…"


def local_name(item: Predicate) -> str:
    """The name within its file: ``Platform.is_big`` of ``toy.platform.Platform.is_big``."""
    names = item.name.split(".")
    module = item.path.removesuffix(".py").removesuffix("/__init__").split("/")
    for size in range(len(names) - 1, 0, -1):
        if names[:size] == module[-size:]:
            return ".".join(names[size:])
    return item.name


def meaning(item: Predicate, targets: tuple[str, ...]) -> str:
    """In words where it holds: ``always``, ``never``, ``sm_100 sm_103``, ``depends on dep.x``."""
    if item.value:
        return ""
    truth = [item.truth.get(target, "unknown") for target in targets]
    if "unknown" in truth:
        return f"depends on {', '.join(item.unknown_because)}" if item.unknown_because else ""
    true = [target for target, value in zip(targets, truth, strict=True) if value == "true"]
    return {0: "never", len(targets): "always"}.get(len(true), " ".join(true))


def _predicate_lines(item: Predicate, report: Report, page: Page) -> None:
    rows = [("name", item.name)]
    if item.value:
        rows.append(
            (
                "value",
                " · ".join(f"{name} {item.value[name]}" for name in report.targets if name in item.value),
            )
        )
    rows.append(("from", chain_text(item.via, item.roots)))
    rows.append(("depends", ", ".join(item.unknown_because)))
    rows.append(("read by", f"{item.read_by:,} gate{'' if item.read_by == 1 else 's'}"))
    for label, text in rows:
        if text:
            page.paragraph(text, indent=18, head=f"         {label}", style="dim")


def render_gate(
    report: Report,
    gate: Gate,
    console: Console,
    *,
    verbose: int = 0,
    tree: SourceTree | None = None,
) -> None:
    """One gate in full: value, reach and verdict per target, why, from what, its arms, who reads it."""
    page = Page(min(console.width, WIDEST))
    paths = {gate.path for gate in report.gates} | {item.path for item in report.predicates} | {gate.path}
    places = Places(paths, tree, console.is_terminal)
    page.paragraph(f"{gate.module}{'.' + gate.symbol if gate.symbol else ''}", style="bold")
    lines = f"{gate.line}" if gate.end_line <= gate.line else f"{gate.line}-{gate.end_line}"
    page.add(
        "  place     ", Span(clean(f"{gate.path}:{lines}"), "cyan", places.span(gate.path, gate.line).link)
    )
    _row(page, "test", f"{gate.kind} {gate.predicate}")
    page.blank()
    targets = tuple(name for name in dict.fromkeys((*report.targets, report.reference)) if name in gate.truth)
    _grid(page, targets, gate)
    page.blank()
    _row(page, "? means", f"depends on {', '.join(gate.unknown_because)}" if gate.unknown_because else "")
    for verdict in dict.fromkeys(gate.verdict.get(name, "same") for name in targets):
        if verdict != "same":
            words = MEANING.get(verdict, "").format(reference=report.reference)
            _row(page, "means", f"{verdict}: {words}" if words else verdict)
    _row(page, "from", chain_text(gate.via, gate.roots))
    known = {item.name: item for item in report.predicates}
    for name in gate.via:
        if name in known:
            item = known[name]
            _row(page, "", f"{name}  {places.text(item.path, item.line)}: {per_value(item.truth, targets)}")
    for arm in gate.arms:
        _row(page, "arm", arm_text(arm))
    for finding in sorted(report.findings, key=finding_key):
        if finding.gate == gate.id:
            _row(
                page, finding.severity, f"{finding.message}{f'  ({finding.query})' if finding.query else ''}"
            )
            for detail in finding.detail:
                _row(page, "", detail)
            _row(page, "fix", finding.fix or "")
    _row(page, "read by", _readers(report, gate, places, verbose))
    _row(page, "gate", gate.id)
    page.write(console)


def render_finding(
    report: Report, finding: Finding, console: Console, *, tree: SourceTree | None = None
) -> None:
    """A finding that stands for itself: no gate is behind it, so its place, verdict and words are all."""
    page = Page(min(console.width, WIDEST))
    places = Places({finding.path}, tree, console.is_terminal)
    page.paragraph(finding.symbol or finding.path, style="bold")
    link = places.span(finding.path, finding.line).link
    page.add("  place     ", Span(clean(f"{finding.path}:{finding.line}"), "cyan", link))
    groups: dict[str, list[str]] = {}
    for name in report.targets:
        groups.setdefault(finding.verdict.get(name, "same"), []).append(name)
    _row(page, "verdict", " · ".join(f"{verdict} {' '.join(names)}" for verdict, names in groups.items()))
    _row(page, finding.severity, f"{finding.message}{f'  ({finding.query})' if finding.query else ''}")
    for detail in finding.detail:
        _row(page, "", detail)
    _row(page, "fix", finding.fix or "")
    page.write(console)


def _row(page: Page, label: str, text: str) -> None:
    if text:
        page.paragraph(text, indent=12, head=f"  {clean(label)}")


def _grid(page: Page, targets: tuple[str, ...], gate: Gate) -> None:
    """One column a target; where a verdict's name is too long for that, a line of its own says it."""

    def words(values: Mapping[str, Tri]) -> list[str]:
        return [TRUTH_WORDS[values.get(name, "unknown")] for name in targets]

    width = max(len(name) for name in targets) + 2 if targets else 2
    fits = 12 + width * len(targets) <= page.width
    rows = [("", [*targets]), ("value", words(gate.truth)), ("reached", words(gate.reached))]
    if fits:
        for label, cells in rows:
            page.add(f"  {label:<10}", *(cell.ljust(width) for cell in cells))
    else:
        _row(page, "value", per_value(gate.truth, targets))
        _row(page, "reached", per_value(gate.reached, targets))
    groups: dict[str, list[str]] = {}
    for name in targets:
        groups.setdefault(gate.verdict.get(name, "same"), []).append(name)
    _row(page, "verdict", " · ".join(f"{verdict} {' '.join(names)}" for verdict, names in groups.items()))


def _readers(report: Report, gate: Gate, places: Places, verbose: int) -> str:
    """Gates that read the name which this gate gives its value to."""
    names = {item.name for item in report.predicates if (item.path, item.line) == (gate.path, gate.line)}
    readers = sorted((item for item in report.gates if names & set(item.via)), key=gate_key)
    if not readers:
        return ""
    shown = readers if verbose else readers[:_READERS]
    listed = ", ".join(places.text(item.path, item.line) for item in shown)
    more = f", … {len(readers) - len(shown):,} more (-v)" if len(shown) < len(readers) else ""
    files = len({item.path for item in readers})
    gates = f"{len(readers):,} gate{'' if len(readers) == 1 else 's'}"
    return f"{gates} in {files:,} file{'' if files == 1 else 's'}: {listed}{more}"
