"""What the published JSON of every verb has in common: its two layouts, and the wrapping of its schema.

A schema's name (``urn:sglang-auditor:schema:audit:1``) ends in the major version; a copy of each lies in
``reports/schema``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import msgspec

#: The schema of the name of a target.
TARGET = {"type": "string", "pattern": "^sm_[0-9]+$"}


def line_by_line(report: msgspec.Struct, schema_id: str, lists: Mapping[str, Iterable[Any]]) -> bytes:
    """UTF-8 JSON with a final newline: a field a line, and an entry a line of the fields in ``lists``."""
    encode = msgspec.json.Encoder(order="deterministic").encode
    out = [b'{\n"$schema":' + encode(schema_id)]
    for name in report.__struct_fields__:
        if name in lists:
            lines = b",\n".join(encode(item) for item in lists[name])
            value = b"[\n" + lines + b"\n]" if lines else b"[]"
        else:
            value = encode(getattr(report, name))
        out.append(b',\n"' + name.encode() + b'":' + value)
    out.append(b"\n}\n")
    return b"".join(out)


def indented(report: msgspec.Struct, schema_id: str) -> bytes:
    """UTF-8 JSON, indented, with a final newline. The same report gives the same bytes."""
    top = {name: getattr(report, name) for name in report.__struct_fields__}
    body = msgspec.json.encode({"$schema": schema_id, **top}, order="deterministic")
    return msgspec.json.format(body, indent=1) + b"\n"


def described(definitions: dict[str, Any]) -> None:
    """Give every definition a description of one line: its docstring, else its name."""
    for name, definition in definitions.items():
        definition["description"] = " ".join(definition.get("description", "").split()) or name


def report_schema(
    report: type[msgspec.Struct], schema_id: str, title: str, narrow: Callable[[dict[str, Any]], None]
) -> bytes:
    """The schema of a report whose JSON names it in ``$schema``.

    ``narrow`` is given the definitions by name, to say in them what the types do not.
    """
    definitions: dict[str, Any] = msgspec.json.schema(report)["$defs"]
    narrow(definitions)
    top = definitions[report.__name__]
    top["properties"] = {"$schema": {"const": schema_id}, **top["properties"]}
    top["properties"]["schema_version"]["pattern"] = rf"^{schema_id.rpartition(':')[2]}\.[0-9]+$"
    top["required"] = ["$schema", *top["required"]]
    return schema_bytes(definitions, report.__name__, schema_id, title)


def schema_bytes(definitions: dict[str, Any], top: str, identity: str, title: str) -> bytes:
    """A schema (draft 2020-12) as UTF-8 JSON with a final newline: the definition ``top`` with the others."""
    whole = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": identity,
        **definitions[top],
        "title": title,
        "$defs": {name: definitions[name] for name in sorted(definitions) if name != top},
    }
    return msgspec.json.format(msgspec.json.encode(whole), indent=2) + b"\n"
