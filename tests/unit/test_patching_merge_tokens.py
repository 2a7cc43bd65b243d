"""One statement that two sides changed: what comes out, token by token and element by element.

``None`` is a conflict; ``? `` is a result that says that its order is a guess.
"""

from __future__ import annotations

import difflib
import re

import pytest

from auditor.patching.diffs.parse import parse_patch
from auditor.patching.merge.statements import tokens
from auditor.patching.merge.tokens import Overlap, TokenMerge
from auditor.patching.model import Outcome
from auditor.patching.port.carry import port
from auditor.trees.names import blob_id
from tests.unit.test_patching_port import MemoryTree


def carried(base: str, ours: str, theirs: str, path: str = "m.py") -> Outcome:
    """What becomes of the change from ``base`` to ``theirs`` on ``ours``."""
    a, b = base.encode(), theirs.encode()
    old, new = (re.findall("[^\\n]*\\n|[^\\n]+", text) for text in (base, theirs))
    lines = difflib.unified_diff(old, new, f"a/{path}", f"b/{path}")
    head = f"diff --git a/{path} b/{path}\nindex {blob_id(a)}..{blob_id(b)} 100644\n"
    patch = parse_patch((head + "".join(lines)).encode(), "patch")
    return port(patch, MemoryTree({path: ours.encode()}), blobs={blob_id(a): a}.get)


