"""Locks of git that a kill leaves: ours go with the repair, others are named and left."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from test_patching_write import clone, git, opened, snapshot, steps, write

from auditor.cli.clickrun import run
from auditor.cli.groups import patches
from auditor.errors import UserError
from auditor.patching.write import reflocks
from auditor.patching.write.checkout import Checkout
from auditor.patching.write.journal import JOURNAL
from auditor.patching.write.repair import repair


def old(path: Path) -> None:
    os.utime(path, (1, 1))


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reflocks.free, "__defaults__", (0.05,))


def test_a_branch_lock_of_an_unfinished_run_goes_with_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = clone(tmp_path)
    before, head = snapshot(root), git(root, "rev-parse", "HEAD")
    lock = root / ".git/refs/heads/main.lock"
    real = Checkout._git

    def stopped(self: Checkout, *args: str, stdin: bytes | None = None, index: Path | None = None) -> None:
        if args[0] == "update-ref":  # git wrote its lock, and did not come to rename it
            lock.write_text(args[5] + "\n")
            os._exit(9)
        real(self, *args, stdin=stdin, index=index)

    with monkeypatch.context() as patched:
        patched.setattr(Checkout, "_git", stopped)
        child = os.fork()
        if child == 0:
            try:
                write(opened(root), steps("python/"), "commits", "main")
            finally:
                os._exit(8)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 9
    assert lock.exists() and (root / ".git/patches-state" / JOURNAL).exists()
    assert repair(opened(root)) == ("finished", "apply one, two")
    assert not lock.exists() and git(root, "rev-parse", "HEAD~2") == head
    assert snapshot(root) != before and git(root, "status", "--porcelain") == ""


def test_a_lock_of_somebody_else_is_named_and_left(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    root = clone(tmp_path)
    before = snapshot(root)
    lock = root / ".git/refs/heads/main.lock"
    for content in (b"", b"0" * 40 + b"\n"):
        lock.write_bytes(content)
        with pytest.raises(UserError) as caught:
            write(opened(root), steps("python/"), "commits", "main")
        assert caught.value.code == "P052" and str(lock) in caught.value.hints[0]
        assert lock.read_bytes() == content and snapshot(root) == before
    assert run(patches, "patches", ["doctor", "--to", str(root)]) == 0  # it may be at work
    old(lock)
    assert run(patches, "patches", ["doctor", "--to", str(root)]) == 1
    assert f"! {lock} was left by a git that was killed: rm {lock}" in capsys.readouterr().out
    lock.unlink()
    scratch = root / ".git/refs/worktree/patches-state.lock"
    scratch.parent.mkdir(parents=True, exist_ok=True)
    scratch.write_bytes(b"")
    old(scratch)
    write(opened(root), steps("python/"), "commits", "main")
    assert not scratch.exists()
