"""Whether a discovered gate satisfies a query's ``gate`` constraints, and how a code hit stands to a gate."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from functools import lru_cache

from auditor.gates.model import Arm, Effect, Gate, Tri
from auditor.queries.model import REFERENCE, ArmsMatch, EffectMatch, GateMatch, PredicateMatch, listed
from auditor.queries.scan import CodeHit, glob_any

# Field of EffectMatch to the kinds of effect it is about.
_KINDS = {
    "call": ("call",),
    "imports": ("import",),
    "set": ("set",),
    "raises": ("raise",),
    "returns": ("return",),
    "asserts": ("assert",),
    "disables": ("disable",),
}


def gate_matches(wanted: GateMatch, gate: Gate, reference: str) -> bool:
    """Whether all constraints hold; cheap ones first."""
    return (
        (wanted.scope is None or wanted.scope == gate.scope)
        and (not wanted.kind or gate.kind in listed(wanted.kind))
        and truth_holds(wanted.truth, gate.truth, reference)
        and truth_holds(wanted.reached, gate.reached, reference)
        and _verdict_holds(wanted.verdict, gate.verdict)
        and glob_any(gate.module, listed(wanted.module))
        and glob_any(f"{gate.module}:{gate.symbol}", listed(wanted.symbol))
        and _any_glob(gate.via, listed(wanted.via))
        and _any_glob(gate.unknown_because, listed(wanted.unknown_because))
        and (wanted.arms is None or _arms_hold(wanted.arms, gate.arms))
        and (wanted.predicate is None or _predicate_holds(wanted.predicate, gate.predicate))
    )


def truth_holds(wanted: Mapping[str, object], values: Mapping[str, str], reference: str) -> bool:
    """Whether every key holds for every target it means.

    A key is a target, a glob of targets, or ``reference``. A key that means none of the evaluated targets
    fails: what was not evaluated is not known.
    """
    for key, outcome in wanted.items():
        glob = reference if key == REFERENCE else key
        meant = (glob,) if glob in values else _meant(glob, tuple(values))
        if not meant or not all(_outcome_is(values[target], outcome) for target in meant):
            return False
    return True


@lru_cache(maxsize=1024)
def _meant(glob: str, targets: tuple[str, ...]) -> tuple[str, ...]:
    """The targets that a glob means: asked for every gate and query, always about the same few targets."""
    return tuple(target for target in targets if fnmatchcase(target, glob))


def _outcome_is(value: str, outcome: object) -> bool:
    if isinstance(outcome, bool):
        return value == ("true" if outcome else "false")
    if outcome == "decided":
        return value != "unknown"
    if outcome == "not-true":
        return value != "true"
    if outcome == "not-false":
        return value != "false"
    return value == outcome


def _verdict_holds(wanted: Mapping[str, str], verdicts: Mapping[str, str]) -> bool:
    for glob, verdict in wanted.items():
        found = [v for target, v in verdicts.items() if fnmatchcase(target, glob)]
        if not found or any(v != verdict for v in found):
            return False
    return True


def _any_glob(values: Sequence[str], globs: Sequence[str]) -> bool:
    return not globs or any(glob_any(value, globs) for value in values)


def _arms_hold(wanted: ArmsMatch, arms: Sequence[Arm]) -> bool:
    then = [arm for arm in arms if arm.when == "true"]
    other = [arm for arm in arms if arm.when == "false"]
    return (
        (wanted.then is None or _effect_in(wanted.then, then))
        and (wanted.else_ is None or _effect_in(wanted.else_, other))
        and (wanted.any is None or _effect_in(wanted.any, arms))
    )


def _effect_in(wanted: EffectMatch, arms: Sequence[Arm]) -> bool:
    effects = [effect for arm in arms for effect in arm.effects]
    if wanted.nothing:
        return not effects
    if wanted.gives is not None and not any(_gives(arm, wanted.gives) for arm in arms):
        return False
    globs = {field: glob for field in _KINDS if (glob := getattr(wanted, field)) is not None}
    return all(any(_effect_is(effect, field, glob) for effect in effects) for field, glob in globs.items())


def _gives(arm: Arm, glob: str) -> bool:
    values = [arm.value] if arm.value is not None else []
    values += [effect.what for effect in arm.effects if effect.kind == "return"]
    values += [effect.what.split(" = ", 1)[-1] for effect in arm.effects if effect.kind == "set"]
    return any(fnmatchcase(value, glob) for value in values)


def _effect_is(effect: Effect, field: str, glob: str) -> bool:
    return effect.kind in _KINDS[field] and fnmatchcase(effect.what, glob)


def _predicate_holds(wanted: PredicateMatch, predicate: str) -> bool:
    if wanted.regex is not None and not re.search(wanted.regex, predicate):
        return False
    if wanted.pattern is None:
        return True
    from auditor.queries.pattern import match, parse_segment

    node = parse_segment(predicate.encode(), expression=True)
    return node is not None and match(wanted.pattern, node) is not None


#: Kinds of gates whose statement holds more than the test and what becomes of it.
_BRANCHES = frozenset({"if", "elif", "while", "ifexp", "match"})


def gates_at(hit: CodeHit, place: str, gates: Sequence[Gate]) -> Gate | None:
    """The gate of the same file to which the hit stands in ``place``; the nearest one of several."""
    found = [gate for gate in gates if _stands(hit, place, gate)]
    if not found:
        return None
    if place == "before":
        return min(found, key=lambda gate: (gate.line, gate.id))
    return max(found, key=lambda gate: (gate.line, gate.id))


def _stands(hit: CodeHit, place: str, gate: Gate) -> bool:
    if place in ("then", "else"):
        when = "true" if place == "then" else "false"
        return any(_within(hit, arm.line, arm.end_line) for arm in gate.arms if arm.when == when)
    if place == "inside":
        return (
            _within(hit, gate.line, gate.end_line)
            # a statement goes on behind its test: a message, a bracket on a line of its own
            or (gate.kind not in _BRANCHES and gate.line <= hit.line <= gate.end_line)
            or any(_within(hit, arm.line, arm.end_line) for arm in gate.arms)
        )
    if gate.symbol != hit.symbol:
        return False
    if place == "before":
        return hit.end_line < gate.line
    if place == "after":
        return hit.line > gate.end_line
    return True


def places_of(gate: Gate, place: str) -> list[tuple[int, int]]:
    """The lines that stand in ``place`` to a gate, perhaps some too many."""
    if place in ("then", "else"):
        when = "true" if place == "then" else "false"
        return [(arm.line, arm.end_line) for arm in gate.arms if arm.when == when]
    if place == "inside":
        return [(gate.line, gate.end_line), *((arm.line, arm.end_line) for arm in gate.arms)]
    if place == "before":
        return [(1, gate.line - 1)]
    return [(gate.end_line + 1, sys.maxsize)] if place == "after" else [(1, sys.maxsize)]


def stands_under(hit: CodeHit, gate: Gate) -> bool:
    """Whether the gate is the hit itself, or has it in its ``then`` arm."""
    return hit.line == gate.line or _stands(hit, "then", gate)


def reach(hit: CodeHit, gates: Sequence[Gate], targets: Iterable[str]) -> dict[str, Tri]:
    """Whether each target comes to the hit, as far as the gates of its file say.

    That is: the innermost gate around it is reached, and every gate around it takes the arm that holds it.
    Without any gate around it the answer is true: nothing here depends on the GPU.
    """
    around = [
        (gate, arm.when)
        for gate in gates
        for arm in gate.arms
        if arm.when != "unknown" and _within(hit, arm.line, arm.end_line)
    ]
    out: dict[str, Tri] = {}
    for target in targets:
        value: Tri = "true"
        for gate, when in around:
            truth = gate.truth.get(target, "unknown")
            taken = truth if when == "true" else _NOT[truth]
            value = _and(value, _and(gate.reached.get(target, "unknown"), taken))
        out[target] = value
    return out


_NOT: dict[str, Tri] = {"true": "false", "false": "true", "unknown": "unknown"}


def _and(left: Tri, right: Tri) -> Tri:
    if "false" in (left, right):
        return "false"
    return "unknown" if "unknown" in (left, right) else "true"


def _within(hit: CodeHit, line: int, end_line: int) -> bool:
    return line <= hit.line and hit.end_line <= end_line
