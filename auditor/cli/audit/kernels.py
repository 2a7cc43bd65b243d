"""``audit kernels``: which compiled kernels each target has."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from auditor.cli.audit.kernelsource import BUILT, built_words, opened_kernels
from auditor.cli.command import Option, VerbCommand
from auditor.cli.options import Request, tree_options
from auditor.cli.source import tree_words
from auditor.errors import EXIT_INPUT, EXIT_OK, UserError

if TYPE_CHECKING:
    from rich.console import Console

    from auditor.native.model import Availability


@click.command(
    cls=VerbCommand,
    example=(
        "audit kernels sglang --commit v0.5.14 --target sm_90,sm_120",
        "audit kernels sglang --op sparse_prefill_fwd -v",
        "audit kernels sglang --kernels-wheel sglang_kernel-0.4.3-cp310-abi3-manylinux2014_x86_64.whl",
        "audit kernels sglang --assume cuda=12.8 --assume machine=aarch64 --format html --output k.html",
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
@click.option(
    "--kernels-wheel",
    type=click.Path(),
    metavar="FILE",
    cls=Option,
    section=BUILT,
    help="Built kernels: a wheel, or one unpacked.",
)
@click.option(
    "--kernels-installed",
    is_flag=False,
    flag_value="",
    metavar="[DIR]",
    cls=Option,
    section=BUILT,
    help="Those of an installed copy; not imported.",
)
@click.option(
    "--cuobjdump",
    "second",
    is_flag=True,
    cls=Option,
    section=BUILT,
    help="Ask NVIDIA's cuobjdump too, and compare.",
)
@click.option(
    "--compile",
    "compile_",
    is_flag=True,
    cls=Option,
    section="what is asked",
    help="Compile Triton kernels too, where a signature is declared.",
)
@tree_options(targets="all", formats=("html",))
def kernels(
    name: str | None,
    op: str | None,
    compile_: bool,
    kernels_wheel: str | None,
    kernels_installed: str | None,
    second: bool,
    request: Request,
) -> int:
    """Which compiled kernels does each target have, and what leaves the others out?

    Read from the sources, for a build with the assumed CUDA version on the machines the targets come in; or
    from compiled kernels, alone or, where a tree is named too, over its sources.
    """
    import msgspec

    from auditor.cli.output import render, write_bytes
    from auditor.cli.progress import Progress
    from auditor.native.availability import availability
    from auditor.native.sites.run import called_in_tree
    from auditor.native.world import KernelOptions
    from auditor.profile import load_profile, profile_names
    from auditor.reporting import kernels as page
    from auditor.reporting import kernelsjson

    if name is not None:
        if name not in profile_names():
            fact = f"no project {name!r}; there are: {', '.join(profile_names())}"
            raise UserError("U011", fact, hints=[f"audit kernels {profile_names()[0]}"])
        request = request._replace(project=name)
    with opened_kernels(request, kernels_wheel, kernels_installed, second) as (tree, compiled):
        options = KernelOptions(request.targets, request.assumptions, request.project, compile=compile_)
        label = tree.info().label if compiled is None else compiled.label
        with Progress(request.quiet).waiting(f"reading the kernels of {label}"):
            found = availability(tree, options, compiled)
        if op is not None:
            found = page.only(found, op)
            rows = [row for row in found.rows if row.kind == "op"]
        if op is not None and rows:
            with Progress(request.quiet).waiting(f"looking for the calls of {op}"):
                given = {k: v for k, v in request.assumptions.items() if not k.startswith("cmake.")}
                named, called = called_in_tree(tree, rows, load_profile(request.project), given)
            others = tuple(row for row in found.rows if row.kind != "op")
            found = msgspec.structs.replace(found, rows=(*named, *others), sites=called)
        if request.format == "json":
            write_bytes(kernelsjson.dumps(found), request.output)
        elif request.format == "html":
            from auditor.reporting.html import kernels as kernelshtml

            url = load_profile(request.project).url or ""
            write_bytes(kernelshtml.page(found, url=url), request.output)
        else:
            words = [
                "audit kernels",
                request.project,
                tree_words(request),
                built_words(kernels_wheel, kernels_installed),
            ]

            def draw(console: Console) -> None:
                page.render(
                    found,
                    console,
                    verbose=request.verbose,
                    quiet=request.quiet,
                    one=op is not None,
                    tree=None if compiled is not None and compiled.is_all(tree) else tree,
                    command=" ".join(filter(None, words)),
                )

            render(draw, request.output, request.color)
    return exit_code(found)


def exit_code(found: Availability) -> int:
    """2 if something could not be read (the rest was), else 0."""
    return EXIT_INPUT if found.problems else EXIT_OK
