"""The past of a gate: the right commits, with as few audits as halving needs, and a real clone."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import jsonschema
import msgspec
import pytest
from sample_report import gate

from auditor.cli import groups
from auditor.cli.clickrun import run
from auditor.gates.model import Gate
from auditor.history.past import events, text_of
from auditor.reporting.pastpage import history_schema

TARGETS = ("sm_120", "sm_121")
BASE = gate("aa", "a.py", 3, "f", "cap()", "ttt", ("same", "same"))


def state(way: str) -> Gate | None:
    """``n``: no on sm_120; ``y``: yes; ``-``: no such gate."""
    if way == "-":
        return None
    return msgspec.structs.replace(BASE, truth={**BASE.truth, "sm_120": "true" if way == "y" else "false"})


def told(ways: str, every: bool = False, from_first: bool = False) -> tuple[list[tuple[int, str]], int]:
    """(state, kind) of the events along the ways, and how many states were looked at."""
    asked: list[int] = []

    def at(number: int, like: Gate) -> Gate | None:
        asked.append(number)
        return state(ways[number])

    newest = next(found for found in (state(way) for way in reversed(ways)) if found is not None)
    found = events(at, newest, len(ways), TARGETS, every=every, from_first=from_first)
    assert len(asked) == len(set(asked))
    return [(number, change.kind) for number, change in found], len(asked)


def test_halving_finds_the_commit_and_looks_at_few() -> None:
    found, looked = told("n" * 600 + "y" * 424)
    assert found == [(600, "outcome")]
    assert looked <= 12


def test_where_it_is_known_to_have_come_is_looked_at_first() -> None:
    assert told("-" + "y" * 500, from_first=True) == ([(1, "added")], 3)
    assert told("-" + "n" * 300 + "y" * 200, from_first=True)[0] == [(1, "added"), (301, "outcome")]
    assert told("---yyy", from_first=True)[0] == [(3, "added")]
    assert told("-y", from_first=True) == told("-y")


def test_what_came_and_went_is_told() -> None:
    assert told("--nnyy")[0] == [(2, "added"), (4, "outcome")]
    assert told("nny--")[0] == [(2, "outcome"), (3, "removed")]
    assert told("nnnn")[0] == []


def test_a_change_that_was_taken_back_needs_every_commit() -> None:
    assert told("nyyn")[0] == []
    assert told("nyyn", every=True)[0] == [(1, "outcome"), (3, "outcome")]


SOURCE = b"""import torch
FLAG = 1
class A:
    x = 1
    def __init__(self):
        self.y = 2
    def m(self):
        return 3
    def n(self):
        return 4
@wraps
def f():
    return 5
def g():
    return 6
