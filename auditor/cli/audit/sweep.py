"""``audit sweep``: facts about every commit of a range."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import click

from auditor.cli.command import Option, VerbCommand
from auditor.cli.options import Request, tree_options
from auditor.errors import EXIT_OK, UserError

if TYPE_CHECKING:
    from auditor.history.sweeping.model import Setup
    from auditor.history.sweeping.sweep import Plan
    from auditor.trees.git import GitRepo
    from auditor.trees.steps import Line

_HOW = "how it is done"


@click.command(
    cls=VerbCommand,
    example=(
        "audit sweep v0.5.13..main --repo ../sglang --target sm_120,sm_121 --output sweep.jsonl",
        "audit sweep --all --repo ../sglang --output history.jsonl",
        "audit sweep v0.5.13..v0.5.14 --full --jobs 4 --output verdicts.jsonl",
    ),
)
@click.argument("span", metavar="[A..B]", required=False, default="")
@click.option("--all", "everything", is_flag=True, cls=Option, section=_HOW, help="From the first commit on.")
@click.option(
    "--full", is_flag=True, cls=Option, section=_HOW, help="A whole audit of each commit: verdicts."
)
@click.option(
    "--jobs", type=click.IntRange(1, 256), default=1, cls=Option, section=_HOW, metavar="N", help="Processes."
)
@click.option(
    "--scheduler", metavar="ADDRESS", cls=Option, section=_HOW, help="On a Dask cluster: tcp://HOST:8786."
)
@tree_options()
def sweep(span: str, everything: bool, full: bool, jobs: int, scheduler: str | None, request: Request) -> int:
    """How did the gates of each commit of a range stand, along the first parents? One line of facts a commit.

    With --output FILE a second run goes on where the first was stopped, and on to a later end. `audit trend
    FILE` draws what was found.
    """
    from auditor.history.sweeping.sweep import (
        check_same,
        done_lines,
        encoded,
        head_of,
        longer,
        plan,
        source_of,
    )
    from auditor.profile import load_profile
    from auditor.trees.lines import line_file

    setup = _setup(request, full)
    if bool(span) == everything:
        fact = "a range A..B, or --all" if not span else f"--all and the range {span} name two ranges"
        raise UserError("H020", fact, hints=["audit sweep A..B --output FILE", "audit sweep --all"])
    repo, line = _range(span, request)
    root, folder = source_of(repo, line, load_profile(request.project))
    import msgspec

    from auditor.cli.output import note
    from auditor.cli.progress import Progress

    setup = msgspec.structs.replace(setup, root=root, folder=folder)
    if repo.is_shallow and not line.first:
        note("note: this clone is shallow: its history begins where it was cut off", request.quiet)
    with Progress(request.quiet) as say:
        if request.output is None:
            told = plan(repo, line, setup, None, say)
            _print(encoded(told.head))
            for row in _rows(told, 0, jobs, scheduler):
                _print(row)
            return EXIT_OK
        with line_file(request.output) as file:
            kept = head_of(file)
            if kept is not None:
                check_same(kept, line, setup, request.output)
            extends = kept is not None and kept.last != line.last
            told = plan(repo, line, setup, None if extends else kept, say)
            done = 0
            if kept is None:
                file.append(encoded(told.head))
            elif extends:
                done, same = longer(file, kept, told)
                if not same:
                    said = f"the range to {line.last[:9]} has other names than the one to {kept.last[:9]}"
                    note(f"note: {said}: all lines are made again", request.quiet)
            else:
                done, dropped = done_lines(file, told.steps)
                if dropped:
                    note("note: the last line was cut off: it is made again", request.quiet)
            total = len(told.steps)
            for number, row in enumerate(_rows(told, done, jobs, scheduler), done + 1):
                file.append(row)
                say(f"sweeping {told.steps[number - 1].entry.date}", number, total)
    new = total - done
    note(f"{total:,} commits in {request.output}, {new:,} of them new", request.quiet)
    return EXIT_OK


def _setup(request: Request, full: bool) -> Setup:
    """What each commit is asked. UserError U007 for an assumption that level ``quick`` would leave out."""
    from auditor.history.sweeping.model import Setup
    from auditor.program.externals import World

    cuda = World((), (), request.assumptions).cuda
    others = [key for key in request.assumptions if key != "cuda"]
    if not full and (others or request.defaults):
        what = f"assume {others[0]}" if others else "use --defaults"
        fact = f"a quick sweep cannot {what}: it knows the CUDA version alone"
        raise UserError("U007", fact, hints=["--full", "--assume cuda=12.8"])
    for option, value in (
        ("--release", request.release),
        ("--wheel", request.wheel),
        ("--installed", request.installed),
        ("--worktree", request.worktree or None),
    ):
        if value is not None:
            raise UserError("U005", f"a sweep reads commits; {option} names none", hints=["--repo CLONE"])
    return Setup(
        project=request.project,
        level="full" if full else "quick",
        targets=request.targets,
        reference=request.reference,
        cuda=cuda,
        root="",
        folder="",
        assumptions=request.assumptions,
        defaults=request.defaults,
    )


def _range(span: str, request: Request) -> tuple[GitRepo, Line]:
    """The repository and the range. UserError H020, T0nn."""
    from auditor.cli.source import opened
    from auditor.trees.commit import CommitTree
    from auditor.trees.git import GitRepo
    from auditor.trees.steps import Line, first_parents

    repo = None
    if request.repo is None:
        repo = GitRepo.find(request.path or ".")
    if repo is None:
        with opened(request) as tree:
            if not isinstance(tree, CommitTree):
                raise UserError("T001", "a sweep reads the commits of a clone", hints=["--repo CLONE"])
            repo = tree.repo
    if span:
        return repo, first_parents(repo, span)
    return repo, Line("", repo.commit(request.commit or "HEAD").oid)


def _rows(told: Plan, done: int, jobs: int, scheduler: str | None) -> Iterator[bytes]:
    from auditor.cli.audit.sweepwork import here, in_processes, on_cluster
    from auditor.history.sweeping.sweep import tasks_of

    tasks = tasks_of(told, done, scheduler is not None or jobs > 1)
    if not tasks:
        return iter(())
    if scheduler is not None:
        return on_cluster(tasks, scheduler)
    return in_processes(tasks, jobs) if jobs > 1 else here(tasks, told, done)


def _print(line: bytes) -> None:
    from auditor.cli.output import write_bytes

    write_bytes(line + b"\n", None)
