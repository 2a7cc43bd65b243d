"""The gates of a tree and what they are worth per target, kept up to date from commit to commit."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from hashlib import sha256
from typing import Any, NamedTuple

from auditor.arch import load_targets
from auditor.history.sweeping.extract import NEEDS_TRUTH, NONE, Facts, Words
from auditor.history.sweeping.kleene import Vector, World, same, truth_of
from auditor.history.sweeping.learn import Learned
from auditor.history.sweeping.model import Counts, GateChange, GateFact, Setup
from auditor.history.sweeping.pieces import Reader, Unreadable
from auditor.history.sweeping.table import Table, Values
from auditor.profile import Profile

Read = Callable[[Sequence[str]], Iterator[bytes]]
_LETTERS = {True: "t", False: "f", None: "?"}
#: Blobs asked for at once.
_MOST = 400


def world_of(names: Iterable[str], cuda: str, vendor: Mapping[str, Any] | None = None) -> World:
    """The world of these targets."""
    known = load_targets()
    chosen = [known[name] for name in names]
    return World(tuple(t.capability for t in chosen), tuple(t.smem_per_block for t in chosen), cuda, vendor)


def module_of(path: str, root: str) -> str:
    """The module that a path below a source root is."""
    below = path[len(root) + 1 :] if root else path
    return below.removesuffix(".py").replace("/", ".").removesuffix(".__init__")


class _File(NamedTuple):
    facts: Facts
    names: frozenset[str]  # of the vocabulary, in its gates
    vectors: tuple[Vector, ...]
    gates: dict[str, tuple[GateFact, str]]  # structural id -> gate, outcome per target


class Quick:
    """The state of one tree. ``memo`` False reads every file whole each time. ``learned`` is what was read
    when the names were learned.
    """

    def __init__(
        self, setup: Setup, profile: Profile, read: Read, memo: bool = True, learned: Learned | None = None
    ) -> None:
        self.setup = setup
        self.profile = profile
        self.read = read
        names = (*setup.targets, setup.reference)
        self.values = Values(world_of(names, setup.cuda, setup.vendor))
        self.table = Table(self.values, setup.vocabulary)
        self.words = Words(setup.vocabulary)
        self.reader = learned.reader if learned is not None and memo else Reader(self.words, memo)
        self._there = learned.there if learned is not None and memo else {}
        self.memo = memo
        #: Sources that mention no predicate, or their blobs: of a later version what is new is looked at.
        self._silent: dict[str, bytes | str] = {}
        self.files: dict[str, _File] = {}
        self.unreadable: set[str] = set()
        self.totals = {name: [0, 0] for name in setup.targets}
        self.gates = 0
        self._ids: dict[tuple[str, ...], str] = {}

    def wanted(self, path: str) -> bool:
        """Whether a path is source of the package."""
        return path.startswith(self.setup.folder + "/") and path.endswith(".py")

    def load(self, blobs: Mapping[str, str]) -> None:
        """A tree from its listing."""
        self.step([(path, blob) for path, blob in blobs.items() if self.wanted(path)])
        self._there = {}

    def step(self, changes: Sequence[tuple[str, str]]) -> list[GateChange]:
        """Take over changed files (path, blob id or ""); what that did to the gates."""
        changes = [(path, blob) for path, blob in changes if self.wanted(path)]
        if not changes:
            return []
        renamed: set[str] = set()
        touched: dict[str, Facts] = {}
        for path, found in self._facts(changes):
            if found is NONE and path not in self.files:
                continue
            touched[path] = found
            renamed |= self.table.put(module_of(path, self.setup.root), found.sites)
        if renamed:  # what stands on these may be worth something else now
            renamed = self.table.standing_on(renamed)
            for path, file in self.files.items():
                if not renamed.isdisjoint(file.names):
                    touched.setdefault(path, file.facts)
        out: list[GateChange] = []
        for path in sorted(touched):
            out += self._judge(path, touched[path])
        return sorted(out, key=lambda c: (c.kind, c.gate.path, c.gate.id))

    def counts(self) -> Counts:
        """How many gates there are now, and for how many each target differs or is undecided."""
        return Counts(self.gates, {name: tuple(pair) for name, pair in self.totals.items()})  # type: ignore[misc]

    # files

    def _facts(self, changes: Sequence[tuple[str, str]]) -> Iterator[tuple[str, Facts]]:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for path, blob in changes:
                if not blob:
                    self.unreadable.discard(path)
                    self._silent.pop(path, None)
                    yield path, NONE
            there: list[tuple[str, str]] = []
            for path, blob in changes:
                if blob and not self._there.get(blob, True):
                    self._silent[path] = blob
                    yield path, NONE
                elif blob:
                    there.append((path, blob))
            for start in range(0, len(there), _MOST):
                yield from self._read(there[start : start + _MOST])

    def _read(self, files: Sequence[tuple[str, str]]) -> Iterator[tuple[str, Facts]]:
        """The facts of changed files; of those that mentioned nothing before, by what is new in them."""
        asked: list[str] = []
        for path, blob in files:
            before = self._silent.get(path)
            asked += [before, blob] if isinstance(before, str) else [blob]
        contents = self.read(asked)
        for path, blob in files:
            before = self._silent.pop(path, None)
            old = next(contents) if isinstance(before, str) else before
            data = next(contents)
            self.unreadable.discard(path)
            known = self._there.get(blob)
            if known is None and old is not None and self.memo and not self.words.in_text(_new(old, data)):
                known = frozenset()
            elif known is None:
                known = self.words.scanned if path in self.files and self.memo else self.words.present(data)
            if not known:
                self._silent[path] = data
                yield path, NONE
                continue
            try:
                yield path, self.reader.facts(data, known, path=path)
            except Unreadable:
                self.unreadable.add(path)
                yield path, NONE
        next(contents, None)  # the stream ends

    def _judge(self, path: str, facts: Facts) -> list[GateChange]:
        before = self.files.get(path)
        module = module_of(path, self.setup.root)
        gates = () if self.profile.is_excluded(path) else facts.gates
        vectors = tuple(self.table.vector(gate.term, module) for gate in gates)
        if before is not None and before.facts is facts and before.vectors == vectors:
            return []
        after: dict[str, tuple[GateFact, str]] = {}
        counts: dict[tuple[str, ...], int] = {}
        for found, vector in zip(gates, vectors, strict=True):
            if found.kind in NEEDS_TRUTH and not any(isinstance(item, bool) for item in vector):
                continue
            base = (module, found.symbol, found.kind, found.text)
            number = counts.get(base, 0)
            counts[base] = number + 1
            gate = GateFact(self._id((*base, str(number))), path, found.symbol, found.kind, found.text)
            after[gate.id] = (
                gate,
                "".join(_LETTERS[truth_of(item)] for item in vector) + self._outcome(vector),
            )
        old = before.gates if before is not None else {}
        self._count(old, -1)
        self._count(after, 1)
        if facts is NONE:
            self.files.pop(path, None)
        else:
            names = frozenset(name for gate in gates for name in self.table.names_in(gate.term))
            self.files[path] = _File(facts, names, vectors, after)
        return list(self._changes(old, after))

    def _outcome(self, vector: Vector) -> str:
        reference = vector[-1]
        theirs = truth_of(reference)
        out = "/"
        for value in vector[:-1]:
            mine = truth_of(value)
            if mine is None or theirs is None:
                out += "s" if same(value, reference) else "u"
            else:
                out += "s" if mine == theirs else "d"
        return out

    def _count(self, gates: Mapping[str, tuple[GateFact, str]], sign: int) -> None:
        self.gates += sign * len(gates)
        for _, outcome in gates.values():
            for name, letter in zip(self.setup.targets, outcome.partition("/")[2], strict=True):
                if letter != "s":
                    self.totals[name][letter == "u"] += sign

    def _changes(
        self, old: Mapping[str, tuple[GateFact, str]], new: Mapping[str, tuple[GateFact, str]]
    ) -> Iterator[GateChange]:
        for key, (gate, outcome) in new.items():
            if key not in old:
                yield GateChange("added", gate, {}, self._words(outcome))
            elif old[key][1] != outcome:
                yield GateChange("changed", gate, self._words(old[key][1]), self._words(outcome))
        for key, (gate, outcome) in old.items():
            if key not in new:
                yield GateChange("removed", gate, self._words(outcome), {})

    def _words(self, outcome: str) -> dict[str, str]:
        letters = outcome.partition("/")[0]
        names = (*self.setup.targets, self.setup.reference)
        words = {"t": "true", "f": "false", "?": "unknown"}
        return {name: words[letter] for name, letter in zip(names, letters, strict=True)}

    def _id(self, base: tuple[str, ...]) -> str:
        found = self._ids.get(base)
        if found is None:
            found = self._ids[base] = sha256("\0".join(base).encode("utf-8", "replace")).hexdigest()[:12]
        return found


def _new(before: bytes, after: bytes) -> bytes:
    """The lines of ``after`` between what it begins and what it ends with as ``before`` does."""
    most = min(len(before), len(after))
    start = _alike(most, lambda n: before[:n] == after[:n])
    end = _alike(most - start, lambda n: before[len(before) - n :] == after[len(after) - n :])
    first = after.rfind(b"\n", 0, start) + 1
    last = after.find(b"\n", len(after) - end)
    return after[first:] if last < 0 else after[first:last]


def _alike(most: int, is_alike: Callable[[int], bool]) -> int:
    """The greatest number up to ``most`` for which something holds that holds for all smaller ones."""
    low, high = 0, most
    while low < high:
        middle = (low + high + 1) // 2
        if is_alike(middle):
            low = middle
        else:
            high = middle - 1
    return low
