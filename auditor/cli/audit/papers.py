"""Reports in the formats of other tools: SARIF, GitHub's annotations, Markdown, JUnit."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Collection
from typing import TYPE_CHECKING

from auditor.cli.output import note, write_bytes
from auditor.cli.request import Request

if TYPE_CHECKING:
    from auditor.cli.audit.twotrees import Compared
    from auditor.gates.model import Report
    from auditor.history.model import Change
    from auditor.reporting.notes import Paper
    from auditor.trees.base import SourceTree


def write_paper(paper: Paper, request: Request, tree: SourceTree | None) -> None:
    """Write a paper in the form that is asked for. ``tree``: what its places are in, where it is open."""
    write_bytes(_bytes(paper, request, tree).encode("utf-8", "backslashreplace"), request.output)
    if request.format == "github":
        _summary(paper, request)


def _bytes(paper: Paper, request: Request, tree: SourceTree | None) -> str:
    if request.format == "sarif":
        from auditor.profile import load_profile
        from auditor.reporting import sarif

        # in a checkout the upload hashes the lines; of any other tree it has no files
        source = None if tree is None or tree.info().kind == "worktree" else _source(tree)
        targets = "+".join(paper.targets)
        data = sarif.dumps(
            paper,
            source=source,
            url=load_profile(request.project).url or "",
            automation=f"sglang-auditor/{request.project}/{targets}",
        )
        return data.decode()
    if request.format == "markdown":
        from auditor.reporting import markdown

        return markdown.render(paper)
    if request.format == "junit":
        from auditor.reporting import junit

        return junit.render(paper)
    from auditor.reporting import github

    return github.render(paper)


def _source(tree: SourceTree) -> Callable[[str], bytes]:
    """Reads a file of a tree; what is gone from it (a place in the older tree) reads as empty."""
    known = tree.blobs()
    return lambda path: tree.read(path) if path in known else b""


def _summary(paper: Paper, request: Request) -> None:
    """Where a job of GitHub Actions wants its summary, add the whole list there."""
    path = os.environ.get("GITHUB_STEP_SUMMARY")
    if not path:
        return
    from auditor.reporting import markdown

    text = markdown.render(paper, most=markdown.SUMMARY)
    try:
        with open(path, "a", encoding="utf-8", errors="backslashreplace") as file:
            file.write(text)
    except OSError as error:
        note(f"the summary of the job was not written: {error.strerror or error}", request.quiet)


def annotate(paper: Paper, request: Request) -> None:
    """Within a job of GitHub Actions a report for people comes with annotations, on stderr."""
    from auditor.reporting import github

    sys.stdout.flush()
    sys.stderr.write(github.render(paper))
    _summary(paper, request)


def report_paper(report: Report, request: Request, tree: SourceTree) -> Paper:
    """The notes of an audit, under the head that the page on the terminal has."""
    from auditor.queries.load import load_queries
    from auditor.reporting.notes import Rule, of_report
    from auditor.reporting.terminal import head_lines

    asked = {finding.query for finding in report.findings}
    rules = {
        q.id: Rule(q.id, q.title, " ".join(q.why.split()), q.severity)
        for q in (load_queries() if asked - {""} else ())
        if q.id in asked
    }
    return of_report(report, head_lines(report, tree), rules, everything=request.verbose > 0)


def diff_paper(found: Compared, tripped: Collection[Change], nothing: str) -> Paper:
    """The notes of a comparison; what ``tripped`` the guard are its errors."""
    from auditor.reporting.diffpage import header_lines
    from auditor.reporting.notes import of_diff

    return of_diff(found.diff, header_lines(found.diff, found.between), tripped, nothing)
