"""What an arm of a gate does, from its statements: calls, imports, assignments, raises, returns."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

from auditor.gates.model import Arm, Effect, Tri
from auditor.program.expressions import dotted, short

MAX_EFFECTS = 12
_TALK = ("logger.", "logging.", "log.", "warnings.", "self.logger.", "_logger.")
_LEAVES = (ast.Return, ast.Raise, ast.Continue, ast.Break)


def effects(body: Iterable[ast.stmt] | Iterable[ast.expr]) -> tuple[Effect, ...]:
    """Effects in source order, nested branches included, at most ``MAX_EFFECTS``; logging is left out."""
    out: list[Effect] = []
    seen: set[tuple[str, str]] = set()
    for effect in _walk(body):
        key = (effect.kind, effect.what)
        if key in seen:
            continue
        seen.add(key)
        out.append(effect)
        if len(out) == MAX_EFFECTS:
            break
    return tuple(out)


def _walk(body: Iterable[ast.AST]) -> Iterator[Effect]:
    for node in body:
        line = getattr(node, "lineno", 1)
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield Effect("import", alias.name, line)
        elif isinstance(node, ast.ImportFrom):
            for alias in node.names:
                yield Effect("import", f"{'.' * node.level}{node.module or ''}.{alias.name}", line)
        elif isinstance(node, ast.Return):
            yield from _calls(node)
            yield Effect("return", short(node.value, 80) if node.value is not None else "None", line)
        elif isinstance(node, ast.Raise):
            raised = node.exc.func if isinstance(node.exc, ast.Call) else node.exc
            yield Effect("raise", short(raised, 60) if raised is not None else "", line)
        elif isinstance(node, ast.Assert):
            yield Effect("assert", short(node.test, 80), line)
        elif isinstance(node, (ast.Assign, ast.AnnAssign, ast.AugAssign)):
            yield from _calls(node)
            if node.value is not None:
                targets = node.targets if isinstance(node, ast.Assign) else [node.target]
                for target in targets:
                    yield Effect("set", f"{short(target, 60)} = {short(node.value, 60)}", line)
        elif isinstance(node, ast.Expr):
            yield from _calls(node)
        elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            yield Effect(
                "set", f"{node.name} = <{'class' if isinstance(node, ast.ClassDef) else 'function'}>", line
            )
        elif isinstance(node, ast.expr):
            yield from _calls(node)
        else:
            for field in ("test", "iter", "subject"):
                child = getattr(node, field, None)
                if child is not None:
                    yield from _calls(child)
            for field in ("body", "orelse", "finalbody", "handlers", "cases", "items"):
                yield from _walk(getattr(node, field, None) or ())


def _calls(node: ast.AST) -> Iterator[Effect]:
    """Calls in an expression, outermost first."""
    stack: list[ast.AST] = [node]
    while stack:
        current = stack.pop(0)
        if isinstance(current, ast.Lambda):
            continue
        if isinstance(current, ast.Call):
            name = dotted(current.func) or short(current.func, 60)
            if not name.startswith(_TALK) and name not in ("print", "log_info_on_rank0"):
                what = name
                if current.args and isinstance(current.args[0], ast.Constant) and len(current.args) == 1:
                    what = f"{name}({short(current.args[0], 30)})"
                yield Effect("call", what, current.lineno)
            if name.startswith(_TALK):
                continue
        stack.extend(ast.iter_child_nodes(current))


def leaves(body: list[ast.stmt]) -> bool:
    """Whether control never falls out of the end of a block (judged by its last statement)."""
    if not body:
        return False
    last = body[-1]
    if isinstance(last, _LEAVES):
        return True
    if isinstance(last, ast.If):
        return leaves(last.body) and leaves(last.orelse)
    if isinstance(last, ast.With):
        return leaves(last.body)
    return False


def arm(when: Tri, body: list[ast.stmt] | list[ast.expr]) -> Arm | None:
    """One arm, or None for an empty one."""
    if not body:
        return None
    value = short(body[0], 80) if isinstance(body[0], ast.expr) else None
    return Arm(
        when=when,
        line=body[0].lineno,
        end_line=body[-1].end_lineno or body[-1].lineno,
        effects=effects(body),
        value=value,
    )
