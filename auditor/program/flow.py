"""Statements: control flow, function calls and object construction."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable
from typing import Any

from auditor.program import externals
from auditor.program.calls import _MUTATORS, BIG_FUNCTION, MAX_DEPTH, Calls, given_reasons
from auditor.program.classes import ClassInfo
from auditor.program.expressions import dotted, short
from auditor.program.frames import Frame
from auditor.program.nodes import children, holds, walk
from auditor.program.source import Irregular, Segment
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
    Pending,
    Seq,
    Unknown,
    V,
    all_reasons,
    contains,
    is_const,
    make,
    reasons_of,
    truth_of,
    unknown,
)

_SIMPLE = (ast.Assign, ast.AugAssign, ast.Expr)


def assigned_names(body: list[ast.stmt]) -> set[str]:
    """Names and attribute paths that statements may bind (nested functions left out)."""
    out: set[str] = set()
    stack: list[ast.AST] = list(body)
    while stack:
        node = stack.pop()
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            out.add(node.name)
            out.update(n for c in ast.walk(node) if isinstance(c, ast.Nonlocal) for n in c.names)
            continue
        if isinstance(node, ast.Lambda):
            continue
        if isinstance(node, (ast.Name, ast.Attribute)) and isinstance(node.ctx, (ast.Store, ast.Del)):
            name = dotted(node)
            if name:
                out.add(name)
        elif isinstance(node, ast.alias):
            out.add((node.asname or node.name).split(".", 1)[0])
        elif isinstance(node, (ast.ExceptHandler, ast.MatchAs, ast.MatchStar)) and node.name:
            out.add(node.name)
        stack += children(node)
    return out


_NAMES = re.compile(r"[A-Za-z_]\w*")
#: What a frame gets back after statements that were run quietly.
_CONTROL = ("env", "may", "must", "stay", "recorder", "returns", "left", "raises", "thrown", "nested")


class Flow(Calls):
    """The part of the evaluator that runs statements."""

    def __init__(self) -> None:
        super().__init__()
        self._stmt: dict[type, Callable[[Any, Frame], None]] = {
            ast.Assign: self._assign_stmt,
            ast.AnnAssign: self._annassign,
            ast.AugAssign: self._augassign,
            ast.Expr: self._expr_stmt,
            ast.If: self._if,
            ast.For: self._for,
            ast.AsyncFor: self._for,
            ast.While: self._while,
            ast.Return: self._return,
            ast.Raise: self._raise,
            ast.Assert: self._assert,
            ast.Import: self._import,
            ast.ImportFrom: self._import_from,
            ast.FunctionDef: self._def,
            ast.AsyncFunctionDef: self._def,
            ast.ClassDef: self._class,
            ast.Try: self._try,
            ast.With: self._with,
            ast.AsyncWith: self._with,
            ast.Global: self._global,
            ast.Nonlocal: self._global,
            ast.Delete: self._delete,
            ast.Pass: self._pass,
            ast.Break: self._leave_loop,
            ast.Continue: self._leave_loop,
            ast.Match: self._match,
        }
        for extra in ("TryStar", "TypeAlias"):
            kind = getattr(ast, extra, None)
            if kind is not None:
                self._stmt[kind] = self._try if extra == "TryStar" else self._pass
        self._memo: dict[Any, V] = {}
        self._running: set[Any] = set()
        self._effects: dict[Any, dict[tuple[str, str], V]] = {}
        self._comebacks: dict[Any, tuple[int, int, set[int]]] = {}

    # -- blocks ------------------------------------------------------------------------------------

    def block(self, body: list[ast.stmt], fr: Frame) -> None:
        """Run statements in order; dead code is still visited while something records."""
        for i, statement in enumerate(body):
            if not fr.may and fr.recorder is None:
                return
            fr.statement = (body, i)
            if fr.text is not None and isinstance(statement, _SIMPLE) and self._beside(statement, fr):
                continue
            self._stmt[type(statement)](statement, fr)

    hot_pattern: Callable[[], Any]

    def _beside(self, node: Any, fr: Frame) -> bool:
        """Pass over a plain statement that cannot have to do with the GPU: it calls something with
        arguments and neither its text nor its names lead to a root. What it binds is unknown."""
        value = node.value
        if isinstance(value, (ast.Await, ast.Starred)):
            value = value.value
        if not (
            (isinstance(value, ast.Call) and (value.args or value.keywords))
            or isinstance(value, (ast.Subscript, ast.BinOp, ast.ListComp, ast.DictComp))
        ):
            return False
        first, lines = fr.text  # type: ignore[misc]
        text = "\n".join(lines[node.lineno - first : (node.end_lineno or node.lineno) - first + 1])
        if self.hot_pattern().search(text):
            return False
        frame: Frame | None = fr
        while frame is not None:
            if any(name in text for name in frame.marked):
                return False
            frame = frame.parent
        fr.raises += 1
        for key in [k for k in fr.env if "." in k] if fr.heads or "@" in text else ():
            if key.split(".", 1)[0] in text:
                del fr.env[key]
        for name in _NAMES.findall(text):
            given = fr.env.get(name)
            if given is not None and type(given.one) in (Seq, Map):
                self.touch_value(given, fr)  # what is called may change a container it is given
        if isinstance(node, ast.Expr):
            return True
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        for target in targets:
            name = dotted(target)
            self.assign(target, V(unknown(f"value {name or short(target, 30)}")), fr, node)
        return True

    def _pass(self, node: Any, fr: Frame) -> None:
        return

    def _leave_loop(self, node: Any, fr: Frame) -> None:
        fr.may = fr.must = fr.stay = 0

    def _global(self, node: Any, fr: Frame) -> None:
        fr.globals.update(node.names)

    def _delete(self, node: ast.Delete, fr: Frame) -> None:
        fr.raises += 1  # what is not there cannot be deleted
        for target in node.targets:
            name = dotted(target)
            if name:
                fr.heads.add(name.split(".", 1)[0])
                self._havoc(name, fr)
                fr.env[name] = V(unknown(f"deleted {name}"))
            elif isinstance(target, ast.Subscript):
                self.touch_value(self.ev(target.value, fr), fr)

    def _expr_stmt(self, node: ast.Expr, fr: Frame) -> None:
        if isinstance(node.value, ast.Constant):
            return
        value = self.ev(node.value, fr)
        if isinstance(value.one, Unknown) and "exit" in value.one.reasons:
            fr.thrown |= fr.may
            self._stop(fr)

    def _stop(self, fr: Frame) -> None:
        fr.may = fr.must = fr.stay = 0

    # -- assignment --------------------------------------------------------------------------------

    def _assign_stmt(self, node: ast.Assign, fr: Frame) -> None:
        value = self.ev(node.value, fr)
        if value.roots:
            self.record_value("assign", node, node.value, value, fr)
        for target in node.targets:
            self.assign(target, value, fr, node)

    def _annassign(self, node: ast.AnnAssign, fr: Frame) -> None:
        if node.value is None:
            return
        value = self.ev(node.value, fr)
        if value.roots:
            self.record_value("assign", node, node.value, value, fr)
        self.assign(node.target, value, fr, node)

    def _augassign(self, node: ast.AugAssign, fr: Frame) -> None:
        load = ast.copy_location(ast.BinOp(_as_load(node.target), node.op, node.value), node)
        value = self.ev(load, fr)
        self.touch_value(self.ev(load.left, fr), fr)
        self.assign(node.target, value, fr, node)

    record_value: Callable[..., None]

    def assign(self, target: ast.expr, value: V, fr: Frame, node: ast.stmt | None = None) -> None:  # type: ignore[override]
        if isinstance(target, ast.Name):
            self._bind(target.id, value, fr, target)
        elif isinstance(target, ast.Attribute):
            key = dotted(target)
            if key is None:
                self.ev(target.value, fr)
                return
            self._havoc(key, fr)
            fr.heads.add(key.split(".", 1)[0])
            fr.env[key] = value
            if value.roots:
                fr.marked.add(key)
            if fr.this is not None and key.startswith(fr.this + ".") and key.count(".") == 1:
                self._write_field(target.attr, value, fr)
        elif isinstance(target, (ast.Tuple, ast.List)):
            if not all(isinstance(s, Seq) and len(s.items) == len(target.elts) for s in value.scalars()):
                fr.raises += 1  # too many or too few of them
            for i, item in enumerate(target.elts):
                if isinstance(item, ast.Starred):
                    self.assign(
                        item.value, V(Unknown(all_reasons(value) or frozenset({"unpacking"}))), fr, node
                    )
                    for rest in target.elts[i + 1 :]:
                        self.assign(
                            rest, V(Unknown(all_reasons(value) or frozenset({"unpacking"}))), fr, node
                        )
                    break
                self.assign(item, self._map(value, lambda s, i=i: self._unpacked(s, i)), fr, node)  # type: ignore[misc]
        elif isinstance(target, ast.Subscript):
            base = dotted(target.value)
            self.ev(target.slice, fr)
            self.touch_value(self.ev(target.value, fr), fr)
            if base is not None and base in fr.env:
                fr.env[base] = V(unknown(f"{base} is changed in place"))
        elif isinstance(target, ast.Starred):
            self.assign(target.value, value, fr, node)

    @staticmethod
    def _unpacked(scalar: Any, i: int) -> Any:
        if isinstance(scalar, Seq) and i < len(scalar.items):
            return scalar.items[i]
        return Unknown(reasons_of(scalar) or frozenset({"unpacking"}))

    def _bind(self, name: str, value: V, fr: Frame, node: ast.AST) -> None:
        self._havoc(name, fr)
        if name in fr.loose:
            value = V(Unknown(all_reasons(value) | {f"nonlocal {name}"}), value.roots, value.via)
        fr.env[name] = value
        if value.roots or (type(value.one) is Function and value.one.name == "<lambda>"):
            fr.marked.add(name)
        if fr.kind == "module":
            fr.module.imported.discard(name)
            line = getattr(node, "lineno", 1)
            fr.module.places.setdefault(name, (line, "constant"))
            scalar = value.one
            if isinstance(scalar, Partial) and scalar.name is None:
                scalar.name = f"{fr.module.name}.{name}"
            elif isinstance(scalar, Function) and scalar.name == "<lambda>":
                scalar.name = name
                scalar.qualname = name

    def _write_field(self, name: str, value: V, fr: Frame) -> None:
        fr.writes[name] = value
        if fr.fields is not None:
            fr.fields[name] = value

    # -- branches ----------------------------------------------------------------------------------

    def _if(self, node: ast.If, fr: Frame) -> None:
        position = fr.statement
        test = self.ev(node.test, fr)
        fr.statement = position
        self.record("if", node, node.test, test, fr)
        if len(node.orelse) == 1 and isinstance(node.orelse[0], ast.If):
            # an elif stands in the column of its if; an if below an else is further in
            node.orelse[0].is_elif = node.orelse[0].col_offset == node.col_offset  # type: ignore[attr-defined]
        t, f = self.truth(test)
        self._branches([(t, ~f, node.body), (f, ~t, node.orelse)], test, fr, (t, f), node.test)

    def _narrow(self, test: ast.expr, holds: bool, fr: Frame) -> None:
        """What a test says about the names in it: ``x``, ``not x``, ``x is None``, ``x is not None`` and
        conjunctions of these (where they hold). Choices that contradict the test are dropped."""
        while isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
            test, holds = test.operand, not holds
        if isinstance(test, ast.BoolOp) and isinstance(test.op, ast.And) == holds:
            for part in test.values:
                self._narrow(part, holds, fr)
            return
        wanted: Callable[[Any], bool | None]
        if (
            isinstance(test, ast.Compare)
            and len(test.ops) == 1
            and isinstance(test.ops[0], (ast.Is, ast.IsNot))
        ):
            right = test.comparators[0]
            if not (isinstance(right, ast.Constant) and right.value is None):
                return
            none = isinstance(test.ops[0], ast.Is) == holds
            target = test.left

            def wanted(option: Any) -> bool | None:
                return (option is None) == none
        elif isinstance(test, (ast.Name, ast.Attribute)):
            target = test

            def wanted(option: Any) -> bool | None:
                t = truth_of(option)
                return None if t is None else t == holds
        else:
            return
        name = dotted(target)
        value = fr.env.get(name) if name is not None else None
        if name is None or value is None or type(value.one) is Pending:
            return
        narrowed = self._map(value, lambda s: _narrowed(s, wanted))
        if any(a is not b for a, b in zip(narrowed.scalars(), value.scalars())):
            fr.env[name] = narrowed

    def _branches(
        self,
        arms: list[tuple[int, int, list[ast.stmt]]],
        test: V,
        fr: Frame,
        masks: tuple[int, int],
        narrow: ast.expr | None = None,
    ) -> None:
        """Run two arms from one state and merge what comes out of them."""
        may, must, stay = fr.may, fr.must, fr.stay
        before = fr.env
        ends: list[tuple[int, int, dict[str, V]]] = []
        fr.tests.append(test)
        for allowed, sure, body in arms:
            arm_may = may & allowed
            if not arm_may and fr.recorder is None:
                ends.append((0, 0, before))
                continue
            fr.env = dict(before)
            if narrow is not None:
                self._narrow(narrow, not ends, fr)
            fr.may, fr.must, fr.stay = arm_may, must & sure, self.full
            self.block(body, fr)
            ends.append((fr.may, fr.stay, fr.env))
        fr.tests.pop()
        (may_a, stay_a, env_a), (may_b, stay_b, env_b) = ends
        t, f = masks
        kept = (~t | stay_a) & (~f | stay_b)
        if kept & self.full != self.full and (test.roots or t & f):
            fr.left.append(test)
        fr.may = may_a | may_b
        fr.must = must & kept & self.full
        fr.stay = stay & kept & self.full
        fr.env = self._merge(may_a, env_a, may_b, env_b, test, fr)

    def _merge(self, ma: int, a: dict[str, V], mb: int, b: dict[str, V], test: V, fr: Frame) -> dict[str, V]:
        if not mb:
            return a if ma else a
        if not ma:
            return b
        out = dict(a)
        for name, vb in b.items():
            va = a.get(name)
            if va is vb:
                continue
            if va is None:
                if "." in name or name in fr.globals:
                    out[name] = self.select(ma, mb, self._unwritten(name, fr), vb, test)
                else:
                    out[name] = vb
            else:
                out[name] = self.select(ma, mb, self._settled(va), self._settled(vb), test)
        for name, va in a.items():
            if name not in b and ("." in name or name in fr.globals):
                out[name] = self.select(ma, mb, va, self._unwritten(name, fr), test)
        return out

    def _settled(self, value: V) -> V:
        return self.resolve(value.one) if type(value.one) is Pending else value

    def _unwritten(self, key: str, fr: Frame) -> V:
        """An attribute, or a name of the module, that only the other branch wrote."""
        if key in fr.globals:
            return V(unknown(f"global {key}"))
        if fr.fields is not None and fr.this and key == f"{fr.this}.{key.rpartition('.')[2]}":
            known = fr.fields.get(key.rpartition(".")[2])
            if known is not None:
                return known
        return V(unknown(f"value {key}"))

    def _for(self, node: Any, fr: Frame) -> None:
        iterable = self.ev(node.iter, fr)
        items = self._few_items(node, iterable)
        if items is not None:
            for item in items:
                self.assign(node.target, V(item, iterable.roots, iterable.via), fr, node)
                self.block(node.body, fr)
            self.block(node.orelse, fr)
            return
        self._loop(node, node.target, fr, None)

    def _few_items(self, node: Any, iterable: V) -> list[Any] | None:
        """Items of a short known sequence whose loop body cannot leave early, or None."""
        if iterable.each is not None or not isinstance(iterable.one, (Seq, Map)):
            return None
        items = list(iterable.one.items)
        if len(items) > 8 or (isinstance(iterable.one, Map) and iterable.one.maybe):
            return None
        for child in walk(node):
            if isinstance(child, (ast.Break, ast.Continue)):
                return None
        if not isinstance(node.iter, (ast.Tuple, ast.List, ast.Call)) and _may_mutate(node.body):
            return None
        return [Seq("tuple", i) if isinstance(i, tuple) else i for i in items]

    def _while(self, node: ast.While, fr: Frame) -> None:
        self._loop(node, None, fr, node.test)

    def _loop(self, node: Any, target: ast.expr | None, fr: Frame, test: ast.expr | None) -> None:
        for name in sorted(assigned_names(node.body)):
            self.forget_in_loop(name, fr)
        if _may_mutate(node.body):
            self._forget_mutated(node, fr)
        before = dict(fr.env)
        state = fr.may, fr.must, fr.stay
        thrown, fr.thrown = fr.thrown, 0
        touched = len(fr.touched)
        if target is not None:
            self.assign(target, V(unknown(f"loop {short(target)}")), fr)
        forever = False
        if test is not None:
            value = self.ev(test, fr)
            self.record("while", node, test, value, fr)
            t, f = self.truth(value)
            fr.may &= t
            forever = f == 0
        marker = V(unknown("loop"))
        fr.must, fr.stay = (fr.must if forever else 0), self.full
        returned = len(fr.returns)
        fr.tests.append(marker)
        self.block(node.body, fr)
        fr.tests.pop()
        after = fr.env
        fr.may, fr.must, fr.stay = state
        if len(fr.returns) > returned or _raises(node.body):
            fr.must, fr.stay = 0, 0
            fr.left.append(marker)
        fr.must, fr.stay = fr.must & ~fr.thrown, fr.stay & ~fr.thrown
        fr.thrown |= thrown
        fr.env = self._merge(fr.may or self.full, before, fr.may or self.full, after, marker, fr)
        for scalar in fr.touched[touched:]:
            self.spoil(scalar, fr.env)
        if node.orelse:
            self._maybe(node.orelse, fr, marker, _breaks(node.body))

    def _maybe(self, body: list[ast.stmt], fr: Frame, marker: V, skipped: bool) -> None:
        """Run statements that are passed by where ``skipped``."""
        if not skipped:
            self.block(body, fr)
            return
        may, must, stay, before = fr.may, fr.must, fr.stay, fr.env
        fr.env, fr.must, fr.stay = dict(before), 0, self.full
        self.block(body, fr)
        if fr.stay & self.full != self.full:
            fr.left.append(marker)
        env = self._merge(may, before, fr.may, fr.env, marker, fr)
        fr.may, fr.must, fr.stay, fr.env = may, must & fr.stay, stay & fr.stay, env

    def _forget_mutated(self, node: Any, fr: Frame) -> None:
        """Containers that the body changes in place are open from the first round on: run it once quietly
        to see which."""
        kept = [getattr(fr, name) for name in _CONTROL]
        start = len(fr.touched)
        fr.env, fr.recorder, fr.returns, fr.left, fr.nested = dict(fr.env), None, [], [], []
        if isinstance(node, (ast.For, ast.AsyncFor)):
            self.assign(node.target, V(unknown(f"loop {short(node.target)}")), fr)
        self.block(node.body, fr)
        after = fr.env
        for name, held in zip(_CONTROL, kept):
            setattr(fr, name, held)
        for scalar in fr.touched[start:]:
            for name in self.spoil(scalar, fr.env):
                value, end = fr.env[name], after.get(name)
                if end is not None and end.roots:
                    fr.env[name] = V(value.one, value.roots | end.roots, value.via | end.via)

    def forget_in_loop(self, name: str, fr: Frame) -> None:
        """A name or attribute path that a loop body binds: its value is open from the first round on."""
        self._havoc(name, fr)
        if "." in name:
            fr.heads.add(name.split(".", 1)[0])
        fr.env[name] = V(unknown(f"loop {name}"))

    def _match(self, node: ast.Match, fr: Frame) -> None:
        subject = self.ev(node.subject, fr)
        self._cases(node, node.cases, subject, fr)

    def _cases(self, node: ast.Match, cases: list[ast.match_case], subject: V, fr: Frame) -> None:
        if not cases:
            return
        case = cases[0]
        before, fr.env = fr.env, dict(fr.env)
        test = self._pattern(case.pattern, subject, fr)
        if case.guard is not None:
            test = self._connect(test, self.ev(case.guard, fr), True)
        if not (
            isinstance(case.pattern, ast.MatchAs) and case.pattern.pattern is None and case.guard is None
        ):
            self.record("match", case.pattern, case.pattern, test, fr, body=case.body)
        t, f = self.truth(test)
        may, must, stay, bound = fr.may, fr.must, fr.stay, fr.env
        fr.tests.append(test)
        fr.env, fr.may, fr.must, fr.stay = dict(bound), may & t, must & ~f, self.full
        self.block(case.body, fr)
        may_a, stay_a, env_a = fr.may, fr.stay, fr.env
        # a pattern that fails in the end may have bound its names all the same
        fr.env = self._merge(self.full, before, self.full, bound, test, fr)
        fr.may, fr.must, fr.stay = may & f, must & ~t, self.full
        self._cases(node, cases[1:], subject, fr)
        may_b, stay_b, env_b = fr.may, fr.stay, fr.env
        fr.tests.pop()
        kept = (~t | stay_a) & (~f | stay_b)
        if kept & self.full != self.full:
            fr.left.append(test)
        fr.may, fr.must, fr.stay = may_a | may_b, must & kept & self.full, stay & kept & self.full
        fr.env = self._merge(may_a, env_a, may_b, env_b, test, fr)

    def _pattern(self, pattern: ast.pattern, subject: V, fr: Frame) -> V:
        if isinstance(pattern, ast.MatchValue):
            value = self.ev(pattern.value, fr)
            return self._zip(subject, value, lambda a, b: self._equal(a, b))
        if isinstance(pattern, ast.MatchSingleton):
            return self._zip(subject, V(pattern.value), lambda a, b: self._is(a, b))
        if isinstance(pattern, ast.MatchOr):
            out = V(False)
            for p in pattern.patterns:
                out = self._connect(out, self._pattern(p, subject, fr), False)
            return out
        if isinstance(pattern, ast.MatchAs):
            inner = V(True) if pattern.pattern is None else self._pattern(pattern.pattern, subject, fr)
            if pattern.name:
                fr.env[pattern.name] = subject
            return inner
        if isinstance(pattern, ast.MatchSequence) and not any(
            isinstance(p, ast.MatchStar) for p in pattern.patterns
        ):
            out = self._map(
                subject,
                lambda s: (
                    (len(s.items) == len(pattern.patterns))
                    if isinstance(s, Seq)
                    else Unknown(reasons_of(s) or frozenset({"pattern"}), (True, False))
                ),
            )
            for i, p in enumerate(pattern.patterns):
                part = self._map(subject, lambda s, i=i: self._unpacked(s, i))  # type: ignore[misc]
                out = self._connect(out, self._pattern(p, part, fr), True)
            return out
        for child in ast.walk(pattern):
            name = getattr(child, "name", None) or getattr(child, "rest", None)
            if isinstance(name, str):
                fr.env[name] = V(unknown(f"pattern {name}"))
        return V(
            Unknown(all_reasons(subject) or frozenset({"pattern"}), (True, False)), subject.roots, subject.via
        )

    # -- leaving -----------------------------------------------------------------------------------

    def _return(self, node: ast.Return, fr: Frame) -> None:
        value = V(None)
        if node.value is not None:
            value = self.ev(node.value, fr)
            if value.roots:
                self.record_value("return", node, node.value, value, fr)
        if fr.may:
            roots, via, why = fr.control()
            fr.returns.append((fr.may, value, roots, via, why))
            self._keep_fields(fr)
        self._stop(fr)

    def _keep_fields(self, fr: Frame) -> None:
        """Hook for constructors that return early; a later write then cannot be sure."""

    def _raise(self, node: ast.Raise, fr: Frame) -> None:
        fr.raises += 1
        for child in (node.exc, node.cause):
            if child is not None and fr.recorder is not None:
                self.ev(child, fr)
        fr.thrown |= fr.may
        self._stop(fr)

    def _assert(self, node: ast.Assert, fr: Frame) -> None:
        test = self.ev(node.test, fr)
        self.record("assert", node, node.test, test, fr)
        t, f = self.truth(test)
        if f:
            fr.raises += 1
            fr.thrown |= fr.may & f
            if test.roots or f & t:
                fr.left.append(test)
        fr.may &= t
        fr.must &= ~f
        fr.stay &= ~f

    def _try(self, node: Any, fr: Frame) -> None:
        before, state, raises = dict(fr.env), (fr.may, fr.must, fr.stay), fr.raises
        thrown, fr.thrown = fr.thrown, 0
        touched, returned = len(fr.touched), len(fr.returns)
        fr.guarded += 1
        self.block(node.body, fr)
        fr.guarded -= 1
        body_raises = fr.raises > raises
        fr.thrown = thrown if _catches_all(node) else thrown | fr.thrown
        if not body_raises:
            self.block(node.orelse, fr)
            handler_mask = 0
        else:
            handler_mask = state[0]
            self.block(node.orelse, fr)
        end_body = (fr.may, fr.stay, fr.env)
        reason = self._why_try(node, fr, body_raises)
        marker = V(Unknown(reason, (True, False)))
        mids = (
            self._merge(state[0] or self.full, before, state[0] or self.full, end_body[2], marker, fr)
            if body_raises
            else end_body[2]
        )
        if body_raises:
            for name in _unsteady(node.body):
                if name in mids:
                    mids[name] = V(Unknown(reason | {f"value {name}"}), mids[name].roots, mids[name].via)
            for scalar in fr.touched[touched:]:
                self.spoil(scalar, mids)
            self.interrupted(mids, marker, fr)
        ends = [end_body]
        for handler in node.handlers:
            fr.env = dict(mids)
            fr.may, fr.must, fr.stay = handler_mask, 0, self.full
            if not handler_mask and fr.recorder is None:
                continue
            if handler.name:
                fr.env[handler.name] = V(unknown("exception"))
            fr.tests.append(marker)
            self.block(handler.body, fr)
            fr.tests.pop()
            ends.append((fr.may, fr.stay, fr.env))
        may, stay, env = ends[0]
        for m, s, e in ends[1:]:
            if not m and not handler_mask:
                continue
            env = self._merge(may, env, m, e, marker, fr)
            may, stay = may | m, stay & s
        if body_raises and stay & self.full != self.full:
            fr.left.append(marker)
        fr.env, fr.may = env, may
        fr.stay = state[2] & stay if body_raises else state[2] & end_body[1]
        fr.must = state[1] & (stay if body_raises else end_body[1])
        if not node.handlers and body_raises:
            fr.may = end_body[0]
        if node.finalbody:
            self._run_finally(node, before, state, len(fr.returns) > returned, fr, marker)

    def _run_finally(
        self, node: Any, before: dict[str, V], state: tuple[int, int, int], leaves: bool, fr: Frame, marker: V
    ) -> None:
        """``finally`` runs however the body was left: it is visited in the state of all these ways, and then
        again for what follows, in the state of falling through."""
        if leaves or fr.may != state[0] or fr.thrown or _jumps(node):
            kept = fr.env, fr.may, fr.must, fr.stay
            fr.env = self._merge(self.full, before, self.full, fr.env, marker, fr)
            for part in (node.body, *(h.body for h in node.handlers), node.orelse):
                for name in sorted(assigned_names(part)):
                    old = fr.env.get(name)
                    if old is not None:
                        fr.env[name] = V(Unknown(all_reasons(old) | {f"value {name}"}), old.roots, old.via)
            fr.may, fr.must = state[0], state[1]
            self.block(node.finalbody, fr)
            fr.env, fr.may, fr.must, fr.stay = kept
            recorder, fr.recorder = fr.recorder, None
            nested = len(fr.nested)
            self.block(node.finalbody, fr)
            fr.recorder = recorder
            del fr.nested[nested:]
        else:
            self.block(node.finalbody, fr)

    def interrupted(self, mids: dict[str, V], marker: V, fr: Frame) -> None:
        """Hook: ``mids`` is the state in which handlers start, somewhere between the start and the end of
        the body."""

    def _why_try(self, node: Any, fr: Frame, raises: bool) -> frozenset[str]:
        if not raises:
            return EMPTY
        packages = set()
        for statement in node.body:
            if isinstance(statement, ast.Import):
                packages |= {a.name.split(".", 1)[0] for a in statement.names}
            elif isinstance(statement, ast.ImportFrom) and statement.module and not statement.level:
                packages.add(statement.module.split(".", 1)[0])
        optional = {p for p in packages if not externals.always_there(p) and not self.in_tree(p)}
        if optional:
            return frozenset(f"dep.{p}" for p in optional)
        return frozenset({f"exception in {short(node.body[0], 40)}" if node.body else "exception"})

    def _with(self, node: Any, fr: Frame) -> None:
        for item in node.items:
            call = item.context_expr
            if isinstance(call, ast.Call) and len(node.items) == 1 and not call.keywords:
                what = self.ev(call.func, fr).one
                if isinstance(what, External) and what.name == "contextlib.suppress":
                    caught = ast.Tuple(call.args, ast.Load())
                    handler = ast.ExceptHandler(type=caught, name=None, body=[ast.Pass()])
                    self._try(ast.Try(body=node.body, handlers=[handler], orelse=[], finalbody=[]), fr)
                    return
            value = self.ev(item.context_expr, fr)
            if item.optional_vars is not None:
                self.assign(
                    item.optional_vars, V(unknown(f"value {short(item.optional_vars)}"), value.roots), fr
                )
        self.block(node.body, fr)

    # -- imports -----------------------------------------------------------------------------------

    def _import(self, node: ast.Import, fr: Frame) -> None:
        for alias in node.names:
            self._import_effect(alias.name, fr)
            if fr.kind == "module":
                fr.module.imported.add(alias.asname or alias.name.split(".", 1)[0])
            if alias.asname:
                fr.env[alias.asname] = V(Pending(alias.name, None))
            else:
                top = alias.name.split(".", 1)[0]
                fr.env[top] = V(Pending(top, None))

    def _import_from(self, node: ast.ImportFrom, fr: Frame) -> None:
        module = self.absolute(node.module, node.level, fr.module)
        self._import_effect(module, fr)
        for alias in node.names:
            if alias.name == "*":
                if fr.kind == "module":
                    fr.module.stars.append(module)
                continue
            if fr.kind == "module":
                fr.module.imported.add(alias.asname or alias.name)
            if alias.asname and alias.asname != alias.name:
                fr.module.aliases[alias.name] = alias.asname
            fr.env[alias.asname or alias.name] = V(Pending(module, alias.name))

    @staticmethod
    def absolute(module: str | None, level: int, here: Any) -> str:
        """Full name of the module of a ``from`` import."""
        if not level:
            return module or ""
        parts = here.package.split(".")
        parts = parts[: len(parts) - (level - 1)] if level > 1 else parts
        return ".".join([*parts, module] if module else parts)

    def _import_effect(self, module: str, fr: Frame) -> None:
        """Whether an import may fail, and what follows inside a ``try``."""
        if self.in_tree(module):
            return
        there = self.world.dependency(module)
        if there is False:
            fr.raises += 1
            self._stop(fr)
        elif there is None and fr.guarded:
            fr.raises += 1

    # -- definitions -------------------------------------------------------------------------------

    def _def(self, node: Any, fr: Frame) -> None:
        qualname = f"{fr.symbol}.{node.name}" if fr.symbol else node.name
        closure = fr if fr.kind == "function" else None
        segment = Segment("def", node.name, node.lineno, "")
        segment._nodes = [node]
        owner = fr.owner if fr.kind == "class" else None
        function = Function(fr.module, node.name, qualname, segment, owner, closure)
        self.visit_signature(node, fr)
        self._loosen(node, fr)
        self._bind(node.name, V(function), fr, node)
        self._mark_hot(node, fr)
        if fr.kind == "class" and fr.owner is not None:
            fr.owner.functions.setdefault(node.name, function)
        if fr.recorder is not None and fr.kind != "class":
            fr.nested.append((function, fr.env))

    def _mark_hot(self, node: Any, fr: Frame) -> None:
        """A function or class within a function that leads to a root: no statement with its name is passed
        over."""
        if fr.text is None:
            return
        first, lines = fr.text
        text = "\n".join(lines[node.lineno - first : (node.end_lineno or node.lineno) - first + 1])
        if self.hot_pattern().search(text) or any(name in text for name in fr.marked):
            fr.marked.add(node.name)

    @staticmethod
    def _loosen(node: Any, fr: Frame) -> None:
        """Names that a function inside rebinds are open in the functions around it from here on."""
        names = {n for child in ast.walk(node) if isinstance(child, ast.Nonlocal) for n in child.names}
        frame: Frame | None = fr if names else None
        while frame is not None and frame.kind == "function":
            frame.loose |= names
            for name in names & frame.env.keys():
                old = frame.env[name]
                frame.env[name] = V(Unknown(all_reasons(old) | {f"nonlocal {name}"}), old.roots, old.via)
            frame = frame.parent

    def visit_signature(self, node: Any, fr: Frame) -> None:
        """Decorators and defaults are expressions of the enclosing scope and may hold gates."""
        if fr.recorder is None:
            return
        for default in (*node.args.defaults, *node.args.kw_defaults):
            if default is not None and not isinstance(default, ast.Constant):
                value = self.ev(default, fr)
                if value.roots:
                    self.record_argument(default, value, fr)
        for decorator in node.decorator_list:
            if isinstance(decorator, ast.Call):
                self.ev(decorator, fr)

    def _class(self, node: ast.ClassDef, fr: Frame) -> None:
        qualname = f"{fr.symbol}.{node.name}" if fr.symbol else node.name
        segment = Segment("class", node.name, node.lineno, "")
        segment._nodes = [node]
        info = ClassInfo(fr.module, node.name, qualname, segment, self)
        fr.env[node.name] = V(ClassRef(info))
        self._mark_hot(node, fr)
        if fr.recorder is not None:
            fr.nested.append((info, fr.env))

    def make_lambda(self, node: ast.Lambda, fr: Frame) -> V:  # type: ignore[override]
        segment = Segment("def", "<lambda>", node.lineno, "")
        body = ast.copy_location(ast.Return(node.body), node.body)
        definition = ast.FunctionDef(
            name="<lambda>", args=node.args, body=[body], decorator_list=[], returns=None, type_comment=None
        )
        definition.type_params = []  # type: ignore[attr-defined]
        ast.copy_location(definition, node)
        segment._nodes = [definition]
        qualname = f"{fr.symbol}.<lambda>" if fr.symbol else "<lambda>"
        function = Function(
            fr.module, "<lambda>", qualname, segment, None, fr if fr.kind != "module" else None
        )
        if fr.recorder is not None:
            fr.nested.append((function, fr.env))
        return V(function)

    # -- functions ---------------------------------------------------------------------------------

    def function_kind(self, function: Function) -> str:
        """function, property, classmethod or staticmethod; flags hold what else decorators say."""
        if function.kind is not None:
            return function.kind
        function.kind = "function"
        node: Any = None
        text = function.segment.text
        decorators = function.segment.decorators() if "yield" not in text else None
        if decorators is None:
            try:
                node = function.segment.node()
            except Irregular:
                function.flags.add("opaque")
                return "function"
            decorators = node.decorator_list
        for deco in decorators:
            target = deco.func if isinstance(deco, ast.Call) else deco
            name = ast.unparse(target)
            last = name.rpartition(".")[2]
            if last in ("property", "cached_property"):
                function.kind = "property"
            elif last in ("staticmethod", "classmethod"):
                function.kind = last
            elif last in ("setter", "deleter", "overload"):
                function.flags.add("opaque")
            elif last not in ("lru_cache", "cache", "wraps"):
                function.flags.add("decorated")
        if isinstance(node, ast.AsyncFunctionDef) or (
            node is not None and (not text or "yield" in text) and _has_yield(node)
        ):
            function.flags.add("opaque")
        return function.kind

    def opaque_decorator(self, function: Function, fr: Frame) -> bool:
        """Whether a decorator of the tree may change what a function returns."""
        if "decorated" not in function.flags:
            return False
        if "transparent" in function.flags:
            return False
        node: Any = function.segment.node()
        scope = self.module_frame(function.module)
        for deco in node.decorator_list:
            target = deco.func if isinstance(deco, ast.Call) else deco
            value = self.ev(target, scope)
            if isinstance(value.one, (External, ClassRef)) or value.one is None:
                continue
            if isinstance(value.one, Unknown):
                continue
            if isinstance(value.one, (Function, Partial, Bound)):
                if self._returns_its_argument(value.one):
                    continue
                return True
        function.flags.add("transparent")
        return False

    @staticmethod
    def _returns_its_argument(decorator: Any) -> bool:
        """Whether a decorator hands on what the function returns: it returns the function itself, or an
        inner function made with ``wraps`` whose results are the function's calls or remembered ones."""
        function = decorator.function if isinstance(decorator, (Bound, Partial)) else decorator
        if not isinstance(function, Function):
            return True
        try:
            node: Any = function.segment.node()
        except Irregular:
            return False
        params = {a.arg for a in (*node.args.args, *node.args.kwonlyargs)}
        return _hands_on(node, params)

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
            for value in (*args, *kwargs.values()):
                self.touch_value(value, fr)
        typed = self.returned_type(function)
        if typed is not None:
            return typed
        given = given_reasons((*args, *kwargs.values()))
        return V(Unknown(given) if given else unknown(why))

    note_arguments: Callable[..., None]
    worth_calling: Callable[..., bool]
    returned_type: Callable[..., V | None]

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

    _alive: list[Any]
    _kept: dict[int, Any]

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
                    caller.effects.update(self._effects[key])
                if caller is not None and key in self._comebacks:
                    back, thrown, changed = self._comebacks[key]
                    self._come_back(caller, back, thrown)
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
        if self.opaque_decorator(function, self.module_frame(function.module)):
            return V(unknown(f"decorated {function.qualname}"))
        fr = Frame(
            function.module,
            env,
            full=self.full,
            kind="function",
            owner=function.owner,
            parent=function.closure,
            symbol=function.qualname,
            depth=depth + 1,
        )
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
        changed = {
            i
            for i, given in enumerate((*args, *kwargs.values()))
            if fr.touched and any(contains(s, t) for s in given.scalars() for t in fr.touched)
        }
        if caller is not None:
            self._come_back(caller, back, fr.thrown)
            for scalar in fr.touched:
                self.touch(scalar, caller)
        if self.steps < 0 <= saved and depth == 0:
            pass
        if value.roots:
            if function.name != "__getattr__":
                if not args or (function.owner is not None and len(args) == 1 and not kwargs):
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
        if effects and caller is not None:
            caller.effects.update(effects)
        if key is not None and self.steps >= 0:
            if effects:
                self._effects[key] = effects
            if back != self.full or fr.thrown or changed:
                self._comebacks[key] = (back, fr.thrown, changed)
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

    # -- containers that change --------------------------------------------------------------------

    def touch_value(self, value: V, fr: Frame) -> None:
        """A value was handed to code that may change it, or is changed in place."""
        for scalar in value.scalars():
            self._touch_inside(scalar, fr, 3)

    def _touch_inside(self, scalar: Any, fr: Frame, depth: int) -> None:
        if isinstance(scalar, Map) or (isinstance(scalar, Seq) and scalar.kind in ("list", "set")):
            self.touch(scalar, fr)
        if depth and isinstance(scalar, Seq):
            for item in scalar.items:
                self._touch_inside(item, fr, depth - 1)

    def touch(self, scalar: Any, fr: Frame) -> None:
        """Forget what is known of every name that holds a container which changes in place."""
        if not isinstance(scalar, (Seq, Map)):
            return
        fr.touched.append(scalar)
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

    memo_names: dict[int, list[Any]]

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
            else:
                if scope is None:
                    scope = self.module_frame(function.module)
                env[name] = self.ev(default, scope)
        return True

    module_frame: Callable[[Any], Frame]

    # -- objects -----------------------------------------------------------------------------------

    def instantiate(
        self, info: ClassInfo, args: list[V], kwargs: dict[str, V], fr: Frame, node: ast.Call | None
    ) -> V:
        """``C(...)``"""
        if info.is_enum():
            return self._enum_lookup(info, args)
        if info.is_named_tuple() or (info.is_record() and info.find("__init__") is None):
            return self._record(info, args, kwargs, fr)
        found = info.find("__init__")
        attrs: dict[str, V] = {}
        if found is None or not isinstance(found[1], Function):
            fr.raises += 0 if info.closed() else 1
            return V(Instance(info, attrs if info.closed() else None))
        size = len(found[1].segment.text)
        if size > BIG_FUNCTION or fr.depth >= MAX_DEPTH or not self.plain_object(info):
            fr.raises += 1
            return V(Instance(info, None))
        obj = Instance(info, attrs)
        self.run_constructor(found[1], obj, args, kwargs, fr)
        return V(obj)

    @staticmethod
    def plain_object(info: ClassInfo) -> bool:
        """Whether all bases lie in the tree, so that running the constructor says everything."""
        return info.closed()

    def run_constructor(
        self, function: Function, obj: Instance, args: list[V], kwargs: dict[str, V], fr: Frame
    ) -> None:
        """Run ``__init__`` (or a hook like it) on a new object."""
        if function.segment.serial in self._running:
            obj.attrs = None
            return
        try:
            node: Any = function.segment.node()
        except Irregular:
            obj.attrs = None
            return
        env: dict[str, V] = {}
        if not self._bind_arguments(function, node, [V(obj), *args], kwargs, env):
            obj.attrs = None
            return
        inner = Frame(
            function.module,
            env,
            full=self.full,
            kind="function",
            owner=function.owner,
            symbol=function.qualname,
            depth=fr.depth + 1,
        )
        inner.this = node.args.args[0].arg if node.args.args else None
        self._running.add(function.segment.serial)
        try:
            self.block(node.body, inner)
        finally:
            self._running.discard(function.segment.serial)
        back = inner.may
        for mask, *_ in inner.returns:
            back |= mask
        self._come_back(fr, back, inner.thrown)
        for scalar in inner.touched:
            self.touch(scalar, fr)
        assert obj.attrs is not None
        prefix = f"{inner.this}."
        for key, value in inner.env.items():
            if key.startswith(prefix) and key.count(".") == 1:
                obj.attrs[key[len(prefix) :]] = value

    def _record(self, info: ClassInfo, args: list[V], kwargs: dict[str, V], fr: Frame) -> V:
        fields = info.record_fields()
        values: dict[str, V] = {}
        for (name, _n, _i), value in zip(fields, args):
            values[name] = value
        values.update(kwargs)
        for name, node, owner in fields:
            if name not in values:
                if node.value is None:
                    values[name] = V(unknown(f"field {info.name}.{name}"))
                else:
                    values[name] = self.field_default(node.value, owner)
        if info.is_named_tuple():
            ordered = [values[name] for name, _n, _i in fields]
            roots = via = EMPTY
            for v in ordered:
                roots, via = roots | v.roots, via | v.via
            if all(v.each is None for v in ordered):
                return V(Seq("tuple", tuple(v.one for v in ordered), info), roots, via)
            each = tuple(Seq("tuple", tuple(v.at(i) for v in ordered), info) for i in range(self.count))
            return make(each, roots, via)
        obj = Instance(info, values)
        hook = info.find("__post_init__")
        if hook is not None and isinstance(hook[1], Function):
            if len(hook[1].segment.text) > BIG_FUNCTION:
                return V(Instance(info, None))
            before = dict(values)
            self.run_constructor(hook[1], obj, [], {}, fr)
            if obj.attrs is not None:
                for k, v in before.items():
                    obj.attrs.setdefault(k, v)
        return V(obj)

    def field_default(self, node: ast.expr, owner: ClassInfo) -> V:
        """Default of a record field, ``field(default=...)`` included."""
        scope = self.module_frame(owner.module)
        if isinstance(node, ast.Call):
            last = ast.unparse(node.func).rpartition(".")[2]
            if last in ("field", "Field"):
                for keyword in node.keywords:
                    if keyword.arg == "default":
                        return self.ev(keyword.value, scope)
                    if keyword.arg in ("default_factory", "factory"):
                        factory = self.ev(keyword.value, scope)
                        return self.call(factory, [], {}, scope)
                return V(unknown("field default"))
        return self.ev(node, scope)

    def _enum_lookup(self, info: ClassInfo, args: list[V]) -> V:
        if len(args) != 1:
            return V(unknown(f"call {info.name}()"))
        scope = self.module_frame(info.module)
        members = [self.class_value(info, name, scope) for name in self.namespace(info)]

        def one(scalar: Any) -> Any:
            for member in members:
                if member is not None and not isinstance(scalar, Unknown):
                    m = member.one
                    if getattr(m, "value", object()) == scalar and type(getattr(m, "value", None)) is type(
                        scalar
                    ):
                        return m
            return Unknown(reasons_of(scalar) or frozenset({f"call {info.name}()"}))

        return self._map(args[0], one)

    # -- self --------------------------------------------------------------------------------------

    def havoc_self(self, method: Bound, fr: Frame) -> None:
        """Forget the attributes a method of the same object may write."""
        if fr.this is None or not isinstance(method.function, Function):
            return
        prefix = fr.this + "."
        keys = [k for k in fr.env if k.startswith(prefix)]
        if not keys:
            return
        written = self.written_by(method.function, fr.owner)
        for key in keys:
            name = key[len(prefix) :].split(".", 1)[0]
            if written is None or name in written:
                del fr.env[key]

    written_by: Callable[..., set[str] | None]


