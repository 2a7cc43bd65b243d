"""What a function that does not ask the GPU mentions: its branches are weighed, nothing else is run.

Conditions are evaluated where they stand with every local name unknown, which is enough for those about
the vendor, and for early returns and assertions. It costs a tenth of running the function.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any

from auditor.program.frames import Frame
from auditor.program.nodes import children, walk
from auditor.program.program import Program
from auditor.program.syntax import dotted
from auditor.program.values import EMPTY, Pending, V, all_reasons, unknown

_LOOPS = (ast.For, ast.AsyncFor, ast.While)
_DEFS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
#: Statements that change where control goes, or what a name means on some targets.
_MATTERS = frozenset((ast.Return, ast.Raise, ast.Break, ast.Continue, ast.Assert, ast.ImportFrom, ast.Import))
#: Functions that only look at what they are given.
LOOKS = frozenset(("isinstance", "issubclass", "hasattr", "type", "callable"))

#: ``note(node, value, may, must, reasons, symbol, tried)``
Note = Callable[[ast.expr, V, int, int, frozenset[str], str, bool], None]


class Sketch:
    """A function's syntax tree gone through once."""

    __slots__ = ("node", "names", "local", "imports", "parents", "matters", "keys", "single", "values")

    def __init__(self, node: Any) -> None:
        self.node = node
        self.names: dict[str, list[Any]] = {}  # word, or text in quotes -> where it is read
        self.local: set[str] = set()
        self.imports: list[Any] = []
        self.parents: dict[int, Any] = {}
        self.matters: set[int] = set()  # nodes that hold something that changes control
        self.keys: dict[int, str] = {}  # values of tables written out -> their key
        # short assignments, with those of their names that nothing else binds, in order
        self.single: list[tuple[ast.Assign, frozenset[str]]] = []
        self.values: dict[str, list[ast.expr]] = {}  # names that only plain assignments bind -> what to
        needed: set[str] = set()
        bound: dict[str, int] = {}
        plain: list[Any] = []
        inner: list[Any] = []
        stack: list[Any] = list(node.body)
        parents, names, local = self.parents, self.names, self.local
        while stack:
            here = stack.pop()
            kind = here.__class__
            if kind is ast.Name:
                if here.ctx.__class__ is ast.Load:
                    names.setdefault(here.id, []).append(here)
                else:
                    local.add(here.id)
                    bound[here.id] = bound.get(here.id, 0) + 1
                continue
            if kind is ast.Constant:
                if here.value.__class__ is str and len(here.value) < 64:
                    names.setdefault(repr(here.value), []).append(here)
                continue
            if kind is ast.Attribute:
                if here.ctx.__class__ is ast.Load:
                    names.setdefault(here.attr, []).append(here)
                parents[id(here.value)] = here
                stack.append(here.value)
                continue
            if kind in _MATTERS:
                self._mark(here)
                if kind is ast.Assert:
                    needed |= {n.id for n in walk(here.test) if n.__class__ is ast.Name}
                if kind is ast.ImportFrom or kind is ast.Import:
                    self.imports.append(here)
                    continue
            elif kind is ast.Assign:
                plain.append(here)
            elif kind is ast.If or kind is ast.IfExp or kind is ast.While:
                needed |= {n.id for n in walk(here.test) if n.__class__ is ast.Name}
            elif kind is ast.Call:
                needed.update(a.id for a in here.args if a.__class__ is ast.Name)
                needed.update(k.value.id for k in here.keywords if k.value.__class__ is ast.Name)
            elif kind is ast.Dict:
                for key, value in zip(here.keys, here.values):
                    if key.__class__ is ast.Constant and isinstance(key.value, str):
                        self.keys[id(value)] = key.value
            elif kind in _DEFS:
                inner.append(here.args)
                if kind is not ast.Lambda:
                    local.add(here.name)
            elif kind is ast.ClassDef or kind is ast.ExceptHandler:
                if here.name:
                    local.add(here.name)
            for field, value in here.__dict__.items():
                if value.__class__ is list:
                    for item in value:
                        if isinstance(item, ast.AST):
                            parents[id(item)] = here
                            stack.append(item)
                elif isinstance(value, ast.AST) and field not in ("ctx", "op", "annotation", "returns"):
                    parents[id(value)] = here
                    stack.append(value)
        for arguments in inner:
            for arg in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs):
                local.add(arg.arg)
                bound[arg.arg] = 2
        spec = node.args
        for arg in (*spec.posonlyargs, *spec.args, *spec.kwonlyargs):
            bound[arg.arg] = 2
        for statement in plain:
            targets = [n for t in statement.targets for n in _names(t)]
            alone = frozenset(n for n in targets if bound.get(n, 2) == 1)
            if alone and "" not in targets and _short(statement):
                self.single.append((statement, alone))
            if len(targets) == 1 and isinstance(statement.targets[0], ast.Name):
                self.values.setdefault(targets[0], []).append(statement.value)
        for name in [n for n, given in self.values.items() if bound.get(n) != len(given)]:
            del self.values[name]
        self._keep_needed(needed)

    def _keep_needed(self, needed: set[str]) -> None:
        """Of the short assignments, those that a condition or an argument hangs on."""
        kept = []
        for statement, alone in sorted(self.single, key=lambda item: -item[0].lineno):
            if not alone.isdisjoint(needed):
                kept.append((statement, alone))
                needed |= {n.id for n in walk(statement.value) if isinstance(n, ast.Name)}
        self.single = kept[::-1]

    def _mark(self, node: Any) -> None:
        while node is not None and id(node) not in self.matters:
            self.matters.add(id(node))
            node = self.parents.get(id(node))

    def tests_around(self, node: Any) -> list[tuple[ast.expr, bool]]:
        """Tests of the branches that a node stands in, outermost first, and which way they have to go."""
        out: list[tuple[ast.expr, bool]] = []
        child = node
        for parent in self.above(node):
            if isinstance(parent, (ast.If, ast.While)):
                if child is not parent.test:
                    out.append((parent.test, any(child is s for s in parent.body)))
            elif isinstance(parent, ast.IfExp) and child is not parent.test:
                out.append((parent.test, child is parent.body))
            child = parent
        return out[::-1]

    def above(self, node: Any) -> list[Any]:
        """The nodes around a node, innermost first."""
        out = []
        parent = self.parents.get(id(node))
        while parent is not None:
            out.append(parent)
            parent = self.parents.get(id(parent))
        return out


