"""``patches status``: does a patchset still apply, to one base, to many, or to what is on this disk."""

from __future__ import annotations

import sys
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click

from auditor.cli.command import Option, VerbCommand
from auditor.cli.patches.base import FOLDER
from auditor.cli.patches.page import counted, envelope, legend, painted, plan_json, table
from auditor.cli.patches.target import (
    base_tree,
    from_option,
    load,
    onto_option,
    output_options,
    shown_tree,
    sources_for,
    target_options,
)
from auditor.cli.patches.upstreams import (
    bases_of,
    by_upstream,
    chosen_upstreams,
    clones_of,
    elsewhere,
    ground,
    left_out,
    targets_of,
    upstream_option,
)
from auditor.cli.words import PatchsetType
from auditor.errors import EXIT_CONFLICT, EXIT_FINDINGS, EXIT_OK, UserError
from auditor.patching.model import GLYPHS

if TYPE_CHECKING:
    from auditor.patching.past.since import Since
    from auditor.patching.planning.model import Plan, Plans
    from auditor.patching.sets.patchset import Patchset
    from auditor.patching.write.target import Target
    from auditor.profile import Profile
    from auditor.trees.base import SourceTree


@click.command(
    cls=VerbCommand,
    example=(
        "patches status sm120 --onto v0.5.18",
        "patches status sm120 --matrix 0.5.14,0.5.16,origin/main",
        "patches status sm120 --installed",
    ),
)
@click.argument("patchset", type=PatchsetType())
@onto_option
@click.option(
    "--matrix",
    cls=Option,
    multiple=True,
    metavar="REV,REV,…",
    help="A table for many of them; NAME=REV,REV for one of several upstreams.",
)
@upstream_option
@from_option
@FOLDER
@target_options
@output_options
def status(
    patchset: str,
    onto: tuple[str, ...],
    matrix: tuple[str, ...],
    upstream: tuple[str, ...],
    made_for: tuple[str, ...],
    folder: str | None,
    to: tuple[str, ...],
    installed: str | None,
    clone: tuple[str, ...],
    form: str,
    color: str,
    quiet: bool,
) -> int:
    """Does my stack still apply to this tree, patch by patch?

    Writes nothing. On a target that holds patches it says which are on it, from the bytes that are there.
    Exit codes: 0 all patches go or are there, 1 what is applied was changed, 3 a patch conflicts.
    """
    from auditor.cli.color import use_color

    found = load(patchset, folder)
    profiles = chosen_upstreams(found, upstream)
    clones = clones_of(found, profiles, clone)
    colored = use_color(color, sys.stdout)
    if matrix:
        return _matrices(found, profiles, matrix, clones, form, colored, made_for)
    rows: list[dict[str, Any]] = []
    texts: list[str] = []
    worst = EXIT_OK
    trees: dict[str, SourceTree] = {}
    if onto:
        trees = bases_of(found, profiles, onto, clones)
    else:
        for target in targets_of(found, profiles, to, installed, partly=True):
            name = target.profile.name
            trees[name] = target.tree
            if target.state is not None:
                del trees[name]
                facts, text, bad = _applied(found, target, colored)
                rows.append({"upstream": name, **facts})
                texts.append(text)
                worst = EXIT_FINDINGS if bad else worst
    here = [row["upstream"] for row in rows] + list(trees)
    if trees:
        plans = _planned(found, profiles, trees, clones, made_for, here)
        for plan in plans.plans:
            since = _since(plan, clones.get(plan.profile.name), made_for)
            rows.append({"upstream": plan.profile.name, **_plan_facts(plan, since)})
            texts.append(_page(plan, colored, quiet, since, onto))
        worst = EXIT_CONFLICT if plans.failed else worst
    left = left_out(found, here, "--onto" if onto else "--to")
    if form == "json":
        only = {key: value for key, value in rows[0].items() if key != "upstream"}
        _out(envelope("status", **(only if len(rows) == 1 else {"patchset": found.name, "upstreams": rows})))
    else:
        _out(("\n".join(texts) + "".join(f"{line}\n" for line in left)).encode())
    return worst


def _plan_facts(plan: Plan, since: dict[str, Since]) -> dict[str, Any]:
    from auditor.cli.patches.explain import since_json

    facts = plan_json(plan)
    for row in facts["patches"]:
        if row["name"] in since:
            row["since"] = since_json(since[row["name"]])
    return facts


def _planned(
    patchset: Patchset,
    profiles: Mapping[str, Profile],
    trees: Mapping[str, SourceTree],
    clones: Mapping[str, str],
    made_for: tuple[str, ...],
    here: Collection[str],
) -> Plans:
    """The patches for ``trees``; those of upstreams that are not ``here`` are taken to be where they are."""
    from auditor.patching.planning.plan import plan_all

    grounds = [ground(tree, profiles[name], clones.get(name), made_for) for name, tree in trees.items()]
    only = [p.name for p in patchset.patches if patchset.project_of(p) in trees]
    done = [p.name for p in patchset.patches if patchset.project_of(p) in here and p.name not in only]
    return plan_all(patchset, grounds, only=only, stop=False, there=[*elsewhere(patchset, here), *done])


