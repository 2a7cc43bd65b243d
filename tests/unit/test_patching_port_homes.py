"""A change to functions and classes that went to other files: where it goes, or why nowhere."""

from __future__ import annotations

import difflib

import pytest

from auditor.patching.diffs.parse import parse_patch
from auditor.patching.port.carry import port
from auditor.trees.names import blob_id
from tests.unit.test_patching_port import MemoryTree

GEMM = "def gemm(a, b):\n    check(a, b)\n    out = multiply(a, b)\n    return out\n"
OTHER = "def other(a):\n    first(a)\n    second(a)\n    return third(a)\n"
BASE = f"import os\nfrom q import helper\n\n\n{GEMM}\n\n{OTHER}"
TUNED = GEMM.replace("    return", "    tune(out)\n    return")
LEFT = f"import os\n\n\n{OTHER}"
CLASS = (
    "class A:\n    def one(self):\n        check(self)\n        return first(self)\n\n"
    "    def two(self):\n        check(self)\n        return second(self)\n"
)


def with_gemm(gemm: str, *changes: tuple[str, str]) -> str:
    """The base with another ``gemm`` and other replacements."""
    text = BASE.replace(GEMM, gemm)
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    return text


KEY = ("import os\n", "import os\nKEY = 1\n")
CARRIED: dict[str, tuple[str, str, dict[str, str], dict[str, str]]] = {
    "a function went": (
        BASE,
        with_gemm(TUNED),
        {"p/m.py": LEFT, "p/n.py": f"import sys\n\n\n{GEMM}"},
        {"p/n.py": f"import sys\n\n\n{TUNED}"},
    ),
    "its file is gone": (
        BASE,
        with_gemm(TUNED),
        {"p/n.py": GEMM, "p/o.py": OTHER},
        {"p/n.py": TUNED},
    ),
    "with a name that it needs": (
        BASE,
        with_gemm(TUNED.replace("tune", "helper")),
        {"p/m.py": LEFT, "p/n.py": f"from q import z\n\n\n{GEMM}"},
        {"p/n.py": f"from q import helper, z\n\n\n{TUNED.replace('tune', 'helper')}"},
    ),
    "one stayed": (
        BASE,
        with_gemm(TUNED, ("second(a)", "second(a, 1)")),
        {"p/m.py": LEFT, "p/n.py": GEMM},
        {"p/m.py": LEFT.replace("second(a)", "second(a, 1)"), "p/n.py": TUNED},
    ),
    "what stands beside them goes where all of them are": (
        BASE,
        with_gemm(TUNED, KEY),
        {"p/n.py": f"import sys\n\n\n{GEMM}\n\n{OTHER}"},
        {"p/n.py": f"import sys\nKEY = 1\n\n\n{TUNED}\n\n{OTHER}"},
    ),
    "a method more": (
        CLASS,
        f"{CLASS}\n    def three(self):\n        return 3\n",
        {"p/n.py": f"import sys\n\n\n{CLASS}"},
        {"p/n.py": f"import sys\n\n\n{CLASS}\n    def three(self):\n        return 3\n"},
    ),
}
REFUSED: dict[str, tuple[str, str, dict[str, str], str]] = {
    "changed there too": (
        BASE,
        with_gemm(TUNED.replace("multiply(a, b)", "multiply(b, a)")),
        {"p/m.py": LEFT, "p/n.py": GEMM.replace("multiply(a, b)", "multiply(a, c)")},
        "`out = multiply(a, b)` is gone, which the patch changes",
    ),
    "a name that is only known where it was": (
        BASE,
        with_gemm(TUNED.replace("tune", "KEY"), ("import helper\n", "import helper\nKEY = len\n")),
        {"p/m.py": LEFT, "p/n.py": GEMM},
        "what stood around `KEY(out)` is gone: `out = multiply(a, b)`",
    ),
    "two homes, and what stands beside both": (
        BASE,
        with_gemm(TUNED, KEY, ("second(a)", "second(a, 1)")),
        {"p/n.py": GEMM, "p/o.py": OTHER},
        "`KEY = 1` has no place any more",
    ),
    "in two places": (
        BASE,
        with_gemm(TUNED),
        {"p/m.py": LEFT, "p/n.py": GEMM, "p/o.py": GEMM},
        "what stood around `tune(out)` is gone: `out = multiply(a, b)`",
    ),
    "a method that it has there, another": (
        CLASS,
        f"{CLASS}\n    def three(self):\n        return 3\n",
        {"p/n.py": f"{CLASS}\n    def three(self):\n        return 4\n"},
        "`three` was added on both sides, each its own way",
    ),
}


def _patch(base: str, theirs: str) -> bytes:
    lines = difflib.unified_diff(base.splitlines(True), theirs.splitlines(True), "a/p/m.py", "b/p/m.py")
    ids = f"{blob_id(base.encode())}..{blob_id(theirs.encode())}"
    return (f"diff --git a/p/m.py b/p/m.py\nindex {ids} 100644\n" + "".join(lines)).encode()


def _tree(files: dict[str, str]) -> MemoryTree:
    return MemoryTree({path: text.encode() for path, text in files.items()})


@pytest.mark.parametrize("name", CARRIED)
def test_carried(name: str) -> None:
    base, theirs, target, wanted = CARRIED[name]
    known = {blob_id(base.encode()): base.encode()}
    patch = parse_patch(_patch(base, theirs), "patch")
    outcome = port(patch, _tree(target), blobs=known.get)
    assert outcome.status == "moved"
    got = {path: (data or b"").decode() for path, data in outcome.files.items()}
    assert got == wanted
    assert port(patch, _tree({**target, **got}), blobs=known.get).status == "upstream"


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name: str) -> None:
    base, theirs, target, note = REFUSED[name]
    known = {blob_id(base.encode()): base.encode()}
    outcome = port(parse_patch(_patch(base, theirs), "patch"), _tree(target), blobs=known.get)
    assert outcome.status == "conflict" and not outcome.files
    assert note in [hunk.note for hunk in outcome.hunks]
