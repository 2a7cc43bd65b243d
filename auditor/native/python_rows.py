"""The rows from the Python side of a tree: kernels compiled at run time, registered ones, Triton."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from auditor.arch import Target
from auditor.gates.model import Problem
from auditor.gates.reading import build_program, source_files
from auditor.native.jit.rows import jit_rows
from auditor.native.model import Row
from auditor.native.registry.rows import registry_rows
from auditor.native.sites.wrappers import Wrappers, wrapper_program
from auditor.native.sources.libraries import Files
from auditor.native.triton.rows import triton_rows
from auditor.profile import Profile
from auditor.trees.base import SourceTree


@dataclass(frozen=True)
class PythonSide:
    """The Python files of the package, and the other files on demand."""

    root: str
    files: dict[str, bytes]
    others: Files
    tree: SourceTree


def python_side(tree: SourceTree, profile: Profile) -> PythonSide | None:
    """The Python side of a tree, None for one without the package."""
    if profile.root_of(tree.blobs()) is None:
        return None
    root, files, _problems = source_files(tree, profile)
    return PythonSide(root, files, Files(tree), tree)


def _behind(
    side: PythonSide, profile: Profile, operators: list[Row], cuda: str
) -> Callable[[str, int], str | None]:
    """The one operator that a function of the package of kernels calls on a target, None where open."""
    like = build_program({}, side.root, profile, {"cuda": cuda})
    package = wrapper_program(side.tree, profile, like, {"cuda": cuda})
    wrappers = Wrappers(package, [row.name for row in operators], like.full)

    def one(function: str, i: int) -> str | None:
        uses = wrappers.meaning(function)
        here = [name for name, use in uses.items() if use.may >> i & 1]
        return here[0] if len(here) == 1 and uses[here[0]].must >> i & 1 else None

    return one


def python_rows(
    side: PythonSide,
    profile: Profile,
    targets: dict[str, Target],
    cuda: str,
    operators: Iterable[Row],
    compiled: bool = False,
) -> tuple[tuple[Row, ...], tuple[Problem, ...]]:
    """Rows of kinds ``jit``, ``registry`` and ``triton``, and problems.

    ``operators`` are what registered kernels may be; ``compiled``: compile Triton kernels with a signature.
    """
    jit, problems = jit_rows(side.files, side.root, side.others, profile, targets, cuda)
    operators = list(operators)
    declared, more = registry_rows(
        side.files,
        side.root,
        profile,
        tuple(targets),
        {"cuda": cuda},
        (*operators, *jit),
        _behind(side, profile, operators, cuda) if operators and profile.kernel_registries else None,
    )
    triton = triton_rows(side.files, side.root, profile, targets, cuda, compiled=compiled)
    return (*jit, *declared, *triton), (*problems, *more)
