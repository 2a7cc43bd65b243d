"""Targets by what lies on them: a record or a journal says which upstream it is, without the patchset."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path

from auditor.errors import UserError
from auditor.patching.paths import STATE_FOLDER
from auditor.patching.sets.upstreams import Facts, profile_from
from auditor.patching.write.checkout import GIT_STORE, Checkout
from auditor.patching.write.journal import JOURNAL, STATE, read_journal
from auditor.patching.write.state import State, decode
from auditor.patching.write.target import Target, open_target, site_folders, store_of
from auditor.profile import Profile, profile_names
from auditor.trees.git import GitRepo


def recorded(
    where: str | None, installed: str | None, load: Callable[[str], Profile], default: str
) -> list[Target]:
    """Every target at a place that has a record or a journal, the audited project first.

    ``where`` and ``installed`` as of the options; ``default`` is the project of a journal that names none.
    """
    found: list[Target] = []
    if installed is not None:
        folders: Iterable[Path] = (
            [Path(p) for p in sys.path if p and os.path.isdir(p)]
            if not installed
            else site_folders(Path(os.path.abspath(installed))) or [Path(os.path.abspath(installed))]
        )
        shown = "the installed copy"
    else:
        shown = where if where is not None else "."
        path = Path(os.path.abspath(shown))
        repo = GitRepo.find(path) if path.is_dir() else None
        if repo is not None and repo.work_tree is not None:
            checkout = Checkout(repo)
            profile = _profile(checkout.store, load, default)
            if profile is not None:
                found.append(Target(checkout.root, checkout.store, shown, profile, checkout))
        folders = [path, path.parent, *site_folders(path)]
    for folder in dict.fromkeys(folders):
        for store in sorted(folder.glob(f"{STATE_FOLDER}*")):
            if store.name != STATE_FOLDER and not store.name.startswith(f"{STATE_FOLDER}."):
                continue
            profile = _profile(store, load, default)
            if profile is None:
                continue
            if installed is None and folder == Path(os.path.abspath(shown)).parent:
                if Path(os.path.abspath(shown)).name != profile.package:
                    continue
            found.append(Target(folder, store, shown, profile, installed=installed))
    many = len({(each.root, each.store) for each in found}) > 1
    return [replace(each, named=True) if many and installed is None else each for each in found]


def nothing_recorded(
    where: str | None, installed: str | None, name: str, load: Callable[[str], Profile]
) -> Target:
    """The target of an upstream on which nothing is recorded; only its folder is known without a profile."""
    if name in profile_names():
        try:
            return open_target(where, None if installed is None else installed or True, load(name))
        except UserError as error:
            if error.code != "T004" or installed is not None:
                raise  # another upstream may lie there, on which nothing is recorded
    profile = profile_from(name, Facts(name, (name,)))
    root = Path(os.path.abspath(where if where is not None else "."))
    if not root.is_dir():
        raise UserError("T001", "no such folder", place=where, hints=["check the path after --to"])
    return Target(root, store_of(root, profile), where or ".", profile, named=True)


def partners_of(target: Target) -> list[tuple[str, Path]]:
    """Other upstreams that were written together with this target, and where they lie."""
    if target.state is None:
        return []
    here = os.path.realpath(target.root)
    return [
        (name, Path(os.path.normpath(os.path.join(here, way)))) for name, way in target.state.partners.items()
    ]


def holds(root: Path, name: str, patchset: str) -> bool:
    """Whether a partner's record still has patches of a patchset."""
    stores = [root / f"{STATE_FOLDER}.{name}", root / STATE_FOLDER]
    repo = GitRepo.at(root) if root.is_dir() else None
    if repo is not None and repo.work_tree is not None:
        stores.append(repo.git_dir / GIT_STORE)
    for store in stores:
        state = _state(store)
        if state is not None and state.project == name and any(p.patchset == patchset for p in state.patches):
            return True
    return False


def _state(store: Path) -> State | None:
    try:
        return decode((store / STATE).read_bytes(), str(store / STATE))
    except OSError:
        return None


def _profile(store: Path, load: Callable[[str], Profile], default: str) -> Profile | None:
    """The upstream of a store; None where it has neither record nor journal."""
    state = _state(store)
    if state is None and (store / JOURNAL).exists():
        read = read_journal(store)
        assert read is not None
        text = read[0].state_after or read[0].state_before
        if text is None:
            return load(default)
        state = decode(text.encode(), str(store / JOURNAL))
    if state is None:  # at most what a run left that was killed before its journal was whole
        name = store.name.partition(f"{STATE_FOLDER}.")[2]
        return profile_from(name, Facts(name, (name,))) if name else None
    if state.upstream is not None:
        return profile_from(state.project, state.upstream)
    try:
        return load(state.project)
    except UserError:
        return load(default)
