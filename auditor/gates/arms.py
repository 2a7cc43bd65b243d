"""What an arm of a gate does, from its statements: calls, imports, assignments, raises, returns."""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterable, Iterator

from auditor.gates.model import Arm, Effect, Tri
from auditor.program.syntax import dotted, short

MAX_EFFECTS = 12
_TALK = ("logger.", "logging.", "log.", "warnings.", "self.logger.", "_logger.")
_LEAVES = (ast.Return, ast.Raise, ast.Continue, ast.Break)


def effects(body: Iterable[ast.stmt] | Iterable[ast.expr], quiet: Collection[str]) -> tuple[Effect, ...]:
    """Effects in source order, nested branches included, at most ``MAX_EFFECTS``; logging is left out, with
    the project's own ways to do it (``quiet``)."""
    out: list[Effect] = []
    seen: set[tuple[str, str]] = set()
    for effect in _walk(body, quiet):
        key = (effect.kind, effect.what)
        if key in seen:
            continue
        seen.add(key)
        out.append(effect)
        if len(out) == MAX_EFFECTS:
            break
    return tuple(out)


def _walk(body: Iterable[ast.AST], quiet: Collection[str]) -> Iterator[Effect]:
    for node in body:
        line = getattr(node, "lineno", 1)
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield Effect("import", alias.name, line)
        elif isinstance(node, ast.ImportFrom):
            for alias in node.names:
                yield Effect("import", f"{'.' * node.level}{node.module or ''}.{alias.name}", line)
        elif isinstance(node, ast.Return):
            yield from _calls(node, quiet)
            yield Effect("return", short(node.value, 80) if node.value is not None else "None", line)
        elif isinstance(node, ast.Raise):
            raised = node.exc.func if isinstance(node.exc, ast.Call) else node.exc
            yield Effect("raise", short(raised, 60) if raised is not None else "", line)
        elif isinstance(node, ast.Assert):
            yield Effect("assert", short(node.test, 80), line)
        elif isinstance(node, (ast.Assign, ast.AnnAssign, ast.AugAssign)):
            yield from _calls(node, quiet)
            if node.value is not None:
                targets = node.targets if isinstance(node, ast.Assign) else [node.target]
                for target in targets:
                    yield Effect("set", f"{short(target, 60)} = {short(node.value, 60)}", line)
        elif isinstance(node, ast.Expr):
            yield from _calls(node, quiet)
        elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            yield Effect(
                "set", f"{node.name} = <{'class' if isinstance(node, ast.ClassDef) else 'function'}>", line
            )
        elif isinstance(node, ast.expr):
            yield from _calls(node, quiet)
        else:
            for field in ("test", "iter", "subject"):
                child = getattr(node, field, None)
                if child is not None:
                    yield from _calls(child, quiet)
            for field in ("body", "orelse", "finalbody", "handlers", "cases", "items"):
                yield from _walk(getattr(node, field, None) or (), quiet)


def _calls(node: ast.AST, quiet: Collection[str]) -> Iterator[Effect]:
    """Calls in an expression, outermost first."""
    stack: list[ast.AST] = [node]
    while stack:
        current = stack.pop(0)
        if isinstance(current, ast.Lambda):
            continue
        if isinstance(current, ast.Call):
            name = dotted(current.func) or short(current.func, 60)
            if not name.startswith(_TALK) and name != "print" and name not in quiet:
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


def arm(when: Tri, body: list[ast.stmt] | list[ast.expr], quiet: Collection[str]) -> Arm | None:
    """One arm, or None for an empty one. ``quiet``: calls that only log, as they are written."""
    if not body:
        return None
    value = short(body[0], 80) if isinstance(body[0], ast.expr) else None
    return Arm(
        when=when,
        line=body[0].lineno,
        end_line=body[-1].end_lineno or body[-1].lineno,
        effects=effects(body, quiet),
        value=value,
    )
