"""``audit PROJECT``: every gate of a tree."""

from __future__ import annotations

import click

from auditor.cli.audit.report import audit_project
from auditor.cli.command import VerbCommand
from auditor.cli.options import Request, tree_options
from auditor.cli.request import FORMATS


def project(name: str) -> click.Command:
    """The command of one profile: ``audit sglang``."""

    @click.command(
        name,
        cls=VerbCommand,
        help=f"Which code path does each GPU take in this {name} tree, and why?",
        example=(
            f"audit {name} --release 0.5.14 --target sm_120,sm_121 --fail-on blocked,unguarded",
            f"audit {name} --commit 735a256 --format html --output gates.html --history 735a256~500..735a256",
        ),
    )
    @tree_options(fail_on=True, exceptions=True, history=True, project=name, formats=(*FORMATS, "html"))
    def command(request: Request) -> int:
        return audit_project(request)

    return command
