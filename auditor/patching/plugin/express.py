"""What of a change of a tree can be said as replaced functions and added names of modules, and what cannot.

A module that is loaded already can be given a function for another one, and names it did not have. Whatever
the module did while it was loaded is done: another constant, another base class, another decorator come too
late. Each of these is a reason for which a patch is left out, with its place.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

from auditor.patching.edits.miss import Miss
from auditor.patching.edits.source import PySource, read_source

_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
_PLAIN_DECORATORS = ("staticmethod", "classmethod")


@dataclass(frozen=True)
class Replaced:
    """One function for another. ``text`` is a file that defines it, or ``_bind(__class__)`` for a method."""

    symbol: str  # in its module
    text: str

    @property
    def method(self) -> bool:
        """Whether it lies in a class."""
        return "." in self.symbol


@dataclass(frozen=True)
class Added:
    """Statements that bring in names: into the module, or (``owner``) one attribute of a class."""

    owner: str  # class, "" for the module
    names: tuple[str, ...]
    text: str


@dataclass
class Change:
    """What a module gets. ``reasons`` says why that is not all, as (line, fact)."""

    replaced: list[Replaced] = field(default_factory=list)
    added: list[Added] = field(default_factory=list)
    reasons: list[tuple[int, str]] = field(default_factory=list)


def change_of(before: bytes, after: bytes, path: str) -> Change:
    """The difference of two versions of a module."""
    out = Change()
    try:
        old, new = read_source(before, path), read_source(after, path)
    except Miss as miss:
        out.reasons.append((0, miss.fact))
        return out
    _Body(old, new, out).module()
    return out


class _Body:
    def __init__(self, old: PySource, new: PySource, out: Change) -> None:
        self.old = old
        self.new = new
        self.out = out

    def refuse(self, node: ast.AST | None, fact: str) -> None:
        self.out.reasons.append((getattr(node, "lineno", 0), fact))

    def module(self) -> None:
        """The top of the module."""
        before, after = self.old.tree.body, self.new.tree.body
        bound = {name for node in before for name in _bound(node)}
        plain = self._others(before, after)
        for node in plain:
            names = tuple(_bound(node))
            if isinstance(node, (ast.Import, ast.ImportFrom)):
                if isinstance(node, ast.ImportFrom) and node.module == "__future__":
                    self.refuse(node, "it changes how the module is compiled")
                elif self._clashes(before, bound, node):
                    self.refuse(node, f"{' '.join(names)} is something else in the module already")
                else:
                    self.out.added.append(Added("", names, self._text(node)))
            elif isinstance(node, (ast.Assign, ast.AnnAssign)) and names and not bound & set(names):
                self.out.added.append(Added("", names, self._text(node)))
            elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
                self.out.added.append(Added("", (), self._text(node)))
            else:
                self.refuse(node, f"the module runs it while it is loaded: `{self.new.shown(node)}`")
        self._definitions(before, after, "", bound)

    def _clashes(self, before: list[ast.stmt], bound: set[str], node: ast.Import | ast.ImportFrom) -> bool:
        """Whether an import binds a name that is something else in the module."""
        have = {
            _import_key(each, alias)
            for each in before
            if isinstance(each, (ast.Import, ast.ImportFrom))
            for alias in each.names
        }
        packages = {key[2].partition(".")[0] for key in have if not key[0]}
        for alias in node.names:
            key = _import_key(node, alias)
            name = key[2].partition(".")[0]
            if name in bound and key not in have and not (not key[0] and name in packages):
                return True
        return False

    def _others(self, before: list[ast.stmt], after: list[ast.stmt]) -> list[ast.stmt]:
        """Statements that are no definitions and were not there; what went away is a reason."""
        old = [node for node in before if not _defines(node)]
        left = [ast.dump(node) for node in old]
        new = []
        for node in after:
            if _defines(node):
                continue
            key = ast.dump(node)
            if key in left:
                left.remove(key)
            else:
                new.append(node)
        for node in old:
            if ast.dump(node) in left and not isinstance(node, (ast.Import, ast.ImportFrom)):
                self.refuse(None, f"line {node.lineno} of the base is another one: `{self.old.shown(node)}`")
        return new

    def _definitions(
        self, before: list[ast.stmt], after: list[ast.stmt], prefix: str, bound: set[str]
    ) -> None:
        old, new = _named(before), _named(after)
        for name in sorted(old.keys() - new.keys()):
            self.refuse(None, f"{prefix}{name} goes away")
        for name, nodes in new.items():
            was = old.get(name, [])
            if [ast.dump(node) for node in nodes] == [ast.dump(node) for node in was]:
                continue
            if len(nodes) != 1 or len(was) > 1:
                self.refuse(nodes[0], f"{prefix}{name} is defined {max(len(nodes), len(was))} times")
            elif not was:
                self._new(nodes[0], prefix, name, bound)
            elif isinstance(nodes[0], ast.ClassDef) and isinstance(was[0], ast.ClassDef):
                self._class(was[0], nodes[0], f"{prefix}{name}")
            elif isinstance(nodes[0], _FUNCTIONS) and isinstance(was[0], _FUNCTIONS):
                self._function(was[0], nodes[0], f"{prefix}{name}")
            else:
                self.refuse(nodes[0], f"{prefix}{name} becomes a definition of another kind")

    def _new(self, node: ast.stmt, prefix: str, name: str, bound: set[str]) -> None:
        if name in bound:
            self.refuse(node, f"{prefix}{name} is something else in the module already")
        elif not prefix:
            self.out.added.append(Added("", (name,), self._text(node)))
        elif isinstance(node, ast.FunctionDef) and self._fits(node, f"{prefix}{name}"):
            self.out.replaced.append(Replaced(f"{prefix}{name}", self._method(node)))
        else:
            self.refuse(node, f"{prefix}{name} cannot be added to a class that is there")

    def _class(self, was: ast.ClassDef, node: ast.ClassDef, symbol: str) -> None:
        def head(each: ast.ClassDef) -> list[str]:
            return [ast.dump(x) for x in (*each.bases, *each.keywords, *each.decorator_list)]

        if head(was) != head(node):
            self.refuse(node, f"bases or decorators of {symbol} change")
            return
        bound = {name for each in was.body for name in _bound(each)}
        for each in self._others(was.body, node.body):
            names = _bound(each)
            simple = isinstance(each, ast.Assign) and len(names) == 1 and names[0] not in bound
            if not simple or node.bases or node.keywords or node.decorator_list:
                self.refuse(each, f"the body of {symbol} runs it: `{self.new.shown(each)}`")
            elif isinstance(each, ast.Assign) and _reads(each.value) & bound:
                self.refuse(each, f"{names[0]} of {symbol} is made of other attributes")
            elif isinstance(each, ast.Assign):
                value = self.new.text(each.value).decode()
                self.out.added.append(Added(symbol, (names[0],), f"{names[0]} = (\n{value}\n)\n"))
        self._definitions(was.body, node.body, f"{symbol}.", bound)

    def _function(
        self,
        was: ast.FunctionDef | ast.AsyncFunctionDef,
        node: ast.FunctionDef | ast.AsyncFunctionDef,
        symbol: str,
    ) -> None:
        decorators = [ast.unparse(each) for each in node.decorator_list]
        if decorators != [ast.unparse(each) for each in was.decorator_list]:
            self.refuse(node, f"decorators of {symbol} change")
            return
        other = [each for each in decorators if each not in _PLAIN_DECORATORS]
        if other:
            self.refuse(node, f"{symbol} is decorated with {other[0]}, which keeps what it was given")
        elif isinstance(node, ast.FunctionDef) and self._fits(node, symbol):
            text = self._method(node) if "." in symbol else self._text(node)
            self.out.replaced.append(Replaced(symbol, text))
        elif not isinstance(node, ast.FunctionDef):
            self.refuse(node, f"{symbol} is async, which a replaced function does not say of itself")

    def _fits(self, node: ast.FunctionDef, symbol: str) -> bool:
        for inner in _own(node):
            if isinstance(inner, (ast.Yield, ast.YieldFrom)):
                self.refuse(
                    node, f"{symbol} is a generator, which a replaced function does not say of itself"
                )
                return False
        if "." in symbol:
            for inner in ast.walk(node):
                name = getattr(inner, "attr", None) or getattr(inner, "id", None)
                if isinstance(name, str) and name.startswith("__") and not name.endswith("__"):
                    self.refuse(inner, f"{symbol} uses the private name {name} of its class")
                    return False
        return True

    def _text(self, node: ast.stmt) -> str:
        start = self.new.statement_start(node)
        return self.new.data[start : self.new.span(node)[1]].decode() + "\n"

    def _method(self, node: ast.FunctionDef) -> str:
        """The method inside a function that has its class, for ``super()``."""
        start, end = self.new.span(node)
        indent = self.new.data[self.new.line_start(start) : start].decode()
        body = indent + self.new.data[start:end].decode()
        return f"def _bind(__class__):\n{body}\n{indent}return {node.name}\n"


def _import_key(node: ast.Import | ast.ImportFrom, alias: ast.alias) -> tuple[str, str, str]:
    module = f"{'.' * node.level}{node.module or ''}" if isinstance(node, ast.ImportFrom) else ""
    return module, alias.name, alias.asname or alias.name


def _defines(node: ast.stmt) -> bool:
    return isinstance(node, (*_FUNCTIONS, ast.ClassDef))


def _named(body: list[ast.stmt]) -> dict[str, list[ast.stmt]]:
    out: dict[str, list[ast.stmt]] = {}
    for node in body:
        if isinstance(node, (*_FUNCTIONS, ast.ClassDef)):
            out.setdefault(node.name, []).append(node)
    return out


def _bound(node: ast.stmt) -> list[str]:
    """Names that a statement binds where it stands."""
    if isinstance(node, (*_FUNCTIONS, ast.ClassDef)):
        return [node.name]
    if isinstance(node, (ast.Import, ast.ImportFrom)):
        return [(alias.asname or alias.name).partition(".")[0] for alias in node.names]
    return [
        each.id for each in ast.walk(node) if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Store)
    ]


def _reads(node: ast.expr) -> set[str]:
    return {each.id for each in ast.walk(node) if isinstance(each, ast.Name)}


def _own(node: ast.AST) -> Iterator[ast.AST]:
    """What a function does itself, without the functions in it."""
    for child in ast.iter_child_nodes(node):
        yield child
        if not isinstance(child, (*_FUNCTIONS, ast.Lambda, ast.ClassDef)):
            yield from _own(child)


#: How many calls a search for a function that is used while modules are loaded goes back.
_DEPTH = 4


class Loading:
    """Which functions are called while modules are loaded: what they gave then stays.

    By name: another function of the same name counts too, and the place is told.
    """

    def __init__(self, files: Callable[[re.Pattern[bytes]], Mapping[str, bytes]]) -> None:
        self._files = files
        self._calls: dict[str, tuple[list[tuple[str, int]], set[str]]] = {}

    def chain(self, name: str) -> list[str]:
        """``[name, caller, …, "path:line"]`` where it is called while a module is loaded, else []."""
        seen = {name}
        todo = [[name]]
        while todo:
            chain = todo.pop(0)
            at_load, callers = self._called(chain[-1])
            if at_load:
                path, line = min(at_load)
                return [*chain, f"{path}:{line}"]
            for caller in sorted(callers - seen):
                if len(chain) < _DEPTH:
                    seen.add(caller)
                    todo.append([*chain, caller])
        return []

    def _called(self, name: str) -> tuple[list[tuple[str, int]], set[str]]:
        """Places that call a name while modules are loaded, and functions that do when they are called."""
        if name not in self._calls:
            at_load: list[tuple[str, int]] = []
            callers: set[str] = set()
            word = re.compile(rb"(?<![\w.])(?<!def )" + re.escape(name).encode() + rb"\s*\(")
            for path, data in self._files(word).items():
                try:
                    tree = read_source(data, path).tree
                except Miss:
                    continue
                for line, function in _calls_of(tree, name, ""):
                    if not function:
                        at_load.append((path, line))
                    elif function != _METHOD:
                        callers.add(function)
            self._calls[name] = at_load, callers
        return self._calls[name]


_METHOD = "<method>"


def _calls_of(node: ast.AST, name: str, function: str) -> Iterator[tuple[int, str]]:
    """(line, plain function around it, or "") of every call of a name; methods and lambdas are one word."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, _FUNCTIONS):
            for outer in (*child.decorator_list, *child.args.defaults, *filter(None, child.args.kw_defaults)):
                yield from _calls_of(ast.Expr(outer), name, function)
            inside = function or (_METHOD if isinstance(node, ast.ClassDef) else child.name)
            yield from _calls_of(ast.Module(child.body, []), name, inside)
            continue
        inside = function or (_METHOD if isinstance(child, ast.Lambda) else "")
        if isinstance(child, ast.Call) and isinstance(child.func, ast.Name) and child.func.id == name:
            yield child.lineno, function
        yield from _calls_of(child, name, inside)
