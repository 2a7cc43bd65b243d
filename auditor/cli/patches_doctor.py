"""``patches doctor``: is a target whole, and if a run was stopped in the middle, make it so."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from auditor.cli.command import Option, VerbCommand
from auditor.cli.patches_target import output_options, profile_of, target_options, the_target, wait_option
from auditor.errors import EXIT_FINDINGS, EXIT_OK, UserError

if TYPE_CHECKING:
    from auditor.patching.write.target import Target


@click.command(cls=VerbCommand, example=("patches doctor --to ../sglang", "patches doctor --installed"))
@target_options
@click.option("--check", is_flag=True, cls=Option, help="Only look; repair nothing.")
@click.option("--forget", is_flag=True, cls=Option, help="Drop the record, if the files were replaced since.")
@click.option("--project", default="sglang", hidden=True, cls=Option)
@wait_option
@output_options
def doctor(
    to: str | None,
    installed: str | None,
    clone: str | None,
    check: bool,
    forget: bool,
    project: str,
    wait: float,
    form: str,
    color: str,
    quiet: bool,
) -> int:
    """Was a run stopped in the middle, and are the files what the record says?

    An unfinished run is finished if every file is in place already, else put back. Exit codes: 0 whole, 1
    something is not as recorded, 3 somebody else changed a file of an unfinished run.
    """
    from auditor.cli.output import write_bytes
    from auditor.cli.patches_page import envelope
    from auditor.patching.write import operations
    from auditor.patching.write.disk import Root
    from auditor.patching.write.journal import left_behind

    target = the_target(to, installed, profile_of(project))
    facts: dict[str, Any] = {}
    lines: list[str] = []
    with Root(target.root) as root:
        unfinished = left_behind(root, target.store)
    if unfinished is not None and not check:
        how, what = operations.repair(target, wait)
        facts["repaired"] = {"how": how, "what": what}
        end = "finished: complete now" if how == "finished" else "put back: as before it"
        lines.append(f"{what}: stopped in the middle; {end}")
        unfinished = None
    elif unfinished is not None:
        what = f"{unfinished.header.verb} {unfinished.header.what}"
        end = "it would be finished" if unfinished.whole else "it would be put back"
        lines.append(f"{what}: stopped in the middle; {end}")
        facts["unfinished"] = {"what": what, "whole": unfinished.whole}
    elif not check:
        operations.repair(target, wait)
    target = the_target(to, installed, profile_of(project))
    if forget:
        _require_replaced(target)
        operations.forget(target, wait)
        lines.append("the record is gone; the files are left as they are")
        write_bytes(("\n".join(lines) + "\n").encode(), None)
        return EXIT_OK
    with Root(target.root) as root:
        files = operations.stands(target, root)
    odd = {path: how for path, how in files.items() if how != "applied"}
    facts |= {"files": files, "whole": not odd and unfinished is None}
    state = target.state
    if state is None:
        lines.append("no patches are applied here")
    elif not odd:
        lines.append(f"{len(state.patches)} patches, {len(files)} files: every byte as recorded")
    else:
        lines += [f"! {path}  {how if how == 'as before' else 'changed since'}" for path, how in odd.items()]
        if set(files.values()) == {"as before"}:
            lines.append(
                "the files are those from before the patches: patches doctor --forget drops the record"
            )
        else:
            lines.append("put them back as the patches left them, or: patches doctor --forget")
    locks = _locks(target)
    facts["locks"] = locks
    lines += [f"! {lock} was left by a git that was killed: rm {lock}" for lock in locks]
    if form == "json":
        write_bytes(envelope("doctor", **facts), None)
    else:
        write_bytes(("\n".join(lines) + "\n").encode(), None)
    return EXIT_FINDINGS if odd or unfinished is not None or locks else EXIT_OK


def _locks(target: Target) -> list[str]:
    """Locks in a checkout that make git refuse, and that nobody holds any more."""
    from auditor.patching.write.reflocks import left_locks

    if target.checkout is None:
        return []
    branch = target.checkout.head()[1]
    return [str(path) for path in left_locks(target.checkout.repo, [branch] if branch else [])]


def _require_replaced(target: Target) -> None:
    """``UserError`` P058 where every file is as recorded: without the record nothing could be taken out."""
    from auditor.patching.write.disk import Root
    from auditor.patching.write.operations import stands

    state = target.state
    with Root(target.root) as root:
        files = stands(target, root)
    if state is None or not files or set(files.values()) != {"applied"}:
        return
    names = dict.fromkeys(patch.patchset for patch in state.patches)
    raise UserError(
        "P058",
        "the patches are on these files to the byte: without the record they could not be taken out again",
        place=target.shown,
        hints=[f"patches revert {name} {target.option}".rstrip() for name in names],
    )
