"""Whether a file that differs would have changed an evaluation, piece by piece.

An evaluation notes what it looks at in each piece of a module (:class:`auditor.program.source.Segment`): its
text, its syntax, its members, or only what a question has to say about it. A later text of the module is as
good as the earlier one if the pieces that were looked at are there with the same content in the same order,
if every question gets the same answer from both, and if names that come or go were not asked for by anybody.
Whatever is not clearly so counts as different.
"""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from auditor import pytext
from auditor.program import textual
from auditor.program.source import (
    HOT,
    MEMBERS,
    NODES,
    OPENING,
    TEXT,
    Irregular,
    Segment,
    Unparsable,
    bare,
    decode,
    header_end,
    segments,
)
from auditor.program.words import Words, has_word

#: Statements that neither bind a name nor can change what follows.
_SAYS_NOTHING = frozenset({"docstring", "for types", "end"})
_WORD = re.compile(r"\w+")
_IMPORTS = re.compile(
    r"^[ \t]*(?:from[ \t]+[\w.]+[ \t]+import[ \t]+(?:\([^)]*\)|[^\n]*)|import[ \t]+[^\n]*)", re.M
)


class Different(Exception):
    """Something that was looked at is not the same; the text says what, for whoever wants to know."""


class Asked(NamedTuple):
    """What an evaluation asked for by name, everywhere; see :class:`auditor.program.watch.Watched`."""

    hot: frozenset[str]  # names that lead to a root
    roots: tuple[str, ...]  # words of the roots, found inside longer words too
    members: frozenset[str]
    globals: Mapping[str, frozenset[str]]  # module -> names that were looked up in it
    everywhere: tuple[str, ...]  # words of code patterns that are looked for in all files
    assumed: frozenset[str]  # packages outside the tree about which something is assumed


class Moved:
    """Where the lines of a file went that anybody looked at."""

    def __init__(self) -> None:
        self.runs: list[tuple[int, int, int]] = []  # first and last line before, first line after

    def add(self, first: int, last: int, now: int) -> None:
        self.runs.append((first, last, now))

    def line(self, line: int) -> int:
        """The line now. Different if nobody can have seen the line."""
        for first, last, now in self.runs:
            if first <= line <= last:
                return now + line - first
        if line == 1:
            return 1  # what stands for no line in particular
        raise Different

    @property
    def still(self) -> bool:
        """Whether no line has another number."""
        return all(first == now for first, _, now in self.runs)


def packed(module: Any) -> dict[str, Any]:
    """What was looked at in a module, as plain data."""
    return {
        "forked": module.forked,
        "pieces": [_packed(piece) for piece in module.segments],
        "sought": sorted(module.sought),
        "parts": sorted(module.parts),
        "opened": sorted(module.opened),
        "noted": sorted(module.noted),
    }


def _packed(piece: Segment) -> Any:
    looked = piece.looked
    inner: list[Any] = []
    if piece.cut_open:
        inner = [_packed(member) for member in piece.members()]
    if not inner and not piece.noted:
        return looked
    return [looked, sorted(piece.noted or (), key=repr), inner]


class _Seen(NamedTuple):
    looked: int
    noted: Sequence[Sequence[Any]]
    members: Sequence[Any]

    @classmethod
    def of(cls, data: Any) -> _Seen:
        return cls(data, (), ()) if isinstance(data, int) else cls(*data)


class _Token:
    """A definition, or a statement beside definitions, in the order in which they are run."""

    __slots__ = ("key", "piece", "seen", "node", "first", "last", "text")

    def __init__(
        self, key: tuple[Any, ...], piece: Segment | None, node: Any, first: int, last: int, text: str
    ):
        self.key = key
        self.piece = piece
        self.seen = _Seen(0, (), ())
        self.node = node
        self.first = first
        self.last = last
        self.text = text


def _written(piece: Segment) -> set[str]:
    from auditor.program.classes import written_names

    return written_names(piece)


def _values(piece: Segment, name: str) -> list[str]:
    from auditor.program.classes import attribute_values

    return [ast.dump(value) if value is not None else "" for value in attribute_values(piece).get(name, ())]


