"""``audit gate``: one gate or predicate, in full."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

import click
import msgspec

from auditor.cli.command import VerbCommand
from auditor.cli.options import Request, tree_options
from auditor.cli.source import audited, opened
from auditor.cli.words import QueryType
from auditor.errors import UserError, clean
from auditor.lazyre import lazy

if TYPE_CHECKING:
    from rich.console import Console

    from auditor.gates.model import Finding, Gate, Predicate, Report
    from auditor.trees.base import SourceTree

#: More gates than this are listed by line instead of in full.
_IN_FULL = 6
_PLACE = lazy(r"(.+):(\d+)")


@click.command(
    cls=VerbCommand, example=("audit gate ServerArgs.__post_init__ --release 0.5.14", "audit gate QUERY -v")
)
@click.argument("word", type=QueryType(), metavar="GATE")
@tree_options(targets="all")
def gate(word: str, request: Request) -> None:
    """What does this gate decide on every target, why, and what hangs on it?

    GATE is a gate's id or the start of it, path:line, a symbol, the name of a predicate, or a query's id.
    """
    from auditor.cli.audit import facts
    from auditor.cli.output import render, write_bytes

    with opened(request) as tree:
        report = audited(tree, request)
        found = findings_at(report, word)
        gates, predicates = select(report, word)
        if request.format == "json":
            ids = {item.id for item in gates}
            findings = [item for item in report.findings if item.gate in ids or item in found]
            data = {
                **facts.head(report),
                "gates": msgspec.to_builtins(gates),
                "predicates": msgspec.to_builtins(predicates),
                "findings": msgspec.to_builtins(findings),
            }
            write_bytes(facts.encode(data), request.output)
            return

        def draw(console: Console) -> None:
            _draw(console, report, gates, predicates, found, request, tree)

        render(draw, request.output, request.color)


def findings_at(report: Report, word: str) -> list[Finding]:
    """The findings at the place ``word``, or of the query ``word``, that no gate shows: their line is another
    than the gate's, or there is no gate. A page prints such places, so they have to lead somewhere."""
    place = _PLACE.fullmatch(word)
    if place:
        path, line = place[1], int(place[2])
        return [item for item in report.findings if item.line == line and _is_path(item.path, path)]
    return [item for item in report.findings if item.query == word]


def select(report: Report, word: str) -> tuple[list[Gate], list[Predicate]]:
    """The gates and predicates that ``word`` names, the most exact reading first. Where it names no gate but
    findings, the gates behind those, which may be none. UserError U012 if there is nothing at all."""
    found = findings_at(report, word)
    behind = {finding.gate for finding in found if finding.gate}
    place = _PLACE.fullmatch(word)
    if place:
        path, line = place[1], int(place[2])
        there = [gate for gate in report.gates if _is_path(gate.path, path)]
        hit = [gate for gate in there if gate.line <= line <= gate.end_line]
        # The innermost gate around the line is the one that was pointed at.
        least = min((gate.end_line - gate.line for gate in hit), default=0)
        hit = [gate for gate in hit if gate.end_line - gate.line == least]
        hit = hit or [gate for gate in report.gates if gate.id in behind]
        if hit or found:
            return hit, []
        near = sorted(there, key=lambda gate: abs(gate.line - line))[:2]
        raise _nothing(word, [f"{gate.path}:{gate.line}" for gate in near])
    if re.fullmatch(r"[0-9a-f]{4,}", word):
        hit = [gate for gate in report.gates if gate.id.startswith(word)]
        if hit:
            return hit, []
    if found:
        return [gate for gate in report.gates if gate.id in behind], []
    predicates = [item for item in report.predicates if _ends(item.name, word)]
    hit = [gate for gate in report.gates if gate.id == word or _ends(gate.symbol, word)]
    if hit or predicates:
        return hit, predicates
    import difflib

    known = {gate.symbol for gate in report.gates} | {
        item.name.rpartition(".")[2] for item in report.predicates
    }
    known |= {finding.query for finding in report.findings}
    raise _nothing(word, difflib.get_close_matches(word, sorted(known - {""}), n=2, cutoff=0.5))


def _nothing(word: str, near: list[str]) -> UserError:
    hints = [f"audit gate {name}" for name in near] or ["audit predicates"]
    return UserError("U012", f"nothing in this tree is called {word!r}", hints=hints)


def _is_path(path: str, wanted: str) -> bool:
    return path == wanted or path.endswith("/" + wanted.lstrip("./"))


def _ends(name: str, word: str) -> bool:
    return bool(name) and (name == word or name.endswith("." + word))


def _draw(
    console: Console,
    report: Report,
    gates: list[Gate],
    predicates: list[Predicate],
    found: Sequence[Finding],
    request: Request,
    tree: SourceTree,
) -> None:
    from auditor.reporting.pages import render_finding, render_gate, render_predicates

    shown = {gate.id for gate in gates}
    for finding in found:
        if finding.gate not in shown:
            render_finding(report, finding, console, tree=tree)

    if predicates:
        render_predicates(
            report, console, predicates=predicates, verbose=1, quiet=request.quiet or bool(gates), tree=tree
        )
    if len(gates) <= _IN_FULL or request.verbose:
        for item in gates:
            render_gate(report, item, console, verbose=request.verbose, tree=tree)
        return
    if not gates:
        return
    for item in gates:
        line = f"{item.id}  {item.path}:{item.line}  {item.symbol}  {item.predicate}"
        console.print(clean(line), soft_wrap=True, highlight=False, markup=False)
    console.print("one of them in full: audit gate ID")
