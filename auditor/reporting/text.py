"""Lines for a terminal: cleaning foreign text, wrapping it, glyphs, and writing it with or without colour.

Pages are built from plain values here and meet ``rich`` only where a terminal wants colour or links, so a
page in a pipe costs no import of it.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from auditor.errors import UNSAFE, disarmed
from auditor.errors import clean as clean

if TYPE_CHECKING:
    from rich.console import Console

    from auditor.trees.base import SourceTree

#: Where a long word may be broken: behind these, but not within ``name.py:12``.
_BREAK_AFTER = re.compile(r"(?<=[ /.,;=()\[\]|←·])(?!py\b)")

#: What stands for what where the output cannot show it.
_ASCII = str.maketrans({
    "✗": "x", "·": ".", "←": "<-", "→": "->", "…": "...", "–": "-", "—": "-", "×": "x",
    "✓": "y", "≥": ">=", "≤": "<=", "“": '"', "”": '"', "‘": "'", "’": "'",
})  # fmt: skip


@dataclass(frozen=True)
class Span:
    """A piece of a line in one style. ``link`` is a URL that a terminal may make clickable."""

    text: str
    style: str = ""
    link: str | None = None


def _inert(line: list[Span]) -> list[Span]:
    """The same line, where it does not begin as a command to the runner of a CI job does."""
    text = "".join(span.text for span in line)
    if disarmed(text) == text:
        return line
    at = next(n for n, span in enumerate(line) if span.text.strip())
    first = line[at]
    return [*line[:at], replace(first, text=first.text.replace(":", ": ", 1)), *line[at + 1 :]]


@dataclass
class Page:
    """Lines that know their width. Foreign text is cleaned on its way in."""

    width: int
    lines: list[list[Span]] = field(default_factory=list)

    def add(self, *spans: Span | str) -> None:
        """One line, as it is."""
        whole = [span if isinstance(span, Span) else Span(span) for span in spans]
        self.lines.append([replace(s, text=clean(s.text)) if UNSAFE.search(s.text) else s for s in whole])

    def blank(self) -> None:
        if self.lines and self.lines[-1]:
            self.lines.append([])

    def paragraph(
        self,
        text: str,
        *,
        indent: int = 0,
        head: str = "",
        style: str = "",
        most: int | None = None,
    ) -> None:
        """Text wrapped under ``indent``; ``head`` stands before its first line, within the indent.

        ``most`` cuts it after that many lines, with an ellipsis.
        """
        parts = wrap(clean(text), max(self.width - indent, 20))
        if most is not None and len(parts) > most:
            parts = parts[:most]
            room = max(self.width - indent, 20) - 2
            parts[-1] = f"{parts[-1][:room].rstrip()} …"
        for number, part in enumerate(parts):
            self.add(head.ljust(indent) if number == 0 else " " * indent, Span(part, style))

    def write(self, console: Console) -> None:
        """Print the page. Characters that the output lacks are replaced by plain ones."""
        plain = not _shows(console.encoding)
        if console.color_system is None and not console.is_terminal:
            text = "".join("".join(span.text for span in _inert(line)).rstrip() + "\n" for line in self.lines)
            console.file.write(_encodable(text, console.encoding, plain))
            return
        self._write_rich(console, plain)

    def _write_rich(self, console: Console, plain: bool) -> None:
        from rich.style import Style
        from rich.text import Text

        whole = Text(no_wrap=True, end="")
        for line in map(_inert, self.lines):
            # Spaces at the end of a line would be copied along with it.
            last = max((n for n, span in enumerate(line) if span.text.strip()), default=-1)
            for number, span in enumerate(line[: last + 1]):
                text = span.text.rstrip() if number == last else span.text
                style = Style.parse(span.style) if span.style else Style()
                if span.link:
                    style += Style(link=span.link)
                whole.append(_encodable(text, console.encoding, plain), style)
            whole.append("\n")
        console.print(whole, crop=False, overflow="ignore", no_wrap=True, end="", soft_wrap=True)


def _shows(encoding: str) -> bool:
    """Whether an output encoding has our glyphs."""
    try:
        "✗·←…✓".encode(encoding)
    except (UnicodeEncodeError, LookupError):
        return False
    return True


def _encodable(text: str, encoding: str, plain: bool) -> str:
    if not plain:
        return text
    try:
        return text.translate(_ASCII).encode(encoding, "backslashreplace").decode(encoding)
    except LookupError:
        return text.translate(_ASCII).encode("ascii", "backslashreplace").decode("ascii")


def wrap(text: str, width: int) -> list[str]:
    """Lines of at most ``width`` columns: broken at spaces, else behind ``/ . , ( =``, else anywhere."""
    lines: list[str] = []
    line = ""
    for word in re.findall(r"\s*\S+", text):
        if len(line) + len(word) <= width:
            line += word
            continue
        word = word.lstrip()
        if len(word) <= width:
            lines.append(line)
            line = word
            continue
        # A word longer than a line: fill the line with the parts it has, so that no name is cut.
        if line:
            line += " "
        for part in _BREAK_AFTER.split(word):
            if len(line) + len(part) > width and line.strip():
                lines.append(line.rstrip())
                line = ""
            while len(part) > width:
                lines.append(part[:width])
                part = part[width:]
            line += part
    if line.strip():
        lines.append(line.rstrip())
    return [part for part in lines if part] or [""]


def short_paths(paths: Iterable[str]) -> dict[str, str]:
    """Each path by its shortest end that no other path shares; ``__init__.py`` keeps its folder."""
    split = {path: path.split("/") for path in sorted(set(paths))}
    out: dict[str, str] = {}
    pending, size = list(split), 1
    while pending:
        ends = Counter("/".join(parts[-size:]) for parts in split.values())
        later = []
        for path in pending:
            end = "/".join(split[path][-size:])
            if size >= len(split[path]) or (ends[end] == 1 and end != "__init__.py"):
                out[path] = end
            else:
                later.append(path)
        pending, size = later, size + 1
    return out


class Places:
    """Shows ``path:line`` short, and clickable where the file lies on this disk."""

    def __init__(self, paths: Iterable[str], tree: SourceTree | None, links: bool) -> None:
        self._short = short_paths(paths)
        self._tree = tree if links else None

    def span(self, path: str, line: int) -> Span:
        return Span(self.text(path, line), "cyan", self._link(path))

    def text(self, path: str, line: int) -> str:
        text = self._short.get(path, path)
        return clean(f"{text}:{line}" if line else text)

    def _link(self, path: str) -> str | None:
        local = self._tree.local_path(path) if self._tree is not None else None
        if local is None or UNSAFE.search(local):
            return None
        from urllib.parse import quote

        return "file://" + quote(local)


TRUTH_GLYPHS: Mapping[str, str] = {"true": "✓", "false": "·", "unknown": "?"}
TRUTH_WORDS: Mapping[str, str] = {"true": "yes", "false": "no", "unknown": "?"}
