"""A trend in a terminal, as JSON, as one self-contained HTML page with a drawing, and as a picture."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import TYPE_CHECKING

import msgspec

from auditor.errors import UserError
from auditor.history.sweeping.trend import Trend, facts

if TYPE_CHECKING:
    from rich.console import Console

#: Colours that differ for most colour-blind readers too, and dashes that differ without any.
_COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#999999")
_DASHES = ("", "7 4", "2 3", "9 3 2 3", "12 4", "4 2", "1 5")
_WIDTH, _HEIGHT = 860, 300
_LEFT, _RIGHT, _TOP, _BOTTOM = 52, 12, 12, 34
_POLICY = "default-src 'none'; style-src 'unsafe-inline'"
_STYLE = """
:root { color-scheme: light dark; --line: #8884; }
body { font: 15px/1.45 system-ui, sans-serif; margin: 1rem auto; max-width: 60rem; padding: 0 1rem; }
header p { margin: .2rem 0; } figure { margin: 1.2rem 0; } svg { width: 100%; height: auto; }
svg text { font: 12px system-ui, sans-serif; fill: currentColor; }
.axis { stroke: var(--line); } polyline { fill: none; stroke-width: 2; }
.wide { overflow-x: auto; } table { border-collapse: collapse; } caption { text-align: left; }
th, td { border-bottom: 1px solid var(--line); padding: .2rem .6rem; }
th, td { text-align: right; white-space: nowrap; }
th:first-child, td:first-child, td.commit { text-align: left; }
.key { margin-right: 1rem; white-space: nowrap; }
"""


def dumps(found: Trend) -> bytes:
    """The trend as JSON."""
    return msgspec.json.format(msgspec.json.encode(facts(found), order="deterministic"), indent=2) + b"\n"


def lines_above(found: Trend) -> list[str]:
    """What a trend is of, in words."""
    head, setup = found.head, found.head.setup
    between = f"{head.first[:9] or 'the first commit'}..{head.last[:9]}"
    seen = f"{found.swept:,} of {head.commits:,}" if found.swept < head.commits else f"{head.commits:,}"
    out = [
        f"{setup.project} {between}: {seen} commits, by {found.by}",
        f"level {setup.level}, against {setup.reference}, CUDA {setup.cuda}",
    ]
    if found.missing:
        out.append(f"{found.missing:,} commits have no figures: the project is not in their trees")
    if found.unreadable:
        out.append(f"up to {found.unreadable:,} files of a commit do not parse: their gates are not counted")
    return out


def render(found: Trend, console: Console, *, quiet: bool = False) -> None:
    """A table, a row a stretch: gates, then per target what is counted, then what happened to gates."""
    if not quiet:
        for line in lines_above(found):
            console.print(line, highlight=False, markup=False)
        if found.head.blind:
            console.print("it cannot see: " + "; ".join(found.head.blind), highlight=False, markup=False)
        console.print()
    heads, rows = table(found)
    widths = [max(len(row[at]) for row in [heads, *rows]) for at in range(len(heads))]
    for row in [heads, *rows]:
        text = "  ".join(
            cell.ljust(w) if at < 2 else cell.rjust(w) for at, (cell, w) in enumerate(zip(row, widths))
        )
        console.print(text.rstrip(), highlight=False, markup=False, soft_wrap=True)


def table(found: Trend) -> tuple[list[str], list[list[str]]]:
    """Heads and rows of the table."""
    several = len(found.head.setup.targets) > 1
    columns = [(target, kind) for target in found.head.setup.targets for kind in found.kinds]
    happened = [
        k for k in ("added", "removed", "changed", "moved") if any(k in p.changes for p in found.points)
    ]
    heads = ["date", "commit", "gates"]
    heads += [f"{target} {kind}" if several else kind for target, kind in columns]
    heads += [*happened]
    rows = []
    for point in found.points:
        row = [point.date, point.commit[:9], f"{point.gates:,}"]
        row += [f"{point.targets.get(target, {}).get(kind, 0):,}" for target, kind in columns]
        row += [f"{point.changes.get(kind, 0):,}" if point.changes.get(kind) else "" for kind in happened]
        rows.append(row)
    return heads, rows


def series(found: Trend, target: str) -> list[tuple[str, list[int]]]:
    """What is drawn for a target: gates of all kinds but ``same``, each with its figure per point."""
    return [
        (kind, [point.targets.get(target, {}).get(kind, 0) for point in found.points])
        for kind in found.kinds
        if kind != "same"
    ]


def drawing(found: Trend, target: str) -> str:
    """An SVG of one target. Points are evenly spaced: a stretch without commits takes no room."""
    lines = series(found, target)
    count = len(found.points)
    most = max([1, *(value for _, values in lines for value in values)])
    step = _step(most)
    top = -(-most // step) * step
    inner, tall = _WIDTH - _LEFT - _RIGHT, _HEIGHT - _TOP - _BOTTOM

    def x(at: int) -> float:
        return _LEFT + (inner * at / (count - 1) if count > 1 else inner / 2)

    def y(value: int) -> float:
        return _TOP + tall * (1 - value / top)

    label = f"{target}: gates per verdict from {found.points[0].date} to {found.points[-1].date}"
    out = [f'<svg viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" aria-label="{escape(label)}">']
    for value in range(0, top + 1, step):
        out.append(f'<path class="axis" d="M{_LEFT} {y(value):.1f}H{_WIDTH - _RIGHT}"/>')
        out.append(f'<text x="{_LEFT - 6}" y="{y(value) + 4:.1f}" text-anchor="end">{value:,}</text>')
    shown = sorted({round(at * (count - 1) / 5) for at in range(6)})
    for at in shown:
        anchor = "start" if at == 0 and count > 1 else "end" if at == count - 1 and count > 1 else "middle"
        text = escape(found.points[at].date)
        out.append(f'<text x="{x(at):.1f}" y="{_HEIGHT - 10}" text-anchor="{anchor}">{text}</text>')
    for number, (kind, values) in enumerate(lines):
        spots = " ".join(f"{x(at):.1f},{y(value):.1f}" for at, value in enumerate(values))
        colour, dash = _COLOURS[number % len(_COLOURS)], _DASHES[number % len(_DASHES)]
        out.append(
            f'<polyline points="{spots}" stroke="{colour}" stroke-dasharray="{dash}"><title>{escape(kind)}'
            "</title></polyline>"
        )
    out.append("</svg><figcaption>")
    for number, (kind, values) in enumerate(lines):
        colour, dash = _COLOURS[number % len(_COLOURS)], _DASHES[number % len(_DASHES)]
        out.append(
            '<span class="key"><svg viewBox="0 0 30 8" style="width:30px;height:8px" aria-hidden="true">'
            f'<path d="M0 4H30" stroke="{colour}" stroke-width="2" stroke-dasharray="{dash}"/></svg> '
            f"{escape(kind)}, now {values[-1]:,}</span>"
        )
    out.append("</figcaption>")
    return "\n".join(out)


def _step(most: int) -> int:
    """1, 2 or 5 times a power of ten: at most six steps to ``most``."""
    size = 1
    while True:
        for digit in (1, 2, 5):
            if most <= 6 * digit * size:
                return digit * size
        size *= 10


def page(found: Trend) -> bytes:
    """The page as UTF-8; nothing is fetched, and no script runs."""
    setup = found.head.setup
    title = f"{setup.project}: gates over time"
    heads, rows = table(found)
    out = [
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">',
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        f"<title>{escape(title)}</title>\n<style>{_STYLE}</style></head><body>",
        f"<header><h1>{escape(title)}</h1>",
        *(f"<p>{escape(line)}</p>" for line in lines_above(found)),
    ]
    if found.head.blind:
        out.append("<details><summary>what this level cannot see</summary><ul>")
        out += [f"<li>{escape(line)}</li>" for line in found.head.blind] + ["</ul></details>"]
    out.append("</header><main>")
    for target in setup.targets:
        out.append(
            f'<h2 id="{escape(target)}">{escape(target)}</h2><figure>{drawing(found, target)}</figure>'
        )
    out.append('<div class="wide" tabindex="0"><table><thead><tr>')
    out += [f'<th scope="col">{escape(text)}</th>' for text in heads]
    out.append("</tr></thead><tbody>")
    for row in rows:
        cells = (
            f'<td class="commit">{escape(c)}</td>' if at == 1 else f"<td>{escape(c)}</td>"
            for at, c in enumerate(row)
        )
        out.append(f"<tr>{''.join(cells)}</tr>")
    out.append("</tbody></table></div></main></body></html>\n")
    return "\n".join(out).encode()


def picture(found: Trend) -> bytes:
    """The same as a PNG. UserError U014 where matplotlib is not installed."""
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError:
        hints = ["pip install 'sglang-auditor[plot]'", "--html FILE needs nothing"]
        raise UserError("U014", "--png needs matplotlib, which is not installed", hints=hints) from None
    import io

    targets: Sequence[str] = found.head.setup.targets
    figure = Figure(figsize=(9, 3.2 * len(targets)), layout="constrained")
    dates = [point.date for point in found.points]
    for number, target in enumerate(targets, 1):
        axes = figure.add_subplot(len(targets), 1, number)
        for at, (kind, values) in enumerate(series(found, target)):
            style = ("-", "--", ":", "-.")[at % 4]
            axes.plot(range(len(dates)), values, style, color=_COLOURS[at % len(_COLOURS)], label=kind)
        marks = sorted({round(at * (len(dates) - 1) / 5) for at in range(6)})
        axes.set_xticks(marks, [dates[at] for at in marks])
        axes.set_ylim(bottom=0)
        axes.set_title(
            f"{found.head.setup.project}, {target} against {found.head.setup.reference}", loc="left"
        )
        axes.set_ylabel("gates")
        axes.grid(alpha=0.3)
        axes.legend(loc="upper left", frameon=False)
    FigureCanvasAgg(figure)
    out = io.BytesIO()
    figure.savefig(out, format="png", dpi=110, metadata={"Software": None})
    return out.getvalue()
