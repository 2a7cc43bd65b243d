"""Lines that two sides changed beside each other, but not the same ones.

A three-way merge of lines calls that a conflict, because the lines may belong together. Their order is
certain all the same, unless one side put lines where the other's change begins or ends and may have put
some there, too.
"""

from __future__ import annotations

from collections.abc import Sequence

from auditor.patching.merge.lines import Edit, Match, edits, matching
from auditor.readback import Damaged, plain_json


def beside(
    base: Sequence[bytes],
    ours: Sequence[bytes],
    theirs: Sequence[bytes],
    *,
    to_ours: Sequence[Match] | None = None,
    to_theirs: Sequence[Match] | None = None,
) -> list[bytes] | None:
    """The lines with the changes of both sides; None where these overlap, or where their order is open."""
    left = edits(matching(base, ours) if to_ours is None else to_ours, len(base), len(ours))
    right = edits(matching(base, theirs) if to_theirs is None else to_theirs, len(base), len(theirs))
    same = []
    for mine in left:
        for other in right:
            if (mine.a0, mine.a1) == (other.a0, other.a1):
                if ours[mine.b0 : mine.b1] != theirs[other.b0 : other.b1]:
                    return None
                same.append(other)
            elif not _apart(mine, other):
                return None
    chosen = [(e.a0, e.a1, ours[e.b0 : e.b1]) for e in left]
    chosen += [(e.a0, e.a1, theirs[e.b0 : e.b1]) for e in right if e not in same]
    out: list[bytes] = []
    at = 0
    for start, end, lines in sorted(chosen, key=lambda each: each[:2]):
        out += [*base[at:start], *lines]
        at = end
    return [*out, *base[at:]]


def _apart(a: Edit, b: Edit) -> bool:
    """Whether two edits of the base have no line in common, and which comes first is certain."""
    if a.a1 < b.a0 or b.a1 < a.a0:
        return True
    first, second = (a, b) if (a.a0, a.a1) <= (b.a0, b.a1) else (b, a)
    if first.a1 > second.a0:
        return False
    for one, two in ((first, second), (second, first)):
        lines = two.a1 - two.a0
        if one.a0 == one.a1 and (two.b1 - two.b0 > lines or two.b0 == two.b1):
            return False  # put beside lines that went, or to which others were added
    return True


def well_formed(path: str, data: bytes) -> bool:
    """Whether a file that is no Python can be read, as far as that can be said."""
    if not path.endswith(".json"):
        return True
    try:
        plain_json(data)
    except Damaged:
        return False
    return True
