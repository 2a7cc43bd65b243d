"""Truth by execution: run a small package under a stand-in for torch, and compare an audit with it.

Every condition that an audit may report is wrapped, so that running the code says for each GPU which values
the condition had and whether it was met in each activation of its function. A report is wrong where it
decides a value that some run contradicts; leaving something unknown is never wrong.
"""

from __future__ import annotations

import ast
import importlib.abc
import importlib.machinery
import os
import sys
import types
from collections import Counter
from collections.abc import Callable, Container, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from auditor.arch import load_targets
from auditor.gates.audit import AuditOptions, audit
from auditor.gates.model import Gate, Report
from auditor.queries.exampletree import PROFILE, MemoryTree

TARGETS = tuple(load_targets())
CAPABILITY = {name: target.capability for name, target in load_targets().items()}
LETTER = {"true": "T", "false": "F", "unknown": "?"}
Key = tuple[str, int, str, str]  # path, line, kind, predicate
#: Errors that generated code raises by name. Any other one stands for code that cannot be foreseen.
NAMED = ("Explicit", "AssertionError", "SystemExit")
UNFORESEEN = -1


class OutOfSteps(BaseException):
    """A generated loop ran too long; the run says nothing."""


@dataclass
class Seen:
    """What running told about one gate on one target."""

    values: set[bool] = field(default_factory=set)
    met: int = 0


class Probe:
    """Collects what wrapped code tells, for one target at a time."""

    def __init__(self) -> None:
        self.seen: dict[str, dict[int, Seen]] = {}
        self.here: dict[int, Seen] = {}
        self.activations: dict[tuple[str, str, str], set[frozenset[int]]] = {}
        self.numbers: dict[Key, int] = {}
        self.target = ""
        self.stack: list[tuple[str, str, set[int]]] = []
        self.steps = 0

    def number(self, key: Key) -> int:
        return self.numbers.setdefault(key, len(self.numbers))

    def on(self, target: str) -> None:
        self.target, self.here = target, self.seen.setdefault(target, {})

    def of(self, key: Key, target: str) -> Seen:
        return self.seen.get(target, {}).get(self.numbers.get(key, -1), Seen())

    def step(self) -> None:
        self.steps += 1
        if self.steps > 3000:
            raise OutOfSteps

    def note(self, number: int, value: bool) -> None:
        self.step()
        one = self.here.get(number)
        if one is None:
            one = self.here[number] = Seen()
        one.values.add(value)
        one.met += 1
        if self.stack:
            self.stack[-1][2].add(number)

    def value(self, number: int, value: Any) -> Any:
        self.note(number, bool(value))
        return value

    def table(self, number: int, base: Any, index: Any) -> Any:
        if isinstance(base, dict):
            self.note(number, index in base)
        return base[index]

    def enter(self, path: str, symbol: str) -> None:
        self.step()
        self.stack.append((path, symbol, set()))

    def caught(self, error: BaseException) -> None:
        """An error that nobody raises by name (a type error, say) was caught: this activation is no witness."""
        if isinstance(error, (OutOfSteps, NameError)):
            self.steps = 1 << 60  # a local name read before it is bound is a fault of the program
            raise OutOfSteps
        if self.stack and type(error).__name__ not in NAMED:
            self.stack[-1][2].add(UNFORESEEN)

    def leave(self, error: BaseException | None) -> None:
        path, symbol, met = self.stack.pop()
        if self.steps > 3000:
            return  # even where a `finally` has put another error in its place
        if error is not None and not symbol:
            return  # what is said of the top level of a module supposes that it can be imported
        if UNFORESEEN not in met and (error is None or type(error).__name__ in NAMED):
            self.activations.setdefault((path, symbol, self.target), set()).add(frozenset(met))


def _step() -> ast.stmt:
    """One round of a loop, counted, so that a loop without gates ends as well."""
    return ast.Expr(ast.Call(ast.Name("__probe_step__", ast.Load()), [], []))


def _caught(name: str = "__caught__") -> ast.stmt:
    return ast.Expr(ast.Call(ast.Name("__probe_caught__", ast.Load()), [ast.Name(name, ast.Load())], []))


