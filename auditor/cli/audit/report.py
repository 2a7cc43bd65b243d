"""What ``audit PROJECT`` does once its words are read: audit, print, say by the exit code what was found."""

from __future__ import annotations

from typing import TYPE_CHECKING

from auditor.cli.output import write_bytes
from auditor.cli.request import FORMATS, Request, in_actions
from auditor.cli.source import audited, audited_json, opened, show
from auditor.errors import EXIT_FINDINGS, EXIT_INPUT, EXIT_OK

if TYPE_CHECKING:
    from auditor.gates.model import Report


_NO_PROBLEMS = b'\n"problems":[],\n'


def audit_project(request: Request) -> int:
    """Audit the tree of a request, print the report, and return the exit code."""
    if request.history:
        from auditor.cli.audit.page import refuse_history

        refuse_history(request)
    given = None
    if request.exceptions is not None:
        from auditor.history.exceptions import apply, load_exceptions

        given = load_exceptions(request.exceptions)  # what is wrong with it is said before the audit
    with opened(request) as tree:
        if request.format == "html":
            from auditor.cli.audit.page import read_history

            known = read_history(request, tree)
        if request.format == "json" and request.exceptions is None:
            data = audited_json(tree, request)
            write_bytes(data, request.output)
            if not request.fail_on and _NO_PROBLEMS in data[-300:]:  # only statistics follow
                return EXIT_OK
            from auditor.reporting import jsonout

            report = jsonout.loads(data, "the report")
        else:
            report = audited(tree, request)
            if given is not None:
                report = apply(report, given)
            if request.format == "json":
                from auditor.reporting import jsonout

                write_bytes(jsonout.dumps(report), request.output)
                return exit_code(report, request.fail_on)
            if request.format == "html":
                from auditor.cli.audit.page import write_page

                write_page(report, request, tree, known)
                return exit_code(report, request.fail_on)
            if request.format in FORMATS:
                from auditor.cli.audit.papers import report_paper, write_paper

                write_paper(report_paper(report, request, tree), request, tree)
                return exit_code(report, request.fail_on)
            from auditor.reporting import terminal

            show(terminal.render, report, request, tree)
            if in_actions():
                from auditor.cli.audit.papers import annotate, report_paper

                annotate(report_paper(report, request, tree), request)
    return exit_code(report, request.fail_on)


def exit_code(report: Report, fail_on: tuple[str, ...]) -> int:
    """2 if a file could not be audited (the rest was), else 1 for a verdict of ``fail_on``, else 0."""
    if report.problems:
        return EXIT_INPUT
    if not fail_on:
        return EXIT_OK
    wanted = set(fail_on)
    # What a query or an exception says about a gate replaces what the gate says by itself.
    judged = {finding.gate for finding in report.findings if finding.gate}
    verdicts = [finding.verdict for finding in report.findings]
    verdicts += [gate.verdict for gate in report.gates if gate.id not in judged]
    hit = any(verdict.get(target) in wanted for verdict in verdicts for target in report.targets)
    return EXIT_FINDINGS if hit else EXIT_OK
