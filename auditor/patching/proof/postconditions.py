"""What must be true of the patched tree, asked of the audit: of the base and of the result.

Two things are held: what each patch states in ``verify``, and that nothing changes for targets that no patch
names in ``targets``. An expectation that leads to nothing in the tree is a failure, not a pass.
"""

from __future__ import annotations

import fnmatch
from collections.abc import Iterable, Sequence

from auditor.arch import load_targets
from auditor.gates.model import Gate, Predicate, Report
from auditor.patching.planning.model import Plan
from auditor.patching.proof.verify import Check
from auditor.patching.sets.header import Expectation
from auditor.profile import Profile
from auditor.trees.base import SourceTree

_REFERENCE = "sm_100"
#: Verdicts of a finding on targets that it is not about.
_NOT_FOUND = frozenset({"same"})
#: Facts of one subject on one target: every word that an expectation may use for it.
Words = frozenset[str]


def report_of(tree: SourceTree, profile: Profile) -> Report:
    """The audit of a tree for every target, from the cache where it is there."""
    from auditor.gates.cache import Asked, kept_report
    from auditor.reporting import jsonout

    asked = Asked(
        targets=tuple(load_targets()),
        reference=_REFERENCE,
        assumptions={},
        defaults=False,
        project=profile.name,
    )
    data = kept_report(
        tree,
        asked,
        encode=jsonout.dumps,
        decode=lambda raw: jsonout.loads(raw, "a kept report"),
        progress=lambda *_: None,
    )
    return jsonout.loads(data, "a kept report")


def audit_check(plan: Plan) -> Check:
    """The level ``audit`` of a plan."""
    before = report_of(plan.tree, plan.profile)
    after = report_of(plan.result, plan.profile)
    bad: list[str] = []
    held = 0
    for entry in plan.entries:
        if entry.outcome.status in ("skipped", "obsolete"):
            continue
        for expectation in entry.patch.header.verify:
            faults, count = failures(expectation, after, before)
            bad += [f"{entry.name}: {fault}" for fault in faults]
            held += count
    from auditor.patching.proof.registration import (
        registration_faults,  # not needed where nothing is registered
    )

    faults, kernels = registration_faults(plan, after)
    bad += faults
    allowed = {t for e in plan.entries for t in _named(e.patch.header.targets)}
    everyone = any(not e.patch.header.targets for e in plan.entries if e.outcome.files)
    others = [t for t in load_targets() if t not in allowed and not everyone]
    changes = changed_outcomes(before, after, others)
    bad += [f"{place} changes on {target}: {was} → {now}" for target, place, was, now in changes]
    if bad:
        return Check("audit", "failed", "the audit of the result says otherwise", tuple(bad))
    said = f"{held} expectations hold"
    if kernels:
        said += f"; {kernels} kernel{'s are' if kernels > 1 else ' is'} registered once, built and reached"
    if others:
        said += f"; nothing changed on {', '.join(others)}"
    return Check("audit", "ok", said)


def holds(expectation: Expectation, tree: SourceTree, profile: Profile) -> bool:
    """Whether a tree meets an expectation (without ``unchanged``, which needs two trees)."""
    report = report_of(tree, profile)
    return not failures(expectation, report, report)[0]


def failures(expectation: Expectation, after: Report, before: Report) -> tuple[list[str], int]:
    """Why an expectation does not hold, and on how many targets it does."""
    kind, name = expectation.subject()
    wanted = _by_target(expectation.expected())
    now, was = _facts(kind, name, after), _facts(kind, name, before)
    out: list[str] = []
    good = 0
    for target, value in wanted.items():
        here, there = now.get(target, frozenset()), was.get(target, frozenset())
        if kind == "query":
            here, there = here - _NOT_FOUND, there - _NOT_FOUND
            value = "absent" if value in _NOT_FOUND else value
        if value == "unchanged":
            if kind == "gate":
                here, there = _decided(name, after, before, target), _decided(name, before, after, target)
            fine, said = here == there, f"was {_text(there)}"
        elif value == "absent":
            fine, said = not here, "should be absent"
        elif value == "present":
            fine, said = bool(here), "should be present"
        else:
            fine, said = value in here, f"should be {value}"
        if fine:
            good += 1
        else:
            out.append(f"{kind} {name} on {target} is {_text(here)}, {said}")
    if not now and not was and "absent" not in wanted.values():
        return [f"nothing is called {name} in this tree ({kind})"], 0
    if not wanted:
        out.append(f"{kind} {name} states nothing about any target")
    return out, good


def _text(words: Words) -> str:
    return "/".join(sorted(words)) or "absent"


def _named(patterns: Iterable[str]) -> list[str]:
    return [t for t in load_targets() if any(fnmatch.fnmatchcase(t, pattern) for pattern in patterns)]


def _by_target(expected: dict[str, str]) -> dict[str, str]:
    """target -> wanted word: exact names before globs before ``default``."""
    found: dict[str, str] = {}
    for target in load_targets():
        globs = [key for key in expected if key != "default" and fnmatch.fnmatchcase(target, key)]
        key = target if target in expected else globs[0] if globs else "default"
        if key in expected:
            found[target] = expected[key]
    return found


