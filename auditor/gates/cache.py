"""Reports that are kept: for the same tree, and for a tree whose differences have no part in the result.

A report is found by what it is made from: the tree's content and how it is called, the options, and the bytes
of this tool with its queries and profiles. Beside it lies what the audit looked at; with that, the report of
another tree is taken over (see :mod:`auditor.gates.takeover`) if nothing that was looked at differs.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from hashlib import sha256
from typing import TYPE_CHECKING, Any, NamedTuple

from auditor.gates.sources import inside_of, is_source, listing_digest
from auditor.readback import plain_json
from auditor.tooldigest import tool_digest
from auditor.trees.base import HasContents, SourceTree, TreeInfo
from auditor.trees.cache import cached_bytes, store_bytes
from auditor.trees.watched import WatchedTree

if TYPE_CHECKING:
    from auditor.gates.audit import AuditOptions
    from auditor.gates.model import Report
    from auditor.gates.takeover import Taken
    from auditor.profile import Profile
    from auditor.program.watch import Watched

REPORTS = "reports"
LOOKED = "looked-at"
RECENT = "recent"
SOURCES = "sources"
#: How many earlier audits with the same options are tried for a tree that was not audited before.
CANDIDATES = 4


class Asked(NamedTuple):
    """The options of an audit with the shipped profile and queries, without what it takes to run one."""

    targets: tuple[str, ...]
    reference: str
    assumptions: dict[str, str]
    defaults: bool
    project: str
    use_cache: bool = True

    def options(self) -> AuditOptions:
        from auditor.gates.audit import AuditOptions

        return AuditOptions(
            targets=self.targets,
            reference=self.reference,
            assumptions=self.assumptions,
            defaults=self.defaults,
            use_cache=self.use_cache,
            project=self.project,
        )


class Kept:
    """The cache as one question to any tree sees it."""

    def __init__(self, asked: Asked) -> None:
        self.usable = asked.use_cache
        self.question = ""
        if self.usable:
            words = repr((*asked[:2], sorted(asked.assumptions.items()), *asked[3:5]))
            self.question = sha256((tool_digest() + words).encode()).hexdigest()

    def key(self, info: TreeInfo) -> str:
        """The name of the report of a tree: its content, and every fact about it that a report shows."""
        facts = (
            info.kind,
            info.label,
            info.content_id,
            info.commit,
            info.version,
            info.date,
            info.describe,
            info.dirty,
        )
        return sha256((self.question + repr(facts)).encode()).hexdigest()

    def get(self, info: TreeInfo) -> bytes | None:
        """The kept report of a tree."""
        return self._unpacked(self.key(info)) if self.usable else None

    def put(self, info: TreeInfo, data: bytes, record: Record | None = None) -> None:
        """Keep a report, and what it was made from."""
        if not self.usable:
            return
        key = self.key(info)
        if not store_bytes(REPORTS, key, zlib.compress(data, 1)):
            return
        if record is not None and not record.everything:
            packed = json.dumps(record.packed(), separators=(",", ":"), sort_keys=True).encode()
            store_bytes(LOOKED, key, zlib.compress(packed, 1))
            if record.files is not None and not _in_history(record.tree.inner, record.files):
                Sources(key).put(record.tree.inner, record.files)
            recent = [key, *(k for k in self._recent() if k != key)][:CANDIDATES]
            store_bytes(RECENT, self.question, "\n".join(recent).encode())

    def taken_over(self, tree: SourceTree, profile: Profile) -> Iterator[tuple[bytes, Taken]]:
        """Reports of earlier trees that hold for this one, but for the facts about the tree itself and the
        numbers of lines."""
        from auditor.gates.takeover import taken

        for key in self._recent() if self.usable else ():
            try:
                record = plain_json(zlib.decompress(cached_bytes(LOOKED, key) or b""))
                how = taken(record, tree, profile, Sources(key))
            except (ValueError, zlib.error, KeyError, TypeError, IndexError, AttributeError):
                continue
            if how is not None and (data := self._unpacked(key)) is not None:
                yield data, how

    def _recent(self) -> list[str]:
        return (cached_bytes(RECENT, self.question) or b"").decode("ascii", "replace").split()

    @staticmethod
    def _unpacked(key: str) -> bytes | None:
        stored = cached_bytes(REPORTS, key)
        if stored is None:
            return None
        try:
            return zlib.decompress(stored)
        except zlib.error:
            return None


def _in_history(tree: SourceTree, files: Watched) -> bool:
    """Whether the files of a tree can be had later without the tree."""
    blobs = tree.blobs()
    return isinstance(tree, HasContents) and tree.contents([blobs[path] for path in [*files][:1]]) is not None


class Sources:
    """The source files of an audited tree that no repository holds."""

    def __init__(self, key: str) -> None:
        self.key = key
        self._index: dict[str, list[int]] = {}
        self._data = b""

    def put(self, tree: SourceTree, files: Watched) -> None:
        blobs = tree.blobs()
        index: dict[str, list[int]] = {}
        parts: list[bytes] = []
        at = 0
        for path in sorted(files):
            part = zlib.compress(files.peek(path), 1)
            index[blobs[path]] = [at, at + len(part)]
            parts.append(part)
            at += len(part)
        head = json.dumps(index, separators=(",", ":")).encode()
        store_bytes(SOURCES, self.key, b"%d\n" % len(head) + head + b"".join(parts))

    def contents(self, ids: Sequence[str]) -> list[bytes] | None:
        """Like that of a tree: see :class:`auditor.trees.base.HasContents`."""
        if not self._index:
            stored = cached_bytes(SOURCES, self.key) or b"2\n{}"
            size, _, rest = stored.partition(b"\n")
            self._index = plain_json(rest[: int(size)])
            self._data = rest[int(size) :]
        places = [self._index.get(oid) for oid in ids]
        return [zlib.decompress(self._data[p[0] : p[1]]) for p in places if p] if all(places) else None


class Record:
    """What an audit looked at. :meth:`begin` is called once the files are read."""

    def __init__(self, tree: SourceTree) -> None:
        self.tree = WatchedTree(tree)
        self.files: Watched | None = None
        self.root = ""
        self.package = ""
        self.problems: list[str] = []
        self.assumed: list[str] = []  # packages about which something is assumed
        self.native = ""  # see native_digest()

    def begin(self, root: str, package: str, files: Watched, left_out: Iterable[str]) -> None:
        self.root, self.package, self.files = root, package, files
        self.problems = sorted(left_out)

    @property
    def everything(self) -> bool:
        """Whether the result depends on all there is."""
        return self.files is None or self.files.all

    def packed(self) -> dict[str, Any]:
        files = self.files
        assert files is not None
        blobs = self.tree.inner.blobs()
        inside = inside_of(self.root, self.package)
        return {
            "root": self.root,
            "files": {path: blob for path, blob in blobs.items() if is_source(path, inside)},
            "left_out": len(self.problems),
            "read": sorted(files.read.union(self.problems)),
            "others": {path: blobs.get(path) for path in sorted(self.tree.paths)},
            "there": dict(sorted(self.tree.there.items())),
            "listing": listing_digest(blobs) if self.tree.listed else None,
            "matching": self.tree.matching,
            "asked": sorted(files.asked),
            "bases": sorted(files.bases),
            "words": sorted(files.words),
            "readers": sorted([w, h, sorted(m)] for w, h, m in files.readers),
            "vocabularies": files.vocabularies,
            "modules": {
                path: _noted(path, files) for path in sorted(files.modules) if path not in files.read
            },
            "noted": {path: sorted(asked) for path, asked in sorted(files.noted.items())},
            "scanned": sorted(files.scanned),
            "everywhere": sorted(files.everywhere),
            "hot": sorted(files.hot),
            "members": sorted(files.members),
            "globals": sorted(files.globals),
            "native": self.native,
            "assumed": self.assumed,
        }


def _noted(path: str, files: Watched) -> dict[str, Any] | None:
    """What was looked at in a module; None where somebody read all of it."""
    from auditor.program import same

    module = files.modules[path]
    return None if module.whole else same.packed(module)


def kept_report(
    tree: SourceTree,
    asked: Asked,
    *,
    encode: Callable[[Report], bytes],
    decode: Callable[[bytes], Report],
    progress: Callable[..., None] | None = None,
) -> bytes:
    """The encoded report of a tree: kept, taken over, or made and then kept. What :func:`audit` raises."""
    kept = Kept(asked)
    info = tree.info()
    data = kept.get(info)
    if data is not None:
        return data
    if kept.usable:
        data = _taken_over(kept, tree, info, asked, encode, decode)
        if data is not None:
            return data
    from auditor.gates.audit import audit  # takes as long to import as a report to take over

    if not kept.usable:
        return encode(audit(tree, asked.options(), progress))
    record = Record(tree)
    data = encode(audit(tree, asked.options(), progress, record))
    kept.put(info, data, record)
    return data


def _taken_over(
    kept: Kept,
    tree: SourceTree,
    info: TreeInfo,
    asked: Asked,
    encode: Callable[[Report], bytes],
    decode: Callable[[bytes], Report],
) -> bytes | None:
    import msgspec

    from auditor.gates.model import tree_facts
    from auditor.profile import load_profile
    from auditor.program.same import Different

    profile = load_profile(asked.project)
    for earlier, how in kept.taken_over(tree, profile):
        report = decode(earlier)
        try:
            report = how.moved(report)
        except Different:
            continue
        report = msgspec.structs.replace(
            report, tree=tree_facts(info), stats={**report.stats, "files": how.count}
        )
        data = encode(report)
        kept.put(info, data)
        return data
    return None
