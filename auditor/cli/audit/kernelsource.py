"""Which compiled kernels are meant, alone or over the sources of a tree."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple, cast

from auditor.cli.progress import Progress
from auditor.cli.request import Request
from auditor.cli.source import opened
from auditor.errors import UserError

if TYPE_CHECKING:
    from auditor.native.built.compiled import Compiled
    from auditor.profile import Profile
    from auditor.trees.base import BigFiles, SourceTree

BUILT = "compiled kernels (read as they are: no compiler, no GPU, nothing is imported)"
_TREE = ("path", "commit", "release", "wheel", "installed", "repo")


@contextmanager
def opened_kernels(
    request: Request, wheel: str | None, installed: str | None, second: bool
) -> Iterator[tuple[SourceTree, Compiled | None]]:
    """The source tree and the compiled kernels that the options name; these are the tree if there is none.

    ``--wheel`` and ``--path`` with a wheel of compiled kernels mean that wheel, and ``--installed`` takes the
    installed kernels too. UserError T0nn, N020, N021.
    """
    from auditor.profile import load_profile

    if wheel is not None and installed is not None:
        raise UserError(
            "U005",
            "--kernels-wheel and --kernels-installed name two different builds",
            hints=[f"--kernels-wheel {shlex.quote(wheel)}"],
        )
    profile = load_profile(request.project)
    files, name, alone = _files(request, wheel, installed, profile)
    if files is None:
        if second:
            raise UserError(
                "U005",
                "--cuobjdump reads compiled kernels, and none are named",
                hints=["audit kernels --kernels-wheel FILE --cuobjdump"],
            )
        with opened(request) as tree:
            yield tree, None
        return
    try:
        compiled = _read(files, name, request, second)
        if alone:
            yield cast("SourceTree", files), compiled
        else:
            with opened(request) as tree:
                yield tree, compiled
    finally:
        close = getattr(files, "close", None)
        if close is not None:
            close()


def built_words(wheel: str | None, installed: str | None) -> str:
    """The options that choose the same compiled kernels again, as they can be typed."""
    if wheel is not None:
        return f"--kernels-wheel {shlex.quote(wheel)}"
    if installed is None:
        return ""
    return f"--kernels-installed {shlex.quote(installed)}".strip() if installed else "--kernels-installed"


class _Files(NamedTuple):
    """The compiled kernels, the name they are installed under, and whether they are the only tree."""

    tree: BigFiles | None
    name: str | None = None
    alone: bool = False


def _files(request: Request, wheel: str | None, installed: str | None, profile: Profile) -> _Files:
    from auditor.native.built.compiled import kernels_file, kernels_installed

    named = request.worktree or any(getattr(request, option) is not None for option in _TREE)
    if wheel is not None:
        return _Files(kernels_file(wheel, profile, any_name=True), alone=not named)
    if installed is not None:
        return _Files(*kernels_installed(installed or None, profile), alone=not named)
    if request.installed:
        return _with_installed(request.installed if isinstance(request.installed, str) else None, profile)
    place = request.wheel if request.wheel is not None else request.path
    if place is None:
        return _Files(None)
    return _Files(kernels_file(place, profile, any_name=False), alone=True)


def _with_installed(where: str | None, profile: Profile) -> _Files:
    """The kernels installed beside the project, if any; alone where the project itself is not installed."""
    from auditor.native.built.compiled import kernels_installed
    from auditor.trees.installed import installed_tree

    try:
        files, name = kernels_installed(where, profile)
    except UserError as error:
        if error.code != "T011":
            raise
        return _Files(None)  # the tree will say what it lacks
    try:
        installed_tree(profile.distributions[0], where)
    except UserError as error:
        if error.code != "T011":
            raise
        return _Files(files, name, alone=True)
    return _Files(files, name)


def _read(files: BigFiles, name: str | None, request: Request, second: bool) -> Compiled:
    from auditor.native.built.compiled import read_compiled
    from auditor.native.built.second import second_opinion

    with Progress(request.quiet).waiting("reading the compiled kernels"):
        compiled = read_compiled(files, name, use_cache=request.use_cache)
        if second:
            compiled.binaries.problems += second_opinion(files, compiled.binaries)
    return compiled
