"""What a patchset comes to on a tree, as diffs: the plan's result for each patch, under repository paths."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace

from auditor.errors import EXIT_CONFLICT, UserError
from auditor.patching.diffs.exact import apply_exactly
from auditor.patching.export.forms import Piece, between
from auditor.patching.incoming.names import Layout, RepositoryView
from auditor.patching.model import ChangeSet, FileChange
from auditor.patching.planning.model import Planned
from auditor.patching.planning.plan import plan
from auditor.patching.planning.sources import Sources
from auditor.patching.sets.header import with_header
from auditor.patching.sets.patchset import Patchset
from auditor.profile import Profile
from auditor.trees.base import SourceTree
from auditor.trees.names import blob_id
from auditor.trees.overlay import OverlayTree


@dataclass(frozen=True)
class Exported:
    """Patches as they are on one tree. ``notes`` says what is not as the patchset has it."""

    pieces: tuple[Piece, ...]
    base: SourceTree
    result: SourceTree
    modes: Mapping[str, str]
    notes: tuple[str, ...]

    def contents(self) -> dict[str, bytes | None]:
        """Path -> content afterwards of every file that differs from the base; None where it is gone."""
        before, after = self.base.blobs(), self.result.blobs()
        paths = sorted(path for path in before.keys() | after.keys() if before.get(path) != after.get(path))
        return {path: self.result.read(path) if path in after else None for path in paths}


def on_tree(
    patchset: Patchset,
    tree: SourceTree,
    profile: Profile,
    layout: Layout,
    sources: Sources | None = None,
    there: Collection[str] = (),
) -> Exported:
    """Each patch as a diff against the tree that the patches before it left.

    ``there`` are patches of other upstreams, which are taken to be where they are.

    UserError P035 with exit code 3 where one conflicts, or of the plan.
    """
    planned = plan(patchset, tree, profile, sources=sources, there=there)
    if planned.failed:
        first = planned.failed[0]
        raise UserError(
            "P035",
            f"{first.name} does not go onto {tree.info().label}{_why(first)}",
            place=first.patch.place,
            hints=[f"patches status {patchset.typed} --onto REV"],
            exit_code=EXIT_CONFLICT,
        )
    pieces: list[Piece] = []
    notes: list[str] = []
    files: dict[str, bytes | None] = {}
    below = tree.blobs()
    now: SourceTree = tree
    for entry in planned.entries:
        status = entry.outcome.status
        if status not in ("clean", "moved", "partly", "look"):
            notes.append(f"{entry.name}: {status}{_why(entry)}; not exported")
            continue
        files |= entry.outcome.files
        for path in [path for path, data in files.items() if data is None and path not in below]:
            del files[path]
        after: SourceTree = OverlayTree(tree, files)
        changes = _changes(entry, RepositoryView.of(now, layout), RepositoryView.of(after, layout))
        if status == "look":
            notes.append(f"{entry.name}: the order of statements is a guess; look at it before it is used")
        elif status != "clean":
            notes.append(f"{entry.name}: {status}{_why(entry)}")
        left = [hunk.path for hunk in entry.outcome.hunks if hunk.status == "skipped"]
        notes += [
            f"{entry.name}: {path} is not part of this tree; not exported" for path in dict.fromkeys(left)
        ]
        if changes:
            header = entry.patch.header
            pieces.append(Piece(entry.name, header, with_header(header, ChangeSet(tuple(changes)))))
        now = after
    return Exported(
        tuple(pieces),
        RepositoryView.of(tree, layout),
        RepositoryView.of(now, layout),
        planned.modes,
        tuple(notes),
    )


def _why(entry: Planned) -> str:
    return f" ({entry.outcome.note})" if entry.outcome.note else ""


def _changes(entry: Planned, before: SourceTree, after: SourceTree) -> list[FileChange]:
    """The patch as it was written where it fits so, with full ids; else the difference of the two trees."""
    written = entry.changes
    if entry.outcome.status == "clean" and written is not None:
        out = []
        old, new = before.blobs(), after.blobs()
        for change in written.changes:
            was = before.read(change.old_path) if change.old_path in old and change.old_path else None
            result = apply_exactly(change, was)
            gone = change.new_path is None
            if result is None or (not gone and new.get(change.path) != blob_id(result)):
                break
            out.append(
                replace(
                    change,
                    old_blob=blob_id(was) if was is not None else "",
                    new_blob="" if gone else blob_id(result),
                )
            )
        else:
            return out
    modes = entry.outcome.modes
    out = []
    for change in between(before, after):
        mode = next(
            (each for path, each in modes.items() if change.path in (path, _rooted(path, before))), ""
        )
        if mode and change.old_path is None:
            change = replace(change, new_mode=mode)
        elif mode:
            change = replace(change, old_mode="100644" if mode == "100755" else "100755", new_mode=mode)
        out.append(change)
    return out


def _rooted(path: str, tree: SourceTree) -> str:
    return tree.named(path) if isinstance(tree, RepositoryView) else path