def _narrowed(scalar: Any, wanted: Callable[[Any], bool | None]) -> Any:
    """An open value with the choices dropped that a test rules out."""
    if not isinstance(scalar, Unknown) or scalar.options is None:
        return scalar
    left = tuple(o for o in scalar.options if wanted(o) is not False)
    if not left or len(left) == len(scalar.options):
        return scalar
    return left[0] if len(left) == 1 else Unknown(scalar.reasons, left)


def _hands_on(node: Any, params: set[str]) -> bool:
    inner = {n.name: n for n in node.body if isinstance(n, ast.FunctionDef)}
    returns = [n.value for n in _own_nodes(node) if isinstance(n, ast.Return) and n.value is not None]
    if not returns:
        return False
    for value in returns:
        while isinstance(value, ast.Call) and not (
            isinstance(value.func, ast.Name) and value.func.id in params
        ):
            if not value.args:
                break
            value = value.args[0]  # lru_cache(...)(wrapper), cast(F, wrapper)
        if isinstance(value, ast.Call):
            continue
        if not isinstance(value, ast.Name):
            return False
        if value.id in params:
            continue
        wrapper = inner.get(value.id)
        if wrapper is None:
            return False
        wraps = any("wraps" in ast.unparse(d) for d in wrapper.decorator_list)
        names = params | {a.arg for a in wrapper.args.args}
        if not wraps:
            if not _hands_on(wrapper, names):  # a decorator with arguments: one level down
                return False
            continue
        for result in _own_nodes(wrapper):
            if isinstance(result, ast.Return) and result.value is not None:
                if not isinstance(result.value, (ast.Call, ast.Subscript, ast.Name, ast.Attribute)):
                    return False
    return True


