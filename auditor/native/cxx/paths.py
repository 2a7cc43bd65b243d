"""Values and ways through a C++ function, and how ways that tell the same become one."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from math import isfinite
from typing import Any, NamedTuple

from auditor.native.cxx.program import NOTHING, Facts
from auditor.native.model import Step
from auditor.native.sources.text import whole_number

MAX_PATHS = 24


class Val(NamedTuple):
    """A value: known or not. ``arch``: the capability decides it, whether known or not."""

    known: bool = False
    value: Any = None
    arch: bool = False


UNKNOWN = Val()
ARCH_UNKNOWN = Val(False, None, True)


class Props:
    """The properties of the device."""


class Lambda(NamedTuple):
    """A function without a name, with its body."""

    node: Any


@dataclass
class Path:
    """One way through: variables, and what happened on it."""

    env: dict[str, Val] = field(default_factory=dict)
    facts: Facts = NOTHING
    told: tuple[tuple[bool, Step], ...] = ()  # tests of the capability in order; whether each let it in
    doubt: tuple[str, ...] = ()
    aside: bool = False  # within a branch that something else than the capability chooses

    @property
    def steps(self) -> tuple[Step, ...]:
        """The tests of the capability on the way."""
        return tuple(step for _let_in, step in self.told)

    @property
    def missed(self) -> tuple[Step, ...]:
        """Those that left this target out."""
        return tuple(step for let_in, step in self.told if not let_in)

    def copy(self) -> Path:
        """The same with variables of its own."""
        return replace(self, env=dict(self.env))


class End(NamedTuple):
    """How a path ends: ``return`` (or the end of the function) or ``raise``."""

    kind: str
    value: Val
    path: Path
    step: Step | None = None  # what raises
    by_arch: bool = False  # the capability decided that it raises


def compared(operator: str, a: Val, b: Val) -> Val:
    """The value of ``a operator b``, known as far as the operator allows."""
    arch = a.arch or b.arch
    if operator in ("&&", "and"):
        for one in (a, b):
            if one.known and not one.value:
                return Val(True, False, one.arch)
        return Val(True, True, arch) if a.known and b.known else Val(False, None, arch)
    if operator in ("||", "or"):
        for one in (a, b):
            if one.known and one.value:
                return Val(True, True, one.arch)
        return Val(True, False, arch) if a.known and b.known else Val(False, None, arch)
    if not (a.known and b.known and isinstance(a.value, (int, float)) and isinstance(b.value, (int, float))):
        return Val(False, None, arch)
    x, y = a.value, b.value
    if operator in ("/", "%"):
        if not y or not isinstance(x, int) or not isinstance(y, int):
            return Val(False, None, arch)
        return Val(True, x // y if operator == "/" else x % y, arch)
    if operator in ("<<", ">>", "&", "|", "^"):
        if not isinstance(x, int) or not isinstance(y, int) or (operator[0] in "<>" and not 0 <= y < 64):
            return Val(False, None, arch)
        done: Any = {"<<": x << y if operator == "<<" else 0, ">>": x >> y if operator == ">>" else 0}.get(
            operator
        )
        done = {"&": x & y, "|": x | y, "^": x ^ y}.get(operator, done)
        return Val(True, done, arch)
    table: dict[str, Any] = {"==": x == y, "!=": x != y, "<": x < y, "<=": x <= y, ">": x > y, ">=": x >= y}
    table |= {"+": x + y, "-": x - y, "*": x * y}
    return Val(True, table[operator], arch) if operator in table else Val(False, None, arch)


def number(shown: str) -> Val:
    """The value of a number as C++ writes it."""
    value = whole_number(shown)
    if value is not None:
        return Val(True, value)
    try:
        amount = float(shown.replace("'", "").rstrip("uUlLfF"))
    except ValueError:
        return UNKNOWN
    return Val(True, amount) if isfinite(amount) else UNKNOWN


def fewer(paths: list[Path]) -> list[Path]:
    """Paths that tell the same story become one; too many become one in doubt."""
    if len(paths) < 2:
        return paths
    groups: dict[Any, Path] = {}
    for path in paths:
        key = (path.facts, path.told, path.doubt, path.aside)
        old = groups.get(key)
        if old is None:
            groups[key] = path
        elif old.env != path.env:
            names = old.env.keys() | path.env.keys()
            old.env = {name: _same(old.env.get(name, UNKNOWN), path.env.get(name, UNKNOWN)) for name in names}
    out = list(groups.values())
    if len(out) > MAX_PATHS:
        first = out[0]
        for path in out[1:]:
            first.facts = first.facts.plus(path.facts)
        first.doubt = tuple(dict.fromkeys((*first.doubt, f"more than {MAX_PATHS} ways through")))
        return [first]
    return out


def _same(a: Val, b: Val) -> Val:
    if a.known and b.known and a.value == b.value:
        return Val(True, a.value, a.arch or b.arch)
    return Val(False, None, a.arch or b.arch)


def fewer_ends(ends: Iterable[End]) -> list[End]:
    """Ends that tell the same story become one."""
    seen: dict[Any, End] = {}
    for end in ends:
        shown = end.value.value if isinstance(end.value.value, (int, float)) else None
        key = (
            end.kind,
            end.value.known,
            shown,
            end.step,
            end.path.facts,
            end.path.told,
            end.path.doubt,
        )
        seen.setdefault(key, end)
    return list(seen.values())
