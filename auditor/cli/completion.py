"""``audit completion``: the script that completes words in a shell."""

from __future__ import annotations

import os

import click
from click.shell_completion import get_completion_class

from auditor.cli.command import VerbCommand
from auditor.errors import UserError

SHELLS = ("bash", "zsh", "fish")
PROGRAMS = ("audit", "patches", "sglang-auditor")


@click.command(cls=VerbCommand, example='eval "$(audit completion bash)"     # in ~/.bashrc')
@click.argument("shell", type=click.Choice(SHELLS), required=False, metavar="[bash|zsh|fish]")
def completion(shell: str | None) -> None:
    """How do I complete verbs, targets, queries and verdicts with the tab key?"""
    name = shell or os.path.basename(os.environ.get("SHELL", ""))
    kind = get_completion_class(name) if name in SHELLS else None
    if kind is None:
        hints = [f"audit completion {known}" for known in SHELLS]
        raise UserError("U009", f"cannot tell your shell from $SHELL ({name or 'not set'})", hints=hints)
    from auditor.cli import groups, table

    for program in (table.AUDIT, table.PATCHES, table.UMBRELLA):
        variable = f"_{program.name}_COMPLETE".replace("-", "_").upper()
        maker = kind(groups.group_of(program), {}, program.name, variable)
        # click's own source() starts bash to look at its version; the script itself is all that is wanted.
        click.echo(maker.source_template % maker.source_vars())
