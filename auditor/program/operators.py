"""Truth, comparison and arithmetic of values on all targets at once."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable
from typing import Any

from auditor.program.parts import Parts
from auditor.program.values import (
    EMPTY,
    Bound,
    ClassRef,
    EnumMember,
    External,
    Facts,
    Function,
    Map,
    ModuleRef,
    Partial,
    Seq,
    Unknown,
    V,
    all_reasons,
    is_const,
    join_scalars,
    make,
    options_of,
    reasons_of,
    same,
    truth_of,
    unknown,
)

_ORDER: dict[type, Callable[[Any, Any], bool]] = {
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
}
_BIG = 1 << 64


class Operators(Parts):
    """What operators do to a :class:`V`."""

    def truth(self, value: V) -> tuple[int, int]:
        """Masks of the targets on which a value may be true, and may be false."""
        if value.each is None:
            t = truth_of(value.one)
            if t is None:
                return self.full, self.full
            return (self.full, 0) if t else (0, self.full)
        may_true = may_false = 0
        for i, scalar in enumerate(value.each):
            t = truth_of(scalar)
            if t is not False:
                may_true |= 1 << i
            if t is not True:
                may_false |= 1 << i
        return may_true, may_false

    def select(self, mask_a: int, mask_b: int, a: V, b: V, test: V | None) -> V:
        """The value where ``a`` may hold on ``mask_a`` and ``b`` on ``mask_b``."""
        if a is b:
            return a
        if mask_a and not mask_b:
            if a.each is None:
                return self._decided(a, test)
        elif mask_b and not mask_a:
            if b.each is None:
                return self._decided(b, test)
        why = all_reasons(test) if test is not None else EMPTY
        if mask_a == self.full and mask_b == self.full and a.each is None and b.each is None:
            out = V(join_scalars(a.one, b.one, why))
        else:
            each = []
            for i in range(self.count):
                bit = 1 << i
                if mask_a & bit:
                    each.append(join_scalars(a.at(i), b.at(i), why) if mask_b & bit else a.at(i))
                elif mask_b & bit:
                    each.append(b.at(i))
                else:
                    each.append(None)  # never here: any scalar will do
            dead = ~(mask_a | mask_b) & self.full
            if dead and dead != self.full:
                alive = next(each[i] for i in range(self.count) if not dead >> i & 1)
                each = [alive if dead >> i & 1 else e for i, e in enumerate(each)]
            out = make(tuple(each))
        out.roots, out.via = a.roots | b.roots, a.via | b.via
        if test is not None and test.roots and any(self.telling(s) for s in out.scalars()):
            out.roots, out.via = out.roots | test.roots, out.via | test.via
        return out

    @staticmethod
    def telling(scalar: Any) -> bool:
        """Whether control dependence shows in a scalar: a constant, or one of few constants."""
        if isinstance(scalar, Unknown):
            return scalar.options is not None or scalar.truth is not None
        return is_const(scalar) or isinstance(scalar, (Seq, External, ClassRef, Function))

    def _decided(self, value: V, test: V | None) -> V:
        if test is None or not test.roots or not self.telling(value.one):
            return value
        return V(value.one, value.roots | test.roots, value.via | test.via)

    def _connect(self, a: V, b: V, is_and: bool) -> V:
        roots, via = a.roots | b.roots, a.via | b.via
        if a.each is None and b.each is None:
            return V(self._connect_one(a.one, b.one, is_and), roots, via)
        each = tuple(self._connect_one(a.at(i), b.at(i), is_and) for i in range(self.count))
        return make(each, roots, via)

    @staticmethod
    def _connect_one(a: Any, b: Any, is_and: bool) -> Any:
        ta = truth_of(a)
        if ta is not None:
            return b if ta == is_and else a
        tb = truth_of(b)
        # a is open: the result is a or b, but its truth may be decided by b alone
        reasons = reasons_of(a) | (reasons_of(b) if tb is None else EMPTY)
        oa, ob = options_of(a), options_of(b)
        options = None
        if oa is not None and ob is not None:
            kept = [o for o in oa if truth_of(o) != is_and] + [o for o in ob]
            options = tuple(kept) if len(kept) <= 8 else None
        out = Unknown(reasons, options, tb if tb is not None and tb != is_and else None)
        out.answer = isinstance(b, bool) or (
            isinstance(b, Unknown) and (b.answer or b.options == (True, False))
        )
        return out

    @staticmethod
    def _not(scalar: Any) -> Any:
        t = truth_of(scalar)
        if t is None:
            return Unknown(reasons_of(scalar) or frozenset({f"truth of {scalar!r}"[:60]}), (True, False))
        return not t

    @staticmethod
    def _arith1(op: Callable[[Any], Any], scalar: Any) -> Any:
        if isinstance(scalar, (int, float)):
            return (
                op(scalar) if not (isinstance(scalar, float) and op is operator.invert) else unknown("type")
            )
        return Unknown(reasons_of(scalar) or frozenset({"operand"}))

    def _map(self, value: V, fn: Callable[[Any], Any]) -> V:
        if value.each is None:
            return V(fn(value.one), value.roots, value.via)
        return make(tuple(fn(s) for s in value.each), value.roots, value.via)

    def _zip(self, a: V, b: V, fn: Callable[[Any, Any], Any]) -> V:
        roots, via = a.roots | b.roots, a.via | b.via
        if a.each is None and b.each is None:
            return V(fn(a.one, b.one), roots, via)
        return make(tuple(fn(a.at(i), b.at(i)) for i in range(self.count)), roots, via)

    def compare_one(self, op: ast.cmpop, a: Any, b: Any) -> Any:
        """One comparison link on one target: True, False or Unknown."""
        if isinstance(op, (ast.Is, ast.IsNot)):
            answer = self._is(a, b)
            return answer if isinstance(answer, Unknown) or isinstance(op, ast.Is) else not answer
        if isinstance(op, (ast.In, ast.NotIn)):
            answer = self._in(a, b)
            return answer if isinstance(answer, Unknown) or isinstance(op, ast.In) else not answer
        if isinstance(op, (ast.Eq, ast.NotEq)):
            answer = self._equal(a, b)
            return answer if isinstance(answer, Unknown) or isinstance(op, ast.Eq) else not answer
        return self._ordered(_ORDER[type(op)], a, b)

    @staticmethod
    def _open(a: Any, b: Any) -> Unknown:
        why = reasons_of(a) | reasons_of(b)
        return Unknown(why or frozenset({"comparison"}), (True, False))

    def _equal(self, a: Any, b: Any) -> Any:
        if isinstance(a, Unknown) or isinstance(b, Unknown):
            oa, ob = options_of(a), options_of(b)
            if oa is not None and ob is not None:
                answers = {self._equal(x, y) for x in oa for y in ob}
                if len(answers) == 1:
                    return answers.pop()
            return self._open(a, b)
        if isinstance(a, Seq) and isinstance(b, Seq):
            if a.kind != b.kind:
                return self._open(a, b) if {a.kind, b.kind} <= {"set", "frozenset"} else False
            if a.kind in ("set", "frozenset"):
                pa, pb = a.plain(), b.plain()
                if pa is None or pb is None:
                    return self._open(a, b)
                return set(pa) == set(pb)
            if len(a.items) != len(b.items):
                return False
            open_ = None
            for x, y in zip(a.items, b.items):
                link = self._equal(x, y)
                if link is False:
                    return False
                if isinstance(link, Unknown):
                    open_ = link
            return True if open_ is None else open_
        if is_const(a) and is_const(b):
            if isinstance(a, EnumMember) or isinstance(b, EnumMember):
                return self._equal_enum(a, b)
            return bool(a == b)
        if (a is None or b is None) and not isinstance(a, (Facts,)) and not isinstance(b, (Facts,)):
            other = b if a is None else a
            if isinstance(other, (Seq, Map, Function, ClassRef, ModuleRef, Partial, Bound)):
                return False
        return self._open(a, b)

    @staticmethod
    def _equal_enum(a: Any, b: Any) -> Any:
        if isinstance(a, EnumMember) and isinstance(b, EnumMember):
            return a == b
        member, other = (a, b) if isinstance(a, EnumMember) else (b, a)
        names = {n for info in member.info.mro() for n in info.base_names()}
        if names & {"str", "int", "StrEnum", "IntEnum"}:
            return bool(member.value == other) if is_const(member.value) else unknown("enum value")
        return False

    def _is(self, a: Any, b: Any) -> Any:
        if b is None or a is None:
            other = a if b is None else b
            if other is None:
                return True
            if isinstance(other, Unknown):
                if other.options is not None:
                    answers = {o is None for o in other.options}
                    if len(answers) == 1:
                        return answers.pop()
                if other.truth is True:
                    return False
                return Unknown(other.reasons, (True, False))
            if isinstance(other, Facts):
                return False
            return False
        if isinstance(a, Unknown) or isinstance(b, Unknown):
            return self._equal(a, b)
        if isinstance(a, (bool, EnumMember)) or isinstance(b, (bool, EnumMember)):
            return same(a, b) if is_const(a) and is_const(b) else self._open(a, b)
        if same(a, b) and isinstance(a, (ClassRef, Function, ModuleRef)):
            return True
        return self._open(a, b)

    def _in(self, a: Any, b: Any) -> Any:
        if isinstance(b, Unknown):
            return self._open(a, b)
        if isinstance(b, (Seq, Map)):
            items = b.items if isinstance(b, Seq) else tuple(b.items)
            open_ = None
            for item in items:
                link = self._equal(a, item)
                if link is True and isinstance(b, Map) and item in b.maybe:
                    link = Unknown(b.maybe[item] or frozenset({"dictionary key"}))
                if link is True:
                    return True
                if isinstance(link, Unknown):
                    open_ = link
            return False if open_ is None else open_
        if isinstance(a, str) and isinstance(b, str):
            return a in b
        return self._open(a, b)

    def _ordered(self, op: Callable[[Any, Any], bool], a: Any, b: Any) -> Any:
        if isinstance(a, Unknown) or isinstance(b, Unknown):
            oa, ob = options_of(a), options_of(b)
            if oa is not None and ob is not None:
                answers = {self._ordered(op, x, y) for x in oa for y in ob}
                if len(answers) == 1:
                    return answers.pop()
            return self._open(a, b)
        if isinstance(a, Seq) and isinstance(b, Seq) and a.kind == b.kind and a.kind in ("tuple", "list"):
            for x, y in zip(a.items, b.items):
                link = self._equal(x, y)
                if isinstance(link, Unknown):
                    return link
                if link is False:
                    return self._ordered(op, x, y)
            return op(len(a.items), len(b.items))
        if is_const(a) and is_const(b) and not isinstance(a, EnumMember) and not isinstance(b, EnumMember):
            try:
                return bool(op(a, b))
            except TypeError:
                return unknown("type error")
        return self._open(a, b)

    @staticmethod
    def arith(op: Callable[[Any, Any], Any], a: Any, b: Any) -> Any:
        """Arithmetic on constants; everything large or mixed is unknown."""
        if isinstance(a, Seq) and isinstance(b, Seq) and op is operator.add and a.kind == b.kind:
            return Seq(a.kind, a.items + b.items) if len(a.items) + len(b.items) <= 1000 else unknown("size")
        if isinstance(a, Seq) and isinstance(b, Seq) and op in (operator.or_, operator.and_, operator.sub):
            pa, pb = a.plain(), b.plain()
            if pa is not None and pb is not None and a.kind in ("set", "frozenset"):
                return Seq(a.kind, tuple(sorted(op(set(pa), set(pb)), key=repr)))
        if isinstance(a, Unknown) or isinstance(b, Unknown) or not (is_const(a) and is_const(b)):
            return Unknown(reasons_of(a) | reasons_of(b) or frozenset({"operand"}))
        if isinstance(a, EnumMember) or isinstance(b, EnumMember):
            return unknown("enum arithmetic")
        if op in (operator.pow, operator.lshift) and not (
            isinstance(a, int) and isinstance(b, int) and 0 <= b <= 64 and abs(a) < _BIG
        ):
            return unknown("size")
        if op is operator.mul and isinstance(a, (str, bytes)) != isinstance(b, (str, bytes)):
            n = b if isinstance(a, (str, bytes)) else a
            if not isinstance(n, int) or n > 1000:
                return unknown("size")
        if op is operator.mod and isinstance(a, (str, bytes)):
            return unknown("text formatting")
        try:
            out = op(a, b)
        except (TypeError, ValueError, ZeroDivisionError, OverflowError):
            return unknown("arithmetic error")
        if isinstance(out, int) and abs(out) > _BIG * _BIG:
            return unknown("size")
        return out
