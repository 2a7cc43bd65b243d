"""Kernels that a tree declares in a registry: what each implementation requires, and which one is picked.

Nothing about the records is known here: what they require is asked of their own method, on the platform that
the tree's own detection finds for each target, and the choice is asked of the tree's own selecting function.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

from auditor.arch import load_targets
from auditor.gates.model import Problem
from auditor.gates.reading import for_all_targets
from auditor.native.exact import Raised, function_of
from auditor.native.model import Cell, Row, Step
from auditor.native.registry.run import Registered, RegistryProgram
from auditor.profile import KernelRegistry, Profile
from auditor.program.values import (
    ClassRef,
    EnumMember,
    Instance,
    Seq,
    V,
    is_const,
    reasons_of,
    truth_of,
    unknown,
)

#: Said of a requirement that every target meets.
NO_WORD = "which says nothing of the architecture"


def registry_rows(
    files: dict[str, bytes],
    root: str,
    profile: Profile,
    targets: tuple[str, ...],
    assumptions: dict[str, str] | None = None,
    known: Iterable[Row] = (),
    behind: Callable[[str, int], str | None] | None = None,
) -> tuple[tuple[Row, ...], tuple[Problem, ...]]:
    """A row per declared implementation, and what could not be read of the declarations.

    ``files`` are the Python files of the package below ``root``. ``known`` are rows of operators: an
    implementation that is nothing but one of them cannot be there where that operator is not. ``behind``
    gives the operator that a function calls on a target (by its place in the list of all), by full names.
    A cell ``runs`` says that the declaration admits the target and not every other one (or that the operator
    behind it runs); ``raises`` that it leaves the target out. The reason says which implementation is picked.
    Both are empty for a tree without such registries.
    """
    rows: list[Row] = []
    problems: list[Problem] = []
    rows_by_name = {row.name: row for row in known}
    by_wrapper = {wrapper: row for row in rows_by_name.values() for wrapper in row.wrappers}

    def operator(function: str, i: int) -> Row | None:
        name = behind(function, i) if behind is not None else None
        return rows_by_name.get(name) if name is not None else by_wrapper.get(function)

    for registry in profile.kernel_registries:
        reader = _Reader(registry, files, root, profile, targets, dict(assumptions or {}), operator)
        rows += reader.rows()
        problems += reader.problems
    order = sorted(rows, key=lambda row: (row.name, row.path, row.line))
    return tuple(order), tuple(sorted(set(problems), key=lambda p: (p.path, p.line, p.message)))


class _Reader:
    """One registry of one tree."""

    def __init__(
        self,
        registry: KernelRegistry,
        files: dict[str, bytes],
        root: str,
        profile: Profile,
        targets: tuple[str, ...],
        assumptions: dict[str, str],
        operator: Callable[[str, int], Row | None],
    ) -> None:
        self.registry = registry
        self.profile = profile
        self.targets = targets
        self.index = {name: i for i, name in enumerate(load_targets())}
        self.operator = operator
        self.problems: list[Problem] = []
        kind = partial(RegistryProgram, registry)
        self.program = for_all_targets(kind, files, root, profile, assumptions)

    def rows(self) -> list[Row]:
        """Every implementation with its cells."""
        program = self.program
        program.register_all()
        if not program.registered:
            return []
        by_op: dict[str, list[Registered]] = {}
        for entry in program.registered:
            op = self._text(entry, self.registry.key)
            if op is not None and self._text(entry, self.registry.backend) is not None:
                by_op.setdefault(op, []).append(entry)
        self.platform = program.ask(self.registry.platform)  # what the tree's detection says
        out: list[Row] = []
        for op in sorted(by_op):
            choice = _Choice(self, op, by_op[op])
            out += [self._row(op, entry, choice) for entry in by_op[op]]
        return out

    def _text(self, entry: Registered, field: str) -> str | None:
        """A field that is the same text (or enumeration member) on all targets; else a problem."""
        held = {shown(self.program.field(entry.record.at(i), field, i)) for i in self.index.values()}
        text = held.pop() if len(held) == 1 else None
        if text is None:
            self.problems.append(
                Problem(entry.path, entry.line, f"a kernel is registered here whose {field} is not known")
            )
        return text

    # -- one implementation ----------------------------------------------------------------------------

    def _row(self, op: str, entry: Registered, choice: _Choice) -> Row:
        backend = self._text(entry, self.registry.backend) or ""
        target = shown(self.program.field(entry.record.at(0), self.registry.target, 0)) or ""
        function = target.replace(":", ".")
        admitted = self._admitted(entry)
        cells = {}
        for name in self.targets:
            i = self.index[name]
            cells[name] = self._cell(name, i, entry, target, function, admitted, choice)
        place = self.program.names.get(target.partition(":")[0], entry.path)
        return Row(
            name=f"{op}[{backend}]",
            kind="registry",
            path=entry.path,
            line=entry.line,
            cells=cells,
            function=target,
            area=self.profile.area(place),
        )

    def _admitted(self, entry: Registered) -> V:
        """Whether the record's own method admits the platform."""
        name = self.registry.available
        if not name:
            return V(unknown("the registry has no question for it"))
        program = self.program
        frame = program.module_frame(next(iter(self._modules(entry))))
        return program.call(program.attribute(entry.record, name, frame), [self.platform], {}, frame)

    def _modules(self, entry: Registered) -> Iterable[Any]:
        yield self.program.module(self.program.paths[entry.path])

    def _cell(
        self, name: str, i: int, entry: Registered, target: str, function: str, admission: V, choice: _Choice
    ) -> Cell:
        admitted = admission.at(i)
        specific = any(truth_of(s) is False for s in admission.scalars())
        held = self.program.field(entry.record.at(i), self.registry.requires, i)
        requires = requirement(held)
        proof = [Step(f"registered, requires {requires}", entry.path, entry.line)]
        picked, why, step = choice.of(target, i)
        proof += [step] if step is not None else []
        if not entry.may >> i & 1:
            return Cell("raises", "is not registered on this target", tuple(proof))
        if not entry.must >> i & 1:
            return Cell("unknown", "whether it is registered hangs on conditions", tuple(proof))
        truth = truth_of(admitted)
        if truth is None:
            because = ", ".join(sorted(reasons_of(admitted))) or "open"
            return Cell("unknown", f"what it requires is not decided: {because}", tuple(proof))
        if truth is False:
            if picked is True:
                text = f"not declared for it, yet {why}: requires {requires}"
                return Cell("unknown", text, tuple(proof))
            return Cell("raises", f"requires {requires}; {why}", tuple(proof))
        op = self.operator(function, i)
        below = op.cells.get(name) if op is not None else None
        if op is not None and below is not None and below.outcome != "runs":
            text = f"its declaration admits the target; {op.name}: {below.reason or below.outcome}"
            return Cell(below.outcome, f"{text}; {why}", (*proof, *below.proof))
        if op is not None and below is not None:
            return Cell("runs", f"requires {requires}; {op.name} runs; {why}", (*proof, *below.proof))
        if not specific:
            return Cell("unknown", f"requires {requires}, {NO_WORD}; {why}", tuple(proof))
        return Cell("runs", f"requires {requires}; {why}", tuple(proof))


