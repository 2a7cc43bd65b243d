"""A wheel file, read as it is: nothing is unpacked to disk, and nothing in its directory is believed."""

from __future__ import annotations

import json
import os
import shlex
import stat
import struct
import zipfile
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from auditor.errors import UserError
from auditor.readback import Damaged, plain_json
from auditor.trees.base import TreeInfo
from auditor.trees.cache import cached_bytes, store_bytes
from auditor.trees.folder import unreadable
from auditor.trees.names import blob_id, blob_id_of, listing_id, metadata_headers, normal_name, text_path

MAX_FILES = 200_000
MAX_FILE = 2 << 30  # bytes, unpacked
MAX_TOTAL = 8 << 30
#: A file that unpacks to more than this many bytes may not do so from less than this part of
#: them. Deflate ends at 1032; source and binaries stay below 100.
BOMB_FROM = 64 << 20
BOMB_RATIO = 500
#: Files up to this size are unpacked in one piece; ids of larger ones (kernel binaries) in a stream.
WHOLE = 16 << 20
_LOCAL_HEADER = struct.Struct("<4s5H3I2H")
#: What reading an entry of a damaged archive raises; a name that is not UTF-8 is a ValueError.
_BROKEN: tuple[type[Exception], ...] = (
    zipfile.BadZipFile,
    zlib.error,
    EOFError,
    NotImplementedError,
    ValueError,
    struct.error,
    RuntimeError,
)


class WheelTree:
    """The files of a wheel. ``distribution`` is the name its metadata must carry (None: any).

    ``sha256`` is the digest of the file where the caller has just computed it.

    ``UserError`` T006 corrupt, T007 of another project, T008 unsafe, T014 unreadable.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        distribution: str | None = None,
        kind: str = "wheel",
        sha256: str | None = None,
        notes: Sequence[str] = (),
    ) -> None:
        self.path = Path(path)
        self.kind = kind
        self.notes = tuple(notes)
        self._sha256 = sha256
        self._blobs: dict[str, str] | None = None
        self._info: TreeInfo | None = None
        try:
            self._file = open(self.path, "rb")
        except FileNotFoundError:
            raise UserError(
                "T001", "no such file", place=str(path), hints=["check the path after --wheel"]
            ) from None
        except IsADirectoryError:
            raise UserError(
                "T014",
                "a folder, not a wheel file",
                place=str(path),
                hints=[f"--path {shlex.quote(str(path))}"],
            ) from None
        except OSError as error:
            raise unreadable(str(path), error) from None
        try:
            with zipfile.ZipFile(self._file) as archive:
                self._entries = _checked(archive.infolist(), str(path))
        except (
            zipfile.BadZipFile,
            NotImplementedError,
            ValueError,
            EOFError,
            struct.error,
            OverflowError,
        ) as error:
            raise self._corrupt(str(error)) from None
        except OSError as error:
            raise unreadable(str(path), error) from None
        self._file = open(self.path, "rb")
        if any(entry.header_offset < 0 for entry in self._entries.values()):
            raise self._corrupt("its beginning is missing")
        self.metadata = self._read_metadata()
        if distribution is not None and normal_name(self.metadata.get("Name", "")) != normal_name(
            distribution
        ):
            found = self.metadata.get("Name")
            raise UserError(
                "T007",
                f"this is a wheel of {found}, not of {distribution}"
                if found
                else f"this archive has no metadata: not a wheel of {distribution}",
                place=str(path),
                hints=[f"python -m pip download --no-deps {distribution}"],
            )

    def info(self) -> TreeInfo:
        if self._info is None:
            version = self.metadata.get("Version")
            self._info = TreeInfo(
                self.kind, version or text_path(self.path.name), listing_id(self.blobs()), version=version
            )
        return replace(self._info, notes=self.notes)

    def blobs(self) -> Mapping[str, str]:
        if self._blobs is None:
            key = self.sha256()
            self._blobs = self._remembered(key)
            if self._blobs is None:
                self._blobs = {path: self._id(entry) for path, entry in self._entries.items()}
                store_bytes("wheel-ids", key, json.dumps(self._blobs).encode())
        return self._blobs

    def read(self, path: str) -> bytes:
        return self._unpack(self._entries[path])

    def read_many(self, paths: Iterable[str]) -> Iterator[tuple[str, bytes]]:
        for path in paths:
            yield path, self._unpack(self._entries[path])

    def sizes(self) -> Mapping[str, int]:
        """path -> size in bytes of every file as the directory states it, sorted; nothing is unpacked."""
        return {path: entry.file_size for path, entry in self._entries.items()}

    def chunks(self, path: str) -> Iterator[bytes]:
        """The bytes of one file in pieces of at most 1 MiB, for files nobody should hold whole."""
        entry = self._entries[path]
        try:
            with zipfile.ZipFile(self.path) as archive, archive.open(entry) as file:
                left = entry.file_size
                while chunk := file.read(1 << 20):
                    left -= len(chunk)
                    yield chunk
                if left:
                    raise self._corrupt(f"{path} has another size than the directory says")
        except _BROKEN as error:
            raise self._corrupt(f"{path}: {error}") from None
        except OSError as error:
            raise unreadable(str(self.path), error) from None

    def on_disk(self, path: str) -> str | None:
        return None

    def local_path(self, path: str) -> str | None:
        return None

    def sha256(self) -> str:
        """Digest of the whole archive file."""
        if self._sha256 is not None:
            return self._sha256
        import hashlib

        digest = hashlib.sha256()
        try:
            self._file.seek(0)
            while chunk := self._file.read(1 << 20):
                digest.update(chunk)
        except OSError as error:
            raise unreadable(str(self.path), error) from None
        self._sha256 = digest.hexdigest()
        return self._sha256

    def close(self) -> None:
        self._file.close()

    def __del__(self) -> None:
        file = getattr(self, "_file", None)
        if file is not None:
            file.close()

    def _remembered(self, key: str) -> dict[str, str] | None:
        stored = cached_bytes("wheel-ids", key)
        try:
            known = plain_json(stored) if stored else None
        except Damaged:
            return None
        if not isinstance(known, dict) or not all(isinstance(value, str) for value in known.values()):
            return None
        return known if list(known) == list(self._entries) else None

    def _id(self, entry: zipfile.ZipInfo) -> str:
        if entry.file_size <= WHOLE:
            return blob_id(self._unpack(entry))
        try:
            with zipfile.ZipFile(self.path) as archive, archive.open(entry) as file:
                return blob_id_of(entry.file_size, iter(lambda: file.read(1 << 20), b""))
        except _BROKEN as error:
            raise self._corrupt(f"{text_path(entry.filename)}: {error}") from None
        except OSError as error:
            raise unreadable(str(self.path), error) from None

    def _unpack(self, entry: zipfile.ZipInfo) -> bytes:
        """Bytes of one entry. As ``ZipFile.read`` does it, without its cost per file."""
        try:
            self._file.seek(entry.header_offset)
            head = self._file.read(_LOCAL_HEADER.size)
            fields = _LOCAL_HEADER.unpack(head)
            if fields[0] != b"PK\x03\x04":
                raise self._corrupt(f"no file where the directory says {text_path(entry.filename)} is")
            self._file.seek(fields[9] + fields[10], os.SEEK_CUR)
            if entry.compress_size > os.fstat(self._file.fileno()).st_size:
                raise self._corrupt(f"{text_path(entry.filename)} is said to be larger than the archive")
            packed = self._file.read(entry.compress_size)
        except OSError as error:
            raise unreadable(str(self.path), error) from None
        except struct.error:
            raise self._corrupt("it ends too early") from None
        if entry.compress_type == zipfile.ZIP_STORED:
            data = packed
        else:
            try:
                # One byte more than promised is enough to notice that there is more.
                data = zlib.decompressobj(-15).decompress(packed, entry.file_size + 1)
            except zlib.error as error:
                raise self._corrupt(f"{text_path(entry.filename)}: {error}") from None
        if len(data) != entry.file_size or zlib.crc32(data) != entry.CRC:
            raise self._corrupt(f"{text_path(entry.filename)} does not match its checksum")
        return data

    def _corrupt(self, why: str) -> UserError:
        return UserError(
            "T006", f"not a readable wheel: {why}", place=str(self.path), hints=["download it again"]
        )

    def _read_metadata(self) -> dict[str, str]:
        """Headers of METADATA in the wheel's only ``.dist-info``; empty if there is none."""
        names = [n for n in self._entries if n.endswith(".dist-info/METADATA") and n.count("/") == 1]
        if len(names) != 1:
            return {}
        return metadata_headers(self._unpack(self._entries[names[0]]))


