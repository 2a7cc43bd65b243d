"""Files of kernels, read and never run: functions, what their names stand for, tables of configurations."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from auditor import pytext
from auditor.native.triton.build import LANGUAGES, Outside, Source
from auditor.native.triton.safe import free_names

#: Kernels below a kernel.
_DEEPEST = 8
#: Entries of a table of configurations.
_MOST = 256


_SCOPES = (
    ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda,
    ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp,
)  # fmt: skip


class Wrong(Exception):
    """What a file does not hold as it was declared; one line, with the line of the file if there is one."""

    def __init__(self, fact: str, line: int = 0) -> None:
        super().__init__(fact)
        self.line = line


@dataclass
class KernelFile:
    """One file of Python with kernels. ``jitted`` says of each which compiler takes it."""

    path: str  # below files/
    functions: dict[str, ast.FunctionDef] = field(default_factory=dict)
    jitted: dict[str, str] = field(default_factory=dict)
    imports: dict[str, str] = field(default_factory=dict)  # name -> full name
    constants: dict[str, ast.expr] = field(default_factory=dict)

    def called(self) -> set[str]:
        """Names that kernels of the file use: those among them that are kernels run as a part of another."""
        return {name for each in self.jitted for name in free_names(self.functions[each])} - {""}


#: Finds a file of the patchset by the name of its module; None where there is none.
Find = Callable[[str], "KernelFile | None"]


def read_file(path: str, data: bytes) -> KernelFile:
    """``Wrong`` where it does not parse."""
    try:
        module = pytext.parse(data)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise Wrong(
            f"does not parse: {getattr(error, 'msg', error)}", getattr(error, "lineno", 0) or 0
        ) from None
    out = KernelFile(path)
    for statement in _statements(module.body):
        if isinstance(statement, ast.Import):
            for alias in statement.names:
                top = alias.name.partition(".")[0]
                out.imports[alias.asname or top] = alias.name if alias.asname else top
        elif isinstance(statement, ast.ImportFrom):
            start = _package(path, statement.level) + (statement.module or "")
            for alias in statement.names:
                out.imports[alias.asname or alias.name] = f"{start.rstrip('.')}.{alias.name}"
        elif isinstance(statement, ast.FunctionDef):
            out.functions[statement.name] = statement
        elif isinstance(statement, ast.Assign) and len(statement.targets) == 1:
            if isinstance(statement.targets[0], ast.Name):
                out.constants[statement.targets[0].id] = statement.value
        elif isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
            if statement.value is not None:
                out.constants[statement.target.id] = statement.value
    for name in _rebound(module):
        if name in out.constants:  # which of its values holds is not for us to say
            out.constants[name] = ast.Name(name, ast.Load(), lineno=out.constants[name].lineno)
    for name, function in out.functions.items():
        for decorator in function.decorator_list:
            full = _full(decorator.func if isinstance(decorator, ast.Call) else decorator, out)
            if full.startswith("triton.") and full.endswith(".jit"):
                out.jitted[name] = "gluon" if ".gluon" in full else "triton"
    return out


def _statements(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    """Statements of a module, those in branches too."""
    for statement in body:
        yield statement
        if isinstance(statement, (ast.If, ast.Try)):
            yield from _statements(statement.body)
            yield from _statements(statement.orelse)
            for handler in getattr(statement, "handlers", ()):
                yield from _statements(handler.body)
            yield from _statements(getattr(statement, "finalbody", []))


def _rebound(module: ast.Module) -> set[str]:
    """Names of a module that are bound more than once, in whatever way, or by a function of it."""
    bound: list[str] = []
    todo: list[ast.AST] = [module]
    while todo:
        node = todo.pop()
        if isinstance(node, ast.Name) and _stored(node):
            bound.append(node.id)
        if isinstance(node, (ast.AugAssign, ast.For, ast.While)):  # what is bound there is bound again
            bound += [each.id for each in ast.walk(node) if isinstance(each, ast.Name) and _stored(each)]
        if not isinstance(node, _SCOPES):
            todo += ast.iter_child_nodes(node)
    again = {name for name in bound if bound.count(name) > 1}
    return again | {name for node in ast.walk(module) if isinstance(node, ast.Global) for name in node.names}


def _stored(name: ast.Name) -> bool:
    return not isinstance(name.ctx, ast.Load)


def _package(path: str, level: int) -> str:
    parts = path.split("/")[:-level] if level else []
    return "".join(f"{part}." for part in parts)


def _full(node: ast.expr, file: KernelFile) -> str:
    """The full name that an expression of names and dots stands for, or ""."""
    parts = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    if not isinstance(node, ast.Name) or node.id not in file.imports:
        return ""
    return ".".join([file.imports[node.id], *reversed(parts)])


def source_of(file: KernelFile, function: str, find: Find, depth: int = 0) -> Source:
    """A kernel with everything that its names stand for. ``Wrong`` where one of them is not known."""
    node = file.functions.get(function)
    if node is None:
        known = ", ".join(sorted(file.jitted)) or "none"
        raise Wrong(f"no function {function} in it (kernels in it: {known})")
    if function not in file.jitted:
        raise Wrong(f"{function} is no kernel: neither triton.jit nor gluon.jit is on it", node.lineno)
    if depth > _DEEPEST:
        raise Wrong(f"{function} calls itself, or kernels more than {_DEEPEST} deep", node.lineno)
    names: dict[str, Any] = {}
    for name in free_names(node):
        names[name] = _meaning(file, name, find, depth, node.lineno)
    return Source(node, file.path, names, gluon=file.jitted[function] == "gluon")


def _meaning(file: KernelFile, name: str, find: Find, depth: int, line: int) -> Any:
    if name in file.functions:
        return source_of(file, name, find, depth + 1)
    if name in file.constants:
        return literal(file.constants[name], file)
    full = file.imports.get(name, "")
    if f"{full}.".startswith(tuple(f"{each}." for each in LANGUAGES)):
        return Outside(full)
    module, _, member = full.rpartition(".")
    other = find(module) if module else None
    if other is not None and other.path != file.path:
        return _meaning(other, member, find, depth + 1, line)
    raise Wrong(f"the name {name} is neither a constant, nor a kernel, nor of Triton's language", line)


def literal(node: ast.expr, file: KernelFile, depth: int = 0) -> Any:
    """The value of a constant: literals, other constants, arithmetic on them, a type of Triton, and calls of
    ``constexpr`` and ``Config``. ``Wrong`` for anything else."""
    if depth > 30:
        raise Wrong("a constant that leads to itself", getattr(node, "lineno", 0))
    if isinstance(node, ast.Constant) and not isinstance(node.value, (bytes, complex)):
        return node.value
    if isinstance(node, (ast.Tuple, ast.List)):
        return tuple(literal(each, file, depth + 1) for each in node.elts)
    if isinstance(node, ast.Dict) and None not in node.keys:
        keys = [literal(key, file, depth + 1) for key in node.keys if key is not None]
        if all(isinstance(key, (str, int, tuple)) for key in keys):
            return dict(zip(keys, (literal(each, file, depth + 1) for each in node.values)))
    if isinstance(node, ast.Name) and node.id in file.constants:
        return literal(file.constants[node.id], file, depth + 1)
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        value = literal(node.operand, file, depth + 1)
        if isinstance(value, (int, float)):
            return -value
    if isinstance(node, ast.BinOp):
        return _operated(node, file, depth)
    full = _full(node.func if isinstance(node, ast.Call) else node, file)
    if isinstance(node, ast.Call) and full.startswith("triton."):
        if full.endswith(".constexpr") and len(node.args) == 1 and not node.keywords:
            return literal(node.args[0], file, depth + 1)
        if full.endswith(".Config") and len(node.args) == 1 and all(k.arg for k in node.keywords):
            values = literal(node.args[0], file, depth + 1)
            if isinstance(values, dict):
                return {**values, **{str(k.arg): literal(k.value, file, depth + 1) for k in node.keywords}}
    if full.startswith(tuple(f"{each}." for each in LANGUAGES)):
        return Outside(full)
    raise Wrong(f"{ast.unparse(node)[:60]} is no constant that can be read", getattr(node, "lineno", 0))


_OPERATORS: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: lambda a, b: a + b,
    ast.Sub: lambda a, b: a - b,
    ast.Mult: lambda a, b: a * b,
    ast.FloorDiv: lambda a, b: a // b,
    ast.Div: lambda a, b: a / b,
    ast.Mod: lambda a, b: a % b,
}


def _operated(node: ast.BinOp, file: KernelFile, depth: int) -> Any:
    left, right = literal(node.left, file, depth + 1), literal(node.right, file, depth + 1)
    operate = _OPERATORS.get(type(node.op))
    if operate and isinstance(left, (int, float)) and isinstance(right, (int, float)):
        try:
            return operate(left, right)
        except (ZeroDivisionError, OverflowError):
            pass
    raise Wrong(f"{ast.unparse(node)[:60]} is no constant that can be read", node.lineno)


def configs_of(file: KernelFile, name: str) -> tuple[dict[str, Any], ...]:
    """The configurations in a constant of the file. ``Wrong`` where it is not there or no table of them."""
    if name not in file.constants:
        raise Wrong(f"no constant {name} in it")
    node = file.constants[name]
    value = literal(node, file)
    rows = tuple(value.values()) if isinstance(value, dict) else value
    if not isinstance(rows, tuple) or not rows or not all(isinstance(row, dict) for row in rows):
        raise Wrong(f"{name} is no list of configurations, each a dict", node.lineno)
    if len(rows) > _MOST:
        raise Wrong(f"{name} holds more than {_MOST} configurations", node.lineno)
    for row in rows:
        if not all(isinstance(key, str) for key in row):
            raise Wrong(f"{name} holds a configuration with a key that is no name", node.lineno)
    return rows


def tuned_otherwise(file: KernelFile, function: str, name: str) -> bool:
    """Whether the kernel's autotuner tries other configurations than those in the constant ``name``."""
    for decorator in file.functions[function].decorator_list:
        if isinstance(decorator, ast.Call) and _full(decorator.func, file).endswith(".autotune"):
            given = [k.value for k in decorator.keywords if k.arg == "configs"] or decorator.args[:1]
            used = {n.id for each in given for n in ast.walk(each) if isinstance(n, ast.Name)}
            if name not in used:
                return True
    return False
