"""``patches verify``: is a target what the lock says, or does the result on a base hold what it promises."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from auditor.cli.color import use_color
from auditor.cli.command import Option, VerbCommand
from auditor.cli.patches.base import FOLDER
from auditor.cli.patches.kernels import gate_lines, gate_report, with_gate
from auditor.cli.patches.target import load, output_options, target_options
from auditor.cli.patches.upstreams import (
    bases_of,
    chosen_upstreams,
    clones_of,
    elsewhere,
    ground,
    left_out,
    targets_of,
    upstream_option,
)
from auditor.cli.words import PatchsetType
from auditor.errors import EXIT_CONFLICT, EXIT_FINDINGS, EXIT_OK

if TYPE_CHECKING:
    from auditor.patching.kernels.report import GateReport
    from auditor.patching.planning.lock import Lock
    from auditor.patching.sets.patchset import Patchset
    from auditor.patching.write.target import Target
    from auditor.profile import Profile


@click.command(
    cls=VerbCommand,
    example=(
        "patches verify sm120 --installed",
        "patches verify sm120 --onto v0.5.18",
        "patches verify sm120 --kernels",
    ),
)
@click.argument("patchset", type=PatchsetType())
@click.option(
    "--onto",
    cls=Option,
    multiple=True,
    metavar="REV",
    help="Plan on this base and check the result instead; NAME=REV for one of several upstreams.",
)
@click.option("--lock", "lockfile", cls=Option, metavar="FILE", help="Another lock than the patchset's.")
@click.option("--no-audit", is_flag=True, cls=Option, help="Leave the audit's postconditions out.")
@click.option(
    "--kernels", is_flag=True, cls=Option, help="Compile the kernels it declares, for their targets. No GPU."
)
@FOLDER
@target_options
@upstream_option
@output_options
def verify(
    patchset: str,
    onto: tuple[str, ...],
    lockfile: str | None,
    no_audit: bool,
    kernels: bool,
    folder: str | None,
    to: tuple[str, ...],
    installed: str | None,
    clone: tuple[str, ...],
    upstream: tuple[str, ...],
    form: str,
    color: str,
    quiet: bool,
) -> int:
    """Is this copy what the lock says, to the byte? Or, with --onto: does the result hold what it promises?

    Needs no git and no network for an installed copy, and writes nothing. With --kernels and no base or
    target it asks nothing else. Exit codes: 0 yes, 1 no, 3 a patch conflicts (with --onto).
    """
    from auditor.patching.planning.lock import BEFORE, read_lock

    found = load(patchset, folder)
    profiles = chosen_upstreams(found, upstream)
    if onto:
        clones = clones_of(found, profiles, clone)
        return _on_base(found, profiles, onto, clones, not no_audit, kernels, form, color, quiet)
    report = gate_report(found, quiet) if kernels else None
    if report is not None and not to and installed is None and lockfile is None:
        return _kernels_alone(report, form, color, quiet)
    targets = targets_of(found, profiles, to, installed)
    lock = read_lock(found, Path(lockfile) if lockfile is not None else None)
    told = [(target, *against(target, lock)) for target in targets]
    wrong = [line for _, bad, _ in told for line in bad]
    if form == "json":
        from auditor.cli.patches.page import envelope

        facts: dict[str, Any] = {"patchset": found.name, "ok": not wrong, "wrong": wrong}
        facts["files"] = sum(len(said) for _, _, said in told)
        if len(told) > 1:
            facts["upstreams"] = [
                {"upstream": target.profile.name, "ok": not bad, "wrong": bad, "files": len(said)}
                for target, bad, said in told
            ]
        facts |= {"kernels": report} if report is not None else {}
        _out(envelope("verify", **facts).decode())
        return EXIT_FINDINGS if wrong or _bad(report) else EXIT_OK
    lines = []
    many = len(told) > 1
    for target, bad, said in told:
        name = target.profile.name
        head = f"{name}: " if many else ""
        lines += [f"✗ {head}{line}" for line in bad]
        if not bad:
            base = lock.upstreams[name]
            lines.append(f"✓ {head}{_files(len(said))} what the lock of {found.name} says, to the byte")
            lines.append(f"  {base.label} with {_counted(lock, name)}, tree {base.result}")
        else:
            lines.append(f"{head}{target.shown} is not what the lock of {found.name} says")
            if said and all(line.endswith(BEFORE) for line in bad) and len(bad) == len(said):
                lines[-len(bad) - 1 : -1] = [
                    f"✗ {head}no patch is applied: {_files(len(bad))} as in the base"
                ]
                if not many:
                    lines.append(f"next: patches apply {found.typed} {target.option} --frozen")
    lines += gate_lines(report, use_color(color, sys.stdout), quiet) if report is not None else []
    _out("\n".join(lines) + "\n")
    return EXIT_FINDINGS if wrong or _bad(report) else EXIT_OK


def _files(count: int) -> str:
    return "1 file is" if count == 1 else f"{count} files are"


def _bad(report: GateReport | None) -> bool:
    return report is not None and not report.ok


def _kernels_alone(report: GateReport, form: str, color: str, quiet: bool) -> int:
    """The gate of kernels without a tree: it needs only the patchset."""
    if form == "json":
        from auditor.patching.kernels.report import report_json

        _out(report_json(report).decode())
    else:
        _out("\n".join(gate_lines(report, use_color(color, sys.stdout), quiet)) + "\n")
    return EXIT_FINDINGS if _bad(report) else EXIT_OK


def against(target: Target, lock: Lock) -> tuple[list[str], dict[str, str]]:
    """What is not as locked, and the files that were compared."""
    from auditor.patching.planning.lock import base_id, how_it_differs, locked_steps
    from auditor.patching.write.disk import Root
    from auditor.patching.write.journal import left_behind
    from auditor.trees.names import blob_id

    base = lock.upstreams.get(target.profile.name)
    if base is None:
        return [f"the lock says nothing about {target.profile.name}"], {}
    steps = locked_steps(lock, target.profile, target.tree.blobs())
    wanted = {path: ids[-1][1] for path, ids in steps.items()}
    wrong = []
    with Root(target.root) as root:
        if left_behind(root, target.store) is not None:
            wrong.append("a run was stopped in the middle: patches doctor")
        for path, ids in steps.items():
            found = root.read(path)
            how = how_it_differs(blob_id(found[0]) if found is not None else "", ids)
            if how:
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


def _counted(lock: Lock, upstream: str) -> str:
    """``5 patches``, ``1 patch``: those of one upstream."""
    count = len(lock.patches_of(upstream))
    return f"{count} patch{'es' if count != 1 else ''}"


def _on_base(
    found: Patchset,
    profiles: Mapping[str, Profile],
    onto: tuple[str, ...],
    clones: Mapping[str, str],
    audit: bool,
    kernels: bool,
    form: str,
    color: str,
    quiet: bool,
) -> int:
    from auditor.cli.patches.page import counted, envelope, plan_json, table
    from auditor.cli.patches.target import shown_tree
    from auditor.patching.planning.plan import plan_all
    from auditor.patching.proof.verify import verify_plan

    trees = bases_of(found, profiles, onto, clones)
    grounds = [ground(tree, profiles[name], clones.get(name)) for name, tree in trees.items()]
    chosen = [p.name for p in found.patches if found.project_of(p) in trees]
    plans = plan_all(found, grounds, only=chosen, there=elsewhere(found, trees))
    checks = [verify_plan(each, audit=audit) for each in plans.plans] if not plans.failed else []
    report = gate_report(found, quiet) if kernels and checks else None
    if report is not None:
        checks = [with_gate(each, report) for each in checks]
    if form == "json":
        rows = [
            plan_json(each) | {"checks": checks[at].as_json() if checks else None}
            for at, each in enumerate(plans.plans)
        ]
        facts = rows[0]
        if len(rows) > 1:
            several = [{"upstream": name, **row} for name, row in zip(trees, rows, strict=True)]
            facts = {"patchset": found.name, "upstreams": several}
        facts |= {"kernels": report} if report is not None else {}
        _out(envelope("verify", **facts).decode())
    else:
        lines = []
        for at, each in enumerate(plans.plans):
            head = (
                f"{found.name} on {each.profile.name} {shown_tree(each.tree)}      {counted(each.counts())}"
            )
            lines += [] if quiet else [head]
            if not quiet or plans.failed:
                lines += table(each.entries, use_color(color, sys.stdout))
            lines += checks[at].lines(verbose=not quiet) if checks else []
        lines += left_out(found, trees, "--onto")
        if report is not None and not report.ok:
            lines += gate_lines(report, use_color(color, sys.stdout), quiet=True)
        _out("\n".join(lines) + "\n")
    if plans.failed:
        return EXIT_CONFLICT
    return EXIT_OK if checks and all(check.ok for check in checks) else EXIT_FINDINGS


def _out(text: str) -> None:
    from auditor.cli.output import write_bytes

    write_bytes(text.encode("utf-8", "backslashreplace"), None)
