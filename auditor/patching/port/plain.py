"""A diff whose base nobody has: each hunk goes where its old lines occur exactly once, or it is refused."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from auditor.lazyre import lazy
from auditor.patching.model import Hunk, Status
from auditor.patching.port.hunks import find

_DEFINES = lazy(rb"([ \t]*)(?:async[ \t]+)?(?:def|class)[ \t]+(\w+)")
_NAMED = lazy(rb"(?:def|class)[ \t]+(\w+)")


@dataclass(frozen=True)
class PlainHunk:
    """What became of one hunk; ``line`` is where it stands in the result, from 1."""

    status: Status
    proof: str
    line: int = 0
    note: str = ""


def carry_plain(lines: Sequence[bytes], hunks: Sequence[Hunk]) -> tuple[list[bytes], list[PlainHunk]]:
    """The lines after all hunks that fit, and what became of each. The hunks keep their order."""
    ours = list(lines)
    at = 0
    told: list[PlainHunk] = []
    for hunk in hunks:
        old, new = hunk.old(), hunk.new()
        here, there = _places(ours, old, hunk, at), _places(ours, new, hunk, at)
        if len(here) == 1 and not there:
            start = here[0]
            ours[start : start + len(old)] = new
            at = start + len(new)
            asked = max(hunk.new_start, 1)
            told.append(
                PlainHunk("clean" if start + 1 == asked else "moved", "old lines found once", start + 1)
            )
        elif len(there) == 1 and not here:
            at = there[0] + len(new)
            told.append(PlainHunk("upstream", "reverse-applies", there[0] + 1))
        else:
            note = "its old lines occur more than once" if here else "its old lines are not in the file"
            told.append(PlainHunk("conflict", "", 0, f"the file it was made for is not known, and {note}"))
    return ours, told


def _places(lines: list[bytes], wanted: list[bytes], hunk: Hunk, start: int) -> list[int]:
    """Where a side of a hunk occurs, in or after the function that the hunk names, if it names one."""
    found = find(lines, wanted, start)
    if any(side and not side[-1].endswith(b"\n") for side in (hunk.old(), hunk.new())):
        found = [
            at for at in found if at + len(wanted) == len(lines)
        ]  # the hunk says that the file ends there
    named = _NAMED.findall(hunk.section.encode())
    return [at for at in found if named[-1] in _before(lines, at)] if named else found


def _before(lines: list[bytes], at: int) -> set[bytes]:
    """Names of the last definition above a line, and of the last one that is not indented."""
    out: set[bytes] = set()
    for line in range(at - 1, -1, -1):
        match = _DEFINES.match(lines[line])
        if match is None:
            continue
        if not out or not match[1]:
            out.add(match[2])
        if not match[1]:
            break
    return out
