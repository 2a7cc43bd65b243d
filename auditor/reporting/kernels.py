"""The map of ``audit kernels`` on a terminal: operators against targets, and one operator with its proof."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from typing import TYPE_CHECKING

import msgspec

from auditor.errors import UserError
from auditor.native.model import Availability, Built, Cell, Library, Row
from auditor.reporting.terminal import WIDEST
from auditor.reporting.text import Page, Places, Span, clean

if TYPE_CHECKING:
    from rich.console import Console

    from auditor.trees.base import SourceTree

GLYPHS = {"runs": "✓", "falls-through": "~", "raises": "✗", "not-built": "–", "unknown": "?"}
STYLES = {
    "falls-through": "bold yellow",
    "raises": "bold red",
    "not-built": "bold red",
    "unknown": "bold magenta",
}
MEANING = {
    "runs": "compiled for it, and nothing that was read refuses it",
    "falls-through": "no branch for it: returns without doing the work",
    "raises": "refused with an error",
    "not-built": "no compiled code for it",
    "unknown": "not decided, with a reason",
}
KINDS = {
    "op": "operators",
    "jit": "kernels compiled at run time",
    "registry": "registered implementations",
    "triton": "Triton kernels",
}
_NAME = 46
_INDENT = 14
#: Rows with the same pattern and reason that are shown one by one.
_MOST = 12


def only(found: Availability, name: str) -> Availability:
    """The map of one operator. UserError N002 for a name that no row has, with the nearest ones."""
    rows = [row for row in found.rows if name in (row.name, short(row.name))]
    if not rows:
        names = [short(row.name) for row in found.rows]
        near = difflib.get_close_matches(name, names, n=3, cutoff=0.5) or [n for n in names if name in n][:3]
        raise UserError(
            "N002", f"no operator {name!r} among {len(names)}", hints=[f"--op {one}" for one in near]
        )
    wanted = {library for row in rows for library in row.libraries}
    libraries = tuple(library for library in found.libraries if library.name in wanted)
    sites = tuple(site for site in found.sites if site.op in {row.name for row in rows})
    return msgspec.structs.replace(found, rows=tuple(rows), libraries=libraries, sites=sites)


def short(name: str) -> str:
    """An operator's name without its namespace."""
    return name.rpartition("::")[2]


def render(
    found: Availability,
    console: Console,
    *,
    verbose: int = 0,
    quiet: bool = False,
    one: bool = False,
    tree: SourceTree | None = None,
    command: str = "audit kernels",
) -> None:
    """Print a map. ``one``: a single operator with its whole proof. ``command`` gets the same map again."""
    page = Page(min(console.width, WIDEST))
    writer = _Writer(found, page, verbose, Places(_paths(found), tree, console.is_terminal))
    if not quiet:
        writer.header(tree)
    if one:
        for row in found.rows:
            writer.whole(row)
    else:
        writer.libraries()
        writer.packages()
        writer.table()
    writer.problems()
    if not quiet and not one:
        writer.footer(command)
    page.write(console)


def counted(stats: Mapping[str, int]) -> list[str]:
    """How many rows of each kind there are, and how many of their cells are decided."""
    out = []
    for kind, words in KINDS.items():
        if stats.get(f"{kind} rows"):
            decided = f"{stats[f'{kind} decided']} of {stats[f'{kind} cells']} cells decided"
            out.append(f"{stats[f'{kind} rows']} {words}, {decided}")
    return out


def _paths(found: Availability) -> set[str]:
    out = {library.path for library in found.libraries} | {row.path for row in found.rows}
    out |= {package.path for package in found.packages}
    for row in found.rows:
        out |= {step.path for cell in row.cells.values() for step in cell.proof if step.path}
    return out


