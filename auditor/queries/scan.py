"""Finds where ``code`` patterns stand in one file: one traversal for all queries, LibCST for candidates."""

from __future__ import annotations

import ast
import re
import sys
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

import msgspec

from auditor import pytext
from auditor.program import source
from auditor.queries.model import CaptureMatch, CodeMatch, Query, listed
from auditor.queries.pattern import code_of, match, parse_segment
from auditor.queries.shape import Shape, shape


class CodeHit(msgspec.Struct, frozen=True):
    """One place that has the structure of a query's ``code``.

    It depends on the file's bytes, its module name and the query alone, so it may be kept per blob.
    """

    query: str  # id
    line: int
    end_line: int
    symbol: str  # qualified within the module, "" at module level
    captures: dict[str, str]  # metavariable to source on one line


@dataclass(frozen=True)
class _Wanted:
    query: str
    code: CodeMatch
    text: str
    shape: Shape


#: Lines, from 1, both ends included. None: the whole file.
Regions = Sequence[tuple[int, int]] | None


class ScanPlan:
    """The ``code`` patterns of several queries, ready to be looked for file by file.

    Queries without a ``code`` part are left out. Raises PatternError.
    """

    def __init__(self, queries: Sequence[Query]) -> None:
        self._words: dict[str, tuple[str, ...]] = {}
        self._bytes: dict[str, tuple[bytes, ...]] = {}
        self._wanted: dict[str, list[_Wanted]] = {}
        for query in queries:
            if query.match is None or query.match.code is None:
                continue
            code = query.match.code
            self._words[query.id] = query.words
            self._bytes[query.id] = tuple(word.encode() for word in query.words)
            self._wanted[query.id] = [_Wanted(query.id, code, t, shape(t)) for t in listed(code.pattern)]

    @property
    def ids(self) -> tuple[str, ...]:
        """The queries that have a ``code`` part."""
        return tuple(self._wanted)

    def words(self, id_: str) -> tuple[str, ...]:
        """The words of a query: a file without any of them has no hit of it."""
        return self._words[id_]

    def interested(self, data: bytes, ids: Iterable[str]) -> list[str]:
        """Those of the given queries one of whose words occurs in the file."""
        return [id_ for id_ in ids if any(word in data for word in self._bytes[id_])]

    def scan(self, data: bytes, module: str, where: Mapping[str, Regions]) -> list[CodeHit]:
        """All hits in one file, by line; a file that does not parse has none (the audit reports it).

        ``module`` is its dotted name; ``where`` says which queries to look for, each in which lines. A hit
        has to begin in one of the lines and to hold one of its query's words itself: only statements around
        words are parsed.
        """
        try:
            text = source.decode(data)
        except source.Unparsable:
            return []
        lines = {id_: found for id_ in where if (found := _lines_with(text, self._words[id_]))}
        if not lines:
            return []

        def worth(first: int, last: int) -> bool:
            return any(
                _between(found, first, last) and _meets(where[id_], first, last)
                for id_, found in lines.items()
            )

        file = _File(text)
        hits: dict[tuple[int, int, str], CodeHit] = {}
        for top, scope in _pieces(text, worth):
            dispatch: dict[type[ast.AST], list[_Wanted]] = {}
            inside: list[int] = []
            first, last = _first_line(top), top.end_lineno or top.lineno
            for id_, found in lines.items():
                near = _between(found, first, last)
                if near and _meets(where[id_], first, last):
                    inside += near
                    for wanted in self._wanted[id_]:
                        for root in wanted.shape.roots:
                            dispatch.setdefault(root, []).append(wanted)
            for node, symbol, above in _walk(top, scope, sorted(set(inside))):
                for wanted in dispatch.get(type(node), ()):
                    if not _meets(where[wanted.query], node.lineno, node.lineno):  # type: ignore[attr-defined]
                        continue
                    words = self._bytes[wanted.query]
                    try:
                        hit = file.try_match(wanted, words, node, symbol, above, module)
                    except RecursionError:  # nested too deeply for LibCST: the audit names such a statement
                        continue
                    if hit is not None:
                        hits.setdefault((hit.line, getattr(node, "col_offset", 0), wanted.query), hit)
        return [hits[key] for key in sorted(hits)]


def _meets(regions: Regions, first: int, last: int) -> bool:
    """Whether one of the regions has a line in common with these."""
    return regions is None or any(a <= last and first <= b for a, b in regions)


