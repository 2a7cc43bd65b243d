"""A Python file as a tree of statements that remember the bytes they came from.

Statements are compared by their tokens, so that line breaks, comments, quotes and trailing commas make no
difference; what is written back is always the original text. Positions are byte offsets.
"""

from __future__ import annotations

import ast
import gc
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property, lru_cache

from auditor import pytext
from auditor.lazyre import lazy

_TOKEN = lazy(
    rb"""
    (?P<space>[ \t\f\r\n]+|\\\r?\n)
  | (?P<comment>\#[^\r\n]*)
  | (?P<string>(?i:[rbuft]{0,3})(?:
        \"\"\"(?:[^\\]|\\.)*?\"\"\" | '''(?:[^\\]|\\.)*?'''
      | \"(?:[^\\\"\n]|\\.)*\" | '(?:[^\\'\n]|\\.)*'))
  | (?P<number>\.?\d(?:[eE][+-]\d|[\w.])*)
  | (?P<name>[^\W\d]\w*|[\x80-\xff\w]+)
  | (?P<op>\*\*=|//=|>>=|<<=|\.\.\.|->|:=|==|!=|<=|>=
      |\*\*|//|<<|>>|[-+*/%@&|^]=|[-+*/%@&|^~<>()\[\]{}=.,:;!$?`])
    """,
    re.VERBOSE | re.DOTALL,
)
_CLOSING = (b")", b"]", b"}")


@dataclass(frozen=True)
class Token:
    """``text`` is what is compared; ``start`` and ``end`` are where it stands in the file."""

    text: bytes
    start: int
    end: int


def tokens(data: bytes, start: int, end: int) -> list[Token]:
    """The tokens of ``data[start:end]``: no white space, no comments, no comma before a closing bracket."""
    out: list[Token] = []
    at = start
    while at < end:
        match = _TOKEN.match(data, at, end)
        if match is None:
            out.append(Token(data[at : at + 1], at, at + 1))
            at += 1
            continue
        kind, text = match.lastgroup, match.group()
        if kind == "string":
            out.append(Token(_plain(text), at, match.end()))
        elif kind not in ("space", "comment"):
            if text in _CLOSING and len(out) > 1 and out[-1].text == b"," and not _one_tuple(out):
                out.pop()
            out.append(Token(text, at, match.end()))
        at = match.end()
    return out


@lru_cache(maxsize=1 << 16)
def _texts(data: bytes) -> tuple[tuple[bytes, ...], int]:
    """The tokens of a piece of text, and where the last one ends. Versions of a file share most pieces."""
    found = tokens(data, 0, len(data))
    return tuple(token.text for token in found), found[-1].end if found else 0


def _one_tuple(out: list[Token]) -> bool:
    """Whether the comma at the end of ``out`` is what makes a tuple of one."""
    depth = 0
    for at in range(len(out) - 2, -1, -1):
        text = out[at].text
        if text in _CLOSING:
            depth += 1
        elif text in (b"(", b"[", b"{"):
            if depth == 0:
                called = at and (out[at - 1].text in _CLOSING or out[at - 1].text[-1:].isalnum())
                return text == b"(" and not called
            depth -= 1
        elif text == b"," and depth == 0:
            return False
    return False


def _plain(text: bytes) -> bytes:
    """A short string with double quotes, whatever it was written with."""
    at = text.find(b"'")
    prefix = text[:at] if 0 <= at <= 3 else b"?"
    if prefix.strip(b"rbuftRBUFT") or text.startswith(b"'''", at):
        return text
    body = text[at + 1 : -1]
    if b'"' in body or b"\\" in body or b"{" in body:
        return text
    return prefix + b'"' + body + b'"'


@dataclass
class Arm:
    """One header with the statements under it: ``if``, ``elif``, ``else``, ``except``, ``case``, ``def`` …

    ``start`` to ``head_end`` is the header (colon included, comments after it not); ``body_start`` is where
    the line after the header begins. ``indent`` is that of the statements.
    """

    start: int
    head_end: int
    body_start: int
    end: int
    children: list[Statement]
    indent: bytes
    head: tuple[bytes, ...] = ()


