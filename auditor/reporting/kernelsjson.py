"""The published JSON of ``audit kernels`` and its schema, ``reports/schema/kernels-1.json``."""

from __future__ import annotations

from typing import Any

from auditor.native.model import OUTCOMES, Availability
from auditor.reporting.published import TARGET, described, indented, report_schema

#: Names the form for good.
SCHEMA_ID = "urn:sglang-auditor:schema:kernels:1"


def dumps(found: Availability) -> bytes:
    """The map as UTF-8 JSON, indented, with a final newline. The same map gives the same bytes."""
    return indented(found, SCHEMA_ID)


def kernels_schema() -> bytes:
    """The schema (draft 2020-12) as UTF-8 JSON with a final newline, made from the types."""
    return report_schema(Availability, SCHEMA_ID, "Map of kernels", _narrow)


def _narrow(definitions: dict[str, Any]) -> None:
    described(definitions)
    definitions["Cell"]["properties"]["outcome"]["enum"] = list(OUTCOMES)
    definitions["Row"]["properties"]["cells"]["propertyNames"] = TARGET
    definitions["Availability"]["properties"]["targets"]["items"] = TARGET
