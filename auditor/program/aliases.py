"""Whether a module's functions change a container of it in place under another name: by the text alone.

Another name is a variable, the name of a loop, or a parameter of a function of the module. A function of
another module may change what it is given.
"""

from __future__ import annotations

import ast
import builtins
import re
from collections.abc import Iterator
from functools import lru_cache

from auditor import pytext
from auditor.program.nodes import walk
from auditor.program.syntax import MUTATORS

_Function = ast.FunctionDef | ast.AsyncFunctionDef
#: An alias of an alias of an alias; calls within calls.
_DEEP = 4


def changed_under_another_name(text: str, name: str) -> bool:
    """Whether some function hands the container on and changes what it gave; True for what does not parse."""
    if not re.search(rf"(?<![\w.\"']){re.escape(name)}\b(?![ \t]*[\[.(=\w])", text):
        return False  # every mention reads out of it, or binds it
    try:
        functions = _functions(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return True
    defined = {function.name: function for function in functions if function.col_offset == 0}
    return any(_hands_on(function, frozenset({name}), defined, 0) for function in functions)


@lru_cache(maxsize=4)
def _functions(text: str) -> list[_Function]:
    return [
        node
        for node in ast.walk(pytext.parse(text))
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))
    ]


def _hands_on(function: _Function, names: frozenset[str], defined: dict[str, _Function], depth: int) -> bool:
    """Whether a function changes what one of the names is bound to: at first through another name only."""
    aliases = set(names)
    for _ in range(_DEEP):
        before = len(aliases)
        for targets, value in _bindings(function):
            if any(isinstance(one, ast.Name) and one.id in aliases for one in _given(value)):
                aliases |= {n.id for target in targets for n in walk(target) if isinstance(n, ast.Name)}
        if len(aliases) == before:
            break
    others = aliases if depth else aliases - names
    for node in walk(function):
        target: ast.AST | None = None
        if isinstance(node, ast.Subscript) and isinstance(node.ctx, (ast.Store, ast.Del)):
            target = node.value
        elif isinstance(node, ast.AugAssign):
            target = node.target
        elif isinstance(node, ast.Call):
            if isinstance(node.func, ast.Attribute) and node.func.attr in MUTATORS:
                target = node.func.value
            elif (
                isinstance(node.func, ast.Name)
                and depth < _DEEP
                and _call_changes(node, aliases, defined, depth)
            ):
                return True
        if isinstance(target, ast.Name) and target.id in others:
            return True
    return False


def _call_changes(node: ast.Call, aliases: set[str], defined: dict[str, _Function], depth: int) -> bool:
    assert isinstance(node.func, ast.Name)
    values = [*node.args, *(keyword.value for keyword in node.keywords)]
    given = [one for value in values for one in _given(value)]
    if not any(isinstance(one, ast.Name) and one.id in aliases for one in given):
        return False
    called = defined.get(node.func.id)
    if called is None:
        return not hasattr(builtins, node.func.id) and not node.func.id[:1].isupper()
    params = frozenset(arg.arg for arg in ast.walk(called.args) if isinstance(arg, ast.arg))
    return _hands_on(called, params, defined, depth + 1)


def _bindings(function: _Function) -> Iterator[tuple[list[ast.expr], ast.expr]]:
    for node in walk(function):
        if isinstance(node, (ast.For, ast.AsyncFor)):
            yield [node.target], node.iter
        elif isinstance(node, ast.Assign):
            yield node.targets, node.value
        elif isinstance(node, (ast.AnnAssign, ast.NamedExpr)) and node.value is not None:
            yield [node.target], node.value


def _given(value: ast.expr) -> list[ast.expr]:
    """The expressions that a value may be, as they stand: not what is read out of them."""
    if isinstance(value, ast.IfExp):
        return [*_given(value.body), *_given(value.orelse)]
    if isinstance(value, ast.BoolOp):
        return [one for part in value.values for one in _given(part)]
    if isinstance(value, (ast.Tuple, ast.List)):
        return [one for part in value.elts for one in _given(part)]
    if isinstance(value, (ast.NamedExpr, ast.Starred)):
        return _given(value.value)
    return [value]


__all__ = ["changed_under_another_name"]
