"""From what the evaluator meets to the gates of a report."""

from __future__ import annotations

import hashlib
from typing import Any

from auditor.gates import arms as arm_module
from auditor.gates.model import Arm, Gate, Predicate, Tri
from auditor.gates.verdicts import exact_miss, judge
from auditor.program.externals import ARCH_ROOTS
from auditor.program.program import Program
from auditor.program.records import Learned, RawGate
from auditor.program.syntax import source_of
from auditor.program.values import Unknown, V, same, truth_of

_WORDS: tuple[Tri, Tri, Tri] = ("true", "false", "unknown")


class Draft:
    """A gate without identity and verdict: everything that depends on its own function only."""

    __slots__ = ("facts", "canon", "order", "same_reason", "gate")

    def __init__(
        self, facts: dict[str, Any], canon: str, order: tuple[int, int], same_reason: dict[str, bool]
    ):
        self.facts = facts
        self.canon = canon
        self.order = order
        self.same_reason = same_reason
        self.gate: Gate | None = None


class Collector:
    """Turns raw gates into drafts as they are met, so that no syntax tree has to be kept."""

    def __init__(
        self, program: Program, names: tuple[str, ...], majors: dict[str, int], reference: str
    ) -> None:
        self.program = program
        self.names = names
        self.majors = majors
        self.reference = reference
        self.drafts: dict[tuple[str, Any], list[Draft]] = {}
        program.on_gate = self.take

    def take(self, key: tuple[str, Any], gates: list[RawGate]) -> None:
        drafts = self.drafts[key] = []
        for gate in gates:
            try:
                drafts.append(self.draft(gate))
            except RecursionError:
                what = "a gate whose arms are nested too deeply to follow; it is left out"
                self.program.problems.setdefault(gate.module.path, (gate.node.lineno, what))
        gates_kept = self.program.raw
        gates_kept.pop(key, None)

    def tri(self, value: V) -> dict[str, Tri]:
        out: dict[str, Tri] = {}
        for i, name in enumerate(self.names):
            t = truth_of(value.at(i))
            out[name] = "unknown" if t is None else ("true" if t else "false")
        return out

    def reach(self, may: int, must: int) -> dict[str, Tri]:
        return {
            name: "false" if not may >> i & 1 else ("true" if must >> i & 1 else "unknown")
            for i, name in enumerate(self.names)
        }

    def draft(self, raw: RawGate) -> Draft:
        node = raw.node
        value: V = raw.value
        truth = self.tri(value)
        why: set[str] = set()
        for i, name in enumerate(self.names):
            if truth[name] == "unknown":
                scalar = value.at(i)
                if isinstance(scalar, Unknown):
                    why |= scalar.reasons
                else:
                    why.add("value of no known truth")
        here = self.names.index(self.reference)
        mine = value.at(here)
        same_reason = {}
        for i, name in enumerate(self.names):
            other = value.at(i)
            same_reason[name] = (
                isinstance(mine, Unknown) and isinstance(other, Unknown) and mine.reasons == other.reasons
            ) or (not isinstance(mine, Unknown) and same(mine, other))
        test = raw.test
        end = test.end_lineno or test.lineno
        facts: dict[str, Any] = {
            "path": raw.module.path,
            "module": raw.module.name,
            "line": node.lineno,
            "end_line": max(end, node.lineno),
            "symbol": raw.symbol,
            "kind": raw.kind,
            "scope": "arch" if value.roots & ARCH_ROOTS else "platform",
            "via": tuple(sorted(value.via)),
            "roots": tuple(sorted(value.roots)),
            "predicate": source_of(test),
            "truth": truth,
            "reached": self.reach(raw.may, raw.must),
            "unknown_because": tuple(sorted(why)),
            "arms": self.arms(raw),
        }
        return Draft(facts, raw.canon, (node.lineno, node.col_offset), same_reason)

    def arms(self, raw: RawGate) -> tuple[Arm, ...]:
        out = []
        quiet = self.program.profile.loggers
        then = arm_module.arm("true", raw.body or [], quiet)
        if then is not None:
            out.append(then)
        other = raw.orelse
        if not other and raw.rest and raw.body and arm_module.leaves(raw.body):
            other = raw.rest
        rest = arm_module.arm("false", other or [], quiet)
        if rest is not None:
            out.append(rest)
        return tuple(out)


