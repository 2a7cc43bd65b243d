"""Whether a function can be entered on a target at all, from those who name it.

A call graph by name, bounded: functions and classes are looked for in the files that can see them, methods
that start with ``_`` in the files of their class, its bases and those that derive from it. Who is registered
under a key, has no caller in the tree, or has too many is taken to be reachable, and the reason says so. A
target is left out only where everybody who names a function is known and none of them gets there on it.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

from auditor.native.reach.points import Mention, Points, key_of
from auditor.native.reach.ways import NOWHERE, Way, both, either, free, narrowed, wanted
from auditor.program import textual
from auditor.program.classes import ClassInfo, Module
from auditor.program.program import Program
from auditor.program.records import Learned
from auditor.program.source import OPENING, Irregular, Segment
from auditor.program.values import ClassRef, Function, Pending, V, is_const
from auditor.program.words import Words, has_word

#: How far callers of callers are followed.
HOPS = 6
#: Functions run for one question about a tree.
RUNS = 600
#: More ways into a function than this are not told apart by what they pass.
MANY_CONTEXTS = 6
FAR = 1 << 30
#: Methods that need no finished object.
_BEFORE = frozenset({"__init__", "__new__", "__init_subclass__", "__class_getitem__"})
_PASSED_THROUGH = frozenset(
    "staticmethod classmethod property cached_property lru_cache cache wraps no_grad inference_mode compile "
    "abstractmethod override contextmanager dataclass".split()
)


class Caller(NamedTuple):
    """A place that names a function or class."""

    path: str
    function: Function | None  # None at the top of a module or class
    node: ast.expr
    may: int
    because: frozenset[str]
    wants: tuple[tuple[str, ...], ...] = ()  # for each: one of these has to be chosen


class Context(NamedTuple):
    """A way into a function with the parameters that are constants on it."""

    way: Way
    given: dict[str, V]


class Reach:
    """Answers for the functions of one program."""

    def __init__(self, program: Program, points: Points) -> None:
        self.program = program
        self.points = points
        self.full = program.full
        self.runs = RUNS
        self._ways: dict[str, Way] = {}
        self._open: list[str] = []
        self._families: dict[int, list[str]] = {}
        self._known_contexts: dict[int, list[Context] | None] = {}
        self.counts: Callable[[Caller], bool] = lambda _caller: True  # for ways that are told apart
        self.is_setting: Callable[[str], bool] = lambda _name: False
        self._cut = FAR  # index of the outermost open question that the answer under way leans on

    # -- answers -----------------------------------------------------------------------------------

    def of(self, function: Function) -> Way:
        """How a function is come to."""
        if function.owner is None:
            return self._answer(key_of(function), lambda: self._plain(function))
        return self._answer(key_of(function), lambda: self._method(function))

    def _answer(self, key: str, compute: Any) -> Way:
        known = self._ways.get(key)
        if known is not None:
            return known
        if key in self._open:
            self._cut = min(self._cut, self._open.index(key))
            return NOWHERE
        if len(self._open) >= HOPS:
            return free(self.full, (f"more than {HOPS} calls away",))
        depth = len(self._open)
        outer, self._cut = self._cut, FAR
        self._open.append(key)
        try:
            way: Way = compute()
        finally:
            self._open.pop()
        if self._cut >= depth:
            self._ways[key] = way  # it leans on nothing that is still open
            self._cut = FAR
        self._cut = min(outer, self._cut)
        return way

    def _plain(self, function: Function) -> Way:
        registered = self.registered(function)
        if registered:
            return Way((((registered,), self.full),))
        way, named = self._from(self.callers(function), None)
        return way if named else free(self.full, (f"no caller of {function.name} in the tree",))

    def _method(self, function: Function) -> Way:
        info: ClassInfo = function.owner
        whole = self._class(info)
        if function.name not in _BEFORE and function.kind not in ("staticmethod", "classmethod"):
            whole = narrowed(whole, self._built(info))
        if not whole.may or not function.name.startswith("_") or function.name.startswith("__"):
            return whole  # others may call it on an object that they were given
        way, named = self._from(self.method_callers(function), None)
        return both(whole, way) if named else whole

    def _built(self, info: ClassInfo) -> int:
        """Targets on which an object of a class that has this one's methods can come to be: all of them where
        a derived class makes its objects otherwise."""
        init = info.functions.get("__init__")
        if init is None:
            return self.full
        declared, todo, seen = self.program.class_statements(), [info.name], {info.name}
        while todo:
            name = todo.pop()
            self.program.watch.bases.add(name)
            for child, path in declared.get(name, ()):
                module = self.program.module(self.program.paths[path])
                for segment in module.segments if module is not None else ():
                    own = segment.kind == "class" and segment.name == child
                    if own and "def __init__(" in segment.text and "super().__init__(" not in segment.text:
                        return self.full
                if child not in seen:
                    seen.add(child)
                    todo.append(child)
        return self.points.weighed(init, ()).done

    def _class(self, info: ClassInfo) -> Way:
        return self._answer(key_of(ClassRef(info)), lambda: self._named_class(info))

    def _named_class(self, info: ClassInfo) -> Way:
        way, named = self._from(self.callers_of_class(info), info)
        return way if named else free(self.full, (f"no caller of {info.name} in the tree",))

    def _from(self, callers: Iterator[Caller], inside: ClassInfo | None) -> tuple[Way, bool]:
        """The ways through callers, and whether there are any. Stops where nothing can be added."""
        ways: list[Way] = []
        named = False
        for caller in callers:
            if inside is not None and caller.function is not None and caller.function.owner is inside:
                continue  # its own methods name it once it is there
            named = True
            ways.append(self._through(caller))
            if ways[-1].covers(self.full):
                break
        return either(ways), named

    def _through(self, caller: Caller) -> Way:
        way = free(caller.may)
        if caller.function is not None and caller.may:
            way = narrowed(self.of(caller.function), caller.may)
        for names in caller.wants:
            way = narrowed(way, self.full, names)
        return way

    # -- with what -----------------------------------------------------------------------------------

    def contexts(self, function: Function) -> list[Context] | None:
        """The ways into a function that pass it different constants; None where they cannot all be told.

        Parameters for which some way passes something open are left out of that way.
        """
        return self._contexts(function, 0)

    def _contexts(self, function: Function, depth: int) -> list[Context] | None:
        serial = function.segment.serial
        if serial in self._known_contexts:
            return self._known_contexts[serial]
        self._known_contexts[serial] = None  # for those who call themselves
        callers = self._all_callers(function)
        if not callers:
            return None
        found: dict[tuple[Any, ...], Context] = {}
        for caller in callers:
            if not self.counts(caller):
                continue
            for context in self._passing(function, caller, depth):
                given = context.given
                key = tuple((name, repr(value.scalars())) for name, value in sorted(given.items()))
                old = found.get(key)
                way = either([old.way, context.way]) if old is not None else context.way
                found[key] = Context(way, given)
            if len(found) > MANY_CONTEXTS:
                return None
        self._known_contexts[serial] = list(found.values())
        return self._known_contexts[serial]

    def _passing(self, function: Function, caller: Caller, depth: int) -> list[Context]:
        """The ways through one caller. What it hands on from its own parameters is looked up there."""
        way = self._through(caller)
        if not way.may:
            return []
        given = self._given(function, caller, way.may)
        handed = {n: v for n, v in given.items() if isinstance(v, str)}
        given = {n: v for n, v in given.items() if not isinstance(v, str)}
        if handed and caller.function is not None and depth < 3:
            outer = self._contexts(caller.function, depth + 1)
            if outer and any(name in c.given for c in outer for name in handed.values()):
                return [
                    Context(
                        both(way, c.way),
                        given | {n: c.given[p] for n, p in handed.items() if p in c.given},
                    )
                    for c in outer
                    if way.may & c.way.may
                ]
        return [Context(way, given)]

    def _all_callers(self, function: Function) -> list[Caller] | None:
        if self.registered(function) or _decorators(function.segment):
            return None
        if function.owner is None:
            return list(self.callers(function))
        if function.name == "__init__":
            return list(self.callers_of_class(function.owner))
        if function.name.startswith("_") and not function.name.startswith("__"):
            return list(self.method_callers(function))
        return None

    def _given(self, function: Function, caller: Caller, mask: int) -> dict[str, Any]:
        """Parameters that are constants on all targets of a way; a text is the caller's own parameter that is
        handed on."""
        if caller.function is None:
            return {}
        passed = self.points.arguments(caller.function, caller.node)
        node: Any = function.segment.node()
        spec = node.args
        if passed is None or spec.vararg is not None:
            return {}
        names = [a.arg for a in (*spec.posonlyargs, *spec.args)]
        defaults = dict(zip(names[len(names) - len(spec.defaults) :], spec.defaults))
        defaults.update({a.arg: d for a, d in zip(spec.kwonlyargs, spec.kw_defaults) if d is not None})
        if function.owner is not None and function.kind != "staticmethod":
            names = names[1:]
        out: dict[str, Any] = {n: V(d.value) for n, d in defaults.items() if isinstance(d, ast.Constant)}
        for name, value in (*zip(names, passed[0]), *passed[1].items()):
            out.pop(name, None)
            if isinstance(value, str):
                out[name] = value
            elif all(is_const(value.at(i)) for i in range(self.program.count) if mask >> i & 1):
                out[name] = value
        return out

    # -- who names it --------------------------------------------------------------------------------

    def registered(self, function: Function) -> str:
        """The decorator that hands a function to a registry, or ""."""
        for decorator in _decorators(function.segment):
            call = decorator if isinstance(decorator, ast.Call) else None
            name = ast.unparse(call.func if call else decorator)
            if name.rpartition(".")[2] in _PASSED_THROUGH:
                continue
            first = call.args[0] if call and call.args else None
            if isinstance(first, ast.Constant) and isinstance(first.value, str) and "custom_op" not in name:
                return first.value
        return ""

    def refused(self, name: str, registries: Iterable[tuple[str, str]]) -> int:
        """Targets on which every function that a decorator registers under a name raises."""
        done, found = 0, False
        for module_name, symbol in registries:
            module = self.program.module(module_name) if module_name in self.program.names else None
            if module is None:
                continue
            entry = Learned(f"{module_name}.{symbol}", module, symbol, 1, "function", V(None))
            for path in sorted(self.program.readers(entry, self.program.index)):
                for function in self._registered_in(path, symbol, name):
                    found = True
                    done |= self.points.weighed(function, ()).done
        return self.full & ~done if found else 0

    def _registered_in(self, path: str, symbol: str, name: str) -> Iterator[Function]:
        module = self.program.module(self.program.paths[path])
        if module is not None:
            module.opened.add((symbol, name))
        for segment in module.segments if module is not None else ():
            head = segment.peek()[:OPENING]
            if segment.kind == "def" and symbol in head and name in head:
                assert module is not None
                self.program.execute(module)
                function = Function(module, segment.name, segment.name, segment, None, None)
                if self.registered(function) == name:
                    yield function

    def callers(self, function: Function) -> Iterator[Caller]:
        """Who names a function of a module."""
        return self._named(function.module, function.name, key_of(function), None)

    def callers_of_class(self, info: ClassInfo) -> Iterator[Caller]:
        """Who names a class, classes that derive from it included."""
        return self._named(info.module, info.name, key_of(ClassRef(info)), info)

    def _named(self, module: Module, name: str, key: str, info: ClassInfo | None) -> Iterator[Caller]:
        entry = Learned(f"{module.name}.{name}", module, name, 1, "function", V(None))
        paths = sorted(self.program.readers(entry, self.program.index))
        paths.sort(key=lambda path: (path == module.path, path))
        for path in paths:
            if not self.program.is_excluded(path):
                yield from self._in_file(path, name, key, info)
                if self.runs < 0:
                    yield self._anybody(path)
                    return

    def _anybody(self, path: str) -> Caller:
        return Caller(path, None, ast.Constant(None), self.full, frozenset())

    def method_callers(self, function: Function) -> Iterator[Caller]:
        """Who calls a method whose name starts with ``_``: code of its class, of its bases, and of the
        classes that derive from it."""
        for path in self._family(function.owner):
            held = self.program.watch.ask(path, textual.holds, "." + function.name)
            if held and not self.program.is_excluded(path):
                yield from self._in_file(path, function.name, key_of(function), None, attribute=True)
            if self.runs < 0:
                yield self._anybody(path)
                return

    def _family(self, info: ClassInfo) -> list[str]:
        """The files that hold a class, its bases and the classes that derive from it by name."""
        key = info.segment.serial
        if key not in self._families:
            program = self.program
            paths = {base.module.path for base in info.mro()}
            declared = program.class_statements()
            todo, seen = [info.name], {info.name}
            while todo:
                base = todo.pop()
                program.watch.bases.add(base)
                for child, path in declared.get(base, ()):
                    paths.add(path)
                    if child not in seen:
                        seen.add(child)
                        todo.append(child)
            self._families[key] = sorted(paths)
        return self._families[key]

    def _in_file(
        self, path: str, name: str, key: str, info: ClassInfo | None, attribute: bool = False
    ) -> Iterator[Caller]:
        program = self.program
        module = program.module(program.paths[path])
        if module is None:
            return
        program.execute(module)
        names = {name}
        if not attribute:
            names.update(module.ask(textual.bound_as, name))
        module.seek(Words(names))
        for word in sorted(names):
            for segment in module.segments:
                if not has_word(segment.peek(), word):
                    continue
                if segment.kind == "other":
                    for node, other, mask, statement in self.points.top_mentions(module, word):
                        if attribute or self._fits(other, key):
                            keyed = self._keyed(_table_key(statement, node))
                            yield Caller(path, None, node, mask, frozenset(), keyed)
                    continue
                yield from self._in_segment(module, path, segment, word, key, info, attribute)

    def _in_segment(
        self,
        module: Module,
        path: str,
        segment: Segment,
        name: str,
        key: str,
        info: ClassInfo | None,
        attribute: bool,
    ) -> Iterator[Caller]:
        value = module.globals.get(segment.name)
        scalar = value.one if value is not None else None
        if segment.kind == "def":
            function = scalar if isinstance(scalar, Function) and scalar.segment is segment else None
            if function is None:
                function = Function(module, segment.name, segment.name, segment, None, None)
            yield from self._in_function(path, function, name, key, attribute)
            return
        if not isinstance(scalar, ClassRef) or scalar.info.segment is not segment:
            return
        yield from self._in_class(path, scalar.info, name, key, info, attribute)

    def _in_class(
        self, path: str, holder: ClassInfo, name: str, key: str, info: ClassInfo | None, attribute: bool
    ) -> Iterator[Caller]:
        try:
            holder.load()
            bases = holder.node().bases
        except Irregular:
            return
        for base in bases if info is not None and holder is not info else ():
            if any(isinstance(n, (ast.Name, ast.Attribute)) and _last(n) == name for n in ast.walk(base)):
                way = self._class(holder)
                for names, mask in way.paths:
                    yield Caller(path, None, base, mask, way.because, tuple((n,) for n in names))
        for statement in holder.statements:
            read: ast.AST | None = statement
            if isinstance(statement, ast.AnnAssign):
                read = statement.value  # an annotation makes nothing
            for node in ast.walk(read) if read is not None else ():
                if isinstance(node, (ast.Name, ast.Attribute)) and _last(node) == name:
                    yield Caller(
                        path, None, node, self.full, frozenset(), self._keyed(_table_key(statement, node))
                    )
        for function in list(holder.functions.values()):
            if not function.segment.has_text or has_word(function.segment.peek(), name):
                yield from self._in_function(path, function, name, key, attribute)
        for inner in holder.inner.values():
            yield from self._in_class(path, inner, name, key, info, attribute)

    def _in_function(
        self, path: str, function: Function, name: str, key: str, attribute: bool
    ) -> Iterator[Caller]:
        self.runs -= 1
        for decorator in _decorators(function.segment):
            if any(_last(n) == name for n in ast.walk(decorator) if isinstance(n, (ast.Name, ast.Attribute))):
                yield Caller(path, None, decorator, self.full, frozenset())
        ran = self.points.weighed(function, (name,))
        for mention in ran.mentions:
            if mention.word != name or (attribute and not isinstance(mention.node, ast.Attribute)):
                continue
            mask = self._mask(mention, key, attribute)
            if mask:
                wants = self.wants(function, mention)
                may = mention.may & mask & self.points.implied(function, mention.node)
                yield Caller(path, function, mention.node, may, mention.because, wants)

    def wants(self, function: Function, mention: Mention) -> tuple[tuple[str, ...], ...]:
        """What has to be chosen for a mention: the key of a table, the text that a setting has to equal."""
        ran = self.points.seen(function)
        if ran.node is None:
            return ()
        sketch = self.points.sketch(function, ran.node)
        out = list(self._keyed(sketch.keys.get(id(mention.node), "")))
        for test, holds in sketch.tests_around(mention.node):
            names = wanted(test, sketch.values) if holds else ()
            open_ = ran.tests.get(id(test), (self.full, self.full))[1] & mention.may
            if names and open_ and all(self.is_setting(name) for name in names):
                out.append(names)
        return tuple(out)

    def _keyed(self, key: str) -> tuple[tuple[str, ...], ...]:
        """What has to be chosen for a value of a table: its key, where that is a value of some setting."""
        return ((key,),) if key and self.is_setting(key) else ()

    def _mask(self, mention: Mention, key: str, attribute: bool) -> int:
        """Targets on which a mention may stand for what is looked for."""
        if not mention.keys:
            return self.full
        mask = 0
        for other, targets in mention.keys:
            if self._fits(other, key, attribute):
                mask |= targets
        known = 0
        for _other, targets in mention.keys:
            known |= targets
        return mask | (self.full & ~known)

    def _fits(self, other: str, key: str, attribute: bool = False) -> bool:
        if other == key or not other:
            return True
        kind, module, name = (*other.split(":", 2), "", "")[:3]
        if kind == "imp" and name:
            return key_of(self.program.resolve(Pending(module, name)).one) in (key, "")
        if kind == "fn" and attribute:
            return self._related(other, key)
        return False

    def _related(self, other: str, key: str) -> bool:
        """Whether two methods may be one overriding the other: their classes share a line of bases."""
        mine, yours = self._holder(key), self._holder(other)
        if mine is None or yours is None:
            return True
        return mine in yours.mro() or yours in mine.mro()

    def _holder(self, key: str) -> ClassInfo | None:
        _kind, module, qualname = key.split(":", 2)
        found = self.program.module(module)
        value = found.globals.get(qualname.split(".", 1)[0]) if found is not None else None
        if value is not None and isinstance(value.one, ClassRef) and qualname.count(".") == 1:
            info: ClassInfo = value.one.info
            return info
        return None


def _decorators(segment: Segment) -> list[ast.expr]:
    found = segment.decorators()
    if found is not None:
        return found
    try:
        node: Any = segment.node()
    except Irregular:
        return []
    return list(node.decorator_list)


def _table_key(root: ast.AST, node: ast.AST) -> str:
    """The key under which a node is a value of a table written out in a statement, or ""."""
    for table in ast.walk(root):
        if isinstance(table, ast.Dict):
            for key, value in zip(table.keys, table.values):
                if value is node and isinstance(key, ast.Constant) and isinstance(key.value, str):
                    return key.value
    return ""


def _last(node: ast.AST) -> str:
    return node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else ""


__all__ = ["Caller", "Reach", "Way"]
