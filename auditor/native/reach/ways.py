"""Ways to a place: on which targets each can be taken, and what somebody has to choose for it."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

#: More ways than this are taken for one that nobody has to choose.
MANY = 16

#: (names that have to be chosen, sorted; targets on which it can be taken)
Path = tuple[tuple[str, ...], int]


class Way(NamedTuple):
    """All ways to a place, and what open answers hang on."""

    paths: tuple[Path, ...]
    because: frozenset[str] = frozenset()

    @property
    def may(self) -> int:
        """Targets on which the place can be come to."""
        mask = 0
        for _names, targets in self.paths:
            mask |= targets
        return mask

    def covers(self, targets: int) -> bool:
        """Whether nobody has to choose anything on these targets."""
        return any(not names and targets & ~mask == 0 for names, mask in self.paths)


def free(mask: int, because: Iterable[str] = ()) -> Way:
    """A way that nobody has to choose."""
    return Way((((), mask),) if mask else (), frozenset(because))


NOWHERE = Way(())


def way_of(paths: Iterable[Path], because: Iterable[str] = ()) -> Way:
    """Ways without those that another one makes needless."""
    masks: dict[tuple[str, ...], int] = {}
    for names, mask in paths:
        if mask:
            masks[names] = masks.get(names, 0) | mask
    kept: list[Path] = []
    for names, mask in sorted(masks.items(), key=lambda item: (len(item[0]), item[0])):
        for other, theirs in kept:
            if set(other) <= set(names):
                mask &= ~theirs
        if mask:
            kept.append((names, mask))
    if len(kept) > MANY:
        whole = 0
        for _names, mask in kept:
            whole |= mask
        kept = [((), whole)]
    return Way(tuple(kept), frozenset(sorted(because)[:8]))


def either(ways: Iterable[Way]) -> Way:
    """One way or another."""
    ways = list(ways)
    return way_of((p for way in ways for p in way.paths), (b for way in ways for b in way.because))


def both(one: Way, other: Way) -> Way:
    """One way and another."""
    return way_of(
        ((tuple(sorted({*a, *b})), m & n) for a, m in one.paths for b, n in other.paths),
        one.because | other.because,
    )


def narrowed(way: Way, mask: int, names: Sequence[str] = ()) -> Way:
    """A way on some targets only, and, with ``names``, where one of these is chosen."""
    if not names:
        return Way(tuple((n, m & mask) for n, m in way.paths if m & mask), way.because)
    return both(way, way_of(((name,), mask) for name in names))


def wanted(test: ast.expr, values: Mapping[str, list[ast.expr]] | None = None) -> tuple[str, ...]:
    """The texts of ``x == "a"`` and ``x in ("a", "b")``, also as parts of a conjunction, or as what all
    assignments of a name (``values``) come to, those of False apart."""
    if isinstance(test, ast.BoolOp) and isinstance(test.op, ast.And):
        return next((found for part in test.values if (found := wanted(part, values))), ())
    if isinstance(test, ast.Name) and values and test.id in values:
        given = [v for v in values[test.id] if not (isinstance(v, ast.Constant) and not v.value)]
        each = [wanted(v) for v in given]
        return tuple(dict.fromkeys(n for names in each for n in names)) if each and all(each) else ()
    if not isinstance(test, ast.Compare) or len(test.ops) != 1:
        return ()
    right = test.comparators[0]
    if isinstance(test.ops[0], ast.Eq):
        items: list[ast.expr] = [right]
    elif isinstance(test.ops[0], ast.In) and isinstance(right, (ast.Tuple, ast.List, ast.Set)):
        items = right.elts
    else:
        return ()
    texts = [i.value for i in items if isinstance(i, ast.Constant) and isinstance(i.value, str)]
    return tuple(texts) if len(texts) == len(items) else ()


__all__ = ["NOWHERE", "Path", "Way", "both", "either", "free", "narrowed", "wanted", "way_of"]
