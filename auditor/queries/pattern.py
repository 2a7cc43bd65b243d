"""Structural patterns: Python written with holes, matched over LibCST nodes.

A pattern is one statement or one expression. ``$X`` stands for any one node and, used twice, for the same
one; ``$_`` for any node at all; ``$...XS`` for any number of arguments, elements, parameters, names or
statements (in a dict: ``**$...XS``). Formatting, comments, quotes and redundant parentheses do not matter.
Keyword arguments match in any order. What a pattern leaves out matches with or without: ``else``,
``finally``, decorators, return and parameter annotations.

LibCST costs 0.2 s to import and about 2 s a megabyte to parse, so a pattern is first read by :mod:`ast`
(:mod:`auditor.queries.shape`): its root type and the names it needs tell candidate nodes of a file apart
cheaply, and only their source is ever given to LibCST.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from auditor.queries.shape import LENIENT, PatternError, encode, hole_of, shape

if TYPE_CHECKING:  # the import is deferred: most audits have no candidate
    import libcst as cst


#: Fields of LibCST nodes that only carry formatting.
_FORMATTING = frozenset(
    "lpar rpar lbracket rbracket lbrace rbrace comma semicolon colon dot equal leading_lines "
    "lines_after_decorators lines_after_module_docstring header footer indent trailing_whitespace newline "
    "has_trailing_newline default_indent default_newline encoding".split()
)

Bindings = Mapping[str, Any]


@lru_cache(maxsize=1024)
def _template(text: str) -> Any:
    """The LibCST node of a pattern."""
    import libcst as cst

    shape(text)  # the better message for what is not Python at all
    try:
        module = cst.parse_module(encode(text) + "\n")
    except cst.ParserSyntaxError as error:
        raise PatternError(f"the pattern is not Python: {error.message}") from None
    return _root(module.body[0])


def _root(statement: Any) -> Any:
    """A statement without the line around it, an expression without the statement around it."""
    import libcst as cst

    if isinstance(statement, cst.SimpleStatementLine) and len(statement.body) == 1:
        statement = statement.body[0]
    return statement.value if isinstance(statement, cst.Expr) else statement


def parse_segment(source: bytes, *, expression: bool, indent: bytes = b"") -> Any | None:
    """The LibCST node of one statement or expression cut out of a file, or None where it cannot be read.

    ``indent`` is what stands before a statement on its first line, so that the following lines still fit.
    """
    import libcst as cst

    text = source.decode("utf-8", "surrogateescape")
    try:
        if expression:
            return cst.parse_expression(f"(\n{text}\n)")
        if text.startswith("elif"):
            text = text[2:]
        lead = indent.decode("utf-8", "surrogateescape")
        if not lead:
            return _root(cst.parse_module(text + "\n").body[0])
        block: Any = cst.parse_module(f"if 1:\n{lead}{text}\n").body[0]
        return _root(block.body.body[0])
    except (cst.ParserSyntaxError, UnicodeError, RecursionError, IndexError):
        return None


def code_of(node: Any) -> str:
    """The source of a captured node or run of nodes, on one line, without brackets that only lay it out."""
    import libcst as cst

    if isinstance(node, tuple):
        statements = bool(node) and isinstance(node[0], (cst.BaseSmallStatement, cst.BaseCompoundStatement))
        return ("; " if statements else ", ").join(code_of(item) for item in node)
    for separator in ("comma", "semicolon"):
        if hasattr(node, separator):
            node = node.with_changes(**{separator: cst.MaybeSentinel.DEFAULT})
    if isinstance(node, cst.BaseExpression) and not isinstance(node, (cst.Tuple, cst.GeneratorExp)):
        node = node.with_changes(lpar=(), rpar=())
    return " ".join(cst.Module(body=()).code_for_node(node).split())


def match(text: str, node: cst.CSTNode, bindings: Bindings | None = None) -> dict[str, Any] | None:
    """What the metavariables of pattern ``text`` stand for if ``node`` has its structure, else None.

    ``bindings`` are metavariables that already stand for something. Values are LibCST nodes, or tuples of
    them for ``$...XS``; see :func:`code_of`.
    """
    for found in _match(_template(text), node, dict(bindings or {})):
        return found
    return None


def _match(pattern: Any, node: Any, env: dict[str, Any]) -> Iterator[dict[str, Any]]:
    import libcst as cst

    if isinstance(pattern, cst.Name) and (hole := hole_of(pattern.value)):
        yield from _bind(hole[0], node, env)
        return
    if isinstance(pattern, cst.Expr) and not isinstance(node, cst.Expr):
        inner = pattern.value
        if isinstance(inner, cst.Name) and (hole := hole_of(inner.value)):
            yield from _bind(hole[0], node, env)
        return
    strings = (cst.SimpleString, cst.ConcatenatedString)
    if isinstance(pattern, strings) and isinstance(node, strings):
        if pattern.evaluated_value == node.evaluated_value:
            yield env
        return
    if isinstance(pattern, cst.FormattedString) and isinstance(node, cst.FormattedString):
        if pattern.prefix == node.prefix:  # quotes are formatting here, too
            yield from _sequence(pattern.parts, node.parts, env)
        return
    if isinstance(pattern, (cst.Integer, cst.Float)) and isinstance(node, type(pattern)):
        if pattern.evaluated_value == node.evaluated_value:
            yield env
        return
    if isinstance(pattern, cst.BaseSuite) and isinstance(node, cst.BaseSuite):
        yield from _sequence(_statements(pattern), _statements(node), env)
        return
    if type(pattern) is not type(node):
        return
    if isinstance(pattern, cst.Parameters) and len(pattern.params) == 1:
        many = _many(pattern.params[0])
        if many and not pattern.kwonly_params:
            yield from _bind(many, node, env)
            return
    if isinstance(pattern, cst.ImportFrom) and isinstance(pattern.module, cst.Name):
        hole = hole_of(pattern.module.value)
        if hole and not pattern.relative:  # $M stands for "..x.y" too
            for bound in _bind(hole[0], node.module, env):
                yield from _values(pattern.names, node.names, bound)
            return
    yield from _fields(pattern, node, _compared(type(pattern)), env)


_COMPARED: dict[Any, tuple[str, ...]] = {}


def _compared(kind: Any) -> tuple[str, ...]:
    """The fields of a LibCST node type that carry meaning."""
    if kind not in _COMPARED:
        _COMPARED[kind] = tuple(
            f.name for f in fields(kind) if f.name not in _FORMATTING and not f.name.startswith("whitespace")
        )
    return _COMPARED[kind]


def _fields(pattern: Any, node: Any, names: tuple[str, ...], env: dict[str, Any]) -> Iterator[dict[str, Any]]:
    if not names:
        yield env
        return
    name, rest = names[0], names[1:]
    wanted, found = getattr(pattern, name), getattr(node, name)
    if name in LENIENT and (wanted is None or wanted == ()):
        yield from _fields(pattern, node, rest, env)
        return
    import libcst as cst

    if name == "args" and isinstance(pattern, cst.Call):
        matched = _arguments(wanted, found, env)
    else:
        matched = _values(wanted, found, env)
    for bound in matched:
        yield from _fields(pattern, node, rest, bound)


def _values(wanted: Any, found: Any, env: dict[str, Any]) -> Iterator[dict[str, Any]]:
    import libcst as cst

    if isinstance(wanted, cst.CSTNode):
        if isinstance(found, cst.CSTNode):
            yield from _match(wanted, found, env)
    elif isinstance(wanted, Sequence) and not isinstance(wanted, str):
        if isinstance(found, cst.ImportStar):
            if len(wanted) == 1 and (many := _many(wanted[0])):
                yield from _bind(many, found, env)
        elif isinstance(found, Sequence) and not isinstance(found, str):
            yield from _sequence(wanted, found, env)
    elif isinstance(wanted, cst.MaybeSentinel):
        if isinstance(found, cst.MaybeSentinel):
            yield env
    elif wanted == found:
        yield env


def _arguments(wanted: Any, found: Any, env: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Call arguments: keywords of the pattern are looked up by name, the rest matches in order."""
    rest = list(found)
    pairs: list[tuple[Any, Any]] = []
    for argument in wanted:
        if argument.keyword is None or hole_of(argument.keyword.value):
            continue
        name = argument.keyword.value
        hit = next((a for a in rest if a.keyword is not None and a.keyword.value == name), None)
        if hit is None:
            return
        rest.remove(hit)
        pairs.append((argument.value, hit.value))
    positional = [a for a in wanted if a.keyword is None or hole_of(a.keyword.value)]

    def values(index: int, env: dict[str, Any]) -> Iterator[dict[str, Any]]:
        if index == len(pairs):
            yield from _sequence(positional, rest, env)
            return
        for bound in _match(pairs[index][0], pairs[index][1], env):
            yield from values(index + 1, bound)

    yield from values(0, env)


