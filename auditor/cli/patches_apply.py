"""``patches apply``: plan in memory, verify, then write all or nothing, and say what was read back."""

from __future__ import annotations

import shlex
import sys
from typing import TYPE_CHECKING

import click

from auditor.cli.command import Option, VerbCommand
from auditor.cli.patches_base import FOLDER
from auditor.cli.patches_target import (
    output_options,
    sources_for,
    target_options,
    the_patchset,
    the_target,
    wait_option,
)
from auditor.errors import EXIT_CONFLICT, EXIT_FINDINGS, EXIT_OK, UserError

if TYPE_CHECKING:
    from auditor.patching.patchset import Patchset
    from auditor.patching.plan import Plan
    from auditor.patching.write.operations import Step
    from auditor.patching.write.target import Target

HOW = "how it is written (to a checkout: staged, unless a branch is named)"


@click.command(
    cls=VerbCommand,
    example=(
        "patches apply sm120 --to ../sglang --branch sm120",
        "patches apply sm120 --installed --frozen",
    ),
)
@click.argument("patchset")
@click.argument("patch", nargs=-1)
@target_options
@click.option("--branch", cls=Option, section=HOW, metavar="NAME", help="As commits, one a patch, on it.")
@click.option("--stage", is_flag=True, cls=Option, section=HOW, help="In the index and the working tree.")
@click.option("--dry-run", is_flag=True, cls=Option, section=HOW, help="Plan and verify; write nothing.")
@click.option("--frozen", is_flag=True, cls=Option, help="Only what the lock says, to the byte.")
@click.option("--allow-dirty", is_flag=True, cls=Option, help="Let other files have changes nobody recorded.")
@click.option("--allow-unknown", is_flag=True, cls=Option, help="Write to a tree that nobody can name.")
@click.option("--allow-look", is_flag=True, cls=Option, help="Write what a person should look at first.")
@click.option("--no-audit", is_flag=True, cls=Option, help="Leave the audit's postconditions out.")
@FOLDER
@wait_option
@output_options
def apply(
    patchset: str,
    patch: tuple[str, ...],
    to: str | None,
    installed: str | None,
    clone: str | None,
    branch: str | None,
    stage: bool,
    dry_run: bool,
    frozen: bool,
    allow_dirty: bool,
    allow_unknown: bool,
    allow_look: bool,
    no_audit: bool,
    folder: str | None,
    wait: float,
    form: str,
    color: str,
    quiet: bool,
) -> int:
    """Write a patchset to a checkout, a wheel folder or an installed copy: all of it, or nothing.

    Every patch is planned in memory and verified first. Exit codes: 0 written (or nothing to do), 1 the
    result does not hold what it promises, 3 a patch conflicts; nothing is written then.
    """
    from auditor.cli.color import use_color
    from auditor.patching.write.operations import at_work, require_as_recorded, write_steps

    found, profile = the_patchset(patchset, folder)
    target = the_target(to, installed, profile)
    way = _way(target, branch, stage)
    colored = use_color(color, sys.stdout)
    with at_work(target, wait) as root:
        require_as_recorded(target, root)
        todo = _not_yet(found, target, patch)
        if not todo:
            if frozen and not patch:
                _require_result(found, target)
            _say(f"{found.name} is on {target.shown} already\n")
            return EXIT_OK
        _check_base(target, allow_dirty, allow_unknown)
        plan = _plan(found, target, todo, clone)
        if frozen:
            from auditor.patching.lock import read_lock, require_locked

            require_locked(found, plan, read_lock(found))
        blocked = plan.failed or (plan.doubtful if not allow_look else ())
        checks = None
        if not blocked:
            from auditor.patching.verify import verify_plan

            checks = verify_plan(plan, audit=not no_audit)
        if blocked or dry_run or (checks is not None and not checks.ok):
            _print(plan, target, form, colored, quiet, checks=checks)
            return EXIT_CONFLICT if blocked else EXIT_OK if checks is None or checks.ok else EXIT_FINDINGS
        written = write_steps(target, root, _steps(plan), way=way, branch=branch or "")
    _print(plan, target, form, colored, quiet, checks=checks, result=written.result, commits=written.commits)
    return EXIT_OK