"""


@pytest.mark.parametrize(
    ("old", "new", "differs"),
    [
        (b"return 3", b"return 9", True),  # the method itself
        (b"return 4", b"return 9", False),  # its neighbour
        (b"self.y = 2", b"self.y = 9", True),  # what its object is made with
        (b"x = 1\n", b"x = 9\n", True),
        (b"FLAG = 1", b"FLAG = 9", True),  # the module level may matter
        (b"return 6", b"return 9", False),
        (b"def g", b"\n\ndef g", False),
        (b"return 3", b"return (", True),  # does not parse: nothing is known
    ],
)
def test_only_what_a_symbol_is_written_in_counts(old: bytes, new: bytes, differs: bool) -> None:
    assert (text_of(SOURCE, ["A.m"]) != text_of(SOURCE.replace(old, new), ["A.m"])) is differs


def test_a_decorator_belongs_to_its_function() -> None:
    assert text_of(SOURCE, ["f"]) != text_of(SOURCE.replace(b"@wraps", b"@cache"), ["f"])
    assert text_of(SOURCE, ["A.m"]) == text_of(SOURCE.replace(b"@wraps", b"@cache"), ["A.m"])


def git(folder: Path, *words: str) -> str:
    env = {**os.environ, "GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_SYSTEM": "/dev/null"}
    who = ["-c", "user.name=a", "-c", "user.email=a@b"]
    return subprocess.run(
        ["git", *who, *words], cwd=folder, env=env, check=True, capture_output=True, text=True
    ).stdout


HELPER = "import torch\n\n\ndef cap():\n    return torch.cuda.get_device_capability()[0]\n"
USER = "from sglang.srt.utils import cap\n\n\ndef pick():\n    if cap() {}:\n        return 1\n    return 2\n"


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    root = tmp_path / "clone"
    package = root / "python" / "sglang" / "srt"
    package.mkdir(parents=True)
    (root / "python/sglang/__init__.py").write_text("")
    (root / "python/sglang/version.py").write_text("__version__ = '9.9.9'\n")
    (package / "__init__.py").write_text("")
    git(tmp_path, "init", "-q", "-b", "main", "clone")

    def commit(text: str, **files: str) -> None:
        for name, content in files.items():
            (package / f"{name}.py").write_text(content)
        git(root, "add", "-A")
        git(root, "commit", "-q", "--allow-empty", "-m", text)

    commit("Begin", utils=HELPER, user=USER.format("== 10"))
    commit("A neighbour", utils=HELPER + "\n\ndef other():\n    return 1\n")
    commit("Widen it (#12)", user=USER.format(">= 10"))
    commit("Nothing")
    commit("A comment", user="# a comment\n" + USER.format(">= 10"))
    return root


def history(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    code = run(groups.audit, "audit", ["history", *words])
    out = capsys.readouterr()
    return code, out.out, out.err


def test_the_commit_that_changed_a_gate_is_named(clone: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ("pick", "HEAD~4..HEAD", "--repo", str(clone), "--target", "sm_120,sm_121")
    code, page, _ = history(capsys, *words)
    assert code == 0
    assert "#12" in page and "Widen it" in page and "cap() == 10 → cap() >= 10" in page
    assert "sm_120 sm_121: no → yes" in page
    code, text, _ = history(capsys, *words, "--format", "json", "--every")
    data = json.loads(text)
    jsonschema.Draft202012Validator(json.loads(history_schema())).validate(data)
    assert [event["commits"][0]["pr"] for event in data["events"]] == ["12"]
    assert (data["commits"], data["touching"]) == (4, 1)


def test_without_a_range_a_short_history_is_looked_at_from_its_first_commit(
    clone: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, page, _ = history(capsys, "pick", "--repo", str(clone), "--target", "sm_120")
    assert code == 0 and "Widen it" in page and "of 4 commits" in page


def test_without_a_range_a_gate_is_followed_to_where_it_came_from(
    clone: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    package = clone / "python/sglang/srt"
    late = HELPER + "\n\ndef late():\n    if cap() == 12:\n        return 1\n    return 2\n"

    def commit(text: str, **files: str) -> None:
        for name, content in files.items():
            (package / f"{name}.py").write_text(content)
        git(clone, "add", "-A")
        git(clone, "commit", "-q", "--allow-empty", "-m", text)

    commit("It comes (#20)", utils=late)
    for number in range(3):
        commit(f"Neighbour {number}", utils=f"# {number}\n" + late)
    commit("It moves (#21)", utils=HELPER, other="from sglang.srt.utils import cap\n\n" + late[len(HELPER) :])
    commit(
        "It is widened (#22)",
        other="from sglang.srt.utils import cap\n\n" + late[len(HELPER) :].replace("== 12", ">= 10"),
    )
    code, text, err = history(
        capsys, "late", "--repo", str(clone), "--target", "sm_100,sm_120", "--format", "json"
    )
    assert code == 0, err
    data = json.loads(text)
    assert [(e["kind"], e["commits"][0]["pr"]) for e in data["events"]] == [
        ("added", "20"),
        ("outcome", "22"),
    ]
    assert data["commits"] == 6


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("pick", "HEAD..HEAD~2"), 2, "is reversed: HEAD~2 comes before HEAD"),
        (("pick", "HEAD..HEAD~2"), 2, "audit history pick HEAD~2..HEAD"),
        (("pick", "HEAD..HEAD"), 2, "is empty: both ends are"),
        (("pick", "HEAD~1..side"), 2, "does not lead to side: they are on two branches"),
        (("pick", "HEAD"), 2, "a range of commits is written A..B"),
        (("pick", "HEAD~1...HEAD"), 2, "a range of commits is written A..B"),
        (("nosuch", "HEAD~2..HEAD"), 2, "nothing in this tree is called"),
        (("pikc", "HEAD~2..HEAD"), 2, "help: audit history pick"),
        (("pick", "nosuch..HEAD"), 2, "nosuch"),
        (("pick", "0.5.18..0.5.20"), 2, "help: audit diff 0.5.18 0.5.20 "),
    ],
)
def test_wrong_ranges_and_gates(
    clone: Path, capsys: pytest.CaptureFixture[str], words: tuple[str, ...], code: int, said: str
) -> None:
    git(clone, "checkout", "-q", "-b", "side", "HEAD~2")
    git(clone, "commit", "-q", "--allow-empty", "-m", "aside")
    git(clone, "checkout", "-q", "main")
    found, _, text = history(capsys, *words, "--repo", str(clone))
    assert found == code and said in text, text


def test_the_schema_is_the_committed_one() -> None:
    path = Path(__file__).parents[2] / "reports" / "schema" / "history-1.json"
    assert path.read_bytes() == history_schema()
