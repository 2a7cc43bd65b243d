"""Repair of what a run that was stopped left, on one target or on all that it changed; and its sweepings."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

from auditor.errors import EXIT_CONFLICT, UserError
from auditor.patching.write.checkout import GIT_STORE, Checkout
from auditor.patching.write.disk import Root, held
from auditor.patching.write.journal import COMPLETE, JOURNAL, Found, Group, left_behind, recover
from auditor.patching.write.ownindex import sweep
from auditor.patching.write.target import Target
from auditor.patching.write.together import Left, is_complete, places, recover_together
from auditor.trees.git import GitRepo

#: Seconds to wait for another run on the same target.
PATIENCE = 10.0


def lock_of(target: Target) -> Path:
    """The folder whose lock a run on this target holds."""
    return target.checkout.repo.git_dir if target.checkout is not None else target.root


def locks(folders: Sequence[Path]) -> list[Path]:
    """Each folder once: two upstreams may lie in one."""
    return [Path(text) for text in sorted({os.path.realpath(folder) for folder in folders})]


def repair(target: Target, patience: float = PATIENCE) -> tuple[str, str]:
    """Finish or put back an unfinished run: (``finished``, ``put back`` or ``""``, what it was).

    One that changed several targets is finished or put back on all of them.
    """
    group: Group | None = None
    with held(lock_of(target), patience), Root(target.root) as root:
        found = left_behind(root, target.store)
        if found is None:
            _sweep(target)
            return "", ""
        group = found.header.group
        if group is None:
            how = recover(root, target.store, found, target.checkout)
            _sweep(target)
            return how, f"{found.header.verb} {found.header.what}"
    return _repair_group(target, group, patience)


def _repair_group(target: Target, group: Group, patience: float) -> tuple[str, str]:
    """The same for a change of several targets; nobody may have repaired it since it was seen."""
    all_places = places(group, target.root)
    with ExitStack() as stack:
        folders = [p.store.parent if p.store.name == GIT_STORE else p.root for p in all_places]
        for lock in locks(folders):
            stack.enter_context(held(lock, patience))
        left: list[Left] = []
        for place in all_places:
            root = stack.enter_context(Root(place.root))
            found = left_behind(root, place.store)
            if found is not None and found.header.group is not None:
                if found.header.group.token == group.token:
                    left.append(Left(place, root, found, _git_of(place.root, found)))
        if not left:
            return "", ""
        what = "; ".join(dict.fromkeys(f"{each.found.header.verb} {each.found.header.what}" for each in left))
        how = recover_together(group, all_places, left)
        for place in all_places:
            _sweep_store(place.store, place.store.parent if place.store.name == GIT_STORE else None)
    return how, f"{what} ({', '.join(place.name for place in all_places)})"


def would_finish(target: Target, found: Found) -> bool:
    """Whether `repair` would finish an unfinished run, and not put it back."""
    group = found.header.group
    return found.whole if group is None else is_complete(group, places(group, target.root))


def _git_of(root: Path, found: Found) -> Checkout | None:
    if found.header.git is None:
        return None
    repo = GitRepo.at(root)
    if repo is None or repo.work_tree is None:
        raise UserError(
            "P048",
            "an unfinished run changed a checkout, which is none any more",
            place=str(root),
            hints=["restore it, then: patches doctor --to PATH"],
            exit_code=EXIT_CONFLICT,
        )
    return Checkout(repo)


def _sweep(target: Target) -> None:
    """Remove what a run that was killed before its journal was whole left in the store."""
    _sweep_store(target.store, target.checkout.repo.git_dir if target.checkout is not None else None)


def _sweep_store(store: Path, git_dir: Path | None) -> None:
    if git_dir is not None:
        sweep(git_dir, store)
    names = ["journal.tmp", "state.json.tmp", f"{COMPLETE}.tmp"]
    if not (store / JOURNAL).exists():
        names.append(COMPLETE)  # the last thing that a change of several targets removes
    try:
        for name in names:
            if (store / name).exists():
                (store / name).unlink()
        store.rmdir()
    except OSError:
        pass  # not empty, not there, or a disk that cannot be written: nothing depends on it


def forget(target: Target, patience: float = PATIENCE) -> None:
    """Drop the record of a target whose files were replaced since."""
    with held(lock_of(target), patience):
        drop_record(target)


def drop_record(target: Target) -> None:
    """The same for a caller that holds the target."""
    (target.store / "state.json").unlink(missing_ok=True)
    _sweep(target)
    target.__dict__.pop("state", None)
    target.__dict__.pop("tree", None)
