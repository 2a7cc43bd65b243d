"""The verbs of ``patches`` until they are here: each answers that it is not, and changes nothing."""

from __future__ import annotations

from typing import Any, NoReturn

import click

from auditor.cli.command import VerbCommand
from auditor.cli.table import PATCH_VERBS
from auditor.errors import UserError


def _verb(name: str, question: str) -> click.Command:
    @click.command(
        name,
        cls=VerbCommand,
        context_settings={"ignore_unknown_options": True, "help_option_names": ["-h", "--help"]},
    )
    @click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
    def command(arguments: tuple[str, ...]) -> NoReturn:
        raise UserError(
            "U010",
            f"`patches {name}` is not here yet; nothing was read or changed",
            hints=["audit sglang --target sm_120"],
        )

    command.help = f"{question[:1].upper()}{question[1:]}. Not here yet."
    return command


def __getattr__(attribute: str) -> Any:
    """One command per verb of :data:`auditor.cli.table.PATCH_VERBS`, by name."""
    if attribute in PATCH_VERBS:
        return _verb(attribute, PATCH_VERBS[attribute])
    raise AttributeError(attribute)