_PIECE: dict[str, Any] = {
    "longer": lambda piece, limit: piece.longer(limit),
    "decorators": lambda piece: piece.head(),
    "attribute_values": lambda piece, name: _values(piece, name),
    "yield": lambda piece: "yield" in piece.peek(),
    "returned": lambda piece: textual.returned(piece.peek()),
    "self_calls": lambda piece: textual.self_calls(piece.peek()),
    "writes": lambda piece, name: textual.writes_attribute(piece.peek().encode(), name.encode()),
}
_TEXT: dict[str, Any] = {
    f.__name__: f
    for f in (
        textual.reassigned,
        textual.mutated,
        textual.changes_attribute,
        textual.changes_parameters,
        textual.assigns_attribute,
        textual.bound_as,
    )
}
_FILE: dict[str, Any] = {
    f.__name__: f for f in (textual.defines_member, textual.writes_attribute, textual.quotes, textual.holds)
}


def same_text(noted: Iterable[Sequence[str]], old: bytes, new: bytes) -> bool:
    """Whether questions about a file have the same answers for two texts."""
    return all(_FILE[q](old, word.encode()) == _FILE[q](new, word.encode()) for q, word in noted)


def same_module(
    seen: Mapping[str, Any], name: str, old: bytes, new: bytes, asked: Asked, scanned: bool
) -> Moved:
    """Where the lines of a module went whose new text is as good as the old one. Different if it is not.

    ``scanned``: code patterns were looked for in it, so that its imports count.
    """
    try:
        before, after = bare(decode(old)), bare(decode(new))
        return _Modules(seen, name, asked, before, after).compare(scanned)
    except (Unparsable, Irregular, KeyError, RecursionError):
        raise Different from None


