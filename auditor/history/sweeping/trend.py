"""What the lines of a sweep come to over time."""

from __future__ import annotations

from typing import Any

import msgspec

from auditor.errors import UserError
from auditor.gates.model import VERDICTS
from auditor.history.sweeping.model import CommitLine, Head
from auditor.history.sweeping.sweep import read_head
from auditor.readback import Damaged, from_json

#: How points are picked: the last commit of each stretch. Characters of the date that name a stretch.
STRETCHES = {"commit": 0, "day": 10, "month": 7, "year": 4}
#: Rows of a table that picks its stretch itself.
_ROWS = 40
_ORDER = tuple(dict.fromkeys(("differs", *VERDICTS)))


class Point(msgspec.Struct, frozen=True):
    """The tree at one commit. ``changes`` counts what happened to gates since the point before, by kind."""

    date: str
    commit: str
    pr: str
    gates: int
    targets: dict[str, dict[str, int]]
    commits: int  # that this point stands for
    changes: dict[str, int]


class Trend(msgspec.Struct, frozen=True):
    """Points, oldest first. ``kinds``: what is counted, worst first; ``missing``: commits without figures."""

    head: Head
    by: str
    kinds: tuple[str, ...]
    points: tuple[Point, ...]
    swept: int
    missing: int
    unreadable: int  # most files of one commit that could not be read


def read_sweep(data: bytes, name: str) -> tuple[Head, list[CommitLine], bool]:
    """The head and the lines of a file, and whether its end was cut off.

    UserError H030 for what is no sweep or another schema's, H032 for a damaged line.
    """
    whole, _, rest = data.rpartition(b"\n")
    if not whole:
        raise UserError(
            "H030", "not a file of audit sweep", place=name, hints=["audit sweep A..B --output FILE"]
        )
    rows = whole.split(b"\n")
    head = read_head(rows[0], name)
    lines = []
    cut = bool(rest)
    for number, row in enumerate(rows[1:], 2):
        try:
            lines.append(from_json(row, CommitLine))
        except Damaged:
            if number == len(rows):
                cut = True
                break
            fact = f"line {number} is damaged"
            raise UserError("H032", fact, place=name, hints=["audit sweep A..B --output ANOTHER"]) from None
    return head, lines, cut


def trend(head: Head, lines: list[CommitLine], by: str | None = None, name: str = "") -> Trend:
    """Points at the end of each stretch; without ``by`` the finest stretch that fits a page.

    UserError H036 where there is nothing to show yet.
    """
    figures = [line for line in lines if not line.problem]
    if not figures:
        hints = [f"audit sweep {head.first[:9] or '--all'}..{head.last[:9]} --output {name}"] if name else []
        raise UserError("H036", "no commit of this sweep has figures yet", place=name, hints=hints)
    if by is None:
        by = next((b for b in STRETCHES if len(_groups(figures, b)) <= _ROWS), "year")
    points = []
    for group in _groups(figures, by):
        last = group[-1]
        changes: dict[str, int] = {}
        for line in group:
            for change in line.changes:
                changes[change.kind] = changes.get(change.kind, 0) + 1
            if line.moved:
                changes["moved"] = changes.get("moved", 0) + line.moved
        points.append(
            Point(
                last.date,
                last.commit,
                last.pr,
                last.gates,
                last.targets,
                len(group),
                dict(sorted(changes.items())),
            )
        )
    there = {kind for point in points for counts in point.targets.values() for kind in counts}
    kinds = tuple(kind for kind in _ORDER if kind in there)
    most = max(line.unreadable for line in figures)
    return Trend(head, by, kinds, tuple(points), len(lines), len(lines) - len(figures), most)


def _groups(lines: list[CommitLine], by: str) -> list[list[CommitLine]]:
    width = STRETCHES[by]
    if not width:
        return [[line] for line in lines]
    out: list[list[CommitLine]] = []
    for line in lines:
        # Dates may step back between commits; a stretch is a run of commits, never reordered.
        if out and (line.date[:width] <= out[-1][0].date[:width]):
            out[-1].append(line)
        else:
            out.append([line])
    return out


def facts(found: Trend) -> dict[str, Any]:
    """The trend as JSON types."""
    head = found.head
    return {
        "schema_version": "1.0",
        "tool": head.tool,
        "project": head.setup.project,
        "level": head.setup.level,
        "range": {"first": head.first, "last": head.last, "commits": head.commits, "swept": found.swept},
        "targets": list(head.setup.targets),
        "reference": head.setup.reference,
        "assumptions": {"cuda": head.setup.cuda, **head.setup.assumptions},
        "blind": list(head.blind),
        "by": found.by,
        "kinds": list(found.kinds),
        "missing": found.missing,
        "points": [msgspec.to_builtins(point) for point in found.points],
    }
