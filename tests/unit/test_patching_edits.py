"""Structural edits: each kind on a small file, what it does a second time, and what it says on a miss."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec
import pytest

from auditor import yamlio
from auditor.errors import UserError
from auditor.patching.edits.apply import apply
from auditor.patching.edits.check import check_edits
from auditor.patching.edits.model import Edit
from auditor.patching.model import Outcome
from auditor.queries.exampletree import PROFILE, MemoryTree

SOURCE = '''\
"""Doc."""
import os
from a.b import (
    c,
    e,
)

# names
NAMES = [
    "a",  # first
    "b"
]
T = ("x",)
D = {"k": 1}
S = frozenset({1, 2})

def f(x, y=3):
    if x == 120:  # why
        return 1
    elif (x or y):
        g(x, y, z=[1])
    os.environ["K"] = "v"
    return None
'''


def edits_of(text: str) -> tuple[Edit, ...]:
    """Edits as a patch writes them, checked."""
    document = yamlio.load(("edits:\n" + text).encode(), "patch.yaml", code="P022")
    edits = msgspec.convert(document.data["edits"], tuple[Edit, ...])
    check_edits(edits, document)
    return edits


def made(text: str, source: str | bytes = SOURCE, others: Mapping[str, str | bytes] | None = None) -> Outcome:
    """What becomes of edits on a package with one module ``example.m`` and others."""
    files: dict[str, str | bytes] = {"example/__init__.py": "", "example/m.py": source, **(others or {})}
    outcome = apply(edits_of(text), MemoryTree(files), PROFILE)
    if outcome.files:
        after = {**files, **{p: d for p, d in outcome.files.items() if d is not None}}
        for path in [p for p, d in outcome.files.items() if d is None]:
            del after[path]
        assert apply(edits_of(text), MemoryTree(after), PROFILE).status == "upstream"
    return outcome


def result(text: str, source: str | bytes = SOURCE, path: str = "example/m.py") -> str:
    """The file after edits that go."""
    outcome = made(text, source)
    assert outcome.status in ("clean", "moved", "partly"), outcome
    return (outcome.files[path] or b"").decode()


ALL = """
- narrow: {in: example.m.f, at: "x == 120", with: "not y"}
- widen: {in: example.m.f, at: "x or y", with: "T"}
- add-import: {in: example.m, import: "from a.b import d"}
- add-import: {in: example.m, import: "import sys"}
- add-member: {in: example.m, name: NAMES, members: ['"c"', '"d"']}
- add-member: {in: example.m, name: T, member: '"c"'}
- add-member: {in: example.m, name: D, key: '"j"', value: "2"}
- add-member: {in: example.m, name: S, member: "3", before: "1"}
- guard: {in: example.m.f, at: 'os.environ["K"] = $V', if: '"K" not in os.environ'}
- set-default: {in: example.m.f, name: y, was: "3", to: "4"}
- set-argument: {in: example.m.f, call: "$_($...A, z=$_)", argument: w, was: absent, to: "5"}
- set-argument: {in: example.m.f, call: "$_($...A, z=$_)", argument: 1, was: "y", to: "y + 1"}
- set-call: {in: example.m.f, call: "$_($...A, z=$_)", to: "os.h"}
- insert-arm: {in: example.m.f, before: "x == 120 and $_", if: "x is None", then: "return 9"}
- insert-arm: {in: example.m.f, after: "($_ or $_) or T", if: "x < 3", then: "return 8"}
- insert: {in: example.m.f, after: "os.environ[$_] = $_", code: "if x:\\n    y = 1\\n"}
- insert: {in: example.m, at: end, code: "def g2():\\n    pass"}
- insert: {in: example.m.f, at: start, code: "y = y"}
"""

AFTER = '''\
"""Doc."""
import os
import sys
from a.b import (
    c,
    d,
    e,
)

# names
NAMES = [
    "a",  # first
    "b",
    "c",
    "d"
]
T = ("x", "c")
D = {"k": 1, "j": 2}
S = frozenset({3, 1, 2})

def f(x, y=4):
    y = y
    if x is None:
        return 9
    elif x == 120 and not y:  # why
        return 1
    elif (x or y or T):
        os.h(x, y + 1, z=[1], w=5)
    elif x < 3:
        return 8
    if "K" not in os.environ:
        os.environ["K"] = "v"
        if x:
            y = 1
    return None


def g2():
    pass
'''


def test_many_edits_of_one_file() -> None:
    assert result(ALL) == AFTER


def test_line_ends_and_byte_order_mark_stay() -> None:
    raw = b"\xef\xbb\xbf" + SOURCE.replace("\n", "\r\n").encode()
    outcome = made(ALL, raw)
    assert outcome.files["example/m.py"] == b"\xef\xbb\xbf" + AFTER.replace("\n", "\r\n").encode()


@pytest.mark.parametrize(
    ("edit", "note"),
    [
        (
            'narrow: {in: example.m.f, at: "x == 121", with: "not y"}',
            "P071: `x == 121` matches 0 places in example/m.py:f, expected 1; nearest: line 18 `x == 120`",
        ),
        (
            'narrow: {in: example.m.f, at: "x == 120", with: "not zz"}',
            "P074: zz is not defined in example/m.py; add-import brings it in",
        ),
        (
            'set-constant: {in: example.m, name: NAME, was: "3", to: "4"}',
            "P070: NAME is not assigned in example/m.py; nearest: NAMES",
        ),
        (
            'narrow: {in: example.m.ff, at: "x == 120", with: "y"}',
            "P070: symbol ff is not in example/m.py; nearest: example/m.py:f",
        ),
        (
            'set-default: {in: example.m.f, name: y, was: "5", to: "4"}',
            "P077: the default of y in example/m.py:f is `3`, expected `5`; nearest: example/m.py:17",
        ),
        (
            'replace: {in: example.m.f, find: "return $X", with: "return f($X)"}',
            "P071: `return $X` matches 2 places in example/m.py:f, expected 1; "
            "nearest: line 19 `return 1`, line 23 `return None`",
        ),
        (
            'add-import: {in: example.m, import: "from example.nowhere import thing"}',
            "P074: line 7 of example/m.py: there is no module example.nowhere",
        ),
    ],
)
def test_misses(edit: str, note: str) -> None:
    outcome = made(f"- {edit}")
    assert outcome.status == "conflict"
    assert [hunk.note for hunk in outcome.hunks] == [note]
    assert outcome.files == {}


@pytest.mark.parametrize(
    ("edit", "place", "fact"),
    [
        ("narow: {in: a.b, at: x, with: y}", "patch.yaml:2:3", "unknown field `narow`"),
        ("narrow: {in: a.b, at: x == 1, with: x ==}", "patch.yaml:2:39", "not a Python expression"),
        ("insert: {in: a.b, code: pass}", "patch.yaml:2:11", "one of before, after, at says where"),
        ("replace: {in: a.b, find: f($X), with: g($Y)}", "patch.yaml:2:41", "$Y is not in `find`"),
        ("add-file: {path: ../x.py, from: x.py}", "patch.yaml:2:20", ".."),
    ],
)
def test_a_wrong_edit_is_told_at_its_place(edit: str, place: str, fact: str) -> None:
    document = yamlio.load(f"edits:\n- {edit}\n".encode(), "patch.yaml", code="P022")

    class File(msgspec.Struct):
        edits: tuple[Edit, ...]

    with pytest.raises(UserError) as caught:
        check_edits(document.convert(File).edits, document)
    assert caught.value.code == "P022"
    assert fact in caught.value.fact
    assert caught.value.place == place