def _facts(kind: str, name: str, report: Report) -> dict[str, Words]:
    """target -> every word that is true of the subject there; {} where there is no such thing."""
    found: dict[str, set[str]] = {}

    def add(target: str, *words: str) -> None:
        found.setdefault(target, set()).update(words)

    if kind == "query":
        query, _, symbol = name.partition(": ")
        for finding in report.findings:
            if finding.query == query and (not symbol or _ends(finding.symbol, symbol)):
                for target, verdict in finding.verdict.items():
                    add(target, verdict)
    elif kind == "gate":
        for gate in report.gates:
            if is_gate(gate, name):
                for target in report.targets:
                    add(
                        target,
                        gate.truth[target],
                        *([gate.verdict[target]] if target in gate.verdict else []),
                    )
                    value = _arm_value(gate, gate.truth[target])
                    if value is not None:
                        add(target, value)
    else:
        for predicate in report.predicates:
            if _ends(predicate.name, name):
                for target in report.targets:
                    add(target, predicate.truth[target], *_values(predicate, target))
    return {target: frozenset(words) for target, words in found.items()}


def _decided(name: str, report: Report, other: Report, target: str) -> Words:
    """What the gates of that name say on a target, without those that only this report has and in which the
    target decides nothing: a condition that was narrowed for one GPU is a gate now, and for another GPU what
    it was before."""
    there = {gate.id for gate in other.gates}
    found: set[str] = set()
    for gate in report.gates:
        if is_gate(gate, name) and (gate.id in there or gate.truth[target] != "unknown"):
            value = _arm_value(gate, gate.truth[target])
            found |= {gate.truth[target], *([value] if value is not None else [])}
            found |= {gate.verdict[target]} if target in gate.verdict else set()
    return frozenset(found)


def _arm_value(gate: Gate, truth: str) -> str | None:
    return next((arm.value for arm in gate.arms if arm.when == truth and arm.value is not None), None)


def _values(predicate: Predicate, target: str) -> list[str]:
    value = predicate.value.get(target)
    return [] if value is None else [value, value.strip("'\"")]


def is_gate(gate: Gate, word: str) -> bool:
    """Whether a person means this gate: by (the start of) its id, or by symbol, or ``symbol: predicate``."""
    symbol, colon, predicate = word.partition(": ")
    if not colon:
        return gate.id.startswith(word) if len(word) >= 8 and _is_hex(word) else _is_symbol(gate, word)
    return _is_symbol(gate, symbol) and gate.predicate == predicate


def _is_hex(word: str) -> bool:
    return all(c in "0123456789abcdef" for c in word)


def _is_symbol(gate: Gate, word: str) -> bool:
    return _ends(f"{gate.module}.{gate.symbol}".rstrip("."), word)


def _ends(name: str, word: str) -> bool:
    return bool(word) and (name == word or name.endswith("." + word))


def changed_outcomes(
    before: Report, after: Report, targets: Sequence[str]
) -> list[tuple[str, str, str, str]]:
    """(target, place, was, now) of gates that decide otherwise on one of ``targets``.

    A gate whose predicate was rewritten is held against the one that took its place in the same function.
    """
    if not targets:
        return []
    pairs = _same_words(before.gates, after.gates)
    known = {id(gate) for pair in pairs for gate in pair}
    old = {gate.id: gate for gate in before.gates if id(gate) not in known}
    new = {gate.id: gate for gate in after.gates if id(gate) not in known}
    pairs += [(old[key], new[key]) for key in old if key in new]
    pairs += _rewritten(
        [g for k, g in old.items() if k not in new], [g for k, g in new.items() if k not in old]
    )
    out = []
    for one, other in pairs:
        for target in targets:
            was, now = _outcome(one, target), _outcome(other, target)
            if was != now:
                out.append((target, f"{other.path}:{other.line} {other.symbol}".rstrip(), was, now))
    return sorted(set(out))


def _same_words(before: Iterable[Gate], after: Iterable[Gate]) -> list[tuple[Gate, Gate]]:
    """Gates that ask the same in the same function, as often as before: a test that took the place of another
    is not the other one."""

    def grouped(gates: Iterable[Gate]) -> dict[tuple[str, str, str], list[Gate]]:
        out: dict[tuple[str, str, str], list[Gate]] = {}
        for gate in sorted(gates, key=lambda gate: gate.line):
            out.setdefault((gate.module, gate.symbol, gate.predicate), []).append(gate)
        return out

    old, new = grouped(before), grouped(after)
    return [
        pair
        for key, gates in old.items()
        if len(gates) == len(new.get(key, ()))
        for pair in zip(gates, new[key], strict=True)
    ]


def _rewritten(gone: list[Gate], come: list[Gate]) -> list[tuple[Gate, Gate]]:
    def key(gate: Gate) -> tuple[str, str, str]:
        return gate.module, gate.symbol, gate.kind

    pairs = []
    for place in sorted({key(gate) for gate in gone}):
        one = sorted((g for g in gone if key(g) == place), key=lambda g: g.line)
        other = sorted((g for g in come if key(g) == place), key=lambda g: g.line)
        if len(one) == len(other):
            pairs += list(zip(one, other, strict=True))
    return pairs


def _outcome(gate: Gate, target: str) -> str:
    """What the gate decides, where it is reached at all."""
    if gate.reached.get(target) == "false":
        return "not reached"
    truth = gate.truth[target]
    value = _arm_value(gate, truth)
    return truth if value is None else f"{truth} ({value})"
