"""Statements that leave a block: return, raise, assert, try and with."""

from __future__ import annotations

import ast
from typing import Any

from auditor.program import externals
from auditor.program.definitions import Definitions
from auditor.program.frames import Frame
from auditor.program.syntax import assigned_names, catches_all, jumps, short, unsteady
from auditor.program.values import (
    EMPTY,
    External,
    Unknown,
    V,
    all_reasons,
    unknown,
)


class Exits(Definitions):
    """Where control leaves a block, and what is known afterwards."""

    def _return(self, node: ast.Return, fr: Frame) -> None:
        value = V(None)
        if node.value is not None:
            value = self.ev(node.value, fr)
            if value.roots or fr.late:
                self.record_value("return", node, node.value, value, fr)
        if fr.may:
            roots, via, why = fr.control()
            fr.returns.append((fr.may, value, roots, via, why))
            if fr.this is not None:
                fr.kept.append((fr.may, self._fields_of(fr), V(Unknown(why), roots, via)))
        self._stop(fr)

    @staticmethod
    def _fields_of(fr: Frame) -> dict[str, V]:
        prefix = f"{fr.this}."
        return {key: v for key, v in fr.env.items() if key.startswith(prefix) and key.count(".") == 1}

    def final_fields(self, fr: Frame) -> dict[str, V]:
        """The attributes of the object that a method leaves, by name, however it returns."""
        may, fields = fr.may, self._fields_of(fr)
        for mask, kept, test in fr.kept:
            if not may:
                may, fields = mask, kept
                continue
            for key in fields.keys() | kept.keys():
                a, b = fields.get(key), kept.get(key)
                a, b = a or self._unwritten(key, fr), b or self._unwritten(key, fr)
                fields[key] = self.select(may, mask, a, b, test)
            may |= mask
        return {key.partition(".")[2]: value for key, value in sorted(fields.items())}

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
        before, state, raises, failed = dict(fr.env), (fr.may, fr.must, fr.stay), fr.raises, fr.failed
        thrown, fr.thrown = fr.thrown, 0
        touched, returned = len(fr.touched), len(fr.returns)
        fr.guarded += 1
        self.block(node.body, fr)
        fr.guarded -= 1
        body_raises = fr.raises > raises
        if catches_all(node):
            fr.thrown, fr.raises, fr.failed = thrown, raises, failed
        else:
            fr.thrown |= thrown
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
            for name in unsteady(node.body):
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
        if leaves or fr.may != state[0] or fr.thrown or jumps(node):
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
