"""Which kernels a wheel of compiled code, or an installed copy, holds for which GPU. No source is needed.

Every shared object of the tree is read in a stream (:mod:`auditor.native.built.objects`). Operators are known
by the schemas among its strings; those registered without one by the calls in the tree's own Python, if the
object holds the name. What a library has for a target follows from the images in it by NVIDIA's rules
(:mod:`auditor.arch.compat`). Whether a guard in the C++ refuses a target that has code is not to be seen in a
binary: only the source says so.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from auditor.arch.compat import CompiledFor, cubin_runs_on, parse_arch, ptx_runs_on
from auditor.arch.targets import Target
from auditor.errors import UserError
from auditor.gates.model import Problem, Tri
from auditor.native.built.fatbin import Image
from auditor.native.built.objects import ObjectFacts, read_object
from auditor.native.model import Built, Cell, Library, Row, Step
from auditor.trees.base import BigFiles

_OBJECT = re.compile(r"\.(?:so(?:\.[\w.]+)?|pyd|dll|dylib)\Z")
_CALL = re.compile(rb"\btorch\.ops\.([A-Za-z_]\w*)\.([A-Za-z_]\w*)")
#: Python files above this size hold no wrappers, bytes; and no package of kernels has more than this in all.
_LARGEST_PYTHON = 4 << 20
_MOST_PYTHON = 32 << 20


@dataclass(frozen=True)
class Call:
    """Where the tree's own Python calls an operator."""

    path: str
    line: int


@dataclass(frozen=True)
class Operator:
    """One operator as the objects show it. ``namespace`` is empty where nothing tells it."""

    namespace: str
    name: str
    schema: str
    objects: tuple[str, ...]  # paths in the tree, sorted
    call: Call | None = None  # the first one

    @property
    def qualified(self) -> str:
        return f"{self.namespace}::{self.name}" if self.namespace else self.name


@dataclass
class Binaries:
    """What was read: the objects by path, their libraries, the operators, and what could not be read."""

    objects: dict[str, ObjectFacts] = field(default_factory=dict)
    libraries: tuple[Library, ...] = ()
    operators: tuple[Operator, ...] = ()
    problems: tuple[Problem, ...] = ()
    python: dict[str, bytes] = field(default_factory=dict)  # the Python beside the objects


#: Which of several objects with the same operators a target loads (paths), and why.
Chooser = Callable[[tuple[str, ...], str], tuple[tuple[str, ...], tuple[Step, ...]]]


def read_binaries(tree: BigFiles, known: Mapping[str, ObjectFacts] | None = None) -> Binaries:
    """Reads every shared object of a tree. ``UserError`` N020: there is none; T006, T014: the tree's.

    ``known``: facts of the same objects from an earlier reading, which takes the place of this one.
    """
    sizes = tree.sizes()
    paths = [path for path in sizes if _OBJECT.search(path.rpartition("/")[2])]
    if not paths:
        raise UserError(
            "N020",
            "no shared object in it: it holds no compiled kernels",
            place=tree.info().label if not sizes else next(iter(sizes)),
            hints=["audit kernels --kernels-wheel FILE, where FILE is the wheel of the compiled kernels"],
        )
    python = _python(tree, sizes)
    calls = _calls(python)
    wanted = frozenset(name for _, name in calls)
    objects = {
        path: known[path] if known and path in known else read_object(path, tree.chunks(path), wanted)
        for path in paths
    }
    operators = _operators(objects, calls)
    names = _names_of(objects)
    problems = [Problem(path, 0, message) for path, facts in objects.items() for message in facts.problems]
    return Binaries(
        objects,
        tuple(library_of(facts, names[path]) for path, facts in objects.items()),
        operators,
        tuple(problems),
        python,
    )


