"""What a term is worth on a target, in three values.

What is not known is :class:`Open`, which keeps what is left of the term: two targets for which the same is
left go the same way, whatever it turns out to be.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from typing import Any

from auditor.history.sweeping.terms import Term, dotted
from auditor.program.externals import (
    ABSENT,
    AVAILABLE,
    CAPABILITY,
    CUDA_VERSION,
    FIXED_ATTRS,
    FIXED_CALLS,
    HIP_VERSION,
    NVML,
    PROPERTIES,
    TRANSPARENT,
    TRITON_TARGET,
)

Vector = tuple[Any, ...]
#: Steps after which a term is given up (recursion, long tables).
_FUEL = 4000
#: Calls within calls that are followed.
_DEEPEST = 8
_PASSES = frozenset(name.rpartition(".")[2] for name in TRANSPARENT)
_COMPARE: dict[str, Callable[[Any, Any], Any]] = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "is": lambda a, b: a is b if a is None or b is None else a == b and type(a) is type(b),
    "is not": lambda a, b: not (a is b if a is None or b is None else a == b and type(a) is type(b)),
    "in": lambda a, b: a in b,
    "not in": lambda a, b: a not in b,
}
_BINARY: dict[str, Callable[[Any, Any], Any]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "//": operator.floordiv,
    "%": operator.mod,
}
_BUILTINS: dict[str, Callable[..., Any]] = {
    "bool": bool,
    "int": int,
    "float": float,
    "str": str,
    "len": len,
    "tuple": tuple,
    "list": tuple,
    "any": any,
    "all": all,
    "min": min,
    "max": max,
}
_METHODS = frozenset({"split", "startswith", "endswith", "strip", "lower", "upper"})
_PLAIN = (bool, int, float, str, bytes, type(None), tuple)
_LONGEST = 400


class Open:
    """Not known; ``text`` is what is left of the term."""

    __slots__ = ("text",)

    def __init__(self, text: str) -> None:
        self.text = text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…{hash_text(text)}"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Open) and other.text == self.text

    def __hash__(self) -> int:
        return hash(self.text)

    def __repr__(self) -> str:
        return f"Open({self.text})"


class Circle(Open):
    """A name that is worth what is being worked out."""

    def __init__(self) -> None:
        super().__init__("itself")


def hash_text(text: str) -> str:
    """Eight hex digits that stand for a text."""
    import hashlib

    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:8]


class Function:
    """A function with what its free names are worth."""

    __slots__ = ("term", "bound", "fixed", "level", "answer")

    def __init__(
        self,
        term: Term,
        bound: Mapping[tuple[str, str], Vector],
        fixed: tuple[Any, ...] = (),
        level: bool = False,
    ) -> None:
        self.term = term
        self.bound = bound
        self.fixed = fixed  # arguments given by name in advance
        self.level = level  # whether it is the same on all targets
        self.answer: dict[int, Any] = {}  # of a call without arguments, per target

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Function):
            return False
        return self.term is other.term and self.bound is other.bound and self.fixed == other.fixed

    def __hash__(self) -> int:
        return hash((id(self.term), id(self.bound), len(self.fixed)))


class Properties:
    """Device properties of a target, or a Triton target."""

    __slots__ = ("known",)

    def __init__(self, known: dict[str, Any]) -> None:
        self.known = known


class World:
    """The targets: capability and shared memory of each, the CUDA version, and what a vendor's names are
    worth (``{"is_there()": True, "_there": True}``)."""

    def __init__(
        self,
        capabilities: tuple[tuple[int, int], ...],
        shared: tuple[int, ...],
        cuda: str,
        vendor: Mapping[str, Any] | None = None,
    ) -> None:
        self.count = len(capabilities)
        self.capabilities = capabilities
        self.cuda = cuda
        given = (vendor or {}).items()
        self.vendor = {name: tuple(v) if isinstance(v, list) else v for name, v in given}  # JSON has lists
        self.properties = tuple(
            Properties({"major": c[0], "minor": c[1], "warp_size": 32, "shared_memory_per_block_optin": s})
            for c, s in zip(capabilities, shared, strict=True)
        )
        self.arches = tuple(
            Properties({"arch": c[0] * 10 + c[1], "backend": "cuda", "warp_size": 32}) for c in capabilities
        )

    def called(self, name: str, at: int) -> Any:
        """What a call of a root is worth on a target."""
        if name in (CAPABILITY, NVML):
            return self.capabilities[at]
        if name == PROPERTIES:
            return self.properties[at]
        if name == TRITON_TARGET:
            return self.arches[at]
        if name == AVAILABLE:
            return True
        if name in FIXED_CALLS:
            return FIXED_CALLS[name]
        return Open(f"{name}()")


class Evaluation:
    """One term on one target. ``bound`` is what free names are worth, ``params`` the parameters."""

    def __init__(self, world: World, at: int) -> None:
        self.world = world
        self.at = at
        self.fuel = _FUEL
        self.depth = 0

    def of(self, term: Term, bound: Mapping[tuple[str, str], Vector], params: Mapping[str, Any]) -> Any:
        self.fuel -= 1
        if self.fuel < 0:
            return Open("…")
        return getattr(self, f"_{term[0]}")(term, bound, params)

    def _const(self, term: Term, bound: Any, params: Any) -> Any:
        return term[2]

    def _opaque(self, term: Term, bound: Any, params: Any) -> Any:
        return Open(term[1])

    def _p(self, term: Term, bound: Any, params: Mapping[str, Any]) -> Any:
        return params[term[1]] if term[1] in params else Open(term[1])

    def _n(self, term: Term, bound: Any, params: Any) -> Any:
        vector = bound.get(("n", term[1]))
        if vector is not None:
            return vector[self.at]
        vendor = self.world.vendor
        return vendor[term[1]] if term[1] in vendor else Open(term[1])

    def _root(self, term: Term, bound: Any, params: Any) -> Any:
        if term[1] == CUDA_VERSION:
            return self.world.cuda
        if term[1] in FIXED_ATTRS:
            return FIXED_ATTRS[term[1]]
        return None if term[1] == HIP_VERSION else Open(term[1])

    def _a(self, term: Term, bound: Any, params: Any) -> Any:
        vector = bound.get(("s" if term[3] else "a", term[1]))
        if vector is not None and not isinstance(vector[self.at], Open):
            return vector[self.at]
        base = self.of(term[2], bound, params)
        if isinstance(base, Properties):
            return base.known.get(term[1], Open(f"device.{term[1]}"))
        if isinstance(base, tuple) and len(base) >= 2 and term[1] in ("major", "minor"):
            return base[term[1] == "minor"]
        if vector is not None:
            return vector[self.at]
        vendor = self.world.vendor
        return vendor[term[1]] if term[1] in vendor else Open(f"{_text(base)}.{term[1]}")

    def _seq(self, term: Term, bound: Any, params: Any) -> Any:
        items = tuple(self.of(i, bound, params) for i in term[2])
        if any(not isinstance(i, _PLAIN) for i in items):
            return Open("(" + ", ".join(map(_text, items)) + ")")
        return items

    def _fn(self, term: Term, bound: Any, params: Any) -> Any:
        return Function(term, bound)

    def _if(self, term: Term, bound: Any, params: Any) -> Any:
        test = self.of(term[1], bound, params)
        truth = truth_of(test)
        if truth is not None:
            return self.of(term[2] if truth else term[3], bound, params)
        then, other = self.of(term[2], bound, params), self.of(term[3], bound, params)
        if same(then, other):
            return then
        return Open(f"({_text(then)} if {_text(test)} else {_text(other)})")

    def _and(self, term: Term, bound: Any, params: Any) -> Any:
        return self._logic(term, bound, params, True)

    def _or(self, term: Term, bound: Any, params: Any) -> Any:
        return self._logic(term, bound, params, False)

    def _logic(self, term: Term, bound: Any, params: Any, goes_on: bool) -> Any:
        left: list[str] = []
        value: Any = goes_on
        for item in term[1]:
            value = self.of(item, bound, params)
            truth = truth_of(value)
            if truth is None:
                left.append(_text(value))
            elif truth != goes_on:
                return value if not left else truth
        if not left:
            return value
        return Open("(" + f" {term[0]} ".join(left) + ")")

    def _not(self, term: Term, bound: Any, params: Any) -> Any:
        inner = self.of(term[1], bound, params)
        truth = truth_of(inner)
        return Open(f"not {_text(inner)}") if truth is None else not truth

    def _cmp(self, term: Term, bound: Any, params: Any) -> Any:
        left = self.of(term[1], bound, params)
        parts: list[str] = []
        for op, other in term[2]:
            right = self.of(other, bound, params)
            answer: Any = None
            if isinstance(left, _PLAIN) and isinstance(right, _PLAIN):
                try:
                    answer = bool(_COMPARE[op](left, right))
                except TypeError:
                    answer = None
            elif op in ("is", "is not") and right is None and isinstance(left, (Properties, Function)):
                answer = op == "is not"
            if answer is False:
                return False
            if answer is None:
                parts.append(f"{_text(left)} {op} {_text(right)}")
            left = right
        return Open(" and ".join(parts)) if parts else True

    def _bin(self, term: Term, bound: Any, params: Any) -> Any:
        left, right = self.of(term[2], bound, params), self.of(term[3], bound, params)
        if isinstance(left, _PLAIN) and isinstance(right, _PLAIN) and _small(left) and _small(right):
            try:
                return _BINARY[term[1]](left, right)
            except (TypeError, ValueError, ZeroDivisionError, OverflowError):
                pass
        return Open(f"({_text(left)} {term[1]} {_text(right)})")

    def _slice(self, term: Term, bound: Any, params: Any) -> Any:
        ends = [self.of(end, bound, params) for end in term[1:]]
        if all(end is None or type(end) is int for end in ends):
            return slice(*ends)
        return Open(":".join(map(_text, ends)))

    def _sub(self, term: Term, bound: Any, params: Any) -> Any:
        base, index = self.of(term[1], bound, params), self.of(term[2], bound, params)
        if isinstance(base, (tuple, str)) and (type(index) is int or isinstance(index, slice)):
            try:
                return base[index]
            except IndexError:
                pass
        return Open(f"{_text(base)}[{_text(index)}]")

    # calls

    def _call(self, term: Term, bound: Any, params: Any) -> Any:
        _, callee, arguments, words = term
        if callee[0] == "root":
            return self.world.called(callee[1], self.at)
        args = [self.of(a, bound, params) for a in arguments]
        named = {word: self.of(value, bound, params) for word, value in words}
        function = self.of(callee, bound, params)
        if isinstance(function, Function):
            return self.call(function, args, named)
        if isinstance(function, Circle):
            return function
        name = dotted(callee)
        last = name.rpartition(".")[2]
        if last in _PASSES:
            if len(args) == 1 and isinstance(args[0], Function):
                return args[0]
            return Open(last)
        if last == "partial" and args and isinstance(args[0], Function) and len(args) == 1:
            known = (*args[0].fixed, *named.items())
            return Function(args[0].term, args[0].bound, known)
        if callee[0] == "call" and isinstance(function, Open) and function.text in _PASSES and len(args) == 1:
            return args[0]
        if f"{last}()" in self.world.vendor:
            return self.world.vendor[f"{last}()"]
        if callee[0] == "n":
            found = self._builtin(callee[1], arguments, args)
            if found is not NotImplemented:
                return found
        elif callee[0] == "a" and callee[1] in _METHODS and all(isinstance(a, _PLAIN) for a in args):
            base = self.of(callee[2], bound, params)
            if isinstance(base, str) and not named:
                try:
                    found = getattr(base, callee[1])(*args)
                    return tuple(found) if isinstance(found, list) else found
                except (TypeError, ValueError):
                    pass
        if last[:1].isupper():
            found = _capability(arguments, args, named)
            if found is not None:
                return found
        said = [*map(_text, args), *(f"{word}={_text(value)}" for word, value in named.items())]
        return Open(f"{_text(function)}({', '.join(said)})")

    def _builtin(self, word: str, arguments: tuple[Term, ...], args: list[Any]) -> Any:
        if word == "map" and len(args) == 2 and arguments[0] == ("n", "int") and isinstance(args[1], tuple):
            try:
                return tuple(int(item) for item in args[1])
            except (TypeError, ValueError):
                return NotImplemented
        if word == "getattr" and len(args) >= 2 and isinstance(args[0], Properties):
            return args[0].known.get(args[1], Open(f"device.{args[1]}"))
        if word == "hasattr" and len(arguments) == 2 and arguments[1][0] == "const":
            name = f"{dotted(arguments[0])}.{arguments[1][2]}"
            if name == "torch.cuda" or name in ABSENT:
                return name == "torch.cuda"
        if word in _BUILTINS and args and all(isinstance(a, _PLAIN) for a in args):
            try:
                return _BUILTINS[word](*args)
            except (TypeError, ValueError, OverflowError):
                return NotImplemented
        if word == "bool" and len(args) == 1:
            truth = truth_of(args[0])
            return args[0] if truth is None else truth
        return NotImplemented

    def call(self, function: Function, args: list[Any], named: dict[str, Any]) -> Any:
        """What a function returns."""
        if self.depth >= _DEEPEST:
            return Open("…")
        self.depth += 1
        try:
            return self._call_in(function, args, named)
        finally:
            self.depth -= 1

    def _call_in(self, function: Function, args: list[Any], named: dict[str, Any]) -> Any:
        plain = not args and not named and not function.fixed
        if plain and self.at in function.answer:
            return function.answer[self.at]
        params: dict[str, Any] = {}
        given = {**dict(function.fixed), **named}
        for number, (name, default) in enumerate(function.term[1]):
            if number < len(args):
                params[name] = args[number]
            elif name in given:
                params[name] = given[name]
            elif default is not None:
                params[name] = self.of(default, function.bound, {})
        if plain:
            function.answer[self.at] = Open("recursion")
        found = self.of(function.term[2], function.bound, params)
        if plain:
            function.answer[self.at] = found
        return found


def _capability(
    arguments: tuple[Term, ...], args: list[Any], named: dict[str, Any]
) -> tuple[Any, ...] | None:
    """A record made of the two parts of one capability, as a tuple; None for any other."""
    if not args and set(named) == {"major", "minor"} and all(type(v) is int for v in named.values()):
        return named["major"], named["minor"]
    if len(args) < 2 or not all(isinstance(a, _PLAIN) for a in args) or named:
        return None
    first, second = arguments[:2]
    if first[0] == second[0] == "sub" and first[1] is second[1] and first[2][-1] == 0 and second[2][-1] == 1:
        return tuple(args)
    return None


def _small(value: Any) -> bool:
    return not isinstance(value, int) or abs(value) < 1 << 64


def _text(value: Any) -> str:
    if isinstance(value, Open):
        return value.text
    if isinstance(value, Function):
        return "function"
    if isinstance(value, Properties):
        return "device"
    return repr(value)


def truth_of(value: Any) -> bool | None:
    """Whether a value is true, None where that is open."""
    if isinstance(value, Open):
        return None
    if isinstance(value, (Function, Properties)):
        return True
    return bool(value)


def same(a: Any, b: Any) -> bool:
    """Whether two values are one: ``True`` is not ``1``, and what is left of both is the same."""
    return type(a) is type(b) and bool(a == b)
