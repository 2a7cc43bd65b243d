"""What a patch did to a Python file, statement by statement."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from auditor.patching.merge.align import align, pair_arms
from auditor.patching.merge.lines import Edit
from auditor.patching.merge.statements import Arm, Source, Statement


@dataclass(eq=False)
class Change:
    """One change from the base to theirs.

    ``kind``: gap (statements removed, added or both, between two that stayed), leaf (one statement
    changed), head (the header of a compound statement changed), arm (an arm added or removed), trivia
    (comments and blank lines only). ``before`` and ``after`` are the places in ``arm_base.children`` of the
    statements around a gap (-1 and the length at its ends). Line ranges count from 0, half open.
    """

    kind: str
    arm_base: Arm
    arm_theirs: Arm
    removed: list[Statement] = field(default_factory=list)
    added: list[Statement] = field(default_factory=list)
    before: int = -1
    after: int = -1
    head_base: Arm | None = None
    head_theirs: Arm | None = None
    base_lines: tuple[int, int] = (0, 0)
    theirs_lines: tuple[int, int] = (0, 0)

    def touches(self, edit: Edit) -> bool:
        """Whether it is made of lines of this edit."""
        return _meets(self.base_lines, (edit.a0, edit.a1)) or _meets(self.theirs_lines, (edit.b0, edit.b1))

    @property
    def scope(self) -> Statement | None:
        """The function or class of the base that it happens in; None at module level."""
        statement = self.removed[0] if self.removed else None
        if statement is None and self.arm_base.children:
            statement = self.arm_base.children[0]
        return None if statement is None else statement.scope()


def _meets(a: tuple[int, int], b: tuple[int, int]) -> bool:
    """Whether two half-open ranges have a line in common, or one is a point inside the other.

    Lines that only go are a point of theirs: where a header lost some, they belong to what it is there.
    """
    low, high = max(a[0], b[0]), min(a[1], b[1])
    if low == high and (a[0] == a[1]) != (b[0] == b[1]):
        wide, point = (b, a[0]) if a[0] == a[1] else (a, b[0])
        return wide[0] < point < wide[1]
    return low < high


class Changes:
    """All changes from ``base`` to ``theirs``."""

    def __init__(self, base: Source, theirs: Source) -> None:
        self.base = base
        self.theirs = theirs
        self.all = list(self._block(base.top, theirs.top))

    def _block(self, a: Arm, b: Arm) -> Iterator[Change]:
        if [s.text for s in a.children] == [s.text for s in b.children]:
            return
        pairs = align(a.children, b.children)
        place_a = {id(s): at for at, s in enumerate(a.children)}
        place_b = {id(s): at for at, s in enumerate(b.children)}
        mated_a = {id(s) for s, _ in pairs}
        mated_b = {id(t) for _, t in pairs}
        chain: list[tuple[int, int]] = []
        for s, t in pairs:
            if not chain or place_b[id(t)] > chain[-1][1]:
                chain.append((place_a[id(s)], place_b[id(t)]))
            yield from self._pair(a, b, s, t)
        at_a = at_b = 0
        for i, j in [*chain, (len(a.children), len(b.children))]:
            removed = [s for s in a.children[at_a:i] if id(s) not in mated_a]
            added = [t for t in b.children[at_b:j] if id(t) not in mated_b]
            if removed or added:
                yield Change(
                    "gap",
                    a,
                    b,
                    removed,
                    added,
                    at_a - 1,
                    i,
                    base_lines=self._lines(self.base, removed) or self._point(a, at_a),
                    theirs_lines=self._lines(self.theirs, added) or (0, 0),
                )
            at_a, at_b = i + 1, j + 1

    def _point(self, arm: Arm, at: int) -> tuple[int, int]:
        offset = arm.children[at].lead if at < len(arm.children) else arm.end
        line = self.base.line_of(offset) - 1
        return line, line

    @staticmethod
    def _lines(source: Source, statements: list[Statement]) -> tuple[int, int] | None:
        if not statements:
            return None
        return source.line_of(statements[0].lead) - 1, source.line_of(statements[-1].end - 1)

    def _pair(self, a: Arm, b: Arm, s: Statement, t: Statement) -> Iterator[Change]:
        mine = self._lines(self.base, [s]) or (0, 0)
        other = self._lines(self.theirs, [t]) or (0, 0)
        if s.text == t.text:
            return
        if s.norm == t.norm:
            within = [one for x, y in zip(s.arms, t.arms) for one in self._block(x, y)]
            if not within:
                yield Change("trivia", a, b, [s], [t], base_lines=mine, theirs_lines=other)
                return
            yield from within
        if s.lead_text != t.lead_text:
            above = self.base.line_of(s.lead) - 1, self.base.line_of(s.start) - 1
            new = self.theirs.line_of(t.lead) - 1, self.theirs.line_of(t.start) - 1
            yield Change("trivia", a, b, [s], [t], base_lines=above, theirs_lines=new)
        if s.norm == t.norm:
            return
        if not s.arms or not t.arms:
            yield Change("leaf", a, b, [s], [t], base_lines=mine, theirs_lines=other)
            return
        mates = pair_arms(s.arms, t.arms)
        for i, arm in enumerate(s.arms):
            if i not in mates:
                yield Change(
                    "arm", a, b, [s], [t], head_base=arm,
                    base_lines=self._span(self.base, arm.start, arm.end), theirs_lines=(0, 0),
                )  # fmt: skip
                continue
            other_arm = t.arms[mates[i]]
            if arm.head != other_arm.head:
                yield Change(
                    "head", a, b, [s], [t], head_base=arm, head_theirs=other_arm,
                    base_lines=self._span(self.base, arm.start, arm.body_start),
                    theirs_lines=self._span(self.theirs, other_arm.start, other_arm.body_start),
                )  # fmt: skip
            yield from self._block(arm, other_arm)
        taken = set(mates.values())
        for j, arm in enumerate(t.arms):
            if j not in taken:
                start = self.base.line_of(s.end - 1)
                yield Change(
                    "arm", a, b, [s], [t], head_theirs=arm, base_lines=(start, start),
                    theirs_lines=self._span(self.theirs, arm.start, arm.end),
                )  # fmt: skip

    @staticmethod
    def _span(source: Source, start: int, end: int) -> tuple[int, int]:
        return source.line_of(start) - 1, source.line_of(end - 1)
