"""Writing one outcome into a folder or work tree as it lies there: no commit, no record, all or nothing."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from auditor.errors import EXIT_CONFLICT, UserError
from auditor.patching.paths import STATE_FOLDER
from auditor.patching.write.checkout import GIT_STORE
from auditor.patching.write.disk import Root, held, perm_after
from auditor.patching.write.journal import STATE, Put, Share, left_behind, transact
from auditor.trees.git import GitRepo
from auditor.trees.names import blob_id

#: Seconds to wait for another run on the same target.
PATIENCE = 10.0


def write_in_place(
    folder: Path,
    repo: GitRepo | None,
    files: Mapping[str, bytes | None],
    modes: Mapping[str, str],
    planned_on: Mapping[str, str],
    *,
    what: str,
) -> None:
    """Put ``files`` (bytes, or None to remove) below ``folder``; ``planned_on`` are the blob ids before.

    ``UserError`` P041 something that is no file of the tree is in the way, P042 another run, P044 a file
    that changed since it was read, P056 an unfinished run.
    """
    store = folder / STATE_FOLDER if repo is None else repo.git_dir / GIT_STORE
    lock = folder if repo is None else repo.git_dir
    with held(lock, PATIENCE), Root(folder) as root:
        if left_behind(root, store) is not None:
            raise UserError(
                "P056",
                "an earlier run was stopped in the middle",
                place=str(folder),
                hints=[f"patches doctor --to {folder}"],
                exit_code=EXIT_CONFLICT,
            )
        puts: list[Put] = []
        for path, after in files.items():
            before, perm = _there(root, path)
            if before is not None and path not in planned_on:
                raise UserError(
                    "P041",
                    f"{path} is a new file of the patch, and one that git ignores is in its place",
                    place=str(folder),
                    hints=[f"ls -l {folder / path}"],
                    exit_code=EXIT_CONFLICT,
                )
            if ("" if before is None else blob_id(before)) != planned_on.get(path, ""):
                raise UserError(
                    "P044", "a file was changed since it was read", place=path, hints=["run it again"]
                )
            puts.append(Put(path, before, after, perm, perm_after(modes.get(path, ""), perm, after)))
        try:
            state: str | None = (store / STATE).read_text(encoding="utf-8")
        except FileNotFoundError:
            state = None
        transact(Share(root, store, puts, "port", what, state, state))


def _there(root: Root, path: str) -> tuple[bytes | None, int]:
    """Bytes and permission bits of a file, (None, 0) where there is none."""
    try:
        return root.read(path) or (None, 0)
    except UserError as error:
        if error.code == "P041":  # a folder or a link, where the patch has a file
            error.exit_code = EXIT_CONFLICT
        raise
