"""``audit path``: the decisions a server start takes for one model."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from auditor.cli.command import VerbCommand
from auditor.cli.options import Request, tree_options
from auditor.cli.source import opened, show
from auditor.errors import EXIT_FINDINGS, EXIT_INPUT, EXIT_OK

if TYPE_CHECKING:
    from auditor.gates.path.model import Dossier


@click.command(
    cls=VerbCommand,
    example=(
        "audit path --model DeepseekV4ForCausalLM --target sm_120 --release 0.5.14",
        "audit path --model GptOssForCausalLM --assume arg.moe_runner_backend=marlin -v",
    ),
)
@click.option("--model", required=True, metavar="CLASS", help="The architecture in the model's config.json.")
@tree_options(fail_on=True)
def path(model: str, request: Request) -> int:
    """What does a server start decide for this model on this target, and where?

    Arguments and environment are those of a fresh start; --assume arg.NAME=VALUE gives one.
    """
    from auditor.cli.output import write_bytes
    from auditor.cli.progress import Progress
    from auditor.gates.audit import AuditOptions
    from auditor.gates.path.bringup import dossier
    from auditor.reporting import pathjson, pathpage

    with opened(request) as tree:
        options = AuditOptions(
            targets=request.targets,
            reference=request.reference,
            assumptions=request.assumptions,
            defaults=True,
            use_cache=request.use_cache,
            project=request.project,
        )
        with Progress(request.quiet).waiting(f"starting {model} in {tree.info().label}"):
            report = dossier(tree, model, options)
        if request.format == "json":
            write_bytes(pathjson.dumps(report), request.output)
        else:
            show(pathpage.render, report, request, tree)
    return exit_code(report, request.fail_on)


def exit_code(report: Dossier, fail_on: tuple[str, ...]) -> int:
    """2 if a file could not be read (the rest was), else 1 for a verdict of ``fail_on``, else 0."""
    if report.problems:
        return EXIT_INPUT
    wanted = set(fail_on)
    choices = [c for start in report.starts for c in (*start.attention, start.experts) if c is not None]
    verdicts = {note.verdict for choice in choices for note in choice.gates}
    if any(flag.overrides and flag.surely for start in report.starts for flag in start.flags):
        verdicts.add("env-forced")
    if any(refusal.surely for start in report.starts for refusal in start.refusals):
        verdicts.add("blocked")
    return EXIT_FINDINGS if verdicts & wanted else EXIT_OK
