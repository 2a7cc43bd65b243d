"""What a report has to show: findings, and the gates that no finding speaks for, by verdict and area."""

from __future__ import annotations

from dataclasses import dataclass

from auditor.gates.model import VERDICTS, Finding, Gate, Report

#: What each verdict says, for people.
MEANING = {
    "unguarded": "reaches a kernel that was not built for the target",
    "blocked": "raises, asserts or switches off",
    "dead-arm": "an arm for the target that nothing reaches",
    "misgrouped": "the test admits a target that lacks what the arm needs",
    "missed-variant": "a sibling falls out of an exact test",
    "env-forced": "your setting is overwritten",
    "wrong-default": "the default does not suit the target",
    "workaround": "an arm for this family only",
    "fallback": "another arm than {reference}, works",
    "undecided": "depends on what is not known",
    "same": "the same arm as {reference}",
}

#: Glyphs repeat what the heading says: affected, works differently, not known, nothing to see.
GLYPHS = {
    **dict.fromkeys(VERDICTS, "✗"),
    "workaround": "~",
    "fallback": "~",
    "undecided": "?",
    "same": "·",
}
STYLES = {
    **dict.fromkeys(VERDICTS, "bold red"),
    "missed-variant": "bold yellow",
    "env-forced": "bold yellow",
    "wrong-default": "bold yellow",
    "dead-arm": "bold yellow",
    "workaround": "bold cyan",
    "fallback": "bold cyan",
    "undecided": "bold magenta",
    "same": "bold green",
}
_RANK = {verdict: rank for rank, verdict in enumerate(VERDICTS)}
_SEVERITY = {"error": 0, "warning": 1, "note": 2}


@dataclass(frozen=True)
class Item:
    """One line of a report: a finding, its gate, or both."""

    verdict: str  # the worst one
    verdicts: dict[str, str]
    area: str
    path: str
    line: int
    symbol: str
    severity: str
    message: str
    finding: Finding | None
    gate: Gate | None

    @property
    def key(self) -> tuple[object, ...]:
        severity = _SEVERITY.get(self.severity, 3)
        # Files without an area come last, under "other".
        return (self.area == "", self.area, severity, self.path, self.line, self.symbol, self.message)


def shown_targets(report: Report) -> tuple[str, ...]:
    """The targets that get a column: all but the reference, unless it is alone."""
    return tuple(target for target in report.targets if target != report.reference) or report.targets


def worst(verdicts: dict[str, str], targets: tuple[str, ...]) -> str:
    """The worst verdict among some targets; a verdict this version does not know counts as the worst."""
    given = [verdicts[target] for target in targets if target in verdicts]
    return min(given, key=lambda verdict: (_RANK.get(verdict, -1), verdict), default="same")


def items(report: Report) -> list[Item]:
    """Everything worth a line, without the gates that come out the same, unordered between verdicts.

    A query's finding replaces what the generic rules say about the same gate, as it does for ``--fail-on``.
    """
    targets = shown_targets(report)
    gates = {gate.id: gate for gate in report.gates}
    asked = {finding.gate for finding in report.findings if finding.query and finding.gate}
    out = []
    for finding in report.findings:
        if not finding.query and finding.gate in asked:
            continue
        gate = gates.get(finding.gate)
        out.append(
            Item(
                verdict=worst(finding.verdict, targets),
                verdicts=finding.verdict,
                area=finding.area or (gate.area if gate else ""),
                path=finding.path,
                line=finding.line,
                symbol=finding.symbol,
                severity=finding.severity,
                message=finding.message,
                finding=finding,
                gate=gate,
            )
        )
    spoken = {finding.gate for finding in report.findings}
    for gate in report.gates:
        if gate.id not in spoken and gate.scope == "arch":
            item = of_gate(gate, targets)
            if item.verdict != "same":
                out.append(item)
    return sorted(out, key=lambda item: item.key)


def of_gate(gate: Gate, targets: tuple[str, ...]) -> Item:
    """A gate that no finding speaks for; its predicate is the message."""
    return Item(
        verdict=worst(gate.verdict, targets),
        verdicts=gate.verdict,
        area=gate.area,
        path=gate.path,
        line=gate.line,
        symbol=gate.symbol,
        severity="note",
        message="",
        finding=None,
        gate=gate,
    )


def by_verdict(entries: list[Item]) -> list[tuple[str, list[Item]]]:
    """Groups in the order of VERDICTS, worst first, unknown verdicts before all."""
    groups: dict[str, list[Item]] = {}
    for entry in entries:
        groups.setdefault(entry.verdict, []).append(entry)
    return sorted(groups.items(), key=lambda group: (_RANK.get(group[0], -1), group[0]))


def _outcome(gate: Gate, target: str) -> tuple[str, str]:
    reached = gate.reached.get(target, "unknown")
    # Where a point is not reached, the value of its condition makes no difference.
    return (reached, "" if reached == "false" else gate.truth.get(target, "unknown"))


def differing(report: Report, target: str, other: str) -> int:
    """At how many gates two targets take, or may take, another way."""
    return sum(
        _outcome(gate, target) != _outcome(gate, other)
        for gate in report.gates
        if gate.scope == "arch" and target in gate.truth and other in gate.truth
    )


def siblings(report: Report) -> list[tuple[str, str]]:
    """Pairs of shown targets of one family: (sm_121, sm_120)."""
    targets = shown_targets(report)
    return [
        (later, first)
        for first, later in zip(targets, targets[1:], strict=False)
        if first[:-1] == later[:-1] and first != report.reference
    ]
