"""The audited tree as a program: modules on demand, what names mean, and discovery of gates.

Discovery works in rounds. The first round visits every statement whose text names a root. A visit runs
the statement's code on all targets at once and reports conditions whose value depends on a root; it also
learns which names (functions, constants, attributes) carry such a value. Each later round visits the
statements that mention a newly learned name, in the files that can see it. So the vocabulary comes from
the tree alone.
"""

from __future__ import annotations

import ast
import copy
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from auditor.program import externals
from auditor.program.calls import BIG_FUNCTION
from auditor.program.classes import ClassInfo, Module, written_names
from auditor.program.flow import Flow, stores
from auditor.program.frames import Frame
from auditor.program.imports import imported_modules
from auditor.program.nodes import walk
from auditor.program.source import Irregular, Segment, Unparsable
from auditor.program.values import (
    EMPTY,
    ClassRef,
    Deferred,
    Function,
    Instance,
    Partial,
    Pending,
    Seq,
    Unknown,
    V,
    all_reasons,
    is_const,
    join_scalars,
    unknown,
)
from auditor.program.watch import Watched, class_statements
from auditor.program.words import Words

STEPS = 400_000
SHORT = 1200  # bytes of source of a function that is likely a predicate rather than work


class Learned:
    """A name of the tree whose value depends on a root."""

    __slots__ = ("name", "module", "line", "kind", "value", "short")

    def __init__(self, name: str, module: Any, short: str, line: int, kind: str, value: V) -> None:
        self.name = name
        self.module = module
        self.short = short
        self.line = line
        self.kind = kind
        self.value = value


@dataclass
class RawGate:
    """A gate as it is met: nodes and masks, to be turned into a report entry at once.

    ``body``, ``orelse`` and ``rest`` (what follows in the block) are the statements of its arms; ``canon`` is
    the condition with every name that depends on a root replaced by one mark.
    """

    module: Any
    symbol: str
    kind: str
    node: Any
    test: Any
    value: V
    may: int
    must: int
    body: Any
    orelse: Any
    rest: Any
    canon: str


