"""A trend drawn: one small chart a verdict, a line a target, as SVG within an HTML page or as a picture.

Each chart has its own scale: a verdict that eight gates get is as readable as one that five hundred get.
Nothing is told by colour alone: lines of targets differ in their dashes, and the last figure is written out.
"""

from __future__ import annotations

import io
from typing import NamedTuple

from auditor.errors import UserError
from auditor.history.sweeping.trend import Trend
from auditor.reporting.html.document import document, text
from auditor.reporting.items import MEANING
from auditor.reporting.text import clean
from auditor.reporting.trendpage import lines_above, table

_WIDTH, _HEIGHT = 380, 190
_LEFT, _RIGHT, _TOP, _BOTTOM = 40, 14, 12, 26
#: Colours that differ for most colour-blind readers too, and dashes that differ without any. The page has
#: lighter ones of the same names for dark screens (``page.css``).
_COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#8a6d00", "#3a8fc4", "#777777")
_DASHES = ("", "7 4", "2 3", "9 3 2 3", "12 4", "4 2", "1 5")
#: With more points than this a chart has no dots on its lines: they would touch.
_DOTS = 45
#: Charts side by side in a picture.
_COLUMNS = 3
#: What a quick sweep counts, in the words of MEANING.
_QUICK = {"differs": "goes another way than {reference}"}


class Chart(NamedTuple):
    """What one chart shows: the figures of a verdict, per target a figure a point."""

    kind: str
    meaning: str
    series: tuple[tuple[str, tuple[int, ...]], ...]

    @property
    def most(self) -> int:
        """The highest figure, at least 1."""
        return max(1, *(value for _, values in self.series for value in values))


def charts(found: Trend) -> list[Chart]:
    """The charts, worst verdict first; ``same`` is in the table alone."""
    out = []
    for kind in found.kinds:
        if kind == "same":
            continue
        series = tuple(
            (target, tuple(point.targets.get(target, {}).get(kind, 0) for point in found.points))
            for target in found.head.setup.targets
        )
        meaning = (MEANING | _QUICK).get(kind, "").format(reference=found.head.setup.reference)
        out.append(Chart(kind, meaning, series))
    return out


def page(found: Trend) -> bytes:
    """The page of ``audit trend``: the charts, then every figure. Nothing is fetched, and no script runs."""
    blind = ""
    if found.head.blind:
        listed = "".join(f"<li>{text(line)}</li>" for line in found.head.blind)
        blind = (
            f'<details class="more"><summary>what this level cannot see</summary><ul>{listed}</ul></details>'
        )
    return document(
        f"{found.head.setup.project}: gates over time",
        lines_above(found),
        above=f"{blind}<main>{drawn(found)}{_figures(found)}</main>",
    )


def folded_trend(found: Trend) -> str:
    """The charts as a part of another page, folded."""
    words = lines_above(found)
    about = "".join(f"<p>{text(line)}</p>" for line in words)
    head = f"over time: {found.points[0].date} to {found.points[-1].date}, {found.swept:,} commits"
    return f'<details class="more"><summary>{text(head)}</summary>{about}{drawn(found)}</details>'


def drawn(found: Trend) -> str:
    """The charts as markup."""
    targets = found.head.setup.targets
    out = ['<p class="keys">']
    if len(targets) > 1:
        for number, target in enumerate(targets):
            out.append(
                f'<span><svg class="key" viewBox="0 0 30 8" width="30" height="8" aria-hidden="true">'
                f'<path class="s{number % 7}" d="M0 4H30" stroke-dasharray="{_DASHES[number % 7]}"/></svg> '
                f"{text(target)}</span> "
            )
    out.append('</p><div class="charts">')
    out += [_chart(found, chart) for chart in charts(found)]
    out.append("</div>")
    return "".join(out)


