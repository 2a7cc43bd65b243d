"""Sweeps over small repositories: what a line says, what is remembered, and what stops one."""

from __future__ import annotations

import contextlib
import json
import os
import random
import subprocess
import sys
from pathlib import Path

import pytest

from auditor.cli.groups import audit as audit_group
from auditor.errors import UserError
from auditor.history.sweeping.extract import Words
from auditor.history.sweeping.model import CommitLine, Head
from auditor.history.sweeping.pieces import Reader, Unreadable
from auditor.history.sweeping.quick import Quick
from auditor.history.sweeping.sweep import quick_lines, read_head
from auditor.profile import load_profile
from auditor.trees.commit import parse_tree_listing
from auditor.trees.git import GitRepo
from auditor.trees.steps import Line, first_parents, steps_of

ROOT = Path(__file__).parents[2]
_NAMED = {
    "GIT_AUTHOR_NAME": "N",
    "GIT_AUTHOR_EMAIL": "n@localhost",
    "GIT_COMMITTER_NAME": "N",
    "GIT_COMMITTER_EMAIL": "n@localhost",
    "GIT_CONFIG_GLOBAL": "/dev/null",
    "GIT_CONFIG_SYSTEM": "/dev/null",
}
HELPERS = """\
import torch


def is_there():
    return torch.cuda.is_available()


def is_newest():
    return is_there() and torch.cuda.get_device_capability()[0] == 12


_large = torch.cuda.get_device_capability() >= (10, 0)
"""
USER = """\
from sglang.helpers import is_newest


class Layer:
    def __init__(self, size):
        self.fast = is_newest() and size > 4

    def forward(self, x):
        if is_newest():
            return fast(x)
        elif self.fast:
            return slow(x)
        return x
"""


