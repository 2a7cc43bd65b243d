"""The published JSON of ``audit diff`` and its schema, ``reports/schema/diff-1.json``."""

from __future__ import annotations

from typing import Any

from auditor.history.model import KINDS, Diff
from auditor.reporting.published import described, line_by_line, report_schema

#: Names the form for good.
SCHEMA_ID = "urn:sglang-auditor:schema:diff:1"


def dumps(diff: Diff) -> bytes:
    """The comparison as UTF-8 JSON, one change a line, with a final newline."""
    return line_by_line(diff, SCHEMA_ID, {"changes": diff.changes})


def diff_schema() -> bytes:
    """The schema (draft 2020-12) as UTF-8 JSON with a final newline, made from the types."""
    return report_schema(Diff, SCHEMA_ID, "What changed between two audits", _narrow)


def _narrow(definitions: dict[str, Any]) -> None:
    described(definitions)
    definitions["Change"]["properties"]["kind"]["enum"] = list(KINDS)