def _own_nodes(node: Any) -> list[ast.AST]:
    """Nodes of a function body without those of functions inside it."""
    out: list[ast.AST] = []
    stack: list[ast.AST] = list(node.body)
    while stack:
        child = stack.pop()
        if isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)):
            continue
        out.append(child)
        stack.extend(ast.iter_child_nodes(child))
    return out


def stores(body: list[ast.stmt]) -> dict[str, int]:
    """Names and attribute paths that statements bind, with how often; in loops more than once."""
    out: dict[str, int] = {}
    stack: list[tuple[ast.AST, int]] = [(s, 1) for s in body]
    while stack:
        node, times = stack.pop()
        names: list[str | None] = []
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            names = [node.name]
        elif isinstance(node, (ast.Name, ast.Attribute)) and isinstance(node.ctx, (ast.Store, ast.Del)):
            names = [dotted(node)]
        elif isinstance(node, ast.alias):
            names = [(node.asname or node.name).split(".", 1)[0]]
        elif isinstance(node, (ast.ExceptHandler, ast.MatchAs, ast.MatchStar)):
            names = [node.name]
        for name in names:
            if name:
                out[name] = out.get(name, 0) + times
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)):
            continue
        if isinstance(node, (ast.For, ast.AsyncFor, ast.While)):
            times = 2
        stack.extend((child, times) for child in ast.iter_child_nodes(node))
    return out