@dataclass(eq=False)
class Statement:
    """One statement. ``lead`` is where its comments and the blank lines above them begin; ``end`` is past
    its line end. ``kind`` is the class of the ``ast`` node; ``node`` itself is kept for imports only, the
    rest of a syntax tree is too large to keep for many versions of a file."""

    source: Source
    kind: str
    name: str
    lead: int
    start: int
    end: int
    line: int
    node: ast.stmt | None
    arms: list[Arm] = field(default_factory=list)
    parent: Statement | None = None
    arm: Arm | None = None  # the arm of the parent it stands in

    @cached_property
    def tokens(self) -> list[Token]:
        return tokens(self.source.data, self.start, self.end)

    @cached_property
    def norm(self) -> tuple[bytes, ...]:
        """What is compared. Indentation is part of nothing: nesting is in the tree, see ``shape``."""
        if not self.arms:
            return _texts(self.source.data[self.start : self.end])[0]
        out: list[bytes] = []
        for arm in self.arms:
            out += [*arm.head, b"{"]
            for child in arm.children:
                out += [*child.norm, b";"]
            out.append(b"}")
        return tuple(out)

    @cached_property
    def bag(self) -> Counter[bytes]:
        """Its words, without brackets and operators: what makes it like another statement."""
        if self.is_text:
            return Counter(self.norm[0].split())
        return Counter(t for t in self.norm if t[-1:].isalnum() or t[-1:] in b"_\"'") or Counter(self.norm)

    @property
    def text(self) -> bytes:
        """From the first comment above it to its line end."""
        return self.source.data[self.lead : self.end]

    @property
    def lead_text(self) -> bytes:
        """The blank lines and comments above it."""
        return self.source.data[self.lead : self.start]

    @property
    def is_scope(self) -> bool:
        return self.kind in ("FunctionDef", "AsyncFunctionDef", "ClassDef")

    @property
    def head(self) -> tuple[bytes, ...]:
        """The tokens of its first header, or all of them."""
        return self.arms[0].head if self.arms else self.norm

    @property
    def is_text(self) -> bool:
        """Whether it is a string and nothing else: documentation, of which nothing is run."""
        return self.kind == "Expr" and len(self.norm) == 1 and self.norm[0][-1:] in (b'"', b"'")

    def qualified(self) -> str:
        """The dotted name of the scope it is, or of the one it stands in."""
        names = []
        at: Statement | None = self
        while at is not None:
            if at.is_scope:
                names.append(at.name)
            at = at.parent
        return ".".join(reversed(names))

    def scope(self) -> Statement | None:
        """The function or class it stands in, itself not counted."""
        at = self.parent
        while at is not None and not at.is_scope:
            at = at.parent
        return at

    def in_function(self) -> bool:
        """Whether it runs inside a function, where the order of statements means something."""
        at = self.parent
        while at is not None:
            if at.kind in ("FunctionDef", "AsyncFunctionDef"):
                return True
            at = at.parent
        return False

    def in_order(self) -> bool:
        """Whether it runs one after another with its neighbours: in a function, or in a block of a module."""
        at = self.parent
        while at is not None:
            if at.kind != "ClassDef":
                return True
            at = at.parent
        return False

    def walk(self) -> Iterator[Statement]:
        """Itself and everything below, in order."""
        yield self
        for arm in self.arms:
            for child in arm.children:
                yield from child.walk()


@lru_cache(maxsize=6)
def parsed(data: bytes) -> ast.Module:
    """The syntax tree of a file; nobody changes it. ``SyntaxError`` or ``ValueError`` if it has none."""
    was = gc.isenabled()
    gc.disable()  # a syntax tree is many objects and no cycles: looking for some takes a third of the time
    try:
        return pytext.parse(data)
    finally:
        if was:
            gc.enable()


@lru_cache(maxsize=160)
def source_of(data: bytes) -> Source:
    """A file as statements, the same ones as long as they are remembered; nobody changes them.

    A patch is carried to many trees, and many patches to one: its versions come up again and again.
    """
    return Source(data)


