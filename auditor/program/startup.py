"""The start of a server, run abstractly: what becomes of its arguments and of the environment.

The object that holds the arguments is *tracked*: functions and methods that receive it are entered one by
one, and its attributes are followed through branches, calls, early returns and raises, on all targets at
once. Everything else is evaluated as in an audit. What the profile calls ``setters`` and ``views`` are the
functions of newer releases that record a decision about the arguments, or hand out a view of them.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from auditor.program.expressions import short
from auditor.program.frames import Frame
from auditor.program.program import Program
from auditor.program.source import Irregular
from auditor.program.values import (
    Bound,
    ClassRef,
    EnumMember,
    External,
    Function,
    Instance,
    Map,
    Seq,
    Unknown,
    V,
    is_const,
    unknown,
)

MAX_CALLS = 40  # nesting of entered functions
STEPS = 6_000_000


class Tracked(Instance):
    """The argument object; its attributes live in the environment of the frame under ``@.NAME``."""

    __slots__ = ()


@dataclass(frozen=True)
class Write:
    """One assignment to an argument. ``may`` and ``must`` are target masks."""

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
    complete: bool = True  # False: the budget ended first


class _Runner(Program):
    def __init__(self, like: Program, model: str) -> None:
        super().__init__(
            like.files,
            like.root,
            like.profile,
            like.world.capabilities,
            like.world.shared,
            like.assume,
            like.shared_sm,
        )
        self.model = model
        self.log = Startup()
        self.subject: Tracked | None = None
        self._inside = 0
        self._exits: list[list[tuple[int, dict[str, V]]]] = []
        start = self.profile.start
        self._setters = set(getattr(start, "setters", ()) or ())
        self._views = set(getattr(start, "views", ()) or ())
        self._now: list[Frame] = []

    # -- the object --------------------------------------------------------------------------------

    def _cell(self, name: str, fr: Frame | None) -> V | None:
        frame = fr
        while frame is not None:
            value = frame.env.get(f"@.{name}")
            if value is not None:
                return value
            frame = frame.parent
        for outer in reversed(self._now):
            value = outer.env.get(f"@.{name}")
            if value is not None:
                return value
        return None

    def instance_attribute(self, obj: Instance, name: str, fr: Frame) -> V:
        if isinstance(obj, Tracked):
            value = self._cell(name, fr)
            if value is not None:
                return value
            found = obj.info.find(name)
            if found is not None and isinstance(found[1], Function):
                kind = self.function_kind(found[1])
                if kind == "property":
                    return self.call_function(found[1], [V(obj)], {}, fr)
                if kind == "staticmethod":
                    return V(found[1])
                if kind == "classmethod":
                    return V(Bound(found[1], V(ClassRef(obj.info))))
                return V(Bound(found[1], V(obj)))
            value = self.class_value(obj.info, name, fr)
            return value if value is not None else V(unknown(f"attribute {obj.info.name}.{name}"))
        return super().instance_attribute(obj, name, fr)

    def _hasattr(self, scalar: Any, attr: str, fr: Frame) -> V:
        if isinstance(scalar, Tracked):
            if self._cell(attr, fr) is not None or scalar.info.find(attr):
                return V(True)
            return V(self.class_value(scalar.info, attr, fr) is not None)
        return super()._hasattr(scalar, attr, fr)

    def attribute_of(self, scalar: Any, name: str, fr: Frame, node: ast.AST | None = None) -> V:
        if name == "architectures" and isinstance(scalar, Unknown):
            return V(Seq("list", (self.model,)))
        return super().attribute_of(scalar, name, fr, node)

    def write(self, name: str, value: V, fr: Frame, line: int) -> None:
        """Set an argument at the current point."""
        fr.env[f"@.{name}"] = value
        self.log.writes.append(Write(name, value, fr.module.path, line, fr.symbol, fr.may, fr.must))

    def assign(self, target: ast.expr, value: V, fr: Frame, node: ast.stmt | None = None) -> None:  # type: ignore[override]
        if isinstance(target, ast.Attribute):
            base = self.ev(target.value, fr)
            if isinstance(base.one, Tracked):
                self.write(target.attr, value, fr, target.lineno)
                return
        elif isinstance(target, ast.Subscript):
            base = self.ev(target.value, fr)
            if isinstance(base.one, External) and base.one.name == "os.environ":
                self._set_environment(self.ev(target.slice, fr), value, fr, False)
                return
        super().assign(target, value, fr, node)

    def forget_in_loop(self, name: str, fr: Frame) -> None:
        head, _, attr = name.partition(".")
        if attr and "." not in attr:
            holder = fr.env.get(head)
            if holder is not None and isinstance(holder.one, Tracked):
                fr.env[f"@.{attr}"] = V(unknown(f"loop {name}"))
                return
        super().forget_in_loop(name, fr)

    def _unwritten(self, key: str, fr: Frame) -> V:
        if key.startswith("@."):
            name = key[2:]
            outer = self._cell(name, fr.parent)
            if outer is not None:
                return outer
            if self.subject is not None:
                value = self.class_value(self.subject.info, name, fr)
                if value is not None:
                    return value
            return V(unknown(f"attribute {name}"))
        if key.startswith("@env."):
            return self.world.environment(key[5:], None)
        return super()._unwritten(key, fr)

    # -- the environment ---------------------------------------------------------------------------

    def _set_environment(self, key: V, value: V, fr: Frame, guarded: bool) -> None:
        if isinstance(key.one, str):
            fr.env[f"@env.{key.one}"] = value
            fr.effects[("@env?" if guarded else "@env", key.one)] = value

    def call_external(
        self, f: External, args: list[V], kwargs: dict[str, V], fr: Frame, node: ast.Call | None
    ) -> V:
        if f.name in ("os.getenv", "os.environ.get") and args and isinstance(args[0].one, str):
            value = self._environment_cell(args[0].one, fr)
            if value is not None:
                return value
        elif f.name == "os.environ.setdefault" and len(args) == 2:
            self._set_environment(args[0], args[1], fr, True)
            return V(unknown("call os.environ.setdefault()"))
        return super().call_external(f, args, kwargs, fr, node)

    def _environment_cell(self, name: str, fr: Frame | None) -> V | None:
        frame = fr
        while frame is not None:
            value = frame.env.get(f"@env.{name}")
            if value is not None:
                return value
            frame = frame.parent
        for outer in reversed(self._now):
            value = outer.env.get(f"@env.{name}")
            if value is not None:
                return value
        return None

    def _in(self, a: Any, b: Any) -> Any:
        if isinstance(b, External) and b.name == "os.environ" and isinstance(a, str):
            if self._environment_cell(a, None) is not None:
                return True
        return super()._in(a, b)

    # -- entering functions ------------------------------------------------------------------------

    def call_function(
        self,
        function: Function,
        args: list[V],
        kwargs: dict[str, V],
        fr: Frame | None,
        node: ast.Call | None = None,
    ) -> V:
        tracked = [a for a in (*args, *kwargs.values()) if isinstance(a.one, Tracked)]
        if not tracked or fr is None:
            before = dict(fr.effects) if fr is not None else {}
            value = super().call_function(function, args, kwargs, fr, node)
            if fr is not None and fr.effects != before:
                self._apply_effects(before, fr, node)
            return value
        name = f"{function.module.name}.{function.qualname}"
        if name in self._views:
            return tracked[0]
        if name in self._setters:
            self.declared(kwargs, fr, node)
            return V(None)
        value_or_none = self._enter(function, args, kwargs, fr)
        if value_or_none is None:
            fr.raises += 1
            return V(unknown(f"call {function.qualname}()"))
        return value_or_none

    def instantiate(
        self, info: Any, args: list[V], kwargs: dict[str, V], fr: Frame, node: ast.Call | None
    ) -> V:
        if info.fullname in self._views:
            for value in (*args, *kwargs.values()):
                if isinstance(value.one, Tracked):
                    return value
        return super().instantiate(info, args, kwargs, fr, node)

    def declared(self, fields: Mapping[str, V], fr: Frame, node: ast.Call | None) -> None:
        line = node.lineno if node is not None else 1
        for name, value in fields.items():
            self.write(name, value, fr, line)

    def _apply_effects(self, before: dict[Any, V], fr: Frame, node: ast.Call | None) -> None:
        for (kind, name), value in fr.effects.items():
            if not kind.startswith("@env") or before.get((kind, name)) is value:
                continue
            fr.env[f"@env.{name}"] = value
            guarded = kind == "@env?" or self._guarded(name, fr)
            self.log.env.append(
                EnvWrite(
                    name,
                    value,
                    fr.module.path,
                    node.lineno if node is not None else 1,
                    fr.symbol,
                    fr.may,
                    fr.must,
                    guarded,
                )
            )
        for key in [k for k in fr.effects if k[0].startswith("@env")]:
            del fr.effects[key]

    @staticmethod
    def _guarded(name: str, fr: Frame) -> bool:
        """Whether a test around this point asks if the flag is set."""
        return any(test.via and f"env.{name}" in test.via for test in fr.tests)

    def _enter(self, function: Function, args: list[V], kwargs: dict[str, V], fr: Frame) -> V | None:
        self.function_kind(function)
        if "opaque" in function.flags or self._inside >= MAX_CALLS or id(function.segment) in self._running:
            return None
        try:
            node: Any = function.segment.node()
        except Irregular:
            return None
        env: dict[str, V] = {}
        if not self._bind_arguments(function, node, args, kwargs, env):
            return None
        frame: Frame | None = fr
        cells: dict[str, V] = {}
        while frame is not None:
            for key, value in frame.env.items():
                if key.startswith("@"):
                    cells.setdefault(key, value)
            frame = frame.parent
        env.update(cells)
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
        inner.may, inner.must = fr.may, fr.must
        exits: list[tuple[int, dict[str, V]]] = []
        self._exits.append(exits)
        self._running.add(id(function.segment))
        self._inside += 1
        self.log.entered += 1
        self._now.append(inner)
        try:
            self.block(node.body, inner)
            if inner.may:
                exits.append((inner.may, _cells(inner.env)))
            value = self.result(inner)
        finally:
            self._exits.pop()
            self._running.discard(id(function.segment))
            self._inside -= 1
            self._now.pop()
        came = 0
        merged: dict[str, V] | None = None
        for mask, cells in exits:
            if not mask:
                continue
            merged = (
                dict(cells)
                if merged is None
                else self._merge(
                    came, merged, mask, cells, V(unknown(f"path through {function.qualname}")), fr
                )
            )
            came |= mask
        if merged is not None:
            fr.env.update(merged)
        left = fr.may & ~came
        fr.may &= came
        fr.must &= came
        if left:
            fr.stay &= ~left
        if inner.raises:
            fr.raises += 1
        return value

    def _return(self, node: ast.Return, fr: Frame) -> None:
        if self._exits and fr.kind == "function" and fr in self._now:
            value = V(None) if node.value is None else self.ev(node.value, fr)
            if fr.may:
                roots, via, why = fr.control()
                fr.returns.append((fr.may, value, roots, via, why))
                self._exits[-1].append((fr.may, _cells(fr.env)))
            self._stop(fr)
            return
        super()._return(node, fr)

    def _raise(self, node: ast.Raise, fr: Frame) -> None:
        if fr.may and fr in self._now:
            what = (
                short(node.exc.func if isinstance(node.exc, ast.Call) else node.exc, 60)
                if node.exc
                else "raise"
            )
            self.log.raises.append(Stop(fr.module.path, node.lineno, fr.symbol, fr.may, fr.must, what))
        super()._raise(node, fr)

    def call_builtin(
        self, name: str, args: list[V], kwargs: dict[str, V], fr: Frame, node: ast.Call | None
    ) -> V:
        if name == "setattr" and len(args) == 3 and isinstance(args[0].one, Tracked):
            line = node.lineno if node is not None else 1
            if isinstance(args[1].one, str):
                self.write(args[1].one, args[2], fr, line)
            return V(None)
        return super().call_builtin(name, args, kwargs, fr, node)

    # -- the run -----------------------------------------------------------------------------------

    def run(self) -> Startup:
        found: Any = None
        for symbol in self.profile.arguments:
            module = self.module(symbol.module)
            value = self.global_value(module, symbol.symbol) if module is not None else None
            if value is not None and isinstance(value.one, ClassRef):
                found = value.one.info
                break
        if found is None:
            return self.log
        subject = Tracked(found, {})
        self.subject = subject
        scope = self.module_frame(found.module)
        outer = Frame(found.module, {}, full=self.full, kind="function", symbol="")
        for name, node, owner in found.record_fields():
            given = self.assume.get(f"arg.{name}")
            if given is not None:
                value = self.argument_value(name)
            elif node.value is None:
                # what a user has to give, some text of their own: never one of the special words
                plain = ast.unparse(node.annotation) == "str" or "[str," in ast.unparse(node.annotation)
                value = V(f"<{name}>") if plain else V(unknown(f"arg.{name}"))
            else:
                value = self.field_default(node.value, owner)
            outer.env[f"@.{name}"] = value
        del scope
        self.steps = STEPS
        self._now.append(outer)
        for entry in ("__post_init__", *(getattr(self.profile.start, "entries", ()) or ())):
            hook = found.find(entry)
            if hook is not None and isinstance(hook[1], Function):
                self._enter(hook[1], [V(subject)], {}, outer)
        self.log.complete = self.steps > 0
        for key, value in outer.env.items():
            if key.startswith("@."):
                self.log.arguments[key[2:]] = value
        return self.log


def _cells(env: dict[str, V]) -> dict[str, V]:
    return {k: v for k, v in env.items() if k.startswith("@")}


def run_startup(program: Program, model: str) -> Startup:
    """Run the start of a server for a model class on all targets.

    ``program`` gives the tree, the profile and the assumptions (``arg.NAME``, ``env.NAME``, ``defaults``).
    """
    return _Runner(program, model).run()


__all__ = ["EnvWrite", "Startup", "Stop", "Write", "run_startup", "EnumMember", "Map", "is_const"]
