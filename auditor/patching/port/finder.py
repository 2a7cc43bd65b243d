"""Where a file, a function or a class went: by content, and only where one place answers."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from functools import lru_cache
from weakref import WeakKeyDictionary, ref

from auditor.patching.diffs.lines import split_lines
from auditor.patching.merge.statements import Source, Statement, source_of
from auditor.trees.base import SourceTree, TreeInfo

#: A file with less in common is another file; git's own figure for a rename.
SAME_FILE = 0.5
#: How much more the best place must have in common than the next one.
_MARGIN = 0.08
#: Fewer bytes than these say nothing about where a file came from; an empty one is like every other.
_TELLING = 40
#: A function whose body has less in common was rewritten, not moved.
SAME_BODY = 0.7


def likeness(a: bytes, b: bytes) -> float:
    """Bytes of lines that two files share, over the larger file's."""
    if a == b:
        return 1.0
    left, right = Counter(split_lines(a)), Counter(split_lines(b))
    shared = sum(len(line) * min(n, right[line]) for line, n in left.items() if line in right)
    return shared / max(len(a), len(b), 1)


#: Bytes of contents that are kept: the same files are asked for on every tree, after every patch.
_KEPT_BYTES = 64 << 20
#: Answers that are kept are those of this many questions.
_KEPT_ANSWERS = 64
#: Where a name is defined in a content: (how like it is, which definition of that name).
_Places = tuple[tuple[float, int], ...]


class _Contents:
    """Contents by blob id, the ones asked for last. The same content is the same whatever tree has it."""

    def __init__(self) -> None:
        self._kept: dict[str, bytes] = {}
        self._size = 0

    def get(self, oid: str) -> bytes | None:
        data = self._kept.pop(oid, None)
        if data is not None:
            self._kept[oid] = data
        return data

    def put(self, oid: str, data: bytes) -> None:
        old = self._kept.pop(oid, None)
        self._size += len(data) - (len(old) if old is not None else 0)
        self._kept[oid] = data
        while self._size > _KEPT_BYTES:
            first = next(iter(self._kept))
            self._size -= len(self._kept.pop(first))


_CONTENTS = _Contents()


@lru_cache(maxsize=_KEPT_ANSWERS)
def _likeness_to(base: bytes) -> dict[str, float | None]:
    """Blob id -> how like ``base`` it is, None for what is not near: filled by whoever asks."""
    return {}


@lru_cache(maxsize=_KEPT_ANSWERS)
def _places_of(name: str, norm: tuple[bytes, ...]) -> dict[str, _Places]:
    """Blob id -> where this function or class is in it: filled by whoever asks."""
    return {}


