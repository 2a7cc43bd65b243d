"""``patches list``: which patchsets there are."""

from __future__ import annotations

from pathlib import Path

import click

from auditor.cli.command import VerbCommand
from auditor.cli.output import echo
from auditor.cli.patches.base import FOLDER
from auditor.errors import UserError


@click.command("list", cls=VerbCommand, example="patches list")
@click.option("--format", "form", type=click.Choice(("terminal", "json")), default="terminal")
@FOLDER
def list_(form: str, folder: str | None) -> None:
    """Which patchsets are there, for which upstreams, and how many patches has each?"""
    from auditor.cli.output import write_bytes
    from auditor.cli.patches.page import envelope
    from auditor.patching.sets.patchset import list_patchsets, load_outline

    rows = []
    broken: list[tuple[str, UserError]] = []
    for name, path in list_patchsets(Path(folder) if folder else None):
        try:
            rows.append((name, load_outline(path).file))
        except UserError as error:
            broken.append((name, error))
    if form == "json":
        data = [
            {
                "name": name,
                "title": file.title,
                "patches": len(file.order),
                "upstreams": {key: row.versions for key, row in sorted(file.upstreams.items())},
            }
            for name, file in rows
        ]
        write_bytes(envelope("list", patchsets=data), None)
    else:
        width = max((len(name) for name, _ in rows), default=0)
        for name, file in rows:
            count = len(file.order)
            upstreams = ", ".join(f"{key} {row.versions}".strip() for key, row in file.upstreams.items())
            noun = "patch  " if count == 1 else "patches"
            echo(f"{name:<{width}}  {count:>3} {noun}  {file.title}  ({upstreams})")
        if not rows and not broken:
            echo("no patchsets here; patches new NAME starts one", err=True)
    for name, problem in broken:
        echo(f"! {name}: {problem.place}: {problem.code} {problem}", err=True)
