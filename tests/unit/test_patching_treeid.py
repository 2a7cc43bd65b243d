"""The id of a changed tree from the folders above the changes: that of the whole listing, for any change."""

from __future__ import annotations

import hashlib

from hypothesis import given, settings
from hypothesis import strategies as st

from auditor.trees.treeid import tree_id, tree_with

_NAMES = st.sampled_from([b"a", b"a.b", b"a-b", b"b", b"c"])
_PATHS = st.lists(_NAMES, min_size=1, max_size=3).map(b"/".join)
_ENTRIES = st.tuples(
    st.sampled_from([b"100644", b"100755", b"120000", b"160000"]), st.sampled_from([b"1" * 40, b"2" * 40])
)


def _free(paths: set[bytes], path: bytes) -> bool:
    """Whether a file can be there: no folder above it is a file, and it is no folder itself."""
    parts = path.split(b"/")
    above = {b"/".join(parts[:at]) for at in range(1, len(parts))}
    return not above & paths and not any(other.startswith(path + b"/") for other in paths)


def _store(listing: dict[bytes, tuple[bytes, bytes]], objects: dict[str, bytes]) -> str:
    """The tree objects of a listing, made apart from the code under test; the id of the top one."""
    entries: list[tuple[bytes, bytes]] = []
    names = {path.partition(b"/")[0] for path in listing}
    for name in names:
        if name in listing:
            mode, oid = listing[name]
            entries.append((name, mode + b" " + name + b"\0" + bytes.fromhex(oid.decode())))
        else:
            inner = {p[len(name) + 1 :]: e for p, e in listing.items() if p.startswith(name + b"/")}
            sub = bytes.fromhex(_store(inner, objects))
            entries.append((name + b"/", b"40000 " + name + b"\0" + sub))
    body = b"".join(row for _, row in sorted(entries))
    oid = hashlib.sha1(b"tree %d\0" % len(body) + body).hexdigest()
    objects[oid] = body
    return oid


@settings(max_examples=150, deadline=None)
@given(
    st.dictionaries(_PATHS, _ENTRIES, min_size=1, max_size=12),
    st.dictionaries(_PATHS, _ENTRIES, max_size=6),
    st.sets(st.integers(0, 11)),
)
def test_it_is_the_id_of_the_whole_listing(
    start: dict[bytes, tuple[bytes, bytes]], added: dict[bytes, tuple[bytes, bytes]], gone: set[int]
) -> None:
    before: dict[bytes, tuple[bytes, bytes]] = {}
    for path, entry in start.items():
        if _free(set(before), path):
            before[path] = entry
    objects: dict[str, bytes] = {}
    top = _store(before, objects)
    assert tree_id(before) == top
    changes: dict[bytes, tuple[bytes, bytes] | None] = {
        path: None for at, path in enumerate(sorted(before)) if at in gone
    }
    after = {path: entry for path, entry in before.items() if path not in changes}
    for path, entry in added.items():
        if _free(set(after) - {path}, path):
            after[path] = changes[path] = entry
    read: list[str] = []

    def look(oid: str) -> bytes:
        read.append(oid)
        return objects[oid]

    expected = _store(after, objects) if after else "4b825dc642cb6eb9a060e54bf8d69288fbee4904"
    assert tree_with(top, changes, look) == expected
    assert len(read) <= 1 + sum(path.count(b"/") for path in changes), "only the folders above the changes"
