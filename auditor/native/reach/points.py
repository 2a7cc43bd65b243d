"""What code mentions, and on which targets it comes to do so.

A function is run by the evaluator as it is for discovery, with unknown arguments; while it runs, every name
and attribute that is read is written down with the targets on which control may be there, and surely is.
"""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NamedTuple

from auditor.native.reach.light import LOOKS, Light, Sketch, frame_of
from auditor.program.classes import ClassInfo, Module
from auditor.program.frames import Frame
from auditor.program.modules import STEPS
from auditor.program.nodes import walk
from auditor.program.program import Program
from auditor.program.source import Irregular
from auditor.program.values import (
    Bound,
    ClassRef,
    External,
    Function,
    ModuleRef,
    Partial,
    Pending,
    Unknown,
    V,
    unknown,
)


class Mention(NamedTuple):
    """A name or attribute as it is read. ``keys`` says what it stands for: (key, mask of targets)."""

    node: ast.expr
    word: str  # the last component as written
    keys: tuple[tuple[str, int], ...]
    may: int
    must: int
    because: frozenset[str]  # what open conditions on the way hang on
    symbol: str
    tried: bool  # inside the body of a ``try``


class Ran(NamedTuple):
    """What running one function (or method) showed."""

    mentions: tuple[Mention, ...]
    tests: dict[int, tuple[int, int]]  # id of a test -> targets on which it may be true, and false
    node: Any
    done: int = 0  # targets on which it may come to its end or return


def key_of(scalar: Any) -> str:
    """What a scalar is, as one word; "" for constants and the unknown."""
    if isinstance(scalar, External):
        return f"ext:{scalar.name}"
    if isinstance(scalar, Bound):
        scalar = scalar.function
    if isinstance(scalar, Partial):
        return key_of(scalar.function.one)
    if isinstance(scalar, Function):
        return f"fn:{scalar.module.name}:{scalar.qualname}"
    if isinstance(scalar, ClassRef):
        return f"cls:{scalar.info.module.name}:{scalar.info.qualname}"
    if type(scalar) is Pending:
        return f"imp:{scalar.module}:{scalar.name or ''}"
    if isinstance(scalar, ModuleRef):
        return f"imp:{scalar.module.name}:"
    return ""


