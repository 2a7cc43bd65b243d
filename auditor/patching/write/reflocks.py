"""Locks that git lays beside a branch, HEAD or the index, that stay when it is killed before the rename.

Such a lock makes every later git refuse. One with the very id that a transaction of ours gives its branch is
ours, and is removed by the run that finishes or puts back that transaction; any other is only named.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable
from contextlib import suppress
from pathlib import Path

from auditor.errors import UserError
from auditor.patching.write.disk import trouble
from auditor.trees.git import GitRepo

#: Where new commits hang until a branch has them: a ref that each working tree of a clone has for itself, so
#: that two of them can be written at once (gitrepository-layout(5), "refs/worktree").
SCRATCH = "refs/worktree/patches-state"
#: Seconds after which a lock is not one of a git that is at work: it holds one for milliseconds.
PATIENCE = 5.0


def lock_of(repo: GitRepo, ref: str) -> Path:
    """The lock file of a branch, of HEAD or of the scratch ref."""
    return (repo.git_dir if ref in ("HEAD", SCRATCH) else repo.common_dir) / f"{ref}.lock"


def free(repo: GitRepo, ref: str, ids: Collection[str], patience: float = PATIENCE) -> None:
    """Wait until nobody holds ``ref``; a lock that was left with one of ``ids`` in it is removed.

    ``UserError`` P052 where another one stays.
    """
    lock = lock_of(repo, ref)
    end = time.monotonic() + patience
    while lock.exists():
        if time.monotonic() > end:
            try:
                if lock.read_bytes().strip().decode("ascii", "replace") not in ids:
                    raise UserError(
                        "P052",
                        f"another git process has {ref}, or one was killed and left its lock, {lock}",
                        place=str(lock),
                        hints=[f"rm {lock}        # if no git is running there"],
                    )
                lock.unlink()
            except FileNotFoundError:
                return
            except OSError as error:
                raise trouble(error, str(lock)) from None
        time.sleep(0.02)


def left_locks(repo: GitRepo, refs: Iterable[str]) -> list[Path]:
    """Locks of the index, HEAD, the list of refs and these branches that no git at work can hold any more."""
    found = [repo.git_dir / "index.lock", repo.common_dir / "packed-refs.lock"]
    found += [lock_of(repo, ref) for ref in dict.fromkeys(("HEAD", *refs))]
    return [path for path in found if _old(path)]


def forget_scratch_lock(repo: GitRepo) -> None:
    """Remove the lock of our own ref that a run that was killed left."""
    lock = lock_of(repo, SCRATCH)
    if _old(lock):
        with suppress(OSError):
            lock.unlink()


def _old(path: Path) -> bool:
    try:
        return time.time() - path.stat().st_mtime > PATIENCE
    except OSError:
        return False
