"""A plain folder without git: an unpacked wheel, or the part of an installed copy that its RECORD lists."""

from __future__ import annotations

import errno
import json
import os
import stat
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from auditor.errors import UserError
from auditor.trees.base import TreeInfo
from auditor.trees.cache import cached_bytes, store_bytes
from auditor.trees.names import blob_id, listing_id, text_path

#: Folders that hold no source, wherever they are.
_SKIPPED = {".git", "__pycache__", ".hg", ".svn", ".patches-state"}


class FilesOnDisk:
    """Regular files below one folder, by ``/``-separated relative path. Base of the trees that live on disk.

    Subclasses say which paths there are (``_names``). Ids are those of the bytes found on disk, so that an
    id always stands for exactly the bytes that :meth:`read` gives. A read never leaves the folder: no part
    of a path may be a symlink.
    """

    def __init__(self, root: str | os.PathLike[str], *, notes: Sequence[str] = ()) -> None:
        self.root = Path(os.path.abspath(root))
        self.notes = tuple(notes)
        self._raw: dict[str, str] = {}  # shown path -> name as the file system spells it, where they differ
        self._blobs: dict[str, str] | None = None
        self._info: TreeInfo | None = None
        self._remarks: dict[str, str] = {}  # shown path -> a word, where there is one
        self._real_folders: dict[str, bool] = {"": True}

    def _names(self) -> Iterable[str]:
        """Relative paths as the file system spells them, in any order. Not all need be regular files."""
        raise NotImplementedError

    def _describe(self, blobs: Mapping[str, str]) -> TreeInfo:
        raise NotImplementedError

    def _remark(self, name: str, data: bytes) -> str:
        """A word about a file's bytes that is kept with its id, and comes back in ``_remarks`` by path."""
        return ""

    def info(self) -> TreeInfo:
        if self._info is None:
            self._info = self._describe(self.blobs())
        return replace(self._info, notes=self.notes)

    def blobs(self) -> Mapping[str, str]:
        if self._blobs is None:
            known = IdMemo(self.root, type(self).__name__)
            found: dict[str, str] = {}
            for name in self._names():
                facts = self._stat(name)
                if facts is None:
                    continue
                entry = known.get(name, facts)
                if entry is None:
                    data = self._load(name)
                    if data is None:
                        continue
                    entry = known.put(name, facts, blob_id(data), self._remark(name, data))
                path = text_path(name)
                if path != name:
                    self._raw[path] = name
                found[path], remark = entry
                if remark:
                    self._remarks[path] = remark
            known.store()
            self._blobs = dict(sorted(found.items()))
        return self._blobs

    def read(self, path: str) -> bytes:
        expected = self.blobs()[path]
        data = self._load(self._raw.get(path, path))
        # Facts are kept under the id, so bytes that came later must not pass under it.
        if data is None or blob_id(data) != expected:
            IdMemo.forget(self.root, type(self).__name__)
            fact = "a file vanished" if data is None else "a file was changed"
            raise UserError("T014", f"{fact} while it was read", place=path, hints=["run it again"])
        return data

    def read_many(self, paths: Iterable[str]) -> Iterator[tuple[str, bytes]]:
        for path in paths:
            yield path, self.read(path)

    def local_path(self, path: str) -> str | None:
        if path not in self.blobs():
            return None
        return os.path.join(self.root, self._raw.get(path, path))

    def _stat(self, name: str) -> os.stat_result | None:
        """Facts of a regular file that is reached through no link, else None."""
        if not self._is_real_folder(name.rpartition("/")[0]):
            return None
        try:
            facts = os.lstat(os.path.join(self.root, name))
        except OSError as error:
            if error.errno in (errno.EACCES, errno.EPERM, errno.EIO):
                raise unreadable(name, error) from None
            return None
        return facts if stat.S_ISREG(facts.st_mode) else None

    def _load(self, name: str) -> bytes | None:
        """Bytes of a regular file; None if there is none (any more) or it is reached through a link."""
        if not self._is_real_folder(name.rpartition("/")[0]):
            return None
        try:
            # O_NONBLOCK: opening a FIFO must not wait for a writer.
            flags = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
            handle = os.open(os.path.join(self.root, name), flags | getattr(os, "O_BINARY", 0))
        except OSError as error:
            if error.errno in (
                errno.ENOENT,
                errno.ELOOP,
                errno.ENOTDIR,
                errno.ENXIO,
                errno.EMLINK,
                errno.EISDIR,
            ):
                return None
            raise unreadable(name, error) from None
        try:
            facts = os.fstat(handle)
            if not stat.S_ISREG(facts.st_mode):
                return None
            data = os.read(handle, facts.st_size + 1)
            if len(data) == facts.st_size:
                return data
            parts = [data]  # it grows while we read, or the read was cut at 2 GiB
            while chunk := os.read(handle, 1 << 20):
                parts.append(chunk)
            return b"".join(parts)
        except OSError as error:
            raise unreadable(name, error) from None
        finally:
            os.close(handle)

    def _is_real_folder(self, folder: str) -> bool:
        known = self._real_folders.get(folder)
        if known is None:
            parent = folder.rpartition("/")[0]
            try:
                mode = os.lstat(os.path.join(self.root, folder)).st_mode
                known = stat.S_ISDIR(mode) and self._is_real_folder(parent)
            except OSError:
                known = False
            self._real_folders[folder] = known
        return known


