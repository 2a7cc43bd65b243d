"""The miner and the scorer of ports: what counts as the same, and what makes an answer certain."""

from __future__ import annotations

import argparse
import importlib.util
import json
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

SCRIPTS = Path(__file__).resolve().parents[2] / "scripts"


def load(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, SCRIPTS / f"{name}.py")
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


score = load("port_score")
mine = load("port_cases")


@pytest.mark.parametrize(
    "got, want, verdict",
    [
        ("def f():\n  a()\n  b()\n", "def f():\n    a()  # why\n    b()\n", "right"),
        ("def f():\n  b()\n  a()\n", "def f():\n  a()\n  b()\n", "order"),
        ("def f():\n  a()\n", "def f():\n  a()\n  b()\n", "wrong"),
        ("def f():\n  a()\n  a()\n", "def f():\n  a()\n", "wrong"),
        ("b = 2\na = 1\n", "a = 1\nb = 2\n", "right"),
        ("class C:\n  b = 2\n  a = 1\n", "class C:\n  a = 1\n  b = 2\n", "right"),
        ("from m import b, a\nimport x\n", "import x\nfrom m import a\nfrom m import b\n", "right"),
        ("from m import a\nfrom m import a\n", "from m import a\n", "wrong"),
        ("def f():\n  from m import b, a\n  a()\n", "def f():\n  from m import a, b\n  a()\n", "right"),
        ("def f():\n  a()\n  import b\n", "def f():\n  import b\n  a()\n", "order"),
        ("from m import a\n", "from n import a\n", "wrong"),
        ("from .m import a\n", "from ..m import a\n", "wrong"),
        ("f(b=1, a=2)\n", "f(a=2, b=1)\n", "right"),
        ("f(2, 1)\n", "f(1, 2)\n", "order"),
        ("x = [2, 1]\n", "x = [1, 2]\n", "order"),
        ("x = {'b': 1, 'a': 2}\n", "x = {'a': 2, 'b': 1}\n", "order"),
        ("x = {'b': 2, 'a': 1}\n", "x = {'a': 2, 'b': 1}\n", "wrong"),
        ("if a:\n  x\nelif b:\n  y\n", "if b:\n  y\nelif a:\n  x\n", "wrong"),
        ("def f():\n  if a:\n    x()\n  y()\n", "def f():\n  if a:\n    x()\n    y()\n", "wrong"),
        ("x = 1\n", "x = True\n", "wrong"),
        ("x = 1\n", "x = 1.0\n", "wrong"),
        ("def f(:\n", "x = 1\n", "wrong"),
        ("class A:\n  def f(s): a()\nclass B: pass\n", "class A: pass\nclass B:\n  def f(s): a()\n", "wrong"),
    ],
)
def test_python_is_compared_by_statements(got: str, want: str, verdict: str) -> None:
    assert score.compare_python(got, want) == verdict


def test_other_files_are_compared_as_they_stand() -> None:
    assert score.compare("a.cu", b"x\ny\n", b"x\ny\n") == "right"
    assert score.compare("a.cu", b"y\nx\n", b"x\ny\n") == "order"
    assert score.compare("a.cu", b"x \ny\n", b"x\ny\n") == "wrong"
    assert score.compare("a.py", None, b"x\n") == "wrong"
    assert score.compare("a.py", None, None) == "right"


def op(a: int, b: int, *new: str) -> object:
    return mine.Op(a, b, new)


@pytest.mark.parametrize(
    "change, across, back, touches",
    [
        # The other change put two lines on top: everything is two lines higher before it.
        ([op(5, 6, "n")], [op(0, 0, "x", "y")], [(3, 4)], []),
        # Below it nothing shifts.
        ([op(1, 2, "n")], [op(4, 5)], [(1, 2)], []),
        # Directly beside.
        ([op(3, 4, "n")], [op(2, 3, "x")], [(3, 4)], [(0, False)]),
        ([op(2, 3, "n")], [op(3, 3, "x")], [(2, 3)], [(0, False)]),
        # Both insert at one place, after and before what the other inserted.
        ([op(3, 3, "n")], [op(2, 2, "x")], [(2, 2)], [(0, True)]),
        ([op(2, 2, "n")], [op(2, 2, "x")], [(2, 2)], [(0, True)]),
        # The second op touches, the first does not.
        ([op(0, 1, "n"), op(6, 7, "n")], [op(5, 6, "x")], [(0, 1), (6, 7)], [(1, False)]),
    ],
)
def test_pulled_back(change: list, across: list, back: list, touches: list) -> None:
    got = mine.pull_back(change, across)
    assert got is not None
    assert [(o.a, o.b) for o in got[0]] == back
    assert got[1] == touches


@pytest.mark.parametrize(
    "change, across",
    [
        ([op(2, 3, "n")], [op(2, 3, "x")]),  # on a line that the other made
        ([op(3, 3, "n")], [op(2, 2, "x", "y")]),  # between two lines that the other made
        ([op(2, 4, "n")], [op(3, 5)]),  # over a gap that the other left
    ],
)
def test_overlapping_changes_have_no_certain_answer(change: list, across: list) -> None:
    assert mine.pull_back(change, across) is None


def test_carrying_forward_again_gives_the_later_text() -> None:
    base = [str(i) for i in range(8)]
    x = [op(1, 2, "one"), op(4, 4, "new")]
    after_x = mine.apply_ops("\n".join(base), x)
    y = [op(2, 3, "two"), op(6, 7)]
    after_y = mine.apply_ops(after_x, y)
    early, _ = mine.pull_back(y, x)
    # y on the base, then x where y left its lines: the same text.
    assert mine.apply_ops("\n".join(base), early).split("\n") == ["0", "1", "two", "3", "4", "6", "7"]
    assert after_y.split("\n") == ["0", "one", "two", "3", "new", "4", "6", "7"]