class _Modules:
    """Two texts of one module."""

    def __init__(self, seen: Mapping[str, Any], name: str, asked: Asked, before: str, after: str) -> None:
        self.seen = seen
        self.name = name
        self.asked = asked
        self.texts = before, after
        self.lines = before.split("\n"), after.split("\n")
        self.sought = Words(seen["sought"], seen["parts"])
        self.hot = Words({*asked.hot, *seen["sought"]}, {*asked.roots, *seen["parts"]})
        self.moved = Moved()
        self.used: set[str] = set()  # words of what is looked at
        self.free: list[_Token] = []  # what came or went
        self.bound: Counter[str] = Counter()  # how often a name is bound at the top, before or after

    def compare(self, scanned: bool) -> Moved:
        before, after = self.texts
        for question, *words in self.seen["noted"]:
            if _TEXT[question](before, *words) != _TEXT[question](after, *words):
                raise Different(f"{question} {words}")
        self.level(segments(before), segments(after), self.seen["pieces"], None)
        known = self.asked.globals.get(self.name, frozenset()) | self.used
        for token in self.free:
            names = _bound(token)
            if not known.isdisjoint(names) or any(self.bound[name] > 1 for name in names):
                raise Different(f"names {sorted(names)}")
        if scanned:
            tables = [Counter(_IMPORTS.findall(text)) for text in self.texts]
            for statement in (tables[0] - tables[1]) + (tables[1] - tables[0]):
                if not self.used.isdisjoint(_imported(statement)):
                    raise Different(statement)
        return self.moved

    # -- one level: a module, or the body of a class ---------------------------------------------------

    def level(self, old: list[Segment], new: list[Segment], seen: Sequence[Any], owner: str | None) -> None:
        if len(old) != len(seen) or not all(p.has_text for p in (*old, *new)):
            raise Different("not cut alike")
        before, after = self.tokens(old, 0, seen), self.tokens(new, 1, None)
        there = {token.key: token for token in after}
        kept = {token.key for token in before}
        gone = [t for t in before if t.key not in there]
        come = [t for t in after if t.key not in kept]
        if [t.key for t in before if t.key in there] != [t.key for t in after if t.key in kept]:
            raise Different("order")
        if owner is None:
            for side in (before, after):
                self.bound |= sum((_bound(token) for token in side), Counter())
        for token in before:
            if token.key in there:
                self.both(token, there[token.key])
        for token in (*gone, *come):
            self.one(token, owner)
        if owner is None:
            self.free += [t for t in (*gone, *come) if t.key[0] not in _SAYS_NOTHING]

    def tokens(self, pieces: list[Segment], which: int, seen: Sequence[Any] | None) -> list[_Token]:
        out: list[_Token] = []
        counts: Counter[tuple[Any, ...]] = Counter()

        def put(key: tuple[Any, ...], *rest: Any) -> _Token:
            counts[key] += 1
            out.append(_Token((*key, counts[key]), *rest))
            return out[-1]

        for at, piece in enumerate(pieces):
            if piece.kind != "other":
                text = piece.peek()
                token = put((piece.kind, piece.name), piece, None, piece.start, piece.last, text)
                if seen is not None:
                    token.seen = _Seen.of(seen[at])
                continue
            for node in piece.nodes():
                self.statement(node, which, put)
        return out

    def statement(self, node: ast.stmt, which: int, put: Any) -> None:
        last = node.end_lineno or node.lineno
        if isinstance(node, ast.If) and not node.orelse and _for_types(node.test):
            if all(isinstance(child, (ast.Import, ast.ImportFrom)) for child in node.body):
                put(("for types",), None, None, node.lineno, node.lineno, "")
                for child in node.body:
                    self.statement(child, which, put)
                put(("end",), None, None, last, last, "")
                return
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            source = (node.module or "", node.level) if isinstance(node, ast.ImportFrom) else ()
            for alias in node.names:
                one = ast.Import([alias]) if not source else ast.ImportFrom(source[0], [alias], source[1])
                key = ("import", *source, alias.name, alias.asname or "")
                put(key, None, one, alias.lineno, alias.lineno, "")
            return
        text = "\n".join(self.lines[which][node.lineno - 1 : last])
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            put(("docstring",), None, node, node.lineno, last, "")
        else:
            put(("statement", text), None, node, node.lineno, last, text)

    # -- what is there before and after ----------------------------------------------------------------

    def both(self, old: _Token, new: _Token) -> None:
        piece, later = old.piece, new.piece
        if piece is None or later is None:
            self.used.update(_WORD.findall(old.text))
            self.moved.add(old.first, old.last, new.first)
            return
        seen = old.seen
        inside = seen.looked & (MEMBERS | NODES | TEXT) == MEMBERS
        if old.text == new.text:
            self.mention(old)
            self.moved.add(old.first, old.last, new.first)
            return
        what = f"{piece.kind} {piece.name}"
        if seen.looked & TEXT:
            raise Different(what)
        if seen.looked & NODES:
            body = _body(old.text)
            if body != _body(new.text):
                raise Different(what)
            self.moved.add(old.first, old.first + body.count("\n"), new.first)
        self.mention(old)
        self.same_words(old, new, self.hot if seen.looked & (HOT | NODES) else self.sought, inside)
        for symbol, name in self.seen["opened"]:
            if _opens(old.text, symbol, name) != _opens(new.text, symbol, name):
                raise Different(f"head of {what}")
        for question, *words in seen.noted:
            if question == "written":
                if not self.asked.members.isdisjoint(_written(piece) ^ _written(later)):
                    raise Different(f"attributes that {what} writes")
            elif _PIECE[question](piece, *words) != _PIECE[question](later, *words):
                raise Different(f"{question} of {what}")
        if inside:
            self.inside(piece, later, seen)

    def inside(self, piece: Segment, later: Segment, seen: _Seen) -> None:
        """The members of a class."""
        ends = header_end(piece.peek()), header_end(later.peek())
        members = piece.members(), later.members()
        if ends[0] is None or ends[1] is None or (piece.looked | later.looked) & NODES:
            raise Different
        head = piece.peek()[: ends[0]]
        if head != later.peek()[: ends[1]]:
            raise Different
        self.used.update(_WORD.findall(head))
        self.moved.add(piece.start, piece.start + head.count("\n") - 1, later.start)
        self.level(*members, seen.members, piece.name)

    def mention(self, token: _Token) -> None:
        """Note the words of a definition that somebody may have looked up."""
        assert token.piece is not None
        seen = token.seen
        if seen.looked & (NODES | TEXT):
            self.used.update(_WORD.findall(token.text))
            return
        for question, *_ in seen.noted:
            if question == "decorators":
                self.used.update(_WORD.findall(token.piece.head() or ""))
            elif question == "returned":
                self.used.update(_WORD.findall(textual.returned(token.text)))
        if seen.looked & MEMBERS:
            self.used.update(_WORD.findall(token.text))  # too many: its members were looked at one by one

    def same_words(self, old: _Token, new: _Token, words: Words, inside: bool) -> None:
        if _found(words, old.text) != _found(words, new.text):
            raise Different(f"words of {old.key} {_found(words, old.text) ^ _found(words, new.text)}")
        if not inside:
            self.silent(old)
            self.silent(new)

    def waits(self, token: _Token) -> bool:
        """Whether a statement at the top only gives a name to something that nobody evaluates."""
        node = token.node
        if not isinstance(node, (ast.Assign, ast.AnnAssign)) or node.value is None:
            return False
        if "partial" in token.text or _found(self.hot, token.text):
            return False
        if not all(isinstance(target, ast.Name) for target in _targets(node)):
            return False
        mentioned = {n.id for n in ast.walk(node.value) if isinstance(n, ast.Name)}
        return not any(self.bound[name] > 1 for name in mentioned)

    def silent(self, token: _Token) -> None:
        if any(word in token.text for word in self.asked.everywhere):
            raise Different(f"code in {token.key}")

    # -- what came or went -----------------------------------------------------------------------------

    def one(self, token: _Token, owner: str | None) -> None:
        """A definition or an import that is there on one side only, and that nobody looked at."""
        self.silent(token)
        if token.key[0] in _SAYS_NOTHING:
            return
        if token.piece is None:
            if owner is None and not self.seen["forked"] and self.waits(token):
                return
            if owner is not None or not _is_import(token.node):
                raise Different(f"{owner or 'top'}: {token.text}")
            for alias in token.node.names:
                if alias.name == "*" or (alias.asname and alias.name in self.asked.hot):
                    raise Different
            modules = [a.name for a in token.node.names]
            if isinstance(token.node, ast.ImportFrom):
                modules = [token.node.module or ""]
            if not self.asked.assumed.isdisjoint(m.partition(".")[0] for m in modules):
                raise Different
            return
        seen = token.seen
        if seen.looked & ~HOT or token.key[-1] != 1:
            raise Different(f"read {token.key}")
        if _found(self.sought, token.text):
            raise Different(f"words of {token.key} {_found(self.sought, token.text)}")
        if any(_opens(token.text, symbol, name) for symbol, name in self.seen["opened"]):
            raise Different
        if owner is not None:
            names = {token.piece.name} | (_written(token.piece) if token.piece.kind == "def" else set())
            if not self.asked.members.isdisjoint(names):
                raise Different(f"members {sorted(self.asked.members & names)}")


