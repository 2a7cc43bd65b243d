"""``audit predicates``: what the tree's own words for GPUs mean."""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING

import click
import msgspec

from auditor.cli.command import VerbCommand
from auditor.cli.options import Request, tree_options
from auditor.cli.source import audited, opened
from auditor.errors import UserError

if TYPE_CHECKING:
    from rich.console import Console

    from auditor.gates.model import Predicate, Report


@click.command(cls=VerbCommand, example="audit predicates sm120 --release 0.5.14")
@click.argument("words", nargs=-1, metavar="[WORD]...")
@tree_options(targets="all")
def predicates(words: tuple[str, ...], request: Request) -> None:
    """What does each helper, constant and property of this tree that asks for the GPU mean, per target?"""
    from auditor.cli import facts
    from auditor.cli.output import render, write_bytes

    with opened(request) as tree:
        report = audited(tree, request)
    chosen = _chosen(report, words)
    if request.format == "json":
        data = {**facts.head(report), "predicates": msgspec.to_builtins(chosen)}
        write_bytes(facts.encode(data), request.output)
    else:
        render(lambda console: _table(console, report, chosen, request), request.output, request.color)


def _chosen(report: Report, words: tuple[str, ...]) -> list[Predicate]:
    """The predicates whose qualified name holds one of the words; all of them without a word."""
    out = [item for item in report.predicates if not words or any(word in item.name for word in words)]
    if words and not out:
        names = {item.name.rpartition(".")[2] for item in report.predicates}
        near = difflib.get_close_matches(words[0], sorted(names), n=1, cutoff=0.5)
        hints = [f"audit predicates {name}" for name in near] or ["audit predicates"]
        raise UserError("U012", f"no predicate of this tree has {words[0]!r} in its name", hints=hints)
    return out


def _table(console: Console, report: Report, chosen: list[Predicate], request: Request) -> None:
    from rich.text import Text

    from auditor.cli import facts

    if not request.quiet:
        console.print(Text(facts.tree_line(report)), soft_wrap=True)
    if request.verbose:
        for predicate in chosen:
            facts.predicate_page(console, report, predicate)
        return
    by_module: dict[str, list[Predicate]] = {}
    for predicate in chosen:
        by_module.setdefault(predicate.path, []).append(predicate)
    for path, group in by_module.items():
        console.print(Text(path, style="bold"), soft_wrap=True)
        rows = [(f"  {_tail(item.name)}", facts.predicate_row(item, report.targets)) for item in group]
        facts.grid(console, report.targets, rows)


def _tail(name: str) -> str:
    """The last part, with the class before it where there is one."""
    parts = name.split(".")
    return ".".join(parts[-2:]) if len(parts) > 1 and parts[-2][:1].isupper() else parts[-1]
