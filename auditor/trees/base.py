"""The one read-only interface behind which source comes from anywhere.

A source tree maps ``/``-separated relative paths to blobs. Each blob has a content id; for trees that
do not come from git the id is computed as git would (``sha1("blob <size>\\0" + bytes)``), so that the
same file has the same id in a commit, a working tree, a wheel and an installed copy, and facts cached
per blob are shared between them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable


@dataclass(frozen=True)
class TreeInfo:
    """What a report says about a tree. No absolute path, clock or host name may appear here."""

    kind: str  # commit | worktree | wheel | release | installed | remote | overlay | folder
    label: str  # what a person calls it: "1234567", "1.2.0", "working tree"
    content_id: str  # git tree id for commits, else a digest over sorted (path, blob id)
    commit: str | None = None  # full 40-hex id
    version: str | None = None  # release version, where known
    date: str | None = None  # committer date, YYYY-MM-DD
    describe: str | None = None  # e.g. "main, after 1.2.0 and before 1.3.0"
    dirty: bool = False  # uncommitted changes are part of it
    notes: tuple[str, ...] = field(default=())  # shown to the user, never in JSON output


@runtime_checkable
class SourceTree(Protocol):
    """Read-only map path -> blob."""

    def info(self) -> TreeInfo: ...

    def blobs(self) -> Mapping[str, str]:
        """path -> content id of every regular file (symlinks and submodules left out), sorted by path."""

    def read(self, path: str) -> bytes:
        """The bytes of one file. KeyError if the tree has no such path."""

    def read_many(self, paths: Iterable[str]) -> Iterator[tuple[str, bytes]]:
        """Bytes of many files in the given order; streamed, so a caller need not hold them all."""

    def local_path(self, path: str) -> str | None:
        """Where the file lies on this disk (for clickable links in a terminal), or None."""


@runtime_checkable
class HasContents(Protocol):
    """A tree beside which the files of other trees lie: those of a repository's history."""

    def contents(self, ids: Sequence[str]) -> list[bytes] | None:
        """The bytes of files with these content ids, in order; None where one of them is not here."""


@runtime_checkable
class BigFiles(Protocol):
    """A tree that can hold files which must not be in memory whole: a wheel, a folder, an installed copy."""

    def info(self) -> TreeInfo: ...

    def sizes(self) -> Mapping[str, int]:
        """path -> size in bytes of every regular file, sorted by path; nothing is read for it."""

    def chunks(self, path: str) -> Iterator[bytes]:
        """The bytes of one file in pieces. ``UserError`` T006 or T014 where they cannot be had."""

    def on_disk(self, path: str) -> str | None:
        """Where the file lies on this disk, or None for one that is packed. Nothing is read for it."""
