"""Which change brought which other: a constant that fifty gates read is one change."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from auditor.gates.model import Gate, Predicate, Report
from auditor.history.model import Change

#: A change of a gate's outcome can follow from one of these, at the gate that defines what it reads.
_CAUSES = ("outcome", "predicate")


def with_causes(changes: Iterable[Change], new: Report, old: Report | None = None) -> list[Change]:
    """Say of each changed outcome which other change it follows from, by the id of that gate.

    Where a name means something else than in ``old`` and no gate says why, the first gate that reads it
    stands for all. Told only where the newer audit says what a gate reads; a baseline does not.
    """
    told = list(changes)
    gates = {gate.id: gate for gate in new.gates}
    known = {item.name: item for item in new.predicates}
    sources = _sources((gates[c.gate] for c in told if c.kind in _CAUSES and c.gate in gates), known.values())
    changed = [c for c in told if c.kind in _CAUSES and c.gate in gates]
    if old is not None:
        _first_readers(sources, [gates[c.gate] for c in changed], _other_meaning(old, new))
    parents: dict[str, str] = {}
    for change in told:
        if change.kind == "outcome" and change.gate in gates:
            found = _nearest(gates[change.gate], known, sources)
            if found:
                parents[change.gate] = found
    return [
        msgspec.structs.replace(change, follows=_root(change.gate, parents))
        if change.kind == "outcome" and change.gate in parents
        else change
        for change in told
    ]


def _sources(changed: Iterable[Gate], known: Iterable[Predicate]) -> dict[str, str]:
    """Name -> id of the changed gate that decides its value: in its function or the statement setting it."""
    by_name: dict[str, list[Gate]] = {}
    by_path: dict[str, list[Gate]] = {}
    for gate in changed:
        by_name.setdefault(f"{gate.module}.{gate.symbol}", []).append(gate)
        by_path.setdefault(gate.path, []).append(gate)
    out: dict[str, str] = {}
    for item in known:
        own = by_name.get(item.name, [])
        own = own or [g for g in by_path.get(item.path, ()) if g.line <= item.line <= g.end_line]
        if own:
            out[item.name] = min(own, key=lambda gate: (gate.line, gate.id)).id
    return out


def _other_meaning(old: Report, new: Report) -> set[str]:
    """Names of the older audit that are worth something else for a target, or nothing that is known."""
    after = {item.name: item for item in new.predicates}

    def meaning(item: Predicate | None) -> list[object]:
        return [item and (item.truth.get(t), item.value.get(t)) for t in new.targets]

    return {item.name for item in old.predicates if meaning(item) != meaning(after.get(item.name))}


def _first_readers(sources: dict[str, str], changed: Iterable[Gate], names: set[str]) -> None:
    """Let the first changed gate that reads one of the names stand for those after it."""
    for gate in sorted(changed, key=lambda gate: (gate.path, gate.line, gate.id)):
        for name in gate.via:
            if name in names:
                sources.setdefault(name, gate.id)


def _nearest(gate: Gate, known: dict[str, Predicate], sources: dict[str, str]) -> str:
    """The changed gate behind the nearest name that this one reads, "" where there is none."""
    todo = list(gate.via)
    seen = set(todo)
    while todo:
        name = todo.pop(0)
        if sources.get(name, gate.id) != gate.id:
            return sources[name]
        item = known.get(name)
        more = [via for via in item.via if via not in seen] if item is not None else []
        seen.update(more)
        todo += more
    return ""


def _root(gate: str, parents: dict[str, str]) -> str:
    """The first cause; of causes that lead round in a ring the first that comes again."""
    seen = {gate}
    while gate in parents and parents[gate] not in seen:
        gate = parents[gate]
        seen.add(gate)
    return gate


def folded(changes: Iterable[Change]) -> tuple[list[Change], dict[str, int]]:
    """The changes without those that follow from another one of them, and how many follow, by gate id."""
    told = list(changes)
    here = {change.gate for change in told if change.gate and not change.follows}
    counts: dict[str, int] = {}
    shown = []
    for change in told:
        if change.follows in here:
            counts[change.follows] = counts.get(change.follows, 0) + 1
        else:
            shown.append(change)
    return shown, counts


def following(number: int) -> str:
    """How the number of changes that follow from one is said."""
    return "1 more gate follows from it" if number == 1 else f"{number:,} more gates follow from it"


__all__ = ["folded", "following", "with_causes"]
