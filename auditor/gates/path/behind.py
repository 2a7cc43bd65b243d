"""What a start will meet behind a choice: gates and findings of the classes that it comes to use."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from auditor.gates.model import VERDICTS, Finding, Gate
from auditor.gates.path.model import GateNote, Outcome, Place
from auditor.gates.path.reach import Reach
from auditor.profile import Profile
from auditor.program.values import ClassRef, Function

#: Kinds of gates at which control parts; the others only hand a value on.
_PARTING = ("if", "elif", "ifexp", "while", "assert", "match", "table")
_EFFECTS = 4


class Behind:
    """The files behind an outcome, and what is to be said about the gates in them."""

    def __init__(
        self,
        program: Any,
        profile: Profile,
        target: str,
        gates: Iterable[Gate],
        findings: list[Finding],
    ) -> None:
        self.program = program
        self.profile = profile
        self.target = target
        self.gates = {gate.id: gate for gate in gates}
        self.findings = findings
        self.reach = Reach(program, profile)
        self.asked = {f.gate for f in findings if f.query and f.gate}

    def notes(
        self,
        outcomes: tuple[Outcome, ...],
        areas: tuple[str, ...],
        parts: set[tuple[str, str]] | None = None,
    ) -> tuple[int, tuple[GateNote, ...]]:
        """In how many files code lies behind the outcomes, and its gates that go their own way.

        Findings of queries come first, then gates by how near they are to the classes, then by verdict.
        """
        starts = {place for outcome in outcomes for place in self.bases(outcome)} | (parts or set())
        reached = self.reach.behind(sorted(starts), areas)
        near: dict[str, int] = {}
        for (path, _name), hops in reached.items():
            near[path] = min(near.get(path, hops), hops)
        out: list[tuple[int, GateNote]] = []
        for finding in self.findings:
            if not finding.query and finding.gate in self.asked:
                continue
            top = finding.symbol.partition(".")[0]
            hop = reached.get((finding.path, top)) if top else near.get(finding.path)
            gate = self.gates.get(finding.gate)
            if hop is None or (gate is not None and gate.reached.get(self.target) == "false"):
                continue
            if not finding.query and (gate is None or gate.kind not in _PARTING):
                continue
            out.append((hop, self.note(finding, gate)))
        out.sort(
            key=lambda entry: (
                not entry[1].query,
                entry[0] > 0,
                _rank(entry[1].verdict),
                entry[0],
                entry[1].place.path,
                entry[1].place.line,
                entry[1].query,
            )
        )
        return len(near), tuple(note for _hops, note in out)

    def bases(self, outcome: Outcome) -> list[tuple[str, str]]:
        """The class of an outcome and the classes it derives from, by file and name."""
        if outcome.place is None:
            return []
        here = (outcome.place.path, outcome.place.symbol.partition(".")[0])
        module = self.program.module(self.program.paths.get(here[0], ""))
        value = self.program.global_value(module, here[1]) if module is not None else None
        if value is None or not isinstance(value.one, ClassRef):
            return [here]
        return [here, *((info.module.path, info.name) for info in value.one.info.mro())]

    def note(self, finding: Finding, gate: Gate | None) -> GateNote:
        truth = gate.truth.get(self.target) if gate is not None else None
        does: tuple[str, ...] = ()
        if gate is not None:
            for arm in gate.arms:
                if arm.when == truth:
                    does = tuple(
                        f"{effect.kind} {effect.what}"
                        for effect in arm.effects[:_EFFECTS]
                        if effect.kind in ("call", "raise", "set", "return", "import")
                    )
        return GateNote(
            gate=finding.gate,
            verdict=finding.verdict[self.target],
            place=Place(finding.path, finding.line, finding.symbol),
            test=gate.predicate if gate is not None else "",
            truth=truth,
            does=does,
            query=finding.query,
            message=finding.message if finding.query else "",
            detail=finding.detail if finding.query else (),
            fix=finding.fix,
            area=finding.area,
        )


def _rank(verdict: str) -> int:
    return VERDICTS.index(verdict) if verdict in VERDICTS else -1


def function_place(function: Function) -> Place:
    """Where a function of the tree begins."""
    node: Any = function.segment.node()
    return Place(function.module.path, node.lineno, function.qualname)
