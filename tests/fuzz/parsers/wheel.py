"""Wheels: archives whose directory may lie."""

from __future__ import annotations

import functools
import io
import random
import zipfile

from auditor.errors import UserError
from auditor.trees.wheel import WheelTree
from tests.fuzz import engine

WORDS = (
    b"PK\x01\x02", b"PK\x03\x04", b"PK\x05\x06", b"PK\x06\x06", b"PK\x06\x07", b"\xff\xff\xff\xff", b"\x00\x00", b"\x08\x00", b"\x0e\x00", b"../", b"a.py",
    b"\x01\x00\x18\x00", b"Name: x\n", b"Version: 1\n", b"x-1.dist-info/METADATA", b"\0", b"\\",
)  # fmt: skip


def _wheel(*, packing: int = zipfile.ZIP_DEFLATED, **files: bytes) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", packing) as archive:
        for name, data in {"x-1.dist-info/METADATA": b"Name: x\nVersion: 1\n", **files}.items():
            archive.writestr(zipfile.ZipInfo(name), data, packing)
    return out.getvalue()


SEEDS = (
    _wheel(**{"x/a.py": b"a = 1\n" * 20, "x/b.so": bytes(300)}),
    _wheel(packing=zipfile.ZIP_STORED, **{"x/\u00fc.py": b"a\n"}),
    _wheel(packing=zipfile.ZIP_LZMA, **{"x/l.py": b"a\n" * 50}),
    b"PK\x05\x06" + bytes(18),
)


def generated(rng: random.Random) -> bytes:
    """A wheel with a handful of odd names."""
    names = [
        "x/a.py",
        "x/A.py",
        "x",
        "x/",
        "a\\b",
        "C:/x",
        "/abs",
        "../up",
        "x/./y",
        "x//y",
        "nul\0l",
        "\u202e",
        "x-1.dist-info/RECORD",
        "." * 300,
    ]
    chosen = {rng.choice(names): bytes(rng.randrange(40)) for _ in range(rng.randrange(5))}
    packing = rng.choice([zipfile.ZIP_DEFLATED, zipfile.ZIP_STORED, zipfile.ZIP_BZIP2])
    return _wheel(packing=packing, **chosen)


def one_input(data: bytes) -> None:
    path = engine.place() / "x-1-py3-none-any.whl"
    path.write_bytes(data)
    with_close = WheelTree(path, distribution="x")
    try:
        _read(with_close)
    finally:
        with_close.close()


def _read(tree: WheelTree) -> None:
    tree.info()
    for name, size in tree.sizes().items():
        assert not name.startswith("/") and ".." not in name.split("/") and "\0" not in name
        read = functools.partial(tree.read, name) if size < 1 << 20 else bytes
        try:
            read()
            assert sum(map(len, tree.chunks(name))) == size
        except UserError:
            continue
    tree.blobs()
