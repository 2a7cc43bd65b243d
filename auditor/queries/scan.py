"""Finds where ``code`` patterns stand in one file: one traversal for all queries, LibCST for candidates."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

import msgspec

from auditor.queries.model import CaptureMatch, CodeMatch, Query, listed
from auditor.queries.pattern import Shape, code_of, match, parse_segment, shape


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


class ScanPlan:
    """The ``code`` patterns of several queries, ready to be looked for file by file.

    Queries without a ``code`` part are left out. Raises PatternError.
    """

    def __init__(self, queries: Sequence[Query]) -> None:
        self._words: dict[str, tuple[bytes, ...]] = {}
        self._wanted: dict[str, list[_Wanted]] = {}
        for query in queries:
            if query.match is None or query.match.code is None:
                continue
            code = query.match.code
            self._words[query.id] = tuple(word.encode() for word in query.words)
            self._wanted[query.id] = [_Wanted(query.id, code, t, shape(t)) for t in listed(code.pattern)]

    @property
    def empty(self) -> bool:
        """Whether no query has a ``code`` part, so that no file need be read."""
        return not self._wanted

    def interested(self, data: bytes) -> list[str]:
        """Ids of the queries one of whose words occurs in the file."""
        return [id_ for id_, words in self._words.items() if any(word in data for word in words)]

    def scan(self, data: bytes, module: str, tree: ast.AST | None = None) -> list[CodeHit]:
        """All hits in one file, by line. A file that does not parse has none (the audit reports it).

        ``module`` is its dotted name; ``tree`` the parsed file, where the caller has it already (positions as
        ``ast`` gives them for the whole file).
        """
        interested = self.interested(data)
        if not interested:
            return []
        try:
            text = _decode(data)
            tree = tree if tree is not None else ast.parse(text)
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            return []
        dispatch: dict[type[ast.AST], list[_Wanted]] = {}
        for id_ in interested:
            for wanted in self._wanted[id_]:
                for root in wanted.shape.roots:
                    dispatch.setdefault(root, []).append(wanted)
        file = _File(text.encode(), tree)
        hits: dict[tuple[int, int, str], CodeHit] = {}
        for node, scope, above in _walk(tree):
            for wanted in dispatch.get(type(node), ()):
                hit = file.try_match(wanted, node, scope, above, module)
                if hit is not None:
                    hits.setdefault((hit.line, getattr(node, "col_offset", 0), wanted.query), hit)
        return [hits[key] for key in sorted(hits)]


def glob_any(value: str, globs: Sequence[str]) -> bool:
    """Whether ``value`` has one of the shapes; no globs at all means yes."""
    return not globs or any(fnmatchcase(value, glob) for glob in globs)


def _decode(data: bytes) -> str:
    """The text of a file, its encoding declaration and byte order mark honoured and gone."""
    encoding, _ = tokenize.detect_encoding(io.BytesIO(data).readline)
    return data.decode(encoding)


_Above = tuple[ast.AST, Any]  # the chain of enclosing nodes: (parent, its own chain or None)


def _walk(tree: ast.AST) -> Iterator[tuple[ast.AST, str, _Above | None]]:
    """Every node in source order with the symbol and the nodes around it; no recursion, files may be deep."""
    stack: list[tuple[ast.AST, str, _Above | None]] = [(tree, "", None)]
    while stack:
        node, scope, above = stack.pop()
        yield node, scope, above
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            inner = f"{scope}.{node.name}" if scope else node.name
        else:
            inner = scope
        chain = (node, above)
        stack += [(child, inner, chain) for child in reversed(list(ast.iter_child_nodes(node)))]


class _File:
    """One source file during a scan: cuts statements out of it and parses each at most once."""

    def __init__(self, source: bytes, tree: ast.AST) -> None:
        self.lines = source.splitlines(keepends=True)
        self.tree = tree
        self._parsed: dict[tuple[int, int, type[ast.AST]], Any] = {}
        self._imports: dict[str, str] | None = None

    def try_match(
        self, wanted: _Wanted, node: Any, scope: str, above: _Above | None, module: str
    ) -> CodeHit | None:
        code = wanted.code
        if not glob_any(f"{module}:{scope}", listed(code.within)):
            return None
        found = self._match(wanted.text, wanted.shape, node, {})
        if found is None:
            return None
        for text in listed(code.contains):
            found = self._inside(text, node, found)
            if found is None:
                return None
        captures = {name: code_of(value) for name, value in sorted(found.items()) if value is not None}
        if not all(self._holds(found.get(n), captures.get(n, ""), c, module) for n, c in code.where.items()):
            return None
        if any(self._enclosed(text, above, found) for text in listed(code.not_inside)):
            return None
        return CodeHit(wanted.query, node.lineno, node.end_lineno or node.lineno, scope, captures)

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

    def _inside(self, text: str, node: ast.AST, found: dict[str, Any]) -> dict[str, Any] | None:
        """The bindings with those of the first node inside ``node`` that has the structure ``text``."""
        form = shape(text)
        for inner, _, _ in _walk(node):
            if inner is not node and isinstance(inner, form.roots):
                bound = self._match(text, form, inner, found)
                if bound is not None:
                    return bound
        return None

    def _enclosed(self, text: str, above: _Above | None, found: dict[str, Any]) -> bool:
        form = shape(text)
        while above is not None:
            node, above = above
            if type(node) in form.roots and self._match(text, form, node, found) is not None:
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
            self._imports = _import_table(self.tree, module)
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


def _import_table(tree: ast.AST, module: str) -> dict[str, str]:
    """Local name to qualified name, from every import statement of the file."""
    table: dict[str, str] = {}
    for node in ast.walk(tree):
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
