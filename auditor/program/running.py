"""Running the functions of a start on its state."""

from __future__ import annotations

import ast
import re
from typing import Any

from auditor.program.environment import Environment
from auditor.program.expressions import short
from auditor.program.frames import Frame
from auditor.program.objects import MUTATORS, changed_in
from auditor.program.program import Program
from auditor.program.source import Irregular
from auditor.program.startlog import Startup, Stop
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
_ROUNDS = 4  # visits of a loop body until what it changes is known
_FEW = 40  # items of a known sequence over which a loop is run one by one
#: Text of functions that may set environment flags.
_SETS_ENV = re.compile(r"\benviron\b|\bputenv\b|\.(?:set|clear|override)\(|\bsetdefault\(")
#: Text of functions that may set attributes of something they are given.
_SETS = re.compile(r"\w\.\w+[ \t]*(?:[-+*/|&^%]|//|\*\*)?=(?!=)|\bsetattr\b|__setattr__|__dict__|\bvars\(")


class _Exits:
    """Where control left a function or a loop: target masks, state, and why it may have."""

    def __init__(self, frame: Frame) -> None:
        self.frame = frame
        self.ends: list[tuple[int, dict[str, V], frozenset[str]]] = []


class Runner(Environment):
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
        self._exits: list[_Exits] = []
        self._loops: list[_Exits] = []
        self._changed: set[int] = set()  # ids of containers that were changed in place
        self._plugin_names: dict[tuple[str, str], bool] = {}
        self._flag_paths = {
            m.path for m in map(self.module, sorted({s.module for s in self.profile.flags})) if m
        }

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
        if self._now and not self._catching:
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
        if self._now and not self._catching:
            fr.must, fr.stay = must & fr.may, stay

    def _come_back(self, fr: Frame, back: int, thrown: int) -> None:  # type: ignore[override]
        must, stay = fr.must, fr.stay
        super()._come_back(fr, back, thrown)
        if self._now and not self._catching:
            fr.must, fr.stay = must & fr.may, stay

    def _forget_mutated(self, node: Any, fr: Frame) -> None:
        self._quiet += 1
        try:
            super()._forget_mutated(node, fr)
        finally:
            self._quiet -= 1

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
        for name in changed_in(node.body):
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
        catches = not all(h.body and isinstance(h.body[-1], ast.Raise) for h in node.handlers)
        self._catching += catches
        try:
            super()._try(node, fr)
        finally:
            self._trying.pop()
            self._catching -= catches
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
