"""``audit predicates``: what the tree's own words for GPUs mean."""

from __future__ import annotations

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
    from auditor.cli.audit import facts
    from auditor.cli.output import render, write_bytes
    from auditor.reporting.pages import render_predicates

    with opened(request) as tree:
        report = audited(tree, request)
        chosen = _chosen(report, words)
        if request.format == "json":
            data = {**facts.head(report), "predicates": msgspec.to_builtins(chosen)}
            write_bytes(facts.encode(data), request.output)
            return

        def draw(console: Console) -> None:
            render_predicates(
                report, console, predicates=chosen, verbose=request.verbose, quiet=request.quiet, tree=tree
            )

        render(draw, request.output, request.color)


def _chosen(report: Report, words: tuple[str, ...]) -> list[Predicate]:
    """The predicates whose qualified name holds one of the words; all of them without a word."""
    out = [item for item in report.predicates if not words or any(word in item.name for word in words)]
    if words and not out:
        import difflib

        names = {item.name.rpartition(".")[2] for item in report.predicates}
        near = difflib.get_close_matches(words[0], sorted(names), n=1, cutoff=0.5)
        hints = [f"audit predicates {name}" for name in near] or ["audit predicates"]
        raise UserError("U012", f"no predicate of this tree has {words[0]!r} in its name", hints=hints)
    return out
