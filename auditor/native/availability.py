"""The map of operators and targets: what each target gets, with the chain that proves it.

``availability`` assembles; each kind of row comes from a function of its own, so that other kinds can be
added beside the operators that are read from source.
"""

from __future__ import annotations

from auditor import __version__
from auditor.errors import UserError
from auditor.gates.model import Problem, tree_facts
from auditor.gates.reading import no_collector
from auditor.native.built.compiled import Compiled, lay_over, merged_rows, rows_of_objects, settle
from auditor.native.model import OUTCOMES, Availability, Library, Row
from auditor.native.operators import op_rows
from auditor.native.packages import package_records
from auditor.native.python_rows import python_rows, python_side
from auditor.native.sources.libraries import NativeSource, native_sources
from auditor.native.triton.build import compiler_version
from auditor.native.world import KernelOptions, World, world_of
from auditor.trees.base import SourceTree

SCHEMA_VERSION = "1.0"


def availability(tree: SourceTree, options: KernelOptions, compiled: Compiled | None = None) -> Availability:
    """The map of a tree. UserError N001 for a tree without native sources, built or declared kernels; N030
    where Triton kernels are to be compiled and there is no Triton.

    ``compiled``: kernels as they were built; what is in their objects takes the place of what the build files
    say. They may be the tree itself, or one without sources: then the map is that of the objects alone.
    """
    with no_collector():
        return _mapped(tree, options, compiled)


def _mapped(tree: SourceTree, options: KernelOptions, compiled: Compiled | None) -> Availability:
    world = world_of(tree, options)
    if options.compile and compiler_version() is None:
        raise UserError("N030", "the package triton is not installed", hints=["pip install triton"])
    if compiled is not None:
        settle(world, compiled)
    sources = native_of(world) if compiled is None or not compiled.is_all(tree) else []
    if compiled is not None and not sources:
        if compiled.is_all(tree):
            world.facts = compiled.facts
        world.cuda = ""  # it decided when they were built
        return assembled(world, compiled.binaries.libraries, rows_of_objects(world, compiled))
    if compiled is not None:
        lay_over(world, sources, compiled)
    rows: list[Row] = []
    for source in sources:
        rows += op_rows(world, source)
    libraries = tuple(library for source in sources for library in source.libraries)
    if compiled is not None:
        rows = list(merged_rows(world, rows, compiled, libraries))
    side = python_side(tree, world.profile) if options.declared else None
    if side is not None:
        more, problems = python_rows(side, world.profile, world.targets, world.cuda, rows, options.compile)
        rows += more
        world.problems += problems
    if not sources and not rows:
        raise UserError(
            "N001",
            "no native sources in this tree: none of "
            + ", ".join(f"{spec.folder}/CMakeLists.txt" for spec in world.profile.native.builds),
            place=tree.info().label,
            hints=[
                f"audit kernels {world.profile.name} --commit REV --repo {world.profile.url}",
                f"audit kernels {world.profile.name} --kernels-wheel FILE",
            ],
        )
    return assembled(world, libraries, tuple(rows))


def native_of(world: World) -> list[NativeSource]:
    """The native sources of the tree, run for the machines of the targets."""
    given = {
        key.removeprefix("cmake."): value
        for key, value in world.assumptions.items()
        if key.startswith("cmake.")
    }
    machines = dict.fromkeys(world.machines[name] for name in world.targets)
    return native_sources(world.tree, world.profile.native, machines, world.cuda, given)


def assembled(world: World, libraries: tuple[Library, ...], rows: tuple[Row, ...]) -> Availability:
    """The map from its parts, sorted, with its counts."""
    machines = ",".join(dict.fromkeys(world.machines.values()))
    assumptions = {"cuda": world.cuda, "machine": machines, **world.assumptions}
    order = sorted(rows, key=lambda row: (row.kind != "op", row.kind, row.name, row.path, row.line))
    return Availability(
        schema_version=SCHEMA_VERSION,
        tool=f"sglang-auditor {__version__}",
        project=world.profile.name,
        tree=world.facts or tree_facts(world.tree.info()),
        targets=tuple(world.targets),
        assumptions={key: value for key, value in sorted(assumptions.items()) if value},
        libraries=libraries,
        rows=tuple(order),
        sites=(),
        packages=package_records(world.tree, world.profile, world.targets),
        problems=_in_order(world.problems),
        stats=counts(tuple(order)),
        unread=_in_order(world.unread),
    )


def _in_order(problems: list[Problem]) -> tuple[Problem, ...]:
    return tuple(sorted(set(problems), key=lambda p: (p.path, p.line, p.message)))


def counts(rows: tuple[Row, ...]) -> dict[str, int]:
    """How many cells there are, how many are decided, and how many of each outcome."""
    cells = [cell.outcome for row in rows for cell in row.cells.values()]
    out = {"rows": len(rows), "cells": len(cells), "decided": sum(outcome != "unknown" for outcome in cells)}
    for outcome in OUTCOMES:
        out[f"cells {outcome}"] = cells.count(outcome)
    for kind in sorted({row.kind for row in rows}):
        told = [cell.outcome for row in rows if row.kind == kind for cell in row.cells.values()]
        out[f"{kind} rows"] = sum(row.kind == kind for row in rows)
        out[f"{kind} cells"] = len(told)
        out[f"{kind} decided"] = sum(outcome != "unknown" for outcome in told)
    return out
