"""Entries of the cache, damaged, and damaged with a digest that fits: a miss, or an answer of the right type."""

from __future__ import annotations

import zlib

import msgspec

from auditor.native.built import objectcache
from auditor.patching.planning.outcomes import outcome_of
from auditor.queries.exampletree import MemoryTree
from auditor.trees import cache
from auditor.trees.folder import FolderTree
from auditor.trees.versions import Step
from auditor.trees.wheel import WheelTree
from tests.fuzz import engine
from tests.fuzz.parsers.wheel import SEEDS as WHEELS

WORDS = (
    b"SAC1",
    b"\xff",
    b"\x91",
    b"\x93",
    b"\xdd\xff\xff\xff\xff",
    b"\xdb\xff\xff\xff\xff",
    b"\xc1",
    b"null",
    b"[]",
    b"{}",
    b'"\\ud800"',
    b"[" * 2000,
    b"\x91" * 2000,
    b"\xa1\xff",
    b'{"a.py":',
    b"1",
)
SEEDS = (
    msgspec.msgpack.encode([["a" * 40, "b"], "x"]),
    b'{"x/a.py":"0123456789012345678901234567890123456789"}',
    b'{"a.py":[1,2,3,4,"0123456789012345678901234567890123456789"]}',
    b"[" + b"[" * 40,
    b'[["x.so","elf","x86_64",5,[[1,[]]],[],0,{},[],[],false]]',
)


def one_input(data: bytes) -> None:
    folder = engine.place() / "cache"
    cache.store_bytes("raw", "key", b"value")
    for path in (folder / "raw").rglob("key"):
        path.write_bytes(data)
    assert cache.cached_bytes("raw", "key") in (None, data[8:])
    for type_, made in ((list[Step], []), (list[tuple[str, str]], [("a", "b")]), (list[bytes], [b"x"])):
        cache.store_bytes("typed", "key", data)
        found = cache.remembered("typed", "key", type_, lambda made=made: made)
        assert msgspec.convert(msgspec.to_builtins(found), type_) == found
    objectcache.decode(data)
    _trees(data)
    _damage(data)
    _trees(data)  # and now what those have stored themselves is `data`
    msgspec.json.encode(zlib.crc32(data))


def _trees(data: bytes) -> None:
    wheel = engine.place() / "c-1-py3-none-any.whl"
    wheel.write_bytes(WHEELS[0])
    with_close = WheelTree(wheel)
    try:
        _ids(with_close.blobs())
    finally:
        with_close.close()
    tree = engine.place() / "folder"
    tree.mkdir(exist_ok=True)
    (tree / "a.py").write_bytes(b"a = 1\n")
    _ids(FolderTree(tree).blobs())
    memory = MemoryTree({"a.py": "a\n"})
    from auditor.patching.model import Outcome

    found = outcome_of(
        "key", memory, lambda oid: None, lambda tree, blobs: Outcome("clean", (), {"a.py": b"b\n"})
    )
    assert isinstance(found, Outcome)


def _ids(blobs: object) -> None:
    assert all(isinstance(k, str) and isinstance(v, str) for k, v in dict(blobs).items())  # type: ignore[call-overload]


def _damage(data: bytes) -> None:
    folder = engine.place() / "cache"
    for path in folder.rglob("*"):
        if path.is_file() and path.parent.parent.parent == folder:
            path.write_bytes(b"SAC1" + zlib.crc32(data).to_bytes(4, "big") + data)
