"""A clock that jumps: the same tree gives the same report, and no changed file is taken for the old one."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from auditor.gates.audit import AuditOptions, audit
from auditor.reporting import jsonout
from auditor.trees.cache import evict, store_bytes
from auditor.trees.folder import FolderTree

YEARS = 10 * 365 * 86_400
OLD = "import torch\n\n\ndef f():\n    if torch.cuda.get_device_capability()[0] == 12:\n        return 1\n"
NEW = OLD.replace("== 12", "== 10")  # as many bytes


@pytest.fixture
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("SGLANG_AUDITOR_CACHE_DIR", str(tmp_path / "cache"))
    package = tmp_path / "tree" / "sglang"
    (package / "srt").mkdir(parents=True)
    (package / "version.py").write_text('__version__ = "0.5.99"\n')
    (package / "srt" / "server_args.py").write_text("class ServerArgs:\n    pass\n")
    (package / "srt" / "plain.py").write_text(OLD)
    return tmp_path / "tree"


def jump(monkeypatch: pytest.MonkeyPatch, seconds: int) -> None:
    now, fine = time.time, time.time_ns
    monkeypatch.setattr(time, "time", lambda: now() + seconds)
    monkeypatch.setattr(time, "time_ns", lambda: fine() + seconds * 10**9)


def report(tree: Path) -> bytes:
    opened = FolderTree(tree, label="t")
    return jsonout.dumps(audit(opened, AuditOptions(targets=("sm_120",), reference="sm_100")))


@pytest.mark.parametrize("seconds", [YEARS, -YEARS, 3600, -3600])
def test_a_jump_changes_no_report(tree: Path, monkeypatch: pytest.MonkeyPatch, seconds: int) -> None:
    first = report(tree)
    jump(monkeypatch, seconds)
    assert report(tree) == first
    monkeypatch.undo()
    monkeypatch.setenv("SGLANG_AUDITOR_CACHE_DIR", str(tree.parent / "cache"))
    assert report(tree) == first


@pytest.mark.parametrize("seconds", [YEARS, -YEARS])
def test_what_changes_under_a_wrong_clock_is_seen(
    tree: Path, monkeypatch: pytest.MonkeyPatch, seconds: int
) -> None:
    jump(monkeypatch, seconds)
    first = report(tree)
    path = tree / "sglang" / "srt" / "plain.py"
    facts = path.stat()
    time.sleep(0.05)  # more than a tick of the file system's clock
    path.write_text(NEW)
    os.utime(path, ns=(facts.st_atime_ns, facts.st_mtime_ns))  # and its date is set back
    second = report(tree)
    assert second != first and b"== 10" in second


def test_entries_from_the_future_go_like_others(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("a0", "b0", "c0", "d0", "e0", "f0"):
        assert store_bytes("facts", name, name.encode() * 1000)
    for path in (tree.parent / "cache").rglob("*"):
        if path.is_file():
            os.utime(path, (time.time() + YEARS, time.time() + YEARS))
    assert store_bytes("facts", "today", b"x" * 1000)
    before = sum(p.stat().st_size for p in (tree.parent / "cache").rglob("*") if p.is_file())
    assert evict(before // 2) > 0
