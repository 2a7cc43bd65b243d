"""``patches rebase``: move a patchset to another base, whole or not at all."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from auditor.cli.command import Option, VerbCommand
from auditor.cli.output import echo
from auditor.cli.patches.base import FOLDER
from auditor.cli.patches.target import (
    base_tree,
    from_option,
    judge_for,
    load,
    output_options,
    shown_tree,
    sources_for,
)
from auditor.cli.patches.upstreams import chosen_upstreams, named
from auditor.cli.words import PatchsetType
from auditor.errors import EXIT_CONFLICT, EXIT_FINDINGS, EXIT_OK, UserError

if TYPE_CHECKING:
    from auditor.patching.planning.model import Given, Plan
    from auditor.patching.rebasing.rebase import Rebased
    from auditor.patching.rebasing.work import State
    from auditor.patching.sets.patchset import Patchset
    from auditor.profile import Profile

PERSON = "what a person decides"


@click.command(
    cls=VerbCommand,
    example=(
        "patches rebase sm120 --onto v0.5.18 --dry-run",
        "patches rebase sm120 --onto v0.5.18",
        "patches rebase sm120 --continue",
    ),
)
@click.argument("patchset", type=PatchsetType())
@click.option(
    "--onto",
    cls=Option,
    metavar="REV",
    help="The new base: a commit, release, wheel or folder; NAME=REV for one of several upstreams.",
)
@click.option("--clone", cls=Option, metavar="PATH", help="A clone of the upstream, for older contents.")
@click.option(
    "--write/--dry-run", default=True, cls=Option, help="Write patches and lock (default), or only say."
)
@click.option("--no-audit", is_flag=True, cls=Option, help="Leave the audit's postconditions out.")
@click.option("--hunks", is_flag=True, cls=Option, help="Every hunk with its proof.")
@click.option(
    "--accept-look",
    multiple=True,
    cls=Option,
    section=PERSON,
    metavar="PATCH",
    help="Its flagged guess was looked at and is right.",
)
@click.option(
    "--resolve",
    multiple=True,
    cls=Option,
    section=PERSON,
    metavar="PATCH=PATH",
    help="A diff or a folder of files that solves its conflict.",
)
@click.option(
    "--retire",
    multiple=True,
    cls=Option,
    section=PERSON,
    metavar="PATCH",
    help="Take it out, as the new base has it.",
)
@click.option(
    "--continue", "go_on", is_flag=True, cls=Option, section=PERSON, help="With the files edited in rebase/."
)
@click.option(
    "--abort", is_flag=True, cls=Option, section=PERSON, help="Remove rebase/; the patchset is as before."
)
@from_option
@FOLDER
@output_options
def rebase(
    patchset: str,
    onto: str | None,
    clone: str | None,
    write: bool,
    no_audit: bool,
    hunks: bool,
    accept_look: tuple[str, ...],
    resolve: tuple[str, ...],
    retire: tuple[str, ...],
    go_on: bool,
    abort: bool,
    made_for: tuple[str, ...],
    folder: str | None,
    form: str,
    color: str,
    quiet: bool,
) -> int:
    """How do I move a patchset to a new base? Diffs are written anew against it, heads kept, a new lock.

    All of it or nothing; no patch is dropped. Where one conflicts, its files lie in rebase/ in the patchset's
    folder, to be edited. Exit codes: 1 the result does not hold what it promises, 3 a patch needs a person.
    """
    from auditor.cli.color import use_color
    from auditor.patching.proof.verify import verify_plan
    from auditor.patching.rebasing.work import read_state

    recovered = _recover(patchset, folder)
    found = whole = load(patchset, folder)
    if go_on and abort or (abort and onto):
        raise UserError("U005", "--abort stands alone", hints=[f"patches rebase {patchset} --abort"])
    if abort:
        return _abort(found, recovered)
    state = read_state(found) if go_on else None
    if state is not None:
        retire = tuple(dict.fromkeys((*state.retired, *retire)))
    onto = _new_base(found, patchset, onto, state, write)
    profiles = chosen_upstreams(found, ())
    name, rev = _one_upstream(found, profiles, onto)
    profile = profiles[name]
    if len(profiles) > 1:
        own = tuple(p for p in found.patches if found.project_of(p) == name)
        found = replace(found, patches=own)
    given, accepted, solved = _decided(found, profile, state, resolve, accept_look, retire)
    tree = base_tree(rev, clone, profile)
    if state is not None:
        from auditor.patching.rebasing.work import check_state

        check_state(state, tree, found)
    from auditor.patching.rebasing.rebase import rebase as move

    sources = sources_for(tree, clone, profile, made_for)
    moved = move(
        found, tree, profile, sources=sources, judge=judge_for(profile), accepted=accepted, given=given,
        retire=retire, whole=whole,
    )  # fmt: skip
    page = _Page(moved, onto, use_color(color, sys.stdout), quiet, hunks)
    if not moved.ready:
        written: list[str] = []
        if write and moved.plan.failed:
            from auditor.patching.rebasing.work import state_of, work_files

            begun = state_of(found, moved.plan, onto, [*solved, *given], accepted, retire)
            written = _begin_work(found, work_files(begun, moved.plan, sources), go_on=state is not None)
        page.show(form, None, written, open_files=bool(written))
        return EXIT_CONFLICT
    assert moved.again is not None
    checks = verify_plan(moved.again, audit=not no_audit)
    page.show(form, checks, _finish(found, moved, list(profiles)) if checks.ok and write else [])
    return EXIT_OK if checks.ok else EXIT_FINDINGS


def _new_base(patchset: Patchset, typed: str, onto: str | None, state: State | None, write: bool) -> str:
    """What the patchset moves to. ``UserError`` where that is not said, or another rebase is begun."""
    if state is not None:
        if onto is not None:
            raise UserError("U005", "--continue goes on with the base that the rebase was begun on")
        return state.onto
    if onto is None:
        raise UserError("U001", "a rebase needs a new base", hints=[f"patches rebase {typed} --onto REV"])
    if write and (patchset.folder / "rebase").exists():
        raise UserError(
            "P064",
            "a rebase was begun already",
            place=f"{patchset.place}/rebase",
            hints=[f"patches rebase {typed} --continue", f"patches rebase {typed} --abort"],
        )
    return onto


def _begin_work(patchset: Patchset, new: dict[str, bytes], *, go_on: bool) -> list[str]:
    """Put down the files that a person has to edit; those that are being edited stay. What was written."""
    keep = {path for path in _there(patchset) if go_on and path in new and path != "rebase/state.json"}
    _write(patchset, {path: data for path, data in new.items() if path not in keep})
    return [path for path in new if path not in keep]


def _finish(patchset: Patchset, moved: Rebased, upstreams: list[str]) -> list[str]:
    """Write the patchset anew and remove the work area. What was written."""
    from auditor.patching.planning.lock import NAME
    from auditor.patching.rebasing.work import leftovers

    files = dict(moved.files)
    if NAME not in files:
        ontos = " ".join(f"--onto {each}=REV" for each in upstreams)
        echo(f"note: no lock was written, as there was none: patches lock {patchset.typed} {ontos}", err=True)
    if not _changes(patchset, moved):
        files.pop("rebase.json", None)  # it says how the patches came here
    files |= {path: None for path in leftovers(patchset.folder)}
    _write(patchset, files)
    _sweep(patchset)
    return sorted(files)


def _one_upstream(patchset: Patchset, profiles: Mapping[str, Profile], onto: str) -> tuple[str, str]:
    """Which upstream moves, and where to: one at a time. ``UserError`` U005 where that is not said."""
    name, rev = named(onto, list(patchset.file.upstreams))
    if name and name not in profiles:
        raise UserError(
            "U005", f"{patchset.name} has no patch for {name}", hints=[f"patches show {patchset.typed}"]
        )
    if not name and len(profiles) > 1:
        raise UserError(
            "U005",
            f"{patchset.name} has patches for {' and '.join(profiles)}: one of them moves at a time",
            place=patchset.place,
            hints=[f"patches rebase {patchset.typed} --onto {each}={onto}" for each in profiles],
        )
    return name or next(iter(profiles)), rev


def _changes(patchset: Patchset, moved: Rebased) -> bool:
    """Whether the base or a patch is another one than in the lock that is there."""
    if moved.rewritten or moved.retired:
        return True
    from auditor.patching.planning.lock import NAME

    try:
        return NAME in moved.files and (patchset.folder / NAME).read_bytes() != moved.files[NAME]
    except OSError:
        return True


def _decided(
    patchset: Patchset,
    profile: Profile,
    state: State | None,
    resolve: tuple[str, ...],
    accept_look: tuple[str, ...],
    retire: tuple[str, ...],
) -> tuple[dict[str, Given], list[str], list[str]]:
    """What a person decided: resolutions by patch, accepted guesses, patches solved in earlier rounds.

    The files of a patch that is retired now do not count any more.
    """
    from auditor.patching.rebasing.work import FOLDER as WORK
    from auditor.patching.rebasing.work import given_by

    accepted = [*accept_look, *(state.accepted if state is not None else ())]
    given: dict[str, Given] = {}
    if state is not None:
        for name in (*state.resolved, *state.open):
            place = patchset.folder / WORK / name
            if place.exists() and name not in retire:
                given[name] = given_by(patchset, name, place, profile, f"{patchset.place}/{WORK}/{name}")
    for word in resolve:
        name, equals, path = word.partition("=")
        if not equals or not path:
            raise UserError("U001", f"--resolve takes PATCH=PATH, not {word!r}")
        given[name] = given_by(patchset, name, Path(path), profile, path)
    return given, accepted, list(state.resolved if state is not None else ())


def _there(patchset: Patchset) -> list[str]:
    from auditor.patching.rebasing.work import leftovers

    return leftovers(patchset.folder)


def _write(patchset: Patchset, files: dict[str, bytes | None]) -> None:
    """Into the patchset's folder, all or nothing."""
    from auditor.patching.write.inplace import write_in_place
    from auditor.trees.names import blob_id

    before = {}
    for path in files:
        try:
            before[path] = blob_id((patchset.folder / path).read_bytes())
        except FileNotFoundError:
            before[path] = ""
    write_in_place(patchset.folder, None, files, {}, before, what=f"rebase {patchset.name}")