class _Wrap(ast.NodeTransformer):
    """Wraps the expressions that can be gates."""

    def __init__(self, path: str, probe: Probe, wanted: Container[Key]) -> None:
        self.path = path
        self.probe = probe
        self.wanted = wanted
        self.scope: list[str] = []

    def _call(self, function: str, key: Key, *args: ast.expr) -> ast.expr:
        return ast.Call(ast.Name(function, ast.Load()), [ast.Constant(self.probe.number(key)), *args], [])

    def _value(self, kind: str, node: Any, expr: ast.expr) -> ast.expr:
        key = (self.path, node.lineno, kind, ast.unparse(expr))  # before visiting changes the expression
        inner = self.visit(expr)
        return self._call("__probe_value__", key, inner) if key in self.wanted else inner

    def visit_If(self, node: ast.If) -> ast.AST:
        test = self._value("if", node, node.test)
        return ast.If(test, [self.visit(n) for n in node.body], [self.visit(n) for n in node.orelse])

    def visit_IfExp(self, node: ast.IfExp) -> ast.AST:
        test = self._value("ifexp", node, node.test)
        return ast.IfExp(test, self.visit(node.body), self.visit(node.orelse))

    def visit_While(self, node: ast.While) -> ast.AST:
        test = self._value("while", node, node.test)
        return ast.While(test, [_step(), *map(self.visit, node.body)], [self.visit(n) for n in node.orelse])

    def visit_For(self, node: ast.For) -> ast.AST:
        body, orelse = [_step(), *map(self.visit, node.body)], [self.visit(n) for n in node.orelse]
        return ast.For(self.visit(node.target), self.visit(node.iter), body, orelse)

    def visit_With(self, node: ast.With) -> ast.AST:
        body: list[ast.stmt] = [self.visit(n) for n in node.body]
        if any("suppress" in ast.unparse(item.context_expr) for item in node.items):
            caught = ast.ExceptHandler(
                ast.Name("BaseException", ast.Load()), "__caught__", [_caught(), ast.Raise()]
            )
            body = [ast.Try(body, [caught], [], [])]
        return ast.With([self.visit(i) for i in node.items], body)

    def visit_Try(self, node: ast.Try) -> ast.AST:
        body: list[ast.stmt] = [self.visit(n) for n in node.body]
        handlers = [self.visit(h) for h in node.handlers]
        orelse, final = [self.visit(n) for n in node.orelse], [self.visit(n) for n in node.finalbody]
        if final:
            # a jump out of `finally` drops the error on its way
            inner: list[ast.stmt] = [ast.Try(body, handlers, orelse, [])] if handlers else [*body, *orelse]
            caught = ast.ExceptHandler(
                ast.Name("BaseException", ast.Load()), "__caught__", [_caught(), ast.Raise()]
            )
            body, handlers, orelse = inner, [caught], []
        return ast.Try(body, handlers, orelse, final)

    def visit_ExceptHandler(self, node: ast.ExceptHandler) -> ast.AST:
        body = [self.visit(n) for n in node.body]
        if node.name is not None:
            return ast.ExceptHandler(node.type, node.name, [_caught(node.name), *body])
        return ast.ExceptHandler(
            node.type or ast.Name("BaseException", ast.Load()), "__caught__", [_caught(), *body]
        )

    def visit_Assert(self, node: ast.Assert) -> ast.AST:
        return ast.Assert(self._value("assert", node, node.test), node.msg)

    def visit_Assign(self, node: ast.Assign) -> ast.AST:
        if isinstance(node.value, (ast.IfExp, ast.Lambda, ast.GeneratorExp)):
            value = self.visit(node.value)
        else:
            value = self._value("assign", node, node.value)
        return ast.Assign([self.visit(t) for t in node.targets], value, lineno=node.lineno)

    def visit_Return(self, node: ast.Return) -> ast.AST:
        if node.value is None:
            return node
        if isinstance(node.value, (ast.IfExp, ast.Lambda)):
            return ast.Return(self.visit(node.value))
        return ast.Return(self._value("return", node, node.value))

    def visit_Call(self, node: ast.Call) -> ast.AST:
        args: list[ast.expr] = []
        for arg in node.args:
            if isinstance(arg, (ast.IfExp, ast.Lambda, ast.Starred, ast.GeneratorExp)):
                args.append(self.visit(arg))
            else:
                args.append(self._value("argument", arg, arg))
        keywords = []
        for keyword in node.keywords:
            if keyword.arg is None or isinstance(keyword.value, (ast.IfExp, ast.Lambda)):
                keywords.append(ast.keyword(keyword.arg, self.visit(keyword.value)))
            else:
                keywords.append(
                    ast.keyword(keyword.arg, self._value("argument", keyword.value, keyword.value))
                )
        return ast.Call(self.visit(node.func), args, keywords)

    def visit_arguments(self, node: ast.arguments) -> ast.AST:
        def default(value: ast.expr | None) -> Any:
            if value is None or isinstance(value, (ast.IfExp, ast.Lambda)):
                return value if value is None else self.visit(value)
            return self._value("argument", value, value)

        node.defaults = [default(value) for value in node.defaults]
        node.kw_defaults = [default(value) for value in node.kw_defaults]
        return node

    def visit_Subscript(self, node: ast.Subscript) -> ast.AST:
        if isinstance(node.ctx, ast.Load) and not isinstance(node.slice, ast.Slice):
            key = (self.path, node.lineno, "table", ast.unparse(node))
            if key in self.wanted:
                return self._call("__probe_table__", key, self.visit(node.value), self.visit(node.slice))
        return ast.Subscript(self.visit(node.value), self.visit(node.slice), node.ctx)

    def visit_comprehension(self, node: ast.comprehension) -> ast.AST:
        ifs = [self._value("comprehension", c, c) for c in node.ifs]
        return ast.comprehension(self.visit(node.target), self.visit(node.iter), ifs, node.is_async)

    def visit_match_case(self, node: ast.match_case) -> ast.AST:
        key = (self.path, node.pattern.lineno, "match", ast.unparse(node.pattern))
        met: ast.stmt = ast.Expr(self._call("__probe_value__", key, ast.Constant(True)))
        guard = self.visit(node.guard) if node.guard is not None else None
        return ast.match_case(node.pattern, guard, [met, *(self.visit(n) for n in node.body)])

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        self.scope.append(node.name)
        symbol = ".".join(self.scope)
        body: list[ast.stmt] = [self.visit(n) for n in node.body]
        self.scope.pop()
        args = self.visit(node.args)
        enter = ast.Expr(
            ast.Call(
                ast.Name("__probe_enter__", ast.Load()), [ast.Constant(self.path), ast.Constant(symbol)], []
            )
        )
        first = [body.pop(0)] if body and isinstance(node.body[0], (ast.Global, ast.Nonlocal)) else []
        guarded = ast.With([ast.withitem(enter.value, None)], body or [ast.Pass()])
        decorators = [self.visit(d) for d in node.decorator_list]
        return ast.FunctionDef(
            node.name, args, [*first, guarded], decorators, node.returns, lineno=node.lineno, type_params=[]
        )

    def visit_Lambda(self, node: ast.Lambda) -> ast.AST:
        return ast.Lambda(node.args, self.visit(node.body))

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.AST:
        self.scope.append(node.name)
        body = [self.visit(n) for n in node.body]
        self.scope.pop()
        decorators = [self.visit(d) for d in node.decorator_list]
        return ast.ClassDef(node.name, node.bases, node.keywords, body, decorators, type_params=[])


