"""``audit`` killed between any two of its writes: what it was to write is absent, old or whole, and the next
run says the same bytes.

``scripts/kill_audit_trial.py`` kills the real commands at random moments instead.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from auditor.cli.clickrun import run
from auditor.cli.groups import audit

OLD = b"an older one\n"
_WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT
_EVENTS = frozenset(("os.rename", "os.remove", "os.mkdir", "os.truncate"))
GPU = "import torch\n\n\ndef is_new():\n    return torch.cuda.get_device_capability()[0] >= {}\n"
FILES = {
    "python/sglang/version.py": '__version__ = "0.5.99"\n',
    "python/sglang/srt/server_args.py": "class ServerArgs:\n    pass\n",
    "python/sglang/srt/plain.py": (
        "from sglang.srt.cards import is_new\n\n\ndef f():\n    if is_new():\n        return 1\n"
    ),
}


@pytest.fixture(scope="module")
def clone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three commits in which a condition changes."""
    root = tmp_path_factory.mktemp("clone")
    git = ["git", "-C", str(root), "-c", "user.name=x", "-c", "user.email=x@x"]
    subprocess.run([*git, "init", "-q", "-b", "main"], check=True)
    for number in (9, 10, 12):
        for name, text in {**FILES, "python/sglang/srt/cards.py": GPU.format(number)}.items():
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            (root / name).write_text(text)
        subprocess.run([*git, "add", "-A"], check=True)
        subprocess.run([*git, "commit", "-qm", f"new is {number}"], check=True)
    return root


def started(words: list[str], die_at: int = 0) -> tuple[int, int]:
    """(exit code, writes) of a command in a child of its own, which dies before its write ``die_at``."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.dup2(os.open(os.devnull, os.O_RDWR), 1)
        os.dup2(1, 2)
        count = 0

        def hook(event: str, args: tuple[object, ...]) -> None:
            nonlocal count
            plain = event == "open" and isinstance(args[0], str) and isinstance(args[2], int)
            if event in _EVENTS or (plain and args[2] & _WRITES and args[0] != os.devnull):  # type: ignore[operator]
                count += 1
                if count == die_at:
                    os._exit(137)

        sys.addaudithook(hook)
        code = run(audit, "audit", words)
        os.write(writing, count.to_bytes(4, "big"))
        os._exit(code)
    os.close(writing)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    said = os.read(reading, 4)
    os.close(reading)
    return code, int.from_bytes(said, "big")


@pytest.mark.parametrize(
    "words",
    [
        "sglang --repo CLONE --commit HEAD --format html --output OUT",
        "diff HEAD~2 HEAD --repo CLONE --format html --output OUT",
    ],
)
def test_killed_before_any_write(
    clone: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: str
) -> None:
    out = tmp_path / "place" / "out"
    out.parent.mkdir()
    line = [w.replace("CLONE", str(clone)).replace("OUT", str(out)) for w in words.split()]
    line += ["--target", "sm_120"]
    monkeypatch.setenv("SGLANG_AUDITOR_CACHE_DIR", str(tmp_path / "right"))
    right = run(audit, "audit", line)  # here, so that the children have what it imports
    whole = out.read_bytes()
    assert right in (0, 1)
    out.unlink()
    monkeypatch.setenv("SGLANG_AUDITOR_CACHE_DIR", str(tmp_path / "cache"))
    done, writes = started(line)
    assert done == right and writes > 2 and out.read_bytes() == whole
    for at in sorted({1, writes // 2, writes - 1, writes}):
        monkeypatch.setenv("SGLANG_AUDITOR_CACHE_DIR", str(tmp_path / f"cache{at}"))
        out.write_bytes(OLD)
        code, _ = started(line, at)
        assert code == 137 and out.read_bytes() in (OLD, whole), at
        assert started(line)[0] == right
        assert out.read_bytes() == whole, at
    left = [p.name for p in out.parent.iterdir() if p != out]
    assert all(name.startswith(".out.") for name in left), left
