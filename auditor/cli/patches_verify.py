"""``patches verify``: is a target what the lock says, or does the result on a base hold what it promises."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from auditor.cli.command import Option, VerbCommand
from auditor.cli.patches_base import FOLDER
from auditor.cli.patches_target import output_options, target_options
from auditor.errors import EXIT_CONFLICT, EXIT_FINDINGS, EXIT_OK

if TYPE_CHECKING:
    from auditor.patching.lock import Lock
    from auditor.patching.write.target import Target


@click.command(
    cls=VerbCommand,
    example=("patches verify sm120 --installed", "patches verify sm120 --onto v0.5.18"),
)
@click.argument("patchset")
@click.option("--onto", cls=Option, metavar="REV", help="Plan on this base and check the result instead.")
@click.option("--lock", "lockfile", cls=Option, metavar="FILE", help="Another lock than the patchset's.")
@click.option("--no-audit", is_flag=True, cls=Option, help="Leave the audit's postconditions out.")
@FOLDER
@target_options
@output_options
def verify(
    patchset: str,
    onto: str | None,
    lockfile: str | None,
    no_audit: bool,
    folder: str | None,
    to: str | None,
    installed: str | None,
    clone: str | None,
    form: str,
    color: str,
    quiet: bool,
) -> int:
    """Is this copy what the lock says, to the byte? Or, with --onto: does the result hold what it promises?

    Needs no git and no network for an installed copy, and writes nothing. Exit codes: 0 yes, 1 no, 3 a patch
    conflicts (with --onto).
    """
    from auditor.cli.patches_target import the_patchset, the_target
    from auditor.patching.lock import read_lock

    found, profile = the_patchset(patchset, folder)
    if onto is not None:
        return _on_base(found, profile, onto, clone, not no_audit, form, color, quiet)
    target = the_target(to, installed, profile)
    lock = read_lock(found, Path(lockfile) if lockfile is not None else None)
    wrong, said = against(target, lock)
    if form == "json":
        from auditor.cli.patches_page import envelope

        _out(envelope("verify", patchset=found.name, ok=not wrong, wrong=wrong, files=len(said)).decode())
    else:
        lines = [f"✗ {line}" for line in wrong]
        base = lock.upstreams[profile.name]
        if not wrong:
            files = "1 file is" if len(said) == 1 else f"{len(said)} files are"
            lines.append(f"✓ {files} what the lock of {found.name} says, to the byte")
            lines.append(f"  {base.label} with {_counted(lock)}, tree {base.result}")
        else:
            lines.append(f"{target.shown} is not what the lock of {found.name} says")
        _out("\n".join(lines) + "\n")
    return EXIT_FINDINGS if wrong else EXIT_OK


def against(target: Target, lock: Lock) -> tuple[list[str], dict[str, str]]:
    """What is not as locked, and the files that were compared."""
    from auditor.patching.lock import base_id, expected
    from auditor.patching.write.disk import Root
    from auditor.patching.write.journal import left_behind
    from auditor.trees.names import blob_id

    base = lock.upstreams.get(target.profile.name)
    if base is None:
        return [f"the lock says nothing about {target.profile.name}"], {}
    wanted = expected(lock, target.profile, target.tree.blobs())
    wrong = []
    with Root(target.root) as root:
        if left_behind(root, target.store) is not None:
            wrong.append("a run was stopped in the middle: patches doctor")
        for path, after in wanted.items():
            found = root.read(path)
            there = blob_id(found[0]) if found is not None else ""
            if there != after:
                how = "is missing" if not there else "is there" if not after else "is another file"
                wrong.append(f"{path} {how}")
    if target.checkout is not None:
        for path in target.checkout.dirty():
            if path not in wanted:
                wrong.append(f"{path} has changes that nobody committed")
        if base.kind == "commit":
            tree = target.checkout.index_tree()
            if tree != base.result and not wrong:
                wrong.append(f"the tree is {tree}, the lock says {base.result}")
    else:
        ours = set(wanted)
        wrong += [
            f"{p} was changed since it was installed"
            for p in target.changed_since_installed()
            if p not in ours
        ]
        if base.version and target.version and base.version != target.version:
            wrong.append(f"this is release {target.version}, the lock is for {base.version}")
        elif base.kind != "commit" and not wrong and base_id(target.tree, target.profile) != base.result:
            wrong.append("a file that no patch touches is another one than in the locked base")
    return wrong, wanted


def _counted(lock: Lock) -> str:
    """``5 patches``, ``1 patch``."""
    return f"{len(lock.patches)} patch{'es' if len(lock.patches) != 1 else ''}"


def _on_base(
    found: Any, profile: Any, onto: str, clone: str | None, audit: bool, form: str, color: str, quiet: bool
) -> int:
    from auditor.cli.color import use_color
    from auditor.cli.patches_page import counted, envelope, plan_json, table
    from auditor.cli.patches_target import base_tree, judge_for, shown_tree, sources_for
    from auditor.patching.plan import plan
    from auditor.patching.verify import verify_plan

    tree = base_tree(onto, clone, profile)
    planned = plan(found, tree, profile, sources=sources_for(tree, clone, profile), judge=judge_for(profile))
    checks = verify_plan(planned, audit=audit) if not planned.failed else None
    if form == "json":
        facts = plan_json(planned) | {"checks": checks.as_json() if checks is not None else None}
        _out(envelope("verify", **facts).decode())
    else:
        head = f"{found.name} on {profile.name} {shown_tree(tree)}      {counted(planned.counts())}"
        lines = [] if quiet else [head]
        lines += table(planned.entries, use_color(color, sys.stdout)) if not quiet or planned.failed else []
        lines += checks.lines(verbose=not quiet) if checks is not None else []
        _out("\n".join(lines) + "\n")
    if planned.failed:
        return EXIT_CONFLICT
    return EXIT_OK if checks is not None and checks.ok else EXIT_FINDINGS


def _out(text: str) -> None:
    from auditor.cli.output import write_bytes

    write_bytes(text.encode("utf-8", "backslashreplace"), None)
