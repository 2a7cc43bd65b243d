"""What the names of a tree are worth at one commit, from their definitions."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from auditor.history.sweeping.extract import Site
from auditor.history.sweeping.kleene import Circle, Evaluation, Function, Open, Vector, World, same, truth_of
from auditor.history.sweeping.terms import Term, read_by, used
from auditor.program.externals import CAPABILITY, NVML, PROPERTIES, TRITON_TARGET

Place = tuple[str, str]  # module, class
_NONE = 1 << 30
#: An attribute defined at more places than this is open.
_MANY = 64
_Use = tuple[str, str]  # how a name is read, and which


#: What is worth something else from target to target by itself.
_VARY = frozenset({CAPABILITY, NVML, PROPERTIES, TRITON_TARGET})


class Values:
    """Terms on all targets, each worked out once for what its names are worth, and on one target alone where
    they are worth the same on all of them.
    """

    def __init__(self, world: World) -> None:
        self.world = world
        self._known: dict[tuple[int, tuple[int, ...]], Vector] = {}
        self._kept: dict[Any, Vector] = {}
        self._level: set[int] = set()  # ids of the kept vectors that are the same on all targets

    def keep(self, vector: Vector) -> Vector:
        """The one object that stands for this vector."""
        key = tuple((type(item).__name__, item) for item in vector)
        found = self._kept.setdefault(key, vector)
        if found is vector and _is_level(vector):
            self._level.add(id(vector))
        return found

    def of(self, term: Term, bound: dict[_Use, Vector]) -> Vector:
        """A term where its names are worth ``bound`` (vectors that were kept)."""
        key = (id(term), tuple(id(bound[use]) for use in sorted(bound)))
        found = self._known.get(key)
        if found is None:
            count = self.world.count
            level = _VARY.isdisjoint(read_by(term)[1]) and all(id(v) in self._level for v in bound.values())
            if term[0] == "fn":
                found = (Function(term, bound, level=level),) * count
            else:
                try:
                    found = tuple(
                        Evaluation(self.world, at).of(term, bound, {}) for at in range(1 if level else count)
                    )
                except RecursionError:  # of a generated expression
                    found = (Open("…"),)
                if len(found) < count:
                    found *= count
            found = self._known[key] = self.keep(found)
        return found


def _is_level(vector: Vector) -> bool:
    first = vector[0]
    if isinstance(first, Function):
        return first.level and all(item is first for item in vector)
    return all(same(first, item) for item in vector[1:])


def _by_place(sites: tuple[Site, ...]) -> dict[tuple[str, str], tuple[Site, ...]]:
    """The definitions of a module by name and class."""
    out: dict[tuple[str, str], list[Site]] = {}
    for site in sites:
        out.setdefault((site.name, site.owner), []).append(site)
    return {place: tuple(found) for place, found in out.items()}


class Table:
    """The definitions of a tree's vocabulary, by name and place."""

    def __init__(self, values: Values, names: Iterable[str]) -> None:
        self.values = values
        self.names = frozenset(names)
        self._sites: dict[str, dict[Place, tuple[Site, ...]]] = {}
        self._of: dict[str, tuple[Site, ...]] = {}  # module -> its sites
        self._cache: dict[tuple[str, str, str], Vector | None] = {}
        self._uses: dict[int, tuple[_Use, ...]] = {}
        self._stack: list[tuple[str, str, str]] = []
        self._outermost = _NONE  # place in the stack of the outermost name that was met again
        #: What was worked out within a circle, with the place of its outermost name: kept until that is done.
        self._inner: dict[tuple[str, str, str], tuple[Vector | None, int]] = {}
        self._circle = values.keep((Circle(),) * values.world.count)

    def put(self, module: str, sites: tuple[Site, ...]) -> set[str]:
        """The definitions of a module from now on; the names whose definitions that changes. What stands on
        them is to be asked for with :meth:`standing_on`, before any value.
        """
        before = self._of.get(module, ())
        if before == sites:
            return set()
        old, new = _by_place(before), _by_place(sites)
        changed = {place for place in {**old, **new} if old.get(place) != new.get(place)}
        for name, owner in changed:
            places = self._sites.setdefault(name, {})
            found = new.get((name, owner))
            if found is None:
                del places[module, owner]
            else:
                places[module, owner] = found
        if sites:
            self._of[module] = sites
        else:
            self._of.pop(module, None)
        return {name for name, _ in changed}

    def standing_on(self, names: Iterable[str]) -> set[str]:
        """These names and all that are defined by them; what they were worth is forgotten."""
        used_by: dict[str, set[str]] = {}
        for name, places in self._sites.items():
            for sites in places.values():
                for site in sites:
                    for term in (site.term, site.guard):
                        for use in self.names_in(term) if term is not None else ():
                            used_by.setdefault(use, set()).add(name)
        found: set[str] = set()
        left = list(names)
        while left:
            name = left.pop()
            if name not in found:
                found.add(name)
                left += used_by.get(name, ())
        self._cache = {key: value for key, value in self._cache.items() if key[1] not in found}
        return found

    def names_in(self, term: Term) -> Iterator[str]:
        """The names of the vocabulary in a term."""
        return (word for _, word in self._wanted(term))

    def reset(self, names: Iterable[str], sites: Mapping[str, tuple[Site, ...]]) -> None:
        """Other names, and the definitions of all modules."""
        self.names = frozenset(names)
        self._uses.clear()
        self._cache.clear()
        for module, found in sites.items():
            self.put(module, found)
        self._cache.clear()

    def places_of(self, name: str) -> list[Place]:
        """Where a name is defined."""
        return sorted(self._sites.get(name, ()))

    def places(self) -> list[tuple[str, Place]]:
        """All names with all places where they are defined."""
        return [(name, place) for name in sorted(self._sites) for place in sorted(self._sites[name])]

    def vector(self, term: Term, module: str) -> Vector:
        """What a term in a module is worth."""
        bound: dict[_Use, Vector] = {}
        for use in self._wanted(term):
            found = self.resolve(use[0], use[1], module)
            if found is not None:
                bound[use] = found
        return self.values.of(term, bound)

    def _wanted(self, term: Term) -> tuple[_Use, ...]:
        found = self._uses.get(id(term))
        if found is None:
            names = self.names
            found = tuple(sorted(use for use in used(term) if use[0] != "root" and use[1] in names))
            self._uses[id(term)] = found
        return found

    def resolve(self, how: str, word: str, module: str) -> Vector | None:
        """What a name read in a module is worth; None where nothing defines it.

        A name of the module itself comes first. Else all definitions there are have to agree: imports are not
        followed.
        """
        key = (how, word, module)
        if key in self._cache:
            return self._cache[key]
        places = self._sites.get(word)
        if not places:
            return None
        if key in self._stack:
            self._outermost = min(self._outermost, self._stack.index(key))
            return self._circle
        if key in self._inner:
            found, level = self._inner[key]
            self._outermost = min(self._outermost, level)
            return found
        inside = self._outermost
        self._outermost = _NONE
        self._stack.append(key)
        try:
            found = self._resolve(how, word, module, places)
        finally:
            depth = len(self._stack) - 1
            self._stack.pop()
        # What is worked out within a circle depends on where it was entered: its outermost name is kept.
        if self._outermost >= depth:
            self._outermost = inside
            self._cache[key] = found
            if self._inner:
                self._inner = {k: v for k, v in self._inner.items() if v[1] < depth}
        else:
            self._inner[key] = found, self._outermost
            self._outermost = min(self._outermost, inside)
        return found

    def _resolve(
        self, how: str, word: str, module: str, places: dict[Place, tuple[Site, ...]]
    ) -> Vector | None:
        if how == "n":
            mine = [p for p in ((module, ""),) if p in places] or [p for p in places if not p[1]]
        elif how == "s":
            mine = [p for p in places if p[0] == module and p[1]] or list(places)
        else:
            mine = list(places)
        if how == "a" and len(mine) > _MANY:
            return self._agreed(word, [])
        return self._agreed(word, [self.at(word, place) for place in sorted(mine)]) if mine else None

    def _agreed(self, word: str, vectors: list[Vector]) -> Vector:
        if vectors and all(v is vectors[0] for v in vectors):
            return vectors[0]
        out = []
        for at in range(self.values.world.count):
            first = vectors[0][at] if vectors else None
            agree = bool(vectors) and all(same(v[at], first) for v in vectors)
            if not agree and vectors and all(isinstance(v[at], Function) for v in vectors):
                # Written twice: one function, if all give the same answer to a plain call.
                answers = [Evaluation(self.values.world, at).call(v[at], [], {}) for v in vectors]
                plain = not isinstance(answers[0], (Open, Function))
                agree = plain and all(same(answer, answers[0]) for answer in answers)
            out.append(first if agree else Open(f"{word} of several"))
        return self.values.keep(tuple(out))

    def at(self, word: str, place: Place) -> Vector:
        """A name at one place: the last definition whose guard holds; assignments of no known order agree."""
        key = ("@", word, f"{place[0]}:{place[1]}")
        known = self._cache.get(key)
        if known is not None:
            return known
        if key in self._inner:
            kept, level = self._inner[key]
            self._outermost = min(self._outermost, level)
            assert kept is not None
            return kept
        inside = self._outermost
        self._outermost = _NONE
        sites = self._sites[word][place]
        strong = [site for site in sites if not site.weak]
        weak = [self.vector(site.term, place[0]) for site in sites if site.weak]
        weak = [v for v in weak if v is not self._circle] or weak  # what is set back says nothing
        parts = [self._strong(word, strong, place[0])] if strong else []
        if weak and parts and all(item is None for item in parts[0]):
            parts = []  # filled in later
        found = self._agreed(word, parts + weak)
        if self._outermost == _NONE:
            self._cache[key] = found
        elif self._stack:
            self._inner[key] = found, self._outermost
        self._outermost = min(self._outermost, inside)
        return found

    def _strong(self, word: str, sites: list[Site], module: str) -> Vector:
        if len(sites) == 1 and sites[0].guard is None:
            return self.vector(sites[0].term, module)
        out: list[Any] = []
        vectors = [
            (None if s.guard is None else self.vector(s.guard, module), self.vector(s.term, module))
            for s in sites
        ]
        for at in range(self.values.world.count):
            value: Any = Open(word)
            there = False
            for guard, vector in vectors:
                truth = True if guard is None else truth_of(guard[at])
                if truth is False:
                    continue
                if truth or (there and same(value, vector[at])):
                    value = vector[at]
                elif guard is not None:
                    value = Open(f"({word} by {guard[at]!r})")
                there = True
            out.append(value)
        return self.values.keep(tuple(out))
