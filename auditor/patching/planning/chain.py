"""Contents that only a stack of patches has: what an earlier patch of it makes of a file.

The second patch to a file is made for a content that no clone holds. Where the patches state full ids, that
content is the first patch applied to what it was made for, and the id proves it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from auditor.patching.diffs.exact import apply_exactly
from auditor.patching.model import FileChange
from auditor.trees.names import blob_id

_SHORTEST = 7


class Chain:
    """``blob`` gives what is known without the stack; ``changes`` are those of all patches, in order."""

    def __init__(self, changes: Iterable[FileChange], blob: Callable[[str], bytes | None]) -> None:
        self._makes = [change for change in changes if len(change.new_blob) >= _SHORTEST]
        self._blob = blob
        self._found: dict[str, bytes | None] = {}

    def content(self, oid: str) -> bytes | None:
        """The content with this id (or beginning of one), None where the patches do not give it."""
        if len(oid) < _SHORTEST:
            return None
        if oid not in self._found:
            self._found[oid] = None  # a patch that is made for its own result gives nothing
            self._found[oid] = self._make(oid)
        return self._found[oid]

    def _make(self, oid: str) -> bytes | None:
        for change in self._makes:
            if not (change.new_blob.startswith(oid) or oid.startswith(change.new_blob)):
                continue
            before = None
            if change.old_path is not None:
                before = self._blob(change.old_blob)
                if before is None:
                    before = self.content(change.old_blob)
                if before is None:
                    continue
            after = apply_exactly(change, before)
            if after is not None and blob_id(after).startswith(oid):
                return after
        return None
