"""JUnit's XML: one test case a note, in one suite a rule. Errors and warnings are failures."""

from __future__ import annotations

from xml.sax.saxutils import escape, quoteattr

from auditor.reporting.notes import Note, Paper, counted, targets_by_word
from auditor.reporting.text import clean


def render(paper: Paper) -> str:
    """The report. A suite without notes has one case that passes, so that no reader takes it for a crash."""
    suites: dict[str, list[Note]] = {}
    for note in paper.notes:
        suites.setdefault(note.rule, []).append(note)
    failed = sum(note.level != "note" for note in paper.notes)
    errors = len(paper.problems)
    total = max(len(paper.notes), 1) + errors
    out = [
        '<?xml version="1.0" encoding="UTF-8"?>',
        f'<testsuites name={_name(paper.title)} tests="{total}" failures="{failed}" errors="{errors}">',
    ]
    for rule in sorted(suites):
        notes = suites[rule]
        bad = sum(note.level != "note" for note in notes)
        out.append(f'<testsuite name={_name(rule)} tests="{len(notes)}" failures="{bad}" errors="0">')
        out += [_case(note) for note in notes]
        out.append("</testsuite>")
    if not suites:
        out.append(f'<testsuite name={_name(paper.title)} tests="1" failures="0" errors="0">')
        out.append(f'<testcase classname="audit" name={_name(counted(paper))}/></testsuite>')
    if errors:
        out.append(f'<testsuite name="not audited" tests="{errors}" failures="0" errors="{errors}">')
        for problem in paper.problems:
            out.append(f'<testcase classname="not audited" name={_name(problem)}>')
            out.append(f"<error message={_name(problem)}/></testcase>")
        out.append("</testsuite>")
    out.append("</testsuites>")
    return "\n".join(out) + "\n"


def _case(note: Note) -> str:
    name = f"{note.path}:{note.line}{' ' + note.symbol if note.symbol else ''}"
    place = f'file={_name(note.path)} line="{note.line}"'
    head = f"<testcase classname={_name(note.rule)} name={_name(name)} {place}>"
    lines = [note.message, targets_by_word(note.verdicts), *note.detail]
    lines += [f"fix: {note.fix}"] if note.fix else []
    text = escape("\n".join(clean(line) for line in lines if line))
    if note.level == "note":
        return f"{head}<system-out>{text}</system-out></testcase>"
    return f'{head}<failure type="{note.level}" message={_name(note.message)}>{text}</failure></testcase>'


def _name(text: str) -> str:
    return quoteattr(clean(text))
