"""Whether the source of a Triton kernel may be handed to Triton's compiler.

That compiler walks the syntax tree and calls whatever a call in it resolves to, so a kernel of a foreign tree
could run code through it. Only what is listed here gets through: arithmetic, branches and loops, calls of
Triton's own functions and of kernels that were checked as well, a fixed set of attributes. Everything else is
refused with a reason, and the kernel stays unchecked.
"""

from __future__ import annotations

import ast

_NODES = (
    ast.Expr,
    ast.Assign,
    ast.AugAssign,
    ast.AnnAssign,
    ast.If,
    ast.For,
    ast.While,
    ast.Return,
    ast.Pass,
    ast.Name,
    ast.Attribute,
    ast.Subscript,
    ast.Slice,
    ast.Tuple,
    ast.List,
    ast.Constant,
    ast.BinOp,
    ast.UnaryOp,
    ast.BoolOp,
    ast.Compare,
    ast.IfExp,
    ast.Call,
    ast.keyword,
    ast.operator,
    ast.unaryop,
    ast.boolop,
    ast.cmpop,
    ast.expr_context,
)
#: Python's own functions that Triton's compiler knows.
BUILTINS = frozenset({"range", "min", "max", "int", "float", "bool", "len"})
#: Attributes of values (tensors, pointers, types, compile-time values).
ATTRIBUTES = frozenset(
    "to shape dtype element_ty T type value sum max min reshape view trans permute broadcast_to expand_dims "
    "cast store load is_ptr primitive_bitwidth scalar abs exp log sqrt cdiv argmax argmin is_fp8 is_floating "
    "is_int itemsize index slice layout rank numel".split()
)


#: What Triton's language is called where nothing else is said.
_LANGUAGE = frozenset({"tl"})


def refusal(
    function: ast.FunctionDef, known: frozenset[str], languages: frozenset[str] = _LANGUAGE
) -> str | None:
    """Why a kernel is not handed on, or None if it may be.

    ``known`` are the names outside the function that stand for checked kernels, constants and functions of
    Triton; ``languages`` name modules of Triton's language, whose attributes the caller resolves and checks.
    """
    arguments = function.args
    if arguments.vararg or arguments.kwarg or arguments.posonlyargs or arguments.kwonlyargs:
        return "takes arguments that are not listed"
    for default in (*arguments.defaults, *arguments.kw_defaults):
        if default is not None and not isinstance(default, ast.Constant):
            return f"line {default.lineno}: a default that is not a constant"
    local = {a.arg for a in arguments.args}
    body = [node for statement in function.body for node in ast.walk(statement)]
    local |= {n.id for n in body if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
    if (local | {function.name}) & (BUILTINS | languages):
        return "gives a name of Triton another meaning"
    annotations = {
        id(n) for each in body if isinstance(each, ast.AnnAssign) for n in ast.walk(each.annotation)
    }
    for node in body:
        if id(node) in annotations:
            continue
        line = getattr(node, "lineno", function.lineno)
        if not isinstance(node, _NODES):
            return f"line {line}: {type(node).__name__}"
        if isinstance(node, ast.Name) and node.id not in local | known | BUILTINS | languages:
            return f"line {line}: the name {node.id}"
        if isinstance(node, ast.Attribute):
            if node.attr.startswith("_"):
                return f"line {line}: the attribute {node.attr}"
            root = node.value
            while isinstance(root, ast.Attribute):
                root = root.value
            if isinstance(root, ast.Name) and root.id in languages:
                continue
            if node.attr not in ATTRIBUTES:
                return f"line {line}: the attribute {node.attr}"
        if isinstance(node, ast.Call) and not isinstance(node.func, (ast.Name, ast.Attribute)):
            return f"line {line}: a call of something that is computed"
        if isinstance(node, ast.Call) and any(isinstance(a, ast.Starred) for a in node.args):
            return f"line {line}: a call with arguments that are not listed"
        if isinstance(node, ast.Constant) and isinstance(node.value, (bytes, complex)):
            return f"line {line}: a constant of another kind"
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in local:
            return f"line {line}: a call of a value"
    return None


def chains(function: ast.FunctionDef, languages: frozenset[str] = _LANGUAGE) -> set[tuple[str, str]]:
    """The dotted names below Triton's language that a kernel uses, each behind the name of its module:
    ``("tl", "math.exp2")``, ``("tl", "dot")``."""
    out = set()
    inner: set[int] = set()
    for node in ast.walk(function):
        if isinstance(node, ast.Attribute) and id(node) not in inner:
            parts = []
            at: ast.expr = node
            while isinstance(at, ast.Attribute):
                parts.append(at.attr)
                inner.add(id(at))
                at = at.value
            if isinstance(at, ast.Name) and at.id in languages:
                out.add((at.id, ".".join(reversed(parts))))
    return out


def free_names(function: ast.FunctionDef) -> list[str]:
    """Names that a kernel uses and does not bind, without those of Python."""
    body = [n for statement in function.body for n in ast.walk(statement)]
    hidden = {id(n) for each in body if isinstance(each, ast.AnnAssign) for n in ast.walk(each.annotation)}
    bound = {a.arg for a in function.args.args}
    bound |= {n.id for n in body if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
    used = {n.id for n in body if isinstance(n, ast.Name) and id(n) not in hidden}
    return sorted(used - bound - BUILTINS - {"True", "False", "None"})