def finish(collector: Collector, targets: tuple[str, ...], area: Any) -> tuple[Gate, ...]:
    """Identity and verdicts for all drafts, in report order."""
    drafts: list[Draft] = []
    seen: set[tuple[Any, ...]] = set()
    for key in collector.drafts:
        for draft in collector.drafts[key]:
            facts = draft.facts
            mark = (facts["path"], draft.order, facts["kind"], facts["symbol"])
            if mark not in seen:
                seen.add(mark)
                drafts.append(draft)
    drafts.sort(key=lambda d: (d.facts["path"], d.order, d.facts["kind"], d.facts["symbol"]))
    counts: dict[tuple[str, ...], int] = {}
    gates = []
    for draft in drafts:
        facts = draft.facts
        base = (facts["module"], facts["symbol"], facts["kind"], draft.canon)
        ordinal = counts.get(base, 0)
        counts[base] = ordinal + 1
        name = "\0".join((*base, str(ordinal)))
        missed = exact_miss(facts["truth"], collector.majors)
        verdict = {
            t: judge(
                t,
                collector.reference,
                facts["kind"],
                facts["truth"],
                facts["reached"],
                draft.same_reason[t],
                facts["arms"],
                collector.majors,
                missed,
            )
            for t in targets
        }
        gates.append(
            Gate(
                id=hashlib.sha256(name.encode()).hexdigest()[:12],
                verdict=verdict,
                area=area(facts["path"]),
                **facts,
            )
        )
    return tuple(gates)


def predicates(program: Program, collector: Collector, gates: tuple[Gate, ...]) -> tuple[Predicate, ...]:
    """The learned names, each with its meaning and how many gates hang on it, sorted by name."""
    learned = program.learned
    readers: dict[str, set[str]] = {name: set() for name in learned}
    for gate in gates:
        todo, done = list(gate.via), set()
        while todo:
            name = todo.pop()
            if name in done or name not in learned:
                continue
            done.add(name)
            readers[name].add(gate.id)
            todo.extend(learned[name].value.via)
    return tuple(
        _predicate(learned[name], collector, len(readers[name]))
        for name in sorted(learned)
        if learned[name].module is not None and _worth_showing(program, learned[name])
    )


def _worth_showing(program: Program, entry: Learned) -> bool:
    return program.informative(entry.value) and "<lambda>" not in entry.name


def _predicate(entry: Learned, collector: Collector, read_by: int) -> Predicate:
    value = entry.value
    truth = collector.tri(value)
    plain = all(isinstance(s, bool) or isinstance(s, Unknown) for s in value.scalars())
    why: set[str] = set()
    for scalar in value.scalars():
        if isinstance(scalar, Unknown):
            why |= scalar.reasons
    shown = {} if plain else {n: show(value.at(i)) for i, n in enumerate(collector.names)}
    return Predicate(
        name=entry.name,
        path=entry.module.path,
        line=entry.line,
        kind=entry.kind,
        truth=truth,
        value=shown,
        via=tuple(sorted(value.via - {entry.name})),
        roots=tuple(sorted(value.roots)),
        unknown_because=tuple(sorted(why)),
        read_by=read_by,
    )


def show(scalar: Any) -> str:
    """A scalar as text: Python's own repr for constants, ``?`` for what is unknown."""
    from auditor.program.values import External, Function, Map, Seq

    if isinstance(scalar, Unknown):
        return "?"
    if isinstance(scalar, Seq):
        inner = ", ".join(show(i) for i in scalar.items)
        if scalar.kind == "tuple":
            return f"({inner}{',' if len(scalar.items) == 1 else ''})"
        return f"[{inner}]" if scalar.kind == "list" else f"{{{inner}}}"
    if isinstance(scalar, Map):
        return f"<table of {len(scalar.items)}>"
    if isinstance(scalar, External):
        return scalar.name
    if isinstance(scalar, Function):
        return scalar.qualname
    text = repr(scalar)
    return text if not text.startswith("<") else type(scalar).__name__
