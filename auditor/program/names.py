"""Names: from the innermost frame to the modules of the tree and what lies outside."""

from __future__ import annotations

import ast
from typing import Any

from auditor.program.expressions import Expressions
from auditor.program.frames import Frame
from auditor.program.values import (
    ClassRef,
    Deferred,
    External,
    Function,
    ModuleRef,
    Partial,
    Pending,
    V,
    change_depth,
    unknown,
)

_BUILTINS = frozenset(
    "len int str bool float tuple list set frozenset dict map range min max abs any all sum sorted zip "
    "enumerate getattr hasattr callable isinstance issubclass type id print repr round object super "
    "setattr filter next iter vars property staticmethod classmethod reversed divmod".split()
)


class Names(Expressions):
    """What a name means, and values that are resolved late."""

    def name_value(self, name: str, fr: Frame) -> V:
        frame: Frame | None = fr
        while frame is not None and frame.kind != "module":
            if frame.kind != "class" or frame is fr:
                value = frame.env.get(name)
                if value is not None:
                    if type(value.one) is Pending:
                        value = self.resolve(value.one)
                        frame.env[name] = value
                    return value
            frame = frame.parent
        module = fr.module
        if fr.kind == "module":
            value = fr.env.get(name)
            if value is not None:
                if type(value.one) is Deferred:
                    value = self.force(module, name, value.one)
                if type(value.one) is Pending:
                    value = self.resolve(value.one)
                    fr.env[name] = value
                    return value
                if (module.name, name) in fr.effects:
                    # a function called further up has set it, or may have
                    return V(unknown(f"global {name}"), value.roots, value.via)
                if self._changed_above and any(id(s) in self._changed_above for s in value.scalars()):
                    return V(unknown(f"{name} is changed in place"), value.roots, value.via)
                if fr is self._frames.get(module.name):
                    return self._settled_global(module, name, value)
                return self.boundary(module, name, value)
        frame = fr
        while frame is not None:
            effect = frame.effects.get((module.name, name))
            if effect is not None:
                return effect
            frame = frame.parent
        if name in fr.globals and module.reassigned().get(name) == 1:
            # only this function sets it: its first call sees the initial value (lazy initialisation)
            initial = self.global_value(module, name)
            if initial is not None and initial.each is None and initial.one is None:
                return initial
        value = self.global_value(module, name)
        if value is not None:
            if name in module.reassigned() and (name not in fr.globals or fr.env.get(name) is None):
                return V(unknown(f"global {name}"), value.roots, value.via)
            return value
        if name in module.reassigned():
            return V(unknown(f"global {name}"))
        if name in _BUILTINS or name in ("True", "False", "None"):
            return V(External(f"builtins.{name}"))
        if name == "__name__":
            return V(module.name)
        if name == "__file__":
            return V(unknown("__file__"))
        fr.fail()
        return V(External(f"builtins.{name}"))

    def global_value(self, module: Any, name: str) -> V | None:
        """A module-level name as seen from functions and other modules, or None if there is none."""
        self.execute(module)
        self.watch.globals.add((module.name, name))
        value = module.globals.get(name)
        if value is None and module.state == "running":
            value = self.hoisted(module, name)
        if value is None:
            if name.startswith("_") or (module.name, name) in self._through_stars:
                return None
            self._through_stars.add((module.name, name))
            try:
                return self._from_stars(module, name)
            finally:
                self._through_stars.discard((module.name, name))
        if type(value.one) is Deferred:
            value = self.force(module, name, value.one)
        if type(value.one) is Pending:
            value = module.globals[name] = self.resolve(value.one)
        return self._settled_global(module, name, value)

    def _from_stars(self, module: Any, name: str) -> V | None:
        """A name that only ``from x import *`` can have brought."""
        for star in reversed(module.stars):
            other = self.module(star)
            if other is None:
                return None if self.in_tree(star) else V(External(f"{star}.{name}"))
            if other is not module:
                value = self.global_value(other, name)
                if value is not None:
                    return value
        return None

    def _settled_global(self, module: Any, name: str, value: V) -> V:
        depth = change_depth(value)
        if depth:
            mutated = module.mutated(name, depth > 1)
            if mutated and module.state == "running":  # a statement at the top has called a function with it
                self._changed_above.update((id(s), s) for s in value.scalars())
            if mutated or any(id(s) in self._changed_above for s in value.scalars()):
                return V(unknown(f"global {name} is changed by functions"), value.roots, value.via)
        return self.boundary(module, name, value)

    def boundary(self, module: Any, name: str, value: V) -> V:
        """A value that crosses a module-level name: provenance now starts at that name."""
        if not value.roots or isinstance(value.one, (Function, ClassRef, ModuleRef, Partial)):
            return value
        if name in module.imported:
            return value  # it keeps the name of the module that defines it
        qualified = f"{module.name}.{name}"
        place = module.places.get(name, (1, "constant"))
        self.learn(qualified, module, name, place[0], "constant", value)
        return V(value.one, value.roots, frozenset({qualified}), value.each)

    def lazy(self, node: ast.expr, fr: Frame) -> V:
        """Like ``ev``, but an imported name stays unresolved: its module is loaded only when that matters."""
        if isinstance(node, ast.Name):
            frame: Frame | None = fr
            while frame is not None and frame.kind != "module":
                value = frame.env.get(node.id)
                if value is not None:
                    return value if type(value.one) is Pending else self.name_value(node.id, fr)
                frame = frame.parent
            value = fr.module.globals.get(node.id)
            if value is not None and type(value.one) is Pending:
                return value
        return self.ev(node, fr)

    def resolve(self, pending: Pending) -> V:
        """What an import statement binds."""
        if pending.name is None:
            module = self.module(pending.module)
            if module is not None:
                return V(ModuleRef(module))
            return self._outside(pending.module)
        module = self.module(pending.module)
        if module is None:
            if self.in_tree(pending.module):
                child = self.module(f"{pending.module}.{pending.name}")
                if child is not None:
                    return V(ModuleRef(child))
                return V(unknown(f"missing {pending.module}"))
            return self.outside_attribute(f"{pending.module}.{pending.name}")
        value = self.global_value(module, pending.name)
        if value is not None:
            return value
        child = self.module(f"{pending.module}.{pending.name}")
        if child is not None:
            return V(ModuleRef(child))
        getter = self.global_value(module, "__getattr__")
        if getter is not None and isinstance(getter.one, Function):
            return self.call_function(getter.one, [V(pending.name)], {}, None)
        if module.state == "running":
            return V(unknown(f"import cycle {pending.module}.{pending.name}"))
        return V(unknown(f"missing {pending.module}.{pending.name}"))

    def _outside(self, name: str) -> V:
        return V(External(name))
