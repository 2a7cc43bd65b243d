"""Reports that are kept: for the same tree, and for a tree whose differences have no part in the result.

A report is found by what it is made from: the tree's content and how it is called, the options, and the bytes
of this tool with its queries and profiles. Beside it lies what the audit looked at (see
:mod:`auditor.program.watch`); with that, the report of another tree is taken over, with the facts about
the tree replaced, if no file that was read differs and no file that differs would have been read.
"""

from __future__ import annotations

import json
import re
import sys
import zlib
from collections.abc import Callable, ItemsView, Iterable, Iterator, Mapping
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from auditor.data import data_root
from auditor.readback import plain_json
from auditor.trees.base import SourceTree, TreeInfo
from auditor.trees.cache import cached_bytes, store_bytes

if TYPE_CHECKING:
    from auditor.gates.audit import AuditOptions
    from auditor.gates.model import Report, TreeFacts
    from auditor.profile import Profile
    from auditor.program.watch import Watched

REPORTS = "reports"
LOOKED = "looked-at"
RECENT = "recent"
#: How many earlier audits with the same options are tried for a tree that was not audited before.
CANDIDATES = 4
#: Trees further apart than this many files are audited anew without asking file by file.
MAX_CHANGED = 400


def tool_digest() -> str:
    """A digest of everything of ours that a report depends on: code, queries, profiles, Python's version."""
    digest = sha256(repr(sys.version_info[:3]).encode())
    code = Path(__file__).parent.parent
    for folder, kinds in ((code, (".py", ".json")), (data_root() / "queries", (".py", ".yaml", ".json"))):
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
            recent = [key, *(k for k in self._recent() if k != key)][:CANDIDATES]
            store_bytes(RECENT, self.question, "\n".join(recent).encode())

    def taken_over(self, tree: SourceTree, profile: Profile) -> tuple[bytes, int] | None:
        """(report of an earlier tree, number of files of this one) where the report holds for this tree
        except for the facts about the tree itself; None where there is none."""
        if not self.usable:
            return None
        for key in self._recent():
            try:
                record = plain_json(zlib.decompress(cached_bytes(LOOKED, key) or b""))
                count = same_answer(record, tree, profile)
            except (ValueError, zlib.error, KeyError, TypeError, AttributeError):
                continue
            if count is not None and (data := self._unpacked(key)) is not None:
                return data, count
        return None

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


class Record:
    """What an audit looked at. :meth:`begin` is called once the files are read."""

    def __init__(self, tree: SourceTree) -> None:
        self.tree = WatchedTree(tree)
        self.files: Watched | None = None
        self.root = ""
        self.package = ""
        self.problems: list[str] = []
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
        inside = _inside(self.root, self.package)
        return {
            "root": self.root,
            "files": {path: blob for path, blob in blobs.items() if _is_source(path, inside)},
            "read": sorted(files.read.union(self.problems)),
            "others": {path: blobs.get(path) for path in sorted(self.tree.paths)},
            "listing": _listing(blobs) if self.tree.listed else None,
            "matching": self.tree.matching,
            "asked": sorted(files.asked),
            "bases": sorted(files.bases),
            "words": sorted(files.words),
            "readers": sorted([w, h, sorted(m)] for w, h, m in files.readers),
            "native": self.native,
        }


class WatchedTree:
    """A tree that notes which of its files and paths are looked at, for queries with code of their own."""

    def __init__(self, inner: SourceTree) -> None:
        self.inner = inner
        self.paths: set[str] = set()
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
            self._tree.paths.add(path)
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


def _inside(root: str, package: str) -> str:
    return f"{root}/{package}/" if root else f"{package}/"


def _is_source(path: str, inside: str) -> bool:
    return path.startswith(inside) and path.endswith(".py")


def _listing(blobs: Iterable[str]) -> str:
    return sha256("\0".join(sorted(blobs)).encode("utf-8", "surrogatepass")).hexdigest()


def same_answer(record: Mapping[str, Any], tree: SourceTree, profile: Profile) -> int | None:
    """The number of source files of ``tree`` if what was recorded holds for it too, else None.

    Only what differs between the two trees is read.
    """
    blobs = tree.blobs()
    root = profile.root_of(blobs)
    if root is None or root != record["root"]:
        return None
    if any(blobs.get(path) != blob for path, blob in record["others"].items()):
        return None
    if record["listing"] is not None and record["listing"] != _listing(blobs):
        return None
    if any(matching_paths(blobs, pattern) != found for pattern, found in record["matching"].items()):
        return None
    from auditor.native.sites_audit import native_digest

    if native_digest(tree, profile) != record["native"]:
        return None
    inside = _inside(root, profile.package)
    old: Mapping[str, str] = record["files"]
    new = {path: blob for path, blob in blobs.items() if _is_source(path, inside)}
    changed = [path for path, blob in new.items() if old.get(path) != blob]
    gone = [path for path in old if path not in new]
    read = set(record["read"])
    if len(changed) + len(gone) > MAX_CHANGED or not read.isdisjoint(changed) or not read.isdisjoint(gone):
        return None
    asked = set(record["asked"])
    names = {path: _module(path, root) for path in changed}
    for path in (*(p for p in changed if p not in old), *gone):
        name = _module(path, root)
        while name:  # the packages above it come or go with it, perhaps
            if name in asked:
                return None
            name = name.rpartition(".")[0]
            if any(_module(p, root) == name or p.startswith(_folder(name, root)) for p in old if p in new):
                break
    from auditor.gates.audit import MAX_FILE
    from auditor.program.watch import Questions

    questions = Questions(record["bases"], record["words"], record["readers"], profile.package)
    for path, data in tree.read_many(changed):
        if len(data) > MAX_FILE or questions.concerns(data, names[path], path):
            return None
    return len(new)


def _module(path: str, root: str) -> str:
    name = path[len(root) + 1 if root else 0 : -len(".py")].replace("/", ".")
    return name.removesuffix(".__init__")


def _folder(name: str, root: str) -> str:
    folder = name.replace(".", "/") + "/"
    return f"{root}/{folder}" if root else folder


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
    import msgspec

    from auditor.gates.audit import audit
    from auditor.profile import load_profile

    if not kept.usable:
        return encode(audit(tree, asked.options(), progress))
    profile = load_profile(asked.project)
    found = kept.taken_over(tree, profile)
    if found is not None:
        report = decode(found[0])
        report = msgspec.structs.replace(
            report, tree=tree_facts(info), stats={**report.stats, "files": found[1]}
        )
        data = encode(report)
        kept.put(info, data)
        return data
    record = Record(tree)
    data = encode(audit(tree, asked.options(), progress, record))
    kept.put(info, data, record)
    return data


__all__ = ["Asked", "Kept", "Record", "kept_report", "same_answer", "tool_digest"]
