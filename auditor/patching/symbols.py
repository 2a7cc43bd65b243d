"""What a module's text defines, uses and imports, from its syntax alone."""

from __future__ import annotations

import ast
import builtins
import re
import symtable
import warnings
from collections.abc import Iterable, Iterator, Mapping, Set
from dataclasses import dataclass
from functools import lru_cache

from auditor import pytext
from auditor.lazyre import lazy
from auditor.profile import Profile
from auditor.trees.base import SourceTree

_GIVEN = frozenset(dir(builtins)) | {
    "__file__", "__name__", "__doc__", "__path__", "__package__", "__spec__", "__loader__", "__builtins__",
    "__class__", "__annotations__", "__debug__", "__module__", "__qualname__", "__dict__",
}  # fmt: skip


@dataclass(frozen=True)
class Import:
    """``from module import name`` (or ``import module``, with an empty name), with its line."""

    module: str
    name: str
    line: int


@dataclass(frozen=True)
class Module:
    """One file."""

    name: str  # dotted, "" outside the package
    symbols: frozenset[str]  # qualified names of functions, classes and module constants
    imports: tuple[Import, ...]
    stars: tuple[str, ...]  # modules that are imported with *
    passes_on: tuple[str, ...] = ()  # where a file that does nothing else gets its names from


