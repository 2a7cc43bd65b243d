"""A tree that notes what is looked at, so that a result can be kept where only the rest differs."""

from __future__ import annotations

import re
from collections.abc import ItemsView, Iterable, Iterator, Mapping

from auditor.trees.base import SourceTree, TreeInfo


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
