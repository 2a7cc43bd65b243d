"""A trend in a terminal and as JSON. :mod:`auditor.reporting.html.trend` draws it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from auditor.errors import shown
from auditor.history.sweeping.trend import Trend, facts

if TYPE_CHECKING:
    from rich.console import Console


def dumps(found: Trend) -> bytes:
    """The trend as JSON."""
    return msgspec.json.format(msgspec.json.encode(facts(found), order="deterministic"), indent=2) + b"\n"


def lines_above(found: Trend) -> list[str]:
    """What a trend is of, in words."""
    head, setup = found.head, found.head.setup
    between = f"{head.first[:9] or 'the first commit'}..{head.last[:9]}"
    seen = f"{found.swept:,} of {head.commits:,}" if found.swept < head.commits else f"{head.commits:,}"
    out = [
        f"{setup.project} {between}: {seen} commits, by {found.by}",
        f"level {setup.level}, against {setup.reference}, CUDA {setup.cuda}",
    ]
    if found.missing:
        out.append(f"{found.missing:,} commits have no figures: the project is not in their trees")
    if found.unreadable:
        out.append(f"up to {found.unreadable:,} files of a commit do not parse: their gates are not counted")
    return out


def render(found: Trend, console: Console, *, quiet: bool = False) -> None:
    """A table, a row a stretch: gates, then per target what is counted, then what happened to gates."""
    if not quiet:
        for line in lines_above(found):
            console.print(shown(line), highlight=False, markup=False)
        if found.head.blind:
            console.print(
                shown("it cannot see: " + "; ".join(found.head.blind)), highlight=False, markup=False
            )
        console.print()
    heads, rows = table(found)
    widths = [max(len(row[at]) for row in [heads, *rows]) for at in range(len(heads))]
    for row in [heads, *rows]:
        text = "  ".join(
            cell.ljust(w) if at < 2 else cell.rjust(w) for at, (cell, w) in enumerate(zip(row, widths))
        )
        console.print(shown(text.rstrip()), highlight=False, markup=False, soft_wrap=True)


def table(found: Trend) -> tuple[list[str], list[list[str]]]:
    """Heads and rows of the table."""
    several = len(found.head.setup.targets) > 1
    columns = [(target, kind) for target in found.head.setup.targets for kind in found.kinds]
    happened = [
        k for k in ("added", "removed", "changed", "moved") if any(k in p.changes for p in found.points)
    ]
    heads = ["date", "commit", "gates"]
    heads += [f"{target} {kind}" if several else kind for target, kind in columns]
    heads += [*happened]
    rows = []
    for point in found.points:
        row = [point.date, point.commit[:9], f"{point.gates:,}"]
        row += [f"{point.targets.get(target, {}).get(kind, 0):,}" for target, kind in columns]
        row += [f"{point.changes.get(kind, 0):,}" if point.changes.get(kind) else "" for kind in happened]
        rows.append(row)
    return heads, rows
