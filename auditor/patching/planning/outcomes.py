"""What became of a patch on a tree, kept for every tree in which nothing that was looked at differs.

Carrying a patch can mean parsing large files and merging them by statement; asking again, on the same commit
or on a hundred others whose files are the same, should cost a look. An entry names the paths and contents
that were asked for, and holds no file: what a patch did is kept as a difference.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from weakref import WeakKeyDictionary

import msgspec

from auditor.patching.diffs.delta import FileDelta, delta, redo
from auditor.patching.model import HunkResult, Outcome
from auditor.readback import Damaged, from_msgpack
from auditor.tooldigest import tool_digest
from auditor.trees.base import SourceTree
from auditor.trees.cache import cached_bytes, store_bytes
from auditor.trees.names import listing_id
from auditor.trees.watched import WatchedTree

_KIND = "patch-outcomes"
#: How many different trees are remembered for one patch.
_VARIANTS = 24
#: A larger entry is not worth keeping.
_MOST = 4 << 20

Blobs = Callable[[str], "bytes | None"]
Work = Callable[[SourceTree, Blobs], Outcome]


class _Kept(msgspec.Struct):
    paths: dict[str, str]  # path -> blob id, "" where there was none
    blobs: dict[str, bool]  # blob id that was asked for -> whether it was there
    there: dict[str, bool]  # path of which only was asked whether it is there -> whether it was
    listing: str  # id of the whole listing where that was asked for, else ""
    status: str
    hunks: list[HunkResult]
    files: list[FileDelta]
    modes: dict[str, str]
    note: str


def outcome_of(key: str, tree: SourceTree, blobs: Blobs, work: Work) -> Outcome:
    """What ``work`` gives for ``tree``, from the cache where that is sure. ``key`` names the patch."""
    name = hashlib.sha256(f"{tool_digest()} {key}".encode()).hexdigest()
    entries = _stored(name)
    for entry in entries:
        if _same(entry, tree, blobs):
            found = _outcome(entry, tree)
            if found is not None:
                return found
    watched = WatchedTree(tree)
    asked: dict[str, bool] = {}

    def blob(oid: str) -> bytes | None:
        data = blobs(oid)
        asked[oid] = data is not None
        return data

    outcome = work(watched, blob)
    here = tree.blobs()
    listing = _listing(tree) if watched.listed or watched.matching else ""
    entry = _Kept(
        # the id of a whole listing says it of every file: a search reads thousands
        {path: here.get(path, "") for path in sorted({*watched.paths, *outcome.files})}
        if not listing
        else {},
        asked,
        {} if listing else {path: held for path, held in sorted(watched.there.items())},
        listing,
        outcome.status,
        list(outcome.hunks),
        [delta(p, tree.read(p) if p in here else None, data) for p, data in outcome.files.items()],
        outcome.modes,
        outcome.note,
    )
    entries = _stored(name)  # another process may have added some meanwhile
    data = msgspec.msgpack.encode([entry, *entries][:_VARIANTS])
    if len(data) <= _MOST:
        store_bytes(_KIND, name, data)
    return outcome


def _stored(name: str) -> list[_Kept]:
    raw = cached_bytes(_KIND, name)
    if raw is None:
        return []
    try:
        found: list[_Kept] = from_msgpack(raw, list[_Kept])
        return found
    except Damaged:
        return []


def _same(entry: _Kept, tree: SourceTree, blobs: Blobs) -> bool:
    here = tree.blobs()
    if any(here.get(path, "") != oid for path, oid in entry.paths.items()):
        return False
    if any((path in here) != held for path, held in entry.there.items()):
        return False
    if entry.listing and entry.listing != _listing(tree):
        return False
    return all((blobs(oid) is not None) == there for oid, there in entry.blobs.items())


#: Tree -> the mapping that it gave, and the id of that.
_LISTINGS: WeakKeyDictionary[SourceTree, tuple[Mapping[str, str], str]] = WeakKeyDictionary()


def _listing(tree: SourceTree) -> str:
    blobs = tree.blobs()
    known = _LISTINGS.get(tree)
    if known is None or known[0] is not blobs:
        known = (blobs, listing_id(blobs))
        if isinstance(blobs, dict):  # another mapping may keep its tree alive
            _LISTINGS[tree] = known
    return known[1]


def _outcome(entry: _Kept, tree: SourceTree) -> Outcome | None:
    here = tree.blobs()
    files: dict[str, bytes | None] = {}
    try:
        for change in entry.files:
            files[change.path] = redo(change, tree.read(change.path) if change.path in here else None)
    except ValueError:  # the entry is damaged
        return None
    return Outcome(entry.status, tuple(entry.hunks), files, entry.modes, entry.note)  # type: ignore[arg-type]
