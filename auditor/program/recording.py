"""Gates as they are met."""

from __future__ import annotations

import ast
import copy
from typing import Any

from auditor.program import externals
from auditor.program.displays import ITEMS
from auditor.program.frames import Frame
from auditor.program.records import Learned, RawGate
from auditor.program.summaries import Summaries
from auditor.program.syntax import source_of
from auditor.program.values import (
    ClassRef,
    Function,
    Partial,
    Seq,
    Unknown,
    V,
    is_const,
    unknown,
)


class Recording(Summaries):
    """Recording conditions and values that depend on a root."""

    platform_gates = False

    def learn(self, name: str, module: Any, short: str, line: int, kind: str, value: V) -> None:
        """Note that a name carries a value that depends on a root."""
        if not value.roots & externals.ARCH_ROOTS:
            return
        old = self.learned.get(name)
        if old is not None:
            if old.value.roots >= value.roots and old.value.each is not None:
                return
            if value.each is None and old.value.each is not None:
                return
            if not self.informative(old.value) and self.informative(value):
                self.fresh.append(old)
            old.value = value
            return
        entry = Learned(name, module, short.rpartition(".")[2], line, kind, value)
        self.learned[name] = entry
        if (self.informative(value) or kind == "attribute") and not self.is_excluded(module.path):
            self.fresh.append(entry)
        if kind == "function":
            self._learn_aliases(entry)

    def _learn_aliases(self, entry: Learned) -> None:
        """Other names of the same module for the same function."""
        bound = entry.module.globals.get(entry.short) if entry.module is not None else None
        if bound is None or not isinstance(bound.one, (Function, Partial)):
            return
        for name, value in list(entry.module.globals.items()):
            if value.one is bound.one and name != entry.short:
                line = entry.module.places.get(name, (entry.line, ""))[0]
                self.learn(f"{entry.module.name}.{name}", entry.module, name, line, "function", entry.value)

    def informative(self, value: V) -> bool:
        """Whether a value can decide something: a constant or a yes/no, not some object or number that
        merely was computed with a device property."""
        return any(decides(scalar) for scalar in value.scalars())

    def record(self, kind: str, node: Any, test_node: Any, value: V, fr: Frame, body: Any = None) -> None:
        if fr.recorder is not None and (value.roots or fr.late):
            fr.recorder(kind, node, test_node, value, fr, body)

    def record_value(self, kind: str, node: Any, expr: ast.expr, value: V, fr: Frame) -> None:
        if fr.recorder is None or isinstance(expr, (ast.IfExp, ast.Lambda)):
            return
        if self.met_before(kind, node, fr) or (
            value.roots and (self.boolish(value, isinstance(expr, ast.Call)) or _is_logic(expr))
        ):
            fr.recorder(kind, node, expr, value, fr, None)

    def met_before(self, kind: str, node: Any, fr: Frame) -> bool:
        """Whether an earlier round of an unrolled loop has met a gate here: it is what all make of it."""
        return bool(fr.late) and (id(node), kind) in self.seen_nodes

    def record_argument(self, node: ast.expr, value: V, fr: Frame) -> None:
        if fr.recorder is None or isinstance(node, (ast.IfExp, ast.Lambda, ast.Starred)):
            return
        if self.met_before("argument", node, fr) or (
            value.roots and (self.boolish(value, isinstance(node, ast.Call)) or _is_logic(node))
        ):
            fr.recorder("argument", node, node, value, fr, None)

    def record_table(self, node: Any, table: V, key: V, fr: Frame) -> None:
        if fr.recorder is None or node is None:
            return
        from auditor.program.values import Map

        if not any(isinstance(s, Map) for s in table.scalars()):
            return
        present = self._zip(key, table, self._in)
        fr.recorder("table", node, node, present, fr, None)

    @staticmethod
    def boolish(value: V, called: bool = False) -> bool:
        """Whether a value is a yes or no on some target; ``called``: or what a function made of one."""
        for scalar in value.scalars():
            if isinstance(scalar, bool):
                return True
            if isinstance(scalar, Unknown):
                if called and scalar.answer:
                    return True
                if scalar.options and all(isinstance(o, bool) for o in scalar.options):
                    return True
        return False

    def _record_raw(self, kind: str, node: Any, test: Any, value: V, fr: Frame, body: Any) -> None:
        if self.sink is None:
            return
        if (id(node), kind) in self.seen_nodes:
            self._met_again(node, kind, value, fr)
            return
        if not value.roots & externals.ARCH_ROOTS and not (self.platform_gates and value.roots):
            return
        self.seen_nodes.add((id(node), kind))
        may, must = fr.may, fr.must
        if fr.late:  # the earlier rounds came by, and it was something else
            value = self.select(self.full, self.full, V(unknown("loop")), value, None)
            may, must = may | fr.late, 0
        then, other, rest = body, None, None
        if kind == "if":
            then, other = node.body, node.orelse
            if getattr(node, "is_elif", False):
                kind = "elif"
            if not other and fr.statement is not None:
                block, at = fr.statement
                if at < len(block) and block[at] is node:
                    rest = block[at + 1 :]
        elif kind == "ifexp":
            then, other = [node.body], [node.orelse]
        elif kind == "while":
            then, other = node.body, node.orelse
        self.sink.append(
            RawGate(
                module=fr.module,
                symbol=fr.symbol,
                kind=kind,
                node=node,
                test=test,
                value=value,
                may=may,
                must=must,
                body=then,
                orelse=other,
                rest=rest,
                canon=self.canonical(test, fr) if isinstance(test, ast.expr) else source_of(test),
            )
        )

    def _met_again(self, node: Any, kind: str, value: V, fr: Frame) -> None:
        """A gate in the body of an unrolled loop: it is what all rounds make of it."""
        for gate in reversed(self.sink or ()):
            if gate.node is node and (gate.kind == kind or (kind == "if" and gate.kind == "elif")):
                gate.value = self.select(gate.may or self.full, fr.may, gate.value, value, None)
                gate.may, gate.must = gate.may | fr.may, gate.must | fr.must
                return

    def canonical(self, node: ast.expr, fr: Frame) -> str:
        """The condition with every name that depends on a root replaced by one mark: renaming a predicate
        of the tree does not change it."""
        recorder, fr.recorder = fr.recorder, None
        nested, fr.nested = fr.nested, []
        raises, failed, env = fr.raises, fr.failed, fr.env
        state = fr.may, fr.must, fr.stay, fr.thrown
        fr.env = dict(env)

        def mark(n: Any) -> Any:
            if isinstance(n, (ast.Name, ast.Attribute, ast.Call)) and isinstance(
                getattr(n, "ctx", ast.Load()), ast.Load
            ):
                if isinstance(n, ast.Call) or not isinstance(
                    self.ev(n, fr).one, (Function, ClassRef, Partial)
                ):
                    if self.ev(n, fr).roots:
                        return ast.Name("§", ast.Load())
            fresh = copy.copy(n)
            for field, child in ast.iter_fields(n):
                if isinstance(child, ast.expr):
                    setattr(fresh, field, mark(child))
                elif isinstance(child, list) and child and isinstance(child[0], ast.expr):
                    setattr(fresh, field, [mark(c) for c in child])
            return fresh

        try:
            return source_of(mark(node))
        finally:
            fr.recorder, fr.nested, fr.env = recorder, nested, env
            fr.raises, fr.failed = raises, failed
            fr.may, fr.must, fr.stay, fr.thrown = state

    def _flush(self, key: tuple[str, Any], gates: list[RawGate]) -> None:
        self.raw[key] = gates  # type: ignore[index]
        if self.on_gate is not None:
            self.on_gate(key, gates)


def decides(scalar: Any) -> bool:
    """Whether a value, or an item of it, can settle a condition: a constant or a yes or no."""
    if isinstance(scalar, Seq):
        return any(item is not None and decides(item) for item in scalar.items)
    if isinstance(scalar, Unknown):
        if scalar.truth is not None or scalar.answer:
            return True
        if scalar.options is not None:
            return all(is_const(o) for o in scalar.options)
        # a parameter that receives such a value, or a sequence of such values
        return any(r.startswith(("argument ", ITEMS)) for r in scalar.reasons)
    return is_const(scalar)


def _is_logic(node: ast.expr) -> bool:
    """Whether an expression is a condition by its form."""
    return isinstance(node, (ast.BoolOp, ast.Compare)) or (
        isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not)
    )
