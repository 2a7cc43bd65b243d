"""``audit guard``: did a newer tree change the meaning of something for these targets?"""

from __future__ import annotations

import click
import msgspec

from auditor.cli.command import Option, VerbCommand
from auditor.cli.options import Request, tree_options
from auditor.cli.request import FORMATS
from auditor.cli.twotrees import compared, kinds_of_change, show
from auditor.errors import EXIT_FINDINGS, EXIT_INPUT, EXIT_OK


@click.command(
    cls=VerbCommand,
    example=(
        "audit guard 735a256 origin/main --target sm_120,sm_121",
        "audit guard known.json HEAD --repo ../sglang --exceptions deliberate.yaml",
    ),
)
@click.argument("base", metavar="BASE")
@click.argument("new", metavar="[NEW]", default="HEAD")
@click.option(
    "--trip-on",
    "trip",
    metavar="LIST",
    default="",
    cls=Option,
    section="what is asked",
    help="Any change of these kinds instead: outcome, kernel, forced, default, predicate, added …",
)
@tree_options(formats=FORMATS, exceptions=True)
def guard(base: str, new: str, trip: str, request: Request) -> int:
    """Did a newer tree change the meaning of something for these targets, or does everything still hold?

    Quiet where code only moved. Trips where a target goes another way at a gate, loses a kernel, or gets a
    setting forced or a default wrong. Exit codes: 0 quiet, 1 tripped, 2 wrong input, 4 the tool failed.
    """
    from auditor.history.exceptions import apply, excepted_gates, load_exceptions
    from auditor.history.guard import tripping

    kinds = kinds_of_change(trip)
    with compared(base, new, request) as found:
        deliberate = frozenset[str]()
        if request.exceptions is not None:
            given = load_exceptions(request.exceptions)
            apply(found.new, given)  # for what it refuses: entries that fit nothing, or have expired
            deliberate = excepted_gates(given)
        told = msgspec.structs.replace(found.diff, changes=tripping(found.diff, kinds, deliberate))
        empty = "quiet: nothing that these targets rely on changed"
        show(found._replace(diff=told), request, verbose=2, tripped=told.changes, empty=empty)
    if found.problems:
        return EXIT_INPUT
    return EXIT_FINDINGS if told.changes else EXIT_OK
