"""Running the functions that compile kernels just in time, abstractly: with which architecture they do it.

A build is a call of one loading function. Every function of the tree that calls it is run with open
arguments; the calls are noted instead of entered, with the architecture that holds there: the one the tree
detects, or the one that a context manager of the tree has set around the call.
"""

from __future__ import annotations

import ast
import operator
import posixpath
import re
from dataclasses import dataclass
from typing import Any

from auditor.native.exact import ExactProgram
from auditor.profile import JitLoader
from auditor.program.frames import Frame
from auditor.program.source import Irregular
from auditor.program.values import External, Facts, Function, Seq, Unknown, V, reasons_of, unknown

#: Bytes of source above which a function is not run.
MAX_FUNCTION = 40_000


@dataclass(frozen=True)
class Build:
    """One call of the loading function. ``may`` are the targets that may come to it."""

    args: tuple[V, ...]
    kwargs: dict[str, V]
    arch: V
    module: str
    path: str
    line: int
    column: int
    symbol: str
    may: int


class _Context(Facts):
    """What a call of the overriding context manager gives; ``value`` is the architecture inside."""

    __slots__ = ("value",)

    def __init__(self, value: V) -> None:
        super().__init__("architecture of a build", {})
        self.value = value


class _Path(Facts):
    """A path of the tree; ``text`` starts with a slash, which is the top of the tree."""

    __slots__ = ("text",)

    def __init__(self, text: str) -> None:
        super().__init__("path", {})
        self.text = text


class _PathMethod(Facts):
    """A method of a path."""

    __slots__ = ("path", "method")

    def __init__(self, path: _Path, method: str) -> None:
        super().__init__("method of a path", {})
        self.path = path
        self.method = method


