"""Does a change fit a content exactly where it says? No fuzz and no search; that is for rebasing."""

from __future__ import annotations

from auditor.errors import UserError
from auditor.patching.diffs.lines import split_lines
from auditor.patching.diffs.parse import binary_after
from auditor.patching.model import FileChange


def apply_exactly(change: FileChange, before: bytes | None) -> bytes | None:
    """The content after the change, where every hunk stands at its line; else None.

    A deleted file gives ``b""``; ``before`` is None where the tree has no such file.
    """
    if (change.old_path is None) != (before is None):
        return None
    if change.binary is not None or change.delta is not None:
        try:
            return binary_after(change, before)
        except UserError:
            return None
    lines = split_lines(before or b"")
    out: list[bytes] = []
    at = 0
    for hunk in change.hunks:
        old = hunk.old()
        start = hunk.old_start - 1 if old else hunk.old_start
        if start < at or lines[start : start + len(old)] != old:
            return None
        out += lines[at:start]
        out += hunk.new()
        at = start + len(old)
    out += lines[at:]
    # A line without its end can only be the last one.
    if any(not line.endswith(b"\n") for line in out[:-1]):
        return None
    return b"".join(out)
