"""The lock: the same bytes for the same thing, and a refusal for anything else."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from auditor.cli.clickrun import run
from auditor.cli.groups import patches
from auditor.patching.planning.lock import encode, lock_of, read_lock
from auditor.patching.planning.plan import plan
from auditor.patching.sets.patchset import load_patchset
from auditor.profile import load_profile
from auditor.trees.commit import CommitTree
from auditor.trees.git import GitRepo
from auditor.trees.treeid import parse_listing, tree_id

PYPROJECT = b'[project]\nname = "sglang"\ndependencies = [\n  "torch==2.9.1",\n  "numpy",\n]\n'
FILES = {
    "python/pyproject.toml": PYPROJECT,
    "python/sglang/version.py": b"v = 1\n",
    "python/sglang/srt/a.py": b"a = 1\nb = 2\nc = 3\n",
    "python/sglang/srt/tool": b"#!/bin/sh\n",
    "other/deep/x": b"x\n",
    "other.txt": b"y\n",
}
DIFF = b"""diff --git a/python/sglang/srt/a.py b/python/sglang/srt/a.py
--- a/python/sglang/srt/a.py
+++ b/python/sglang/srt/a.py
@@ -1,3 +1,3 @@
 a = 1
-b = 2
+b = 22
 c = 3
diff --git a/python/sglang/srt/n.py b/python/sglang/srt/n.py
new file mode 100644
--- /dev/null
+++ b/python/sglang/srt/n.py
@@ -0,0 +1 @@
+n = 1
"""


def git(root: Path, *args: str) -> str:
    env = {**os.environ, "GIT_CONFIG_GLOBAL": "/dev/null", "GIT_COMMITTER_NAME": "C", "GIT_AUTHOR_NAME": "A"}
    env |= {"GIT_AUTHOR_EMAIL": "a@b", "GIT_COMMITTER_EMAIL": "c@d"}
    return subprocess.check_output(["git", *args], cwd=root, env=env, text=True).strip()


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    root = tmp_path / "clone"
    for path, data in FILES.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_bytes(data)
    (root / "python/sglang/srt/tool").chmod(0o755)
    (root / "link").symlink_to("other.txt")
    git(root, "init", "-q", "-b", "main")
    git(root, "add", "-A")
    git(root, "commit", "-qm", "start")
    return root


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    root = tmp_path / "patchsets" / "set"
    (root / "patches").mkdir(parents=True)
    (root / "patchset.yaml").write_text("title: S\nupstreams:\n  sglang: {}\norder: [one]\n")
    (root / "patches/one.patch").write_bytes(DIFF)
    return root


def call(*words: object) -> int:
    return run(patches, "patches", [str(word) for word in words])


def test_a_tree_id_is_that_of_git(clone: Path) -> None:
    raw = subprocess.check_output(["git", "ls-tree", "-r", "-z", "HEAD"], cwd=clone)
    assert tree_id(parse_listing(raw)) == git(clone, "rev-parse", "HEAD^{tree}")


def test_what_is_in_it(clone: Path, folder: Path) -> None:
    repo = GitRepo.at(clone)
    assert repo is not None
    found = plan(load_patchset(folder), CommitTree(repo, "HEAD"), load_profile("sglang"))
    lock = lock_of(found)
    base = lock.upstreams["sglang"]
    assert (base.commit, base.tree) == (
        git(clone, "rev-parse", "HEAD"),
        git(clone, "rev-parse", "HEAD^{tree}"),
    )
    assert base.dependencies == {"torch": "2.9.1"}
    files = {file.path: (file.before, file.after) for file in lock.patches[0].files}
    assert files["python/sglang/srt/a.py"][0] == git(clone, "rev-parse", "HEAD:python/sglang/srt/a.py")
    assert files["python/sglang/srt/n.py"][0] == ""
    text = encode(lock).decode()
    assert text.endswith("}\n") and "\r" not in text and str(clone) not in text and "b = 22" not in text
    # What git makes of the same diff is what the lock says.
    git(clone, "apply", "--index", str(folder / "patches/one.patch"))
    assert git(clone, "write-tree") == base.result


def test_frozen_takes_what_is_locked_and_nothing_else(clone: Path, folder: Path) -> None:
    assert call("lock", folder, "--onto", "HEAD", "--clone", clone) == 0
    first = (folder / "patchset.lock").read_bytes()
    assert call("lock", folder, "--onto", "HEAD", "--clone", clone) == 0
    assert (folder / "patchset.lock").read_bytes() == first
    assert call("lock", folder, "--check", "--clone", clone) == 0
    assert call("verify", folder, "--to", clone) == 1
    assert call("apply", folder, "--to", clone, "--frozen") == 0
    assert call("verify", folder, "--to", clone) == 0
    assert git(clone, "write-tree") == json.loads(first)["upstreams"]["sglang"]["result"]
    (clone / "other.txt").write_text("edited\n")
    assert call("verify", folder, "--to", clone) == 1
    git(clone, "checkout", "-q", "other.txt")
    assert call("revert", "set", "--to", clone) == 0
    # Another patch.
    (folder / "patches/one.patch").write_bytes(DIFF.replace(b"b = 22", b"b = 23"))
    assert call("apply", folder, "--to", clone, "--frozen") == 1
    assert call("lock", folder, "--check", "--clone", clone) == 1
    (folder / "patches/one.patch").write_bytes(DIFF)
    # Another base.
    (clone / "other.txt").write_text("more\n")
    git(clone, "commit", "-qam", "more")
    assert call("apply", folder, "--to", clone, "--frozen") == 1
    assert git(clone, "status", "--porcelain") == ""
    assert call("apply", folder, "--to", clone) == 0
    # It is there already, and still not what was locked.
    assert call("apply", folder, "--to", clone) == 0
    assert call("apply", folder, "--to", clone, "--frozen") == 1
    assert call("lock", folder, "--onto", "HEAD", "--clone", clone) == 0
    assert call("apply", folder, "--to", clone, "--frozen") == 0


def test_a_working_tree_is_locked_as_its_commit(
    clone: Path, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert call("lock", folder, "--onto", "HEAD", "--clone", clone) == 0
    first = (folder / "patchset.lock").read_bytes()
    assert call("lock", folder, "--onto", clone) == 0
    assert (folder / "patchset.lock").read_bytes() == first
    (clone / "new.txt").write_text("x")
    capsys.readouterr()
    assert call("lock", folder, "--onto", clone) == 2
    assert "changes that no commit holds" in capsys.readouterr().err
    assert (folder / "patchset.lock").read_bytes() == first


def test_a_record_is_not_forgotten_while_the_patches_are_there(clone: Path, folder: Path) -> None:
    assert call("apply", folder, "--to", clone) == 0
    assert call("doctor", "--to", clone, "--forget") == 2
    assert call("revert", "set", "--to", clone) == 0
    assert call("apply", folder, "--to", clone) == 0
    git(clone, "reset", "-q", "--hard")
    assert call("doctor", "--to", clone, "--forget") == 0
    assert call("doctor", "--to", clone) == 0


def test_an_installed_copy_is_held_against_the_lock_of_a_commit(
    clone: Path, folder: Path, tmp_path: Path
) -> None:
    assert call("lock", folder, "--onto", "HEAD", "--clone", clone) == 0
    site = tmp_path / "site"
    (site / "sglang/srt").mkdir(parents=True)
    for path in ("sglang/version.py", "sglang/srt/a.py"):
        (site / path).write_bytes(FILES[f"python/{path}"])
    info = site / "sglang-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Name: sglang\nVersion: 1.0\n")
    assert call("verify", folder, "--to", site) == 1
    assert call("apply", folder, "--to", site, "--frozen") == 0
    assert call("verify", folder, "--to", site) == 0
    assert call("verify", folder, "--to", site / "sglang") == 0
    (site / "sglang/srt/n.py").write_text("n = 2\n")
    assert call("verify", folder, "--to", site) == 1
    (site / "sglang/srt/n.py").write_text("n = 1\n")
    assert call("revert", "set", "--to", site) == 0
    assert not (site / "sglang/srt/n.py").exists() and not (site / ".patches-state").exists()


def test_no_lock_or_a_damaged_one(clone: Path, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert call("verify", folder, "--to", clone) == 2
    (folder / "patchset.lock").write_text('{"schema": 1, "extra": 2}')
    assert call("apply", folder, "--to", clone, "--frozen") == 2
    assert "not a lock" in capsys.readouterr().err
    assert read_lock.__doc__
