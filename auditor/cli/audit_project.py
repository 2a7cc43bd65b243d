"""``audit PROJECT``: every gate of a tree."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from auditor.cli.command import VerbCommand
from auditor.cli.options import Request, tree_options
from auditor.cli.source import audited, opened, tree_words
from auditor.errors import EXIT_FINDINGS, EXIT_INPUT, EXIT_OK

if TYPE_CHECKING:
    from auditor.gates.model import Report


def project(name: str) -> click.Command:
    """The command of one profile: ``audit sglang``."""

    @click.command(
        name,
        cls=VerbCommand,
        example=f"audit {name} --release 0.5.14 --target sm_120,sm_121 --fail-on blocked,unguarded",
    )
    @tree_options(fail_on=True)
    def command(request: Request) -> int:
        return run(request)

    command.help = f"Which code path does each GPU take in this {name} tree, and why?"
    for param in command.params:
        if param.name == "project":
            param.default = name
    return command


def run(request: Request) -> int:
    """Audit, print, and say by the exit code what was found."""
    from auditor.cli.output import render, write_bytes

    with opened(request) as tree:
        report = audited(tree, request)
        if request.format == "json":
            from auditor.reporting import jsonout

            write_bytes(jsonout.dumps(report), request.output)
        else:
            from auditor.reporting import terminal

            render(
                lambda console: terminal.render(
                    report,
                    console,
                    verbose=request.verbose,
                    quiet=request.quiet,
                    tree=tree,
                    command=tree_words(request),
                ),
                request.output,
                request.color,
            )
    return exit_code(report, request.fail_on)


def exit_code(report: Report, fail_on: tuple[str, ...]) -> int:
    """2 if a file could not be audited (the rest was), else 1 for a verdict of ``fail_on``, else 0."""
    if report.problems:
        return EXIT_INPUT
    if not fail_on:
        return EXIT_OK
    wanted = set(fail_on)
    # What a query or an exception says about a gate replaces what the gate says by itself.
    judged = {finding.gate for finding in report.findings if finding.gate}
    verdicts = [finding.verdict for finding in report.findings]
    verdicts += [gate.verdict for gate in report.gates if gate.id not in judged]
    hit = any(verdict.get(target) in wanted for verdict in verdicts for target in report.targets)
    return EXIT_FINDINGS if hit else EXIT_OK
