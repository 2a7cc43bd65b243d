"""``audit trend``: gates per verdict over time, from the file of a sweep."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from auditor.cli.command import Option, VerbCommand
from auditor.errors import EXIT_OK, UserError

if TYPE_CHECKING:
    from rich.console import Console

_OUTPUT = "output"


@click.command(
    cls=VerbCommand,
    example=(
        "audit trend sweep.jsonl",
        "audit trend sweep.jsonl --by month --png trend.png --html trend.html",
        "audit trend sweep.jsonl --by commit --format json",
    ),
)
@click.argument("file", metavar="FILE", type=click.Path())
@click.option(
    "--by",
    type=click.Choice(("commit", "day", "month", "year")),
    cls=Option,
    section="what is asked",
    help="A row for each of these; its last commit counts.",
)
@click.option(
    "--format",
    "format_",
    type=click.Choice(("terminal", "json")),
    default="terminal",
    show_default=True,
    cls=Option,
    section=_OUTPUT,
    help="How to print it.",
)
@click.option("--output", type=click.Path(), metavar="FILE", cls=Option, section=_OUTPUT, help="Write there.")
@click.option("--png", type=click.Path(), metavar="FILE", cls=Option, section=_OUTPUT, help="A picture.")
@click.option("--html", type=click.Path(), metavar="FILE", cls=Option, section=_OUTPUT, help="A page.")
@click.option(
    "--color",
    type=click.Choice(("auto", "always", "never")),
    default="auto",
    show_default=True,
    cls=Option,
    section=_OUTPUT,
    help="Coloured?",
)
@click.option("-q", "--quiet", is_flag=True, cls=Option, section=_OUTPUT, help="The table alone.")
def trend(
    file: str,
    by: str | None,
    format_: str,
    output: str | None,
    png: str | None,
    html: str | None,
    color: str,
    quiet: bool,
) -> int:
    """How did the gates of a project come to stand as they do, over the commits that a sweep looked at?

    FILE is what `audit sweep A..B --output FILE` wrote, finished or not.
    """
    from auditor.cli.output import note, render, write_bytes
    from auditor.history.sweeping.trend import read_sweep
    from auditor.history.sweeping.trend import trend as points
    from auditor.reporting import trendpage
    from auditor.reporting.html import trend as trendhtml

    try:
        with open(file, "rb") as opened:
            data = opened.read()
    except OSError as error:
        fact = f"cannot read the sweep: {(error.strerror or str(error)).lower()}"
        raise UserError("U013", fact, place=file, hints=["audit sweep A..B --output FILE"]) from None
    head, lines, cut = read_sweep(data, file)
    found = points(head, lines, by, file)
    if cut:
        note("note: the last line of the file is cut off: it is left out", quiet)
    if html is not None:
        write_bytes(trendhtml.page(found), html)
    if png is not None:
        write_bytes(trendhtml.picture(found), png)
    if format_ == "json":
        write_bytes(trendpage.dumps(found), output)
        return EXIT_OK

    def draw(console: Console) -> None:
        trendpage.render(found, console, quiet=quiet)

    render(draw, output, color)
    return EXIT_OK
