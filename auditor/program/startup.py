"""The start of a server, run abstractly: what becomes of its arguments and of the environment.

The object that holds the arguments is *tracked*: functions and methods that receive it are entered one by
one, and its attributes are followed through branches, calls, early returns and raises, on all targets at
once. Everything else is evaluated as in an audit. Whatever may change an argument in a way that cannot be
followed makes that argument, or all of them, unknown: a value is never kept beyond such a point.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from auditor.profile import compile_patterns
from auditor.program.classes import ClassInfo
from auditor.program.decisions import Decisions, Source
from auditor.program.expressions import dotted, short
from auditor.program.frames import Frame
from auditor.program.program import Program
from auditor.program.source import Irregular
from auditor.program.tracked import RAW, RECORDER, Ledger, Tracked, cells
from auditor.program.values import (
    Bound,
    ClassRef,
    Deferred,
    External,
    Function,
    Instance,
    Map,
    Method,
    Pending,
    Seq,
    Unknown,
    V,
    is_const,
    unknown,
)

MAX_CALLS = 40  # nesting of entered functions
MAX_SAME = 3  # of one function
STEPS = 6_000_000
_ROUNDS = 4  # visits of a loop body until what it changes is known
_FEW = 40  # items of a known sequence over which a loop is run one by one
#: Text of functions that may set environment flags.
_SETS_ENV = re.compile(r"\benviron\b|\bputenv\b|\.(?:set|clear|override)\(|\bsetdefault\(")
#: Text of functions that may set attributes of something they are given.
_SETS = re.compile(r"\w\.\w+[ \t]*(?:[-+*/|&^%]|//|\*\*)?=(?!=)|\bsetattr\b|__setattr__|__dict__|\bvars\(")
_MUTATORS = frozenset({"append", "extend", "update", "setdefault", "add", "pop", "remove", "insert", "clear"})
_ENVIRON = "os.environ"


@dataclass(frozen=True)
class Write:
    """One assignment to an argument. ``may`` and ``must`` are target masks: where a start may come to it, and
    where every start does that does not end in an exception."""

    name: str
    value: V
    path: str
    line: int
    symbol: str
    may: int
    must: int


@dataclass(frozen=True)
class EnvWrite:
    """One environment flag that is set. ``guarded``: only where the user had not set it."""

    name: str
    value: V
    path: str
    line: int
    symbol: str
    may: int
    must: int
    guarded: bool


@dataclass(frozen=True)
class Stop:
    """A raise that a start may run into."""

    path: str
    line: int
    symbol: str
    may: int
    must: int
    what: str


@dataclass
class Startup:
    """What a start leaves behind."""

    arguments: dict[str, V] = field(default_factory=dict)
    writes: list[Write] = field(default_factory=list)
    env: list[EnvWrite] = field(default_factory=list)
    raises: list[Stop] = field(default_factory=list)
    entered: int = 0
    complete: bool = True  # False: the budget ended first, and no argument is known


class _Exits:
    """Where control left a function or a loop: target masks, state, and why it may have."""

    def __init__(self, frame: Frame) -> None:
        self.frame = frame
        self.ends: list[tuple[int, dict[str, V], frozenset[str]]] = []


class _Runner(Decisions):
    def __init__(self, like: Program, model: str, user: dict[str, str] | None = None) -> None:
        super().__init__(like, model)
        self.assume.update({f"env.{name}": value for name, value in (user or {}).items()})
        self.log = Startup()
        self._facts: dict[str, str] = getattr(self.profile.start, "configs", {}).get(model, {})
        self._foreign: tuple[str, ...] = getattr(self.profile.start, "other_vendors", ())
        self._inside: list[Any] = []  # segments of the entered functions
        self._calls: list[ast.Call | None] = []  # the calls by which they were entered
        self._quiet = 0  # inside code that is evaluated in passing
        self._exits: list[_Exits] = []
        self._loops: list[_Exits] = []
        self._changed: set[int] = set()  # ids of containers that were changed in place
        self._plugin_names: dict[tuple[str, str], bool] = {}
        self._flag_paths = {
            m.path for m in map(self.module, sorted({s.module for s in self.profile.flags})) if m
        }

    # -- attributes of the arguments ---------------------------------------------------------------

    def instance_attribute(self, obj: Instance, name: str, fr: Frame) -> V:
        if not isinstance(obj, Tracked):
            if self._now and obj.attrs is not None and name in obj.attrs:
                return obj.attrs[name]  # what sets it later is seen, or has made it unknown
            return super().instance_attribute(obj, name, fr)
        if name == "__dict__":
            return V(External("arguments.__dict__"))
        if name == "__class__":
            return V(ClassRef(obj.info))
        value = self.read(name, obj)
        if value is not None:
            return value
        found = obj.info.find(name)
        if found is not None and isinstance(found[1], Function):
            this = V(self.record_object)
            kind = self.function_kind(found[1])
            if kind == "property":
                return self.call_function(found[1], [this], {}, fr)
            if kind == "staticmethod":
                return V(found[1])
            return V(Bound(found[1], V(ClassRef(obj.info)) if kind == "classmethod" else this))
        declared = self.class_value(obj.info, name, fr)
        return declared if declared is not None else V(unknown(f"attribute {obj.info.name}.{name}"))

    def _hasattr(self, scalar: Any, attr: str, fr: Frame) -> V:
        if isinstance(scalar, Unknown):
            facts = attr in self._facts and any("config" in reason for reason in scalar.reasons)
            if facts or attr == "architectures":
                return V(True)
        if isinstance(scalar, Tracked):
            if self.read(attr, scalar) is not None or scalar.info.find(attr):
                return V(True)
            return V(self.class_value(scalar.info, attr, fr) is not None)
        return super()._hasattr(scalar, attr, fr)

    def attribute_of(self, scalar: Any, name: str, fr: Frame, node: ast.AST | None = None) -> V:
        if isinstance(scalar, Unknown):
            if name == "architectures":
                return V(Seq("list", (self.model,)))
            if name in self._facts and any("config" in reason for reason in scalar.reasons):
                return V(self._facts[name])
        if isinstance(scalar, Ledger):
            return V(Method(scalar, name))
        if isinstance(scalar, External) and scalar.name == "arguments.__dict__":
            return V(External(f"{scalar.name}.{name}"))
        if isinstance(scalar, ClassRef) and name == "__mro__" and scalar.info.closed():
            return V(Seq("tuple", (*map(ClassRef, scalar.info.mro()), External("builtins.object"))))
        if isinstance(scalar, Function) and name in ("__name__", "__qualname__"):
            return V(scalar.name if name == "__name__" else scalar.qualname)
        return super().attribute_of(scalar, name, fr, node)

    def argument_value(self, name: str, default: V | None = None) -> V:
        """An argument of an object that may or may not be the one that is tracked."""
        return V(unknown(f"arg.{name}")) if self._now else super().argument_value(name, default)

    def _isinstance(self, a: Any, b: Any) -> Any:
        if isinstance(a, Tracked) and isinstance(b, ClassRef) and b.info.fullname in self._kinds:
            return a.layer != RAW
        return super()._isinstance(a, b)

    def assign(self, target: ast.expr, value: V, fr: Frame, node: ast.stmt | None = None) -> None:  # type: ignore[override]
        if isinstance(target, ast.Attribute) and self._now:
            base = self.ev(target.value, fr)
            if self._set_attribute(base, target, value, fr):
                return
            self._set_on_objects(base, target.attr, value)
        elif isinstance(target, ast.Subscript) and self._now:
            base = self.ev(target.value, fr)
            if isinstance(base.one, External) and base.one.name == _ENVIRON:
                self._set_environment(self.ev(target.slice, fr), value, fr, target)
                return
            if isinstance(base.one, External) and base.one.name == "arguments.__dict__":
                self._set_named(V(self.record_object), self.ev(target.slice, fr), value, fr, target)
                return
            if self._set_item(target, base, value, fr):
                return
        super().assign(target, value, fr, node)

    def _set_attribute(self, base: V, target: ast.Attribute, value: V, fr: Frame) -> bool:
        name = target.attr
        if base.each is None and isinstance(base.one, Tracked):
            self._write(base.one, name, value, fr, self.source_of(fr, target))
            return True
        if any(isinstance(s, Unknown) for s in base.scalars()):
            holder = (dotted(target.value) or "").rpartition(".")[2]
            named = holder in self._argument_names and name in self.fields
            if named or any(isinstance(s, Unknown) and self._reaches(s, 1) for s in base.scalars()):
                self._weakly(name, value, fr, self.source_of(fr, target))
                return named is False
        return False

    def _set_on_objects(self, base: V, name: str, value: V) -> None:
        """An attribute of other objects is set: whoever reads it from now on may see either value."""
        for scalar in base.scalars():
            for obj in scalar.options or () if isinstance(scalar, Unknown) else (scalar,):
                if isinstance(obj, Instance) and not isinstance(obj, Tracked) and obj.attrs is not None:
                    old = obj.attrs.get(name)
                    if old is None:
                        obj.attrs[name] = value  # there was nothing to see before
                        continue
                    obj.attrs[name] = self.select(
                        self.full, self.full, old, value, V(unknown(f"value {name}"))
                    )

    def _lose(self, given: tuple[V, ...]) -> None:
        """Objects are given to code that is not followed: attributes that are set after construction, by
        the text of their module, are no longer known."""
        for scalar in (s for value in given for s in value.scalars()):
            for obj in scalar.options or () if isinstance(scalar, Unknown) else (scalar,):
                if isinstance(obj, Instance) and not isinstance(obj, Tracked):
                    for name in obj.attrs or ():
                        if self.rewritten(obj.info, name):
                            self._set_on_objects(V(obj), name, V(unknown(f"value {name}")))

    def _write(self, obj: Tracked, name: str, value: V, fr: Frame, source: Source) -> None:
        """``obj.name = value``"""
        if self.is_ledger(name):
            self.set_ledger(name, value, fr, None)
            return
        sure = tuple(2 for _ in range(self.count))
        if obj.layer == RECORDER:
            if name in self.fields:
                self.settle(name, value, sure, source, fr)
            return
        self.set_record(name, value, fr)
        self.note_write(name, value, sure, source, fr)

    def _weakly(self, name: str, value: V, fr: Frame, source: Source) -> None:
        """An attribute of something that may be the arguments is set."""
        if name in self.fields or self.cell(f"@.{name}") is not None:
            old = self.cell(f"@.{name}") or self._unwritten(f"@.{name}", fr)
            why = V(unknown(f"what {source.symbol} sets {name} on"))
            self.set_record(name, self.select(self.full, self.full, old, value, why), fr)
            self.note_write(name, value, tuple(1 for _ in range(self.count)), source, fr)

    def _set_named(self, base: V, name: V, value: V, fr: Frame, node: ast.AST | None) -> None:
        """``setattr(base, name, value)`` for a base that is, or may be, the arguments."""
        source = self.source_of(fr, node)
        names = name.scalars()
        if name.each is None and isinstance(names[0], str):
            if isinstance(base.one, Tracked):
                self._write(base.one, names[0], value, fr, source)
            else:
                self._weakly(names[0], value, fr, source)
            return
        options: list[str] = []
        for scalar in names:
            choice = scalar.options if isinstance(scalar, Unknown) else (scalar,)
            if choice is None or not all(isinstance(o, str) for o in choice):
                self.forget_arguments("setattr() under a computed name", fr)
                return
            options.extend(choice)
        for option in sorted(set(options)):
            self._weakly(option, value, fr, source)

    def note_write(self, name: str, value: V, status: tuple[int, ...], source: Source, fr: Frame) -> None:
        if self._quiet or name not in self.fields or self.relation(fr) == "aside":
            return
        top = self.top
        may = sum(1 << i for i, s in enumerate(status) if s) & top.may
        must = sum(1 << i for i, s in enumerate(status) if s == 2) & top.must
        if self.relation(fr) == "inside":
            must = 0
        if may:
            self.log.writes.append(Write(name, value, source.path, source.line, source.symbol, may, must))

    # -- containers that are changed in place --------------------------------------------------------

    def _set_item(self, target: ast.Subscript, base: V, value: V, fr: Frame) -> bool:
        """``name[key] = value`` on a dictionary of this function."""
        key = self.ev(target.slice, fr)
        if not isinstance(target.value, ast.Name) or target.value.id not in fr.env:
            self._changed.update(id(s) for s in base.scalars() if isinstance(s, (Map, Seq)))
            return False
        if not all(isinstance(s, Map) for s in base.scalars()) or not all(is_const(s) for s in key.scalars()):
            self._changed.update(id(s) for s in base.scalars() if isinstance(s, (Map, Seq)))
            return False

        def put(i: int) -> Map:
            old: Map = base.at(i)
            k = key.at(i)
            return Map({**old.items, k: value.at(i)}, _without(old.maybe, k))

        self._replace(target.value.id, base, [put(i) for i in range(self.count)], fr)
        return True

    def _replace(self, name: str, old: V, new: list[Any], fr: Frame) -> None:
        """Bind a local name to the changed container; other names of the same object are no longer known."""
        gone = {id(s) for s in old.scalars()}
        self._changed |= gone
        self._alive.append(old)
        self._stale(gone, fr, name)
        split = old.each is not None or any(v is not new[0] for v in new[1:])
        fr.env[name] = V(None, old.roots, old.via, tuple(new)) if split else V(new[0], old.roots, old.via)

    @staticmethod
    def _stale(gone: set[int], fr: Frame, but: str | None = None) -> None:
        for other, held in fr.env.items():
            if other != but and other[0] != "@" and any(id(s) in gone for s in held.scalars()):
                fr.env[other] = V(unknown(f"{other} is changed in place"))

    def _escapes(self, node: ast.Call, func: V, fr: Frame) -> None:
        if self._in_place(node, func, fr) is None:
            super()._escapes(node, func, fr)

    @staticmethod
    def _in_place(node: ast.Call | None, func: V, fr: Frame) -> str | None:
        """The local name whose container a method call changes in a way that is followed."""
        if (
            node is None
            or not isinstance(node.func, ast.Attribute)
            or not isinstance(node.func.value, ast.Name)
        ):
            return None
        name = node.func.value.id
        if name not in fr.env:
            return None
        for scalar in func.scalars():
            if not isinstance(scalar, Method):
                return None
            if isinstance(scalar.this, Map) and scalar.name in ("update", "setdefault"):
                continue
            if (
                isinstance(scalar.this, Seq)
                and scalar.this.kind == "list"
                and scalar.name in ("append", "extend")
            ):
                continue
            return None
        return name

    def call(
        self, func: V, args: list[V], kwargs: dict[str, V], fr: Frame, node: ast.Call | None = None
    ) -> V:
        if self._now:
            name = self._in_place(node, func, fr)
            if name is not None:
                return self._change(name, func, args, kwargs, fr)
            if func.each is not None and self.relation(fr) == "here":
                return self._call_split(func, args, kwargs, fr, node)
        return super().call(func, args, kwargs, fr, node)

    def _change(self, name: str, func: V, args: list[V], kwargs: dict[str, V], fr: Frame) -> V:
        old = fr.env[name]
        method = func.at(0).name
        new: list[Any] = []
        for i in range(self.count):
            this = func.at(i).this
            given = [a.at(i) for a in args]
            extra = {k: v.at(i) for k, v in kwargs.items()}
            new.append(self._changed_copy(this, method, given, extra))
        answer = V(None)
        if method == "setdefault":
            answer = V(unknown("call setdefault()"))
        self._replace(name, old, new, fr)
        return answer

    def _changed_copy(self, this: Any, method: str, args: list[Any], extra: dict[str, Any]) -> Any:
        if method == "append" and len(args) == 1:
            return Seq("list", (*this.items, args[0]))
        if method == "extend" and len(args) == 1 and isinstance(args[0], Seq):
            return Seq("list", this.items + args[0].items)
        if method == "update" and (not args or (len(args) == 1 and isinstance(args[0], Map))):
            items, maybe = dict(this.items), dict(this.maybe)
            more = args[0] if args else Map({})
            for key, value in more.items.items():
                if key in more.maybe and key in items:
                    value = self._either(items[key], value, unknown("dictionary key"))
                elif key in more.maybe:
                    maybe[key] = more.maybe[key]
                else:
                    maybe.pop(key, None)
                items[key] = value
            items.update(extra)
            return Map(items, _without(maybe, *extra))
        if method == "setdefault" and 1 <= len(args) <= 2 and is_const(args[0]):
            key, value = args[0], args[1] if len(args) > 1 else None
            if key in this.maybe:
                value = self._either(this.items[key], value, unknown("dictionary key"))
            elif key in this.items:
                return this
            return Map({**this.items, key: value}, _without(this.maybe, key))
        return unknown(f"call {method}()")

    def _call_split(
        self, func: V, args: list[V], kwargs: dict[str, V], fr: Frame, node: ast.Call | None
    ) -> V:
        """What is called differs between targets: each call acts on its own targets only."""
        groups: list[tuple[Any, int]] = []
        for i, scalar in enumerate(func.scalars()):
            for k, (known, mask) in enumerate(groups):
                if known is scalar:
                    groups[k] = (known, mask | 1 << i)
                    break
            else:
                groups.append((scalar, 1 << i))
        return self.alternatives(
            [(mask, lambda s=scalar: self.call_one(s, args, kwargs, fr, node)) for scalar, mask in groups],  # type: ignore[misc]
            V(unknown("call")),
            fr,
        )

    def call_one(
        self, f: Any, args: list[V], kwargs: dict[str, V], fr: Frame, node: ast.Call | None = None
    ) -> V:
        if self._now and isinstance(f, Unknown):
            options = [o for o in f.options or () if not is_const(o)]
            if 1 < len(options) <= 8 and self.relation(fr) == "here":
                fr.raises += 1
                return self.alternatives(
                    [(self.full, lambda o=o: self.call_one(o, args, kwargs, fr, node)) for o in options],  # type: ignore[misc]
                    V(Unknown(f.reasons)),
                    fr,
                )
            if not options:
                self._lose((*args, *kwargs.values()))
            if not options and any(self.reaches(v) for v in (*args, *kwargs.values())):
                self.forget_arguments(f"call {short(node.func) if node is not None else '?'}()", fr)
        return super().call_one(f, args, kwargs, fr, node)

    def loose_call(
        self, func: V, args: list[V], kwargs: dict[str, V], open_: list[V], fr: Frame, node: ast.Call
    ) -> V:
        if self._now:
            func = self._settled(func)
            if self.loose_special(func, args, kwargs, open_, fr, node):
                return V(None)
            self._lose((*args, *kwargs.values()))
            if any(self.reaches(v) for v in (*args, *kwargs.values(), func)):
                for scalar in func.scalars():
                    self._unfollowed(scalar, short(node.func), fr)
        return super().loose_call(func, args, kwargs, open_, fr, node)

    def worth_resolving(self, pending: Pending, args: Any) -> bool:
        return bool(self._now) or super().worth_resolving(pending, args)

    def evaluate_call(self, node: ast.Call, fr: Frame) -> V:
        before, self._changed = self._changed, set()
        value = super().evaluate_call(node, fr)
        if self._changed and self._now:
            self._stale(self._changed, fr, _receiver(node))
        self._changed |= before
        return value

    # -- the environment -----------------------------------------------------------------------------

    def _set_environment(
        self, key: V, value: V, fr: Frame, node: ast.AST | None, setdefault: bool = False
    ) -> None:
        if not (key.each is None and isinstance(key.one, str)):
            if self.relation(fr) != "aside":
                self.set_cell("@env.?", V(unknown("environment written under a computed name")), fr)
            else:
                fr.effects[("@", "@env.?")] = value
            return
        name = key.one
        if setdefault:
            held = self.flag(name) or self.world.environment(name, None)
            value = self._zip(
                held,
                value,
                lambda h, v: self._either(h, v, h) if isinstance(h, Unknown) else v if h is None else h,
            )
        self.set_flag(name, value, fr)
        if self._quiet or self.relation(fr) == "aside":
            return
        place, top = self._hook(fr, node), self.top
        must = top.must if self.relation(fr) == "here" else 0
        self.log.env.append(
            EnvWrite(name, value, place.path, place.line, place.symbol, top.may, must, setdefault)
        )

    def _hook(self, fr: Frame, node: ast.AST | None) -> Source:
        """The place outside the module of the flags from which a flag is being set."""
        for frame, call in zip(reversed(self._now), [node, *reversed(self._calls)]):
            if frame.module.path not in self._flag_paths:
                return self.source_of(frame, call)
        return self.source_of(fr, node)

    def call_external(
        self, f: External, args: list[V], kwargs: dict[str, V], fr: Frame, node: ast.Call | None
    ) -> V:
        if self._now:
            value = self._environment_call(f.name, args, kwargs, fr, node)
            if value is not None:
                return value
            if f.name.startswith("arguments.__dict__."):
                if f.name.rpartition(".")[2] in _MUTATORS:
                    self.forget_arguments("__dict__ is changed", fr)
                return V(unknown("call __dict__"))
            if f.name.endswith(".__setattr__") and len(args) == 3 and self.reaches(args[0], 1):
                self._set_named(args[0], args[1], args[2], fr, node)
                return V(None)
        return super().call_external(f, args, kwargs, fr, node)

    def _environment_call(
        self, name: str, args: list[V], kwargs: dict[str, V], fr: Frame, node: ast.Call | None
    ) -> V | None:
        if not name.startswith(("os.environ.", "os.getenv", "os.putenv", "os.unsetenv")):
            return None
        key = args[0] if args else kwargs.get("key", V(unknown("env")))
        if name in ("os.getenv", "os.environ.get"):
            held = self.flag(key.one) if isinstance(key.one, str) else None
            if held is None:
                return None
            default = args[1] if len(args) > 1 else kwargs.get("default", V(None))
            return self._zip(held, default, self._or_default)
        if name == "os.environ.setdefault" and len(args) == 2:
            self._set_environment(args[0], args[1], fr, node, True)
            return V(unknown("call os.environ.setdefault()"))
        if name == "os.putenv" and len(args) == 2:
            self._set_environment(args[0], args[1], fr, node)
            return V(None)
        if name in ("os.environ.pop", "os.unsetenv"):
            held = self.flag(key.one) if isinstance(key.one, str) else None
            self._unset(key, fr)
            return held if held is not None else V(unknown(f"call {name}()"))
        if name == "os.environ.update":
            whole = args[0] if args else V(Map({}))
            if isinstance(whole.one, Map) and not whole.one.maybe:
                for k, v in (*((k, V(v)) for k, v in whole.one.items.items()), *kwargs.items()):
                    self._set_environment(V(k), v, fr, node)
            else:
                self._set_environment(V(unknown("env")), V(unknown("env")), fr, node)
            return V(None)
        if name in ("os.environ.clear", "os.environ.popitem"):
            self._set_environment(V(unknown("env")), V(unknown("env")), fr, node)
        return None

    def _unset(self, key: V, fr: Frame) -> None:
        if isinstance(key.one, str):
            if self.flag(key.one) is not None or self.world.environment(key.one, None).one is not None:
                self.set_flag(key.one, V(None), fr)
        else:
            self._set_environment(key, V(None), fr, None)

    @staticmethod
    def _or_default(held: Any, default: Any) -> Any:
        if held is None:
            return default
        if isinstance(held, Unknown) and held.options is not None and None in held.options:
            kept = tuple(o for o in held.options if o is not None)
            return Unknown(held.reasons, (*kept, default) if is_const(default) else None)
        return held

    def environ_item(self, key: Any) -> Any:
        held = self.flag(key) if self._now and isinstance(key, str) else None
        if held is None:
            return super().environ_item(key)
        return held.one if held.each is None else unknown(f"env.{key}")

    def _in(self, a: Any, b: Any) -> Any:
        if isinstance(b, Unknown) and b.reasons == {"device name"} and a in self._foreign:
            return False
        return super()._in(a, b)

    def _compare(self, node: ast.Compare, fr: Frame) -> V:
        if len(node.ops) == 1 and isinstance(node.ops[0], (ast.In, ast.NotIn)) and self._now:
            right = self.ev(node.comparators[0], fr)
            if isinstance(right.one, External) and right.one.name == _ENVIRON:
                left = self.ev(node.left, fr)
                held = self.flag(left.one) if left.each is None and isinstance(left.one, str) else None
                if held is not None:
                    wanted = isinstance(node.ops[0], ast.In)
                    return self._map(held, lambda s: self._is_there(s, wanted))
        return super()._compare(node, fr)

    def _is_there(self, scalar: Any, wanted: bool) -> Any:
        none = self._is(scalar, None)
        return none if isinstance(none, Unknown) else none != wanted

    def _delete(self, node: ast.Delete, fr: Frame) -> None:
        for target in node.targets if self._now else ():
            if isinstance(target, ast.Subscript):
                base = self.ev(target.value, fr)
                if isinstance(base.one, External) and base.one.name == _ENVIRON:
                    self._unset(self.ev(target.slice, fr), fr)
                elif isinstance(target.value, ast.Name) and target.value.id in fr.env:
                    name = target.value.id
                    self._replace(
                        name, fr.env[name], [unknown(f"{name} is changed in place")] * self.count, fr
                    )
            elif isinstance(target, ast.Attribute):
                base = self.ev(target.value, fr)
                if self.reaches(base, 1):
                    self.set_record(target.attr, V(unknown(f"deleted {target.attr}")), fr)
        super()._delete(node, fr)

    # -- entering functions ----------------------------------------------------------------------------

    def call_function(
        self,
        function: Function,
        args: list[V],
        kwargs: dict[str, V],
        fr: Frame | None,
        node: ast.Call | None = None,
    ) -> V:
        if not self._now or self.steps < 0:
            return super().call_function(function, args, kwargs, fr, node)
        if fr is None:
            fr = self.top if not self._quiet else Frame(function.module, {}, full=self.full, kind="function")
        known = self.special(function, args, kwargs, fr, node)
        if known is not None:
            return known
        touched = any(self.reaches(a) for a in (*args, *kwargs.values()))
        inner = function.closure is not None
        if touched or inner or (self._sets_env(function) and not self.worth_calling(function, args, kwargs)):
            value = self._enter(function, args, kwargs, fr, node)
            if value is None:
                fr.raises += 1
                self._lose((*args, *kwargs.values()))
                if touched or (inner and self.closes_over(function)):
                    self._unfollowed(function, f"{function.qualname}", fr)
                return V(unknown(f"call {function.qualname}()"))
            return value
        if not self.worth_calling(function, args, kwargs) and _SETS.search(
            function.segment.text or "x.y = 1"
        ):
            self._lose((*args, *kwargs.values()))
        outer, fr.effects = fr.effects, {}
        self._quiet += 1
        try:
            value = super().call_function(function, args, kwargs, fr, node)
        finally:
            self._quiet -= 1
            noted, fr.effects = fr.effects, outer
        ours = {k: v for k, v in noted.items() if k[0] == "@"}
        fr.effects.update({k: v for k, v in noted.items() if k[0] != "@"})
        if not ours:
            return value
        if self.relation(fr) == "aside":
            fr.effects.update(ours)
            return value
        entered = self._enter(function, args, kwargs, fr, node)
        if entered is not None:
            return entered
        for (_at, key), _v in ours.items():
            if key == "@.*":
                self.forget_arguments(f"call {function.qualname}()", fr)
            else:
                self.set_cell(key, V(unknown(f"call {function.qualname}()")), fr)
        return value

    @staticmethod
    def _sets_env(function: Function) -> bool:
        return _SETS_ENV.search(function.segment.text or "environ") is not None

    def _unfollowed(self, scalar: Any, what: str, fr: Frame) -> None:
        """Something that is given the arguments cannot be entered: what may it have set?"""
        if isinstance(scalar, (External, Method, Map, Seq)) or is_const(scalar):
            return  # code outside the tree does not know the arguments
        function = scalar.function if isinstance(scalar, Bound) else scalar
        if isinstance(function, ClassRef):
            found = function.info.find("__init__")
            if found is None:
                return
            function = found[1]
        if isinstance(function, Function) and self._harmless(function):
            return
        self.forget_arguments(f"call {what}()", fr)

    def _harmless(self, function: Function) -> bool:
        """Whether a function, by its text, sets no attribute and hands the arguments to nobody."""
        text = function.segment.text
        if not text:
            text = ast.unparse(function.segment.node())
        if _SETS.search(text) or any(n.rpartition(".")[2] in text for n in self._kinds):
            return False
        names = set(self._parameters(function))
        handed = re.compile(r"\b(\w[\w.]*)\(([^()]*)\)")
        for callee, given in handed.findall(text):
            if callee in ("getattr", "hasattr", "isinstance", "str", "repr", "len", "bool", "int"):
                continue
            if callee == function.name:
                continue
            if names & set(re.findall(r"\b\w+\b", given)) or callee.split(".")[0] in names:
                return False
        return True

    def instantiate(
        self, info: Any, args: list[V], kwargs: dict[str, V], fr: Frame, node: ast.Call | None
    ) -> V:
        given = (*args, *kwargs.values())
        if self._now and any(self.reaches(v) for v in given):
            kind = self._kinds.get(info.fullname)
            if kind in ("views", "snapshots"):
                for value in given:
                    if isinstance(value.one, Tracked):
                        return V(self.view_object if kind == "views" else self.snapshot())
            found = info.find("__init__")
            value = super().instantiate(info, args, kwargs, fr, node)
            if found is not None and isinstance(value.one, Instance) and value.one.attrs is None:
                entered = self._enter(found[1], [value, *args], kwargs, fr, node)
                if entered is None:
                    self._unfollowed(found[1], info.name, fr)
            return value
        return super().instantiate(info, args, kwargs, fr, node)

    def run_constructor(
        self, function: Function, obj: Instance, args: list[V], kwargs: dict[str, V], fr: Frame
    ) -> None:
        if self._now and (
            any(self.reaches(v) for v in (*args, *kwargs.values())) or self._sets_env(function)
        ):
            if self._enter(function, [V(obj), *args], kwargs, fr, None, obj) is None:
                obj.attrs = None
                self._unfollowed(function, function.qualname, fr)
            return
        super().run_constructor(function, obj, args, kwargs, fr)

    def _enter(
        self,
        function: Function,
        args: list[V],
        kwargs: dict[str, V],
        fr: Frame,
        call: ast.Call | None = None,
        built: Instance | None = None,
    ) -> V | None:
        """Run a function on the state of the start. None where it cannot be entered."""
        self.function_kind(function)
        again = sum(1 for segment in self._inside if segment is function.segment)
        if "opaque" in function.flags or len(self._now) >= MAX_CALLS or again >= MAX_SAME:
            return None
        try:
            node: Any = function.segment.node()
        except Irregular:
            return None
        env: dict[str, V] = {}
        if not self._bind_arguments(function, node, args, kwargs, env):
            return None
        outer, relation = self.top, self.relation(fr)
        env.update(cells(outer.env))
        inner = Frame(
            function.module,
            env,
            full=self.full,
            kind="function",
            owner=function.owner,
            parent=function.closure,
            symbol=function.qualname,
            depth=min(fr.depth + 1, 6),
        )
        if function.owner is not None and node.args.args and function.kind != "staticmethod":
            inner.this = node.args.args[0].arg
        if relation != "aside":
            inner.may, inner.must = outer.may, outer.must
        exits = _Exits(inner)
        stops, journal = len(self.log.raises), len(self._journal)
        loops, self._loops = self._loops, []
        self._exits.append(exits)
        self._inside.append(function.segment)
        self._now.append(inner)
        self._calls.append(call)
        self.log.entered += 1
        start = inner.may
        try:
            self.block(node.body, inner)
            if inner.may:
                exits.ends.append((inner.may, cells(inner.env), inner.control()[2]))
            value = self.result(inner)
        finally:
            self._exits.pop()
            self._inside.pop()
            self._now.pop()
            self._calls.pop()
            self._loops = loops
        if built is not None and built.attrs is not None:
            prefix = f"{inner.this}."
            for key, held in inner.env.items():
                if key.startswith(prefix) and key.count(".") == 1:
                    built.attrs[key[len(prefix) :]] = held
        came = 0
        merged: dict[str, V] | None = None
        for mask, state, reasons in exits.ends:
            if not mask:
                continue
            if merged is None:
                merged = dict(state)
            else:
                why = V(Unknown(reasons or frozenset({f"path through {function.qualname}"})))
                merged = self._merge(came, merged, mask, state, why, fr)
            came |= mask
        if merged is not None:
            self._hand_over(merged, outer, relation, fr, journal)
        if relation == "here":
            raised = start & ~came
            if self._trying:
                for stop in self.log.raises[stops:]:
                    raised |= stop.may
            fr.must &= came & ~raised
            fr.may &= came
            if self._trying:
                fr.stay &= ~raised
        if inner.raises:
            fr.raises += 1
        if self.opaque_decorator(function, self.module_frame(function.module)):
            return V(unknown(f"decorated {function.qualname}"))
        return value

    def _hand_over(self, merged: dict[str, V], outer: Frame, relation: str, fr: Frame, journal: int) -> None:
        """Give the state at the end of a function to its caller."""
        del self._journal[journal:]
        for key, value in merged.items():
            old = outer.env.get(key)
            if old is value:
                continue
            if relation == "aside":
                fr.effects[("@", key)] = value
                continue
            self._journal.append((key, old))
            if relation == "inside":
                before = old if old is not None else self._unwritten(key, fr)
                value = self.select(self.full, self.full, before, value, V(unknown("comprehension")))
            outer.env[key] = value

    # -- statements --------------------------------------------------------------------------------------

    def _return(self, node: ast.Return, fr: Frame) -> None:
        if self._exits and self._exits[-1].frame is fr:
            value = V(None) if node.value is None else self.ev(node.value, fr)
            if fr.may:
                roots, via, why = fr.control()
                fr.returns.append((fr.may, value, roots, via, why))
                self._exits[-1].ends.append((fr.may, cells(fr.env), why))
            self._stop(fr)
            return
        super()._return(node, fr)

    def _raise(self, node: ast.Raise, fr: Frame) -> None:
        if node.exc is not None and self._now and not self._quiet:
            called = node.exc.func if isinstance(node.exc, ast.Call) else node.exc
            self._note_stop(node, short(called), fr.may, fr.must, fr)
        else:
            self._note_stop(node, "raise", fr.may, fr.must, fr)
        stay = fr.stay
        super()._raise(node, fr)
        if self._now and not self._trying:
            fr.stay = stay  # nothing comes after it: what is sure is sure for the starts that go on

    def _note_stop(self, node: ast.stmt, what: str, may: int, must: int, fr: Frame) -> None:
        if may and self._now and not self._quiet and fr is self.top:
            self.log.raises.append(Stop(fr.module.path, node.lineno, fr.symbol, may, must, what))

    def _assert(self, node: ast.Assert, fr: Frame) -> None:
        may, must, stay = fr.may, fr.must, fr.stay
        super()._assert(node, fr)
        # what no longer goes on surely; where the test was surely true nothing was lost
        lost = must & ~fr.must
        if lost or may & ~fr.may:
            self._note_stop(node, "AssertionError", may & (lost | ~fr.may), may & ~fr.may & must, fr)
        if self._now and not self._trying:
            fr.must, fr.stay = must & fr.may, stay

    def _leave_loop(self, node: Any, fr: Frame) -> None:
        if self._loops and self._loops[-1].frame is fr and fr.may:
            self._loops[-1].ends.append((fr.may, cells(fr.env), frozenset()))
        super()._leave_loop(node, fr)

    def _few_items(self, node: Any, iterable: V) -> list[Any] | None:
        items = super()._few_items(node, iterable)
        if items is not None or not self._now:
            return items
        if iterable.each is not None or not isinstance(iterable.one, Seq) or len(iterable.one.items) > _FEW:
            return None
        if any(isinstance(child, (ast.Break, ast.Continue)) for child in ast.walk(node)):
            return None
        return list(iterable.one.items)

    def _loop(self, node: Any, target: ast.expr | None, fr: Frame, test: ast.expr | None) -> None:
        """A loop over what is not known: what its body may change is open from the first round on."""
        if not self._now or fr is not self.top:
            super()._loop(node, target, fr, test)
            return
        env, state = dict(fr.env), (fr.may, fr.must, fr.stay)
        logs: tuple[list[Any], ...] = (self.log.writes, self.log.env, self.log.raises)
        marks = tuple(len(log) for log in logs)
        lengths = len(fr.returns), len(fr.left), len(self._exits[-1].ends) if self._exits else 0
        opened: set[str] = set()
        for name in _changed_in(node.body):
            if name in fr.env:
                fr.env[name] = V(unknown(f"{name} is changed in a loop"))
        env = dict(fr.env)
        for _round in range(_ROUNDS):
            journal = len(self._journal)
            loop = _Exits(fr)
            self._loops.append(loop)
            super()._loop(node, target, fr, test)
            self._loops.pop()
            changed = {key for key, _old in self._journal[journal:]}
            if changed <= opened:
                break
            opened |= changed
            fr.env = dict(env)
            fr.may, fr.must, fr.stay = state
            for log, mark in zip(logs, marks):
                del log[mark:]
            del fr.returns[lengths[0] :], fr.left[lengths[1] :]
            if self._exits:
                del self._exits[-1].ends[lengths[2] :]
            for key in opened:
                fr.env[key] = V(unknown(f"loop {key.lstrip('@+?.')}"))
        for log, mark in zip(logs, marks):
            for k in range(mark, len(log)):
                entry: Any = log[k]
                log[k] = type(entry)(**{**vars(entry), "must": 0})
        for key in opened:
            fr.env[key] = V(unknown(f"loop {key.lstrip('@+?.')}"))
            self._journal.append((key, env.get(key)))
            for written in self._trying:
                written.setdefault(key, []).append(fr.env[key])

    def forget_in_loop(self, name: str, fr: Frame) -> None:
        head, _, attr = name.partition(".")
        holder = fr.env.get(head)
        if attr and holder is not None and self._now and isinstance(holder.one, Tracked):
            return  # the rounds of the loop tell
        super().forget_in_loop(name, fr)

    def _try(self, node: Any, fr: Frame) -> None:
        if not self._now:
            super()._try(node, fr)
            return
        ends = self._exits[-1].ends if self._exits and self._exits[-1].frame is fr else []
        left = len(ends)
        self._trying.append({})
        try:
            super()._try(node, fr)
        finally:
            self._trying.pop()
        if node.finalbody and len(ends) > left:
            self._finally(node, ends, left, fr)

    def _finally(self, node: Any, ends: list[Any], left: int, fr: Frame) -> None:
        """Paths that left a try body early run its last part too."""
        probe = Frame(
            fr.module, dict(fr.env), full=self.full, kind="function", symbol=fr.symbol, parent=fr.parent
        )
        probe.this, probe.owner, probe.depth = fr.this, fr.owner, fr.depth
        journal = len(self._journal)
        self._now.append(probe)
        self._calls.append(None)
        self._quiet += 1
        try:
            self.block(node.finalbody, probe)
        finally:
            self._quiet -= 1
            self._now.pop()
            self._calls.pop()
        keys = {key for key, _old in self._journal[journal:]}
        del self._journal[journal:]
        for k in range(left, len(ends)):
            mask, state, why = ends[k]
            ends[k] = (mask, {**state, **{key: V(unknown("finally")) for key in keys}}, why)

    def interrupted(self, mids: dict[str, V], marker: V, fr: Frame) -> None:
        for key, values in (self._trying[-1] if self._trying and self._now else {}).items():
            value = mids.get(key) or self._unwritten(key, fr)
            for other in values:
                value = self.select(self.full, self.full, value, other, marker)
            mids[key] = value

    def _conditional(self, journal: int, fr: Frame) -> None:
        """What an operand that may not be evaluated has written may not have been written."""
        first: dict[str, V | None] = {}
        for key, old in self._journal[journal:]:
            first.setdefault(key, old)
        env = self.top.env
        for key, old in first.items():
            before = old if old is not None else self._unwritten(key, fr)
            env[key] = self.select(self.full, self.full, before, env[key], V(unknown("operand")))

    def _boolop(self, node: ast.BoolOp, fr: Frame) -> V:
        journal = len(self._journal)
        value = super()._boolop(node, fr)
        if len(self._journal) > journal and self._now:
            self._conditional(journal, fr)
        return value

    def _ifexp(self, node: ast.IfExp, fr: Frame) -> V:
        journal = len(self._journal)
        value = super()._ifexp(node, fr)
        if len(self._journal) > journal and self._now:
            self._conditional(journal, fr)
        return value

    # -- builtins and globals ----------------------------------------------------------------------------

    def call_builtin(
        self, name: str, args: list[V], kwargs: dict[str, V], fr: Frame, node: ast.Call | None
    ) -> V:
        if self._now and args:
            if name in ("setattr", "object.__setattr__") and len(args) == 3:
                if self.reaches(args[0], 1):
                    self._set_named(args[0], args[1], args[2], fr, node)
                elif isinstance(args[1].one, str):
                    self._set_on_objects(args[0], args[1].one, args[2])
                else:
                    for scalar in args[0].scalars():
                        if isinstance(scalar, Instance) and scalar.attrs is not None:
                            for key in scalar.attrs:
                                self._set_on_objects(
                                    args[0], key, V(unknown("setattr() under a computed name"))
                                )
                return V(None)
            if name in ("delattr", "object.__delattr__") and self.reaches(args[0], 1):
                self._set_named(args[0], args[1], V(unknown("deleted")), fr, node)
                return V(None)
            if name == "vars" and isinstance(args[0].one, Tracked):
                return V(External("arguments.__dict__"))
            if name in ("list", "tuple", "reversed") and isinstance(args[0].one, Ledger):
                return args[0]
            if name == "object.__getattribute__" and isinstance(args[0].one, Tracked):
                return (
                    self.attribute(args[0], args[1].one, fr)
                    if isinstance(args[1].one, str)
                    else V(unknown(name))
                )
            if name in ("exec", "eval"):
                self.forget_arguments(f"call {name}()", fr)
        return super().call_builtin(name, args, kwargs, fr, node)

    def _settled_global(self, module: Any, name: str, value: V) -> V:
        out = super()._settled_global(module, name, value)
        if isinstance(out.one, Unknown) and isinstance(value.one, (Map, Seq)) and not value.one.items:
            if self._now and self._for_plugins(module, name):
                return value
        return out

    def name_value(self, name: str, fr: Frame) -> V:
        out = super().name_value(name, fr)
        if (
            self._now
            and isinstance(out.one, Unknown)
            and name in fr.module.reassigned()
            and name not in fr.globals
        ):
            if out.one.reasons == {f"global {name}"} and self._for_plugins(fr.module, name):
                return self.global_value(fr.module, name) or out
        return out

    def _for_plugins(self, module: Any, name: str) -> bool:
        """Whether a module-level name is only changed by functions that nothing else in the tree names: a
        place where plugins register, and there are none under the fixed assumptions."""
        key = (module.name, name)
        if key not in self._plugin_names:
            changes = re.compile(
                rf"^[ \t]+global\b[^\n]*\b{re.escape(name)}\b"
                rf"|\b{re.escape(name)}(?:\[[^\]\n]*\][ \t]*=(?!=)|\.(?:{'|'.join(sorted(_MUTATORS))})\()",
                re.M,
            )
            fillers = {
                s.name for s in module.segments if s.kind != "other" and s.text and changes.search(s.text)
            }
            words = rb"|".join(n.encode() for n in sorted(fillers))
            named = re.compile(rb"(?<!def )\b(?:" + words + rb")\b")
            self._plugin_names[key] = bool(fillers) and not any(
                named.search(_without_docs(data))
                for path, data in self.files.items()
                if any(n.encode() in data for n in fillers) and not self.profile.is_excluded(path)
            )
        return self._plugin_names[key]

    # -- the run -----------------------------------------------------------------------------------------

    def _class_of_arguments(self) -> ClassInfo | None:
        for symbol in self.profile.arguments:
            module = self.module(symbol.module)
            if module is None:
                continue
            value = self.global_value(module, symbol.symbol)
            if value is not None and isinstance(value.one, ClassRef):
                return value.one.info
            for segment in module.segments:  # rebound to what a class factory makes of it
                if segment.kind == "class" and segment.name == symbol.symbol:
                    return ClassInfo(module, segment.name, segment.name, segment, self)
        return None

    def _declared_fields(self, info: ClassInfo) -> Iterator[tuple[str, ast.AnnAssign, ClassInfo]]:
        """Fields of the class, and where a class factory puts it together those of its parts: classes that
        its module lists, from the folders that the profile names."""
        yield from info.record_fields()
        rebound = self.global_value(info.module, info.name)
        if rebound is None or isinstance(rebound.one, ClassRef):
            return
        folders = compile_patterns(tuple(f for s in self.profile.arguments for f in s.folders))
        for name, value in list(info.module.globals.items()):
            if type(value.one) is Deferred and isinstance(value.one.node.value, (ast.List, ast.Tuple)):
                value = self.global_value(info.module, name) or value
            parts = value.one.items if isinstance(value.one, Seq) else ()
            for part in parts:
                if isinstance(part, ClassRef) and folders.match(
                    self.profile.below_root(part.info.module.path)
                ):
                    yield from part.info.record_fields()

    def _initial(self, name: str, node: ast.AnnAssign, owner: ClassInfo) -> V:
        if self.assume.get(f"arg.{name}") is not None:
            return super().argument_value(name)
        if node.value is not None:
            return self.field_default(node.value, owner)
        # what a user has to give, some text of their own: never one of the special words
        text = ast.unparse(node.annotation)
        plain = text == "str" or "[str," in text
        return V(f"<{name}>") if plain else V(unknown(f"arg.{name}"))

    def run(self) -> Startup:
        info = self._class_of_arguments()
        if info is None:
            return self.log
        self.info = info
        for subject in (self.record_object, self.view_object, self.recorder_object):
            subject.info = info
        outer = Frame(info.module, {}, full=self.full, kind="function", symbol="")
        for name, node, owner in self._declared_fields(info):
            if name not in self.fields:
                self.fields.add(name)
                outer.env[f"@.{name}"] = self._initial(name, node, owner)
                self.note_fallback(name, node, owner)
        self.steps = STEPS
        self._now.append(outer)
        self._calls.append(None)
        ended = False
        try:
            for entry in ("__post_init__", *(getattr(self.profile.start, "entries", ()) or ())):
                hook = info.find(entry)
                if hook is not None and isinstance(hook[1], Function):
                    if self._enter(hook[1], [V(self.record_object)], {}, outer) is None:
                        self._unfollowed(hook[1], hook[1].qualname, outer)
        except RecursionError:
            ended = True
        self.log.complete = self.steps > 0 and not ended
        for name in sorted(self.fields):
            value = self.filled(name, self.cell(f"@+.{name}") or outer.env[f"@.{name}"])
            self.log.arguments[name] = value if self.log.complete else V(unknown("budget"))
        if not self.log.complete:
            self.log.env = [replace(entry, value=V(unknown("budget"))) for entry in self.log.env]
        return self.log


def _without(maybe: dict[Any, frozenset[str]], *keys: Any) -> dict[Any, frozenset[str]]:
    return {k: v for k, v in maybe.items() if k not in keys}


def _receiver(node: ast.Call) -> str | None:
    func = node.func
    return func.value.id if isinstance(func, ast.Attribute) and isinstance(func.value, ast.Name) else None


def _changed_in(body: list[ast.stmt]) -> set[str]:
    """Names of containers that statements change in place."""
    out: set[str] = set()
    for node in (n for statement in body for n in ast.walk(statement)):
        if isinstance(node, ast.Subscript) and isinstance(node.ctx, (ast.Store, ast.Del)):
            if isinstance(node.value, ast.Name):
                out.add(node.value.id)
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            name = _receiver(node)
            if name is not None and node.func.attr in _MUTATORS:
                out.add(name)
    return out


def _without_docs(data: bytes) -> bytes:
    """A file without comments and long texts, roughly: what is named there calls nothing."""
    data = re.sub(rb'"""(?:[^"\\]|\\.|"(?!""))*"""', b"", data)
    return re.sub(rb"#[^\n]*", b"", data)


_OPPOSITE = {"1": "0", "0": "1", "true": "false", "false": "true"}


def run_startup(program: Program, model: str) -> Startup:
    """Run the start of a server for a model class on all targets.

    ``program`` gives the tree, the profile and the assumptions (``arg.NAME``, ``env.NAME``, ``defaults``).
    Where flags are set, a second run in which the user had set them to something else tells which of these
    writes are guarded.
    """
    first = _Runner(program, model).run()
    written: dict[str, list[str]] = {}
    for entry in first.env:
        if f"env.{entry.name}" not in program.assume:
            texts = [s for s in entry.value.scalars() if isinstance(s, str)]
            written.setdefault(entry.name, []).extend(texts)
    user = {name: _another(texts) for name, texts in written.items()}
    if user:
        again = _Runner(program, model, user).run()
        if again.complete:
            first.env = [part for entry in first.env for part in _guarded(entry, again.env, user)]
    return first


def _another(texts: list[str]) -> str:
    """What a user might have set a flag to: the opposite of what the start sets, or at least not the same."""
    wanted = [_OPPOSITE[t.lower()] for t in texts[:1] if t.lower() in _OPPOSITE]
    return next(t for t in (*wanted, "0", "1", "2", "user") if t not in texts[:3] or t == "user")


def _guarded(entry: EnvWrite, again: list[EnvWrite], user: dict[str, str]) -> list[EnvWrite]:
    """A write, parted into the targets on which a user's own setting stays and those on which it is lost."""
    text = user.get(entry.name)
    if entry.guarded or text is None:
        return [entry]
    lost = 0
    for other in again:
        if (other.name, other.path, other.line) == (entry.name, entry.path, entry.line) and not other.guarded:
            differs = (
                1 << i for i, scalar in enumerate(_per_target(other.value, entry.may)) if scalar != text
            )
            lost |= other.may & sum(differs)
    parts = ((entry.may & ~lost, True), (entry.may & lost, False))
    return [replace(entry, may=may, must=entry.must & may, guarded=kept) for may, kept in parts if may]


def _per_target(value: V, mask: int) -> list[Any]:
    return [value.at(i) for i in range(mask.bit_length())]


__all__ = ["EnvWrite", "Startup", "Stop", "Write", "run_startup"]
