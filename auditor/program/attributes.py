"""Attributes of modules, classes, objects and of what lies outside the tree."""

from __future__ import annotations

import ast
from typing import Any

from auditor.program import externals, textual
from auditor.program.classes import ClassInfo
from auditor.program.frames import Frame
from auditor.program.names import Names
from auditor.program.syntax import dotted
from auditor.program.values import (
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
    change_depth,
    make,
    reasons_of,
    unknown,
)

#: Attributes of root objects that say nothing about the architecture.
VENDOR_FACTS = frozenset({"backend", "warp_size"})
CONSTANTS = (bool, int, float, str, bytes, type(None))


#: A container is followed so far from one imported function to the next.
_HANDED_ON = 3


class Attributes(Names):
    """Attribute access."""

    def outside_attribute(self, name: str) -> V:
        """An attribute of something outside the tree."""
        value = self.world.attribute(name)
        return value if value is not None else V(External(name))

    def environ_item(self, key: Any) -> Any:
        """``os.environ[key]``"""
        value = self.world.environment(key, None)
        return value.one if value.one is not None else unknown("KeyError")

    def _in(self, a: Any, b: Any) -> Any:
        if isinstance(b, External) and b.name == "os.environ" and isinstance(a, str):
            value = self.world.environment(a, None)
            if isinstance(value.one, Unknown):
                return Unknown(value.one.reasons, (True, False))
            return value.one is not None
        return super()._in(a, b)

    def attribute(self, base: V, name: str, fr: Frame, node: ast.AST | None = None) -> V:
        if base.each is None:
            out = self.attribute_of(base.one, name, fr, node)
            if base.roots and not (isinstance(base.one, Facts) and name in VENDOR_FACTS):
                out = V(out.one, out.roots | base.roots, out.via | base.via, out.each)
            return out
        each, roots, via = [], base.roots, base.via
        for i, scalar in enumerate(base.each):
            value = self.attribute_of(scalar, name, fr, node)
            each.append(value.at(i))
            roots, via = roots | value.roots, via | value.via
        if isinstance(base.each[0], Facts) and name in VENDOR_FACTS:
            return make(tuple(each))
        return make(tuple(each), roots, via)

    def attribute_of(self, scalar: Any, name: str, fr: Frame, node: ast.AST | None = None) -> V:
        """``scalar.name``"""
        if type(scalar) is Pending:
            return self.attribute(self.resolve(scalar), name, fr, node)
        if isinstance(scalar, ModuleRef):
            value = self.global_value(scalar.module, name)
            if value is not None:
                return value
            child = self.module(f"{scalar.module.name}.{name}")
            if child is not None:
                return V(ModuleRef(child))
            getter = self.global_value(scalar.module, "__getattr__")
            if getter is not None and isinstance(getter.one, Function):
                return self.call_function(getter.one, [V(name)], {}, fr)
            return V(unknown(f"missing {scalar.module.name}.{name}"))
        if isinstance(scalar, External):
            full = f"{scalar.name}.{name}"
            if full in externals.ABSENT:
                fr.fail()
                return V(unknown(f"missing {full}"))
            return self.outside_attribute(full)
        if isinstance(scalar, Facts):
            if name in scalar.known:
                return V(scalar.known[name])
            return V(unknown(f"{scalar.name}.{name}"))
        if isinstance(scalar, Instance):
            return self.unchanged(scalar.info, name, self.instance_attribute(scalar, name, fr), fr)
        if isinstance(scalar, ClassRef):
            value = self.class_attribute(scalar.info, name, fr, scalar.open)
            return self.unchanged(scalar.info, name, value, fr)
        if isinstance(scalar, EnumMember):
            if name == "value":
                return V(scalar.value)
            if name == "name":
                return V(scalar.name)
            return self.bound(scalar.info, name, V(scalar), fr)
        if isinstance(scalar, Seq) and scalar.cls is not None:
            fields = [f[0] for f in scalar.cls.record_fields()]
            if name in fields and fields.index(name) < len(scalar.items):
                return self.unchanged(scalar.cls, name, V(scalar.items[fields.index(name)]), fr)
            return self.bound(scalar.cls, name, V(scalar), fr)
        if isinstance(scalar, (str, Seq, Map)):
            return V(Method(scalar, name))
        if isinstance(scalar, Partial) and name in ("func",):
            return scalar.function
        if isinstance(scalar, (Function, Bound, Partial)) and name in ("cache_clear", "cache_info"):
            return V(External(f"functools.{name}"))
        fr.fail()
        if isinstance(scalar, Unknown) and scalar.options is not None:
            objects = [o for o in scalar.options if not isinstance(o, CONSTANTS)]
            if 0 < len(objects) <= 4 and all(o is None or o in objects for o in scalar.options):
                return self._any_of([self.attribute_of(o, name, fr, node) for o in objects], scalar.reasons)
        if isinstance(scalar, Unknown):
            key = dotted(node) if isinstance(node, ast.Attribute) else None
            if key is not None and len(scalar.reasons) == 1:
                (only,) = scalar.reasons
                if only.startswith("value "):
                    return V(unknown(f"value {key}"))
            return V(Unknown(scalar.reasons))
        return V(unknown(f"attribute {name}"))

    def _any_of(self, values: list[V], reasons: frozenset[str]) -> V:
        """The join of what several candidates give."""
        out = values[0]
        why = V(Unknown(reasons))
        for value in values[1:]:
            out = self.select(self.full, self.full, out, value, why)
        return out

    def bound(self, info: ClassInfo, name: str, this: V, fr: Frame) -> V:
        """A method, property or class attribute reached through an object."""
        found = info.find(name)
        if found is not None:
            owner, member = found
            if isinstance(member, ClassInfo):
                return V(ClassRef(member))
            kind = self.function_kind(member)
            if kind == "property":
                value = self.call_function(member, [this], {}, fr)
                return self._member_boundary(owner, name, value, "property", member.segment.start)
            if kind == "staticmethod":
                return self._open_members(info, name, this, V(member))
            if kind == "classmethod":
                return self._open_members(info, name, this, V(Bound(member, V(ClassRef(info, True)))))
            return self._open_members(info, name, this, V(Bound(member, this)))
        assigned = self.class_value(info, name, fr)
        if assigned is not None:
            if _is_none(assigned) and isinstance(this.one, Instance) and self.set_later(info):
                return V(unknown(f"attribute {info.name}.{name}"))
            return self._open_members(info, name, this, assigned)
        getter = info.find("__getattr__")
        if getter is not None and isinstance(getter[1], Function) and name not in ("__wrapped__",):
            value = self.call_function(getter[1], [this, V(name)], {}, fr)
            return self._member_boundary(getter[0], name, value, "property", getter[1].segment.start)
        return V(unknown(f"attribute {info.name}.{name}"))

    def _open_members(self, info: ClassInfo, name: str, this: V, found: V) -> V:
        """A member found on an object that may be of a subclass: what the subclasses that override it give
        is joined in."""
        scalar = this.one
        open_ = (isinstance(scalar, Instance) and scalar.attrs is None) or (
            isinstance(scalar, ClassRef) and scalar.open
        )
        if not open_ or name.startswith("__"):
            return found
        others: list[V] = []
        for child in self.subclasses(info, name):
            child.load()
            self.watch.members.add(name)
            if name in child.functions:
                function = child.functions[name]
                kind = self.function_kind(function)
                if kind == "property":
                    others.append(self.call_function(function, [V(Instance(child, None))], {}, None))
                elif kind == "staticmethod":
                    others.append(V(function))
                else:
                    first = V(ClassRef(child)) if kind == "classmethod" else V(Instance(child, None))
                    others.append(V(Bound(function, first)))
            elif name in self.namespace(child):
                others.append(self.namespace(child)[name])
        if not others:
            return found
        if len(others) > 6:
            return V(unknown(f"subclass of {info.name}"), found.roots, found.via)
        return self._any_of([found, *others], frozenset({f"subclass of {info.name}"}))

    def _member_boundary(self, owner: ClassInfo, name: str, value: V, kind: str, line: int) -> V:
        if not value.roots or isinstance(value.one, (Function, ClassRef, Bound, Instance)):
            return value
        qualified = f"{owner.fullname}.{name}"
        self.learn(qualified, owner.module, name, line, kind, value)
        return V(value.one, value.roots, frozenset({qualified}), value.each)

    def class_attribute(self, info: ClassInfo, name: str, fr: Frame, open_: bool = False) -> V:
        """``C.name``"""
        if name == "__name__":
            return V(info.name)
        found = info.find(name)
        if found is not None:
            owner, member = found
            if isinstance(member, ClassInfo):
                return V(ClassRef(member))
            if self.function_kind(member) == "classmethod":
                return self._open_members(
                    info, name, V(ClassRef(info, open_)), V(Bound(member, V(ClassRef(info, open_))))
                )
            return V(member)
        value = self.class_value(info, name, fr)
        if value is not None:
            return self._open_members(info, name, V(ClassRef(info, open_)), value)
        return V(unknown(f"attribute {info.name}.{name}"))

    def class_value(self, info: ClassInfo, name: str, fr: Frame) -> V | None:
        """A class-level assigned name along the bases, or None."""
        self.watch.members.add(name)
        for owner in info.mro():
            namespace = self.namespace(owner)
            value = namespace.get(name)
            if value is None:
                continue
            if type(value.one) is Pending:
                value = self.resolve(value.one)
            if owner.is_enum() and not isinstance(value.one, (Function, EnumMember)):
                member = value.one if value.each is None else unknown("enum value")
                return V(EnumMember(owner, name, member))
            return self._member_boundary(owner, name, value, "attribute", owner.segment.start)
        return None

    def set_later(self, info: ClassInfo) -> bool:
        """Whether code that is not followed may set attributes of a class's objects."""
        return not info.is_frozen()

    def _declared_empty(self, info: ClassInfo, name: str, fr: Frame) -> bool:
        """Whether a class body declares an attribute as None: it is there to be set later, by whoever has the
        object, in any file."""
        if not self.set_later(info):
            return False
        declared = self.class_value(info, name, fr)
        return declared is not None and _is_none(declared)

    def namespace(self, info: ClassInfo) -> dict[str, V]:
        """Names assigned in a class body."""
        if info.namespace is None:
            info.namespace = {}
            info.load()
            fr = Frame(
                info.module,
                info.namespace,
                full=self.full,
                kind="class",
                owner=info,
                symbol=info.qualname,
                recorder=self.module_recorder(info.module),
            )
            for name, function in info.functions.items():
                info.namespace.setdefault(name, V(function))
            self.top_block(info.statements, fr)
            for name in info.functions:
                info.namespace.pop(name, None)
            for name, value in list(info.namespace.items()):
                scalar = value.one
                if isinstance(scalar, Instance) and scalar.attrs is not None:
                    hook = scalar.info.find("__set_name__")
                    if hook is not None and isinstance(hook[1], Function):
                        self.run_constructor(hook[1], scalar, [V(ClassRef(info)), V(name)], {}, fr)
        return info.namespace

    def instance_attribute(self, obj: Instance, name: str, fr: Frame) -> V:
        info = obj.info
        if obj.attrs is not None:
            value = obj.attrs.get(name)
            if value is not None and not self.rewritten(info, name):
                if _is_none(value) and self._declared_empty(info, name, fr):
                    return V(unknown(f"attribute {info.name}.{name}"))
                return value
        found = info.find(name)
        if found is not None:
            return self.bound(info, name, V(obj), fr)
        if name == "__class__":
            return V(ClassRef(info))
        if name == "__dict__":
            return V(unknown("__dict__"))
        stored = self.stored_attribute(info, name, fr)
        if stored is not None:
            return stored
        if obj.attrs is not None and name in obj.attrs:
            return V(unknown(f"attribute {info.name}.{name}"))
        return self.bound(info, name, V(obj), fr)

    def unchanged(self, info: ClassInfo, name: str, value: V, fr: Frame) -> V:
        """The value of an attribute, or unknown where it is a container that some function changes,
        by the text of the modules of its class and of whoever reads it."""
        depth = change_depth(value)
        if depth and self.changed_in_place(info, name, depth > 1, fr):
            why = unknown(f"attribute {info.name}.{name} is changed in place")
            return V(why, value.roots, value.via)
        return value

    def changed_in_place(self, info: ClassInfo, name: str, deep: bool, fr: Frame) -> bool:
        """Whether a function of these modules changes a container in an attribute, under whatever name."""
        modules = [owner.module for owner in info.mro()]
        return any(
            self._changed_by(module, module.changes_attribute(name, deep), _HANDED_ON)
            for module in dict.fromkeys([*modules, fr.module])
        )

    def _changed_by(self, module: Any, answer: bool | tuple[str, ...], depth: int) -> bool:
        """The answer of a module, with the functions of other modules that it leaves it to asked as well."""
        if isinstance(answer, bool):
            return answer
        for name in answer:
            value = self.global_value(module, name)
            function = value.one if value is not None and value.each is None else None
            if not isinstance(function, Function) or "." in function.qualname or not depth:
                return True
            other = function.module
            if self._changed_by(other, other.changes_parameters(function.qualname), depth - 1):
                return True
        return False

    def rewritten(self, info: ClassInfo, name: str) -> bool:
        """Whether an attribute is assigned anywhere but in its constructor (by the text of its module)."""
        self.watch.members.add(name)
        if self.written_outside(info, name):
            return True
        for owner in info.mro():
            for function in owner.writes().get(name, ()):
                if function.name not in ("__init__", "__post_init__", "__set_name__", "__new__"):
                    return True
        return False

    def written_outside(self, info: ClassInfo, name: str) -> bool:
        """Whether code other than methods assigns an attribute (by the text of the class's module)."""
        return any(_assigned_outside(owner.module, name) for owner in info.mro())

    def _plain_attribute(self, scalar: Any, name: str, fr: Frame) -> V:
        """``object.__getattribute__(x, name)``: no ``__getattr__`` of the class."""
        if isinstance(scalar, Instance) and scalar.attrs is not None and name in scalar.attrs:
            return scalar.attrs[name]
        if isinstance(scalar, Instance):
            stored = self.stored_attribute(scalar.info, name, fr)
            if stored is not None:
                return stored
        return V(Unknown(reasons_of(scalar) or frozenset({f"attribute {name}"})))


def _is_none(value: V) -> bool:
    return value.one is None and value.each is None


def _assigned_outside(module: Any, name: str) -> bool:
    hit = module.poked.get(name)
    if hit is None:
        hit = module.poked[name] = module.ask(textual.assigns_attribute, name)
    return bool(hit)
