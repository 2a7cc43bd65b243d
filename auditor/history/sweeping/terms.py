"""Expressions as small interned tuples, which outlive the syntax tree they come from.

A term is ``(op, ...)``:

* ``("const", type name, value)``, ``("seq", kind, items)``, ``("opaque", text)``
* ``("n", word)`` a name of the module or an imported one, ``("p", word)`` a parameter or local variable
* ``("a", word, base, of itself)`` an attribute, ``("root", dotted name)`` something of PyTorch and the like
* ``("call", function, arguments, ((keyword, term), ...))``, ``("fn", ((parameter, default), ...), body)``
* ``("and", items)``, ``("or", items)``, ``("not", a)``, ``("cmp", a, ((operator, b), ...))``
* ``("if", test, then, else)``, ``("sub", a, index)``, ``("slice", from, to)``, ``("bin", operator, a, b)``
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable
from typing import Any

from auditor.program.externals import ABSENT, ARCH_ROOTS, AVAILABLE, FIXED_ATTRS, FIXED_CALLS, HIP_VERSION

Term = tuple[Any, ...]

#: Dotted names outside the tree that have a value of their own, called or not.
ROOTS = frozenset(name for name in ARCH_ROOTS if " " not in name) | {
    *(AVAILABLE, HIP_VERSION),
    *FIXED_CALLS,
    *FIXED_ATTRS,
    *ABSENT,
}
_LAST = frozenset(name.rpartition(".")[2] for name in ROOTS)
_OPERATORS = {
    ast.Eq: "==",
    ast.NotEq: "!=",
    ast.Lt: "<",
    ast.LtE: "<=",
    ast.Gt: ">",
    ast.GtE: ">=",
    ast.Is: "is",
    ast.IsNot: "is not",
    ast.In: "in",
    ast.NotIn: "not in",
    ast.Add: "+",
    ast.Sub: "-",
    ast.Mult: "*",
    ast.FloorDiv: "//",
    ast.Mod: "%",
}
#: Terms nested deeper than this are left as text: generated tables and the like.
_DEEPEST = 40
#: Branches of a function that are followed.
_BRANCHES = 16

_interned: dict[Term, Term] = {}
Lookup = Callable[[str], Term | None]


def intern(term: Term) -> Term:
    """The one object that stands for this term."""
    return _interned.setdefault(term, term)


NOTHING = intern(("const", "NoneType", None))


def constant(value: Any) -> Term:
    """A constant as a term; its type is part of it, for ``1 == True``."""
    return intern(("const", type(value).__name__, value))


def opaque(text: str) -> Term:
    """Something that is not followed, told apart by its text."""
    return intern(("opaque", text))


def convert(node: ast.expr, local: Lookup, depth: int = 0) -> Term:
    """The term of an expression. ``local`` gives what a local name stands for: None where it is none."""
    if depth > _DEEPEST:
        return opaque("…")
    down = depth + 1
    if isinstance(node, ast.Name):
        return local(node.id) or intern(("n", node.id))
    if isinstance(node, ast.Constant):
        if isinstance(node.value, (bool, int, float, str, bytes, type(None))):
            return constant(node.value)
        return opaque(repr(node.value))
    if isinstance(node, ast.Attribute):
        return _attribute(node, local, down)
    if isinstance(node, ast.Call):
        if any(isinstance(a, ast.Starred) for a in node.args) or any(k.arg is None for k in node.keywords):
            return opaque(ast.unparse(node))
        arguments = tuple(convert(a, local, down) for a in node.args)
        words = tuple((k.arg, convert(k.value, local, down)) for k in node.keywords)
        return intern(("call", convert(node.func, local, down), arguments, words))
    if isinstance(node, ast.BoolOp):
        word = "and" if isinstance(node.op, ast.And) else "or"
        return intern((word, tuple(convert(v, local, down) for v in node.values)))
    if isinstance(node, ast.UnaryOp):
        inner = convert(node.operand, local, down)
        if isinstance(node.op, ast.Not):
            return intern(("not", inner))
        if isinstance(node.op, ast.USub):
            return intern(("bin", "-", constant(0), inner))
        return opaque(ast.unparse(node))
    if isinstance(node, ast.Compare):
        ops = (_OPERATORS[type(op)] for op in node.ops)
        rest = tuple((op, convert(c, local, down)) for op, c in zip(ops, node.comparators, strict=True))
        return intern(("cmp", convert(node.left, local, down), rest))
    if isinstance(node, ast.IfExp):
        parts = (convert(part, local, down) for part in (node.test, node.body, node.orelse))
        return intern(("if", *parts))
    if isinstance(node, (ast.Tuple, ast.List, ast.Set)):
        if any(isinstance(e, ast.Starred) for e in node.elts) or len(node.elts) > 64:
            return opaque(ast.unparse(node))
        return intern(("seq", type(node).__name__.lower(), tuple(convert(e, local, down) for e in node.elts)))
    if isinstance(node, ast.Subscript):
        return _subscript(node, local, down)
    if isinstance(node, ast.BinOp) and type(node.op) in _OPERATORS:
        pair = (convert(node.left, local, down), convert(node.right, local, down))
        return intern(("bin", _OPERATORS[type(node.op)], *pair))
    if isinstance(node, ast.Lambda):
        return function(node.args, lambda inner: convert(node.body, inner, down), local, down)
    if isinstance(node, ast.NamedExpr):
        return convert(node.value, local, down)
    return opaque(ast.unparse(node))


def _attribute(node: ast.Attribute, local: Lookup, depth: int) -> Term:
    base = convert(node.value, local, depth)
    if node.attr in _LAST:
        name = dotted(base)
        if name and f"{name}.{node.attr}" in ROOTS:
            return intern(("root", f"{name}.{node.attr}"))
    return intern(("a", node.attr, base, base in (("p", "self"), ("p", "cls"), ("n", "self"), ("n", "cls"))))


def _subscript(node: ast.Subscript, local: Lookup, depth: int) -> Term:
    index: Term
    if isinstance(node.slice, ast.Slice):
        if node.slice.step is not None:
            return opaque(ast.unparse(node))
        ends = (node.slice.lower, node.slice.upper)
        index = intern(("slice", *(NOTHING if e is None else convert(e, local, depth) for e in ends)))
    else:
        index = convert(node.slice, local, depth)
    return intern(("sub", convert(node.value, local, depth), index))


def dotted(term: Term) -> str:
    """``a.b.c`` of a chain of names, "" of anything else."""
    if term[0] == "n":
        return str(term[1])
    if term[0] == "a":
        base = dotted(term[2])
        return f"{base}.{term[1]}" if base else ""
    return ""


def function(
    arguments: ast.arguments, body: Callable[[Lookup], Term], local: Lookup, depth: int = 0, skip: int = 0
) -> Term:
    """The term of a function. ``skip`` leaves out the first parameters (``self``), which stay unknown."""
    names = [a.arg for a in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)]
    others = [a.arg for a in (arguments.vararg, arguments.kwarg) if a is not None]
    inner_names = {name: intern(("p", name)) for name in (*names, *others)}

    def inner(name: str) -> Term | None:
        return inner_names.get(name) or local(name)

    plain = len(arguments.posonlyargs) + len(arguments.args)
    defaults: list[ast.expr | None] = [None] * (plain - len(arguments.defaults))
    defaults += [*arguments.defaults, *arguments.kw_defaults]
    taken = [None if d is None else convert(d, local, depth) for d in defaults]
    return intern(("fn", tuple(zip(names, taken, strict=True))[skip:], body(inner)))


def body_term(stmts: list[ast.stmt], local: Lookup, budget: list[int] | None = None) -> Term:
    """What a function with this body returns, as one nested condition; opaque where it loops or the like.

    An import does nothing; of ``try`` the body alone is followed, as where nothing fails. ``budget`` is how
    many branches are followed yet: what stands after a condition is read once for each of its outcomes.
    """
    budget = [_BRANCHES] if budget is None else budget
    names: dict[str, Term] = {}

    def inner(name: str) -> Term | None:
        return names.get(name) or local(name)

    budget[0] -= 1
    if budget[0] < 0:
        return opaque("…")
    for at, stmt in enumerate(stmts):
        rest = stmts[at + 1 :]
        if isinstance(stmt, ast.Return):
            return NOTHING if stmt.value is None else convert(stmt.value, inner)
        if isinstance(stmt, ast.Raise):
            return opaque("raise")
        if isinstance(stmt, ast.If):
            test = convert(stmt.test, inner)
            then = body_term([*stmt.body, *rest], inner, budget)
            return intern(("if", test, then, body_term([*stmt.orelse, *rest], inner, budget)))
        if isinstance(stmt, (ast.Try, ast.With)):
            return body_term([*stmt.body, *rest], inner, budget)
        if isinstance(stmt, (ast.Assign, ast.AnnAssign)):
            for name, term in bindings(stmt, inner):
                names[name] = term
        elif isinstance(stmt, (ast.Import, ast.ImportFrom, ast.Expr, ast.Pass, ast.Assert, ast.Global)):
            continue
        else:
            return opaque(type(stmt).__name__)
    return NOTHING


def bindings(stmt: ast.Assign | ast.AnnAssign, local: Lookup) -> Iterable[tuple[str, Term]]:
    """The plain names that an assignment binds, also of ``a, b = ...``, each with its term."""
    if stmt.value is None:
        return
    value = convert(stmt.value, local)
    targets = stmt.targets if isinstance(stmt, ast.Assign) else [stmt.target]
    for target in targets:
        if isinstance(target, ast.Name):
            yield target.id, value
        elif isinstance(target, ast.Tuple):
            for at, item in enumerate(target.elts):
                if isinstance(item, ast.Name):
                    yield item.id, intern(("sub", value, constant(at)))


_used: dict[int, tuple[Term, frozenset[tuple[str, str]]]] = {}


def used(term: Term) -> frozenset[tuple[str, str]]:
    """The free names of a term as ``(how, word)``: ``n`` by name, ``s`` of itself, ``a`` of anything else,
    and ``root``.
    """
    known = _used.get(id(term))
    if known is not None and known[0] is term:
        return known[1]
    out: set[tuple[str, str]] = set()
    op = term[0]
    if op in ("n", "root"):
        out.add((op, term[1]))
    elif op == "a":
        out.add(("s" if term[3] else "a", term[1]))
        out |= used(term[2])
    else:
        for part in term[1:]:
            _collect(part, out)
    found = frozenset(out)
    _used[id(term)] = term, found
    return found


_read: dict[int, tuple[Term, frozenset[str], frozenset[str]]] = {}


def read_by(term: Term) -> tuple[frozenset[str], frozenset[str]]:
    """The free names of a term, and the roots in it."""
    known = _read.get(id(term))
    if known is None or known[0] is not term:
        uses = used(term)
        names = frozenset(word for how, word in uses if how != "root")
        known = _read[id(term)] = term, names, frozenset(word for how, word in uses if how == "root")
    return known[1], known[2]


def _collect(part: Any, out: set[tuple[str, str]]) -> None:
    if not isinstance(part, tuple) or not part:
        return
    if isinstance(part[0], str) and part in _interned:
        out |= used(_interned[part])
        return
    for item in part:
        _collect(item, out)
