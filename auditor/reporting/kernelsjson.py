"""The published JSON of ``audit kernels`` and its schema, ``reports/schema/kernels-1.json``."""

from __future__ import annotations

from typing import Any

import msgspec

from auditor.native.model import OUTCOMES, Availability

#: Names the form for good.
SCHEMA_ID = "urn:sglang-auditor:schema:kernels:1"
MAJOR = "1"
_TARGET = {"type": "string", "pattern": "^sm_[0-9]+$"}


def dumps(found: Availability) -> bytes:
    """The map as UTF-8 JSON, indented, with a final newline. The same map gives the same bytes."""
    encoder = msgspec.json.Encoder(order="deterministic")
    top: dict[str, Any] = {name: getattr(found, name) for name in found.__struct_fields__}
    return msgspec.json.format(encoder.encode({"$schema": SCHEMA_ID, **top}), indent=1) + b"\n"


def kernels_schema() -> bytes:
    """The schema (draft 2020-12) as UTF-8 JSON with a final newline, made from the types."""
    schema = msgspec.json.schema(Availability)
    definitions: dict[str, Any] = schema["$defs"]
    definitions["Cell"]["properties"]["outcome"]["enum"] = list(OUTCOMES)
    definitions["Row"]["properties"]["cells"]["propertyNames"] = _TARGET
    for name, definition in definitions.items():
        definition["description"] = " ".join(definition.get("description", "").split()) or name
    top = definitions.pop("Availability")
    top["properties"] = {"$schema": {"const": SCHEMA_ID}, **top["properties"]}
    top["properties"]["schema_version"]["pattern"] = rf"^{MAJOR}\.[0-9]+$"
    top["properties"]["targets"]["items"] = _TARGET
    top["required"] = ["$schema", *top["required"]]
    whole = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": SCHEMA_ID,
        **top,
        "title": "Map of kernels",
        "$defs": dict(sorted(definitions.items())),
    }
    return msgspec.json.format(msgspec.json.encode(whole), indent=2) + b"\n"
