"""Running the functions of a start on its state."""

from __future__ import annotations

import ast
import re
from typing import Any

from auditor.program.frames import Frame
from auditor.program.program import Program
from auditor.program.source import Irregular
from auditor.program.startlog import Startup
from auditor.program.stepping import Ends, Stepping
from auditor.program.syntax import MUTATORS, source_of
from auditor.program.tracked import Ledger, Tracked, cells
from auditor.program.values import (
    Bound,
    ClassRef,
    External,
    Function,
    Instance,
    Map,
    Method,
    Seq,
    Unknown,
    V,
    is_const,
    unknown,
)

MAX_CALLS = 40  # nesting of entered functions
MAX_SAME = 3  # of one function
#: Text of functions that may set environment flags.
_SETS_ENV = re.compile(r"\benviron\b|\bputenv\b|\.(?:set|clear|override)\(|\bsetdefault\(")
#: Text of functions that may set attributes of something they are given.
_SETS = re.compile(r"\w\.\w+[ \t]*(?:[-+*/|&^%]|//|\*\*)?=(?!=)|\bsetattr\b|__setattr__|__dict__|\bvars\(")


class Runner(Stepping):
    """Entering functions and running their statements."""

    def __init__(self, like: Program, model: str, user: dict[str, str] | None = None) -> None:
        super().__init__(like, model)
        self.assume.update({f"env.{name}": value for name, value in (user or {}).items()})
        self.log = Startup()
        self._facts: dict[str, str] = getattr(self.profile.start, "configs", {}).get(model, {})
        self._foreign: tuple[str, ...] = getattr(self.profile.start, "other_vendors", ())
        self._inside: list[Any] = []  # segments of the entered functions
        self._calls: list[ast.Call | None] = []  # the calls by which they were entered
        self._catching = 0  # try bodies around this point whose handlers may go on
        self._quiet = 0  # inside code that is evaluated in passing
        self._exits: list[Ends] = []
        self._loops: list[Ends] = []
        self._changed: set[int] = set()  # ids of containers that were changed in place
        self._plugin_names: dict[tuple[str, str], bool] = {}
        self._flag_paths = {
            m.path for m in map(self.module, sorted({s.module for s in self.profile.flags})) if m
        }

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
            text = source_of(function.segment.node())
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
        inner = Frame.of(function, env, self.full, min(fr.depth + 1, 6))
        if function.owner is not None and node.args.args and function.kind != "staticmethod":
            inner.this = node.args.args[0].arg
        if relation != "aside":
            inner.may, inner.must = outer.may, outer.must
        exits = Ends(inner)
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
            if self._catching:
                for stop in self.log.raises[stops:]:
                    raised |= stop.may
            fr.must &= came & ~raised
            fr.may &= came
            if self._catching:
                fr.stay &= ~raised
        if inner.raises:
            fr.raises += 1
        if relation == "here":
            fr.thrown |= inner.thrown & start
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
                rf"|\b{re.escape(name)}(?:\[[^\]\n]*\][ \t]*=(?!=)|\.(?:{'|'.join(sorted(MUTATORS))})\()",
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


def _without_docs(data: bytes) -> bytes:
    """A file without comments and long texts, roughly: what is named there calls nothing."""
    data = re.sub(rb'"""(?:[^"\\]|\\.|"(?!""))*"""', b"", data)
    return re.sub(rb"#[^\n]*", b"", data)


__all__ = ["Runner"]