def _require_result(patchset: Patchset, target: Target) -> None:
    """``UserError`` P062, exit code 1, where what is on a target already is not as it was locked."""
    from auditor.cli.patches_verify import against
    from auditor.patching.lock import NAME, differences, read_lock

    lock = read_lock(patchset)
    wrong = differences(patchset, lock) or against(target, lock)[0]
    if wrong:
        more = f" (and {len(wrong) - 1} more)" if len(wrong) > 1 else ""
        raise UserError(
            "P062",
            f"it is on {target.shown} already, and not as the lock says: {wrong[0]}{more}",
            place=f"{patchset.place}/{NAME}",
            hints=[
                f"patches verify {patchset.typed} {target.option}".rstrip(),
                f"patches revert {patchset.name} {target.option}".rstrip(),
            ],
            exit_code=EXIT_FINDINGS,
        )


def _way(target: Target, branch: str | None, stage: bool) -> str:
    if branch is not None and stage:
        raise UserError("U005", "--branch and --stage say two things", hints=[f"--branch {branch}"])
    if target.checkout is None:
        if branch is not None or stage:
            raise UserError(
                "P055", "there is no git here, so nothing to commit or stage", place=target.shown,
                hints=["leave --branch and --stage out"],
            )  # fmt: skip
        return "folder"
    if branch is not None:
        _check_branch(target, branch)
        return "commits"
    return "staged"


def _check_branch(target: Target, branch: str) -> None:
    assert target.checkout is not None
    repo = target.checkout.repo
    if branch.startswith("-") or repo.run("check-ref-format", f"refs/heads/{branch}").returncode != 0:
        raise UserError("U005", f"{branch!r} cannot be the name of a branch", hints=["--branch sm120"])
    _, current = target.checkout.head()
    exists = repo.run("rev-parse", "--verify", "-q", f"refs/heads/{branch}").returncode == 0
    if exists and current != f"refs/heads/{branch}":
        raise UserError(
            "P059",
            f"the branch {branch} is there already, and is not the one that is checked out",
            place=target.shown,
            hints=[repo.command(f"switch {branch}"), f"--branch {branch}-2"],
        )


def _not_yet(patchset: Patchset, target: Target, names: tuple[str, ...]) -> list[str]:
    """Patches that are to be applied and are not on the target, in their order."""
    for name in names:
        patchset.patch(name)
    state = target.state
    there = {p.name: p for p in (state.patches if state else ()) if p.patchset == patchset.name}
    import hashlib

    for patch in patchset.patches:
        old = there.get(patch.name)
        if old is not None and old.sha256 != hashlib.sha256(patch.raw).hexdigest():
            raise UserError(
                "P058",
                f"another version of {patch.name} is applied here",
                place=target.shown,
                hints=[f"patches revert {patchset.name} {target.option}        # then apply again"],
            )
    return [p.name for p in patchset.patches if p.name not in there and (not names or p.name in names)]


def _check_base(target: Target, allow_dirty: bool, allow_unknown: bool) -> None:
    unknown = target.unknown()
    if unknown and not allow_unknown:
        raise UserError(
            "P051",
            f"nobody can say what this tree is: {unknown}",
            place=target.shown,
            hints=["--allow-unknown        # writes to it all the same"],
        )
    dirty = [] if allow_dirty else target.dirty()
    if dirty:
        more = f" and {len(dirty) - 1} more" if len(dirty) > 1 else ""
        checkout = target.checkout
        undo = checkout.repo.command("stash") if checkout is not None else "reinstall it, or"
        raise UserError(
            "P051",
            f"there are changes that nobody {'committed' if checkout is not None else 'recorded'}: "
            f"{dirty[0]}{more}",
            place=target.shown,
            hints=[undo, "--allow-dirty        # if the patches do not touch those files"],
        )


