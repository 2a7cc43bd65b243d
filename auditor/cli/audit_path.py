"""``audit path``: the decisions a server start takes for one model."""

from __future__ import annotations

from typing import NoReturn

import click

from auditor.cli.command import VerbCommand
from auditor.cli.options import Request, tree_options
from auditor.errors import UserError


@click.command(
    cls=VerbCommand, example="audit path --model DeepseekV4ForCausalLM --target sm_120 --release 0.5.14"
)
@click.option("--model", required=True, metavar="CLASS", help="The architecture in the model's config.json.")
@tree_options()
def path(model: str, request: Request) -> NoReturn:
    """What does a server start decide for this model on this target, and where?"""
    hints = [f"audit {request.project} --assume model={model}"]
    raise UserError("U010", "`audit path` is not here yet; nothing was read", hints=hints)
