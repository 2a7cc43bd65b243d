"""What is known of an attribute without following a start: who writes it, and what."""

from __future__ import annotations

import ast
from typing import Any

from auditor import pytext
from auditor.program import textual
from auditor.program.calls import BIG_FUNCTION
from auditor.program.classes import ClassInfo, Module, attribute_values, written_names
from auditor.program.frames import Frame
from auditor.program.modules import STEPS, Modules, snake
from auditor.program.source import Irregular
from auditor.program.values import (
    ClassRef,
    Function,
    Instance,
    Unknown,
    V,
    all_reasons,
    join_scalars,
    unknown,
)
from auditor.program.watch import class_statements


class Summaries(Modules):
    """Attributes of instances, from the functions that write them."""

    def returned_type(self, function: Function) -> V | None:
        """An object of the annotated return class, where that class matters."""
        function.segment.note("returned")
        name = textual.returned(function.segment.peek())
        if name.rpartition(".")[2] not in self._interesting:
            return None
        return self._typed(name, function.module)

    def _typed(self, name: str, module: Module) -> V | None:
        try:
            node = pytext.parse_expression(name)
        except SyntaxError:
            return None
        value = self.ev(node, self.module_frame(module))
        if isinstance(value.one, ClassRef) and not value.one.info.is_enum():
            return V(Instance(value.one.info, None))
        last = name.rpartition(".")[2]
        if last in self._argument_classes:
            return self._arguments_object(last)
        return None

    def _arguments_object(self, name: str) -> V | None:
        for symbol in self.profile.arguments:
            if symbol.symbol == name:
                module = self.module(symbol.module)
                value = self.global_value(module, name) if module is not None else None
                if value is not None and isinstance(value.one, ClassRef):
                    return V(Instance(value.one.info, None))
        return None

    def attribute_of(self, scalar: Any, name: str, fr: Frame, node: ast.AST | None = None) -> V:
        if isinstance(scalar, Unknown) and isinstance(node, ast.Attribute) and self._argument_names:
            holder = node.value
            last = holder.attr if isinstance(holder, ast.Attribute) else getattr(holder, "id", "")
            if last in self._argument_names:
                for symbol in self.profile.arguments:
                    if snake(symbol.symbol) == last:
                        typed = self._arguments_object(symbol.symbol)
                        if typed is not None and name in self._record_names(typed.one.info):
                            return self.argument_value(name)
        return super().attribute_of(scalar, name, fr, node)

    def _record_names(self, info: ClassInfo) -> set[str]:
        names: set[str] | None = self.__dict__.setdefault("_names_of", {}).get(info.segment.serial)
        if names is None:
            names = {f[0] for f in info.record_fields()} if info.is_record() else set()
            self.__dict__["_names_of"][info.segment.serial] = names
        return names

    def argument_value(self, name: str, default: V | None = None) -> V:
        """A server argument: assumed, or unknown for the reason ``arg.NAME``."""
        given = self.assume.get(f"arg.{name}")
        if given is not None:
            return V(_literal(given))
        return V(unknown(f"arg.{name}"))

    def instance_attribute(self, obj: Instance, name: str, fr: Frame) -> V:
        if obj.attrs is None and name in self._record_names(obj.info):
            if any(i.name in self._argument_classes for i in obj.info.mro()):
                return self.argument_value(name)
            if obj.info.find(name) is None:
                return V(unknown(f"field {obj.info.name}.{name}"))
        return super().instance_attribute(obj, name, fr)

    def stored_attribute(self, info: ClassInfo, name: str, fr: Frame) -> V | None:
        """What all writes of ``self.NAME`` in a class and its bases agree on; None where there are none."""
        key = (info.segment.serial, name)
        if key in self._fields:
            return self._fields[key]
        self._fields[key] = V(unknown(f"value self.{name}"))
        values: list[V] = []
        where: ClassInfo | None = None
        line = 1
        for owner in info.mro():
            for function in self.writers(owner, name):
                value = self._written_value(function, name)
                if where is None:
                    where, line = owner, function.segment.start
                values.append(value)
        if values and self._subclass_writes(info, name):
            values.append(V(unknown(f"subclass of {info.name}")))
        # what is only ever None here is there for others to set
        empty = bool(values) and all(v.one is None and v.each is None for v in values)
        if (empty or any(v.roots for v in values)) and self.written_outside(info, name):
            values.append(V(unknown(f"value .{name}")))
        if not values:
            self._fields[key] = None
            return None
        declared = self.class_value(info, name, fr)
        if declared is not None:
            values.append(declared)
        out = values[0]
        for other in values[1:]:
            joined = self.select(self.full, self.full, out, other, V(unknown(f"value self.{name}")))
            out = joined
        if out.roots and where is not None:
            qualified = f"{where.fullname}.{name}"
            self.learn(qualified, where.module, name, line, "attribute", out)
            self._interesting.add(where.name)
            out = V(out.one, out.roots, frozenset({qualified}), out.each)
        self._fields[key] = out
        return out

    def writers(self, owner: ClassInfo, name: str) -> list[Function]:
        """Methods of a class that assign an attribute of their first argument."""
        self.watch.members.add(name)
        return owner.writes().get(name, [])

    def _written_value(self, function: Function, name: str) -> V:
        """The value a method leaves in an attribute."""
        summary = self._summaries.get(function.segment.serial)
        if summary is None:
            self._summaries[function.segment.serial] = {}
            held = function.segment.parsed
            summary = self._summarise(function)
            if not held and function.segment.has_text:
                function.segment.forget()  # a summary is made once, and syntax trees are most of the memory
            self._summaries[function.segment.serial] = summary
        function.segment.note("attribute_values", name)
        return summary.get(name, V(unknown(f"value self.{name}")))

    def _summarise(self, function: Function) -> dict[str, V]:
        if not self.is_hot(function) and function.segment.longer(BIG_FUNCTION // 2):
            return self._shallow(function)
        try:
            node: Any = function.segment.node()
        except Irregular:
            return {}
        fr = self._entry(function, node, None)
        saved, self.steps = self.steps, STEPS
        self.block(node.body, fr)
        self.steps = saved
        out = self.final_fields(fr)
        for key, value in fr.writes.items():
            if key not in out:
                # written on a path that left early, or forgotten because a later call may change it
                out[key] = V(Unknown(all_reasons(value) | {f"value self.{key}"}), value.roots, value.via)
        return out

    def _shallow(self, function: Function) -> dict[str, V]:
        """Attribute values of a long method that does not ask the GPU: constants only."""
        out: dict[str, V] = {}
        for name, values in attribute_values(function.segment).items():
            why = frozenset({f"value self.{name}"})
            found = [V(value.value) if value is not None else V(Unknown(why)) for value in values]
            out[name] = found[0]
            for new in found[1:]:
                out[name] = V(join_scalars(out[name].one, new.one, why))
        return out

    def written_by(self, function: Function, owner: ClassInfo | None) -> set[str] | None:
        """Attributes a method may write, its own calls on the object included. None: any."""
        if owner is None:
            return None
        seen: set[str] = set()
        out: set[str] = set()
        todo = [function]
        while todo:
            f = todo.pop()
            if f.name in seen:
                continue
            seen.add(f.name)
            if len(seen) > 40:
                return None
            out |= written_names(f.segment)
            f.segment.note("self_calls")
            for name in textual.self_calls(f.segment.peek()):
                found = owner.find(name)
                if found is not None and isinstance(found[1], Function):
                    todo.append(found[1])
        return out

    def subclasses(self, info: ClassInfo, member: str) -> list[ClassInfo]:
        """Classes of the tree that derive from a class and may define a member.

        Class statements are read off the text of all files once; only files that hold such a class and
        define the member are loaded.
        """
        key = (info.segment.serial, member)
        found = self._children.get(key)
        if found is not None:
            return found
        found = self._children[key] = []
        todo, seen = [info.name], {info.name}
        declared = self.class_statements()
        bases = self.watch.bases
        while todo:
            base = todo.pop()
            bases.add(base)
            for name, path in declared.get(base, ()):
                if name not in seen:
                    seen.add(name)
                    todo.append(name)
                if not self.watch.ask(path, textual.defines_member, member):
                    continue
                module = self.module(self.paths[path])
                value = self.global_value(module, name) if module is not None else None
                if value is None or not isinstance(value.one, ClassRef):
                    continue
                child = value.one.info
                if child is not info and child not in found and info in child.mro():
                    found.append(child)
        return found

    def _subclass_writes(self, info: ClassInfo, name: str) -> bool:
        """Whether a class of the tree that derives from a class may assign an attribute on itself, by the
        text of its file: nothing is loaded for it."""
        todo, seen = [info.name], {info.name}
        declared = self.class_statements()
        while todo:
            base = todo.pop()
            self.watch.bases.add(base)
            for child, path in declared.get(base, ()):
                if child in seen or (base == info.name and path == info.module.path and child == info.name):
                    continue
                seen.add(child)
                todo.append(child)
                if path != info.module.path:
                    if self.watch.ask(path, textual.writes_attribute, name):
                        return True
                else:
                    for segment in info.module.segments:
                        if segment.kind == "class" and segment.name == child:
                            segment.note("writes", name)
                            if textual.writes_attribute(segment.peek().encode(), name.encode()):
                                return True
        return False

    def class_statements(self) -> dict[str, list[tuple[str, str]]]:
        """Short name of a base -> (class, path) of every top-level class statement that names it."""
        if self._declared is None:
            self._declared = {}
            for path in self.paths:
                for base, child in class_statements(self.peek(path)):
                    self._declared.setdefault(base, []).append((child, path))
        return self._declared


def _literal(text: str) -> Any:
    """An assumed value: Python constants are read as such, everything else is text."""
    lowered = text.lower()
    if lowered in ("true", "false"):
        return lowered == "true"
    if lowered in ("none", "null", "unset"):
        return None
    try:
        return int(text)
    except ValueError:
        pass
    try:
        return float(text)
    except ValueError:
        return text
