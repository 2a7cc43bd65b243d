"""Methods of Python's own types and its built-in functions."""

from __future__ import annotations

import ast
from typing import Any

from auditor.program import externals
from auditor.program.attributes import Attributes
from auditor.program.classes import ClassInfo
from auditor.program.frames import Frame
from auditor.program.syntax import MUTATORS
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
    is_const,
    is_ordered,
    is_sized,
    join_scalars,
    make,
    reasons_of,
    set_of,
    truth_of,
    unknown,
)

_STR_METHODS = frozenset(
    "split rsplit startswith endswith lower upper strip lstrip rstrip replace partition rpartition isdigit "
    "title capitalize removeprefix removesuffix find count join isnumeric isalpha casefold splitlines".split()
)
_FOLD = frozenset(
    "bool len tuple list set frozenset dict map int float str abs round repr max min sum sorted reversed"
    " range type callable zip enumerate iter next".split()
)


#: What goes through its arguments item by item and gives something that depends on their order.
_IN_ORDER = frozenset("tuple list map reversed zip enumerate next".split())


class Builtin(Attributes):
    """Calls whose meaning is Python's own."""

    def call_method(
        self, f: Method, args: list[V], kwargs: dict[str, V], fr: Frame, node: ast.Call | None
    ) -> V:
        """Methods of strings, sequences and dictionaries."""
        this, name = f.this, f.name
        roots, via = self._provenance(args)
        if name in MUTATORS:
            self.touch(this, fr)
            if name in ("setdefault", "pop", "popitem", "remove"):
                fr.fail()
                return V(unknown(f"call {name}()"), roots, via)
        if isinstance(this, Map):
            if name == "get" and args:
                if args[0].roots:
                    self.record_table(node, V(this), args[0], fr)
                default = args[1] if len(args) > 1 else V(None)
                return self._zip(
                    args[0],
                    default,
                    lambda k, d: self._map_get(this, k, d),
                ).with_provenance(roots, via)
            if this.maybe and name in ("keys", "values", "items"):
                return V(unknown(f"{name}() of an open dictionary"))
            if name == "keys":
                return V(
                    Seq("tuple", tuple(Seq("tuple", k) if isinstance(k, tuple) else k for k in this.items))
                )
            if name == "values":
                return V(Seq("tuple", tuple(this.items.values())))
            if name == "items":
                return V(Seq("tuple", tuple(Seq("tuple", (k, v)) for k, v in this.items.items())))
            if name == "copy":
                return V(this)
        elif isinstance(this, Seq):
            if name == "copy":
                return V(this)
            if name in ("union", "intersection", "difference") and len(args) == 1:
                import operator

                op = {"union": operator.or_, "intersection": operator.and_, "difference": operator.sub}[name]
                return self._map(args[0], lambda s: self.arith(op, this, s))
        elif isinstance(this, str) and name in _STR_METHODS and not kwargs:
            return self._lift(lambda *a: self._str_method(this, name, a), args)
        if name not in MUTATORS:
            fr.raises += 1
        return V(unknown(f"call {name}()"), roots, via)

    def _lift(self, fn: Any, args: list[V]) -> V:
        roots, via = self._provenance(args)
        if all(a.each is None for a in args):
            return V(fn(*(a.one for a in args)), roots, via)
        return make(tuple(fn(*(a.at(i) for a in args)) for i in range(self.count)), roots, via)

    @staticmethod
    def _map_get(this: Map, key: Any, default: Any) -> Any:
        if not this.items:
            return default
        if isinstance(key, Seq):
            plain = key.plain()
            if plain is None:
                return Unknown(_inner_reasons(key) or frozenset({"dictionary key"}))
            key = plain
        if is_const(key) or isinstance(key, (tuple, ClassRef)):
            if key in this.maybe:
                return join_scalars(this.items[key], default, this.maybe[key])
            return this.items.get(key, default)
        return Unknown(reasons_of(key) or frozenset({"dictionary key"}))

    @staticmethod
    def _str_method(this: str, name: str, args: tuple[Any, ...]) -> Any:
        plain: list[Any] = []
        for a in args:
            if isinstance(a, Seq):
                if not is_ordered(a):
                    return unknown("order of a set")
                items = a.plain()
                if items is None:
                    return Unknown(
                        frozenset().union(*(reasons_of(x) for x in a.items)) or frozenset({"text"})
                    )
                plain.append(items)
            elif is_const(a) and not isinstance(a, EnumMember):
                plain.append(a)
            else:
                return Unknown(reasons_of(a) or frozenset({"text"}))
        if len(this) > 10000:
            return unknown("size")
        try:
            out = getattr(this, name)(*plain)
        except (TypeError, ValueError):
            return unknown("text error")
        if isinstance(out, list):
            return Seq("list", tuple(out))
        if isinstance(out, tuple):
            return Seq("tuple", out)
        return out

    def call_builtin(
        self, name: str, args: list[V], kwargs: dict[str, V], fr: Frame, node: ast.Call | None
    ) -> V:
        args = [self.resolve(a.one) if type(a.one) is Pending else a for a in args]
        if name == "getattr" and len(args) >= 2 and args[1].each is None and isinstance(args[1].one, str):
            return self._getattr(args, fr)
        if name == "hasattr" and len(args) == 2 and isinstance(args[1].one, str):
            attr = args[1].one
            return self._map_v(args[0], lambda s: self._hasattr(s, attr, fr))
        if name == "isinstance" and len(args) == 2:
            return self._zip(args[0], args[1], self._isinstance)
        if name in ("any", "all") and len(args) == 1:
            return self._map(args[0], lambda s: self._anyall(name, s))
        if name == "super":
            return self._super(fr)
        if name == "print":
            return V(None)
        if name == "object.__getattribute__" and len(args) == 2 and isinstance(args[1].one, str):
            return self._map_v(args[0], lambda s: self._plain_attribute(s, args[1].one, fr))
        if name == "object.__setattr__" and len(args) == 3:
            obj, key = args[0].one, args[1].one
            if isinstance(obj, Instance) and obj.attrs is not None and isinstance(key, str):
                obj.attrs[key] = args[2]
            return V(None)
        if name in ("object",):
            return V(External("builtins.object()"))
        if name == "setattr":
            for key in [k for k in fr.env if "." in k]:
                del fr.env[key]
            return V(None)
        if kwargs and name not in ("dict", "sorted", "max", "min"):
            fr.raises += 1
            return V(unknown(f"call {name}()"))
        if name == "dict" and not args:
            if all(v.each is None for v in kwargs.values()):
                return V(Map({k: v.one for k, v in kwargs.items()}), *self._provenance(list(kwargs.values())))
        if name in _FOLD and not (kwargs and name != "dict"):
            out = self._lift(lambda *a: self._fold(name, a, fr), args)
            if any(isinstance(s, Unknown) for s in out.scalars()):
                fr.fail()
            return out
        fr.raises += 1
        roots, via = self._provenance(args) if name in ("max", "min", "sorted") else (EMPTY, EMPTY)
        return V(unknown(f"call {name}()"), roots, via)

    def _map_v(self, value: V, fn: Any) -> V:
        if value.each is None:
            out: V = fn(value.one)
            return V(out.one, out.roots | value.roots, out.via | value.via, out.each)
        parts = [fn(s) for s in value.each]
        roots, via = value.roots, value.via
        for p in parts:
            roots, via = roots | p.roots, via | p.via
        return make(tuple(p.at(i) for i, p in enumerate(parts)), roots, via)

    def _getattr(self, args: list[V], fr: Frame) -> V:
        attr = args[1].one
        if len(args) == 2:
            return self.attribute(args[0], attr, fr)
        default = args[2]

        def one(scalar: Any) -> V:
            present = self._hasattr(scalar, attr, fr)
            p = truth_of(present.one)
            if p is False:
                return default
            value = self.attribute_of(scalar, attr, fr)
            if p is True:
                return value
            return self.select(self.full, self.full, value, default, present)

        return self._map_v(args[0], one)

    def _hasattr(self, scalar: Any, attr: str, fr: Frame) -> V:
        if isinstance(scalar, External):
            full = f"{scalar.name}.{attr}"
            if full in externals.ABSENT:
                return V(False)
            if full in externals.FIXED_ATTRS or full in (externals.CUDA_VERSION, externals.HIP_VERSION):
                return V(True)
            if full in ("torch.cuda", "torch.version", "torch.cpu", "torch.xpu", "torch.backends"):
                return V(True)
            return V(Unknown(frozenset({f"hasattr {full}"}), (True, False)))
        if isinstance(scalar, ModuleRef):
            return V(self.global_value(scalar.module, attr) is not None)
        if isinstance(scalar, Instance):
            info = scalar.info
            if info.find(attr) or self.class_value(info, attr, fr) is not None:
                return V(True)
            if scalar.attrs is not None and attr in scalar.attrs:
                return V(True)
            return V(Unknown(frozenset({f"hasattr {info.name}.{attr}"}), (True, False)))
        if isinstance(scalar, Facts):
            return (
                V(True) if attr in scalar.known else V(Unknown(frozenset({f"hasattr {attr}"}), (True, False)))
            )
        if scalar is None:
            return V(False)
        return V(Unknown(reasons_of(scalar) or frozenset({f"hasattr {attr}"}), (True, False)))

    def _isinstance(self, a: Any, b: Any) -> Any:
        if isinstance(b, Seq):
            answers = [self._isinstance(a, item) for item in b.items]
            if any(x is True for x in answers):
                return True
            return False if all(x is False for x in answers) else answers[-1]
        if isinstance(a, Instance) and isinstance(b, ClassRef):
            if b.info in a.info.mro():
                return True
            if a.attrs is not None and a.info.closed():
                return False
        if isinstance(b, External) and b.name.startswith("builtins.") and is_const(a):
            kinds = {
                "int": int,
                "str": str,
                "bool": bool,
                "float": float,
                "tuple": tuple,
                "list": list,
                "dict": dict,
            }
            kind = kinds.get(b.name[9:])
            if kind is not None and not isinstance(a, EnumMember):
                return isinstance(a, kind)
        if isinstance(b, External) and isinstance(a, Map) and b.name.startswith("builtins."):
            return b.name in ("builtins.dict", "builtins.object")
        if isinstance(b, External) and isinstance(a, Seq) and b.name in ("builtins.tuple", "builtins.list"):
            return b.name.endswith(a.kind)
        return Unknown(reasons_of(a) | reasons_of(b) or frozenset({"isinstance"}), (True, False))

    @staticmethod
    def _anyall(name: str, scalar: Any) -> Any:
        items = scalar.items if isinstance(scalar, Seq) else None
        if items is None:
            return Unknown(reasons_of(scalar) or frozenset({name}), (True, False))
        stop = name == "any"
        open_: frozenset[str] | None = None
        for item in items:
            t = truth_of(item)
            if t is stop:
                return stop
            if t is None:
                open_ = (open_ or EMPTY) | reasons_of(item)
        return (not stop) if open_ is None else Unknown(open_ or frozenset({name}), (True, False))

    def _super(self, fr: Frame) -> V:
        frame: Frame | None = fr
        while frame is not None and frame.owner is None:
            frame = frame.parent
        if frame is None or frame.owner is None:
            return V(unknown("super()"))
        for base in frame.owner.bases():
            if isinstance(base, ClassInfo):
                return V(Instance(base, None))
        return V(unknown("super()"))

    def _fold(self, name: str, args: tuple[Any, ...], fr: Frame) -> Any:
        for a in args:
            if isinstance(a, Unknown):
                if name == "bool" and truth_of(a) is not None:
                    return truth_of(a)
                return Unknown(a.reasons, (True, False) if name == "bool" else None)
        return _fold_plain(name, args)

    @staticmethod
    def _provenance(args: list[V]) -> tuple[frozenset[str], frozenset[str]]:
        roots = via = EMPTY
        for arg in args:
            roots, via = roots | arg.roots, via | arg.via
        return roots, via