def library_of(facts: ObjectFacts, name: str = "") -> Library:
    """The object in the words of the native side. What is not in every part of it is ``unknown``."""
    units = sum(facts.units.values())
    counted: dict[tuple[str, str], tuple[int, str]] = {}
    for image, count in facts.images().items():
        key = (image.what, image.arch)
        counted[key] = (counted.get(key, (0, ""))[0] + count, image.doubt)
    built = []
    for (what, arch), (count, doubt) in sorted(counted.items(), key=lambda item: _order(*item[0])):
        because = [doubt] if doubt else []
        if count < units:
            because.append(f"which of its {units} parts is asked: {count} have it")
        built.append(Built(what, arch, "unknown" if because else "true", tuple(because)))
    if facts.partial:
        built.append(Built("cubin", "", "unknown", ("what could not be read of it",)))
    return Library(
        name or _stem(facts.path),
        output_of(facts.path),
        facts.path,
        built=tuple(built),
        machine=facts.machine,
    )


def _names_of(objects: Mapping[str, ObjectFacts]) -> dict[str, str]:
    """path -> the file's stem, or the whole path without suffix where several have the same stem."""
    stems = [_stem(path) for path in objects]
    return {path: stem if stems.count(stem) == 1 else output_of(path) for path, stem in zip(objects, stems)}


def output_of(path: str) -> str:
    """The module's path without its suffixes: ``pkg/ops.abi3.so`` is ``pkg/ops``."""
    folder, slash, _ = path.rpartition("/")
    return f"{folder}{slash}{_stem(path)}"


def rows(
    binaries: Binaries, targets: Sequence[Target], choose: Chooser = lambda paths, target: (paths, ())
) -> tuple[Row, ...]:
    """Operators by name, and what each target gets as far as the objects tell."""
    per_object = {
        path: {target.name: object_cell(facts, target) for target in targets}
        for path, facts in binaries.objects.items()
    }
    names = _names_of(binaries.objects)
    found = []
    for operator in binaries.operators:
        cells = {}
        for target in targets:
            paths, why = choose(operator.objects, target.name)
            proof = (*_registered(operator), *why)
            cells[target.name] = _together([per_object[path][target.name] for path in paths], proof)
        found.append(
            Row(
                operator.qualified,
                "op",
                operator.objects[0],
                0,
                cells,
                schema=operator.schema,
                libraries=tuple(names[path] for path in operator.objects),
            )
        )
    return tuple(found)


def object_cell(facts: ObjectFacts, target: Target) -> Cell:
    """What a target gets from one object: it runs if every part of the object has an image for it."""
    name = _stem(facts.path)
    proof = (Step(f"{name}: {architectures(facts)}", facts.path),)
    if facts.partial:
        return Cell("unknown", f"{name}: not all of it could be read", proof)
    if not facts.units:
        return Cell("unknown", f"{name}: no device code in it", proof)
    tally: dict[Tri, int] = {"true": 0, "false": 0, "unknown": 0}
    doubts: set[str] = set()
    for unit, count in facts.units.items():
        serves, doubt = _serves(unit, target)
        tally[serves] += count
        doubts |= doubt
    units = sum(tally.values())
    if tally["true"] == units:
        return Cell("runs", f"{name}: {architectures(facts)}; guards are not to be seen in a binary", proof)
    if tally["false"] == units:
        return Cell("not-built", f"{name}: {architectures(facts)}", proof)
    if tally["unknown"]:
        return Cell("unknown", f"{name}: {sorted(doubts)[0]}", proof)
    return Cell("unknown", f"{name}: code for it in {tally['true']} of {units} parts", proof)


def architectures(facts: ObjectFacts) -> str:
    """``80 90a, PTX 90``; or that there is no device code."""
    found: dict[str, list[str]] = {}
    for what, arch in sorted({(i.what, i.arch) for i in facts.images()}, key=lambda key: _order(*key)):
        found.setdefault(what, []).append(arch)
    parts = [" ".join(found.pop("cubin", ()))]
    parts += [f"{'PTX' if what == 'ptx' else what} {' '.join(archs)}" for what, archs in found.items()]
    return ", ".join(part for part in parts if part) or "no device code"


def _serves(unit: frozenset[Image], target: Target) -> tuple[Tri, set[str]]:
    doubts: set[str] = set()
    for image in unit:
        if image.what not in ("cubin", "ptx"):
            doubts.add(f"it holds an image of {image.what}, which is not known")
            continue
        built = parse_arch(image.arch)
        runs = cubin_runs_on if image.what == "cubin" else ptx_runs_on
        if not runs(built, target):
            continue  # no suffix makes code run where plain code does not
        if not image.doubt or runs(CompiledFor(built.capability, "a"), target):
            return "true", set()
        doubts.add(image.doubt)
    return ("unknown" if doubts else "false"), doubts