class _Choice:
    """Which implementation of one operator is used when the caller names none."""

    def __init__(self, reader: _Reader, op: str, entries: list[Registered]) -> None:
        self.reader = reader
        self.op = op
        self.entries = entries
        program = reader.program
        self.names = {
            shown(program.field(e.record.at(0), reader.registry.target, 0)): shown(
                program.field(e.record.at(0), reader.registry.backend, 0)
            )
            for e in entries
        }
        self.owner = self._owner()
        self.raised: list[Raised] = []
        self.back = self.maybe_raised = program.full  # where the call comes back, and where it may not
        if self.owner is not None:
            self.value = self._call_dispatch(self.owner)
        else:
            self.value = self._call_select()

    def _owner(self) -> V | None:
        """The object whose methods the implementations are, where it dispatches itself."""
        registry = self.reader.registry
        target = next(iter(self.names), None)
        if not registry.dispatch or not target or "." not in target.partition(":")[2]:
            return None
        name, _, attr = target.partition(":")
        module = self.reader.program.module(name)
        if module is None:
            return None
        value = self.reader.program.global_value(module, attr.split(".")[0])
        scalar = value.one if value is not None else None
        if isinstance(scalar, Instance) and scalar.info.find(registry.dispatch) is not None:
            return value
        return None

    def _call_dispatch(self, owner: V) -> V:
        program = self.reader.program
        frame = program.module_frame(owner.one.info.module)
        method = program.attribute(owner, self.reader.registry.dispatch, frame)
        return program.call(method, [], {}, frame)

    def _call_select(self) -> V:
        reader = self.reader
        module, function = reader.program.find(reader.registry.select)
        if module is None or function is None:
            return V(unknown(f"missing {reader.registry.select}"))
        frame = reader.program.module_frame(module)
        before = len(reader.program.raised)
        frame.thrown = 0
        value = reader.program.call(function, [V(self.op)], {}, frame)
        self.back, self.maybe_raised = frame.may, frame.thrown
        frame.thrown = 0
        self.raised = reader.program.raised[before:]
        return value

    def of(self, target: str, i: int) -> tuple[bool | None, str, Step | None]:
        """Whether the implementation at ``target`` is picked on target ``i``, in words, and its proof."""
        program = self.reader.program
        scalar = self.value.at(i)
        others = sorted(n for t, n in self.names.items() if t != target and n)
        if self.owner is not None:
            function = function_of(scalar)
            if function is None:
                return None, f"which one is picked is open: {_reasons(scalar)}", None
            step = Step(f"dispatch ends at {function.qualname}", function.module.path, function.segment.start)
            name = next((n for t, n in self.names.items() if t and t.endswith(f".{function.name}")), None)
            if name is None:
                return None, f"which one is picked is left to {function.qualname}", step
            if target.endswith(f".{function.name}"):
                return True, "picked", step
            return False, f"{name} is picked", step
        if not self.back >> i & 1:
            at = next((r for r in self.raised if r.may >> i & 1), None)
            what = at.what if at is not None else "an exception"
            raised = Step(f"raises {what}", at.path, at.line) if at is not None else None
            return False, f"picking one without naming it raises {what}", raised
        if isinstance(scalar, Instance) and not self.maybe_raised >> i & 1:
            chosen = shown(program.field(scalar, self.reader.registry.target, i))
            name = shown(program.field(scalar, self.reader.registry.backend, i))
            if chosen == target:
                return True, "picked" if others else "picked unchecked, as the only one", None
            return False, f"{name} is picked", None
        return None, f"which one is picked is open: {_reasons(scalar)}", None


