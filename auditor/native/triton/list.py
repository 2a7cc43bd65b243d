"""The Triton kernels of a tree, and the configurations that their autotuner tries, per target.

Kernels are found by their decorators, resolved through imports; configurations are read by the evaluator,
with the environment as on a fresh start. Nothing is imported and no kernel is compiled here.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from auditor import pytext
from auditor.native.exact import ExactProgram
from auditor.program.frames import Frame
from auditor.program.syntax import dotted
from auditor.program.values import Facts, Map, Seq, V, is_const, reasons_of, unknown

_IMPORT = re.compile(
    r"^[ \t]*(?:import[ \t]+triton[^\n]*|from[ \t]+triton[\w.]*[ \t]+import[ \t]*(?:\([^)]*\)|[^\n(]*))",
    re.MULTILINE,
)
_LONG_TEXT = re.compile(r'"""(?:[^"\\]|\\.|"(?!""))*"""|' r"'''(?:[^'\\]|\\.|'(?!''))*'''", re.DOTALL)
_DEF = re.compile(r"([ \t]*)(async[ \t]+)?def[ \t]+(\w+)")
_SCOPE = re.compile(r"([ \t]*)(?:async[ \t]+)?(?:def|class)[ \t]+(\w+)")


@dataclass(frozen=True)
class Config:
    """One configuration: compile-time arguments and launch options."""

    values: tuple[tuple[str, Any], ...]
    options: tuple[tuple[str, Any], ...]  # num_warps, num_stages, ...

    @property
    def text(self) -> str:
        """As a person writes it: ``BLOCK_N 64, num_warps 4``."""
        return ", ".join(f"{name} {value}" for name, value in (*self.values, *self.options))


@dataclass
class Kernel:
    """A function under a Triton decorator. ``configs`` has an entry per target; None where they are open."""

    module: str
    qualname: str
    path: str
    line: int  # of ``def``
    gluon: bool = False
    tuned: bool = False
    configs: list[tuple[Config, ...] | None] = field(default_factory=list)
    why: str = ""
    others: tuple[str, ...] = ()  # decorators that are neither

    @property
    def name(self) -> str:
        return f"{self.module}.{self.qualname}"


class _Made(Facts):
    """A ``triton.Config`` as it was written."""

    __slots__ = ("values", "options")

    def __init__(self, values: V, options: dict[str, V]) -> None:
        super().__init__("configuration", {})
        self.values = values
        self.options = options


class TritonProgram(ExactProgram):
    """The audited tree, asked for its Triton kernels."""

    def kernels(self) -> list[Kernel]:
        """Every kernel of the tree, in order of files and lines."""
        out = []
        for path in sorted(self.paths):
            data = self.files[path]
            if b"triton" not in data or b"jit" not in data or self.profile.is_excluded(path):
                continue
            module = self.module(self.paths[path])
            if module is None:
                continue
            imported = _imported(module.text)
            marks = ("jit", *(alias for alias, name in imported.items() if name.endswith(".jit")))
            for qualname, line, decorators in _decorated(module.text, marks):
                kernel = self._kernel(module, qualname, line, decorators, imported)
                if kernel is not None:
                    out.append(kernel)
        return out

    def _kernel(
        self, module: Any, qualname: str, line: int, decorators: list[ast.expr], imported: dict[str, str]
    ) -> Kernel | None:
        found: Kernel | None = None
        kernel = Kernel(module.name, qualname, module.path, line)
        others = []
        for decorator in decorators:
            call = decorator if isinstance(decorator, ast.Call) else None
            written = dotted(call.func if call is not None else decorator) or ""
            head, _, rest = written.partition(".")
            name = f"{imported[head]}.{rest}".rstrip(".") if head in imported else written
            if not name.startswith("triton."):
                name = ""
            last = name.rpartition(".")[2]
            if last == "jit":
                found = kernel
                kernel.gluon = ".gluon" in name
            elif last == "autotune" and call is not None:
                kernel.tuned = True
                self._configs(kernel, call, self.module_frame(module))
            elif last == "heuristics" or not name:
                others.append(written)
        kernel.others = tuple(others)
        if found is not None and not kernel.configs:
            kernel.configs = [() for _ in range(self.count)]
        return found

    def _configs(self, kernel: Kernel, call: ast.Call, frame: Frame) -> None:
        given = next((k.value for k in call.keywords if k.arg == "configs"), None)
        node = given if given is not None else call.args[0] if call.args else None
        value = self.ev(node, frame) if node is not None else V(unknown("no configs"))
        kernel.configs = [self._read(value.at(i), i) for i in range(self.count)]
        if None in kernel.configs:
            reasons = sorted({r for s in value.scalars() for r in reasons_of(s)})
            kernel.why = ", ".join(reasons) or "a configuration is not followed"

    def _read(self, scalar: Any, i: int) -> tuple[Config, ...] | None:
        if not isinstance(scalar, Seq):
            return None
        out = []
        for made in scalar.items:
            if not isinstance(made, _Made):
                return None
            values = made.values.at(i)
            if not isinstance(values, Map) or values.maybe:
                return None
            options = {name: value.at(i) for name, value in made.options.items()}
            options = {n: v for n, v in options.items() if n not in ("pre_hook", "ir_override")}
            if not all(is_const(v) for v in (*values.items.values(), *options.values())):
                return None
            out.append(Config(tuple(values.items.items()), tuple(sorted(options.items()))))
        return tuple(out)

    def call_external(
        self, f: Any, args: list[V], kwargs: dict[str, V], fr: Frame, node: ast.Call | None
    ) -> V:
        if f.name.startswith("triton.") and f.name.endswith(".Config"):
            names = ("kwargs", "num_warps", "num_stages", "num_ctas")
            given = {**dict(zip(names, args)), **kwargs}
            return V(_Made(given.pop("kwargs", V(Map({}))), given))
        if f.name == "triton.language.constexpr" and len(args) == 1 and not kwargs:
            return args[0]
        return super().call_external(f, args, kwargs, fr, node)


def _imported(text: str) -> dict[str, str]:
    """What the statements of a file that import something of Triton bind, wherever they stand."""
    out = {}
    for match in _IMPORT.finditer(text):
        try:
            (node,) = pytext.parse(match[0].strip()).body
        except (SyntaxError, ValueError):
            continue
        if isinstance(node, ast.Import):
            for alias in node.names:
                top = alias.name.partition(".")[0]
                out[alias.asname or top] = alias.name if alias.asname else top
        elif isinstance(node, ast.ImportFrom) and node.module:
            for alias in node.names:
                out[alias.asname or alias.name] = f"{node.module}.{alias.name}"
    return out


def _decorated(text: str, marks: tuple[str, ...]) -> Iterator[tuple[str, int, list[ast.expr]]]:
    """Qualified name, line and decorators of every function whose decorators hold one of ``marks``.

    Found by lines: parsing whole files of kernels would cost more than everything else here.
    """
    lines = _LONG_TEXT.sub(lambda m: "\n" * m[0].count("\n"), text).split("\n")
    at = 0
    while at < len(lines):
        line = lines[at]
        if not line.lstrip(" \t").startswith("@"):
            at += 1
            continue
        indent = len(line) - len(line.lstrip(" \t"))
        start, name = at, None
        while at < len(lines) and at - start < 400:
            match = _DEF.match(lines[at])
            if match is not None and len(match[1]) == indent:
                name = match[3]
                break
            if lines[at][indent : indent + 5] == "class":
                break
            at += 1
        at += 1
        block = [each[indent:] for each in lines[start : at - 1]]
        if name is None or not any(mark in each for each in block for mark in marks):
            continue
        try:
            (node,) = pytext.parse("\n".join([*block, "def f(): pass"])).body
        except (SyntaxError, ValueError):
            continue
        if isinstance(node, ast.FunctionDef):
            yield ".".join([*_around(lines, start, indent), name]), at, node.decorator_list


def _around(lines: list[str], at: int, indent: int) -> list[str]:
    """The names of the functions and classes around a line."""
    out: list[str] = []
    while indent and at > 0:
        at -= 1
        match = _SCOPE.match(lines[at])
        if match is not None and len(match[1]) < indent:
            indent = len(match[1])
            out.insert(0, match[2])
    return out
