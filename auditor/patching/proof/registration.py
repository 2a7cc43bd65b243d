"""Kernels that patches register, asked of the result: registered once, built, reached where they should be.

A call site is a condition of the result that the audit decides per target. It has to hold, or hang on nothing
but the opt-out, on the targets that the patch names, and be false or not reached on all others.
"""

from __future__ import annotations

import ast
import fnmatch
from collections.abc import Iterator

from auditor.arch import load_targets
from auditor.errors import UserError
from auditor.gates.model import Gate, Report
from auditor.native.model import Row
from auditor.patching.edits import model
from auditor.patching.edits.anchors import resolve
from auditor.patching.edits.kernel import condition
from auditor.patching.edits.miss import Miss, NotHere
from auditor.patching.edits.operators import registered
from auditor.patching.edits.source import expression
from auditor.patching.edits.tree import Tree
from auditor.patching.planning.model import Plan, Planned

_DONE = ("clean", "moved", "look", "partly", "upstream")


def kernels_of(entry: Planned) -> list[tuple[model.RegisterKernel, bool]]:
    """The kernels that a patch registers if it was carried, and whether in every form of the tree."""
    if entry.outcome.status not in _DONE or entry.patch.file is None:
        return []
    return [
        (body, body is edit.body())
        for edit in entry.patch.file.edits
        for body in edit.bodies()
        if isinstance(body, model.RegisterKernel)
    ]


def registration_faults(plan: Plan, after: Report) -> tuple[list[str], int]:
    """(what is not as it should be, number of kernels that were asked about). ``after`` audits the result."""
    faults: list[str] = []
    count = 0
    compiled: list[tuple[str, str, tuple[str, ...]]] = []  # patch, row, targets
    tree = Tree(plan.result, plan.profile)
    for entry in plan.entries:
        targets = _targets(entry.patch.header.targets)
        for kernel, alone in kernels_of(entry):
            found = registered(tree, kernel.operator)
            if kernel.native is not None and tree.map.installed:
                continue  # an installed copy has no sources of it
            if not found and not alone:
                continue  # it stands in a variant that was not made
            count += 1
            if len(found) != 1:
                places = ", ".join(each.shown() for each in found)
                said = f"registered {len(found)} times: {places}" if found else "not registered"
                faults.append(f"{entry.name}: {kernel.operator} is {said}")
            for site in kernel.dispatch:
                faults += [f"{entry.name}: {fact}" for fact in _site_faults(site, tree, after, targets)]
            if kernel.native is not None:
                compiled.append((entry.name, kernel.operator, targets))
            elif kernel.jit is not None:
                compiled.append((entry.name, f"jit::{kernel.operator.partition('::')[2]}", targets))
    faults += _built_faults(plan, compiled)
    return faults, count


def _targets(patterns: tuple[str, ...]) -> tuple[str, ...]:
    every = tuple(load_targets())
    if not patterns:
        return every
    return tuple(t for t in every if any(fnmatch.fnmatchcase(t, each) for each in patterns))


def _site_faults(site: model.Dispatch, tree: Tree, report: Report, targets: tuple[str, ...]) -> Iterator[str]:
    try:
        place = resolve(tree, site.in_)
    except NotHere:
        return
    except Miss as miss:
        yield f"call site {site.in_}: {miss.fact}"
        return
    wanted = ast.dump(expression(condition(site)))
    lines = sorted(
        node.lineno
        for scope in place.scopes
        for node in ast.walk(scope)
        if isinstance(node, ast.If) and ast.dump(node.test) == wanted
    )
    if len(lines) != site.count:
        yield f"the call site stands {len(lines)} times in {place.shown()}, not {site.count}"
    for line in lines:
        here = f"{place.path}:{line}"
        gates = [gate for gate in report.gates if gate.path == place.path and gate.line == line]
        if not gates:
            if len(targets) < len(report.targets):
                yield f"{here} does not depend on the GPU: {condition(site)}"
            continue
        for target in report.targets:
            taken = all(_may(gate, target) for gate in gates)
            if target in targets and not taken:
                yield f"{here} is not reached on {target}"
            elif target not in targets and taken:
                yield f"{here} may be reached on {target}, which the patch is not for"


def _may(gate: Gate, target: str) -> bool:
    return gate.truth.get(target) != "false" and gate.reached.get(target) != "false"


def _built_faults(plan: Plan, compiled: list[tuple[str, str, tuple[str, ...]]]) -> Iterator[str]:
    """What the map of compiled kernels says about those that patches bring."""
    if not compiled:
        return
    from auditor.native.availability import availability
    from auditor.native.world import KernelOptions

    options = KernelOptions(
        targets=tuple(t for t in load_targets() if any(t in each[2] for each in compiled)),
        project=plan.profile.name,
        profile=plan.profile,
        declared=any(name.startswith("jit::") for _, name, _ in compiled),
    )
    try:
        rows: dict[str, Row] = {row.name: row for row in availability(plan.result, options).rows}
    except UserError as error:
        yield f"the kernels cannot be mapped: {error.fact}"
        return
    for patch, name, targets in compiled:
        row = rows.get(name)
        if row is None:
            yield f"{patch}: {name} is in no library and built by no loader"
            continue
        for target in targets:
            cell = row.cells[target]
            if cell.outcome != "runs":
                yield f"{patch}: {name} on {target} is {cell.outcome}: {cell.reason}"
