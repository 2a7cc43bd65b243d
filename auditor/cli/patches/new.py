"""``patches new``: the first version of a patchset, or of a patch in one."""

from __future__ import annotations

from pathlib import Path

import click

from auditor.cli.command import VerbCommand
from auditor.cli.output import echo
from auditor.cli.patches.base import FOLDER
from auditor.cli.request import DEFAULT_PROJECT
from auditor.cli.words import EditType, PatchsetType


@click.command(
    "new", cls=VerbCommand, example=("patches new mine", "patches new mine open-the-gate --commit 0123abc")
)
@click.argument("patchset", type=PatchsetType())
@click.argument("patch", required=False, metavar="[PATCH]")
@click.option("--title", default="", metavar="TEXT", help="What it is, in one line.")
@click.option("--commit", metavar="ID", help="A patch that is a commit of upstream.")
@click.option("--range", "range_", metavar="A..B", help="A patch that is a range of upstream.")
@click.option("--pr", type=click.IntRange(1), metavar="N", help="A patch that is a pull request of upstream.")
@click.option(
    "--edit", type=EditType(), metavar="KIND", default="", help="A patch with an edit of this kind."
)
@click.option("--project", default=DEFAULT_PROJECT, hidden=True)
@FOLDER
def new(
    patchset: str,
    patch: str | None,
    title: str,
    commit: str | None,
    range_: str | None,
    pr: int | None,
    edit: str,
    project: str,
    folder: str | None,
) -> None:
    """How do I start a patchset, or a patch in one? Never overwrites anything."""
    from auditor.patching.incoming.scaffold import new_patch, new_patchset
    from auditor.profile import load_profile

    root = Path(folder) if folder else None
    option = f" --folder {folder}" if folder else ""
    if patch is None:
        url = load_profile(project).url or ""
        path = new_patchset(patchset, root, title=title, project=project, url=url)
        following = (
            f"patches new {patchset} PATCH{option} · patches import DIFF --into {patchset} --append{option}"
        )
    else:
        path = new_patch(patchset, patch, root, title=title, commit=commit, range_=range_, pr=pr, edit=edit)
        following = f"edit it, then patches lint {patchset}{option}"
    echo(path.as_posix())
    echo(f"next: {following}", err=True)
