"""Shows queries to people: table rows, and one Markdown page per query under fixed headings."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from auditor.queries.examples import title_of
from auditor.queries.model import DEFAULT, FROM, Example, Query, listed

#: The headings of every page, in order. "Known limits" and "References" say so when there is nothing.
HEADINGS = ("What it finds", "Why it matters", "Known limits", "Examples", "References")

_KINDS = {
    "valid": "Reports nothing",
    "invalid": "Reports a finding",
    "unknown": "Not decided",
}


class Row(msgspec.Struct, frozen=True):
    """One line of ``audit query list``."""

    id: str
    severity: str
    verdict: str  # "sm_121 missed-variant"
    title: str
    examples: int


def rows(queries: Iterable[Query]) -> list[Row]:
    """One row a query, in the given order."""
    return [Row(q.id, q.severity, verdict_text(q), q.title, len(q.examples)) for q in queries]


def verdict_text(query: Query) -> str:
    """The verdicts of a query on one line, ``same`` left out."""
    parts = []
    for key, verdict in query.verdict.items():
        if verdict == "same":
            continue
        if key == FROM:
            parts.append("as the gate says")
        elif key == DEFAULT:
            parts.append(f"otherwise {verdict}" if len(query.verdict) > 1 else verdict)
        else:
            parts.append(f"{key} {verdict}")
    return ", ".join(parts)


def render_doc(query: Query) -> str:
    """The Markdown page of a query, ending in a newline."""
    lines = [f"# {query.id}", "", f"{query.title}.", ""]
    lines += [f"Severity {query.severity}; verdict: {verdict_text(query)}.", ""]
    lines += [f"## {HEADINGS[0]}", "", *_finds(query), ""]
    lines += [f"## {HEADINGS[1]}", "", _paragraphs(query.why), ""]
    if query.fix:
        lines += [f"What to do: {_paragraphs(query.fix)}", ""]
    lines += [f"## {HEADINGS[2]}", "", _paragraphs(query.known_limits) or "None known.", ""]
    lines += [f"## {HEADINGS[3]}", ""]
    for index, example in enumerate(query.examples):
        lines += _example(example, index)
    lines += [f"## {HEADINGS[4]}", ""]
    lines += [f"- {reference}" for reference in query.references] or ["None."]
    return "\n".join(lines).rstrip() + "\n"


def _paragraphs(text: str) -> str:
    return "\n\n".join(" ".join(part.split()) for part in text.strip().split("\n\n")) if text.strip() else ""


def _finds(query: Query) -> list[str]:
    lines = ["Message: " + " ".join(query.message.split())]
    if query.match is not None:
        import json

        def shown(part: msgspec.Struct) -> list[str]:
            data = {k: v for k, v in msgspec.to_builtins(part).items() if k != "pattern"}
            return [f"- {key}: `{v if isinstance(v, str) else json.dumps(v)}`" for key, v in data.items()]

        if query.match.gate is not None:
            lines += ["", "A gate where all of this holds:", "", *shown(query.match.gate)]
        if query.match.code is not None:
            code = query.match.code
            place = f", {code.place} that gate:" if query.match.gate else ":"
            lines += ["", f"Code of this structure{place}"]
            for text in listed(code.pattern):
                lines += ["", "```python", text.strip("\n"), "```"]
            details = shown(code)
            lines += ["", *details] if details else []
    if query.plugin:
        lines += ["", f"Decided by code: `{query.plugin}`."]
    if query.absent == "ok":
        lines += ["", "Finding nothing is the normal case."]
    return lines


def _example(example: Example, index: int) -> list[str]:
    if isinstance(example.expect, str):
        outcome = "nothing"
    else:
        outcome = ", ".join(f"{target} {verdict}" for target, verdict in example.expect.items())
    lines = [f"### {title_of(example, index)}", "", f"{_KINDS[example.kind]}: {outcome}.", ""]
    if example.assume:
        lines += ["Assuming " + ", ".join(f"`{k}={v}`" for k, v in sorted(example.assume.items())) + ".", ""]
    files = example.files or {"": example.code or ""}
    for path, text in files.items():
        if path:
            lines += [f"`{path}`:", ""]
        lines += ["```python", text.strip("\n"), "```", ""]
    return lines
