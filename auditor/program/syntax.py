"""What the text of statements says before anything is evaluated."""

from __future__ import annotations

import ast
from typing import Any

from auditor.program.nodes import children, holds

#: Methods that change a container in place.
MUTATORS = frozenset(
    "append extend insert remove pop popitem clear update setdefault add discard sort reverse".split()
)


def dotted(node: ast.expr) -> str | None:
    """``a.b.c`` as text, or None for any other expression."""
    parts: list[str] = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    if isinstance(node, ast.Name):
        parts.append(node.id)
        return ".".join(reversed(parts))
    return None


def source_of(node: ast.AST) -> str:
    """Source-like text of a node; for what is nested so deeply that none can be written, its kind alone."""
    try:
        return ast.unparse(node)
    except RecursionError:
        return f"<{type(node).__name__}>"


def short(node: ast.AST, limit: int = 60) -> str:
    """Source-like text of a node for a reason, cut to ``limit`` characters."""
    text = dotted(node) if isinstance(node, (ast.Name, ast.Attribute)) else None
    if text is None:
        text = " ".join(source_of(node).split())
    return text if len(text) <= limit else text[: limit - 1] + "…"


def assigned_names(body: list[ast.stmt]) -> set[str]:
    """Names and attribute paths that statements may bind (nested functions left out)."""
    out: set[str] = set()
    stack: list[ast.AST] = list(body)
    while stack:
        node = stack.pop()
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            out.add(node.name)
            out.update(n for c in ast.walk(node) if isinstance(c, ast.Nonlocal) for n in c.names)
            continue
        if isinstance(node, ast.Lambda):
            continue
        if isinstance(node, (ast.Name, ast.Attribute)) and isinstance(node.ctx, (ast.Store, ast.Del)):
            name = dotted(node)
            if name:
                out.add(name)
        elif isinstance(node, ast.alias):
            out.add((node.asname or node.name).split(".", 1)[0])
        elif isinstance(node, (ast.ExceptHandler, ast.MatchAs, ast.MatchStar)) and node.name:
            out.add(node.name)
        stack += children(node)
    return out


def hands_on(node: Any, params: set[str]) -> bool:
    """Whether each ``return`` of a function gives back one of these parameters or a wrapper of one."""
    inner = {n.name: n for n in node.body if isinstance(n, ast.FunctionDef)}
    returns = [n.value for n in own_nodes(node) if isinstance(n, ast.Return) and n.value is not None]
    if not returns:
        return False
    for value in returns:
        while isinstance(value, ast.Call) and not (
            isinstance(value.func, ast.Name) and value.func.id in params
        ):
            if not value.args:
                break
            value = value.args[0]  # lru_cache(...)(wrapper), cast(F, wrapper)
        if isinstance(value, ast.Call):
            continue
        if not isinstance(value, ast.Name):
            return False
        if value.id in params:
            continue
        wrapper = inner.get(value.id)
        if wrapper is None:
            return False
        wraps = any("wraps" in source_of(d) for d in wrapper.decorator_list)
        names = params | {a.arg for a in wrapper.args.args}
        if not wraps:
            if not hands_on(wrapper, names):  # a decorator with arguments: one level down
                return False
            continue
        for result in own_nodes(wrapper):
            if isinstance(result, ast.Return) and result.value is not None:
                if not isinstance(result.value, (ast.Call, ast.Subscript, ast.Name, ast.Attribute)):
                    return False
    return True


def own_nodes(node: Any) -> list[ast.AST]:
    """Nodes of a function body without those of functions inside it."""
    out: list[ast.AST] = []
    stack: list[ast.AST] = list(node.body)
    while stack:
        child = stack.pop()
        if isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)):
            continue
        out.append(child)
        stack.extend(ast.iter_child_nodes(child))
    return out


