"""Lines of three versions: what they share, what merges, and that hunks go where they say."""

from __future__ import annotations

import random

from auditor.patching.diffs.lines import split_lines
from auditor.patching.diffs.rising import longest_rising
from auditor.patching.merge.lines import matching, merge, result
from auditor.patching.model import Hunk
from auditor.patching.port.hunks import apply_hunks, find, reverse


def _lines(text: str) -> list[bytes]:
    return [word.encode() + b"\n" for word in text.split()]


def _merged(base: str, ours: str, theirs: str) -> tuple[str, bool]:
    b, o, t = _lines(base), _lines(ours), _lines(theirs)
    groups = merge(b, o, t)
    return b"".join(result(groups, o, t)).decode().replace("\n", " ").strip(), any(
        group.kind == "conflict" for group in groups
    )


def test_lines_end_at_line_feeds_only() -> None:
    assert split_lines(b"a\r\nb\rc\nd") == [b"a\r\n", b"b\rc\n", b"d"]
    assert split_lines(b"") == []


def test_common_blocks_are_equal_and_in_order() -> None:
    draw = random.Random(4)
    for _ in range(200):
        pool = draw.choice([3, 20, 500])
        a = [b"%d" % draw.randrange(pool) for _ in range(draw.randrange(80))]
        b = list(a)
        for _ in range(draw.randrange(6)):
            at = draw.randrange(len(b) + 1)
            b[at : at + draw.randrange(4)] = [b"%d" % draw.randrange(pool) for _ in range(draw.randrange(4))]
        end_a = end_b = 0
        for i, j, n in matching(a, b):
            assert a[i : i + n] == b[j : j + n] and n > 0
            assert i >= end_a and j >= end_b
            end_a, end_b = i + n, j + n


def test_rare_lines_are_matched_before_frequent_ones() -> None:
    a = _lines("f { } g { }")
    b = _lines("f { } h { } g { }")
    assert matching(a, b) == [(0, 0, 3), (3, 6, 3)]


def test_changes_apart_merge_and_changes_that_touch_do_not() -> None:
    assert _merged("a b c d e", "A b c d e", "a b c d E") == ("A b c d E", False)
    assert _merged("a b c", "a X c", "a b C") == ("a X c", True)
    assert _merged("a b c", "a X b c", "a Y b c") == ("a X b c", True)
    assert _merged("a b c", "a X c", "a X c") == ("a X c", False)
    assert _merged("a b", "a b", "a b") == ("a b", False)


def _hunk(start: int, text: str) -> Hunk:
    lines = tuple((word[0].replace("=", " "), word[1:].encode() + b"\n") for word in text.split())
    return Hunk(start, start, lines)


def test_a_hunk_stands_where_it_says_or_nowhere() -> None:
    lines = _lines("a b c d")
    applied = apply_hunks(lines, [_hunk(2, "=b -c +C +CC =d")])
    assert applied is not None
    assert applied.lines == _lines("a b C CC d")
    assert [(e.a0, e.a1, e.b0, e.b1) for e in applied.edits] == [(2, 3, 2, 4)]
    assert applied.common == [(0, 0, 2), (3, 4, 1)]
    assert apply_hunks(lines, [_hunk(1, "=b -c")]) is None
    assert apply_hunks(lines, [_hunk(2, "=x -c")]) is None


def test_a_searched_hunk_needs_one_place() -> None:
    hunk = _hunk(9, "=b -c")
    found = apply_hunks(_lines("x a b c d"), [hunk], search=True)
    assert found is not None and found.lines == _lines("x a b d")
    assert apply_hunks(_lines("b c b c"), [hunk], search=True) is None
    assert find(_lines("b c b c"), _lines("b c")) == [0, 2]


def test_a_hunk_and_its_reverse_are_the_identity() -> None:
    lines = _lines("a b c d")
    hunk = _hunk(2, "=b -c +C =d")
    applied = apply_hunks(lines, [hunk])
    assert applied is not None
    back = apply_hunks(applied.lines, [reverse(hunk)])
    assert back is not None and back.lines == lines


def test_the_longest_row_that_rises_on_both_sides() -> None:
    assert longest_rising([]) == []
    assert longest_rising([(0, 5), (1, 1), (2, 2), (3, 0), (4, 3)]) == [(1, 1), (2, 2), (4, 3)]
    assert longest_rising([(0, 2), (1, 1), (2, 0)]) == [(2, 0)]
