"""Whether the functions of a module change a container of it in place: by the text alone.

The container is what a name of the module, or an attribute of that name on whatever object, is bound to. It
may be changed under another name: a variable, the name of a loop, a parameter or its default, what a function
returns, another name or attribute that it is bound to as well, or the container or object it was put into. A
function of another module may change what it is given.

``deep``: the container holds others, so that what is read out of it is followed too.
"""

from __future__ import annotations

import ast
import builtins
import re
from collections.abc import Iterable, Iterator
from functools import lru_cache

from auditor import pytext
from auditor.program.nodes import children
from auditor.program.syntax import MUTATORS

_Function = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda
#: Rounds in which aliases of aliases are found; more are taken for a change.
_DEEP = 8
#: Methods that put what they are given into their container.
_KEEPS = frozenset("append add insert setdefault".split())
_TAKES_OVER = frozenset("extend update".split())
#: Built-in functions whose result holds the items of what they are given.
_SAME_ITEMS = frozenset("list tuple dict set frozenset sorted reversed zip enumerate iter map filter".split())
#: Built-in functions whose result is one of them.
_ONE_ITEM = frozenset("next max min".split())
_READS = "len|any|all|sum|min|max|sorted|set|frozenset|tuple|list|dict|str|repr|bool|isinstance|print"


def changed_under_another_name(text: str, name: str, deep: bool = False) -> bool:
    """Whether some function hands the container on and changes what it gave; True for what does not parse."""
    if not _handed_on(text, rf"(?<![\w.\"']){re.escape(name)}\b", deep, r"[ \t]*[\[.(=]"):
        return False
    return _Search({name}, set(), deep).run(text)


def changed_attribute(text: str, name: str, deep: bool = False) -> bool | tuple[str, ...]:
    """Whether some function changes the container in ``.NAME`` of some object, under whatever name; or the
    imported functions that are given it, where it is they that decide it."""
    pattern = rf"\.{re.escape(name)}\b"
    change = rf"{pattern}[ \t]*(?:\[|\.(?:{'|'.join(sorted(MUTATORS))})\b|[-+*/|&^%@]=)"
    quoted = f'"{name}"' in text or f"'{name}'" in text
    if not re.search(change, text) and not _handed_on(
        text, pattern, deep, r"[ \t]*(?:[\[.(]|:[^\n]*=|=(?!=))"
    ):
        if not (quoted and "getattr(" in text):
            return False
    return _Search(set(), {name}, deep).asked(text)


def changed_parameters(text: str, function: str) -> bool | tuple[str, ...]:
    """Whether a function changes a container that it is given, or what that holds, like
    :func:`changed_attribute`; True where no function at the top has that name."""
    return _Search(set(), set(), True).asked(text, function)


def _handed_on(text: str, mention: str, deep: bool, plain: str) -> bool:
    """Whether some mention does more than to read out of it, or to bind it."""
    for match in re.finditer(mention, text):
        if not deep and re.match(plain, text[match.end() : match.end() + 200]):
            continue
        before = text[max(0, match.start() - 80) : match.start()]
        if not deep and re.search(rf"(?:\bin[ \t]+|\b(?:{_READS})\()[\w.]*$", before):
            continue
        return True
    return False


class _Scope:
    """One function, or the statements at the top and in classes there."""

    def __init__(self, node: _Function | None, around: _Scope | None, nodes: list[ast.AST]) -> None:
        self.node = node
        self.around = around
        self.nodes = nodes  # without those of functions inside
        declared: set[str] = set()
        bound: set[str] = set()
        for child in nodes:
            if isinstance(child, (ast.Global, ast.Nonlocal)):
                declared.update(child.names)
            elif isinstance(child, ast.Name) and isinstance(child.ctx, (ast.Store, ast.Del)):
                bound.add(child.id)
            elif isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef)):
                bound.add(child.name)
        self.params = (
            {child.arg for child in ast.walk(node.args) if isinstance(child, ast.arg)} if node else set()
        )
        self.local = (bound | self.params) - declared if node is not None else set()