class Program(Flow):
    """A tree with a profile, evaluated for a list of targets under assumptions.

    ``files`` maps each Python path of the package to its bytes; ``root`` is the source root below which
    module names start. ``capabilities`` and ``shared`` describe the targets in order.
    """

    def __init__(
        self,
        files: dict[str, bytes],
        root: str,
        profile: Any,
        capabilities: tuple[tuple[int, int], ...],
        shared: tuple[int, ...],
        assume: dict[str, str] | None = None,
        shared_sm: tuple[int, ...] = (),
    ) -> None:
        super().__init__()
        self.files = files
        self.watch = files if isinstance(files, Watched) else Watched(files)
        self.peek = self.watch.peek
        self.root = root
        self.profile = profile
        self.assume = dict(assume or {})
        self.world = externals.World(capabilities, shared, self.assume, shared_sm)
        self.shared_sm = shared_sm
        self.count = self.world.count
        self.full = self.world.full
        self.steps = STEPS
        self._alive: list[Any] = []
        self._kept: dict[int, Any] = {}
        self._checks: set[str] = set()
        self.memo_names: dict[int, list[Any]] = {}
        self.problems: dict[str, tuple[int, str]] = {}
        self.learned: dict[str, Learned] = {}
        self.fresh: list[Learned] = []
        self.raw: dict[tuple[str, int], list[RawGate]] = {}
        self.sink: list[RawGate] | None = None
        self.seen_nodes: set[tuple[int, str]] = set()
        self._modules: dict[str, Module | None] = {}
        self._frames: dict[str, Frame] = {}
        self._fields: dict[tuple[int, str], V | None] = {}
        self._summaries: dict[int, dict[str, V]] = {}
        self._module_gates: dict[str, list[RawGate]] = {}
        self._module_nested: dict[str, list[tuple[Any, dict[str, V]]]] = {}
        self._hot_words: set[str] = set()
        self._hot_text: Words | None = None
        self._hot_flags: dict[int, tuple[int, bool]] = {}
        self.on_gate: Any = None
        self._forcing: set[int] = set()
        self._later: dict[tuple[str, Any], Function] = {}
        self._left_out: dict[str, bool] = {}
        self._through_stars: set[tuple[str, str]] = set()
        self._children: dict[tuple[int, str], list[ClassInfo]] = {}
        self._declared: dict[str, list[tuple[str, str]]] | None = None
        self._index: dict[str, set[str]] | None = None
        self._star_files: set[str] = set()
        self.passed: dict[int, dict[str, tuple[frozenset[str], frozenset[str]]]] = {}
        self.revisit: dict[int, Function] = {}
        self._argument_classes = {s.symbol for s in getattr(profile, "arguments", ())}
        self._argument_names = {_snake(n) for n in self._argument_classes}
        self._interesting: set[str] = set(self._argument_classes)
        prefix = f"{root}/" if root else ""
        self.names: dict[str, str] = {}
        self.paths: dict[str, str] = {}
        for path in sorted(files):
            if not path.startswith(prefix):
                continue
            name = path[len(prefix) : -3].replace("/", ".")
            if name.endswith(".__init__"):
                name = name[: -len(".__init__")]
            self.names.setdefault(name, path)
            self.paths[path] = name
        self._packages = {n.rpartition(".")[0] for n in self.names}
        for package in list(self._packages):
            while package:
                self._packages.add(package)
                package = package.rpartition(".")[0]

    # -- modules -----------------------------------------------------------------------------------

    def in_tree(self, name: str) -> bool:
        self.watch.asked.add(name)
        return name in self.names or name in self._packages

    def module(self, name: str) -> Module | None:
        """The module of that name, or None. A file that does not parse is noted and treated as absent."""
        if name in self._modules:
            return self._modules[name]
        path = self.names.get(name)
        found: Module | None = None
        if path is not None:
            try:
                found = Module(name, path, self.files[path])
            except Unparsable as error:
                self.problems[path] = (error.line, error.message)
        self._modules[name] = found
        return found

    def module_frame(self, module: Module) -> Frame:  # type: ignore[override]
        """A quiet frame at the end of a module: for defaults, decorators and annotations."""
        self.execute(module)
        frame = self._frames.get(module.name)
        if frame is None:
            frame = Frame(module, module.globals, full=self.full, kind="module")
            self._frames[module.name] = frame
        frame.may = frame.must = frame.stay = self.full
        return frame

    def module_recorder(self, module: Module) -> Any:
        """Whether gates at module and class level of a file are wanted."""
        if self.is_excluded(module.path):
            return None
        return self._record_raw

    def execute(self, module: Module) -> None:
        """Run a module's top level once."""
        if module.state != "new":
            return
        module.state = "running"
        fr = Frame(
            module, module.globals, full=self.full, kind="module", recorder=self.module_recorder(module)
        )
        saved = self.steps, self.sink, self.seen_nodes
        self.steps = STEPS
        self.sink = self._module_gates.setdefault(module.name, [])
        self.seen_nodes = set()
        for segment in module.segments:
            try:
                if segment.kind == "def":
                    function = Function(module, segment.name, segment.name, segment, None, None)
                    module.globals[segment.name] = V(function)
                    module.places[segment.name] = (segment.start, "function")
                elif segment.kind == "class":
                    info = ClassInfo(module, segment.name, segment.name, segment, self)
                    module.globals[segment.name] = V(ClassRef(info))
                    module.places[segment.name] = (segment.start, "class")
                else:
                    self._top_level(segment.nodes(), fr, module)
            except Irregular:
                continue
            if fr.env is not module.globals:
                module.globals.update(fr.env)
                fr.env = module.globals
        module.state = "done"
        module.rebound()
        for segment in module.segments:
            if segment.kind == "other" and segment.text:
                segment.forget()  # what is still needed hangs on waiting assignments and functions
        for name, value in module.globals.items():
            if value.roots:
                self.boundary(module, name, value)
        if fr.nested:
            self._module_nested[module.name] = list(fr.nested)
        self._flush(("module", module.name), self.sink)
        self.steps, self.sink, self.seen_nodes = saved

    def _top_level(self, nodes: list[ast.stmt], fr: Frame, module: Module) -> None:
        """Run top-level statements; plain assignments wait until somebody reads them.

        A name that is bound more than once, or an assignment that mentions such a name, does not wait: its
        value depends on where it stands.
        """
        rebound = module.rebound()
        for node in nodes:
            if isinstance(node, (ast.Assign, ast.AnnAssign)) and fr.may == self.full:
                targets = node.targets if isinstance(node, ast.Assign) else [node.target]
                if (
                    node.value is not None
                    and not isinstance(node.value, ast.Constant)
                    and all(isinstance(t, ast.Name) and t.id not in rebound for t in targets)
                    and not any(isinstance(n, ast.Name) and n.id in rebound for n in walk(node.value))
                ):
                    value = V(Deferred(node))
                    for target in targets:
                        assert isinstance(target, ast.Name)
                        module.globals[target.id] = value
                        module.places.setdefault(target.id, (target.lineno, "constant"))
                    continue
            if not isinstance(node, (ast.Import, ast.ImportFrom)):
                for child in (
                    ast.walk(node) if any(type(v.one) is Deferred for v in module.globals.values()) else ()
                ):
                    if isinstance(child, ast.Name) and isinstance(child.ctx, ast.Load):
                        waiting = module.globals.get(child.id)
                        if waiting is not None and type(waiting.one) is Deferred:
                            self.force(module, child.id, waiting.one)
            self.block([node], fr)
            if fr.env is not module.globals:
                module.globals.update(fr.env)
                fr.env = module.globals

    def force(self, module: Module, name: str, deferred: Deferred) -> V:
        """Evaluate a waiting assignment; gates in it are recorded with the module's."""
        node = deferred.node
        if id(node) in self._forcing:
            return V(unknown(f"cycle {module.name}.{name}"))
        self._forcing.add(id(node))
        fr = Frame(
            module, module.globals, full=self.full, kind="module", recorder=self.module_recorder(module)
        )
        saved = self.steps, self.sink, self.seen_nodes
        self.steps = STEPS
        gates = self._module_gates.setdefault(module.name, [])
        self.sink, self.seen_nodes = gates, set()
        self.block([node], fr)
        if fr.nested:
            self._module_nested.setdefault(module.name, []).extend(fr.nested)
        self._flush(("module", module.name), gates)
        self.steps, self.sink, self.seen_nodes = saved
        self._forcing.discard(id(node))
        targets: list[Any] = node.targets if isinstance(node, ast.Assign) else [node.target]
        for target in targets:
            value = module.globals[target.id]
            self.boundary(module, target.id, value)
            if isinstance(value.one, Function):
                known = self.learned.get(value.one.fullname)
                if known is not None:
                    self.learn(
                        f"{module.name}.{target.id}", module, target.id, node.lineno, "function", known.value
                    )
        return module.globals[name]

    def force_matching(self, module: Module, pattern: Words) -> None:
        """Evaluate the waiting assignments whose text fits, for the gates in them."""
        waiting = {name: value.one for name, value in module.globals.items() if type(value.one) is Deferred}
        if not waiting:
            return
        lines = module.text.split("\n")
        for name, deferred in waiting.items():
            node = deferred.node
            text = "\n".join(lines[node.lineno - 1 : node.end_lineno])
            if pattern.search(text) and type(module.globals[name].one) is Deferred:
                self.force(module, name, deferred)

    def worth_resolving(self, pending: Pending, args: Iterable[V]) -> bool:
        """Whether an imported name is followed although it is called with unknown arguments."""
        if any(a.roots & externals.ARCH_ROOTS and self.informative(a) for a in args):
            return True
        if pending.name is None:
            return True
        if pending.name in self._hot_words or pending.name in self._interesting:
            return True
        return not self.in_tree(pending.module)

    def hoisted(self, module: Module, name: str) -> V | None:
        """A name of a module that is still running (an import cycle), from its text alone."""
        if module.hoisted is None:
            module.hoisted = {}
            for segment in module.segments:
                if segment.kind != "other":
                    module.hoisted[segment.name] = segment
                    continue
                for node in segment.nodes():
                    if isinstance(node, ast.ImportFrom):
                        for alias in node.names:
                            module.hoisted[alias.asname or alias.name] = V(
                                Pending(self.absolute(node.module, node.level, module), alias.name)
                            )
                    elif isinstance(node, ast.Assign):
                        for target in node.targets:
                            if isinstance(target, ast.Name):
                                module.hoisted[target.id] = node.value
        found = module.hoisted.get(name)
        if isinstance(found, V):
            return self.resolve(found.one)
        if isinstance(found, Segment):
            if found.kind == "def":
                return V(Function(module, name, name, found, None, None))
            info = ClassInfo(module, name, name, found, self)
            return V(ClassRef(info))
        if isinstance(found, ast.expr):
            frame = Frame(module, module.globals, full=self.full, kind="module", depth=8)
            return self.ev(found, frame)
        return None

    def evaluate_bases(self, info: ClassInfo) -> list[Any]:
        """Base classes: ClassInfo for those of the tree, "object", or None for anything else."""
        out: list[Any] = []
        if info.qualname.count("."):
            scope = self.module_frame(info.module)
        else:
            scope = self.module_frame(info.module)
        for base in info.node().bases:
            while isinstance(base, ast.Subscript):
                base = base.value
            value = self.ev(base, scope)
            if isinstance(value.one, ClassRef):
                out.append(value.one.info)
            elif ast.unparse(base).rpartition(".")[2] in ("object", "ABC", "Protocol", "Generic", "Enum"):
                out.append("object")
            else:
                out.append(None)
        return out

    # -- what names mean ---------------------------------------------------------------------------

    def learn(self, name: str, module: Any, short: str, line: int, kind: str, value: V) -> None:
        """Note that a name carries a value that depends on a root."""
        if not value.roots & externals.ARCH_ROOTS:
            return
        old = self.learned.get(name)
        if old is not None:
            if old.value.roots >= value.roots and old.value.each is not None:
                return
            if value.each is None and old.value.each is not None:
                return
            if not self.informative(old.value) and self.informative(value):
                self.fresh.append(old)
            old.value = value
            return
        entry = Learned(name, module, short.rpartition(".")[2], line, kind, value)
        self.learned[name] = entry
        if (self.informative(value) or kind == "attribute") and not self.is_excluded(module.path):
            self.fresh.append(entry)
        if kind == "function":
            self._learn_aliases(entry)

    def is_excluded(self, path: str) -> bool:
        hit = self._left_out.get(path)
        if hit is None:
            hit = self._left_out[path] = bool(self.profile.is_excluded(path))
        return hit

    def _learn_aliases(self, entry: Learned) -> None:
        """Other names of the same module for the same function."""
        bound = entry.module.globals.get(entry.short) if entry.module is not None else None
        if bound is None or not isinstance(bound.one, (Function, Partial)):
            return
        for name, value in list(entry.module.globals.items()):
            if value.one is bound.one and name != entry.short:
                line = entry.module.places.get(name, (entry.line, ""))[0]
                self.learn(f"{entry.module.name}.{name}", entry.module, name, line, "function", entry.value)

    def informative(self, value: V) -> bool:
        """Whether a value can decide something: a constant or a yes/no, not some object or number that
        merely was computed with a device property."""
        return any(_decides(scalar) for scalar in value.scalars())

    def worth_calling(self, function: Function, args: list[V], kwargs: dict[str, V]) -> bool:
        """Whether a call is evaluated: cheap when nothing is passed, else only where the GPU is asked."""
        text = function.segment.text
        size = len(text) if text else 4 * _lines(function.segment)
        if size > BIG_FUNCTION * 3:
            return False
        known = all(not any(isinstance(s, Unknown) for s in a.scalars()) for a in (*args, *kwargs.values()))
        if known and size <= BIG_FUNCTION:
            return True
        if any(a.roots & externals.ARCH_ROOTS for a in (*args, *kwargs.values())) and size <= BIG_FUNCTION:
            return True
        return self.is_hot(function)

    def is_hot(self, function: Function) -> bool:
        """Whether a function's text mentions a root or a learned name."""
        version = len(self._hot_words)
        key = function.segment.serial
        hit = self._hot_flags.get(key)
        if hit is not None and (hit[0] == version or hit[1]):
            return hit[1]
        text = function.segment.text
        if not text:
            text = ast.unparse(function.segment.node())
            function.segment.text = text
        hot = self.hot_pattern().search(text)
        self._hot_flags[key] = (version, hot)
        return hot

    def hot_pattern(self) -> Words:  # type: ignore[override]
        """What the text of code that leads to a root contains: a root word or a learned name."""
        version = len(self._hot_words)
        if self._hot_text is None or self._hot_version != version:
            self._hot_text = Words({*self._hot_words, *(w.decode() for w in externals.ROOT_WORDS)})
            self._hot_version = version
        return self._hot_text

    _hot_version = -1

    def note_arguments(self, function: Function, args: list[V], kwargs: dict[str, V]) -> None:
        """Remember that a parameter receives a value that depends on a root: its function is visited."""
        if not any(a.roots & externals.ARCH_ROOTS for a in (*args, *kwargs.values())):
            return
        if function.closure is not None or function.name.startswith("<"):
            return
        try:
            node: Any = function.segment.node()
        except Irregular:
            return
        names = [a.arg for a in (*node.args.posonlyargs, *node.args.args)]
        known = set(names) | {a.arg for a in node.args.kwonlyargs}
        store = self.passed.setdefault(function.segment.serial, {})
        for name, value in (*zip(names, args), *kwargs.items()):
            if name not in known or not value.roots & externals.ARCH_ROOTS or not self.informative(value):
                continue
            if isinstance(value.one, (Function, ClassRef, Instance, Partial)):
                continue
            roots, via = store.get(name, (EMPTY, EMPTY))
            if roots >= value.roots and via >= value.via:
                continue
            store[name] = (roots | value.roots, via | value.via)
            self.revisit[function.segment.serial] = function

    def returned_type(self, function: Function) -> V | None:
        """An object of the annotated return class, where that class matters."""
        text = function.segment.text[:3000]
        match = re.search(r"\)\s*->\s*[\"']?([\w.]+)[\"']?\s*:", text)
        if match is None or match.group(1).rpartition(".")[2] not in self._interesting:
            return None
        return self._typed(match.group(1), function.module)

    def _typed(self, name: str, module: Module) -> V | None:
        try:
            node = ast.parse(name, mode="eval").body
        except SyntaxError:
            return None
        value = self.ev(node, self.module_frame(module))
        if isinstance(value.one, ClassRef) and not value.one.info.is_enum():
            return V(Instance(value.one.info, None))
        last = name.rpartition(".")[2]
        if last in self._argument_classes:
            return self._arguments_object(last)
        return None

    def _arguments_object(self, name: str) -> V | None:
        for symbol in self.profile.arguments:
            if symbol.symbol == name:
                module = self.module(symbol.module)
                value = self.global_value(module, name) if module is not None else None
                if value is not None and isinstance(value.one, ClassRef):
                    return V(Instance(value.one.info, None))
        return None

    def attribute_of(self, scalar: Any, name: str, fr: Frame, node: ast.AST | None = None) -> V:
        if isinstance(scalar, Unknown) and isinstance(node, ast.Attribute) and self._argument_names:
            holder = node.value
            last = holder.attr if isinstance(holder, ast.Attribute) else getattr(holder, "id", "")
            if last in self._argument_names:
                for symbol in self.profile.arguments:
                    if _snake(symbol.symbol) == last:
                        typed = self._arguments_object(symbol.symbol)
                        if typed is not None and name in self._record_names(typed.one.info):
                            return self.argument_value(name)
        return super().attribute_of(scalar, name, fr, node)

    def _record_names(self, info: ClassInfo) -> set[str]:
        names: set[str] | None = self.__dict__.setdefault("_names_of", {}).get(info.segment.serial)
        if names is None:
            names = {f[0] for f in info.record_fields()} if info.is_record() else set()
            self.__dict__["_names_of"][info.segment.serial] = names
        return names

    def argument_value(self, name: str, default: V | None = None) -> V:
        """A server argument: assumed, or unknown for the reason ``arg.NAME``."""
        given = self.assume.get(f"arg.{name}")
        if given is not None:
            return V(_literal(given))
        return V(unknown(f"arg.{name}"))

    # -- attributes of objects ---------------------------------------------------------------------

    def instance_attribute(self, obj: Instance, name: str, fr: Frame) -> V:
        if obj.attrs is None and name in self._record_names(obj.info):
            if any(i.name in self._argument_classes for i in obj.info.mro()):
                return self.argument_value(name)
            if obj.info.find(name) is None:
                return V(unknown(f"field {obj.info.name}.{name}"))
        return super().instance_attribute(obj, name, fr)

    def stored_attribute(self, info: ClassInfo, name: str, fr: Frame) -> V | None:
        """What all writes of ``self.NAME`` in a class and its bases agree on; None where there are none."""
        key = (info.segment.serial, name)
        if key in self._fields:
            return self._fields[key]
        self._fields[key] = V(unknown(f"value self.{name}"))
        values: list[V] = []
        where: ClassInfo | None = None
        line = 1
        for owner in info.mro():
            for function in self.writers(owner, name):
                value = self._written_value(function, name)
                if where is None:
                    where, line = owner, function.segment.start
                values.append(value)
        if values and self._subclass_writes(info, name):
            values.append(V(unknown(f"subclass of {info.name}")))
        if any(v.roots for v in values) and self.written_outside(info, name):
            values.append(V(unknown(f"value .{name}")))
        if not values:
            self._fields[key] = None
            return None
        declared = self.class_value(info, name, fr)
        if declared is not None:
            values.append(declared)
        out = values[0]
        for other in values[1:]:
            joined = self.select(self.full, self.full, out, other, V(unknown(f"value self.{name}")))
            out = joined
        if out.roots and where is not None:
            qualified = f"{where.fullname}.{name}"
            self.learn(qualified, where.module, name, line, "attribute", out)
            self._interesting.add(where.name)
            out = V(out.one, out.roots, frozenset({qualified}), out.each)
        self._fields[key] = out
        return out

    def writers(self, owner: ClassInfo, name: str) -> list[Function]:
        """Methods of a class that assign an attribute of their first argument."""
        return owner.writes().get(name, [])

    def _written_value(self, function: Function, name: str) -> V:
        """The value a method leaves in an attribute."""
        summary = self._summaries.get(function.segment.serial)
        if summary is None:
            self._summaries[function.segment.serial] = {}
            held = function.segment.parsed
            summary = self._summarise(function)
            if not held and function.segment.text:
                function.segment.forget()  # a summary is made once, and syntax trees are most of the memory
            self._summaries[function.segment.serial] = summary
        return summary.get(name, V(unknown(f"value self.{name}")))

    def _summarise(self, function: Function) -> dict[str, V]:
        try:
            node: Any = function.segment.node()
        except Irregular:
            return {}
        if not self.is_hot(function) and len(function.segment.text) > BIG_FUNCTION // 2:
            return self._shallow(function, node)
        fr = self._entry(function, node, None)
        saved, self.steps = self.steps, STEPS
        self.block(node.body, fr)
        self.steps = saved
        prefix = f"{fr.this}."
        out: dict[str, V] = {}
        for key, value in fr.env.items():
            if key.startswith(prefix) and key.count(".") == 1:
                out[key[len(prefix) :]] = value
        for key, value in fr.writes.items():
            if key not in out:
                # written on a path that left early, or forgotten because a later call may change it
                out[key] = V(Unknown(all_reasons(value) | {f"value self.{key}"}), value.roots, value.via)
        return out

    def _shallow(self, function: Function, node: Any) -> dict[str, V]:
        """Attribute values of a long method that does not ask the GPU: constants only."""
        prefix = node.args.args[0].arg if node.args.args else "self"
        out: dict[str, V] = {}
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
                    if isinstance(value, ast.Constant) and not isinstance(child, ast.AugAssign):
                        new = V(value.value)
                    else:
                        new = V(unknown(f"value self.{target.attr}"))
                    old = out.get(target.attr)
                    out[target.attr] = (
                        new
                        if old is None
                        else V(join_scalars(old.one, new.one, frozenset({f"value self.{target.attr}"})))
                    )
        return out

    def written_by(self, function: Function, owner: ClassInfo | None) -> set[str] | None:
        """Attributes a method may write, its own calls on the object included. None: any."""
        if owner is None:
            return None
        seen: set[str] = set()
        out: set[str] = set()
        todo = [function]
        while todo:
            f = todo.pop()
            if f.name in seen:
                continue
            seen.add(f.name)
            if len(seen) > 40:
                return None
            out |= written_names(f.segment)
            for name in re.findall(r"\bself\.(\w+)\(", f.segment.text or ""):
                found = owner.find(name)
                if found is not None and isinstance(found[1], Function):
                    todo.append(found[1])
        return out

    # -- recording ---------------------------------------------------------------------------------

    def record(self, kind: str, node: Any, test_node: Any, value: V, fr: Frame, body: Any = None) -> None:  # type: ignore[override]
        if fr.recorder is not None and value.roots:
            fr.recorder(kind, node, test_node, value, fr, body)

    def record_value(self, kind: str, node: Any, expr: ast.expr, value: V, fr: Frame) -> None:  # type: ignore[override]
        if fr.recorder is None or isinstance(expr, (ast.IfExp, ast.Lambda)):
            return
        if self.boolish(value, isinstance(expr, ast.Call)) or _is_logic(expr):
            fr.recorder(kind, node, expr, value, fr, None)

    def record_argument(self, node: ast.expr, value: V, fr: Frame) -> None:
        if fr.recorder is None or isinstance(node, (ast.IfExp, ast.Lambda, ast.Starred)):
            return
        if self.boolish(value, isinstance(node, ast.Call)) or _is_logic(node):
            fr.recorder("argument", node, node, value, fr, None)

    def record_table(self, node: Any, table: V, key: V, fr: Frame) -> None:  # type: ignore[override]
        if fr.recorder is None or node is None:
            return
        from auditor.program.values import Map

        if not any(isinstance(s, Map) for s in table.scalars()):
            return
        present = self._zip(key, table, self._in)
        fr.recorder("table", node, node, present, fr, None)

    @staticmethod
    def boolish(value: V, called: bool = False) -> bool:
        """Whether a value is a yes or no on some target; ``called``: or what a function made of one."""
        for scalar in value.scalars():
            if isinstance(scalar, bool):
                return True
            if isinstance(scalar, Unknown):
                if called and scalar.answer:
                    return True
                if scalar.options and all(isinstance(o, bool) for o in scalar.options):
                    return True
        return False

    def _record_raw(self, kind: str, node: Any, test: Any, value: V, fr: Frame, body: Any) -> None:
        if self.sink is None:
            return
        if (id(node), kind) in self.seen_nodes:
            self._met_again(node, kind, value, fr)
            return
        if not value.roots & externals.ARCH_ROOTS and not self.platform_gates:
            return
        self.seen_nodes.add((id(node), kind))
        then, other, rest = body, None, None
        if kind == "if":
            then, other = node.body, node.orelse
            if getattr(node, "is_elif", False):
                kind = "elif"
            if not other and fr.statement is not None:
                block, at = fr.statement
                if at < len(block) and block[at] is node:
                    rest = block[at + 1 :]
        elif kind == "ifexp":
            then, other = [node.body], [node.orelse]
        elif kind == "while":
            then, other = node.body, node.orelse
        self.sink.append(
            RawGate(
                module=fr.module,
                symbol=fr.symbol,
                kind=kind,
                node=node,
                test=test,
                value=value,
                may=fr.may,
                must=fr.must,
                body=then,
                orelse=other,
                rest=rest,
                canon=self.canonical(test, fr) if isinstance(test, ast.expr) else ast.unparse(test),
            )
        )

    def _met_again(self, node: Any, kind: str, value: V, fr: Frame) -> None:
        """A gate in the body of an unrolled loop: it is what all rounds make of it."""
        for gate in reversed(self.sink or ()):
            if gate.node is node and (gate.kind == kind or (kind == "if" and gate.kind == "elif")):
                gate.value = self.select(gate.may or self.full, fr.may, gate.value, value, None)
                gate.may, gate.must = gate.may | fr.may, gate.must | fr.must
                return

    platform_gates = False

    def canonical(self, node: ast.expr, fr: Frame) -> str:
        """The condition with every name that depends on a root replaced by one mark: renaming a predicate
        of the tree does not change it."""
        recorder, fr.recorder = fr.recorder, None
        nested, fr.nested = fr.nested, []
        raises, env = fr.raises, fr.env
        state = fr.may, fr.must, fr.stay, fr.thrown
        fr.env = dict(env)

        def mark(n: Any) -> Any:
            if isinstance(n, (ast.Name, ast.Attribute, ast.Call)) and isinstance(
                getattr(n, "ctx", ast.Load()), ast.Load
            ):
                if isinstance(n, ast.Call) or not isinstance(
                    self.ev(n, fr).one, (Function, ClassRef, Partial)
                ):
                    if self.ev(n, fr).roots:
                        return ast.Name("§", ast.Load())
            fresh = copy.copy(n)
            for field, child in ast.iter_fields(n):
                if isinstance(child, ast.expr):
                    setattr(fresh, field, mark(child))
                elif isinstance(child, list) and child and isinstance(child[0], ast.expr):
                    setattr(fresh, field, [mark(c) for c in child])
            return fresh

        try:
            return ast.unparse(mark(node))
        finally:
            fr.recorder, fr.nested, fr.raises, fr.env = recorder, nested, raises, env
            fr.may, fr.must, fr.stay, fr.thrown = state

    def _flush(self, key: tuple[str, Any], gates: list[RawGate]) -> None:
        self.raw[key] = gates  # type: ignore[index]
        if self.on_gate is not None:
            self.on_gate(key, gates)

    # -- visiting ----------------------------------------------------------------------------------

    def _entry(self, function: Function, node: Any, recorder: Any) -> Frame:
        """A frame at the start of a function called with arguments nobody knows."""
        env: dict[str, V] = {}
        spec = node.args
        passed = self.passed.get(function.segment.serial, {})
        for arg in (*spec.posonlyargs, *spec.args, *spec.kwonlyargs):
            value: V | None = None
            if arg.arg in passed:
                roots, via = passed[arg.arg]
                value = V(unknown(f"argument {arg.arg}"), roots, via)
            elif arg.annotation is not None:
                value = self._annotated(arg.annotation, function.module)
            env[arg.arg] = value if value is not None else V(unknown(f"value {arg.arg}"))
        for extra in (spec.vararg, spec.kwarg):
            if extra is not None:
                env[extra.arg] = V(unknown(f"value {extra.arg}"))
        fr = Frame(
            function.module,
            env,
            full=self.full,
            kind="function",
            owner=function.owner,
            parent=function.closure,
            symbol=function.qualname,
            recorder=recorder,
            depth=1,
        )
        if function.owner is not None and spec.args and function.kind != "staticmethod":
            first = spec.args[0].arg
            fr.this = first
            env[first] = (
                V(ClassRef(function.owner, True))
                if function.kind == "classmethod"
                else V(Instance(function.owner, None))
            )
        return fr

    def _annotated(self, annotation: ast.expr, module: Module) -> V | None:
        if isinstance(annotation, ast.Constant) and isinstance(annotation.value, str):
            text = annotation.value
        elif isinstance(annotation, (ast.Name, ast.Attribute)):
            text = ast.unparse(annotation)
        else:
            return None
        if text.rpartition(".")[2] not in self._interesting or not re.fullmatch(r"[\w.]+", text):
            return None
        return self._typed(text, module)

    def visit(self, function: Function, key: tuple[str, Any] | None = None) -> None:
        """Run a function for discovery; its gates replace those of an earlier visit."""
        self.function_kind(function)
        try:
            node: Any = function.segment.node()
        except Irregular:
            return
        saved = self.steps, self.sink, self.seen_nodes
        self.steps = STEPS
        outer = key is not None
        if outer:
            self.sink, self.seen_nodes = [], set()
        fr = self._entry(function, node, self._record_raw)
        if function.segment.text:
            fr.text = (function.segment.start, function.segment.text.split("\n"))
        elif function.closure is not None:
            fr.text = function.closure.text
        fr.marked.update(self.passed.get(function.segment.serial, ()))
        try:
            self.visit_signature_of(function, node)
            self.block(node.body, fr)
            value = self.result(fr)
            self._visit_nested(fr.nested, fr, node)
            self._learn_visited(function, node, value, fr)
        except RecursionError:
            self.problems.setdefault(
                function.module.path,
                (
                    node.lineno,
                    f"{function.qualname} is nested too deeply to follow; its gates may be missing",
                ),
            )
        if outer:
            assert self.sink is not None and key is not None
            self._flush(key, self.sink)
            self.sink, self.seen_nodes = saved[1], saved[2]
        self.steps = saved[0]

    def visit_signature_of(self, function: Function, node: Any) -> None:
        if function.closure is not None:
            return
        scope = self.module_frame(function.module)
        frame = Frame(
            function.module,
            scope.env,
            full=self.full,
            kind="module",
            symbol=function.qualname,
            recorder=self._record_raw,
        )
        self.visit_signature(node, frame)

    def _visit_nested(self, nested: list[tuple[Any, dict[str, V]]], fr: Frame, node: Any = None) -> None:
        """Visit functions inside a function. They may be called at any time after they are made: names of
        the function around them count where they have one value only."""
        if not nested:
            return
        if node is not None:
            fr = self._around(fr, node)
        for item, _env in nested:
            if isinstance(item, Function):
                closure = item.closure
                if closure is not None:
                    item.closure = fr
                self.visit(item)
                item.closure = closure
            elif isinstance(item, ClassInfo):
                item.load()
                for method in item.functions.values():
                    method.closure = fr if fr.kind == "function" else None
                    self.visit(method)

    def _learn_check(self, function: Function, node: Any, value: V) -> None:
        """A short function, or a constructor, that raises on some GPUs only: those who call it go on or do
        not."""
        if len(function.segment.text) > SHORT:
            return
        name = function.fullname
        if name not in self._checks and not self.is_excluded(function.module.path):
            self._checks.add(name)
            called = function.owner.name if function.owner is not None else function.name
            self.fresh.append(Learned(name, function.module, called, node.lineno, "function", value))

    @staticmethod
    def _around(fr: Frame, node: Any) -> Frame:
        """A frame as the functions inside it see it at a time nobody knows."""
        counts = stores(node.body)
        for arg in ast.walk(node.args):
            if isinstance(arg, ast.arg):
                counts[arg.arg] = counts.get(arg.arg, 0) + 1
        outer = copy.copy(fr)
        outer.env = dict(fr.env)
        for name, times in counts.items():
            old = outer.env.get(name)
            if "." in name:
                if times > 1:
                    outer.env.pop(name, None)
            elif old is None:
                outer.env[name] = V(unknown(f"value {name}"))
            elif times > 1:
                outer.env[name] = V(Unknown(all_reasons(old) | {f"value {name}"}), old.roots, old.via)
        return outer

    def _learn_visited(self, function: Function, node: Any, value: V, fr: Frame) -> None:
        if (
            fr.thrown
            and function.closure is None
            and (function.owner is None or function.name == "__init__")
            and (fr.thrown != self.full or any(t.roots & externals.ARCH_ROOTS for t in fr.left))
        ):
            self._learn_check(function, node, value)
        if value.roots and function.closure is None and function.name != "<lambda>":
            scalars = value.scalars()
            if self.passed.get(function.segment.serial) and not self.is_hot(function):
                return  # what it returns depends on its callers
            method = function.owner is not None and function.kind not in ("staticmethod",)
            if method and not any(_decides(s) for s in scalars):
                return
            required = len(node.args.args) - len(node.args.defaults) - (1 if method else 0)
            if required <= 0 and not any(d is None for d in node.args.kw_defaults):
                # the meaning without arguments is what a reader expects of a name
                args = [fr.env[fr.this]] if method and fr.this in fr.env else []
                called = self._run(
                    function,
                    [self._entry(function, node, None).env[fr.this]] if args and fr.this else [],
                    {},
                    1,
                    function.fullname,
                )
                if called is not None and called.roots:
                    value = called
            self.learn(
                function.fullname,
                function.module,
                function.qualname,
                node.lineno,
                function.kind
                if function.kind == "property"
                else ("method" if function.owner else "function"),
                value,
            )
        if function.owner is not None:
            for name, written in fr.writes.items():
                if written.roots & externals.ARCH_ROOTS:
                    self._fields.pop((function.owner.segment.serial, name), None)
                    self._summaries.pop(function.segment.serial, None)
                    self.stored_attribute(function.owner, name, fr)

    def subclasses(self, info: ClassInfo, member: str) -> list[ClassInfo]:
        """Classes of the tree that derive from a class and may define a member.

        Class statements are read off the text of all files once; only files that hold such a class and
        define the member are loaded.
        """
        key = (info.segment.serial, member)
        found = self._children.get(key)
        if found is not None:
            return found
        found = self._children[key] = []
        word = re.escape(member).encode()
        defines = re.compile(
            rb"^[ \t]+(?:(?:async[ \t]+)?def[ \t]+" + word + rb"\b|" + word + rb"[ \t]*[:=])", re.M
        )
        todo, seen = [info.name], {info.name}
        declared = self.class_statements()
        bases = self.watch.bases
        while todo:
            base = todo.pop()
            bases.add(base)
            for name, path in declared.get(base, ()):
                if name not in seen:
                    seen.add(name)
                    todo.append(name)
                if member.encode() not in self.files[path] or not defines.search(self.files[path]):
                    continue
                module = self.module(self.paths[path])
                value = self.global_value(module, name) if module is not None else None
                if value is None or not isinstance(value.one, ClassRef):
                    continue
                child = value.one.info
                if child is not info and child not in found and info in child.mro():
                    found.append(child)
        return found

    def _subclass_writes(self, info: ClassInfo, name: str) -> bool:
        """Whether a class of the tree that derives from a class may assign an attribute on itself, by the
        text of its file: nothing is loaded for it."""
        word = name.encode()
        write = re.compile(rb"\bself\." + word + rb"[ \t]*(?:[:=,]|[-+*/|&]=)(?!=)")
        todo, seen = [info.name], {info.name}
        declared = self.class_statements()
        while todo:
            base = todo.pop()
            self.watch.bases.add(base)
            for child, path in declared.get(base, ()):
                if child in seen or (base == info.name and path == info.module.path and child == info.name):
                    continue
                seen.add(child)
                todo.append(child)
                if path != info.module.path:
                    data = self.files[path]
                    if word in data and write.search(data):
                        return True
                else:
                    for segment in info.module.segments:
                        if segment.kind == "class" and segment.name == child:
                            text = segment.text.encode()
                            if word in text and write.search(text):
                                return True
        return False

    def class_statements(self) -> dict[str, list[tuple[str, str]]]:
        """Short name of a base -> (class, path) of every top-level class statement that names it."""
        if self._declared is None:
            self._declared = {}
            for path in self.paths:
                for base, child in class_statements(self.peek(path)):
                    self._declared.setdefault(base, []).append((child, path))
        return self._declared

    @property
    def index(self) -> dict[str, set[str]]:
        if self._index is None:
            self._index = self._import_index()
        return self._index

    # -- discovery ---------------------------------------------------------------------------------

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
            if not (self.fresh or self.revisit or self._later):
                self.learn_helpers()
                if not self.fresh:
                    break
            rounds += 1
            for function in self.revisit.values():
                if not self.is_excluded(function.module.path):
                    self._later[(function.module.path, function.segment.start)] = function
            self.revisit = {}
            if not self.fresh:
                # all names that short functions and constants carry are known: now the long ones
                later, self._later = self._later, {}
                for key, function in later.items():
                    self.visit(function, key)
                    if function.segment.text:
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
                    text = ast.unparse(value.one.node)
                    if "partial" not in text and not self.hot_pattern().search(text):
                        continue
                    value = self.force(module, name, value.one)
                if isinstance(value.one, Partial) and f"{module.name}.{name}" not in self.learned:
                    self.steps = STEPS
                    called = self.call(value, [], {}, frame)
                    if called.roots:
                        line = module.places.get(name, (1, ""))[0]
                        self.learn(f"{module.name}.{name}", module, name, line, "function", called)

    def forget_trees(self) -> None:
        """Drop syntax trees that can be parsed again: what follows discovery looks at few of them."""
        for module in self._modules.values():
            for segment in module.segments if module is not None else ():
                for piece in _pieces(segment):
                    if piece.text:
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
                    if keys and needle.search(piece.text or ""):
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
                        self.watch.read.add(path)
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
                self.watch.read.add(path)
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
            self.force_matching(module, pattern)
            for segment in module.segments:
                if segment.kind == "other":
                    continue
                if segment.text and not pattern.search(segment.text):
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
        if len(function.segment.text) > SHORT or not function.segment.text:
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
            if function.segment.text and not pattern.search(function.segment.text):
                continue
            self._visit_in_turn(function, (path, function.segment.start))
        for inner in info.inner.values():
            self._visit_info(inner, path, pattern)