def _sequence(wanted: Sequence[Any], found: Sequence[Any], env: dict[str, Any]) -> Iterator[dict[str, Any]]:
    if not wanted:
        if not found:
            yield env
        return
    many = _many(wanted[0])
    if many:
        for length in range(len(found) + 1):  # the shortest run first
            for bound in _bind(many, tuple(found[:length]), env):
                yield from _sequence(wanted[1:], found[length:], bound)
        return
    if found:
        for bound in _match(wanted[0], found[0], env):
            yield from _sequence(wanted[1:], found[1:], bound)


def _many(item: Any) -> str | None:
    """The metavariable of a sequence item that stands for any number of them."""
    import libcst as cst

    inner: Any = None
    if isinstance(item, (cst.Expr, cst.Element, cst.StarredDictElement)):
        inner = item.value
    elif isinstance(item, cst.Arg) and item.keyword is None and not item.star:
        inner = item.value
    elif isinstance(item, (cst.Param, cst.ImportAlias)):
        inner = item.name
    elif isinstance(item, cst.WithItem):
        inner = item.item
    elif isinstance(item, cst.SubscriptElement) and isinstance(item.slice, cst.Index):
        inner = item.slice.value
    if isinstance(inner, cst.Name) and (hole := hole_of(inner.value)) and hole[1]:
        return hole[0]
    return None


def _bind(name: str, value: Any, env: dict[str, Any]) -> Iterator[dict[str, Any]]:
    if name == "_":
        yield env
    elif name not in env:
        yield {**env, name: value}
    elif _same(env[name], value):
        yield env


def _same(left: Any, right: Any) -> bool:
    if isinstance(left, tuple) and isinstance(right, tuple):
        return len(left) == len(right) and all(map(_same, left, right))
    return any(True for _ in _values(left, right, {}))


def _statements(suite: Any) -> list[Any]:
    """The statements of a block, small ones taken out of their lines."""
    import libcst as cst

    flat: list[Any] = []
    for statement in suite.body:
        if isinstance(statement, cst.SimpleStatementLine):
            flat += statement.body
        else:
            flat.append(statement)
    return flat