def _unsteady(body: list[ast.stmt]) -> list[str]:
    """Names that an interrupted body may leave with a value of neither its start nor its end."""
    counts = stores(body)
    direct = {
        dotted(t)
        for s in body
        if isinstance(s, (ast.Assign, ast.AnnAssign))
        for t in (s.targets if isinstance(s, ast.Assign) else [s.target])
        if isinstance(t, (ast.Name, ast.Attribute))
    }
    direct |= {
        (a.asname or a.name).split(".", 1)[0]
        for s in body
        if isinstance(s, (ast.Import, ast.ImportFrom))
        for a in s.names
    }
    return sorted(n for n, times in counts.items() if times > 1 or n not in direct)


def _breaks(body: list[ast.stmt]) -> bool:
    """Whether a loop with this body may be left by ``break``."""
    stack: list[ast.AST] = list(body)
    while stack:
        node = stack.pop()
        if isinstance(node, ast.Break):
            return True
        if isinstance(node, (ast.For, ast.AsyncFor, ast.While)):
            stack.extend(node.orelse)
        elif not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            stack.extend(ast.iter_child_nodes(node))
    return False


def _jumps(node: ast.AST) -> bool:
    return any(isinstance(n, (ast.Break, ast.Continue)) for n in ast.walk(node))


