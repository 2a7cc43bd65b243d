"""``patches lock``: pin what a patchset comes to on one base."""

from __future__ import annotations

from collections.abc import Mapping
from shlex import quote
from typing import TYPE_CHECKING

import click

from auditor.cli.command import Option, VerbCommand
from auditor.cli.patches.base import FOLDER
from auditor.cli.patches.target import base_tree, load
from auditor.cli.patches.upstreams import bases_of, chosen_upstreams, clones_of, ground
from auditor.cli.words import PatchsetType
from auditor.errors import EXIT_CONFLICT, EXIT_FINDINGS, EXIT_OK

if TYPE_CHECKING:
    from auditor.patching.sets.patchset import Patchset
    from auditor.profile import Profile
    from auditor.trees.base import SourceTree


@click.command(
    cls=VerbCommand,
    example=("patches lock sm120 --onto v0.5.18", "patches lock sm120 --check"),
)
@click.argument("patchset", type=PatchsetType())
@click.option(
    "--onto",
    cls=Option,
    multiple=True,
    metavar="REV",
    help="The base: a commit, release or wheel; NAME=REV for one of several upstreams.",
)
@click.option("--clone", cls=Option, multiple=True, metavar="PATH", help="A clone of the upstream.")
@click.option("--check", is_flag=True, cls=Option, help="Write nothing; exit 1 if the lock is not this.")
@click.option("--no-audit", is_flag=True, cls=Option, help="Leave the audit's postconditions out.")
@FOLDER
def lock(
    patchset: str,
    onto: tuple[str, ...],
    clone: tuple[str, ...],
    check: bool,
    no_audit: bool,
    folder: str | None,
) -> int:
    """How do I pin base, hashes and result, so that `apply --frozen` and `verify` refuse anything else?

    Without --onto the base of the lock that is there is taken again. Exit codes: 1 a check failed or the lock
    is not current, 3 a patch conflicts.
    """
    from auditor.cli.output import write_bytes
    from auditor.cli.patches.page import counted, table
    from auditor.patching.planning import lock as locks
    from auditor.patching.planning.plan import plan_all
    from auditor.patching.proof.verify import verify_plan

    found = load(patchset, folder)
    profiles = chosen_upstreams(found, ())
    clones = clones_of(found, profiles, clone)
    trees = bases_of(found, profiles, onto, clones)
    old = locks.read_lock(found) if check or not trees else None
    for name, tree in _same_bases(found, profiles, trees, clones).items():
        trees[name] = tree
    trees = {name: _committed(found, tree, profiles[name]) for name, tree in trees.items()}
    grounds = [ground(trees[name], profile, clones.get(name)) for name, profile in profiles.items()]
    planned = plan_all(found, grounds)
    if planned.failed:
        lines = []
        for each in planned.plans:
            lines.append(f"{found.name} on {each.tree.info().label}: {counted(each.counts())}")
            lines += table(each.entries, False)
        write_bytes(("\n".join(lines) + "\n").encode(), None)
        return EXIT_CONFLICT
    checks = [verify_plan(each, audit=not no_audit) for each in planned.plans]
    if not all(each.ok for each in checks):
        lines = [line for each in checks for line in each.lines()]
        write_bytes(("\n".join([*lines, "no lock was written"]) + "\n").encode(), None)
        return EXIT_FINDINGS
    made = locks.lock_all(planned)
    new = locks.encode(made)
    place = found.folder / locks.NAME
    if check:
        same = old is not None and locks.encode(old) == new
        words = "is current" if same else "is not what the patchset comes to: patches lock " + found.name
        write_bytes(f"{found.place}/{locks.NAME} {words}\n".encode(), None)
        return EXIT_OK if same else EXIT_FINDINGS
    write_bytes(new, str(place))
    lines = [f"{found.place}/{locks.NAME} written"]
    for each in planned.plans:
        base = made.upstreams[each.profile.name]
        files = len(each.files)
        head = f"{each.profile.name}: " if len(planned.plans) > 1 else ""
        said = f"{counted(each.counts())}, {files} file{'s' if files != 1 else ''}"
        lines.append(f"{head}base    {base.label}  tree {base.tree}")
        lines.append(f"{head}result  {said}  tree {base.result}")
    lines += [f"note: {note}" for each in checks for note in each.notes if "NOT checked" in note]
    write_bytes(("\n".join(lines) + "\n").encode(), None)
    return EXIT_OK


def _committed(patchset: Patchset, tree: SourceTree, profile: Profile) -> SourceTree:
    """A working tree as the commit it is; ``UserError`` P061 where it is none."""
    from auditor.errors import UserError
    from auditor.trees.worktree import WorktreeTree

    if not isinstance(tree, WorktreeTree):
        return tree
    place = str(tree.repo.work_tree)
    if tree.info().dirty or not tree.info().commit:
        raise UserError(
            "P061",
            "the working tree has changes that no commit holds, so nobody else could check its lock",
            place=place,
            hints=[f"patches lock {patchset.name} --onto HEAD --clone {quote(place)}"],
        )
    return base_tree("HEAD", place, profile)


def _same_bases(
    patchset: Patchset,
    profiles: Mapping[str, Profile],
    given: Mapping[str, SourceTree],
    clones: Mapping[str, str],
) -> dict[str, SourceTree]:
    """The locked bases of upstreams for which no base was given. ``UserError`` P061 where there is none."""
    from auditor.errors import UserError
    from auditor.patching.planning.lock import NAME, read_lock

    found = {}
    missing = [name for name in profiles if name not in given]
    lock = read_lock(patchset) if missing and (not given or (patchset.folder / NAME).is_file()) else None
    for name in missing:
        base = lock.upstreams.get(name) if lock is not None else None
        if base is None:
            option = f"--onto {name}=REV" if len(profiles) > 1 else "--onto REV"
            fact = "the lock says nothing about" if lock is not None else "there is no base for"
            raise UserError("P061", f"{fact} {name}", place=patchset.place, hints=[option])
        found[name] = base_tree(base.commit or base.version or base.label, clones.get(name), profiles[name])
    return found
