"""One Python file while it is edited: bytes, syntax tree, and the way from nodes to bytes and back.

An edit is a set of :class:`Splice`; what no splice covers is the same byte for byte afterwards. Only
``ast`` reads the whole file (LibCST would take ten times as long and twice as much again for positions);
the segments that a pattern may match go to LibCST, see :mod:`auditor.queries.pattern`.
"""

from __future__ import annotations

import ast
import bisect
import io
import re
import textwrap
import tokenize
import warnings
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property, lru_cache

from auditor import pytext
from auditor.lazyre import lazy
from auditor.patching.edits.miss import Miss

_BOM = b"\xef\xbb\xbf"
_NEWLINE = lazy(rb"\r\n|\n|\r")
BLOCKS = ("body", "orelse", "finalbody")


@dataclass(frozen=True, order=True)
class Splice:
    """``text`` instead of the bytes from ``start`` to ``end``."""

    start: int
    end: int
    text: bytes


def splice(data: bytes, splices: Iterable[Splice]) -> bytes:
    """The bytes with all splices made. ValueError where two overlap."""
    out: list[bytes] = []
    at = 0
    for each in sorted(splices):
        if each.start < at:
            raise ValueError("two changes overlap")
        out += (data[at : each.start], each.text)
        at = each.end
    return b"".join((*out, data[at:]))


class Lines:
    """The bytes of a file and its lines."""

    def __init__(self, data: bytes, path: str) -> None:
        self.path = path
        self.data = data
        self._skip = len(_BOM) if data.startswith(_BOM) else 0
        first = _NEWLINE.search(data)
        self.newline = first[0] if first else b"\n"

    @cached_property
    def _starts(self) -> list[int]:
        return [self._skip, *(match.end() for match in _NEWLINE.finditer(self.data))]

    def offset(self, line: int, column: int) -> int:
        """The byte at a line (from 1) and column (in bytes, from 0)."""
        return self._starts[line - 1] + column

    def line_start(self, offset: int) -> int:
        """The first byte of the line that holds a byte."""
        return self._starts[max(bisect.bisect_right(self._starts, offset) - 1, 0)]

    def line_end(self, offset: int) -> int:
        """The byte after the line end of the line that holds a byte, or the end of the file."""
        match = _NEWLINE.search(self.data, offset)
        return match.end() if match else len(self.data)


def _at(error: SyntaxError) -> str:
    return f" (line {error.lineno})" if error.lineno else ""


class PySource(Lines):
    """A Python file. ``Miss`` P073 where it does not parse, or is not UTF-8."""

    def __init__(self, data: bytes, path: str) -> None:
        super().__init__(data, path)
        try:
            data.decode("utf-8")
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                self.tree = pytext.parse(data)
        except UnicodeDecodeError:
            raise Miss("P073", f"{path} is not UTF-8") from None
        except SyntaxError as error:
            raise Miss("P073", f"{path} does not parse: {error.msg}{_at(error)}") from None

    @cached_property
    def parents(self) -> dict[ast.AST, ast.AST]:
        """Node -> node around it."""
        out: dict[ast.AST, ast.AST] = {}
        pending: list[ast.AST] = [self.tree]
        while pending:
            node = pending.pop()
            for child in ast.iter_child_nodes(node):
                # ast shares the nodes of operators and contexts, which no edit looks at.
                if hasattr(child, "lineno") or not isinstance(child, (ast.expr_context, ast.operator)):
                    out[child] = node
                    pending.append(child)
        return out

    def span(self, node: ast.AST) -> tuple[int, int]:
        """First byte, and the one after the last; decorators are outside."""
        where: ast.expr = node  # type: ignore[assignment]
        assert where.end_lineno is not None and where.end_col_offset is not None
        return (
            self.offset(where.lineno, where.col_offset),
            self.offset(where.end_lineno, where.end_col_offset),
        )

    def text(self, node: ast.AST) -> bytes:
        """The bytes of a node as they stand."""
        start, end = self.span(node)
        return self.data[start:end]

    def shown(self, node: ast.AST, limit: int = 60) -> str:
        """A node in one short line for a person."""
        text = " ".join(self.text(node).decode("utf-8", "replace").split())
        return text if len(text) <= limit else text[: limit - 1] + "…"

    def indent(self, node: ast.AST) -> bytes | None:
        """The blanks before a statement; None where it is not the first thing on its line."""
        start = self.statement_start(node)
        before = self.data[self.line_start(start) : start]
        return before if not before.strip() else None

    def statement_start(self, node: ast.AST) -> int:
        """The first byte of a statement with its decorators."""
        decorators = getattr(node, "decorator_list", None)
        if decorators:
            start = self.span(decorators[0])[0]
            return self.data.rindex(b"@", 0, start)
        return self.span(node)[0]

    def statement_of(self, node: ast.AST) -> ast.stmt:
        """The innermost statement around a node."""
        while not isinstance(node, ast.stmt):
            node = self.parents[node]
        return node

    def block_of(self, node: ast.stmt) -> tuple[list[ast.stmt], int]:
        """The block that a statement is in, and its index there."""
        parent = self.parents[node]
        for name in BLOCKS:
            block = getattr(parent, name, None)
            if isinstance(block, list):
                for index, each in enumerate(block):
                    if each is node:
                        return block, index
        raise Miss("P075", f"{self.path}:{node.lineno}: not a statement of a block")

    def definitions(self) -> Iterator[tuple[tuple[str, ...], ast.AST]]:
        """Qualified names of functions, classes and assignments with their nodes, outer ones first."""
        yield from _definitions(self.tree.body, ())

    def named(self, parts: tuple[str, ...]) -> list[ast.AST]:
        """What is defined under a qualified name; several where branches define it in turn."""
        level: list[tuple[tuple[str, ...], ast.AST]] = [((), self.tree)]
        for depth, part in enumerate(parts):
            inner = []
            for name, node in level:
                body = getattr(node, "body", None)
                if not isinstance(body, list):
                    continue
                if not isinstance(node, (ast.Module, *_SCOPES)):
                    continue
                for found, child in _flat(body):
                    if found == part and (depth == len(parts) - 1 or isinstance(child, _SCOPES)):
                        inner.append(((*name, part), child))
            level = inner
        nodes = [node for _, node in level]
        scopes: list[ast.AST] = [node for node in nodes if isinstance(node, _SCOPES)]
        return scopes or nodes


_SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)


def _flat(body: list[ast.stmt]) -> Iterator[tuple[str, ast.AST]]:
    """Names that a body defines, in all its branches, not in what it nests."""
    for node in body:
        if isinstance(node, _SCOPES):
            yield node.name, node
        elif isinstance(node, (ast.Assign, ast.AnnAssign)):
            for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
                if isinstance(target, ast.Name):
                    yield target.id, node
        else:
            for name in BLOCKS:
                inner = getattr(node, name, None)
                if isinstance(inner, list):
                    yield from _flat(inner)
            for handler in getattr(node, "handlers", ()):
                yield from _flat(handler.body)


def _definitions(body: list[ast.stmt], prefix: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], ast.AST]]:
    for name, node in _flat(body):
        yield (*prefix, name), node
        if isinstance(node, _SCOPES):
            yield from _definitions(node.body, (*prefix, name))


@lru_cache(maxsize=32)
def read_source(data: bytes, path: str) -> PySource:
    """A file read; the same bytes are read once."""
    return PySource(data, path)


def expression(text: str) -> ast.expr:
    """Python text of a patch as one expression. SyntaxError otherwise."""
    return pytext.parse_expression(f"(\n{text.strip()}\n)")


def call_parts(pattern: str) -> tuple[str, str]:
    """What is called in a pattern of a call, and the rest with its brackets. SyntaxError if it is no call."""
    plain = re.sub(r"\$(?:\.\.\.)?", lambda hit: "_" * len(hit[0]), pattern.strip())
    node = pytext.parse_expression(plain)
    if not isinstance(node, ast.Call) or "\n" in plain[: plain.find("(")]:
        raise SyntaxError("not a call")
    assert node.func.end_col_offset is not None and node.func.end_lineno == 1
    end = len(plain.encode()[: node.func.end_col_offset].decode())
    text = pattern.strip()
    return text[:end], text[end:].lstrip()


def same(left: ast.AST, right: ast.AST) -> bool:
    """Whether two nodes are the same code, formatting and quotes aside."""
    return ast.dump(left) == ast.dump(right)


def statements(code: str) -> list[ast.stmt]:
    """Python text of a patch as statements; ``return`` and the like are allowed. SyntaxError otherwise."""
    return pytext.parse(dedented(code)).body


def dedented(code: str) -> str:
    """Code of a patch without common indentation and outer blank lines, ending in a newline."""
    return textwrap.dedent(code).strip("\n").rstrip() + "\n"


def reindented(code: str, indent: bytes, newline: bytes) -> bytes:
    """Code of a patch at an indentation. Lines inside strings stay as they are."""
    text = dedented(code)
    inside = string_lines(text)
    out = []
    for number, line in enumerate(text[:-1].split("\n"), 1):
        raw = line.encode()
        out.append((indent if line.strip() and number not in inside else b"") + raw + newline)
    return b"".join(out)


def string_lines(text: str) -> set[int]:
    """Lines that begin inside a string."""
    lines: set[int] = set()
    open_at: list[int] = []
    starts = {getattr(tokenize, name, None) for name in ("FSTRING_START", "TSTRING_START")} - {None}
    ends = {getattr(tokenize, name, None) for name in ("FSTRING_END", "TSTRING_END")} - {None}
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.STRING:
            lines.update(range(token.start[0] + 1, token.end[0] + 1))
        elif token.type in starts:
            open_at.append(token.start[0])
        elif token.type in ends:
            lines.update(range(open_at.pop() + 1, token.end[0] + 1))
    return lines