def _reasons(scalar: Any) -> str:
    return ", ".join(sorted(reasons_of(scalar))) or "not followed"


def shown(scalar: Any) -> str | None:
    """A text or an enumeration member's value, or None."""
    if isinstance(scalar, EnumMember):
        scalar = scalar.value
    return scalar if isinstance(scalar, str) else None


def requirement(scalar: Any) -> str:
    """What a record requires, in words made of its own field names."""
    if isinstance(scalar, Seq) and not scalar.items:
        return "no device in particular"
    if isinstance(scalar, Seq) and scalar.kind in ("set", "frozenset", "list", "tuple"):
        if all(isinstance(item, Instance) for item in scalar.items):
            return " or ".join(sorted(requirement(item) for item in scalar.items))
        return ".".join(_plain(item) for item in scalar.items)
    if isinstance(scalar, Instance) and scalar.attrs is not None:
        parts = []
        for name, value in scalar.attrs.items():
            if value.one is None and value.each is None:
                continue
            parts.append(f"{name.replace('_', ' ')} {requirement(value.at(0))}")
        return ", ".join(parts) or scalar.info.name
    return _plain(scalar)


def _plain(scalar: Any) -> str:
    if isinstance(scalar, EnumMember):
        return str(scalar.value)
    if isinstance(scalar, ClassRef):
        return str(scalar.info.name)
    return str(scalar) if is_const(scalar) else "something open"
