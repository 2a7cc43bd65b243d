"""One pass through a factory: what it may return, and under which open conditions.

Each path through the body carries the conditions that stay open on it. What names are bound to is kept per
path and brought together where paths meet: a name may then be either, and nothing that one path gives is
dropped because another was read after it.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, NamedTuple

from auditor.gates.path.model import Place
from auditor.program.syntax import source_of
from auditor.program.values import ClassRef, Function, Pending, Unknown, V, unknown

if TYPE_CHECKING:
    from auditor.gates.path.choice import Factory

#: Factories that call factories are followed this deep.
DEPTH = 4
#: An outcome with more open conditions than this keeps the last ones: those nearest to it.
_CONDITIONS = 6
#: Names that stand for names are followed this far.
_HOPS = 8

When = tuple[str, ...]


class Found(NamedTuple):
    """A value that a factory may return: the expression, the conditions that stay open, and where."""

    value: V
    text: str
    when: When
    place: Place


class _State(NamedTuple):
    """What names are bound to on one path: as expressions with their conditions, and as values."""

    bound: dict[str, list[tuple[ast.expr, When]]]
    env: dict[str, V]


def opposite(text: str) -> str:
    """The words for the opposite."""
    if text.startswith("not ") and " and " not in text and " or " not in text:
        return text[4:]
    return f"not ({text})" if " " in text else f"not {text}"


class Walk:
    """One pass through a function body. Each path carries the open conditions under which it is taken."""

    def __init__(self, factory: Factory, function: Function, frame: Any, depth: int) -> None:
        self.factory = factory
        self.function = function
        self.frame = frame
        self.depth = depth
        self.found: list[Found] = []
        self.bound: dict[str, list[tuple[ast.expr, When]]] = {}
        #: States in which control leaves a round of the loops around this point: to go on, and for good.
        self._leaving: list[tuple[list[_State], list[_State]]] = []

    # -- states --------------------------------------------------------------------------------------

    def _state(self) -> _State:
        return _State({name: list(values) for name, values in self.bound.items()}, dict(self.frame.env))

    def _go_on(self, states: list[_State]) -> None:
        """Go on where paths meet: with everything that a name is bound to on any of them."""
        first, *others = states
        bound = {name: list(values) for name, values in first.bound.items()}
        env = dict(first.env)
        for state in others:
            for name, values in state.bound.items():
                known = bound.setdefault(name, [])
                known += [value for value in values if value not in known]
            for name, value in state.env.items():
                # A local name that a path does not bind cannot be read on it.
                env[name] = self._either(env[name], value) if name in env else value
        self.bound, self.frame.env = bound, env

    def _either(self, a: V, b: V) -> V:
        program = self.factory.program
        a, b = (program.resolve(v.one) if type(v.one) is Pending else v for v in (a, b))
        either: V = program.select(program.full, program.full, a, b, V(unknown("the way that is taken")))
        return either

    def _bind(self, target: ast.expr, value: ast.expr, when: When) -> None:
        """Names that an assignment binds, with the parts of the value that are written out."""
        if isinstance(target, ast.Name):
            self.bound[target.id] = [(value, when)]
            # What the evaluator knows of it serves later conditions.
            self.frame.env[target.id] = self.factory.program.ev(value, self.frame)
        elif isinstance(target, (ast.Tuple, ast.List)):
            parts = value.elts if isinstance(value, (ast.Tuple, ast.List)) else []
            stars = any(isinstance(part, ast.Starred) for part in (*target.elts, *parts))
            if stars or len(parts) != len(target.elts):
                self._forget(target, when)
            else:
                for inner, part in zip(target.elts, parts):
                    self._bind(inner, part, when)

    def _forget(self, node: ast.AST, when: When) -> None:
        """Names that a node binds to something that is not followed stand for themselves."""
        for child in ast.walk(node):
            if isinstance(child, ast.Name) and not isinstance(child.ctx, ast.Load):
                self.bound[child.id] = [(ast.copy_location(ast.Name(child.id, ast.Load()), child), when)]
                self.frame.env[child.id] = V(unknown(f"value {child.id}"))

    # -- statements ----------------------------------------------------------------------------------

    def body(self, body: Iterable[ast.stmt], when: When) -> When | None:
        """Read statements; the conditions under which control comes out at the end, None if it never does."""
        for statement in body:
            after = self.statement(statement, when)
            if after is None:
                return None
            when = after
        return when

    def statement(self, node: ast.stmt, when: When) -> When | None:
        if isinstance(node, ast.Return):
            if node.value is not None:
                self.value(node.value, when, node.lineno)
            return None
        if isinstance(node, (ast.Continue, ast.Break)):
            self._leaving[-1][isinstance(node, ast.Break)].append(self._state())
            return None
        if isinstance(node, ast.Raise):
            return None
        if isinstance(node, ast.If):
            return self.branch(node, when)
        if isinstance(node, ast.Match):
            subject = source_of(node.subject)
            ways = [
                (case.body, (*when, f"{subject} matches {ast.unparse(case.pattern)}"), case.pattern)
                for case in node.cases
            ]
            return self.ways([*ways, ([], when, None)], when)
        if isinstance(node, (ast.With, ast.AsyncWith)):
            for item in node.items:
                if item.optional_vars is not None:
                    self._forget(item.optional_vars, when)
            return self.body(node.body, when)
        if isinstance(node, ast.Try):
            return self.attempt(node, when)
        if isinstance(node, (ast.For, ast.AsyncFor, ast.While)):
            return self.loop(node, when)
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            for alias in node.names:
                self.bound.pop(alias.asname or alias.name, None)
            self.factory.program.block([node], self.frame)
        elif isinstance(node, (ast.Assign, ast.AnnAssign)) and node.value is not None:
            for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
                self._bind(target, node.value, when)
        elif isinstance(node, (ast.AugAssign, ast.Delete)):
            self._forget(node, when)
        return when

    def branch(self, node: ast.If, when: When) -> When | None:
        test = self.factory.truth(node.test, self.frame)
        if isinstance(test, bool):
            return self.body(node.body if test else node.orelse, when)
        return self.ways(
            [(node.body, (*when, test), None), (node.orelse, (*when, opposite(test)), None)], when
        )

    def ways(self, ways: list[tuple[list[ast.stmt], When, ast.AST | None]], when: When) -> When | None:
        """Bodies of which one is taken, each from the state here; with names that its pattern binds."""
        before, came = self._state(), []
        for body, under, pattern in ways:
            self._go_on([before])
            if pattern is not None:
                for name in sorted(_captured(pattern)):
                    self._forget(ast.Name(name, ast.Store()), under)
            after = self.body(body, under)
            if after is not None:
                came.append((after, self._state()))
        if not came:
            return None
        self._go_on([state for _after, state in came])
        return came[0][0] if len(came) == 1 else when

    def attempt(self, node: ast.Try, when: When) -> When | None:
        """A ``try``: its body to the end, or its handlers from anywhere within the body."""
        before, came = self._state(), []
        after = self.body(node.body, when)
        inside = self._state()
        if after is not None:
            after = self.body(node.orelse, after)
        if after is not None:
            came.append((after, self._state()))
        for handler in node.handlers:
            self._go_on([before, inside])
            under = (*when, f"on {source_of(handler.type)}" if handler.type is not None else "on an error")
            if handler.name is not None:
                self._forget(ast.Name(handler.name, ast.Store()), under)
            after = self.body(handler.body, under)
            if after is not None:
                came.append((after, self._state()))
        if not came:
            self._go_on([before, inside])
            self.body(node.finalbody, when)
            return None
        self._go_on([state for _after, state in came])
        return self.body(node.finalbody, came[0][0] if len(came) == 1 else when)

    def loop(self, node: ast.For | ast.AsyncFor | ast.While, when: When) -> When | None:
        """A loop, which may run no round, or stop in the middle of one."""
        before, inside = self._state(), (*when, "in a loop")
        for child in (child for statement in node.body for child in ast.walk(statement)):
            if isinstance(child, ast.Name) and isinstance(child.ctx, ast.Store):
                # What a round finds may come from an earlier one.
                self.frame.env[child.id] = V(unknown(f"value {child.id}"))
        if not isinstance(node, ast.While):
            self._forget(node.target, inside)
        self._leaving.append(([], []))
        after = self.body(node.body, inside)
        last = [self._state()] if after is not None else []
        rounds, broken = self._leaving.pop()
        self._go_on([before, *last, *rounds])
        if self.body(node.orelse, when) is not None:
            broken.insert(0, self._state())
        if not broken:
            return None
        self._go_on(broken)
        return when

    # -- expressions ---------------------------------------------------------------------------------

    def value(self, node: ast.expr, when: When, line: int, hops: int = 0) -> None:
        """Note what an expression gives: the class for a constructor call, what a factory returns."""
        place = Place(self.function.module.path, line, self.function.qualname)
        if isinstance(node, ast.IfExp):
            test = self.factory.truth(node.test, self.frame)
            if test is not False:
                self.value(node.body, when if test is True else (*when, str(test)), line, hops)
            if test is not True:
                self.value(node.orelse, when if test is False else (*when, opposite(str(test))), line, hops)
        elif isinstance(node, ast.Name) and self._names(node, hops):
            for value, under in self.bound[node.id]:
                self.value(value, (*when, *(w for w in under if w not in when)), line, hops + 1)
        elif isinstance(node, ast.Call):
            self.call(node, when, line, hops, place)
        else:
            self.add(V(unknown("value")), source_of(node), when, place)

    def _names(self, node: ast.Name, hops: int) -> bool:
        """Whether a name stands for expressions that are known."""
        values = self.bound.get(node.id, ())
        own = any(isinstance(value, ast.Name) and value.id == node.id for value, _under in values)
        return bool(values) and not (own and len(values) == 1) and hops < _HOPS

    def call(self, node: ast.Call, when: When, line: int, hops: int, place: Place) -> None:
        callee = node.func
        if isinstance(callee, ast.IfExp):
            arms = [
                ast.copy_location(ast.Call(arm, node.args, node.keywords), node)
                for arm in (callee.body, callee.orelse)
            ]
            choice = ast.copy_location(ast.IfExp(callee.test, *arms), node)
            self.value(choice, when, line, hops + 1)
            return
        if isinstance(callee, ast.Name) and self._names(callee, hops):
            for value, under in self.bound[callee.id]:
                call = ast.copy_location(ast.Call(value, node.args, node.keywords), node)
                self.value(call, (*when, *(w for w in under if w not in when)), line, hops + 1)
            return
        known = self.factory.program.ev(callee, self.frame)
        scalar = known.at(self.factory.target)
        several = scalar.options if isinstance(scalar, Unknown) and scalar.options else (scalar,)
        if not all(isinstance(one, (ClassRef, Function)) for one in several):
            self.add(known, source_of(callee), when, place)
            return
        for one in several:
            if isinstance(one, ClassRef):
                self.add(V(one), one.info.name, when, place)
                continue
            inner = self.factory.returned(one, when, self.depth + 1) if self.depth < DEPTH else []
            if inner:
                self.found += inner
            else:
                self.add(V(one), source_of(callee), when, place)

    def add(self, value: V, text: str, when: When, place: Place) -> None:
        unique = tuple(dict.fromkeys(when))
        self.found.append(Found(value, text, unique[-_CONDITIONS:], place))


def _captured(pattern: ast.AST) -> set[str]:
    """Names that a pattern of ``match`` binds."""
    names = {getattr(node, "name", None) or getattr(node, "rest", None) for node in ast.walk(pattern)}
    return {name for name in names if isinstance(name, str)}
