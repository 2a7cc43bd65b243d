"""``patches revert``: take patches out of a target by inverse change."""

from __future__ import annotations

from pathlib import Path

import click

from auditor.cli.command import Option, VerbCommand
from auditor.cli.patches_base import FOLDER
from auditor.cli.patches_target import output_options, profile_of, target_options, the_target, wait_option
from auditor.errors import UserError


@click.command(
    cls=VerbCommand,
    example=("patches revert sm120 --to ../sglang", "patches revert sm120 splitk-decode --installed"),
)
@click.argument("patchset")
@click.argument("patch", nargs=-1)
@target_options
@click.option("--project", default="sglang", hidden=True, cls=Option)
@FOLDER
@wait_option
@output_options
def revert(
    patchset: str,
    patch: tuple[str, ...],
    to: str | None,
    installed: str | None,
    clone: str | None,
    project: str,
    folder: str | None,
    wait: float,
    form: str,
    color: str,
    quiet: bool,
) -> int:
    """Take a patchset, or some of its patches, out again: every byte, mode and index entry as before them.

    Works from the record on the target: the patchset need not be here, and --folder is not looked into, only
    taken as the other verbs take it. What was edited since stays, unless it
    is on the same lines: that is a conflict (exit code 3), and nothing is changed.
    """
    from auditor.cli.output import write_bytes
    from auditor.cli.patches_page import envelope
    from auditor.patching.write import operations

    patchset = Path(patchset).name or patchset  # by its folder too, as the other verbs take it
    target = the_target(to, installed, profile_of(project))
    with operations.at_work(target, wait) as root:
        state = target.state
        there = [p.name for p in (state.patches if state else ()) if p.patchset == patchset]
        wanted = list(patch) or there
        missing = [name for name in wanted if name not in there]
        if missing or not wanted:
            fact = f"{missing[0]} of {patchset}" if missing else patchset
            known = sorted({p.patchset for p in (state.patches if state else ())})
            hints = [f"patches revert {name} {target.option}" for name in known if name != patchset]
            raise UserError("P057", f"{fact} is not applied here", place=target.shown, hints=hints)
        written, removed = operations.revert(target, root, [(patchset, name) for name in wanted])
    if form == "json":
        names = [p.name for p in removed]
        facts = {"patchset": patchset, "reverted": names, "result": written.result}
        write_bytes(envelope("revert", **facts, commits=list(written.commits)), None)
        return 0
    lines = []
    for gone in removed:
        count = len(gone.files)
        lines.append(f"- {gone.name}  taken out of {count} file{'s' if count != 1 else ''}")
    total = len(written.files)
    lines.append(f"written and read back: {total} file{'s' if total != 1 else ''}, tree {written.result}")
    lines += [f"  commit {oid}" for oid in written.commits]
    write_bytes(("\n".join(lines) + "\n").encode(), None)
    return 0
