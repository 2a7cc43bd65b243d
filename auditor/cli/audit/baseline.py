"""``audit baseline``: what is known of a tree, kept in a file for the guard."""

from __future__ import annotations

import click

from auditor.cli.command import SubGroup, VerbCommand
from auditor.cli.options import Request, tree_options
from auditor.errors import EXIT_INPUT, EXIT_OK


@click.group(
    cls=SubGroup,
    example=(
        "audit baseline write known.json --release 0.5.18 --target sm_120,sm_121",
        "audit guard known.json origin/main --target sm_120,sm_121",
    ),
)
def baseline() -> None:
    """What did I know when I last looked, kept so that the guard can judge what came since?"""


@baseline.command(cls=VerbCommand, example="audit baseline write known.json --commit 735a256 --target sm_120")
@click.argument("file", metavar="FILE")
@tree_options(formats=())
def write(file: str, request: Request) -> int:
    """Which gates, kernels and flags does this tree have, for the guard to compare with later?"""
    from auditor.cli.audit.twotrees import flags_of, kernels_of
    from auditor.cli.output import note, write_bytes
    from auditor.cli.source import audited, opened
    from auditor.history.baseline import baseline as kept
    from auditor.history.baseline import dumps

    notes: list[str] = []
    with opened(request) as tree:
        report = audited(tree, request)
        kernels = kernels_of(tree, request, notes)
        flags = flags_of(tree, request)
    data = dumps(kept(report, kernels, tuple(flags[name] for name in sorted(flags))))
    write_bytes(data, file)
    for text in notes:
        note(f"note: {text}", request.quiet)
    gates = f"{len(report.gates):,} gates"
    rows = f"{len(kernels.rows):,} kernels" if kernels is not None else "no kernels"
    note(f"{report.project} {report.tree.label}: {gates}, {rows}, {len(flags):,} flags kept", request.quiet)
    return EXIT_INPUT if report.problems else EXIT_OK
