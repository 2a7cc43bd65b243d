"""``audit guard --patchset``: does each patch still go on the newer tree, and does the result hold?"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from auditor.cli.request import Request

if TYPE_CHECKING:
    from auditor.history.model import PatchState
    from auditor.patching.planning.model import Plan, Planned
    from auditor.patching.sets.patchset import Patchset
    from auditor.trees.base import SourceTree

#: A patch of which this became needs a person, whatever it was before.
_FAILED = ("conflict", "not-tried")
#: These do where it is news: a patchset may have lived with it, and know.
_DOUBTFUL = ("look", "obsolete")


def patch_states(
    names: Iterable[str], new: SourceTree, old: SourceTree | None, request: Request
) -> tuple[PatchState, ...]:
    """What becomes of each patch of the patchsets on ``new``; ``old`` is the tree that it was fine on.

    UserError P02x for a patchset that is none, P021 for one without patches for the project.
    """
    from auditor.cli.patches.target import load, profile_of
    from auditor.cli.patches.upstreams import chosen_upstreams
    from auditor.cli.progress import Progress

    out: list[PatchState] = []
    profile = profile_of(request.project)
    for name in dict.fromkeys(names):
        patchset = load(name)
        chosen_upstreams(patchset, (request.project,))
        with Progress(request.quiet).waiting(f"carrying {patchset.name} to {new.info().label}"):
            plan = _planned(patchset, new, request)
            before = _before(patchset, old, request)
            out += [_state(plan, entry, before.get(entry.name, "")) for entry in plan.entries]
        with Progress(request.quiet).waiting(f"checking {new.info().label} with {patchset.name}"):
            out += _checks(plan, audit=profile.audited and not plan.failed)
    return tuple(out)


def _planned(patchset: Patchset, tree: SourceTree, request: Request) -> Plan:
    from auditor.cli.patches.target import profile_of
    from auditor.cli.patches.upstreams import elsewhere, ground
    from auditor.patching.planning.plan import plan_all

    project = request.project
    only = [p.name for p in patchset.patches if patchset.project_of(p) == project]
    grounds = [ground(tree, profile_of(project), _clone(request))]
    return plan_all(patchset, grounds, only=only, stop=False, there=elsewhere(patchset, [project])).plans[0]


def _clone(request: Request) -> str | None:
    """The clone that ``--repo`` or ``--path`` names, for patches that are references and older contents."""
    from auditor.trees.git import GitRepo

    return request.path if request.path is not None and GitRepo.find(request.path) is not None else None


def _before(patchset: Patchset, old: SourceTree | None, request: Request) -> dict[str, str]:
    if old is None:
        return {}
    return {entry.name: entry.outcome.status for entry in _planned(patchset, old, request).entries}


def _state(plan: Plan, entry: Planned, before: str) -> PatchState:
    from auditor.cli.patches.page import hunk_lines, remark
    from auditor.history.model import PatchState

    outcome = entry.outcome
    told = [hunk for hunk in outcome.hunks if hunk.status == outcome.status]
    known = plan.tree.blobs()
    places = [(hunk.to_path or hunk.path, hunk.line) for hunk in (*told, *outcome.hunks)]
    path, line = next(((p, n) for p, n in places if p in known), ("", 0))
    loud = outcome.status in _FAILED or (outcome.status in _DOUBTFUL and outcome.status != before)
    return PatchState(
        patchset=plan.patchset.name,
        name=entry.name,
        status=outcome.status,
        before=before,
        note=remark(entry).replace("--clone PATH", "--repo PATH"),  # what the option is called here
        detail=tuple(hunk_lines(outcome, only=(outcome.status,))) if loud else (),
        path=path,
        line=line,
        trips=loud,
    )


def _checks(plan: Plan, audit: bool) -> list[PatchState]:
    """The levels of ``patches verify`` on the result, those that were asked."""
    from auditor.history.model import PatchState
    from auditor.patching.proof.verify import verify_plan

    out = []
    for check in verify_plan(plan, audit=audit).checks:
        note = check.proved
        if check.level == "kernels":
            continue  # needs a compiler, and nothing of it changes with the tree
        if check.level == "audit" and check.status == "not run" and plan.failed:
            note = "postconditions are not asked where a patch does not go"
        out.append(
            PatchState(
                patchset=plan.patchset.name,
                name=check.level,
                status=check.status,
                kind="check",
                note=note,
                detail=check.facts if check.status == "failed" else (),
                trips=check.status == "failed",
            )
        )
    return out
