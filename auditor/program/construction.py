"""Objects: constructors, records and enumerations."""

from __future__ import annotations

import ast
from typing import Any

from auditor.program.calls import BIG_FUNCTION, MAX_DEPTH
from auditor.program.classes import ClassInfo
from auditor.program.frames import Frame
from auditor.program.functions import Functions
from auditor.program.source import Irregular
from auditor.program.syntax import source_of
from auditor.program.values import (
    EMPTY,
    Bound,
    Function,
    Instance,
    Seq,
    Unknown,
    V,
    change_depth,
    make,
    reasons_of,
    unknown,
)


class Construction(Functions):
    """Making an object of a class of the tree."""

    def instantiate(
        self, info: ClassInfo, args: list[V], kwargs: dict[str, V], fr: Frame, node: ast.Call | None
    ) -> V:
        """``C(...)``"""
        if info.is_enum():
            return self._enum_lookup(info, args)
        if info.is_named_tuple() or (info.is_record() and info.find("__init__") is None):
            return self._record(info, args, kwargs, fr)
        found = info.find("__init__")
        attrs: dict[str, V] = {}
        if found is None or not isinstance(found[1], Function):
            fr.raises += 0 if info.closed() else 1
            return V(Instance(info, attrs if info.closed() else None))
        if found[1].segment.longer(BIG_FUNCTION) or fr.depth >= MAX_DEPTH or not self.plain_object(info):
            fr.raises += 1
            return V(Instance(info, None))
        obj = Instance(info, attrs)
        self.run_constructor(found[1], obj, args, kwargs, fr)
        return V(obj)

    @staticmethod
    def plain_object(info: ClassInfo) -> bool:
        """Whether all bases lie in the tree, so that running the constructor says everything."""
        return info.closed()

    def run_constructor(
        self, function: Function, obj: Instance, args: list[V], kwargs: dict[str, V], fr: Frame
    ) -> None:
        """Run ``__init__`` (or a hook like it) on a new object."""
        if function.segment.serial in self._running:
            obj.attrs = None
            return
        try:
            node: Any = function.segment.node()
        except Irregular:
            obj.attrs = None
            return
        env: dict[str, V] = {}
        if not self._bind_arguments(function, node, [V(obj), *args], kwargs, env):
            obj.attrs = None
            return
        inner = Frame(
            function.module,
            env,
            full=self.full,
            kind="function",
            owner=function.owner,
            symbol=function.qualname,
            depth=fr.depth + 1,
        )
        inner.this = node.args.args[0].arg if node.args.args else None
        self._running.add(function.segment.serial)
        try:
            self.block(node.body, inner)
        finally:
            self._running.discard(function.segment.serial)
        back = inner.may
        for mask, *_ in inner.returns:
            back |= mask
        self._come_back(fr, back, inner.thrown)
        if inner.failed:
            fr.fail()
        for scalar in inner.touched:
            self.touch(scalar, fr)
        assert obj.attrs is not None
        obj.attrs.update(self.final_fields(inner))

    def _record(self, info: ClassInfo, args: list[V], kwargs: dict[str, V], fr: Frame) -> V:
        fields = info.record_fields()
        values: dict[str, V] = {}
        for (name, _n, _i), value in zip(fields, args):
            values[name] = value
        values.update(kwargs)
        for name, node, owner in fields:
            if name not in values:
                if node.value is None:
                    values[name] = V(unknown(f"field {info.name}.{name}"))
                else:
                    values[name] = self.field_default(node.value, owner)
        if info.is_named_tuple():
            ordered = [values[name] for name, _n, _i in fields]
            roots = via = EMPTY
            for v in ordered:
                roots, via = roots | v.roots, via | v.via
            if all(v.each is None for v in ordered):
                return V(Seq("tuple", tuple(v.one for v in ordered), info), roots, via)
            each = tuple(Seq("tuple", tuple(v.at(i) for v in ordered), info) for i in range(self.count))
            return make(each, roots, via)
        obj = Instance(info, values)
        hook = info.find("__post_init__")
        if hook is not None and isinstance(hook[1], Function):
            if hook[1].segment.longer(BIG_FUNCTION):
                return V(Instance(info, None))
            before = dict(values)
            self.run_constructor(hook[1], obj, [], {}, fr)
            if obj.attrs is not None:
                for k, v in before.items():
                    obj.attrs.setdefault(k, v)
        return V(obj)

    def field_default(self, node: ast.expr, owner: ClassInfo) -> V:
        """Default of a record field, ``field(default=...)`` included."""
        scope = self.module_frame(owner.module)
        if isinstance(node, ast.Call):
            last = source_of(node.func).rpartition(".")[2]
            if last in ("field", "Field"):
                for keyword in node.keywords:
                    if keyword.arg == "default":
                        return self.ev(keyword.value, scope)
                    if keyword.arg in ("default_factory", "factory"):
                        factory = self.ev(keyword.value, scope)
                        return self.call(factory, [], {}, scope)
                return V(unknown("field default"))
        return self.ev(node, scope)

    def _enum_lookup(self, info: ClassInfo, args: list[V]) -> V:
        if len(args) != 1:
            return V(unknown(f"call {info.name}()"))
        scope = self.module_frame(info.module)
        members = [self.class_value(info, name, scope) for name in self.namespace(info)]

        def one(scalar: Any) -> Any:
            for member in members:
                if member is not None and not isinstance(scalar, Unknown):
                    m = member.one
                    if getattr(m, "value", object()) == scalar and type(getattr(m, "value", None)) is type(
                        scalar
                    ):
                        return m
            return Unknown(reasons_of(scalar) or frozenset({f"call {info.name}()"}))

        return self._map(args[0], one)

    def havoc_self(self, method: Bound, fr: Frame) -> None:
        """Forget the attributes a method of the same object may write."""
        if fr.this is None or not isinstance(method.function, Function):
            return
        prefix = fr.this + "."
        keys = [k for k in fr.env if k.startswith(prefix)]
        if not keys:
            return
        written = self.written_by(method.function, fr.owner)
        for key in keys:
            name = key[len(prefix) :].split(".", 1)[0]
            depth = change_depth(fr.env[key])
            if (
                written is None
                or name in written
                or (depth and fr.owner is not None and self.changed_in_place(fr.owner, name, depth > 1, fr))
            ):
                del fr.env[key]
