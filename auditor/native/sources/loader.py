"""Which of several builds of the same library the Python package loads on a target.

The package is run by the evaluator: a library is possible on a target unless every statement that names its
folder stands on an arm that the target does not take.
"""

from __future__ import annotations

import posixpath
import re
from typing import NamedTuple

import msgspec

from auditor.arch import load_targets
from auditor.gates.discover import Collector, finish
from auditor.gates.model import Gate
from auditor.gates.reading import build_program
from auditor.native.model import Library, Step
from auditor.profile import NativeBuild, Profile
from auditor.trees.base import SourceTree


class Pick(NamedTuple):
    """What a target loads: names of libraries that are possible, and why."""

    libraries: tuple[str, ...]
    proof: tuple[Step, ...]


def same_name(libraries: tuple[Library, ...]) -> list[list[Library]]:
    """Libraries that are builds of one module: the same file name in different folders."""
    groups: dict[str, list[Library]] = {}
    for library in libraries:
        groups.setdefault(posixpath.basename(library.output), []).append(library)
    return [group for group in groups.values() if len(group) > 1]


def picks(
    tree: SourceTree,
    spec: NativeBuild,
    profile: Profile,
    group: list[Library],
    targets: tuple[str, ...],
    assumptions: dict[str, str],
) -> dict[str, Pick]:
    """Per target which libraries of a group are loaded. All of them where the package does not say."""
    every = tuple(library.name for library in group)
    folders = {library.name: posixpath.basename(posixpath.dirname(library.output)) for library in group}
    gates = _gates(tree, spec, profile, tuple(folders.values()), assumptions) if spec.package else ()
    out: dict[str, Pick] = {}
    for target in targets:
        possible: dict[str, list[Step]] = {}
        for name, folder in folders.items():
            steps = _reaches(gates, folder, target)
            if steps is not None:
                possible[name] = steps
        if len(possible) == 1:
            name, steps = next(iter(possible.items()))
            out[target] = Pick((name,), tuple(steps))
        else:
            text = f"the package does not say which of {', '.join(every)} is loaded on {target}"
            out[target] = Pick(tuple(possible) or every, (Step(text),))
    return out


def _gates(
    tree: SourceTree,
    spec: NativeBuild,
    profile: Profile,
    folders: tuple[str, ...],
    assumptions: dict[str, str],
) -> tuple[Gate, ...]:
    prefix = f"{posixpath.join(spec.python, spec.package)}/"
    paths = [path for path in tree.blobs() if path.startswith(prefix) and path.endswith(".py")]
    read = dict(tree.read_many(paths))
    quoted = [
        re.compile(rb"['\"/]" + re.escape(folder.encode()) + rb"['\"/]") for folder in folders if folder
    ]
    named = [path for path, data in read.items() if any(pattern.search(data) for pattern in quoted)]
    if not named:
        return ()
    files = {path: read[path] for path in named}
    init = f"{prefix}__init__.py"
    if init in read:
        files[init] = read[init]
    known = load_targets()
    inner = msgspec.structs.replace(profile, package=spec.package, exclude=())
    given = {
        key: value for key, value in assumptions.items() if key == "cuda" or key.startswith(("env.", "dep."))
    }
    program = build_program(files, spec.python, inner, given)
    collector = Collector(program, tuple(known), {n: t.capability[0] for n, t in known.items()}, "sm_100")
    program.discover()
    gates = finish(collector, tuple(known), lambda path: "")
    return tuple(gate for gate in gates if gate.path in named)


def _reaches(gates: tuple[Gate, ...], folder: str, target: str) -> list[Step] | None:
    """The steps that lead a target to a statement with this folder; None where it gets to none."""
    word = re.compile(rf"['\"/]{re.escape(folder)}['\"/]")
    places: dict[tuple[str, int], list[tuple[Gate, str]]] = {}
    for gate in gates:
        for arm in gate.arms:
            for effect in arm.effects:
                if word.search(effect.what):
                    places.setdefault((gate.path, effect.line), []).append((gate, arm.when))
    for (path, line), through in places.items():
        if any(gate.truth[target] not in (when, "unknown") for gate, when in through):
            continue
        steps = [
            Step(f"{gate.predicate} is {gate.truth[target]} on {target}", gate.path, gate.line)
            for gate, _when in through
        ]
        return [*steps, Step(f"the package loads from {folder}/ on {target}", path, line)]
    return None
