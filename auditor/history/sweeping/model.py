"""What a file of a sweep holds: a head, then one line a commit. Additive within a schema's major number."""

from __future__ import annotations

from typing import Any

import msgspec

#: Of the file; another major number is another format.
SCHEMA = "1.0"
LEVELS = ("quick", "full")
#: What a sweep of level ``quick`` cannot see, said in its head and in docs/guard.md.
BLIND = (
    "conditions that dominate a gate (early returns, branches around it)",
    "names that are learned from no tree at the ends of the range or between its stretches",
    "what an import, an argument, a loop or a table gives; same-named definitions that disagree are open",
    "kernels, defaults and forced settings; verdicts beyond differs and undecided",
)


class Setup(msgspec.Struct, frozen=True):
    """What every commit of a sweep is looked at with."""

    project: str
    level: str
    targets: tuple[str, ...]
    reference: str
    cuda: str
    root: str  # source root of the package in the repository
    folder: str  # the package below it
    vocabulary: tuple[str, ...] = ()
    vendor: dict[str, Any] = {}
    assumptions: dict[str, str] = {}
    defaults: bool = False


class Head(msgspec.Struct, frozen=True):
    """The first line of a file. ``first`` is the commit before the range, "" for all of history."""

    sweep: str  # schema
    tool: str
    first: str
    last: str
    commits: int
    setup: Setup
    blind: tuple[str, ...] = ()


class GateFact(msgspec.Struct, frozen=True):
    """A gate. ``id`` is structural: module, symbol, kind, condition, ordinal."""

    id: str
    path: str
    symbol: str
    kind: str
    predicate: str


class GateChange(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a commit did to a gate: added, removed, moved (to ``gate``) or changed, with truths per target."""

    kind: str
    gate: GateFact
    before: dict[str, str] = {}
    after: dict[str, str] = {}
    old_path: str = ""


class Counts(msgspec.Struct, frozen=True):
    """Gates of a tree. ``targets``: per target how many differ from the reference and how many are
    undecided.
    """

    gates: int
    targets: dict[str, tuple[int, int]]


class CommitLine(msgspec.Struct, frozen=True, omit_defaults=True):
    """One commit. Of level ``full`` there are gates per verdict and target, and no changes of gates."""

    commit: str
    date: str
    pr: str
    gates: int
    targets: dict[str, dict[str, int]]
    unreadable: int = 0
    changes: tuple[GateChange, ...] = ()
    moved: int = 0
    problem: str = ""  # why this commit has no figures


def with_moves(changes: list[GateChange]) -> tuple[GateChange, ...]:
    """Changes in which a gate that went here and came there, by symbol, kind and condition, is one that
    moved.

    A pair whose truths are the same on both sides is ``moved``; else it moved and ``changed``.
    """
    gone: dict[tuple[str, str, str], list[GateChange]] = {}
    for change in changes:
        if change.kind == "removed":
            gate = change.gate
            gone.setdefault((gate.symbol, gate.kind, gate.predicate), []).append(change)
    out: list[GateChange] = []
    taken: set[str] = set()
    for change in changes:
        if change.kind != "added":
            continue
        gate = change.gate
        options = gone.get((gate.symbol, gate.kind, gate.predicate))
        if not options:
            out.append(change)
            continue
        old = options.pop(0)
        taken.add(old.gate.id)
        kind = "moved" if old.before == change.after else "changed"
        out.append(GateChange(kind, gate, old.before, change.after, old.gate.path))
    out += [c for c in changes if c.kind == "changed" or (c.kind == "removed" and c.gate.id not in taken)]
    return tuple(sorted(out, key=lambda c: (c.kind, c.gate.path, c.gate.id)))