class Source:
    """A parsed file. ``SyntaxError`` (or ``ValueError``) where it cannot be read as Python."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        if data.startswith(b"\xef\xbb\xbf"):
            raise ValueError("a byte order mark")
        data.decode("utf-8")  # offsets below count bytes of UTF-8
        tree = parsed(data)
        self.starts = [0]
        at = data.find(b"\n")
        while at >= 0:
            self.starts.append(at + 1)
            at = data.find(b"\n", at + 1)
        if self.starts[-1] == len(data) and len(self.starts) > 1:
            self.starts.pop()
        if data.count(b"\r") != data.count(b"\r\n") or b"\f" in data:
            raise ValueError("line ends that are not line ends to everybody")
        self.top = Arm(0, 0, 0, len(data), [], b"")
        self.top.children = self._block(tree.body, 0, None, self.top)
        self._by_line: list[Statement] | None = None

    def statements(self) -> Iterator[Statement]:
        """Every statement, outer ones first, in order."""
        for child in self.top.children:
            yield from child.walk()

    def scopes(self) -> dict[str, list[Statement]]:
        """Qualified name -> the functions and classes of that name."""
        out: dict[str, list[Statement]] = {}
        for statement in self.statements():
            if statement.is_scope:
                out.setdefault(statement.qualified(), []).append(statement)
        return out

    def enclosing(self, line: int) -> Statement | None:
        """The innermost statement whose lines (its comments included) hold ``line``, from 1."""
        offset = self.starts[min(line, len(self.starts)) - 1]
        found: Statement | None = None
        children = self.top.children
        while True:
            inner = next((s for s in children if s.lead <= offset < s.end), None)
            if inner is None:
                return found
            found = inner
            arm = next((a for a in inner.arms if a.body_start <= offset < a.end), None)
            if arm is None:
                return found
            children = arm.children

    def line_of(self, offset: int) -> int:
        """The line, from 1, that a byte stands on."""
        import bisect

        return bisect.bisect_right(self.starts, offset)

    # building

    def _line_start(self, line: int) -> int:
        return self.starts[line - 1] if line <= len(self.starts) else len(self.data)

    def _line_end(self, line: int) -> int:
        return self.starts[line] if line < len(self.starts) else len(self.data)

    def _block(self, body: list[ast.stmt], lead: int, parent: Statement | None, arm: Arm) -> list[Statement]:
        out: list[Statement] = []
        at = 0
        while at < len(body):
            node = body[at]
            first = min([node.lineno, *(d.lineno for d in getattr(node, "decorator_list", ()))])
            last = node.end_lineno or node.lineno
            together = [node]
            while at + 1 < len(body) and body[at + 1].lineno <= last:  # several on one line
                at += 1
                together.append(body[at])
                last = max(last, body[at].end_lineno or 0)
            start, end = self._line_start(first), self._line_end(last)
            statement = Statement(
                self,
                type(node).__name__ if len(together) == 1 else "Several",
                getattr(node, "name", "") or "",
                min(lead, start),
                start,
                end,
                first,
                node if len(together) == 1 and isinstance(node, (ast.Import, ast.ImportFrom)) else None,
                parent=parent,
                arm=arm,
            )
            if len(together) == 1:
                statement.arms = self._arms(statement, node)
            out.append(statement)
            lead = end
            at += 1
        return out

    def _arms(self, statement: Statement, node: ast.stmt) -> list[Arm]:
        blocks: list[list[ast.stmt]] = []
        if isinstance(node, ast.If):
            blocks.append(node.body)
            rest = node.orelse
            column = node.col_offset
            while len(rest) == 1 and isinstance(rest[0], ast.If) and self._is_elif(rest[0], column):
                blocks.append(rest[0].body)
                rest = rest[0].orelse
            blocks.append(rest)
        elif isinstance(node, ast.Match):
            blocks += [case.body for case in node.cases]
        else:
            blocks.append(getattr(node, "body", None) or [])
            blocks += [handler.body for handler in getattr(node, "handlers", ())]
            blocks.append(getattr(node, "orelse", None) or [])
            blocks.append(getattr(node, "finalbody", None) or [])
        blocks = [block for block in blocks if block and isinstance(block, list)]
        arms: list[Arm] = []
        start = statement.start
        for block in blocks:
            first = min([block[0].lineno, *(d.lineno for d in getattr(block[0], "decorator_list", ()))])
            first_start = self._line_start(first)
            if self.data[first_start : first_start + block[0].col_offset].strip():
                return []  # on one line with its header: no line of its own to work with
            head, length = _texts(self.data[start:first_start])
            if not head or head[-1] != b":":
                return []
            head_end = start + length
            body_start = self.data.find(b"\n", head_end) + 1
            indent = self.data[first_start : first_start + block[0].col_offset]
            arm = Arm(start, head_end, body_start, 0, [], indent, head)
            arm.children = self._block(block, body_start, statement, arm)
            arm.end = start = arm.children[-1].end
            arms.append(arm)
        return arms

    def _is_elif(self, node: ast.If, column: int) -> bool:
        at = self._line_start(node.lineno) + node.col_offset
        return node.col_offset == column and self.data[at : at + 4] == b"elif"