class _Parsed:
    """The scopes of a module."""

    def __init__(self, text: str) -> None:
        self.scopes: list[_Scope] = []
        self.of: dict[ast.AST, _Scope] = {}
        self.defined: dict[str, list[_Function]] = {}
        self.classes: dict[str, ast.ClassDef] = {}
        self.in_classes: set[str] = set()  # names that a class body binds
        self.imported: set[str] = set()  # names that come out of other modules
        tree = pytext.parse(text)
        todo: list[tuple[_Function | None, _Scope | None, Iterable[ast.AST]]] = [(None, None, tree.body)]
        while todo:
            node, around, body = todo.pop()
            nodes, inner = _own(body)
            scope = _Scope(node, around, nodes)
            self.scopes.append(scope)
            if node is not None:
                self.of[node] = scope
            for child in nodes:
                if isinstance(child, ast.ImportFrom) and node is None:
                    self.imported |= {alias.asname or alias.name for alias in child.names}
                if isinstance(child, ast.ClassDef):
                    self.classes[child.name] = child
                    for part in child.body:
                        targets = (
                            part.targets if isinstance(part, ast.Assign) else [getattr(part, "target", None)]
                        )
                        self.in_classes |= {t.id for t in targets if isinstance(t, ast.Name)}
            for function in inner:
                if not isinstance(function, ast.Lambda):
                    self.defined.setdefault(function.name, []).append(function)
                code = [function.body] if isinstance(function, ast.Lambda) else function.body
                todo.append((function, scope, code))


def _own(body: Iterable[ast.AST]) -> tuple[list[ast.AST], list[_Function]]:
    """The nodes of a body, and the functions in it without theirs."""
    nodes: list[ast.AST] = []
    functions: list[_Function] = []
    stack = list(body)
    while stack:
        node = stack.pop()
        nodes.append(node)
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)):
            functions.append(node)
        else:
            stack += children(node)
    return nodes, functions


@lru_cache(maxsize=4)
def _parsed(text: str) -> _Parsed:
    return _Parsed(text)


#: What an expression may be: something that the container was put into, which may change without it; the
#: container itself, or what was read out of one of both.
_HOLDS = 1
_IS = 2


