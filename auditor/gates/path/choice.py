"""From the name of a backend to the class behind it: factories followed to what they return.

A factory is read statement by statement for one target. Conditions that the evaluator decides are taken,
those that stay open are kept as the words under which an outcome holds.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable
from typing import Any

from auditor.gates.path.model import Outcome, Place
from auditor.gates.path.models import class_place
from auditor.gates.path.walk import DEPTH, Found, Walk, opposite
from auditor.program.source import Irregular
from auditor.program.syntax import source_of
from auditor.program.values import ClassRef, EnumMember, Function, Unknown, V, truth_of

Decide = Callable[[ast.expr, Any], "bool | None"]


class Factory:
    """Reads functions for one target (by its index). ``decide`` answers atoms that need outside facts."""

    def __init__(self, program: Any, target: int, decide: Decide | None = None) -> None:
        self.program = program
        self.target = target
        self.decide = decide
        self.depth = 0

    def outcomes(self, function: Function) -> tuple[Outcome, ...]:
        """The classes that instances returned by ``function`` may have, in source order, without doubles."""
        out: dict[tuple[str, str, tuple[str, ...]], Outcome] = {}
        for found in self.returned(function, (), 0):
            info = found.value.at(self.target)
            if isinstance(info, ClassRef):
                entry = Outcome(info.info.name, class_place(info.info), found.when, found.place)
            elif found.text == "None":
                continue
            else:
                entry = Outcome(found.text, None, found.when, found.place)
            key = (entry.name, entry.place.path if entry.place else "", entry.when)
            out.setdefault(key, entry)
        return tuple(out.values())

    def returned(self, function: Function, when: tuple[str, ...], depth: int) -> list[Found]:
        """What a function may return, calls of other functions of the tree replaced by what those return."""
        try:
            node: Any = function.segment.node()
        except Irregular:
            return []
        self.program.function_kind(function)
        frame = self.program._entry(function, node, None)
        walk = Walk(self, function, frame, depth)
        walk.body(node.body, when)
        return walk.found

    def truth(self, test: ast.expr, frame: Any) -> bool | str:
        """True or False where decided on the target, else the condition as text, without decided parts."""
        if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
            inner = self.truth(test.operand, frame)
            return not inner if isinstance(inner, bool) else opposite(inner)
        if isinstance(test, ast.BoolOp):
            is_and = isinstance(test.op, ast.And)
            left: list[str] = []
            for value in test.values:
                one = self.truth(value, frame)
                if isinstance(one, bool):
                    if one is not is_and:
                        return one
                    continue
                left.append(one)
            if not left:
                return is_and
            if len(left) == 1:
                return left[0]
            word = " and " if is_and else " or "
            return word.join(f"({part})" if " or " in part or " and " in part else part for part in left)
        if self.decide is not None:
            known = self.decide(test, frame)
            if known is not None:
                return known
        value = self.program.ev(test, frame)
        truth = truth_of(value.at(self.target))
        if truth is None:
            inlined = self.inlined(test, frame)
            if isinstance(inlined, bool):
                return inlined
        return truth if truth is not None else source_of(test)

    def inlined(self, test: ast.expr, frame: Any) -> bool | str | None:
        """A question that is a function of one ``return`` without parameters, asked in that function."""
        if not isinstance(test, ast.Call) or test.args or test.keywords or self.depth >= DEPTH:
            return None
        function = self.program.ev(test.func, frame).at(self.target)
        if not isinstance(function, Function) or function.owner is not None:
            return None
        try:
            node: Any = function.segment.node()
        except Irregular:
            return None
        body = [s for s in node.body if not (isinstance(s, ast.Expr) and isinstance(s.value, ast.Constant))]
        if len(body) != 1 or not isinstance(body[0], ast.Return) or body[0].value is None:
            return None
        self.depth += 1
        try:
            return self.truth(body[0].value, self.program._entry(function, node, None))
        finally:
            self.depth -= 1


def registered(program: Any, module_name: str, decorator: str, key: str) -> Function | None:
    """The function of a module that is registered under ``key`` by ``@decorator(key)``."""
    module = program.module(module_name)
    if module is None or decorator not in module.text:
        return None
    for segment in module.segments:
        if segment.kind != "def" or decorator not in (segment.text or decorator):
            continue
        try:
            node = segment.node()
        except Irregular:
            continue
        for deco in node.decorator_list:
            if (
                isinstance(deco, ast.Call)
                and source_of(deco.func).rpartition(".")[2] == decorator
                and any(isinstance(a, ast.Constant) and a.value == key for a in deco.args)
            ):
                value = program.global_value(module, segment.name)
                if value is not None and isinstance(value.one, Function):
                    return value.one
                return Function(module, segment.name, segment.name, segment, None, None)
    return None


def table_entry(
    program: Any, module_name: str, table: str, key: str, target: int
) -> tuple[Any, Place] | None:
    """The class that a table of a module holds for ``key``, and the line of that row.

    Rows are looked for in every dictionary written at the top of the module, the table's own first; those
    under a condition that is false on the target are left out.
    """
    module = program.module(module_name)
    if module is None:
        return None
    frame = program.module_frame(module)
    rows: list[tuple[bool, ast.expr]] = []

    def look(statements: Iterable[ast.stmt]) -> None:
        for node in statements:
            if isinstance(node, ast.If):
                truth = truth_of(program.ev(node.test, frame).at(target))
                if truth is not False:
                    look(node.body)
                if truth is not True:
                    look(node.orelse)
                continue
            if isinstance(node, (ast.FunctionDef, ast.ClassDef, ast.Import, ast.ImportFrom)):
                continue
            own = table in source_of(node)[: len(table) + 40]
            for child in ast.walk(node):
                if isinstance(child, ast.Dict):
                    rows.extend(
                        (own, value)
                        for name, value in zip(child.keys, child.values, strict=True)
                        if isinstance(name, ast.Constant) and name.value == key
                    )

    for segment in module.segments:
        if segment.kind == "other":
            look(segment.nodes())
    for _own, value in sorted(rows, key=lambda row: not row[0]):
        known = program.ev(value, frame)
        scalar = known.at(target)
        if isinstance(scalar, ClassRef):
            return scalar.info, Place(module.path, value.lineno)
    return None


def runner_facts(
    program: Any, module_name: str, symbol: str, readers: tuple[str, ...], value: str | None, target: int
) -> Decide:
    """Answers ``reader().is_name()`` and ``reader() == Runner.NAME`` for the runner that a start has."""
    member = _member(program, module_name, symbol, value)

    def is_reader(node: ast.expr) -> bool:
        return isinstance(node, ast.Call) and source_of(node.func).rpartition(".")[2] in readers

    def decide(test: ast.expr, frame: Any) -> bool | None:
        if member is None:
            return None
        if (
            isinstance(test, ast.Call)
            and isinstance(test.func, ast.Attribute)
            and is_reader(test.func.value)
            and not test.args
        ):
            found = member.info.find(test.func.attr)
            if found is None or not isinstance(found[1], Function):
                return None
            answer = program.call_function(found[1], [V(member)], {}, frame)
            return truth_of(answer.at(target))
        if isinstance(test, ast.Compare) and is_reader(test.left) and len(test.ops) == 1:
            other = program.ev(test.comparators[0], frame).at(target)
            if isinstance(other, Unknown):
                return None
            result = program.compare_one(test.ops[0], member, other)
            return truth_of(result)
        return None

    return decide


def _member(program: Any, module_name: str, symbol: str, value: str | None) -> EnumMember | None:
    module = program.module(module_name)
    if module is None or value is None:
        return None
    found = program.global_value(module, symbol)
    if found is None or not isinstance(found.one, ClassRef):
        return None
    for info in found.one.info.mro():
        info.load()
        for node in info.statements:
            if (
                isinstance(node, ast.Assign)
                and isinstance(node.value, ast.Constant)
                and node.value.value == value
                and isinstance(node.targets[0], ast.Name)
            ):
                return EnumMember(found.one.info, node.targets[0].id, value)
    return None


def argument_facts(program: Any, value: Callable[[str], Any], inner: Decide | None = None) -> Decide:
    """Answers comparisons of a server argument, wherever the tree keeps it (``get().part.NAME == "x"``).

    ``value`` gives the final value of an argument by name, Unknown where it is none or not known. The
    evaluator is asked first: this is for objects whose fields it cannot follow.
    """

    def decide(test: ast.expr, frame: Any) -> bool | None:
        if inner is not None:
            known = inner(test, frame)
            if known is not None:
                return known
        if not isinstance(test, ast.Compare) or len(test.ops) != 1:
            return None
        left = test.left
        if not isinstance(left, ast.Attribute) or source_of(left.value) in ("self", "cls"):
            return None
        given = value(left.attr)
        if isinstance(given, Unknown):
            return None
        other = program.ev(test.comparators[0], frame)
        return (
            None if other.each is not None else truth_of(program.compare_one(test.ops[0], given, other.one))
        )

    return decide


def layer_facts(layers: tuple[str, ...], inner: Decide | None = None) -> Decide:
    """Answers ``isinstance(layer, C)`` for a layer of these classes; ``inner`` answers the rest."""

    def decide(test: ast.expr, frame: Any) -> bool | None:
        if (
            isinstance(test, ast.Call)
            and isinstance(test.func, ast.Name)
            and test.func.id == "isinstance"
            and len(test.args) == 2
            and isinstance(test.args[0], ast.Name)
        ):
            asked = test.args[1].elts if isinstance(test.args[1], ast.Tuple) else [test.args[1]]
            return any(source_of(one).rpartition(".")[2] in layers for one in asked)
        return inner(test, frame) if inner is not None else None

    return decide
