"""The report of an audit on a terminal: by verdict and area, worst first, one line a gate."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from auditor.gates.model import Arm, Gate, Report, Tri
from auditor.reporting.items import (
    GLYPHS,
    MEANING,
    STYLES,
    Item,
    by_verdict,
    differing,
    items,
    of_gate,
    shown_targets,
    siblings,
)
from auditor.reporting.jsonout import gate_key, problem_key
from auditor.reporting.text import Page, Places, Span, clean

if TYPE_CHECKING:
    from rich.console import Console

    from auditor.trees.base import SourceTree

#: Lines of a group that are shown without -v.
SHOWN = 12
#: On a wider terminal the glyphs would be too far from the places they belong to.
WIDEST = 120
#: Text below the first line of an entry that is shown without -v.
_MESSAGE_LINES = 2
_DETAILS = 2


def render(
    report: Report,
    console: Console,
    *,
    verbose: int = 0,
    quiet: bool = False,
    tree: SourceTree | None = None,
    command: str = "",
) -> None:
    """Prints a report.

    ``tree`` gives the note where the source came from, and clickable places where its files are on this
    disk. ``command`` are the words that choose the tree again (``--commit REV``), for the commands in
    the last line; without it they are made from the report. ``quiet`` prints findings only; ``verbose``
    prints every entry with its chain and arms, and the gates that come out the same.
    """
    page = Page(min(console.width, WIDEST))
    writer = _Writer(report, page, verbose, _places(report, console, tree))
    if not quiet:
        _header(report, page, tree)
        page.blank()
    writer.groups()
    _problems(report, page, writer.places)
    if not quiet:
        _footer(report, page, writer, command, verbose)
    page.write(console)


def _places(report: Report, console: Console, tree: SourceTree | None) -> Places:
    paths = {gate.path for gate in report.gates} | {finding.path for finding in report.findings}
    return Places(paths, tree, console.is_terminal)


def tree_line(report: Report, tree: SourceTree | None) -> str:
    """``project 1234567 · 2026-01-31 · main, after 1.2.0 · from a clone (no checkout)``."""
    facts = report.tree
    parts = [f"{report.project} {facts.label}", facts.date or "", facts.describe or ""]
    if facts.dirty and "uncommitted" not in facts.label:
        parts.append("with uncommitted changes")
    if tree is not None:
        parts += tree.info().notes
    return clean(" · ".join(part for part in parts if part))


def assumption_line(report: Report) -> str:
    """What the values rest on, in one sentence."""
    given = dict(report.assumptions)
    base = "NVIDIA CUDA" + (f" {given.pop('cuda')}" if "cuda" in given else "")
    fresh = given.pop("defaults", "") == "yes"
    rest = [f"{key}={value}" for key, value in sorted(given.items())]
    known = ", ".join([base, *rest])
    other = "other " if rest else ""
    if fresh:
        tail = f"{other}flags and arguments as on a fresh start, optional packages unknown"
        return clean(f"assuming {known}; {tail}")
    return clean(f"assuming {known}; {other}flags, arguments and optional packages unknown")


def count_line(report: Report) -> str:
    """How many gates there are and at how many a target goes its own way."""
    arch = [gate for gate in report.gates if gate.scope == "arch"]
    parts = [f"{len(arch):,} gate{'' if len(arch) == 1 else 's'}"]
    for target in shown_targets(report):
        if target != report.reference and any(report.reference in gate.truth for gate in arch):
            number = differing(report, target, report.reference)
            parts.append(f"{target} differs from {report.reference} at {number:,}")
    for later, first in siblings(report):
        parts.append(f"{later} differs from {first} at {differing(report, later, first):,}")
    if report.accepted:
        number = len(report.accepted)
        parts.append(f"{number:,} deliberate verdict{'' if number == 1 else 's'} left out")
    return clean(" · ".join(parts))


def head_lines(report: Report, tree: SourceTree | None) -> list[str]:
    """What was audited, what was assumed, what came out as numbers, and what was not looked at."""
    return [
        tree_line(report, tree),
        f"{assumption_line(report)} · compared with {report.reference}",
        count_line(report),
        *_not_looked_at(report),
    ]


def _not_looked_at(report: Report) -> list[str]:
    """What is about the whole tree: whoever stops reading after the worst has to know what was left out."""
    return [
        finding.message
        for finding in report.findings
        if not finding.query and not finding.gate and set(finding.verdict.values()) == {"undecided"}
    ]


def _header(report: Report, page: Page, tree: SourceTree | None) -> None:
    page.paragraph(tree_line(report, tree), indent=0, style="bold")
    left, right = assumption_line(report), f"compared with {report.reference}"
    if len(left) + len(right) + 2 <= page.width:
        page.add(left.ljust(page.width - len(right)), right)
    else:
        page.paragraph(f"{left} · {right}")
    page.paragraph(count_line(report))
    for text in _not_looked_at(report):
        page.paragraph(text, style="yellow")


class _Writer:
    """Prints the groups. Left column: verdict and area; right columns: one glyph a target."""

    def __init__(self, report: Report, page: Page, verbose: int, places: Places) -> None:
        self.report = report
        self.page = page
        self.verbose = verbose
        self.places = places
        self.targets = shown_targets(report)
        self.entries = items(report)
        self.first_gate: Gate | None = None
        self.hidden = 0
        areas = {entry.area or "other" for entry in self.entries}
        areas |= {gate.area or "other" for gate in report.gates if verbose}
        words = [*(f"  {area}" for area in areas), *(entry.verdict for entry in self.entries)]
        self.left = min(max((len(word) for word in words), default=10) + 2, 18)
        numbers = [target.removeprefix("sm_") for target in self.targets]
        self.cell = max((len(number) for number in numbers), default=3) + 2
        # Too many targets for the width: their glyphs move to a line of their own, in words.
        self.columns = page.width - self.left - self.cell * len(self.targets) >= 40
        self.right = self.cell * len(self.targets) if self.columns else 0

    def groups(self) -> None:
        for verdict, entries in by_verdict(self.entries):
            self._group(verdict, entries)
        if not self.verbose:
            return
        spoken = {finding.gate for finding in self.report.findings}
        targets = self.targets
        quiet = [
            of_gate(gate, targets)
            for gate in sorted(self.report.gates, key=gate_key)
            if gate.id not in spoken
        ]
        same = [item for item in quiet if item.verdict == "same" and item.gate and item.gate.scope == "arch"]
        vendor = [item for item in quiet if item.gate and item.gate.scope == "platform"]
        if same:
            self._group("same", sorted(same, key=lambda item: item.key))
        if vendor:
            self._heading("vendor", "asks which vendor's device this is", "bold")
            self._entries(sorted(vendor, key=lambda item: item.key))

    def _group(self, verdict: str, entries: list[Item]) -> None:
        meaning = MEANING.get(verdict, "").format(reference=self.report.reference)
        self._heading(verdict, meaning, STYLES.get(verdict, "bold"))
        limit = len(entries) if self.verbose or len(entries) <= SHOWN + 1 else SHOWN
        self._entries(entries[:limit])
        if limit < len(entries):
            self.hidden += len(entries) - limit
            self.page.paragraph(
                f"… {len(entries) - limit:,} more (-v shows all)", indent=self.left, style="dim"
            )

    def _heading(self, verdict: str, meaning: str, style: str) -> None:
        head = Span(clean(verdict).ljust(self.left), style)
        if not self.columns:
            fits = self.left + len(meaning) <= self.page.width
            self.page.add(head, meaning if fits else "")
            if not fits:
                self.page.paragraph(meaning, indent=self.left)
            return
        room = max(self.page.width - self.left - self.right, 0)
        text = meaning if len(meaning) <= room else ""
        numbers = "".join(target.removeprefix("sm_").rjust(self.cell) for target in self.targets)
        self.page.add(head, text.ljust(room), Span(clean(numbers), "dim"))
        if not text:
            self.page.paragraph(meaning, indent=self.left)

    def _entries(self, entries: list[Item]) -> None:
        area: str | None = None
        for entry in entries:
            if self.first_gate is None and entry.gate is not None:
                self.first_gate = entry.gate
            name = entry.area or "other"
            self._entry(entry, "" if name == area else name)
            area = name

    def _entry(self, entry: Item, area: str) -> None:
        room = self.page.width - self.left - self.right
        place = self.places.span(entry.path, entry.line)
        symbol = clean(entry.symbol) or "(module)"
        head = clean(f"  {area}" if area else "")
        long = len(head) >= self.left
        if long:
            self.page.add(head)
            head = ""
        spans = [Span(head.ljust(self.left)), place]
        used = len(place.text)
        fits = used + 2 + len(symbol) <= room
        if fits:
            spans += [Span("  "), Span(symbol, "bold")]
            used += 2 + len(symbol)
        if self.columns:
            spans.append(Span(" " * max(room - used, 1)))
            spans += self._glyphs(entry, max(used - room + 1, 0))
        self.page.add(*spans)
        if not fits:
            self.page.paragraph(symbol, indent=self.left, style="bold")
        if not self.columns:
            self.page.paragraph(self._verdict_words(entry), indent=self.left)
        self._below(entry)

    def _glyphs(self, entry: Item, overlong: int) -> list[Span]:
        """One cell a target. A place longer than its room takes what it needs from the first cell."""
        out = []
        for number, target in enumerate(self.targets):
            verdict = entry.verdicts.get(target, "same")
            width = max(self.cell - overlong, 1) if number == 0 else self.cell
            out.append(Span(GLYPHS.get(verdict, "✗").rjust(width), STYLES.get(verdict, "")))
        return out

    def _verdict_words(self, entry: Item) -> str:
        """``✗ sm_120 sm_121  ~ sm_90``: what the columns would say."""
        by_glyph: dict[str, list[str]] = {}
        for target in self.targets:
            by_glyph.setdefault(GLYPHS.get(entry.verdicts.get(target, "same"), "✗"), []).append(target)
        order = sorted(by_glyph, key=lambda glyph: "✗~?·".find(glyph))
        return "   ".join(f"{glyph} {' '.join(by_glyph[glyph])}" for glyph in order)

    def _below(self, entry: Item) -> None:
        page, indent, full = self.page, self.left, bool(self.verbose)
        gate, finding = entry.gate, entry.finding
        text = entry.message or (_condition(gate) if gate else "")
        if text:
            page.paragraph(text, indent=indent, most=None if full else _MESSAGE_LINES)
        details = finding.detail if finding else ()
        for detail in details if full else details[:_DETAILS]:
            # a chain without its end proves nothing: it is wrapped, other details are cut
            short = None if full or " ← " in detail else 1
            page.paragraph(detail, indent=indent, style="dim", most=short)
        if finding and finding.fix:
            page.paragraph(f"fix: {finding.fix}", indent=indent, style="green")
        if not full:
            return
        every = tuple(dict.fromkeys((self.report.reference, *self.report.targets)))
        for label, line in verbose_lines(entry, every):
            page.paragraph(line, indent=indent + 9, head=" " * indent + label, style="dim")


def _condition(gate: Gate) -> str:
    return f"{gate.kind} {gate.predicate}"


def verbose_lines(entry: Item, targets: tuple[str, ...]) -> list[tuple[str, str]]:
    """The chain, the arms and the reasons of an entry, as (label, text)."""
    out: list[tuple[str, str]] = []
    gate = entry.gate
    if len(set(entry.verdicts.get(target, "same") for target in targets)) > 1:
        out.append(
            ("verdict", " · ".join(f"{target} {entry.verdicts.get(target, 'same')}" for target in targets))
        )
    if entry.finding and entry.finding.query:
        out.append(("query", entry.finding.query))
    if gate is None:
        return out
    if entry.message:
        out.append(("test", _condition(gate)))
    out.append(("value", per_value(gate.truth, targets)))
    if set(gate.reached.get(target, "unknown") for target in targets) != {"true"}:
        out.append(("reached", per_value(gate.reached, targets)))
    chain = chain_text(gate.via, gate.roots)
    if chain:
        out.append(("from", chain))
    out += [("arm", arm_text(arm)) for arm in gate.arms]
    if gate.unknown_because:
        out.append(("unknown", ", ".join(gate.unknown_because)))
    out.append(("gate", gate.id))
    return out


def per_value(values: Mapping[str, Tri], targets: tuple[str, ...]) -> str:
    """``yes sm_100 sm_103 · no sm_120``: targets by value, those without one left out."""
    words = {"true": "yes", "false": "no", "unknown": "unknown"}
    groups: dict[str, list[str]] = {}
    for target in targets:
        if target in values:
            groups.setdefault(values[target], []).append(target)
    return " · ".join(f"{words[value]} {' '.join(groups[value])}" for value in words if value in groups)


def chain_text(via: tuple[str, ...], roots: tuple[str, ...]) -> str:
    """``helper, alias ← torch.cuda.get_device_capability``."""
    return " ← ".join(part for part in (", ".join(via), ", ".join(roots)) if part)


def arm_text(arm: Arm) -> str:
    """``if true (line 12-20): call f; set self.x = 1``."""
    words = {"true": "if yes", "false": "if no", "unknown": "if unknown"}
    lines = f"line {arm.line}" if arm.end_line <= arm.line else f"lines {arm.line}-{arm.end_line}"
    does = [f"{effect.kind} {effect.what}" for effect in arm.effects]
    if arm.value is not None:
        does.insert(0, f"gives {arm.value}")
    return f"{words[arm.when]} ({lines}): {'; '.join(does) or 'nothing of note'}"


def _problems(report: Report, page: Page, places: Places) -> None:
    if not report.problems:
        return
    page.blank()
    number = len(report.problems)
    page.add(Span(f"not audited    {number} file{'' if number == 1 else 's'}; the rest was", "bold red"))
    for problem in sorted(report.problems, key=problem_key):
        page.paragraph(f"{problem.path}:{problem.line}  {problem.message}", indent=2)


def _footer(report: Report, page: Page, writer: _Writer, command: str, verbose: int) -> None:
    page.blank()
    if not writer.entries and not report.problems:
        page.paragraph(f"nothing differs from {report.reference} on {', '.join(writer.targets)}")
    elif writer.entries:
        page.paragraph(
            f"✗ affected   ~ another way, works   ? depends   · as {report.reference}", style="dim"
        )
    vendor = sum(gate.scope == "platform" for gate in report.gates)
    if vendor and not verbose:
        page.paragraph(f"and {vendor:,} vendor gate{'' if vendor == 1 else 's'}, -v lists them", style="dim")
    # Each on a line of its own and never wrapped, so that it can be copied.
    for number, step in enumerate(_next_steps(report, writer, command or tree_words(report), verbose)):
        page.add("next: " if number == 0 else "      ", step)


def _next_steps(report: Report, writer: _Writer, where: str, verbose: int) -> list[str]:
    steps: list[tuple[str, ...]] = []
    if writer.first_gate is not None:
        steps.append(("audit gate", clean(writer.first_gate.id), where))
    if not verbose:
        targets = f"--target {','.join(report.targets)}"
        against = f"--against {report.reference}" if report.reference != "sm_100" else ""
        steps.append((f"audit {clean(report.project)}", where, targets, against, "-v"))
    steps.append(("audit predicates", where))
    return [" ".join(word for word in step if word) for step in steps]


def tree_words(report: Report) -> str:
    """The options that choose the same tree again, as far as a report knows them."""
    facts = report.tree
    if facts.kind == "commit":
        return f"--commit {clean(facts.label)}"
    if facts.kind in ("release", "wheel") and facts.version:
        return f"--release {clean(facts.version)}"
    return ""