class IdMemo:
    """Ids of files that have not been touched since they were last read, as git's index keeps them.

    A file is taken as untouched if size, inode, modification and change time are all the same, and if those
    times were well past when it was read: what is written within the same tick as a read is read again.
    """

    KIND = "disk-ids"
    SETTLED = 3_000_000_000  # nanoseconds; the coarsest time stamps in use count two seconds

    def __init__(self, root: Path, kind: str) -> None:
        self._key = f"{kind} {root}"
        self._new: dict[str, list[object]] = {}
        self._fresh = False
        self._now = time.time_ns()
        self._old: dict[str, list[object]] = {}
        if os.name == "posix":  # elsewhere the change time is something else
            try:
                stored = json.loads(cached_bytes(self.KIND, self._key) or b"{}")
                self._old = stored if isinstance(stored, dict) else {}
            except ValueError:
                pass

    def get(self, name: str, facts: os.stat_result) -> tuple[str, str] | None:
        """(id, remark) of an untouched file."""
        entry = self._old.get(name)
        if not isinstance(entry, list) or len(entry) != 6 or entry[:4] != _tick(facts):
            return None
        self._new[name] = entry
        return str(entry[4]), str(entry[5])

    def put(self, name: str, facts: os.stat_result, oid: str, remark: str) -> tuple[str, str]:
        if max(facts.st_mtime_ns, facts.st_ctime_ns) < self._now - self.SETTLED:
            self._new[name] = [*_tick(facts), oid, remark]
            self._fresh = True
        return oid, remark

    def store(self) -> None:
        if os.name == "posix" and (self._fresh or len(self._new) != len(self._old)):
            text = json.dumps(self._new, separators=(",", ":"))  # ASCII: lone surrogates survive it
            store_bytes(self.KIND, self._key, text.encode())

    @classmethod
    def forget(cls, root: Path, kind: str) -> None:
        store_bytes(cls.KIND, f"{kind} {root}", b"{}")


def _tick(facts: os.stat_result) -> list[object]:
    return [facts.st_size, facts.st_mtime_ns, facts.st_ctime_ns, facts.st_ino]


class FolderTree(FilesOnDisk):
    """Every regular file below a folder; ``only`` narrows it to some of the entries at its top."""

    def __init__(
        self,
        root: str | os.PathLike[str],
        *,
        only: Sequence[str] = (),
        kind: str = "folder",
        label: str | None = None,
        version: str | None = None,
        notes: Sequence[str] = (),
    ) -> None:
        super().__init__(root, notes=notes)
        self._only = tuple(only)
        self._kind = kind
        self._label = label
        self._version = version

    def _names(self) -> Iterable[str]:
        pending = list(self._only) or [""]
        if self._only:
            yield from (n for n in self._only if os.path.isfile(os.path.join(self.root, n)))
            pending = [n for n in self._only if os.path.isdir(os.path.join(self.root, n))]
        while pending:  # a list, not recursion: depth is whatever the disk holds
            folder = pending.pop()
            try:
                with os.scandir(os.path.join(self.root, folder)) as entries:
                    for entry in entries:
                        name = f"{folder}/{entry.name}" if folder else entry.name
                        if entry.is_dir(follow_symlinks=False):
                            if entry.name not in _SKIPPED:
                                pending.append(name)
                        elif entry.is_file(follow_symlinks=False):
                            yield name
            except OSError as error:
                raise unreadable(folder or ".", error) from None

    def _describe(self, blobs: Mapping[str, str]) -> TreeInfo:
        label = self._label or self.root.name or "folder"
        return TreeInfo(self._kind, text_path(label), listing_id(blobs), version=self._version)


def unreadable(name: str, error: OSError) -> UserError:
    """A file or folder the disk would not give us."""
    import shlex

    hints = [f"ls -ld {shlex.quote(text_path(name))}"]
    return UserError("T014", f"cannot read: {error.strerror or error}", place=text_path(name), hints=hints)
