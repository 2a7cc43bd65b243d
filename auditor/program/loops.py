"""Loops: unrolled where few items are known, else summed up."""

from __future__ import annotations

import ast
from typing import Any

from auditor.program.branches import Branches
from auditor.program.frames import Frame
from auditor.program.nodes import walk
from auditor.program.syntax import assigned_names, breaks, may_mutate, raises, short
from auditor.program.values import (
    Map,
    Seq,
    V,
    is_ordered,
    unknown,
)

#: What a frame gets back after statements that were run quietly.
_CONTROL = (
    "env",
    "may",
    "must",
    "stay",
    "recorder",
    "returns",
    "kept",
    "left",
    "raises",
    "failed",
    "thrown",
    "nested",
)


class Loops(Branches):
    """Running the body of a loop."""

    def _leave_loop(self, node: Any, fr: Frame) -> None:
        fr.may = fr.must = fr.stay = 0

    def _for(self, node: Any, fr: Frame) -> None:
        iterable = self.ev(node.iter, fr)
        items = self._few_items(node, iterable)
        if items is not None:
            late = fr.late
            for item in items:
                here = fr.may
                self.assign(node.target, V(item, iterable.roots, iterable.via), fr, node)
                self.block(node.body, fr)
                fr.late |= here
            fr.late = late
            self.block(node.orelse, fr)
            return
        if may_mutate(node.body):
            for scalar in iterable.scalars():
                self._touch_items(scalar, fr)
        self._loop(node, node.target, fr, None)

    def _touch_items(self, scalar: Any, fr: Frame) -> None:
        """What a loop goes over may change under the name that it has in the body."""
        if isinstance(scalar, (Seq, Map)):
            for item in scalar.items.values() if isinstance(scalar, Map) else scalar.items:
                if isinstance(item, Seq) and item.kind == "tuple":
                    self._touch_items(item, fr)
                else:
                    self.touch(item, fr)

    def _few_items(self, node: Any, iterable: V) -> list[Any] | None:
        """Items of a short known sequence whose loop body cannot leave early, or None."""
        if iterable.each is not None or not isinstance(iterable.one, (Seq, Map)):
            return None
        items = list(iterable.one.items)
        if len(items) > 8 or not is_ordered(iterable.one):
            return None
        for child in walk(node):
            if isinstance(child, (ast.Break, ast.Continue)):
                return None
        if not isinstance(node.iter, (ast.Tuple, ast.List, ast.Call)) and may_mutate(node.body):
            return None
        return [Seq("tuple", i) if isinstance(i, tuple) else i for i in items]

    def _while(self, node: ast.While, fr: Frame) -> None:
        self._loop(node, None, fr, node.test)

    def _loop(self, node: Any, target: ast.expr | None, fr: Frame, test: ast.expr | None) -> None:
        for name in sorted(assigned_names(node.body)):
            self.forget_in_loop(name, fr)
        if may_mutate(node.body):
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
        if len(fr.returns) > returned or raises(node.body):
            fr.must, fr.stay = 0, 0
            fr.left.append(marker)
        fr.must, fr.stay = fr.must & ~fr.thrown, fr.stay & ~fr.thrown
        fr.thrown |= thrown
        fr.env = self._merge(fr.may or self.full, before, fr.may or self.full, after, marker, fr)
        for scalar in fr.touched[touched:]:
            self.spoil(scalar, fr.env)
        if node.orelse:
            self._maybe(node.orelse, fr, marker, breaks(node.body))

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
        fr.env, fr.recorder = dict(fr.env), None
        fr.returns, fr.kept, fr.left, fr.nested = [], [], [], []
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
