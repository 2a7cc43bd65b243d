"""What a map of kernels is made for: the tree, the targets with their machines, the assumptions."""

from __future__ import annotations

from dataclasses import dataclass, field

import msgspec

from auditor.arch import Target, load_targets, parse_targets
from auditor.gates.model import Problem, TreeFacts
from auditor.profile import Profile, load_profile
from auditor.trees.base import SourceTree

DEFAULT_CUDA = "13.0"


class KernelOptions(msgspec.Struct, frozen=True):
    """What to map. ``assumptions``: ``cuda``, ``machine``, and ``cmake.NAME`` for options of the build."""

    targets: tuple[str, ...]
    assumptions: dict[str, str] = {}
    project: str = "sglang"
    profile: Profile | None = None
    declared: bool = True  # kernels of the Python side too: compiled at run time, registered, Triton
    compile: bool = False  # Triton kernels with a declared signature, for their shared memory


@dataclass
class World:
    """What a map is made for: the tree, the targets with their machines, the assumptions."""

    tree: SourceTree
    profile: Profile
    targets: dict[str, Target]
    assumptions: dict[str, str]
    cuda: str
    machines: dict[str, str]  # target -> processor
    facts: TreeFacts | None = None  # of the tree, where asking it would cost too much
    problems: list[Problem] = field(default_factory=list)
    unread: list[Problem] = field(default_factory=list)


def world_of(tree: SourceTree, options: KernelOptions) -> World:
    """The targets and assumptions of a map. UserError E001 for an unknown target."""
    known = load_targets()
    for name in options.targets:
        if name not in known:
            parse_targets(name)
    profile = options.profile or load_profile(options.project)
    given = dict(options.assumptions)
    machine = given.get("machine")
    machines = {name: machine or known[name].machine for name in options.targets}
    chosen = {name: known[name] for name in options.targets}
    return World(tree, profile, chosen, given, given.get("cuda", DEFAULT_CUDA), machines)
