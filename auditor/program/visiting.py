"""Visiting a function: its code on all targets, with what is known of its arguments."""

from __future__ import annotations

import ast
import copy
import re
from typing import Any

from auditor.program import externals
from auditor.program.calls import BIG_FUNCTION
from auditor.program.classes import ClassInfo, Module
from auditor.program.frames import Frame
from auditor.program.modules import STEPS
from auditor.program.recording import Recording, decides
from auditor.program.records import Learned
from auditor.program.source import HOT, Irregular
from auditor.program.syntax import source_of, stores
from auditor.program.values import (
    EMPTY,
    ClassRef,
    Function,
    Instance,
    Partial,
    Unknown,
    V,
    all_reasons,
    unknown,
)
from auditor.program.words import Words

SHORT = 120  # words of source of a function that is likely a predicate rather than work


class Visiting(Recording):
    """Visits of functions and what they teach."""

    _hot_version = -1

    def worth_calling(self, function: Function, args: list[V], kwargs: dict[str, V]) -> bool:
        """Whether a call is evaluated: cheap when nothing is passed, else only where the GPU is asked."""
        if function.segment.longer(BIG_FUNCTION * 3):
            return False
        known = all(not any(isinstance(s, Unknown) for s in a.scalars()) for a in (*args, *kwargs.values()))
        if known or any(a.roots & externals.ARCH_ROOTS for a in (*args, *kwargs.values())):
            if not function.segment.longer(BIG_FUNCTION):
                return True
        return self.is_hot(function)

    def is_hot(self, function: Function) -> bool:
        """Whether a function's text mentions a root or a learned name."""
        version = len(self._hot_words)
        key = function.segment.serial
        hit = self._hot_flags.get(key)
        if hit is not None and (hit[0] == version or hit[1]):
            return hit[1]
        function.segment.looked |= HOT
        hot = self.hot_pattern().search(function.segment.code())
        self._hot_flags[key] = (version, hot)
        return hot

    def hot_pattern(self) -> Words:
        """What the text of code that leads to a root contains: a root word or a learned name."""
        version = len(self._hot_words)
        if self._hot_text is None or self._hot_version != version:
            self._hot_text = Words({*self._hot_words, *(w.decode() for w in externals.ROOT_WORDS)})
            self._hot_version = version
        return self._hot_text

    def note_arguments(self, function: Function, args: list[V], kwargs: dict[str, V]) -> None:
        """Remember that a parameter receives a value that depends on a root: its function is visited."""
        if not any(a.roots & externals.ARCH_ROOTS for a in (*args, *kwargs.values())):
            return
        if function.closure is not None or function.name.startswith("<"):
            return
        try:
            node: Any = function.segment.node()
        except Irregular:
            return
        names = [a.arg for a in (*node.args.posonlyargs, *node.args.args)]
        known = set(names) | {a.arg for a in node.args.kwonlyargs}
        store = self.passed.setdefault(function.segment.serial, {})
        for name, value in (*zip(names, args), *kwargs.items()):
            if name not in known or not value.roots & externals.ARCH_ROOTS or not self.informative(value):
                continue
            if isinstance(value.one, (Function, ClassRef, Instance, Partial)):
                continue
            roots, via = store.get(name, (EMPTY, EMPTY))
            if roots >= value.roots and via >= value.via:
                continue
            store[name] = (roots | value.roots, via | value.via)
            self.revisit[function.segment.serial] = function

    def _entry(self, function: Function, node: Any, recorder: Any) -> Frame:
        """A frame at the start of a function called with arguments nobody knows."""
        env: dict[str, V] = {}
        spec = node.args
        passed = self.passed.get(function.segment.serial, {})
        for arg in (*spec.posonlyargs, *spec.args, *spec.kwonlyargs):
            value: V | None = None
            if arg.arg in passed:
                roots, via = passed[arg.arg]
                value = V(unknown(f"argument {arg.arg}"), roots, via)
            elif arg.annotation is not None:
                value = self._annotated(arg.annotation, function.module)
            env[arg.arg] = value if value is not None else V(unknown(f"value {arg.arg}"))
        for extra in (spec.vararg, spec.kwarg):
            if extra is not None:
                env[extra.arg] = V(unknown(f"value {extra.arg}"))
        fr = Frame.of(function, env, self.full, 1, recorder)
        if function.owner is not None and spec.args and function.kind != "staticmethod":
            first = spec.args[0].arg
            fr.this = first
            env[first] = (
                V(ClassRef(function.owner, True))
                if function.kind == "classmethod"
                else V(Instance(function.owner, None))
            )
        return fr

    def _annotated(self, annotation: ast.expr, module: Module) -> V | None:
        if isinstance(annotation, ast.Constant) and isinstance(annotation.value, str):
            text = annotation.value
        elif isinstance(annotation, (ast.Name, ast.Attribute)):
            text = source_of(annotation)
        else:
            return None
        if text.rpartition(".")[2] not in self._interesting or not re.fullmatch(r"[\w.]+", text):
            return None
        return self._typed(text, module)

    def visit(self, function: Function, key: tuple[str, Any] | None = None) -> None:
        """Run a function for discovery; its gates replace those of an earlier visit."""
        try:
            self.function_kind(function)
            node: Any = function.segment.node()
        except Irregular:
            return
        except RecursionError:
            self._too_deep(function, function.segment.start)
            return
        saved = self.steps, self.sink, self.seen_nodes
        self.steps = STEPS
        outer = key is not None
        if key is not None:
            self._visited[key] = function
        if outer:
            self.sink, self.seen_nodes = [], set()
        fr = self._entry(function, node, self._record_raw)
        if function.segment.has_text:
            fr.text = (function.segment.start, function.segment.peek().split("\n"))
        elif function.closure is not None:
            fr.text = function.closure.text
        fr.marked.update(self.passed.get(function.segment.serial, ()))
        try:
            self.visit_signature_of(function, node)
            self.block(node.body, fr)
            value = self.result(fr)
            self._visit_nested(fr.nested, fr, node)
            self._learn_visited(function, node, value, fr)
        except (RecursionError, Irregular):
            self._too_deep(function, node.lineno)
        if outer:
            assert self.sink is not None and key is not None
            self._flush(key, self.sink)
            self.sink, self.seen_nodes = saved[1], saved[2]
        self.steps = saved[0]

    def _too_deep(self, function: Function, line: int) -> None:
        what = f"{function.qualname} is nested too deeply to follow; its gates may be missing"
        self.problems.setdefault(function.module.path, (line, what))

    def visit_signature_of(self, function: Function, node: Any) -> None:
        if function.closure is not None:
            return
        scope = self.module_frame(function.module)
        frame = Frame(
            function.module,
            scope.env,
            full=self.full,
            kind="module",
            symbol=function.qualname,
            recorder=self._record_raw,
        )
        self.visit_signature(node, frame)

    def _visit_nested(self, nested: list[tuple[Any, dict[str, V]]], fr: Frame, node: Any = None) -> None:
        """Visit functions inside a function. They may be called at any time after they are made: names of
        the function around them count where they have one value only."""
        if not nested:
            return
        if node is not None:
            fr = self._around(fr, node)
        for item, _env in nested:
            if isinstance(item, Function):
                closure = item.closure
                if closure is not None:
                    item.closure = fr
                self.visit(item)
                item.closure = closure
            elif isinstance(item, ClassInfo):
                item.load()
                for method in item.functions.values():
                    method.closure = fr if fr.kind == "function" else None
                    self.visit(method)

    def _learn_check(self, function: Function, node: Any, value: V) -> None:
        """A function that raises on some GPUs only: its callers go on or do not. A short one, or a short
        constructor, is learned; others, and short methods, count where somebody is visited anyway."""
        method = function.owner is not None and function.name != "__init__"
        if function.segment.longer(SHORT if method else BIG_FUNCTION):
            return
        name = function.fullname
        if name not in self._checks and not self.is_excluded(function.module.path):
            self._checks.add(name)
            called = function.name
            if function.owner is not None and not method:
                called = function.owner.name
            kind = "method" if method else "function"
            entry = Learned(name, function.module, called, node.lineno, kind, value)
            (self.asides if method or function.segment.longer(SHORT) else self.fresh).append(entry)

    def visit_again(self, index: dict[str, set[str]]) -> None:
        """Note that the visited functions that mention one of the functions that raise are to be visited once
        more, with these calls looked at."""
        asides, self.asides = self.asides, []
        for entry in asides:
            self._check_words.add(entry.short)
            paths = self.readers(entry, index)
            word = Words({entry.short})
            for key, function in self._visited.items():
                if function.module.path in paths and word.search(function.segment.peek()):
                    self._later[key] = function
        if asides:
            self._check_text = Words(self._check_words)

    @staticmethod
    def _around(fr: Frame, node: Any) -> Frame:
        """A frame as the functions inside it see it at a time nobody knows."""
        counts = stores(node.body)
        # These have a value from before: a function inside may be called while they still have that.
        outside = {name for child in ast.walk(node) if isinstance(child, ast.Global) for name in child.names}
        for arg in ast.walk(node.args):
            if isinstance(arg, ast.arg):
                counts[arg.arg] = counts.get(arg.arg, 0) + 1
        outer = copy.copy(fr)
        outer.env = dict(fr.env)
        for name, times in counts.items():
            old = outer.env.get(name)
            if "." in name or name in outside:
                outer.env.pop(name, None)
            elif old is None:
                outer.env[name] = V(unknown(f"value {name}"))
            elif times > 1:
                outer.env[name] = V(Unknown(all_reasons(old) | {f"value {name}"}), old.roots, old.via)
        return outer

    def _learn_visited(self, function: Function, node: Any, value: V, fr: Frame) -> None:
        if (
            fr.thrown
            and function.closure is None
            and (
                fr.thrown != self.full
                or any(t.roots & externals.ARCH_ROOTS for t in fr.left)
                or (function.owner is None and not (fr.may or fr.returns))
            )
        ):
            self._learn_check(function, node, value)
        if value.roots and function.closure is None and function.name != "<lambda>":
            scalars = value.scalars()
            if self.passed.get(function.segment.serial) and not self.is_hot(function):
                return  # what it returns depends on its callers
            method = function.owner is not None and function.kind not in ("staticmethod",)
            if method and not any(decides(s) for s in scalars):
                return
            required = len(node.args.args) - len(node.args.defaults) - (1 if method else 0)
            if required <= 0 and not any(d is None for d in node.args.kw_defaults):
                # the meaning without arguments is what a reader expects of a name
                args = [fr.env[fr.this]] if method and fr.this in fr.env else []
                called = self._run(
                    function,
                    [self._entry(function, node, None).env[fr.this]] if args and fr.this else [],
                    {},
                    1,
                    function.fullname,
                )
                if called is not None and called.roots:
                    value = called
            self.learn(
                function.fullname,
                function.module,
                function.qualname,
                node.lineno,
                function.kind
                if function.kind == "property"
                else ("method" if function.owner else "function"),
                value,
            )
        if function.owner is not None:
            final = self.final_fields(fr) if fr.writes else {}
            for name, written in fr.writes.items():
                left = final.get(name, written)
                if (written.roots | left.roots) & externals.ARCH_ROOTS:
                    self._fields.pop((function.owner.segment.serial, name), None)
                    self._summaries.pop(function.segment.serial, None)
                    self.stored_attribute(function.owner, name, fr)
