"""From the rows of a map and the program of a tree to sites."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import msgspec

from auditor.arch import load_targets
from auditor.native.model import Row, Site
from auditor.native.sites.sites import GONE, Derived, Sites
from auditor.native.sites.wrappers import Uses, Wrappers, wrapper_program
from auditor.profile import Profile
from auditor.program.program import Program
from auditor.program.watch import Watched
from auditor.trees.base import SourceTree


def derive(
    tree: SourceTree,
    program: Program,
    profile: Profile,
    rows: Iterable[Row],
    targets: Sequence[str],
    assumptions: Mapping[str, str],
    names: Mapping[str, Uses] | None = None,
) -> list[Derived]:
    """The sites of the operators that are not there for one of the targets, by path and line.

    ``program`` has been discovered (the vocabulary is known). ``targets`` are those that are asked about;
    what is said about the others holds too, but their callers are not followed. ``names`` says what the names
    of a package of kernels stand for whose source is not in the tree.
    """
    wanted = [row for row in rows if any(_gone(row, target) for target in targets)]
    if not wanted:
        return []
    package = wrapper_program(tree, profile, program, assumptions) if names is None else None
    wrappers = Wrappers(package, [row.name for row in wanted], program.full, names)
    return Sites(program, profile, tuple(load_targets()), wanted, wrappers).find(targets)


def _gone(row: Row, target: str) -> bool:
    cell = row.cells.get(target)
    return cell is not None and cell.outcome in GONE


def sites(
    tree: SourceTree,
    program: Program,
    rows: Iterable[Row],
    *,
    profile: Profile,
    assumptions: Mapping[str, str] | None = None,
) -> tuple[Site, ...]:
    """All sites of some operators, available or not, by path and line: for ``audit kernels --op``."""
    rows = list(rows)
    wrappers = Wrappers(
        wrapper_program(tree, profile, program, assumptions or {}), [row.name for row in rows], program.full
    )
    found = Sites(program, profile, tuple(load_targets()), rows, wrappers).find(tuple(load_targets()))
    return tuple(one.site for one in found)


def called_in_tree(
    tree: SourceTree, rows: Sequence[Row], profile: Profile, assumptions: Mapping[str, str]
) -> tuple[tuple[Row, ...], tuple[Site, ...]]:
    """The operators with the Python functions of their package that call them, and their sites in a tree
    whose program is made for it, which takes seconds. No sites for a tree that holds kernels alone."""
    from auditor.gates.reading import build_program, no_collector, source_files

    if profile.root_of(tree.blobs()) is None:
        return tuple(rows), ()
    root, files, _problems = source_files(tree, profile)
    program = build_program(Watched(files), root, profile, dict(assumptions))
    with no_collector():
        program.discover()
        names = wrappers_of(tree, program, rows, profile=profile, assumptions=assumptions)
        named = tuple(msgspec.structs.replace(row, wrappers=names.get(row.name, ())) for row in rows)
        return named, sites(tree, program, rows, profile=profile, assumptions=assumptions)


def wrappers_of(
    tree: SourceTree,
    program: Program,
    rows: Iterable[Row],
    *,
    profile: Profile,
    assumptions: Mapping[str, str] | None = None,
) -> dict[str, tuple[str, ...]]:
    """Operator -> qualified Python functions of the package of kernels that call it, sorted."""
    wrappers = Wrappers(
        wrapper_program(tree, profile, program, assumptions or {}), [row.name for row in rows], program.full
    )
    out: dict[str, set[str]] = {}
    for key, uses in wrappers.uses.items():
        for op in uses:
            out.setdefault(op, set()).add(key.partition(":")[2].replace(":", "."))
    return {op: tuple(sorted(names)) for op, names in sorted(out.items())}


__all__ = ["derive", "sites", "called_in_tree", "wrappers_of"]