def _names(target: ast.expr) -> list[str]:
    """The names that a target binds; an empty text for anything else."""
    if isinstance(target, ast.Name):
        return [target.id]
    if isinstance(target, (ast.Tuple, ast.List)):
        return [name for item in target.elts for name in _names(item)]
    return [""]


def _parts(test: ast.expr, holds: bool) -> set[tuple[str, bool]]:
    """Plain names and attributes that hold, or do not, where a condition does: (text, whether it holds)."""
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        return _parts(test.operand, not holds)
    if isinstance(test, ast.BoolOp) and isinstance(test.op, ast.And if holds else ast.Or):
        return {part for value in test.values for part in _parts(value, holds)}
    name = dotted(test)
    return {(name, holds)} if name is not None else set()


def _short(statement: ast.Assign) -> bool:
    """Whether an assigned value is worth evaluating on its own: a condition, a name, a call of few words."""
    count = 0
    for node in walk(statement.value):
        count += 1
        if count > 12 or isinstance(node, (ast.Lambda, ast.ListComp, ast.GeneratorExp, ast.Await)):
            return False
    return True


def frame_of(program: Program, function: Any, sketch: Sketch, given: Mapping[str, V] | None = None) -> Frame:
    """A frame in which conditions of a function can be weighed: parameters are unknown or as ``given``, local
    names too unless one short statement alone binds them."""
    fr = program._entry(function, sketch.node, None)
    local = set(sketch.local)
    for inner in sketch.imports:
        if isinstance(inner, ast.ImportFrom):
            module = program.absolute(inner.module, inner.level, function.module)
            for alias in inner.names:
                fr.env[alias.asname or alias.name] = V(Pending(module, alias.name))
                local.discard(alias.asname or alias.name)
        else:
            for alias in inner.names:
                name = alias.asname or alias.name.split(".", 1)[0]
                fr.env[name] = V(Pending(alias.name if alias.asname else name, None))
                local.discard(name)
    for name in local:
        fr.env.setdefault(name, V(unknown(f"value {name}")))
    fr.env.update(given or {})
    for statement, alone in sketch.single:
        value = program.ev(statement.value, fr)
        for target in statement.targets:
            kept = {name: fr.env[name] for name in _names(target) if name not in alone and name in fr.env}
            program.assign(target, value, fr)
            fr.env.update(kept)
    return fr


