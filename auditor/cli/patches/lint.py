"""``patches lint``: are these patchsets well formed."""

from __future__ import annotations

from pathlib import Path

import click

from auditor.cli.command import VerbCommand
from auditor.cli.output import echo
from auditor.cli.patches.base import FOLDER
from auditor.cli.words import PatchsetType
from auditor.errors import EXIT_FINDINGS, EXIT_OK


@click.command("lint", cls=VerbCommand, example="patches lint mine")
@click.argument("names", nargs=-1, type=PatchsetType(), metavar="[PATCHSET]...")
@click.option("--format", "form", type=click.Choice(("terminal", "json")), default="terminal")
@FOLDER
def lint(names: tuple[str, ...], form: str, folder: str | None) -> int:
    """Are these patchsets well formed: why, status, removal plan, order, lists, content? Exit 1 if not."""
    from auditor.cli.output import write_bytes
    from auditor.cli.patches.page import envelope
    from auditor.patching.sets.lint import lint_patchset
    from auditor.patching.sets.patchset import find_patchset, list_patchsets

    root = Path(folder) if folder else None
    paths = [find_patchset(name, root) for name in names] or [path for _, path in list_patchsets(root)]
    problems = [problem for path in paths for problem in lint_patchset(path)]
    if form == "json":
        rows = [
            {"code": item.code, "place": item.place, "message": item.message, "hints": list(item.hints)}
            for item in problems
        ]
        write_bytes(envelope("lint", problems=rows), None)
        return EXIT_FINDINGS if problems else EXIT_OK
    for problem in problems:
        echo(f"{problem.place}: {problem.code} {problem.message}")
        for hint in problem.hints:
            echo(f"  help: {hint}")
    count = len(problems)
    said = f"{count} problem{'' if count == 1 else 's'}" if problems else "no problems"
    echo(f"{said} in {len(paths)} patchset{'' if len(paths) == 1 else 's'}", err=True)
    return EXIT_FINDINGS if problems else EXIT_OK