def _may_mutate(body: list[ast.stmt]) -> bool:
    """Whether statements may change a container in place, by their form."""
    for statement in body:
        for node in ast.walk(statement):
            if isinstance(node, (ast.AugAssign, ast.Delete)):
                return True
            if isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Store):
                return True
            if isinstance(node, ast.Call) and (
                (isinstance(node.func, ast.Attribute) and node.func.attr in _MUTATORS)
                or any(isinstance(a, (ast.Name, ast.Attribute)) for a in node.args)
            ):
                return True
    return False


def _catches_all(node: Any) -> bool:
    """Whether a ``try`` surely catches what its body raises."""
    for handler in node.handlers:
        if handler.type is None:
            return True
        kinds = handler.type.elts if isinstance(handler.type, ast.Tuple) else [handler.type]
        if any(isinstance(k, ast.Name) and k.id in ("Exception", "BaseException") for k in kinds):
            return True
    return False


def _raises(body: list[ast.stmt]) -> bool:
    return holds(body, ast.Raise)


def _as_load(node: ast.expr) -> ast.expr:
    if isinstance(node, ast.Name):
        return ast.copy_location(ast.Name(node.id, ast.Load()), node)
    if isinstance(node, ast.Attribute):
        return ast.copy_location(ast.Attribute(node.value, node.attr, ast.Load()), node)
    if isinstance(node, ast.Subscript):
        return ast.copy_location(ast.Subscript(node.value, node.slice, ast.Load()), node)
    return node


def _has_yield(node: Any) -> bool:
    stack = list(node.body)
    while stack:
        child = stack.pop()
        if isinstance(child, (ast.Yield, ast.YieldFrom)):
            return True
        if isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)):
            continue
        stack += children(child)
    return False


__all__ = ["Flow", "assigned_names", "stores"]
