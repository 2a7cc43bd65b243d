"""What a person has to do in a rebase, as files: the patch's files on the new base, to be edited.

``rebase/`` in the patchset's folder holds ``state.json`` and one folder per patch that does not go, in which
its files lie as the new base and the patches before it have them, with both sides between conflict markers
where they meet. Edited, they are the resolution. A diff does as well as a folder.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

import msgspec

from auditor.errors import UserError
from auditor.lazyre import lazy
from auditor.patching.diffs.exact import apply_exactly
from auditor.patching.diffs.lines import changed_ranges, split_lines
from auditor.patching.diffs.parse import parse_patch
from auditor.patching.mapping import PathMap
from auditor.patching.model import HunkResult, Outcome
from auditor.patching.paths import check_target_path
from auditor.patching.planning.model import Given, Plan, Planned
from auditor.patching.planning.remade import Names
from auditor.patching.planning.sources import Sources
from auditor.patching.sets.patchset import Patchset
from auditor.profile import Profile
from auditor.readback import Damaged, from_json
from auditor.trees.base import SourceTree

FOLDER = "rebase"
STATE = "state.json"
_MARK = lazy(rb"(?m)^(<{7}|>{7}|\|{7})(?: .*)?\r?$")
_MOST = 64 << 20


class State(msgspec.Struct, frozen=True):
    """What was asked for, and on what: a continued rebase refuses anything else."""

    schema: int
    onto: str  # as it was typed; a commit as its full id
    tree: str
    patches: dict[str, str]  # name -> sha256 of its file
    open: tuple[str, ...]  # patches that wait for a person
    resolved: tuple[str, ...] = ()  # patches that a person has resolved before
    accepted: tuple[str, ...] = ()
    retired: tuple[str, ...] = ()  # patches that a person takes out


def hashes_of(patchset: Patchset) -> dict[str, str]:
    """name -> sha256 of the file of every patch, those to be retired too."""
    return {patch.name: hashlib.sha256(patch.raw).hexdigest() for patch in patchset.patches}


def state_of(
    patchset: Patchset,
    plan: Plan,
    onto: str,
    resolved: Iterable[str],
    accepted: Iterable[str],
    retired: Iterable[str],
) -> State:
    """The state to write for a plan in which something is open."""
    info = plan.tree.info()
    return State(
        1,
        info.commit or onto,
        info.content_id,
        hashes_of(patchset),
        tuple(entry.name for entry in plan.entries if entry.outcome.status == "conflict"),
        tuple(sorted(set(resolved))),
        tuple(sorted(set(accepted))),
        tuple(sorted(set(retired))),
    )


def read_state(patchset: Patchset) -> State:
    """The state of a rebase that was begun. ``UserError`` P064 where there is none."""
    path = patchset.folder / FOLDER / STATE
    shown = f"{patchset.place}/{FOLDER}/{STATE}"
    try:
        return from_json(path.read_bytes(), State)
    except FileNotFoundError:
        raise UserError(
            "P064", "no rebase was begun", place=shown, hints=[f"patches rebase {patchset.typed} --onto REV"]
        ) from None
    except (OSError, Damaged) as error:
        raise UserError(
            "P064",
            f"cannot be read: {error}",
            place=shown,
            hints=[f"patches rebase {patchset.typed} --abort"],
        ) from None


def check_state(state: State, plan_tree: SourceTree, patchset: Patchset) -> None:
    """``UserError`` P064 where the base or the patches are others than those the rebase was begun with."""
    what = ""
    if plan_tree.info().content_id != state.tree:
        what = f"{state.onto} is another tree now"
    elif (hashes := hashes_of(patchset)) != state.patches:
        names = sorted(n for n in {*hashes, *state.patches} if hashes.get(n) != state.patches.get(n))
        what = f"{names[0] if names else 'the order'} was changed since the rebase was begun"
    if what:
        raise UserError(
            "P064", what, place=f"{patchset.place}/{FOLDER}/{STATE}",
            hints=[f"patches rebase {patchset.typed} --abort        # then begin again"],
        )  # fmt: skip


@dataclass(frozen=True)
class Both:
    """One file with both sides; ``marked`` counts the places where they meet."""

    data: bytes
    marked: int


def both_sides(base: bytes, ours: bytes, theirs: bytes, names: tuple[str, str]) -> Both:
    """A three-way merge of lines, with markers where both sides change the same lines or touch."""
    lines, our_lines, their_lines = split_lines(base), split_lines(ours), split_lines(theirs)
    left, right = changed_ranges(lines, our_lines), changed_ranges(lines, their_lines)
    out: list[bytes] = []
    marked = 0
    at = 0
    i = j = 0
    our_shift = their_shift = 0  # what a line's number differs by, up to here

    while i < len(left) or j < len(right):
        start = min(
            left[i][0] if i < len(left) else len(lines), right[j][0] if j < len(right) else len(lines)
        )
        end = start
        i0, j0 = i, j
        grew = True
        while grew:
            grew = False
            if i < len(left) and left[i][0] <= end:
                end, i, grew = max(end, left[i][1]), i + 1, True
            if j < len(right) and right[j][0] <= end:
                end, j, grew = max(end, right[j][1]), j + 1, True
        our_start, their_start = start + our_shift, start + their_shift
        if i > i0:
            our_shift = left[i - 1][3] - left[i - 1][1]
        if j > j0:
            their_shift = right[j - 1][3] - right[j - 1][1]
        ours_here = our_lines[our_start : end + our_shift]
        theirs_here = their_lines[their_start : end + their_shift]
        out += lines[at:start]
        at = end
        if j == j0 or ours_here == theirs_here:
            out += ours_here
        elif i == i0:
            out += theirs_here
        else:
            marked += 1
            out += _block(b"<" * 7, names[0], ours_here)
            out += _block(b"|" * 7, "before both", lines[start:end])
            out += _block(b"=" * 7, "", theirs_here)
            out.append(b">" * 7 + b" " + names[1].encode() + b"\n")
    out += lines[at:]
    return Both(b"".join(out), marked)


def _block(mark: bytes, name: str, lines: list[bytes]) -> list[bytes]:
    head = mark + (b" " + name.encode() if name else b"") + b"\n"
    if lines and not lines[-1].endswith(b"\n"):
        lines = [*lines[:-1], lines[-1] + b"\n"]
    return [head, *lines]


def work_files(state: State, plan: Plan, sources: Sources) -> dict[str, bytes]:
    """Name below the patchset's folder -> bytes, of everything a person needs to resolve what is open."""
    out = {f"{FOLDER}/{STATE}": msgspec.json.format(msgspec.json.encode(state), indent=2) + b"\n"}
    for entry in plan.entries:
        if entry.outcome.status == "conflict":
            for path, data in marked_files(plan, entry, sources).items():
                out[f"{FOLDER}/{entry.name}/{path}"] = data
    return out


