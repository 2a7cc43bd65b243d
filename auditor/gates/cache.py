"""Reports that are kept: for the same tree, and for a tree whose differences have no part in the result.

A report is found by what it is made from: the tree's content and how it is called, the options, and the bytes
of this tool with its queries and profiles. Beside it lies what the audit looked at; with that, the report of
another tree is taken over (see :mod:`auditor.gates.takeover`) if nothing that was looked at differs.
"""

from __future__ import annotations

import json
import re
import sys
import zlib
from collections.abc import Callable, ItemsView, Iterable, Iterator, Mapping, Sequence
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from auditor.data import data_root
from auditor.readback import plain_json
from auditor.trees.base import HasContents, SourceTree, TreeInfo
from auditor.trees.cache import cached_bytes, store_bytes

if TYPE_CHECKING:
    from auditor.gates.audit import AuditOptions
    from auditor.gates.model import Report, TreeFacts
    from auditor.gates.takeover import Taken
    from auditor.profile import Profile
    from auditor.program.watch import Watched

REPORTS = "reports"
LOOKED = "looked-at"
RECENT = "recent"
SOURCES = "sources"
#: Files above this many bytes are generated tables, not code with decisions; they are listed, not parsed.
MAX_FILE = 4_000_000
#: How many earlier audits with the same options are tried for a tree that was not audited before.
CANDIDATES = 4


_digests: dict[Path, str] = {}


def tool_digest() -> str:
    """A digest of everything of ours that a report depends on: code, queries, profiles, Python's version.
    It is made once in a process."""
    root = data_root()
    if root not in _digests:
        _digests[root] = _tool_digest(root)
    return _digests[root]


def _tool_digest(root: Path) -> str:
    digest = sha256(repr(sys.version_info[:3]).encode())
    code = Path(__file__).parent.parent
    for folder, kinds in ((code, (".py", ".json")), (root / "queries", (".py", ".yaml", ".json"))):
        for path in sorted(_files(str(folder), kinds)):
            with open(path, "rb") as file:
                data = file.read()
            digest.update(b"%s\0%d\0" % (path[len(str(folder)) :].encode(), len(data)) + data)
    return digest.hexdigest()


def _files(folder: str, kinds: tuple[str, ...]) -> Iterator[str]:
    import os

    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                if entry.name not in ("__pycache__", "_data"):
                    yield from _files(entry.path, kinds)
            elif entry.name.endswith(kinds):
                yield entry.path


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


def tree_facts(info: TreeInfo) -> TreeFacts:
    """What a report says about its tree."""
    from auditor.gates.model import TreeFacts

    return TreeFacts(
        kind=info.kind,
        label=info.label,
        content_id=info.content_id,
        commit=info.commit,
        version=info.version,
        date=info.date,
        describe=info.describe,
        dirty=info.dirty,
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


class WatchedTree:
    """A tree that notes which of its files and paths are looked at, for queries with code of their own."""

    def __init__(self, inner: SourceTree) -> None:
        self.inner = inner
        self.paths: set[str] = set()
        self.there: dict[str, bool] = {}
        self.matching: dict[str, list[str]] = {}
        self.listed = False

    def info(self) -> TreeInfo:
        return self.inner.info()

    def blobs(self) -> Mapping[str, str]:
        return _WatchedPaths(self)

    def read(self, path: str) -> bytes:
        self.paths.add(path)
        return self.inner.read(path)

    def read_many(self, paths: Iterable[str]) -> Iterator[tuple[str, bytes]]:
        wanted = list(paths)
        self.paths.update(wanted)
        return self.inner.read_many(wanted)

    def local_path(self, path: str) -> str | None:
        return self.inner.local_path(path)

    def matching_paths(self, pattern: str) -> list[str]:
        """Paths that a regular expression fits whole, sorted: noted as a question, not as the listing."""
        found = matching_paths(self.inner.blobs(), pattern)
        self.matching[pattern] = found
        return found


class _WatchedPaths(Mapping[str, str]):
    def __init__(self, tree: WatchedTree) -> None:
        self._tree = tree
        self._blobs = tree.inner.blobs()

    def __getitem__(self, path: str) -> str:
        self._tree.paths.add(path)
        return self._blobs[path]

    def __contains__(self, path: object) -> bool:
        if isinstance(path, str):
            self._tree.there[path] = path in self._blobs
        return path in self._blobs

    def __iter__(self) -> Iterator[str]:
        self._tree.listed = True
        return iter(self._blobs)

    def items(self) -> ItemsView[str, str]:
        """All of them, noted at once: one by one takes longer than most of what is done with them."""
        self._tree.listed = True
        self._tree.paths.update(self._blobs)
        return self._blobs.items()

    def __len__(self) -> int:
        self._tree.listed = True
        return len(self._blobs)


def matching_paths(paths: Iterable[str], pattern: str) -> list[str]:
    """The paths that a regular expression fits whole, sorted."""
    fits = re.compile(pattern).fullmatch
    return sorted(path for path in paths if fits(path))


def paths_like(tree: SourceTree, pattern: str) -> list[str]:
    """The paths of a tree that a regular expression fits whole, sorted: asked as a question where somebody
    notes what is asked, so that a report does not hang on the other paths."""
    ask = getattr(tree, "matching_paths", None)
    return list(ask(pattern)) if ask is not None else matching_paths(tree.blobs(), pattern)


def _noted(path: str, files: Watched) -> dict[str, Any] | None:
    """What was looked at in a module; None where somebody read all of it."""
    from auditor.program import same

    module = files.modules[path]
    return None if module.whole else same.packed(module)


def inside_of(root: str, package: str) -> str:
    """The folder of the audited package, with a slash behind it."""
    return f"{root}/{package}/" if root else f"{package}/"


def is_source(path: str, inside: str) -> bool:
    """Whether a path is a Python file of the package."""
    return path.startswith(inside) and path.endswith(".py")


def listing_digest(blobs: Iterable[str]) -> str:
    """A digest of all paths of a tree."""
    return sha256("\0".join(sorted(blobs)).encode("utf-8", "surrogatepass")).hexdigest()


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


__all__ = ["Asked", "Kept", "Record", "kept_report", "tool_digest"]
