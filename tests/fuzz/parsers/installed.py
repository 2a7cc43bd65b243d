"""What an installed copy says of itself: RECORD, METADATA, direct_url.json, files of paths."""

from __future__ import annotations

import shutil

from auditor.trees.installed import installed_tree
from tests.fuzz import engine

WORDS = (
    b"x/a.py,sha256=,6\n",
    b'"',
    b",",
    b"\0",
    b"\r",
    b"\xff",
    b"../up,,\n",
    b"/abs,,\n",
    b"Name: x\n",
    b"Version: ",
    b'{"dir_info": {"editable": true}, "url": "file:///',
    b"null",
    b"[" * 2000,
    b"%00",
    b"file://[",
    b'"' + b"a" * 1500,
)
#: The first byte says which file the rest is.
SEEDS = (
    b"\0x/a.py,sha256=47DEQpj8HBSa-_TImW-5JCeuQeRkm5NMpJWZG3hSuFU,0\nx/__init__.py,,\n../../../bin/x,,\n",
    b"\1Metadata-Version: 2.1\nName: x\nVersion: 1.0\n\ntext\n",
    b'\2{"dir_info": {"editable": true}, "url": "file:///nowhere"}',
    b"\3x/\nimport os\n../x\n",
)


def one_input(data: bytes) -> None:
    at, rest = data[:1], data[1:]
    site = engine.place() / "site"
    shutil.rmtree(site, ignore_errors=True)
    info = site / "x-1.0.dist-info"
    info.mkdir(parents=True)
    (site / "x").mkdir()
    (site / "x" / "a.py").write_bytes(b"")
    (info / "RECORD").write_bytes(SEEDS[0][1:])
    (info / "METADATA").write_bytes(SEEDS[1][1:])
    names = [info / "RECORD", info / "METADATA", info / "direct_url.json", site / "x.pth"]
    names[(at[0] if at else 0) % 4].write_bytes(rest)
    tree = installed_tree("x", str(site))
    tree.info()
    for path in tree.blobs():
        tree.read(path)
