"""Random predicates over a kit of classes, enums and decorators: more idioms than whole programs have, many at once.

``program(rng, count)`` gives the files of a package with so many functions, each of which is a program of its own:
it reads no name that another sets.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import program_fuzz
import program_oracle

KIT = """\
import functools
import os
from dataclasses import dataclass, field, replace
from enum import Enum, IntEnum
from typing import NamedTuple, Optional

from example.gpu import cap, flag, major, minor, number


class Kind(Enum):
    OLD = "old"
    HOPPER = 9
    DATACENTRE = 10
    WORKSTATION = 12

    @property
    def fp4(self):
        return self in (Kind.DATACENTRE, Kind.WORKSTATION)

    @classmethod
    def here(cls):
        try:
            return cls(major())
        except ValueError:
            return cls.OLD


class Level(IntEnum):
    LOW = 8
    MID = 9
    HIGH = 12


class Pair(NamedTuple):
    high: int
    low: int = 0

    def as_number(self):
        return self.high * 10 + self.low


@functools.total_ordering
class Version:
    def __init__(self, high, low=0):
        self.high, self.low = high, low

    def __eq__(self, other):
        return (self.high, self.low) == (other.high, other.low)

    def __lt__(self, other):
        return (self.high, self.low) < (other.high, other.low)

    def __hash__(self):
        return hash((self.high, self.low))


@dataclass(frozen=True)
class Spec:
    name: str
    least: int = 8
    most: Optional[int] = None
    names: tuple = ()

    @property
    def fits(self):
        return self.least <= major() and (self.most is None or major() <= self.most)

    def with_most(self, most):
        return replace(self, most=most)


@dataclass
class Box:
    items: list = field(default_factory=list)
    on: bool = False

    def __post_init__(self):
        self.on = self.on or major() >= 10

    def __len__(self):
        return len(self.items)

    def __bool__(self):
        return self.on

    def __contains__(self, item):
        return item in self.items

    def __getitem__(self, at):
        return self.items[at]

    def __call__(self, value=0):
        return value > len(self.items)


class Base:
    least = 9
    table = {9: "h", 10: "b", 12: "w"}

    @staticmethod
    def plus(a, b=1):
        return a + b

    @classmethod
    def ok(cls, offset=0):
        return major() >= cls.least + offset

    @functools.cached_property
    def name(self):
        return self.table.get(major(), "x")

    def go(self, *args, **kwargs):
        return len(args) + len(kwargs) + major() > 12


class Derived(Base):
    least = 10

    @classmethod
    def ok(cls, offset=0):
        return super().ok(offset) and minor() == 0

    def go(self, *args, **kwargs):
        return not super().go(*args, **kwargs)


def only(*majors):
    def wrap(function):
        @functools.wraps(function)
        def inner(*args, **kwargs):
            if major() not in majors:
                return False
            return function(*args, **kwargs)
        return inner
    return wrap


@only(9, 10)
def wide(x=True):
    return x


@only(12)
def narrow(x=True, *, force=False):
    return x or force


@functools.lru_cache(maxsize=None)
def cached(n):
    return number() >= n


def spread(a, b=2, *rest, key=None, **more):
    return a + b + len(rest) + (0 if key is None else 1) + len(more)


def early(x):
    if x is None:
        return False
    for candidate in (9, 10, 12):
        if candidate == major():
            break
    else:
        return False
    with open(os.devnull) if False else _nothing():
        return candidate >= x


class _nothing:
    def __enter__(self):
        return self

    def __exit__(self, *exc):
        return False


def names(*majors):
    return [f"sm_{m}0" for m in majors]


