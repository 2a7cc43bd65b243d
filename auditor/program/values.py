"""Values of the three-valued evaluator.

A :class:`V` is what an expression is worth on every target at once: either one *scalar* for all targets
or a tuple with one scalar per target. It also remembers its provenance: which roots were read to obtain
it (``roots``) and through which names of the audited tree (``via``). Scalars are plain Python constants
and the small object classes below; :class:`Unknown` is a scalar that carries its reasons.

Target sets are bit masks (bit *i* is target *i*), so Kleene logic over all targets is a few integer
operations: a truth is a pair ``(may_be_true, may_be_false)``; a target in both masks is unknown.
"""

from __future__ import annotations

from typing import Any

EMPTY: frozenset[str] = frozenset()
MAX_OPTIONS = 8
MAX_REASONS = 8
MAX_KEYS = 64  # of two dictionaries that are joined


class Unknown:
    """A scalar that is not known, with the reasons and, where few, the scalars it may be.

    ``truth`` is set where the value is open but its truth is not (``x or True``).
    """

    __slots__ = ("reasons", "options", "truth", "answer")

    def __init__(
        self, reasons: frozenset[str], options: tuple[Any, ...] | None = None, truth: bool | None = None
    ) -> None:
        if len(reasons) > MAX_REASONS:
            reasons = frozenset(sorted(reasons)[:MAX_REASONS])
        self.reasons = reasons
        self.options = options
        self.truth = truth
        self.answer = False  # it came out of a condition, whatever stands in it

    def __repr__(self) -> str:
        return f"Unknown({sorted(self.reasons)}, {self.options})"


def unknown(*reasons: str) -> Unknown:
    """A value that is not known, and why."""
    return Unknown(frozenset(reasons))


class Seq:
    """A tuple, list, set or frozenset whose length is known; items may be unknown.

    ``cls`` is set for named tuples of the audited tree.
    """

    __slots__ = ("kind", "items", "cls", "of")

    def __init__(self, kind: str, items: tuple[Any, ...], cls: Any = None, of: tuple[Any, ...] = ()) -> None:
        self.kind = kind
        self.items = items
        self.cls = cls
        self.of = of  # the containers of which this one is either

    def plain(self) -> tuple[Any, ...] | None:
        """The items as Python constants (nested tuples allowed), or None if some are not constants."""
        out = []
        for item in self.items:
            if isinstance(item, Seq):
                inner = item.plain()
                if inner is None:
                    return None
                out.append(inner)
            elif is_const(item):
                out.append(item)
            else:
                return None
        return tuple(out)

    def __repr__(self) -> str:
        return f"Seq({self.kind}, {self.items})"


def set_of(kind: str, items: tuple[Any, ...]) -> Seq:
    """A set or frozenset of these items: constants that Python takes for equal are there once."""
    kept: list[Any] = []
    seen: set[Any] = set()
    for item in items:
        plain = item.plain() if isinstance(item, Seq) else item
        if is_const(item) or (isinstance(item, Seq) and plain is not None):
            if plain in seen:
                continue
            seen.add(plain)
        kept.append(item)
    return Seq(kind, tuple(kept))


def is_sized(seq: Seq) -> bool:
    """Whether as many items are there as are listed: open items of a set may be equal to others."""
    return seq.kind in ("tuple", "list") or len(seq.items) < 2 or seq.plain() is not None


def is_ordered(scalar: Seq | Map) -> bool:
    """Whether items are gone through in the order in which they are listed; those of a set are not."""
    if isinstance(scalar, Map):
        return not scalar.maybe
    return scalar.kind in ("tuple", "list") or len(scalar.items) < 2


class Map:
    """A dictionary with constant keys. Values are scalars; keys in ``maybe`` may be absent, for the reasons
    that stand there."""

    __slots__ = ("items", "maybe", "of")

    def __init__(
        self,
        items: dict[Any, Any],
        maybe: dict[Any, frozenset[str]] | None = None,
        of: tuple[Any, ...] = (),
    ) -> None:
        self.items = items
        self.maybe: dict[Any, frozenset[str]] = maybe or {}
        self.of = of  # the dictionaries of which this one is either


