"""What a start leaves behind, and what it did on the way."""

from __future__ import annotations

from dataclasses import dataclass, field

from auditor.program.values import V


@dataclass(frozen=True)
class Write:
    """One assignment to an argument. ``may`` and ``must`` are target masks: where a start may come to it, and
    where every start does that does not end in an exception."""

    name: str
    value: V
    path: str
    line: int
    symbol: str
    may: int
    must: int


@dataclass(frozen=True)
class EnvWrite:
    """One environment flag that is set. ``guarded``: only where the user had not set it."""

    name: str
    value: V
    path: str
    line: int
    symbol: str
    may: int
    must: int
    guarded: bool


@dataclass(frozen=True)
class Stop:
    """A raise that a start may run into."""

    path: str
    line: int
    symbol: str
    may: int
    must: int
    what: str


@dataclass
class Startup:
    """What a start leaves behind."""

    arguments: dict[str, V] = field(default_factory=dict)
    writes: list[Write] = field(default_factory=list)
    env: list[EnvWrite] = field(default_factory=list)
    raises: list[Stop] = field(default_factory=list)
    entered: int = 0
    complete: bool = True  # False: the budget ended first, and no argument is known


__all__ = ["EnvWrite", "Startup", "Stop", "Write"]
