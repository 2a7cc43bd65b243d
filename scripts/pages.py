"""Writes what comes from the tool itself: the published schemas, and pages of the docs site.

    python scripts/pages.py           # write reports/schema/*.json, docs/verbs/*.md and docs/formats/*.md
    python scripts/pages.py --check   # exit 1, with the names, where one is not what it would be

A schema comes from the types of its format, a verb's page is its help, a format's page is its schema.
"""

from __future__ import annotations

import importlib
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from auditor.cli import groups, table  # noqa: E402

WIDTH = 100
#: Every published format and the function that gives its schema.
SCHEMAS = {
    "audit": "auditor.reporting.schema:audit_schema",
    "diff": "auditor.reporting.diffjson:diff_schema",
    "gate": "auditor.patching.kernels.report:gate_schema",
    "history": "auditor.reporting.pastpage:history_schema",
    "kernels": "auditor.reporting.kernelsjson:kernels_schema",
    "patch": "auditor.patching.sets.header:patch_schema",
    "patchset": "auditor.patching.sets.patchset:patchset_schema",
    "path": "auditor.reporting.pathjson:path_schema",
    "query": "auditor.queries.model:query_schema",
}
FORMATS = {
    "query": ("A query file", "A named pattern; how to write one is told in [queries](../queries.md)."),
    "patch": (
        "A patch file",
        "A reference or a list of edits: [patches](../patches.md), [structural edits](../edits.md).",
    ),
    "patchset": ("A patchset", "The file `patchset.yaml`; told in [patches](../patches.md)."),
}
_HEAD = "<!-- written by scripts/pages.py: change the help or the schema, not this page -->\n\n"


def commands() -> Iterator[tuple[list[str], click.Command, click.Context]]:
    """Every verb of both programs and the verbs below them: its words, its command, its context."""

    def below(
        group: click.Group, ctx: click.Context, words: list[str]
    ) -> Iterator[tuple[list[str], click.Command, click.Context]]:
        for name in group.list_commands(ctx):
            command = group.get_command(ctx, name)
            assert command is not None
            inner = click.Context(
                command, info_name=name, parent=ctx, terminal_width=WIDTH, max_content_width=WIDTH
            )
            yield [*words, name], command, inner
            if isinstance(command, click.Group):
                yield from below(command, inner, [*words, name])

    for group in (groups.audit, groups.patches):
        assert group.name is not None
        ctx = click.Context(group, info_name=group.name, terminal_width=WIDTH, max_content_width=WIDTH)
        yield from below(group, ctx, [group.name])


def verb_pages() -> dict[str, str]:
    """``docs/verbs/``: a page a verb (with the verbs below it), and the table of all."""
    pages: dict[str, str] = {}
    rows: dict[str, list[str]] = {"audit": [], "patches": []}
    for words, command, ctx in commands():
        text = command.get_help(ctx).rstrip()
        first, _, rest = text.partition("\n")
        name = " ".join(words)
        body = f"{first}\n\n```text\n$ {name} --help\n{text}\n```\n"
        if len(words) == 2:
            path = f"docs/verbs/{'-'.join(words)}.md"
            pages[path] = f"{_HEAD}# {name}\n\n{body}"
            rows[words[0]].append(f"| [{name}]({'-'.join(words)}.md) | {first} |")
        else:
            path = f"docs/verbs/{'-'.join(words[:2])}.md"
            pages[path] += f"\n## {name}\n\n{body}"
    out = [_HEAD, "# Verbs\n\nWhich question each one answers. Every page is what `--help` prints.\n"]
    for program in (table.AUDIT, table.PATCHES):
        out += [f"\n## {program.name}\n\n{program.question}\n\n| verb | question |\n| --- | --- |\n"]
        out += [f"{row}\n" for row in rows[program.name]]
    pages["docs/verbs/index.md"] = "".join(out)
    return pages


