"""Changing the index of a checkout so that a kill at any moment leaves nothing that a person has to remove.

``git update-index`` holds ``index.lock`` while it writes. Ended together with us, it would leave that lock,
and nobody could tell whose it is. So git works on a copy in our own folder; the lock is ours, says so, and is
only held while the copy is made and put in place.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from auditor.errors import UserError
from auditor.patching.write.disk import trouble, write_down

#: What our lock says. Git's own are empty or begin with ``DIRC``.
_MARK = b"patches: held while the index is changed\n"
_HELD = "index.held"
_COPY = "index"


def require_unlocked(git_dir: Path, patience: float) -> None:
    """``UserError`` P052 while another git process has the index for longer than ``patience`` seconds."""
    lock = git_dir / "index.lock"
    end = time.monotonic() + patience
    while lock.exists():
        if time.monotonic() > end:
            raise _locked(lock)
        time.sleep(0.02)


def _locked(lock: Path) -> UserError:
    return UserError(
        "P052",
        "another git process has the index, or one was killed and left its lock",
        place=str(lock),
        hints=[f"rm {lock}        # if no git is running there"],
    )


def sweep(git_dir: Path, store: Path) -> None:
    """Remove what a run that was killed left; only for a caller that holds the target."""
    lock = git_dir / "index.lock"
    with suppress(OSError):
        if lock.read_bytes() == _MARK:
            lock.unlink()
    for name in (_COPY, f"{_COPY}.lock", _HELD, f"{_HELD}.tmp"):
        with suppress(OSError):
            (store / name).unlink()


@contextmanager
def own_index(git_dir: Path, store: Path, patience: float) -> Iterator[Path]:
    """A copy of the index for git to change; in place when the block ends well. ``UserError`` P052, P043."""
    sweep(git_dir, store)
    lock = git_dir / "index.lock"
    try:
        store.mkdir(exist_ok=True)
        write_down(store / _HELD, _MARK)
        _take(store / _HELD, lock, patience)
        try:
            if (git_dir / "index").exists():
                _copy(git_dir / "index", store / _COPY)
            yield store / _COPY
            if (store / _COPY).exists():
                os.replace(store / _COPY, git_dir / "index")
        finally:
            sweep(git_dir, store)
    except OSError as error:
        raise trouble(error, str(error.filename or git_dir)) from error


def _copy(index: Path, to: Path) -> None:
    """With its time: that is what git tells old facts by."""
    facts = index.stat()
    to.write_bytes(index.read_bytes())
    os.chmod(to, facts.st_mode & 0o777)
    os.utime(to, ns=(facts.st_atime_ns, facts.st_mtime_ns))


def _take(held: Path, lock: Path, patience: float) -> None:
    """Make the lock, with its words from the first moment on where the disk knows links."""
    end = time.monotonic() + patience
    while True:
        try:
            try:
                os.link(held, lock)
            except FileExistsError:
                raise
            except OSError:
                with open(lock, "xb") as file:
                    file.write(_MARK)
            return
        except FileExistsError:
            if time.monotonic() > end:
                raise _locked(lock) from None
            time.sleep(0.02)
