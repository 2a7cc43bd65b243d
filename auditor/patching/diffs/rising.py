"""The longest row of pairs that have the same order on both sides."""

from __future__ import annotations

import bisect
from collections.abc import Sequence


def longest_rising(pairs: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """The longest row of ``pairs`` that rises on both sides; ``pairs`` are sorted, no left side twice."""
    tails: list[int] = []  # the smallest right side that a row of each length ends with
    ends: list[int] = []  # the pair that has it
    back: list[int] = []  # the pair before each in its row, -1 for none
    for number, (_, right) in enumerate(pairs):
        slot = bisect.bisect_left(tails, right)
        back.append(ends[slot - 1] if slot else -1)
        if slot == len(tails):
            tails.append(right)
            ends.append(number)
        else:
            tails[slot], ends[slot] = right, number
    row = []
    number = ends[-1] if ends else -1
    while number >= 0:
        row.append(pairs[number])
        number = back[number]
    return row[::-1]