def _recover(name: str, folder: str | None) -> bool:
    """Finish or take back what a run that was killed left behind; whether there was anything."""
    from auditor.patching.paths import STATE_FOLDER
    from auditor.patching.sets.patchset import find_patchset
    from auditor.patching.write.disk import Root, held
    from auditor.patching.write.journal import left_behind, recover

    place = find_patchset(name, Path(folder) if folder is not None else None)
    store = place / STATE_FOLDER
    if not store.exists():
        return False
    with held(place, 10.0), Root(place) as root:
        unfinished = left_behind(root, store)
        if unfinished is None:
            return False
        how = recover(root, store, unfinished, None)
    echo(f"note: a rebase was stopped in the middle; it is {how}", err=True)
    return True


def _abort(patchset: Patchset, recovered: bool) -> int:
    there = _there(patchset)
    if not (patchset.folder / "rebase").exists():
        if recovered:
            return EXIT_OK
        raise UserError("P064", "no rebase was begun", place=patchset.place)
    if there:
        _write(patchset, dict.fromkeys(there))
    _sweep(patchset)
    echo(f"{patchset.place}/rebase removed; the patchset is as it was")
    return EXIT_OK


def _sweep(patchset: Patchset) -> None:
    """Remove folders of the work area that are empty now."""
    from contextlib import suppress

    top = patchset.folder / "rebase"
    for each in sorted((p for p in top.rglob("*") if p.is_dir()), reverse=True) if top.is_dir() else ():
        with suppress(OSError):
            each.rmdir()
    with suppress(OSError):
        top.rmdir()


