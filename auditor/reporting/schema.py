"""The JSON Schema of an audit report, made from the types that the report is made of.

The committed copy is ``reports/schema/audit-1.json``; a test compares the two.
"""

from __future__ import annotations

from typing import Any

from auditor.gates.model import VERDICTS, Report
from auditor.reporting.jsonout import SCHEMA_ID
from auditor.reporting.published import TARGET, report_schema

_TEXTS: dict[str, dict[str, str]] = {
    "Report": {
        "schema_version": "MAJOR.MINOR. A minor version only adds fields.",
        "tool": "Name and version of the program that wrote the report.",
        "project": "Name of the profile of the audited project.",
        "targets": "The targets that verdicts are given for, in the order asked for.",
        "reference": "The target that the others are compared with.",
        "assumptions": "What was taken as given; everything else is unknown.",
        "stats": "Counts: files, gates and the like.",
    },
    "Gate": {
        "id": "Structural: does not change when lines move.",
        "scope": "arch: capability, device properties or CUDA's version decide; platform: the vendor does.",
        "via": "Helpers, aliases and attributes that the condition reads directly.",
        "roots": "The calls and attributes through which the GPU is asked in the end.",
        "predicate": "Canonical text of the condition.",
        "truth": "Value of the condition itself for each target.",
        "reached": "Whether the point is reached at all for each target.",
        "unknown_because": "What an unknown value depends on.",
        "verdict": "What the gate means for each target.",
        "area": "Part of the project, from the profile.",
    },
    "Predicate": {
        "name": "Qualified name of the helper, constant or attribute.",
        "value": "Value for each target where it is not true or false, as Python writes it.",
        "read_by": "How many gates read it, directly or through others.",
    },
    "Finding": {
        "query": "Id of the query, or empty for a finding of the generic rules.",
        "gate": "Id of the gate, or empty where the match is not a gate.",
    },
    "TreeFacts": {
        "content_id": "Git tree id of a commit, otherwise a digest over paths and blob ids.",
    },
}
_ENUMS: dict[tuple[str, str], list[str]] = {
    ("Gate", "scope"): ["arch", "platform"],
    ("Finding", "severity"): ["error", "warning", "note"],
}


def audit_schema() -> bytes:
    """The schema (draft 2020-12) as UTF-8 JSON with a final newline."""
    return report_schema(Report, SCHEMA_ID, "Audit report", _narrow)


def _narrow(definitions: dict[str, Any]) -> None:
    for name, definition in definitions.items():
        properties = definition["properties"]
        for field, text in _TEXTS.get(name, {}).items():
            properties[field]["description"] = text
        for field, spec in properties.items():
            if (name, field) in _ENUMS:
                spec["enum"] = _ENUMS[name, field]
            if field in ("truth", "reached", "verdict"):
                spec["propertyNames"] = TARGET
            if field == "verdict":
                spec["additionalProperties"] = {"enum": list(VERDICTS)}
    top = definitions["Report"]["properties"]
    top["targets"]["items"] = TARGET
    top["reference"].update(TARGET)