CASES = [
    ("x = g(a)", "x = g(a, k=1)", "x = h(a)", "x = h(a, k=1)"),
    ("x = g(a) + c", "x = g(b) + c", "x = g(a) + d", "x = g(b) + d"),
    ("x = g(a)", "y = g(a)", "x = g(a, b)", None),
    ("x = g()", "x = g(a)", "x = g(b)", "? x = g(a, b)"),
    ("x = g()", "x = g(a)", "x = g(k=1)", "x = g(a, k=1)"),
    ("x = [a, b, c]", "x = [a, b2, c]", "x = [a, b, d]", "x = [a, b2, d]"),
    ("x = [a, b, c]", "x = [a, c]", "x = [a, b2, c]", None),
    ("x = [a, b, c]", "x = [a, b, c, z]", "x = [a, c]", "x = [a, c, z]"),
    ("x = [a, b, c]", "x = [z, a, b, c]", "x = [b, c]", "x = [z, b, c]"),
    ("x = [a, b, c]", "x = [a, c]", "x = [a, b, d]", "x = [a, d]"),
    ("x = [a, b, c]", "x = [a, c]", "x = [a, b, c, d]", "x = [a, c, d]"),
    ("x = [a, b, c]", "x = [a, b, c, q]", "x = [a, b]", "x = [a, b, q]"),
    ("x = [a]", "x = [a, q]", "x = []", "x = [q]"),
    ("x = [a, b, c]", "x = [a, b, c, n]", "x = [a, b, c, n, m]", "? x = [a, b, c, n, m]"),
    ("x = {'a': 1, 'b': 2}", "x = {'a': 1, 'b': 2, 'n': 3}", "x = {'a': 1, 'b': 2, 'n': 4}", None),
    (
        "x = {'a': 1, 'b': 2}",
        "x = {'a': 1, 'b': 2, 'n': 3}",
        "x = {'a': 1, 'b': 2, 'n': 3, 'm': 4}",
        "? x = {'a': 1, 'b': 2, 'n': 3, 'm': 4}",
    ),
    ("x = {'a': 1, 'b': 2}", "x = {'a': 5, 'b': 2}", "x = {'b': 2}", None),
    (
        "x = {'a': 1, 'b': 2}",
        "x = {'a': 1, 'b': 2, 'c': 3}",
        "x = {'a': 1, 'd': 9}",
        "x = {'a': 1, 'd': 9, 'c': 3}",
    ),
    ("x = {'a': 1, 'b': 2}", "x = {'a': 1, 'c': 2}", "x = {'a': 1, 'b': 2, 'd': 3}", None),
    ("g(a, k=1)", "g(a, k=2)", "g(a, k=1, m=3)", "g(a, k=2, m=3)"),
    ("g(a, k=1)", "g(a, n=2, k=1)", "g(a, m=3, k=1)", "g(a, n=2, m=3, k=1)"),
    ("g(a, k=1)", "g(a, k=1, n=2)", "g(a, m=3)", "g(a, m=3, n=2)"),
    ("g(a, k=1, **w)", "g(a, k=1, n=2, **w)", "g(a, k=1, m=3, **w)", "g(a, k=1, n=2, m=3, **w)"),
    ("g(a, k=1, j=2)", "g(a, j=2, k=1)", "g(a, k=1, j=2, m=3)", "g(a, j=2, k=1, m=3)"),
    ("g(a, k=1, j=2)", "g(b, k=1, j=2)", "g(k=1, j=2)", None),
    ("g(a, b)", "g(a, b, c)", "g(a)", "g(a, c)"),
    ("g(a, b)", "g(b)", "g(a, b, c)", "g(b, c)"),
    ("g(a, b, c)", "g(z, a, b, c)", "g(b, c)", "g(z, b, c)"),
    ("return not x", "return not y", "return (not x)", None),
    ("x = a + b", "x = a + b + c", "x = a - b", "x = a - b + c"),
    ("x = a + b", "x = z + b", "x = a + c", "x = z + c"),
    ("x = a", "x = a + b", "x = c + a", "x = c + a + b"),
    ("x = a if b else c", "x = a if b2 else c", "x = (a if b else c)", None),
    ("x: int = 1", "x: float = 1", "x: int = 2", None),
    ("x = a[0]", "x = a[0, 1]", "x = a[0:2]", "x = a[0:2, 1]"),
    ("x = a[i]", "x = a[i]()", "x = a[i].b", None),
    ("x = a.b.c", "x = a.b.d", "x = z(a.b.c)", None),
    ("x = (a)", "x = (a, b)", "x = a", None),
    ("del a", "del a, b", "del c", None),
    ("x = [a, b, d]", "x = [a, b, c, d]", "x = [a, b, d, e]", "x = [a, b, c, d, e]"),
    ("x = [a, b, d, f]", "x = [a, b, c, d, f]", "x = [a, b, cc, d, f]", "x = [a, b, c, cc, d, f]"),
    ("x = [z, b, d, f]", "x = [z, b, c, d, f]", "x = [z, b, cc, d, f]", "? x = [z, b, c, cc, d, f]"),
    ("x = [z, b, d, f]", "x = [z, b, c, d, f]", "x = [z, b, cc, ee, d, f]", "? x = [z, b, c, cc, ee, d, f]"),
    ("x = g(1, a)", "x = g(1, *b)", "x = g(1, a, c)", None),
    ("x = {'a': 1, 'b': 2}", "x = {'a': 1, 'c': 2}", "x = {'a': 1}", None),
    ("x = [a, b, c]", "x = [a, B, c]", "x = [a, c]", None),
    ("x = (a + 1) * 2", "x = (a + 3) * 2", "x = a * 2", None),
    ("x = h(a)(b)", "x = h(a)(c)", "x = h(a)", None),
    ("x = h(a)(b)", "x = h(c)(b)", "x = h(a)", "x = h(c)"),
    ("x = -a", "x = -b", "x = a", None),
    ("(a + b).c()", "(a + z).c()", "q((a + b).c())", None),
    ("x = [a, b, c]", "x = [c, b, a]", "x = [a, b, c, d]", "? x = [c, b, a, d]"),
    ("x = [a, b, c]", "x = [c, b, a]", "x = [d, c]", None),
    (
        "x = g(\n        a,  # one\n        b,  # two\n    )",
        "x = g(\n        a,  # one\n        b,  # two\n        c,\n    )",
        "x = g(\n        a,  # one\n        z,\n        b,  # two\n    )",
        "x = g(\n        a,  # one\n        z,\n        b,  # two\n        c,\n    )",
    ),
    (
        "x = g(\n        a=1,\n        b=2\n    )",
        "x = g(\n        a=3,\n        b=2\n    )",
        "x = g(\n        a=1,\n        b=2,\n        c=3\n    )",
        "x = g(\n        a=3,\n        b=2,\n        c=3\n    )",
    ),
    ("x = g(k=1, j=2)", "x = g(j=2, k=1, z=3)", "x = g(k=1, n=4, j=2)", "x = g(n=4, j=2, k=1, z=3)"),
    ("def h(a, b): ...", "def h(a, b, *, k): ...", "def h(a, c, b): ...", "def h(a, c, b, *, k): ..."),
    ("x = [a, b, c]", "x = []", "x = [a, b, c, d]", None),
    ("x = [a, b, c]", "x = [q]", "x = [a, b, c, d]", None),
    ("x = [a, b, c]", "x = [a, b, c][0]", "x = [a, b, d]", "x = [a, b, d][0]"),
    ("x = g(a, b)", "x = g(a + 1, b)", "x = g(a + 1, c + b)", "x = g(a + 1, c + b)"),
    ("x = a + b + c", "x = z + b + c", "x = z + b + d", "x = z + b + d"),
    ("x = g(a) + h", "x = g + h", "x = g(b) + h", None),
    ("x = g(not a + b)", "x = g(not a + c)", "x = g(a + b)", "x = g(a + c)"),
    ("x = g(a + b)", "x = g(a + c)", "x = g(not a + b)", "x = g(not a + c)"),
    ("x = g(a) + h(b)", "x = g(z) + h(b)", "x = g(z) + h(c)", "x = g(z) + h(c)"),
    ("x = g(a)", "x = g()", "x = g(b)", None),
    ("x = {'a': 1, 'b': 2}", "x = {'b': 2}", "x = {'a': 5, 'b': 2}", None),
    ("x = [a, b, c]", "x = [a, q, c]", "x = [a, q, c, d]", "x = [a, q, c, d]"),
    ("x = g(a)", "x = g(a, **w)", "x = g(a, k=1)", "x = g(a, k=1, **w)"),
    (
        "x = g(\n        a=1,  # one\n        b=2,  # two\n    )",
        "x = g(\n        a=1,  # one\n        b=2,  # two\n        c=3,\n    )",
        "x = g(\n        a=1,  # one\n        b=2,  # two\n        d=4,\n    )",
        "x = g(\n        a=1,  # one\n        b=2,  # two\n        c=3,\n        d=4,\n    )",
    ),
    (
        "x = g(\n        a=1,  # one\n        b=2,  # two\n    )",
        "x = g(\n        a=1,  # one\n        z=3,\n        b=2,  # two\n    )",
        "x = g(\n        a=1,  # one\n        y=4,\n        b=2,  # two\n    )",
        "x = g(\n        a=1,  # one\n        z=3,\n        y=4,\n        b=2,  # two\n    )",
    ),
    ("x = g(a, b,)", "x = g(a, b, c,)", "x = g(a, b, k=1,)", "x = g(a, b, c, k=1,)"),
    ("x = [a, b, c]", "x = [q, b, c]", "x = [a, b]", "x = [q, b]"),
    ("x = g(k=1, n=2)", "x = g(k=1)", "x = g(n=2)", "x = g()"),
    ("x = {a, b}", "x = {a, b, c}", "x = {a, b, d}", "x = {a, b, c, d}"),
    ("x = {a, b}", "x = {b}", "x = {a, b, d}", "x = {b, d}"),
    (
        "x = g(\n        a,\n    )",
        "x = g(\n        a, c,\n    )",
        "x = g(\n        a,\n        k=1,\n    )",
        "x = g(\n        a, c,\n        k=1,\n    )",
    ),
    (
        "x = g(\n    )",
        "x = g(\n        c,\n    )",
        "x = g(\n        k=1,\n    )",
        "x = g(\n        c,\n        k=1,\n    )",
    ),
]


@pytest.mark.parametrize("base, ours, theirs, wanted", CASES)
def test_a_statement_that_two_sides_changed(base: str, ours: str, theirs: str, wanted: str | None) -> None:
    outcome = carried(*(f"def f():\n    {text}\n    return 1\n" for text in (base, ours, theirs)))
    if wanted is None:
        assert outcome.status == "conflict" and not outcome.files
        return
    assert outcome.status == ("look" if wanted.startswith("? ") else "clean"), outcome.hunks
    text = (outcome.files["m.py"] or b"").decode()
    assert text == f"def f():\n    {wanted.removeprefix('? ')}\n    return 1\n"


@pytest.mark.parametrize("text", [b"f(]", b"f((a)", b"f(a))"])
def test_brackets_that_do_not_match_are_left_to_a_person(text: bytes) -> None:
    good = tokens(b"f(a)", 0, 4)
    with pytest.raises(Overlap):
        TokenMerge(b"f(a)", b"f(a)", text).run(good, good, tokens(text, 0, len(text)))
