"""The evaluator with loops over known items made exact, for code that only declares things.

Registrations and just-in-time builds loop over tables, collect lists and look at their own classes. What the
evaluator leaves open there to stay quick is followed here item by item, each target by itself.
"""

from __future__ import annotations

import ast
import operator
from dataclasses import dataclass
from typing import Any

from auditor.program.classes import ClassInfo
from auditor.program.frames import Frame
from auditor.program.program import Program
from auditor.program.values import (
    Bound,
    ClassRef,
    External,
    Function,
    Instance,
    Map,
    Method,
    Seq,
    Unknown,
    V,
    contains,
    make,
    same,
    unknown,
)

#: Items of a loop that is run item by item.
MAX_ITEMS = 512


@dataclass(frozen=True)
class Raised:
    """An exception that left its function: the text of its class, where, and on which targets."""

    what: str
    path: str
    line: int
    symbol: str
    may: int


@dataclass
class _Left:
    """How control left the current round of an exact loop."""

    frame: Frame
    rounds: list[tuple[int, int, int, dict[str, V]]]
    ends: list[tuple[int, int, int, dict[str, V]]]


class ExactProgram(Program):
    """The audited tree, followed more closely. ``raised`` collects exceptions as they are met."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.raised: list[Raised] = []
        self._exact: list[_Left | None] = []
        self._own: dict[int, tuple[Seq, Frame]] = {}

    def set_later(self, info: ClassInfo) -> bool:
        """No: records that declare a kernel are made where they stand, and read as they were made."""
        return False

    # -- by name -----------------------------------------------------------------------------------------

    def find(self, qualified: str) -> tuple[Any, V | None]:
        """The module and the value of a full name (``module.Class.method``), or None twice."""
        parts = qualified.split(".")
        for cut in range(len(parts) - 1, 0, -1):
            module = self.module(".".join(parts[:cut]))
            if module is None:
                continue
            value = self.global_value(module, parts[cut])
            for part in parts[cut + 1 :]:
                if value is None:
                    break
                value = self.attribute(value, part, self.module_frame(module))
            return module, value
        return None, None

    def ask(self, qualified: str) -> V:
        """What a function without arguments returns."""
        module, function = self.find(qualified)
        if module is None or function is None:
            return V(unknown(f"missing {qualified}"))
        return self.call(function, [], {}, self.module_frame(module))

    # -- exceptions --------------------------------------------------------------------------------------

    def _raise(self, node: ast.Raise, fr: Frame) -> None:
        if node.exc is not None and fr.may:
            called = node.exc.func if isinstance(node.exc, ast.Call) else node.exc
            self.raised.append(Raised(ast.unparse(called), fr.module.path, node.lineno, fr.symbol, fr.may))
        super()._raise(node, fr)

    # -- classes and objects ---------------------------------------------------------------------------

    def class_value(self, info: ClassInfo, name: str, fr: Frame) -> V | None:
        for owner in info.mro():  # attributes that the module assigns after the class
            held = owner.module.globals.get(f"{owner.name}.{name}")
            if held is not None:
                return held
        return super().class_value(info, name, fr)

    def attribute_of(self, scalar: Any, name: str, fr: Frame, node: ast.AST | None = None) -> V:
        if isinstance(scalar, ClassRef) and not scalar.open:
            if name == "__mro__":
                return V(Seq("tuple", tuple(ClassRef(info) for info in scalar.info.mro())))
            if name == "__dict__":
                return V(self._members(scalar.info))
        return super().attribute_of(scalar, name, fr, node)

    def _members(self, info: ClassInfo) -> Map:
        names = self.namespace(info)
        return Map(
            {**{n: V(f).one for n, f in info.functions.items()}, **{n: v.one for n, v in names.items()}}
        )

    def call_builtin(
        self, name: str, args: list[V], kwargs: dict[str, V], fr: Frame, node: ast.Call | None
    ) -> V:
        if name == "type" and len(args) == 1 and not kwargs:
            if all(isinstance(s, Instance) for s in args[0].scalars()):
                return self._map(args[0], lambda s: ClassRef(s.info))
        return super().call_builtin(name, args, kwargs, fr, node)

    def _super(self, fr: Frame) -> V:
        out = super()._super(fr)
        return V(External("base")) if isinstance(out.one, Unknown) else out

    def _is(self, a: Any, b: Any) -> Any:
        if isinstance(a, ClassRef) and isinstance(b, ClassRef) and not a.open and not b.open:
            return a.info is b.info
        return super()._is(a, b)

    def _boolop(self, node: ast.BoolOp, fr: Frame) -> V:
        """Operands that no target comes to are not evaluated: what they might raise is not raised."""
        first = self.ev(node.values[0], fr)
        true, false = self.truth(first)
        if not fr.may & (true if isinstance(node.op, ast.And) else false):
            return first
        return super()._boolop(node, fr)

    def _isinstance(self, a: Any, b: Any) -> Any:
        if isinstance(b, ClassRef) and (isinstance(a, Map) or (isinstance(a, Seq) and a.cls is None)):
            return False
        return super()._isinstance(a, b)

    @staticmethod
    def arith(op: Any, a: Any, b: Any) -> Any:
        if op is operator.or_ and isinstance(a, Seq) and isinstance(b, Seq) and a.kind == b.kind != "list":
            more = [item for item in b.items if not any(same(item, held) for held in a.items)]
            return Seq(a.kind, (*a.items, *more))
        return Program.arith(op, a, b)

    def enum_members(self, info: ClassInfo) -> list[Any] | None:
        """The members of an enumeration in order, or None if some are open."""
        out = []
        for name in self.namespace(info):
            if name.startswith("_"):
                continue
            value = self.class_value(info, name, self.module_frame(info.module))
            if value is None or value.each is not None or isinstance(value.one, Unknown):
                return None
            out.append(value.one)
        return out

    # -- loops over known items ------------------------------------------------------------------------

    def _items(self, value: V) -> list[Any] | None:
        scalar = value.one
        if value.each is not None:
            return None
        if isinstance(scalar, ClassRef) and scalar.info.is_enum():
            return self.enum_members(scalar.info)
        if isinstance(scalar, Seq) or (isinstance(scalar, Map) and not scalar.maybe):
            items = list(scalar.items)
            if len(items) <= MAX_ITEMS:
                return [Seq("tuple", i) if isinstance(i, tuple) else i for i in items]
        return None

    def _for(self, node: Any, fr: Frame) -> None:
        iterable = self.ev(node.iter, fr)
        items = self._items(iterable)
        if items is None:
            self._exact.append(None)
            super()._for(node, fr)
            self._exact.pop()
            return
        marker = V(unknown("loop"))
        ends: list[tuple[int, int, int, dict[str, V]]] = []
        for item in items:
            if not fr.may:
                break
            left = _Left(fr, [], ends)
            self._exact.append(left)
            self.assign(node.target, V(item, iterable.roots, iterable.via), fr, node)
            self.block(node.body, fr)
            self._exact.pop()
            self._join(left.rounds, marker, fr)
        self.block(node.orelse, fr)
        self._join(ends, marker, fr)

    def _join(self, ends: list[tuple[int, int, int, dict[str, V]]], marker: V, fr: Frame) -> None:
        for may, must, stay, env in ends:
            fr.env = self._merge(fr.may, fr.env, may, env, marker, fr) if fr.may else env
            fr.may, fr.must, fr.stay = fr.may | may, fr.must | must, fr.stay | stay

    def _while(self, node: ast.While, fr: Frame) -> None:
        self._exact.append(None)
        super()._while(node, fr)
        self._exact.pop()

    def _leave_loop(self, node: Any, fr: Frame) -> None:
        left = self._exact[-1] if self._exact else None
        if left is not None and left.frame is fr and fr.may:
            into = left.ends if isinstance(node, ast.Break) else left.rounds
            into.append((fr.may, fr.must, fr.stay, dict(fr.env)))
        super()._leave_loop(node, fr)

    def _unrolled(self, node: Any, fr: Frame, inner: Frame) -> V | None:
        """A comprehension over known items, filtered per target, or None."""
        if isinstance(node, ast.DictComp):
            return super()._unrolled(node, fr, inner)
        each: list[list[Any]] = [[] for _ in range(self.count)]
        if not self._expand(node, 0, self.full, fr, inner, each):
            return None
        kind = {ast.ListComp: "list", ast.SetComp: "set", ast.GeneratorExp: "list"}[type(node)]
        return make(tuple(Seq(kind, tuple(items)) for items in each))

    def _expand(
        self, node: Any, depth: int, mask: int, fr: Frame, inner: Frame, each: list[list[Any]]
    ) -> bool:
        """Add what the generators from ``depth`` on give where ``mask`` holds; False if that is open."""
        if depth == len(node.generators):
            value = self.ev(node.elt, inner)
            for i in range(self.count):
                if mask >> i & 1:
                    each[i].append(value.at(i))
            return sum(map(len, each)) <= MAX_ITEMS * self.count
        generator = node.generators[depth]
        for group, here in self._groups(self.ev(generator.iter, inner if depth else fr)):
            if not mask & here:
                continue
            items = self._items(V(group))
            if items is None:
                return False
            for item in items:
                self.assign(generator.target, V(item), inner)
                keep = mask & here
                for condition in generator.ifs:
                    true, false = self.truth(self.ev(condition, inner))
                    if true & false & keep:
                        return False
                    keep &= true
                if keep and not self._expand(node, depth + 1, keep, fr, inner, each):
                    return False
        return True

    def _groups(self, value: V) -> list[tuple[Any, int]]:
        """The different scalars of a value with the targets they hold on."""
        if value.each is None:
            return [(value.one, self.full)]
        out: list[tuple[Any, int]] = []
        for i, scalar in enumerate(value.each):
            for k, (other, mask) in enumerate(out):
                if other is scalar:
                    out[k] = (other, mask | 1 << i)
                    break
            else:
                out.append((scalar, 1 << i))
        return out

    # -- lists that grow -------------------------------------------------------------------------------

    def _sequence(self, node: Any, fr: Frame) -> V:
        out = super()._sequence(node, fr)
        if isinstance(out.one, Seq) and out.one.kind == "list":
            self._own[id(out.one)] = (out.one, fr)
        return out

    def call_method(
        self, f: Method, args: list[V], kwargs: dict[str, V], fr: Frame, node: ast.Call | None
    ) -> V:
        held = self._own.get(id(f.this))
        if f.name == "append" and len(args) == 1 and held is not None and held[0] is f.this:
            if held[1] is fr and self._append(f.this, args[0], fr):
                return V(None)
        return super().call_method(f, args, kwargs, fr, node)

    def _append(self, this: Seq, value: V, fr: Frame) -> bool:
        """Bind the names of a list that was made here to a longer one; False if others may hold it."""
        names = []
        for name, held in fr.env.items():
            if any(s is this for s in held.scalars()):
                names.append(name)
            elif any(contains(s, this) for s in held.scalars()):
                return False
        if len(names) != 1:
            return False
        held = fr.env[names[0]]
        longer: dict[int, Seq] = {}

        def grown(i: int) -> Any:
            scalar = held.at(i)
            if scalar is not this:
                return scalar
            item = value.at(i)
            known = longer.get(id(item))
            if known is None:
                known = longer[id(item)] = Seq("list", (*this.items, item))
                self._own[id(known)] = (known, fr)
            return known

        if held.each is None and value.each is None:
            fr.env[names[0]] = V(grown(0), held.roots, held.via)
        else:
            fr.env[names[0]] = V(None, held.roots, held.via, tuple(grown(i) for i in range(self.count)))
        return True


def function_of(scalar: Any) -> Function | None:
    """The function behind a function or bound method."""
    if isinstance(scalar, Bound):
        scalar = scalar.function
    return scalar if isinstance(scalar, Function) else None


__all__ = ["ExactProgram", "Raised", "function_of"]
