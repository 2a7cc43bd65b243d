"""Lines: what two versions of a file have in common, and a three-way merge of them.

The merge is git's: two changes that overlap or touch are a conflict unless both sides say the same. The
comparison is histogram-like (rare lines are matched first), because that is what git merges with, and
because matching braces and blank lines first is how hunks end up in the wrong function.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Sequence
from dataclasses import dataclass

from auditor.patching.diffs.lines import same_end, same_start
from auditor.patching.diffs.rising import longest_rising

#: Lines that occur more often than this never start a match.
_CHAIN = 64

Match = tuple[int, int, int]  # (start in a, start in b, how many)


def matching(a: Sequence[Hashable], b: Sequence[Hashable]) -> list[Match]:
    """Blocks that ``a`` and ``b`` have in common, in order, none touching the next on both sides."""
    found: list[Match] = []
    a, b = list(a), list(b)
    work = [(0, len(a), 0, len(b))]
    while work:
        a0, a1, b0, b1 = work.pop()
        start = same_start(a, a0, a1, b, b0, b1)
        if start:
            found.append((a0, b0, start))
            a0, b0 = a0 + start, b0 + start
        end = same_end(a, a0, a1, b, b0, b1)
        if end:
            a1, b1 = a1 - end, b1 - end
            found.append((a1, b1, end))
        if a0 == a1 or b0 == b1:
            continue
        anchors = _unique(a, a0, a1, b, b0, b1) if (a1 - a0) + (b1 - b0) > 400 else []
        if not anchors:
            best = _rarest(a, a0, a1, b, b0, b1)
            anchors = [best] if best else []
        if not anchors:
            found += _short(a, a0, a1, b, b0, b1)
            continue
        at_a, at_b = a0, b0
        for i, j, n in anchors:
            if i < at_a or j < at_b:
                continue
            work.append((at_a, i, at_b, j))
            found.append((i, j, n))
            at_a, at_b = i + n, j + n
        work.append((at_a, a1, at_b, b1))
    return _joined(sorted(found))


def _joined(blocks: list[Match]) -> list[Match]:
    out: list[Match] = []
    for i, j, n in blocks:
        if out and out[-1][0] + out[-1][2] == i and out[-1][1] + out[-1][2] == j:
            out[-1] = (out[-1][0], out[-1][1], out[-1][2] + n)
        else:
            out.append((i, j, n))
    return out


def _unique(a: Sequence[Hashable], a0: int, a1: int, b: Sequence[Hashable], b0: int, b1: int) -> list[Match]:
    """Lines that occur once on each side, the longest chain of them that is in order (patience)."""
    seen: dict[Hashable, list[int]] = {}
    for i in range(a0, a1):
        seen.setdefault(a[i], [0, 0, -1, -1])[0] += 1
        seen[a[i]][2] = i
    for j in range(b0, b1):
        entry = seen.get(b[j])
        if entry is not None:
            entry[1] += 1
            entry[3] = j
    pairs = sorted((e[2], e[3]) for e in seen.values() if e[0] == 1 and e[1] == 1)
    return [(i, j, 1) for i, j in longest_rising(pairs)]


def _rarest(a: Sequence[Hashable], a0: int, a1: int, b: Sequence[Hashable], b0: int, b1: int) -> Match | None:
    """The block around the rarest common line, the longest of equally rare ones."""
    index: dict[Hashable, list[int]] = defaultdict(list)
    for i in range(a0, a1):
        index[a[i]].append(i)
    best: Match | None = None
    best_rarity = _CHAIN + 1
    j = b0
    while j < b1:
        places = index.get(b[j], ())
        next_j = j + 1
        if 0 < len(places) <= best_rarity:
            for i in places:
                s, t, rarity = i, j, len(places)
                while s > a0 and t > b0 and a[s - 1] == b[t - 1]:
                    s, t = s - 1, t - 1
                    rarity = min(rarity, len(index[a[s]]))
                e, f = i + 1, j + 1
                while e < a1 and f < b1 and a[e] == b[f]:
                    rarity = min(rarity, len(index[a[e]]))
                    e, f = e + 1, f + 1
                next_j = max(next_j, f)
                if best is None or e - s > best[2] or rarity < best_rarity:
                    best, best_rarity = (s, t, e - s), rarity
        j = next_j
    return best


def _short(a: Sequence[Hashable], a0: int, a1: int, b: Sequence[Hashable], b0: int, b1: int) -> list[Match]:
    """Whatever is left when every common line is frequent: an ordinary longest common subsequence."""
    if (a1 - a0) * (b1 - b0) > 250_000:
        return []
    from difflib import SequenceMatcher

    blocks = SequenceMatcher(None, a[a0:a1], b[b0:b1], autojunk=False).get_matching_blocks()
    return [(a0 + m.a, b0 + m.b, m.size) for m in blocks if m.size]


@dataclass(frozen=True)
class Edit:
    """``a[a0:a1]`` became ``b[b0:b1]``."""

    a0: int
    a1: int
    b0: int
    b1: int


def edits(blocks: Sequence[Match], len_a: int, len_b: int) -> list[Edit]:
    """What lies between common blocks."""
    out: list[Edit] = []
    i = j = 0
    for at_a, at_b, n in [*blocks, (len_a, len_b, 0)]:
        if i < at_a or j < at_b:
            out.append(Edit(i, at_a, j, at_b))
        i, j = at_a + n, at_b + n
    return out


@dataclass(frozen=True)
class Group:
    """A region of the base that one side or both changed: ``kind`` is ours, theirs, same or conflict.

    ``base``, ``ours`` and ``theirs`` are half-open ranges of lines.
    """

    kind: str
    base: tuple[int, int]
    ours: tuple[int, int]
    theirs: tuple[int, int]


def merge(
    base: Sequence[bytes],
    ours: Sequence[bytes],
    theirs: Sequence[bytes],
    *,
    to_ours: Sequence[Match] | None = None,
    to_theirs: Sequence[Match] | None = None,
) -> list[Group]:
    """The changes of both sides in order; what no group covers is common to all three."""
    left = edits(matching(base, ours) if to_ours is None else to_ours, len(base), len(ours))
    right = edits(matching(base, theirs) if to_theirs is None else to_theirs, len(base), len(theirs))
    groups: list[Group] = []
    at_left = at_right = 0
    shift_left = shift_right = 0  # position in the side minus position in the base, before the next edit
    while at_left < len(left) or at_right < len(right):
        mine: list[Edit] = []
        other: list[Edit] = []
        take_left = at_right == len(right) or (
            at_left < len(left)
            and (left[at_left].a0, left[at_left].a1) <= (right[at_right].a0, right[at_right].a1)
        )
        first = left[at_left] if take_left else right[at_right]
        lo, hi = first.a0, first.a1
        grown = True
        while grown:
            grown = False
            while at_left < len(left) and left[at_left].a0 <= hi:
                mine.append(left[at_left])
                hi = max(hi, left[at_left].a1)
                at_left += 1
                grown = True
            while at_right < len(right) and right[at_right].a0 <= hi:
                other.append(right[at_right])
                hi = max(hi, right[at_right].a1)
                at_right += 1
                grown = True
        o0, t0 = lo + shift_left, lo + shift_right
        shift_left += sum((e.b1 - e.b0) - (e.a1 - e.a0) for e in mine)
        shift_right += sum((e.b1 - e.b0) - (e.a1 - e.a0) for e in other)
        o1, t1 = hi + shift_left, hi + shift_right
        if not other:
            kind = "ours"
        elif not mine:
            kind = "theirs"
        elif ours[o0:o1] == theirs[t0:t1]:
            kind = "same"
        else:
            kind = "conflict"
        groups.append(Group(kind, (lo, hi), (o0, o1), (t0, t1)))
    return groups


def meeting(
    groups: Sequence[Group], base: Sequence[bytes], ours: Sequence[bytes], theirs: Sequence[bytes]
) -> list[Group]:
    """The groups of theirs that may as well be said to be at the place of one of ours.

    What is put in or taken out between lines that repeat (closing brackets, blank lines, the first line of
    one call after another) can be told at several places. Where those of both sides meet, which goes first is
    chance, though the comparison happened to keep them apart.
    """
    sides = {"ours": ours, "theirs": theirs}
    reach: dict[int, tuple[int, int]] = {}
    for at, group in enumerate(groups):
        if group.kind in sides:
            low = groups[at - 1].base[1] if at else 0
            high = groups[at + 1].base[0] if at + 1 < len(groups) else len(base)
            span = group.ours if group.kind == "ours" else group.theirs
            reach[at] = _reach(base, group.base, sides[group.kind], span, low, high)
    out: list[Group] = []
    for at, group in enumerate(groups):
        if group.kind != "theirs":
            continue
        low, high = reach[at]
        for other in (at - 1, at + 1):
            if 0 <= other < len(groups) and groups[other].kind == "ours":
                if low <= reach[other][1] and reach[other][0] <= high:
                    out.append(group)
                    break
    return out


def _reach(
    base: Sequence[bytes],
    old: tuple[int, int],
    side: Sequence[bytes],
    new: tuple[int, int],
    low: int,
    high: int,
) -> tuple[int, int]:
    """The lines of the base, within ``low`` and ``high``, that one change can be told to be at."""
    a0, a1 = old
    if a0 != a1 and new[0] != new[1]:
        return a0, a1
    text, (b0, b1) = (side, new) if a0 == a1 else (base, old)
    up = down = 0
    while a0 - up > low and text[b1 - 1 - up] == base[a0 - 1 - up]:
        up += 1
    while a1 + down < high and text[b0 + down] == base[a1 + down]:
        down += 1
    return a0 - up, a1 + down


def result(groups: Sequence[Group], ours: Sequence[bytes], theirs: Sequence[bytes]) -> list[bytes]:
    """The merged lines; a conflict keeps ours."""
    out: list[bytes] = []
    at = 0
    for group in groups:
        out += ours[at : group.ours[0]]
        o0, o1 = group.ours
        out += theirs[group.theirs[0] : group.theirs[1]] if group.kind == "theirs" else ours[o0:o1]
        at = o1
    out += ours[at:]
    return out
