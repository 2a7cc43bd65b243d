"""Random small programs that ask which GPU they run on, in the idioms the evaluator has to follow.

``program(rng)`` gives the files of a package ``example``; ``rng`` is ``random.Random`` or a look-alike.
Programs may fail when run: what they raise on purpose is ``Explicit``, ``AssertionError`` or SystemExit.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import program_oracle

NUMBERS = (0, 1, 2, 3, 8, 9, 10, 11, 12, 90, 100, 103, 120, 121)
FLAGS = ("FLAG_A", "FLAG_B")
SETTINGS: tuple[dict[str, str | None], ...] = (
    {"FLAG_A": None, "FLAG_B": None},
    {"FLAG_A": "1", "FLAG_B": None},
    {"FLAG_A": None, "FLAG_B": "1"},
    {"FLAG_A": "1", "FLAG_B": "1"},
)
ARGUMENTS = (True, False, None, 0, 12, "auto", (12, 0))

GPU = """\
import os
from functools import lru_cache, partial

import torch


class Explicit(Exception):
    pass


@lru_cache(maxsize=None)
def cap():
    return torch.cuda.get_device_capability()


def major():
    return cap()[0]


def minor():
    high, low = torch.cuda.get_device_capability()
    return low


def number():
    high, low = cap()
    return high * 10 + low


def props():
    return torch.cuda.get_device_properties(0)


def is_major(wanted):
    return major() == wanted


def in_majors(majors):
    return major() in majors


ten = partial(is_major, 10)
blackwell = partial(in_majors, majors=[10, 11, 12])


def flag(name):
    return os.environ.get(name) == "1"


def need(wanted):
    if major() < wanted:
        raise Explicit("too old")
    return True


def push(items, value):
    items.append(value)


def put(table, key, value):
    table[key] = value


