"""The id git gives a tree, computed from a listing: a result can be named before anything is written."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping

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
        digest = _id(items)
        if not folder:
            return digest.hex()
        above, _, name = folder.rpartition(b"/")
        folders[above].append((name, b"40000", digest))
    raise AssertionError("the top folder comes last")


def _make(folders: dict[bytes, list[tuple[bytes, bytes, bytes]]], folder: bytes) -> None:
    while folder not in folders:
        folders[folder] = []
        folder = folder.rpartition(b"/")[0]


def _id(items: list[tuple[bytes, bytes, bytes]]) -> bytes:
    """The id of one folder of (name, mode, id)."""
    # Git sorts a folder as if its name ended in a slash.
    items.sort(key=lambda item: item[0] + b"/" if item[1] == b"40000" else item[0])
    body = b"".join(b"%s %s\0%s" % (mode, name, oid) for name, mode, oid in items)
    if any(len(oid) != 20 for _, _, oid in items):
        raise UserError("P050", "this repository names its objects by sha256, which is not supported yet")
    return hashlib.sha1(b"tree %d\0" % len(body) + body, usedforsecurity=False).digest()


def tree_with(
    tree: str, changes: Mapping[bytes, tuple[bytes, bytes] | None], read: Callable[[str], bytes]
) -> str:
    """The id of ``tree`` with some entries (mode, id) set, or taken out (None).

    Only the folders above them are read: ``read`` gives the bytes of a tree object. The same id as that of
    `tree_id` with the whole listing; folders that become empty go.
    """
    found = _with(tree, changes, read)
    return found.hex() if found is not None else _id([]).hex()


def _with(
    tree: str | None, changes: Mapping[bytes, tuple[bytes, bytes] | None], read: Callable[[str], bytes]
) -> bytes | None:
    """The id of a folder after the changes in it, None for an empty one."""
    entries = _parse(read(tree)) if tree is not None else {}
    inner: dict[bytes, dict[bytes, tuple[bytes, bytes] | None]] = {}
    for path, entry in changes.items():
        name, below, rest = path.partition(b"/")
        if below:
            inner.setdefault(name, {})[rest] = entry
        elif entry is None:
            if entries.get(name, (b"", b""))[0] != b"40000":
                entries.pop(name, None)
    for name, below_it in inner.items():
        mode, oid = entries.get(name, (b"", b""))
        digest = _with(oid.hex() if mode == b"40000" else None, below_it, read)
        if digest is not None:
            entries[name] = (b"40000", digest)
        elif mode == b"40000":
            del entries[name]
    for path, entry in changes.items():
        if b"/" not in path and entry is not None:
            entries[path] = (entry[0], bytes.fromhex(entry[1].decode()))
    return _id([(name, mode, oid) for name, (mode, oid) in entries.items()]) if entries else None


def _parse(raw: bytes) -> dict[bytes, tuple[bytes, bytes]]:
    """name -> (mode, id) of a tree object."""
    found = {}
    at = 0
    while at < len(raw):
        end = raw.index(b"\0", at)
        mode, _, name = raw[at:end].partition(b" ")
        found[name] = (mode, raw[end + 1 : end + 21])
        at = end + 21
    return found