class _Page:
    """What a person sees of a rebase."""

    def __init__(self, moved: Rebased, onto: str, color: bool, quiet: bool, hunks: bool) -> None:
        self.moved = moved
        self.plan: Plan = moved.plan
        commit = moved.plan.tree.info().commit or ""
        self.onto = commit[:12] if commit == onto else onto
        self.color = color
        self.quiet = quiet
        self.hunks = hunks

    def show(self, form: str, checks: Any, written: list[str], *, open_files: bool = False) -> None:
        """Print it as text or JSON."""
        from auditor.cli.output import write_bytes
        from auditor.cli.patches.page import envelope, plan_json

        if form == "json":
            facts = plan_json(self.plan)
            facts["rewritten"] = list(self.moved.rewritten)
            facts["retired"] = list(self.moved.retired)
            facts["not_needed"] = [entry.name for entry in self.moved.not_needed]
            facts["waiting"] = [entry.name for entry in self.moved.waiting]
            facts["checks"] = checks.as_json() if checks is not None else None
            facts["written"] = written
            write_bytes(envelope("rebase", **facts), None)
            return
        lines = self._lines(checks, written, open_files)
        write_bytes(("\n".join(lines) + "\n").encode("utf-8", "backslashreplace"), None)

    def _lines(self, checks: Any, written: list[str], open_files: bool) -> list[str]:
        from auditor.cli.patches.page import counted, hunk_lines, legend, table

        plan, name = self.plan, self.plan.patchset.name
        head = f"{name} onto {plan.profile.name} {shown_tree(plan.tree)}"
        lines = [] if self.quiet else [f"{head}      {counted(plan.counts())}"]
        if self.hunks:
            for entry in plan.entries:
                lines += table([entry], self.color)
                if entry.outcome.status not in ("conflict", "look"):
                    lines += [f"    {text}" for text in hunk_lines(entry.outcome)]
        else:
            lines += table(plan.entries, self.color)
        if checks is not None:
            lines += checks.lines(verbose=not self.quiet)
        if self.moved.ready:
            lines += self._done(written)
        else:
            lines.append("nothing of the patchset was changed")
        if not self.quiet:
            lines.append(legend(entry.outcome.status for entry in plan.entries))
            lines += self._next(open_files)
        return lines

    def _done(self, written: list[str]) -> list[str]:
        from auditor.patching.planning.lock import lock_of

        moved = self.moved
        assert moved.again is not None
        base = lock_of(moved.again).upstreams[self.plan.profile.name]
        again = ", ".join(moved.rewritten) or "none: every patch fits as it is written"
        lines = [f"rewritten   {again}"]
        if moved.retired:
            lines.append(f"retired     {', '.join(moved.retired)}")
        lines += [f"base        {base.label}  tree {base.tree}", f"result      tree {base.result}"]
        return [*lines, "written, all or nothing" if written else "nothing was written"]

    def _next(self, open_files: bool) -> list[str]:
        plan, name = self.plan, self.plan.patchset.typed
        out = []
        if self.moved.ready and self.moved.not_needed:
            words = " ".join(f"--retire {entry.name}" for entry in self.moved.not_needed)
            out.append(f"next: patches rebase {name} --onto {self.onto} {words}        # the base has it")
        conflicts = [entry for entry in plan.failed if entry.outcome.status == "conflict"]
        out += [f"next: patches explain {name} {entry.name} --onto {self.onto}" for entry in conflicts]
        if conflicts and open_files:
            out.append(f"      edit the files in {plan.patchset.place}/rebase/PATCH/")
            out.append(f"      patches rebase {name} --continue        # or --abort")
        elif conflicts:
            out.append(f"      patches rebase {name} --onto {self.onto} --resolve PATCH=DIFF_OR_FOLDER")
        how = "--continue" if open_files else f"--onto {self.onto}"
        out += [
            f"next: look at {entry.name}, then patches rebase {name} {how} --accept-look {entry.name}"
            for entry in self.moved.waiting
        ]
        return out