def _found(words: Words, text: str) -> set[str]:
    """Which of the words are in a text."""
    out = {part for part in words.anywhere if part in text}
    mentioned = set(_WORD.findall(text))
    out |= mentioned & words.words
    out |= {word for word in words.words - mentioned if not word.isidentifier() and has_word(text, word)}
    return out


def _opens(text: str, symbol: str, name: str) -> bool:
    head = text[:OPENING]
    return symbol in head and name in head


def _body(text: str) -> str:
    """A definition without the comments and empty lines behind it."""
    lines = text.split("\n")
    while lines and (not lines[-1].strip() or lines[-1].lstrip().startswith("#")):
        lines.pop()
    return "\n".join(lines)


def _for_types(test: ast.expr) -> bool:
    return (isinstance(test, ast.Name) and test.id == "TYPE_CHECKING") or (
        isinstance(test, ast.Attribute) and test.attr == "TYPE_CHECKING"
    )


def _is_import(node: ast.AST | None) -> bool:
    return isinstance(node, (ast.Import, ast.ImportFrom))


def _targets(node: ast.Assign | ast.AnnAssign) -> list[ast.expr]:
    return node.targets if isinstance(node, ast.Assign) else [node.target]


def _bound(token: _Token) -> Counter[str]:
    """The names that a definition or a statement at the top binds; twice where it may or may not do so."""
    if token.piece is not None:
        return Counter({token.piece.name: 1})
    out: Counter[str] = Counter()
    plain = isinstance(token.node, (ast.Assign, ast.AnnAssign, ast.Import, ast.ImportFrom))
    for node in ast.walk(token.node) if token.node is not None else ():
        if isinstance(node, ast.alias):
            out[(node.asname or node.name).split(".", 1)[0]] += 1
        elif isinstance(node, ast.Name) and isinstance(node.ctx, (ast.Store, ast.Del)):
            out[node.id] += 1
        elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            out[node.name] += 1
    return out if plain else out + out


def _imported(statement: str) -> set[str]:
    """The names that an import statement binds, wherever it stands."""
    try:
        node = pytext.parse(statement.strip()).body[0]
    except (SyntaxError, ValueError, IndexError):
        return set()
    names = getattr(node, "names", ())
    return {alias.asname or alias.name for alias in names}


__all__ = ["Asked", "Different", "Moved", "packed", "same_module", "same_text"]