def _plan(patchset: Patchset, target: Target, names: list[str], clone: str | None) -> Plan:
    from auditor.cli.patches_target import judge_for
    from auditor.patching.plan import plan

    sources = sources_for(target.tree, clone, target.profile)
    there = [p.name for p in (target.state.patches if target.state else ())]
    return plan(
        patchset,
        target.tree,
        target.profile,
        sources=sources,
        only=names,
        version=target.version,
        judge=judge_for(target.profile),
        there=there,
    )


def _steps(plan: Plan) -> list[Step]:
    from auditor.patching.write.operations import Step

    out = []
    for entry in plan.entries:
        header, changes = entry.patch.header, entry.changes
        message = header.title
        body = header.description or (header.why.reason if header.why else "")
        out.append(
            Step(
                plan.patchset.name,
                entry.name,
                entry.sha256,
                entry.outcome.status,
                entry.outcome.files,
                entry.outcome.modes,
                entry.outcome.note,
                f"{message}\n\n{body}" if body else message,
                header.author or (changes.author if changes is not None else ""),
                _date(header.date or (changes.date if changes is not None else "")),
            )
        )
    return out


def _date(text: str) -> str:
    """``seconds zone`` of a date as mails, DEP-3 fields or git write it; "" if it is none."""
    import re
    from datetime import datetime, timezone
    from email.utils import parsedate_to_datetime

    if re.fullmatch(r"\d{1,12} [+-]\d{4}", text):
        return text
    for read in (parsedate_to_datetime, datetime.fromisoformat):
        try:
            when = read(text)
        except (ValueError, TypeError):
            continue
        if when.tzinfo is None:
            when = when.replace(tzinfo=timezone.utc)
        return f"{int(when.timestamp())} {when:%z}"
    return ""


def _print(
    plan: Plan,
    target: Target,
    form: str,
    color: bool,
    quiet: bool,
    *,
    checks: object = None,
    result: str = "",
    commits: tuple[str, ...] = (),
) -> None:
    from auditor.cli.patches_page import counted, envelope, legend, plan_json, table
    from auditor.patching.verify import Checks

    assert checks is None or isinstance(checks, Checks)
    if form == "json":
        facts = plan_json(plan) | {
            "written": bool(result),
            "result": result or None,
            "commits": list(commits),
        }
        facts["checks"] = checks.as_json() if checks is not None else None
        _say(envelope("apply", **facts).decode())
        return
    lines = []
    if not quiet:
        info = plan.tree.info()
        head = f"{plan.patchset.name} on {plan.profile.name} {info.label}"
        lines.append(f"{head}      {counted(plan.counts())}")
    lines += table(plan.entries, color)
    if checks is not None:
        lines += checks.lines(verbose=not quiet)
    if result:
        files = len(plan.files)
        lines.append(f"written and read back: {files} file{'s' if files != 1 else ''}, tree {result}")
        lines += [f"  commit {oid}" for oid in commits]
        compiled = target.never_checked(plan.files)
        if compiled:
            lines.append(f"note: Python takes {compiled[0]} without a look at its source; remove it:")
            lines.append(f"  rm {' '.join(shlex.quote(str(target.root / name)) for name in compiled)}")
    else:
        lines.append("nothing was written")
    if not quiet:
        lines.append(legend(entry.outcome.status for entry in plan.entries))
        for entry in plan.failed[:1]:
            at = f" {target.option}" if target.shown != "." else ""
            lines.append(f"next: patches explain {plan.patchset.typed} {entry.name}{at}")
        if plan.doubtful and not plan.failed and not result:
            lines.append("next: look at the marked hunks, then --allow-look")
    _say("\n".join(lines) + "\n")


def _say(text: str) -> None:
    from auditor.cli.output import write_bytes

    write_bytes(text.encode("utf-8", "backslashreplace"), None)
