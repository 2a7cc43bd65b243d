"""Annotations of GitHub Actions: lines that its runner takes from the output and shows at the code."""

from __future__ import annotations

from auditor.reporting.notes import Note, Paper, counted, sentence
from auditor.reporting.text import clean

#: A step shows no more of each kind.
MOST = 10
_COMMAND = {"error": "error", "warning": "warning", "note": "notice"}


def render(paper: Paper, prefix: str = "") -> str:
    """One command a line, the worst notes first; what is more than a step shows is counted in the last one.

    ``prefix`` is put before paths, for a tree that lies in a folder of the checkout.
    """
    out = []
    for problem in paper.problems[:MOST]:
        out.append(_command("warning", "not audited", f"not audited: {problem}"))
    shown = 0
    room = {"error": MOST, "warning": MOST - len(out), "note": MOST - 1}
    for note in paper.notes:
        if room[note.level] > 0:
            room[note.level] -= 1
            shown += 1
            out.append(_annotation(note, prefix))
    rest = len(paper.notes) - shown
    more = f"; {rest:,} more in the summary of the job" if rest else ""
    out.append(_command("notice", paper.title, f"{counted(paper)}{more}"))
    return "".join(f"{line}\n" for line in out)


def _annotation(note: Note, prefix: str) -> str:
    lines = [sentence(note), *note.detail, *([f"fix: {note.fix}"] if note.fix else [])]
    title = note.rule.partition("/")[2] or note.rule
    place = {"file": prefix + note.path, "line": str(max(note.line, 1))}
    if note.end_line > note.line:
        place["endLine"] = str(note.end_line)
    return _command(_COMMAND[note.level], title, "\n".join(clean(line) for line in lines), place)


def _command(command: str, title: str, message: str, place: dict[str, str] | None = None) -> str:
    facts = {**(place or {}), "title": title}
    properties = ",".join(f"{name}={_property(value)}" for name, value in facts.items())
    return f"::{command} {properties}::{_data(message)}"


def _data(text: str) -> str:
    """A message as the runner reads it: a line end in it is data, so that no other command can follow."""
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(clean(text)).replace(":", "%3A").replace(",", "%2C")
