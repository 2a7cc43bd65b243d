"""Where functions and types of C++ and CUDA files are defined: found by braces, without parsing.

Parsing everything would cost more than the rest of the audit. A definition is a name, its parameters and a
braced body outside of any other function; only bodies that matter are parsed later.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from dataclasses import dataclass, field
from typing import NamedTuple

from auditor.native.cxx_text import Lookup, Prepared, hollowed, prepare, without_comments

_BRACKETS = re.compile(r"[(){}]")
_TAIL = re.compile(r"\)\s*(?:(?:const|noexcept|override|final|mutable|volatile|&&?)\s*)*(?:->[^;{}()]*)?\Z")
_NAME = re.compile(
    r"((?:[A-Za-z_]\w*\s*(?:<[^;{}()]*>)?\s*::\s*)*)(operator\s*[^\s\w(]+|~?[A-Za-z_]\w*)\s*(?:<[^;{}()]*>\s*)?\Z"
)
_TYPE = re.compile(
    r"\b(?:struct|class|union)\s+(?:[A-Z_]+\([^()]*\)\s*|alignas\([^()]*\)\s*|\[\[.*?\]\]\s*)*([A-Za-z_]\w*)[^;{}()=]*\Z"
)
_SPACE = re.compile(r"(?:\bnamespace\b[^;{}()]*|\bextern\s+\"[^\"]*\"\s*)\Z")
_USING = re.compile(r"\busing\s+([A-Za-z_]\w*)\s*=\s*([^;]+);")
_NOT_NAMES = {
    "if",
    "for",
    "while",
    "switch",
    "catch",
    "return",
    "sizeof",
    "decltype",
    "constexpr",
    "alignas",
    "requires",
    "else",
    "do",
}


class Definition(NamedTuple):
    """A function with its body. Offsets are in the prepared text of its file."""

    name: str
    path: str
    line: int
    params: int  # offset of the (
    open: int  # offset of the {
    close: int  # offset of the }
    owner: str = ""  # struct or class, or the qualifier before the name
    template: bool = False
    head: str = ""  # what stands before the name: __global__ and the like


@dataclass
class Source:
    """One file as the compiler would see it under some macros, with what it defines."""

    path: str
    prepared: Prepared
    code: str  # the prepared text with the inside of strings made harmless; positions are the same
    functions: dict[str, list[Definition]] = field(default_factory=dict)
    types: dict[str, list[tuple[int, int]]] = field(default_factory=dict)  # name -> spans
    aliases: dict[str, list[str]] = field(default_factory=dict)
    lines: list[int] = field(default_factory=list)

    @property
    def text(self) -> str:
        return self.prepared.text

    def line(self, at: int) -> int:
        """The line, from 1, of an offset."""
        return bisect_right(self.lines, at)

    def body(self, definition: Definition) -> str:
        """The braced body."""
        return self.text[definition.open : definition.close + 1]


def source_of(
    path: str, raw: str, lookup: Lookup, choices: dict[int, bool] | None = None, bare: str | None = None
) -> Source:
    """The file under these macros. ``bare`` is the text without comments, where the caller has it already."""
    prepared = prepare(without_comments(raw) if bare is None else bare, lookup, choices)
    code = hollowed(prepared.text)
    source = Source(path, prepared, code)
    source.lines = [0, *(m.end() for m in re.finditer("\n", code))]
    _find(source)
    for match in _USING.finditer(code):
        source.aliases.setdefault(match[1], []).append(match[2])
    return source


def _find(source: Source) -> None:
    code, path = source.code, source.path
    pairs: dict[int, int] = {}
    parens: list[int] = []
    # Open braces: offset, kind ("space", "type", "function", "other"), name, parameters, head.
    braces: list[tuple[int, str, str, int, str]] = []
    inside = 0  # how many open braces are function bodies or unknown blocks
    for match in _BRACKETS.finditer(code):
        char, at = match[0], match.start()
        if char == "(":
            parens.append(at)
        elif char == ")":
            if parens:
                pairs[at] = parens.pop()
        elif char == "{":
            if inside:
                braces.append((at, "other", "", 0, ""))
                inside += 1
                continue
            found = _opened(code, at, pairs)
            braces.append((at, *found))
            if found[0] in ("function", "other"):
                inside += 1
        else:
            if not braces:
                continue
            opened, kind, name, params, head = braces.pop()
            if kind in ("function", "other"):
                inside -= 1
            if kind == "function":
                owner = next((b[2] for b in reversed(braces) if b[1] == "type"), "")
                qualifier, _, short = name.rpartition("::")
                definition = Definition(
                    short,
                    path,
                    source.line(opened if params == 0 else params),
                    params,
                    opened,
                    at,
                    owner or qualifier.rpartition("::")[2],
                    "template" in head,
                    head,
                )
                source.functions.setdefault(short, []).append(definition)
            elif kind == "type":
                source.types.setdefault(name, []).append((opened, at))
            parens.clear()


def _opened(code: str, at: int, pairs: dict[int, int]) -> tuple[str, str, int, str]:
    """What a brace outside of functions opens."""
    start = max(0, at - 400)
    before = code[start:at]
    last = before.rstrip()[-1:]
    tail = _TAIL.search(before)
    if tail is None and last and last not in ";{}=," and ")" in before:
        tail = _initialisers(before)
    if tail is not None:
        end = start + tail.start()
        opened = pairs.get(end)
        if opened is None:
            return "other", "", 0, ""
        name = _NAME.search(code, max(0, opened - 300), opened)
        if name is None or name[2] in _NOT_NAMES:
            return "other", "", 0, ""
        head_start = max(
            code.rfind(";", 0, name.start()),
            code.rfind("}", 0, name.start()),
            code.rfind("{", 0, name.start()),
        )
        head = " ".join(code[max(head_start + 1, name.start() - 600) : name.start()].split())
        qualifier = re.sub(r"<[^;{}()]*>|\s+", "", name[1])
        return "function", qualifier + name[2], opened, head
    piece = before[max(before.rfind(";"), before.rfind("}"), before.rfind("{")) + 1 :]
    kind = _TYPE.search(piece)
    if kind is not None:
        return "type", kind[1], 0, ""
    if _SPACE.search(piece) or not piece.strip():
        return ("space", "", 0, "") if _SPACE.search(piece) else ("other", "", 0, "")
    return "other", "", 0, ""


def _initialisers(before: str) -> re.Match[str] | None:
    """The ) before a constructor's list of initialisers, ``A(int x) : x_(x), y_(0) {``."""
    return re.search(r"\)(?=\s*(?:noexcept\s*)?:[^:;{}?][^;{}?]*\)\s*\Z)", before)
