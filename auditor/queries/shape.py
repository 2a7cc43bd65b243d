"""Patterns as text and as :mod:`ast` sees them: their holes, and what tells candidate nodes apart cheaply."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from auditor import pytext

_HOLE = re.compile(
    r"""(?P<string>[bBrRuUfF]{0,2}(?:"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*'))"""
    r"""|\$\.\.\.(?P<many>[A-Z][A-Z0-9_]*)?|\$(?P<one>[A-Z_][A-Z0-9_]*)"""
)
_ONE = "__one_"
_MANY = "__many_"
_END = "__"
#: Fields that match anything where the pattern leaves them out.
LENIENT = frozenset(
    "orelse finalbody returns decorators asynchronous type_parameters type_params annotation default".split()
)

_SAME_ROOT: dict[type[ast.AST], tuple[type[ast.AST], ...]] = {
    ast.FunctionDef: (ast.FunctionDef, ast.AsyncFunctionDef),
    ast.For: (ast.For, ast.AsyncFor),
    ast.With: (ast.With, ast.AsyncWith),
}
#: Fields of ``ast`` nodes without meaning here, and those a pattern may leave out.
_SKIP = frozenset({"ctx", "type_comment", "kind", "type_ignores", "level"})
_OPTIONAL = frozenset(
    {
        "orelse",
        "finalbody",
        "returns",
        "decorator_list",
        "annotation",
        "defaults",
        "kw_defaults",
        "type_params",
    }
)


class PatternError(ValueError):
    """The text is not one Python statement or expression with holes; the message says what is wrong."""


@dataclass(frozen=True)
class Shape:
    """What ``ast`` alone knows of a pattern: enough to reject nearly every node without LibCST."""

    roots: tuple[type[ast.AST], ...]
    needs: tuple[bytes, ...]  # each occurs in the source of every match
    holes: frozenset[str]  # names of the metavariables, without "_"
    root: ast.AST

    def could_match(self, node: ast.AST) -> bool:
        """False only where :func:`auditor.queries.pattern.match` would say no, too; never touches LibCST."""
        return isinstance(node, self.roots) and _could(self.root, node)


def encode(text: str) -> str:
    """The pattern as Python that can be parsed: each hole is an identifier of its own."""

    def hole(match: re.Match[str]) -> str:
        if match["string"] is not None:
            return match["string"]
        if match["one"] is not None:
            return f"{_ONE}{match['one']}{_END}"
        return f"{_MANY}{match['many'] or '_'}{_END}"

    return _HOLE.sub(hole, text.strip("\n").rstrip())


def hole_of(name: str) -> tuple[str, bool] | None:
    """(metavariable, whether it stands for many) of an encoded identifier."""
    if name.endswith(_END):
        for prefix, many in ((_ONE, False), (_MANY, True)):
            if name.startswith(prefix):
                return name[len(prefix) : -len(_END)], many
    return None


def _names(node: ast.AST) -> Iterator[str]:
    """The identifiers and plain strings of one node, holes included."""
    if isinstance(node, ast.Name):
        yield node.id
    elif isinstance(node, ast.Attribute):
        yield node.attr
    elif isinstance(node, (ast.arg, ast.keyword)):
        if node.arg:
            yield node.arg
    elif isinstance(node, ast.alias):
        yield from node.name.split(".")
        if node.asname:
            yield node.asname
    elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
        yield node.name
    elif isinstance(node, ast.ImportFrom):
        yield from (node.module or "").split(".")
    elif isinstance(node, ast.Constant) and isinstance(node.value, str) and re.fullmatch(r"\w+", node.value):
        yield node.value


@lru_cache(maxsize=1024)
def shape(text: str) -> Shape:
    """Read a pattern without LibCST. Raises :class:`PatternError`."""
    try:
        body = pytext.parse(encode(text)).body
    except SyntaxError as error:
        raise PatternError(f"the pattern is not Python: {error.msg} (line {error.lineno})") from None
    if len(body) != 1:
        raise PatternError(f"a pattern is one statement or one expression, this has {len(body)}")
    root: ast.AST = body[0]
    if isinstance(root, ast.Expr):
        root = root.value
    if isinstance(root, ast.Name) and hole_of(root.id):
        raise PatternError("a lone metavariable matches everything")
    needs: set[str] = set()
    holes: set[str] = set()
    for node in ast.walk(root):
        for name in _names(node):
            found = hole_of(name)
            if found is None:
                needs.add(name)
            elif found[0] != "_":
                holes.add(found[0])
    needs.discard("")
    return Shape(
        roots=_SAME_ROOT.get(type(root), (type(root),)),
        needs=tuple(sorted((name.encode() for name in needs), key=lambda b: (-len(b), b))),
        holes=frozenset(holes),
        root=root,
    )


def _could(pattern: ast.AST, node: Any) -> bool:
    if isinstance(pattern, ast.Name) and hole_of(pattern.id):
        return True
    if isinstance(pattern, ast.Expr) and isinstance(pattern.value, ast.Name) and hole_of(pattern.value.id):
        return True
    if isinstance(pattern, ast.JoinedStr):
        return isinstance(node, ast.JoinedStr)
    if type(node) not in _SAME_ROOT.get(type(pattern), (type(pattern),)):
        return False
    if isinstance(pattern, ast.BoolOp):  # flat here, nested in LibCST
        return type(pattern.op) is type(node.op)
    if isinstance(pattern, (ast.arguments, ast.Dict)):
        return True
    if isinstance(pattern, ast.Constant):
        return type(pattern.value) is type(node.value) and pattern.value == node.value
    if isinstance(pattern, ast.Call):
        names = {k.arg for k in node.keywords}
        known = all(k.arg is None or hole_of(k.arg) or k.arg in names for k in pattern.keywords)
        return known and _could(pattern.func, node.func) and _could_list(pattern.args, node.args, more=True)
    for name in pattern._fields:
        wanted, found = getattr(pattern, name, None), getattr(node, name, None)
        if name in _SKIP or (name in _OPTIONAL and not wanted):
            continue
        if isinstance(wanted, ast.AST):
            if not _could(wanted, found):
                return False
        elif isinstance(wanted, list):
            if not isinstance(found, list) or not _could_list(wanted, found):
                return False
        elif isinstance(wanted, str) and hole_of(wanted):
            continue
        elif wanted != found:
            return False
    return True


def _could_list(wanted: list[Any], found: list[Any], more: bool = False) -> bool:
    """``more``: arguments, where a hole for many may also be filled by keywords and the reverse."""
    stands_for_many = [_is_many(item) for item in wanted]
    if True not in stands_for_many:
        if len(wanted) != len(found) and not more:
            return False
        return more or all(map(_could, wanted, found))
    first = stands_for_many.index(True)
    last = len(wanted) - 1 - stands_for_many[::-1].index(True)
    tail = len(wanted) - 1 - last
    if len(found) < first + tail:
        return more
    return all(map(_could, wanted[:first], found)) and (
        more or not tail or all(map(_could, wanted[last + 1 :], found[-tail:]))
    )


def _is_many(item: Any) -> bool:
    if isinstance(item, ast.Expr):
        item = item.value
    name = item.id if isinstance(item, ast.Name) else item.name if isinstance(item, ast.alias) else ""
    hole = hole_of(name)
    return hole is not None and hole[1]
