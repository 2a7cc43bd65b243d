"""Patches that are commits of the upstream: content from the clone, and only from there."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from auditor.errors import UserError
from auditor.patching.planning.plan import plan
from auditor.patching.planning.sources import Sources
from auditor.patching.sets.header import Reference
from auditor.patching.sets.patchset import load_patchset
from auditor.patching.sets.reference import resolve
from auditor.profile import load_profile
from auditor.trees.commit import CommitTree
from auditor.trees.git import GitRepo


def git(root: Path, *args: str) -> str:
    env = {**os.environ, "GIT_CONFIG_GLOBAL": "/dev/null", "GIT_COMMITTER_NAME": "C", "GIT_AUTHOR_NAME": "A"}
    env |= {"GIT_AUTHOR_EMAIL": "a@b", "GIT_COMMITTER_EMAIL": "c@d", "GIT_AUTHOR_DATE": "1700000000 +0200"}
    return subprocess.check_output(["git", *args], cwd=root, env=env, text=True).strip()


@pytest.fixture
def upstream(tmp_path: Path) -> Path:
    """main: start, a fix of a file that moves later (#7), a second fix (#8); a branch with pull request 9."""
    root = tmp_path / "upstream"
    (root / "python/sglang/srt").mkdir(parents=True)
    (root / "test").mkdir()
    (root / "python/sglang/version.py").write_text("v = 1\n")
    (root / "python/sglang/srt/a.py").write_text("".join(f"a{n} = {n}\n" for n in range(30)))
    (root / "test/t.py").write_text("t = 1\n")
    git(root, "init", "-q", "-b", "main")

    def commit(message: str) -> None:
        git(root, "add", "-A")
        git(root, "commit", "-qm", message)

    commit("Start")
    place = root / "python/sglang/srt/a.py"
    place.write_text(place.read_text().replace("a5 = 5\n", "a5 = 55\n"))
    (root / "test/t.py").write_text("t = 2\n")
    commit("Fix five (#7)")
    place.write_text(place.read_text().replace("a20 = 20\n", "a20 = 2020\n"))
    git(root, "mv", "python/sglang/srt/a.py", "python/sglang/srt/b.py")
    commit("Move and fix twenty (#8)")
    git(root, "checkout", "-q", "-b", "work")
    (root / "python/sglang/srt/new.py").write_text("n = 1\n")
    commit("New thing")
    git(root, "update-ref", "refs/pull/9/head", "HEAD")
    git(root, "checkout", "-q", "main")
    git(root, "branch", "-qD", "work")
    return root


def repo(root: Path) -> GitRepo:
    found = GitRepo.at(root)
    assert found is not None
    return found


def test_a_commit(upstream: Path) -> None:
    commit = git(upstream, "rev-parse", "main~1")
    found = resolve(Reference(commit=commit[:9]), repo(upstream))
    assert (found.before, found.after) == (git(upstream, "rev-parse", "main~2"), commit)
    assert [c.path for c in found.changes.changes] == ["python/sglang/srt/a.py", "test/t.py"]
    change = found.changes.changes[0]
    assert change.old_blob == git(upstream, "rev-parse", "main~2:python/sglang/srt/a.py")
    assert change.new_blob == git(upstream, "rev-parse", "main~1:python/sglang/srt/a.py")
    assert [line for line in change.hunks[0].lines if line[0] != " "] == [
        ("-", b"a5 = 5\n"),
        ("+", b"a5 = 55\n"),
    ]
    assert found.changes.subject == "Fix five (#7)" and found.pr == 7 and found.commits == 1
    assert found.changes.author == "A <a@b>" and found.changes.date == "1700000000 +0200"
    fewer = resolve(Reference(commit=commit), repo(upstream), exclude=["test/"])
    assert [c.path for c in fewer.changes.changes] == ["python/sglang/srt/a.py"]


def test_a_range_a_pull_request_and_a_rename(upstream: Path) -> None:
    first, last = git(upstream, "rev-parse", "main~2"), git(upstream, "rev-parse", "main")
    found = resolve(Reference(range=f"{first}..{last}"), repo(upstream))
    moved = found.changes.changes[0]
    assert (moved.old_path, moved.new_path) == ("python/sglang/srt/a.py", "python/sglang/srt/b.py")
    assert len(moved.hunks) == 2 and found.commits == 2
    assert resolve(Reference(pr=8), repo(upstream)).after == last
    opened = resolve(Reference(pr=9), repo(upstream))
    assert opened.before == last and [c.path for c in opened.changes.changes] == ["python/sglang/srt/new.py"]
    with pytest.raises(UserError) as caught:
        resolve(Reference(range=f"{last}..{first}"), repo(upstream))
    assert caught.value.code == "P060"


def test_what_is_not_in_the_clone(upstream: Path) -> None:
    for reference in (
        Reference(pr=77),
        Reference(commit="abcdef1"),
        Reference(commit=git(upstream, "rev-parse", "main~2")),
    ):
        with pytest.raises(UserError) as caught:
            resolve(reference, repo(upstream))
        assert caught.value.code == "P060" and caught.value.hints


def test_no_driver_of_the_clone_runs(upstream: Path, tmp_path: Path) -> None:
    trap = tmp_path / "trap.sh"
    trap.write_text(f'#!/bin/sh\necho ran >> {tmp_path}/ran\ncat "$1"\n')
    trap.chmod(0o755)
    (upstream / ".git/info").mkdir(exist_ok=True)
    (upstream / ".git/info/attributes").write_text("*.py diff=bad filter=bad\n")
    for key in (
        "diff.bad.command",
        "diff.bad.textconv",
        "diff.external",
        "filter.bad.smudge",
        "core.fsmonitor",
    ):
        git(upstream, "config", key, str(trap))
    assert resolve(Reference(pr=7), repo(upstream)).changes.changes
    assert not (tmp_path / "ran").exists()


def test_in_a_plan(upstream: Path, tmp_path: Path) -> None:
    root = tmp_path / "patchsets" / "set"
    (root / "patches").mkdir(parents=True)
    (root / "patchset.yaml").write_text("title: S\nupstreams:\n  sglang: {}\norder: [five]\n")
    commit = git(upstream, "rev-parse", "main~1")
    (root / "patches/five.yaml").write_text(f"title: Five\nupstream: {{commit: {commit[:10]}}}\n")
    found = load_patchset(root)
    profile = load_profile("sglang")
    clone = repo(upstream)
    base = CommitTree(clone, "main~2")
    carried = plan(found, base, profile)
    assert carried.entries[0].outcome.status == "clean"
    assert (
        carried.result.blobs()["python/sglang/srt/a.py"]
        == CommitTree(clone, "main~1").blobs()["python/sglang/srt/a.py"]
    )
    assert plan(found, CommitTree(clone, "main"), profile).entries[0].outcome.status == "upstream"
    with pytest.raises(UserError) as caught:
        plan(found, carried.result, profile, sources=Sources(_Elsewhere(base)))
    assert caught.value.code == "P060" and "--clone" in caught.value.hints[0]


class _Elsewhere:
    """A tree without a repository."""

    def __init__(self, tree: CommitTree) -> None:
        self.info, self.blobs, self.read = tree.info, tree.blobs, tree.read
        self.read_many, self.local_path = tree.read_many, tree.local_path
