"""Objects of a start: what setting attributes and changing containers does."""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import Any

from auditor.program.decisions import Decisions, Source
from auditor.program.frames import Frame
from auditor.program.startlog import Startup, Write
from auditor.program.syntax import MUTATORS, dotted, short
from auditor.program.tracked import RAW, RECORDER, Ledger, Tracked
from auditor.program.values import (
    Bound,
    ClassRef,
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

ENVIRON = "os.environ"


class Objects(Decisions):
    """Attributes of the arguments and of other objects, and containers that are changed in place."""

    log: Startup
    _quiet: int
    _facts: dict[str, str]
    _changed: set[int]
    _set_environment: Callable[..., None]
    _unfollowed: Callable[..., None]

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

    def assign(self, target: ast.expr, value: V, fr: Frame, node: ast.stmt | None = None) -> None:
        if isinstance(target, ast.Attribute) and self._now:
            base = self.ev(target.value, fr)
            if self._set_attribute(base, target, value, fr):
                return
            self._set_on_objects(base, target.attr, value)
        elif isinstance(target, ast.Subscript) and self._now:
            base = self.ev(target.value, fr)
            if isinstance(base.one, External) and base.one.name == ENVIRON:
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


def _without(maybe: dict[Any, frozenset[str]], *keys: Any) -> dict[Any, frozenset[str]]:
    return {k: v for k, v in maybe.items() if k not in keys}


def _receiver(node: ast.Call) -> str | None:
    func = node.func
    return func.value.id if isinstance(func, ast.Attribute) and isinstance(func.value, ast.Name) else None


def changed_in(body: list[ast.stmt]) -> set[str]:
    """Names of containers that statements change in place."""
    out: set[str] = set()
    for node in (n for statement in body for n in ast.walk(statement)):
        if isinstance(node, ast.Subscript) and isinstance(node.ctx, (ast.Store, ast.Del)):
            if isinstance(node.value, ast.Name):
                out.add(node.value.id)
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            name = _receiver(node)
            if name is not None and node.func.attr in MUTATORS:
                out.add(name)
    return out


__all__ = ["ENVIRON", "Objects", "changed_in"]
