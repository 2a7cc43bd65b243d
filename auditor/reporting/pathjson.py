"""The published JSON of ``audit path`` and its schema, ``reports/schema/path-1.json``."""

from __future__ import annotations

from typing import Any

from auditor.gates.model import VERDICTS
from auditor.gates.path.model import Dossier
from auditor.reporting.published import TARGET, described, indented, report_schema

#: Names the form for good.
SCHEMA_ID = "urn:sglang-auditor:schema:path:1"


def dumps(report: Dossier) -> bytes:
    """The dossier as UTF-8 JSON, indented, with a final newline. The same dossier gives the same bytes."""
    return indented(report, SCHEMA_ID)


def path_schema() -> bytes:
    """The schema (draft 2020-12) as UTF-8 JSON with a final newline, made from the types."""
    return report_schema(Dossier, SCHEMA_ID, "Bring-up dossier", _narrow)


def _narrow(definitions: dict[str, Any]) -> None:
    described(definitions)
    definitions["GateNote"]["properties"]["verdict"]["enum"] = list(VERDICTS)
    definitions["StartOn"]["properties"]["target"].update(TARGET)
    top = definitions["Dossier"]["properties"]
    top["targets"]["items"] = TARGET
    top["reference"].update(TARGET)
