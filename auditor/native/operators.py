"""A row for every operator that a build registers: what each target gets, with the proof."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import NamedTuple

from auditor.arch import Target, cubin_runs_on, parse_arch, ptx_runs_on
from auditor.errors import UserError
from auditor.gates.model import Problem
from auditor.native.cmake.values import merged
from auditor.native.cxx.guards import Guards
from auditor.native.cxx.ops import MARK, Registration, registrations
from auditor.native.cxx.program import CxxProgram
from auditor.native.model import OUTCOMES, Built, Cell, Library, Row, Step
from auditor.native.sources.libraries import SUFFIXES, NativeSource, Part
from auditor.native.sources.loader import Pick, picks, same_name
from auditor.native.sources.macros import Macros
from auditor.native.sources.text import condition_around, every_part, prepare
from auditor.native.world import World

_MACHINE_MACROS = ("__x86_64__", "__aarch64__")
_RANK = {outcome: rank for rank, outcome in enumerate(OUTCOMES)}


@dataclass
class _Op:
    """An operator with everything that is registered for it."""

    namespace: str
    name: str
    path: str
    line: int
    schema: str = ""
    keys: dict[str, None] = field(default_factory=dict)
    functions: dict[str, tuple[str, int]] = field(default_factory=dict)  # function -> where it is bound
    libraries: dict[str, None] = field(default_factory=dict)
    doubt: tuple[str, ...] = ()  # why it is not sure that it is registered
    left_out: tuple[str, str, int] | None = None  # the condition that leaves its registration out, and where


def op_rows(world: World, source: NativeSource) -> list[Row]:
    """A row for every operator that a library of this build registers."""
    world.problems += source.problems
    ops = _registered(world, source)
    group_of: dict[str, dict[str, Pick]] = {}
    for group in same_name(source.libraries):
        chosen = picks(world.tree, source.spec, world.profile, group, tuple(world.targets), world.assumptions)
        group_of.update({library.name: chosen for library in group})
    guards = _guards(world, source)
    varying = {library.name for library in source.libraries if any(one.machines for one in library.built)}
    codes = {
        (name, target.name): _code(part, target, varying)
        for target in world.targets.values()
        for name, part in source.parts[world.machines[target.name]].items()
    }
    rows = []
    for op in ops:
        cells = {}
        for target in world.targets.values():
            machine = world.machines[target.name]
            parts = source.parts[machine]
            names = [name for name in op.libraries if name in parts]
            proof = [Step(f"{op.namespace}::{op.name} is registered", op.path, op.line)]
            pick = next((group_of[name][target.name] for name in names if name in group_of), None)
            if pick is not None:
                names = [name for name in names if name in pick.libraries] or names
                proof += pick.proof
            options = [
                _in_library(op, codes[name, target.name], target, machine, guards[machine, name], proof)
                for name in names
            ]
            cells[target.name] = _agreed(op, options, machine)
        rows.append(
            Row(
                name=f"{op.namespace}::{op.name}",
                kind="op",
                path=op.path,
                line=op.line,
                cells=cells,
                schema=op.schema,
                keys=tuple(op.keys),
                function=", ".join(op.functions),
                libraries=tuple(op.libraries),
            )
        )
    broken = {place for one in guards.values() for place in one.program.broken()}
    text = "the braces do not match: operators that lead into this file are unknown"
    world.problems += [Problem(path, line, text) for path, line in sorted(broken)]
    return rows


def _guards(world: World, source: NativeSource) -> dict[tuple[str, str], Guards]:
    """The guards per machine and library. Libraries with the same sources and macros share what is read."""
    shared: dict[object, Guards] = {}
    out: dict[tuple[str, str], Guards] = {}
    inside = {path for parts in source.parts.values() for part in parts.values() for path in part.sources}
    by_machine = source.files.any_has(_MACHINE_MACROS, inside)
    for machine, parts in source.parts.items():
        for name, part in parts.items():
            macros = {
                key: value for key, value in part.macros.items() if by_machine or key not in _MACHINE_MACROS
            }
            key = (part.sources, tuple(sorted(macros.items(), key=lambda item: item[0])))
            if key not in shared:
                shared[key] = Guards(CxxProgram(source.files, part, world.profile.native, world.cuda))
            out[machine, name] = shared[key]
    return out


def _agreed(op: _Op, options: list[Cell], machine: str) -> Cell:
    """One cell from the libraries that may be loaded: what they agree on, else unknown."""
    if not options and op.left_out is not None:
        text, path, line = op.left_out
        proof = (Step(f"{op.namespace}::{op.name} would be registered", op.path, op.line),)
        step = Step(f"{text} leaves it out", path, line)
        return Cell("not-built", f"its registration is left out by {text}", (*proof, step))
    if not options:
        return Cell("not-built", f"no library of the build for {machine} registers it")
    outcomes = {cell.outcome for cell in options}
    if len(outcomes) > 1:
        text = "; ".join(dict.fromkeys(f"{cell.outcome}: {cell.reason}" for cell in options))
        return Cell("unknown", f"depends on the library that is loaded ({text})", options[0].proof)
    cell = options[0]
    if op.doubt and cell.outcome != "unknown":
        return Cell("unknown", f"it is not sure that it is registered: {'; '.join(op.doubt)}", cell.proof)
    return cell


def known_arch(text: str) -> bool:
    """Whether this names an architecture: a build file may say anything."""
    try:
        parse_arch(text)
    except UserError:
        return False
    return True


def loads(built: Built, target: Target) -> bool:
    """Whether a piece of code can be used on a target."""
    if not built.arch or not known_arch(built.arch):
        return True  # an architecture nobody knows here: it cannot be excluded
    arch = parse_arch(built.arch)
    return cubin_runs_on(arch, target) if built.what == "cubin" else ptx_runs_on(arch, target)


def shown(built: tuple[Built, ...]) -> str:
    """The architectures of a library for people: ``80 89 90a``, PTX marked."""
    sure = [
        f"{one.arch} (PTX)" if one.what == "ptx" else one.arch
        for one in built
        if one.when == "true" and one.arch
    ]

    def order(text: str) -> tuple[int, str]:
        digits = re.match(r"[0-9]{1,9}", text)
        return int(digits[0]) if digits else 0, text

    return " ".join(sorted(dict.fromkeys(sure), key=order)) or "nothing"


class _Code(NamedTuple):
    """What a library has for a target."""

    library: Library
    usable: tuple[Built, ...]  # everything that may be used, sure or not
    loaded: Built | None  # the piece that is taken
    shown: str
    gpu: bool  # whether it holds code for a GPU at all
    varies: bool  # whether the machine decides what is compiled


def _code(part: Part, target: Target, varying: set[str]) -> _Code:
    library = part.library
    usable = tuple(one for one in library.built if loads(one, target))
    loaded = _best([one for one in usable if one.when == "true" and one.arch], target)
    gpu = bool(library.built) or any(path.endswith(".cu") for path in (*part.sources, *part.outside))
    return _Code(
        library, usable, loaded, f"{library.name}: {shown(library.built)}", gpu, library.name in varying
    )


def _in_library(
    op: _Op, code: _Code, target: Target, machine: str, guards: Guards, proof: list[Step]
) -> Cell:
    """What a target gets from one library that registers an operator."""
    library = code.library
    contains = f"library {library.name} contains {op.path.rpartition('/')[2]}"
    proof = [*proof, Step(contains, library.path, library.line)]
    if library.when == "unknown":
        why = "; ".join(library.because)
        return Cell("unknown", f"it is not sure that {library.name} is built: {why}", tuple(proof))
    if not op.functions:
        return Cell("unknown", "no function is registered for it in this build", tuple(proof))
    loaded = code.loaded
    found = guards.outcome(op.functions, target, loaded)
    if found.outcome in ("raises", "falls-through"):
        return Cell(found.outcome, found.reason, (*proof, *found.proof))
    if loaded is not None:
        text = f"{library.name} is compiled for {loaded.arch}"
        text += " as PTX" if loaded.what == "ptx" else ""
        text += f" on {machine}" if _depends_on_machine(loaded) else ""
        proof.append(Step(text, loaded.path, loaded.line))
        return Cell(found.outcome, found.reason or code.shown, (*proof, *found.proof))
    if code.usable:
        why = "; ".join(merged(*(one.because for one in code.usable)))
        text = f"whether {library.name} is compiled for {target.name} depends on {why}"
        return Cell("unknown", text, tuple(proof))
    if not code.gpu:
        return Cell(found.outcome, found.reason, (*proof, *found.proof))
    if found.host_only:
        return Cell("runs", found.reason, (*proof, *found.proof))
    proof += [
        Step(f"{library.name} is compiled for {one.arch}", one.path, one.line)
        for one in library.built
        if one.when == "true" and one.arch
    ]
    reason = code.shown
    if code.varies:
        reason += f" on {machine}"
    return Cell("not-built", reason, (*proof, *found.proof))


def _depends_on_machine(built: Built) -> bool:
    return any("PROCESSOR" in text for text in built.because)


def _best(built: list[Built], target: Target) -> Built | None:
    """The piece that the driver takes: a cubin for the nearest capability, else the newest PTX."""

    def rank(one: Built) -> tuple[bool, tuple[int, int], bool]:
        arch = parse_arch(one.arch)
        return one.what == "cubin", arch.capability, bool(arch.suffix)

    return max((one for one in built if known_arch(one.arch)), key=rank, default=None)


def _registered(world: World, source: NativeSource) -> list[_Op]:
    """The operators of the libraries, merged over files and machines."""
    ops: dict[tuple[str, str], _Op] = {}
    files = source.files
    files.load(path for parts in source.parts.values() for part in parts.values() for path in part.sources)
    inside: set[str] = set()
    for parts in source.parts.values():
        for part in parts.values():
            for path in part.sources:
                raw = files.raw(path)
                if raw is None:
                    if path not in files.paths:
                        fact = f"{part.library.name} lists {path}, which is not in this tree"
                        world.problems.append(Problem(part.library.path, part.library.line, fact))
                elif MARK in raw:
                    inside.add(path)
                    _read_file(world, source, part, path, ops)
    others = [
        path
        for path in files.paths
        if path.startswith(f"{source.spec.folder}/") and path.endswith(SUFFIXES) and path not in inside
    ]
    _unread(world, source, others)
    _fetched(world, source)
    return [ops[key] for key in sorted(ops)]


def _read_file(
    world: World, source: NativeSource, part: Part, path: str, ops: dict[tuple[str, str], _Op]
) -> None:
    macros = Macros(source.files, part, world.profile.native, world.cuda)
    bare = source.files.bare(path)
    prepared = prepare(bare, macros.lookup(path))
    found = registrations(prepared.text, part.library.name)
    world.problems += [Problem(path, line, text) for line, text in found.faults]
    seen = {_entry(one) for one in found.ops}
    doubtful: dict[tuple[str, str], tuple[str, ...]] = {}
    more: tuple[Registration, ...] = ()
    if prepared.unsure:
        other = registrations(
            prepare(bare, macros.lookup(path), {one.line: False for one in prepared.unsure}).text,
            part.library.name,
        ).ops
        why = merged(*((f"#if {one.text} ({path}:{one.line})",) for one in prepared.unsure))
        again = {_entry(one) for one in other}
        more = tuple(one for one in other if _entry(one) not in seen)
        for one in (*found.ops, *more):
            if (_entry(one) in seen) != (_entry(one) in again):
                doubtful[one.namespace, one.name] = why
    for one in (*found.ops, *more):
        op = ops.setdefault((one.namespace, one.name), _Op(one.namespace, one.name, path, one.line))
        if one.schema and not op.schema:
            op.schema, op.path, op.line = one.schema, path, one.line
        if one.function:
            op.keys[one.key] = None
            op.functions.setdefault(one.function, (path, one.line))
        op.libraries[part.library.name] = None
        op.doubt = merged(op.doubt, doubtful.get((one.namespace, one.name), ()))
    there = {(one.namespace, one.name) for one in (*found.ops, *more)}
    for one in registrations(every_part(bare), part.library.name).ops:
        if (one.namespace, one.name) not in there:
            op = ops.setdefault((one.namespace, one.name), _Op(one.namespace, one.name, path, one.line))
            op.schema = op.schema or one.schema
            text, line = condition_around(bare, one.line)
            op.left_out = op.left_out or (text, path, line)


def _entry(one: Registration) -> tuple[str, str, str, int]:
    return one.namespace, one.name, one.key, one.line


def _fetched(world: World, source: NativeSource) -> None:
    """Say which trees the build fetches, and how much of the libraries is in them."""
    parts = [part for of in source.parts.values() for part in of.values()]
    for name, (path, line) in source.outside.items():
        prefix = f"${{{name.lower()}_SOURCE_DIR}}"
        used = {text for part in parts for text in part.outside if text.lower().startswith(prefix.lower())}
        text = f"{name} is fetched at build time and not in this tree"
        text += f"; {len(used)} sources of libraries are in it" if used else ""
        world.unread.append(Problem(path, line, text))


def _unread(world: World, source: NativeSource, paths: list[str]) -> None:
    """Say which files register operators although no library of this build contains them."""
    wanted = [path for path in paths if path.endswith((".cc", ".cpp", ".cxx", ".cu"))]
    source.files.load(wanted)
    for path in wanted:
        raw = source.files.raw(path)
        if raw is not None and MARK in raw:
            match = re.search(rf"^\s*\w*{MARK}", raw, re.MULTILINE)
            if match:
                line = raw.count("\n", 0, match.end()) + 1
                text = f"registers operators, but no library of {source.path} contains it"
                world.unread.append(Problem(path, line, text))