def _chart(found: Trend, chart: Chart) -> str:
    """One chart. Points are evenly spaced: a stretch without commits takes no room."""
    points = found.points
    count = len(points)
    step = _step(chart.most)
    top = -(-chart.most // step) * step
    inner, tall = _WIDTH - _LEFT - _RIGHT, _HEIGHT - _TOP - _BOTTOM

    def x(at: int) -> float:
        return _LEFT + (inner * at / (count - 1) if count > 1 else inner / 2)

    def y(value: int) -> float:
        return _TOP + tall * (1 - value / top)

    several = len(chart.series) > 1
    now = " · ".join(f"{f'{target} ' if several else ''}{values[-1]:,}" for target, values in chart.series)
    label = f"{chart.kind}: {points[0].date} to {points[-1].date}, now {now}"
    out = [
        f"<figure><figcaption><b>{text(chart.kind)}</b> <span>now {text(now)}</span>"
        f"<small>{text(chart.meaning)}</small></figcaption>",
        f'<svg viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" aria-label="{text(label)}">',
    ]
    for value in range(0, top + 1, step):
        out.append(f'<path class="axis" d="M{_LEFT} {y(value):.1f}H{_WIDTH - _RIGHT}"/>')
        out.append(f'<text x="{_LEFT - 6}" y="{y(value) + 4:.1f}" text-anchor="end">{value:,}</text>')
    for at in marks(count):
        anchor = "start" if at == 0 and count > 1 else "end" if at == count - 1 and count > 1 else "middle"
        out.append(
            f'<text x="{x(at):.1f}" y="{_HEIGHT - 8}" text-anchor="{anchor}">{text(points[at].date)}</text>'
        )
    for number, (target, values) in enumerate(chart.series):
        spots = " ".join(f"{x(at):.1f},{y(value):.1f}" for at, value in enumerate(values))
        dash = _DASHES[number % len(_DASHES)]
        out.append(f'<polyline class="s{number % 7}" points="{spots}" stroke-dasharray="{dash}"/>')
        if count <= _DOTS:
            for at, value in enumerate(values):
                told = f"{points[at].date} {points[at].commit[:9]}: {value:,} on {target}"
                out.append(
                    f'<circle class="s{number % 7}" cx="{x(at):.1f}" cy="{y(value):.1f}" r="2.5">'
                    f"<title>{text(told)}</title></circle>"
                )
    out.append("</svg></figure>")
    return "".join(out)


def marks(count: int, most: int = 3) -> list[int]:
    """The points whose dates are written: the ends, and some between where they have room."""
    return sorted({round(at * (count - 1) / (most - 1)) for at in range(most)})


def _step(most: int) -> int:
    """1, 2 or 5 times a power of ten: at most four steps to ``most``."""
    size = 1
    while True:
        for digit in (1, 2, 5):
            if most <= 4 * digit * size:
                return digit * size
        size *= 10


def _figures(found: Trend) -> str:
    heads, rows = table(found)
    out = ['<div class="scroll" tabindex="0"><table class="figures"><thead><tr>']
    out += [f'<th scope="col">{text(words)}</th>' for words in heads]
    out.append("</tr></thead><tbody>")
    for row in reversed(rows):  # what is new stands next to the charts
        out.append(f"<tr>{''.join(f'<td>{text(cell)}</td>' for cell in row)}</tr>")
    out.append("</tbody></table></div>")
    return "".join(out)


def picture(found: Trend) -> bytes:
    """The charts as a PNG. UserError U014 where matplotlib is not installed."""
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError:
        hints = ["pip install 'sglang-auditor[plot]'", "--html FILE needs nothing"]
        raise UserError("U014", "--png needs matplotlib, which is not installed", hints=hints) from None

    told = charts(found)
    setup = found.head.setup
    dates = [_plain(point.date) for point in found.points]
    columns = min(_COLUMNS, max(1, len(told)))
    rows = max(1, -(-len(told) // columns))
    figure = Figure(figsize=(max(6.5, 4.3 * columns), 2.6 * rows + 0.9), layout="constrained")
    figure.suptitle(
        clean(f"{setup.project} against {setup.reference}: gates per verdict, {dates[0]} to {dates[-1]}"),
        x=0.01, ha="left", fontsize=11, parse_math=False,
    )  # fmt: skip
    for number, chart in enumerate(told, 1):
        axes = figure.add_subplot(rows, columns, number)
        for at, (target, values) in enumerate(chart.series):
            style = (0, tuple(float(n) for n in _DASHES[at % 7].split())) if _DASHES[at % 7] else "-"
            dot = "." if len(dates) <= _DOTS else ""
            axes.plot(
                range(len(dates)),
                values,
                linestyle=style,
                marker=dot,
                color=_COLOURS[at % 7],
                label=_plain(target),
            )
        now = " / ".join(f"{values[-1]:,}" for _, values in chart.series)
        axes.set_title(f"{clean(chart.kind)}, now {now}", loc="left", fontsize=10, parse_math=False)
        axes.set_xticks(marks(len(dates)), [dates[at] for at in marks(len(dates))], fontsize=8)
        axes.tick_params(axis="y", labelsize=8)
        axes.set_ylim(bottom=0, top=-(-chart.most // _step(chart.most)) * _step(chart.most))
        axes.set_yticks(range(0, chart.most + _step(chart.most), _step(chart.most)))
        axes.grid(alpha=0.3)
        axes.spines[["top", "right"]].set_visible(False)
        labels = axes.get_xticklabels()
        if len(labels) > 1:
            labels[0].set_horizontalalignment("left")
            labels[-1].set_horizontalalignment("right")
    if len(setup.targets) > 1 and told:
        figure.legend(
            *figure.axes[0].get_legend_handles_labels(),
            loc="upper right",
            ncols=len(setup.targets),
            frameon=False,
        )
    FigureCanvasAgg(figure)
    out = io.BytesIO()
    figure.savefig(out, format="png", dpi=110, metadata={"Software": None})
    return out.getvalue()


def _plain(words: str) -> str:
    """Foreign text that a legend shows as it stands: no formula, and not left out for how it begins."""
    return "\u200a" * words.startswith("_") + clean(words).replace("$", r"\$")
