"""Decisions about arguments that are recorded beside them, as newer releases do.

The profile (``start.decisions``) names the functions that record decisions, hand out views of them, run a
step that returns decisions, and collect what a registry of model classes declares. They are not entered;
what they do is done here.
"""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass
from typing import Any

from auditor.program.classes import ClassInfo
from auditor.program.frames import Frame
from auditor.program.source import Irregular
from auditor.program.syntax import source_of
from auditor.program.tracked import LEDGER, Ledger, State, Tracked
from auditor.program.values import (
    Function,
    Map,
    Method,
    Seq,
    Unknown,
    V,
    make,
    reasons_of,
    truth_of,
    unknown,
)


@dataclass(frozen=True)
class Source:
    """Where something is written."""

    path: str
    line: int
    symbol: str


@dataclass(frozen=True)
class _Provider:
    """A function that declares arguments for some models; ``sure``: it certainly does for this one."""

    function: Function
    sure: bool
    group: int  # registrars by name come before those by predicate


class Decisions(State):
    """The functions of ``start.decisions``."""

    def __init__(self, like: Any, model: str) -> None:
        super().__init__(like)
        self.model = model
        start = self.profile.start
        kinds: dict[str, str] = {}
        names = getattr(start, "decisions", None)
        for kind in ("passes", "publishers", "records", "readers", "recorders", "collectors"):
            for name in getattr(names, kind, ()):
                kinds[name] = kind
        for name in getattr(start, "setters", ()):
            kinds[name] = "setters"
        for name in getattr(start, "views", ()):
            kinds[name] = "views"
        for name in getattr(names, "snapshots", ()):
            kinds[name] = "snapshots"
        self._kinds = kinds
        self._ledgers = frozenset(getattr(names, "ledger", ()))
        self._constants: tuple[str, ...] = tuple(getattr(names, "constants", ()))
        self._registrars: dict[str, int] = {n: 0 for n in getattr(names, "registrars", ())}
        self._registrars.update({n: 1 for n in getattr(names, "predicates", ())})
        self._fallback_word: str = getattr(names, "fallback", "")
        self._fallbacks: dict[str, V] = {}
        self._declared_at: dict[int, Source] = {}
        self._known_providers: dict[str, list[_Provider] | None] = {}

    # what the runner adds
    def note_write(self, name: str, value: V, status: tuple[int, ...], source: Source, fr: Frame) -> None:
        """Tell that an argument is written."""
        raise NotImplementedError

    def source_of(self, fr: Frame, node: ast.AST | None) -> Source:
        return Source(fr.module.path, getattr(node, "lineno", 1), fr.symbol)

    # -- values of arguments that nothing gives ------------------------------------------------------

    def note_fallback(self, name: str, node: ast.AnnAssign, owner: ClassInfo) -> None:
        """Remember what stands for None according to an annotation ``A[T, Arg(fallback=...)]``."""
        for call in ast.walk(node.annotation) if self._fallback_word else ():
            for keyword in call.keywords if isinstance(call, ast.Call) else ():
                if keyword.arg == self._fallback_word:
                    self._fallbacks[name] = self.ev(keyword.value, self.module_frame(owner.module))

    def filled(self, name: str, value: V) -> V:
        """A value with its fallback in the place of None."""
        fallback = self._fallbacks.get(name)
        if fallback is None or fallback.each is not None or fallback.one is None:
            return value

        def one(scalar: Any) -> Any:
            if scalar is None:
                return fallback.one
            if isinstance(scalar, Unknown) and scalar.options and None in scalar.options:
                return Unknown(
                    scalar.reasons, tuple(fallback.one if o is None else o for o in scalar.options)
                )
            return scalar

        return self._map(value, one)

    # -- functions with a meaning ------------------------------------------------------------------

    def special(
        self, function: Function, args: list[V], kwargs: dict[str, V], fr: Frame, node: ast.Call | None
    ) -> V | None:
        """What a function of the profile does and returns, or None for any other function."""
        kind = self._kinds.get(function.fullname)
        if kind is None:
            return None
        names = self._parameters(function)
        given = dict(zip(names, args))
        fields: dict[str, V] = {}
        for name, value in kwargs.items():
            (given if name in names else fields)[name] = value
        bound = [given.get(name) for name in names]
        subject = bound[0] if bound else None
        tracked = subject.one if subject is not None and isinstance(subject.one, Tracked) else None
        if kind == "collectors":
            return self._collect(bound, fr)
        if tracked is None:
            if kind in ("views", "snapshots", "records", "readers"):
                return None
            if any(v is not None and self.reaches(v) for v in bound):
                self.forget_decisions(f"call {function.qualname}()", fr)
                return V(unknown(f"call {function.qualname}()"))
            return None
        if kind == "views":
            return V(self.view_object)
        if kind == "snapshots":
            return V(self.snapshot())
        if kind == "records":
            return V(self.record_object)
        if kind == "readers":
            field = bound[1] if len(bound) > 1 else None
            if field is None or not isinstance(field.one, str):
                return V(unknown(f"call {function.qualname}()"))
            return self.filled(field.one, self.attribute(V(self.view_object), field.one, fr))
        if kind == "publishers":
            self.publish(fr)
            return V(None)
        if kind == "setters":
            sure = tuple(2 for _ in range(self.count))
            for name, value in fields.items():
                self.settle(name, value, sure, self.source_of(fr, node), fr)
            return V(None)
        if kind == "recorders":
            step = bound[2] if len(bound) > 2 else None
            if step is None:
                self.forget_decisions(f"call {function.qualname}()", fr)
                return V(unknown(f"call {function.qualname}()"))
            return self.call(self._settled(step), [V(self.recorder_object)], {}, fr, None)
        assert kind == "passes"
        step = bound[1] if len(bound) > 1 else None
        if step is None:
            self.forget_decisions(f"call {function.qualname}()", fr)
            return V(None)
        step = self._settled(step)
        returned = self.call(step, [V(self.view_object)], {}, fr, None)
        source = self.source_of(fr, node)
        if isinstance(step.one, Function):
            source = Source(step.one.module.path, step.one.segment.start, step.one.qualname)
        self.declare(returned, source, fr)
        return V(None)

    @staticmethod
    def _parameters(function: Function) -> list[str]:
        try:
            node: Any = function.segment.node()
        except Irregular:
            return []
        return [a.arg for a in (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs)]

    def settle(
        self,
        name: str,
        value: V,
        status: tuple[int, ...],
        source: Source,
        fr: Frame,
        why: frozenset[str] = frozenset(),
    ) -> None:
        """Record one decision and tell of it; ``why`` it is not sure where it is not."""
        if not any(status):
            return
        self.decide(name, value, status, fr, why)
        self.note_write(name, value, status, source, fr)

    def declare(self, value: V, source: Source, fr: Frame) -> None:
        """Record what a dictionary holds; keys that may be absent are decided perhaps."""
        keys: dict[str, None] = {}
        for scalar in value.scalars():
            if not isinstance(scalar, Map) or not all(isinstance(k, str) for k in scalar.items):
                reason = ", ".join(sorted(reasons_of(scalar))[:2]) or "declared under computed names"
                self.forget_decisions(reason, fr)
                return
            keys.update(dict.fromkeys(scalar.items))
        for name in keys:
            each: list[Any] = []
            status: list[int] = []
            why: frozenset[str] = frozenset()
            for i in range(self.count):
                here = value.at(i)
                why |= here.maybe.get(name, frozenset()) if isinstance(here, Map) else frozenset()
                if name not in here.items:
                    status.append(0)
                    each.append(None)
                else:
                    status.append(1 if name in here.maybe else 2)
                    each.append(here.items[name])
            some = next(e for e, s in zip(each, status) if s)
            shown = make(tuple(e if s else some for e, s in zip(each, status)))
            self.settle(name, shown, tuple(status), source, fr, why)

    def loose_special(
        self, func: V, args: list[V], kwargs: dict[str, V], open_: list[V], fr: Frame, node: ast.Call
    ) -> bool:
        """A function that records decisions, called with ``**x`` of which not all keys are known."""
        function = func.one
        if not isinstance(function, Function):
            return False
        if self._kinds.get(function.fullname) != "setters":
            return False
        self.special(function, args, kwargs, fr, node)
        for value in open_:
            self.declare(value, self.source_of(fr, node), fr)
        if not open_:
            self.forget_decisions(f"call {function.qualname}()", fr)
        return True

    # -- the list of decisions ---------------------------------------------------------------------

    def is_ledger(self, name: str) -> bool:
        return name in self._ledgers

    def set_ledger(self, name: str, value: V, fr: Frame, node: ast.AST | None) -> None:
        """The list of decisions is replaced."""
        if not all(isinstance(s, Ledger) for s in value.scalars()):
            self.clear_decisions(fr)
            self.extend_ledger(value, fr, node)
        self.set_cell(f"@.{name}", V(LEDGER), fr)

    def extend_ledger(self, value: V, fr: Frame, node: ast.AST | None) -> None:
        """Decisions ``(source, dictionary)`` are added to the list."""
        lists = value.scalars()
        if all(isinstance(s, Ledger) for s in lists):
            return
        if not all(isinstance(s, Seq) and len(s.items) == len(lists[0].items) for s in lists):
            self.forget_decisions("declared in a list that is not known", fr)
            return
        for k in range(len(lists[0].items)):
            self.append_ledger(self._map(value, lambda s, k=k: s.items[k]), fr, node)  # type: ignore[misc]

    def append_ledger(self, entry: V, fr: Frame, node: ast.AST | None) -> None:
        declared = self._map(
            entry,
            lambda s: (
                s.items[1]
                if isinstance(s, Seq) and len(s.items) > 1
                else Unknown(reasons_of(s) or frozenset({"a decision that is not known"}))
            ),
        )
        source = next(
            (self._declared_at[id(s)] for s in declared.scalars() if id(s) in self._declared_at), None
        )
        self.declare(declared, source or self.source_of(fr, node), fr)

    def call_method(
        self, f: Method, args: list[V], kwargs: dict[str, V], fr: Frame, node: ast.Call | None
    ) -> V:
        if isinstance(f.this, Ledger):
            if f.name == "extend" and len(args) == 1:
                self.extend_ledger(args[0], fr, node)
                return V(None)
            if f.name == "append" and len(args) == 1:
                self.append_ledger(args[0], fr, node)
                return V(None)
            if f.name in ("clear", "pop", "remove", "insert", "reverse", "sort"):
                self.forget_decisions(f"call {f.name}()", fr)
            return V(unknown(f"call {f.name}()"))
        return super().call_method(f, args, kwargs, fr, node)

    # -- registries --------------------------------------------------------------------------------

    def _collect(self, bound: list[V | None], fr: Frame) -> V:
        """The declarations of everything that is registered for a model: ``[(source, dictionary), ...]``."""
        gone = V(unknown("registered declarations"))
        if len(bound) < 2 or bound[0] is None or not isinstance(bound[0].one, str):
            return gone
        rest = [v if v is not None else V(None) for v in bound[1:]]
        name = bound[0].one
        found = self._registered(name)
        if found is None:
            return gone
        entries: list[tuple[str, V, Source]] = []
        for constant in self._constants:
            module_name, _, short = constant.rpartition(".")
            module = self.module(module_name)
            table = self.global_value(module, short) if module is not None else None
            if table is None or module is None:
                continue
            if not isinstance(table.one, Map) or table.one.maybe:
                return gone
            if name in table.one.items:
                line = module.places.get(short, (1, ""))[0]
                entries.append((short, V(table.one.items[name]), Source(module.path, line, short)))
        paths: dict[tuple[int, str], str] = {}
        for provider in found:
            function = provider.function
            value = self.call(V(function), rest, {}, fr, None)
            path = function.module.path
            value = self._map(value, lambda s, p=provider, x=path: self._hedged(s, p, x, paths))  # type: ignore[misc]
            entries.append(
                (function.qualname, value, Source(path, function.segment.start, function.qualname))
            )
        for _name, value, source in entries:
            for scalar in value.scalars():
                self._declared_at[id(scalar)] = source
                self._alive.append(scalar)
        each = tuple(
            Seq("list", tuple(Seq("tuple", (source, value.at(i))) for source, value, _s in entries))
            for i in range(self.count)
        )
        # the same dictionary on all targets stays one, so that the place it comes from is found again
        return V(each[0]) if all(v.each is None for _n, v, _s in entries) else V(None, each=each)

    @staticmethod
    def _hedged(scalar: Any, provider: _Provider, path: str, paths: dict[tuple[int, str], str]) -> Any:
        """Keys that are not sure: the provider may not be registered, or another file declares them too and
        which comes last is not known."""
        if not isinstance(scalar, Map):
            return scalar
        open_ = set() if provider.sure else set(scalar.items)
        for key in scalar.items:
            if paths.setdefault((provider.group, key), path) != path:
                open_.add(key)
        why = frozenset({f"what is registered with {provider.function.qualname}"})
        return Map(scalar.items, {**{key: why for key in open_}, **scalar.maybe})

    def _registered(self, name: str) -> list[_Provider] | None:
        """Functions registered for a model in the order they apply, or None where that is not known."""
        if name in self._known_providers:
            return self._known_providers[name]
        found: list[_Provider] | None = []
        shorts = sorted({n.rpartition(".")[2] for n in self._registrars})
        if shorts:
            words = "|".join(map(re.escape, shorts))
            pattern = re.compile(rf"^@(?:[\w.]+\.)?(?:{words})\(".encode(), re.M)
            bare = re.compile(rf"(?<![\w@.])(?:\w+\.)*(?:{words})\(")
            for path in sorted(self.paths):
                data = self.files[path]
                if not any(s.encode() in data for s in shorts):
                    continue
                if self.profile.is_excluded(path):
                    continue
                if pattern.search(data) is None and bare.search(data.decode("utf-8", "replace")) is None:
                    continue
                if found is not None and not self._registered_in(path, name, bare, found):
                    found = None
        if found is not None:
            found.sort(key=lambda p: p.group)
        self._known_providers[name] = found
        return found

    def _registered_in(self, path: str, name: str, bare: re.Pattern[str], out: list[_Provider]) -> bool:
        module = self.module(self.paths[path])
        if module is None:
            return True
        scope = self.module_frame(module)
        for segment in module.segments:
            if segment.kind == "other":
                for statement in segment.nodes():
                    plain = not isinstance(statement, (ast.Import, ast.ImportFrom))
                    if plain and bare.search(source_of(statement)):
                        return False  # registered by a statement that is not a decorator
                continue
            if segment.kind != "def" or not segment.text.startswith("@"):
                continue
            try:
                node: Any = segment.node()
            except Irregular:
                return False
            for deco in node.decorator_list:
                if not isinstance(deco, ast.Call):
                    continue
                target = self.ev(deco.func, scope).one
                if not isinstance(target, Function):
                    continue
                group = self._registrars.get(target.fullname)
                if group is None:
                    continue
                fits = self._fits(deco, group, name, scope)
                if fits is False:
                    continue
                function = module.globals.get(segment.name)
                if function is None or not isinstance(function.one, Function):
                    return False
                out.append(_Provider(function.one, fits is True, group))
        return True

    def _fits(self, deco: ast.Call, group: int, name: str, scope: Frame) -> bool | None:
        if group:
            value = self.call(self.ev(deco.args[0], scope), [V(name)], {}, scope) if deco.args else V(None)
            return truth_of(value.one) if value.each is None else None
        open_ = bool(deco.keywords)
        for arg in deco.args:
            value = self.ev(arg, scope)
            items = (
                value.one.items
                if isinstance(value.one, Seq) and isinstance(arg, ast.Starred)
                else (value.one,)
            )
            if name in [i for i in items if isinstance(i, str)]:
                return True
            open_ = open_ or not all(isinstance(i, str) for i in items)
        return None if open_ else False


__all__ = ["Decisions", "Source"]
