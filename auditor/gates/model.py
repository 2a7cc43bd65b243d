"""What an audit says. Every renderer and the published JSON come from these types alone."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import msgspec

from auditor.errors import UserError

if TYPE_CHECKING:
    from auditor.trees.base import TreeInfo

Tri = Literal["true", "false", "unknown"]

#: Worst first: the order in which reports show them.
VERDICTS = (
    "unguarded",
    "blocked",
    "dead-arm",
    "misgrouped",
    "missed-variant",
    "env-forced",
    "wrong-default",
    "workaround",
    "fallback",
    "undecided",
    "same",
)


class Effect(msgspec.Struct, frozen=True, omit_defaults=True):
    """One thing an arm does."""

    kind: str  # call | import | set | raise | return | assert | disable
    what: str  # "module.function", "self.backend = 'name'"
    line: int


class Arm(msgspec.Struct, frozen=True, omit_defaults=True):
    """What one outcome of a gate does. ``value`` is set for gates that yield a value (alias, return)."""

    when: Tri
    line: int
    end_line: int
    effects: tuple[Effect, ...] = ()
    value: str | None = None


class Gate(msgspec.Struct, frozen=True):
    """A program point decided by a predicate.

    ``truth`` is the value of the gate's own condition per target; ``reached`` says whether the point is
    reached at all, from the conditions that dominate it, early returns and raises included.
    """

    id: str  # structural: hash of module, symbol, kind, canonical predicate, ordinal
    path: str
    module: str
    line: int
    end_line: int
    symbol: str  # qualified within the module: "ServerArgs.__post_init__"; "" at module level
    kind: (
        str  # if | elif | ifexp | while | assert | assign | return | argument | comprehension | match | table
    )
    scope: str  # "arch": depends on the capability, device properties or CUDA's version; "platform": vendor
    via: tuple[str, ...]  # qualified names of the helpers, aliases and attributes it reads directly
    roots: tuple[str, ...]  # "torch.cuda.get_device_capability", ...
    predicate: str  # canonical text of the condition
    truth: dict[str, Tri]
    reached: dict[str, Tri]
    unknown_because: tuple[str, ...]  # "arg.X", "dep.X", "env.X", "call f()", ...
    arms: tuple[Arm, ...]
    verdict: dict[str, str]
    area: str = ""  # "attention", "moe", ... from the profile


class Predicate(msgspec.Struct, frozen=True, omit_defaults=True):
    """A name of the audited tree whose meaning depends on a root."""

    name: str  # qualified: module, class if any, name
    path: str
    line: int
    kind: str  # function | constant | attribute | property | method | table
    truth: dict[str, Tri]
    value: dict[str, str] = {}  # repr per target where the value is not a bool
    via: tuple[str, ...] = ()
    roots: tuple[str, ...] = ()
    unknown_because: tuple[str, ...] = ()
    read_by: int = 0  # gates that read it, directly or through others


class Finding(msgspec.Struct, frozen=True, omit_defaults=True):
    """A gate or a query match worth a line in a report; ``query`` is "" where the generic rules found it."""

    query: str
    gate: str  # gate id, "" where the match is not a gate
    path: str
    line: int
    symbol: str
    verdict: dict[str, str]
    severity: str  # error | warning | note
    message: str
    area: str = ""
    detail: tuple[str, ...] = ()
    fix: str | None = None


class Problem(msgspec.Struct, frozen=True, omit_defaults=True):
    """A file that could not be audited; the rest was."""

    path: str
    line: int
    message: str


class Accepted(msgspec.Struct, frozen=True, omit_defaults=True):
    """A verdict that an exceptions file takes for deliberate: it is not counted, shown or failed on."""

    gate: str  # id, or "" where a query's finding is meant
    query: str
    symbol: str
    verdict: str
    targets: tuple[str, ...]
    reason: str
    evidence: str
    until: str  # the version for which it has to be looked at again


class TreeFacts(msgspec.Struct, frozen=True):  # noqa: D101 - its docstring would stand in the schema
    kind: str
    label: str
    content_id: str
    commit: str | None
    version: str | None
    date: str | None
    describe: str | None
    dirty: bool


def tree_facts(info: TreeInfo) -> TreeFacts:
    """What a report says about its tree."""
    return TreeFacts(
        kind=info.kind,
        label=info.label,
        content_id=info.content_id,
        commit=info.commit,
        version=info.version,
        date=info.date,
        describe=info.describe,
        dirty=info.dirty,
    )


class Report(msgspec.Struct, frozen=True):  # noqa: D101 - its docstring would stand in the schema
    schema_version: str
    tool: str  # "sglang-auditor 0.1.0"
    project: str  # profile name
    tree: TreeFacts
    targets: tuple[str, ...]
    reference: str
    assumptions: dict[str, str]
    predicates: tuple[Predicate, ...]
    gates: tuple[Gate, ...]
    findings: tuple[Finding, ...]
    problems: tuple[Problem, ...]
    stats: dict[str, int]
    accepted: tuple[Accepted, ...] = ()


def check_whole(report: Report, name: str, code: str) -> None:
    """UserError where a gate of a report says nothing of one of its targets: somebody edited it."""
    for gate in report.gates:
        for target in report.targets:
            if not all(target in facts for facts in (gate.truth, gate.reached, gate.verdict)):
                raise UserError(code, f"gate {gate.id} says nothing of {target}", place=name)
