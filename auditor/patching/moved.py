"""Where a file, a function or a class went: by content, and only where one place answers."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from weakref import WeakKeyDictionary, ref

from auditor.patching.linediff import split_lines
from auditor.patching.statements import Source, Statement, source_of
from auditor.trees.base import SourceTree, TreeInfo

#: A file with less in common is another file; git's own figure for a rename.
SAME_FILE = 0.5
#: How much more the best place must have in common than the next one.
_MARGIN = 0.08
#: A function whose body has less in common was rewritten, not moved.
SAME_BODY = 0.7


def likeness(a: bytes, b: bytes) -> float:
    """Bytes of lines that two files share, over the larger file's."""
    if a == b:
        return 1.0
    left, right = Counter(split_lines(a)), Counter(split_lines(b))
    shared = sum(len(line) * min(n, right[line]) for line, n in left.items() if line in right)
    return shared / max(len(a), len(b), 1)


#: A definition on a line of its own; a pattern that begins with one byte is searched for much faster.
_DEFINITION = re.compile(rb"\n[ \t]*(?:async )?(?:def|class) ([\w\x80-\xff]+)")
#: Blob id -> names of the functions and classes in it, for every file that was read once.
_DEFINES: dict[str, frozenset[bytes]] = {}


class Finder:
    """Looks through one tree; what it reads is kept for the next question."""

    def __init__(self, tree: SourceTree, base_paths: Collection[str] | None = None) -> None:
        self.tree = tree
        self.base_paths = base_paths
        self._contents: dict[str, bytes] = {}
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
        if len(blob) >= 40:
            same = [p for p, oid in paths.items() if oid == blob]
            if same:
                return same[0] if len(same) == 1 else _nearest(path, same)
        if len(base.strip()) < 40:
            return None
        folder, _, name = path.rpartition("/")
        suffix = name.rpartition(".")[2]
        known = self.base_paths
        new = [p for p in paths if p.rpartition(".")[2] == suffix and (known is None or p not in known)]
        first = [p for p in new if p.rpartition("/")[2] == name]
        return self._best(base, first) or self._best(base, new)

    def _best(self, base: bytes, paths: list[str]) -> str | None:
        lines = sorted(set(split_lines(base)), key=lambda line: (-len(line), line))
        telling = lines[:: max(1, len(lines) // 12)][:12]
        near = [
            (p, data)
            for p, data in self._read(paths)
            if len(data) <= 2 * len(base) <= 4 * len(data)
            and 4 * sum(line in data for line in telling) >= len(telling)
        ]
        scored = sorted(((likeness(base, data), p) for p, data in near), reverse=True)
        scored = [entry for entry in scored if entry[0] >= SAME_FILE]
        if not scored:
            return None
        if len(scored) > 1 and scored[0][0] - scored[1][0] < _MARGIN:
            return None
        return scored[0][1]

    def _read(self, paths: Iterable[str]) -> Iterable[tuple[str, bytes]]:
        wanted = list(paths)
        missing = [p for p in wanted if p not in self._contents]
        for path, data in self.tree.read_many(missing):
            self._contents[path] = data
        return [(p, self._contents[p]) for p in wanted]

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
        from auditor.patching.mergealign import dice

        pattern = re.compile(
            rb"^[ \t]*(?:async )?(?:def|class) " + wanted.name.encode() + rb"\b", re.MULTILINE
        )
        suffixes = (".py", ".pyi")
        found: list[tuple[float, str, Statement]] = []
        paths = [p for p in self.tree.blobs() if p.endswith(suffixes) and p != near]
        telling = sorted(wanted.bag, key=lambda word: (-len(word), word))[:12]
        blobs = self.tree.blobs()
        name = wanted.name.encode()
        near_it = [p for p in paths if _DEFINES.get(blobs[p]) is None or name in _DEFINES[blobs[p]]]
        for path, data in self._read(near_it):
            oid = blobs[path]
            if oid not in _DEFINES:
                _DEFINES[oid] = frozenset(_DEFINITION.findall(b"\n" + data))
            if name not in _DEFINES[oid]:
                continue
            if sum(word in data for word in telling) * 4 < len(telling) * 3 or not pattern.search(data):
                continue
            source = self.source(path)
            if source is None:
                continue
            for statement in source.statements():
                if statement.is_scope and statement.name == wanted.name:
                    score = dice(wanted.bag, statement.bag)
                    if score >= SAME_BODY:
                        found.append((score, path, statement))
        found.sort(key=lambda entry: -entry[0])
        if not found or (len(found) > 1 and found[0][0] - found[1][0] < _MARGIN):
            return None
        return found[0][1], found[0][2]


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
