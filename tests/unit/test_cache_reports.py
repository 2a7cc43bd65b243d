"""Reports that are kept give the bytes of a cold run, and are only taken over where they may be."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from auditor.cli.source import _decoded, _encoded
from auditor.gates.cache import Asked, Kept, kept_report
from auditor.program.nodes import children, walk
from auditor.program.words import Words, has_word
from auditor.trees.base import SourceTree
from auditor.trees.open import TreeSpec, open_tree

FILES = {
    "version.py": "__version__ = '0.5.0'\n",
    "__init__.py": "",
    "srt/__init__.py": "",
    "srt/cards.py": (
        "import torch\n\n\ndef is_new():\n    return torch.cuda.get_device_capability()[0] >= 12\n\n\n"
        "class Base:\n    def ok(self):\n        return is_new()\n"
    ),
    "srt/user.py": (
        "from sglang.srt.cards import Base, is_new\n\n\n"
        "def pick(thing: Base):\n    if is_new():\n        return 'a'\n    return thing.ok()\n"
    ),
    "srt/optional.py": (
        "from sglang.srt.cards import is_new\n\ntry:\n    from sglang.srt.maybe import fast\n"
        "except ImportError:\n    fast = None\n\nCHOICE = fast if is_new() else None\n"
    ),
    "srt/other.py": "def work(x):\n    return x + 1\n",
}
SUBCLASS = """from sglang.srt.cards import Base


class Mine(Base):
    def ok(self):
        return 1
"""
ASKED = Asked(("sm_120", "sm_121"), "sm_100", {}, False, "sglang")


@pytest.fixture(autouse=True)
def cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("SGLANG_AUDITOR_CACHE_DIR", str(tmp_path / "cache"))


def project(folder: Path, **changes: str | None) -> SourceTree:
    """The small project with some files changed; names say ``srt__other`` for ``srt/other.py``."""
    files: dict[str, str | None] = dict(FILES)
    files.update({name.replace("__", "/", 1) + ".py": text for name, text in changes.items()})
    for name, text in files.items():
        path = folder / "python" / "sglang" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if text is not None:
            path.write_text(text)
    (folder / "python" / "pyproject.toml").write_text("[project]\nname = 'sglang'\n")
    return open_tree(
        TreeSpec(path=str(folder)),
        distribution="sglang",
        default_url="",
        source_roots=("python", ""),
        marker=["python/sglang/version.py"],
    )


def report(tree: SourceTree, asked: Asked = ASKED) -> bytes:
    return kept_report(tree, asked, encode=_encoded, decode=_decoded)


def cold(tree: SourceTree) -> bytes:
    return report(tree, ASKED._replace(use_cache=False))


def test_the_second_answer_is_the_first(tmp_path: Path, evaluated: list[str]) -> None:
    tree = project(tmp_path / "a")
    want = cold(tree)
    assert b'"kind":"if"' in want
    assert [report(tree), report(tree)] == [want, want]
    assert len(evaluated) == 2  # the cold one, and the one that filled the cache


@pytest.mark.parametrize(
    "asked",
    [
        ASKED._replace(targets=("sm_120",)),
        ASKED._replace(reference="sm_90"),
        ASKED._replace(assumptions={"cuda": "12.8"}),
        ASKED._replace(defaults=True),
    ],
)
def test_other_options_are_another_question(tmp_path: Path, evaluated: list[str], asked: Asked) -> None:
    tree = project(tmp_path / "a")
    report(tree)
    assert report(tree, asked) == report(tree, asked._replace(use_cache=False))
    assert len(evaluated) == 3


def test_a_damaged_entry_is_a_miss(tmp_path: Path) -> None:
    tree = project(tmp_path / "a")
    want = report(tree)
    for entry in (tmp_path / "cache" / "reports").rglob("*"):
        if entry.is_file():
            entry.write_bytes(entry.read_bytes()[:-3] + b"xyz")
    assert report(tree) == want


TAKEN_OVER: list[dict[str, str | None]] = [
    {"srt__user": FILES["srt/user.py"] + "\n\nX = 1\n"},
    {"srt__other": "def work(x):\n    return x + 2\n"},
    {"srt__other": None},
    {"srt__brand_new": "class Fresh:\n    pass\n"},
    {"srt__other": "from sglang.srt.cards import nothing_learned\n"},
]
ANEW: list[dict[str, str | None]] = [
    {"srt__user": FILES["srt/user.py"].replace("'a'", "'b'")},  # it was read
    {"srt__other": "import torch\n\nNEW = torch.cuda.get_device_capability()[0] >= 9\n"},  # it asks the GPU
    {"srt__other": "from sglang.srt.cards import is_new\n\nif is_new():\n    X = 1\n"},  # learned name
    {"srt__other": "from sglang.srt import cards\n\n\ndef f():\n    if cards.is_new():\n        return 1\n"},
    {"srt__other": "from sglang.srt.cards import *\n\n\ndef f():\n    if is_new():\n        return 1\n"},
    {"srt__maybe": "def fast():\n    return 1\n"},  # a module that was looked for and not there
    {"srt__other": SUBCLASS},
    {"srt__cards": FILES["srt/cards.py"].replace("12", "10")},
    {"srt__user": None},
]


@pytest.mark.parametrize("changes", TAKEN_OVER)
def test_a_change_beside_the_question_changes_nothing(
    tmp_path: Path, evaluated: list[str], changes: dict[str, str | None]
) -> None:
    report(project(tmp_path / "a"))
    other = project(tmp_path / "b", **changes)
    assert report(other) == cold(other)
    assert len(evaluated) == 2  # the first tree, and the cold run


@pytest.mark.parametrize("changes", ANEW)
def test_a_change_that_matters_is_evaluated(
    tmp_path: Path, evaluated: list[str], changes: dict[str, str | None]
) -> None:
    report(project(tmp_path / "a"))
    other = project(tmp_path / "b", **changes)
    assert report(other) == cold(other)
    assert len(evaluated) == 3


def test_what_was_taken_over_is_kept(tmp_path: Path, evaluated: list[str]) -> None:
    report(project(tmp_path / "a"))
    other = project(tmp_path / "b", **TAKEN_OVER[0])
    want = report(other)
    assert Kept(ASKED).get(other.info()) == want
    assert len(evaluated) == 1


@given(st.text("ab_1 .é\n", max_size=30), st.sampled_from(["a", "ab", "a1", "a.b", "b a", "_a"]))
def test_whole_words_are_those_of_regular_expressions(text: str, word: str) -> None:
    want = re.search(rf"\b{re.escape(word)}\b", text) is not None
    assert has_word(text, word) == want
    assert Words([word]).search(text) == want
    many = [word, *(f"zz{i}" for i in range(20))]
    assert Words(many).search(text) == want


def test_walking_meets_the_nodes_that_ast_walk_meets() -> None:
    tree = ast.parse(Path(__file__).read_text())
    small = (ast.expr_context, ast.operator, ast.unaryop, ast.boolop)
    assert {id(n) for n in walk(tree)} == {id(n) for n in ast.walk(tree) if not isinstance(n, small)}
    for node in ast.walk(tree):
        assert children(node) == [n for n in ast.iter_child_nodes(node) if not isinstance(n, small)]
