"""The map of kernels as one self-contained HTML page: kernels and targets to filter, sort and open."""

from __future__ import annotations

from typing import Any

from auditor.native.model import Availability, Cell, Row
from auditor.reporting.html.document import Texts, document, repository, text
from auditor.reporting.kernels import GLYPHS, KINDS, MEANING, counted

_UNKNOWN = Cell("unknown")


def page(found: Availability, *, url: str = "") -> bytes:
    """The page as UTF-8. The same map gives the same bytes. ``url``: the public repository, for links."""
    label = f"{found.project} {found.tree.label}" if found.tree is not None else found.project
    given = ", ".join(f"{key}={value}" for key, value in found.assumptions.items())
    return document(
        f"Kernels of {label}",
        [*counted(found.stats), given],
        facts=_facts(found, url),
        scripts=("page.js", "kernels.js"),
        above=_unread(found),
    )


def _facts(found: Availability, url: str) -> dict[str, Any]:
    texts = Texts()
    outcomes = {cell.outcome: "" for row in found.rows for cell in row.cells.values()}
    known = [[name, GLYPHS[name], MEANING[name]] for name in GLYPHS]
    return {
        "shown": list(found.targets),
        "outcomes": [*known, *([name, "?", ""] for name in outcomes if name not in GLYPHS)],
        "kinds": list(KINDS.items()),
        "rows": [_row(row, found, texts) for row in found.rows],
        "upstream": repository(url),
        "tree": (found.tree.commit or "") if found.tree is not None else "",
        "texts": texts.all,
    }


def _row(row: Row, found: Availability, texts: Texts) -> dict[str, Any]:
    out: dict[str, Any] = {
        "n": texts(row.name),
        "y": row.kind,
        "p": texts(row.path),
        "l": row.line,
        "o": [row.cells.get(target, _UNKNOWN).outcome for target in found.targets],
    }
    for key, words in (("s", row.schema), ("f", row.function), ("a", row.area)):
        if words:
            out[key] = texts(words)
    if row.wrappers:
        out["w"] = texts.many(row.wrappers)
    groups: dict[Cell, list[str]] = {}
    for target in found.targets:
        if target in row.cells:
            groups.setdefault(row.cells[target], []).append(target)
    # one proof for the targets that share it
    out["c"] = [
        [
            names,
            cell.outcome,
            texts(cell.reason),
            [[texts(step.text), texts(step.path), step.line] for step in cell.proof],
        ]
        for cell, names in groups.items()
    ]
    return out


def _unread(found: Availability) -> str:
    lines = [f"{p.path}:{p.line} {p.message}" for p in (*found.problems, *found.unread)]
    if not lines:
        return ""
    listed = "".join(f"<li>{text(line)}</li>" for line in lines)
    places = f"{len(lines):,} {'place' if len(lines) == 1 else 'places'}"
    return f'<details class="more"><summary>not read: {places}</summary><ul>{listed}</ul></details>'
