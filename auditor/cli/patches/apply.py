"""``patches apply``: plan in memory, verify, then write all or nothing, and say what was read back."""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import click

from auditor.cli.command import Option, VerbCommand
from auditor.cli.patches.apply_page import Page
from auditor.cli.patches.base import FOLDER
from auditor.cli.patches.target import load, output_options, target_options, wait_option
from auditor.cli.patches.upstreams import (
    chosen_upstreams,
    clones_of,
    ground,
    targets_of,
    upstream_option,
)
from auditor.cli.words import PatchsetType, PatchType
from auditor.errors import EXIT_CONFLICT, EXIT_FINDINGS, EXIT_OK, UserError

if TYPE_CHECKING:
    from auditor.patching.planning.model import Plan, Plans
    from auditor.patching.proof.verify import Checks
    from auditor.patching.sets.patchset import Patchset
    from auditor.patching.write.disk import Root
    from auditor.patching.write.gitpart import Step
    from auditor.patching.write.operations import Written
    from auditor.patching.write.target import Target

_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
HOW = "how it is written (to a checkout: staged, unless a branch is named)"


@click.command(
    cls=VerbCommand,
    example=(
        "patches apply sm120 --to ../sglang --branch sm120",
        "patches apply sm120 --installed --frozen",
        "patches apply sm120 --to sglang=../sglang --to flashinfer=../flashinfer",
    ),
)
@click.argument("patchset", type=PatchsetType())
@click.argument("patch", nargs=-1, type=PatchType())
@target_options
@click.option("--branch", cls=Option, section=HOW, metavar="NAME", help="As commits, one a patch, on it.")
@click.option("--stage", is_flag=True, cls=Option, section=HOW, help="In the index and the working tree.")
@click.option("--dry-run", is_flag=True, cls=Option, section=HOW, help="Plan and verify; write nothing.")
@click.option("--frozen", is_flag=True, cls=Option, help="Only what the lock says, to the byte.")
@click.option("--allow-dirty", is_flag=True, cls=Option, help="Let other files have changes nobody recorded.")
@click.option("--allow-unknown", is_flag=True, cls=Option, help="Write to a tree that nobody can name.")
@click.option("--allow-look", is_flag=True, cls=Option, help="Write what a person should look at first.")
@upstream_option
@click.option("--no-audit", is_flag=True, cls=Option, help="Leave the audit's postconditions out.")
@FOLDER
@wait_option
@output_options
def apply(
    patchset: str,
    patch: tuple[str, ...],
    to: tuple[str, ...],
    installed: str | None,
    clone: tuple[str, ...],
    upstream: tuple[str, ...],
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
    """How do I write my patches to a checkout, a wheel folder or an installed copy? All of them, or nothing.

    Every patch is planned in memory and verified first. Patches of several upstreams are written to all their
    targets in one transaction. Exit codes: 0 written (or nothing to do); nothing is written with 1, the
    result does not hold what it promises, and 3, a patch conflicts.
    """
    from auditor.cli.color import use_color
    from auditor.patching.write.operations import all_at_work, require_as_recorded

    found = load(patchset, folder)
    profiles = chosen_upstreams(found, upstream, patch)
    clones = clones_of(found, profiles, clone)
    targets = targets_of(found, profiles, to, installed)
    ways = _ways(targets, branch, stage)
    colored = use_color(color, sys.stdout)
    with all_at_work(targets, wait) as roots:
        for target, root in zip(targets, roots, strict=True):
            require_as_recorded(target, root)
        todo = [_not_yet(found, target, patch) for target in targets]
        if not any(todo):
            if frozen and not patch:
                _require_result(found, targets)
            _say(f"{found.name} is on {' and '.join(dict.fromkeys(t.shown for t in targets))} already\n")
            return EXIT_OK
        work = [Work(*each) for each in zip(targets, roots, ways, todo, strict=True)]
        for each in work:
            if each.todo:
                _check_base(each.target, allow_dirty, allow_unknown)
        plans = _plan(found, [each for each in work if each.todo], clones, targets)
        if frozen:
            from auditor.patching.planning.lock import read_lock, require_locked

            for plan in plans.plans:
                require_locked(found, plan, read_lock(found))
        blocked = plans.failed or (plans.doubtful if not allow_look else ())
        checks: list[Checks] = []
        if not blocked:
            from auditor.patching.proof.verify import verify_plan

            checks = [verify_plan(plan, audit=not no_audit) for plan in plans.plans]
        page = Page(found, plans, [each.target for each in work if each.todo], form, colored, quiet)
        sound = all(check.ok for check in checks)
        if blocked or dry_run or not sound:
            page.show(checks, [])
            return EXIT_CONFLICT if blocked else EXIT_OK if sound else EXIT_FINDINGS
        written = _write([each for each in work if each.todo], plans, targets, branch or "")
    page.show(checks, written)
    return EXIT_OK


@dataclass(frozen=True)
class Work:
    """One target of a run: how it is written, and which patches it does not have yet."""

    target: Target
    root: Root
    way: str
    todo: list[str]


def _write(work: list[Work], plans: Plans, targets: list[Target], branch: str) -> list[Written]:
    """Everything to every target, in one transaction."""
    from auditor.patching.write.operations import ready_all, write_all

    steps = [_steps(plan) for plan in plans.plans]
    asked = [
        (each.target, each.root, step, each.way, branch if each.way == "commits" else "")
        for each, step in zip(work, steps, strict=True)
    ]
    return write_all(ready_all(asked, targets))


def _require_result(patchset: Patchset, targets: list[Target]) -> None:
    """``UserError`` P062, exit code 1, where what is on a target already is not as it was locked."""
    for target in targets:
        _require_one_result(patchset, target)


def _require_one_result(patchset: Patchset, target: Target) -> None:
    from auditor.cli.patches.verify import against
    from auditor.patching.planning.lock import NAME, differences, read_lock

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


def _ways(targets: list[Target], branch: str | None, stage: bool) -> list[str]:
    """How each target is written; what is said of git is for the checkouts among several targets."""
    if len(targets) == 1 or all(target.checkout is None for target in targets):
        return [_way(target, branch, stage) for target in targets]
    return ["folder" if target.checkout is None else _way(target, branch, stage) for target in targets]


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
    plain = re.fullmatch(r"\w[\w-]*(/\w[\w-]*)*", branch, re.ASCII)  # no need to ask git for such a name
    if not plain and (
        branch.startswith("-") or repo.run("check-ref-format", f"refs/heads/{branch}").returncode != 0
    ):
        raise UserError("U005", f"{branch!r} cannot be the name of a branch", hints=["--branch sm120"])
    _, current = target.checkout.head()
    exists = bool(repo.first_commit([f"refs/heads/{branch}"])) or (
        (repo.common_dir / "refs" / "heads" / branch).is_file()  # one that leads nowhere is there, too
    )
    if exists and current != f"refs/heads/{branch}":
        raise UserError(
            "P059",
            f"the branch {branch} is there already, and is not the one that is checked out",
            place=target.shown,
            hints=[repo.command(f"switch {branch}"), f"--branch {branch}-2"],
        )


def _not_yet(patchset: Patchset, target: Target, names: tuple[str, ...]) -> list[str]:
    """Patches of its upstream that are to be applied and are not on the target, in their order."""
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
    own = [p for p in patchset.patches if patchset.project_of(p) == target.profile.name]
    return [p.name for p in own if p.name not in there and (not names or p.name in names)]


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
        undo = checkout.repo.command("stash") if checkout is not None else _reinstall(target)
        raise UserError(
            "P051",
            f"there are changes that nobody {'committed' if checkout is not None else 'recorded'}: "
            f"{dirty[0]}{more}",
            place=target.shown,
            hints=[each for each in (undo, "--allow-dirty        # if no patch touches those files") if each],
        )


def _reinstall(target: Target) -> str:
    """What brings an installed copy back to what its release has; "" for a folder that pip does not know."""
    if target.installed is None or not target.version:
        return ""
    from auditor.trees.installed import dist_info
    from auditor.trees.names import normal_name

    names = target.profile.distributions
    name = next((n for n in names if dist_info(target.root, normal_name(n)) is not None), names[0])
    return f"python -m pip install --force-reinstall --no-deps {name}=={target.version}"


def _plan(
    patchset: Patchset,
    work: list[Work],
    clones: Mapping[str, str],
    targets: list[Target],
) -> Plans:
    from auditor.patching.planning.plan import plan_all

    grounds = [
        ground(e.target.tree, e.target.profile, clones.get(e.target.profile.name), version=e.target.version)
        for e in work
    ]
    there = [p.name for target in targets for p in (target.state.patches if target.state else ())]
    only = [name for each in work for name in each.todo]
    return plan_all(patchset, grounds, only=only, there=there)


def _steps(plan: Plan) -> list[Step]:
    from auditor.patching.write.gitpart import Step

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
    from datetime import datetime, timedelta, timezone

    if re.fullmatch(r"\d{1,12} [+-]\d{4}", text):
        return text
    # As git writes it: loading the reader of mails takes longer than reading ten dates.
    plain = re.fullmatch(
        r"(?:[A-Z][a-z]{2}, )?(\d\d?) ([A-Z][a-z]{2}) (\d{4}) (\d\d):(\d\d):(\d\d) ([+-])(\d\d)(\d\d)", text
    )
    if plain and plain[2] in _MONTHS:
        day, year, hour, minute, second, hours, minutes = (int(plain[n]) for n in (1, 3, 4, 5, 6, 8, 9))
        offset = timedelta(hours=hours, minutes=minutes) * (-1 if plain[7] == "-" else 1)
        try:
            month = _MONTHS.index(plain[2]) + 1
            when = datetime(year, month, day, hour, minute, second, tzinfo=timezone(offset))
            return f"{int(when.timestamp())} {plain[7]}{plain[8]}{plain[9]}"
        except ValueError:
            pass
    from email.utils import parsedate_to_datetime

    for read in (parsedate_to_datetime, datetime.fromisoformat):
        try:
            when = read(text)
        except (ValueError, TypeError):
            continue
        if when.tzinfo is None:
            when = when.replace(tzinfo=timezone.utc)
        return f"{int(when.timestamp())} {when:%z}"
    return ""


def _say(text: str) -> None:
    from auditor.cli.output import write_bytes

    write_bytes(text.encode("utf-8", "backslashreplace"), None)
