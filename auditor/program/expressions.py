"""Evaluation of expressions on all targets at once."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable
from typing import Any

from auditor.program.externals import CUDA_BUILD, CUDA_VERSION
from auditor.program.frames import Frame
from auditor.program.values import (
    EMPTY,
    Bound,
    ClassRef,
    EnumMember,
    External,
    Facts,
    Function,
    Instance,
    Map,
    Method,
    ModuleRef,
    Partial,
    Pending,
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
_BIG = 1 << 64


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


def short(node: ast.AST, limit: int = 60) -> str:
    """Source-like text of a node for a reason, cut to ``limit`` characters."""
    text = dotted(node) if isinstance(node, (ast.Name, ast.Attribute)) else None
    if text is None:
        text = " ".join(ast.unparse(node).split())
    return text if len(text) <= limit else text[: limit - 1] + "…"


class Expressions:
    """The part of the evaluator that turns an expression node into a :class:`V`."""

    full: int
    count: int
    steps: int

    # provided by the other parts of the evaluator
    attribute: Callable[..., V]
    name_value: Callable[..., V]
    evaluate_call: Callable[..., V]
    assign: Callable[..., None]

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

    # -- truth -------------------------------------------------------------------------------------

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

    # -- leaves ------------------------------------------------------------------------------------

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

    make_lambda: Callable[..., V]

    def _walrus(self, node: ast.NamedExpr, fr: Frame) -> V:
        value = self.ev(node.value, fr)
        self.assign(node.target, value, fr)
        return value

    # -- logic -------------------------------------------------------------------------------------

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
            other = self.ev(right, fr)
            fr.may = (may & stop) | fr.may
            fr.must, fr.stay = must & ~fr.thrown, stay & ~fr.thrown
            fr.thrown |= thrown
            value = self._connect(decided_by, other, is_and)
        return value

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
        return self._map(value, lambda s: self._arith1(op, s))

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

    def _ifexp(self, node: ast.IfExp, fr: Frame) -> V:
        test = self.ev(node.test, fr)
        self.record("ifexp", node, node.test, test, fr)
        t, f = self.truth(test)
        may, must, stay = fr.may, fr.must, fr.stay
        thrown, fr.thrown = fr.thrown, 0
        fr.may, fr.must = may & t, must & ~f
        a = self.ev(node.body, fr)
        may_a = fr.may
        fr.may, fr.must = may & f, must & ~t
        b = self.ev(node.orelse, fr)
        fr.may |= may_a
        fr.must, fr.stay = must & ~fr.thrown, stay & ~fr.thrown
        fr.thrown |= thrown
        return self.select(t, f, a, b, test)

    record: Callable[..., None]

    # -- comparison --------------------------------------------------------------------------------

    def _compare(self, node: ast.Compare, fr: Frame) -> V:
        left = self.ev(node.left, fr)
        result: V | None = None
        for op, right_node in zip(node.ops, node.comparators):
            right = self.ev(right_node, fr)
            link = self._zip(left, right, lambda x, y, op=op: self.compare_one(op, x, y))  # type: ignore[misc]
            if isinstance(op, (ast.Is, ast.IsNot)) and CUDA_VERSION in link.roots:
                link.roots = (link.roots - {CUDA_VERSION}) | {CUDA_BUILD}
            result = link if result is None else self._connect(result, link, True)
            left = right
        assert result is not None
        return result

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

    # -- arithmetic and text -----------------------------------------------------------------------

    def _binop(self, node: ast.BinOp, fr: Frame) -> V:
        a, b = self.ev(node.left, fr), self.ev(node.right, fr)
        op = _ARITH.get(type(node.op))
        if op is None:
            return V(unknown(f"value {short(node)}"), a.roots | b.roots, a.via | b.via)
        return self._zip(a, b, lambda x, y: self.arith(op, x, y))

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

    def _joined(self, node: ast.JoinedStr, fr: Frame) -> V:
        out = V("")
        for part in node.values:
            value = self.ev(part, fr)
            out = self._zip(out, value, lambda x, y: self.arith(operator.add, x, y))
        return out

    def _formatted(self, node: ast.FormattedValue, fr: Frame) -> V:
        value = self.ev(node.value, fr)
        plain = node.conversion == -1 and node.format_spec is None

        def fold(scalar: Any) -> Any:
            if plain and isinstance(scalar, (str, int, bool, float, type(None))):
                return str(scalar)
            return Unknown(reasons_of(scalar) or frozenset({"text"}))

        return self._map(value, fold)

    # -- containers --------------------------------------------------------------------------------

    def _sequence(self, node: Any, fr: Frame) -> V:
        kind = {ast.Tuple: "tuple", ast.List: "list", ast.Set: "set"}[type(node)]
        if isinstance(getattr(node, "ctx", None), (ast.Store, ast.Del)):
            return V(unknown("target"))
        roots = via = EMPTY
        parts: list[tuple[bool, V]] = []
        split = False
        for item in node.elts:
            value = self.ev(item, fr)
            roots, via = roots | value.roots, via | value.via
            split = split or value.each is not None
            parts.append((isinstance(item, ast.Starred), value))
        if len(parts) > 2000:
            return V(unknown("size"), roots, via)

        def build(i: int) -> Any:
            items: list[Any] = []
            for starred, value in parts:
                scalar = value.at(i)
                if starred:
                    if not isinstance(scalar, Seq):
                        return Unknown(reasons_of(scalar) or frozenset({"unpacking"}))
                    items.extend(scalar.items)
                else:
                    items.append(scalar)
            return Seq(kind, tuple(items))

        if not split:
            return V(build(0), roots, via)
        return make(tuple(build(i) for i in range(self.count)), roots, via)

    def _dict(self, node: ast.Dict, fr: Frame) -> V:
        roots = via = EMPTY
        pairs: list[tuple[V | None, V]] = []
        split = False
        for key_node, value_node in zip(node.keys, node.values):
            key = self.ev(key_node, fr) if key_node is not None else None
            value = self.ev(value_node, fr)
            for v in (key, value):
                if v is not None:
                    roots, via, split = roots | v.roots, via | v.via, split or v.each is not None
            pairs.append((key, value))

        def build(i: int) -> Any:
            out: dict[Any, Any] = {}
            maybe: dict[Any, frozenset[str]] = {}
            for key, value in pairs:
                scalar = value.at(i)
                if key is None:
                    if not isinstance(scalar, Map):
                        return Unknown(reasons_of(scalar) or frozenset({"unpacking"}))
                    for k, inner in scalar.items.items():
                        if k not in scalar.maybe:
                            maybe.pop(k, None)
                        elif k in out:
                            inner = join_scalars(out[k], inner)
                        else:
                            maybe[k] = scalar.maybe[k]
                        out[k] = inner
                    continue
                k = key.at(i)
                if isinstance(k, Seq):
                    k = k.plain() if k.kind == "tuple" else None
                    if k is None:
                        return unknown("dictionary key")
                elif not is_const(k) and not isinstance(k, ClassRef):
                    return Unknown(reasons_of(k) or frozenset({"dictionary key"}))
                out[k] = scalar
                maybe.pop(k, None)
            return Map(out, maybe)

        if not split:
            return V(build(0), roots, via)
        return make(tuple(build(i) for i in range(self.count)), roots, via)

    def _subscript(self, node: ast.Subscript, fr: Frame) -> V:
        base = self.ev(node.value, fr)
        if isinstance(node.slice, ast.Slice):
            return self._sliced(node, base, node.slice, fr)
        index = self.ev(node.slice, fr)
        if index.roots and isinstance(node.ctx, ast.Load):
            self.record_table(node, base, index, fr)
        out = self._zip(base, index, lambda b, k: self.item(b, k, node))
        if any(isinstance(s, Unknown) for s in out.scalars()):
            fr.raises += 1
        return out

    record_table: Callable[..., None]

    def item(self, base: Any, key: Any, node: ast.AST | None = None) -> Any:
        """``base[key]`` on one target."""
        if isinstance(base, Seq) and base.kind in ("tuple", "list"):
            if isinstance(key, int):
                try:
                    return base.items[key]
                except IndexError:
                    return unknown("index error")
        elif isinstance(base, Map):
            if isinstance(key, Seq):
                plain = key.plain()
                if plain is None:
                    return Unknown(
                        frozenset().union(*(reasons_of(k) for k in key.items)) or frozenset({"key"})
                    )
                key = plain
            if is_const(key) or isinstance(key, (tuple, ClassRef)):
                return base.items[key] if key in base.items else unknown("missing key")
        elif isinstance(base, str) and isinstance(key, int) and -len(base) <= key < len(base):
            return base[key]
        elif isinstance(base, External) and base.name == "os.environ":
            return self.environ_item(key)
        why = reasons_of(base) | reasons_of(key)
        return Unknown(why or frozenset({f"item {short(node)}" if node is not None else "item"}))

    def environ_item(self, key: Any) -> Any:
        """``os.environ[key]``; the part that knows the environment overrides this."""
        return unknown("env")

    def _sliced(self, node: ast.Subscript, base: V, cut: ast.Slice, fr: Frame) -> V:
        bounds: list[int | None] = []
        for part in (cut.lower, cut.upper, cut.step):
            if part is None:
                bounds.append(None)
                continue
            value = self.ev(part, fr)
            if value.each is not None or not isinstance(value.one, int):
                return V(
                    Unknown(all_reasons(base) | all_reasons(value) or frozenset({"slice"})),
                    base.roots,
                    base.via,
                )
            bounds.append(value.one)

        def fold(scalar: Any) -> Any:
            if isinstance(scalar, str):
                return scalar[slice(*bounds)]
            if isinstance(scalar, Seq) and scalar.kind in ("tuple", "list"):
                return Seq(scalar.kind, scalar.items[slice(*bounds)])
            return Unknown(reasons_of(scalar) or frozenset({"slice"}))

        if bounds[2] == 0:
            return V(unknown("slice"))
        return self._map(base, fold)

    def _comprehension(self, node: Any, fr: Frame) -> V:
        inner = Frame(
            fr.module,
            {},
            full=self.full,
            kind="function",
            owner=fr.owner,
            parent=fr,
            symbol=fr.symbol,
            recorder=fr.recorder,
            depth=fr.depth,
        )
        inner.this, inner.may, inner.must = fr.this, fr.may, 0
        inner.statement = fr.statement
        value = self._unrolled(node, fr, inner)
        if value is None:
            value = self._rounds(node, inner)
        if inner.raises:
            # no round may come to the call that raises, and a generator may never be asked
            fr.raises += 1
            fr.thrown |= inner.thrown
            fr.must, fr.stay = fr.must & ~inner.thrown, fr.stay & ~inner.thrown
        return value

    def _rounds(self, node: Any, inner: Frame) -> V:
        """A comprehension over anything: one round stands for all."""
        roots = via = EMPTY
        for generator in node.generators:
            self.ev(generator.iter, inner)
            self.assign(generator.target, V(unknown(f"loop {short(generator.target)}")), inner)
            for condition in generator.ifs:
                value = self.ev(condition, inner)
                self.record("comprehension", condition, condition, value, inner)
                roots, via = roots | value.roots, via | value.via
        for part in ("elt", "key", "value"):
            child = getattr(node, part, None)
            if child is not None:
                value = self.ev(child, inner)
                roots, via = roots | value.roots, via | value.via
        return V(unknown(f"comprehension {short(node, 40)}"), roots, via)

    def _unrolled(self, node: Any, fr: Frame, inner: Frame) -> V | None:
        """A comprehension over a known short sequence, or None."""
        if len(node.generators) != 1 or isinstance(node, ast.DictComp):
            return None
        generator = node.generators[0]
        iterable = self.ev(generator.iter, fr)
        if iterable.each is not None or not isinstance(iterable.one, (Seq, Map)):
            return None
        items = list(iterable.one.items)
        if isinstance(iterable.one, Map) and iterable.one.maybe:
            return None
        if len(items) > 32:
            return None
        kind = {ast.ListComp: "list", ast.SetComp: "set", ast.GeneratorExp: "list"}[type(node)]
        out: list[V] = []
        roots, via = iterable.roots, iterable.via
        for item in items:
            if isinstance(item, tuple):
                item = Seq("tuple", item)
            self.assign(generator.target, V(item), inner)
            keep = self.full
            for condition in generator.ifs:
                value = self.ev(condition, inner)
                t, f = self.truth(value)
                if t & f or (t and f):
                    return None
                keep &= t
            if keep:
                out.append(self.ev(node.elt, inner))
        split = any(v.each is not None for v in out)
        for v in out:
            roots, via = roots | v.roots, via | v.via
        if not split:
            return V(Seq(kind, tuple(v.one for v in out)), roots, via)
        return make(tuple(Seq(kind, tuple(v.at(i) for v in out)) for i in range(self.count)), roots, via)


__all__ = ["Expressions", "dotted", "short", "Instance", "Method", "Pending"]