class Made:
    """A repository that a test fills."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.day = 0
        self.git("init", "-q", "-b", "main")
        self.write("python/sglang/version.py", '__version__ = "1"\n')

    def git(self, *words: str) -> str:
        day = f"2026-01-{self.day + 1:02d}T00:00:00+0000"
        env = {**os.environ, **_NAMED, "GIT_AUTHOR_DATE": day, "GIT_COMMITTER_DATE": day}
        done = subprocess.run(
            ["git", "-C", str(self.folder), *words], env=env, capture_output=True, text=True, check=True
        )
        return done.stdout.strip()

    def write(self, path: str, text: str) -> None:
        file = self.folder / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)

    def commit(self, subject: str = "change", **files: str) -> str:
        for name, text in files.items():
            self.write(f"python/sglang/{name}.py", text)
        self.git("add", "-A")
        self.git("commit", "-q", "--allow-empty", "-m", subject)
        self.day = min(self.day + 1, 27)
        return self.git("rev-parse", "HEAD")


@pytest.fixture
def made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Made:
    monkeypatch.setenv("SGLANG_AUDITOR_CACHE_DIR", str(tmp_path / "cache"))
    folder = tmp_path / "clone"
    folder.mkdir()
    return Made(folder)


def audit(*words: str) -> int:
    code = audit_group.main(args=list(words), prog_name="audit", standalone_mode=False)
    return int(code or 0)


def swept(made: Made, span: str, *words: str, output: Path) -> tuple[Head, list[CommitLine]]:
    import msgspec

    assert audit("sweep", span, "--repo", str(made.folder), "--output", str(output), "-q", *words) == 0
    lines = output.read_bytes().splitlines()
    return read_head(lines[0], "f"), [msgspec.json.decode(line, type=CommitLine) for line in lines[1:]]


def history(made: Made) -> list[str]:
    """Five commits: helpers, a user, the user moved, a helper that means something else, an empty one."""
    out = [made.commit("start", helpers=HELPERS)]
    out.append(made.commit("a layer (#12)", layer=USER))
    made.git("mv", "python/sglang/layer.py", "python/sglang/block.py")
    out.append(made.commit("moved"))
    out.append(made.commit("other (#13)", helpers=HELPERS.replace("== 12", "== 10")))
    out.append(made.commit("nothing"))
    return out


def test_lines_say_what_each_commit_did(made: Made, tmp_path: Path) -> None:
    oids = history(made)
    head, lines = swept(made, f"{oids[0]}..main", output=tmp_path / "s.jsonl")
    assert set(head.setup.vocabulary) >= {"is_newest", "_large"}
    assert head.setup.vendor["is_there()"] is True
    assert [line.commit for line in lines] == oids[1:]
    assert [line.pr for line in lines] == ["12", "", "13", ""]
    # is_newest's own answer and _large, then the test, the elif and the attribute of the layer
    assert [line.gates for line in lines] == [5, 5, 5, 5]
    assert [c.kind for c in lines[0].changes] == ["added"] * 3
    assert lines[1].changes == () and lines[1].moved == 3
    assert {c.kind for c in lines[2].changes} == {"changed", "added", "removed"}
    test = next(c for c in lines[2].changes if c.gate.kind == "if")
    assert test.before == {"sm_120": "true", "sm_100": "false"}
    assert test.after == {"sm_120": "false", "sm_100": "true"}
    assert lines[3].changes == () and lines[3].moved == 0
    assert lines[2].targets["sm_120"] == lines[3].targets["sm_120"]


def test_a_tree_alone_gives_what_the_commits_before_it_led_to(made: Made, tmp_path: Path) -> None:
    oids = history(made)
    head, lines = swept(made, f"{oids[0]}..main", output=tmp_path / "s.jsonl")
    repo = GitRepo.find(made.folder)
    assert repo is not None
    profile = load_profile("sglang")
    for line in lines:
        alone = Quick(head.setup, profile, lambda ids: repo.read_objects(list(ids)), memo=False)
        alone.load(parse_tree_listing(repo.list_tree(repo.commit(line.commit).tree)))
        counts = alone.counts()
        assert counts.gates == line.gates
        assert {n: {"differs": a, "undecided": b} for n, (a, b) in counts.targets.items()} == line.targets


_BITS = (
    "def f{n}(x):\n    if is_newest() and x > {n}:\n        return {n}\n    return is_newest()\n",
    "class C{n}(Base):\n    '''doc'''\n\n    def a(self):\n        y = 1 if _large else {n}\n\n"
    "    @property\n    def b(self):\n        return self.c\n\n    # note\n"
    "    def c(self, q=(1,\n2)):\n        assert is_newest()\n" + "        # padding of a long class\n" * 40,
    'TEXT{n} = """\ndef is_newest():\n    pass\n"""\n',
    "x{n} = {{\n    'a': is_newest(),\n}}\n",
    "@deco(\n    {n}\n)\n@other\ndef g{n}():\n    major, minor = torch.cuda.get_device_capability()\n"
    "    if major >= 9:\n        return f(use=_large)\n    elif _large:\n        pass\n"
    "    else:\n        raise E\n",
    "if _large:\n    z{n} = {n}\nelse:\n    z{n} = is_newest()\n",
    "try:\n    import a{n}\nexcept ImportError:\n    a{n} = is_newest()\nfinally:\n    pass\n",
    "y{n} = 3 + \\\n  _large\n",
    "# only words {n}\n",
    "def h{n}():\n    s = '''\nis_newest text\n'''\n    return s if _large else {n}\n",
)


def test_what_is_remembered_changes_nothing() -> None:
    """Random edits of a file: the memory of pieces gives what reading it whole gives."""
    chance = random.Random(20261130)
    words = Words({"is_newest", "_large"})
    kept = Reader(words)
    bits = [chance.choice(_BITS).format(n=n) for n in range(8)]
    broken = 0
    for number in range(120):
        at = chance.randrange(len(bits))
        what = chance.random()
        if what < 0.4:
            bits[at] = chance.choice(_BITS).format(n=number)
        elif what < 0.6:
            bits.insert(at, chance.choice(_BITS).format(n=number))
        elif what < 0.8 and len(bits) > 3:
            del bits[at]
        text = "\n".join(bits)
        if what > 0.8:  # a line goes, wherever it is
            rows = text.split("\n")
            del rows[chance.randrange(len(rows))]
            text = "\n".join(rows)
        data = text.encode()
        try:
            whole = Reader(words, memo=False).facts(data)
        except Unreadable:
            broken += (
                1  # what is broken where no predicate is mentioned goes unnoticed, but never stops a run
            )
            with contextlib.suppress(Unreadable):
                kept.facts(data)
            continue
        assert kept.facts(data) == whole
    assert 3 < broken < 50


def test_a_second_run_goes_on_and_a_cut_line_is_made_again(made: Made, tmp_path: Path) -> None:
    oids = history(made)
    whole = tmp_path / "whole.jsonl"
    swept(made, f"{oids[0]}..main", output=whole)
    lines = whole.read_bytes().splitlines(keepends=True)
    for kept in (b"".join(lines[:3]), b"".join(lines[:3]) + lines[3][:20], b"".join(lines[:3]) + b"{}\n"):
        part = tmp_path / "part.jsonl"
        part.write_bytes(kept)
        swept(made, f"{oids[0]}..main", output=part)
        assert part.read_bytes() == whole.read_bytes()


_KILLED = """
import os, signal, sys
from auditor.trees import lines
real = lines.LineFile.append
count = 0

