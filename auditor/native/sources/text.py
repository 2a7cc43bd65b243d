"""C++ and CUDA text without its comments, and with its preprocessor conditions decided, three-valued.

Lines stay where they are: what is left out becomes blank, so a place in the result is a place in the file.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import NamedTuple

_NOISE = re.compile(
    r"//(?:\\\n|[^\n])*|/\*.*?(?:\*/|\Z)|\bu?8?R\"(\w{0,16})\(.*?\)\1\""
    r"|\"(?:\\.|[^\"\\\n])*\"|(?<![0-9a-fA-F])'(?:\\.|[^'\\\n]){1,8}'",
    re.DOTALL,
)
_QUOTE = re.compile(r"\\.|'\"'|\"")
_DIRECTIVE = re.compile(r"^[ \t]*#[ \t]*(\w+)((?:\\\r?\n|[^\n])*)", re.MULTILINE)
_TOKEN = re.compile(
    r"\s*(?:(defined)\b|(0[xX][0-9a-fA-F']+|\d[\d']*)[uUlL]*|([A-Za-z_]\w*)|(&&|\|\||[=!<>]=|<<|>>|[-+*/%!<>()?:,&|^~]))"
)


#: No integer of C++ has more digits, in whatever base.
_DIGITS = 64


def whole_number(text: str) -> int | None:
    """The value of an integer as C++ writes it, with its separators and suffix; None for what is none."""
    digits = text.replace("'", "").lower().rstrip("ulz")
    if not digits.isascii() or len(digits) > _DIGITS:
        return None
    base = 16 if digits[:2] == "0x" else 2 if digits[:2] == "0b" else 8 if digits[:1] == "0" else 10
    try:
        return int(digits, base)
    except ValueError:
        return None


def without_comments(text: str) -> str:
    """The text with each comment as one blank (and its line ends)."""
    out: list[str] = []
    kept = 0
    at = 0
    while (at := text.find("/", at)) >= 0:
        after = text[at + 1 : at + 2]
        if after not in ("/", "*") or _quoted(text, at):
            at += 1
            continue
        if after == "/":
            end = text.find("\n", at)
            while end > 0 and text[end - 1] == "\\":  # a line comment goes on behind a backslash
                end = text.find("\n", end + 1)
        else:
            end = text.find("*/", at + 2)
            end = end + 2 if end >= 0 else end
        end = len(text) if end < 0 else end
        out += (text[kept:at], " ", "\n" * text.count("\n", at, end))
        kept = at = end
    out.append(text[kept:])
    return "".join(out)


def _quoted(text: str, at: int) -> bool:
    """Whether a position is inside a string that begins on the same line."""
    start = text.rfind("\n", 0, at) + 1
    if text.find('"', start, at) < 0:
        return False
    inside = False
    for match in _QUOTE.finditer(text, start, at):
        inside = not inside if match[0] == '"' else inside
    return inside


def _hollow(match: re.Match[str]) -> str:
    text = match[0]
    if text[0] == "/" or len(text) < 2:
        return " " * len(text) if "\n" not in text else re.sub(r"[^\n]", " ", text)
    inner = re.sub(r"[^\n]", "_", text[1:-1]) if "\n" in text else "_" * (len(text) - 2)
    return text[0] + inner + text[-1]


def hollowed(text: str) -> str:
    """The text with comments and the inside of strings made harmless; every position stays."""
    return _NOISE.sub(_hollow, text)


class Number(NamedTuple):
    """The value of a preprocessor expression; ``value`` None is unknown, for the reasons of ``why``."""

    value: int | None
    why: tuple[str, ...] = ()


class Unsure(NamedTuple):
    """A condition that could not be decided; what it decides about ends in line ``last``."""

    line: int
    text: str
    why: tuple[str, ...]
    last: int = 0


class Prepared(NamedTuple):
    """Text with its conditions decided. ``unsure``: those that could not be; ``defines``: of this file."""

    text: str
    unsure: tuple[Unsure, ...]
    defines: dict[str, tuple[tuple[str, int], ...]]  # all that a name is defined to, with lines
    params: dict[str, tuple[str, ...]] = {}  # of those that take arguments


#: Gives a macro: None where it is not defined, text where it is, a Number without value where nobody knows.
Lookup = Callable[[str], "str | Number | None"]


class Expression:
    """Evaluates one ``#if`` expression with Kleene logic."""

    def __init__(self, text: str, lookup: Lookup) -> None:
        self.tokens = [m for m in _TOKEN.finditer(text.replace("\\\n", " "))]
        covered = sum(len(m[0]) for m in self.tokens)
        self.bad = covered < len(text.replace("\\\n", " ").rstrip())
        self.lookup = lookup
        self.at = 0
        self.depth = 0
        self.nested = 0  # inside how many macros that are expressions themselves

    def value(self) -> Number:
        """The value of the whole, unknown for text that is no expression."""
        if self.bad or not self.tokens:
            return Number(None, ("an expression that cannot be read",))
        try:
            result = self._ternary()
        except (RecursionError, ZeroDivisionError):
            return Number(None, ("an expression that cannot be read",))
        if self.at < len(self.tokens):
            return Number(None, ("an expression that cannot be read",))
        return result

    def _peek(self) -> str:
        return self.tokens[self.at][0].strip() if self.at < len(self.tokens) else ""

    def _ternary(self) -> Number:
        self.depth += 1
        if self.depth > 60:
            raise RecursionError
        condition = self._binary(0)
        if self._peek() == "?":
            self.at += 1
            yes = self._ternary()
            if self._peek() == ":":
                self.at += 1
            no = self._ternary()
            condition = condition if condition.value is None else yes if condition.value else no
        self.depth -= 1
        return condition

    _LEVELS = (
        ("||",),
        ("&&",),
        ("|",),
        ("^",),
        ("&",),
        ("==", "!="),
        ("<", ">", "<=", ">="),
        ("<<", ">>"),
        ("+", "-"),
        ("*", "/", "%"),
    )

    def _binary(self, level: int) -> Number:
        if level == len(self._LEVELS):
            return self._unary()
        left = self._binary(level + 1)
        while self._peek() in self._LEVELS[level]:
            operator = self._peek()
            self.at += 1
            left = _apply(operator, left, self._binary(level + 1))
        return left

    def _unary(self) -> Number:
        word = self._peek()
        if word in ("!", "-", "+", "~"):
            self.at += 1
            value, why = self._unary()
            if value is None:
                return Number(None, why)
            return Number({"!": int(not value), "-": -value, "+": value, "~": ~value}[word])
        if word == "(":
            self.at += 1
            inside = self._ternary()
            if self._peek() == ")":
                self.at += 1
            return inside
        if self.at >= len(self.tokens):
            return Number(None, ("an expression that cannot be read",))
        token = self.tokens[self.at]
        self.at += 1
        if token[1]:
            return self._defined()
        if token[2]:
            return _number(token[2])
        if token[3]:
            return self._macro(token[3])
        return Number(None, ("an expression that cannot be read",))

    def _defined(self) -> Number:
        bracket = self._peek() == "("
        self.at += bracket
        name = self._peek()
        self.at += 1
        if bracket and self._peek() == ")":
            self.at += 1
        found = self.lookup(name)
        if isinstance(found, Number):
            return Number(None, found.why) if found.value is None else Number(1)
        return Number(int(found is not None))

    def _macro(self, name: str) -> Number:
        if name in ("true", "false"):
            return Number(int(name == "true"))
        if self._peek() == "(":  # a function-like macro, __has_include and the like
            depth = 0
            while self.at < len(self.tokens):
                depth += {"(": 1, ")": -1}.get(self._peek(), 0)
                self.at += 1
                if depth == 0:
                    break
            return Number(None, (f"{name}(…)",))
        found = self.lookup(name)
        if isinstance(found, Number):
            return found
        if found is None:
            return Number(0)
        text = found.strip().strip("()")
        if re.fullmatch(r"(0[xX][0-9a-fA-F]+|\d+)[uUlL]*", text):
            return _number(text)
        if text and self.nested < 8:
            inner = Expression(found, self.lookup)
            inner.nested = self.nested + 1
            value = inner.value()
            if value.value is not None:
                return value
        return Number(None, (f"{name} is {text or 'empty'}"[:80],))


