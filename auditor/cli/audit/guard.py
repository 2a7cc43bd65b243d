"""``audit guard``: did a newer tree change the meaning of something for these targets?"""

from __future__ import annotations

from typing import TYPE_CHECKING

import click
import msgspec

from auditor.cli.audit.twotrees import compared, ends_typed, kinds_of_change, show
from auditor.cli.command import Option, VerbCommand
from auditor.cli.options import Request, tree_options
from auditor.cli.request import FORMATS
from auditor.cli.words import PatchsetType, VerdictsType
from auditor.errors import EXIT_FINDINGS, EXIT_INPUT, EXIT_OK, UserError

if TYPE_CHECKING:
    from auditor.cli.audit.twotrees import Compared
    from auditor.history.model import PatchState


@click.command(
    cls=VerbCommand,
    example=(
        "audit guard HEAD...upstream/main --target sm_121 --patchset sm120",
        "audit guard known.json HEAD --repo ../sglang --exceptions deliberate.yaml",
        "audit guard 0.5.18 0.5.20 --target sm_121 --patchset sm120 --format html --output guard.html",
        "audit guard origin/main HEAD --target sm_120,sm_121 --fail-on missed-variant",
    ),
)
@click.argument("base", metavar="BASE")
@click.argument("new", metavar="[NEW]", required=False)
@click.option(
    "--trip-on",
    "trip",
    metavar="LIST",
    default="",
    cls=Option,
    section="what is asked",
    help="Trip on these kinds instead: outcome, kernel, forced …",
)
@click.option(
    "--patchset",
    "patchsets",
    metavar="NAME",
    type=PatchsetType(),
    multiple=True,
    cls=Option,
    section="what is asked",
    help="Trip too where this does not go or hold on NEW.",
)
@click.option(
    "--fail-on",
    "verdicts",
    type=VerdictsType(),
    metavar="LIST",
    default="",
    cls=Option,
    section="what is asked",
    help="Trip too where a new gate gives one of these verdicts.",
)
@tree_options(formats=(*FORMATS, "html"), trees_are_words=True, exceptions=True)
def guard(
    base: str,
    new: str | None,
    trip: str,
    patchsets: tuple[str, ...],
    verdicts: tuple[str, ...],
    request: Request,
) -> int:
    """Did a newer tree change the meaning of something for these targets, or does everything still hold?

    BASE is a baseline file or a tree, NEW a tree (HEAD); BASE...NEW begins where two branches part, as a fork
    needs. Quiet where code only moved. Trips where a target goes another way at a gate, loses a kernel or an
    arm of its own, is refused by what was there, or gets a setting forced, a default wrong or a flag of its
    own changed. Exit codes: 0 quiet, 1 tripped, 2 wrong input, 4 the tool failed.
    """
    from auditor.cli.patches.target import load
    from auditor.history.exceptions import apply, excepted_gates, load_exceptions
    from auditor.history.guard import joined, judged, tripping

    kinds = kinds_of_change(trip, "--trip-on")
    base, new = ends_typed(base, new, "audit guard", "HEAD")
    # what is wrong with these is said before minutes of work
    given = load_exceptions(request.exceptions) if request.exceptions is not None else None
    for name in patchsets:
        load(name)
    with compared(base, new, request) as found:
        deliberate = frozenset[str]()
        if given is not None:
            apply(found.new, given)  # for what it refuses: entries that fit nothing, or have expired
            deliberate = excepted_gates(given)
        states = _states(patchsets, found, request)
        changes = tripping(found.diff, kinds, deliberate)
        if verdicts:
            new_ones = judged(found.diff, found.new.gates, verdicts, deliberate)
            changes = joined(found.diff, changes, new_ones)
        told = msgspec.structs.replace(found.diff, changes=changes, patches=states)
        empty = "quiet: nothing that these targets rely on changed"
        show(
            found._replace(diff=told), request, verbose=2, tripped=told.changes, empty=empty, whole=found.diff
        )
    if found.problems:
        return EXIT_INPUT
    return EXIT_FINDINGS if told.changes or any(state.trips for state in states) else EXIT_OK


def _states(patchsets: tuple[str, ...], found: Compared, request: Request) -> tuple[PatchState, ...]:
    if not patchsets:
        return ()
    if found.tree is None:
        raise UserError(
            "U005",
            "a kept report has no files that a patch could be tried on",
            hints=["name the newer tree as a commit, a release, a wheel or a folder"],
        )
    from auditor.cli.audit.guardpatches import patch_states

    return patch_states(patchsets, found.tree, found.old_tree, request)
