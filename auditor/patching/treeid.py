"""The id git gives a tree, computed from a listing: a result can be named before anything is written."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping

from auditor.errors import UserError


def parse_listing(raw: bytes) -> dict[bytes, tuple[bytes, bytes]]:
    """path -> (mode, id) of every entry of ``ls-tree -r -z``, links and submodules included."""
    found = {}
    for entry in raw.split(b"\0"):
        if entry:
            meta, _, path = entry.partition(b"\t")
            mode, _, oid = meta.split(b" ")
            found[path] = (mode, oid)
    return found


def tree_id(entries: Mapping[bytes, tuple[bytes, bytes]]) -> str:
    """The id of the tree with these files. ``UserError`` P050 for ids that are not sha1."""
    folders: dict[bytes, list[tuple[bytes, bytes, bytes]]] = {b"": []}
    for path, (mode, oid) in entries.items():
        folder, _, name = path.rpartition(b"/")
        if folder not in folders:
            _make(folders, folder)
        folders[folder].append((name, mode, bytes.fromhex(oid.decode())))
    for folder in sorted(folders, key=lambda path: -path.count(b"/") if path else 1):
        items = folders[folder]
        # Git sorts a folder as if its name ended in a slash.
        items.sort(key=lambda item: item[0] + b"/" if item[1] == b"40000" else item[0])
        body = b"".join(b"%s %s\0%s" % (mode, name, oid) for name, mode, oid in items)
        digest = hashlib.sha1(b"tree %d\0" % len(body) + body, usedforsecurity=False)
        if any(len(oid) != 20 for _, _, oid in items):
            raise UserError("P050", "this repository names its objects by sha256, which is not supported yet")
        if not folder:
            return digest.hexdigest()
        above, _, name = folder.rpartition(b"/")
        folders[above].append((name, b"40000", digest.digest()))
    raise AssertionError("the top folder comes last")


def _make(folders: dict[bytes, list[tuple[bytes, bytes, bytes]]], folder: bytes) -> None:
    while folder not in folders:
        folders[folder] = []
        folder = folder.rpartition(b"/")[0]
