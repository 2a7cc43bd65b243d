"""The state of a start: what the arguments and the environment are at the current point.

State is kept in *cells*, entries of the environment of the innermost entered function, so that branches,
exits and merges treat it like any local name:

- ``@.NAME``: an argument as the record holds it;
- ``@+.NAME``: what was decided about it beside the record, and ``@?.NAME`` whether anything was;
- ``@env.NAME``: an environment flag that the start has touched; ``@env.?`` one whose name is not known.

A write is strong in the function that is being run, weak (it may or may not have happened) in a
comprehension, and only noted in a function that is evaluated in passing: its caller then enters it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from auditor.program.frames import Frame
from auditor.program.program import Program
from auditor.program.values import (
    Bound,
    Function,
    Instance,
    Map,
    Partial,
    Seq,
    Unknown,
    V,
    make,
    truth_of,
    unknown,
)

RAW, VIEW, RECORDER = "raw", "view", "recorder"
_DEEP = 3  # nesting of containers and objects in which the arguments are looked for


class Tracked(Instance):
    """The argument object. Its attributes live in cells, not in ``attrs``.

    ``layer``: the record itself, a view of what was decided so far, or a view whose writes are decisions.
    ``taken``: what had been decided when a view was made, where it does not see what is decided later.
    """

    __slots__ = ("layer", "taken")

    def __init__(self, info: Any, layer: str, taken: dict[str, V] | None = None) -> None:
        super().__init__(info, {})
        self.layer = layer
        self.taken = taken


class Ledger:
    """The list in which decisions are kept."""

    __slots__ = ()


LEDGER = Ledger()


def cells(env: dict[str, V]) -> dict[str, V]:
    """The part of an environment that is state of the start."""
    return {k: v for k, v in env.items() if k[0] == "@"}


class State(Program):
    """Reading and writing cells."""

    def __init__(self, like: Program) -> None:
        super().__init__(
            like.files,
            like.root,
            like.profile,
            like.world.capabilities,
            like.world.shared,
            like.assume,
            like.shared_sm,
        )
        self._now: list[Frame] = []  # entered functions, innermost last
        self._trying: list[dict[str, list[V]]] = []  # per try body that is being run: what it wrote
        self._journal: list[tuple[str, V | None]] = []  # cells written, with the value before
        self._env_names: list[str] = []  # flags that were ever touched
        self.fields: set[str] = set()  # names of arguments
        self.info: Any = None  # the class of the arguments
        self.record_object = Tracked(None, RAW)
        self.view_object = Tracked(None, VIEW)
        self.recorder_object = Tracked(None, RECORDER)

    # -- cells -------------------------------------------------------------------------------------

    @property
    def top(self) -> Frame:
        return self._now[-1]

    def relation(self, fr: Frame) -> str:
        """How a frame stands to the innermost entered function: ``here``, ``inside`` it, or ``aside``."""
        if not self._now:
            return "aside"
        top = self._now[-1]
        if fr is top:
            return "here"
        frame = fr.parent
        while frame is not None:
            if frame is top:
                return "inside"
            frame = frame.parent
        return "aside"

    def cell(self, key: str) -> V | None:
        return self._now[-1].env.get(key) if self._now else None

    def set_cell(self, key: str, value: V, fr: Frame) -> None:
        """Write a cell from a frame, as strongly as that frame allows."""
        relation = self.relation(fr)
        if relation == "aside":
            fr.effects[("@", key)] = value
            return
        env = self._now[-1].env
        old = env.get(key)
        self._journal.append((key, old))
        if relation == "inside":
            before = old if old is not None else self._unwritten(key, fr)
            value = self.select(self.full, self.full, before, value, V(unknown("comprehension")))
        env[key] = value
        for written in self._trying:
            written.setdefault(key, []).append(value)

    def _unwritten(self, key: str, fr: Frame) -> V:
        if key.startswith("@."):
            value = self.class_value(self.info, key[2:], fr) if self.info is not None else None
            return value if value is not None else V(unknown(f"attribute {key[2:]}"))
        if key.startswith("@+."):
            value = self.cell("@." + key[3:])
            return value if value is not None else self._unwritten("@." + key[3:], fr)
        if key.startswith("@?."):
            return V(False)
        if key == "@env.?":
            return V(None)
        if key.startswith("@env."):
            return self.world.environment(key[5:], None)
        if key == "@published":
            return V(False)
        return super()._unwritten(key, fr)

    def _merge(self, ma: int, a: dict[str, V], mb: int, b: dict[str, V], test: V, fr: Frame) -> dict[str, V]:
        if ma and mb:
            a, b = self._complete(a, b, fr), self._complete(b, a, fr)
        return super()._merge(ma, a, mb, b, test, fr)

    def _complete(self, a: dict[str, V], b: dict[str, V], fr: Frame) -> dict[str, V]:
        """Where only ``b`` has decided something, ``a`` says what the record holds in ``a``."""
        missing = [k for k in b if k[0] == "@" and k not in a]
        if not missing:
            return a
        out = dict(a)
        for key in missing:
            if key.startswith("@+."):
                held = a.get("@." + key[3:])
                out[key] = held if held is not None else self._unwritten("@." + key[3:], fr)
            else:
                out[key] = self._unwritten(key, fr)
        return out

    # -- arguments ---------------------------------------------------------------------------------

    def read(self, name: str, through: Tracked) -> V | None:
        """An argument at the current point, or None where nothing has set it."""
        if through.layer != RAW:
            value = self.cell(f"@+.{name}") if through.taken is None else through.taken.get(name)
            if value is not None:
                return value
        return self.cell(f"@.{name}")

    def snapshot(self) -> Tracked:
        """A view that keeps showing what has been decided up to now."""
        taken = {k[3:]: v for k, v in self.top.env.items() if k.startswith("@+.")}
        return Tracked(self.info, VIEW, taken)

    def set_record(self, name: str, value: V, fr: Frame) -> None:
        """Assign an attribute of the record. A decision that may already be there still wins."""
        key = f"@+.{name}"
        decided, flag = self.cell(key), self.cell(f"@?.{name}")
        self.set_cell(f"@.{name}", value, fr)
        if decided is None or flag is None:
            return
        each = []
        for i in range(self.count):
            sure = truth_of(flag.at(i))
            if sure is True:
                each.append(decided.at(i))
            elif sure is False:
                each.append(value.at(i))
            else:
                each.append(self._either(decided.at(i), value.at(i), flag.at(i)))
        self.set_cell(key, make(tuple(each)), fr)

    def _either(self, a: Any, b: Any, why: Any) -> Any:
        return self.select(self.full, self.full, V(a), V(b), V(why)).at(0)

    def decide(
        self, name: str, value: V, status: tuple[int, ...], fr: Frame, why: frozenset[str] = frozenset()
    ) -> None:
        """Record a decision beside the record. ``status`` per target: 0 none, 1 perhaps, 2 surely."""
        old = self.read(name, self.view_object)
        if old is None:
            old = self._unwritten(f"@.{name}", fr)
        flag = self.cell(f"@?.{name}") or V(False)
        open_ = Unknown(why or frozenset({f"path to {name}"}))
        each: list[Any] = []
        flags: list[Any] = []
        for i, how in enumerate(status):
            if how == 2:
                each.append(value.at(i))
                flags.append(True)
            elif how == 1:
                each.append(self._either(old.at(i), value.at(i), open_))
                flags.append(True if flag.at(i) is True else open_)
            else:
                each.append(old.at(i))
                flags.append(flag.at(i))
        whole = value if all(s == 2 for s in status) else make(tuple(each))
        self.set_cell(f"@+.{name}", whole, fr)
        self.set_cell(f"@?.{name}", make(tuple(flags)), fr)
        published = self.cell("@published")
        if published is not None and truth_of(published.one) is not False:
            self.set_cell(f"@.{name}", whole, fr)

    def publish(self, fr: Frame) -> None:
        """Decisions are written into the record."""
        for key, value in list(self.top.env.items()):
            if key.startswith("@+."):
                self.set_cell("@." + key[3:], value, fr)
        self.set_cell("@published", V(True), fr)

    def clear_decisions(self, fr: Frame) -> None:
        """All decisions so far are dropped."""
        for key in [k for k in self.top.env if k.startswith("@+.")]:
            name = key[3:]
            self.set_cell(key, self.read(name, self.record_object) or self._unwritten(f"@.{name}", fr), fr)
            self.set_cell(f"@?.{name}", V(False), fr)

    def forget_arguments(self, reason: str, fr: Frame) -> None:
        """Something that cannot be followed may have set any argument."""
        gone = V(unknown(reason))
        frame = fr if self.relation(fr) == "here" else self.top
        for name in sorted(self.fields):
            self.set_cell(f"@.{name}", gone, frame)
            if self.cell(f"@+.{name}") is not None:
                self.set_cell(f"@+.{name}", gone, frame)
        if self.relation(fr) == "aside":
            fr.effects[("@", "@.*")] = gone

    def forget_decisions(self, reason: str, fr: Frame) -> None:
        """Something that cannot be followed may have decided any argument."""
        gone = V(unknown(reason))
        for name in sorted(self.fields):
            self.set_cell(f"@+.{name}", gone, fr)
            self.set_cell(f"@?.{name}", V(unknown(reason)), fr)

    # -- the environment ---------------------------------------------------------------------------

    def flag(self, name: str) -> V | None:
        """A flag that the start may have touched: its text, None for unset. None: untouched."""
        if self.cell("@env.?") is not None:
            return V(unknown("environment written under a computed name"))
        return self.cell(f"@env.{name}")

    def set_flag(self, name: str, value: V, fr: Frame) -> None:
        if name not in self._env_names:
            self._env_names.append(name)
        self.set_cell(f"@env.{name}", value, fr)

    def _key(self, function: Function, args: list[V], kwargs: dict[str, V]) -> Any:
        """Results are remembered per state of the environment."""
        key = super()._key(function, args, kwargs)
        if not self._env_names or not self._now:
            return key
        env = self._now[-1].env
        state = tuple(env.get(f"@env.{name}") for name in self._env_names)
        self._alive.append(state)
        return (*key, tuple(id(v) for v in state))

    # -- aliases -----------------------------------------------------------------------------------

    def reaches(self, value: V, depth: int = _DEEP) -> bool:
        """Whether code that is given this value can get at the arguments."""
        return any(self._reaches(s, depth) for s in value.scalars())

    def _reaches(self, scalar: Any, depth: int) -> bool:
        if isinstance(scalar, (Tracked, Ledger)):
            return True
        if depth <= 0:
            return False
        if isinstance(scalar, Instance):
            return bool(scalar.attrs) and any(self.reaches(v, depth - 1) for v in scalar.attrs.values())  # type: ignore[union-attr]
        if isinstance(scalar, Bound):
            return self.reaches(scalar.this, depth - 1) or self._reaches(scalar.function, depth - 1)
        if isinstance(scalar, Partial):
            return any(
                self.reaches(v, depth - 1) for v in (scalar.function, *scalar.args, *scalar.kwargs.values())
            )
        if isinstance(scalar, Seq):
            return any(self._reaches(s, depth - 1) for s in scalar.items)
        if isinstance(scalar, Map):
            return any(self._reaches(s, depth - 1) for s in scalar.items.values())
        if isinstance(scalar, Unknown) and scalar.options:
            return any(self._reaches(s, depth - 1) for s in scalar.options)
        if isinstance(scalar, Function) and scalar.closure is not None:
            return self.closes_over(scalar)
        return False

    def closes_over(self, function: Function) -> bool:
        """Whether an inner function can see the arguments."""
        frame = function.closure
        while frame is not None:
            if any(k[0] != "@" and self.reaches(v, 1) for k, v in frame.env.items()):
                return True
            frame = frame.parent
        return False

    def alternatives(self, ways: list[tuple[int, Callable[[], V]]], why: V, fr: Frame) -> V:
        """Run several ways to go on from one state, each on its targets, and merge state and value."""
        may, must = fr.may, fr.must
        before = fr.env
        state: tuple[int, dict[str, V]] | None = None
        value: V | None = None
        done = 0
        sure = must
        for mask, way in ways:
            fr.env = dict(before)
            fr.may, fr.must = may & mask, must & mask
            out = way()
            value = out if value is None else self.select(done, mask, value, out, why)
            done |= mask
            sure &= ~mask | fr.must
            if fr.may:
                state = (
                    (fr.may, fr.env)
                    if state is None
                    else (state[0] | fr.may, self._merge(state[0], state[1], fr.may, fr.env, why, fr))
                )
        assert value is not None
        fr.env = state[1] if state is not None else before
        fr.may = state[0] if state is not None else 0
        fr.must = sure & fr.may
        return value


__all__ = ["LEDGER", "Ledger", "RAW", "RECORDER", "State", "Tracked", "VIEW", "cells"]
