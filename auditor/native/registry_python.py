"""The rows from the Python side of a tree: kernels compiled at run time, registered ones, Triton."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from auditor.arch import Target
from auditor.gates.audit import source_files
from auditor.gates.model import Problem
from auditor.native.jit import jit_rows
from auditor.native.model import Row
from auditor.native.registry import registry_rows
from auditor.native.source import Files
from auditor.native.triton_rows import triton_rows
from auditor.profile import Profile
from auditor.trees.base import SourceTree


@dataclass(frozen=True)
class PythonSide:
    """The Python files of the package, and the other files on demand."""

    root: str
    files: dict[str, bytes]
    others: Files


def python_side(tree: SourceTree, profile: Profile) -> PythonSide | None:
    """The Python side of a tree, None for one without the package."""
    if profile.root_of(tree.blobs()) is None:
        return None
    root, files, _problems = source_files(tree, profile)
    return PythonSide(root, files, Files(tree))


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
    declared, more = registry_rows(
        side.files, side.root, profile, tuple(targets), {"cuda": cuda}, (*operators, *jit)
    )
    triton = triton_rows(side.files, side.root, profile, targets, cuda, compiled=compiled)
    return (*jit, *declared, *triton), (*problems, *more)
