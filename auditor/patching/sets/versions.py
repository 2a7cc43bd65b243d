"""A patchset as a commit of the repository that holds it has it."""

from __future__ import annotations

import os
import tempfile
from dataclasses import replace
from pathlib import Path

from auditor.errors import UserError
from auditor.patching.diffs.paths import check_path
from auditor.patching.sets.patchset import Patchset, default_folders, find_patchset, load_patchset
from auditor.trees.commit import CommitTree
from auditor.trees.git import GitRepo


def load_version(word: str, folder: Path | None = None) -> Patchset:
    """The patchset ``NAME`` as it lies here, or ``NAME@REV`` as a commit has it.

    UserError P020 where there is none, P036 where it lies in no repository, T0nn for an unknown revision.
    """
    name, at, revision = word.partition("@")
    if not at:
        return load_patchset(word, folder)
    path = _folder(name, folder)
    repo = GitRepo.find(path if path.exists() else path.parent)
    if repo is None or repo.work_tree is None:
        raise UserError(
            "P036",
            f"{name} lies in no git repository, so it has no versions",
            hints=["patches diff FOLDER FOLDER"],
        )
    inside = Path(os.path.relpath(path.resolve(), repo.work_tree.resolve())).as_posix()
    tree = CommitTree(repo, revision or "HEAD")
    below = f"{inside}/"
    names = [each for each in tree.blobs() if each.startswith(below)]
    if f"{below}patchset.yaml" not in names:
        raise UserError("P020", f"no patchset {name!r} in {revision or 'HEAD'}", hints=["patches list"])
    with tempfile.TemporaryDirectory() as staged:
        root = Path(staged) / path.name
        for each, data in tree.read_many(names):
            target = root / check_path(each[len(below) :])
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(data)
        found = load_patchset(root)
    return replace(found, folder=path, place=f"{found.place}@{revision}")


def _folder(name: str, folder: Path | None) -> Path:
    """Where a patchset lies or lay: it may be gone from the disk by now."""
    try:
        return find_patchset(name, folder)
    except UserError:
        if "/" in name:
            return Path(name)
        return (folder or default_folders()[0]) / name
