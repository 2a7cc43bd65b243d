"""From a tree to a program: its source files, and the evaluator over them."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

from auditor.arch import load_targets
from auditor.errors import UserError
from auditor.gates.model import Problem
from auditor.gates.sources import MAX_FILE
from auditor.profile import Profile
from auditor.program.program import Program
from auditor.trees.base import SourceTree

P = TypeVar("P", bound=Program)


def source_files(tree: SourceTree, profile: Profile) -> tuple[str, dict[str, bytes], list[Problem]]:
    """The source root, the Python files of the package below it with their bytes, and what was left out."""
    blobs = tree.blobs()
    root = profile.root_of(blobs)
    if root is None:
        raise UserError(
            "T020",
            f"this is not a {profile.title} tree: none of {', '.join(profile.markers)} is in it",
            place=tree.info().label,
            hints=[
                f"audit {profile.name} --commit REV --repo PATH",
                f"audit {profile.name} --release VERSION",
            ],
        )
    prefix = f"{root}/{profile.package}/" if root else f"{profile.package}/"
    wanted = [path for path in blobs if path.startswith(prefix) and path.endswith(".py")]
    files: dict[str, bytes] = {}
    problems: list[Problem] = []
    for path, data in tree.read_many(wanted):
        if len(data) > MAX_FILE:
            problems.append(Problem(path, 1, f"left out: {len(data):,} bytes, more than {MAX_FILE:,}"))
            continue
        files[path] = data
    return root, files, problems


def build_program(
    files: dict[str, bytes], root: str, profile: Profile, assumptions: dict[str, str], defaults: bool = False
) -> Program:
    """The evaluator over these files for all targets."""
    assume = dict(assumptions)
    if defaults:
        assume["defaults"] = "yes"
    return for_all_targets(Program, files, root, profile, assume)


def for_all_targets(
    kind: Callable[..., P], files: dict[str, bytes], root: str, profile: Profile, assumptions: dict[str, str]
) -> P:
    """An evaluator of some kind over these files for all targets."""
    targets = load_targets().values()
    return kind(
        files,
        root,
        profile,
        tuple(t.capability for t in targets),
        tuple(t.smem_per_block for t in targets),
        assumptions,
        tuple(t.smem_per_sm for t in targets),
    )


@contextmanager
def no_collector() -> Iterator[None]:
    """Syntax trees are many small objects without cycles: the cyclic collector only costs time on them."""
    was = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was:
            gc.enable()