class Points:
    """Runs functions of a program and keeps what they mention."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self._ran: dict[int, Ran] = {}
        self._deciding: dict[int, bool] = {}
        self._frames_of: dict[int, Frame] = {}
        self._sketches: dict[int, Sketch] = {}
        self._weighed: dict[tuple[int, frozenset[str]], Ran] = {}
        self._bound: dict[str, dict[str, int]] = {}
        self._notes: list[Mention] = []
        self._tests: dict[int, tuple[int, int]] = {}
        self._imports: dict[int, dict[str, int]] = {}
        self._assigned: dict[int, set[str]] = {}
        self._frames: list[Frame] = []  # so that their numbers are not given again
        self._masks: dict[int, int] = {}
        self._looking = 0
        self._watching = False

    def weighed(
        self, function: Function, words: Collection[str], given: Mapping[str, V] | None = None
    ) -> Ran:
        """What a function mentions of some words, or of texts in quotes, without running it."""
        if given:
            return self._weigh(function, words, given)
        key = function.segment.serial, frozenset(words)
        found = self._weighed.get(key)
        if found is None:
            found = self._weighed[key] = self._weigh(function, words, {})
        return found

    def depends(self, function: Function) -> bool:
        """Whether a parameter, or what is made of one, decides in a function."""
        serial = function.segment.serial
        if serial not in self._deciding:
            node = self.sketch_of(function).node
            spec = node.args
            names = {a.arg for a in (*spec.posonlyargs, *spec.args, *spec.kwonlyargs)} - {"self"}
            tests: list[ast.expr] = []
            for child in walk(*node.body):
                if isinstance(child, ast.Assign):
                    if any(isinstance(n, ast.Name) and n.id in names for n in walk(child.value)):
                        names |= {getattr(t, "attr", getattr(t, "id", "")) for t in child.targets}
                elif isinstance(child, (ast.If, ast.IfExp, ast.Assert)):
                    tests.append(child.test)
            self._deciding[serial] = any(
                getattr(n, "attr", getattr(n, "id", None)) in names for test in tests for n in walk(test)
            )
        return self._deciding[serial]

    def implied(self, function: Function, node: ast.AST) -> int:
        """Targets left at a node by earlier branches under the same conditions."""
        try:
            sketch = self.sketch_of(function)
        except Irregular:
            return self.program.full
        if not sketch.tests_around(node):
            return self.program.full
        steps, self.program.steps = self.program.steps, STEPS
        light = Light(self.program, function, sketch, (), lambda *_: None, run=False)
        mask = light.implied(node)
        self.program.steps = steps
        return mask

    def sketch(self, function: Function, node: Any) -> Sketch:
        """A function's syntax tree gone through once; made anew where it was parsed anew."""
        found = self._sketches.get(function.segment.serial)
        if found is None or found.node is not node:
            found = self._sketches[function.segment.serial] = Sketch(node)
        return found

    def sketch_of(self, function: Function) -> Sketch:
        """The same by function."""
        return self.sketch(function, function.segment.node())

    def seen(self, function: Function) -> Ran:
        """What was found about a function before."""
        serial = function.segment.serial
        if serial in self._ran:
            return self._ran[serial]
        for (other, _words), found in self._weighed.items():
            if other == serial:
                return found
        return Ran((), {}, None)

    def _weigh(self, function: Function, words: Collection[str], given: Mapping[str, V]) -> Ran:
        try:
            node: Any = function.segment.node()
        except Irregular:
            return Ran((), {}, None)
        program = self.program
        program.function_kind(function)
        out: list[Mention] = []

        def note(
            found: ast.expr, value: V, may: int, must: int, why: frozenset[str], symbol: str, tried: bool
        ) -> None:
            word = getattr(found, "id", getattr(found, "attr", ""))
            if isinstance(found, ast.Name) and found.id not in local:
                mask = self.bound(function.module).get(found.id, program.full)
                may, must = may & mask, must & mask
            out.append(Mention(found, word, self._keys(value), may, must, why, symbol, tried))

        sketch = self.sketch(function, node)
        local = sketch.local | {a.asname or a.name for i in sketch.imports for a in i.names}
        steps, program.steps = program.steps, STEPS
        try:
            light = Light(program, function, sketch, words, note, given)
        finally:
            program.steps = steps
        return Ran(tuple(out), light.tests, node, light.done)

    # -- running -----------------------------------------------------------------------------------

    def ran(self, function: Function) -> Ran:
        """What a function mentions, functions inside it included."""
        key = function.segment.serial
        found = self._ran.get(key)
        if found is None:
            found = self._ran[key] = self.ran_with(function, {})
        return found

    def ran_with(self, function: Function, given: Mapping[str, V]) -> Ran:
        """The same where some parameters are known. Not kept."""
        with self._watch():
            return self._run(function, given)

    def arguments(self, function: Function, node: ast.AST) -> tuple[list[V | str], dict[str, V | str]] | None:
        """What a function passes where it calls ``node``: values, or the name of a parameter of its own;
        None where it does not call it there, or passes what cannot be laid out."""
        try:
            sketch = self.sketch_of(function)
        except Irregular:
            return None
        call = sketch.parents.get(id(node))
        if not isinstance(call, ast.Call) or call.func is not node:
            return None
        if any(isinstance(a, ast.Starred) for a in call.args) or any(k.arg is None for k in call.keywords):
            return None
        frame = self._frames_of.get(function.segment.serial)
        if frame is None:
            frame = frame_of(self.program, function, sketch)
            self._frames_of[function.segment.serial] = frame
        plain = (ast.Constant, ast.Name, ast.Attribute)

        spec = sketch.node.args
        own = {a.arg for a in (*spec.posonlyargs, *spec.args, *spec.kwonlyargs)} - sketch.local

        def worth(value: ast.expr) -> V | str:
            if isinstance(value, ast.Name) and value.id in own:
                return value.id
            if isinstance(value, plain):
                return self.program.ev(value, frame)
            return V(unknown("argument"))

        return [worth(a) for a in call.args], {k.arg: worth(k.value) for k in call.keywords if k.arg}

    def _run(self, function: Function, given: Mapping[str, V]) -> Ran:
        program = self.program
        try:
            node: Any = function.segment.node()
        except Irregular:
            return Ran((), {}, None)
        program.function_kind(function)
        saved = self._notes, self._tests, program.steps, program.sink, program.seen_nodes
        self._notes, self._tests, program.steps = [], {}, STEPS
        program.sink, program.seen_nodes = None, set()
        done = program.full
        try:
            done = self._body(function, node, program.full, given)
        except RecursionError:
            pass
        out = Ran(tuple(self._notes), self._tests, node, done)
        self._notes, self._tests, program.steps, program.sink, program.seen_nodes = saved
        return out

    def _body(self, function: Function, node: Any, entry: int, given: Mapping[str, V] | None = None) -> int:
        program = self.program
        fr = program._entry(function, node, self._recorder)
        fr.env.update(given or {})
        self._frames.append(fr)
        fr.may = entry
        if entry != program.full:
            fr.must = 0
        for decorator in node.decorator_list if function.closure is not None else ():
            program.ev(decorator, fr)
        program.block(node.body, fr)
        done: int = fr.may
        for mask, *_ in fr.returns:
            done |= mask
        around = program._around(fr, node)
        for item, _env in fr.nested:
            self._inside(item, around)
        return done

    def _inside(self, item: Any, around: Frame) -> None:
        """Functions and classes inside a function: no later than control came to where they are made."""
        if isinstance(item, Function):
            inner: Any = item.segment.node()
            closure, item.closure = item.closure, around
            mask = self._masks.get(id(inner), self.program.full)
            self._body(item, inner, mask)
            item.closure = closure
        elif isinstance(item, ClassInfo):
            item.load()
            for method in item.functions.values():
                method.closure = around if around.kind == "function" else None
                self._body(method, method.segment.node(), self.program.full)

    def _recorder(self, *_: Any) -> None:
        """Marks the frames whose names are written down."""

    @contextmanager
    def _watch(self) -> Iterator[None]:
        """Hooks in the evaluator, which costs nothing when nobody looks."""
        if self._watching:
            yield
            return
        program: Any = self.program
        expr, stmt = dict(program._expr), dict(program._stmt)
        lazy, beside, called, bind = program.lazy, program._beside, program.evaluate_call, program._bind
        recorder = self._recorder

        def read(node: ast.expr, fr: Frame) -> V:
            value: V = expr[type(node)](node, fr)
            if fr.recorder == recorder and isinstance(node.ctx, ast.Load):  # type: ignore[attr-defined]
                self._note(node, value, fr)
            return value

        def lazily(node: ast.expr, fr: Frame) -> V:
            value: V = lazy(node, fr)
            if fr.recorder == recorder:
                if type(value.one) is Pending or isinstance(node, ast.Call):
                    self._note(node, value, fr)
            return value

        def tested(kind: str, node: Any, test: Any, value: V, fr: Frame, body: Any = None) -> None:
            if fr.recorder == recorder:
                t, f = program.truth(value)
                old = self._tests.get(id(test), (0, 0))
                self._tests[id(test)] = old[0] | t, old[1] | f

        def imported(node: ast.ImportFrom, fr: Frame) -> None:
            stmt[ast.ImportFrom](node, fr)
            if fr.recorder == recorder:
                known = self._imports.setdefault(id(fr), {})
                for alias in node.names:
                    name = alias.asname or alias.name
                    known[name] = known.get(name, 0) | fr.may

        def bound(name: str, value: V, fr: Frame, node: ast.AST) -> None:
            if fr.recorder == recorder:
                self._assigned.setdefault(id(fr), set()).add(name)
            bind(name, value, fr, node)

        def defined(node: Any, fr: Frame) -> None:
            self._masks[id(node)] = fr.may
            stmt[type(node)](node, fr)

        def looked(node: ast.Call, fr: Frame) -> V:
            looking = isinstance(node.func, ast.Name) and node.func.id in LOOKS
            self._looking += looking
            value: V = called(node, fr)
            self._looking -= looking
            return value

        program._expr.update({ast.Name: read, ast.Attribute: read})
        program._stmt.update({ast.ImportFrom: imported, ast.FunctionDef: defined})
        program.lazy, program.record, program.evaluate_call = lazily, tested, looked
        program._bind = bound
        program._beside = lambda node, fr: False if fr.recorder == recorder else beside(node, fr)
        self._watching = True
        try:
            yield
        finally:
            program._expr, program._stmt = expr, stmt
            for name in ("lazy", "record", "evaluate_call", "_beside", "_bind"):
                program.__dict__.pop(name, None)
            self._watching = False
            self._imports.clear()
            self._assigned.clear()
            self._frames.clear()
            self._masks.clear()

    def _note(self, node: ast.expr, value: V, fr: Frame) -> None:
        if self._looking:
            return
        keys = self._keys(value)
        word = node.id if isinstance(node, ast.Name) else getattr(node, "attr", "")
        if not keys and not word:
            return
        may, must = fr.may, fr.must
        if isinstance(node, ast.Name):
            mask = self.binding(node.id, fr)
            if mask is not None:
                may, must = may & mask, must & mask
        self._notes.append(Mention(node, word, keys, may, must, fr.control()[2], fr.symbol, fr.guarded > 0))

    def _keys(self, value: V) -> tuple[tuple[str, int], ...]:
        """What a value stands for, each with the targets on which it does."""
        keys: dict[str, int] = {}
        if value.each is None:
            key = key_of(value.one)
            if key:
                keys[key] = self.program.full
            elif isinstance(value.one, Unknown):
                for option in value.one.options or ():
                    if key := key_of(option):
                        keys[key] = self.program.full
        else:
            for i, scalar in enumerate(value.each):
                options = (scalar.options or ()) if isinstance(scalar, Unknown) else (scalar,)
                for option in options:
                    if key := key_of(option):
                        keys[key] = keys.get(key, 0) | 1 << i
        return tuple(keys.items())

    def binding(self, name: str, fr: Frame) -> int | None:
        """The targets on which an import statement binds a name, where imports alone bind it."""
        frame: Frame | None = fr
        while frame is not None and frame.kind != "module":
            if name in frame.env:
                if name in self._assigned.get(id(frame), ()):
                    return None
                return self._imports.get(id(frame), {}).get(name)
            frame = frame.parent
        return self.bound(fr.module).get(name)

    # -- the top of a module -------------------------------------------------------------------------

    def bound(self, module: Module) -> dict[str, int]:
        """Names that only import statements under a condition bind at the top of a module, with the targets
        on which one of them is run."""
        found = self._bound.get(module.name)
        if found is None:
            found = self._bound[module.name] = {}
            others: set[str] = set()
            for node, mask in self.top(module):
                if isinstance(node, (ast.Import, ast.ImportFrom)):
                    for alias in node.names:
                        name = (alias.asname or alias.name).split(".", 1)[0]
                        found[name] = found.get(name, 0) | mask
                elif isinstance(node, (ast.Assign, ast.AnnAssign, ast.AugAssign, ast.For)):
                    for child in ast.walk(node):
                        if isinstance(child, ast.Name) and isinstance(child.ctx, ast.Store):
                            others.add(child.id)
                elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
                    others.add(node.name)
            for segment in module.segments:
                if segment.kind != "other":
                    others.add(segment.name)
            for name in list(found):
                if name in others or found[name] == self.program.full:
                    del found[name]
        return found

    def top(self, module: Module, word: str = "") -> Iterator[tuple[ast.stmt, int]]:
        """The simple statements at the top of a module, with the targets that come to them.

        Conditions are taken for what they are worth at the end of the module. With ``word`` only the
        pieces whose text holds it.
        """
        self.program.execute(module)
        frame = self.program.module_frame(module)
        for segment in module.segments:
            if segment.kind != "other" or (word and word not in segment.peek()):
                continue
            try:
                nodes = segment.nodes()
            except Irregular:
                continue
            yield from self._statements(nodes, self.program.full, frame)

    def _statements(self, body: list[ast.stmt], mask: int, fr: Frame) -> Iterator[tuple[ast.stmt, int]]:
        for node in body:
            if isinstance(node, ast.If):
                t, f = self.program.truth(self.program.ev(node.test, fr))
                yield ast.Expr(node.test), mask
                yield from self._statements(node.body, mask & t, fr)
                yield from self._statements(node.orelse, mask & f, fr)
            elif isinstance(node, ast.Try):
                for part in (node.body, *(h.body for h in node.handlers), node.orelse, node.finalbody):
                    yield from self._statements(part, mask, fr)
            elif isinstance(node, ast.With):
                yield from self._statements(node.body, mask, fr)
            else:
                yield node, mask

    def top_mentions(self, module: Module, word: str) -> Iterator[tuple[ast.expr, str, int, ast.stmt]]:
        """(node, key, targets, statement) where the top of a module reads a name, imports left out."""
        frame = self.program.module_frame(module)
        for statement, mask in self.top(module, word):
            if isinstance(statement, (ast.Import, ast.ImportFrom)):
                continue
            skipped: set[int] = set()
            for node in ast.walk(statement):
                if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)):
                    continue
                if isinstance(node, ast.AnnAssign):
                    skipped |= {id(n) for n in ast.walk(node.annotation)}
                if id(node) in skipped or not isinstance(node, (ast.Name, ast.Attribute)):
                    continue
                last = node.id if isinstance(node, ast.Name) else node.attr
                if last == word and isinstance(node.ctx, ast.Load):
                    value = self.program.lazy(node, frame)
                    yield node, key_of(value.one), mask, statement


__all__ = ["Mention", "Points", "Ran", "key_of"]
