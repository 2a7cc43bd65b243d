"""Taking patches back by inverse change: pure, from the record and the bytes that are there."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import msgspec

from auditor.errors import EXIT_CONFLICT, UserError
from auditor.patching.diffs.delta import FileDelta, delta, redo, undo
from auditor.patching.write.state import Applied, State
from auditor.trees.names import blob_id

#: path -> (bytes, permission bits), or None where there is no file.
Read = Callable[[str], "tuple[bytes, int] | None"]


@dataclass(frozen=True)
class Undone:
    """What becomes of the files, and the record of the patches that stay."""

    files: dict[str, tuple[bytes | None, int]]  # path -> bytes and permission bits after
    kept: tuple[Applied, ...]
    removed: tuple[Applied, ...]  # last first, as they are taken out


def take_back(state: State, names: Iterable[tuple[str, str]], read: Read) -> Undone:
    """Take patches, by (patchset, name), out of what ``read`` gives.

    Patches above them in the same file are taken out first and put back on top. ``UserError`` P053, a
    conflict, where lines that are needed are not there any more, and nothing is changed.
    """
    chosen = set(names)
    removed = [p for p in state.patches if (p.patchset, p.name) in chosen]
    paths = sorted({change.path for patch in removed for change in patch.files})
    files: dict[str, tuple[bytes | None, int]] = {}
    renewed: dict[tuple[str, str, str], FileDelta] = {}
    for path in paths:
        chain = [(p, change) for p in state.patches for change in p.files if change.path == path]
        data, perm = _one_file(path, chain, chosen, read(path), renewed)
        files[path] = (data, perm)
    kept = tuple(
        msgspec.structs.replace(
            patch,
            files=tuple(renewed.get((patch.patchset, patch.name, c.path), c) for c in patch.files),
        )
        for patch in state.patches
        if (patch.patchset, patch.name) not in chosen
    )
    return Undone(files, kept, tuple(reversed(removed)))


def _one_file(
    path: str,
    chain: list[tuple[Applied, FileDelta]],
    chosen: set[tuple[str, str]],
    found: tuple[bytes, int] | None,
    renewed: dict[tuple[str, str, str], FileDelta],
) -> tuple[bytes | None, int]:
    data, perm = found if found is not None else (None, 0)
    low = min(at for at, (patch, _) in enumerate(chain) if (patch.patchset, patch.name) in chosen)
    above = [entry for entry in chain[low:] if (entry[0].patchset, entry[0].name) not in chosen]
    there = blob_id(data) if data is not None else ""
    if there != chain[-1][1].new and above:
        names = ", ".join(patch.name for patch, _ in above)
        raise _conflict(path, chain[low][0], f"it was changed since {names} was applied on top", above)
    for patch, change in reversed(chain[low:]):
        try:
            data = undo(change, data)
        except ValueError as error:
            raise _conflict(path, patch, str(error), []) from None
        if data is None:
            perm = 0
        elif change.old_perm and change.old_perm != change.new_perm:
            perm = change.old_perm
    for patch, change in above:
        before, before_perm = data, perm
        try:
            data = redo(change, data)
        except ValueError as error:
            raise _conflict(path, chain[low][0], f"{patch.name} stands on it ({error})", above) from None
        if data is None:
            perm = 0
        elif change.new_perm and (change.old_perm != change.new_perm or not perm):
            perm = change.new_perm
        renewed[patch.patchset, patch.name, path] = delta(path, before, data, before_perm, perm)
    return data, perm


def _conflict(path: str, patch: Applied, why: str, above: list[tuple[Applied, FileDelta]]) -> UserError:
    hints = [f"patches revert {other.patchset} {other.name}" for other, _ in reversed(above)]
    return UserError(
        "P053",
        f"{patch.name} cannot be taken out of {path}: {why}; nothing was changed",
        place=path,
        hints=hints or ["put the file back as the patch left it, or take the change out by hand"],
        exit_code=EXIT_CONFLICT,
    )
