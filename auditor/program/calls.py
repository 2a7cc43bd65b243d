"""Calls: which function is meant, and what a call may change."""

from __future__ import annotations

import ast
from collections.abc import Iterable
from typing import Any

from auditor.program import externals
from auditor.program.attributes import CONSTANTS
from auditor.program.builtin import Builtin
from auditor.program.frames import Frame
from auditor.program.syntax import dotted, short
from auditor.program.values import (
    EMPTY,
    Bound,
    ClassRef,
    External,
    Function,
    Instance,
    Map,
    Method,
    Partial,
    Pending,
    Seq,
    Unknown,
    V,
    all_reasons,
    is_ordered,
    make,
    same,
    unknown,
)

#: Reasons that name something a person can assume; they outlive calls on the unknown value.
_GIVEN = ("env.", "arg.", "dep.", "model", "machine", "device name")
MAX_DEPTH = 14
#: Functions longer than this (in words) are not evaluated at a call.
BIG_FUNCTION = 500


class Calls(Builtin):
    """Calls."""

    def evaluate_call(self, node: ast.Call, fr: Frame) -> V:
        func = self.lazy(node.func, fr)
        args: list[V] = []
        kwargs: dict[str, V] = {}
        loose = False
        open_: list[V] = []  # values of ``**x`` whose keys are not all known
        opaque = func.each is None and isinstance(func.one, (Unknown, External))
        transparent = (
            opaque
            and isinstance(func.one, External)
            and func.one.name.startswith("builtins.")
            and func.one.name != "builtins.dict"
        )
        for arg in node.args:
            value = self.lazy(arg, fr)
            if isinstance(arg, ast.Starred):
                if not all(isinstance(s, Seq) and is_ordered(s) for s in value.scalars()):
                    loose = True
                elif value.each is None:
                    args.extend(V(x, value.roots, value.via) for x in value.one.items)
                elif all(len(s.items) == len(value.each[0].items) for s in value.each):
                    for k in range(len(value.each[0].items)):
                        args.append(make(tuple(s.items[k] for s in value.each), value.roots, value.via))
                else:
                    loose = True
                continue
            args.append(value)
            if (value.roots or fr.late) and not transparent and fr.recorder is not None:
                self.record_argument(arg, value, fr)
        for keyword in node.keywords:
            value = self.lazy(keyword.value, fr)
            if keyword.arg is None:
                spread = _spread(value)
                if spread is not None:
                    kwargs.update(spread)
                else:
                    loose = True
                    open_.append(value)
                continue
            kwargs[keyword.arg] = value
            if (value.roots or fr.late) and not transparent and fr.recorder is not None:
                self.record_argument(keyword.value, value, fr)
        if type(func.one) is Pending:
            pending = func.one
            if (
                any(isinstance(s, (Unknown, Pending)) for a in (*args, *kwargs.values()) for s in a.scalars())
                or loose
            ) and not self.worth_resolving(pending, (*args, *kwargs.values())):
                self._escapes(node, func, fr)
                fr.raises += 1
                for value in (*args, *kwargs.values()):
                    self.touch_value(value, fr)
                return V(unknown(f"call {short(node.func)}()"))
            func = self.resolve(pending)
        self._escapes(node, func, fr)
        if loose:
            for value in (*args, *kwargs.values()):
                self.touch_value(value, fr)
            return self.loose_call(func, args, kwargs, open_, fr, node)
        return self.call(func, args, kwargs, fr, node)

    def loose_call(
        self, func: V, args: list[V], kwargs: dict[str, V], open_: list[V], fr: Frame, node: ast.Call
    ) -> V:
        """A call with ``*x`` or ``**x`` that cannot be laid out; ``open_`` holds the latter."""
        fr.raises += 1
        return V(unknown(f"call {short(node.func)}()"))

    def _escapes(self, node: ast.Call, func: V, fr: Frame) -> None:
        """Forget what a call may change: containers it mutates, attributes of objects it is given."""
        target = node.func
        if isinstance(target, ast.Attribute):
            receiver = dotted(target.value)
            if receiver is not None:
                scalar = func.one
                if isinstance(scalar, Method) and isinstance(scalar.this, (Seq, Map)):
                    pass  # the call itself sees to it
                elif isinstance(scalar, Function) and self.function_kind(scalar) == "staticmethod":
                    pass  # it is not given the object that it is called through
                elif receiver != "self" or not isinstance(scalar, Bound):
                    self._havoc(receiver, fr)
                else:
                    self.havoc_self(scalar, fr)
        if not fr.heads:
            return
        given = tuple(
            name + "."
            for arg in (*node.args, *(k.value for k in node.keywords))
            if isinstance(arg, (ast.Name, ast.Attribute)) and (name := dotted(arg)) is not None
        )
        if given:
            for key in [k for k in fr.env if k.startswith(given)]:
                del fr.env[key]

    def _havoc(self, name: str, fr: Frame) -> None:
        if name.split(".", 1)[0] not in fr.heads:
            return
        prefix = name + "."
        for key in [k for k in fr.env if k.startswith(prefix)]:
            del fr.env[key]

    def call(
        self, func: V, args: list[V], kwargs: dict[str, V], fr: Frame, node: ast.Call | None = None
    ) -> V:
        """Call a value on all targets."""
        if func.each is None:
            out = self.call_one(func.one, args, kwargs, fr, node)
            if func.roots:
                out = V(out.one, out.roots | func.roots, out.via | func.via, out.each)
            return out
        each, roots, via = [], func.roots, func.via
        done: list[tuple[Any, V]] = []
        for i, scalar in enumerate(func.each):
            value = next((v for s, v in done if same(s, scalar)), None)
            if value is None:
                here = sum(1 << k for k, s in enumerate(func.each) if same(s, scalar))
                may, must, stay, thrown = fr.may, fr.must, fr.stay, fr.thrown
                value = self.call_one(scalar, args, kwargs, fr, node)
                # what this candidate does to control counts on its own targets only
                fr.may |= may & ~here
                fr.must |= must & ~here
                fr.stay |= stay & ~here
                fr.thrown = thrown | (fr.thrown & here)
                done.append((scalar, value))
            each.append(value.at(i))
            roots, via = roots | value.roots, via | value.via
        return make(tuple(each), roots, via)

    def call_one(
        self, f: Any, args: list[V], kwargs: dict[str, V], fr: Frame, node: ast.Call | None = None
    ) -> V:
        if isinstance(f, Function):
            return self.call_function(f, args, kwargs, fr, node)
        if isinstance(f, Bound):
            return self.call_function(f.function, [f.this, *args], kwargs, fr, node)
        if isinstance(f, Partial):
            out = self.call(f.function, [*f.args, *args], {**f.kwargs, **kwargs}, fr, node)
            if out.roots and f.name is not None:
                module_name, _, name = f.name.rpartition(".")
                module = self.module(module_name)
                line = module.places.get(name, (1, ""))[0] if module is not None else 1
                if not args and not kwargs:
                    self.learn(f.name, module, name, line, "function", out)
                return V(out.one, out.roots, frozenset({f.name}), out.each)
            return out
        if isinstance(f, ClassRef):
            return self.instantiate(f.info, args, kwargs, fr, node)
        if isinstance(f, External):
            return self.call_external(f, args, kwargs, fr, node)
        if isinstance(f, Method):
            return self.call_method(f, args, kwargs, fr, node)
        if isinstance(f, Instance):
            found = f.info.find("__call__")
            if found is not None and isinstance(found[1], Function):
                return self.call_function(found[1], [V(f), *args], kwargs, fr, node)
        fr.raises += 1
        if isinstance(f, Unknown):
            if f.options is not None:
                called = [o for o in f.options if not isinstance(o, CONSTANTS)]
                if 0 < len(called) <= 8:
                    may, must, stay = fr.may, fr.must, fr.stay
                    after = 0
                    values = []
                    for o in called:
                        fr.may = may
                        values.append(self.call_one(o, args, kwargs, fr, node))
                        after |= fr.may
                    fr.may, fr.must, fr.stay = after, must & ~fr.thrown, stay & ~fr.thrown
                    return self._any_of(values, f.reasons)
            given = given_reasons((V(f),))
            if given:
                return V(Unknown(given))
        for value in (*args, *kwargs.values()):
            self.touch_value(value, fr)
        text = f"call {short(node.func)}()" if node is not None else "call"
        return V(unknown(text))

    def call_external(
        self, f: External, args: list[V], kwargs: dict[str, V], fr: Frame, node: ast.Call | None
    ) -> V:
        name = f.name
        if name.startswith("builtins."):
            return self.call_builtin(name[9:], args, kwargs, fr, node)
        value = self.world.call(name, args, kwargs)
        if value is not None:
            return value
        if name in ("functools.partial", "functools.partialmethod") and args:
            return V(Partial(args[0], tuple(args[1:]), dict(kwargs)), *self._provenance(args[1:]))
        if name in externals.TRANSPARENT:
            if args and isinstance(args[0].one, (Function, Partial, Bound)):
                return args[0]
            return V(External(f"{name}()"))
        if name.endswith("()") and name[:-2] in externals.TRANSPARENT and args:
            return args[0]  # @lru_cache(maxsize=1) and friends
        if name in ("typing.cast", "copy.copy", "copy.deepcopy") and args:
            return args[-1]
        if name == "importlib.import_module" and args and isinstance(args[0].one, str):
            return self.resolve(Pending(args[0].one, None))
        if name in ("pkgutil.resolve_name",) and args and isinstance(args[0].one, str):
            module, _, attr = args[0].one.replace(":", ".").rpartition(".")
            return self.resolve(Pending(module, attr))
        if name == "platform.machine":
            return V(unknown("machine"))
        if not name.startswith(externals.SAFE_CALLS):
            fr.raises += 1
            for value in (*args, *kwargs.values()):
                self.touch_value(value, fr)
        roots, via = EMPTY, EMPTY
        top = name.split(".", 1)[0]
        if top not in ("logging", "warnings", "torch"):
            roots, via = self._provenance(args)
        if isinstance(f, External) and name.endswith("Version") or "version.parse" in name:
            roots, via = self._provenance(args)
        return V(
            unknown(f"call {name}()"),
            roots if self._pure(name) else EMPTY,
            via if self._pure(name) else EMPTY,
        )

    @staticmethod
    def _pure(name: str) -> bool:
        """Calls whose unknown result still is a function of the arguments."""
        return "version" in name.lower() or name.startswith(("operator.", "math."))


def given_reasons(values: Iterable[V]) -> frozenset[str]:
    """Those reasons of unknown values that a person can assume."""
    return frozenset(r for v in values for r in all_reasons(v) if r.startswith(_GIVEN))


def _spread(value: V) -> dict[str, V] | None:
    """Keyword arguments from ``**value``, or None where some target lacks a key or it may be absent."""
    maps = value.scalars()
    if not all(isinstance(m, Map) and not m.maybe and m.items.keys() == maps[0].items.keys() for m in maps):
        return None
    names = [k for k in maps[0].items if isinstance(k, str)]
    if value.each is None:
        return {k: V(maps[0].items[k]) for k in names}
    return {k: make(tuple(m.items[k] for m in maps)) for k in names}