class _Activation:
    def __init__(self, probe: Probe, path: str, symbol: str) -> None:
        self.probe, self.path, self.symbol = probe, path, symbol

    def __enter__(self) -> None:
        self.probe.enter(self.path, self.symbol)

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> bool:
        self.probe.leave(error)
        return False


def torch_for(target: str) -> dict[str, types.ModuleType]:
    """Stand-ins for torch on one target."""
    capability = CAPABILITY[target]
    torch, cuda, version = (types.ModuleType(n) for n in ("torch", "torch.cuda", "torch.version"))
    properties = types.SimpleNamespace(
        major=capability[0],
        minor=capability[1],
        warp_size=32,
        shared_memory_per_block=49152,
        shared_memory_per_block_optin=load_targets()[target].smem_per_block,
    )
    cuda.get_device_capability = lambda *a, **k: capability  # type: ignore[attr-defined]
    cuda.get_device_properties = lambda *a, **k: properties  # type: ignore[attr-defined]
    cuda.is_available = lambda: True  # type: ignore[attr-defined]
    cuda.current_device = lambda: 0  # type: ignore[attr-defined]
    version.cuda, version.hip = "13.0", None  # type: ignore[attr-defined]
    torch.cuda, torch.version = cuda, version  # type: ignore[attr-defined]
    return {"torch": torch, "torch.cuda": cuda, "torch.version": version}


class _Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    def __init__(
        self, codes: Mapping[str, tuple[str, bool, Any]], scope: dict[str, Any], probe: Probe
    ) -> None:
        self.codes, self.scope, self.probe = codes, scope, probe

    def find_spec(self, name: str, path: Any, target: Any = None) -> Any:
        if name not in self.codes:
            return None
        return importlib.machinery.ModuleSpec(name, self, is_package=self.codes[name][1])

    def create_module(self, spec: Any) -> None:
        return None

    def exec_module(self, module: Any) -> None:
        module.__dict__.update(self.scope)
        with _Activation(self.probe, self.codes[module.__name__][0], ""):
            exec(self.codes[module.__name__][2], module.__dict__)


