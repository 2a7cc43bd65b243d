"""The environment of a start: which flags it sets, and what reading them gives."""

from __future__ import annotations

import ast
from typing import Any

from auditor.program.decisions import Source
from auditor.program.frames import Frame
from auditor.program.objects import ENVIRON, Objects
from auditor.program.startlog import EnvWrite
from auditor.program.syntax import MUTATORS
from auditor.program.values import External, Map, Unknown, V, is_const, unknown


class Environment(Objects):
    """``os.environ`` as the start leaves it."""

    _calls: list[ast.Call | None]
    _flag_paths: set[str]
    _foreign: tuple[str, ...]

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
        self._note_environment(name, value, fr, node, setdefault)

    def _note_environment(
        self, name: str, value: V, fr: Frame, node: ast.AST | None, setdefault: bool = False
    ) -> None:
        """Tell that a flag is set."""
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
                if f.name.rpartition(".")[2] in MUTATORS:
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
        if name in ("os.putenv", "os.unsetenv"):
            # for other processes: os.environ, which is read here, stays as it is
            if name == "os.putenv" and len(args) == 2 and isinstance(args[0].one, str):
                self._note_environment(args[0].one, args[1], fr, node)
            return V(None)
        if name == "os.environ.pop":
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
            if isinstance(right.one, External) and right.one.name == ENVIRON:
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
                if isinstance(base.one, External) and base.one.name == ENVIRON:
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


__all__ = ["Environment"]
