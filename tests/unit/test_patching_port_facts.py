"""What a port asks of files: names, definitions, places of changes; and what heads of mails say."""

from __future__ import annotations

import base64

import pytest

from auditor.patching.diffs.mails import Prelude, decoded_mail, plain_subject, read_prelude
from auditor.patching.port.check import compiles, doubled_definitions, lost_names, names_of
from auditor.patching.port.places import of_files, places

NAMES = [
    ("from a import *\nx\n", {"*"}, {"x"}),
    ("import a.b\nimport c as d\na, d, c\n", {"a", "d"}, {"c"}),
    ("def f(x, *y, z, **w): x, y, z, w, q\n", {"f", "x", "y", "z", "w"}, {"q"}),
    ("try: pass\nexcept E as e: e\n", {"e"}, {"E"}),
    ("def f():\n    global g\n    nonlocal_ = g\n", {"f", "g", "nonlocal_"}, set()),
    ("match v:\n    case [1, *rest]: rest\n    case {'a': b, **c}: b, c\n    case d: d, e\n",
     {"rest", "b", "c", "d"}, {"v", "e"}),
    ("class A: len\nasync def g(): __file__\n", {"A", "g"}, set()),
]  # fmt: skip


@pytest.mark.parametrize("text, bound, unknown", NAMES)
def test_names(text: str, bound: set[str], unknown: set[str]) -> None:
    names = names_of(text.encode())
    assert names is not None
    assert (set(names.bound), set(names.unknown), names.stars) == (bound, unknown, "*" in bound)


def test_names_that_are_lost() -> None:
    assert lost_names(b"x, y\n", b"x\n", b"") == ["y"]
    assert lost_names(b"x, y\n", b"x = (\n", b"") == []  # a side that nobody can read says nothing
    assert lost_names(b"x = (\n", b"", b"") == lost_names(b"from a import *\nx\n", b"", b"") == []


def test_definitions_that_come_twice() -> None:
    twice = b"def f(): ...\nclass A:\n    def g(self): ...\n    def g(self): ...\ndef f(): ...\n"
    assert doubled_definitions(twice, b"", b"x = (\n") == ["A.g", "f"]
    assert doubled_definitions(twice, twice, b"") == []
    assert doubled_definitions(b"x = (\n", b"", b"") == []


@pytest.mark.parametrize(
    "text, wanted", [("f(a=1)\n", True), ("f(a=1, a=2)\n", False), ("return 1\n", False)]
)
def test_what_a_compiler_takes(text: str, wanted: bool) -> None:
    assert compiles(text.encode()) is wanted and not compiles(b"x = (\n")


def test_places_of_changes() -> None:
    old = b"x = 1\n\nclass A:\n    def f(self):\n        return 1\n"
    new = b"x = 2\n\nclass A:\n    def f(self):\n        return 2\n\n"
    assert places(old, new, True) == {(), (b"A", b"f")}
    text = b"a:\n  - one\n\n  - two\n", b"a:\n  - one\n\n  - three\n"
    assert places(*text, False) == {(b"a:",)}
    assert places(b"  x\n", b"  y\n", False) == {()}  # nothing is above it
    assert of_files([("a.py", old, new), ("b.py", None, new), ("c.py", old, None), ("d.py", old, old)]) == {
        (),
        (b"A", b"f"),
    }


def said(text: str) -> tuple[str, str, str, str]:
    head: Prelude = read_prelude(text.encode().split(b"\n"))
    return head.subject, head.author, head.commit, head.body


MAILS = [
    ("", ("", "", "", "")),
    ("\n\n# A title\n\nwhy\n", ("A title", "", "", "why")),
    (f"From {'0' * 40} Mon Sep 17 00:00:00 2001\nSubject: [PATCH] x\n", ("x", "", "", "")),
    (
        f"From {'a' * 40} Mon Sep 17 00:00:00 2001\nFrom: N <n@e>\nSubject: [PATCH 1/2] a\n b\n\n"
        "From: M <m@e>\nwhy\n---\n",
        ("a b", "M <m@e>", "a" * 40, "why"),
    ),
    (
        "commit abcdef1 (HEAD -> main)\nAuthor: N <n@e>\nMerge: 1 2\nDate: today\n\n    A title\n\n    why\n",
        ("A title", "N <n@e>", "abcdef1", "why"),
    ),
    (
        "Description: A title\n more\n .\n last\nAuthor: N <n@e>\nSubject: another\nno field\n",
        ("A title", "N <n@e>", "", "more\n\nlast\nno field"),
    ),
    (
        "Subject: =?utf-8?q?caf=C3=A9?=\nFrom: =?nothing?q?x?= <n@e>\n",
        ("café", "=?nothing?q?x?= <n@e>", "", ""),
    ),
]


@pytest.mark.parametrize("text, wanted", MAILS)
def test_heads_of_mails(text: str, wanted: tuple[str, str, str, str]) -> None:
    assert said(text) == wanted


def test_subjects() -> None:
    assert plain_subject("Re: [PATCH v2 1/3] [Kernel] x") == "[Kernel] x"
    assert plain_subject("re: x") == "x" and plain_subject("[ours] [PATCH] x") == "[ours] [PATCH] x"


def test_text_of_mails() -> None:
    head = b"From: n\nContent-Transfer-Encoding: base64\n\n"
    text = b"diff --git a/x b/x\n"
    assert decoded_mail(head + base64.b64encode(text)) == head + text
    broken = head + b"!!!"
    assert decoded_mail(broken) == broken
    quoted = head.replace(b"base64", b"Quoted-Printable")
    assert decoded_mail(quoted + b"a=3Db\n") == quoted + b"a=b\n"
    plain = head.replace(b"base64", b"8bit") + text
    assert decoded_mail(plain) == plain and decoded_mail(text + b"\n\n") == text + b"\n\n"
