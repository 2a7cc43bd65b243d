"""The modules of the audited tree, evaluated on demand."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable
from typing import Any

from auditor.program import externals
from auditor.program.classes import ClassInfo, Module
from auditor.program.flow import Flow
from auditor.program.frames import Frame
from auditor.program.nodes import walk
from auditor.program.records import Learned, RawGate
from auditor.program.source import Irregular, Segment, Unparsable
from auditor.program.syntax import source_of, stores
from auditor.program.values import (
    ClassRef,
    Deferred,
    Function,
    Pending,
    V,
    unknown,
)
from auditor.program.watch import Watched
from auditor.program.words import Words

STEPS = 400_000


class Modules(Flow):
    """The tree as modules, with everything that is remembered about it."""

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
        self._changed_above: dict[int, Any] = {}
        self._checks: set[str] = set()
        self._check_words: set[str] = set()  # names of those that are not learned
        self._check_text: Words | None = None
        self.asides: list[Learned] = []
        self._visited: dict[tuple[str, Any], Function] = {}
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
        self._hot_words = self.watch.hot
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
        self._lazy_files: list[str] = []  # those that answer for names by ``__getattr__``
        self.passed: dict[int, dict[str, tuple[frozenset[str], frozenset[str]]]] = {}
        self.revisit: dict[int, Function] = {}
        self._argument_classes = {s.symbol for s in getattr(profile, "arguments", ())}
        self._argument_names = {snake(n) for n in self._argument_classes}
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
                found = Module(name, path, self.peek(path))
                self.watch.take(path, found)
            except Unparsable as error:
                self.watch.read.add(path)
                self.problems[path] = (error.line, error.message)
        self._modules[name] = found
        return found

    def module_frame(self, module: Module) -> Frame:
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
            if segment.kind == "other" and segment.has_text:
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
            module.forked |= fr.may != self.full
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
            self.top_block([node], fr)
            if fr.env is not module.globals:
                module.globals.update(fr.env)
                fr.env = module.globals

    def top_block(self, nodes: list[ast.stmt], fr: Frame) -> None:
        """Statements of a module or a class. Of those nested too deeply to follow, every name is unknown, and
        the file is told as a problem."""
        try:
            self.block(nodes, fr)
        except (RecursionError, Irregular):
            line = nodes[0].lineno if nodes else 1
            what = "a statement is nested too deeply to follow; gates may be missing"
            self.problems.setdefault(fr.module.path, (line, what))
            lost = V(unknown("a statement nested too deeply"))
            for node in nodes:
                for child in ast.walk(node):
                    if isinstance(child, ast.Name):
                        fr.env[child.id] = lost
            for name in stores(nodes):
                if "." not in name:
                    fr.env[name] = lost

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
        self.top_block([node], fr)
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
        lines = module.lines()
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
            elif source_of(base).rpartition(".")[2] in ("object", "ABC", "Protocol", "Generic", "Enum"):
                out.append("object")
            else:
                out.append(None)
        return out

    def is_excluded(self, path: str) -> bool:
        hit = self._left_out.get(path)
        if hit is None:
            hit = self._left_out[path] = bool(self.profile.is_excluded(path))
        return hit


def snake(name: str) -> str:
    """``ServerArgs`` as ``server_args``."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()