def _number(text: str) -> Number:
    value = whole_number(text)
    return Number(value) if value is not None else Number(None, (f"{text[:20]} is no number",))


def _apply(operator: str, a: Number, b: Number) -> Number:
    x, y = a.value, b.value
    if operator == "&&":
        if x == 0 or y == 0:
            return Number(0)
        if x is None or y is None:
            return Number(None, (*a.why, *b.why))
        return Number(1)
    if operator == "||":
        if x or y:
            return Number(1)
        if x is None or y is None:
            return Number(None, (*a.why, *b.why))
        return Number(0)
    if x is None or y is None:
        return Number(None, (*a.why, *b.why))
    if operator in ("<<", ">>") and not 0 <= y < 64:
        return Number(None, ("a shift too far",))
    table: dict[str, Callable[[], int]] = {
        "==": lambda: x == y,
        "!=": lambda: x != y,
        "<": lambda: x < y,
        ">": lambda: x > y,
        "<=": lambda: x <= y,
        ">=": lambda: x >= y,
        "+": lambda: x + y,
        "-": lambda: x - y,
        "*": lambda: x * y,
        "/": lambda: abs(x) // abs(y) * (1 if (x < 0) == (y < 0) else -1),  # towards zero, unlike Python
        "%": lambda: abs(x) % abs(y) * (-1 if x < 0 else 1),
        "&": lambda: x & y,
        "|": lambda: x | y,
        "^": lambda: x ^ y,
        "<<": lambda: x << y,
        ">>": lambda: x >> y,
    }
    value = int(table[operator]())
    return Number(value) if abs(value) < 1 << 64 else Number(None, ("a number too large",))


