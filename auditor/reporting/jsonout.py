"""The published JSON of an audit. Its form is ``reports/schema/audit-1.json``.

One entry a line, so that two reports can be compared with ``diff`` and searched with ``grep``. Same report,
same bytes: every list is sorted here, by place first, whatever order it was found in.
"""

from __future__ import annotations

from typing import Any

from auditor.errors import UserError, sentence_of
from auditor.gates.model import Finding, Gate, Predicate, Problem, Report, check_whole
from auditor.readback import Damaged, from_json
from auditor.reporting.published import line_by_line

#: Names the form for good; a copy of the schema is shipped as ``reports/schema/audit-1.json``.
SCHEMA_ID = "urn:sglang-auditor:schema:audit:1"
MAJOR = SCHEMA_ID.rpartition(":")[2]


def predicate_key(item: Predicate) -> tuple[Any, ...]:
    """The place of a predicate in the order of a report."""
    return (item.path, item.line, item.name, item.kind)


def gate_key(item: Gate) -> tuple[Any, ...]:
    """The place of a gate in the order of a report."""
    return (item.path, item.line, item.end_line, item.kind, item.predicate, item.id)


def finding_key(item: Finding) -> tuple[Any, ...]:
    """The place of a finding in the order of a report."""
    return (item.path, item.line, item.query, item.gate, item.symbol, item.message)


def problem_key(item: Problem) -> tuple[Any, ...]:
    """The place of a problem in the order of a report."""
    return (item.path, item.line, item.message)


_SORT: dict[str, Any] = {
    "predicates": predicate_key,
    "gates": gate_key,
    "findings": finding_key,
    "problems": problem_key,
}


def dumps(report: Report) -> bytes:
    """The report as UTF-8 JSON with a final newline."""
    lists = {name: sorted(getattr(report, name), key=key) for name, key in _SORT.items()}
    return line_by_line(report, SCHEMA_ID, lists)


def loads(data: bytes, name: str) -> Report:
    """A report read back; ``name`` is what errors call it.

    Fields that a later minor version added are ignored. UserError U013 for what is not a report and for
    another major version.
    """
    try:
        report = from_json(data, Report)
    except Damaged as exc:
        fact = f"not an audit report: {sentence_of(exc)}"
        hints = [f"write one with: audit PROJECT --format json --output {name}"]
        raise UserError("U013", fact, place=name, hints=hints) from None
    check_whole(report, name, "U013")
    if report.schema_version.partition(".")[0] != MAJOR:
        fact = f"schema version {report.schema_version}, this tool reads {MAJOR}.x"
        hints = [f"write it again with: audit {report.project} --format json --output {name}"]
        raise UserError("U013", fact, place=name, hints=hints)
    return report
