"""A patch as it is on one tree, as a diff against it: full ids, the names of the repository, nothing lost."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from auditor.patching.diffs.exact import apply_exactly
from auditor.patching.diffs.lines import diff_hunks, file_change, split_lines
from auditor.patching.model import ChangeSet, FileChange, Outcome
from auditor.patching.port.hunks import apply_hunks, reverse
from auditor.profile import Profile
from auditor.trees.base import SourceTree
from auditor.trees.names import blob_id


class Names:
    """Paths of one tree as the repository has them, and back."""

    def __init__(self, profile: Profile, blobs: Mapping[str, str]) -> None:
        roots = [root for root in profile.roots.repository if root]
        installed = profile.is_installed(blobs)
        self._prefix = f"{roots[0]}/" if installed and roots else ""
        self._places = [(f"{a}/", f"{b}/") for a, b in profile.places.items()] if installed else []

    def repository(self, path: str) -> str:
        """The path in a clone."""
        for there, here in self._places:
            if path.startswith(here):
                return there + path[len(here) :]
        return self._prefix + path

    def tree(self, path: str) -> str | None:
        """The path here; None where an installed copy has no such place."""
        for there, here in self._places:
            if path.startswith(there):
                return here + path[len(there) :]
        if not path.startswith(self._prefix):
            return None
        return path[len(self._prefix) :]


def remade(
    changes: ChangeSet | None, outcome: Outcome, before: SourceTree, names: Names
) -> tuple[FileChange, ...]:
    """What makes of ``before`` what ``outcome`` says, file by file.

    A change that fits as it is written stays as it is written. A file that ``before`` cannot have (a test,
    where it is a wheel) keeps its change, and hunks that ``before`` has already are gone.
    """
    files = {names.repository(path): data for path, data in outcome.files.items()}
    modes = {names.repository(path): mode for path, mode in outcome.modes.items()}
    left = {hunk.path for hunk in outcome.hunks if hunk.status == "skipped"}
    old = before.blobs()

    def content(path: str | None) -> bytes | None:
        here = names.tree(path) if path is not None else None
        return before.read(here) if here is not None and here in old else None

    out: list[FileChange] = []
    done: set[str] = set()
    for change in changes.changes if changes is not None else ():
        if change.path in left:
            out.append(change)
            continue
        paths = {path for path in (change.old_path, change.new_path) if path is not None}
        if not paths & files.keys() or paths & done:
            continue
        kept = _as_written(change, content(change.old_path), files)
        moved = change.old_path != change.new_path and None not in (change.old_path, change.new_path)
        if kept is None and moved and not change.copied and paths <= files.keys():
            kept = _renamed(change, content(change.old_path), files[change.path] or b"")
        if kept is not None:
            out.append(kept)
            done |= paths if not change.copied else {change.path}
    for path, data in sorted(files.items()):
        if path in done:
            continue
        was = content(path)
        made = file_change(path, was, data, mode=modes.get(path, "100644"))
        mode = modes.get(path, "")
        if made is None and mode:
            made = FileChange(path, path, (), blob_id(data or b""), blob_id(data or b""))
        if made is not None:
            if mode and was is not None and data is not None:
                other = "100644" if mode == "100755" else "100755"
                made = replace(made, old_mode=other, new_mode=mode)
            out.append(made)
    return tuple(out)


def _as_written(
    change: FileChange, was: bytes | None, files: Mapping[str, bytes | None]
) -> FileChange | None:
    """The change with full ids, if it gives exactly what the file becomes."""
    try:
        after = apply_exactly(change, was)
    except ValueError:
        return None
    gone = change.new_path is None
    if after is None or files.get(change.path) != (None if gone else after) or change.path not in files:
        return None
    if not change.copied and change.old_path not in (None, change.path) and change.old_path not in files:
        return None
    return replace(
        change, old_blob="" if was is None else blob_id(was), new_blob="" if gone else blob_id(after)
    )


def _renamed(change: FileChange, was: bytes | None, after: bytes) -> FileChange | None:
    if was is None or b"\0" in was[:8000] or b"\0" in after[:8000]:
        return None
    hunks = diff_hunks(split_lines(was), split_lines(after))
    return replace(
        change, hunks=hunks, old_blob=blob_id(was), new_blob=blob_id(after), binary=None, binary_old=None,
        delta=None, delta_old=None,
    )  # fmt: skip


def taken_back(changes: ChangeSet, before: SourceTree, names: Names) -> tuple[FileChange, ...] | None:
    """A patch that ``before`` has, made for ``before`` without it; None where its lines do not stand there.

    So it is known for what it is when nothing else tells what it was made for.
    """
    here = before.blobs()
    out: list[FileChange] = []
    for change in changes.changes:
        path = names.tree(change.path)
        if not change.hunks or change.old_path is None or change.new_path is None:
            out.append(change)
            continue
        if path not in here or path is None or change.old_path != change.new_path:
            return None
        data = before.read(path)
        back = apply_hunks(split_lines(data), [reverse(hunk) for hunk in change.hunks], search=True)
        made = file_change(change.path, b"".join(back.lines), data) if back is not None else None
        if made is None:
            return None
        out.append(replace(made, old_mode=change.old_mode, new_mode=change.new_mode))
    return tuple(out)
