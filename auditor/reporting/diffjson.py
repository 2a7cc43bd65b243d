"""The published JSON of ``audit diff`` and its schema, ``reports/schema/diff-1.json``."""

from __future__ import annotations

from typing import Any

import msgspec

from auditor.history.model import KINDS, Diff

#: Names the form for good.
SCHEMA_ID = "urn:sglang-auditor:schema:diff:1"
MAJOR = "1"


def dumps(diff: Diff) -> bytes:
    """The comparison as UTF-8 JSON, one change a line, with a final newline."""
    encode = msgspec.json.Encoder(order="deterministic").encode
    out = [b'{\n"$schema":' + encode(SCHEMA_ID)]
    for name in Diff.__struct_fields__:
        value = getattr(diff, name)
        lines = b",\n".join(encode(item) for item in value) if name == "changes" else b""
        out.append(b',\n"' + name.encode() + b'":' + (b"[\n" + lines + b"\n]" if lines else encode(value)))
    out.append(b"\n}\n")
    return b"".join(out)


def diff_schema() -> bytes:
    """The schema (draft 2020-12) as UTF-8 JSON with a final newline, made from the types."""
    schema = msgspec.json.schema(Diff)
    definitions: dict[str, Any] = schema["$defs"]
    definitions["Change"]["properties"]["kind"]["enum"] = list(KINDS)
    for name, definition in definitions.items():
        definition["description"] = " ".join(definition.get("description", "").split()) or name
    top = definitions.pop("Diff")
    top["properties"] = {"$schema": {"const": SCHEMA_ID}, **top["properties"]}
    top["properties"]["schema_version"]["pattern"] = rf"^{MAJOR}\.[0-9]+$"
    top["required"] = ["$schema", *top["required"]]
    whole = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": SCHEMA_ID,
        **top,
        "title": "What changed between two audits",
        "$defs": dict(sorted(definitions.items())),
    }
    return msgspec.json.format(msgspec.json.encode(whole), indent=2) + b"\n"