Drive = Callable[[types.ModuleType], None]


def run(
    files: Mapping[str, str],
    report: Report,
    drives: Iterable[tuple[str, Drive]],
    settings: Iterable[Mapping[str, str | None]] = ({},),
    targets: Iterable[str] = TARGETS,
) -> Probe:
    """Import the package on every target under every setting of the environment and drive its modules."""
    probe = Probe()
    wanted = {gate_key(gate) for gate in report.gates}
    codes: dict[str, tuple[str, bool, Any]] = {}
    for path, text in files.items():
        package = path.endswith("__init__.py")
        name = path[:-3].replace("/", ".").removesuffix(".__init__")
        tree = ast.fix_missing_locations(_Wrap(path, probe, wanted).visit(ast.parse(text)))
        codes[name] = (path, package, compile(ast.unparse(tree), path, "exec"))
    scope = {
        "__probe_value__": probe.value,
        "__probe_table__": probe.table,
        "__probe_step__": probe.step,
        "__probe_caught__": probe.caught,
        "__probe_enter__": lambda path, symbol: _Activation(probe, path, symbol),
    }
    finder = _Finder(codes, scope, probe)
    drives = tuple(drives)
    before = dict(os.environ)
    kept = {n: m for n, m in sys.modules.items() if n.split(".")[0] in ("torch", "example")}
    sys.meta_path.insert(0, finder)
    limit = sys.getrecursionlimit()
    try:
        for target in targets:
            probe.on(target)
            for setting in settings:
                for name, value in setting.items():
                    os.environ.pop(name, None)
                    if value is not None:
                        os.environ[name] = value
                for name in [n for n in sys.modules if n.split(".")[0] in ("torch", "example")]:
                    del sys.modules[name]
                sys.modules.update(torch_for(target))
                probe.steps = 0
                for module, drive in drives:
                    probe.stack.clear()
                    try:
                        drive(importlib.import_module(module))
                    except (Exception, OutOfSteps) as e:
                        if os.environ.get("ORACLE_DEBUG"):
                            import traceback

                            traceback.print_exc()
                        continue
    finally:
        sys.setrecursionlimit(limit)
        sys.meta_path.remove(finder)
        for name in [n for n in sys.modules if n.split(".")[0] in ("torch", "example")]:
            del sys.modules[name]
        sys.modules.update(kept)
        os.environ.clear()
        os.environ.update(before)
    return probe


def report_of(files: Mapping[str, str | bytes], **options: Any) -> Report:
    """The audit of a package ``example`` in memory, without queries."""
    wanted = AuditOptions(targets=TARGETS, project="example", profile=PROFILE, queries=(), **options)
    return audit(MemoryTree(files), wanted)


def letters(facts: Mapping[str, str]) -> str:
    """``TTF?...`` in the order of targets."""
    return "".join(LETTER[facts[t]] for t in TARGETS)


def gate_key(gate: Gate) -> Key:
    """Where a gate is, as the wrapped code knows it."""
    return gate.path, gate.line, "if" if gate.kind == "elif" else gate.kind, gate.predicate


def contradictions(report: Report, probe: Probe) -> list[str]:
    """Every decided value of a report that some run contradicts, as one line each."""
    out = []
    count = Counter(gate_key(gate) for gate in report.gates)
    for gate in report.gates:
        key = gate_key(gate)
        if count[key] > 1:
            continue
        number = probe.numbers.get(key)
        where = f"{gate.path}:{gate.line} {gate.kind} {gate.predicate} in {gate.symbol or 'module'}"
        wrong: dict[str, str] = {}
        for target in TARGETS:
            seen = probe.of(key, target)
            truth, reached = gate.truth[target], gate.reached[target]
            if truth != "unknown" and (truth == "false") in seen.values:
                wrong[target] = "truth"
            if reached == "false" and seen.met:
                wrong[target] = "met"
            if reached == "true" and gate.kind not in ("match", "table") and "<lambda>" not in gate.symbol:
                runs = probe.activations.get((gate.path, gate.symbol, target), ())
                if any(number not in met for met in runs):
                    wrong[target] = "passed by"
        for kind in sorted(set(wrong.values())):
            names = " ".join(t for t in wrong if wrong[t] == kind)
            out.append(
                f"{where}: {kind}: truth {letters(gate.truth)} reached {letters(gate.reached)} on {names}"
            )
    return out