class _Writer:
    def __init__(self, found: Availability, page: Page, verbose: int, places: Places) -> None:
        self.found = found
        self.page = page
        self.verbose = verbose
        self.places = places

    def header(self, tree: SourceTree | None) -> None:
        found = self.found
        facts = found.tree
        parts = [found.project]
        if facts is not None:
            parts = [f"{found.project} {facts.label}", facts.date or "", facts.describe or ""]
        parts += tree.info().notes if tree is not None else ()
        self.page.paragraph(" · ".join(part for part in parts if part), style="bold")
        given = ", ".join(f"{key}={value}" for key, value in found.assumptions.items())
        kinds = counted(found.stats)
        for words in kinds[:-1]:
            self.page.paragraph(words)
        self.page.paragraph(f"{kinds[-1] if kinds else 'no operators'}; {given}")
        self.page.blank()

    def libraries(self) -> None:
        for library in self.found.libraries:
            text = _architectures(library)
            if library.when == "unknown":
                text += f" (if {'; '.join(library.because)})"
            place = self.places.text(library.path, library.line)
            self.page.paragraph(f"{text}  {place}", indent=_NAME, head=f"{clean(library.output)}  ")
        self.page.blank()

    def packages(self) -> None:
        """Dependencies of whose pinned version something is known."""
        told = [package for package in self.found.packages if package.facts or self.verbose]
        for package in told:
            place = self.places.text(package.path, package.line)
            self.page.paragraph(f"{package.pinned}  {place}", indent=_NAME, head=f"{clean(package.name)}  ")
            for fact in package.facts:
                self.page.paragraph(clean(fact), indent=4)
        if told:
            self.page.blank()

    def table(self) -> None:
        found = self.found
        targets = found.targets
        heads = [target.removeprefix("sm_") for target in targets]
        self.page.add("operator".ljust(_NAME), " ".join(head.rjust(3) for head in heads))
        groups: dict[tuple[tuple[str, ...], str], list[Row]] = {}
        for row in found.rows:
            outcomes = tuple(row.cells[target].outcome for target in targets)
            if not self.verbose and all(outcome == "runs" for outcome in outcomes):
                continue
            groups.setdefault((outcomes, _reason(row)), []).append(row)
        shown = 0
        for (outcomes, reason), rows in groups.items():
            for row in rows if self.verbose else rows[:_MOST]:
                shown += 1
                spans: list[Span | str] = [clean(_cut(short(row.name), _NAME - 2)).ljust(_NAME)]
                spans += [Span(GLYPHS[o].rjust(3) + " ", STYLES.get(o, "")) for o in outcomes]
                self.page.add(*spans)
            if len(rows) > _MOST and not self.verbose:
                shown += len(rows) - _MOST
                self.page.add(f"  and {len(rows) - _MOST} more like these (-v)")
            if reason:
                self.page.paragraph(reason, indent=4, style="dim", most=None if self.verbose else 2)
        rest = len(found.rows) - shown
        if rest:
            self.page.blank()
            self.page.paragraph(f"{rest} more run on all of these targets (-v lists them)")
        self.page.blank()
        used = {cell.outcome for row in found.rows for cell in row.cells.values()}
        words = [
            f"{GLYPHS[o]} {MEANING[o]} ({found.stats.get(f'cells {o}', 0)})" for o in GLYPHS if o in used
        ]
        self.page.paragraph(" · ".join(words), style="dim")

    def whole(self, row: Row) -> None:
        """One operator: what is registered, and per target what it gets and why."""
        page = self.page
        page.paragraph(row.name, style="bold")
        page.paragraph(self.places.text(row.path, row.line), indent=_INDENT, head="registered")
        for label, text in (
            ("schema", row.schema),
            ("keys", ", ".join(row.keys)),
            ("function", row.function),
            ("in", ", ".join(row.libraries)),
            ("called by", ", ".join(row.wrappers)),
        ):
            if text:
                page.paragraph(text, indent=_INDENT, head=label)
        page.blank()
        same: dict[tuple[str, str, tuple[str, ...]], list[str]] = {}
        for target in self.found.targets:
            cell = row.cells[target]
            steps = tuple(self._step(cell, index, target) for index in range(len(cell.proof)))
            same.setdefault((cell.outcome, cell.reason, steps), []).append(target)
        for (outcome, reason, steps), targets in same.items():
            page.paragraph(
                f"{outcome}: {MEANING[outcome]}",
                indent=_INDENT,
                head=" ".join(t.removeprefix("sm_") for t in targets) + "  ",
                style=STYLES.get(outcome, ""),
            )
            page.paragraph(reason, indent=_INDENT)
            for number, step in enumerate(steps, 1):
                page.paragraph(step, indent=_INDENT + 4, head=" " * _INDENT + f"{number:>2}  ", style="dim")
            page.blank()
        self._sites(row)

    def _sites(self, row: Row) -> None:
        """The places in Python that reach an operator, and for whom it is not there."""
        for site in self.found.sites:
            if site.op != row.name:
                continue
            where = f"{site.symbol}  {self.places.text(site.path, site.line)}".strip()
            self.page.paragraph(where, indent=_INDENT, head="at")
            bad = [t.removeprefix("sm_") for t in self.found.targets if t in site.unguarded]
            if bad:
                self.page.paragraph(f"unguarded on {' '.join(bad)}", indent=_INDENT, style="bold red")

    def _step(self, cell: Cell, index: int, target: str) -> str:
        step = cell.proof[index]
        text = step.text.replace(f" on {target}", "")
        return f"{text}  {self.places.text(step.path, step.line)}" if step.path else text

    def problems(self) -> None:
        self.page.blank()
        for problem in self.found.problems:
            place = self.places.text(problem.path, problem.line)
            self.page.paragraph(f"{place}: {problem.message}", indent=_INDENT, head="problem")
        unread = self.found.unread
        for problem in unread if self.verbose else unread[:6]:
            self.page.paragraph(
                f"{problem.path}:{problem.line}: {problem.message}", indent=_INDENT, head="not read"
            )
        if len(unread) > 6 and not self.verbose:
            self.page.paragraph(f"and {len(unread) - 6} more (-v)", indent=_INDENT)

    def footer(self, command: str) -> None:
        bad = next(
            (row for row in self.found.rows if any(c.outcome == "not-built" for c in row.cells.values())),
            None,
        )
        if bad is not None:
            self.page.blank()
            self.page.paragraph(f"{command} --op {short(bad.name)}", indent=_INDENT, head="one of them")


def _reason(row: Row) -> str:
    """Why targets are left out, once per reason: ``sm_120 sm_121: some_ops: 90a 100a 103a``."""
    by: dict[str, list[str]] = {}
    for target, cell in row.cells.items():
        if cell.outcome != "runs":
            by.setdefault(cell.reason, []).append(target.removeprefix("sm_"))
    if len(row.cells) == 1:
        return next(iter(by), "")
    return " · ".join(f"{' '.join(targets)}: {reason}" for reason, targets in by.items())


def _cut(text: str, width: int) -> str:
    return text if len(text) <= width else text[: width - 1] + "…"


def _architectures(library: Library) -> str:
    def one(built: Built) -> str:
        text = built.arch or "?"
        text += " (PTX)" if built.what == "ptx" else ""
        text += f" ({', '.join(built.machines)})" if built.machines else ""
        return text + ("?" if built.when == "unknown" and built.arch else "")

    pieces = [one(built) for built in sorted(library.built, key=lambda b: (len(b.arch), b.arch))]
    return " ".join(dict.fromkeys(pieces)) or "nothing for a GPU"
