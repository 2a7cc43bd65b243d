"""``patches lock``: pin what a patchset comes to on one base."""

from __future__ import annotations

import click

from auditor.cli.command import Option, VerbCommand
from auditor.cli.patches_base import FOLDER
from auditor.errors import EXIT_CONFLICT, EXIT_FINDINGS, EXIT_OK


@click.command(
    cls=VerbCommand,
    example=("patches lock sm120 --onto v0.5.18", "patches lock sm120 --check"),
)
@click.argument("patchset")
@click.option("--onto", cls=Option, metavar="REV", help="The base: a commit, release or wheel.")
@click.option("--clone", cls=Option, metavar="PATH", help="A clone of the upstream.")
@click.option("--check", is_flag=True, cls=Option, help="Write nothing; exit 1 if the lock is not this.")
@click.option("--no-audit", is_flag=True, cls=Option, help="Leave the audit's postconditions out.")
@FOLDER
def lock(
    patchset: str, onto: str | None, clone: str | None, check: bool, no_audit: bool, folder: str | None
) -> int:
    """Pin base, hashes and result, so that `apply --frozen` and `verify` refuse anything else.

    Without --onto the base of the lock that is there is taken again. Exit codes: 1 a check failed or the lock
    is not current, 3 a patch conflicts.
    """
    from auditor.cli.output import write_bytes
    from auditor.cli.patches_page import counted, table
    from auditor.cli.patches_target import base_tree, judge_for, sources_for, the_patchset
    from auditor.errors import UserError
    from auditor.patching import lock as locks
    from auditor.patching.plan import plan
    from auditor.patching.verify import verify_plan

    found, profile = the_patchset(patchset, folder)
    old = None
    if onto is None or check:
        old = locks.read_lock(found)
        base = old.upstreams.get(profile.name)
        if onto is None:
            if base is None:
                raise UserError("P061", f"the lock says nothing about {profile.name}", hints=["--onto REV"])
            onto = base.commit or base.version or base.label
    tree = base_tree(onto, clone, profile)
    sources = sources_for(tree, clone, profile)
    planned = plan(found, tree, profile, sources=sources, judge=judge_for(profile))
    if planned.failed:
        lines = [f"{found.name} on {onto}: {counted(planned.counts())}", *table(planned.entries, False)]
        write_bytes(("\n".join(lines) + "\n").encode(), None)
        return EXIT_CONFLICT
    checks = verify_plan(planned, audit=not no_audit)
    if not checks.ok:
        write_bytes(("\n".join([*checks.lines(), "no lock was written"]) + "\n").encode(), None)
        return EXIT_FINDINGS
    new = locks.encode(locks.lock_of(planned))
    place = found.folder / locks.NAME
    if check:
        same = old is not None and locks.encode(old) == new
        words = "is current" if same else "is not what the patchset comes to: patches lock " + found.name
        write_bytes(f"{found.place}/{locks.NAME} {words}\n".encode(), None)
        return EXIT_OK if same else EXIT_FINDINGS
    write_bytes(new, str(place))
    made = locks.lock_of(planned).upstreams[profile.name]
    files = len(planned.files)
    lines = [
        f"{found.place}/{locks.NAME} written",
        f"base    {made.label}  tree {made.tree}",
        f"result  {counted(planned.counts())}, {files} file{'s' if files != 1 else ''}  tree {made.result}",
    ]
    write_bytes(("\n".join(lines) + "\n").encode(), None)
    return EXIT_OK
