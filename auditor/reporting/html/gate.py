"""A gate as the facts of an HTML page: its values per target, where they come from, and what its arms do.

What ``page/gate.js`` draws; the pages of audits and of comparisons share it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from auditor.gates.model import Arm, Gate, Predicate, Report
from auditor.reporting.html.document import Texts

_TRUTH = {"true": "t", "false": "f", "unknown": "u"}
_WORDS = {"true": "yes", "false": "no", "unknown": "?"}


def known_targets(report: Report) -> list[str]:
    """Every target with values in the report, by number."""
    names = {*report.targets, report.reference, *(name for gate in report.gates for name in gate.truth)}
    return sorted(names, key=lambda name: (len(name), name))


def gate_facts(gate: Gate, texts: Texts, every: Sequence[str]) -> dict[str, Any]:
    """One gate; ``every`` are the targets in the order of their letters."""
    out: dict[str, Any] = {
        "id": gate.id,
        "c": texts(f"{gate.kind} {gate.predicate}"),
        "t": "".join(_TRUTH.get(gate.truth.get(target, ""), "-") for target in every),
        "r": "".join(_TRUTH.get(gate.reached.get(target, ""), "-") for target in every),
        "n": texts.many(gate.via),
        "o": texts.many(gate.roots),
    }
    if gate.scope != "arch":
        out["k"] = gate.scope
    if gate.unknown_because:
        out["u"] = texts.many(gate.unknown_because)
    if gate.arms:
        out["w"] = [_arm(arm, texts) for arm in gate.arms]
    return out


def _arm(arm: Arm, texts: Texts) -> list[Any]:
    does = [texts(f"{effect.kind} {effect.what}") for effect in arm.effects]
    if arm.value is not None:
        does.insert(0, texts(f"gives {arm.value}"))
    return [_TRUTH[arm.when], arm.line, arm.end_line, does]


def predicate_facts(
    report: Report, gates: Iterable[Gate], texts: Texts, every: Sequence[str]
) -> dict[str, list[Any]]:
    """The names that the values of these gates come from, however far away."""
    known = {item.name: item for item in report.predicates}
    todo = [name for gate in gates for name in gate.via]
    used: dict[str, Predicate] = {}
    while todo:
        name = todo.pop()
        if name in known and name not in used:
            used[name] = known[name]
            todo += known[name].via
    return {name: _predicate(used[name], texts, every) for name in sorted(used)}


def _predicate(item: Predicate, texts: Texts, every: Sequence[str]) -> list[Any]:
    values = [item.value.get(target) or _WORDS.get(item.truth.get(target, ""), "") for target in every]
    return [texts(item.path), item.line, texts.many(values), texts.many(item.via), texts.many(item.roots)]
