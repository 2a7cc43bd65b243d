"""Evaluation of expressions on all targets at once."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable
from typing import Any

from auditor.program.displays import Displays
from auditor.program.externals import CUDA_BUILD, CUDA_VERSION
from auditor.program.frames import Frame
from auditor.program.syntax import dotted, short
from auditor.program.values import (
    Unknown,
    V,
    unknown,
)

_ARITH: dict[type, Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.BitAnd: operator.and_,
    ast.BitOr: operator.or_,
    ast.BitXor: operator.xor,
    ast.LShift: operator.lshift,
    ast.RShift: operator.rshift,
    ast.Pow: operator.pow,
}


class Expressions(Displays):
    """The part of the evaluator that turns an expression node into a :class:`V`."""

    def __init__(self) -> None:
        self._expr: dict[type, Callable[[Any, Frame], V]] = {
            ast.Constant: self._constant,
            ast.Name: self._name,
            ast.Attribute: self._attribute,
            ast.Call: self._call,
            ast.BoolOp: self._boolop,
            ast.Compare: self._compare,
            ast.UnaryOp: self._unary,
            ast.BinOp: self._binop,
            ast.IfExp: self._ifexp,
            ast.Tuple: self._sequence,
            ast.List: self._sequence,
            ast.Set: self._sequence,
            ast.Dict: self._dict,
            ast.Subscript: self._subscript,
            ast.JoinedStr: self._joined,
            ast.FormattedValue: self._formatted,
            ast.Lambda: self._lambda,
            ast.ListComp: self._comprehension,
            ast.SetComp: self._comprehension,
            ast.GeneratorExp: self._comprehension,
            ast.DictComp: self._comprehension,
            ast.NamedExpr: self._walrus,
            ast.Starred: self._starred,
            ast.Await: self._opaque,
            ast.Yield: self._opaque,
            ast.YieldFrom: self._opaque,
            ast.Slice: self._slice,
        }

    def ev(self, node: ast.expr, fr: Frame) -> V:
        """Value of an expression. Never raises for what the source holds."""
        self.steps -= 1
        if self.steps < 0:
            return V(unknown("budget"))
        return self._expr[type(node)](node, fr)

    def _constant(self, node: ast.Constant, fr: Frame) -> V:
        return V(node.value)

    def _name(self, node: ast.Name, fr: Frame) -> V:
        return self.name_value(node.id, fr)

    def _attribute(self, node: ast.Attribute, fr: Frame) -> V:
        head = node.value
        while isinstance(head, ast.Attribute):
            head = head.value
        if isinstance(head, ast.Name):
            key = None
            frame: Frame | None = fr
            while frame is not None and frame.kind != "module":
                if head.id in frame.heads:
                    key = key or dotted(node) or ""
                    hit = frame.env.get(key)
                    if hit is not None:
                        return hit
                frame = frame.parent
        base = self.ev(node.value, fr)
        return self.attribute(base, node.attr, fr, node)

    def _call(self, node: ast.Call, fr: Frame) -> V:
        return self.evaluate_call(node, fr)

    def _opaque(self, node: Any, fr: Frame) -> V:
        if node.value is not None:
            self.ev(node.value, fr)
        fr.raises += 1
        return V(unknown(f"value {short(node)}"))

    def _starred(self, node: ast.Starred, fr: Frame) -> V:
        return self.ev(node.value, fr)

    def _slice(self, node: ast.Slice, fr: Frame) -> V:
        for part in (node.lower, node.upper, node.step):
            if part is not None:
                self.ev(part, fr)
        return V(unknown("slice"))

    def _lambda(self, node: ast.Lambda, fr: Frame) -> V:
        return self.make_lambda(node, fr)

    def _walrus(self, node: ast.NamedExpr, fr: Frame) -> V:
        value = self.ev(node.value, fr)
        self.assign(node.target, value, fr)
        return value

    def _boolop(self, node: ast.BoolOp, fr: Frame) -> V:
        is_and = isinstance(node.op, ast.And)
        value = self.ev(node.values[0], fr)
        for right in node.values[1:]:
            decided_by = value
            may, must, stay = fr.may, fr.must, fr.stay
            t, f = self.truth(value)
            go, stop = (t, f) if is_and else (f, t)
            thrown, fr.thrown = fr.thrown, 0
            fr.may, fr.must = may & go, must & ~stop
            counts = fr.raises, fr.failed
            other = self.ev(right, fr)
            if not may & go:  # it is not asked
                fr.raises, fr.failed = counts
            fr.may = (may & stop) | fr.may
            fr.must, fr.stay = must & ~fr.thrown, stay & ~fr.thrown
            fr.thrown |= thrown
            value = self._connect(decided_by, other, is_and)
        return value

    def _unary(self, node: ast.UnaryOp, fr: Frame) -> V:
        value = self.ev(node.operand, fr)
        if isinstance(node.op, ast.Not):
            return self._map(value, self._not)
        ops: dict[type, Callable[[Any], Any]] = {
            ast.USub: operator.neg,
            ast.UAdd: operator.pos,
            ast.Invert: operator.invert,
        }
        op = ops[type(node.op)]
        return self._checked(self._map(value, lambda s: self._arith1(op, s)), fr)

    @staticmethod
    def _checked(value: V, fr: Frame) -> V:
        """What came out of an operation that raises on what it is not made for."""
        if any(isinstance(s, Unknown) for s in value.scalars()):
            fr.fail()
        return value

    def _ifexp(self, node: ast.IfExp, fr: Frame) -> V:
        test = self.ev(node.test, fr)
        self.record("ifexp", node, node.test, test, fr)
        t, f = self.truth(test)
        may, must, stay = fr.may, fr.must, fr.stay
        thrown, fr.thrown = fr.thrown, 0
        fr.may, fr.must = may & t, must & ~f
        counts = fr.raises, fr.failed
        a = self.ev(node.body, fr)
        if not may & t:
            fr.raises, fr.failed = counts
        may_a = fr.may
        fr.may, fr.must = may & f, must & ~t
        counts = fr.raises, fr.failed
        b = self.ev(node.orelse, fr)
        if not may & f:
            fr.raises, fr.failed = counts
        fr.may |= may_a
        fr.must, fr.stay = must & ~fr.thrown, stay & ~fr.thrown
        fr.thrown |= thrown
        return self.select(t, f, a, b, test)

    def _compare(self, node: ast.Compare, fr: Frame) -> V:
        left = self.ev(node.left, fr)
        result: V | None = None
        for op, right_node in zip(node.ops, node.comparators):
            right = self.ev(right_node, fr)
            link = self._zip(left, right, lambda x, y, op=op: self.compare_one(op, x, y))  # type: ignore[misc]
            if not isinstance(op, (ast.Is, ast.IsNot, ast.Eq, ast.NotEq)):
                self._checked(link, fr)
            if isinstance(op, (ast.Is, ast.IsNot)) and CUDA_VERSION in link.roots:
                link.roots = (link.roots - {CUDA_VERSION}) | {CUDA_BUILD}
            result = link if result is None else self._connect(result, link, True)
            left = right
        assert result is not None
        return result

    def _binop(self, node: ast.BinOp, fr: Frame) -> V:
        a, b = self.ev(node.left, fr), self.ev(node.right, fr)
        op = _ARITH.get(type(node.op))
        if op is None:
            return V(unknown(f"value {short(node)}"), a.roots | b.roots, a.via | b.via)
        return self._checked(self._zip(a, b, lambda x, y: self.arith(op, x, y)), fr)
