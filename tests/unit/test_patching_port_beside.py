"""Lines that both sides changed beside each other: done where the order is certain, else refused."""

from __future__ import annotations

import random

import pytest

from auditor.patching.merge.beside import beside, well_formed

BASE = [b"a\n", b"b\n", b"c\n", b"d\n"]


def _lines(text: str) -> list[bytes]:
    return [f"{c}\n".encode() for c in text]


@pytest.mark.parametrize(
    ("ours", "theirs", "merged"),
    [
        ("aBcd", "abCd", "aBCd"),  # neighbours
        ("acd", "abCd", "aCd"),  # one took its line away
        ("aBcd", "aBCd", None),  # the same line, and one more
        ("aBcd", "abxcd", "aBxcd"),  # put behind a line that was changed
        ("aBcd", "axbcd", "axBcd"),
        ("aBBcd", "abCd", "aBBCd"),
        ("aBcd", "aXcd", None),  # the same line
        ("axbcd", "aybcd", None),  # both put a line at one place
        ("aBycd", "abxcd", None),  # which of them is behind which?
        ("acd", "abxcd", None),  # what it was put behind has gone
        ("aXd", "abxcd", None),  # put between lines that are others now
        ("aXd", "abCd", None),
    ],
)
def test_beside(ours: str, theirs: str, merged: str | None) -> None:
    want = None if merged is None else _lines(merged)
    assert beside(BASE, _lines(ours), _lines(theirs)) == want
    assert beside(BASE, _lines(theirs), _lines(ours)) == want


def test_changes_to_different_lines_are_all_kept() -> None:
    rng = random.Random(4)
    for _ in range(200):
        base = [f"line {n}\n".encode() for n in range(12)]
        owner = [rng.choice("-ot") for _ in base]
        sides = {
            side: [line.upper() if side == by else line for line, by in zip(base, owner)] for side in "ot"
        }
        want = [line.upper() if by != "-" else line for line, by in zip(base, owner)]
        assert beside(base, sides["o"], sides["t"]) == want


def test_only_json_has_a_form() -> None:
    assert well_formed("a.json", b'{"a": 1}') and not well_formed("a.json", b'{"a": 1,}')
    assert well_formed("a.yml", b"{")
