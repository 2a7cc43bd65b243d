"""File modes of an outcome. A tree of contents does not know them, so they are settled where it is used."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from auditor.patching.model import ChangeSet, Outcome, status_of
from auditor.trees.base import SourceTree
from auditor.trees.names import blob_id


def with_modes(
    changes: ChangeSet, outcome: Outcome, tree: SourceTree, executable: Callable[[str], bool]
) -> Outcome:
    """The outcome on a tree whose files are ``executable`` or not.

    A file that is renamed or copied stays executable. A mode that a file has already is not set again; where
    nothing else is to be done, that part of the patch is upstream.
    """
    modes = dict(outcome.modes)
    for change in changes.changes:
        old, new = change.old_path, change.new_path
        if old is None or new is None or old == new or outcome.files.get(new) is None:
            continue
        kept = change.copied or outcome.files.get(old, b"") is None
        if new not in modes and kept and executable(old):
            modes[new] = "100755"
    files = dict(outcome.files)
    before = tree.blobs()
    done = set()
    for path, mode in outcome.modes.items():
        after = files.get(path)
        if after is None or before.get(path) != blob_id(after) or executable(path) != (mode == "100755"):
            continue
        del files[path], modes[path]
        done.add(path)
    if not done:
        return replace(outcome, modes=modes) if modes != outcome.modes else outcome
    hunks = tuple(
        replace(h, status="upstream") if h.index == -1 and h.path in done else h for h in outcome.hunks
    )
    return replace(
        outcome, status=status_of({h.status for h in hunks}), hunks=hunks, files=files, modes=modes
    )
