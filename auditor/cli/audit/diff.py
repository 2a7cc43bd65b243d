"""``audit diff``: what changed in meaning between two trees."""

from __future__ import annotations

import click
import msgspec

from auditor.cli.audit.twotrees import compared, ends_typed, kinds_of_change, show
from auditor.cli.command import Option, VerbCommand
from auditor.cli.options import Request, tree_options
from auditor.cli.request import FORMATS
from auditor.errors import EXIT_FINDINGS, EXIT_INPUT, EXIT_OK


@click.command(
    cls=VerbCommand,
    example=(
        "audit diff 735a256 c7397de57 --target sm_120",
        "audit diff 0.5.18 0.5.20 --target sm_120,sm_121 -v",
        "audit diff 0.5.18 0.5.20 --target sm_120,sm_121 --format html --output diff.html",
        "audit diff before.json HEAD --repo ../sglang --fail-on outcome,kernel",
    ),
)
@click.argument("a", metavar="A")
@click.argument("b", metavar="B", required=False)
@click.option(
    "--fail-on",
    "fail",
    metavar="LIST",
    default="",
    cls=Option,
    section="output",
    help="Exit 1 on a change of these kinds: outcome, kernel, forced, default, predicate, added …",
)
@click.option("--no-kernels", is_flag=True, cls=Option, section="what is asked", help="Gates and flags only.")
@tree_options(formats=(*FORMATS, "html"), trees_are_words=True)
def diff(a: str, b: str | None, fail: str, no_kernels: bool, request: Request) -> int:
    """What changed in meaning between two trees, for these targets, and what only moved?

    A and B: a commit, tag or branch, a release (0.5.18), a wheel file, a folder, or a kept report (.json). Of
    two branches, A...B compares B with the commit that both come from.
    """
    from auditor.history.flags import with_first_readers

    kinds = kinds_of_change(fail, "--fail-on")
    a, b = ends_typed(a, b, "audit diff")
    with compared(a, b, request, kernels=not no_kernels) as found:
        changes = with_first_readers(found.diff.changes, found.old_tree)
        found = found._replace(diff=msgspec.structs.replace(found.diff, changes=changes))
        tripped = [change for change in found.diff.changes if change.kind in kinds]
        show(found, request, verbose=request.verbose, tripped=tripped)
    if found.problems:
        return EXIT_INPUT
    return EXIT_FINDINGS if tripped else EXIT_OK