def _plain(text: str) -> str:
    """An expression as a message shows it: the same whatever quotes and brackets its author likes."""
    try:
        return ast.unparse(pytext.parse_expression(text))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return text


def _lines_with(text: str, words: Iterable[str]) -> list[int]:
    """The lines, from 1, on which one of the words begins, ascending."""
    found: set[int] = set()
    for word in words:
        at = text.find(word)
        line, counted = 1, 0
        while at >= 0:
            line += text.count("\n", counted, at)
            counted = at
            found.add(line)
            end = text.find("\n", at)
            at = text.find(word, end) if end >= 0 else -1
    return sorted(found)


def _between(lines: Sequence[int], first: int, last: int) -> Sequence[int]:
    return lines[bisect_left(lines, first) : bisect_right(lines, last)]


_Worth = Callable[[int, int], bool]  # whether the lines from .. to have to be looked at


def _pieces(text: str, worth: _Worth) -> Iterator[tuple[ast.stmt, str]]:
    """The parsed statements (of the module, or of its large classes) that are worth it, each with the
    symbol around it."""
    try:
        try:
            yield from list(_cut(source.cut(text, 1), worth, ""))
        except source.Irregular:
            yield from list(_cut(source.whole(text), worth, ""))
    except (source.Unparsable, source.Irregular):
        return


def _cut(segments: Sequence[source.Segment], worth: _Worth, scope: str) -> Iterator[tuple[ast.stmt, str]]:
    for at, segment in enumerate(segments):
        end = segments[at + 1].start if at + 1 < len(segments) else sys.maxsize
        if not worth(segment.start, end):  # one line too many is harmless
            continue
        if segment.kind == "class":
            inner = f"{scope}.{segment.name}" if scope else segment.name
            yield from _cut(segment.members(), worth, inner)
            continue
        for node in segment.nodes():
            if worth(_first_line(node), node.end_lineno or node.lineno):
                yield node, scope


def _first_line(node: ast.stmt) -> int:
    decorators = getattr(node, "decorator_list", None)
    return min([node.lineno, *(d.lineno for d in decorators)]) if decorators else node.lineno


def glob_any(value: str, globs: Sequence[str]) -> bool:
    """Whether ``value`` has one of the shapes; no globs at all means yes."""
    return not globs or any(fnmatchcase(value, glob) for glob in globs)


_Above = tuple[ast.AST, Any]  # the chain of enclosing nodes: (parent, its own chain or None)


def _walk(
    top: ast.AST, scope: str = "", lines: Sequence[int] | None = None
) -> Iterator[tuple[ast.AST, str, _Above | None]]:
    """Nodes in source order with the symbol and the nodes around them; no recursion, files may be deep.

    With ``lines``, only nodes that hold one of them.
    """
    stack: list[tuple[ast.AST, str, _Above | None]] = [(top, scope, None)]
    while stack:
        node, symbol, above = stack.pop()
        if lines is not None and isinstance(node, (ast.stmt, ast.expr)):
            if not _between(lines, getattr(node, "lineno", 0), getattr(node, "end_lineno", 0)) and not (
                isinstance(node, ast.stmt) and _between(lines, _first_line(node), node.lineno)
            ):
                continue
        yield node, symbol, above
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            symbol = f"{symbol}.{node.name}" if symbol else node.name
        chain = (node, above)
        stack += [(child, symbol, chain) for child in reversed(list(ast.iter_child_nodes(node)))]