def marked_files(plan: Plan, entry: Planned, sources: Sources) -> dict[str, bytes]:
    """Repository path -> the file on the new base with the patch in it, as far as that can be told."""
    below = plan.tree.blobs()
    paths, names = PathMap(plan.profile, below), Names(plan.profile, below)
    went = {hunk.path: hunk.to_path for hunk in entry.outcome.hunks if hunk.to_path}
    out: dict[str, bytes] = {}
    for change in entry.changes.changes if entry.changes is not None else ():
        here = paths.path(change.path)
        if here is None:
            continue
        place = next(
            (p for p in (went.get(change.path, ""), here, paths.path(change.old_path or "")) if p in below),
            None,
        )
        ours = plan.result.read(place) if place is not None and place in plan.result.blobs() else None
        base = sources.blob(change.old_blob) if change.old_blob.strip("0") else None
        name = names.repository(place) if place is not None else change.path
        if change.binary is not None:
            out[name] = change.binary
        elif ours is not None and base is not None and change.new_path is not None:
            theirs = apply_exactly(change, base)
            if theirs is not None:
                label = plan.tree.info().label
                out[name] = both_sides(base, ours, theirs, (label, entry.name)).data
        elif change.old_path is None and ours is not None:
            added = b"".join(line for hunk in change.hunks for line in hunk.new())
            out[name] = both_sides(b"", ours, added, (plan.tree.info().label, entry.name)).data
        if name not in out and ours is not None:
            out[name] = ours
    return out