def module_of(path: str, profile: Profile) -> str:
    """The dotted name of a file of the package, "" for any other file."""
    below = profile.below_root(path)
    if not below.startswith(f"{profile.package}/") or not below.endswith(".py"):
        return ""
    parts = below[:-3].split("/")
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def read_module(data: bytes, name: str, *, package: bool = False) -> Module | None:
    """The module with this text; None if it does not parse. ``package`` says that it is an ``__init__``."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = pytext.parse(data)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    imports = tuple(sorted(_imports(tree, name, package), key=lambda item: item.line))
    stars = tuple(item.module for item in imports if item.name == "*")
    return Module(name, frozenset(_symbols(tree.body, "")), imports, stars, _passes_on(tree, imports))


def _imports(tree: ast.Module, name: str, package: bool) -> Iterator[Import]:
    for node in _import_statements(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield Import(alias.name, "", alias.lineno)
        else:
            module = node.module or ""
            if node.level:
                parts = name.split(".") if name else []
                drop = node.level - (1 if package else 0)
                if drop > len(parts) or not parts:
                    continue
                above = parts[: len(parts) - drop] if drop else parts
                module = ".".join([*above, *([module] if module else [])])
            for alias in node.names:
                yield Import(module, alias.name, alias.lineno)


_FROM = lazy(rb"(?m)^[ \t]*from\s+([.\w]+)\s+import\s*(?:\(([^()]*)\)|([^\n]*(?:\\\n[^\n]*)*))")


def imports_at(
    data: bytes,
    name: str,
    package: bool,
    lines: Set[int] | None,
    word: re.Pattern[bytes] | None = None,
) -> list[Import]:
    """``from`` imports on some lines (None: all), as they look: text of a string may look like one too.

    With ``word``, only statements in which it occurs.
    """
    found = []
    for match in _FROM.finditer(data):
        if word is not None and word.search(match[0]) is None:
            continue
        first = data.count(b"\n", 0, match.start()) + 1
        last = first + match[0].count(b"\n")
        if lines is not None and lines.isdisjoint(range(first, last + 1)):
            continue
        try:
            tree = pytext.parse(match[0].strip())
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            continue
        for item in _imports(tree, name, package):
            line = item.line + first - 1
            if lines is None or line in lines:
                found.append(Import(item.module, item.name, line))
    return found


def _import_statements(tree: ast.Module) -> Iterator[ast.Import | ast.ImportFrom]:
    """Only statements are looked at: walking every expression costs twenty times as much."""
    pending: list[ast.stmt] = list(tree.body)
    while pending:
        node = pending.pop()
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            yield node
            continue
        for part in ("body", "orelse", "finalbody"):
            pending += getattr(node, part, ())
        for part in ("handlers", "cases"):
            for inner in getattr(node, part, ()):
                pending += inner.body


def _symbols(body: Iterable[ast.stmt], prefix: str) -> Iterator[str]:
    for node in body:
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            yield prefix + node.name
        elif isinstance(node, ast.ClassDef):
            yield prefix + node.name
            yield from _symbols(node.body, f"{prefix}{node.name}.")
        elif isinstance(node, (ast.Assign, ast.AnnAssign)):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            for target in targets:
                for part in ast.walk(target):
                    if isinstance(part, ast.Name):
                        yield prefix + part.id
        elif isinstance(node, (ast.If, ast.Try, ast.With, ast.For, ast.While)):
            for inner in ("body", "orelse", "finalbody"):
                yield from _symbols(getattr(node, inner, []), prefix)
            for handler in getattr(node, "handlers", []):
                yield from _symbols(handler.body, prefix)
        elif isinstance(node, (ast.Import, ast.ImportFrom)) and not prefix:
            for alias in node.names:
                if alias.asname and alias.asname == alias.name:  # the way to say: passed on
                    yield alias.name


@lru_cache(maxsize=256)
def table_of(data: bytes) -> symtable.SymbolTable:
    """The compiler's table of scopes; far cheaper than a syntax tree, and nothing is compiled.

    ``SyntaxError`` or ``ValueError`` where the text is no Python.
    """
    from importlib.util import decode_source

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return symtable.symtable(decode_source(data), "file", "exec")


def undefined(table: symtable.SymbolTable, among: Set[str]) -> set[str]:
    """Names of ``among`` that are read as globals and that no statement of the module sets."""
    missing = set(among) - _GIVEN
    read: set[str] = set()
    for name in missing.intersection(table.get_identifiers()):
        symbol = table.lookup(name)
        if _binds(symbol):
            missing.discard(name)
        elif symbol.is_referenced():
            read.add(name)
    pending = list(table.get_children())
    while pending:
        scope = pending.pop()
        pending += scope.get_children()
        for name in missing.intersection(scope.get_identifiers()):
            symbol = scope.lookup(name)
            if symbol.is_global():
                if _binds(symbol):
                    missing.discard(name)
                elif symbol.is_referenced():
                    read.add(name)
    return read & missing


def _binds(symbol: symtable.Symbol) -> bool:
    return symbol.is_assigned() or symbol.is_imported() or symbol.is_namespace()


def line_of(data: bytes, name: str) -> int:
    """The first line that reads a name."""
    lines = [
        node.lineno
        for node in ast.walk(pytext.parse(data))
        if isinstance(node, ast.Name) and node.id == name and isinstance(node.ctx, ast.Load)
    ]
    return min(lines, default=0)


def _passes_on(tree: ast.Module, imports: tuple[Import, ...]) -> tuple[str, ...]:
    """The modules whose names a file passes on, if it does nothing else."""
    sources = []
    for node in tree.body:
        if isinstance(node, ast.ImportFrom) and node.module != "__future__":
            sources.append(node)
        elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            continue
        elif isinstance(node, (ast.Import, ast.ImportFrom)):
            continue
        elif isinstance(node, ast.Assign) and [t.id for t in node.targets if isinstance(t, ast.Name)] == [
            "__all__"
        ]:
            continue
        else:
            return ()
    lines = {node.lineno for node in sources}
    return tuple(dict.fromkeys(item.module for item in imports if item.line in lines))


def lost_symbols(old: Module, new: Module | None) -> set[str]:
    """Symbols of the older version that the newer one neither defines nor imports under the same name."""
    if new is None:
        return set(old.symbols)
    there = set(new.symbols) | {item.name for item in new.imports}
    return {name for name in old.symbols if name not in there}


def unresolved(imports: Iterable[Import], tree: SourceTree, profile: Profile) -> Iterator[tuple[Import, str]]:
    """Imports from the package that lead nowhere in ``tree``, with why."""
    blobs = tree.blobs()
    root = profile.root_of(blobs)
    prefix = f"{root}/" if root else ""
    for item in imports:
        if item.module.split(".")[0] != profile.package:
            continue
        base = prefix + item.module.replace(".", "/")
        path = next((p for p in (f"{base}.py", f"{base}/__init__.py") if p in blobs), None)
        folder = any(
            True for p in (f"{base}/{item.name}.py", f"{base}/{item.name}/__init__.py") if p in blobs
        )
        if folder or item.name == "*":
            if path or folder:
                continue
        if path is None:
            if not item.name and any(p.startswith(f"{base}/") for p in blobs):
                continue
            yield item, f"there is no module {item.module}"
            continue
        if item.name and not _defines(tree.read(path), item.name):
            yield item, f"{item.module} has no {item.name}"


def _defines(data: bytes, name: str) -> bool:
    """Whether the top of a module binds ``name``; what is plain to see is seen without parsing."""
    word = re.escape(name).encode()
    if re.search(rb"(?m)^(?:(?:async\s+)?def\s+|class\s+)" + word + rb"\b|^" + word + rb"\s*[:=]", data):
        return True
    try:
        table = table_of(data)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return True  # nobody can tell
    names = {symbol.get_name() for symbol in table.get_symbols() if _binds(symbol)}
    return name in names or "__getattr__" in names or b"import *" in data


def users_of(
    gone: Mapping[str, Set[str]], tree: SourceTree, profile: Profile, skip: Set[str]
) -> Iterator[tuple[str, str]]:
    """(path:line, symbol) of imports of symbols (module -> names, "" for the module itself) that are gone."""
    blobs = tree.blobs()
    root = profile.root_of(blobs)
    prefix = f"{root}/{profile.package}/" if root else f"{profile.package}/"
    words = {name.encode() for names in gone.values() for name in names if name}
    words |= {module.rpartition(".")[2].encode() for module, names in gone.items() if "" in names}
    word = re.compile(rb"\b(?:" + b"|".join(re.escape(each) for each in sorted(words)) + rb")\b")
    wanted = [path for path in blobs if path.startswith(prefix) and path.endswith(".py") and path not in skip]
    for path, data in tree.read_many(wanted):
        if not any(each in data for each in words):
            continue
        name, package = module_of(path, profile), path.endswith("/__init__.py")
        for item in imports_at(data, name, package, None, word):
            names = gone.get(item.module, frozenset())
            if item.name in names and item.name:
                yield f"{path}:{item.line}", f"{item.module}.{item.name}"
            elif "" in names and item.name:
                yield f"{path}:{item.line}", item.module
            elif item.name and "" in gone.get(f"{item.module}.{item.name}", frozenset()):
                yield f"{path}:{item.line}", f"{item.module}.{item.name}"