class _File:
    """One source file during a scan: cuts statements out of it and parses each at most once."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.lines = text.encode().splitlines(keepends=True)
        self._parsed: dict[tuple[int, int, type[ast.AST]], Any] = {}
        self._imports: dict[str, str] | None = None

    def try_match(
        self,
        wanted: _Wanted,
        words: Sequence[bytes],
        node: Any,
        scope: str,
        above: _Above | None,
        module: str,
    ) -> CodeHit | None:
        code = wanted.code
        if not wanted.shape.could_match(node) or not glob_any(f"{module}:{scope}", listed(code.within)):
            return None
        segment = self.segment(node)
        if not any(word in segment for word in words):
            return None
        found = self._match(wanted.text, wanted.shape, node, {})
        if found is None:
            return None
        for text in listed(code.contains):
            found = self._inside(text, node, found, code.where, module)
            if found is None:
                return None
        captures = {name: code_of(value) for name, value in sorted(found.items()) if value is not None}
        if not all(self._holds(found.get(n), captures.get(n, ""), c, module) for n, c in code.where.items()):
            return None
        if any(self._enclosed(text, above, found) for text in listed(code.not_inside)):
            return None
        told = {name: _plain(text) for name, text in captures.items()}
        return CodeHit(wanted.query, node.lineno, node.end_lineno or node.lineno, scope, told)

    def _match(self, text: str, form: Shape, node: Any, bindings: dict[str, Any]) -> dict[str, Any] | None:
        segment = self.segment(node)
        if not all(need in segment for need in form.needs):
            return None
        key = (node.lineno, node.col_offset, type(node))
        if key not in self._parsed:
            self._parsed[key] = parse_segment(
                segment, expression=isinstance(node, ast.expr), indent=self._indent(node)
            )
        parsed = self._parsed[key]
        return None if parsed is None else match(text, parsed, bindings)

    def _inside(
        self,
        text: str,
        node: ast.AST,
        found: dict[str, Any],
        where: Mapping[str, CaptureMatch],
        module: str,
    ) -> dict[str, Any] | None:
        """The bindings with those of the first node inside ``node`` that has the structure ``text``.

        What ``where`` says about a newly bound name has to hold for that node, else the next one is tried.
        """
        form = shape(text)
        for inner, _, _ in _walk(node):
            if inner is node or not form.could_match(inner):
                continue
            bound = self._match(text, form, inner, found)
            if bound is not None and all(
                self._holds(value, code_of(value), where[name], module)
                for name, value in bound.items()
                if name in where and name not in found and value is not None
            ):
                return bound
        return None

    def _enclosed(self, text: str, above: _Above | None, found: dict[str, Any]) -> bool:
        form = shape(text)
        while above is not None:
            node, above = above
            if form.could_match(node) and self._match(text, form, node, found) is not None:
                return True
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)):
                return False
        return False

    def segment(self, node: Any) -> bytes:
        """The bytes of one node."""
        first, last = node.lineno - 1, node.end_lineno - 1
        if first == last:
            return self.lines[first][node.col_offset : node.end_col_offset]
        return b"".join(
            (
                self.lines[first][node.col_offset :],
                *self.lines[first + 1 : last],
                self.lines[last][: node.end_col_offset],
            )
        )

    def _indent(self, node: Any) -> bytes:
        before = self.lines[node.lineno - 1][: node.col_offset]
        return before if not before.strip() else b" " * len(before)

    def _holds(self, value: Any, text: str, wanted: CaptureMatch, module: str) -> bool:
        if value is None:
            return False
        if wanted.regex is not None and not re.fullmatch(wanted.regex, text):
            return False
        if wanted.is_ is not None and not _is(value, wanted.is_):
            return False
        names = listed(wanted.name)
        return not names or glob_any(self.resolve(text, module), names)

    def resolve(self, dotted: str, module: str) -> str:
        """A dotted name with its first part replaced by what the file imports under it."""
        if self._imports is None:
            self._imports = _import_table(self.text, module)
        head, _, rest = dotted.partition(".")
        base = self._imports.get(head, head)
        return f"{base}.{rest}" if rest else base


def _is(value: Any, kind: str) -> bool:
    import libcst as cst

    kinds: dict[str, tuple[type, ...]] = {
        "name": (cst.Name, cst.Attribute),
        "string": (cst.SimpleString, cst.ConcatenatedString),
        "number": (cst.Integer, cst.Float),
        "call": (cst.Call,),
    }
    if kind == "constant":
        if isinstance(value, cst.Name):
            return value.value in ("True", "False", "None")
        return isinstance(value, kinds["string"] + kinds["number"])
    return isinstance(value, kinds[kind])


_IMPORT = re.compile(
    r"^[ \t]*(?:from[ \t]+[\w.]+[ \t]+import[ \t]+(?:\([^)]*\)|[^\n]*)|import[ \t]+[^\n]*)", re.M
)


def _import_table(text: str, module: str) -> dict[str, str]:
    """Local name to qualified name, from every import statement of the file."""
    table: dict[str, str] = {}
    for statement in _IMPORT.findall(text):
        try:
            node = pytext.parse(statement.strip()).body[0]
        except (SyntaxError, ValueError, IndexError):
            continue
        if isinstance(node, ast.Import):
            for alias in node.names:
                if alias.asname:
                    table[alias.asname] = alias.name
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:  # the file may be a package's __init__; one level too high is harmless for a glob
                parent = module.split(".")[: -node.level]
                base = ".".join([*parent, base] if base else parent)
            for alias in node.names:
                if alias.name != "*":
                    table[alias.asname or alias.name] = f"{base}.{alias.name}"
    return table
