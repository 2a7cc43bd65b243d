"""Deliberate gates: verdicts that somebody looked at, with a reason, evidence and a date of expiry.

A narrow gate can be right. An entry of an exceptions file takes its verdict out of what a report counts,
shows and fails on, and keeps it in the report under ``accepted``. It never outlives what it was written for:
an entry that fits nothing is an error, and one whose version has come is an error too.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated

import msgspec
from packaging.version import Version

from auditor import yamlio
from auditor.errors import UserError
from auditor.gates.model import VERDICTS, Accepted, Finding, Gate, Report, TreeFacts

_Text = Annotated[str, msgspec.Meta(min_length=1)]
_AFTER = re.compile(r"after v?(\d[\w.]*)")


class Exception_(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """One deliberate verdict. It names a gate by id, or what a query found by query and symbol."""

    verdict: _Text
    reason: _Text
    evidence: _Text  # a link, or a path in the repository
    until: _Text  # the first version for which it must be looked at again
    gate: str = ""
    query: str = ""
    symbol: str = ""
    targets: tuple[_Text, ...] = ()  # all where none is named


class _File(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    exceptions: tuple[Exception_, ...]


class Exceptions(msgspec.Struct, frozen=True):
    """A file of exceptions that was read, with the place of each entry for errors."""

    name: str
    entries: tuple[Exception_, ...]
    lines: tuple[int, ...]


def load_exceptions(path: str | Path) -> Exceptions:
    """Read a file of exceptions. UserError H010 for what is not one."""
    document = yamlio.load(path, str(path), code="H010")
    found = document.convert(_File)
    lines = tuple(document.mark("exceptions", number)[0] for number in range(len(found.exceptions)))
    for entry, line in zip(found.exceptions, lines, strict=True):
        fault, hint = _fault(entry)
        if fault:
            raise UserError("H010", fault, place=f"{path}:{line}", hints=[hint])
    return Exceptions(str(path), found.exceptions, lines)


def _fault(entry: Exception_) -> tuple[str, str]:
    if bool(entry.gate) == bool(entry.query):
        return "an exception names a gate, or a query and a symbol", "gate: ID    # as audit -v prints it"
    if entry.query and not entry.symbol:
        return "an exception for a query names the symbol too", "symbol: Class.method"
    if entry.verdict not in VERDICTS:
        return (
            f"unknown verdict {entry.verdict!r}",
            f"verdict: {VERDICTS[0]}    # or {', '.join(VERDICTS[1:9])}",
        )
    try:
        Version(entry.until)
    except ValueError:  # also a number of thousands of digits
        return f"not a version: {entry.until!r}", "until: 0.6.0"
    return "", ""


def apply(report: Report, given: Exceptions) -> Report:
    """The report with the excepted verdicts as ``same``, and what was excepted under ``accepted``.

    UserError H011 for entries that fit nothing or have expired, all of them in one error.
    """
    problems: list[str] = []
    accepted: list[Accepted] = []
    gates = {gate.id: gate for gate in report.gates}
    findings = list(report.findings)
    for entry, line in zip(given.entries, given.lines, strict=True):
        place = f"{given.name}:{line}"
        targets = entry.targets or report.targets
        if expired(entry.until, report.tree):
            problems.append(f"{place}: expired with {entry.until}; look at it again ({_named(entry)})")
            continue
        hit = [
            t for t in targets if t in report.targets and _verdict(entry, t, gates, findings) == entry.verdict
        ]
        if not hit:
            problems.append(f"{place}: fits nothing: {_named(entry)} is not {entry.verdict}")
            continue
        if entry.gate and entry.gate in gates:
            gates[entry.gate] = _without(gates[entry.gate], entry.verdict, hit)
        findings = [_told_without(f, entry, hit) for f in findings]
        accepted.append(
            Accepted(entry.gate, entry.query, entry.symbol, entry.verdict, tuple(hit), entry.reason,
                     entry.evidence, entry.until)
        )  # fmt: skip
    if problems:
        more = f"; and {len(problems) - 1} more: {'; '.join(problems[1:])}" if len(problems) > 1 else ""
        place, _, fact = problems[0].partition(": ")
        raise UserError(
            "H011",
            fact + more,
            place=place,
            hints=["audit sglang -v    # lists gates with their ids and verdicts"],
        )
    return msgspec.structs.replace(
        report,
        gates=tuple(gates[gate.id] for gate in report.gates),
        findings=tuple(f for f in findings if set(f.verdict.values()) != {"same"}),
        accepted=tuple(accepted),
    )


def expired(until: str, tree: TreeFacts) -> bool:
    """Whether a tree is at a version or past it. A commit is past the release that it comes after."""
    known = tree.version or next(iter(_AFTER.findall(tree.describe or "")), "")
    try:
        return bool(known) and Version(known) >= Version(until)
    except ValueError:  # also a number of thousands of digits
        return False


def excepted_gates(given: Exceptions | None) -> frozenset[str]:
    """Ids of the gates that the entries name."""
    return frozenset(entry.gate for entry in given.entries if entry.gate) if given else frozenset()


def _named(entry: Exception_) -> str:
    return f"gate {entry.gate}" if entry.gate else f"{entry.query} in {entry.symbol}"


def _fits(finding: Finding, entry: Exception_) -> bool:
    if entry.gate:
        return finding.gate == entry.gate
    return finding.query == entry.query and finding.symbol == entry.symbol


def _verdict(entry: Exception_, target: str, gates: dict[str, Gate], findings: Iterable[Finding]) -> str:
    told = [f.verdict.get(target, "same") for f in findings if _fits(f, entry)]
    if entry.verdict in told:
        return entry.verdict
    gate = gates.get(entry.gate)
    return gate.verdict.get(target, "same") if gate is not None else "same"


def _without(gate: Gate, verdict: str, targets: Iterable[str]) -> Gate:
    changed = {t: "same" for t in targets if gate.verdict.get(t) == verdict}
    return msgspec.structs.replace(gate, verdict={**gate.verdict, **changed})


def _told_without(finding: Finding, entry: Exception_, targets: Iterable[str]) -> Finding:
    if not _fits(finding, entry):
        return finding
    changed = {t: "same" for t in targets if finding.verdict.get(t) == entry.verdict}
    return msgspec.structs.replace(finding, verdict={**finding.verdict, **changed}) if changed else finding