class External:
    """A module, function or attribute outside the audited tree, by dotted name."""

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name = name

    def __repr__(self) -> str:
        return f"External({self.name})"


class ModuleRef:
    """A module as a value."""

    __slots__ = ("module",)

    def __init__(self, module: Any) -> None:
        self.module = module


class Pending:
    """A name bound by an import statement and resolved only when it is read."""

    __slots__ = ("module", "name", "optional")

    def __init__(self, module: str, name: str | None, optional: bool = False) -> None:
        self.module = module
        self.name = name  # None: the module itself
        self.optional = optional


class Deferred:
    """A module-level assignment that is evaluated only when its name is read."""

    __slots__ = ("node",)

    def __init__(self, node: Any) -> None:
        self.node = node  # ast.expr


class Function:
    """A function of the tree. ``closure`` is the environment of the enclosing function, if any."""

    __slots__ = ("module", "name", "qualname", "segment", "owner", "closure", "kind", "flags")

    def __init__(self, module: Any, name: str, qualname: str, segment: Any, owner: Any, closure: Any) -> None:
        self.module = module
        self.name = name
        self.qualname = qualname
        self.segment = segment
        self.owner = owner  # ClassInfo or None
        self.closure = closure
        self.kind: str | None = None  # function | property | classmethod | staticmethod (lazily)
        self.flags: set[str] = set()

    @property
    def fullname(self) -> str:
        return f"{self.module.name}.{self.qualname}"

    def __repr__(self) -> str:
        return f"Function({self.fullname})"


class Bound:
    """A function with its first argument."""

    __slots__ = ("function", "this")

    def __init__(self, function: Any, this: V) -> None:
        self.function = function
        self.this = this


class Partial:
    """``functools.partial``; ``name`` is the module-level name it was first bound to."""

    __slots__ = ("function", "args", "kwargs", "name")

    def __init__(self, function: V, args: tuple[V, ...], kwargs: dict[str, V]) -> None:
        self.function = function
        self.args = args
        self.kwargs = kwargs
        self.name: str | None = None


class Method:
    """A method of a Python constant or container: ``"a.b".split``."""

    __slots__ = ("this", "name")

    def __init__(self, this: Any, name: str) -> None:
        self.this = this
        self.name = name


class ClassRef:
    """A class; ``open`` where a subclass may stand in its place (``cls`` of a classmethod)."""

    __slots__ = ("info", "open")

    def __init__(self, info: Any, open: bool = False) -> None:
        self.info = info
        self.open = open

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ClassRef) and other.info is self.info

    def __hash__(self) -> int:
        return id(self.info)


class Instance:
    """An object of a class of the tree. ``attrs`` is None where it was not built by evaluated code
    (a typed parameter): attributes then come from the class and everything that writes them."""

    __slots__ = ("info", "attrs")

    def __init__(self, info: Any, attrs: dict[str, V] | None) -> None:
        self.info = info
        self.attrs = attrs


class EnumMember:
    """A member of an enumeration of the tree."""

    __slots__ = ("info", "name", "value")

    def __init__(self, info: Any, name: str, value: Any) -> None:
        self.info = info
        self.name = name
        self.value = value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, EnumMember) and other.info is self.info and other.name == self.name

    def __hash__(self) -> int:
        return hash(self.name)

    def __repr__(self) -> str:
        return f"{self.info.name}.{self.name}"


class Facts:
    """An object outside the tree of which some attributes are known (device properties, ...)."""

    __slots__ = ("name", "known", "root")

    def __init__(self, name: str, known: dict[str, Any], root: str | None = None) -> None:
        self.name = name
        self.known = known
        self.root = root


_CONST = (bool, int, float, str, bytes, type(None), complex, type(Ellipsis))


_OBJECTS = (Instance, Function, Bound, Partial, ClassRef, External, Facts)


def is_const(scalar: Any) -> bool:
    """Whether this is one plain value, or a member of an enumeration."""
    return isinstance(scalar, _CONST) or isinstance(scalar, EnumMember)