class _Search:
    """What names, attributes and functions give the container, until no more are found."""

    def __init__(self, names: set[str], attributes: set[str], deep: bool) -> None:
        self.first = frozenset(names)
        self.names = dict.fromkeys(names, _IS)
        self.attributes = dict.fromkeys(attributes, _IS)
        self.givers: dict[str, int] = {}  # functions that return it
        self.aliases: dict[_Scope, dict[str, int]] = {}
        self.deep = deep
        self.outside: set[str] | None = None  # imported functions that are given it, where these are followed
        self.scope: _Scope

    def asked(self, text: str, function: str = "") -> bool | tuple[str, ...]:
        """Like :meth:`run`, or the imported functions that decide it."""
        self.outside = set()
        return self.run(text, function) or (tuple(sorted(self.outside)) if self.outside else False)

    def run(self, text: str, function: str = "") -> bool:
        """Whether somebody changes it; ``function``: what the parameters of this one are given."""
        try:
            self.parsed = _parsed(text)
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            return True
        scopes = self.parsed.scopes
        self.aliases = {scope: {} for scope in scopes}
        if function:
            called = self.parsed.defined.get(function, [])
            top = [one for one in called if not isinstance(one, ast.Lambda) and one.col_offset == 0]
            if len(top) != 1 or len(called) != 1:
                return True
            scope = self.parsed.of[top[0]]
            self.aliases[scope] = dict.fromkeys(scope.params, _IS)
        for _ in range(_DEEP):
            before = self._size()
            for scope in scopes:
                self.scope = scope
                if self._spread():
                    return True
            if self._size() == before:
                return any(self._changes(scope) for scope in scopes if scope.node is not None)
        return True

    def _size(self) -> int:
        held = sum(sum(names.values()) for names in self.aliases.values())
        known = (self.names, self.attributes, self.givers)
        return held + sum(sum(levels.values()) for levels in known) + self.deep

    def _named(self, name: str, scope: _Scope | None) -> int:
        """What a name gives where it stands."""
        while scope is not None and scope.node is not None:
            if name in self.aliases[scope]:
                return self.aliases[scope][name]
            if name in scope.local:
                return 0
            scope = scope.around
        return self.names.get(name, 0)

    # -- what an expression may be ------------------------------------------------------------------

    def gives(self, node: ast.AST | None) -> int:
        """Whether an expression may be the container or, where that counts, what it holds (``_IS``), or
        something else that holds it (``_HOLDS``); 0 if neither."""
        if isinstance(node, ast.Name):
            return self._named(node.id, self.scope)
        if isinstance(node, ast.Attribute):
            return self.attributes.get(node.attr, 0)
        if isinstance(node, ast.Subscript):
            return _IS if self.deep and self.gives(node.value) else 0
        if isinstance(node, ast.Call):
            return self._call_gives(node)
        if isinstance(node, ast.IfExp):
            return self._most((node.body, node.orelse))
        if isinstance(node, ast.BoolOp):
            return self._most(node.values)
        if isinstance(node, (ast.Tuple, ast.List, ast.Set)):
            return self._held(node.elts)
        if isinstance(node, ast.Dict):
            return self._held(node.values)
        if isinstance(node, ast.BinOp):
            return self._held((node.left, node.right)) if self.deep else 0
        if isinstance(node, (ast.ListComp, ast.SetComp, ast.GeneratorExp)):
            return self._held((node.elt,))
        if isinstance(node, ast.DictComp):
            return self._held((node.value,))
        if isinstance(node, ast.Lambda):
            return self.gives(node.body)
        if isinstance(node, (ast.NamedExpr, ast.Starred, ast.Await)):
            return self.gives(node.value)
        return 0

    def _most(self, nodes: Iterable[ast.AST]) -> int:
        return max(map(self.gives, nodes), default=0)

    def _held(self, nodes: Iterable[ast.AST]) -> int:
        """What something new is that has these in it."""
        return _HOLDS if any(map(self.gives, nodes)) else 0

    def _call_gives(self, node: ast.Call) -> int:
        func = node.func
        if isinstance(func, ast.Name):
            given = max(self.givers.get(func.id, 0), self.gives(func))
            if given:
                return given
            if func.id == "getattr" and len(node.args) > 1:
                name = node.args[1]
                if isinstance(name, ast.Constant) and name.value in self.attributes:
                    return self.attributes[name.value]
            if func.id in _ONE_ITEM:
                return _IS if self.deep and any(map(self.gives, node.args)) else 0
            if func.id in _SAME_ITEMS:
                return self._held(node.args) if self.deep else 0
            if func.id in self.parsed.classes:
                return 0  # its attributes are followed
            return self._most(_arguments(node)) if func.id == "partial" else 0
        if isinstance(func, ast.Attribute):
            given = self.givers.get(func.attr, 0)
            if func.attr == "setdefault":
                given = max(given, self._most(node.args))
            return _IS if self.deep and self.gives(func.value) else given
        return self.gives(func.body) if isinstance(func, ast.Lambda) else 0

    # -- who gets it --------------------------------------------------------------------------------

    def _spread(self) -> bool:
        """Note in one scope who else gets the container; True where somebody does that nobody can follow."""
        scope = self.scope
        if scope.node is not None:
            self._defaults(scope.node, scope)
        for node in scope.nodes:
            if isinstance(node, (ast.For, ast.AsyncFor, ast.comprehension)):
                if self._items_give(node.iter):
                    self._bind(node.target, _IS)
            elif isinstance(node, ast.Assign):
                for target in node.targets:
                    self._assign(target, node.value)
            elif isinstance(node, (ast.AnnAssign, ast.NamedExpr, ast.AugAssign)):
                if node.value is not None and (self.deep or not isinstance(node, ast.AugAssign)):
                    self._assign(node.target, node.value)
            elif isinstance(node, (ast.Return, ast.Yield)) and scope.node is not None:
                level = self.gives(node.value)
                if level:
                    _raise(self.givers, getattr(scope.node, "name", ""), level)
            elif isinstance(node, (ast.With, ast.AsyncWith)):
                for item in node.items:
                    if item.optional_vars is not None and self.gives(item.context_expr):
                        self._bind(item.optional_vars, _IS)
            elif isinstance(node, ast.Match) and self.gives(node.subject):
                for child in ast.walk(node):
                    if isinstance(child, (ast.MatchAs, ast.MatchStar)) and child.name:
                        _raise(self.aliases[scope], child.name, _IS)
            elif isinstance(node, ast.Call) and self._hand_over(node):
                return True
        return False

    def _items_give(self, node: ast.expr) -> bool:
        if isinstance(node, (ast.Tuple, ast.List, ast.Set, ast.Dict)):
            return self.gives(node) > 0
        if isinstance(node, ast.Call) and not self.deep:
            return any(self._items_give(arg) for arg in node.args)
        return (self.deep or not isinstance(node, (ast.Name, ast.Attribute))) and self.gives(node) > 0

    def _assign(self, target: ast.expr, value: ast.expr) -> None:
        if isinstance(target, (ast.Tuple, ast.List)) and isinstance(value, (ast.Tuple, ast.List)):
            if len(target.elts) == len(value.elts) and not any(
                isinstance(e, ast.Starred) for e in target.elts
            ):
                for one, part in zip(target.elts, value.elts):
                    self._assign(one, part)
                return
        if (
            isinstance(target, (ast.Tuple, ast.List))
            and not self.deep
            and isinstance(value, (ast.Name, ast.Attribute))
        ):
            return  # what it holds is nothing that changes
        level = self.gives(value)
        if level:
            # unpacked, it gives what it holds
            self._bind(target, _IS if isinstance(target, (ast.Tuple, ast.List)) else level)

    def _bind(self, target: ast.expr, level: int) -> None:
        """A target that is bound to the container, or to something that holds it."""
        if isinstance(target, ast.Name):
            scope: _Scope | None = self.scope
            while scope is not None and scope.node is not None and target.id not in scope.local:
                scope = scope.around
            if scope is not None and scope.node is not None:
                _raise(self.aliases[scope], target.id, level)
                return
            _raise(self.names, target.id, level)
            if target.id in self.parsed.in_classes:
                _raise(self.attributes, target.id, level)
        elif isinstance(target, ast.Attribute):
            _raise(self.attributes, target.attr, level)
        elif isinstance(target, (ast.Tuple, ast.List)):
            for one in target.elts:
                self._bind(one, level)
        elif isinstance(target, ast.Starred):
            self._bind(target.value, level)
        elif isinstance(target, (ast.Subscript, ast.Call)):
            self.deep = True  # it was put into something
            self._bind(target.value if isinstance(target, ast.Subscript) else target.func, _HOLDS)

    def _defaults(self, node: _Function, scope: _Scope) -> None:
        """Defaults of parameters, which belong to the scope around."""
        spec = node.args
        places = [*spec.posonlyargs, *spec.args]
        pairs = [*zip(places[len(places) - len(spec.defaults) :], spec.defaults)]
        pairs += [(arg, value) for arg, value in zip(spec.kwonlyargs, spec.kw_defaults) if value is not None]
        assert scope.around is not None
        self.scope = scope.around
        for arg, value in pairs:
            _raise(self.aliases[scope], arg.arg, self.gives(value))
        self.scope = scope

    def _hand_over(self, node: ast.Call) -> bool:
        """A call that is given the container: who takes it. True where that cannot be told."""
        given = [value for value in _arguments(node) if self.gives(value)]
        if not given:
            return False
        func = node.func
        if isinstance(func, ast.Name):
            if func.id in self.parsed.classes:
                self._construct(self.parsed.classes[func.id], node)
            elif func.id in self.parsed.defined:
                self._pass(self.parsed.defined[func.id], node, False)
            elif self.gives(func):
                return True
            elif func.id[:1].isupper() or hasattr(builtins, func.id):
                return False
            elif self.outside is None or func.id not in self.parsed.imported:
                return True
            else:
                self.outside.add(func.id)
        elif isinstance(func, ast.Attribute):
            if func.attr in _KEEPS or (func.attr in _TAKES_OVER and self.deep):
                self.deep = True
                self._bind(func.value, _HOLDS)
            elif func.attr in self.parsed.defined:
                self._pass(self.parsed.defined[func.attr], node, True)
            elif func.attr == "__init__":
                return True
        elif isinstance(func, ast.Lambda):
            self._pass([func], node, False)
        return False

    def _construct(self, info: ast.ClassDef, node: ast.Call) -> None:
        inits = [f for f in info.body if isinstance(f, ast.FunctionDef) and f.name == "__init__"]
        if inits:
            self._pass(list(inits), node, True)
            return
        for child in info.body:  # a record, or what a base class makes of it
            if isinstance(child, ast.AnnAssign) and isinstance(child.target, ast.Name):
                _raise(self.attributes, child.target.id, _IS)
        for base in info.bases:
            if isinstance(base, ast.Name) and base.id in self.parsed.classes and base.id != info.name:
                self._construct(self.parsed.classes[base.id], node)

    def _pass(self, called: Iterable[_Function], node: ast.Call, method: bool) -> None:
        plain = not any(isinstance(arg, ast.Starred) for arg in node.args)
        for function in called:
            scope = self.parsed.of[function]
            spec = function.args
            places = [arg.arg for arg in (*spec.posonlyargs, *spec.args)]
            takers: dict[str, int] = {}
            if plain and all(keyword.arg is not None for keyword in node.keywords):
                for shift in (0, 1) if method else (0,):
                    for at, value in enumerate(node.args):
                        if at + shift < len(places):
                            _raise(takers, places[at + shift], self.gives(value))
                        elif spec.vararg is not None:
                            _raise(takers, spec.vararg.arg, self._held((value,)))
                for keyword in node.keywords:
                    if keyword.arg in scope.params:
                        _raise(takers, keyword.arg or "", self.gives(keyword.value))
                    if spec.kwarg is not None:
                        _raise(takers, spec.kwarg.arg, self._held((keyword.value,)))
            else:
                takers = dict.fromkeys(scope.params, _IS)
            for name, level in takers.items():
                _raise(self.aliases[scope], name, level)
            if takers.keys() & {getattr(spec.vararg, "arg", None), getattr(spec.kwarg, "arg", None)}:
                self.deep = True

    # -- who changes it -----------------------------------------------------------------------------

    def _changes(self, scope: _Scope) -> bool:
        self.scope = scope
        return any(self._changed(target) for node in scope.nodes for target in _changed_by(node))

    def _changed(self, target: ast.expr) -> bool:
        if isinstance(target, ast.Name) and target.id in self.first and not self._own_alias(target.id):
            return False  # under its own name: that is asked elsewhere
        return self.gives(target) == _IS

    def _own_alias(self, name: str) -> bool:
        scope: _Scope | None = self.scope
        while scope is not None:
            if name in self.aliases[scope]:
                return True
            scope = scope.around
        return False


def _changed_by(node: ast.AST) -> Iterator[ast.expr]:
    """The expressions whose value a node changes in place."""
    if isinstance(node, ast.Subscript) and isinstance(node.ctx, (ast.Store, ast.Del)):
        yield node.value
    elif isinstance(node, ast.AugAssign):
        yield node.target
    elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        if node.func.attr in MUTATORS:
            yield node.func.value


def _raise(levels: dict[str, int], name: str, level: int) -> None:
    """A name gives at least that much."""
    if name and level > levels.get(name, 0):
        levels[name] = level


def _arguments(node: ast.Call) -> list[ast.expr]:
    return [*node.args, *(keyword.value for keyword in node.keywords)]


__all__ = ["changed_attribute", "changed_parameters", "changed_under_another_name"]
