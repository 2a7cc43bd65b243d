"""Whether the project itself picks a name that a registry or a comparison knows, or only a person can.

A backend that is registered under a name is reached where that name is set. Someone sets it on the command
line, or the code of the server's arguments does: as an assigned, returned or default value. Where no such
code is reached on a target, the backend is there only for those who ask for it.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from auditor.native.reach.points import Points
from auditor.native.reach.reach import Caller, Context, Reach
from auditor.native.reach.ways import free
from auditor.profile import Profile
from auditor.program import textual
from auditor.program.classes import functions_of
from auditor.program.program import Program
from auditor.program.source import Segment
from auditor.program.values import ClassRef, Function, Unknown, V

_GIVES = (ast.Assign, ast.AnnAssign, ast.Return, ast.IfExp, ast.keyword, ast.BoolOp)


class Choices:
    """Answers for one program."""

    def __init__(self, program: Program, profile: Profile, reach: Reach) -> None:
        self.program = program
        self.outer = reach
        self.points = Points(program)  # of their own: what is known here is not known elsewhere
        self.reach = Reach(program, self.points)
        self.reach.counts = self._has_effect
        self.registries = [(r.module, r.symbol) for r in profile.registries]
        self._defaults = _flags(program, profile)
        self._memo: dict[Any, Any] = {}
        self._comebacks: dict[Any, Any] = {}
        self.paths = sorted(set(_argument_files(program, profile)))
        self.inside = _argument_folders(program, profile)
        self.asked = program.full  # targets that anybody asks about
        self._picked: dict[str, int] = {}
        self._known: dict[str, bool] = {}

    def picked(self, name: str) -> int:
        """Targets on which the code of the arguments may choose a name by itself."""
        if name not in self._picked:
            with self._unset():
                mask = self._find(name)
            if mask:
                mask &= ~self.outer.refused(name, self.registries)
            self._picked[name] = mask
        return self._picked[name]

    @contextmanager
    def _unset(self) -> Iterator[None]:
        """Switches that are off unless somebody sets them are off."""
        program: Any = self.program
        real = program.argument_value
        kept = program._memo, program._fields, program._summaries, program._comebacks

        def value(name: str, default: V | None = None) -> V:
            found: V = real(name, default)
            return V(False) if name in self._defaults and isinstance(found.one, Unknown) else found

        program.argument_value = value
        # what was evaluated before holds less than it could here; what is evaluated here does not hold there
        program._memo, program._comebacks = self._memo, self._comebacks
        program._fields, program._summaries = dict(kept[1]), dict(kept[2])
        try:
            yield
        finally:
            del program.argument_value
            program._memo, program._fields, program._summaries, program._comebacks = kept

    def knows(self, name: str) -> bool:
        """Whether a text is a value of some setting: whether the code of the arguments has it in quotes."""
        if name not in self._known:
            quoted = tuple(f"{q}{name}{q}" for q in "\"'")
            self.program.watch.words.update((q, self.inside) for q in quoted)  # files to come included
            ask = self.program.watch.ask
            self._known[name] = any(ask(p, textual.holds, q) for p in self.paths for q in quoted)
        return self._known[name]

    def _find(self, name: str) -> int:
        program, mask = self.program, 0
        quoted = tuple(f"{q}{name}{q}" for q in "\"'")

        def holds(segment: Segment) -> bool:
            return not segment.has_text or any(q in segment.peek() for q in quoted)

        functions: list[Function] = []
        program.watch.words.update((q, self.inside) for q in quoted)
        for path in self.paths:
            if any([program.watch.ask(path, textual.holds, q) for q in quoted]):
                module = program.module(program.paths[path])
                if module is not None:
                    program.execute(module)
                    module.parts.update(quoted)
                    functions += [f for f in functions_of(module, holds) if holds(f.segment)]
        functions = [f for f in functions if self._gives(f, repr(name))]
        # those that need no look at their callers come first
        for function in sorted(functions, key=lambda f: f.owner is None or self.points.depends(f)):
            mask |= self._given_in(function, repr(name))
            if not self.asked & ~mask:
                break
        return mask

    def _has_effect(self, caller: Caller) -> bool:
        """Whether a caller does something with what it calls but compare it, or put it into a message."""
        if caller.function is None:
            return True
        child: Any = caller.node
        for parent in self.points.sketch_of(caller.function).above(caller.node):
            if isinstance(parent, (ast.FormattedValue, ast.Raise)):
                return False
            if isinstance(parent, ast.Compare) and isinstance(child, ast.Call):
                return False
            if isinstance(parent, ast.stmt):
                return True
            child = parent
        return True

    def _gives(self, function: Function, quoted: str) -> bool:
        """Whether a function gives a text to something, on whatever target."""
        sketch = self.points.sketch_of(function)
        return any(isinstance(sketch.parents.get(id(n)), _GIVES) for n in sketch.names.get(quoted, ()))

    def _given_in(self, function: Function, quoted: str) -> int:
        """Targets on which a function gives a text to something."""
        mask = 0
        parents = self.points.sketch_of(function).parents
        contexts = None
        if function.owner is None or self.points.depends(function):
            contexts = self.reach.contexts(function)
        if contexts is None:
            contexts = [Context(free(self.program.full), {})]
        for context in contexts:
            for mention in self.points.weighed(function, (quoted,), context.given).mentions:
                if isinstance(parents.get(id(mention.node)), _GIVES):
                    mask |= mention.may & context.way.may
        return mask


def _flags(program: Program, profile: Profile) -> frozenset[str]:
    """Arguments whose default is False."""
    out: set[str] = set()
    for symbol in profile.arguments:
        module = program.module(symbol.module) if symbol.module in program.names else None
        value = program.global_value(module, symbol.symbol) if module is not None else None
        if value is None or not isinstance(value.one, ClassRef):
            continue
        for name, node, _owner in value.one.info.record_fields():
            if isinstance(node.value, ast.Constant) and node.value.value is False:
                out.add(name)
    return frozenset(out)


def _argument_folders(program: Program, profile: Profile) -> str:
    """A pattern that is found in the paths of files in the folders of arguments, and in no other."""
    prefix = f"{program.root}/" if program.root else ""
    folders = sorted({prefix + folder for symbol in profile.arguments for folder in symbol.folders})
    return "|".join(f"^{re.escape(folder)}" for folder in folders) or "$^"


def _argument_files(program: Program, profile: Profile) -> Iterator[str]:
    prefix = f"{program.root}/" if program.root else ""
    for symbol in profile.arguments:
        if symbol.module in program.names:
            yield program.names[symbol.module]
        for folder in symbol.folders:
            yield from (path for path in program.paths if path.startswith(prefix + folder))


__all__ = ["Choices"]