def stores(body: list[ast.stmt]) -> dict[str, int]:
    """Names and attribute paths that statements bind, with how often; in loops more than once."""
    out: dict[str, int] = {}
    stack: list[tuple[ast.AST, int]] = [(s, 1) for s in body]
    while stack:
        node, times = stack.pop()
        names: list[str | None] = []
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            names = [node.name]
        elif isinstance(node, (ast.Name, ast.Attribute)) and isinstance(node.ctx, (ast.Store, ast.Del)):
            names = [dotted(node)]
        elif isinstance(node, ast.alias):
            names = [(node.asname or node.name).split(".", 1)[0]]
        elif isinstance(node, (ast.ExceptHandler, ast.MatchAs, ast.MatchStar)):
            names = [node.name]
        for name in names:
            if name:
                out[name] = out.get(name, 0) + times
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)):
            continue
        if isinstance(node, (ast.For, ast.AsyncFor, ast.While)):
            times = 2
        stack.extend((child, times) for child in ast.iter_child_nodes(node))
    return out


def unsteady(body: list[ast.stmt]) -> list[str]:
    """Names that an interrupted body may leave with a value of neither its start nor its end."""
    counts = stores(body)
    direct = {
        dotted(t)
        for s in body
        if isinstance(s, (ast.Assign, ast.AnnAssign))
        for t in (s.targets if isinstance(s, ast.Assign) else [s.target])
        if isinstance(t, (ast.Name, ast.Attribute))
    }
    direct |= {
        (a.asname or a.name).split(".", 1)[0]
        for s in body
        if isinstance(s, (ast.Import, ast.ImportFrom))
        for a in s.names
    }
    return sorted(n for n, times in counts.items() if times > 1 or n not in direct)


def breaks(body: list[ast.stmt]) -> bool:
    """Whether a loop with this body may be left by ``break``."""
    stack: list[ast.AST] = list(body)
    while stack:
        node = stack.pop()
        if isinstance(node, ast.Break):
            return True
        if isinstance(node, (ast.For, ast.AsyncFor, ast.While)):
            stack.extend(node.orelse)
        elif not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            stack.extend(ast.iter_child_nodes(node))
    return False


def jumps(node: ast.AST) -> bool:
    """Whether ``break`` or ``continue`` stands anywhere below a node."""
    return any(isinstance(n, (ast.Break, ast.Continue)) for n in ast.walk(node))


def may_mutate(body: list[ast.stmt]) -> bool:
    """Whether statements may change a container in place, by their form."""
    for statement in body:
        for node in ast.walk(statement):
            if isinstance(node, (ast.AugAssign, ast.Delete)):
                return True
            if isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Store):
                return True
            if isinstance(node, ast.Call) and (
                (isinstance(node.func, ast.Attribute) and node.func.attr in MUTATORS)
                or any(isinstance(a, (ast.Name, ast.Attribute)) for a in node.args)
            ):
                return True
    return False


def catches_all(node: Any) -> bool:
    """Whether a ``try`` surely catches what its body raises."""
    for handler in node.handlers:
        if handler.type is None:
            return True
        kinds = handler.type.elts if isinstance(handler.type, ast.Tuple) else [handler.type]
        if any(isinstance(k, ast.Name) and k.id in ("Exception", "BaseException") for k in kinds):
            return True
    return False


def raises(body: list[ast.stmt]) -> bool:
    """Whether ``raise`` stands anywhere in these statements, nested functions left out."""
    return holds(body, ast.Raise)


def as_load(node: ast.expr) -> ast.expr:
    """A target of ``x += 1`` as the expression that is read first."""
    if isinstance(node, ast.Name):
        return ast.copy_location(ast.Name(node.id, ast.Load()), node)
    if isinstance(node, ast.Attribute):
        return ast.copy_location(ast.Attribute(node.value, node.attr, ast.Load()), node)
    if isinstance(node, ast.Subscript):
        return ast.copy_location(ast.Subscript(node.value, node.slice, ast.Load()), node)
    return node


def has_yield(node: Any) -> bool:
    """Whether a function is a generator: it yields somewhere outside nested functions."""
    stack = list(node.body)
    while stack:
        child = stack.pop()
        if isinstance(child, (ast.Yield, ast.YieldFrom)):
            return True
        if isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)):
            continue
        stack += children(child)
    return False