def every_part(text: str) -> str:
    """The text with its directives blanked and all parts of all conditions kept."""
    return _DIRECTIVE.sub(lambda match: "\n" * match[0].count("\n"), text)


def condition_around(text: str, line: int) -> tuple[str, int]:
    """The innermost preprocessor condition around a line and where it begins; ``("", 0)`` without one."""
    around: list[tuple[str, int]] = []
    for match in _DIRECTIVE.finditer(text):
        where = text.count("\n", 0, match.start()) + 1
        if where >= line:
            break
        if match[1] == "endif":
            del around[-1:]
        elif match[1] in ("if", "ifdef", "ifndef"):
            around.append((" ".join(["#" + match[1], *match[2].split()]), where))
        elif match[1] in ("elif", "else") and around:
            around[-1] = (" ".join(["#" + match[1], *match[2].split()]), where)
    return around[-1] if around else ("", 0)


def prepare(text: str, lookup: Lookup, choices: dict[int, bool] | None = None) -> Prepared:
    """Blank every line that the compiler would leave out, and all directives.

    ``text`` has no comments. An undecided condition keeps its first part, or what ``choices`` says for its
    line (True: the first part).
    """
    if "#" not in text:
        return Prepared(text, (), {})
    return _Preprocessor(lookup, choices or {}).run(text)


class _Preprocessor:
    """One run over the text of a file."""

    def __init__(self, lookup: Lookup, choices: dict[int, bool]) -> None:
        self.lookup = lookup
        self.choices = choices
        self.unsure: list[Unsure] = []
        self.defines: dict[str, str] = {}
        self.removed: set[str] = set()
        self.every: dict[str, tuple[tuple[str, int], ...]] = {}
        self.params: dict[str, tuple[str, ...]] = {}
        # Per open #if: is the part around it kept, is this part kept, was one of its parts kept already.
        self.stack: list[list[bool]] = []
        self.opened: list[int] = []  # per open #if: how many conditions were undecided before it
        self.line = 1

    def run(self, text: str) -> Prepared:
        out: list[str] = []
        at = 0
        for match in _DIRECTIVE.finditer(text):
            part = text[at : match.start()]
            newlines = part.count("\n")
            out.append(part if self.keeps() else "\n" * newlines)
            self.line += newlines
            self.directive(match[1], match[2])
            newlines = match[0].count("\n")
            out.append("\n" * newlines)
            self.line += newlines
            at = match.end()
        rest = text[at:].count("\n")
        out.append(text[at:] if self.keeps() else "\n" * rest)
        unsure = tuple(one if one.last else one._replace(last=self.line + rest) for one in self.unsure)
        return Prepared("".join(out), unsure, self.every, self.params)

    def keeps(self) -> bool:
        """Whether what stands here is compiled."""
        return not self.stack or self.stack[-1][1]

    def macro(self, name: str) -> str | Number | None:
        if name in self.defines:
            return self.defines[name]
        return None if name in self.removed else self.lookup(name)

    def decide(self, expression: str) -> bool:
        value, why = Expression(expression, self.macro).value()
        if value is not None:
            return bool(value)
        self.unsure.append(Unsure(self.line, " ".join(expression.split())[:200], why))
        return self.choices.get(self.line, True)

    def directive(self, word: str, rest: str) -> None:
        """What a directive does to what comes behind it."""
        if word in ("if", "ifdef", "ifndef"):
            outer = self.keeps()
            self.opened.append(len(self.unsure))
            value = outer and self.decide(_condition(word, rest))
            self.stack.append([outer, value, value])
        elif word in ("elif", "elifdef", "elifndef") and self.stack:
            outer, _kept, done = self.stack[-1]
            value = outer and not done and self.decide(_condition(word.removeprefix("el"), rest))
            self.stack[-1] = [outer, value, done or value]
        elif word == "else" and self.stack:
            outer, _kept, done = self.stack[-1]
            self.stack[-1] = [outer, outer and not done, True]
        elif word == "endif" and self.stack:
            self.stack.pop()
            for index in range(self.opened.pop(), len(self.unsure)):
                if not self.unsure[index].last:
                    self.unsure[index] = self.unsure[index]._replace(last=self.line)
        elif word == "define" and self.keeps():
            self.define(rest)
        elif word == "undef" and self.keeps():
            for name in rest.split()[:1]:
                self.defines.pop(name, None)
                self.removed.add(name)

    def define(self, rest: str) -> None:
        name = re.match(r"\s*([A-Za-z_]\w*)(\([^)]*\))?", rest)
        if name:
            body = rest[name.end() :].replace("\\\n", "\n").strip()
            self.defines[name[1]] = body
            self.every[name[1]] = (*self.every.get(name[1], ()), (body, self.line))
            if name[2]:
                self.params[name[1]] = tuple(word.strip() for word in name[2][1:-1].split(","))


def _condition(word: str, rest: str) -> str:
    """The expression of ``if``, ``ifdef`` or ``ifndef``."""
    if word == "if":
        return rest
    name = rest.split()[0] if rest.split() else ""
    return f"defined({name})" if word == "ifdef" else f"!defined({name})"
