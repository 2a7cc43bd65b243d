"""Changes laid over a tree. An overlay is a tree: it can be audited, and changed again."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from auditor.trees.base import HasContents, SourceTree, TreeInfo
from auditor.trees.names import blob_id, listing_id


class OverlayTree:
    """``base`` with some files replaced or added (bytes) and some removed (None).

    Removing a path that the base does not have, or a path that cannot be one, is a ``ValueError``: a
    change that changes nothing is a mistake of the caller.
    """

    def __init__(
        self, base: SourceTree, changes: Mapping[str, bytes | None], *, label: str | None = None
    ) -> None:
        self.base = base
        self.changes = dict(sorted(changes.items()))
        self._label = label
        blobs = dict(base.blobs())
        known = len(blobs)
        for path, data in self.changes.items():
            parts = path.split("/")
            if "\0" in path or not path or any(part in ("", ".", "..") for part in parts):
                raise ValueError(f"not a path inside a tree: {path!r}")
            if data is None:
                if path not in blobs:
                    raise ValueError(f"nothing to remove at {path!r}")
                del blobs[path]
                known -= 1
            else:
                blobs[path] = blob_id(data)
        # A tree lists its files in order: only a new one can be out of place.
        self._blobs = blobs if len(blobs) == known else {path: blobs[path] for path in sorted(blobs)}

    def info(self) -> TreeInfo:
        base = self.base.info()
        return replace(
            base,
            kind="overlay",
            label=self._label or f"{base.label} with {len(self.changes)} changed files",
            content_id=listing_id(self._blobs),
            dirty=True,
        )

    def blobs(self) -> Mapping[str, str]:
        return self._blobs

    def changed_paths(self) -> tuple[str, ...]:
        """Paths whose content is not that of the base: replaced, added and removed ones, sorted."""
        under = self.base.blobs()
        return tuple(path for path in self.changes if under.get(path) != self._blobs.get(path))

    def read(self, path: str) -> bytes:
        if path in self.changes:
            data = self.changes[path]
            if data is None:
                raise KeyError(path)
            return data
        return self.base.read(path)

    def read_many(self, paths: Iterable[str]) -> Iterator[tuple[str, bytes]]:
        wanted = list(paths)
        below = self.base.read_many([path for path in wanted if path not in self.changes])
        for path in wanted:
            if path in self.changes:
                yield path, self.read(path)
            else:
                yield next(below)

    def contents(self, ids: Sequence[str]) -> list[bytes] | None:
        """The bytes of files of this tree's changes, or of those that lie beside its base."""
        if not isinstance(self.base, HasContents):
            return None
        own = {self._blobs[path]: data for path, data in self.changes.items() if data is not None}
        found = self.base.contents([oid for oid in ids if oid not in own])
        if found is None:
            return None
        below = iter(found)
        return [own[oid] if oid in own else next(below) for oid in ids]

    def local_path(self, path: str) -> str | None:
        return None if path in self.changes else self.base.local_path(path)