def append(self, line):
    global count
    count += 1
    if count == 4:
        self._file.write(line[:30])
        self._file.flush()
        os.kill(os.getpid(), signal.SIGKILL)
    real(self, line)

lines.LineFile.append = append
from auditor.cli.main import audit
sys.exit(audit())
"""


def test_a_killed_run_loses_the_line_in_work_alone(made: Made, tmp_path: Path) -> None:
    oids = history(made)
    whole, part = tmp_path / "whole.jsonl", tmp_path / "part.jsonl"
    swept(made, f"{oids[0]}..main", output=whole)
    words = ["sweep", f"{oids[0]}..main", "--repo", str(made.folder), "--output", str(part)]
    done = subprocess.run([sys.executable, "-c", _KILLED, *words], check=False, cwd=ROOT)
    assert done.returncode == -9
    lines = whole.read_bytes().splitlines(keepends=True)
    assert part.read_bytes() == b"".join(lines[:3]) + lines[3][:30]
    swept(made, f"{oids[0]}..main", output=part)
    assert part.read_bytes() == whole.read_bytes()


def test_several_processes_give_the_same_bytes(made: Made, tmp_path: Path) -> None:
    oids = history(made)
    swept(made, f"{oids[0]}..main", output=tmp_path / "one.jsonl")
    swept(made, f"{oids[0]}..main", "--jobs", "2", output=tmp_path / "two.jsonl")
    assert (tmp_path / "one.jsonl").read_bytes() == (tmp_path / "two.jsonl").read_bytes()


def test_all_begins_with_the_first_commit(made: Made, tmp_path: Path) -> None:
    oids = history(made)
    output = tmp_path / "all.jsonl"
    assert audit("sweep", "--all", "--repo", str(made.folder), "--output", str(output), "-q") == 0
    lines = [json.loads(line) for line in output.read_bytes().splitlines()]
    assert [line["commit"] for line in lines[1:]] == oids
    assert lines[0]["first"] == "" and lines[1]["gates"] == 2


CIRCLES = """\
import torch

_kept = None


class Arch:
    major: int
    minor: int


def _first():
    global _kept
    major, minor = torch.cuda.get_device_capability()
    _kept = Arch(major, minor)


def arch_now():
    _first()
    return _kept


def other(value):
    global _kept
    old = arch_now()
    _kept = old


def is_large():
    return arch_now().major >= 10


def loop(n):
    return loop(n - 1) or is_large()


def first_of(n):
    return second_of(n) and is_large()


def second_of(n):
    return first_of(n) or is_large()
