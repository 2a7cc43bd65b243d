"""Where code is being evaluated: the frame of a module, class or function, and its control state."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from auditor.program.values import EMPTY, Function, V


class Frame:
    """Names and control state of one body.

    ``may`` holds the targets on which the current point may be reached, ``must`` those on which it surely
    is, and ``stay`` those on which control surely came through the innermost branch without leaving it.
    """

    __slots__ = (
        "module",
        "env",
        "owner",
        "this",
        "parent",
        "symbol",
        "kind",
        "may",
        "must",
        "stay",
        "recorder",
        "returns",
        "depth",
        "globals",
        "tests",
        "left",
        "raises",
        "guarded",
        "nested",
        "writes",
        "fields",
        "statement",
        "effects",
        "thrown",
        "touched",
        "loose",
        "text",
        "marked",
        "heads",
        "late",
        "failed",
        "kept",
    )

    def __init__(
        self,
        module: Any,
        env: dict[str, V],
        *,
        full: int,
        kind: str,
        owner: Any = None,
        parent: Frame | None = None,
        symbol: str = "",
        recorder: Callable[..., None] | None = None,
        depth: int = 0,
    ) -> None:
        self.module = module
        self.env = env
        self.owner = owner
        self.this: str | None = None
        self.parent = parent
        self.symbol = symbol
        self.kind = kind  # module | class | function
        self.may = full
        self.must = full
        self.stay = full
        self.recorder = recorder
        self.returns: list[tuple[int, V, frozenset[str], frozenset[str], frozenset[str]]] = []
        self.depth = depth
        self.globals: set[str] = set()
        self.tests: list[V] = []  # tests of the branches we are in
        self.left: list[V] = []  # tests of branches that some path left by return or raise
        self.raises = 0  # counts what may raise
        self.failed = 0  # counts what may raise here and now, calls of what is not known left out
        self.guarded = 0  # inside try bodies
        self.nested: list[tuple[Any, dict[str, V]]] = []
        self.writes: dict[str, V] = {}
        self.fields: dict[str, V] | None = None  # attributes of the object a constructor is building
        self.statement: Any = None  # (block, index) of the statement being run
        self.text: tuple[int, list[str]] | None = None  # (first line, lines) of a function that is visited
        # First names of the attribute paths in ``env``, perhaps of some that were there before: whoever puts
        # in ``a.b`` adds ``a``, so that most names need no look at the whole environment.
        self.heads: set[str]
        if kind == "module" and env is module.globals:
            self.heads = module.heads
        else:
            self.heads = {key.split(".", 1)[0] for key in env if "." in key}
        self.marked: set[str] = set()  # local names that were bound to a value with roots
        self.late = 0  # targets on which an earlier round of an unrolled loop has run
        #: Of each return: its targets, the attributes of the object there, and what decides that it is met.
        self.kept: list[tuple[int, dict[str, V], V]] = []
        self.thrown = 0  # targets on which an explicit raise may have left the body
        self.touched: list[Any] = []  # containers changed in place
        self.loose: set[str] = set()  # names that functions inside rebind
        self.effects: dict[tuple[str, str], V] = {}  # module globals that called functions have set

    def fail(self) -> None:
        """Note an operation that may raise: whoever calls this function may get that too. (That calls of what
        is not known may raise is supposed of no function that is called.)"""
        self.raises += 1
        self.failed += 1

    @classmethod
    def of(
        cls,
        function: Function,
        env: dict[str, V],
        full: int,
        depth: int,
        recorder: Callable[..., None] | None = None,
    ) -> Frame:
        """A frame at the start of a function of the tree; ``env`` holds its parameters."""
        return cls(
            function.module,
            env,
            full=full,
            kind="function",
            owner=function.owner,
            parent=function.closure,
            symbol=function.qualname,
            recorder=recorder,
            depth=depth,
        )

    def control(self) -> tuple[frozenset[str], frozenset[str], frozenset[str]]:
        """Roots, names and reasons of every test that decides whether control is here."""
        roots = via = reasons = EMPTY
        for test in self.tests:
            roots, via = roots | test.roots, via | test.via
            reasons = reasons | _reasons(test)
        for test in self.left:
            roots, via = roots | test.roots, via | test.via
            reasons = reasons | _reasons(test)
        return roots, via, reasons


def _reasons(value: V) -> frozenset[str]:
    from auditor.program.values import all_reasons

    return all_reasons(value)
