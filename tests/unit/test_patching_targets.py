"""Checkouts that are special: submodules, borrowed objects, several working trees, files of another user."""

from __future__ import annotations

import os
import subprocess
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from test_patching_write import clone, folder, git, opened, snapshot, steps, take, write

from auditor.cli.clickrun import run
from auditor.cli.groups import patches
from auditor.patching.diffs.lines import file_change
from auditor.patching.diffs.write import write_diff
from auditor.patching.write import disk, operations
from auditor.patching.write.operations import at_work

Tell = Callable[..., int]


@pytest.fixture
def patches_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Tell:
    monkeypatch.setenv("SGLANG_AUDITOR_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", "/dev/null")
    return lambda *words: run(patches, "patches", [str(word) for word in words])


def patchset(place: Path, top: str) -> Path:
    """One patch of one line, made for a repository (``python/``) or a wheel."""
    root = place / "patchsets/mine"
    (root / "patches").mkdir(parents=True)
    (root / "patchset.yaml").write_text("title: Mine\nupstreams:\n  sglang: {}\norder: [one]\n")
    path = f"{top}sglang/srt/a.py"
    change = file_change(path, b"one\ntwo\nthree\n", b"one\ntwo = 2\nthree\n", mode="100644")
    assert change is not None
    (root / "patches/one.patch").write_bytes(b"Subject: one\n---\n" + write_diff([change]))
    return root


def broken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Path, Path]:
    """A checkout with a submodule whose settings are traps, and the file that a sprung trap writes."""
    canary, trap = tmp_path / "ran", tmp_path / "trap.sh"
    trap.write_text(f"#!/bin/sh\necho ran >> {canary}\n")
    trap.chmod(0o755)
    inner = tmp_path / "inner"
    inner.mkdir()
    (inner / "kernel.cu").write_text("int x;\n")
    git(inner, "init", "-q", "-b", "main")
    git(inner, "add", "-A")
    git(inner, "commit", "-q", "-m", "inner")
    root = clone(tmp_path)
    git(root, "-c", "protocol.file.allow=always", "submodule", "add", "-q", str(inner), "third/inner")
    git(root, "commit", "-q", "-m", "submodule")
    text = (root / ".gitmodules").read_text()
    (root / ".gitmodules").write_text(f"{text}\turl = ext::{trap}\n\tupdate = !{trap}\n\tignore = none\n")
    git(root, "commit", "-q", "-a", "-m", "hostile")
    for place in (root, root / "third/inner"):
        for key, value in {
            "submodule.third/inner.url": f"ext::{trap}", "submodule.third/inner.update": f"!{trap}",
            "submodule.recurse": "true", "core.fsmonitor": str(trap), "diff.ignoreSubmodules": "none",
            "protocol.ext.allow": "always", "status.submoduleSummary": "true", "diff.submodule": "log",
        }.items():  # fmt: skip
            git(place, "config", key, value)
    subprocess.run(["git", "status"], cwd=root, capture_output=True, check=False)
    assert canary.exists(), "the traps are none"
    canary.unlink()
    return root, canary


@pytest.mark.parametrize(("branch", "dirty"), [((), False), (("--branch", "mine"), True)])
def test_a_submodule_is_left_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, patches_run: Tell, branch: tuple[str, ...], dirty: bool
) -> None:
    root, canary = broken(tmp_path, monkeypatch)
    if dirty:
        (root / "third/inner/kernel.cu").write_text("int y;\n")
    mine = patchset(tmp_path, "python/")
    before, modules = snapshot(root), snapshot(root / ".git/modules")
    link = "160000 " + git(tmp_path / "inner", "rev-parse", "HEAD")
    for words in (
        ("lock", mine, "--onto", "HEAD", "--clone", root, "--no-audit"), ("status", mine, "--to", root),
        ("apply", mine, "--to", root, "--no-audit", "--frozen", *branch), ("verify", mine, "--to", root),
        ("apply", mine, "--to", root, "--no-audit", *branch), ("status", mine, "--to", root),
        ("doctor", "--to", root), ("revert", mine, "--to", root),
    ):  # fmt: skip
        assert patches_run(*words) == 0, words
        assert not canary.exists(), words
        quiet = ("-c", "core.fsmonitor=false")
        assert link in git(root, *quiet, "ls-files", "-s", "third/inner")
        if branch:
            assert git(root, "rev-parse", "HEAD^{tree}") == git(root, *quiet, "write-tree")
    assert snapshot(root) == before and snapshot(root / ".git/modules") == modules


@pytest.mark.parametrize("way", ["staged", "commits"])
def test_a_clone_that_borrows_objects(tmp_path: Path, way: str) -> None:
    root = clone(tmp_path)
    git(root, "gc", "-q")
    other = tmp_path / "other"
    git(tmp_path, "clone", "-q", "--shared", str(root), str(other))
    lent, before, head = snapshot(root / ".git"), snapshot(other), git(other, "rev-parse", "HEAD")
    result = write(opened(other), steps("python/"), way, "mine" if way == "commits" else "")
    assert result == git(other, "write-tree") and snapshot(other) != before
    take(opened(other), "two", "one")
    assert snapshot(other) == before and git(other, "status", "--porcelain") == ""
    assert git(other, "rev-parse", "HEAD^{tree}") == git(root, "rev-parse", f"{head}^{{tree}}")
    assert snapshot(root / ".git") == lent, "nothing is written to the store that lends"


