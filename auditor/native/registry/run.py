"""Running the registrations of a tree, abstractly.

Registrations are made when modules are imported, through one function of the tree. The calls of that function
are noted instead of entered, and the noted records are handed to the function that looks them up. What a
backend requires and which one is picked is then asked of the tree's own methods.
"""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass
from typing import Any

from auditor.native.exact import ExactProgram
from auditor.profile import KernelRegistry
from auditor.program.classes import ClassInfo
from auditor.program.frames import Frame
from auditor.program.values import Function, Instance, Pending, Seq, Unknown, V, is_const, make, unknown
from auditor.program.words import Words


@dataclass(frozen=True)
class Registered:
    """One record that was handed to the registering function. ``may`` and ``must`` are target masks."""

    record: V
    path: str
    line: int
    may: int
    must: int


class RegistryProgram(ExactProgram):
    """The audited tree while its kernels are registered; see the module."""

    def __init__(self, registry: KernelRegistry, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.registry = registry
        self.registered: list[Registered] = []
        self._top: tuple[str, int] = ("", 0)

    # -- registering -----------------------------------------------------------------------------------

    def register_all(self) -> None:
        """Run every module that registers something, and what waits in it."""
        words = self._registering_names()
        if not words:
            return
        pattern = Words(words)
        for path in sorted(self.paths):
            text = self.files[path]
            if self.profile.is_excluded(path) or not any(w.encode() in text for w in words):
                continue
            module = self.module(self.paths[path])
            if module is None:
                continue
            self._top = (path, 1)
            self.execute(module)
            self.force_matching(module, pattern)

    def _registering_names(self) -> set[str]:
        """The name of the registering function and of functions that call it, by their text."""
        name = self.registry.register.rpartition(".")[2]
        words, fresh = {name}, {name}
        module = self.registry.register.rpartition(".")[0]
        if module not in self.names:
            return set()
        while fresh:
            pattern = re.compile(rf"\b(?:{'|'.join(sorted(map(re.escape, fresh)))})\b")
            raw = [w.encode() for w in fresh]
            fresh = set()
            for path, other in self.paths.items():
                if self.profile.is_excluded(path) or not any(w in self.files[path] for w in raw):
                    continue
                found = self.module(other)
                for segment in found.segments if found is not None else ():
                    if segment.kind != "def" or segment.name in words:
                        continue
                    text = segment.text or ""
                    if pattern.search(text.partition("\n")[2]):
                        fresh.add(segment.name)
            words |= fresh
        return words

    def call_function(
        self,
        function: Function,
        args: list[V],
        kwargs: dict[str, V],
        fr: Frame | None,
        node: ast.Call | None = None,
    ) -> V:
        full = function.fullname
        if full == self.registry.register and (args or kwargs):
            record = args[0] if args else next(iter(kwargs.values()))
            may, must = (fr.may, fr.must) if fr is not None else (self.full, self.full)
            self.registered.append(Registered(record, *self._top, may, must))
            return record
        if full == self.registry.lookup and args:
            return self._looked_up(args[-1])
        if full in self.registry.plugins:
            return V(None)
        return super().call_function(function, args, kwargs, fr, node)

    def _looked_up(self, key: V) -> V:
        """The records under a key, in the order of their registration."""
        if key.each is not None or not is_const(key.one):
            return V(unknown("key of a registry"))
        rows: list[tuple[Any, ...]] = [()] * self.count
        for entry in self.registered:
            for i in range(self.count):
                record = entry.record.at(i)
                if not entry.may >> i & 1:
                    continue
                held = self.field(record, self.registry.key, i)
                if isinstance(held, Unknown) or not entry.must >> i & 1:
                    return V(unknown("registrations that hang on conditions"))
                if held == key.one:
                    rows[i] = (*rows[i], record)
        return make(tuple(Seq("list", items) for items in rows))

    def field(self, record: Any, name: str, i: int) -> Any:
        """A field of a record on target ``i``."""
        if isinstance(record, Instance) and record.attrs is not None and name in record.attrs:
            value = record.attrs[name]
            return self.resolve(value.one).at(i) if type(value.one) is Pending else value.at(i)
        return unknown(f"field {name}")

    def worth_calling(self, function: Function, args: list[V], kwargs: dict[str, V]) -> bool:
        return True

    def worth_resolving(self, *_: Any) -> bool:
        return True

    @staticmethod
    def plain_object(info: ClassInfo) -> bool:
        return True  # bases outside the tree hold no fact about the GPU

    # -- places ----------------------------------------------------------------------------------------

    def evaluate_call(self, node: ast.Call, fr: Frame) -> V:
        if fr.kind != "module":
            return super().evaluate_call(node, fr)
        saved, self._top = self._top, (fr.module.path, node.lineno)
        value = super().evaluate_call(node, fr)
        self._top = saved
        return value


__all__ = ["Registered", "RegistryProgram"]
