"""Functions of the tree: running them at a call, and what they leave."""

from __future__ import annotations

import ast
from typing import Any

from auditor.program.calls import MAX_DEPTH, Calls, given_reasons
from auditor.program.frames import Frame
from auditor.program.nodes import walk
from auditor.program.source import Irregular
from auditor.program.syntax import may_mutate
from auditor.program.values import (
    EMPTY,
    Bound,
    ClassRef,
    External,
    Facts,
    Function,
    Instance,
    Map,
    Partial,
    Seq,
    Unknown,
    V,
    change_depth,
    contains,
    is_const,
    make,
    unknown,
)


class Functions(Calls):
    """Entering a function with arguments, and its result."""

    def call_function(
        self,
        function: Function,
        args: list[V],
        kwargs: dict[str, V],
        fr: Frame | None,
        node: ast.Call | None = None,
    ) -> V:
        """Result of calling a function of the tree."""
        full_name = function.fullname
        why = f"call {function.qualname}()"
        self.function_kind(function)
        depth = fr.depth if fr is not None else 0
        if fr is not None and fr.recorder is not None:
            self.note_arguments(function, args, kwargs)
        if function.closure is None and "opaque" not in function.flags and depth < MAX_DEPTH:
            if self.worth_calling(function, args, kwargs):
                value = self._run(function, args, kwargs, depth, full_name, fr)
                if value is not None:
                    if fr is not None and any(isinstance(s, Unknown) for s in value.scalars()):
                        fr.raises += 1
                    return value
        elif function.closure is not None and "opaque" not in function.flags and depth < MAX_DEPTH:
            value = self._run(function, args, kwargs, depth, full_name, fr)
            if value is not None:
                if fr is not None and any(isinstance(s, Unknown) for s in value.scalars()):
                    fr.raises += 1
                return value
        if fr is not None:
            fr.raises += 1
            for value in (V(function), *args, *kwargs.values()):
                self.touch_value(value, fr)
        typed = self.returned_type(function)
        if typed is not None:
            return typed
        given = given_reasons((*args, *kwargs.values()))
        return V(Unknown(given) if given else unknown(why))

    def _key(self, function: Function, args: list[V], kwargs: dict[str, V]) -> Any:
        def one(v: V) -> Any:
            scalars = v.scalars()
            parts: list[Any] = []
            for s in scalars:
                if isinstance(s, Unknown):
                    parts.append(("?", s.truth, repr(s.options), tuple(sorted(s.reasons))))
                elif is_const(s):
                    parts.append((type(s).__name__, repr(s)))
                elif isinstance(s, Seq):
                    parts.append(("seq", repr(s)))
                elif isinstance(s, External):
                    parts.append(("ext", s.name))
                elif isinstance(s, ClassRef):
                    parts.append(("cls", s.info.segment.serial))
                elif isinstance(s, Function):
                    parts.append(("fn", s.segment.serial))
                elif isinstance(s, Instance):
                    parts.append(("obj", s.info.segment.serial, id(s.attrs) if s.attrs is not None else 0))
                    self._kept[id(s.attrs)] = s.attrs  # so that its number is not given again
                elif isinstance(s, Facts):
                    parts.append(("facts", repr(s.known)))
                else:
                    parts.append(("id", id(s)))
                    self._kept[id(s)] = s
            return tuple(parts), v.roots, v.via

        return (
            function.segment.serial,
            function.owner.segment.serial if function.owner is not None else -1,
            tuple(one(a) for a in args),
            tuple(sorted((k, one(v)) for k, v in kwargs.items())) if kwargs else (),
        )

    def _take_effects(self, caller: Frame, effects: dict[tuple[str, str], V]) -> None:
        """What a call does to module globals, for whoever comes after it.

        Where it is not sure that the call was made, a global is what it was before or what the call made it.
        One that starts as None and that a single function sets is filled at its first use: behind the
        question whether it is None it has its value.
        """
        for (module_name, name), value in effects.items():
            if module_name != "@" and caller.must != self.full:
                module = self.module(module_name)
                initial = module.globals.get(name) if module is not None else None
                lazy = initial is not None and initial.each is None and initial.one is None
                if module is None or not lazy or module.reassigned().get(name) != 1:
                    value = V(unknown(f"global {name}"), value.roots, value.via)
            caller.effects[(module_name, name)] = value
            if module_name == caller.module.name and name in caller.globals and name in caller.env:
                caller.env[name] = value

    def _run(
        self,
        function: Function,
        args: list[V],
        kwargs: dict[str, V],
        depth: int,
        full_name: str,
        caller: Frame | None = None,
    ) -> V | None:
        closed = function.closure is None
        key = self._key(function, args, kwargs) if closed else None
        if key is not None:
            hit = self._memo.get(key)
            if hit is not None:
                if caller is not None and key in self._effects:
                    self._take_effects(caller, self._effects[key])
                if caller is not None and key in self._comebacks:
                    back, thrown, changed, fails = self._comebacks[key]
                    self._come_back(caller, back, thrown)
                    if fails:
                        caller.fail()
                    for i, value in enumerate((*args, *kwargs.values())):
                        if i in changed:
                            self.touch_value(value, caller)
                return hit
        token = key if key is not None else function.segment.serial
        if token in self._running:
            return V(unknown(f"recursion {function.qualname}"))
        try:
            node: Any = function.segment.node()
        except Irregular:
            return None
        env: dict[str, V] = {}
        if not self._bind_arguments(function, node, args, kwargs, env):
            return V(unknown(f"call {function.qualname}()"))
        decorated = self.opaque_decorator(function, self.module_frame(function.module))
        fr = Frame.of(function, env, self.full, depth + 1)
        if function.owner is not None and node.args.args and function.kind != "staticmethod":
            fr.this = node.args.args[0].arg
        self._running.add(token)
        saved = self.steps
        try:
            self.block(node.body, fr)
            value = self.result(fr)
        finally:
            self._running.discard(token)
        back = fr.may
        for mask, *_ in fr.returns:
            back |= mask
        if decorated:
            # the decorator runs it, most likely; what it makes of that is not known
            value, back = V(unknown(f"decorated {function.qualname}")), self.full
        changed = {
            i
            for i, given in enumerate((*args, *kwargs.values()))
            if fr.touched and any(contains(s, t) for s in given.scalars() for t in fr.touched)
        }
        if caller is not None:
            self._come_back(caller, back, fr.thrown)
            if fr.failed:
                caller.fail()
            for scalar in fr.touched:
                self.touch(scalar, caller)
        if self.steps < 0 <= saved and depth == 0:
            pass
        if value.roots:
            if function.name != "__getattr__":
                this = function.owner is not None and function.kind != "staticmethod"
                if len(args) <= this and not kwargs:  # what it means, not what it answers to somebody
                    self.learn(
                        full_name,
                        function.module,
                        function.qualname,
                        node.lineno,
                        {"function": "method" if function.owner else "function"}.get(
                            function.kind or "", function.kind or "function"
                        ),
                        value,
                    )
                value = V(value.one, value.roots, frozenset({full_name}), value.each)
        effects = dict(fr.effects)
        for name in fr.globals:
            written = fr.env.get(name)
            if written is not None:
                effects[(function.module.name, name)] = written
        if decorated:
            effects = {k: V(unknown(f"global {k[1]}"), v.roots, v.via) for k, v in effects.items()}
        if effects and caller is not None:
            self._take_effects(caller, effects)
        if key is not None and self.steps >= 0:
            if effects:
                self._effects[key] = effects
            if back != self.full or fr.thrown or changed or fr.failed:
                self._comebacks[key] = (back, fr.thrown, changed, bool(fr.failed))
            self._memo[key] = value
            self.memo_names.setdefault(function.segment.serial, []).append(key)
        return value

    @staticmethod
    def _come_back(fr: Frame, back: int, thrown: int) -> None:
        """Control after a call: ``back`` are the targets on which it may return, ``thrown`` those on which
        it may raise by a statement of the tree."""
        thrown &= fr.may
        if thrown:
            fr.thrown |= thrown
            fr.raises += 1
            fr.must, fr.stay = fr.must & ~thrown, fr.stay & ~thrown
            fr.may &= back

    def touch_value(self, value: V, fr: Frame) -> None:
        """A value was handed to code that may change it, or is changed in place."""
        for scalar in value.scalars():
            self._touch_inside(scalar, fr, 3)

    def _touch_inside(self, scalar: Any, fr: Frame, depth: int) -> None:
        if isinstance(scalar, Map) or (isinstance(scalar, Seq) and scalar.kind in ("list", "set")):
            self.touch(scalar, fr)
        inner: Any = ()
        if isinstance(scalar, Seq):
            inner = scalar.items
        elif isinstance(scalar, Map):
            inner = scalar.items.values()
        elif isinstance(scalar, Unknown):
            inner = scalar.options or ()
        elif isinstance(scalar, Function):
            inner = self._closed_over(scalar)
        elif isinstance(scalar, (Bound, Partial)):
            given = (scalar.this,) if isinstance(scalar, Bound) else (*scalar.args, *scalar.kwargs.values())
            inner = (scalar.function, *(s for v in given for s in v.scalars()))
            if isinstance(scalar, Partial):
                inner = (*scalar.function.scalars(), *inner[1:])
        elif isinstance(scalar, Instance) and depth == 3:
            inner = [s for v in (scalar.attrs or {}).values() for s in v.scalars()]
        for item in inner if depth else ():
            self._touch_inside(item, fr, depth - 1)

    @staticmethod
    def _closed_over(function: Function) -> list[Any]:
        """What the names mean that a function takes from the functions around it, where it may change it."""
        frame = function.closure
        if frame is None:
            return []
        node: Any = function.segment.node()
        if not may_mutate(node.body):
            return []
        names = {child.id for child in walk(node) if isinstance(child, ast.Name)}
        out: list[Any] = []
        while frame is not None and frame.kind != "module":
            out += [s for name in names & frame.env.keys() for s in frame.env[name].scalars()]
            frame = frame.parent
        return out

    def touch(self, scalar: Any, fr: Frame) -> None:
        """Forget what is known of every name that holds a container which changes in place."""
        if not isinstance(scalar, (Seq, Map)):
            return
        fr.touched.append(scalar)
        if fr.kind == "module":
            self._changed_above[id(scalar)] = scalar
        frame: Frame | None = fr
        while frame is not None:
            self.spoil(scalar, frame.env)
            frame = frame.parent

    @staticmethod
    def spoil(scalar: Any, env: dict[str, V]) -> list[str]:
        """Make every name unknown that holds a container; the names."""
        out = []
        for name, value in env.items():
            for s in value.scalars():
                if isinstance(s, (Seq, Map, Instance, Bound, Partial, Unknown)) and contains(s, scalar):
                    env[name] = V(unknown(f"{name} is changed in place"), value.roots, value.via)
                    out.append(name)
                    break
        return out

    def result(self, fr: Frame) -> V:
        """The value a finished function body returns."""
        entries = list(fr.returns)
        if fr.may:
            roots, via, why = fr.control()
            entries.append((fr.may, V(None), roots, via, why))
        if not entries:
            return V(unknown("never returns"))
        if len(entries) == 1:
            mask, value, roots, via, why = entries[0]
            return value
        from auditor.program.values import join_scalars

        each: list[Any] = []
        used: set[int] = set()
        for i in range(self.count):
            bit, scalar, first = 1 << i, None, True
            for k, (mask, value, _r, _v, why) in enumerate(entries):
                if not mask & bit:
                    continue
                used.add(k)
                here = value.at(i)
                scalar = here if first else join_scalars(scalar, here, why)
                first = False
            each.append(unknown("never returns") if first else scalar)
        out = make(tuple(each))
        roots = via = EMPTY
        for k in sorted(used):
            _m, value, _r, _v, _w = entries[k]
            roots, via = roots | value.roots, via | value.via
        if any(self.telling(s) for s in out.scalars()) and (
            out.each is not None or isinstance(out.one, Unknown)
        ):
            for k in sorted(used):
                _m, _value, r, v, _w = entries[k]
                roots, via = roots | r, via | v
        return V(out.one, roots, via, out.each)

    def _bind_arguments(
        self, function: Function, node: Any, args: list[V], kwargs: dict[str, V], env: dict[str, V]
    ) -> bool:
        spec = node.args
        names = [a.arg for a in (*spec.posonlyargs, *spec.args)]
        scope: Frame | None = None
        for name, value in zip(names, args):
            env[name] = value
        if len(args) > len(names):
            if spec.vararg is None:
                return False
        if spec.vararg is not None:
            rest = args[len(names) :]
            env[spec.vararg.arg] = (
                V(Seq("tuple", tuple(r.one for r in rest)))
                if all(r.each is None for r in rest)
                else V(unknown(f"argument {spec.vararg.arg}"))
            )
        extra: dict[str, V] = {}
        kwonly = [a.arg for a in spec.kwonlyargs]
        for name, value in kwargs.items():
            if name in names or name in kwonly:
                env[name] = value
            else:
                extra[name] = value
        if spec.kwarg is not None:
            env[spec.kwarg.arg] = (
                V(Map({k: v.one for k, v in extra.items()}))
                if all(v.each is None for v in extra.values())
                else V(unknown(f"argument {spec.kwarg.arg}"))
            )
        elif extra:
            return False
        defaults = dict(zip(names[len(names) - len(spec.defaults) :], spec.defaults))
        defaults.update({a.arg: d for a, d in zip(spec.kwonlyargs, spec.kw_defaults) if d is not None})
        for name in (*names, *kwonly):
            if name in env:
                continue
            default = defaults.get(name)
            if default is None or isinstance(default, (ast.List, ast.Dict, ast.Set)):
                # a container made once may have been changed by an earlier call
                env[name] = V(unknown(f"argument {name}"))
            elif isinstance(default, ast.Constant):
                env[name] = V(default.value)
            elif function.closure is not None:
                env[name] = V(unknown(f"argument {name}"))  # of a time when names had other values
            else:
                if scope is None:
                    scope = self.module_frame(function.module)
                value = self.ev(default, scope)
                if not isinstance(default, (ast.Name, ast.Attribute)) and change_depth(value):
                    value = V(unknown(f"argument {name}"), value.roots, value.via)
                env[name] = value
        return True
