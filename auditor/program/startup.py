"""The start of a server, run abstractly: what becomes of its arguments and of the environment.

The object that holds the arguments is *tracked*: functions and methods that receive it are entered one by
one, and its attributes are followed through branches, calls, early returns and raises, on all targets at
once. Everything else is evaluated as in an audit. Whatever may change an argument in a way that cannot be
followed makes that argument, or all of them, unknown: a value is never kept beyond such a point.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from auditor.profile import compile_patterns
from auditor.program.classes import ClassInfo
from auditor.program.frames import Frame
from auditor.program.program import Program
from auditor.program.running import Runner
from auditor.program.startlog import EnvWrite, Startup, Stop, Write
from auditor.program.syntax import source_of
from auditor.program.values import ClassRef, Deferred, Function, Seq, V, unknown

STEPS = 6_000_000


class _Start(Runner):
    """One run of a start."""

    # -- the run -----------------------------------------------------------------------------------------

    def _class_of_arguments(self) -> ClassInfo | None:
        for symbol in self.profile.arguments:
            module = self.module(symbol.module)
            if module is None:
                continue
            value = self.global_value(module, symbol.symbol)
            if value is not None and isinstance(value.one, ClassRef):
                return value.one.info
            for segment in module.segments:  # rebound to what a class factory makes of it
                if segment.kind == "class" and segment.name == symbol.symbol:
                    return ClassInfo(module, segment.name, segment.name, segment, self)
        return None

    def _declared_fields(self, info: ClassInfo) -> Iterator[tuple[str, ast.AnnAssign, ClassInfo]]:
        """Fields of the class, and where a class factory puts it together those of its parts: classes that
        its module lists, from the folders that the profile names."""
        yield from info.record_fields()
        rebound = self.global_value(info.module, info.name)
        if rebound is None or isinstance(rebound.one, ClassRef):
            return
        folders = compile_patterns(tuple(f for s in self.profile.arguments for f in s.folders))
        for name, value in list(info.module.globals.items()):
            if type(value.one) is Deferred and isinstance(value.one.node.value, (ast.List, ast.Tuple)):
                value = self.global_value(info.module, name) or value
            parts = value.one.items if isinstance(value.one, Seq) else ()
            for part in parts:
                if isinstance(part, ClassRef) and folders.match(
                    self.profile.below_root(part.info.module.path)
                ):
                    yield from part.info.record_fields()

    def _initial(self, name: str, node: ast.AnnAssign, owner: ClassInfo) -> V:
        if self.assume.get(f"arg.{name}") is not None:
            return super().argument_value(name)
        if node.value is not None:
            return self.field_default(node.value, owner)
        # what a user has to give, some text of their own: never one of the special words
        text = source_of(node.annotation)
        plain = text == "str" or "[str," in text
        return V(f"<{name}>") if plain else V(unknown(f"arg.{name}"))

    def run(self) -> Startup:
        info = self._class_of_arguments()
        if info is None:
            return self.log
        self.info = info
        for subject in (self.record_object, self.view_object, self.recorder_object):
            subject.info = info
        outer = Frame(info.module, {}, full=self.full, kind="function", symbol="")
        for name, node, owner in self._declared_fields(info):
            if name not in self.fields:
                self.fields.add(name)
                outer.env[f"@.{name}"] = self._initial(name, node, owner)
                self.note_fallback(name, node, owner)
        self.steps = STEPS
        self._now.append(outer)
        self._calls.append(None)
        ended = False
        try:
            for entry in ("__post_init__", *(getattr(self.profile.start, "entries", ()) or ())):
                hook = info.find(entry)
                if hook is not None and isinstance(hook[1], Function):
                    if self._enter(hook[1], [V(self.record_object)], {}, outer) is None:
                        self._unfollowed(hook[1], hook[1].qualname, outer)
        except RecursionError:
            ended = True
        self.log.complete = self.steps > 0 and not ended
        for name in sorted(self.fields):
            value = self.filled(name, self.cell(f"@+.{name}") or outer.env[f"@.{name}"])
            self.log.arguments[name] = value if self.log.complete else V(unknown("budget"))
        # parts of a function that are run for several ways of control are told once
        self.log.writes, self.log.env = _once(self.log.writes), _once(self.log.env)
        self.log.raises = list(dict.fromkeys(self.log.raises))
        if not self.log.complete:
            self.log.env = [replace(entry, value=V(unknown("budget"))) for entry in self.log.env]
        return self.log


def _once(entries: list[Any]) -> list[Any]:
    """Entries without those that say the same as an earlier one."""
    out: dict[Any, Any] = {}
    for entry in entries:
        out.setdefault(tuple(map(repr, vars(entry).values())), entry)
    return list(out.values())


_OPPOSITE = {"1": "0", "0": "1", "true": "false", "false": "true"}


def run_startup(program: Program, model: str) -> Startup:
    """Run the start of a server for a model class on all targets.

    ``program`` gives the tree, the profile and the assumptions (``arg.NAME``, ``env.NAME``, ``defaults``).
    Where flags are set, a second run in which the user had set them to something else tells which of these
    writes are guarded.
    """
    first = _Start(program, model).run()
    written: dict[str, list[str]] = {}
    for entry in first.env:
        if f"env.{entry.name}" not in program.assume:
            texts = [s for s in entry.value.scalars() if isinstance(s, str)]
            written.setdefault(entry.name, []).extend(texts)
    user = {name: _another(texts) for name, texts in written.items()}
    if user:
        again = _Start(program, model, user).run()
        if again.complete:
            first.env = [part for entry in first.env for part in _guarded(entry, again.env, user)]
    return first


def _another(texts: list[str]) -> str:
    """What a user might have set a flag to: the opposite of what the start sets, or at least not the same."""
    wanted = [_OPPOSITE[t.lower()] for t in texts[:1] if t.lower() in _OPPOSITE]
    return next(t for t in (*wanted, "0", "1", "2", "user") if t not in texts[:3] or t == "user")


def _guarded(entry: EnvWrite, again: list[EnvWrite], user: dict[str, str]) -> list[EnvWrite]:
    """A write, parted into the targets on which a user's own setting stays and those on which it is lost."""
    text = user.get(entry.name)
    if entry.guarded or text is None:
        return [entry]
    lost = 0
    for other in again:
        if (other.name, other.path, other.line) == (entry.name, entry.path, entry.line) and not other.guarded:
            differs = (
                1 << i for i, scalar in enumerate(_per_target(other.value, entry.may)) if scalar != text
            )
            lost |= other.may & sum(differs)
    parts = ((entry.may & ~lost, True), (entry.may & lost, False))
    return [replace(entry, may=may, must=entry.must & may, guarded=kept) for may, kept in parts if may]


def _per_target(value: V, mask: int) -> list[Any]:
    return [value.at(i) for i in range(mask.bit_length())]


__all__ = ["EnvWrite", "Startup", "Stop", "Write", "run_startup"]
