"""The map of kernels as one self-contained HTML page: nothing is fetched, everything can be filtered.

Text of the audited tree is escaped wherever it stands; the page's own script reads no text as markup.
"""

from __future__ import annotations

from html import escape

from auditor.native.model import Availability, Cell, Row
from auditor.reporting.kernels import GLYPHS, MEANING, counted
from auditor.reporting.text import clean

_STYLE = """
:root { color-scheme: light dark; --line: #8884; --good: light-dark(#1a7f37, #3fb950);
  --bad: light-dark(#cf222e, #ff7b72); --odd: light-dark(#9a6700, #e3b341); }
body { font: 15px/1.4 system-ui, sans-serif; margin: 1rem auto; max-width: 80rem; padding: 0 1rem; }
header p { margin: .2rem 0; } form { display: flex; flex-wrap: wrap; gap: .6rem; margin: 1rem 0; }
table { border-collapse: collapse; width: 100%; }
th, td { border-bottom: 1px solid var(--line); padding: .25rem .5rem; }
th { text-align: left; } td.cell, th.cell { text-align: center; width: 3.2rem; }
td.runs { color: var(--good); } td.raises, td.not-built { color: var(--bad); font-weight: bold; }
td.falls-through, td.unknown { color: var(--odd); } summary { cursor: pointer; overflow-wrap: anywhere; }
ol { margin: .3rem 0 .6rem 1rem; padding-left: 1rem; } code { overflow-wrap: anywhere; }
td { vertical-align: top; }
@media (max-width: 40rem) {
  thead { display: none; }
  tr:not([hidden]) { display: flex; flex-wrap: wrap; border-bottom: 1px solid var(--line); }
  td { border: 0; flex: 1 0 100%; } td.cell { flex: 0 0 auto; width: auto; }
  td.cell::before { content: attr(data-target) " "; color: #888; font-weight: normal; }
}
"""
_SCRIPT = """
const form = document.forms[0], rows = [...document.querySelectorAll("tbody tr")];
function show() {
  const text = form.text.value.toLowerCase(), kind = form.kind.value;
  const way = form.way.value, on = form.on.value;
  let left = 0;
  for (const row of rows) {
    const ways = row.dataset.ways.split(" "), at = on === "" ? ways : [ways[on]];
    const fits = row.dataset.text.includes(text) && (!kind || row.dataset.kind === kind)
      && (!way || at.includes(way));
    row.hidden = !fits; left += fits;
  }
  document.getElementById("left").textContent = left + " of " + rows.length;
}
form.addEventListener("input", show); form.addEventListener("submit", e => e.preventDefault()); show();
if (location.hash) { const row = document.getElementById(decodeURIComponent(location.hash.slice(1)));
  if (row) { row.querySelector("details").open = true; row.scrollIntoView(); } }
"""


def page(found: Availability) -> bytes:
    """The page as UTF-8. The same map gives the same bytes."""
    facts = found.tree
    title = f"{found.project} {facts.label}" if facts is not None else found.project
    given = ", ".join(f"{key}={value}" for key, value in found.assumptions.items())
    kinds = sorted({row.kind for row in found.rows})
    head = "".join(f'<th class="cell" scope="col">{_text(t.removeprefix("sm_"))}</th>' for t in found.targets)
    legend = " · ".join(f"{GLYPHS[way]} {_text(way)}: {_text(MEANING[way])}" for way in GLYPHS)
    out = [
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        f"<title>kernels of {_text(title)}</title><style>{_STYLE}</style></head><body>",
        f"<header><h1>Kernels of {_text(title)}</h1>",
        *(f"<p>{_text(words)}</p>" for words in counted(found.stats)),
        f"<p>{_text(given)}</p>",
        f"<p>{legend}</p></header>",
        "<form>",
        '<label>text <input name="text" type="search"></label>',
        f'<label>kind <select name="kind"><option value="">all</option>{_options(kinds)}</select></label>',
        f'<label>outcome <select name="way"><option value="">all</option>{_options(GLYPHS)}</select></label>',
        '<label>on <select name="on"><option value="">any target</option>'
        + "".join(f'<option value="{at}">{_text(t)}</option>' for at, t in enumerate(found.targets))
        + "</select></label>",
        '<output id="left"></output></form>',
        f'<table><thead><tr><th scope="col">operator</th>{head}</tr></thead><tbody>',
        *(_row(row, found) for row in found.rows),
        f"</tbody></table>{_problems(found)}<script>{_SCRIPT}</script></body></html>\n",
    ]
    return "\n".join(out).encode("utf-8", "backslashreplace")


def _text(text: str) -> str:
    return escape(clean(text))


def _options(names: object) -> str:
    return "".join(f"<option>{_text(str(name))}</option>" for name in names)  # type: ignore[attr-defined]


def _row(row: Row, found: Availability) -> str:
    cells = [row.cells.get(target, Cell("unknown")) for target in found.targets]
    ways = " ".join(cell.outcome for cell in cells)
    marks = "".join(
        f'<td class="cell {_text(cell.outcome)}" data-target="{_text(target.removeprefix("sm_"))}" '
        f'title="{_text(cell.outcome)}: {_text(cell.reason)}">{GLYPHS.get(cell.outcome, "?")}</td>'
        for target, cell in zip(found.targets, cells)
    )
    words = " ".join([row.name, row.path, row.function, *(cell.reason for cell in cells)]).lower()
    return (
        f'<tr id="{_text(row.name)}" data-kind="{_text(row.kind)}" data-ways="{_text(ways)}" '
        f'data-text="{_text(words)}"><td><details><summary>{_text(row.name)}</summary>{_proofs(row, found)}'
        f"</details></td>{marks}</tr>"
    )


def _proofs(row: Row, found: Availability) -> str:
    """The proofs, one list for targets with the same one."""
    groups: dict[Cell, list[str]] = {}
    for target in found.targets:
        cell = row.cells.get(target)
        if cell is not None:
            groups.setdefault(cell, []).append(target)
    out = [f"<p><code>{_text(row.path)}:{row.line}</code> {_text(row.schema)}</p>"]
    for cell, names in groups.items():
        steps = "".join(
            f"<li>{_text(step.text)}" + (f" <code>{_text(step.path)}:{step.line}</code>" if step.path else "")
            for step in cell.proof
        )
        reason = f": {_text(cell.reason)}" if cell.reason else ""
        out.append(f"<p>{_text(' '.join(names))} {_text(cell.outcome)}{reason}</p><ol>{steps}</ol>")
    return "".join(out)


def _problems(found: Availability) -> str:
    lines = [f"{p.path}:{p.line} {p.message}" for p in (*found.problems, *found.unread)]
    if not lines:
        return ""
    return f"<h2>Not read</h2><ul>{''.join(f'<li>{_text(line)}</li>' for line in lines)}</ul>"