IS_NEW = major() >= 10
"""


class Maker:
    """Builds one program. Names are typed by their first letter: b bool, i int, t tuple, l list, d dict,
    f function without arguments, o object, p parameter."""

    def __init__(self, rng: Any) -> None:
        self.rng = rng
        self.count = 0
        self.lines: list[str] = []
        self.functions: list[tuple[str, int]] = []  # name, number of parameters
        self.globals: list[str] = []
        self.classes: list[str] = []
        self.givers: list[str] = []  # functions that return a list of the module
        self.loops = 0
        self.holders = self.chance(35)  # mostly lists that change under several names

    # -- choices -----------------------------------------------------------------------------------

    def pick(self, options: Any) -> Any:
        return options[self.rng.randrange(len(options))]

    def chance(self, percent: int) -> bool:
        return bool(self.rng.randrange(100) < percent)

    def fresh(self, kind: str) -> str:
        self.count += 1
        return f"{kind}{self.count}"

    def named(self, kind: str, scope: list[str]) -> str | None:
        names = [n for n in scope if n[0] == kind]
        return self.pick(names) if names else None

    # -- expressions -------------------------------------------------------------------------------

    def integer(self, scope: list[str], depth: int = 2) -> str:
        name = self.named("i", scope)
        options: list[Callable[[], str]] = [
            lambda: str(self.pick(NUMBERS)),
            lambda: "major()",
            lambda: "number()",
            lambda: "cap()[0]",
            lambda: "cap()[1]",
            lambda: "minor()",
            lambda: "props().major",
            lambda: "props().minor",
        ]
        if name:
            options += [lambda: name] * 6
        if depth > 0:
            options += [
                lambda: (
                    f"({self.integer(scope, depth - 1)} {self.pick(('+', '-', '*', '//', '%'))} {self.integer(scope, depth - 1)})"
                ),
                lambda: (
                    f"({self.integer(scope, depth - 1)} if {self.boolean(scope, depth - 1)} else {self.integer(scope, depth - 1)})"
                ),
                lambda: f"max({self.integer(scope, depth - 1)}, {self.integer(scope, depth - 1)})",
                lambda: f"len({self.sequence(scope)})",
                lambda: f"sum({self.sequence(scope)})",
                lambda: f"int({self.boolean(scope, depth - 1)})",
                lambda: f"{self.sequence(scope)}[{self.pick((0, 1, -1))}]",
                lambda: f"{self.table(scope)}.get({self.integer(scope, 0)}, {self.integer(scope, 0)})",
                lambda: f"{self.table(scope)}[{self.integer(scope, 0)}]",
                lambda: f"(-{self.integer(scope, depth - 1)})",
            ]
            obj = self.named("o", scope)
            if obj:
                options += [lambda: f"{obj}.size", lambda: f"{obj}.grow({self.integer(scope, 0)})"] * 2
        return str(self.pick(options)())

    def pair(self, scope: list[str]) -> str:
        name = self.named("t", scope)
        options = [
            "cap()",
            "cap()",
            f"({self.pick(NUMBERS[4:9])}, {self.pick((0, 1, 3))})",
            "(major(), minor())",
        ]
        if name:
            options += [name] * 3
        return str(self.pick(options))

    def sequence(self, scope: list[str]) -> str:
        name, obj = self.named("l", scope), self.named("o", scope)
        options: list[Callable[[], str]] = [
            lambda: "[" + ", ".join(self.integer(scope, 0) for _ in range(self.rng.randrange(4))) + "]",
            lambda: f"[i for i in (9, 10, 12) if {self.boolean([*scope, 'i'], 0)}]",
        ]
        if name:
            options += [lambda: name] * 5
        if obj:
            options += [lambda: f"{obj}.items", lambda: f"{obj}.items", lambda: f"{obj}.pool"]
        if self.givers:
            options += [lambda: f"{self.pick(self.givers)}()"]
        return str(self.pick(options)())

    def table(self, scope: list[str]) -> str:
        name = self.named("d", scope)
        if name and self.chance(75):
            return name
        obj = self.named("o", scope)
        if obj and self.chance(40):
            return f"{obj}.table"
        return (
            "{"
            + ", ".join(
                f"{self.pick(NUMBERS)}: {self.integer(scope, 0)}" for _ in range(self.rng.randrange(1, 4))
            )
            + "}"
        )

    def boolean(self, scope: list[str], depth: int = 2) -> str:
        if self.holders and self.chance(50):
            asked = self.pick(("major()", "minor()", "number()"))
            obj = self.named("o", scope)
            return f"{obj}.has({asked})" if obj and self.chance(30) else f"{asked} in {self.sequence(scope)}"
        compare = lambda: (
            f"{self.integer(scope, depth - 1)} {self.pick(('==', '!=', '<', '<=', '>', '>='))} {self.integer(scope, depth - 1)}"
        )  # noqa: E731
        options: list[Callable[[], str]] = [
            lambda: f"major() {self.pick(('==', '>=', '<', '!='))} {self.pick((9, 10, 12))}",
            lambda: f"{self.pair(scope)} {self.pick(('>=', '<', '=='))} {self.pair(scope)}",
            lambda: (
                f"number() {self.pick(('==', 'in', 'not in'))} {self.pick(((120, 121), (100, 103)))}".replace(
                    "== (120, 121)", "== 120"
                ).replace("== (100, 103)", "== 103")
            ),
            lambda: f"flag({self.pick(FLAGS)!r})",
            lambda: "ten()",
            lambda: "blackwell()",
            lambda: f"is_major({self.integer(scope, 0)})",
            lambda: f"in_majors(majors={self.sequence(scope)})",
            lambda: "IS_NEW",
        ]
        for kind in "bp":
            name = self.named(kind, scope)
            if name:
                options += [lambda name=name: name] * 4  # type: ignore[misc]
        name = self.named("f", scope)
        if name:
            options += [lambda: f"{name}()"] * 3
        if depth > 0:
            b = lambda: self.boolean(scope, depth - 1)  # noqa: E731
            options += [
                compare,
                compare,
                lambda: f"({b()} and {b()})",
                lambda: f"({b()} or {b()})",
                lambda: f"(not {b()})",
                lambda: f"({b()} if {b()} else {b()})",
                lambda: f"({self.pair(scope)} > {self.pair(scope)} >= (8, 0))",
                lambda: f"{self.integer(scope, 0)} in {self.sequence(scope)}",
                lambda: f"{self.integer(scope, 0)} in {self.table(scope)}",
                lambda: f"any(major() == i for i in {self.sequence(scope)})",
                lambda: f"all([{b()}, {b()}])",
                lambda: f"bool({self.sequence(scope)})",
                lambda: f"f'sm_{{number()}}' == 'sm_{self.pick((90, 100, 120))}'",
                lambda: f"str(number()).startswith('{self.pick((1, 10, 12))}')",
                lambda: (
                    f"(lambda x: x {self.pick(('>', '=='))} {self.integer(scope, 0)})({self.integer(scope, 0)})"
                ),
                lambda: (
                    f"isinstance({self.pick(scope) if scope else 'cap()'}, {self.pick(('int', 'bool', 'tuple', 'list'))})"
                ),
                lambda: f"{self.pick(scope) if scope else 'cap'} is {self.pick(('', 'not '))}None",
                lambda: f"need({self.pick((8, 9, 10))})",
            ]
            obj = self.named("o", scope)
            if obj:
                options += [
                    lambda: f"{obj}.on",
                    lambda: f"{obj}.fast",
                    lambda: f"{obj}.ready({self.boolean(scope, 0)})",
                    lambda: f"getattr({obj}, 'on', False)",
                    lambda: f"hasattr({obj}, {self.pick(('on', 'late', 'extra'))!r})",
                    lambda: f"{obj}.size > {self.integer(scope, 0)}",
                    lambda: f"{obj}.has({self.integer(scope, 0)})",
                    lambda: f"{self.integer(scope, 0)} in {obj}.items",
                ]
            calls = [(n, k) for n, k in self.functions if n[0] == "g"]
            if calls:
                fname, params = self.pick(calls)
                options += [
                    lambda: f"{fname}({', '.join(self.boolean(scope, 0) for _ in range(params))})"
                ] * 2
        return str(self.pick(options)())

    # -- statements --------------------------------------------------------------------------------

    def block(self, indent: str, scope: list[str], size: int, depth: int, where: str) -> None:
        """``where``: "module", "function" or "loop"; scope gains the names that are bound."""
        for _ in range(max(1, size)):
            self.statement(indent, scope, depth, where)

    def add(self, text: str) -> None:
        self.lines.append(text)

    def sub(self, indent: str, scope: list[str], depth: int, where: str, size: int = 2) -> None:
        inner = list(scope)
        self.block(indent + "    ", inner, self.rng.randrange(1, size + 1), depth - 1, where)

    def statement(self, indent: str, scope: list[str], depth: int, where: str) -> None:
        simple: list[Callable[..., None]] = [
            self.assign_bool,
            self.assign_bool,
            self.assign_int,
            self.assign_int,
            self.rebind,
            self.rebind,
            self.mutate,
            self.mutate,
            self.hold,
            self.assign_pair,
            self.assign_list,
            self.assign_dict,
            self.assign_func,
            self.alias,
            self.unpack,
            self.object_,
            self.gate,
        ]
        if self.holders:
            lists = [self.assign_list, self.hold, self.hold, self.mutate, self.mutate, self.mutate]
            simple = [*lists, self.alias, self.object_, self.gate, self.assign_bool, self.assign_dict]
        if where in ("function", "loop") and self.chance(30):
            simple += [self.leave, self.leave, self.assertion]
        if where == "loop":
            simple += [self.jump, self.jump]
        deep: list[Callable[..., None]] = [
            self.branch,
            self.branch,
            self.branch,
            self.trial,
            self.loop,
            self.while_,
            self.cases,
            self.with_,
        ]
        if where != "module":
            deep += [self.inner]
        kinds = simple + deep if depth > 0 else simple
        self.pick(kinds)(indent, scope, depth, where)

    def gate(self, indent: str, scope: list[str], depth: int, where: str) -> None:
        self.add(f"{indent}if {self.boolean(scope)}:")
        self.add(f"{indent}    {self.fresh('b')} = {self.boolean(scope, 0)}")

    def assign_bool(self, indent: str, scope: list[str], depth: int, where: str) -> None:
        value = self.boolean(scope)
        name = self.fresh("b")
        self.add(f"{indent}{name} = {value}")
        scope.append(name)

    def assign_int(self, indent: str, scope: list[str], depth: int, where: str) -> None:
        value = self.integer(scope)
        name = self.fresh("i")
        self.add(f"{indent}{name} = {value}")
        scope.append(name)

    def assign_pair(self, indent: str, scope: list[str], depth: int, where: str) -> None:
        value = self.pair(scope)
        name = self.fresh("t")
        self.add(f"{indent}{name} = {value}")
        scope.append(name)

    def assign_list(self, indent: str, scope: list[str], depth: int, where: str) -> None:
        value = self.sequence(scope)
        name = self.fresh("l")
        self.add(f"{indent}{name} = {value}")
        scope.append(name)

    def assign_dict(self, indent: str, scope: list[str], depth: int, where: str) -> None:
        value = self.table(scope)
        name = self.fresh("d")
        self.add(f"{indent}{name} = {value}")
        scope.append(name)

    def assign_func(self, indent: str, scope: list[str], depth: int, where: str) -> None:
        value = self.boolean(scope)
        name = self.fresh("f")
        other = self.named("f", scope)
        text = self.pick(
            (
                f"lambda: {value}",
                f"partial(is_major, {self.integer(scope, 0)})",
                other or "ten",
                "ten",
                "blackwell",
            )
        )
        self.add(f"{indent}{name} = {text}")
        scope.append(name)

    def alias(self, indent: str, scope: list[str], depth: int, where: str) -> None:
        if scope:
            name = self.pick(scope)
            if name[0] in "bitldfo":
                fresh = self.fresh(name[0])
                self.add(f"{indent}{fresh} = {name}")
                scope.append(fresh)
                return
        self.assign_int(indent, scope, depth, where)

    def rebind(self, indent: str, scope: list[str], depth: int, where: str) -> None:
        names = [n for n in scope if n[0] in "bil"]
        if not names:
            return self.assign_bool(indent, scope, depth, where)
        name = self.pick(names)
        if name[0] == "b":
            self.add(f"{indent}{name} = {self.boolean(scope)}")
        elif name[0] == "i":
            text = self.pick(
                (f"{name} = {self.integer(scope)}", f"{name} += {self.integer(scope, 0)}", f"{name} -= 1")
            )
            self.add(f"{indent}{text}")
        else:
            self.add(f"{indent}{name} = {self.sequence(scope)}")

    def mutate(self, indent: str, scope: list[str], depth: int, where: str) -> None:
        names = [n for n in scope if n[0] in "ldo"]
        if not names:
            return self.assign_list(indent, scope, depth, where)
        name = self.pick(names)
        value = self.integer(scope, 0)
        if name[0] == "l":
            options = (
                f"{name}.append({value})",
                f"{name}.clear()",
                f"{name}.extend([{value}])",
                f"{name} += [{value}]",
                f"{name}[0] = {value}",
                f"del {name}[0]",
                f"push({name}, {value})",
                f"{name}.insert(0, {value})",
                f"{name}.pop()",
            )
        elif name[0] == "d":
            key = self.pick((self.integer(scope, 0), str(self.pick(NUMBERS))))
            options = (
                f"{name}[{key}] = {value}",
                f"{name}.update({{{key}: {value}}})",
                f"{name}.pop({key}, None)",
                f"put({name}, {key}, {value})",
                f"del {name}[{key}]",
                f"{name}.setdefault({key}, {value})",
                f"{name}[{key}] += 1",
                f"{name}.clear()",
                f"{name} |= {{{key}: {value}}}",
            )
        else:
            options = (
                f"{name}.size = {value}",
                f"{name}.on = {self.boolean(scope, 0)}",
                f"{name}.switch()",
                f"{name}.size += 1",
                f"setattr({name}, 'on', {self.boolean(scope, 0)})",
                f"{name}.late = {self.boolean(scope, 0)}",
                f"turn({name})",
                f"del {name}.on",
                f"{name}.items.append({value})",
                f"{name}.add({value})",
                f"{name}.add({value})",
                f"push({name}.items, {value})",
                f"put({name}.table, {value}, {self.integer(scope, 0)})",
                f"{name}.pool.append({value})",
                f"{name}.items = {self.sequence(scope)}",
            )  # type: ignore[assignment]
        self.add(indent + self.pick(options))

    def hold(self, indent: str, scope: list[str], depth: int, where: str) -> None:
        """A list that is changed through what holds it, or by somebody it was given to."""
        value = self.integer(scope, 0)
        name = self.named("l", scope)
        if name is None:
            return self.assign_list(indent, scope, depth, where)
        fresh = self.fresh("x")
        others = [n for n in scope if n[0] == "l"]
        form = self.rng.randrange(8)
        if form == 0:
            self.add(f"{indent}{fresh} = {{1: {name}}}")
            self.add(f"{indent}{fresh}[1].append({value})")
        elif form == 1:
            self.add(f"{indent}for {fresh} in ({name}, {self.pick(others)}):")
            self.add(f"{indent}    {fresh}.append({value})")
        elif form == 2:
            self.add(f"{indent}(lambda {fresh}={name}: {fresh}.append({value}))()")
        elif form == 3:
            self.add(f"{indent}[{name}, []][0].append({value})")
        elif form == 4:
            self.add(f"{indent}def {fresh}(p={name}):")
            self.add(f"{indent}    p.append({value})")
            self.add(f"{indent}{fresh}()")
        elif form == 5:
            self.add(f"{indent}{fresh} = lambda: {name}")
            self.add(f"{indent}{fresh}().append({value})")
        elif form == 6:
            self.add(f"{indent}{fresh} = partial(push, {name})")
            self.add(f"{indent}{fresh}({value})")
        else:
            obj = self.named("o", scope)
            if obj is None:
                self.add(f"{indent}{fresh}, {fresh}b = {name}, 1")
                self.add(f"{indent}{fresh} += [{value}]")
            else:
                self.add(f"{indent}{obj}.items = {name}")
                self.add(f"{indent}{fresh} = {obj}.items")
                self.add(f"{indent}{fresh}.append({value})")

    def unpack(self, indent: str, scope: list[str], depth: int, where: str) -> None:
        a, b = self.fresh("i"), self.fresh("i")
        form = self.rng.randrange(5)
        if form == 0:
            self.add(f"{indent}{a}, {b} = {self.pair(scope)}")
        elif form == 1:
            rest = self.fresh("l")
            self.add(f"{indent}{a}, *{rest} = {self.sequence(scope)}")
            scope += [a, rest]
            return
        elif form == 2:
            self.add(f"{indent}{a}, {b} = {self.integer(scope)}, {self.integer(scope)}")
        elif form == 3:
            self.add(f"{indent}{a} = {b} = {self.integer(scope)}")
        else:
            old = self.named("i", scope)
            if old:
                self.add(f"{indent}{a} = {b} = {self.integer(scope)}")
                self.add(f"{indent}{old}, {a} = {a}, {old}")
            else:
                self.add(f"{indent}[{a}, {b}] = {self.pair(scope)}")
        scope += [a, b]

    def object_(self, indent: str, scope: list[str], depth: int, where: str) -> None:
        if not self.classes:
            return self.assign_bool(indent, scope, depth, where)
        value = f"{self.pick(self.classes)}({self.boolean(scope, 1)}, {self.integer(scope, 0)})"
        name = self.fresh("o")
        self.add(f"{indent}{name} = {value}")
        scope.append(name)

    def leave(self, indent: str, scope: list[str], depth: int, where: str) -> None:
        self.add(f"{indent}if {self.boolean(scope)}:")
        self.add(
            f"{indent}    "
            + self.pick(
                (
                    f"return {self.boolean(scope, 1)}",
                    "raise Explicit('x')",
                    "return",
                    f"return {self.integer(scope, 1)}",
                )
            )
        )

    def assertion(self, indent: str, scope: list[str], depth: int, where: str) -> None:
        self.add(f"{indent}assert {self.boolean(scope)}")

    def jump(self, indent: str, scope: list[str], depth: int, where: str) -> None:
        self.add(f"{indent}if {self.boolean(scope)}:")
        self.add(f"{indent}    " + self.pick(("break", "continue")))

    def branch(self, indent: str, scope: list[str], depth: int, where: str) -> None:
        self.add(f"{indent}if {self.boolean(scope)}:")
        self.sub(indent, scope, depth, where)
        for _ in range(self.rng.randrange(2)):
            self.add(f"{indent}elif {self.boolean(scope)}:")
            self.sub(indent, scope, depth, where)
        if self.chance(50):
            self.add(f"{indent}else:")
            self.sub(indent, scope, depth, where)

    def trial(self, indent: str, scope: list[str], depth: int, where: str) -> None:
        self.add(f"{indent}try:")
        self.sub(indent, scope, depth, where, 3)
        if self.chance(30):
            self.add(
                f"{indent}    raise Explicit('x')"
                if self.chance(50)
                else f"{indent}    need({self.pick((9, 10, 12))})"
            )
        form = self.rng.randrange(4)
        if form != 3:
            self.add(
                f"{indent}except {self.pick(('Exception', 'Explicit', 'KeyError', '(IndexError, AttributeError)'))}:"
            )
            self.sub(indent, scope, depth, where)
        if form == 1:
            self.add(f"{indent}else:")
            self.sub(indent, scope, depth, where)
        if form in (2, 3):
            self.add(f"{indent}finally:")
            self.sub(indent, scope, depth, "function" if where == "loop" else where)

    def loop(self, indent: str, scope: list[str], depth: int, where: str) -> None:
        name = self.fresh("i")
        items = self.pick(
            (
                self.sequence(scope),
                "(9, 10, 12)",
                f"range({self.integer(scope, 0)})",
                "cap()",
                "range(3)",
                self.table(scope),
            )
        )
        self.add(f"{indent}for {name} in {items}:")
        self.sub(indent, [*scope, name], depth, "loop", 3)
        if self.chance(20):
            self.add(f"{indent}else:")
            self.sub(indent, scope, depth, where)
        if self.chance(30):
            scope.append(name)

    def while_(self, indent: str, scope: list[str], depth: int, where: str) -> None:
        name = self.fresh("i")
        self.add(f"{indent}{name} = 0")
        self.add(
            f"{indent}while {self.pick((f'{name} < 3', f'{name} < 2 and {self.boolean(scope, 0)}', f'({self.boolean(scope, 1)}) and {name} < 3'))}:"
        )
        self.add(f"{indent}    {name} += 1")
        self.sub(indent, [*scope, name], depth, "loop", 3)
        if self.chance(20):
            self.add(f"{indent}else:")
            self.sub(indent, scope, depth, where)
        scope.append(name)

    def cases(self, indent: str, scope: list[str], depth: int, where: str) -> None:
        self.add(
            f"{indent}match {self.pick((self.integer(scope, 1), self.pair(scope), 'cap()', 'major()'))}:"
        )
        for _ in range(self.rng.randrange(1, 3)):
            name = self.fresh("i")
            pattern = self.pick(
                (
                    "9 | 10",
                    "12",
                    "(12, 1)",
                    f"(10, {name})",
                    f"{name} if {self.boolean([*scope, name], 1)}",
                    f"[{name}, 0]",
                )
            )
            self.add(f"{indent}    case {pattern}:")
            self.sub(indent + "    ", [*scope, name] if name in pattern else scope, depth, where)
        if self.chance(50):
            self.add(f"{indent}    case _:")
            self.sub(indent + "    ", scope, depth, where)

    def with_(self, indent: str, scope: list[str], depth: int, where: str) -> None:
        self.add(f"{indent}with {self.pick(('suppress(Exception)', 'nullcontext()', 'suppress(Explicit)'))}:")
        self.sub(indent, scope, depth, where, 3)

    def inner(self, indent: str, scope: list[str], depth: int, where: str) -> None:
        name = self.fresh("f")
        self.add(f"{indent}def {name}():")
        rebound = [n for n in scope if n[0] in "bi" and not n.startswith("p")]
        local = list(scope)
        if rebound and self.chance(50) and indent == "    ":
            target = self.pick(rebound)
            if target in self.bound_here:
                self.add(f"{indent}    nonlocal {target}")
                self.add(
                    f"{indent}    {target} = {self.boolean(scope) if target[0] == 'b' else self.integer(scope)}"
                )
        self.block(
            indent + "    ",
            [n for n in local if n[0] in "tldo"],
            self.rng.randrange(1, 3),
            depth - 1,
            "function",
        )
        self.add(f"{indent}    return {self.boolean([n for n in local if n[0] in 'tldo'], 1)}")
        if self.chance(60):
            result = self.fresh("b")
            self.add(f"{indent}{result} = {name}()")
            scope.append(result)
        scope.append(name)

    bound_here: frozenset[str] = frozenset()

    # -- definitions -------------------------------------------------------------------------------

    def function(self) -> None:
        name = self.fresh("g")
        params = [self.fresh("p") for _ in range(self.rng.randrange(3))]
        shown = list(params)
        scope = [*params, *self.globals]
        if self.chance(20):
            extra = self.fresh("i")
            shown.append(f"{extra}={self.integer(self.globals, 0)}")
            scope.append(extra)
        if self.chance(10):
            extra = self.fresh("l")
            shown.append(f"{extra}={self.named('l', self.globals) or '[]'}")
            scope.append(extra)
        if self.chance(10):
            extra = self.fresh("l")
            shown.append(f"*{extra}")
            scope.append(extra)
        if self.chance(15):
            self.add(self.pick(("@lru_cache", "@same", "@flip", "@lru_cache(maxsize=None)")))
        self.add(f"def {name}({', '.join(shown)}):")
        rebound = [n for n in self.globals if n[0] in "bi"]
        if rebound and self.chance(25):
            target = self.pick(rebound)
            self.add(f"    global {target}")
            scope.append(target)
        else:
            scope = [n for n in scope if n not in self.globals or n[0] in "tldof" or self.chance(60)]
            # a global that is only read must not be rebound: that would make it local
        inside = len(self.lines)
        locals_only = [
            n for n in scope if n not in self.globals or (self.lines and f"global {n}" in self.lines[-1])
        ]
        readable = [n for n in scope if n in self.globals and n[0] in "tldof"]
        body = [*locals_only, *readable]
        self.block("    ", body, self.rng.randrange(2, 6), 2, "function")
        self.add(f"    return {self.boolean(body, 1)}")
        del inside
        self.functions.append((name, len(params)))
        self.add("")

    def class_(self) -> None:
        name = self.fresh("C")
        base = self.pick(self.classes) if self.classes and self.chance(50) else ""
        self.add(f"class {name}({base}):" if base else f"class {name}:")
        self.add(f"    kind = {self.integer(self.globals, 0)}")
        if not base:
            self.add(f"    pool = {self.sequence([])}")
        if self.chance(40):
            self.add(f"    on = {self.boolean(self.globals, 1)}")
        if not base or self.chance(40):
            self.add("    def __init__(self, on, size):")
            if base and self.chance(60):
                self.add("        super().__init__(on, size)")
            self.add(f"        self.on = {self.pick(('on', self.boolean([], 1), 'on and IS_NEW'))}")
            self.add(f"        self.size = {self.pick(('size', self.integer([], 1)))}")
            self.add(f"        self.items = {self.pick(('[size]', self.sequence([])))}")
            self.add(f"        self.table = {self.pick(('{size: 1}', self.table([])))}")
            if self.chance(40):
                self.add(f"        if {self.boolean([], 1)}:")
                self.add(f"            self.{self.pick(('on', 'size', 'late'))} = {self.integer([], 0)}")
                if self.chance(40):
                    self.add("            return")
                    self.add(f"        self.{self.pick(('on', 'size'))} = {self.integer([], 0)}")
        if self.chance(70):
            self.add("    @property")
            self.add("    def fast(self):")
            self.add(
                f"        return {self.pick(('self.on', 'self.size > 9', self.boolean([], 1), 'self.on and self.kind == major()'))}"
            )
        if not base or self.chance(50):
            self.add("    def ready(self, value):")
            self.add(f"        if {self.pick(('self.on', 'value', self.boolean([], 1), 'self.kind > 9'))}:")
            self.add(f"            return {self.boolean([], 1)}")
            self.add(f"        return {self.pick(('value', 'self.on', 'not value', 'self.size == major()'))}")
            self.add("    def grow(self, value):")
            if self.chance(40):
                self.add("        self.size += value")
            self.add(f"        return self.size + {self.pick(('value', 'self.kind', 'major()'))}")
            self.add("    def add(self, value):")
            self.add(
                self.pick(
                    (
                        "        self.items.append(value)",
                        "        held = self.items\n        held.append(value)",
                        "        push(self.items, value)",
                        "        held = self.pool\n        held += [value]",
                        "        self.table[value] = 1",
                        "        for held in (self.items, self.pool):\n            held.append(value)",
                        "        return value",
                    )
                )
            )
            self.add("    def has(self, value):")
            self.add(
                self.pick(
                    (
                        "        return value in self.items",
                        "        self.add(value)\n        return value in self.items",
                        "        self.items = [value]\n        self.add(major())\n        return major() in self.items",
                        "        return major() in self.items or value in self.pool",
                    )
                )
            )
            self.add("    def switch(self):")
            self.add(f"        self.on = {self.pick(('not self.on', self.boolean([], 1), 'False'))}")
        self.add("")
        self.classes.append(name)

    def program(self) -> dict[str, str]:
        self.add("from contextlib import nullcontext, suppress")
        self.add("from functools import lru_cache, partial, wraps")
        self.add("from example.gpu import *")
        self.add("from example.gpu import IS_NEW as RECENT, Explicit, cap, ten as decade")
        self.add("")
        self.add("def same(function):")
        self.add("    @wraps(function)")
        self.add("    def wrapper(*args, **kwargs):")
        self.add("        return function(*args, **kwargs)")
        self.add("    return wrapper")
        self.add("")
        self.add("def flip(function):")
        self.add("    def wrapper(*args, **kwargs):")
        self.add("        return not function(*args, **kwargs)")
        self.add("    return wrapper")
        self.add("")
        self.add("def turn(thing):")
        self.add("    thing.on = not thing.on")
        self.add("")
        for _ in range(max(self.rng.randrange(3), self.holders)):
            self.class_()
        self.block("", self.globals, self.rng.randrange(4) + 3 * self.holders, 1, "module")
        for name in [n for n in self.globals if n[0] == "l" and self.chance(30)]:
            self.givers.append(self.fresh("h"))
            self.add(f"def {self.givers[-1]}():")
            self.add(f"    return {name}")
        for _ in range(self.rng.randrange(1, 4)):
            self.function()
        if self.chance(30):
            self.block("", self.globals, 2, 1, "module")
        if self.chance(30):
            self.function()
        return {
            "example/__init__.py": "",
            "example/gpu.py": GPU,
            "example/case.py": "\n".join(self.lines) + "\n",
        }


def program(rng: Any) -> dict[str, str]:
    """The files of one random program."""
    return Maker(rng).program()


def drive(module: Any) -> None:
    """Call every function of a case with a spread of arguments, twice."""
    functions = sorted(
        (v for n, v in vars(module).items() if n[0] == "g" and n[1:].isdigit() and callable(v)),
        key=lambda f: f.__name__,
    )
    named = sorted(n for n in vars(module) if n[0] == "g" and n[1:].isdigit())
    del functions
    for turn in range(2):
        for name in named if turn == 0 else reversed(named):
            function = getattr(module, name)
            code = getattr(function, "__wrapped__", function)
            count = code.__code__.co_argcount if hasattr(code, "__code__") else 0
            for k in range(4 if count else 1):
                arguments = [ARGUMENTS[(k * 3 + i * 2 + turn) % len(ARGUMENTS)] for i in range(count)]
                defaults = len(getattr(code, "__defaults__", None) or ())
                arguments = arguments[: count - defaults] if defaults else arguments
                try:
                    function(*arguments)
                except program_oracle.OutOfSteps:
                    raise
                except BaseException:
                    continue


def faults(files: dict[str, str]) -> list[str]:
    """What an audit of a program gets wrong."""
    try:
        compile(files["example/case.py"], "case.py", "exec")
    except SyntaxError:
        return []  # a `return` at the top level, say: there is no run to hold against it
    report = program_oracle.report_of(files)
    problems = [f"problem: {p.path}:{p.line} {p.message}" for p in report.problems]
    settings = SETTINGS if "flag(" in files["example/case.py"] else SETTINGS[:1]
    probe = program_oracle.run(files, report, [("example.case", drive)], settings)
    return problems + program_oracle.contradictions(report, probe)


__all__ = ["drive", "faults", "program"]