class JitProgram(ExactProgram):
    """The audited tree while its kernels are built; see the module."""

    def __init__(self, loader: JitLoader, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.loader = loader
        self.builds: list[Build] = []
        self.left_out: list[tuple[str, int, str]] = []  # path, line, function that builds and is not followed
        self._inside: list[V] = []
        self._set: V | None = None
        start = self.profile.start
        self._foreign: tuple[str, ...] = start.other_vendors if start is not None else ()

    def build_all(self) -> None:
        """Run every function whose text calls the loading function."""
        name = self.loader.load.rpartition(".")[2]
        if self.loader.load.rpartition(".")[0] not in self.names:
            return
        call = re.compile(rf"(?<!def )\b{re.escape(name)}\(")
        raw = f"{name}(".encode()
        for path in sorted(self.paths):
            if raw not in self.files[path] or self.profile.is_excluded(path):
                continue
            module = self.module(self.paths[path])
            if module is None:
                continue
            self.execute(module)
            for segment in module.segments:
                if segment.text and call.search(segment.text) and segment.kind != "other":
                    try:
                        self._visit(module, segment, segment.name, None, call)
                    except Irregular:
                        self.left_out.append((module.path, segment.start, segment.name))

    def _visit(self, module: Any, segment: Any, qualname: str, owner: Any, call: re.Pattern[str]) -> None:
        if segment.kind == "class":
            value = self.global_value(module, segment.name)
            info = getattr(value.one, "info", None) if value is not None else None
            if info is None:
                return
            info.load()
            for name, function in info.functions.items():
                if call.search(function.segment.text or ast.unparse(function.segment.node())):
                    self._enter(module, function, f"{qualname}.{name}")
            return
        self._enter(module, Function(module, segment.name, qualname, segment, owner, None), qualname)

    def _enter(self, module: Any, function: Function, qualname: str) -> None:
        if len(function.segment.text or "") > MAX_FUNCTION:
            self.left_out.append((module.path, function.segment.start, qualname))
            return
        node: Any = function.segment.node()
        spec = node.args
        names = [a.arg for a in (*spec.posonlyargs, *spec.args, *spec.kwonlyargs)]
        frame = Frame(
            module,
            {name: V(unknown(f"argument {name}")) for name in names},
            full=self.full,
            kind="function",
            owner=function.owner,
            symbol=qualname,
        )
        for extra in (spec.vararg, spec.kwarg):
            if extra is not None:
                frame.env[extra.arg] = V(unknown(f"argument {extra.arg}"))
        if function.owner is not None and spec.args:
            frame.this = spec.args[0].arg
        self.block(node.body, frame)

    # -- what is intercepted ---------------------------------------------------------------------------

    def call_function(
        self,
        function: Function,
        args: list[V],
        kwargs: dict[str, V],
        fr: Frame | None,
        node: ast.Call | None = None,
    ) -> V:
        full = function.fullname
        if full == self.loader.load and fr is not None:
            self._note(args, kwargs, fr, node)
            return V(unknown("a compiled module"))
        if full == self.loader.override:
            return V(_Context(self._override(function, args, kwargs)))
        if full in self.loader.compiler:
            version = re.match(r"(\d+)\.(\d+)", self.world.cuda)
            return V(Seq("tuple", tuple(int(n) for n in version.groups()))) if version else V(unknown("cuda"))
        return super().call_function(function, args, kwargs, fr, node)

    def _override(self, function: Function, args: list[V], kwargs: dict[str, V]) -> V:
        """The architecture that holds where the context manager yields."""
        node: Any = function.segment.node()
        env: dict[str, V] = {}
        self._set = None
        if self._bind_arguments(function, node, args, kwargs, env):
            frame = Frame(function.module, env, full=self.full, kind="function", symbol=function.qualname)
            self.block(node.body, frame)
        held, self._set = self._set, None
        return held if held is not None else V(unknown(f"call {function.qualname}()"))

    def loose_call(
        self, func: V, args: list[V], kwargs: dict[str, V], open_: list[V], fr: Frame, node: ast.Call
    ) -> V:
        function = func.one
        if isinstance(function, Function):
            if function.fullname == self.loader.load:
                self._note(args, kwargs, fr, node)
                return V(unknown("a compiled module"))
        return super().loose_call(func, args, kwargs, open_, fr, node)

    def _note(self, args: list[V], kwargs: dict[str, V], fr: Frame, node: ast.Call | None) -> None:
        if fr.may:
            arch = self._inside[-1] if self._inside else self.ask(self.loader.arch)
            line, column = (node.lineno, node.col_offset) if node is not None else (1, 0)
            path = fr.module.path
            here = (fr.module.name, path, line, column, fr.symbol, fr.may)
            self.builds.append(Build(tuple(args), dict(kwargs), arch, *here))

    def worth_resolving(self, *_: Any) -> bool:
        return True

    def _opaque(self, node: Any, fr: Frame) -> V:
        module, _, name = self.loader.state.rpartition(".")
        if isinstance(node, ast.Yield) and fr.module.name == module and name in fr.env:
            self._set = fr.env[name]
        return super()._opaque(node, fr)

    def _with(self, node: Any, fr: Frame) -> None:
        inside = len(self._inside)
        for item in node.items:
            value = self.ev(item.context_expr, fr)
            arch = self._context(value)
            if arch is not None:
                self._inside.append(arch)
        if len(self._inside) == inside:
            super()._with(node, fr)
            return
        self.block(node.body, fr)
        del self._inside[inside:]

    def _context(self, value: V) -> V | None:
        """The architecture that a context manager sets, or None if it is another one."""
        held = [s.value for s in value.scalars() if isinstance(s, _Context)]
        if len(held) == 1 and value.each is None:
            return held[0]
        options = value.one.options if isinstance(value.one, Unknown) else None
        if held or any(isinstance(o, _Context) for o in options or ()):
            return V(unknown(*(reasons_of(value.one) or {"which architecture is set"})))
        return None

    def _in(self, a: Any, b: Any) -> Any:
        if isinstance(a, str) and a in self._foreign and reasons_of(b) == frozenset({"device name"}):
            return False
        return super()._in(a, b)

    # -- paths beside the code -------------------------------------------------------------------------

    def name_value(self, name: str, fr: Frame) -> V:
        return V(_Path(f"/{fr.module.path}")) if name == "__file__" else super().name_value(name, fr)

    def attribute_of(self, scalar: Any, name: str, fr: Frame, node: ast.AST | None = None) -> V:
        if isinstance(scalar, _Path):
            if name == "parent":
                return V(_Path(posixpath.dirname(scalar.text)))
            return V(_PathMethod(scalar, name))
        return super().attribute_of(scalar, name, fr, node)

    def call_one(
        self, f: Any, args: list[V], kwargs: dict[str, V], fr: Frame, node: ast.Call | None = None
    ) -> V:
        if isinstance(f, External) and args and isinstance(args[0].one, _Path):
            if f.name in ("pathlib.Path", "os.path.abspath", "os.path.realpath"):
                return args[0]
            if f.name == "os.path.dirname":
                return V(_Path(posixpath.dirname(args[0].one.text)))
            if f.name in ("builtins.str", "os.fspath"):
                return V(args[0].one.text)
        joins = isinstance(f, External) and f.name == "os.path.join" and len(args) > 1
        parts = [a.one for a in (args[1:] if joins else args)]
        start = args[0].one if joins else f.path if isinstance(f, _PathMethod) else None
        if isinstance(start, _Path):
            if isinstance(f, _PathMethod) and f.method in ("resolve", "absolute") and not args:
                return V(start)
            if isinstance(f, _PathMethod) and f.method == "as_posix":
                return V(start.text)
            if (joins or f.method == "joinpath") and all(isinstance(p, str) for p in parts):
                return V(_Path(posixpath.join(start.text, *parts)))
            return V(unknown("a path"))
        return super().call_one(f, args, kwargs, fr, node)

    @staticmethod
    def arith(op: Any, a: Any, b: Any) -> Any:
        if op is operator.truediv and isinstance(a, _Path) and isinstance(b, str):
            return _Path(posixpath.join(a.text, b))
        return ExactProgram.arith(op, a, b)


def text_of(scalar: Any) -> Any:
    """A path as its text; everything else as it is."""
    return scalar.text if isinstance(scalar, _Path) else scalar


__all__ = ["Build", "JitProgram", "text_of"]
