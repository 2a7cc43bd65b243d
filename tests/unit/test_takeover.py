"""A report that is taken over for a tree has the bytes of a cold run, whatever was changed."""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from auditor.cli.source import _decoded, _encoded
from auditor.gates.cache import Asked, kept_report
from auditor.program.same import Different, Moved
from auditor.trees.base import SourceTree
from auditor.trees.folder import FolderTree
from auditor.trees.overlay import OverlayTree

ASKED = Asked(("sm_120", "sm_121"), "sm_100", {}, False, "sglang")
#: Random changes that are tried; more of them on demand.
SEEDS = int(os.environ.get("SGLANG_AUDITOR_SEEDS", "12"))
CARDS = """import torch
from functools import lru_cache

LIMIT = 12


@lru_cache
def is_new():
    return torch.cuda.get_device_capability()[0] >= LIMIT


def is_old():
    return not is_new()


def name_of(card):
    return card.name
"""
FILLER = "".join(
    f"    def step_{i}(self, batch):\n        # what is done in step {i}\n        rows = batch.rows + {i}\n"
    f"        self.last_{i} = rows\n        return rows\n\n"
    for i in range(14)
)
WORKER = f'''"""Work."""

import os
from dataclasses import dataclass
from typing import Optional

from sglang.srt.cards import is_new, is_old

BLOCK = 64 if is_new() else 128
TABLE = {{"a": 1}}
SIZE = helper(64) if is_new() else 128
KIND = Base(None).kind() if is_new() else ""


@dataclass
class Options:
    """Options."""

    backend: str = "auto"
    size: Optional[int] = None


def helper(x):
    return x + 1


class Base:
    """A worker."""

    wide = False

    def __init__(self, options):
        self.options = options
        self.fast = is_new()
        self.rows = 0

{FILLER}    def kind(self):
        return "base"

    def run(self, batch):
        if self.fast:
            return self.step_1(batch)
        assert is_old(), self.kind()
        return os.getpid()


# behind the class


def pick(options: Options):
    worker = Base(options)
    if is_new() and options.backend == "auto":
        return worker.kind()
    if worker.wide:
        return None
    return helper(options.size)


def unrelated(y):
    return y * 2
'''
CHILD = """from sglang.srt.worker import Base, pick


class Child(Base):
    def extra(self):
        return 1


def use(options):
    return pick(options)
"""
FILES = {
    "version.py": "__version__ = '0.5.0'\n",
    "__init__.py": "",
    "srt/__init__.py": "",
    "srt/cards.py": CARDS,
    "srt/worker.py": WORKER,
    "srt/child.py": CHILD,
    "srt/other.py": "def work(x):\n    return x + 1\n",
}


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SourceTree]:
    """The tree whose report is there."""
    folder = tmp_path_factory.mktemp("tree")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SGLANG_AUDITOR_CACHE_DIR", str(folder / "cache"))
        for name, text in FILES.items():
            path = folder / "python" / "sglang" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        tree = FolderTree(folder / "python")
        report(tree)
        yield tree


def report(tree: SourceTree, asked: Asked = ASKED) -> bytes:
    return kept_report(tree, asked, encode=_encoded, decode=_decoded)


def changed(base: SourceTree, **files: str | None) -> SourceTree:
    """The tree with some files changed; names say ``srt__other`` for ``srt/other.py``."""
    data = {f"sglang/{n.replace('__', '/', 1)}.py": t for n, t in files.items()}
    return OverlayTree(base, {n: t.encode() if t is not None else None for n, t in data.items()})


def worker(*edits: tuple[str, str]) -> dict[str, str | None]:
    return {"srt__worker": edited(WORKER, *edits)}


def edited(text: str, *edits: tuple[str, str]) -> str:
    for old, new in edits:
        assert text.count(old) == 1, old
        text = text.replace(old, new)
    return text


UNRELATED = "def unrelated(y):\n    return y * 2\n"
TAKEN: dict[str, dict[str, str | None]] = {
    "a function that nobody looked at": worker(("return y * 2", "return y * 3")),
    "lines move": worker(
        (UNRELATED, ""), ("def helper(x):", "def fresh(y):\n    return y\n\n\ndef helper(x):")
    ),
    "a method that nobody called": worker(
        ("rows = batch.rows + 3\n", "rows = batch.rows\n        rows += 3\n")
    ),
    "a new method": worker(
        ("    def kind(self):", "    def brand_new(self):\n        return 1\n\n    def kind(self):")
    ),
    "a method that goes": worker(
        (
            "    def step_5(self, batch):\n        # what is done in step 5\n        rows = batch.rows + 5\n"
            "        self.last_5 = rows\n        return rows\n\n",
            "",
        )
    ),
    "an import that nobody needs": worker(("import os\n", "import json\nimport os\n")),
    "an import for types": worker(
        (
            "from typing import Optional\n",
            "from typing import TYPE_CHECKING, Optional\n\n"
            "if TYPE_CHECKING:\n    from sglang.srt.other import work\n",
        )
    ),
    "a name that nobody reads": worker(("TABLE = ", "OTHER = helper(3)\nTABLE = ")),
    "a line before what others read": {
        "srt__cards": edited(CARDS, ("def is_old", "def fresh():\n    return 1\n\n\ndef is_old"))
    },
    "a comment": worker(("# behind the class\n", "# behind the class, and\n# more of it\n")),
    "a docstring": worker(('"""Work."""\n', '"""Work.\n\nMore.\n"""\n')),
    "a file": {"srt__other": "def work(x):\n    return x + 2\n"},
    "a file more": {"srt__fresh": "class Fresh:\n    pass\n"},
    "a file less": {"srt__other": None},
    "a child's method": {"srt__child": edited(CHILD, ("return 1", "return 2"))},
}
ANEW: dict[str, dict[str, str | None]] = {
    "a gate": worker(('options.backend == "auto"', 'options.backend == "triton"')),
    "a function that was called": worker(("return x + 1", "return x + 2")),
    "a method that was called": worker(('return "base"', 'return "best"')),
    "a constant": {"srt__cards": edited(CARDS, ("LIMIT = 12", "LIMIT = 10"))},
    "a function that asks": worker(("return y * 2", "return y * 2 if is_new() else y")),
    "an attribute that somebody reads": worker(("self.last_3 = rows", "self.fast = rows")),
    "a class of interest has a child more": {
        "srt__other": "from sglang.srt.worker import Base\n\n\n"
        "class Late(Base):\n    def kind(self):\n        return 2\n"
    },
    "a child overrides what is called": {"srt__child": edited(CHILD, ("def extra", "def kind"))},
    "a name that hides an import": worker((UNRELATED, UNRELATED + "\n\ndef is_old():\n    return True\n")),
    "a name that somebody reads": worker((UNRELATED, UNRELATED + "\n\ndef helper(x):\n    return 1\n")),
    "what an import brings": worker(
        ("import is_new, is_old", "import is_new\nfrom sglang.srt.other import is_old")
    ),
    "order": worker(
        ("BLOCK = 64 if is_new() else 128\n", "BLOCK = 64 if is_new() else 128\nBLOCK = BLOCK\n")
    ),
    "a class attribute": worker(("    wide = False\n", "    wide = True\n")),
    "a method that is looked up": worker(
        ("    def kind(self):", "    def fast(self):\n        return 1\n\n    def kind(self):")
    ),
}