"""


def test_names_that_stand_on_themselves(made: Made, tmp_path: Path) -> None:
    """A value that is kept and put back is what it was made as; functions in a circle end, and are open."""
    first = made.commit("start", helpers=HELPERS)
    made.commit(
        "circles", arch=CIRCLES, user="from sglang.arch import is_large\nx = 1 if is_large() else 2\n"
    )
    made.commit("uses", user="from sglang.arch import first_of\nif first_of(3):\n    y = 1\n")
    _, lines = swept(made, f"{first}..main", "--against", "sm_90", output=tmp_path / "s.jsonl")
    chosen = next(c for c in lines[0].changes if c.gate.path.endswith("user.py"))
    assert (chosen.gate.kind, chosen.after) == ("ifexp", {"sm_120": "true", "sm_90": "false"})
    asked = [c.after for c in lines[1].changes if c.gate.kind == "if"]
    assert asked == [{"sm_120": "true", "sm_90": "false"}]


def test_merges_count_as_what_they_brought(made: Made) -> None:
    first = made.commit("start", helpers=HELPERS)
    made.git("checkout", "-q", "-b", "side")
    made.commit("on the side", layer=USER)
    made.git("checkout", "-q", "main")
    made.commit("on main", other="x = 1\n")
    made.git("merge", "-q", "--no-ff", "-m", "merge (#7)", "side")
    made.git("revert", "-m", "1", "--no-edit", "HEAD")
    repo = GitRepo.find(made.folder)
    assert repo is not None
    steps = steps_of(repo, first_parents(repo, f"{first}..main"), ["python/sglang"])
    assert [step.entry.subject.split()[0] for step in steps] == ["on", "merge", "Revert"]
    assert [[path for path, _ in step.changes] for step in steps] == [
        ["python/sglang/other.py"],
        ["python/sglang/layer.py"],
        ["python/sglang/layer.py"],
    ]
    assert steps[2].changes[0][1] == ""


@pytest.mark.parametrize("span", ["main..main", "main", "main..main~2", "a...b", "side..main"])
def test_a_range_that_is_none_is_refused(made: Made, span: str) -> None:
    history(made)
    made.git("checkout", "-q", "--orphan", "side")
    made.commit("alone")
    made.git("checkout", "-q", "main")
    repo = GitRepo.find(made.folder)
    assert repo is not None
    with pytest.raises(UserError) as caught:
        first_parents(repo, span)
    assert caught.value.code == "H020"


def test_a_shallow_clone_without_the_base_says_how_to_get_it(made: Made, tmp_path: Path) -> None:
    oids = history(made)
    made.git("clone", "-q", "--depth", "2", f"file://{made.folder}", str(tmp_path / "shallow"))
    repo = GitRepo.find(tmp_path / "shallow")
    assert repo is not None
    with pytest.raises(UserError) as caught:
        first_parents(repo, f"{oids[0][:12]}..main")
    assert caught.value.code == "T002"
    assert "--unshallow" in caught.value.render()


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ((b'"sweep":"1.0"', b'"sweep":"2.0"'), "H030"),
        ((b"{", b"["), "H030"),
        ((b'"targets":["sm_120"]', b'"targets":["sm_90"]'), "H031"),
        ((b'"cuda":"13.0"', b'"cuda":"12.4"'), "H031"),
    ],
)
def test_a_file_of_another_kind_is_refused_and_left(
    made: Made, tmp_path: Path, change: tuple[bytes, bytes], code: str
) -> None:
    oids = history(made)
    output = tmp_path / "s.jsonl"
    swept(made, f"{oids[0]}..main", output=output)
    data = output.read_bytes().replace(*change, 1)
    output.write_bytes(data)
    with pytest.raises(UserError) as caught:
        audit("sweep", f"{oids[0]}..main", "--repo", str(made.folder), "--output", str(output))
    assert caught.value.code == code
    assert output.read_bytes() == data


def test_a_file_of_another_range_and_a_damaged_line_are_refused(made: Made, tmp_path: Path) -> None:
    oids = history(made)
    output = tmp_path / "s.jsonl"
    swept(made, f"{oids[0]}..main", output=output)
    with pytest.raises(UserError) as caught:
        audit("sweep", f"{oids[1]}..main", "--repo", str(made.folder), "--output", str(output))
    assert (caught.value.code, "range" in caught.value.fact) == ("H031", True)
    lines = output.read_bytes().splitlines(keepends=True)
    output.write_bytes(b"".join([lines[0], b"{}\n", *lines[2:]]))
    with pytest.raises(UserError) as caught:
        audit("sweep", f"{oids[0]}..main", "--repo", str(made.folder), "--output", str(output))
    assert (caught.value.code, caught.value.fact) == ("H032", "line 2 is damaged")


def test_a_file_goes_on_to_a_later_end(
    made: Made, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its lines stay where the names do; where others are learned for the longer range, all is made again."""
    oids = history(made)
    kept, whole = tmp_path / "kept.jsonl", tmp_path / "whole.jsonl"
    swept(made, f"{oids[0]}..{oids[2]}", output=kept)
    os.chmod(kept, 0o640)
    before = kept.read_bytes().splitlines()
    swept(made, f"{oids[0]}..{oids[3]}", output=kept)
    swept(made, f"{oids[0]}..{oids[3]}", output=whole)
    assert kept.read_bytes() == whole.read_bytes()
    assert kept.read_bytes().splitlines()[1:3] == before[1:] and kept.stat().st_mode & 0o777 == 0o640
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".")] == []
    capsys.readouterr()
    later = made.commit(
        "a name", more="from sglang.helpers import is_newest\n\n\ndef of_more():\n    return is_newest()\n"
    )
    words = ("sweep", f"{oids[0]}..main", "--repo", str(made.folder), "--output", str(kept))
    assert audit(*words) == 0
    assert "all lines are made again" in capsys.readouterr().err
    head, lines = swept(made, f"{oids[0]}..main", output=whole.with_name("again.jsonl"))
    assert "of_more" in head.setup.vocabulary and lines[-1].commit == later
    assert kept.read_bytes() == whole.with_name("again.jsonl").read_bytes()
    with pytest.raises(UserError) as caught:  # not back again
        audit("sweep", f"{oids[0]}..{oids[2]}", "--repo", str(made.folder), "--output", str(kept))
    assert (caught.value.code, "not on the way" in caught.value.fact) == ("H031", True)
    assert kept.read_bytes() == whole.with_name("again.jsonl").read_bytes()