def _registered(operator: Operator) -> tuple[Step, ...]:
    """How it is known that there is such an operator."""
    if operator.schema:
        return tuple(Step("its schema is among the strings", path) for path in operator.objects)
    steps = tuple(Step("its name is among the strings", path) for path in operator.objects)
    call = operator.call
    return steps if call is None else (Step(f"{operator.qualified} is called", call.path, call.line), *steps)


def _together(cells: Sequence[Cell], before: tuple[Step, ...]) -> Cell:
    """One cell from the objects that may be loaded: what they agree on, else unknown."""
    proof = before + tuple(dict.fromkeys(step for cell in cells for step in cell.proof))
    if len({cell.outcome for cell in cells}) == 1:
        return Cell(cells[0].outcome, cells[0].reason, proof)
    said = "; ".join(f"{cell.outcome} with {cell.proof[-1].path}" for cell in cells)
    return Cell("unknown", f"it depends on which library is loaded: {said}", proof)


def _python(tree: BigFiles, sizes: Mapping[str, int]) -> dict[str, bytes]:
    found: dict[str, bytes] = {}
    left = _MOST_PYTHON
    for path, size in sizes.items():
        if path.endswith(".py") and size <= min(left, _LARGEST_PYTHON):
            found[path] = b"".join(tree.chunks(path))
            left -= size
    return found


def _calls(python: Mapping[str, bytes]) -> dict[tuple[str, str], Call]:
    """(namespace, operator) -> its first call in the Python."""
    found: dict[tuple[str, str], Call] = {}
    for path, data in python.items():
        for match in _CALL.finditer(data):
            key = (match[1].decode(), match[2].decode())
            if key not in found:
                found[key] = Call(path, data.count(b"\n", 0, match.start()) + 1)
    return found


def _operators(
    objects: Mapping[str, ObjectFacts], calls: Mapping[tuple[str, str], Call]
) -> tuple[Operator, ...]:
    namespaces: dict[str, set[str]] = {}
    for namespace, name in calls:
        namespaces.setdefault(name, set()).add(namespace)
    where: dict[tuple[str, str], set[str]] = {}
    schemas: dict[tuple[str, str], set[str]] = {}
    for path, facts in objects.items():
        own = _own_namespace(facts, namespaces)
        for schema, name in facts.schemas.items():
            namespace, colons, bare = name.rpartition("::")
            known = namespaces.get(bare, set())
            if not colons:
                namespace = next(iter(known)) if len(known) == 1 else own
            where.setdefault((namespace, bare), set()).add(path)
            schemas.setdefault((namespace, bare), set()).add(schema)
    with_schema = {name for _, name in where}
    for path, facts in objects.items():
        # A name alone proves no registration; but it is called, no schema has it, and this object knows it.
        if not facts.schemas:
            continue
        own = _own_namespace(facts, namespaces)
        for name in facts.names - with_schema:
            if own and own in namespaces.get(name, ()):
                where.setdefault((own, name), set()).add(path)
    return tuple(
        Operator(
            key[0],
            key[1],
            min(schemas.get(key, {""})),
            tuple(sorted(paths)),
            calls.get(key),
        )
        for key, paths in sorted(where.items())
    )


def _own_namespace(facts: ObjectFacts, namespaces: Mapping[str, set[str]]) -> str:
    """The namespace through which the tree's Python calls this object's operators, where there is just one.

    It is not to be seen in the object itself: compilers fold so short a string into the code.
    """
    called = {
        namespace
        for name in facts.schemas.values()
        if "::" not in name
        for namespace in namespaces.get(name, ())
    }
    return next(iter(called)) if len(called) == 1 else ""


def _order(what: str, arch: str) -> tuple[str, int, str]:
    digits = arch.rstrip("af")
    return what, int(digits) if digits.isdigit() else 0, arch


def _stem(path: str) -> str:
    return path.rpartition("/")[2].split(".")[0]
