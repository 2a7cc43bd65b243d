"""Parts of a report that the smaller verbs show, as terminal pages and as JSON."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import msgspec

from auditor.gates.model import Gate, Predicate, Report

if TYPE_CHECKING:
    from rich.console import Console

_WORDS = {"true": "yes", "false": "no", "unknown": "?"}


def short(truth: str) -> str:
    """A truth value in at most three letters."""
    return _WORDS.get(truth, truth)


def head(report: Report) -> dict[str, Any]:
    """What every JSON answer starts with: which tool, tree, targets and assumptions."""
    tree = msgspec.to_builtins(report.tree)
    return {
        "schema_version": report.schema_version,
        "tool": report.tool,
        "project": report.project,
        "tree": tree,
        "targets": report.targets,
        "reference": report.reference,
        "assumptions": report.assumptions,
    }


def encode(data: Any) -> bytes:
    """JSON with sorted keys, two blanks of indent and a newline at the end: the same bytes each time."""
    return msgspec.json.format(msgspec.json.encode(data, order="sorted"), indent=2) + b"\n"


def grid(console: Console, targets: Iterable[str], rows: Iterable[tuple[str, Mapping[str, str]]]) -> None:
    """One row a fact, one column a target."""
    from rich.table import Table
    from rich.text import Text

    names = tuple(targets)
    table = Table(box=None, pad_edge=False, padding=(0, 1, 0, 0), header_style="bold")
    table.add_column("", no_wrap=True, min_width=11)
    for name in names:
        table.add_column(name, overflow="fold")
    for label, values in rows:
        cells = [Text(values.get(name, "·"), style=_STYLES.get(values.get(name, ""), "")) for name in names]
        table.add_row(Text(label), *cells)
    console.print(table)


_STYLES = {"yes": "green", "no": "red", "?": "yellow"}


def predicate_row(predicate: Predicate, targets: Iterable[str]) -> dict[str, str]:
    """Per target: the value where it is not a truth value, else yes, no or ?."""
    return {name: predicate.value.get(name) or short(predicate.truth.get(name, "·")) for name in targets}


def say(console: Console, label: str, text: str) -> None:
    """A labelled line, wrapped under its own indent on a narrow terminal."""
    from rich.padding import Padding
    from rich.text import Text

    if len(label) + 2 + len(text) <= 12 + console.width - 12:
        console.print(Text(f"  {label:<10}{text}"), soft_wrap=True)
    else:
        console.print(Text(f"  {label}"))
        console.print(Padding(Text(text), (0, 0, 0, 12)))


def tree_line(report: Report) -> str:
    """``sglang 0.5.14 · 2026-06-17 · main, after …``."""
    tree = report.tree
    parts = [
        f"{report.project} {tree.label}",
        tree.date,
        tree.describe,
        "uncommitted changes" if tree.dirty else "",
    ]
    return " · ".join(part for part in parts if part)


def gate_page(console: Console, report: Report, gate: Gate) -> None:
    """Everything a report holds about one gate."""
    from rich.text import Text

    symbol = f"  {gate.symbol}" if gate.symbol else ""
    console.print(
        Text.assemble((f"{gate.path}:{gate.line}", "bold"), f"{symbol}  [{gate.id}]"), soft_wrap=True
    )
    say(console, gate.kind, gate.predicate)
    grid(
        console,
        report.targets,
        [
            ("  truth", {name: short(value) for name, value in gate.truth.items()}),
            ("  reached", {name: short(value) for name, value in gate.reached.items()}),
            ("  verdict", gate.verdict),
        ],
    )
    if gate.unknown_because:
        say(console, "? needs", ", ".join(gate.unknown_because))
    for arm in gate.arms:
        effects = (
            ", ".join(f"{effect.kind} {effect.what}" for effect in arm.effects) or arm.value or "nothing"
        )
        say(console, f"if {short(arm.when)}", f"{effects}    lines {arm.line}-{arm.end_line}")
    if gate.via:
        say(console, "through", " ← ".join(gate.via))
    say(console, "asks", ", ".join(gate.roots) or "nothing about the GPU")
    for finding in report.findings:
        if finding.gate == gate.id:
            say(console, finding.query or finding.severity, finding.message)
            if finding.fix:
                say(console, "fix", finding.fix)


def predicate_page(console: Console, report: Report, predicate: Predicate) -> None:
    """One predicate of the tree: its value on every target, what it asks, and which gates read it."""
    from rich.text import Text

    console.print(Text(predicate.name, style="bold"), soft_wrap=True)
    grid(console, report.targets, [("  value", predicate_row(predicate, report.targets))])
    if predicate.unknown_because:
        say(console, "? needs", ", ".join(predicate.unknown_because))
    say(
        console,
        "from",
        f"{' ← '.join((*predicate.via, *predicate.roots)) or '-'}    {predicate.path}:{predicate.line}",
    )
    readers = [gate for gate in report.gates if predicate.name in gate.via]
    places = sorted({f"{gate.path}:{gate.line}" for gate in readers})
    files = len({gate.path for gate in readers})
    shown = ", ".join(places[:6]) + (f" and {len(places) - 6} more" if len(places) > 6 else "")
    direct = f"{len(readers)} gates in {files} files{': ' + shown if shown else ''}"
    say(console, "read by", f"{direct}; {predicate.read_by} directly or through others")
