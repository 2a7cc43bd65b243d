"""What the parts of the evaluator ask of each other.

The evaluator is one object in a chain of classes, each of which knows only what stands below it: operators,
displays, expressions, names, attributes, built-in functions, calls, functions, construction, definitions,
exits, branches, loops, statements (``flow``), modules, summaries, recording, visiting, and ``Program``. Where
a part needs something of a later one (evaluating a call runs statements), that is declared here, under the
name of the module it is in.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from auditor.program import externals
from auditor.program.classes import ClassInfo, Module
from auditor.program.frames import Frame
from auditor.program.records import RawGate
from auditor.program.values import Bound, Deferred, Function, Instance, Pending, V
from auditor.program.watch import Watched
from auditor.program.words import Words


class Parts:
    """The state that all parts share, and the methods that earlier parts take from later ones."""

    #: Mask of all targets, and how many there are.
    full: int
    count: int
    #: Expressions that may still be evaluated; a visit that uses them up ends in unknown values.
    steps: int
    #: What lies outside the tree: the targets, the environment, installed packages.
    world: externals.World
    #: What is looked at.
    watch: Watched
    _through_stars: set[tuple[str, str]]
    #: Objects that are kept alive because their ids are keys.
    _alive: list[Any]
    _kept: dict[int, Any]
    #: Frames at the end of modules, by name.
    _frames: dict[str, Frame]
    #: Names of functions that raise on some GPUs only and that are not learned.
    _check_text: Words | None
    #: Containers that statements at the top of a module change, by id.
    _changed_above: dict[int, Any]
    memo_names: dict[int, list[Any]]
    _memo: dict[Any, V]
    _running: set[Any]
    _effects: dict[Any, dict[tuple[str, str], V]]
    _comebacks: dict[Any, tuple[int, int, set[int], bool]]

    if TYPE_CHECKING:
        # expressions
        def ev(self, node: ast.expr, fr: Frame) -> V: ...

        # names
        def name_value(self, name: str, fr: Frame) -> V: ...

        # attributes
        def outside_attribute(self, name: str) -> V: ...

        def attribute(self, base: V, name: str, fr: Frame, node: ast.AST | None = None) -> V: ...

        # calls
        def evaluate_call(self, node: ast.Call, fr: Frame) -> V: ...

        # functions
        def call_function(
            self,
            function: Function,
            args: list[V],
            kwargs: dict[str, V],
            fr: Frame | None,
            node: ast.Call | None = None,
        ) -> V: ...

        def touch_value(self, value: V, fr: Frame) -> None: ...

        def touch(self, scalar: Any, fr: Frame) -> None: ...

        # construction
        def instantiate(
            self, info: ClassInfo, args: list[V], kwargs: dict[str, V], fr: Frame, node: ast.Call | None
        ) -> V: ...

        def run_constructor(
            self, function: Function, obj: Instance, args: list[V], kwargs: dict[str, V], fr: Frame
        ) -> None: ...

        def havoc_self(self, method: Bound, fr: Frame) -> None: ...

        # definitions
        def make_lambda(self, node: ast.Lambda, fr: Frame) -> V: ...

        def function_kind(self, function: Function) -> str: ...

        def opaque_decorator(self, function: Function, fr: Frame) -> bool: ...

        # branches
        def _unwritten(self, key: str, fr: Frame) -> V: ...

        def _merge(
            self, ma: int, a: dict[str, V], mb: int, b: dict[str, V], test: V, fr: Frame
        ) -> dict[str, V]: ...

        # exits
        def final_fields(self, fr: Frame) -> dict[str, V]: ...

        # flow
        def block(self, body: list[ast.stmt], fr: Frame) -> None: ...

        def _stop(self, fr: Frame) -> None: ...

        def assign(self, target: ast.expr, value: V, fr: Frame, node: ast.stmt | None = None) -> None: ...

        def _bind(self, name: str, value: V, fr: Frame, node: ast.AST) -> None: ...

        # modules
        def in_tree(self, name: str) -> bool: ...

        def module(self, name: str) -> Module | None: ...

        def module_frame(self, module: Module) -> Frame: ...

        def module_recorder(self, module: Module) -> Any: ...

        def execute(self, module: Module) -> None: ...

        def force(self, module: Module, name: str, deferred: Deferred) -> V: ...

        def top_block(self, nodes: list[ast.stmt], fr: Frame) -> None: ...

        def worth_resolving(self, pending: Pending, args: Iterable[V]) -> bool: ...

        def hoisted(self, module: Module, name: str) -> V | None: ...

        # summaries
        def returned_type(self, function: Function) -> V | None: ...

        def stored_attribute(self, info: ClassInfo, name: str, fr: Frame) -> V | None: ...

        def written_by(self, function: Function, owner: ClassInfo | None) -> set[str] | None: ...

        def subclasses(self, info: ClassInfo, member: str) -> list[ClassInfo]: ...

        # recording
        def learn(self, name: str, module: Any, short: str, line: int, kind: str, value: V) -> None: ...

        def informative(self, value: V) -> bool: ...

        def met_before(self, kind: str, node: Any, fr: Frame) -> bool: ...
        def record(
            self, kind: str, node: Any, test_node: Any, value: V, fr: Frame, body: Any = None
        ) -> None: ...

        def record_value(self, kind: str, node: Any, expr: ast.expr, value: V, fr: Frame) -> None: ...

        def record_argument(self, node: ast.expr, value: V, fr: Frame) -> None: ...

        def record_table(self, node: Any, table: V, key: V, fr: Frame) -> None: ...

        def _record_raw(self, kind: str, node: Any, test: Any, value: V, fr: Frame, body: Any) -> None: ...

        def _flush(self, key: tuple[str, Any], gates: list[RawGate]) -> None: ...

        # visiting
        def worth_calling(self, function: Function, args: list[V], kwargs: dict[str, V]) -> bool: ...

        def is_hot(self, function: Function) -> bool: ...

        def hot_pattern(self) -> Words: ...

        def readers(self, entry: Any, index: dict[str, set[str]]) -> set[str]: ...

        def note_arguments(self, function: Function, args: list[V], kwargs: dict[str, V]) -> None: ...

        def _entry(self, function: Function, node: Any, recorder: Any) -> Frame: ...
