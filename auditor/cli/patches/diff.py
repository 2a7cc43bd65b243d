"""``patches diff``: what changed between two versions of a patchset."""

from __future__ import annotations

from pathlib import Path

import click

from auditor.cli.command import VerbCommand
from auditor.cli.output import echo
from auditor.cli.patches.base import FOLDER
from auditor.cli.words import PatchsetType
from auditor.errors import EXIT_FINDINGS, EXIT_OK

_MARKS = {"same": " ", "rebased": "~", "context": "~", "changed": "*", "added": "+", "removed": "-"}
_WORDS = {
    "same": "same",
    "rebased": "only line numbers or ids",
    "context": "only the lines around it",
    "changed": "content",
    "added": "new",
    "removed": "gone",
}


@click.command("diff", cls=VerbCommand, example=("patches diff mine@v1 mine", "patches diff mine"))
@click.argument("old", type=PatchsetType(), metavar="A")
@click.argument("new", type=PatchsetType(), required=False, metavar="[B]")
@click.option("--diff", "show_diff", is_flag=True, help="The difference of the contents, line by line.")
@click.option("--exit-code", is_flag=True, help="Exit 1 if they differ.")
@click.option("--format", "form", type=click.Choice(("terminal", "json")), default="terminal")
@FOLDER
def diff(old: str, new: str | None, show_diff: bool, exit_code: bool, form: str, folder: str | None) -> int:
    """What changed between two versions of a patchset: patches, heads and order?

    A and B are patchsets or their folders; NAME@REV is one as a commit of its own repository has it. Without
    B, the patchset as last committed is compared with the one on disk.
    """
    from dataclasses import asdict

    from auditor.cli.output import write_bytes
    from auditor.cli.patches.page import envelope
    from auditor.patching.sets.rangediff import compare
    from auditor.patching.sets.versions import load_version

    root = Path(folder) if folder else None
    words = (
        (old, new) if new is not None else (f"{old}@HEAD" if "@" not in old else old, old.partition("@")[0])
    )
    before, after = (load_version(word, root) for word in words)
    found = compare(before, after)
    if form == "json":
        rows = [asdict(patch) for patch in found.patches]
        page = envelope("diff", same=found.same, settings=list(found.settings), patches=rows)
        write_bytes(page, None)
        return EXIT_FINDINGS if exit_code and not found.same else EXIT_OK
    for text in found.settings:
        echo(f"* patchset.yaml  {text}")
    width = max((len(patch.name) for patch in found.patches), default=0)
    for patch in found.patches:
        mark = _MARKS[patch.kind] if patch.kind != "same" or patch.same else "*"
        said = [] if patch.kind == "same" and not patch.same else [_WORDS[patch.kind]]
        if patch.files:
            said[-1] += f" in {', '.join(patch.files)}"
        if patch.old_name not in (None, patch.name):
            said.append(f"was {patch.old_name}")
        if patch.moved:
            said.append(f"moved from {patch.old_position} to {patch.new_position}")
        said += [f"head: {text}" for text in patch.header]
        echo(f"{mark} {patch.name:<{width}}  {'; '.join(said)}")
        for line in patch.diff if show_diff else ():
            echo(f"      {line}")
    echo("no difference" if found.same else "legend: + new  - gone  * changed  ~ rebased", err=True)
    return EXIT_FINDINGS if exit_code and not found.same else EXIT_OK