@pytest.mark.parametrize("what", TAKEN)
def test_what_nobody_looked_at_changes_nothing(base: SourceTree, evaluated: list[str], what: str) -> None:
    tree = changed(base, **TAKEN[what])
    found = report(tree)
    assert not evaluated
    assert found == report(tree, ASKED._replace(use_cache=False))


@pytest.mark.parametrize("what", ANEW)
def test_what_was_looked_at_is_evaluated_anew(
    base: SourceTree, evaluated: list[str], what: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tree = changed(base, **ANEW[what])
    found = report(tree)
    assert len(evaluated) == 1
    assert found == report(tree, ASKED._replace(use_cache=False))


def test_lines_move_in_the_report(base: SourceTree) -> None:
    before, after = (
        [(gate.symbol, gate.line) for gate in _decoded(report(tree)).gates]
        for tree in (base, changed(base, **TAKEN["lines move"]))
    )
    assert [symbol for symbol, _ in before] == [symbol for symbol, _ in after]
    down = {symbol: now - line for (symbol, line), (_, now) in zip(before, after, strict=True)}
    assert (down["pick"], down["Base.run"], down[""]) == (4, 4, 0)


def test_a_line_that_nobody_saw_is_not_guessed() -> None:
    moved = Moved()
    moved.add(10, 12, 14)
    assert (moved.line(10), moved.line(12), moved.line(1)) == (14, 16, 1)
    with pytest.raises(Different):
        moved.line(13)


def _mutated(rng: random.Random) -> dict[str, str | None]:
    """Some changes of some files, most of which parse."""
    files: dict[str, str | None] = {}
    for _ in range(rng.randint(1, 3)):
        name = rng.choice(["srt__worker", "srt__worker", "srt__cards", "srt__child", "srt__other"])
        text = files.get(name) or FILES[name.replace("__", "/", 1) + ".py"]
        lines = text.split("\n")
        heads = [i for i, line in enumerate(lines) if line.lstrip().startswith(("def ", "class "))]
        if not heads:
            continue
        at = rng.choice(heads)
        width = len(lines[at]) - len(lines[at].lstrip())
        kind = rng.randint(0, 8)
        if kind == 0:  # a function before another
            lines[at:at] = [
                " " * width + f"def fresh_{rng.randint(0, 2)}(*a):",
                " " * width + "    return 1",
                "",
            ]
        elif kind == 1:  # a word for another
            word = rng.choice(
                ["rows", "return", "x", "is_new", "options", "12", "self.fast", "kind", "helper"]
            )
            lines = text.replace(word, rng.choice(["rows", "x", "is_old", "options"]), 1).split("\n")
        elif kind == 2:
            lines.insert(at, " " * width + "# a comment")
        elif kind == 3:
            lines.insert(
                0, rng.choice(["import json", "from sglang.srt.cards import is_old as no", "import torch"])
            )
        elif kind == 4:
            lines += [
                "",
                f"class More{rng.randint(0, 1)}({rng.choice(['Base', 'object'])}):",
                "    wide = True",
                "",
            ]
        elif kind == 5:
            lines.insert(
                rng.choice(heads), f"{rng.choice(['BLOCK', 'FRESH', 'LIMIT'])} = {rng.randint(1, 20)}"
            )
        elif kind == 6:  # a statement more in a body
            lines.insert(
                at + 1, " " * (width + 4) + rng.choice(["pass", "x = 1", "global TABLE", "self.fast = 0"])
            )
        elif kind == 7:  # a definition goes
            end = next((h for h in heads if h > at), len(lines))
            del lines[at:end]
        else:  # and one moves
            end = next((h for h in heads if h > at), len(lines))
            lines += lines[at:end]
            del lines[at:end]
        files[name] = "\n".join(lines) + "\n"
    return files


@pytest.mark.parametrize("seed", range(SEEDS))
def test_any_change_gives_the_bytes_of_a_cold_run(base: SourceTree, seed: int) -> None:
    tree = changed(base, **_mutated(random.Random(seed)))
    assert report(tree) == report(tree, ASKED._replace(use_cache=False))
