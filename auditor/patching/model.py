"""What the patch manager talks about: changes to files, what became of each hunk, and of each patch.

Nothing here touches a disk. A change set is pure data; carrying it to a tree gives an overlay (a tree
again), and only ``patching.write`` puts that on a disk.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Literal

#: What became of a patch on a tree, and of each hunk of it.
#:   clean     every hunk fits where it was made for
#:   moved     fits, at another place than it was made for; where to is said
#:   upstream  the tree already has it, all of it
#:   partly    some hunks are already there, the others fit
#:   look      carried, but a person should look: the order of statements is a guess
#:   conflict  not carried; nothing changed
#:   obsolete  the thing it changes is gone or the patch says it is not needed any more
#:   skipped   does not apply to this version or target, by its own header
#:   not-tried an earlier patch failed
Status = Literal[
    "clean", "moved", "upstream", "partly", "look", "conflict", "obsolete", "skipped", "not-tried"
]
GLYPHS = {
    "clean": "+", "moved": "~", "upstream": "=", "partly": "≈", "look": "?", "conflict": "!",
    "obsolete": "x", "skipped": ".", "not-tried": "-",
}  # fmt: skip


@dataclass(frozen=True)
class Hunk:
    """One hunk of a unified diff. Lines keep their own line end, so that a missing last newline survives.

    ``old_start`` and ``new_start`` count from 1 as in the diff (0 for an empty side).
    """

    old_start: int
    new_start: int
    lines: tuple[tuple[str, bytes], ...]  # (" " | "-" | "+", the line with its line end, if it has one)
    section: str = ""  # the text after the second @@

    def old(self) -> list[bytes]:
        """The preimage: context and removed lines."""
        return [text for mark, text in self.lines if mark != "+"]

    def new(self) -> list[bytes]:
        """The postimage: context and added lines."""
        return [text for mark, text in self.lines if mark != "-"]


@dataclass(frozen=True)
class FileChange:
    """What a patch does to one file. Paths are relative, ``/``-separated, as git would write them."""

    old_path: str | None  # None: the file is new
    new_path: str | None  # None: the file is deleted
    hunks: tuple[Hunk, ...] = ()
    old_blob: str = ""  # blob id of the preimage as the diff states it, full or abbreviated; "" unknown
    new_blob: str = ""
    old_mode: str = ""  # "100644", "100755", "120000"; "" as before
    new_mode: str = ""
    binary: bytes | None = None  # whole new content where the patch is binary
    binary_old: bytes | None = None  # whole old content, where the binary patch can be reversed
    #: The same as git deltas where the patch holds no whole content; see `diffs.binary_after`.
    delta: bytes | None = None
    delta_old: bytes | None = None
    copied: bool = False  # the old path stays; without it, two different paths are a rename

    @property
    def path(self) -> str:
        """The name to call it by."""
        return self.new_path or self.old_path or ""


@dataclass(frozen=True)
class ChangeSet:
    """All changes of one patch, and the prose before them."""

    changes: tuple[FileChange, ...]
    subject: str = ""
    body: str = ""
    author: str = ""  # "Name <mail>"
    date: str = ""
    headers: tuple[tuple[str, str], ...] = ()  # DEP-3 and mail fields, as written
    commit: str = ""  # from a mail patch's first line or a reference


@dataclass(frozen=True)
class HunkResult:
    """What became of one hunk (or of one structural edit)."""

    path: str  # as the patch names the file
    index: int  # of the hunk in the file's change, from 0; -1 for the file as a whole
    status: Status
    proof: str  # "preimage identical", "reverse-applies", "three-way merge", "statement merge", ...
    to_path: str = ""  # where it went, if elsewhere
    line: int = 0  # where it stands in the result (from 1), 0 unknown
    symbol: str = ""  # qualified name of what encloses it
    note: str = ""  # one line for a person


def status_of(words: Collection[str]) -> Status:
    """The status of a patch from those of its hunks; upstream where it has none."""
    if "conflict" in words:
        return "conflict"
    if all(word == "upstream" for word in words):
        return "upstream"
    if "look" in words:
        return "look"
    if "upstream" in words or "partly" in words:
        return "partly"
    return "moved" if "moved" in words else "clean"


@dataclass(frozen=True)
class Outcome:
    """What became of one patch on one tree.

    ``files``: path in the tree -> bytes after, or None for a removed file.

    ``files`` is empty for upstream, conflict, obsolete, skipped and not-tried.
    """

    status: Status
    hunks: tuple[HunkResult, ...] = ()
    files: dict[str, bytes | None] = field(default_factory=dict)
    modes: dict[str, str] = field(default_factory=dict)  # path -> "100755", where the mode changes
    note: str = ""
