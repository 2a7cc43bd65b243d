"""Arithmetic on named whole numbers, for grids of launches: ``cdiv(H, BLOCK_H) * min(B, 4)``.

A formula is data: it is parsed and walked here, never handed to Python. Numbers stay below 2**63, so that no
formula costs anything.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping

from auditor import pytext

_MOST = 1 << 63


_FORMS = (
    ast.Constant, ast.Name, ast.Load, ast.Call, ast.UnaryOp, ast.USub,
    ast.BinOp, ast.Add, ast.Sub, ast.Mult, ast.FloorDiv, ast.Mod,
)  # fmt: skip


class Wrong(Exception):
    """A formula that is not one, or has no value; one line."""


def names_of(formula: str | int) -> set[str]:
    """The names that a formula uses, its functions excepted. ``Wrong`` where it is none."""
    walked = list(ast.walk(_parsed(formula)))
    for node in walked:
        if not isinstance(node, _FORMS):
            raise Wrong(f"{str(formula)!r} is not arithmetic: + - * // %, min, max, cdiv")
    return {node.id for node in walked if isinstance(node, ast.Name) and node.id not in _FUNCTIONS}


def value_of(formula: str | int, names: Mapping[str, object]) -> int:
    """The value of a formula. ``Wrong`` for another form, an unknown name, a division by zero or a number
    that is too large."""
    return _value(_parsed(formula), names)


def _parsed(formula: str | int) -> ast.expr:
    try:
        return pytext.parse_expression(str(formula).strip())
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise Wrong(f"{formula!r} is no formula") from None


def _cdiv(a: int, b: int) -> int:
    return -(-a // b)


_FUNCTIONS: dict[str, Callable[..., int]] = {"min": min, "max": max, "cdiv": _cdiv}


def _value(node: ast.expr, names: Mapping[str, object]) -> int:
    if isinstance(node, ast.Constant) and type(node.value) is int:
        return _limited(node.value)
    if isinstance(node, ast.Name):
        if node.id not in names:
            known = ", ".join(sorted(names))
            raise Wrong(f"the name {node.id} stands for nothing (known: {known})")
        value = names[node.id]
        if not isinstance(value, int):
            raise Wrong(f"{node.id} is {value!r}, which is no number")
        return _limited(int(value))
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        return -_value(node.operand, names)
    if isinstance(node, ast.BinOp):
        left, right = _value(node.left, names), _value(node.right, names)
        return _limited(_operated(node.op, left, right))
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and not node.keywords:
        function = _FUNCTIONS.get(node.func.id)
        if function is not None:
            given = [_value(each, names) for each in node.args]
            if (len(given) != 2) if function is _cdiv else (len(given) < 2):
                raise Wrong(f"{node.func.id} takes {'two' if function is _cdiv else 'two or more'} numbers")
            if function is _cdiv and given[1] == 0:
                raise Wrong("a division by zero")
            return _limited(function(*given))
    raise Wrong(f"{ast.unparse(node)[:60]!r} is not arithmetic: + - * // %, min, max, cdiv")


def _operated(operator: ast.operator, left: int, right: int) -> int:
    if isinstance(operator, ast.Add):
        return left + right
    if isinstance(operator, ast.Sub):
        return left - right
    if isinstance(operator, ast.Mult):
        return left * right
    if isinstance(operator, (ast.FloorDiv, ast.Mod)):
        if right == 0:
            raise Wrong("a division by zero")
        return left // right if isinstance(operator, ast.FloorDiv) else left % right
    raise Wrong("only + - * // and % are arithmetic here")


def _limited(number: int) -> int:
    if abs(number) >= _MOST:
        raise Wrong("a number of more than 63 bits")
    return number