def test_scopes() -> None:
    text = "import a\n\n\ndef f(\n    x,\n):\n    y = g(\n        k=1,\n    )\n\n\nclass C:\n    z = 1\n"
    tree = mine.parses(text)
    where = {line: mine.scope_of(tree, line, line + 1) for line in (0, 2, 4, 6, 7, 12)}
    assert where == {0: "import", 2: "module", 4: "literal", 6: "function", 7: "literal", 12: "class"}


@pytest.fixture
def history(tmp_path: Path) -> tuple[Path, list[str]]:
    """Three commits: a start, an insertion beside, and a change that is to be carried."""
    repo = tmp_path / "clone"

    def git(*args: str) -> str:
        who = ["-c", "user.name=n", "-c", "user.email=e", "-c", "core.hooksPath=/dev/null"]
        done = subprocess.run(["git", *who, *args], cwd=repo, stdout=subprocess.PIPE, check=True, text=True)
        return done.stdout.strip()

    repo.mkdir()
    git("init", "-q", "-b", "main")
    commits = []
    for text in ("a = 1\nb = 2\nc = 3\n", "a = 1\nx = 9\nb = 2\nc = 3\n", "a = 1\nx = 9\nb = 5\nc = 3\n"):
        (repo / "m.py").write_text(text)
        git("add", "m.py")
        git("commit", "-q", "-m", f"step {len(commits)}")
        commits.append(git("rev-parse", "HEAD"))
    return repo, commits


def test_a_commuted_case_from_history_and_its_verdicts(
    history: tuple[Path, list[str]], tmp_path: Path
) -> None:
    repo, commits = history
    miner = mine.Miner(mine.Repo(str(repo), tmp_path / "scratch"), tmp_path / "cases", 50, 1)
    (older, state), *_ = miner.steps_back(2, 900)
    kind = miner.kind_of(2, state)
    assert kind == "commute-beside-module"
    assert miner.commute(kind, 2, older, state)
    (case,) = (tmp_path / "cases").iterdir()
    meta = json.loads((case / "meta.json").read_text())
    assert (meta["class"], meta["base"], meta["target"], meta["distance"]) == ("conflict", *commits[:2], 1)
    patch = (case / "patch").read_text()
    assert "-b = 2\n+b = 5\n" in patch and "x = 9" not in patch

    tree = score.WorkTree(str(repo), tmp_path / "work")
    for text, code, word in (
        ("a = 1\nx = 9\nb = 5\nc = 3\n", 0, "right"),
        ("x = 9\na = 1\nb = 5\nc = 3\n", 11, "right"),
        ("a = 1\nb = 5\nc = 3\n", 0, "wrong"),
        ("a = 1\nx = 9\nb = 2\nc = 3\n", 3, "refused"),
        ("a = 1\nx = 9\nb = 5\nc = 3\n", 3, "wrong"),  # refused, yet changed
        ("a = 1\nx = 9\nb = 2\nc = 3\n", 10, "wrong"),  # a false claim
        ("a = 1\nx = 9\nb = 2\nc = 3\n", 0, "wrong"),  # and a silent one
        ("a = 1\nx = 9\nb = 2\nc = 3\n", 4, "failed"),
    ):
        tree.put(meta["target"])
        (tree.root / "m.py").write_text(text)
        assert score.judge(meta, code, tree)[0] == word, (text, code)
    tree.put(meta["target"])
    (tree.root / "m.py").write_text("a = 1\nx = 9\nb = 5\nc = 3\n")
    (tree.root / "m.py.orig").write_text("left behind\n")
    assert score.judge(meta, 0, tree)[0] == "wrong"

    for tool, word in (("git-apply", "refused"), ("cherry-pick", "refused"), ("git-apply-3", "refused")):
        args = argparse.Namespace(repo=str(repo), work=tmp_path / "work", tool=tool, verbose=False)
        (verdict,) = score.run_cases(args, [case])
        assert verdict.word == word, tool


def test_claims_of_upstream_are_judged(history: tuple[Path, list[str]], tmp_path: Path) -> None:
    repo, commits = history
    tree = score.WorkTree(str(repo), tmp_path / "work")
    for expect, code, word in (
        ("upstream", 10, "right"),
        ("upstream", 0, "right"),  # nothing was changed
        ("upstream", 3, "refused"),
        ("not-upstream", 10, "wrong"),
        ("not-upstream", 0, "wrong"),
        ("not-upstream", 3, "right"),
    ):
        tree.put(commits[2])
        assert score.judge({"expect": expect}, code, tree)[0] == word, (expect, code)
    (tree.root / "m.py").write_text("other\n")
    assert score.judge({"expect": "upstream"}, 0, tree)[0] == "wrong"


def test_lines_are_followed_to_the_target(history: tuple[Path, list[str]], tmp_path: Path) -> None:
    repo, _ = history
    miner = mine.Miner(mine.Repo(str(repo), tmp_path / "scratch"), tmp_path / "cases", 50, 1)
    assert miner.alive(miner.line[1], 1, 2) == 1.0  # the insertion is still there
    assert miner.alive(miner.line[0], 0, 2) == pytest.approx(2 / 3)  # one of three lines was replaced