class Finder:
    """Looks through one tree; what it reads is kept for the next question."""

    def __init__(self, tree: SourceTree, base_paths: Collection[str] | None = None) -> None:
        self.tree = tree
        self.base_paths = base_paths
        self._sources: dict[str, Source | None] = {}
        self._files: dict[tuple[str, bytes], str | None] = {}

    def file(self, path: str, base: bytes, *, blob: str = "") -> str | None:
        """The path that ``path`` with the content ``base`` has now, if one file is clearly it."""
        key = (path, base)
        if key not in self._files:
            self._files[key] = self._file(path, base, blob)
        return self._files[key]

    def _file(self, path: str, base: bytes, blob: str) -> str | None:
        paths = self.tree.blobs()
        folder, _, name = path.rpartition("/")
        small = len(base.strip()) < _TELLING
        if len(blob) >= 40 and base.strip():
            same = [
                p for p, oid in paths.items() if oid == blob and not (small and p.rpartition("/")[2] != name)
            ]
            if same:
                return same[0] if len(same) == 1 else _nearest(path, same)
        if small:
            return None
        suffix = name.rpartition(".")[2]
        known = self.base_paths
        new = [p for p in paths if p.rpartition(".")[2] == suffix and (known is None or p not in known)]
        first = [p for p in new if p.rpartition("/")[2] == name]
        return self._best(base, first) or self._best(base, new)

    def _best(self, base: bytes, paths: list[str]) -> str | None:
        lines = sorted(set(split_lines(base)), key=lambda line: (-len(line), line))
        telling = lines[:: max(1, len(lines) // 12)][:12]
        known = _likeness_to(base)
        blobs = dict(self.tree.blobs().items())
        for path, data in self._read([p for p in paths if blobs[p] not in known]):
            near = len(data) <= 2 * len(base) <= 4 * len(data) and (
                4 * sum(line in data for line in telling) >= len(telling)
            )
            known[blobs[path]] = likeness(base, data) if near else None
        asked = ((known[blobs[p]], p) for p in paths)
        scored = sorted(((score, p) for score, p in asked if score is not None), reverse=True)
        scored = [entry for entry in scored if entry[0] >= SAME_FILE]
        if not scored:
            return None
        if len(scored) > 1 and scored[0][0] - scored[1][0] < _MARGIN:
            return None
        return scored[0][1]

    def _read(self, paths: Iterable[str]) -> Iterator[tuple[str, bytes]]:
        """These files in some order, each once: first what is kept, then what has to be read."""
        blobs = self.tree.blobs()
        missing = []
        for path in paths:
            data = _CONTENTS.get(blobs[path])
            if data is None:
                missing.append(path)
            else:
                yield path, data
        for path, data in self.tree.read_many(missing):
            _CONTENTS.put(blobs[path], data)
            yield path, data

    def source(self, path: str) -> Source | None:
        """A file of the tree as statements, None where it is not Python that parses."""
        if path not in self._sources:
            try:
                self._sources[path] = source_of(next(iter(self._read([path])))[1])
            except (SyntaxError, ValueError, RecursionError, MemoryError):
                self._sources[path] = None
        return self._sources[path]

    def scope(self, wanted: Statement, near: str) -> tuple[str, Statement] | None:
        """The file and statement that a function or class went to: same name, most of its body, only one.

        ``near`` is the file it was in; it is not looked through.
        """
        from auditor.patching.merge.align import dice

        pattern = re.compile(
            rb"^[ \t]*(?:async )?(?:def|class) " + wanted.name.encode() + rb"\b", re.MULTILINE
        )
        suffixes = (".py", ".pyi")
        telling = sorted(wanted.bag, key=lambda word: (-len(word), word))[:12]
        blobs = {p: oid for p, oid in self.tree.blobs().items() if p.endswith(suffixes) and p != near}
        heads = [word + wanted.name.encode() for word in (b"def ", b"class ")]
        known = _places_of(wanted.name, wanted.norm)

        def places(path: str, data: bytes) -> _Places:
            if not any(head in data for head in heads):  # a plain search is much faster than a pattern
                return ()
            if sum(word in data for word in telling) * 4 < len(telling) * 3 or not pattern.search(data):
                return ()
            scores = [dice(wanted.bag, each.bag) for each in self._named(path, wanted.name)]
            return tuple((score, at) for at, score in enumerate(scores) if score >= SAME_BODY)

        for path, data in self._read([p for p, oid in blobs.items() if oid not in known]):
            known[blobs[path]] = places(path, data)
        found = [(score, path, at) for path, oid in blobs.items() for score, at in known[oid]]
        found.sort(key=lambda entry: -entry[0])
        if not found or (len(found) > 1 and found[0][0] - found[1][0] < _MARGIN):
            return None
        _, path, at = found[0]
        return path, self._named(path, wanted.name)[at]

    def _named(self, path: str, name: str) -> list[Statement]:
        """The functions and classes of this name in a file of the tree."""
        source = self.source(path)
        return [s for s in source.statements() if s.is_scope and s.name == name] if source else []


_FINDERS: WeakKeyDictionary[SourceTree, Finder] = WeakKeyDictionary()


def finder_of(tree: SourceTree) -> Finder:
    """The finder of a tree, the same one as long as the tree lives."""
    found = _FINDERS.get(tree)
    if found is None:
        found = _FINDERS[tree] = Finder(_Weak(tree))
    return found


class _Weak:
    """A tree that does not keep itself alive through what is remembered of it."""

    def __init__(self, tree: SourceTree) -> None:
        self._tree = ref(tree)

    def _alive(self) -> SourceTree:
        tree = self._tree()
        assert tree is not None
        return tree

    def info(self) -> TreeInfo:
        return self._alive().info()

    def blobs(self) -> Mapping[str, str]:
        return self._alive().blobs()

    def read(self, path: str) -> bytes:
        return self._alive().read(path)

    def read_many(self, paths: Iterable[str]) -> Iterator[tuple[str, bytes]]:
        return self._alive().read_many(paths)

    def local_path(self, path: str) -> str | None:
        return self._alive().local_path(path)


def _nearest(path: str, paths: list[str]) -> str | None:
    """The one path with the same name, if there is only one."""
    name = path.rpartition("/")[2]
    same = [p for p in paths if p.rpartition("/")[2] == name]
    return same[0] if len(same) == 1 else None
