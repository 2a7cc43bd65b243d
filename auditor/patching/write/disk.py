"""Files below one folder, reached without following a link, and replaced so that nobody sees half of one.

Every part of a path is opened as a folder and never through a link, relative to the one above it: a link
that is put there while we work leads nowhere.
"""

from __future__ import annotations

import errno
import fcntl
import os
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from auditor.errors import UserError

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


class Root:
    """One folder of a target. Close it, or use it as a context manager."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        try:
            self._handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except OSError as error:
            raise trouble(error, str(folder)) from None

    def __enter__(self) -> Root:
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._handle)

    @contextmanager
    def _parent(self, path: str) -> Iterator[tuple[int, str]]:
        """The open folder a path lies in, and its name there. ``FileNotFoundError`` if there is none."""
        *folders, name = path.split("/")
        handle = os.dup(self._handle)
        try:
            for at, part in enumerate(folders, 1):
                try:
                    inner = os.open(part, _FOLDER, dir_fd=handle)
                except OSError as error:
                    if error.errno in (errno.ELOOP, errno.ENOTDIR):
                        raise self._linked("/".join(folders[:at])) from None
                    raise
                os.close(handle)
                handle = inner
            yield handle, name
        except OSError as error:
            error.filename = path  # not the name that new content has until it is in place
            raise
        finally:
            os.close(handle)

    def _linked(self, path: str) -> UserError:
        return UserError(
            "P041",
            f"{path} is a link or no folder: what lies behind it is not part of the target",
            place=str(self.folder),
            hints=[f"ls -ld {self.folder / path}"],
        )

    def read(self, path: str) -> tuple[bytes, int] | None:
        """Bytes and permission bits of a regular file, or None. ``UserError`` P041 for a link or a folder."""
        try:
            with self._parent(path) as (folder, name):
                flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
                handle = os.open(name, flags, dir_fd=folder)
                try:
                    facts = os.fstat(handle)
                    if not stat.S_ISREG(facts.st_mode):
                        raise self._linked(path)
                    parts = []
                    while chunk := os.read(handle, 1 << 20):
                        parts.append(chunk)
                    return b"".join(parts), stat.S_IMODE(facts.st_mode)
                finally:
                    os.close(handle)
        except FileNotFoundError:
            return None
        except OSError as error:
            if error.errno in (errno.ELOOP, errno.ENXIO):
                raise self._linked(path) from None
            raise trouble(error, path) from None

    def missing_folders(self, path: str) -> list[str]:
        """Folders above ``path`` that are not there, outermost first.

        ``UserError`` P040 where one is there under another spelling (letter case, composed letters).
        """
        parts = path.split("/")
        for at in range(1, len(parts) + 1):
            here = "/".join(parts[:at])
            with self._parent(here) as (folder, name):
                try:
                    os.stat(name, dir_fd=folder, follow_symlinks=False)
                except FileNotFoundError:
                    return ["/".join(parts[:n]) for n in range(at, len(parts))]
                if name not in os.listdir(folder):
                    raise UserError(
                        "P040", f"{here} is there under another spelling", hints=["correct the patch"]
                    )
        return []

    def make_folder(self, path: str) -> None:
        with self._parent(path) as (folder, name):
            os.mkdir(name, 0o777, dir_fd=folder)

    def drop_folder(self, path: str) -> None:
        """Remove a folder if it is there and empty."""
        with suppress(OSError), self._parent(path) as (folder, name):
            os.rmdir(name, dir_fd=folder)

    def stage(self, path: str, token: str, data: bytes, perm: int) -> None:
        """Write what ``path`` will hold beside it, down to the disk. `unstage` removes what is left of it."""
        with self._parent(path) as (folder, name):
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
            handle = os.open(staged_name(name, token), flags, 0o600, dir_fd=folder)
            try:
                view = memoryview(data)
                while view:
                    view = view[os.write(handle, view) :]
                with suppress(OSError):  # only root may give files away; others own what they may replace
                    facts = os.stat(name, dir_fd=folder, follow_symlinks=False)
                    if (facts.st_uid, facts.st_gid) != (os.geteuid(), os.getegid()):
                        os.fchown(handle, facts.st_uid, facts.st_gid)
                os.fchmod(handle, perm)
                os.fsync(handle)
            finally:
                os.close(handle)

    def unstage(self, path: str, token: str) -> None:
        """Remove what :meth:`stage` left, if it is there."""
        with suppress(FileNotFoundError), self._parent(path) as (folder, name):
            os.unlink(staged_name(name, token), dir_fd=folder)

    def put(self, path: str, token: str) -> None:
        """Let what was staged take the place of ``path``."""
        with self._parent(path) as (folder, name):
            os.rename(staged_name(name, token), name, src_dir_fd=folder, dst_dir_fd=folder)

    def remove(self, path: str) -> None:
        with self._parent(path) as (folder, name):
            os.unlink(name, dir_fd=folder)

    def chmod(self, path: str, perm: int) -> None:
        with self._parent(path) as (folder, name):
            handle = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder)
            try:
                os.fchmod(handle, perm)
            finally:
                os.close(handle)

    def settle(self, paths: list[str]) -> None:
        """Bring the folders of these paths down to the disk."""
        done = set()
        for path in paths:
            above = path.rpartition("/")[0]
            if above in done:
                continue
            done.add(above)
            with suppress(OSError), self._parent(path) as (folder, _):
                os.fsync(folder)


def staged_name(name: str, token: str) -> str:
    """Name of the new content until it takes its place; short enough for any file system."""
    return f".{name[:100]}.{token}.patches"


def write_down(path: Path, data: bytes) -> None:
    """Write a file whole, down to the disk; ``OSError`` leaves what was there before."""
    temporary = path.with_name(path.name + ".tmp")
    try:
        with open(temporary, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
        settle_folder(path.parent)
    except BaseException:
        with suppress(OSError):
            temporary.unlink()
        raise


def settle_folder(folder: Path) -> None:
    """Bring a folder's list of names down to the disk, where the system can."""
    with suppress(OSError):
        handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


