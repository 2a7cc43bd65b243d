"""Branches: if and match, what a test says about names, and how states are merged."""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import Any

from auditor.program.exits import Exits
from auditor.program.frames import Frame
from auditor.program.syntax import dotted
from auditor.program.values import (
    Pending,
    Seq,
    Unknown,
    V,
    all_reasons,
    reasons_of,
    truth_of,
    unknown,
)


class Branches(Exits):
    """Running arms and joining what they leave."""

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
            counts = fr.raises, fr.failed
            self.block(body, fr)
            if not arm_may:
                fr.raises, fr.failed = counts
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


def _narrowed(scalar: Any, wanted: Callable[[Any], bool | None]) -> Any:
    """An open value with the choices dropped that a test rules out."""
    if not isinstance(scalar, Unknown) or scalar.options is None:
        return scalar
    left = tuple(o for o in scalar.options if wanted(o) is not False)
    if not left or len(left) == len(scalar.options):
        return scalar
    return left[0] if len(left) == 1 else Unknown(scalar.reasons, left)
