"""The conditions and definitions of a piece of source that mention a predicate."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from auditor.history.sweeping.terms import (
    Term,
    bindings,
    body_term,
    convert,
    function,
    intern,
    read_by,
)
from auditor.program.externals import ARCH_ROOTS

#: Turns everything that no identifier holds into a blank.
_TABLE = bytes(c if chr(c).isalnum() or c == 95 or c > 127 else 32 for c in range(256))
#: What no identifier begins after, or ends before.
_LETTERS = frozenset(b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_")
#: Words of the source that stand for the roots themselves, and texts where a word alone says too little.
ROOT_WORDS = frozenset(name.rpartition(".")[2].encode() for name in ARCH_ROOTS if " " not in name) - {b"cuda"}
ROOT_TEXTS = (b"version.cuda",)
#: So many words are looked for one by one.
FEW = 12
#: Kinds that are gates only where they are worth true or false.
NEEDS_TRUTH = frozenset({"assign", "return", "argument"})
#: A function of more lines than this is work, not a predicate.
LONGEST = 40


class Found(NamedTuple):
    """A condition: the symbol it stands in, what kind of gate it is, its canonical text and its term."""

    symbol: str
    kind: str
    text: str
    term: Term


class Site(NamedTuple):
    """A definition of a name. ``owner`` is its class, "" for the module; ``guard`` is a condition around
    it.
    """

    owner: str
    name: str
    guard: Term | None
    term: Term
    weak: bool  # one of several assignments whose order is not known


class Facts(NamedTuple):
    """What a piece says."""

    gates: tuple[Found, ...] = ()
    sites: tuple[Site, ...] = ()


NONE = Facts()


def words_of(data: bytes) -> list[bytes]:
    """The identifiers and numbers of a piece of source, comments and strings included."""
    return data.translate(_TABLE).split()


def _mentions(data: bytes, word: bytes) -> bool:
    """Whether a word that is in a piece of source is a word there."""
    size = len(word)
    at = data.find(word)
    while at >= 0:
        if (
            _TABLE[data[at - 1] if at else 32] == 32
            and _TABLE[data[at + size] if at + size < len(data) else 32] == 32
        ):
            return True
        at = data.find(word, at + 1)
    return False


class Words:
    """The names looked for, besides the roots. ``learning`` takes the definitions of all names, not only of
    these.
    """

    def __init__(
        self,
        names: Iterable[str],
        *,
        learning: bool = False,
        roots: frozenset[str] = ARCH_ROOTS,
        root_words: frozenset[bytes] = ROOT_WORDS,
        texts: tuple[bytes, ...] = ROOT_TEXTS,
    ) -> None:
        self.names = frozenset(names)
        self.scanned = frozenset(name.encode() for name in self.names) | root_words
        self._twice = tuple(word for word in root_words if word.decode() in self.names)
        self.learning = learning
        self.roots = roots
        self.texts = texts

    def in_text(self, data: bytes) -> bool:
        """Whether a piece of source mentions one."""
        if not self.scanned.isdisjoint(data.translate(_TABLE).split()):
            return True
        return any(text in data for text in self.texts)

    def present(self, data: bytes, among: frozenset[bytes] | None = None) -> frozenset[bytes]:
        """Those that a piece of source mentions, texts as well; and once more those that are a name of the
        project besides a root. ``among`` is what it may mention, where that is known.
        """
        if among is None or len(among) > FEW:
            found = self.scanned.intersection(data.translate(_TABLE).split())
        else:
            found = frozenset(word for word in among if word in data and _mentions(data, word))
        texts = [text for text in self.texts if text in data]
        twice = [b"\0" + word for word in self._twice if word in found]
        return found.union(texts, twice) if texts or twice else found

    def in_term(self, term: Term) -> bool:
        """Whether a term reads one."""
        names, roots = read_by(term)
        return not (self.names.isdisjoint(names) and self.roots.isdisjoint(roots))


#: Statements that hold others.
_HOLD = (ast.If, ast.For, ast.AsyncFor, ast.While, ast.With, ast.AsyncWith, ast.Try, ast.Match)


class _Scope:
    """Local names of a function: those with one assignment stand for what is assigned."""

    def __init__(self, node: ast.AST | None, outer: _Scope | None) -> None:
        self.node = node
        self.outer = outer
        self.bound: dict[str, Term] = {}
        self.globals: set[str] = set()
        self._stored: dict[str, int] | None = None

    @property
    def stored(self) -> dict[str, int]:
        """How often each name is bound in the function."""
        if self._stored is None:
            counts: dict[str, int] = {}
            if isinstance(self.node, (ast.FunctionDef, ast.AsyncFunctionDef)):
                given = self.node.args
                for argument in (*given.posonlyargs, *given.args, *given.kwonlyargs):
                    counts[argument.arg] = 2
                for rest in (given.vararg, given.kwarg):
                    if rest is not None:
                        counts[rest.arg] = 2
                self._bound(self.node.body, counts)
            self._stored = counts
        return self._stored

    def _bound(self, stmts: Sequence[ast.stmt], counts: dict[str, int]) -> None:
        """Names bound by statements; what is done where something fails is not followed."""
        for stmt in stmts:
            targets: Sequence[ast.AST] = ()
            if isinstance(stmt, ast.Assign):
                targets = stmt.targets
            elif isinstance(stmt, (ast.AnnAssign, ast.AugAssign, ast.For, ast.AsyncFor)):
                targets = (stmt.target,)
            elif isinstance(stmt, (ast.With, ast.AsyncWith)):
                targets = [item.optional_vars for item in stmt.items if item.optional_vars is not None]
            elif isinstance(stmt, ast.Global):
                self.globals.update(stmt.names)
            elif isinstance(stmt, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
                counts[stmt.name] = counts.get(stmt.name, 0) + 2
                continue
            for target in targets:
                if isinstance(target, ast.Attribute):
                    continue
                for node in (target,) if isinstance(target, ast.Name) else ast.walk(target):
                    if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                        counts[node.id] = counts.get(node.id, 0) + 1
            if isinstance(stmt, _HOLD):
                for field in ("body", "orelse", "finalbody"):
                    self._bound(getattr(stmt, field, None) or (), counts)
                for case in getattr(stmt, "cases", None) or ():
                    self._bound(case.body, counts)

    def lookup(self, name: str) -> Term | None:
        if self.node is None:
            return None
        if name in self.bound and name not in self.globals:
            return self.bound[name]
        if name in self.stored and name not in self.globals:
            return intern(("p", name))
        return self.outer.lookup(name) if self.outer is not None else None


def _nothing(name: str) -> Term | None:
    return None


class Extraction:
    """The facts of one parsed piece."""

    def __init__(self, words: Words, data: bytes, there: Iterable[bytes]) -> None:
        self.words = words
        self.data = data
        self.hits: set[int] = set()
        self._look(there)
        self.gates: list[Found] = []
        self.sites: list[Site] = []

    def _look(self, wanted: Iterable[bytes]) -> None:
        """Note the lines that hold one of the words or texts."""
        data = self.data
        found: list[int] = []
        for word in wanted:
            at = data.find(word)
            while at >= 0:
                end = at + len(word)
                if not (at and data[at - 1] in _LETTERS) and not (end < len(data) and data[end] in _LETTERS):
                    found.append(at)
                at = data.find(word, end)
        line, at = 1, 0
        for place in sorted(found):
            line += data.count(b"\n", at, place)
            at = place
            self.hits.add(line)

    def facts(self) -> Facts:
        return Facts(tuple(self.gates), tuple(self.sites)) if self.gates or self.sites else NONE

    def module(self, stmts: Sequence[ast.stmt], owner: str = "") -> None:
        """Statements at the top of a module, or of the class ``owner``."""
        self._visit(stmts, owner, owner, _Scope(None, None), None)

    # statements

    def _hit(self, node: ast.AST) -> bool:
        first = getattr(node, "lineno", 0)
        for decorator in getattr(node, "decorator_list", ()):
            first = min(first, decorator.lineno)
        last = getattr(node, "end_lineno", None) or first
        if last - first < len(self.hits):
            return any(at in self.hits for at in range(first, last + 1))
        return any(first <= at <= last for at in self.hits)

    def _visit(
        self, stmts: Sequence[ast.stmt], symbol: str, owner: str, scope: _Scope, guard: Term | None
    ) -> None:
        for stmt in stmts:
            if not self._hit(stmt):
                continue
            if isinstance(stmt, (ast.FunctionDef, ast.AsyncFunctionDef)):
                self._function(stmt, symbol, owner, scope, guard)
            elif isinstance(stmt, ast.ClassDef):
                name = f"{symbol}.{stmt.name}" if symbol else stmt.name
                self._visit(stmt.body, name, name, _Scope(None, None), None)
            elif isinstance(stmt, ast.If):
                self._if(stmt, "if", symbol, owner, scope, guard)
            else:
                self._other(stmt, symbol, owner, scope, guard)

    def _if(
        self, stmt: ast.If, kind: str, symbol: str, owner: str, scope: _Scope, guard: Term | None
    ) -> None:
        test = self._gate(stmt.test, kind, symbol, scope)
        then = test if guard is None else intern(("and", (guard, test)))
        no = intern(("not", test))
        other = no if guard is None else intern(("and", (guard, no)))
        if scope.node is None and self.words.in_term(test):
            self._all_hit(stmt)  # what is bound below hangs on the test
        self._visit(stmt.body, symbol, owner, scope, then)
        rest = stmt.orelse
        if len(rest) == 1 and isinstance(rest[0], ast.If) and rest[0].col_offset == stmt.col_offset:
            if self._hit(rest[0]):
                self._if(rest[0], "elif", symbol, owner, scope, other)
        else:
            self._visit(rest, symbol, owner, scope, other)

    def _all_hit(self, stmt: ast.stmt) -> None:
        self.hits.update(range(stmt.lineno, (stmt.end_lineno or stmt.lineno) + 1))

    def _function(
        self,
        node: ast.FunctionDef | ast.AsyncFunctionDef,
        symbol: str,
        owner: str,
        scope: _Scope,
        guard: Term | None,
    ) -> None:
        name = f"{symbol}.{node.name}" if symbol else node.name
        if scope.node is None and (self.words.learning or node.name in self.words.names):
            self._defined(node, owner, guard)
        inner = _Scope(node, scope)
        self._visit(node.body, name, owner, inner, None)

    def _defined(self, node: ast.FunctionDef | ast.AsyncFunctionDef, owner: str, guard: Term | None) -> None:
        """The definition of a function as a site; properties are called at once."""
        if (node.end_lineno or node.lineno) - node.lineno > LONGEST:
            return
        marks = {_mark(decorator) for decorator in node.decorator_list}
        skip = 1 if owner and "staticmethod" not in marks else 0
        term = function(node.args, lambda local: body_term(node.body, local), _nothing, skip=skip)
        if marks & {"property", "cached_property"}:
            term = intern(("call", term, (), ()))
        if node.name in self.words.names or self.words.in_term(term):
            self.sites.append(Site(owner, node.name, guard, term, False))

    def _other(self, stmt: ast.stmt, symbol: str, owner: str, scope: _Scope, guard: Term | None) -> None:
        if isinstance(stmt, (ast.Assign, ast.AnnAssign)):
            self._assign(stmt, symbol, owner, scope, guard)
        elif isinstance(stmt, ast.Return):
            if stmt.value is not None:
                self._value(stmt.value, "return", symbol, scope)
        elif isinstance(stmt, (ast.While, ast.Assert)):
            kind = "while" if isinstance(stmt, ast.While) else "assert"
            self._gate(stmt.test, kind, symbol, scope)
        else:
            for part in ast.iter_child_nodes(stmt):
                if isinstance(part, ast.expr):
                    self._inside(part, symbol, scope)
                elif isinstance(part, ast.withitem):
                    self._inside(part.context_expr, symbol, scope)
        for field in ("body", "orelse", "finalbody"):
            self._visit(getattr(stmt, field, None) or (), symbol, owner, scope, guard)
        for handler in getattr(stmt, "handlers", None) or ():
            self._visit(handler.body, symbol, owner, scope, guard)
        for case in getattr(stmt, "cases", None) or ():
            if case.guard is not None:
                self._gate(case.guard, "match", symbol, scope)
            self._visit(case.body, symbol, owner, scope, guard)

    def _assign(
        self,
        stmt: ast.Assign | ast.AnnAssign,
        symbol: str,
        owner: str,
        scope: _Scope,
        guard: Term | None,
    ) -> None:
        if stmt.value is None:
            return
        term = self._value(stmt.value, "assign", symbol, scope)
        if scope.node is None:
            for name, value in bindings(stmt, scope.lookup):
                self._site(owner, name, guard, value, False)
            return
        targets = stmt.targets if isinstance(stmt, ast.Assign) else [stmt.target]
        for target in targets:
            if isinstance(target, ast.Attribute) and isinstance(target.value, ast.Name) and owner:
                if target.value.id in ("self", "cls"):
                    self._site(owner, target.attr, None, term, True)
        if self.words.in_term(term):
            for name, value in bindings(stmt, scope.lookup):
                if name in scope.globals:
                    self._site("", name, None, value, True)
                elif scope.stored.get(name) == 1:
                    scope.bound[name] = value
                    self._look([name.encode()])

    def _site(self, owner: str, name: str, guard: Term | None, term: Term, weak: bool) -> None:
        mentioned = self.words.in_term(term) or (guard is not None and self.words.in_term(guard))
        if name in self.words.names or (self.words.learning and mentioned):
            self.sites.append(Site(owner, name, guard, term, weak))

    # expressions

    def _gate(self, node: ast.expr, kind: str, symbol: str, scope: _Scope) -> Term:
        """A test; what stands in it is looked at too."""
        term = convert(node, scope.lookup)
        if self.words.in_term(term):
            self._take(symbol, kind, node, term)
            self._inside(node, symbol, scope)
        return term

    def _take(self, symbol: str, kind: str, node: ast.expr, term: Term) -> None:
        self.gates.append(Found(symbol, kind, ast.unparse(node), term))

    def _value(self, node: ast.expr, kind: str, symbol: str, scope: _Scope) -> Term:
        """A value; one chosen by a condition is a gate through that condition."""
        term = convert(node, scope.lookup)
        if self.words.in_term(term):
            if not isinstance(node, ast.IfExp):
                self._take(symbol, kind, node, term)
            self._inside(node, symbol, scope)
        return term

    def _inside(self, node: ast.expr, symbol: str, scope: _Scope) -> None:
        for part in ast.walk(node):
            if isinstance(part, ast.IfExp):
                self._plain(part.test, "ifexp", symbol, scope)
            elif isinstance(part, ast.comprehension):
                for test in part.ifs:
                    self._plain(test, "comprehension", symbol, scope)
            elif isinstance(part, ast.Call):
                for value in _given(part):
                    if not isinstance(value, (ast.IfExp, ast.Constant)):
                        self._plain(value, "argument", symbol, scope)

    def _plain(self, node: ast.expr, kind: str, symbol: str, scope: _Scope) -> None:
        term = convert(node, scope.lookup)
        if self.words.in_term(term):
            self._take(symbol, kind, node, term)


def _mark(decorator: ast.expr) -> str:
    """The last name of a decorator, "" of one that is not named."""
    named = decorator.func if isinstance(decorator, ast.Call) else decorator
    if isinstance(named, ast.Attribute):
        return named.attr
    return named.id if isinstance(named, ast.Name) else ""


def _given(call: ast.Call) -> Iterator[ast.expr]:
    for argument in call.args:
        if not isinstance(argument, ast.Starred):
            yield argument
    for word in call.keywords:
        if word.arg is not None:
            yield word.value


def facts_of(
    stmts: Sequence[ast.stmt], data: bytes, words: Words, there: Iterable[bytes], owner: str = ""
) -> Facts:
    """The facts of statements parsed from ``data``, which mentions ``there`` of the vocabulary; ``owner`` is
    the class that they are members of.
    """
    extraction = Extraction(words, data, there)
    extraction.module(stmts, owner)
    return extraction.facts()
