"""How much shared memory a launch asks for, where that is a constant of the source.

A kernel that wants more than 48 KB says so before it is launched, with ``cudaFuncSetAttribute``.
The amount is often built from constants and template arguments: then it is computed here, for every
instantiation that the file has. Anything else is None, and nothing is concluded from it.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from auditor.native.cxx.index import Definition, Source
from auditor.native.sources.text import whole_number

if TYPE_CHECKING:
    from auditor.native.cxx.program import CxxProgram

#: A request for shared memory; the amount stands behind it, up to the end of the call.
REQUEST = re.compile(r"\bcudaFuncAttributeMaxDynamicSharedMemorySize\s*,\s*")
MAX_INSTANTIATIONS = 64
MAX_NESTED = 24
_TOKEN = re.compile(
    r"\s*(?:(?P<number>0[xX][0-9a-fA-F]+|\d+)[uUlLzZ]*(?![\w.])|(?P<name>[A-Za-z_]\w*(?:::\w+)*)|(?P<sign><<|>>|<=|>=|==|!=|&&|\|\||[-+*/%<>!?:(),]))"
)
_LEVELS: tuple[dict[str, Callable[[int, int], int]], ...] = (
    {"||": lambda a, b: int(bool(a or b))},
    {"&&": lambda a, b: int(bool(a and b))},
    {"==": lambda a, b: int(a == b), "!=": lambda a, b: int(a != b)},
    {
        "<": lambda a, b: int(a < b),
        ">": lambda a, b: int(a > b),
        "<=": lambda a, b: int(a <= b),
        ">=": lambda a, b: int(a >= b),
    },
    {
        "<<": lambda a, b: a << b if 0 <= b < 63 else _none(),
        ">>": lambda a, b: a >> b if 0 <= b < 63 else _none(),
    },
    {"+": operator.add, "-": operator.sub},
    {
        "*": operator.mul,
        "/": lambda a, b: int(a / b) if b and abs(a) < 1 << 50 else _none(),
        "%": lambda a, b: a % b if b > 0 <= a else _none(),
    },
)
#: Sizes of types in bytes: C++ on the two Linux ABIs, and CUDA's own types.
_SIZES = {
    **dict.fromkeys("bool char int8_t uint8_t __nv_fp8_e4m3 __nv_fp8_e5m2".split(), 1),
    **dict.fromkeys("short int16_t uint16_t half __half __nv_bfloat16 nv_bfloat16".split(), 2),
    **dict.fromkeys("int unsigned float int32_t uint32_t half2 __half2 __nv_bfloat162".split(), 4),
    **dict.fromkeys("long double int64_t uint64_t size_t float2 int2 uint2".split(), 8),
    **dict.fromkeys("float4 int4 uint4 double2".split(), 16),
}
_CALLS: dict[str, Callable[[int, int], int]] = {"std::max": max, "std::min": min, "max": max, "min": min}


class _NotConstant(Exception):
    """An expression that is no constant of the source."""


def _none() -> int:
    raise _NotConstant


class Amounts:
    """The constants of one library's files."""

    def __init__(self, program: CxxProgram) -> None:
        self.program = program
        self._kept: dict[tuple[str, int], tuple[int | None, ...]] = {}

    def asked(self, path: str, line: int) -> tuple[int | None, ...]:
        """The bytes that the request in this line asks for, per instantiation; None where not known."""
        key = (path, line)
        if key not in self._kept:
            self._kept[key] = tuple(dict.fromkeys(self._asked(path, line)))
        return self._kept[key]

    def _asked(self, path: str, line: int) -> list[int | None]:
        source = self.program.source(path)
        found = [m for m in REQUEST.finditer(source.text) if source.line(m.start()) == line]
        around = _around(source, found[0].start()) if len(found) == 1 else None
        if around is None:
            return [None]
        amount = _argument(source.text, found[0].end())
        parameters = _parameters(source, around)
        if not parameters:
            return [self._in(source, around, amount, {}, 0)]
        out: list[int | None] = []
        for bound in self._instantiations(source, around, parameters):
            out.append(self._in(source, around, amount, bound, 0))
        return out or [None]

    def _instantiations(
        self, source: Source, of: Definition, parameters: list[str]
    ) -> list[dict[str, int | None]]:
        out = []
        for match in re.finditer(rf"\b{re.escape(of.name)}\s*<([^;{{}}()]*?)>\s*\(", source.text):
            caller = _around(source, match.start())
            args = [text.strip() for text in match[1].split(",")]
            bound: dict[str, int | None] = dict.fromkeys(parameters)
            for name, arg in zip(parameters, args):
                bound[name] = self._in(source, caller, arg, {}, 0) if name else None
            out.append(bound)
            if len(out) >= MAX_INSTANTIATIONS:
                return []
        return out

    def _in(
        self, source: Source, where: Definition | None, text: str, bound: Mapping[str, int | None], depth: int
    ) -> int | None:
        """The value of an expression as it stands in a function."""

        def name(word: str) -> int:
            if word in bound:
                value = bound[word]
            else:
                value = self._named(source, where, word, bound, depth + 1)
            return _none() if value is None else value

        def size(word: str) -> int:
            for _ in range(4):
                word = word.removeprefix("std::").strip()
                if word in _SIZES:
                    return _SIZES[word]
                aliases = {text for text, _at in source.aliases.get(word, ())}
                if len(aliases) != 1:
                    break
                word = aliases.pop()
            return _none()

        if depth > MAX_NESTED:
            return None
        try:
            return _Reader(text, name, size).whole()
        except (_NotConstant, OverflowError, RecursionError):
            return None

    def _named(
        self,
        source: Source,
        where: Definition | None,
        word: str,
        bound: Mapping[str, int | None],
        depth: int,
    ) -> int | None:
        if where is not None:
            body = source.body(where)
            found = re.findall(rf"\b(?:const|constexpr)\b[\w\s:]*\s{re.escape(word)}\s*=\s*([^;]+);", body)
            if len(found) == 1:
                return self._in(source, where, found[0], bound, depth)
            if found:
                return None
        outer = self.program.outer(word, source.path)[0]
        return None if outer is None else self._in(source, None, outer, {}, depth)