def given_by(patchset: Patchset, name: str, path: Path, profile: Profile, shown: str) -> Given:
    """The resolution of a patch that a person made: a folder of whole files, or a diff.

    ``UserError`` P065 for markers that are left, an empty resolution, or a diff that does not fit.
    """
    patchset.patch(name)
    begun = shown == f"{patchset.place}/{FOLDER}/{name}"
    retiring = (
        name,
        f"patches rebase {patchset.typed} {'--continue' if begun else '--onto REV'} --retire {name}",
    )
    try:
        if path.is_dir():
            found = {
                each.relative_to(path).as_posix(): _read(each, shown)
                for each in sorted(path.rglob("*"))
                if each.is_file() and not each.is_symlink()
            }
            return lambda tree: _from_files(found, tree, profile, shown, retiring)
        raw = _read(path, shown)
    except OSError as error:
        raise UserError("P065", f"cannot be read: {error.strerror or error}", place=shown) from None
    changes = parse_patch(raw, shown, allow=patchset.file.policy.allow)

    def carried(tree: SourceTree) -> Outcome:
        paths = PathMap(profile, tree.blobs())
        mapped, named, _ = paths.change_set(changes)
        names = Names(profile, tree.blobs())
        here = tree.blobs()
        files: dict[str, bytes | None] = {}
        for change in mapped.changes:
            before = tree.read(change.old_path) if change.old_path in here and change.old_path else None
            after = apply_exactly(change, before)
            if after is None:
                raise UserError(
                    "P065",
                    f"the diff does not fit {names.repository(change.path)} on the new base, line by line",
                    place=shown,
                    hints=["make it against the new base with the patches before it applied"],
                )
            if change.old_path not in (None, change.new_path) and not change.copied:
                files[str(change.old_path)] = None
            files[change.path] = None if change.new_path is None else after
        return _outcome(files, tree, shown, retiring, {})

    return carried


def _from_files(
    found: Mapping[str, bytes], tree: SourceTree, profile: Profile, shown: str, retiring: tuple[str, str]
) -> Outcome:
    paths = PathMap(profile, tree.blobs())
    written: dict[str, str] = {}  # path of this tree -> as the person's folder has it
    files: dict[str, bytes | None] = {}
    for path, data in found.items():
        here = paths.path(path)
        if here is None:
            raise UserError("P065", f"{path} is no part of this tree", place=shown)
        files[here] = data
        written[here] = path
    return _outcome(files, tree, shown, retiring, written)


def _outcome(
    files: dict[str, bytes | None],
    tree: SourceTree,
    shown: str,
    retiring: tuple[str, str],
    written: Mapping[str, str],
) -> Outcome:
    here = tree.blobs()
    changed: dict[str, bytes | None] = {}
    for path, data in sorted(files.items()):
        check_target_path(path, shown)
        if data is not None and (mark := _MARK.search(data)):
            line = data[: mark.start()].count(b"\n") + 1
            raise UserError(
                "P065",
                "a conflict marker is left: both sides have to become one",
                place=f"{shown}/{written.get(path, path)}:{line}",
                hints=["edit the file; no line of <<<<<<<, ||||||| and >>>>>>> may stay"],
            )
        if (tree.read(path) if path in here else None) != data:
            changed[path] = data
    if not changed:
        raise UserError(
            "P065",
            f"the resolution of {retiring[0]} changes nothing: the new base is left as it is",
            place=shown,
            hints=[f"{retiring[1]}        # if it is not needed any more"],
        )
    hunks = tuple(HunkResult(path, -1, "clean", "resolved by a person") for path in changed)
    return Outcome("clean", hunks, changed, note="resolved by a person")


def _read(path: Path, shown: str) -> bytes:
    if path.stat().st_size > _MOST:
        raise UserError("P065", f"{path.name} is larger than 64 MiB", place=shown)
    with open(path, "rb") as handle:
        return handle.read()


def leftovers(folder: Path) -> list[str]:
    """Files of a rebase that was begun, as paths below the patchset's folder, sorted."""
    top = folder / FOLDER
    return sorted(
        os.path.relpath(each, folder).replace(os.sep, "/")
        for each in (top.rglob("*") if top.is_dir() else ())
        if each.is_file() or each.is_symlink()
    )


__all__ = [
    "FOLDER", "STATE", "Both", "State", "both_sides", "check_state", "given_by", "hashes_of", "leftovers",
    "marked_files", "read_state", "state_of", "work_files",
]  # fmt: skip