def same(a: Any, b: Any) -> bool:
    """Whether two scalars are surely the same value (1 and True are not)."""
    if a is b:
        return True
    if type(a) is not type(b):
        return False
    if isinstance(a, Seq):
        return (
            a.kind == b.kind
            and a.cls is b.cls
            and len(a.items) == len(b.items)
            and all(same(x, y) for x, y in zip(a.items, b.items))
        )
    if isinstance(a, External):
        return bool(a.name == b.name)
    if isinstance(a, Map):
        return (
            a.maybe == b.maybe
            and list(a.items) == list(b.items)
            and all(same(x, b.items[k]) for k, x in a.items.items())
        )
    if isinstance(a, ModuleRef):
        return a.module is b.module
    if isinstance(a, Function):
        return a.segment is b.segment
    if isinstance(a, Instance):
        return a.info is b.info and a.attrs is None and b.attrs is None
    if is_const(a) or isinstance(a, ClassRef):
        return bool(a == b)
    if isinstance(a, Pending):
        return bool(a.module == b.module and a.name == b.name)
    return False


class V:
    """A value on all targets: ``one`` scalar, or ``each`` with a scalar per target."""

    __slots__ = ("one", "each", "roots", "via")

    def __init__(
        self,
        one: Any,
        roots: frozenset[str] = EMPTY,
        via: frozenset[str] = EMPTY,
        each: tuple[Any, ...] | None = None,
    ) -> None:
        self.one = one
        self.each = each
        self.roots = roots
        self.via = via

    def at(self, i: int) -> Any:
        return self.one if self.each is None else self.each[i]

    def scalars(self) -> tuple[Any, ...]:
        return (self.one,) if self.each is None else self.each

    def with_provenance(self, roots: frozenset[str], via: frozenset[str]) -> V:
        return V(self.one, roots, via, self.each)

    def __repr__(self) -> str:
        body = repr(self.one) if self.each is None else repr(self.each)
        return f"V({body}, roots={sorted(self.roots)}, via={sorted(self.via)})"


def make(each: tuple[Any, ...], roots: frozenset[str] = EMPTY, via: frozenset[str] = EMPTY) -> V:
    """A value from one scalar per target, folded to one scalar where all agree."""
    first = each[0]
    if all(e is first or same(e, first) for e in each):
        return V(first, roots, via)
    if all(isinstance(e, Unknown) for e in each):
        # nothing is decided anywhere: one scalar for all, unless the reasons or the choice differ
        if all(e.reasons == first.reasons and _same_choice(e, first) for e in each[1:]):
            return V(first, roots, via)
    return V(None, roots, via, each)


def _same_choice(a: Unknown, b: Unknown) -> bool:
    if a.truth is not b.truth or (a.options is None) != (b.options is None):
        return False
    if a.options is None or b.options is None:
        return True
    return len(a.options) == len(b.options) and all(same(x, y) for x, y in zip(a.options, b.options))


def contains(scalar: Any, target: Any, depth: int = 4) -> bool:
    """Whether a scalar is a container or holds it, itself and not an equal one."""
    if scalar is target:
        return True
    if not depth:
        return False
    inner: Any = ()
    if isinstance(scalar, Seq):
        inner = (*scalar.items, *scalar.of)
    elif isinstance(scalar, Map):
        inner = (*scalar.items.values(), *scalar.of)
    elif isinstance(scalar, Instance):
        inner = [s for v in (scalar.attrs or {}).values() for s in v.scalars()]
    elif isinstance(scalar, (Bound, Method)):
        inner = scalar.this.scalars() if isinstance(scalar.this, V) else (scalar.this,)
    elif isinstance(scalar, Partial):
        inner = [s for v in (*scalar.args, *scalar.kwargs.values()) for s in v.scalars()]
    elif isinstance(scalar, Unknown):
        inner = scalar.options or ()
    return any(
        isinstance(s, (Seq, Map, Instance, Bound, Method, Partial, Unknown))
        and contains(s, target, depth - 1)
        for s in inner
    )


def options_of(scalar: Any) -> tuple[Any, ...] | None:
    """The scalars a scalar may be, or None where that is open."""
    if isinstance(scalar, Unknown):
        return scalar.options
    if is_const(scalar) or isinstance(scalar, _OBJECTS):
        return (scalar,)
    return None


