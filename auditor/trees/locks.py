"""One process at a time for downloads and clones in the cache."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from auditor.errors import UserError
from auditor.trees.cache import ready_cache_dir

#: Seconds to wait for another process's download before giving up.
PATIENCE = 900.0


@contextmanager
def locked_folder(kind: str) -> Iterator[Path]:
    """The cache's folder of this kind, with its lock held. ``UserError`` T014 if that cannot be."""
    from filelock import FileLock, Timeout  # costs more to import than a whole warm run may take

    try:
        folder = ready_cache_dir() / kind
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise cache_trouble(error) from None
    lock = FileLock(str(folder) + ".lock", timeout=PATIENCE)
    try:
        lock.acquire()
    except Timeout:
        raise UserError(
            "T014",
            f"another process has held the cache's lock for {PATIENCE:.0f} seconds",
            place=f"{folder}.lock",
            hints=["end that process and try again"],
        ) from None
    except OSError as error:
        raise cache_trouble(error) from None
    try:
        yield folder
    finally:
        lock.release()


def cache_trouble(error: OSError) -> UserError:
    """The cache folder cannot be written."""
    import errno

    from auditor.trees.cache import VARIABLE, cache_dir

    hints = [f"{VARIABLE}=FOLDER puts the cache elsewhere"]
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        hints.insert(0, "audit cache clear")
    return UserError(
        "T014", f"cannot write the cache: {error.strerror or error}", place=str(cache_dir()), hints=hints
    )
