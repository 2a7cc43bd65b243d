"""``patches revert``: take patches out of a target by inverse change."""

from __future__ import annotations

import os
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from auditor.cli.command import Option, VerbCommand
from auditor.cli.patches.base import FOLDER
from auditor.cli.patches.target import output_options, target_options, wait_option
from auditor.cli.patches.upstreams import upstream_option
from auditor.cli.words import PatchsetType, PatchType
from auditor.errors import UserError

if TYPE_CHECKING:
    from auditor.patching.write.target import Target


@click.command(
    cls=VerbCommand,
    example=("patches revert sm120 --to ../sglang", "patches revert sm120 splitk-decode --installed"),
)
@click.argument("patchset", type=PatchsetType())
@click.argument("patch", nargs=-1, type=PatchType())
@target_options
@upstream_option
@click.option("--project", default="sglang", hidden=True, cls=Option)
@FOLDER
@wait_option
@output_options
def revert(
    patchset: str,
    patch: tuple[str, ...],
    to: tuple[str, ...],
    installed: str | None,
    clone: tuple[str, ...],
    upstream: tuple[str, ...],
    project: str,
    folder: str | None,
    wait: float,
    form: str,
    color: str,
    quiet: bool,
) -> int:
    """How do I take a patchset, or some of its patches, out again? Byte for byte, modes and index too.

    Works from the record on the target: the patchset need not be here, and --folder is not looked into, only
    taken as the other verbs take it. What was edited since stays, unless it is on the same lines: that is a
    conflict (exit code 3), and nothing is changed. What was written to several upstreams is taken out of all
    of them in one transaction.
    """
    from auditor.cli.output import write_bytes
    from auditor.cli.patches.page import envelope
    from auditor.cli.patches.upstreams import recorded_targets
    from auditor.patching.write import operations

    patchset = Path(patchset).name or patchset  # by its folder too, as the other verbs take it
    everywhere = recorded_targets(to, installed, project)
    targets = [each for each in everywhere if _wanted(each, patchset, patch, upstream)]
    if not targets:
        raise _not_applied(everywhere, patchset, patch)
    if not patch and not upstream:
        _require_partners(targets, patchset)
    with operations.all_at_work(targets, wait) as roots:
        ready = []
        for target, root in zip(targets, roots, strict=True):
            ready.append(operations.ready_revert(target, root, _names(target, patchset, patch)))
        missing = [name for name in patch if not any(name == p.name for r in ready for p in r.removed)]
        if missing:
            raise _not_applied(targets, patchset, tuple(missing))
        operations.write_all(ready)
    if form == "json":
        rows = [
            {
                "patchset": patchset,
                "reverted": [p.name for p in each.removed],
                "result": each.written.result,
                "commits": list(each.written.commits),
            }
            for each in ready
        ]
        facts: dict[str, Any] = dict(rows[0])
        if len(rows) > 1:
            names = [each.target.profile.name for each in ready]
            several = [{"upstream": name, **row} for name, row in zip(names, rows, strict=True)]
            facts = {"patchset": patchset, "upstreams": several}
        write_bytes(envelope("revert", **facts), None)
        return 0
    lines = []
    for each in ready:
        head = f"{each.target.profile.name}: " if len(ready) > 1 else ""
        for gone in each.removed:
            count = len(gone.files)
            lines.append(f"- {gone.name}  taken out of {count} file{'s' if count != 1 else ''}")
        total = len(each.written.files)
        said = f"{total} file{'s' if total != 1 else ''}, tree {each.written.result}"
        lines.append(f"{head}written and read back: {said}")
        lines += [f"  commit {oid}" for oid in each.written.commits]
    write_bytes(("\n".join(lines) + "\n").encode(), None)
    return 0


def _names(target: Target, patchset: str, patch: tuple[str, ...]) -> list[tuple[str, str]]:
    """What is to be taken out of one target, in its order."""
    state = target.state
    there = [p.name for p in (state.patches if state else ()) if p.patchset == patchset]
    return [(patchset, name) for name in (patch or there) if name in there]


def _wanted(target: Target, patchset: str, patch: tuple[str, ...], upstream: tuple[str, ...]) -> bool:
    return bool(_names(target, patchset, patch)) and (not upstream or target.profile.name in upstream)


def _not_applied(targets: Sequence[Target], patchset: str, patch: tuple[str, ...]) -> UserError:
    target = targets[0]
    there = {
        (p.patchset, p.name)
        for each in targets
        for p in (each.state.patches if each.state is not None else ())
    }
    missing = [name for name in patch if (patchset, name) not in there]
    fact = f"{missing[0]} of {patchset}" if missing else patchset
    hints = [f"patches revert {name} {target.option}" for name in sorted({s for s, _ in there} - {patchset})]
    return UserError("P057", f"{fact} is not applied here", place=target.shown, hints=hints)


def _require_partners(targets: Sequence[Target], patchset: str) -> None:
    """``UserError`` P049 where the patchset is on another upstream too, which would keep its half."""
    from auditor.patching.write.recorded import holds, partners_of

    here = {(each.profile.name, os.path.realpath(each.root)) for each in targets}
    left = {
        (name, root): None
        for target in targets
        for name, root in partners_of(target)
        if (name, str(root)) not in here and holds(root, name, patchset)
    }
    if not left:
        return
    names = " and ".join(name for name, _ in left)
    ways = [target.option for target in targets]
    ways += [f"--to {shlex.quote(f'{name}={os.path.relpath(root)}')}" for name, root in left]
    only = " ".join(f"--upstream {target.profile.name}" for target in targets)
    raise UserError(
        "P049",
        f"{patchset} was written to {names} too, which would keep its part",
        place=targets[0].shown,
        hints=[
            f"patches revert {patchset} {' '.join(dict.fromkeys(ways))}",
            f"patches revert {patchset} {' '.join(dict.fromkeys(ways[: len(targets)]))} {only}",
        ],
    )
