"""Statements of a start: what they do to its state, and where it stops."""

from __future__ import annotations

import ast
from typing import Any

from auditor.program.environment import Environment
from auditor.program.frames import Frame
from auditor.program.objects import changed_in
from auditor.program.startlog import Stop
from auditor.program.syntax import short
from auditor.program.tracked import Tracked, cells
from auditor.program.values import (
    Seq,
    V,
    is_ordered,
    unknown,
)

_ROUNDS = 4  # visits of a loop body until what it changes is known
_FEW = 40  # items of a known sequence over which a loop is run one by one


class Ends:
    """Where control left a function or a loop: target masks, state, and why it may have."""

    def __init__(self, frame: Frame) -> None:
        self.frame = frame
        self.ends: list[tuple[int, dict[str, V], frozenset[str]]] = []


class Stepping(Environment):
    """Running statements on the state of a start."""

    _catching: int
    _exits: list[Ends]
    _loops: list[Ends]

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
        if not is_ordered(iterable.one):
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
            loop = Ends(fr)
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
