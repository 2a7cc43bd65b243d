"""``audit query``: the named patterns, and what one needs to write one."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

import click

from auditor.cli.command import SubGroup, VerbCommand
from auditor.cli.output import echo
from auditor.cli.words import QueryType
from auditor.errors import EXIT_FINDINGS, EXIT_OK

_FOLDER = click.option(
    "--folder",
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="Your own folder of queries, instead of those that come with the tool.",
)


@click.group(cls=SubGroup, example=("audit query list", "audit query new moe/my-gate"))
def query() -> None:
    """Which named patterns are looked for, what does each one mean, and is mine right?"""


@query.command("list", cls=VerbCommand, example="audit query list moe")
@click.argument("word", required=False, metavar="[WORD]")
@click.option("--format", "form", type=click.Choice(("terminal", "json")), default="terminal")
@_FOLDER
def list_(word: str | None, form: str, folder: Path | None) -> None:
    """Which queries are there?"""
    from auditor.cli.audit import facts
    from auditor.cli.output import write_bytes
    from auditor.queries import load_files

    queries = [file.query for file in load_files(folder)]
    chosen = [item for item in queries if not word or word in item.id or word.lower() in item.title.lower()]
    if form == "json":
        rows = [{"id": item.id, "title": item.title, "severity": item.severity} for item in chosen]
        write_bytes(facts.encode({"schema_version": "1.0", "queries": rows}), None)
        return
    width = max((len(item.id) for item in chosen), default=0) + 2
    for item in chosen:
        echo(f"{item.id:<{width}}{item.title}")


@query.command(cls=VerbCommand, example="audit query show AREA/NAME")
@click.argument("name", type=QueryType(), metavar="ID")
@_FOLDER
def show(name: str, folder: Path | None) -> None:
    """What does this query look for, why, and what does it say on each target?"""
    from auditor.queries import load_files

    (file,) = load_files(folder, (name,))
    item = file.query
    echo(f"{item.id}: {item.title}\n\n{item.why.strip()}\n")
    verdicts = ", ".join(f"{target}: {verdict}" for target, verdict in item.verdict.items())
    rows: list[tuple[str, Any]] = [
        ("verdict", verdicts),
        ("severity", item.severity),
        ("message", item.message.strip()),
        ("fix", item.fix),
        ("see", ", ".join(item.references)),
        ("limits", item.known_limits.strip()),
        ("examples", f"{len(item.examples)}: " + ", ".join(example.kind for example in item.examples)),
        ("file", file.name),
    ]
    for label, text in rows:
        if text:
            echo(f"{label:<10}{text}")


@query.command(cls=VerbCommand, example="audit query lint")
@click.argument("names", nargs=-1, type=QueryType(), metavar="[ID]...")
@_FOLDER
def lint(names: tuple[str, ...], folder: Path | None) -> int:
    """Are these query files well formed? Exit 1 if not."""
    from auditor.queries import lint_folder, load_files

    if names:
        load_files(folder, names)  # an unknown id is an error, not a clean result
    problems = lint_folder(folder, names)
    for problem in problems:
        echo(f"{problem.place}: {problem.code} {problem.message}")
        for hint in problem.hints:
            echo(f"  help: {hint}")
    echo(f"{len(problems)} problems" if problems else "no problems", err=True)
    return EXIT_FINDINGS if problems else EXIT_OK


@query.command(cls=VerbCommand, example="audit query test moe/my-gate --folder queries")
@click.argument("names", nargs=-1, type=QueryType(), metavar="[ID]...")
@click.option("-v", "--verbose", is_flag=True, help="Every example, not only those that fail.")
@click.option("--allow-plugins", is_flag=True, help="Run the plugins of your folder: they are programs.")
@_FOLDER
def test(names: tuple[str, ...], verbose: bool, allow_plugins: bool, folder: Path | None) -> int:
    """Do the examples of these queries come out as they say? Exit 1 if not."""
    from auditor.cli.progress import Progress
    from auditor.queries import load_queries
    from auditor.queries.examples import run_examples

    chosen = load_queries(folder, names, allow_plugins=allow_plugins)
    failed = total = 0
    with Progress() as progress:
        for at, item in enumerate(chosen):
            progress("testing queries", at, len(chosen))
            for result in run_examples(item, folder=folder):
                total += 1
                failed += result.failed
                if result.failed or verbose:
                    progress.close()
                    detail = f": {result.detail}" if result.detail else ""
                    echo(f"{result.outcome:<10}{result.query} · {result.title}{detail}")
    # Alone on its line, so that a log of many runs can be searched for it.
    echo(f"{total - failed} passed, {failed} failed")
    return EXIT_FINDINGS if failed else EXIT_OK


@query.command(cls=VerbCommand, example='audit query new moe/my-gate --title "FP4 experts need tcgen05"')
@click.argument("name", metavar="AREA/NAME")
@click.option("--title", default="", metavar="TEXT", help="What it is, in one line.")
@click.option(
    "--kind",
    type=click.Choice(("gate", "code")),
    default="gate",
    show_default=True,
    help="Match a discovered gate, or any piece of code.",
)
@_FOLDER
def new(name: str, title: str, kind: Literal["gate", "code"], folder: Path | None) -> None:
    """How do I start a query? Writes a file that says what to fill in; never overwrites one."""
    from auditor.queries.new import scaffold

    path = scaffold(name, folder=folder, title=title, kind=kind)
    option = f" --folder {folder}" if folder else ""
    echo(path)
    echo(f"next: edit it, then audit query lint {name}{option} · audit query test {name}{option}", err=True)
