"""Where functions and types of C++ and CUDA files are defined: found by braces, without parsing.

Parsing everything would cost more than the rest of the audit. A definition is a name, its parameters and a
braced body outside of any other function; only bodies that matter are parsed later.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from dataclasses import dataclass, field
from typing import NamedTuple

from auditor.native.sources.text import Lookup, Prepared, prepare, without_comments

_STRING = r"\"(?:\\.|[^\"\\\n])*\"|'[{}()\"]'"
_BRACKETS = re.compile(rf"[(){{}}]|{_STRING}")
_ENDED = re.compile(r"[ \t\n]*(?:const|noexcept)?[ \t\n]*;")
_BRACES = re.compile(rf"[{{}}]|{_STRING}")
_AFTER = re.compile(r"\s*(?:(?:const|noexcept|override|final|mutable|volatile|&&?)\s*)*(?:->[^;{}()]*)?\Z")
_OPERATOR = re.compile(r"operator\s*(?:\(\s*\)|[^\s\w(]+)\s*\Z")
_QUALIFIER = re.compile(r"((?:[A-Za-z_]\w*\s*(?:<[^;{}()<>]*>)?\s*::\s*)+)\Z")
_TYPE = re.compile(
    r"(?:struct|class|union)\s+(?:[A-Z_]+\([^()]*\)\s*|alignas\([^()]*\)\s*|\[\[.*?\]\]\s*)*([A-Za-z_]\w*)[^;{}()=]*\Z"
)
_SPACE = re.compile(r"(?:\bnamespace\b[^;{}()]*|\bextern\s+\"[^\"]*\"\s*)\Z")
_USING = re.compile(r"\busing\s+([A-Za-z_]\w*)\s*=\s*([^;]+);")
_GLOBAL = re.compile(
    r"^(?:(?:static|const|constexpr|inline|extern|auto|thread_local)\s+)+(?:[A-Za-z_][\w:]*\s+)*([A-Za-z_]\w*)\s*"
    r"(?:=\s*([^;{}]{1,300})|\{([^;{}]{1,300})\})\s*;",
    re.MULTILINE,
)
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
    functions: dict[str, list[Definition]] = field(default_factory=dict)
    types: dict[str, list[tuple[int, int]]] = field(default_factory=dict)  # name -> spans
    aliases: dict[str, list[tuple[str, int]]] = field(default_factory=dict)
    globals: dict[str, list[tuple[str, int]]] = field(default_factory=dict)  # variables outside functions
    spans: list[tuple[int, int]] = field(default_factory=list)  # outermost functions and types
    declared: set[str] = field(default_factory=set)  # functions whose body is elsewhere
    broken: int = 0  # the line where the braces stop to match; 0 where they do

    @property
    def text(self) -> str:
        return self.prepared.text

    def line(self, at: int) -> int:
        """The line, from 1, of an offset."""
        return self.text.count("\n", 0, at) + 1

    def body(self, definition: Definition) -> str:
        """The braced body."""
        return self.text[definition.open : definition.close + 1]


def source_of(
    path: str, raw: str, lookup: Lookup, choices: dict[int, bool] | None = None, bare: str | None = None
) -> Source:
    """The file under these macros. ``bare`` is the text without comments, where the caller has it already."""
    prepared = prepare(without_comments(raw) if bare is None else bare, lookup, choices)
    code = prepared.text
    source = Source(path, prepared)
    _find(source)
    spans = sorted(source.spans)

    def outside(at: int) -> bool:
        # Inside functions and types a name is seen with the text around it; outside it stands for itself.
        before = bisect_right(spans, (at, len(code))) - 1
        return before < 0 or spans[before][1] < at

    for match in _USING.finditer(code):
        if outside(match.start()):
            source.aliases.setdefault(match[1], []).append((match[2], match.start()))
    for match in _GLOBAL.finditer(code):
        if outside(match.start()):
            source.globals.setdefault(match[1], []).append((match[2] or match[3], match.start()))
    return source


def _find(source: Source) -> None:
    code, path = source.text, source.path
    pairs: dict[int, int] = {}
    parens: list[int] = []
    # Open braces: offset, kind ("space", "type"), name.
    braces: list[tuple[int, str, str]] = []
    at = 0
    while match := _BRACKETS.search(code, at):
        char, at = match[0], match.end()
        here = match.start()
        if char == "(":
            parens.append(here)
        elif char == ")":
            if parens:
                opened = pairs[here] = parens.pop()
                if not parens and _ENDED.match(code, at):
                    declared = _name_before(code, opened)[1]
                    if declared:
                        source.declared.add(declared)
        elif char == "{":
            kind, name, params, head = _opened(code, here, pairs)
            if kind in ("space", "type"):
                braces.append((here, kind, name))
                parens.clear()
                continue
            end = _closed(code, here)
            at = close = len(code) if end < 0 else end
            if end < 0:
                source.broken = source.broken or source.line(here)
            if not any(kind == "type" for _at, kind, _name in braces):
                source.spans.append((here, close))
            if kind == "function":
                owner = next((b[2] for b in reversed(braces) if b[1] == "type"), "")
                qualifier, _, short = name.rpartition("::")
                owner = owner or qualifier.rpartition("::")[2]
                line = source.line(params)
                definition = Definition(
                    short, path, line, params, here, close - 1, owner, "template" in head, head
                )
                source.functions.setdefault(short, []).append(definition)
        elif char == "}":
            if not braces:
                source.broken = source.broken or source.line(here)
            else:
                opened, kind, name = braces.pop()
                if kind == "type":
                    source.types.setdefault(name, []).append((opened, here))
                    if not any(one[1] == "type" for one in braces):
                        source.spans.append((opened, here))
            parens.clear()
    if braces and not source.broken:
        source.broken = source.line(braces[-1][0])


def _closed(code: str, at: int) -> int:
    """The offset behind the brace that closes the one at ``at``; -1 without one."""
    depth = 0
    for match in _BRACES.finditer(code, at):
        if match[0] == "{":
            depth += 1
        elif match[0] == "}":
            depth -= 1
            if depth == 0:
                return match.end()
    return -1


def _opened(code: str, at: int, pairs: dict[int, int]) -> tuple[str, str, int, str]:
    """What a brace outside of functions opens: kind, name, offset of the parameters, text before the name."""
    start = max(0, at - 400)
    before = code[start:at]
    piece = before[max(before.rfind(";"), before.rfind("}"), before.rfind("{")) + 1 :]
    if not piece.strip():
        return "other", "", 0, ""
    end = _parameters(code, at, before, start, pairs)
    if end is not None:
        opened = pairs.get(end)
        if opened is None:
            return "other", "", 0, ""
        begin, name = _name_before(code, opened)
        if not name or name in _NOT_NAMES:
            return "other", "", 0, ""
        head_start = max(code.rfind(char, max(0, begin - 1200), begin) for char in ";}{")
        head = code[max(head_start + 1, begin - 1200, 0) : begin]
        qualifier = _QUALIFIER.search(head[-160:])
        owner = re.sub(r"<[^;{}()]*>|\s+", "", qualifier[1]) if qualifier else ""
        return "function", owner + name, opened, " ".join(head.split())
    word = max(piece.rfind("struct "), piece.rfind("class "), piece.rfind("union "))
    if word >= 0:
        kind = _TYPE.match(piece, word)
        if kind is not None and "enum" not in piece[:word].split():
            return "type", kind[1], 0, ""
    return ("space" if _SPACE.search(piece) else "other"), "", 0, ""


def _name_before(code: str, at: int) -> tuple[int, str]:
    """The name that ends before an offset, template arguments and blanks between left out; "" for none."""
    end = at
    while end > 0 and code[end - 1] in " \t\n":
        end -= 1
    if end and code[end - 1] == ">":
        depth = 0
        for back in range(end - 1, max(0, end - 200), -1):
            depth += {">": 1, "<": -1}.get(code[back], 0)
            if depth == 0:
                end = back
                break
        while end > 0 and code[end - 1] in " \t\n":
            end -= 1
    start = end
    while start > 0 and (code[start - 1].isalnum() or code[start - 1] == "_"):
        start -= 1
    if start < end:
        if code[start].isdigit():
            return end, ""
        return (
            (start - 1, "~" + code[start:end]) if code[start - 1 : start] == "~" else (start, code[start:end])
        )
    operator = _OPERATOR.search(code, max(0, at - 40), at)
    return (operator.start(), operator[0].strip()) if operator else (end, "")


def _parameters(code: str, at: int, before: str, start: int, pairs: dict[int, int]) -> int | None:
    """The offset of the ) that ends the parameters of a function whose body opens at ``at``, or None."""
    last = before.rfind(")")
    if last < 0:
        return None
    if _AFTER.match(before, last + 1):
        # A constructor's list of initialisers ends in a ) as well: go back to the one before the colon.
        end = start + last
        for _ in range(40):
            opened = pairs.get(end)
            if opened is None:
                return end
            text = code[max(0, opened - 200) : opened].rstrip()
            lead = re.search(r"(?:,|\)\s*(?:noexcept\s*)?:)\s*[A-Za-z_]\w*\Z", text)
            if lead is None:
                return end
            shift = max(0, opened - 200)
            previous = code.rfind(")", shift, shift + lead.start() + 1)
            if previous < 0:
                return end
            end = previous
        return end
    return None
