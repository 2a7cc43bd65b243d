"""The map of kernels from what was built: a wheel of compiled kernels, an unpacked one, an installed copy.

Alone it says which operators have code for which target. Laid over a source tree, the architectures that are
really in the objects take the place of those that the build files give under assumptions, and the guards and
registrations still come from the source.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

import msgspec

from auditor.errors import UserError
from auditor.gates.model import Problem, TreeFacts
from auditor.native.binaries import Binaries, output_of, read_binaries, rows
from auditor.native.model import Cell, Library, Row, Step
from auditor.native.source import NativeSource
from auditor.profile import Profile
from auditor.trees.base import BigFiles
from auditor.trees.folder import FolderTree
from auditor.trees.installed import installed_tree
from auditor.trees.names import normal_name
from auditor.trees.wheel import WheelTree

if TYPE_CHECKING:
    from auditor.native.availability import World


@dataclass
class Compiled:
    """Compiled kernels that were read. ``label`` for people: ``sglang-kernel 0.4.3``."""

    tree: BigFiles
    label: str
    facts: TreeFacts
    binaries: Binaries

    def is_all(self, tree: object) -> bool:
        """Whether these kernels are the audited tree, so that there are no sources beside them."""
        return self.tree is tree


def kernels_file(path: str, profile: Profile, *, any_name: bool) -> BigFiles | None:
    """The wheel or unpacked folder at ``path``. Without ``any_name``: None, but for a wheel of kernels.

    ``UserError`` T001, T006, T008, T014.
    """
    if os.path.isdir(path):
        return FolderTree(path) if any_name else None
    if not any_name and not os.path.isfile(path):
        return None
    tree = WheelTree(path)
    if any_name or normal_name(tree.metadata.get("Name", "")) in map(
        normal_name, profile.native_distributions
    ):
        return tree
    tree.close()
    return None


def kernels_installed(where: str | None, profile: Profile) -> BigFiles:
    """The installed compiled kernels. ``UserError`` T011: there are none; N020: an editable install."""
    names = profile.native_distributions[::-1]
    for name in names:
        try:
            tree = installed_tree(name, where)
        except UserError as error:
            if error.code != "T011":
                raise
            continue
        if isinstance(tree, BigFiles):
            return tree
        raise UserError(
            "N020",
            f"{name} is installed from its sources: no wheel was built",
            hints=["audit kernels --path"],
        )
    raise UserError(
        "T011",
        f"no compiled kernels are installed{f' in {where}' if where else ' for this Python'}: none of "
        + ", ".join(names),
        hints=["audit kernels --kernels-wheel FILE"],
    )


def read_compiled(tree: BigFiles) -> Compiled:
    """Reads all objects of a tree. ``UserError`` N020 where it has none."""
    binaries = read_binaries(tree)
    if isinstance(tree, WheelTree):
        # The digest of the file names it as well as the ids of all it holds, and nothing is unpacked again.
        name, version = tree.metadata.get("Name"), tree.metadata.get("Version")
        label = f"{name} {version}" if name and version else "wheel"
        kind, content_id = tree.kind, tree.sha256()[:40]
        dirty = False
    else:
        info = tree.info()
        kind, content_id, version, dirty = info.kind, info.content_id, info.version, info.dirty
        label = f"kernels {info.label}"
    facts = TreeFacts(kind, label, content_id, None, version, None, None, dirty)
    return Compiled(tree, label, facts, binaries)


def settle(world: World, compiled: Compiled) -> None:
    """The machine of the objects holds for every target. ``UserError`` N022 if another one was assumed."""
    machines = {facts.machine for facts in compiled.binaries.objects.values() if facts.units}
    if len(machines) == 1:
        machine = machines.pop()
        assumed = world.assumptions.get("machine", machine)
        if assumed != machine:
            raise UserError(
                "N022",
                f"{compiled.label} is built for {machine}, and {assumed} is assumed",
                hints=[f"--assume machine={machine}"],
            )
        world.machines = dict.fromkeys(world.machines, machine)
    world.assumptions["kernels"] = compiled.label
    world.problems += compiled.binaries.problems


def lay_over(world: World, sources: list[NativeSource], compiled: Compiled) -> None:
    """Replaces what the build files say a library is compiled for by what its object holds."""
    built = {library.output: library for library in compiled.binaries.libraries}
    for source in sources:
        absent = [
            library.name
            for library in source.libraries
            if library.output not in built and "/" in library.output
        ]
        for library in source.libraries:
            if library.name in absent:
                fact = f"{compiled.label} holds no {library.output}, which this build installs"
                world.problems.append(Problem(library.path, library.line, fact))
        for parts in source.parts.values():
            for part in parts.values():
                if part.library.output in built:
                    part.library = _as_built(part.library, built[part.library.output])
            for name in absent:
                parts.pop(name, None)
        source.libraries = tuple(
            _as_built(library, built[library.output]) if library.output in built else library
            for library in source.libraries
            if library.name not in absent
        )


def _as_built(library: Library, found: Library) -> Library:
    pieces = tuple(msgspec.structs.replace(one, path=found.path) for one in found.built)
    return msgspec.structs.replace(
        library, built=pieces, when="true", because=(), machine=found.machine, path=found.path, line=0
    )


def merged_rows(
    world: World, from_source: list[Row], compiled: Compiled, libraries: tuple[Library, ...]
) -> list[Row]:
    """Source rows as far as the objects register them, and rows for what only the objects register."""
    outputs = {library.name: library.output for library in libraries}
    by_output = {output_of(path): facts for path, facts in compiled.binaries.objects.items()}
    out = []
    for row in from_source:
        there = [by_output[outputs[name]] for name in row.libraries if outputs.get(name) in by_output]
        bare = row.name.rpartition("::")[2]
        if row.schema and there and not any(bare in _names(facts.schemas.values()) for facts in there):
            where = ", ".join(dict.fromkeys(facts.path for facts in there))
            cell = Cell(
                "not-built",
                f"{compiled.label} does not register it",
                (
                    Step("it is registered in this source", row.path, row.line),
                    *(Step("no schema of it among the strings", facts.path) for facts in there),
                ),
            )
            row = msgspec.structs.replace(row, cells=dict.fromkeys(row.cells, cell))
            world.problems.append(
                Problem(
                    row.path, row.line, f"{row.name} is not in {where}: source and build are not the same"
                )
            )
        out.append(row)
    known = {row.name for row in out}
    return out + [
        row for row in rows(compiled.binaries, tuple(world.targets.values())) if row.name not in known
    ]


def _names(qualified: object) -> set[str]:
    assert hasattr(qualified, "__iter__")
    return {str(name).rpartition("::")[2] for name in qualified}