def _decides(scalar: Any) -> bool:
    if isinstance(scalar, Seq):
        return any(item is not None and _decides(item) for item in scalar.items)
    if isinstance(scalar, Unknown):
        if scalar.truth is not None or scalar.answer:
            return True
        if scalar.options is not None:
            return all(is_const(o) for o in scalar.options)
        return any(
            r.startswith("argument ") for r in scalar.reasons
        )  # a parameter that receives such a value
    return is_const(scalar)


def _is_logic(node: ast.expr) -> bool:
    """Whether an expression is a condition by its form."""
    return isinstance(node, (ast.BoolOp, ast.Compare)) or (
        isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not)
    )


def _pieces(segment: Segment) -> Iterable[Segment]:
    if segment.kind == "class":
        members = segment._members
        return [m for member in (members or ()) for m in _pieces(member)]
    return [segment]


def _lines(segment: Segment) -> int:
    try:
        node = segment.node()
    except Irregular:
        return 10_000
    return 10 * ((node.end_lineno or node.lineno) - node.lineno + 1)


def _snake(name: str) -> str:
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()


def _literal(text: str) -> Any:
    """An assumed value: Python constants are read as such, everything else is text."""
    lowered = text.lower()
    if lowered in ("true", "false"):
        return lowered == "true"
    if lowered in ("none", "null", "unset"):
        return None
    try:
        return int(text)
    except ValueError:
        pass
    try:
        return float(text)
    except ValueError:
        return text


__all__ = ["Program", "Learned", "RawGate", "EMPTY"]
