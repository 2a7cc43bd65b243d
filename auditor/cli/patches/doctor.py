"""``patches doctor``: is a target whole, and if a run was stopped in the middle, make it so."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from auditor.cli.command import Option, VerbCommand
from auditor.cli.patches.target import output_options, target_options, wait_option
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
    to: tuple[str, ...],
    installed: str | None,
    clone: tuple[str, ...],
    check: bool,
    forget: bool,
    project: str,
    wait: float,
    form: str,
    color: str,
    quiet: bool,
) -> int:
    """Was a run stopped in the middle, and are the files what the record says?

    An unfinished run is finished if every file is in place already, else put back; one that wrote several
    upstreams on all of them. Exit codes: 0 whole, 1 something is not as recorded, 3 somebody else changed a
    file of an unfinished run.
    """
    from auditor.cli.output import write_bytes
    from auditor.cli.patches.page import envelope
    from auditor.cli.patches.upstreams import recorded_targets
    from auditor.patching.write import repair

    lines: list[str] = []
    rows: list[dict[str, Any]] = []
    if not check:
        for target in recorded_targets(to, installed, project):
            facts, said = _repair(target, wait)
            lines += said
            rows += [facts] if facts else []
    repaired = rows[0] if rows else {}
    targets = recorded_targets(to, installed, project)
    if forget:
        for target in targets:
            _require_replaced(target)
        for target in targets:
            repair.forget(target, wait)
        lines.append("the record is gone; the files are left as they are")
        write_bytes(("\n".join(lines) + "\n").encode(), None)
        return EXIT_OK
    told = [_look(target, len(targets) > 1) for target in targets]
    for _, said, _ in told:
        lines += said
    if form == "json":
        facts = {**repaired, **told[0][0]}
        if len(told) > 1:
            whole = all(each["whole"] for each, _, _ in told)
            facts = {**repaired, "whole": whole, "upstreams": [each for each, _, _ in told]}
        write_bytes(envelope("doctor", **facts), None)
    else:
        write_bytes(("\n".join(lines) + "\n").encode(), None)
    return EXIT_FINDINGS if any(bad for _, _, bad in told) else EXIT_OK


def _repair(target: Target, wait: float) -> tuple[dict[str, Any], list[str]]:
    """Finish or put back what was stopped, and what to say about it."""
    from auditor.patching.write import repair

    how, what = repair.repair(target, wait)
    if not how:
        return {}, []
    end = "finished: complete now" if how == "finished" else "put back: as before it"
    return {"repaired": {"how": how, "what": what}}, [f"{what}: stopped in the middle; {end}"]


def _look(target: Target, many: bool) -> tuple[dict[str, Any], list[str], bool]:
    """Facts, lines, and whether something is not as recorded."""
    from auditor.patching.write import operations, repair
    from auditor.patching.write.disk import Root
    from auditor.patching.write.journal import left_behind

    known = target.state is not None or target.named  # else nobody said whose tree it is
    head = f"{target.profile.name if known else target.shown}: " if many else ""
    facts: dict[str, Any] = {"upstream": target.profile.name} if many else {}
    lines: list[str] = []
    with Root(target.root) as root:
        unfinished = left_behind(root, target.store)
        files = operations.stands(target, root)
    if unfinished is not None:
        what = f"{unfinished.header.verb} {unfinished.header.what}"
        whole = repair.would_finish(target, unfinished)
        end = "it would be finished" if whole else "it would be put back"
        lines.append(f"{head}{what}: stopped in the middle; {end}")
        facts["unfinished"] = {"what": what, "whole": whole}
    odd = {path: how for path, how in files.items() if how != "applied"}
    facts |= {"files": files, "whole": not odd and unfinished is None}
    state = target.state
    if state is None:
        lines.append(f"{head}no patches are applied here")
    elif not odd:
        patches, touched = _number(len(state.patches), "patch", "es"), _number(len(files), "file")
        lines.append(f"{head}{patches}, {touched}: every byte as recorded")
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
    return facts, lines, bool(odd or locks) or unfinished is not None


def _number(count: int, word: str, ending: str = "s") -> str:
    return f"{count} {word}{ending if count != 1 else ''}"


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
