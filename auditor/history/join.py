"""Which gate of one audit is which gate of another.

By structural id first: it survives formatting and moved lines. What is left over is joined by symbol and
condition (the file moved), then by place and a similar condition (the predicate changed), then by symbol and
a similar condition in another file. Each gate is joined once; ties go to the nearest line.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable
from difflib import SequenceMatcher

from auditor.gates.model import Gate

#: Conditions less alike than this are two gates, not one that changed.
ALIKE = 0.55


def join(old: Iterable[Gate], new: Iterable[Gate]) -> tuple[list[tuple[Gate, Gate]], list[Gate], list[Gate]]:
    """Pairs, what only the older audit has, and what only the newer one has."""
    before = {gate.id: gate for gate in old}
    after = {gate.id: gate for gate in new}
    pairs = [(before[i], after[i]) for i in before if i in after]
    left = [gate for i, gate in before.items() if i not in after]
    right = [gate for i, gate in after.items() if i not in before]
    for key in (_same_place, _same_words, _same_leaf):
        found, left, right = _exact(left, right, key)
        pairs += found
    for group in (_place, _leaf):
        found, left, right = _similar(left, right, group)
        pairs += found
    return pairs, left, right


def _same_place(gate: Gate) -> object:
    return gate.path, gate.symbol, gate.kind, gate.predicate


def _same_words(gate: Gate) -> object:
    return gate.symbol, gate.kind, gate.predicate


def _same_leaf(gate: Gate) -> object:
    return gate.symbol.rpartition(".")[2], gate.kind, gate.predicate


def _place(gate: Gate) -> object:
    return gate.path, gate.symbol


def _leaf(gate: Gate) -> object:
    return gate.symbol.rpartition(".")[2], gate.kind


Joined = tuple[list[tuple[Gate, Gate]], list[Gate], list[Gate]]


def _exact(left: list[Gate], right: list[Gate], key: Callable[[Gate], object]) -> Joined:
    """Join gates with an equal key, the first with the first; more on one side than on the other stay."""
    there: dict[object, list[Gate]] = defaultdict(list)
    for gate in right:
        there[key(gate)].append(gate)
    pairs, rest = [], []
    for gate in left:
        options = there.get(key(gate))
        if options:
            pairs.append((gate, options.pop(0)))
        else:
            rest.append(gate)
    taken = {b.id for _, b in pairs}
    return pairs, rest, [gate for gate in right if gate.id not in taken]


def _similar(left: list[Gate], right: list[Gate], group: Callable[[Gate], object]) -> Joined:
    """Join within a group by how alike the conditions are, the most alike first."""
    there: dict[object, list[Gate]] = defaultdict(list)
    for gate in right:
        there[group(gate)].append(gate)
    scored = []
    for i, a in enumerate(left):
        for b in there.get(group(a), ()):
            alike = SequenceMatcher(None, a.predicate, b.predicate, autojunk=False).ratio()
            if a.kind == b.kind:
                alike += 0.1
            if alike >= ALIKE + 0.1:
                scored.append((-alike, abs(a.line - b.line), i, b.id, a, b))
    pairs: list[tuple[Gate, Gate]] = []
    gone: set[str] = set()
    taken: set[str] = set()
    for *_, a, b in sorted(scored, key=lambda row: row[:4]):
        if a.id not in gone and b.id not in taken:
            gone.add(a.id)
            taken.add(b.id)
            pairs.append((a, b))
    return pairs, [g for g in left if g.id not in gone], [g for g in right if g.id not in taken]
