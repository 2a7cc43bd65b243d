"""The audited tree as a program: modules on demand, what names mean, and discovery of gates.

Discovery works in rounds. The first round visits every statement whose text names a root. A visit runs
the statement's code on all targets at once and reports conditions whose value depends on a root; it also
learns which names (functions, constants, attributes) carry such a value. Each later round visits the
statements that mention a newly learned name, in the files that can see it. So the vocabulary comes from
the tree alone.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from auditor.program import externals, textual
from auditor.program.classes import ClassInfo, Module
from auditor.program.frames import Frame
from auditor.program.imports import imported_modules
from auditor.program.modules import STEPS
from auditor.program.records import Learned
from auditor.program.source import Irregular, Segment
from auditor.program.syntax import source_of
from auditor.program.values import (
    ClassRef,
    Deferred,
    Function,
    Instance,
    Map,
    Partial,
)
from auditor.program.visiting import SHORT, Visiting
from auditor.program.words import Words


class Program(Visiting):
    """A tree with a profile, evaluated for a list of targets under assumptions.

    ``files`` maps each Python path of the package to its bytes; ``root`` is the source root below which
    module names start. ``capabilities`` and ``shared`` describe the targets in order.
    """

    @property
    def index(self) -> dict[str, set[str]]:
        if self._index is None:
            self._index = self._import_index()
        return self._index

    def discover(self) -> None:
        """Visit everything that can depend on a root, to the fixpoint."""
        index = self.index
        first = [
            path
            for path in self.paths
            if any(word in data for data in (self.peek(path),) for word in externals.ROOT_WORDS)
        ]
        pattern = Words((), [w.decode() for w in externals.ROOT_WORDS])
        self._round({path: pattern for path in first})
        rounds = 0
        while rounds < 60:
            if not (self.fresh or self.revisit or self.asides or self._later):
                self.learn_helpers()
                if not self.fresh:
                    break
            rounds += 1
            for function in self.revisit.values():
                if not self.is_excluded(function.module.path):
                    self._later[(function.module.path, function.segment.start)] = function
            self.revisit = {}
            self.visit_again(index)
            if not self.fresh:
                # all names that short functions and constants carry are known: now the long ones
                later, self._later = self._later, {}
                for key, function in later.items():
                    self.visit(function, key)
                    if function.segment.has_text:
                        function.segment.forget()
            fresh, self.fresh = self.fresh, []
            wanted: dict[str, set[str]] = {}
            for entry in fresh:
                if entry.module is None or entry.short.startswith("<"):
                    continue
                self._hot_words.add(entry.short)
                for path in self.readers(entry, index):
                    wanted.setdefault(path, set()).add(entry.short)
            self._forget_callers(
                {e.short for e in fresh if e.module is not None and not e.short.startswith("<")}
            )
            self._round({path: Words(names) for path, names in sorted(wanted.items())})

    def learn_helpers(self) -> None:
        """What every predicate helper means that nobody calls: those made with ``partial`` beside the ones
        that are read, and functions without required parameters that ask the GPU."""
        for module in list(self._modules.values()):
            if module is None or module.state != "done":
                continue
            if not any(e.module is module for e in self.learned.values()):
                continue
            frame = self.module_frame(module)
            for name, value in list(module.globals.items()):
                if type(value.one) is Deferred:
                    text = source_of(value.one.node)
                    if "partial" not in text and not self.hot_pattern().search(text):
                        continue
                    value = self.force(module, name, value.one)
                if isinstance(value.one, Partial) and f"{module.name}.{name}" not in self.learned:
                    self.steps = STEPS
                    called = self.call(value, [], {}, frame)
                    if called.roots:
                        line = module.places.get(name, (1, ""))[0]
                        self.learn(f"{module.name}.{name}", module, name, line, "function", called)

        self._learn_looked_up()

    def _learn_looked_up(self) -> None:
        """Names that an object answers from a table, ``{"is_new": "is_new_supported"}``: where one of them
        was met, the others lead to the GPU too, also where they stand beside no learned name."""
        helpers = {e.short for e in self.learned.values() if e.kind == "function"}
        for module in list(self._modules.values()):
            if module is None or module.state != "done":
                continue
            values = [value.one for value in module.globals.values()]
            tables = [table for table in values if isinstance(table, Map)]
            keys = sorted(
                {
                    key
                    for table in tables
                    for key, text in table.items.items()
                    if isinstance(key, str) and isinstance(text, str) and text in helpers
                }
            )
            for this in values if keys else ():
                if isinstance(this, Instance) and this.info.find("__getattr__") is not None:
                    for key in keys:
                        self.steps = STEPS
                        self.attribute_of(this, key, self.module_frame(module))

    def forget_trees(self) -> None:
        """Drop syntax trees that can be parsed again: what follows discovery looks at few of them."""
        for module in self._modules.values():
            for segment in module.segments if module is not None else ():
                for piece in _pieces(segment):
                    if piece.has_text:
                        piece.forget()

    def _forget_callers(self, words: set[str]) -> None:
        """Drop remembered results of functions that mention a newly learned name."""
        if not words or not self.memo_names:
            return
        needle = Words(words)
        for module in self._modules.values():
            if module is None:
                continue
            for segment in module.segments:
                for piece in _pieces(segment):
                    keys = self.memo_names.get(piece.serial)
                    if keys and needle.search(piece.peek()):
                        for k in keys:
                            self._memo.pop(k, None)
                        self.memo_names[piece.serial] = []

    def _import_index(self) -> dict[str, set[str]]:
        """module name -> paths of the files that import it."""
        index: dict[str, set[str]] = {}
        package = self.profile.package.encode()
        for path, name in self.paths.items():
            data = self.peek(path)
            if b"import *" in data:
                self._star_files.add(path)
            if textual.answers_by_name(data):
                self._lazy_files.append(path)
            for target in imported_modules(data, name, path.endswith("__init__.py"), package):
                index.setdefault(target, set()).add(path)
        return index

    def readers(self, entry: Learned, index: dict[str, set[str]]) -> set[str]:
        """Files that can mention a learned name: importers of its module, and of what re-exports it."""
        word = entry.short.encode()
        if entry.kind in ("attribute", "method", "property", "classmethod"):
            return self._attribute_readers(entry, index)
        found: set[str] = set()
        if len(entry.short) < 2 or entry.short == "__":
            return found
        todo = [entry.module.name]
        done = set(todo)
        home = entry.module.path
        if home in self.files:
            found.add(home)
        for path in self._lazy_files:
            # a package that hands on by ``__getattr__`` what its table names
            if self.watch.ask(path, textual.quotes, entry.short):
                done.add(self.paths[path])
                todo.append(self.paths[path])
        while todo:
            provider = todo.pop()
            by_name = index.get(f"{provider}.{entry.short}", set())
            for path in index.get(provider, set()) | by_name:
                star = path in self._star_files
                if path not in by_name and word not in self.peek(path):
                    if not (star and path.endswith("__init__.py")):
                        continue
                elif path not in found:
                    found.add(path)
                if path in by_name or star:
                    # the name is bound here too, so files can import it from here
                    name = self.paths[path]
                    if name not in done:
                        done.add(name)
                        todo.append(name)
        self.watch.readers.add((entry.short, "", frozenset(done)))
        return found

    def _attribute_readers(self, entry: Learned, index: dict[str, set[str]]) -> set[str]:
        """Files that can read an attribute: the class's own, and those that name the class."""
        owner = entry.name.rpartition(".")[0].rpartition(".")[2]
        if owner in self._argument_classes:
            return {entry.module.path}
        word, holder = entry.short.encode(), owner.encode()
        found = {entry.module.path}
        public = entry.kind != "attribute"  # read through objects that other files get from a function
        sources = [entry.module.name]
        for path in index.get(entry.module.name, ()):
            if path.endswith("__init__.py"):
                sources.append(self.paths[path])
        self.watch.readers.add((entry.short, "" if public else owner, frozenset(sources)))
        for source in sources:
            for path in index.get(source, ()):
                data = self.peek(path)
                if word in data and (public or holder in data):
                    found.add(path)
        return found & set(self.paths)

    def _round(self, wanted: dict[str, Words]) -> None:
        for path, pattern in wanted.items():
            name = self.paths[path]
            module = self.module(name)
            if module is None:
                continue
            self.execute(module)
            if self.is_excluded(path):
                continue
            if module.aliases:
                extra = [a for n, a in module.aliases.items() if n in self._hot_words]
                if extra:
                    pattern = pattern.together_with(extra)
            self.force_matching(module, module.seek(pattern))
            for segment in module.segments:
                if segment.kind == "other":
                    continue
                if segment.has_text and not pattern.search(segment.peek()):
                    continue
                if segment.kind == "def":
                    value = module.globals.get(segment.name)
                    function = value.one if value is not None else None
                    if not isinstance(function, Function) or function.segment is not segment:
                        function = Function(module, segment.name, segment.name, segment, None, None)
                    self._visit_in_turn(function, (path, segment.start))
                elif segment.kind == "class":
                    self._visit_class(module, path, segment, pattern)
            nested = self._module_nested.pop(name, None)
            if nested:
                saved = self.sink, self.seen_nodes
                self.sink, self.seen_nodes = [], set()
                frame = Frame(module, module.globals, full=self.full, kind="module")
                self._visit_nested(nested, frame)
                self._flush(("nested", name), self.sink)
                self.sink, self.seen_nodes = saved

    def _visit_in_turn(self, function: Function, key: tuple[str, Any]) -> None:
        """Short functions are visited at once, long ones when no more names are learned from short ones."""
        if function.segment.longer(SHORT):
            self._later[key] = function
        else:
            self.visit(function, key)

    def _visit_class(self, module: Module, path: str, segment: Segment, pattern: Words) -> None:
        value = module.globals.get(segment.name)
        info = value.one.info if value is not None and isinstance(value.one, ClassRef) else None
        if info is None or info.segment is not segment:
            return
        try:
            self._visit_info(info, path, pattern)
        except Irregular:
            return

    def _visit_info(self, info: ClassInfo, path: str, pattern: Words) -> None:
        info.load()
        saved = self.sink, self.seen_nodes
        if info.namespace is None and any(s for s in info.statements):
            self.sink, self.seen_nodes = [], set()
            self.namespace(info)
            self._flush((path, -info.segment.start), self.sink)
            self.sink, self.seen_nodes = saved
        for function in list(info.functions.values()):
            if function.segment.has_text and not pattern.search(function.segment.peek()):
                continue
            self._visit_in_turn(function, (path, function.segment.start))
        for inner in info.inner.values():
            self._visit_info(inner, path, pattern)


def _pieces(segment: Segment) -> Iterable[Segment]:
    if segment.kind == "class":
        members = segment._members
        return [m for member in (members or ()) for m in _pieces(member)]
    return [segment]