class _Reader:
    """Reads one expression of integers."""

    def __init__(self, text: str, name: Callable[[str], int], size: Callable[[str], int]) -> None:
        self.tokens: list[tuple[str, str]] = []
        at, text = 0, text.strip()
        while at < len(text):
            match = _TOKEN.match(text, at)
            if match is None or len(self.tokens) > 400:
                raise _NotConstant
            kind = match.lastgroup or ""
            self.tokens.append((kind, match[kind]))
            at = match.end()
        self.at = 0
        self.name = name
        self.size = size

    def whole(self) -> int:
        value = self.choice()
        return value if self.at == len(self.tokens) else _none()

    def peek(self) -> str:
        return self.tokens[self.at][1] if self.at < len(self.tokens) else ""

    def take(self, wanted: str) -> None:
        if self.peek() != wanted:
            raise _NotConstant
        self.at += 1

    def choice(self) -> int:
        value = self.level(0)
        if self.peek() != "?":
            return value
        self.at += 1
        first = self.choice()
        self.take(":")
        second = self.choice()
        return first if value else second

    def level(self, depth: int) -> int:
        if depth == len(_LEVELS):
            return self.unary()
        value = self.level(depth + 1)
        while self.peek() in _LEVELS[depth]:
            sign = self.peek()
            self.at += 1
            value = _LEVELS[depth][sign](value, self.level(depth + 1))
        return value

    def unary(self) -> int:
        if self.at >= len(self.tokens):
            raise _NotConstant
        kind, text = self.tokens[self.at]
        self.at += 1
        if text in ("-", "+", "!"):
            value = self.unary()
            return -value if text == "-" else int(not value) if text == "!" else value
        if text == "(":
            value = self.choice()
            self.take(")")
            return value
        if kind == "number":
            number = whole_number(text)
            return number if number is not None else _none()
        if kind != "name":
            raise _NotConstant
        if text == "sizeof":
            return self._sizeof()
        if text == "static_cast":
            self.take("<")
            while self.peek() not in (">", ""):
                self.at += 1
            self.take(">")
            self.take("(")
            value = self.choice()
            self.take(")")
            return value
        if self.peek() == "(":
            call = _CALLS.get(text)
            self.at += 1
            if call is None:
                raise _NotConstant
            first = self._argument(",")
            return call(first, self._argument(")"))
        return self.name(text)

    def _argument(self, end: str) -> int:
        value = self.choice()
        self.take(end)
        return value

    def _sizeof(self) -> int:
        self.take("(")
        kind, text = self.tokens[self.at] if self.at < len(self.tokens) else ("", "")
        self.at += 1
        self.take(")")
        return self.size(text) if kind == "name" else _none()


def _argument(text: str, start: int) -> str:
    """The argument of a call that begins here: up to its comma or the end of the call."""
    depth, at = 0, start
    while at < min(len(text), start + 400):
        if text[at] == "(":
            depth += 1
        elif depth == 0 and text[at] in "),;":
            return text[start:at]
        elif text[at] == ")":
            depth -= 1
        at += 1
    return ""


def _around(source: Source, at: int) -> Definition | None:
    """The function that an offset lies in, the innermost one."""
    holding = [d for each in source.functions.values() for d in each if d.open < at < d.close]
    return max(holding, key=lambda d: d.open, default=None)


def _parameters(source: Source, of: Definition) -> list[str]:
    """The names of the template parameters, "" for one without; [] for no template."""
    if not of.template:
        return []
    before = source.text[max(0, of.params - 2000) : of.params]
    found = list(
        re.finditer(r"\btemplate\s*<([^;{}]*?)>\s*(?=[^<>]*\Z|[\w:\s*&]*(?:<[^<>]*>)?[\w:\s*&]*\Z)", before)
    )
    if not found:
        return [""]
    names = []
    for one in found[-1][1].split(","):
        words = re.findall(r"[A-Za-z_]\w*", one.partition("=")[0])
        names.append(words[-1] if len(words) > 1 else "")
    return names


__all__ = ["REQUEST", "Amounts"]
