"""Which of two things that both sides put at one place goes first: a guess, and always told as one."""

from __future__ import annotations

from collections.abc import Sequence

from auditor.patching.merge.changes import Change
from auditor.patching.merge.statements import Arm, Statement


def goes_behind(change: Change, wanted: Sequence[Statement], arm: Arm, low: int, high: int) -> bool:
    """Whether what theirs adds rather goes behind what ours added at the same place.

    A guess from two signs: which of them is set off from its neighbours by blank lines, and which of them
    shares names with them.
    """
    siblings = change.arm_theirs.children
    end = next(at for at, s in enumerate(siblings) if s is wanted[0]) + len(wanted)
    mine = arm.children[low + 1 : high]
    score = 4 * (set_off(wanted[0]) - set_off(mine[0]))
    if end < len(siblings) and high < len(arm.children):
        score += 2 * (set_off(arm.children[high]) - set_off(siblings[end]))
    before = _words(arm.children[low : low + 1]) if low >= 0 else set()
    behind = _words(arm.children[high : high + 1])
    other, here = _words(wanted), _words(mine)
    score += _sign(len(here & before) - len(other & before))
    score += _sign(len(other & behind) - len(here & behind))
    return score >= 0


def set_off(statement: Statement) -> int:
    """1 for a statement with a blank line above it."""
    return int(b"\n" in statement.lead_text.split(b"#")[0])


def _words(statements: Sequence[Statement]) -> set[bytes]:
    return {w for s in statements for w in s.norm if w[:1].isalpha() and len(w) > 3 and w != b"self"}


def _sign(number: int) -> int:
    return (number > 0) - (number < 0)
