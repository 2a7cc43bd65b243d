"""What the verbs of ``patches`` share: which patchset, which base or target, and how its options look."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from auditor.cli.command import Option
from auditor.errors import UserError
from auditor.lazyre import lazy

if TYPE_CHECKING:
    from auditor.patching.planning.model import Judge
    from auditor.patching.planning.sources import Sources
    from auditor.patching.sets.patchset import Patchset
    from auditor.patching.write.target import Target
    from auditor.profile import Profile
    from auditor.trees.base import SourceTree
    from auditor.trees.git import GitRepo

TARGET = "which target (without any: the clone or folder you are in)"
OUTPUT = "output"
_RELEASE = lazy(r"v?(\d+(?:\.\d+)+(?:[.-]?(?:post|rc|a|b)\d+)?)")

_Command = Callable[..., Any]


def target_options(function: _Command) -> _Command:
    """``--to``, ``--installed``, ``--clone``."""
    for make in (
        click.option(
            "--clone",
            cls=Option,
            section=TARGET,
            multiple=True,
            metavar="PATH",
            help="A clone of the upstream, for patches that are references and for older contents.",
        ),
        click.option(
            "--installed",
            cls=Option,
            section=TARGET,
            is_flag=False,
            flag_value="",
            metavar="[DIR]",
            help="The installed copy, there or in the environment DIR.",
        ),
        click.option(
            "--to",
            cls=Option,
            section=TARGET,
            multiple=True,
            metavar="PATH",
            help="A checkout, an unpacked wheel or site-packages; NAME=PATH for one of several upstreams.",
        ),
    ):
        function = make(function)
    return function


def output_options(function: _Command) -> _Command:
    """``--format``, ``--color``, ``-q``."""
    for make in (
        click.option("-q", "--quiet", is_flag=True, cls=Option, section=OUTPUT, help="Results only."),
        click.option(
            "--color",
            type=click.Choice(("auto", "always", "never")),
            default="auto",
            show_default=True,
            cls=Option,
            section=OUTPUT,
            help="Coloured?",
        ),
        click.option(
            "--format",
            "form",
            type=click.Choice(("terminal", "json")),
            default="terminal",
            show_default=True,
            cls=Option,
            section=OUTPUT,
            help="How to print it.",
        ),
    ):
        function = make(function)
    return function


def wait_option(function: _Command) -> _Command:
    """``--wait``."""
    return click.option(
        "--wait",
        type=click.FloatRange(0, 3600),
        default=10.0,
        show_default=True,
        cls=Option,
        metavar="SECONDS",
        help="How long to wait for another run on the same target.",
    )(function)


def load(name: str, folder: str | None = None) -> Patchset:
    """A patchset. ``UserError`` P02x."""
    from auditor.patching.sets.patchset import load_patchset

    return load_patchset(name, Path(folder) if folder is not None else None)


def profile_of(name: str) -> Profile:
    """The profile of a project, from the memo where it was read before. ``UserError`` for an unknown one."""
    from auditor.cli.source import Memo
    from auditor.profile import load_profile

    return load_profile(name, memo=Memo())


def the_target(to: str | None, installed: str | None, profile: Profile) -> Target:
    """The target that the options name. ``UserError`` U005 where they name two."""
    from auditor.patching.write.target import open_target

    if to is not None and installed is not None:
        raise UserError("U005", "--to and --installed name two targets", hints=[f"--to {to}"])
    return open_target(to, None if installed is None else installed or True, profile)


_stored: dict[str, list[SourceTree]] = {}
_clones: dict[tuple[str | None, str], list[GitRepo]] = {}


def clones(clone: str | None, profile: Profile) -> list[GitRepo]:
    """Clones of the upstream that are here: the named one, else those around the current folder.

    Found once: each keeps a child that reads objects, and a matrix asks for many trees.
    """
    key = (clone, profile.name)
    if key not in _clones:
        _clones[key] = _find_clones(clone, profile)
    return _clones[key]


def _find_clones(clone: str | None, profile: Profile) -> list[GitRepo]:
    from auditor.patching.write.target import markers_of
    from auditor.trees.git import GitRepo
    from auditor.trees.open import nearby_clones

    if clone is not None:
        repo = GitRepo.find(clone)
        if repo is None:
            raise UserError("T001", "not a git repository", place=clone, hints=["--clone PATH"])
        return [repo]
    name = profile.distributions[0] if profile.distributions else None
    return [repo for _, repo in nearby_clones(name, tuple(markers_of(profile)))]


def base_tree(rev: str, clone: str | None, profile: Profile) -> SourceTree:
    """The tree that ``--onto`` names: a commit of a clone, a release, a wheel file or a folder."""
    from auditor.patching.write.target import markers_of
    from auditor.trees.commit import CommitTree
    from auditor.trees.open import TreeSpec, open_tree

    first: UserError | None = None
    for repo in clones(clone, profile):
        try:
            return CommitTree(repo, rev)
        except UserError as error:
            if error.code != "T002":
                raise
            first = first or error
    spec: TreeSpec | None = None
    if os.path.exists(rev):
        spec = TreeSpec(path=rev)
    elif match := _RELEASE.fullmatch(rev):
        spec = TreeSpec(release=match[1])
    if spec is None:
        raise first or UserError(
            "T002",
            f"{rev} is neither a commit of a clone that is here, nor a release, nor a wheel or folder",
            hints=["--clone PATH --onto REV", "--onto 0.5.18"],
        )
    try:
        return open_tree(
            spec, distribution=profile.distributions[0], default_url=None, marker=markers_of(profile)
        )
    except UserError as error:
        # the layer below knows the options of audits
        hints = [hint.replace("--release ", "--onto ", 1) for hint in error.hints]
        raise UserError(
            error.code, error.fact, place=error.place, hints=hints, exit_code=error.exit_code
        ) from error


def sources_for(
    tree: SourceTree, clone: str | None, profile: Profile, made_for: Sequence[str] = ()
) -> Sources:
    """Where older contents and references are read from; ``made_for`` are trees as ``--from`` names them."""
    from auditor.patching.planning.sources import Sources

    older = [base_tree(rev, clone, profile) for rev in made_for]
    return Sources(tree, clones(clone, profile), older, kept=lambda: _releases(profile))


def _releases(profile: Profile) -> list[SourceTree]:
    """Releases that lie in the cache, found once: ``import --base 0.5.14`` leaves the one that matters."""
    from auditor.trees.release import stored_releases

    if profile.name not in _stored:
        _stored[profile.name] = [tree for name in profile.distributions[:1] for tree in stored_releases(name)]
    return _stored[profile.name]


def onto_option(function: _Command) -> _Command:
    """``--onto`` of the verbs that only tell."""
    return click.option(
        "--onto",
        cls=Option,
        multiple=True,
        metavar="REV",
        help="A commit, release or wheel; nothing is checked out. NAME=REV for one of several upstreams.",
    )(function)


def from_option(function: _Command) -> _Command:
    """``--from``."""
    return click.option(
        "--from",
        "made_for",
        multiple=True,
        cls=Option,
        metavar="REV",
        help="What the patches were made for, if no clone has it: a release, a wheel, a folder.",
    )(function)


def judge_for(profile: Profile) -> Judge:
    """Asks the audit of a tree whether an expectation holds; audits each tree once."""
    from auditor.patching.proof.verify import judge

    return judge(profile)


def shown_tree(tree: SourceTree) -> str:
    """A tree as the head of a page names it."""
    info = tree.info()
    words = {"release": "wheel", "commit": info.date or "commit"}
    return f"{info.label} ({words.get(info.kind, info.kind)})"
