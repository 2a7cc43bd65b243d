"""What a target does at a gate, in words, and whether it had an arm of its own there."""

from __future__ import annotations

from auditor.gates.model import Arm, Effect, Gate

#: Kinds of gate whose value goes elsewhere: what happens there shows at the gates that read it.
_VALUES = ("assign", "return", "argument", "comprehension", "table")
#: Effects of an arm that are told.
EFFECTS = 4


def own_arm(gate: Gate, target: str) -> bool:
    """Whether an arm was for the family of the target only."""
    return gate.kind not in _VALUES and gate.verdict.get(target) == "workaround"


def refuses(gate: Gate, target: str) -> bool:
    """Whether a target is stopped for sure where the reference goes on."""
    return gate.verdict.get(target) == "blocked" and gate.reached.get(target) == "true"


def told_effects(arm: Arm) -> tuple[Effect, ...]:
    """The effects without calls whose result another one names, each once."""
    said = [effect.what for effect in arm.effects if effect.kind != "call"]
    kept = {
        (effect.kind, effect.what): effect
        for effect in reversed(arm.effects)
        if effect.kind != "call" or not any(f"{effect.what}(" in text for text in said)
    }
    return tuple(reversed(kept.values()))


def arm_words(gate: Gate, target: str) -> str:
    """What the arm does that a target takes, "" where that is nothing or not known."""
    if gate.reached[target] == "false" or gate.truth[target] == "unknown":
        return ""
    for arm in gate.arms:
        if arm.when == gate.truth[target]:
            words = [f"{effect.kind} {effect.what}" for effect in told_effects(arm)]
            words = words if arm.value is None else [arm.value]
            return ", ".join([*words[:EFFECTS], *(["…"] if len(words) > EFFECTS else [])])
    return ""
