"""Markdown for a pull request or a job's summary: short first, the rest folded, never longer than allowed."""

from __future__ import annotations

from collections.abc import Iterable

from auditor.reporting.notes import GROUPS, LEVELS, Note, Paper, counted, targets_by_word
from auditor.reporting.text import clean

#: A comment holds 65,536 characters, a job's summary a MiB of which more would be dropped as a whole.
COMMENT = 60_000
SUMMARY = 900_000
#: Notes of one level that are shown unfolded.
_OPEN = 20
_HEADS = {"error": "Must be looked at", "warning": "Should be looked at", "note": "To know"}


def render(paper: Paper, most: int = COMMENT) -> str:
    """The page, at most ``most`` characters of it: what does not fit is counted, worst notes first."""
    head = [
        f"### {_text(paper.title)}",
        "",
        *(f"{_text(line)}  " for line in paper.lines if line != paper.title),
        "",
        f"**{_text(counted(paper))}**",
        "",
    ]
    for problem in paper.problems:
        head.append(f"- not audited: {_code(problem)}")
    tail_room = 200
    out = "\n".join(head) + "\n"
    if len(out) > most - tail_room:
        return out[: most - tail_room].rsplit("\n", 1)[0] + "\n\n… cut\n"
    left = len(paper.notes)
    for level, group, notes in _groups(paper):
        folded = level == "note" or len(notes) > _OPEN
        title = f"{_HEADS[level]}{': ' + group if group else ''} ({len(notes):,})"
        start = f"\n<details><summary>{title}</summary>\n\n" if folded else f"\n#### {title}\n\n"
        end = "\n</details>\n" if folded else ""
        block = start + (f"{GROUPS[group]}\n\n" if group else "")
        block += "| place | what | targets |\n| --- | --- | --- |\n"
        shown = 0
        for row in _rows(notes):
            if len(out) + len(block) + len(row) + len(end) > most - tail_room:
                break
            block += row
            shown += 1
        if not shown:
            break
        out += block + end
        left -= shown
        if shown < len(notes):
            break
    if left:
        out += f"\n… and {left:,} more that do not fit here\n"
    return out


def _groups(paper: Paper) -> Iterable[tuple[str, str, list[Note]]]:
    """The notes by level, and those that trip the guard by what happened, in order."""
    for level in LEVELS:
        for group in ("", *GROUPS):
            notes = [note for note in paper.notes if (note.level, note.group) == (level, group)]
            if notes:
                yield level, group, notes


def _rows(notes: Iterable[Note]) -> Iterable[str]:
    for note in notes:
        where = f"{note.path}:{note.line}"
        what = [f"**{_text(note.rule.partition('/')[2] or note.rule)}** {_code(note.message)}"]
        if note.symbol:
            what.append(f"in {_code(note.symbol)}")
        what += [_text(line) for line in note.detail]
        if note.fix:
            what.append(f"fix: {_code(note.fix)}")
        yield f"| {_code(where)} | {'<br>'.join(what)} | {_text(targets_by_word(note.verdicts))} |\n"


#: Spelled so that they show and do nothing: no link, image, mention, markup or cell of a table.
_INERT = str.maketrans({
    **{c: f"\\{c}" for c in "\\*_{}[]#~$"},
    **{"&": "&amp;", "<": "&lt;", ">": "&gt;", "`": "&#96;", "|": "&#124;", "@": "@\u2060"},
})  # fmt: skip


def _text(text: str) -> str:
    """Foreign text that shows as it stands."""
    return clean(text).translate(_INERT).replace("://", ":\u2060//").replace("www.", "www\u2060.")


def _code(text: str) -> str:
    """Foreign text as code within a table: its back quotes and bars cannot end it."""
    text = clean(text).replace("|", "\\|")
    longest = run = 0
    for char in text:
        run = run + 1 if char == "`" else 0
        longest = max(longest, run)
    fence = "`" * (longest + 1)
    pad = " " if text.startswith("`") or text.endswith("`") else ""
    return f"{fence}{pad}{text}{pad}{fence}" if text.strip() else ""
