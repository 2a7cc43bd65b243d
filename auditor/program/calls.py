"""Names, attributes and calls: how the evaluator moves through the tree."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterable
from typing import Any

from auditor.program import externals
from auditor.program.classes import ClassInfo
from auditor.program.expressions import Expressions, dotted, short
from auditor.program.frames import Frame
from auditor.program.source import Irregular, Segment
from auditor.program.values import (
    EMPTY,
    Bound,
    ClassRef,
    Deferred,
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
    reasons_of,
    same,
    truth_of,
    unknown,
)

#: Attributes of root objects that say nothing about the architecture.
VENDOR_FACTS = frozenset({"backend", "warp_size"})
_CONSTANTS = (bool, int, float, str, bytes, type(None))
#: Reasons that name something a person can assume; they outlive calls on the unknown value.
_GIVEN = ("env.", "arg.", "dep.", "model", "machine", "device name")
MAX_DEPTH = 14
#: Functions longer than this (bytes of source) are not evaluated at a call.
BIG_FUNCTION = 6000
_MUTATORS = frozenset(
    "append extend insert remove pop popitem clear update setdefault add discard sort reverse".split()
)
_STR_METHODS = frozenset(
    "split rsplit startswith endswith lower upper strip lstrip rstrip replace partition rpartition isdigit "
    "title capitalize removeprefix removesuffix find count join isnumeric isalpha casefold splitlines".split()
)
_BUILTINS = frozenset(
    "len int str bool float tuple list set frozenset dict map range min max abs any all sum sorted zip "
    "enumerate getattr hasattr callable isinstance issubclass type id print repr round object super "
    "setattr filter next iter vars property staticmethod classmethod reversed divmod".split()
)


class Calls(Expressions):
    """Name lookup, attribute access and calls."""

    world: externals.World
    _through_stars: set[tuple[str, str]]

    # -- names -------------------------------------------------------------------------------------

    def name_value(self, name: str, fr: Frame) -> V:
        frame: Frame | None = fr
        while frame is not None and frame.kind != "module":
            if frame.kind != "class" or frame is fr:
                value = frame.env.get(name)
                if value is not None:
                    if type(value.one) is Pending:
                        value = self.resolve(value.one)
                        frame.env[name] = value
                    return value
            frame = frame.parent
        module = fr.module
        if fr.kind == "module":
            value = fr.env.get(name)
            if value is not None:
                if type(value.one) is Deferred:
                    value = self.force(module, name, value.one)
                if type(value.one) is Pending:
                    value = self.resolve(value.one)
                    fr.env[name] = value
                    return value
                if (module.name, name) in fr.effects:
                    # a function called further up has set it, or may have
                    return V(unknown(f"global {name}"), value.roots, value.via)
                return self.boundary(module, name, value)
        frame = fr
        while frame is not None:
            effect = frame.effects.get((module.name, name))
            if effect is not None:
                return effect
            frame = frame.parent
        if name in fr.globals and module.reassigned().get(name) == 1:
            # only this function sets it: its first call sees the initial value (lazy initialisation)
            initial = self.global_value(module, name)
            if initial is not None and initial.each is None and initial.one is None:
                return initial
        value = self.global_value(module, name)
        if value is not None:
            if name in module.reassigned() and (name not in fr.globals or fr.env.get(name) is None):
                return V(unknown(f"global {name}"), value.roots, value.via)
            return value
        if name in module.reassigned():
            return V(unknown(f"global {name}"))
        if name in _BUILTINS or name in ("True", "False", "None"):
            return V(External(f"builtins.{name}"))
        if name == "__name__":
            return V(module.name)
        if name == "__file__":
            return V(unknown("__file__"))
        fr.raises += 1
        return V(External(f"builtins.{name}"))

    def global_value(self, module: Any, name: str) -> V | None:
        """A module-level name as seen from functions and other modules, or None if there is none."""
        self.execute(module)
        value = module.globals.get(name)
        if value is None and module.state == "running":
            value = self.hoisted(module, name)
        if value is None:
            if name.startswith("_") or (module.name, name) in self._through_stars:
                return None
            self._through_stars.add((module.name, name))
            try:
                return self._from_stars(module, name)
            finally:
                self._through_stars.discard((module.name, name))
        if type(value.one) is Deferred:
            value = self.force(module, name, value.one)
        if type(value.one) is Pending:
            value = self.resolve(value.one)
            module.globals[name] = value
            return value
        return self._settled_global(module, name, value)

    def _from_stars(self, module: Any, name: str) -> V | None:
        """A name that only ``from x import *`` can have brought."""
        for star in reversed(module.stars):
            other = self.module(star)
            if other is None:
                return None if self.in_tree(star) else V(External(f"{star}.{name}"))
            if other is not module:
                value = self.global_value(other, name)
                if value is not None:
                    return value
        return None

    def _settled_global(self, module: Any, name: str, value: V) -> V:
        if any(
            isinstance(s, Map) or (isinstance(s, Seq) and s.kind in ("list", "set")) for s in value.scalars()
        ):
            if module.mutated(name):
                return V(unknown(f"global {name} is changed by functions"), value.roots, value.via)
        return self.boundary(module, name, value)

    def boundary(self, module: Any, name: str, value: V) -> V:
        """A value that crosses a module-level name: provenance now starts at that name."""
        if not value.roots or isinstance(value.one, (Function, ClassRef, ModuleRef, Partial)):
            return value
        if name in module.imported:
            return value  # it keeps the name of the module that defines it
        qualified = f"{module.name}.{name}"
        place = module.places.get(name, (1, "constant"))
        self.learn(qualified, module, name, place[0], "constant", value)
        return V(value.one, value.roots, frozenset({qualified}), value.each)

    def lazy(self, node: ast.expr, fr: Frame) -> V:
        """Like ``ev``, but an imported name stays unresolved: its module is loaded only when that matters."""
        if isinstance(node, ast.Name):
            frame: Frame | None = fr
            while frame is not None and frame.kind != "module":
                value = frame.env.get(node.id)
                if value is not None:
                    return value if type(value.one) is Pending else self.name_value(node.id, fr)
                frame = frame.parent
            value = fr.module.globals.get(node.id)
            if value is not None and type(value.one) is Pending:
                return value
        return self.ev(node, fr)

    force: Any
    learn: Any
    execute: Any
    hoisted: Any
    module: Any
    record_argument: Any

    def resolve(self, pending: Pending) -> V:
        """What an import statement binds."""
        if pending.name is None:
            module = self.module(pending.module)
            if module is not None:
                return V(ModuleRef(module))
            return self._outside(pending.module)
        module = self.module(pending.module)
        if module is None:
            if self.in_tree(pending.module):
                child = self.module(f"{pending.module}.{pending.name}")
                if child is not None:
                    return V(ModuleRef(child))
                return V(unknown(f"missing {pending.module}"))
            return self.outside_attribute(f"{pending.module}.{pending.name}")
        value = self.global_value(module, pending.name)
        if value is not None:
            return value
        child = self.module(f"{pending.module}.{pending.name}")
        if child is not None:
            return V(ModuleRef(child))
        getter = self.global_value(module, "__getattr__")
        if getter is not None and isinstance(getter.one, Function):
            return self.call_function(getter.one, [V(pending.name)], {}, None)
        if module.state == "running":
            return V(unknown(f"import cycle {pending.module}.{pending.name}"))
        return V(unknown(f"missing {pending.module}.{pending.name}"))

    in_tree: Any

    def _outside(self, name: str) -> V:
        return V(External(name))

    def outside_attribute(self, name: str) -> V:
        """An attribute of something outside the tree."""
        value = self.world.attribute(name)
        return value if value is not None else V(External(name))

    def environ_item(self, key: Any) -> Any:  # type: ignore[override]
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

    # -- attributes --------------------------------------------------------------------------------

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
                fr.raises += 1
                return V(unknown(f"missing {full}"))
            return self.outside_attribute(full)
        if isinstance(scalar, Facts):
            if name in scalar.known:
                return V(scalar.known[name])
            return V(unknown(f"{scalar.name}.{name}"))
        if isinstance(scalar, Instance):
            return self.instance_attribute(scalar, name, fr)
        if isinstance(scalar, ClassRef):
            return self.class_attribute(scalar.info, name, fr, scalar.open)
        if isinstance(scalar, EnumMember):
            if name == "value":
                return V(scalar.value)
            if name == "name":
                return V(scalar.name)
            return self.bound(scalar.info, name, V(scalar), fr)
        if isinstance(scalar, Seq) and scalar.cls is not None:
            fields = [f[0] for f in scalar.cls.record_fields()]
            if name in fields and fields.index(name) < len(scalar.items):
                return V(scalar.items[fields.index(name)])
            return self.bound(scalar.cls, name, V(scalar), fr)
        if isinstance(scalar, (str, Seq, Map)):
            return V(Method(scalar, name))
        if isinstance(scalar, Partial) and name in ("func",):
            return scalar.function
        if isinstance(scalar, (Function, Bound, Partial)) and name in ("cache_clear", "cache_info"):
            return V(External(f"functools.{name}"))
        fr.raises += 1
        if isinstance(scalar, Unknown) and scalar.options is not None:
            objects = [o for o in scalar.options if not isinstance(o, _CONSTANTS)]
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

    subclasses: Any
    touch: Any
    touch_value: Any
    function_kind: Callable[..., str]
    call_function: Callable[..., V]
    run_constructor: Callable[..., None]
    instantiate: Callable[..., V]

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
            self.block(info.statements, fr)
            for name in info.functions:
                info.namespace.pop(name, None)
            for name, value in list(info.namespace.items()):
                scalar = value.one
                if isinstance(scalar, Instance) and scalar.attrs is not None:
                    hook = scalar.info.find("__set_name__")
                    if hook is not None and isinstance(hook[1], Function):
                        self.run_constructor(hook[1], scalar, [V(ClassRef(info)), V(name)], {}, fr)
        return info.namespace

    module_recorder: Any
    block: Any

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

    stored_attribute: Any

    def rewritten(self, info: ClassInfo, name: str) -> bool:
        """Whether an attribute is assigned anywhere but in its constructor (by the text of its module)."""
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

    # -- calls -------------------------------------------------------------------------------------

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
                if value.each is None and isinstance(value.one, Seq):
                    args.extend(V(x, value.roots, value.via) for x in value.one.items)
                elif value.each is not None and all(
                    isinstance(s, Seq) and len(s.items) == len(value.each[0].items) for s in value.each
                ):
                    for k in range(len(value.each[0].items)):
                        args.append(make(tuple(s.items[k] for s in value.each), value.roots, value.via))
                else:
                    loose = True
                continue
            args.append(value)
            if value.roots and not transparent and fr.recorder is not None:
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
            if value.roots and not transparent and fr.recorder is not None:
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

    havoc_self: Any
    worth_resolving: Any

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
                called = [o for o in f.options if not isinstance(o, _CONSTANTS)]
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

    @staticmethod
    def _provenance(args: list[V]) -> tuple[frozenset[str], frozenset[str]]:
        roots = via = EMPTY
        for arg in args:
            roots, via = roots | arg.roots, via | arg.via
        return roots, via

    def call_method(
        self, f: Method, args: list[V], kwargs: dict[str, V], fr: Frame, node: ast.Call | None
    ) -> V:
        """Methods of strings, sequences and dictionaries."""
        this, name = f.this, f.name
        roots, via = self._provenance(args)
        if name in _MUTATORS:
            self.touch(this, fr)
            if name == "setdefault" or name == "pop":
                fr.raises += 1
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
        if name not in _MUTATORS:
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

    # -- builtins ----------------------------------------------------------------------------------

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
                fr.raises += 1
            return out
        fr.raises += 1
        roots, via = self._provenance(args) if name in ("max", "min", "sorted") else (EMPTY, EMPTY)
        return V(unknown(f"call {name}()"), roots, via)

    def _plain_attribute(self, scalar: Any, name: str, fr: Frame) -> V:
        """``object.__getattribute__(x, name)``: no ``__getattr__`` of the class."""
        if isinstance(scalar, Instance) and scalar.attrs is not None and name in scalar.attrs:
            return scalar.attrs[name]
        if isinstance(scalar, Instance):
            stored = self.stored_attribute(scalar.info, name, fr)
            if stored is not None:
                return stored
        return V(Unknown(reasons_of(scalar) or frozenset({f"attribute {name}"})))

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


def _is_none(value: V) -> bool:
    return value.one is None and value.each is None


_ASSIGNS = re.compile(r"[ \t]*(?::[^=\n]+)?(?://|>>|<<|\*\*|[-+*/|&^%@])?=(?!=)")


def _assigned_outside(module: Any, name: str) -> bool:
    hit = module.poked.get(name)
    if hit is None:
        hit = module.poked[name] = _find_assignment(module.text, name)
    return bool(hit)


def _find_assignment(text: str, name: str) -> bool:
    """Whether a text assigns or deletes ``x.NAME``, also through ``setattr``, where x is not self or cls."""
    at = text.find(f".{name}")
    while at >= 0:
        end = at + len(name) + 1
        if not (text[end : end + 1].isalnum() or text[end : end + 1] == "_"):
            if _ASSIGNS.match(text, end) and not text.endswith(("self", "cls"), max(0, at - 4), at):
                return True
            if text[text.rfind("\n", 0, at) + 1 : at].lstrip().startswith("del "):
                return True
        at = text.find(f".{name}", end)
    for quoted in (f'"{name}"', f"'{name}'"):
        at = text.find(quoted)
        while at >= 0:
            before = text[max(0, at - 60) : at]
            if "setattr(" in before or "delattr(" in before:
                return True
            at = text.find(quoted, at + 1)
    return False


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
    if name == "len" and isinstance(first, (Seq, Map, str)):
        return len(first.items) if not isinstance(first, str) else len(first)
    if name in ("tuple", "list", "set", "frozenset"):
        if not args:
            return Seq(name, ())
        if isinstance(first, Map):
            return Seq(name, tuple(first.items))
        if isinstance(first, Seq):
            items = first.items
            if name in ("set", "frozenset"):
                unique: list[Any] = []
                for item in items:
                    if not any(same(item, u) for u in unique):
                        unique.append(item)
                items = tuple(unique)
            return Seq(name, items, first.cls if name == "tuple" else None)
        if isinstance(first, str) and len(first) < 200:
            return Seq(name, tuple(first))
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


_FOLD = frozenset(
    "bool len tuple list set frozenset dict map int float str abs round repr max min sum sorted reversed"
    " range type callable zip enumerate iter next".split()
)

__all__ = ["Calls", "Irregular", "Segment", "all_reasons", "join_scalars"]