def _changes(scalar: Any) -> bool:
    """Whether a scalar stands for an object that may change in place."""
    return isinstance(scalar, Map) or (isinstance(scalar, Seq) and scalar.kind not in ("tuple", "frozenset"))


def change_depth(value: V, depth: int = 3) -> int:
    """0 where nothing of a value can change in place, 1 where it can, 2 where what it holds can."""
    return max(_change_depth(s, depth) for s in value.scalars())


def _change_depth(scalar: Any, depth: int) -> int:
    own = 1 if _changes(scalar) else 0
    inner: Any = ()
    if isinstance(scalar, Seq):
        inner = scalar.items
    elif isinstance(scalar, Map):
        inner = scalar.items.values()
    elif isinstance(scalar, Unknown):
        return max((_change_depth(o, depth) for o in scalar.options or ()), default=0)
    if depth and any(isinstance(s, (Seq, Map)) and _change_depth(s, depth - 1) for s in inner):
        return 2
    return own


def join_scalars(a: Any, b: Any, why: frozenset[str] = EMPTY) -> Any:
    """What a scalar is when it may be either of two."""
    if same(a, b) and not isinstance(a, Unknown) and (a is b or not _changes(a)):
        return a
    if (
        isinstance(a, Seq)
        and isinstance(b, Seq)
        and a.kind == b.kind
        and a.cls is b.cls
        and len(a.items) == len(b.items)
    ):
        items = tuple(join_scalars(x, y, why) for x, y in zip(a.items, b.items))
        return Seq(a.kind, items, a.cls, () if a.kind == "tuple" else (a, b))
    if isinstance(a, Map) and isinstance(b, Map) and len(a.items) + len(b.items) <= MAX_KEYS:
        return _join_maps(a, b, why)
    reasons = why
    if isinstance(a, Unknown):
        reasons = reasons | a.reasons
    if isinstance(b, Unknown):
        reasons = reasons | b.reasons
    oa, ob = options_of(a), options_of(b)
    options = None
    if oa is not None and ob is not None:
        merged = list(oa)
        for o in ob:
            if not any(same(o, m) for m in merged):
                merged.append(o)
        if len(merged) <= MAX_OPTIONS:
            options = tuple(merged)
    # a container may become empty, and nobody could tell from this which one it was
    ta = None if _changes(a) or _changes(b) else truth_of(a)
    return Unknown(reasons, options, ta if ta is not None and ta == truth_of(b) else None)


def _join_maps(a: Map, b: Map, why: frozenset[str]) -> Map:
    """A dictionary that is one of two: key by key; what only one of them has may be absent."""
    items = dict(a.items)
    for key, value in b.items.items():
        items[key] = join_scalars(items[key], value, why) if key in items else value
    maybe = {key: why for key in items if key not in a.items or key not in b.items}
    for key, reasons in (*a.maybe.items(), *b.maybe.items()):
        maybe[key] = maybe.get(key, EMPTY) | reasons
    return Map(items, maybe, (a, b))


def truth_of(scalar: Any) -> bool | None:
    """Kleene truth of one scalar."""
    if isinstance(scalar, Unknown):
        if scalar.truth is not None:
            return scalar.truth
        if scalar.options:
            seen = {truth_of(o) for o in scalar.options}
            if len(seen) == 1:
                return seen.pop()
        return None
    if isinstance(scalar, EnumMember):
        return True
    if isinstance(scalar, _CONST):
        return bool(scalar)
    if isinstance(scalar, Seq):
        return bool(scalar.items)
    if isinstance(scalar, Map):
        return None if scalar.items and len(scalar.maybe) == len(scalar.items) else bool(scalar.items)
    if isinstance(scalar, (Function, ClassRef, ModuleRef, Bound, Partial, Method)):
        return True
    if isinstance(scalar, Instance):
        return None if scalar.info.has_truth_method() else True
    return None


def reasons_of(scalar: Any) -> frozenset[str]:
    """Why one scalar is not known; empty where it is."""
    if isinstance(scalar, Unknown):
        return scalar.reasons
    return EMPTY


def all_reasons(value: V) -> frozenset[str]:
    """Why a value is not known, on any target."""
    if value.each is None:
        return reasons_of(value.one)
    return frozenset().union(*(reasons_of(s) for s in value.each))
