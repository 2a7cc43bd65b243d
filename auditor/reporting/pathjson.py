"""The published JSON of ``audit path`` and its schema, ``reports/schema/path-1.json``."""

from __future__ import annotations

from typing import Any

import msgspec

from auditor.gates.model import VERDICTS
from auditor.gates.path_model import Dossier

#: Names the form for good.
SCHEMA_ID = "urn:sglang-auditor:schema:path:1"
MAJOR = "1"
_TARGET = {"type": "string", "pattern": "^sm_[0-9]+$"}


def dumps(report: Dossier) -> bytes:
    """The dossier as UTF-8 JSON, indented, with a final newline. The same dossier gives the same bytes."""
    encoder = msgspec.json.Encoder(order="deterministic")
    body = encoder.encode({"$schema": SCHEMA_ID, **_top(report)})
    return msgspec.json.format(body, indent=1) + b"\n"


def _top(report: Dossier) -> dict[str, Any]:
    return {name: getattr(report, name) for name in report.__struct_fields__}


def path_schema() -> bytes:
    """The schema (draft 2020-12) as UTF-8 JSON with a final newline, made from the types."""
    schema = msgspec.json.schema(Dossier)
    definitions: dict[str, Any] = schema["$defs"]
    definitions["GateNote"]["properties"]["verdict"]["enum"] = list(VERDICTS)
    definitions["StartOn"]["properties"]["target"].update(_TARGET)
    for name, definition in definitions.items():
        text = definition.get("description", "")
        definition["description"] = " ".join(text.split()) or name
    top = definitions.pop("Dossier")
    top["properties"] = {"$schema": {"const": SCHEMA_ID}, **top["properties"]}
    top["properties"]["schema_version"]["pattern"] = rf"^{MAJOR}\.[0-9]+$"
    top["properties"]["targets"]["items"] = _TARGET
    top["properties"]["reference"].update(_TARGET)
    top["required"] = ["$schema", *top["required"]]
    whole = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": SCHEMA_ID,
        **top,
        "title": "Bring-up dossier",
        "$defs": dict(sorted(definitions.items())),
    }
    return msgspec.json.format(msgspec.json.encode(whole), indent=2) + b"\n"
