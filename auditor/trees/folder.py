"""A plain folder without git: an unpacked wheel, or the part of an installed copy that its RECORD lists."""

from __future__ import annotations

import base64
import errno
import hashlib
import json
import os
import stat
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from auditor.errors import UserError
from auditor.readback import Damaged, plain_json
from auditor.trees.base import TreeInfo
from auditor.trees.cache import cached_bytes, store_bytes
from auditor.trees.names import blob_id, blob_id_of, listing_id, text_path

#: Folders that hold no source, wherever they are.
_SKIPPED = {".git", "__pycache__", ".hg", ".svn", ".patches-state"}
#: Files up to this size are read in one piece; ids of larger ones (kernel binaries) in a stream, in chunks.
WHOLE = 16 << 20
CHUNK = 1 << 20


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

    def _expects(self, name: str) -> str:
        """``sha256=...`` as RECORD writes it, where the file should have these bytes; else nothing.

        Files that do not are remarked upon in ``_remarks``, by path.
        """
        return ""

    def sizes(self) -> Mapping[str, int]:
        """path -> size in bytes of every regular file, sorted by path; nothing is read."""
        found: dict[str, int] = {}
        for name in self._names():
            facts = self._stat(name)
            if facts is not None:
                path = text_path(name)
                if path != name:
                    self._raw[path] = name
                found[path] = facts.st_size
        return dict(sorted(found.items()))

    def chunks(self, path: str) -> Iterator[bytes]:
        """The bytes of one file in pieces of at most 1 MiB, for files nobody should hold whole."""
        opened = self._open(self._raw.get(path, path))
        if opened is None:
            raise UserError("T014", "a file vanished while it was read", place=path, hints=["run it again"])
        try:
            while chunk := os.read(opened[0], CHUNK):
                yield chunk
        except OSError as error:
            raise unreadable(path, error) from None
        finally:
            os.close(opened[0])

    def on_disk(self, path: str) -> str | None:
        """Where the file lies, without asking whether it is still there (:meth:`local_path` asks)."""
        return os.path.join(self.root, self._raw.get(path, path))

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
                    identity = self._identify(name, facts.st_size)
                    if identity is None:
                        continue
                    entry = known.put(name, facts, *identity)
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

    def _identify(self, name: str, size: int) -> tuple[str, str] | None:
        """(content id, remark) of a file; None where :meth:`_load` gives None."""
        expected = self._expects(name)
        if size <= WHOLE:
            data = self._load(name)
            if data is None:
                return None
            return blob_id(data), _remark(expected, hashlib.sha256(data).digest() if expected else b"")
        opened = self._open(name)
        if opened is None:
            return None
        handle, facts = opened
        digest = hashlib.sha256()
        left = facts.st_size

        def pieces() -> Iterator[bytes]:
            nonlocal left
            while chunk := os.read(handle, CHUNK):
                left -= len(chunk)
                if expected:
                    digest.update(chunk)
                yield chunk

        try:
            found = blob_id_of(facts.st_size, pieces())
        except OSError as error:
            raise unreadable(name, error) from None
        finally:
            os.close(handle)
        if left != 0:
            raise UserError(
                "T014", "a file was changed while it was read", place=text_path(name), hints=["run it again"]
            )
        return found, _remark(expected, digest.digest())

    def _open(self, name: str) -> tuple[int, os.stat_result] | None:
        """A regular file, opened, and its facts; None if there is none or it is reached through a link."""
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
        except OSError as error:
            os.close(handle)
            raise unreadable(name, error) from None
        if not stat.S_ISREG(facts.st_mode):
            os.close(handle)
            return None
        return handle, facts

    def _load(self, name: str) -> bytes | None:
        """Bytes of a regular file; None if there is none (any more) or it is reached through a link."""
        opened = self._open(name)
        if opened is None:
            return None
        handle, facts = opened
        try:
            data = os.read(handle, facts.st_size + 1)
            if len(data) == facts.st_size:
                return data
            parts = [data]  # it grows while we read, or the read was cut at 2 GiB
            while chunk := os.read(handle, CHUNK):
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


def _remark(expected: str, digest: bytes) -> str:
    if not expected.startswith("sha256="):
        return ""
    return "" if base64.urlsafe_b64encode(digest).rstrip(b"=").decode() == expected[7:] else "changed"


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
                stored = plain_json(cached_bytes(self.KIND, self._key) or b"{}")
                self._old = stored if isinstance(stored, dict) else {}
            except Damaged:
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
