"""Modules and classes of the audited tree, as the evaluator sees them."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator
from typing import Any

from auditor.program import source, textual
from auditor.program.nodes import walk
from auditor.program.syntax import source_of
from auditor.program.values import ClassRef, Function, V
from auditor.program.words import Words

_FIELD_BASES = ("NamedTuple", "Struct", "BaseModel", "TypedDict")


class Module:
    """One file. ``globals`` is filled by executing its top level, on first use."""

    def __init__(self, name: str, path: str, data: bytes) -> None:
        self.name = name
        self.path = path
        self.is_package = path.endswith("__init__.py")
        self._text = source.bare(source.decode(data))
        self.segments = source.segments(self._text)
        for segment in self.segments:
            segment.looked = 0  # by nobody yet
        self.globals: dict[str, V] = {}
        self.places: dict[str, tuple[int, str]] = {}  # name -> (line, kind) of its binding
        self.heads: set[str] = set()  # see Frame.heads
        self.state = "new"  # new | running | done
        self.stars: list[str] = []
        self.imported: set[str] = set()  # names that an import statement binds
        self.aliases: dict[str, str] = {}  # imported name -> the other name it is bound to here
        self.poked: dict[str, bool] = {}  # attribute -> whether code other than methods assigns it
        self.hoisted: dict[str, Any] | None = None
        self._answers: dict[tuple[Any, ...], bool | tuple[str, ...]] = {}
        self._reassigned: dict[str, int] | None = None
        self._rebound: frozenset[str] | None = None
        self.forked = False  # whether a statement at the top is not run on all targets
        self.whole = False  # whether somebody has read all of the text
        self.sought: set[str] = set()  # words that were looked for in its pieces, see Words
        self.parts: set[str] = set()  # the same, for what is found inside longer words too
        self.opened: set[tuple[str, str]] = set()  # pairs of texts that were looked for at the head of pieces
        self.noted: set[tuple[object, ...]] = set()  # questions of auditor.program.same about its text

    @property
    def text(self) -> str:
        self.whole = True
        return self._text

    def ask(self, question: Callable[..., Any], *words: str) -> Any:
        """The answer of a function of :mod:`auditor.program.textual` about the text, which is noted."""
        self.noted.add((question.__name__, *words))
        return question(self._text, *words)

    def lines(self) -> list[str]:
        """The lines, for somebody who looks at those of top-level statements only."""
        return self._text.split("\n")

    def seek(self, words: Words) -> Words:
        """Note that words are looked for in the pieces by their :meth:`Segment.peek`."""
        self.sought |= words.words
        self.parts.update(words.anywhere)
        return words

    @property
    def package(self) -> str:
        return self.name if self.is_package else self.name.rpartition(".")[0]

    def rebound(self) -> frozenset[str]:
        """Top-level names that more than one statement binds."""
        if self._rebound is None:
            seen: set[str] = set()
            twice: set[str] = set()
            for segment in self.segments:
                names: list[str] = []
                if segment.kind != "other":
                    names = [segment.name]
                else:
                    for node in segment.nodes():
                        if isinstance(node, (ast.Import, ast.ImportFrom)):
                            names += [(a.asname or a.name).split(".", 1)[0] for a in node.names]
                        elif isinstance(node, ast.Assign):
                            names += [n.id for t in node.targets for n in walk(t) if isinstance(n, ast.Name)]
                        elif isinstance(node, (ast.AnnAssign, ast.AugAssign)):
                            if isinstance(node.target, ast.Name) and node.value is not None:
                                names.append(node.target.id)
                        elif not isinstance(node, ast.Expr):
                            inner = {
                                n.id
                                for n in walk(node)
                                if isinstance(n, ast.Name) and isinstance(n.ctx, (ast.Store, ast.Del))
                            }
                            twice |= inner  # bound under a condition: order matters
                for name in names:
                    (twice if name in seen else seen).add(name)
            self._rebound = frozenset(twice)
        return self._rebound

    def reassigned(self) -> dict[str, int]:
        """Module names that functions assign through ``global``, with the number of such functions."""
        if self._reassigned is None:
            self._reassigned = self.ask(textual.reassigned)
        return self._reassigned

    def mutated(self, name: str, deep: bool) -> bool:
        """Whether some function changes the container bound to a name, or where ``deep`` what it holds."""
        return bool(self._answer(textual.mutated, name, "deep" if deep else ""))

    def changes_attribute(self, name: str, deep: bool) -> bool | tuple[str, ...]:
        """Whether some function changes a container in an attribute, or where ``deep`` what it holds; or the
        imported functions that decide it."""
        return self._answer(textual.changes_attribute, name, "deep" if deep else "")

    def changes_parameters(self, function: str) -> bool | tuple[str, ...]:
        """Whether a function changes a container that it is given; or the imported ones that decide it."""
        return self._answer(textual.changes_parameters, function)

    def _answer(self, question: Callable[..., bool | tuple[str, ...]], *words: str) -> bool | tuple[str, ...]:
        key = (question, *words)
        hit = self._answers.get(key)
        if hit is None:
            hit = self._answers[key] = self.ask(question, *words)
        return hit


_WRITE = re.compile(
    r"self\.(\w+)[ \t]*(?:(?://|>>|<<|\*\*|[-+*/|&^%@])?=(?!=)|:[^=\n]+=(?!=)|(?P<more>,[^=\n()]*=(?!=)))"
)
#: Targets that take a parser: in brackets, of a loop or of ``with``.
_SPLIT_TARGET = re.compile(
    r"\)[ \t]*=(?!=)|^[ \t]*\[[^\n]*self\.[^\n]*\][ \t]*=(?!=)|\b(?:as|for)[ \t(\[]+self\.", re.M
)
_SETATTR = re.compile(r"__setattr__\(\s*self\s*,\s*[\"'](\w+)[\"']")


def written_names(segment: Any) -> set[str]:
    """Attributes of ``self`` that a method assigns, by its text where that is plain; statements whose targets
    stand in brackets or may be arguments of a call that began on another line are parsed."""
    segment.note("written")
    text = segment.peek()
    found = _written_by_text(text) if text and not _SPLIT_TARGET.search(text) else None
    if found is not None:
        return found
    out: set[str] = set()
    try:
        node = segment.node()
    except source.Irregular:
        return out
    for child in walk(node):
        if (
            isinstance(child, ast.Attribute)
            and isinstance(child.ctx, ast.Store)
            and isinstance(child.value, ast.Name)
            and child.value.id in ("self", "cls")
        ):
            out.add(child.attr)
    return out | set(_SETATTR.findall(text))


def _written_by_text(text: str) -> set[str] | None:
    out: set[str] = set(_SETATTR.findall(text)) if "__setattr__" in text else set()
    for match in _WRITE.finditer(text):
        if match.group("more") is not None:
            line = text.rfind("\n", 0, match.start()) + 1
            if "(" in text[line : match.start()]:
                continue  # a keyword argument, not a target
            return None
        out.add(match.group(1))
    return out


def attribute_values(segment: source.Segment) -> dict[str, list[ast.Constant | None]]:
    """Attribute of the first argument -> what a method assigns to it, by its syntax alone: constants, or None
    for anything else. Nobody has looked at the piece for it: whoever uses an entry notes it."""
    looked = segment.looked
    try:
        node: Any = segment.node()
    except source.Irregular:
        return {}
    finally:
        segment.looked = looked
    prefix = node.args.args[0].arg if node.args.args else "self"
    out: dict[str, list[ast.Constant | None]] = {}
    for child in ast.walk(node):
        targets: list[ast.expr] = []
        value: ast.expr | None = None
        if isinstance(child, ast.Assign):
            targets, value = child.targets, child.value
        elif isinstance(child, (ast.AnnAssign, ast.AugAssign)):
            targets, value = [child.target], child.value
        for target in targets:
            if (
                isinstance(target, ast.Attribute)
                and isinstance(target.value, ast.Name)
                and target.value.id == prefix
            ):
                plain = isinstance(value, ast.Constant) and not isinstance(child, ast.AugAssign)
                out.setdefault(target.attr, []).append(value if plain else None)  # type: ignore[arg-type]
    return out


class ClassInfo:
    """One class. Members are parsed and evaluated on demand."""

    def __init__(self, module: Module, name: str, qualname: str, segment: Any, program: Any) -> None:
        self.module = module
        self.name = name
        self.qualname = qualname
        self.segment = segment
        self.program = program
        self.functions: dict[str, Function] = {}
        self.inner: dict[str, ClassInfo] = {}
        self.statements: list[ast.stmt] = []
        self.fields: dict[str, ast.AnnAssign] = {}
        self._loaded = False
        self._bases: list[Any] | None = None
        self._mro: list[ClassInfo] | None = None
        self._decorators: list[str] | None = None
        self.namespace: dict[str, V] | None = None
        self.setters: set[str] = set()
        self._writes: dict[str, list[Function]] | None = None

    @property
    def fullname(self) -> str:
        return f"{self.module.name}.{self.qualname}"

    def node(self) -> ast.ClassDef:
        try:
            node: ast.ClassDef = self.segment.class_node()
        except source.Irregular:  # not to be parsed: a class of which nobody knows the bases
            line = self.segment.start
            base = ast.Constant(..., lineno=line, col_offset=0, end_lineno=line, end_col_offset=0)
            node = ast.ClassDef(self.name, [base], [], [], [], lineno=line, col_offset=0, end_lineno=line)
        return node

    def load(self) -> None:
        """Sort the members into methods, inner classes and other statements."""
        if self._loaded:
            return
        self._loaded = True
        try:
            self._sort(self.segment.members())
        except source.Irregular:  # its bases are not known then: nothing counts as missing in it
            what = f"{self.qualname} does not parse; its gates may be missing"
            self.program.problems.setdefault(self.module.path, (self.segment.start, what))

    def _sort(self, members: list[source.Segment]) -> None:
        for member in members:
            if member.kind == "def":
                name = member.name
                if name in self.functions:
                    # property setters and overloads redefine a name: keep the first that is a getter
                    head = member.text
                    if ".setter" in head or ".deleter" in head:
                        self.setters.add(name)
                        continue
                self.functions[name] = Function(
                    self.module, name, f"{self.qualname}.{name}", member, self, None
                )
            elif member.kind == "class":
                self.inner[member.name] = ClassInfo(
                    self.module, member.name, f"{self.qualname}.{member.name}", member, self.program
                )
            else:
                for statement in member.nodes():
                    self.statements.append(statement)
                    if isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
                        self.fields[statement.target.id] = statement

    def writes(self) -> dict[str, list[Function]]:
        """Attribute name -> methods that assign it on their first argument, by their text."""
        if self._writes is None:
            self.load()
            self._writes = {}
            for function in self.functions.values():
                for name in sorted(written_names(function.segment)):
                    self._writes.setdefault(name, []).append(function)
        return self._writes

    def base_names(self) -> list[str]:
        """Last component of every base expression."""
        out = []
        for base in self.node().bases:
            while isinstance(base, ast.Subscript):
                base = base.value
            if isinstance(base, ast.Attribute):
                out.append(base.attr)
            elif isinstance(base, ast.Name):
                out.append(base.id)
        return out

    def decorators(self) -> list[str]:
        if self._decorators is None:
            self._decorators = []
            for deco in self.node().decorator_list:
                target = deco.func if isinstance(deco, ast.Call) else deco
                self._decorators.append(source_of(target).rpartition(".")[2])
        return self._decorators

    def mro(self) -> list[ClassInfo]:
        """This class and its bases inside the tree, nearest first."""
        if self._mro is None:
            self._mro = [self]
            for base in self.bases():
                if isinstance(base, ClassInfo) and base is not self:
                    for info in base.mro():
                        if info not in self._mro:
                            self._mro.append(info)
        return self._mro

    def bases(self) -> list[Any]:
        if self._bases is None:
            self._bases = []
            self._bases = self.program.evaluate_bases(self)
        return self._bases

    def closed(self) -> bool:
        """Whether all bases are known (so that a missing attribute is really missing)."""
        return all(isinstance(b, ClassInfo) or b == "object" for info in self.mro() for b in info.bases())

    def find(self, name: str) -> tuple[ClassInfo, Any] | None:
        """The method or inner class of that name, along the bases."""
        self.program.watch.members.add(name)
        for info in self.mro():
            info.load()
            if name in info.functions:
                return info, info.functions[name]
            if name in info.inner:
                return info, info.inner[name]
        return None

    def has_truth_method(self) -> bool:
        return self.find("__bool__") is not None or self.find("__len__") is not None

    def is_enum(self) -> bool:
        return any(
            n in ("Enum", "IntEnum", "StrEnum", "Flag", "IntFlag") or n.endswith("Enum")
            for info in self.mro()
            for n in info.base_names()
        )

    def is_record(self) -> bool:
        """Whether annotated names are constructor parameters (dataclass, NamedTuple, Struct, ...)."""
        for info in self.mro():
            if "dataclass" in info.decorators() or any(n in _FIELD_BASES for n in info.base_names()):
                return True
        return False

    def is_frozen(self) -> bool:
        """Whether nothing can set an attribute of its objects: a frozen dataclass, a NamedTuple."""
        if self.is_named_tuple():
            return True
        return any(
            isinstance(deco, ast.Call)
            and source_of(deco.func).rpartition(".")[2] == "dataclass"
            and any(k.arg == "frozen" and getattr(k.value, "value", None) is True for k in deco.keywords)
            for deco in self.node().decorator_list
        )

    def is_named_tuple(self) -> bool:
        return any("NamedTuple" in info.base_names() for info in self.mro())

    def record_fields(self) -> list[tuple[str, ast.AnnAssign, ClassInfo]]:
        """Constructor fields in order, bases first."""
        out: dict[str, tuple[str, ast.AnnAssign, ClassInfo]] = {}
        for info in reversed(self.mro()):
            info.load()
            for name, node in info.fields.items():
                text = source_of(node.annotation)
                if "ClassVar" in text or "InitVar" in text:
                    continue
                out[name] = (name, node, info)
        return list(out.values())


def functions_of(module: Module, wanted: Callable[[source.Segment], Any]) -> Iterator[Function]:
    """The functions and the methods of classes in the wanted parts of a module that has been executed. Inner
    classes, and classes that cannot be read, are left out."""
    for segment in module.segments:
        if segment.kind == "other" or not wanted(segment):
            continue
        if segment.kind == "def":
            yield Function(module, segment.name, segment.name, segment, None, None)
            continue
        value = module.globals.get(segment.name)
        if value is not None and isinstance(value.one, ClassRef):
            try:
                value.one.info.load()
            except source.Irregular:
                continue
            yield from value.one.info.functions.values()