def _inner_reasons(seq: Seq) -> frozenset[str]:
    return frozenset().union(*(reasons_of(item) for item in seq.items))


def _fold_plain(name: str, args: tuple[Any, ...]) -> Any:
    """A builtin on known scalars."""
    first = args[0] if args else None
    if name == "bool":
        if not args:
            return False
        t = truth_of(first)
        return unknown("bool()") if t is None else t
    if isinstance(first, Map) and first.maybe and name != "dict":
        return unknown(f"{name}() of an open dictionary")
    if any(isinstance(a, Seq) and not is_ordered(a) for a in args) and name in _IN_ORDER:
        return unknown("order of a set")
    if name == "len" and isinstance(first, (Seq, Map, str)):
        if isinstance(first, Seq) and not is_sized(first):
            return Unknown(_inner_reasons(first) or frozenset({"len() of an open set"}))
        return len(first.items) if not isinstance(first, str) else len(first)
    if name in ("tuple", "list", "set", "frozenset"):
        if not args:
            return Seq(name, ())
        if isinstance(first, Map):
            return Seq(name, tuple(first.items))
        if isinstance(first, (Seq, str)) and not (isinstance(first, str) and len(first) >= 200):
            items = tuple(first) if isinstance(first, str) else first.items
            if name in ("set", "frozenset"):
                return set_of(name, items)
            return Seq(name, items, first.cls if name == "tuple" and isinstance(first, Seq) else None)
    if name == "dict" and (not args or (len(args) == 1 and isinstance(first, Map))):
        return Map(dict(first.items), dict(first.maybe)) if isinstance(first, Map) else Map({})
    if name == "map" and len(args) == 2 and isinstance(first, External) and isinstance(args[1], Seq):
        inner = first.name[9:] if first.name.startswith("builtins.") else ""
        if inner in ("int", "str", "bool", "float"):
            return Seq("list", tuple(_fold_plain(inner, (x,)) if is_const(x) else x for x in args[1].items))
    if name in ("int", "float", "str", "abs", "round", "repr") and len(args) == 1 and is_const(first):
        if isinstance(first, EnumMember):
            return unknown("enum")
        fn: Any = {"int": int, "float": float, "str": str, "abs": abs, "round": round, "repr": repr}[name]
        try:
            return fn(first)
        except (TypeError, ValueError, OverflowError):
            return unknown("conversion error")
    if name in ("max", "min", "sum", "sorted", "reversed") and args:
        numbers = args if len(args) > 1 else (first.items if isinstance(first, Seq) else ())
        if numbers and all(isinstance(x, (int, float)) for x in numbers):
            values = [x for x in numbers if isinstance(x, (int, float))]
            if name in ("sorted", "reversed"):
                return Seq("list", tuple(sorted(values) if name == "sorted" else reversed(values)))
            picker: Any = {"max": max, "min": min, "sum": sum}[name]
            return picker(values)
    if name == "range" and all(isinstance(a, int) for a in args) and 1 <= len(args) <= 3:
        try:
            span = range(*args)
        except ValueError:
            return unknown("range")
        return Seq("tuple", tuple(span)) if len(span) <= 256 else unknown("size")
    if name == "type" and len(args) == 1 and isinstance(first, Instance):
        return ClassRef(first.info)
    if name == "callable" and isinstance(first, (Function, Partial, Bound, ClassRef, Method)):
        return True
    if name == "callable" and (is_const(first) or isinstance(first, (Seq, Map))):
        return False
    if name == "zip" and all(isinstance(a, Seq) for a in args):
        return Seq("list", tuple(Seq("tuple", t) for t in zip(*(a.items for a in args))))
    if name == "enumerate" and isinstance(first, Seq):
        return Seq("list", tuple(Seq("tuple", (i, x)) for i, x in enumerate(first.items)))
    if name in ("iter", "next") and isinstance(first, Seq):
        if name == "iter":
            return first
        return first.items[0] if first.items else unknown("next()")
    why = EMPTY
    for a in args:
        why = why | reasons_of(a)
        if isinstance(a, Seq):
            for item in a.items:
                why = why | reasons_of(item)
    return Unknown(why or frozenset({f"call {name}()"}))