def test_a_full_sweep_and_one_of_everything_go_on_as_well(made: Made, tmp_path: Path) -> None:
    oids = history(made)
    for words in (("--full", f"{oids[0]}.."), ("--all", "")):
        kept, whole = tmp_path / f"kept{words[0]}", tmp_path / f"whole{words[0]}"
        for output, ends in ((kept, (oids[1], oids[3])), (whole, (oids[3],))):
            for end in ends:
                span = (words[0], words[1] + end) if words[1] else (words[0], "--commit", end)
                assert audit("sweep", *span, "--repo", str(made.folder), "--output", str(output), "-q") == 0
        assert kept.read_bytes() == whole.read_bytes()


def test_two_at_once_on_one_file(made: Made, tmp_path: Path) -> None:
    import fcntl

    oids = history(made)
    output = tmp_path / "s.jsonl"
    with open(output, "w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        with pytest.raises(UserError) as caught:
            audit("sweep", f"{oids[0]}..main", "--repo", str(made.folder), "--output", str(output))
    assert caught.value.code == "H033"
    assert output.read_bytes() == b""


def test_an_assumption_that_quick_would_leave_out_is_refused(made: Made) -> None:
    oids = history(made)
    with pytest.raises(UserError) as caught:
        audit("sweep", f"{oids[0]}..main", "--repo", str(made.folder), "--assume", "env.X=1")
    assert caught.value.code == "U007"


def test_full_counts_verdicts(made: Made, tmp_path: Path) -> None:
    oids = history(made)
    _, lines = swept(made, f"{oids[1]}..{oids[3]}", "--full", output=tmp_path / "full.jsonl")
    assert [line.commit for line in lines] == oids[2:4]
    assert all(sum(line.targets["sm_120"].values()) == line.gates for line in lines)
    assert lines[0].targets != lines[1].targets


def test_the_end_of_a_task_does_not_matter(made: Made, tmp_path: Path) -> None:
    oids = history(made)
    head, lines = swept(made, f"{oids[0]}..main", output=tmp_path / "s.jsonl")
    from auditor.history.sweeping.sweep import Task

    repo = str(made.folder / ".git")
    parts = [Task(repo, head.setup, Line(a, b)) for a, b in zip(oids, oids[1:])]
    assert [line for part in parts for line in quick_lines(part)] == lines
