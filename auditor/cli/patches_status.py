"""``patches status``: does a patchset still apply, to one base, to many, or to what is on this disk."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import click

from auditor.cli.command import Option, VerbCommand
from auditor.cli.patches_base import FOLDER
from auditor.cli.patches_target import (
    base_tree,
    from_option,
    onto_option,
    output_options,
    shown_tree,
    sources_for,
    target_options,
    the_patchset,
    the_target,
)
from auditor.errors import EXIT_CONFLICT, EXIT_FINDINGS, EXIT_OK

if TYPE_CHECKING:
    from auditor.patching.patchset import Patchset
    from auditor.patching.plan import Plan
    from auditor.patching.since import Since
    from auditor.patching.write.target import Target
    from auditor.profile import Profile


@click.command(
    cls=VerbCommand,
    example=(
        "patches status sm120 --onto v0.5.18",
        "patches status sm120 --matrix 0.5.14,0.5.16,origin/main",
        "patches status sm120 --installed",
    ),
)
@click.argument("patchset")
@onto_option
@click.option("--matrix", cls=Option, metavar="REV,REV,…", help="A table for many of them.")
@from_option
@FOLDER
@target_options
@output_options
def status(
    patchset: str,
    onto: str | None,
    matrix: str | None,
    made_for: tuple[str, ...],
    folder: str | None,
    to: str | None,
    installed: str | None,
    clone: str | None,
    form: str,
    color: str,
    quiet: bool,
) -> int:
    """Does my stack still apply to this tree, patch by patch?

    Writes nothing. On a target that holds patches it says which are on it, from the bytes that are there.
    Exit codes: 0 all patches go or are there, 1 what is applied was changed, 3 a patch conflicts.
    """
    from auditor.cli.color import use_color

    found, profile = the_patchset(patchset, folder)
    colored = use_color(color, sys.stdout)
    if matrix is not None:
        words = [word for word in matrix.split(",") if word]
        return _matrix(found, profile, words, clone, form, colored, made_for)
    if onto is None:
        target = the_target(to, installed, profile)
        if target.state is not None:
            return _applied(found, target, form, colored)
        tree = target.tree
    else:
        tree = base_tree(onto, clone, profile)
    plan = _planned(found, profile, tree, clone, made_for)
    since = _since(plan, clone, made_for)
    if form == "json":
        from auditor.cli.patches_explain import since_json
        from auditor.cli.patches_page import envelope, plan_json

        facts = plan_json(plan)
        for row in facts["patches"]:
            if row["name"] in since:
                row["since"] = since_json(since[row["name"]])
        _out(envelope("status", **facts))
    else:
        _out(_page(plan, colored, quiet, since, onto).encode())
    return EXIT_CONFLICT if plan.failed else EXIT_OK


def _planned(
    patchset: Patchset, profile: Profile, tree: Any, clone: str | None, made_for: tuple[str, ...]
) -> Plan:
    from auditor.cli.patches_target import judge_for
    from auditor.patching.plan import plan

    sources = sources_for(tree, clone, profile, made_for)
    return plan(patchset, tree, profile, sources=sources, stop=False, judge=judge_for(profile))


def _since(plan: Plan, clone: str | None, made_for: tuple[str, ...]) -> dict[str, Since]:
    """Patch -> since when the tree has it, where a clone tells."""
    if not any(entry.outcome.status == "upstream" for entry in plan.entries):
        return {}
    from auditor.cli.patches_explain import since_of
    from auditor.cli.patches_target import clones

    tree = plan.tree
    repo = getattr(tree, "repo", None) or next(iter(clones(clone, plan.profile)), None)
    sources = sources_for(tree, clone, plan.profile, made_for)
    sources.stack(plan.patchset)
    new_file = plan.patchset.new_file
    found = {e.name: since_of(e, tree, repo, sources, plan.profile, new_file) for e in plan.entries}
    return {name: each for name, each in found.items() if each is not None}


def _page(plan: Plan, color: bool, quiet: bool, since: dict[str, Since], onto: str | None) -> str:
    from auditor.cli.patches_page import counted, legend, table

    lines = []
    if not quiet:
        head = f"{plan.patchset.name} on {plan.profile.name} {shown_tree(plan.tree)}"
        lines.append(f"{head}      {counted(plan.counts())}")
    lines += table(plan.entries, color, remarks={name: each.text() for name, each in since.items()})
    if not quiet:
        lines.append(legend(entry.outcome.status for entry in plan.entries))
        whys = sorted({each.why for each in since.values() if each.why})
        lines += [f"note: first releases are not known for some: {why}" for why in whys]
        base = f" --onto {onto}" if onto is not None else ""
        name = plan.patchset.typed
        lines += [f"next: patches explain {name} {entry.name}{base}" for entry in plan.failed[:1]]
    return "\n".join(lines) + "\n"


def _applied(patchset: Patchset, target: Target, form: str, color: bool) -> int:
    """What the record says, held against the bytes."""
    import hashlib

    from auditor.cli.patches_page import envelope, painted
    from auditor.patching.write.disk import Root
    from auditor.patching.write.journal import left_behind
    from auditor.patching.write.operations import stands

    state = target.state
    assert state is not None
    with Root(target.root) as root:
        files = stands(target, root)
        unfinished = left_behind(root, target.store)
    hashes = {p.name: hashlib.sha256(p.raw).hexdigest() for p in patchset.patches}
    rows = []
    for patch in state.patches:
        words = {files[change.path] for change in patch.files}
        how = "changed" if "changed" in words else "gone" if "as before" in words else "applied"
        notes = []
        if patch.patchset != patchset.name:
            notes.append(f"of the patchset {patch.patchset}")
        elif patch.name not in hashes:
            notes.append("not in the patchset any more")
        elif hashes[patch.name] != patch.sha256:
            notes.append("another version of it than the patchset has now")
        odd = [c.path for c in patch.files if files[c.path] != "applied"]
        notes += [f"{odd[0]}{f' and {len(odd) - 1} more' if len(odd) > 1 else ''}"] if odd else []
        if not patch.files:
            notes.append("nothing to do: " + (patch.note or patch.status))
        rows.append((patch.name, how, "; ".join(notes)))
    here = {name for name, _, _ in rows}
    rows += [(p.name, "not applied", "") for p in patchset.patches if p.name not in here]
    bad = unfinished is not None or any(how in ("changed", "gone") for _, how, _ in rows)
    if form == "json":
        patches = [{"name": name, "status": how, "note": note} for name, how, note in rows]
        base = {"label": state.base.label, "tree": state.base.tree, "commit": state.base.commit or None}
        _out(
            envelope(
                "status",
                patchset=patchset.name,
                base=base,
                result=state.result,
                unfinished=unfinished is not None,
                patches=patches,
            )
        )
        return EXIT_FINDINGS if bad else EXIT_OK
    glyphs = {"applied": "+", "changed": "!", "gone": "x", "not applied": "-"}
    colors = {"applied": "clean", "changed": "conflict", "gone": "conflict", "not applied": "not-tried"}
    width = min(40, max(len(name) for name, _, _ in rows))
    lines = [f"{patchset.name} on {target.profile.name} {state.base.label}, written as {state.way}"]
    for name, how, note in rows:
        head = painted(f"{glyphs[how]} {name:<{width}}  {how:<11}", colors[how], color)
        lines.append(f"{head}  {note}".rstrip())
    lines.append(f"tree as recorded: {state.result}")
    if unfinished is not None:
        lines.append(f"a run was stopped in the middle: patches doctor {target.option}")
    elif bad:
        lines.append("files were changed since: patches doctor says which")
    _out(("\n".join(lines) + "\n").encode())
    return EXIT_FINDINGS if bad else EXIT_OK


def _matrix(
    patchset: Patchset,
    profile: Profile,
    revs: list[str],
    clone: str | None,
    form: str,
    color: bool,
    made_for: tuple[str, ...],
) -> int:
    from auditor.cli.patches_page import envelope, legend, painted, plan_json
    from auditor.patching.model import GLYPHS

    plans = [
        (rev, _planned(patchset, profile, base_tree(rev, clone, profile), clone, made_for)) for rev in revs
    ]
    if form == "json":
        _out(envelope("status", bases=[{"rev": rev, **plan_json(plan)} for rev, plan in plans]))
    else:
        width = max([len(p.name) for p in patchset.patches] + [8])
        labels = [(p.tree.info().label if "/" in rev else rev)[:12] for rev, p in plans]
        column = max(len(label) for label in labels) + 2
        lines = [" " * (width + 2) + "".join(f"{label:<{column}}" for label in labels).rstrip()]
        for at, patch in enumerate(patchset.patches):
            cells = []
            for _, plan in plans:
                word = plan.entries[at].outcome.status
                cells.append(painted(f"{GLYPHS[word]:<{column}}", word, color))
            lines.append(f"{patch.name:<{width}}  {''.join(cells)}".rstrip())
        carried = [
            sum(e.outcome.status not in ("conflict", "not-tried") for e in p.entries) for _, p in plans
        ]
        total = "".join(f"{f'{n}/{len(patchset.patches)}':<{column}}" for n in carried)
        lines.append(f"{'carried':<{width}}  {total}".rstrip())
        lines.append(legend(entry.outcome.status for _, plan in plans for entry in plan.entries))
        _out(("\n".join(lines) + "\n").encode())
    return EXIT_CONFLICT if any(plan.failed for _, plan in plans) else EXIT_OK


def _out(data: bytes) -> None:
    from auditor.cli.output import write_bytes

    write_bytes(data, None)
