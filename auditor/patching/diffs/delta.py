"""The difference of two versions of a file as lines, kept so that it can be taken back exactly.

A delta names both versions by blob id. Taken back from the very bytes it led to, it gives the very bytes it
came from, and the id proves it. On bytes that were changed since, each hunk must be found exactly once.
"""

from __future__ import annotations

from base64 import b85decode, b85encode
from collections.abc import Sequence
from functools import lru_cache

import msgspec

from auditor.patching.diffs.lines import changed_ranges, split_lines
from auditor.trees.names import blob_id

#: Lines kept around a hunk, to find its place again if the file was changed since.
CONTEXT = 3


class Text(msgspec.Struct, frozen=True, omit_defaults=True):
    """Bytes in JSON: as text where they are UTF-8, else in base 85."""

    text: str = ""
    raw: str = ""

    @classmethod
    def of(cls, data: bytes) -> Text:
        try:
            return cls(text=data.decode())
        except UnicodeDecodeError:
            return cls(raw=b85encode(data).decode())

    def data(self) -> bytes:
        return b85decode(self.raw) if self.raw else self.text.encode()


class DeltaHunk(msgspec.Struct, frozen=True):
    """``old`` at line ``at`` (from 0, in the older version) became ``new`` at line ``to``."""

    at: int
    to: int
    old: Text
    new: Text
    before: Text = Text()  # unchanged lines just above
    after: Text = Text()  # and below


class FileDelta(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a patch did to one file.

    ``old`` and ``new`` are blob ids, "" where there is no file. ``old_perm`` and ``new_perm`` are permission
    bits as found on the disk (or 0o644 and 0o755 from git), 0 where there is no file.
    """

    path: str
    old: str
    new: str
    old_perm: int = 0
    new_perm: int = 0
    hunks: tuple[DeltaHunk, ...] = ()


@lru_cache(maxsize=64)
def ranges_of(
    old: bytes, new: bytes
) -> tuple[list[bytes], list[bytes], tuple[tuple[int, int, int, int], ...]]:
    """Both versions as lines, and ``(i1, i2, j1, j2)`` for each stretch old[i1:i2] that became new[j1:j2]."""
    a, b = split_lines(old), split_lines(new)
    return a, b, tuple(changed_ranges(a, b))


def delta(path: str, old: bytes | None, new: bytes | None, old_perm: int = 0, new_perm: int = 0) -> FileDelta:
    """The delta that leads from ``old`` to ``new``; None stands for no file."""
    a, b, ranges = ranges_of(old or b"", new or b"")
    hunks = []
    for i1, i2, j1, j2 in ranges:
        hunks.append(
            DeltaHunk(
                i1,
                j1,
                Text.of(b"".join(a[i1:i2])),
                Text.of(b"".join(b[j1:j2])),
                Text.of(b"".join(a[max(0, i1 - CONTEXT) : i1])),
                Text.of(b"".join(a[i2 : i2 + CONTEXT])),
            )
        )
    return FileDelta(
        path,
        "" if old is None else blob_id(old),
        "" if new is None else blob_id(new),
        old_perm,
        new_perm,
        tuple(hunks),
    )


def undo(change: FileDelta, data: bytes | None) -> bytes | None:
    """The older version. ``ValueError``, a sentence, where ``data`` does not hold what the delta led to."""
    return _carry(change, data, back=True)


def redo(change: FileDelta, data: bytes | None) -> bytes | None:
    """The newer version; as :func:`undo`, the other way."""
    return _carry(change, data, back=False)


def _carry(change: FileDelta, data: bytes | None, back: bool) -> bytes | None:
    here, there = (change.new, change.old) if back else (change.old, change.new)
    if (blob_id(data) if data is not None else "") == here:
        result = None if not there else _exact(change, data or b"", back)
        if (blob_id(result) if result is not None else "") != there:
            raise ValueError("the record of this change is damaged")
        return result
    if data is None:
        raise ValueError("the file is gone")
    if not here:
        raise ValueError("a file is there that was not")
    if not there:
        raise ValueError("the file was changed since it was added" if back else "the file was changed")
    return _elsewhere(change, data, back)


def _exact(change: FileDelta, data: bytes, back: bool) -> bytes:
    lines = split_lines(data)
    out: list[bytes] = []
    done = 0
    for hunk in change.hunks:
        start = hunk.to if back else hunk.at
        gone, come = (hunk.new, hunk.old) if back else (hunk.old, hunk.new)
        out += lines[done:start]
        done = start + len(split_lines(gone.data()))
        out += split_lines(come.data())
    return b"".join(out + lines[done:])


def _elsewhere(change: FileDelta, data: bytes, back: bool) -> bytes:
    """Carry each hunk to the one place where it and the lines around it stand, in the same order."""
    lines = split_lines(data)
    out: list[bytes] = []
    done = 0
    for number, hunk in enumerate(change.hunks, 1):
        gone, come = (hunk.new, hunk.old) if back else (hunk.old, hunk.new)
        above, below = split_lines(hunk.before.data()), split_lines(hunk.after.data())
        middle = split_lines(gone.data())
        places = _places(lines, [*above, *middle, *below])
        if len(places) != 1:
            found = "nowhere" if not places else f"at {len(places)} places"
            raise ValueError(f"change {number} of {len(change.hunks)} stands {found} in the file")
        start = places[0] + len(above)
        if start < done:
            raise ValueError(f"change {number} of {len(change.hunks)} stands before the one above it")
        out += lines[done:start]
        out += split_lines(come.data())
        done = start + len(middle)
    return b"".join(out + lines[done:])


def _places(lines: Sequence[bytes], wanted: Sequence[bytes]) -> list[int]:
    if not wanted:
        return []
    size = len(wanted)
    first = wanted[0]
    return [
        at
        for at in range(len(lines) - size + 1)
        if lines[at] == first and list(lines[at : at + size]) == list(wanted)
    ]
