"""JSON answers of the verbs that show a part of a report."""

from __future__ import annotations

from typing import Any

import msgspec

from auditor.gates.model import Report


def head(report: Report) -> dict[str, Any]:
    """What every JSON answer starts with: which tool, tree, targets and assumptions."""
    return {
        "schema_version": report.schema_version,
        "tool": report.tool,
        "project": report.project,
        "tree": msgspec.to_builtins(report.tree),
        "targets": report.targets,
        "reference": report.reference,
        "assumptions": report.assumptions,
    }


def encode(data: Any) -> bytes:
    """JSON with sorted keys, two blanks of indent and a newline at the end: the same bytes each time."""
    return msgspec.json.format(msgspec.json.encode(data, order="sorted"), indent=2) + b"\n"
