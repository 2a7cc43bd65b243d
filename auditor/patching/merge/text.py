"""Text of statements: moved to another depth, or shortened for a message."""

from __future__ import annotations

from auditor.patching.merge.statements import Source, Statement, tokens


def reindented(source: Source, start: int, end: int, old: bytes, new: bytes) -> bytes:
    """``data[start:end]`` with the indentation ``old`` replaced by ``new``; strings over lines stay."""
    data = source.data[start:end]
    if old == new:
        return data
    inside = [
        (t.start - start, t.end - start)
        for t in tokens(source.data, start, end)
        if b"\n" in source.data[t.start : t.end]
    ]
    out: list[bytes] = []
    at = 0
    for line in data.splitlines(keepends=True):
        within = any(s < at < e for s, e in inside)
        moves = not within and line.startswith(old) and line.strip()
        out.append(new + line[len(old) :] if moves else line)
        at += len(line)
    return b"".join(out)


def first_words(statement: Statement) -> str:
    """The first line of a statement, short enough for a message."""
    text = statement.source.data[statement.start : statement.end].decode("utf-8", "replace").strip()
    line = text.split("\n")[0].strip()
    return line if len(line) <= 60 else line[:57] + "..."
