"""Imports and definitions of functions and classes."""

from __future__ import annotations

import ast
from typing import Any

from auditor.program.classes import ClassInfo
from auditor.program.construction import Construction
from auditor.program.frames import Frame
from auditor.program.source import Irregular, Segment
from auditor.program.syntax import hands_on, has_yield, may_mutate, source_of
from auditor.program.values import (
    Bound,
    ClassRef,
    External,
    Function,
    Partial,
    Pending,
    Unknown,
    V,
    all_reasons,
)


class Definitions(Construction):
    """Statements that define names."""

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

    def _def(self, node: Any, fr: Frame) -> None:
        qualname = f"{fr.symbol}.{node.name}" if fr.symbol else node.name
        closure = fr if fr.kind == "function" else None
        segment = Segment("def", node.name, node.lineno, "")
        segment._nodes = [node]
        owner = fr.owner if fr.kind == "class" else None
        function = Function(fr.module, node.name, qualname, segment, owner, closure)
        self.visit_signature(node, fr)
        self._lend_defaults(node, fr)
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

    def _lend_defaults(self, node: Any, fr: Frame) -> None:
        """Containers that a function inside has for defaults are open from here on if it may change them."""
        defaults = [d for d in (*node.args.defaults, *node.args.kw_defaults) if d is not None]
        if any(not isinstance(d, ast.Constant) for d in defaults) and may_mutate(node.body):
            recorder, fr.recorder = fr.recorder, None
            for default in defaults:
                self.touch_value(self.ev(default, fr), fr)
            fr.recorder = recorder

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

    def make_lambda(self, node: ast.Lambda, fr: Frame) -> V:
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
        self._lend_defaults(definition, fr)
        if fr.recorder is not None:
            fr.nested.append((function, fr.env))
        return V(function)

    def function_kind(self, function: Function) -> str:
        """function, property, classmethod or staticmethod; flags hold what else decorators say."""
        if function.kind is not None:
            return function.kind
        function.kind = "function"
        node: Any = None
        text = function.segment.peek()
        function.segment.note("yield")
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
            name = source_of(target)
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
            node is not None and (not text or "yield" in text) and has_yield(node)
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
        return hands_on(node, params)
