"""The cache folder and its entries.

Entries are written whole or not at all, carry a checksum, and can always be thrown away: a damaged or
missing entry is a miss, and a cache that cannot be written (no space, read-only) costs time, not results.
"""

from __future__ import annotations

import os
import re
import sys
import zlib
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar

from auditor.lazyre import lazy
from auditor.readback import Damaged, from_msgpack

T = TypeVar("T")

VARIABLE = "SGLANG_AUDITOR_CACHE_DIR"
#: How many bytes of facts and reports are kept, as a number with K, M or G behind it. Downloaded wheels and
#: clones do not count: they are few, and cost a network to have again.
SIZE_VARIABLE = "SGLANG_AUDITOR_CACHE_SIZE"
_SIZE = 2 << 30
_UNITS = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}
#: One store in so many looks whether the cache has grown past its size; it then shrinks to this share of it.
_EVERY = 64
_SHARE = 0.8
_MAGIC = b"SAC1"
_PLAIN = lazy(r"[A-Za-z0-9][A-Za-z0-9._-]{0,120}")
_README = """This folder is the cache of sglang-auditor: facts about source files, downloaded wheels and
clones. Everything in it can be deleted at any time; it comes back when it is needed.
Another place for it can be set with the environment variable SGLANG_AUDITOR_CACHE_DIR.
"""
_TAG = "Signature: 8a477f597d28d172789f06886806bc55\n# https://bford.info/cachedir/\n"


def cache_dir() -> Path:
    """Where the cache is, made or not: ``$SGLANG_AUDITOR_CACHE_DIR``, else the user's cache folder."""
    chosen = os.environ.get(VARIABLE)
    if chosen:
        return Path(os.path.abspath(os.path.expanduser(chosen)))
    if sys.platform == "linux":  # what platformdirs would say, without the cost of importing it
        base = os.environ.get("XDG_CACHE_HOME", "").strip()
        if not os.path.isabs(base):
            base = os.path.expanduser("~/.cache")
        return Path(base, "sglang-auditor")
    from platformdirs import user_cache_path

    return user_cache_path("sglang-auditor", appauthor=False)


def ready_cache_dir() -> Path:
    """The cache folder, made if it is not there. ``OSError`` if it cannot be."""
    folder = cache_dir()
    if not (folder / "CACHEDIR.TAG").is_file():
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_whole(folder / "README.txt", _README.encode())
        write_whole(folder / "CACHEDIR.TAG", _TAG.encode())
    return folder


def write_whole(path: Path, data: bytes) -> None:
    """Write a file so that it is never seen half-written. ``OSError`` leaves nothing behind."""
    temporary = path.with_name(f".{path.name[:80]}.{os.getpid()}.{os.urandom(4).hex()}.tmp")
    try:
        with open(temporary, "xb") as file:
            file.write(data)
        os.replace(temporary, path)
    except BaseException:
        with suppress(OSError):
            temporary.unlink()
        raise


def _place(kind: str, key: str) -> Path:
    if not _PLAIN.fullmatch(kind):
        raise ValueError(f"not a cache kind: {kind!r}")
    if not _PLAIN.fullmatch(key):
        from hashlib import sha256

        key = sha256(key.encode("utf-8", "surrogatepass")).hexdigest()
    return cache_dir() / kind / key[:2] / key


def cached_bytes(kind: str, key: str) -> bytes | None:
    """The stored bytes, or None if there are none or they are damaged."""
    try:
        place = _place(kind, key)
        with open(place, "rb") as file:
            stored = file.read()
    except OSError:
        return None
    data = memoryview(stored)[8:]
    if len(stored) < 8 or stored[:4] != _MAGIC or zlib.crc32(data) != int.from_bytes(stored[4:8], "big"):
        return None
    with suppress(OSError):
        os.utime(place)  # what is asked for is kept longest
    return bytes(data)


def cache_limit() -> int:
    """The most bytes of entries to keep; what is no size counts as not said."""
    text = os.environ.get(SIZE_VARIABLE, "").strip().upper().removesuffix("B").removesuffix("I")
    match = re.fullmatch(r"(\d{1,12})([KMG]?)", text)
    return int(match[1]) * _UNITS.get(match[2], 1) if match else _SIZE


def evict(limit: int | None = None) -> int:
    """Delete the entries that were not asked for longest, if there are more than ``limit`` bytes of them.

    Returns how many bytes that freed. Safe beside other runs: an entry that is gone is a miss for them.
    """
    most = cache_limit() if limit is None else limit
    entries = list(_entries())
    total = sum(size for _, size, _ in entries)
    if total <= most:
        return 0
    freed = 0
    for _, size, path in sorted(entries):
        if total - freed <= most * _SHARE:
            break
        with suppress(OSError):
            os.unlink(path)
            freed += size
    return freed


def _entries() -> Iterator[tuple[float, int, str]]:
    """(when last asked for, bytes, path) of everything that :func:`store_bytes` wrote."""
    for folder, _, files in os.walk(cache_dir()):
        parts = Path(folder).relative_to(cache_dir()).parts
        if len(parts) != 2 or len(parts[1]) != 2:
            continue
        for name in files:
            if name.startswith((parts[1], f".{parts[1]}")):  # the latter: of a run that was killed
                path = os.path.join(folder, name)
                with suppress(OSError):
                    found = os.lstat(path)
                    yield found.st_mtime, found.st_size, path


def store_bytes(kind: str, key: str, data: bytes) -> bool:
    """Store bytes under a key; False (and nothing written) if the disk would not take them."""
    place = _place(kind, key)
    try:
        ready_cache_dir()
        place.parent.mkdir(parents=True, exist_ok=True)
        write_whole(place, _MAGIC + zlib.crc32(data).to_bytes(4, "big") + data)
    except OSError:
        return False
    if len(data) * _EVERY > cache_limit() or zlib.crc32(key.encode("utf-8", "surrogatepass")) % _EVERY == 0:
        evict()
    return True


def remembered(kind: str, key: str, type_: Any, make: Callable[[], T]) -> T:
    """What ``make`` gave before under this key, else what it gives now; ``type_`` is that to msgspec.

    What has no encoding (a name that is not UTF-8) is made each time.
    """
    import msgspec

    kept = cached_bytes(kind, key)
    if kept is not None:
        try:
            before: T = from_msgpack(kept, type_)
            return before
        except Damaged:
            pass
    made = make()
    with suppress(UnicodeEncodeError):
        store_bytes(kind, key, msgspec.msgpack.encode(made))
    return made


def cache_usage() -> dict[str, tuple[int, int]]:
    """Kind -> (number of files, bytes) of what the cache holds, sorted by kind."""
    usage: dict[str, tuple[int, int]] = {}
    for folder, _, files in os.walk(cache_dir()):
        parts = Path(folder).relative_to(cache_dir()).parts
        if parts:
            count, size = usage.get(parts[0], (0, 0))
            for name in files:
                with suppress(OSError):
                    size += os.lstat(os.path.join(folder, name)).st_size
                    count += 1
            usage[parts[0]] = (count, size)
    return dict(sorted(usage.items()))


def clear_cache() -> int:
    """Delete every entry and return how many bytes that were. Refuses a folder that is not marked as ours."""
    import shutil

    folder = cache_dir()
    if not (folder / "CACHEDIR.TAG").is_file() or not (folder / "README.txt").is_file():
        return 0
    freed = sum(size for _, size in cache_usage().values())
    for entry in list(folder.iterdir()):
        if entry.is_dir() and not entry.is_symlink():
            shutil.rmtree(entry, ignore_errors=True)
    return freed
