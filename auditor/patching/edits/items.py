"""One more item in a bracketed list, in the form in which its neighbours are written."""

from __future__ import annotations

import re
from collections.abc import Sequence

from auditor.lazyre import lazy
from auditor.patching.edits.source import Lines, Splice

_TOKEN = lazy(rb"#[^\r\n]*|,|[^#,]+")


def insert_item(
    source: Lines,
    opening: int,
    close: int,
    spans: Sequence[tuple[int, int]],
    index: int,
    texts: Sequence[bytes],
) -> list[Splice]:
    """Splices that make ``texts`` the items from ``index`` on.

    ``opening`` is the first byte after the opening bracket (or of the first item where there is none),
    ``close`` that of the closing one, ``spans`` the items without brackets around them.
    """
    data = source.data
    text = b", ".join(texts)
    if not spans:
        return [Splice(opening, close if not data[opening:close].strip() else opening, text)]
    if index == 0:
        start = _opened(data, opening, spans[0][0])
        if _own_line(source, start) and source.line_start(start) >= opening:
            line = source.line_start(start)
            return [Splice(line, line, _lines(source, data[line:start], texts) + b"," + source.newline)]
        return [Splice(start, start, text + b", ")]
    end = spans[index - 1][1]
    limit = spans[index][0] if index < len(spans) else close
    comma = _comma(data, end, limit)
    first = _opened(data, spans[index - 2][1] if index > 1 else opening, spans[index - 1][0])
    own = _own_line(source, first) and source.line_start(first) >= opening
    if comma is None:
        end = _closed(data, end, limit)
        if own:
            line = source.line_start(first)
            blanks = data[line:first]
            stop = _line_stop(data, end, close)
            new = source.newline + _lines(source, blanks, texts)
            if stop == end:
                return [Splice(end, end, b"," + new)]
            return [Splice(end, end, b","), Splice(stop, stop, new)]
        return [Splice(end, end, b", " + text)]
    rest = data[comma + 1 : limit]
    if own and (b"\n" in rest or b"\r" in rest):
        line = source.line_start(first)
        at = source.line_end(comma)
        return [Splice(at, at, _lines(source, data[line:first], texts) + b"," + source.newline)]
    if index < len(spans):
        return [Splice(comma + 1, comma + 1, b" " + text + b",")]
    return [Splice(comma + 1, comma + 1, b" " + text)]


def _lines(source: Lines, blanks: bytes, texts: Sequence[bytes]) -> bytes:
    """One item a line; the last without its comma."""
    return (b"," + source.newline).join(blanks + text for text in texts)


def _comma(data: bytes, start: int, stop: int) -> int | None:
    """The first comma outside comments."""
    for token in _TOKEN.finditer(data, start, stop):
        if token[0] == b",":
            return token.start()
    return None


def _closed(data: bytes, start: int, stop: int) -> int:
    """The end of the brackets around an item whose own end is ``start``."""
    end = start
    for token in _TOKEN.finditer(data, start, stop):
        if not token[0].startswith(b"#"):
            last = token[0].rfind(b")")
            if last >= 0:
                end = token.start() + last + 1
    return end


def _opened(data: bytes, start: int, stop: int) -> int:
    """The first byte of an item with the brackets around it; the item itself begins at ``stop``."""
    at = stop
    for token in _TOKEN.finditer(data, start, stop):
        if token[0] == b",":
            at = stop
        elif not token[0].startswith(b"#") and at == stop:
            found = token[0].find(b"(")
            at = token.start() + found if found >= 0 else stop
    return at


def _own_line(source: Lines, start: int) -> bool:
    return not source.data[source.line_start(start) : start].strip()


def _line_stop(data: bytes, end: int, close: int) -> int:
    """After a comment that follows an item on its line."""
    match = re.compile(rb"[ \t]*#[^\r\n]*").match(data, end, close)
    return match.end() if match else end