def _since(plan: Plan, clone: str | None, made_for: tuple[str, ...]) -> dict[str, Since]:
    """Patch -> since when the tree has it, where a clone tells."""
    if not any(entry.outcome.status == "upstream" for entry in plan.entries):
        return {}
    from auditor.cli.patches.explain import since_of
    from auditor.cli.patches.target import clones

    tree = plan.tree
    repo = getattr(tree, "repo", None) or next(iter(clones(clone, plan.profile)), None)
    sources = sources_for(tree, clone, plan.profile, made_for)
    sources.stack(plan.patchset)
    new_file = plan.patchset.new_file
    found = {e.name: since_of(e, tree, repo, sources, plan.profile, new_file) for e in plan.entries}
    return {name: each for name, each in found.items() if each is not None}


def _page(plan: Plan, color: bool, quiet: bool, since: dict[str, Since], onto: tuple[str, ...]) -> str:
    lines = []
    if not quiet:
        head = f"{plan.patchset.name} on {plan.profile.name} {shown_tree(plan.tree)}"
        lines.append(f"{head}      {counted(plan.counts())}")
    lines += table(plan.entries, color, remarks={name: each.text() for name, each in since.items()})
    if not quiet:
        lines.append(legend(entry.outcome.status for entry in plan.entries))
        whys = sorted({each.why for each in since.values() if each.why})
        lines += [f"note: first releases are not known for some: {why}" for why in whys]
        base = "".join(f" --onto {each}" for each in onto)
        name = plan.patchset.typed
        lines += [f"next: patches explain {name} {entry.name}{base}" for entry in plan.failed[:1]]
    return "\n".join(lines) + "\n"


def _applied(patchset: Patchset, target: Target, color: bool) -> tuple[dict[str, Any], str, bool]:
    """What the record says, held against the bytes: facts, a page, and whether something is amiss."""
    import hashlib

    from auditor.patching.write.disk import Root
    from auditor.patching.write.journal import left_behind
    from auditor.patching.write.operations import stands

    state = target.state
    assert state is not None
    with Root(target.root) as root:
        files = stands(target, root)
        unfinished = left_behind(root, target.store)
    own = [p for p in patchset.patches if patchset.project_of(p) == target.profile.name]
    hashes = {p.name: hashlib.sha256(p.raw).hexdigest() for p in own}
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
    rows += [(p.name, "not applied", "") for p in own if p.name not in here]
    bad = unfinished is not None or any(how in ("changed", "gone") for _, how, _ in rows)
    facts = {
        "patchset": patchset.name,
        "base": {"label": state.base.label, "tree": state.base.tree, "commit": state.base.commit or None},
        "result": state.result,
        "unfinished": unfinished is not None,
        "patches": [{"name": name, "status": how, "note": note} for name, how, note in rows],
    }
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
    return facts, "\n".join(lines) + "\n", bad


def _matrices(
    patchset: Patchset,
    profiles: Mapping[str, Profile],
    matrix: tuple[str, ...],
    clones: Mapping[str, str],
    form: str,
    color: bool,
    made_for: tuple[str, ...],
) -> int:
    """A table for each upstream that bases are named for."""
    from auditor.cli.patches.ahead import ahead

    revs = by_upstream(matrix, list(patchset.file.upstreams), next(iter(profiles)), "--matrix")
    for name in revs:
        if name not in profiles:
            raise UserError(
                "U005", f"{patchset.name} has no patch for {name} here", hints=["--matrix REV,REV"]
            )
    tables = []
    for name, text in revs.items():
        words = [word for word in text.split(",") if word]

        def column(rev: str, name: str = name) -> Plan:
            tree = base_tree(rev, clones.get(name), profiles[name])
            return _planned(patchset, profiles, {name: tree}, clones, made_for, [name]).plans[0]

        with ahead(words, column):
            tables.append((name, [(rev, column(rev)) for rev in words]))
    failed = any(plan.failed for _, columns in tables for _, plan in columns)
    if form == "json":
        bases = [
            {"rev": rev, **({"upstream": name} if len(tables) > 1 else {}), **plan_json(plan)}
            for name, columns in tables
            for rev, plan in columns
        ]
        _out(envelope("status", bases=bases))
        return EXIT_CONFLICT if failed else EXIT_OK
    lines: list[str] = []
    for name, columns in tables:
        lines += [*([""] if lines else []), *([f"{name}:"] if len(profiles) > 1 else [])]
        lines += _table(columns, color)
    lines.append(legend(e.outcome.status for _, columns in tables for _, p in columns for e in p.entries))
    lines += left_out(patchset, revs, "--matrix")
    _out(("\n".join(lines) + "\n").encode())
    return EXIT_CONFLICT if failed else EXIT_OK


def _table(columns: Sequence[tuple[str, Plan]], color: bool) -> list[str]:
    names = [entry.name for entry in columns[0][1].entries] if columns else []
    width = max([len(name) for name in names] + [8])
    labels = [(plan.tree.info().label if "/" in rev else rev)[:12] for rev, plan in columns]
    column = max((len(label) for label in labels), default=0) + 2
    lines = [" " * (width + 2) + "".join(f"{label:<{column}}" for label in labels).rstrip()]
    for at, name in enumerate(names):
        words = [plan.entries[at].outcome.status for _, plan in columns]
        cells = [painted(f"{GLYPHS[word]:<{column}}", word, color) for word in words]
        lines.append(f"{name:<{width}}  {''.join(cells)}".rstrip())
    carried = [sum(e.outcome.status not in ("conflict", "not-tried") for e in p.entries) for _, p in columns]
    total = "".join(f"{f'{n}/{len(names)}':<{column}}" for n in carried)
    return [*lines, f"{'carried':<{width}}  {total}".rstrip()]


def _out(data: bytes) -> None:
    from auditor.cli.output import write_bytes

    write_bytes(data, None)
