"""Going through syntax trees quickly: ``ast.walk`` asks every node for each of its fields by name."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

_AST = ast.AST
_SMALL = (ast.expr_context, ast.operator, ast.unaryop, ast.boolop)


def children(node: ast.AST) -> list[ast.AST]:
    """The direct children, contexts and operators left out."""
    out: list[ast.AST] = []
    for value in node.__dict__.values():
        if value.__class__ is list:
            out += [item for item in value if isinstance(item, _AST)]
        elif isinstance(value, _AST) and not isinstance(value, _SMALL):
            out.append(value)
    return out


def walk(*roots: ast.AST) -> Iterator[ast.AST]:
    """Every node below and with the roots, in no particular order; contexts and most operators left out."""
    stack: list[ast.AST] = list(roots)
    while stack:
        node = stack.pop()
        yield node
        for value in node.__dict__.values():
            if value.__class__ is list:
                stack += [item for item in value if isinstance(item, _AST)]
            elif isinstance(value, _AST) and not isinstance(value, _SMALL):
                stack.append(value)


def holds(body: Iterable[ast.AST], kinds: type[ast.AST] | tuple[type[ast.AST], ...]) -> bool:
    """Whether one of the kinds of node is in a block."""
    return any(isinstance(node, kinds) for node in walk(*body))


__all__ = ["children", "holds", "walk"]
