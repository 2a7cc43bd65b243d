"""``audit kernels``: which compiled kernels each target has."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from auditor.cli.command import Option, VerbCommand
from auditor.cli.options import Request, tree_options
from auditor.cli.source import opened, tree_words
from auditor.errors import EXIT_INPUT, EXIT_OK, UserError

if TYPE_CHECKING:
    from rich.console import Console

    from auditor.native.model import Availability


@click.command(
    cls=VerbCommand,
    example=(
        "audit kernels sglang --commit v0.5.14 --target sm_90,sm_120",
        "audit kernels sglang --op sparse_prefill_fwd -v",
        "audit kernels sglang --assume cuda=12.8 --assume machine=aarch64 --format json",
    ),
)
@click.argument("name", metavar="[PROJECT]", required=False)
@click.option(
    "--op",
    "op",
    metavar="NAME",
    cls=Option,
    section="what is asked",
    help="One operator, with the whole proof.",
)
@tree_options(targets="all")
def kernels(name: str | None, op: str | None, request: Request) -> int:
    """Which compiled kernels does each target have, and what leaves the others out?

    Read from the sources, for a build with the assumed CUDA version on the machines the targets come in.
    """
    from auditor.cli.output import render, write_bytes
    from auditor.cli.progress import Progress
    from auditor.native.availability import KernelOptions, availability
    from auditor.profile import profile_names
    from auditor.reporting import kernels as page
    from auditor.reporting import kernelsjson

    if name is not None:
        if name not in profile_names():
            fact = f"no project {name!r}; there are: {', '.join(profile_names())}"
            raise UserError("U011", fact, hints=[f"audit kernels {profile_names()[0]}"])
        request = request._replace(project=name)
    with opened(request) as tree:
        options = KernelOptions(request.targets, request.assumptions, request.project)
        with Progress(request.quiet).waiting(f"reading the kernels of {tree.info().label}"):
            found = availability(tree, options)
        if op is not None:
            found = page.only(found, op)
        if request.format == "json":
            write_bytes(kernelsjson.dumps(found), request.output)
        else:

            def draw(console: Console) -> None:
                page.render(
                    found,
                    console,
                    verbose=request.verbose,
                    quiet=request.quiet,
                    one=op is not None,
                    tree=tree,
                    command=" ".join(["audit kernels", request.project, tree_words(request)]).strip(),
                )

            render(draw, request.output, request.color)
    return exit_code(found)


def exit_code(found: Availability) -> int:
    """2 if something could not be read (the rest was), else 0."""
    return EXIT_INPUT if found.problems else EXIT_OK
