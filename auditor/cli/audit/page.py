"""``audit PROJECT --format html``: the page, and what is known of the past of its gates."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from auditor.cli.output import write_bytes
from auditor.cli.request import Request
from auditor.errors import UserError, sentence_of

if TYPE_CHECKING:
    from auditor.gates.model import Report
    from auditor.history.model import Diff
    from auditor.history.past import Past
    from auditor.history.sweeping.model import CommitLine, Head
    from auditor.trees.base import SourceTree


class Known(NamedTuple):
    """What ``--history`` names, read before anything is audited: what is wrong with it is said at once."""

    sweep: tuple[Head, list[CommitLine]] | None
    pasts: list[Past]
    diffs: list[Diff]


def write_page(report: Report, request: Request, tree: SourceTree, known: Known) -> None:
    """Write the page of an audit, with the past of its gates. UserError H036 for a sweep without figures."""
    from auditor.history.pasts import Pasts, of_diffs, of_history, of_sweep
    from auditor.history.sweeping.trend import trend
    from auditor.profile import load_profile
    from auditor.reporting import terminal
    from auditor.reporting.html import audit as audithtml

    past, drawn = Pasts({}, ()), None
    if known.sweep is not None:
        past += of_sweep(report.gates, *known.sweep)
        drawn = trend(*known.sweep)
    for one in known.pasts:
        past += of_history(one)
    if known.diffs:
        past += of_diffs(report.gates, _in_order(known.diffs))
    head = terminal.head_lines(report, tree)
    url = load_profile(request.project).url or ""
    write_bytes(audithtml.page(report, head, past=past, trend=drawn, url=url), request.output)


def refuse_history(request: Request) -> None:
    """UserError U005 where a past is named for a report that has no room for it."""
    if request.history and request.format != "html":
        fact = f"--history goes into the page, and --format {request.format} is none"
        raise UserError("U005", fact, hints=["--format html --output gates.html", "audit history GATE A..B"])


class _Named(msgspec.Struct):
    """What every published file says of itself first."""

    schema: str = msgspec.field(name="$schema")


def read_history(request: Request, tree: SourceTree) -> Known:
    """What ``--history`` names. UserError U013, H0nn for what is no history, U005 for a second sweep."""
    from auditor.history.model import Diff
    from auditor.history.past import Past

    known = Known(None, [], [])
    for word in dict.fromkeys(request.history):
        ranged = ".." in word and not os.path.exists(word)
        found = _swept(word, request, tree) if ranged else _read(word, request.project)
        if isinstance(found, Past):
            known.pasts.append(found)
        elif isinstance(found, Diff):
            known.diffs.append(found)
        elif known.sweep is None:
            known = known._replace(sweep=found)
        else:
            fact = "two sweeps: the page has room for one"
            raise UserError("U005", fact, place=word, hints=[f"--history {request.history[0]}"])
    return known


def _in_order(diffs: Iterable[Diff]) -> list[Diff]:
    """Comparisons so that each begins where one before it ended, where they do; else as they were named."""
    left = list(diffs)
    out: list[Diff] = []
    while left:
        ends = {diff.new.content_id for diff in left}
        first = next((diff for diff in left if diff.old.content_id not in ends), left[0])
        left.remove(first)
        out.append(first)
    return out


def _read(name: str, project: str) -> tuple[Head, list[CommitLine]] | Past | Diff:
    """What a file holds: a sweep, the past of a gate, or a comparison. UserError U013, H03n, H001."""
    from auditor.history.model import Diff
    from auditor.history.past import Past
    from auditor.history.sweeping.trend import read_sweep
    from auditor.reporting import diffjson, pastpage

    try:
        with open(name, "rb") as opened:
            data = opened.read()
    except OSError as error:
        fact = f"cannot read the history: {(error.strerror or str(error)).lower()}"
        raise UserError("U013", fact, place=name, hints=["audit sweep A..B --output FILE"]) from None
    if data.lstrip()[:9] == b'{"sweep":':
        head, lines, _ = read_sweep(data, name)
        _same_project(head.setup.project, project, name)
        return head, lines
    kinds: dict[str, type[Past] | type[Diff]] = {pastpage.SCHEMA_ID: Past, diffjson.SCHEMA_ID: Diff}
    try:
        told = msgspec.json.decode(data, type=_Named).schema
        if told not in kinds:
            raise msgspec.ValidationError(f"its schema is {told}")
        found = msgspec.json.decode(data, type=kinds[told])
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        fact = f"not a file of audit sweep, history or diff: {sentence_of(error)[:200]}"
        hints = ["audit sweep A..B --output FILE", "audit diff A B --format json --output FILE"]
        raise UserError("U013", fact, place=name, hints=hints) from None
    _same_project(found.project, project, name)
    return found


def _same_project(project: str, asked: str, name: str) -> None:
    if project != asked:
        fact = f"a history of {project}, and this is an audit of {asked}"
        raise UserError("H001", fact, place=name, hints=[f"audit {project} --history {name}"])


def _swept(span: str, request: Request, tree: SourceTree) -> tuple[Head, list[CommitLine]]:
    """A quick sweep of a range, made now. Of assumptions it takes the CUDA version, as every quick one."""
    from auditor.cli.progress import Progress
    from auditor.history.sweeping.model import Setup
    from auditor.history.sweeping.sweep import Task, plan, quick_lines, source_of
    from auditor.profile import load_profile
    from auditor.program.externals import World
    from auditor.trees.commit import CommitTree
    from auditor.trees.git import GitRepo
    from auditor.trees.steps import first_parents

    repo = tree.repo if isinstance(tree, CommitTree) else GitRepo.find(request.path or ".")
    if repo is None:
        fact = "a range needs a clone, and none is named or near"
        raise UserError("H021", fact, place=span, hints=["--commit REV --repo ../sglang", "--history FILE"])
    line = first_parents(repo, span, f"audit {request.project} --format html --history")
    root, folder = source_of(repo, line, load_profile(request.project))
    cuda = World((), (), request.assumptions).cuda
    setup = Setup(request.project, "quick", request.targets, request.reference, cuda, root, folder)
    with Progress(request.quiet) as say:
        told = plan(repo, line, setup, None, say)
        lines = []
        task = Task(told.git_dir, told.head.setup, told.line)
        for number, found in enumerate(quick_lines(task, told.learned, told.steps), 1):
            lines.append(found)
            say(f"sweeping {found.date}", number, len(told.steps))
    return told.head, lines