def _kind(schema: dict[str, Any]) -> str:
    """What a value may be, in few words."""
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        return f"[{name}](#{name.lower()})"
    if "enum" in schema:
        return ", ".join(f"`{json.dumps(word) if word is None else word}`" for word in schema["enum"])
    if "const" in schema:
        return f"`{schema['const']}`"
    if "anyOf" in schema:
        parts = [_kind(one) for one in schema["anyOf"] if one.get("type") != "null"]
        return " or ".join(dict.fromkeys(parts))
    kind = schema.get("type", "any value")
    if kind == "array":
        return f"list of {_kind(schema['items'])}" if "items" in schema else "list"
    if kind == "object":
        inner = schema.get("additionalProperties")
        return f"mapping to {_kind(inner)}" if isinstance(inner, dict) else "mapping"
    words = {"string": "text", "integer": "whole number", "boolean": "true or false", "number": "number"}
    text = words.get(kind, str(kind))
    return f"{text} (not empty)" if kind == "string" and schema.get("minLength") else text


def _default(schema: dict[str, Any]) -> str:
    if "default" not in schema or schema["default"] in (None, "", [], {}):
        return ""
    return f"`{json.dumps(schema['default'])}`"


def _fields(definition: dict[str, Any]) -> str:
    needed = definition.get("required", [])
    rows = ["| field | value | default |\n| --- | --- | --- |\n"]
    for name, schema in definition.get("properties", {}).items():
        mark = "**needed**" if name in needed else _default(schema)
        told = f"; {schema['description']}" if schema.get("description") else ""
        cell = f"{_kind(schema)}{told}".replace("|", "\\|").replace("\n", " ")
        rows.append(f"| `{name}` | {cell} | {mark} |\n")
    return "".join(rows)


def schema(name: str) -> str:
    """The schema of a format, as it is committed."""
    module, _, function = SCHEMAS[name].partition(":")
    made: bytes = getattr(importlib.import_module(module), function)()
    return made.decode()


def format_pages() -> dict[str, str]:
    """``docs/formats/``: a page a format that people write."""
    pages = {}
    for name, (title, told) in FORMATS.items():
        schema_of = json.loads(schema(name))
        parts = dict(schema_of["$defs"])
        top = parts.pop(schema_of["$ref"].rpartition("/")[2]) if "$ref" in schema_of else schema_of
        out = [_HEAD, f"# {title}\n\n{told} The schema is `reports/schema/{name}-1.json`.\n"]
        if top.get("description"):
            out.append(f"\n{_plain(top['description'])}\n")
        out.append(f"\n{_fields(top)}")
        for part, definition in parts.items():
            if "properties" not in definition:
                continue
            out.append(f"\n## {part}\n\n")
            if definition.get("description"):
                out.append(f"{_plain(definition['description'])}\n\n")
            out.append(_fields(definition))
        pages[f"docs/formats/{name}.md"] = "".join(out)
    return pages


def _plain(text: str) -> str:
    """A docstring as Markdown: double backticks become single ones."""
    return " ".join(text.replace("``", "`").split())


def main(arguments: list[str]) -> int:
    """Write or check; 1 where a page is missing, stale or left over."""
    pages = verb_pages() | format_pages()
    pages |= {f"reports/schema/{name}-1.json": schema(name) for name in SCHEMAS}

    there = {
        path.relative_to(ROOT).as_posix()
        for part in ("docs/verbs/*.md", "docs/formats/*.md", "reports/schema/*.json")
        for path in ROOT.glob(part)
    }
    stale = sorted(
        name for name, text in pages.items() if name not in there or (ROOT / name).read_text("utf-8") != text
    )
    extra = sorted(there - set(pages))
    if "--check" in arguments:
        for name in [*stale, *extra]:
            print(f"stale  {name}; python scripts/pages.py")
        return 1 if stale or extra else 0
    for name in stale:
        path = ROOT / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(pages[name], "utf-8")
        print(name)
    for name in extra:
        (ROOT / name).unlink()
        print(f"removed {name}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
