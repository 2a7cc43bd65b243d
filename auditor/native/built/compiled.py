"""The map of kernels from what was built: a wheel of compiled kernels, an unpacked one, an installed copy.

Alone it says which operators have code for which target. Laid over a source tree, the architectures that are
really in the objects take the place of those that the build files give under assumptions, and the guards and
registrations still come from the source.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import cast

import msgspec

from auditor import __version__
from auditor.errors import UserError
from auditor.gates.model import Problem, TreeFacts
from auditor.native.built.binaries import Binaries, Chooser, output_of, read_binaries, rows
from auditor.native.built.objectcache import VERSION, decode, encode
from auditor.native.built.objects import ObjectFacts
from auditor.native.model import Cell, Library, Row, Step
from auditor.native.sources.libraries import NativeSource
from auditor.native.sources.loader import Pick, picks
from auditor.native.world import World
from auditor.profile import NativeBuild, Profile
from auditor.trees.base import BigFiles, SourceTree
from auditor.trees.cache import cached_bytes, store_bytes
from auditor.trees.folder import FolderTree
from auditor.trees.installed import installed_tree
from auditor.trees.names import normal_name
from auditor.trees.wheel import WheelTree


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
    """The wheel or unpacked folder at ``path``. Without ``any_name``: None, but for one of kernels.

    ``UserError`` T001, T006, T008, T014.
    """
    if os.path.isdir(path):
        return FolderTree(path) if any_name or _unpacked(path, profile) else None
    if not any_name and not os.path.isfile(path):
        return None
    tree = WheelTree(path)
    if any_name or normal_name(tree.metadata.get("Name", "")) in map(
        normal_name, profile.native_distributions
    ):
        return tree
    tree.close()
    return None


def _unpacked(path: str, profile: Profile) -> bool:
    """Whether a folder is an unpacked wheel of kernels: their package at the top, nothing of the project."""
    roots = (*profile.roots.repository, *profile.roots.wheel)
    markers = [os.path.join(path, root, marker) for root in roots for marker in profile.markers]
    packages = [os.path.join(path, name) for name in profile.native_packages]
    return any(map(os.path.isdir, packages)) and not any(map(os.path.exists, markers))


def kernels_installed(where: str | None, profile: Profile) -> tuple[BigFiles, str]:
    """The installed compiled kernels and their name. ``UserError`` T011: none; N020: an editable install."""
    names = profile.native_distributions[::-1]
    for name in names:
        try:
            tree = installed_tree(name, where)
        except UserError as error:
            if error.code != "T011":
                raise
            continue
        if isinstance(tree, BigFiles):
            return tree, name
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


def read_compiled(tree: BigFiles, name: str | None = None, *, use_cache: bool = True) -> Compiled:
    """Reads all objects of a tree, or takes what was read of the same wheel. ``UserError`` N020: it has none.

    ``name`` is the distribution's, where the tree itself does not know it.
    """
    if isinstance(tree, WheelTree) and use_cache:
        key = f"{VERSION} {__version__} {tree.sha256()}"
        stored = cached_bytes("kernel-objects", key)
        known = decode(stored) if stored else None
        binaries = read_binaries(tree, known)
        if known is None:
            store_bytes("kernel-objects", key, encode(binaries.objects))
    else:
        binaries = read_binaries(tree)
    if isinstance(tree, WheelTree):
        # The digest of the file names it as well as the ids of all it holds, and nothing is unpacked again.
        version = tree.metadata.get("Version")
        label = f"{tree.metadata.get('Name')} {version}" if version else "wheel"
        kind, content_id = tree.kind, tree.sha256()[:40]
        dirty = False
    else:
        info = tree.info()
        kind, content_id, version, dirty = info.kind, info.content_id, info.version, info.dirty
        label = f"{name or 'kernels'} {info.label}"
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
    absent: dict[str, list[str]] = {}
    for row in from_source:
        there = [by_output[outputs[name]] for name in row.libraries if outputs.get(name) in by_output]
        bare = row.name.rpartition("::")[2]
        if row.schema and there and not any(bare in _names(facts) for facts in there):
            cell = Cell(
                "not-built",
                f"{compiled.label} does not register it",
                (
                    Step("it is registered in this source", row.path, row.line),
                    *(Step("no schema of it among the strings", facts.path) for facts in there),
                ),
            )
            row = msgspec.structs.replace(row, cells=dict.fromkeys(row.cells, cell))
            absent.setdefault(min(facts.path for facts in there), []).append(bare)
        out.append(row)
    for path, names in absent.items():
        fact = f"{len(names)} operators of this source are not in it, so it was built from another one"
        world.problems.append(Problem(path, 0, f"{fact}: {', '.join(sorted(names))}"))
    known = {row.name for row in out}
    return out + [row for row in rows_of_objects(world, compiled) if row.name not in known]


def _names(facts: ObjectFacts) -> set[str]:
    return {name.rpartition("::")[2] for name in facts.schemas.values()}


def rows_of_objects(world: World, compiled: Compiled) -> tuple[Row, ...]:
    """Rows from the objects alone. Which of several builds of a library is loaded, its own Python says."""
    return rows(compiled.binaries, tuple(world.targets.values()), _chooser(world, compiled))


@dataclass
class _Python:
    """The Python beside the objects, as far as a tree is asked for it."""

    files: dict[str, bytes]

    def blobs(self) -> dict[str, str]:
        return dict.fromkeys(self.files, "")

    def read_many(self, paths: Iterable[str]) -> Iterator[tuple[str, bytes]]:
        return ((path, self.files[path]) for path in paths)


def _chooser(world: World, compiled: Compiled) -> Chooser:
    libraries = {library.path: library for library in compiled.binaries.libraries}
    tree = cast("SourceTree", _Python(compiled.binaries.python))
    known: dict[tuple[str, ...], dict[str, Pick]] = {}

    def choose(paths: tuple[str, ...], target: str) -> tuple[tuple[str, ...], tuple[Step, ...]]:
        if len(paths) < 2:
            return paths, ()
        if paths not in known:
            group = [libraries[path] for path in paths]
            spec = NativeBuild(folder="", python="", package=paths[0].partition("/")[0])
            known[paths] = picks(tree, spec, world.profile, group, tuple(world.targets), world.assumptions)
        pick = known[paths][target]
        return tuple(path for path in paths if libraries[path].name in pick.libraries) or paths, pick.proof

    return choose