class Light:
    """One pass over the body of one function, along the statements that hold one of the words."""

    def __init__(
        self,
        program: Program,
        function: Any,
        sketch: Sketch,
        words: Collection[str],
        note: Note,
        given: Mapping[str, V] | None = None,
        run: bool = True,
    ) -> None:
        self.program = program
        self.full = program.full
        self.note = note
        self.tests: dict[int, tuple[int, int]] = {}
        self.imports: dict[str, dict[tuple[str, str], int]] = {}  # name -> what it is -> targets
        self.symbol = function.qualname
        self.tried = False
        self.sketch = sketch
        self.done = 0  # targets on which the function may come to its end or return
        self.wanted: set[int] = set()
        self.around: set[int] = set(sketch.matters)
        found = False
        for word in words:
            for node in (*sketch.names.get(word, ()), *self._asked_for(word)):
                found = True
                self.wanted.add(id(node))
                self.around.add(id(node))
                self.around.update(id(n) for n in sketch.above(node))
        if found or not words:
            self.frame = frame_of(program, function, sketch, given)
        if run and (found or not words):
            end = self.block(sketch.node.body, self.full, self.full, EMPTY)[0]
            self.done |= end

    def _asked_for(self, word: str) -> Iterator[ast.Call]:
        """``getattr(x, "word")``"""
        for node in self.sketch.names.get(repr(word), ()):
            call = self.sketch.parents.get(id(node))
            if isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id == "getattr":
                yield call

    # -- statements --------------------------------------------------------------------------------

    def block(self, body: list[ast.stmt], may: int, must: int, why: frozenset[str]) -> tuple[int, int]:
        """(targets that come out at the end, targets that surely do once they are in)."""
        stay = self.full
        around = self.around
        for node in body:
            if id(node) not in around:
                continue
            may, kept, more = self.statement(node, may, must, why)
            must, stay, why = must & kept, stay & kept, why | more
        return may, stay

    def statement(
        self, node: ast.stmt, may: int, must: int, why: frozenset[str]
    ) -> tuple[int, int, frozenset[str]]:
        if isinstance(node, ast.If):
            return self._if(node, may, must, why)
        if isinstance(node, (ast.Return, ast.Raise, ast.Break, ast.Continue)):
            self.scan(node, may, must, why)
            if isinstance(node, ast.Return):
                self.done |= may
            return 0, 0, EMPTY
        if isinstance(node, ast.Assert):
            self.scan(node, may, must, why)
            t, f, reasons = self.weigh(node.test)
            return may & t, ~f & self.full, reasons if f else EMPTY
        if isinstance(node, _LOOPS):
            head = node.test if isinstance(node, ast.While) else node.iter
            self.scan(head, may, must, why)
            self.block(node.body, may, 0, why)
            self.block(node.orelse, may, 0, why)
            leaves = id(node) in self.sketch.matters
            return may, 0 if leaves else self.full, EMPTY
        if isinstance(node, (ast.With, ast.AsyncWith)):
            for item in node.items:
                self.scan(item.context_expr, may, must, why)
            out, stay = self.block(node.body, may, must, why)
            return out, stay, EMPTY
        if isinstance(node, ast.Try):
            outer, self.tried = self.tried, True
            out, stay = self.block(node.body, may, must, why)
            self.tried = outer
            for handler in node.handlers:
                more, kept = self.block(handler.body, may, 0, why)
                out, stay = out | more, stay & kept
            self.block(node.orelse, out, must & stay, why)
            if node.finalbody:
                self.block(node.finalbody, may, must, why)
            return out, stay, EMPTY
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            outer_symbol, self.symbol = self.symbol, f"{self.symbol}.{node.name}"
            done = self.done
            self.block(node.body, may, 0, why)
            self.done = done  # its returns are its own
            self.symbol = outer_symbol
            return may, self.full, EMPTY
        if isinstance(node, ast.ClassDef):
            self.block(node.body, may, 0, why)
            return may, self.full, EMPTY
        if isinstance(node, ast.Match):
            self.scan(node.subject, may, must, why)
            for case in node.cases:
                self.block(case.body, may, 0, why)
            return may, 0 if id(node) in self.sketch.matters else self.full, EMPTY
        if isinstance(node, ast.ImportFrom):
            module = self.program.absolute(node.module, node.level, self.frame.module)
            for alias in node.names:
                known = self.imports.setdefault(alias.asname or alias.name, {})
                known[module, alias.name] = known.get((module, alias.name), 0) | may
        self.scan(node, may, must, why)
        return may, self.full, EMPTY

    def _if(self, node: ast.If, may: int, must: int, why: frozenset[str]) -> tuple[int, int, frozenset[str]]:
        self.scan(node.test, may, must, why)
        t, f, reasons = self.weigh(node.test)
        open_ = reasons if t & f else EMPTY
        may_a, stay_a = self.block(node.body, may & t, must & ~f, why | open_)
        may_b, stay_b = self.block(node.orelse, may & f, must & ~t, why | open_)
        stay = (~t | stay_a) & (~f | stay_b) & self.full
        return may_a | may_b, stay, open_ if stay != self.full else EMPTY

    def weigh(self, test: ast.expr) -> tuple[int, int, frozenset[str]]:
        """Targets on which a condition may hold, and may not, and what it hangs on."""
        value = self.program.ev(test, self.frame)
        t, f = self.program.truth(value)
        old = self.tests.get(id(test), (0, 0))
        self.tests[id(test)] = old[0] | t, old[1] | f
        return t, f, all_reasons(value)

    def implied(self, node: Any) -> int:
        """Targets that are left where a node is reached, from branches before it that were taken under the
        conditions that it stands under: ``if x: assert y`` and then ``if x: ...``."""
        held = {part for test, holds in self.sketch.tests_around(node) for part in _parts(test, holds)}
        held = {part for part in held if part[0].partition(".")[0] not in self.sketch.local}
        mask = self.full
        child = node
        for parent in self.sketch.above(node) if held else ():
            mask &= self._before(parent, child, held)
            child = parent
        return mask & self._before(self.sketch.node, child, held) if held else mask

    def _before(self, parent: Any, child: Any, held: set[tuple[str, bool]]) -> int:
        mask = self.full
        for block in (getattr(parent, field, None) for field in ("body", "orelse", "finalbody")):
            if not isinstance(block, list) or not any(child is s for s in block):
                continue
            for statement in block:
                if statement is child:
                    break
                if not isinstance(statement, ast.If) or id(statement) not in self.around:
                    continue
                for holds, body in ((True, statement.body), (False, statement.orelse)):
                    parts = _parts(statement.test, holds)
                    if parts and parts <= held:
                        mask &= self.block(body, self.full, self.full, EMPTY)[0] if body else self.full
        return mask

    # -- names -------------------------------------------------------------------------------------

    def scan(self, node: ast.AST, may: int, must: int, why: frozenset[str]) -> None:
        """Note the wanted names of an expression or simple statement; ``x if c else y`` is weighed."""
        around, wanted = self.around, self.wanted
        stack: list[tuple[Any, int, int]] = [(node, may, must)]
        while stack:
            here, m, s = stack.pop()
            if id(here) not in around:
                continue
            if isinstance(here, ast.IfExp):
                t, f, _ = self.weigh(here.test)
                stack += [(here.test, m, s), (here.body, m & t, s & ~f), (here.orelse, m & f, s & ~t)]
                continue
            if isinstance(here, ast.Call) and isinstance(here.func, ast.Name) and here.func.id in LOOKS:
                continue
            if id(here) in wanted:
                for value, mask in self._values(here):
                    self.note(here, value, m & mask, s & mask, why, self.symbol, self.tried)
            stack += [(child, m, s) for child in children(here)]

    def _values(self, node: Any) -> list[tuple[V, int]]:
        """What a name is, with the targets on which it is that."""
        if isinstance(node, ast.Constant):
            return [(V(node.value), self.full)]
        if isinstance(node, ast.Name) and node.id in self.imports and node.id not in self.sketch.local:
            return [(V(Pending(*what)), mask) for what, mask in self.imports[node.id].items()]
        return [(self.program.lazy(node, self.frame), self.full)]


__all__ = ["Light", "Sketch"]