@contextmanager
def held(folder: Path, patience: float) -> Iterator[None]:
    """Hold the lock of a target: a lock on its folder, which leaves no file behind and ends with the process.

    ``UserError`` P042 if another run still has it after ``patience`` seconds.
    """
    try:
        handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError as error:
        raise trouble(error, str(folder)) from None
    try:
        end = time.monotonic() + patience
        while True:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except OSError as error:
                if error.errno not in (errno.EWOULDBLOCK, errno.EACCES):
                    raise trouble(error, str(folder)) from None
            if time.monotonic() >= end:
                raise UserError(
                    "P042",
                    f"another run of patches is at work here, for more than {patience:.0f} seconds",
                    place=str(folder),
                    hints=["wait for it, or --wait SECONDS"],
                )
            time.sleep(0.05)
        yield
    finally:
        os.close(handle)


def trouble(error: OSError, place: str) -> UserError:
    """A disk that refuses, said in one sentence: no permission, read-only, no space."""
    words = {
        errno.ENOSPC: "no space left on the disk",
        errno.EDQUOT: "no space left for this user on the disk",
        errno.EROFS: "the target is read-only",
        errno.EACCES: "no permission to write there",
        errno.EPERM: "no permission to write there",
    }
    fact = words.get(error.errno or 0) or f"the disk refuses: {(error.strerror or str(error)).lower()}"
    hints = {
        errno.ENOSPC: ["make room and run it again"],
        errno.EDQUOT: ["make room and run it again"],
        errno.EROFS: ["--to PATH of a copy that can be written"],
        errno.EACCES: ["run it as the owner of the files"],
        errno.EPERM: ["run it as the owner of the files"],
    }
    return UserError("P043", fact, place=place, hints=hints.get(error.errno or 0, []))


def perm_after(mode: str, perm: int, data: bytes | None) -> int:
    """Permission bits after a patch: those before, with the executable bits as its mode says."""
    if data is None:
        return 0
    mask = os.umask(0)
    os.umask(mask)
    if not perm:
        return (0o777 if mode == "100755" else 0o666) & ~mask
    if mode == "100755":
        return perm | (perm & 0o444) >> 2
    return perm & ~0o111 if mode == "100644" else perm