def test_two_working_trees_of_a_clone_are_written_at_once(tmp_path: Path) -> None:
    root = clone(tmp_path)
    trees = [tmp_path / "left", tmp_path / "right"]
    for tree in trees:
        git(root, "worktree", "add", "-q", "--detach", str(tree))
    both = threading.Barrier(2, timeout=20)
    failed: list[BaseException] = []

    def work(tree: Path) -> None:
        """Commits are made in both, then branches are moved in both."""
        try:
            target = opened(tree)
            with at_work(target) as held:
                ready = operations.ready_steps(
                    target, held, steps("python/"), way="commits", branch=tree.name
                )
                both.wait()
                operations.write_all([ready])
        except BaseException as error:
            failed.append(error)

    for _ in range(3):
        threads = [threading.Thread(target=work, args=(tree,)) for tree in trees]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert not failed, failed
        for tree in trees:
            assert git(tree, "log", "-1", "--format=%(trailers:key=Patch-Name,valueonly)").strip() == "two"
            assert git(tree, "symbolic-ref", "HEAD") == f"refs/heads/{tree.name}"
            assert git(tree, "status", "--porcelain") == ""
            assert git(tree, "for-each-ref", "refs/worktree") == ""
            take(opened(tree), "two", "one")
            git(tree, "checkout", "-q", "--detach", "main")
            git(tree, "branch", "-q", "-D", tree.name)
    git(root, "fsck", "--strict")


@pytest.mark.parametrize("moment", ["planned", "placed"])
@pytest.mark.parametrize("kind", ["folder", "staged", "commits"])
def test_a_file_that_somebody_changes_meanwhile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, patches_run: Tell, capsys: pytest.CaptureFixture[str],
    kind: str, moment: str,
) -> None:  # fmt: skip
    root = folder(tmp_path) if kind == "folder" else clone(tmp_path)
    top = "" if kind == "folder" else "python/"
    mine, path = patchset(tmp_path, "python/"), root / f"{top}sglang/srt/a.py"
    before, theirs = snapshot(root), b"one\ntwo\nthree, theirs\n"

    def theirs_now() -> None:
        path.write_bytes(theirs)

    if moment == "planned":
        real_begin = operations.ready_steps

        def begin(*args: object, **more: object) -> object:
            theirs_now()
            return real_begin(*args, **more)  # type: ignore[arg-type]

        monkeypatch.setattr(operations, "ready_steps", begin)
    else:
        real_put = disk.Root.put

        def put(self: disk.Root, path: str, token: str) -> None:
            real_put(self, path, token)
            if path.endswith("a.py") and (self.folder / path).read_bytes() != theirs:
                theirs_now()

        monkeypatch.setattr(disk.Root, "put", put)
    branch = ("--branch", "mine") if kind == "commits" else ()
    code = patches_run("apply", mine, "--to", root, "--no-audit", *branch)
    said = capsys.readouterr()
    expected = "P044" if kind == "folder" or moment == "placed" else "P051"
    assert code in (1, 2, 3) and f"error[{expected}]" in said.err and "sglang/srt/a.py" in said.err, said
    assert path.read_bytes() == theirs, "what somebody else wrote stays"
    monkeypatch.undo()
    path.write_bytes(b"one\ntwo\nthree\n")
    assert snapshot(root) == before
    if kind != "folder":
        assert git(root, "status", "--porcelain") == "" and git(root, "branch", "--list", "mine") == ""
        assert git(root, "for-each-ref", "refs/worktree") == ""


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may give files away")
@pytest.mark.parametrize("way", ["folder", "staged", "commits"])
def test_files_of_another_user_stay_theirs(tmp_path: Path, way: str) -> None:
    root = folder(tmp_path) if way == "folder" else clone(tmp_path)
    top = "" if way == "folder" else "python/"
    for place in (root, *root.rglob("*")):
        os.chown(place, 12345, 12345)
    before = snapshot(root)
    write(opened(root), steps(top), way, "mine" if way == "commits" else "")
    assert (root / f"{top}sglang/srt/server_args.py").stat().st_uid == 12345
    take(opened(root), "two", "one")
    assert snapshot(root) == before
    assert {p.stat().st_uid for p in (root / top / "sglang").rglob("*") if p.name != "a.py"} == {12345}


@pytest.mark.parametrize("link", ["sglang/srt", "sglang/srt/a.py"])
@pytest.mark.parametrize("kind", ["folder", "clone"])
def test_a_link_in_the_way_is_named(
    tmp_path: Path, patches_run: Tell, capsys: pytest.CaptureFixture[str], kind: str, link: str
) -> None:
    root = folder(tmp_path) if kind == "folder" else clone(tmp_path)
    top = "" if kind == "folder" else "python/"
    (root / top / link).rename(tmp_path / "elsewhere")
    (root / top / link).symlink_to(tmp_path / "elsewhere")
    if kind == "clone":
        git(root, "add", "-A")
        git(root, "commit", "-q", "-m", "a link")
    behind = snapshot(tmp_path / "elsewhere")
    code = patches_run("apply", patchset(tmp_path, "python/"), "--to", root, "--no-audit")
    said = capsys.readouterr()
    assert code == 3 and f"note: {top}{link} is a symbolic link here" in said.out, said
    assert snapshot(tmp_path / "elsewhere") == behind