SPECS = (Spec("a", 9, 9), Spec("b", 10, 11, ("x", "y")), Spec("c", 12), Spec("d"))
BY_NAME = {s.name: s for s in SPECS}
LIMITS = {"h": (9, 0), "b": (10, 3), "w": (12, 1)}
"""


class Predicates(program_fuzz.Maker):
    """Functions of a few statements that end in a condition; everything in them is local."""

    def number_(self, depth: int = 1) -> str:
        n = lambda: str(self.pick(program_fuzz.NUMBERS))  # noqa: E731
        i = (lambda: self.number_(depth - 1)) if depth > 0 else n
        options: list[Callable[[], str]] = [
            n, lambda: "major()", lambda: "number()", lambda: "minor()", lambda: "cap()[0]",
            lambda: f"Pair(*cap()).{self.pick(('high', 'low', 'as_number()'))}",
            lambda: f"Base.plus({i()}, b={i()})", lambda: f"spread({i()}, *cap())", lambda: f"spread({i()}, key={n()}, **{{'z': 1}})",
            lambda: f"(lambda a, *b, c=1: a + len(b) + c)({i()}, *names(9, 12))", lambda: f"len(Box([{n()}, {n()}]))", lambda: f"Box([{n()}, {i()}])[-1]",
            lambda: f"max((s.least for s in SPECS if s.fits), default={n()})", lambda: "sum(1 for s in SPECS if s.fits)",
            lambda: "functools.reduce(lambda a, b: a * 10 + b, cap())", lambda: f"int('{self.pick((9, 10, 12))}0')", lambda: f"abs({i()} - {i()})",
            lambda: f"sorted([{i()}, {i()}, {i()}], reverse={self.pick((True, False))})[{self.pick((0, 1, -1))}]",
            lambda: f"min({i()}, {i()}, key=lambda v: -v)", lambda: f"{{'h': 9, 'w': 12}}.get(Base().name, {n()})", lambda: f"[*range({self.pick((3, 13))})][{self.pick((-1, 2))}]",
            lambda: f"divmod(number(), 10)[{self.pick((0, 1))}]", lambda: f"(x if (x := {i()}) > {n()} else {i()})", lambda: f"Level.{self.pick(('LOW', 'MID', 'HIGH'))}",
            lambda: "int(f'{major()}{minor()}')", lambda: f"list(zip(cap(), ({n()}, {n()})))[0][{self.pick((0, 1))}]", lambda: f"dict(enumerate(cap(), start=1))[{self.pick((1, 2))}]",
        ]  # fmt: skip
        return str(self.pick(options)())

    def test(self, scope: list[str], depth: int = 2) -> str:
        i = lambda: self.number_(1)  # noqa: E731
        n = lambda: str(self.pick(program_fuzz.NUMBERS))  # noqa: E731
        b = (lambda: self.test(scope, depth - 1)) if depth > 0 else (lambda: f"major() >= {n()}")
        sign = lambda: self.pick(("==", "!=", "<", "<=", ">", ">="))  # noqa: E731
        options: list[Callable[[], str]] = [
            lambda: f"{i()} {sign()} {i()}", lambda: f"{i()} {sign()} {i()}", lambda: f"cap() {sign()} ({n()}, {self.pick((0, 1, 3))})",
            lambda: f"Version(*cap()) {sign()} Version({n()}, {self.pick((0, 1))})", lambda: f"Kind.here() is Kind.{self.pick(('OLD', 'HOPPER', 'DATACENTRE', 'WORKSTATION'))}",
            lambda: "Kind.here().fp4", lambda: f"Kind.here().value == {n()}", lambda: f"{self.pick(('Base', 'Derived'))}.ok({self.pick(('', '1', '-1', 'offset=2'))})",
            lambda: f"{self.pick(('Base', 'Derived'))}().go({self.pick(('', '1', '1, 2, k=3', '*cap()', '**{}'))})", lambda: f"SPECS[{self.pick((0, 1, 2, -1))}].fits",
            lambda: f"BY_NAME['{self.pick('abcd')}'].fits", lambda: f"BY_NAME['{self.pick('abcd')}'].with_most({n()}).fits", lambda: f"{self.pick(('wide', 'narrow'))}({b()})",
            lambda: f"narrow({b()}, force={b()})", lambda: f"cached({n()})", lambda: f"early({self.pick((n(), 'None'))})", lambda: f"bool(Box([], {b()}))", lambda: f"{i()} in Box([{n()}, {n()}])",
            lambda: f"Box([{n()}])({i()})", lambda: f"flag('{self.pick(program_fuzz.FLAGS)}')", lambda: f"(not {b()})", lambda: f"({b()} and {b()})", lambda: f"({b()} or {b()})",
            lambda: f"({b()} if {b()} else {b()})", lambda: f"any(s.fits for s in SPECS if s.least > {n()})", lambda: f"all(major() > v for v in ({n()}, {n()}))",
            lambda: f"f'sm_{{number()}}' in ('sm_{self.pick((90, 100, 120))}', 'sm_121')", lambda: f"f'{{major()}}.{{minor()}}' == '{self.pick(('9.0', '10.3', '12.1'))}'",
            lambda: f"str(number()).{self.pick(('startswith', 'endswith'))}('{self.pick((1, 12, 0))}')", lambda: f"'{{}}.{{}}'.format(*cap()) == '{self.pick(('9.0', '12.0'))}'",
            lambda: f"LIMITS.get(Base().name, (0, 0)) {sign()} cap()", lambda: f"{{m for m in (9, 10, 12) if m == major()}} {self.pick(('==', '<=', '&'))} {{{n()}, 12}}",
            lambda: "{k: v for k, v in LIMITS.items() if v <= cap()} != {}", lambda: f"(y := {i()}) > {n()} and y != {n()}", lambda: f"{n()} {sign()} {i()} {sign()} {n()}",
            lambda: f"isinstance(SPECS[{self.pick((0, 1))}].most, int)", lambda: f"getattr(SPECS[{self.pick((1, 2))}], '{self.pick(('most', 'least', 'nothing'))}', None) is None",
            lambda: f"[s.name for s in SPECS if s.fits][-1:] == ['{self.pick('cd')}']", lambda: f"next((s for s in SPECS if s.fits), SPECS[-1]).name == '{self.pick('abcd')}'",
            lambda: f"'{self.pick('xyz')}' in SPECS[1].names", lambda: f"(lambda v, /, w=12, *, z=False: v == w or z)(major(){self.pick(('', ', 9', ', z=True'))})",
            lambda: f"tuple(map(lambda v: v > {n()}, cap())) == (True, {self.pick((True, False))})", lambda: f"len(list(filter(None, cap()))) == {self.pick((1, 2))}",
            lambda: f"os.environ.get('{self.pick(program_fuzz.FLAGS)}', '{self.pick(('0', '1'))}') == '1'", lambda: f"(cap() > (9,)) is {self.pick((True, False))}",
        ]  # fmt: skip
        for name in scope:
            options += [lambda name=name: name] * 3  # type: ignore[misc]
        return str(self.pick(options)())

    def lines_of(self, scope: list[str], indent: str = "    ", depth: int = 2) -> None:
        for _ in range(self.rng.randrange(1, 4)):
            t = lambda: self.test(scope, 1)  # noqa: E731
            name = self.fresh("b")
            form = self.rng.randrange(14 if depth else 5)
            if form < 3:
                self.add(f"{indent}{name} = {t()}")
            elif form == 3:
                self.add(f"{indent}{name}, *rest = {t()}, {self.number_()}, {t()}")
            elif form == 4:
                self.add(f"{indent}{name} = {t()}")
                self.add(f"{indent}{name} {self.pick(('|=', '&=', '^='))} {t()}")
            elif form == 5:
                self.add(f"{indent}if {t()}:")
                self.lines_of(list(scope), indent + "    ", depth - 1)
                self.add(f"{indent}{name} = {t()}")
            elif form == 6:
                self.add(
                    f"{indent}match {self.pick(('cap()', 'major()', 'Pair(*cap())', 'Kind.here()', 'SPECS[1]', '{1: major(), 2: minor()}', '[*cap(), 1]'))}:"
                )
                for _case in range(self.rng.randrange(1, 4)):
                    pattern = self.pick((
                        "(9, _)", "(10 | 12, 0)", "[major_, *_] if major_ > 9", "9 | 10", "int(v) if v > 9", "Pair(high=12)", "Kind.WORKSTATION | Kind.HOPPER",
                        "Spec(least=10, name=which)", "{1: 12}", "{1: 9 | 10, **others}", "[10, *_, 1]", "(a, b) if a > b", "str()", "[]", "_ if flag('FLAG_A')",
                    ))  # fmt: skip
                    self.add(f"{indent}    case {pattern}:")
                    self.add(f"{indent}        {name} = {t()}")
                self.add(f"{indent}    case _:")
                self.add(f"{indent}        {name} = {t()}")
            elif form == 7:
                self.add(f"{indent}try:")
                self.add(f"{indent}    if {t()}:")
                self.add(f"{indent}        raise {self.pick(('ValueError', 'KeyError', 'Explicit'))}('no')")
                self.add(f"{indent}    {name} = {t()}")
                self.add(
                    f"{indent}except {self.pick(('ValueError', '(KeyError, Explicit)', 'Exception'))} as error:"
                )
                self.add(f"{indent}    {name} = {self.pick((t(), 'str(error) == chr(110)'))}")
                if self.chance(40):
                    self.add(f"{indent}finally:")
                    self.add(f"{indent}    done = {t()}")
            elif form == 8:
                self.add(f"{indent}{name} = False")
                self.add(
                    f"{indent}for item in {self.pick(('SPECS', 'cap()', 'range(8, 13)', 'LIMITS.values()', 'sorted(LIMITS)', 'zip(cap(), (9, 0))'))}:"
                )
                self.add(f"{indent}    if {t()}:")
                self.add(f"{indent}        {name} = {t()}")
                self.add(f"{indent}        {self.pick(('break', 'continue', 'pass'))}")
                self.add(f"{indent}    {name} = {name} or {t()}")
            elif form == 9:
                self.add(f"{indent}def inner_{name}(v={t()}):")
                self.add(f"{indent}    return v {self.pick(('and', 'or'))} {t()}")
                self.add(f"{indent}{name} = inner_{name}({self.pick(('', t()))})")
            elif form == 10:
                self.add(f"{indent}items = [{self.number_()}, {self.number_()}]")
                self.add(f"{indent}other = items{self.pick(('', '[:]', '.copy()'))}")
                self.add(f"{indent}other.append({self.number_()})")
                self.add(f"{indent}{name} = len(items) == 3 or {self.number_()} in items")
            elif form == 11:
                self.add(f"{indent}spec = Spec('e', {self.number_()}, names=tuple(names(9, 10)))")
                self.add(f"{indent}{name} = spec.fits and spec.names[0] {self.pick(('==', '!='))} 'sm_90'")
            elif form == 12:
                self.add(f"{indent}box = Box([{self.number_()}], on={t()})")
                self.add(f"{indent}box.on = {t()}")
                self.add(
                    f"{indent}{name} = box.on and {self.pick(('bool(box)', 'len(box) == 1', 'box.items[0] > 9'))}"
                )
            else:
                self.add(
                    f"{indent}{name} = functools.partial(narrow, {t()})({self.pick(('', 'force=True'))})"
                )
            scope.append(name)

    def predicates(self, count: int, short: bool = False) -> dict[str, str]:
        self.add("from example.kit import *")
        self.add("from example.kit import _nothing")
        self.add("from example.gpu import Explicit")
        self.add("import functools, os")
        self.add("")
        for _ in range(count):
            name = self.fresh("g")
            self.add(f"def {name}():")
            scope: list[str] = []
            if not short:
                self.lines_of(scope)
                self.add(f"    if {self.test(scope)}:")
                self.add(f"        return {self.test(scope, 1)}")
            self.add(f"    return {self.test(scope)}")
            self.add("")
        return {
            "example/__init__.py": "",
            "example/gpu.py": program_fuzz.GPU,
            "example/kit.py": KIT,
            "example/case.py": "\n".join(self.lines) + "\n",
        }


def program(rng: Any, count: int, short: bool = False) -> dict[str, str]:
    """The files of a package with so many predicates; ``short``: each of one line, as most of SGLang's are."""
    return Predicates(rng).predicates(count, short)


def faults(files: dict[str, str]) -> list[str]:
    """What an audit of them gets wrong."""
    report = program_oracle.report_of(files)
    settings = program_fuzz.SETTINGS if "FLAG_" in files["example/case.py"] else program_fuzz.SETTINGS[:1]
    probe = program_oracle.run(files, report, [("example.case", program_fuzz.drive)], settings)
    return [
        f"problem: {p.path}:{p.line} {p.message}" for p in report.problems
    ] + program_oracle.contradictions(report, probe)


__all__ = ["faults", "program"]