def _checked(entries: Sequence[zipfile.ZipInfo], place: str) -> dict[str, zipfile.ZipInfo]:
    """Regular files by path, sorted. ``UserError`` T008 for anything a wheel of good will never holds."""

    def unsafe(fact: str) -> UserError:
        return UserError("T008", fact, place=place, hints=["do not install it; download it again"])

    if len(entries) > MAX_FILES:
        raise unsafe(f"the archive holds {len(entries)} files, more than {MAX_FILES}")
    total = 0
    found: dict[str, zipfile.ZipInfo] = {}
    names: set[str] = set()
    for entry in entries:
        name = entry.orig_filename
        parts = name.rstrip("/").split("/")
        if "\0" in name or "\\" in name or ".." in parts or "." in parts or "" in parts or ":" in parts[0]:
            raise unsafe(f"the archive holds the path {name!r}, which leads out of it")
        if name in names:
            raise unsafe(f"the archive holds {name!r} twice")
        names.add(name)
        total += entry.file_size
        if entry.file_size > MAX_FILE or total > MAX_TOTAL:
            raise unsafe(f"the archive unpacks to more than {MAX_TOTAL >> 30} GiB")
        if entry.file_size > BOMB_FROM and entry.file_size > BOMB_RATIO * max(entry.compress_size, 1):
            raise unsafe(f"{name!r} unpacks to {entry.file_size} bytes from {entry.compress_size}")
        if entry.flag_bits & 0x1:
            raise unsafe(f"{name!r} is encrypted")
        if name.endswith("/") or stat.S_ISLNK(entry.external_attr >> 16):
            continue
        if entry.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            raise unsafe(f"{name!r} is packed with method {entry.compress_type}, which no wheel uses")
        found[text_path(name)] = entry
    return dict(sorted(found.items()))
