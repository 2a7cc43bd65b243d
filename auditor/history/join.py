"""Which gate of one audit is which gate of another.

By place and condition first, then by structural id, which also survives another spelling of the condition.
What is left over is joined by symbol and condition (the file moved), then by symbol and a similar condition
(the condition changed), then by a condition that says enough to be known again where its symbol was renamed.
Each gate is joined once; ties go to the nearest line.

The id alone would join the wrong ones where a function gets one more condition of the same meaning: it counts
them.

Conditions are compared without what a move changes: the first receiver of a name (``self.x``, ``args.x``) and
the brackets of a call without arguments (``is_x()`` that became ``info().is_x``).
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterable
from difflib import SequenceMatcher
from functools import lru_cache

from auditor.gates.model import Gate

#: Conditions less alike than this are two gates, not one that changed.
ALIKE = 0.55
#: The same where the symbol is another one too: then the condition is all there is to know a gate by.
_VERY_ALIKE = 0.75
#: A condition that is one of the parts of another.
_PART = 0.6
#: And the names it has to hold, to be taken for the same in another symbol of its file, or of another file.
_NAMES_NEAR = 2
_NAMES_FAR = 3
_RECEIVER = re.compile(r"(?<![\w.)\]'\"])[A-Za-z_]\w*(?:\(\))?\.(?=[A-Za-z_])")
_NAME = re.compile(r"[A-Za-z_]\w*")
_WORDS = frozenset(
    {"self", "cls", "and", "or", "not", "in", "is", "None", "True", "False", "if", "else", "for", "lambda"}
)

Joined = tuple[list[tuple[Gate, Gate]], list[Gate], list[Gate]]


def join(old: Iterable[Gate], new: Iterable[Gate]) -> Joined:
    """Pairs, what only the older audit has, and what only the newer one has."""
    left = list({gate.id: gate for gate in old}.values())
    right = list({gate.id: gate for gate in new}.values())
    pairs: list[tuple[Gate, Gate]] = []
    for key in (_same_place, _same_branch, _by_meaning, _same_words, _same_leaf):
        found, left, right = _exact(left, right, key)
        pairs += found
    for group, least in ((_place, ALIKE), (_leaf, ALIKE), (_file, _VERY_ALIKE), (_anywhere, _VERY_ALIKE)):
        found, left, right = _similar(left, right, group, least)
        pairs += found
    found, left, right = _exact(left, right, _by_id)
    return pairs + found, left, right


def _same_place(gate: Gate) -> object:
    return gate.path, gate.symbol, gate.kind, gate.predicate


def _same_branch(gate: Gate) -> object:
    """An ``elif`` whose ``if`` went is an ``if`` now, and the other way round."""
    return gate.path, gate.symbol, _branch(gate), gate.predicate


def _branch(gate: Gate) -> str:
    return "if" if gate.kind == "elif" else gate.kind


def _by_meaning(gate: Gate) -> object:
    """An id says the same of every name that asks for the GPU: where the values differ, the condition of
    another gate may have taken its number."""
    return gate.id, _values(gate)


def _by_id(gate: Gate) -> object:
    return gate.id


def _same_words(gate: Gate) -> object:
    """In another file a symbol and a condition are the same gate; at the top of a file, where there is no
    symbol, the name of the file must be the same too."""
    return gate.symbol or gate.path.rpartition("/")[2], gate.kind, gate.predicate


def _same_leaf(gate: Gate) -> object:
    owner = gate.symbol.rpartition(".")[0] if _names(gate.predicate) < _NAMES_FAR else ""
    return leaf(gate), gate.kind, gate.predicate, owner


def leaf(gate: Gate) -> str:
    """The last part of the symbol, without the underscores that a method loses when it becomes a function;
    the name of the file for what stands at its top."""
    name = gate.symbol.rpartition(".")[2]
    return name.lstrip("_") or name or gate.path.rpartition("/")[2]


def _place(gate: Gate) -> object:
    return gate.path, gate.symbol


def _leaf(gate: Gate) -> object:
    return leaf(gate), gate.kind


def _file(gate: Gate) -> object:
    return gate.path, gate.kind, _values(gate)


def _anywhere(gate: Gate) -> object:
    if _names(gate.predicate) < _NAMES_FAR:
        return None
    return gate.kind, _values(gate)


def _values(gate: Gate) -> object:
    """What it says on every target: where that differs too, nothing says that two gates are one."""
    return tuple(sorted(gate.truth.items()))


@lru_cache(maxsize=65_536)
def plain(predicate: str) -> str:
    """A condition without what a move changes: first receivers, and brackets of calls without arguments."""
    return _RECEIVER.sub("", predicate).replace("()", "")


@lru_cache(maxsize=65_536)
def _names(predicate: str) -> int:
    """How many different names a condition holds."""
    return len(set(_NAME.findall(predicate)) - _WORDS)


def alike(a: Gate, b: Gate) -> float:
    """How alike two conditions are, from 0 to 1: one that is a part of the other always is."""
    one, other = plain(a.predicate), plain(b.predicate)
    score = SequenceMatcher(None, one, other, autojunk=False).ratio()
    small, large = sorted((one, other), key=len)
    if re.search(rf"(?<!\w){re.escape(small)}(?!\w)", large):
        return max(score, _PART)
    return score


def same_condition(gate: Gate) -> list[object]:
    """Keys by which two gates ask the same, though they may be two: within a file, and anywhere if the
    condition holds more than one name."""
    what = plain(gate.predicate), _values(gate)
    return [(gate.path, *what)] + ([what] if _names(gate.predicate) >= _NAMES_NEAR else [])


def _may_be_one(a: Gate, b: Gate) -> bool:
    """Whether two gates of different symbols can be one.

    Methods of two classes often share a name (``forward``) and nothing else, and a file has the same short
    condition in many functions: then either the condition says enough, or the symbol was renamed a little.
    """
    if a.path != b.path:
        if leaf(a) == leaf(b) and ("." not in a.symbol or "." not in b.symbol):
            return True
        return _names(a.predicate) >= _NAMES_FAR and alike(a, b) >= _VERY_ALIKE
    if leaf(a) == leaf(b) or _names(a.predicate) >= _NAMES_NEAR:
        return True
    return SequenceMatcher(None, a.symbol, b.symbol, autojunk=False).ratio() >= _VERY_ALIKE


def _exact(left: list[Gate], right: list[Gate], key: Callable[[Gate], object]) -> Joined:
    """Join gates with an equal key in their order; more on one side than on the other stay."""
    here: dict[object, list[Gate]] = defaultdict(list)
    there: dict[object, list[Gate]] = defaultdict(list)
    for gates, by_key in ((left, here), (right, there)):
        for gate in sorted(gates, key=lambda gate: (gate.path, gate.line, gate.id)):
            by_key[key(gate)].append(gate)
    pairs = [pair for name, gates in here.items() for pair in _in_order(gates, there.get(name, []))]
    gone = {a.id for a, _ in pairs}
    taken = {b.id for _, b in pairs}
    return pairs, [g for g in left if g.id not in gone], [g for g in right if g.id not in taken]


def _in_order(old: list[Gate], new: list[Gate]) -> list[tuple[Gate, Gate]]:
    """Gates of one kind in one place, first to first; where one side has more of them, those that are
    reached alike and as long are held to be the same."""
    if len(old) == len(new) or not old or not new:
        return list(zip(old, new, strict=False))
    one, other = (
        [f"{_values(g)} {sorted(g.reached.items())} {g.end_line - g.line}" for g in gates]
        for gates in (old, new)
    )
    found: list[tuple[Gate, Gate]] = []
    for tag, i1, i2, j1, j2 in SequenceMatcher(None, one, other, autojunk=False).get_opcodes():
        if tag in ("equal", "replace"):
            found += zip(old[i1:i2], new[j1:j2], strict=False)
    return found


def _similar(left: list[Gate], right: list[Gate], group: Callable[[Gate], object], least: float) -> Joined:
    """Join within a group (None: in none) by how alike the conditions are: those that say the same on every
    target first, and of these the most alike."""
    there: dict[object, list[Gate]] = defaultdict(list)
    for gate in right:
        there[group(gate)].append(gate)
    there.pop(None, None)
    scored = []
    for i, a in enumerate(left):
        for b in there.get(group(a), ()):
            if a.symbol != b.symbol and not _may_be_one(a, b):
                continue
            score = alike(a, b) + (0.1 if a.kind == b.kind else 0.0)
            if score >= least + 0.1:
                order = a.truth != b.truth, -score, a.path != b.path, abs(a.line - b.line), i, b.id
                scored.append((order, a, b))
    pairs: list[tuple[Gate, Gate]] = []
    gone: set[str] = set()
    taken: set[str] = set()
    for _, a, b in sorted(scored, key=lambda row: row[0]):
        if a.id not in gone and b.id not in taken:
            gone.add(a.id)
            taken.add(b.id)
            pairs.append((a, b))
    return pairs, [g for g in left if g.id not in gone], [g for g in right if g.id not in taken]
