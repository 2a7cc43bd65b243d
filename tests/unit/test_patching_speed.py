"""What makes a matrix or an apply quick must not change what comes out."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from auditor.cli.patches.ahead import ahead
from auditor.patching.diffs.lines import same_end, same_start
from auditor.patching.port.finder import _Contents
from auditor.trees.git import GitRepo, MissingObject
from auditor.trees.versions import is_before, steps


def git(folder: Path, *words: str) -> str:
    done = subprocess.run(
        ["git", "-c", "user.name=N", "-c", "user.email=n@n", "-C", str(folder), *words],
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.strip()


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """A main line of four commits, and a side branch off the second one."""
    git(tmp_path, "init", "-q", "-b", "main")
    for number in range(4):
        (tmp_path / "a.py").write_text(f"x = {number}\n")
        git(tmp_path, "add", "-A")
        git(tmp_path, "commit", "-qm", f"c{number}")
    git(tmp_path, "switch", "-q", "-c", "side", "main~2")
    (tmp_path / "b.py").write_text("y = 1\n")
    git(tmp_path, "add", "-A")
    git(tmp_path, "commit", "-qm", "side")
    git(tmp_path, "switch", "-q", "main")
    return tmp_path


@given(st.lists(st.integers(0, 2), max_size=40), st.lists(st.integers(0, 2), max_size=40))
def test_what_two_lists_share_at_their_ends_is_what_one_by_one_finds(a: list[int], b: list[int]) -> None:
    both = a + [7] + b, a + [8] + b
    for left, right in ((a, b), both, (a, a), (b, a + b)):
        start = 0
        while start < min(len(left), len(right)) and left[start] == right[start]:
            start += 1
        end = 0
        while end < min(len(left), len(right)) and left[-1 - end] == right[-1 - end]:
            end += 1
        assert same_start(left, 0, len(left), right, 0, len(right)) == start
        assert same_end(left, 0, len(left), right, 0, len(right)) == end


def test_a_child_that_lacks_an_object_answers_the_next_question(clone: Path) -> None:
    repo = GitRepo.find(clone)
    assert repo is not None
    blob = git(clone, "rev-parse", "HEAD:a.py")
    for _ in range(2):
        with pytest.raises(MissingObject, match="0{39}1"):
            list(repo.read_objects(["0" * 39 + "1"]))
        assert list(repo.read_objects([blob])) == [b"x = 3\n"]
    with pytest.raises(MissingObject):
        list(repo.read_objects([blob, "0" * 39 + "1", blob]))
    assert list(repo.read_objects([blob, blob])) == [b"x = 3\n"] * 2


def test_the_first_revision_that_is_a_commit(clone: Path) -> None:
    repo = GitRepo.find(clone)
    assert repo is not None
    head = git(clone, "rev-parse", "HEAD")
    assert repo.first_commit(["refs/heads/none", f"{head}:a.py", "refs/heads/main"]) == head
    assert repo.first_commit(["refs/heads/none"]) == ""
    git(clone, "commit", "-q", "--allow-empty", "-m", "later")  # a kept child sees what is new
    assert repo.first_commit(["HEAD"]) == git(clone, "rev-parse", "HEAD") != head


def test_what_is_checked_out_is_read_as_git_reads_it(clone: Path) -> None:
    repo = GitRepo.find(clone)
    assert repo is not None
    assert repo.head_ref() == "refs/heads/main"
    git(clone, "symbolic-ref", "refs/heads/alias", "refs/heads/side")
    git(clone, "symbolic-ref", "HEAD", "refs/heads/alias")
    assert repo.head_ref() == git(clone, "symbolic-ref", "HEAD")
    git(clone, "switch", "-q", "--detach", "-f", "main")
    assert repo.head_ref() == ""
    git(clone, "switch", "-q", "--orphan", "new")
    assert repo.head_ref() == "refs/heads/new"


def test_before_and_after_on_the_line_and_beside_it(clone: Path) -> None:
    repo = GitRepo.find(clone)
    assert repo is not None
    names = ["main", "main~1", "main~2", "main~3", "side"]
    ids = {name: git(clone, "rev-parse", name) for name in names}
    for older in names:
        for newer in names:
            want = repo.is_ancestor(ids[older], ids[newer])
            assert is_before(repo, ids[older], ids[newer], ids["main"]) is want, (older, newer)


def test_the_line_after_a_commit(clone: Path) -> None:
    repo = GitRepo.find(clone)
    assert repo is not None
    tip = git(clone, "rev-parse", "main")
    every = steps(repo, tip, ["a.py"])
    assert [step.entry.oid for step in every][1:] == [
        step.entry.oid for step in steps(repo, tip, ["a.py"], git(clone, "rev-parse", "main~3"))
    ]


def test_contents_are_kept_up_to_a_size(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("auditor.patching.port.finder._KEPT_BYTES", 10)
    kept = _Contents()
    kept.put("a", b"12345")
    kept.put("b", b"12345")
    assert kept.get("a") == b"12345"
    kept.put("c", b"1")  # one too many: the one that was not asked for goes
    assert (kept.get("a"), kept.get("b"), kept.get("c")) == (b"12345", None, b"1")
    kept.put("d", b"1" * 11)
    assert kept.get("d") is None


@pytest.mark.skipif(sys.platform != "linux", reason="processes are forked only there")
def test_work_ahead_leaves_only_what_it_stored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("auditor.cli.patches.ahead._cores", lambda: 2)
    items = list(range(6))

    def work(item: int) -> None:
        if item == 4:
            raise ValueError("nobody hears of it")
        (tmp_path / f"{item}-{os.getpid()}").touch()

    with ahead(items, work):
        for _ in range(500):
            if len(list(tmp_path.iterdir())) == 1:
                break
            time.sleep(0.02)
        time.sleep(0.1)
    done = [path.name.split("-") for path in tmp_path.iterdir()]
    assert [item for item, _ in done] == ["3"]  # the second half, up to the one that failed
    assert done[0][1] != str(os.getpid())
    with ahead(items[:3], work):  # too few to be worth it
        pass
    assert len(list(tmp_path.iterdir())) == 1


@pytest.mark.skipif(sys.platform != "linux", reason="processes are forked only there")
def test_a_forked_process_reads_through_children_of_its_own(clone: Path, tmp_path: Path) -> None:
    repo = GitRepo.find(clone)
    assert repo is not None
    blob = git(clone, "rev-parse", "HEAD:a.py")
    assert list(repo.read_objects([blob])) == [b"x = 3\n"]
    child = os.fork()
    if child == 0:
        same = list(repo.read_objects([blob] * 300)) == [b"x = 3\n"] * 300
        repo.close()
        os._exit(0 if same else 1)
    assert list(repo.read_objects([blob] * 300)) == [b"x = 3\n"] * 300
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert list(repo.read_objects([blob])) == [b"x = 3\n"]
