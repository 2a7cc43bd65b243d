"""Which names of a project ask for the GPU: learned from its trees, no list of them is kept.

Round by round: a definition that reads a root, or a name of the round before, and is worth something else on
one target than on another, gives a name. What only asks for the vendor (an NVIDIA build is assumed) or for
CUDA's version gives a fixed value.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

from auditor.history.sweeping.extract import Site, Words, words_of
from auditor.history.sweeping.kleene import Evaluation, Function, Open, World, same
from auditor.history.sweeping.pieces import Cut, Reader, Unreadable, cut_of
from auditor.history.sweeping.table import Table, Values
from auditor.program.externals import ABSENT, AVAILABLE, CUDA_VERSION, FIXED_ATTRS, FIXED_CALLS, HIP_VERSION

_ROUNDS = 8
_VENDOR_ROUNDS = 3
#: Definitions of vendor names longer than this many bytes are not looked at.
_SHORT = 1200
_VENDOR_ROOTS = frozenset({AVAILABLE, CUDA_VERSION, HIP_VERSION, *FIXED_CALLS, *FIXED_ATTRS, *ABSENT})
_VENDOR_TEXTS = (
    b"torch.version",
    b"version.hip",
    b"cuda.is_available",
    b"xpu.is_available",
    b"npu.is_available",
)
#: Words of which each of those texts holds one.
_VENDOR_WORDS = frozenset({b"version", b"is_available"})
#: Shorter names say nothing by themselves.
_SHORTEST = 4
#: What is left of a call without arguments, in characters, where a function is still a predicate.
_RESIDUE = 160


class Vocabulary:
    """Names that depend on the architecture, and what vendor names are worth."""

    def __init__(self, names: Iterable[str] = (), vendor: Mapping[str, Any] | None = None) -> None:
        self.names = frozenset(names)
        self.vendor = dict(vendor or {})


class Learned(NamedTuple):
    """What is kept of learning besides the names."""

    reader: Reader  # knows the pieces of the last trees
    there: dict[str, frozenset[bytes]]  # blob of the last tree -> what it mentions, if that is known


class Learner:
    """Learns from one tree after the other. ``world`` should hold every target there is.

    A file is looked at again only for words that were not known when it was looked at before, and a piece of
    it only where it mentions one of them.
    """

    def __init__(self, world: World) -> None:
        self.world = world
        self.names: set[str] = set()
        self.vendor: dict[str, Any] = {}
        self._disputed: set[str] = set()
        #: Of the last tree: module -> blob, and blob -> the words in it.
        self.blobs: dict[str, str] = {}
        self.words: dict[str, frozenset[bytes]] = {}
        self._sites: dict[str, tuple[Site, ...]] = {}
        self._reader = Reader(Words((), learning=True))
        self._values = Values(world)
        self._fixed = Reader(_vendor_words(()))

    def learn(self, blobs: Mapping[str, str], read: Callable[[list[str]], Iterable[bytes]]) -> None:
        """Take over a tree: module -> blob id. ``read`` gives the contents of blobs in order."""
        new = [blob for blob in dict.fromkeys(blobs.values()) if blob not in self.words]
        contents: dict[str, bytes] = {}
        words: dict[str, frozenset[bytes]] = {}
        for blob, data in zip(new, read(new), strict=True):
            words[blob] = frozenset(words_of(data))
            contents[blob] = data  # for as long as this tree is looked at
        for blob in blobs.values():
            if blob not in words:
                words[blob] = self.words[blob]
        self.words, self.blobs = words, dict(blobs)
        fresh = set(new)
        modules = {module: blob for module, blob in blobs.items() if blob in fresh}
        fetch = _Fetch(contents, read)
        self._vendor(modules, fetch)
        self._names(modules, fetch)

    def vocabulary(self) -> Vocabulary:
        """What was learned so far."""
        vendor = {k: v for k, v in self.vendor.items() if k not in self._disputed}
        vendor = {k: v for k, v in sorted(vendor.items()) if k.removesuffix("()") not in self.names}
        return Vocabulary(self.names, vendor)

    def learned(self) -> Learned:
        """What was read, for those who go on with the last tree."""
        words = Words(self.vocabulary().names)
        self._reader.use(words)
        there: dict[str, frozenset[bytes]] = {}
        for blob, found in self.words.items():
            mentioned = words.scanned & found
            if mentioned or b"version" not in found:
                there[blob] = mentioned
        return Learned(self._reader, there)

    def _names(self, modules: Mapping[str, str], fetch: _Fetch) -> None:
        vendor = self.vocabulary().vendor
        if vendor != self.world.vendor:
            self.world.vendor = vendor
            self._values = Values(self.world)
        table = Table(self._values, ())
        sites = {module: found for module, found in self._sites.items() if module in self.blobs}
        for module in modules:
            sites.pop(module, None)
        self._sites = sites
        new: set[str] = set()
        for number in range(_ROUNDS):
            # At first the files that were not seen before, then all that mention what is new.
            words = Words(self.names, learning=True)
            sought = words.scanned if not number else frozenset(name.encode() for name in new)
            where = modules if not number else self.blobs
            self._reader.use(words)
            candidates: set[str] = set()
            for module, blob in where.items():
                found = self.words[blob]
                if sought.isdisjoint(found):
                    if number or b"version" not in found or not words.in_text(fetch(blob)):
                        continue
                try:
                    there = words.scanned & found
                    sites[module] = self._reader.facts(fetch(blob), there, fetch.cut(blob)).sites
                except Unreadable:
                    continue
                candidates.update(site.name for site in sites[module])
            if not number and not candidates - self.names:
                break
            # Candidates may stand on each other: all of them are tried as names, and those kept that tell.
            table.reset(self.names | candidates, sites)
            left = sorted(name for name in candidates - self.names if len(name) >= _SHORTEST)
            new = {name for name in left if _telling(table, name)}
            if not new:
                break
            self.names |= new

    def _vendor(self, modules: Mapping[str, str], fetch: _Fetch) -> None:
        """Short definitions that are worth the same on all targets of an NVIDIA build with this CUDA."""
        sites: dict[str, tuple[Site, ...]] = {}
        new: set[str] = set()
        for number in range(_VENDOR_ROUNDS):
            words = _vendor_words(name.removesuffix("()") for name in self.vendor)
            self._fixed.use(words)
            sought = words.scanned | _VENDOR_WORDS
            if number:
                sought = frozenset(name.removesuffix("()").encode() for name in new)
            for module, blob in (modules if not number else self.blobs).items():
                if sought.isdisjoint(self.words[blob]):
                    continue
                there = words.scanned & self.words[blob]
                sure = [*there, *(text for text in words.texts if text in fetch(blob))]
                if not sure:
                    continue
                found: list[Site] = []
                for piece in fetch.cut(blob):
                    if len(piece) > _SHORT or not any(word in piece for word in sure):
                        continue
                    if not _DEFINES.match(piece):
                        continue
                    try:
                        facts = self._fixed.facts(piece, there, [piece])
                    except Unreadable:
                        continue
                    found += [site for site in facts.sites if not site.owner and site.guard is None]
                if found:
                    sites[module] = tuple(found)
            inner = World(self.world.capabilities, (0,) * self.world.count, self.world.cuda, self.vendor)
            table = Table(Values(inner), ())
            table.reset((), sites)
            new = self._worth(table, inner)
            if not new:
                return

    def _worth(self, table: Table, inner: World) -> set[str]:
        new: set[str] = set()
        for name, place in table.places():
            vector = table.at(name, place)
            key = f"{name}()" if isinstance(vector[0], Function) else name
            found = [_called(inner, item, at) for at, item in enumerate(vector)]
            if not all(_plain(item) for item in found):
                continue
            if any(not same(found[0], item) for item in found) or (found[0] is None and key != name):
                continue
            if key not in self.vendor:
                self.vendor[key] = found[0]
                new.add(key)
            elif bool(self.vendor[key]) is not bool(found[0]):
                self._disputed.add(key)  # "13.0" and True say the same
        return new


#: What a short definition begins with: a function (decorated or not) or an assignment.
_DEFINES = re.compile(rb"@|def |[A-Za-z_]\w*(?:\s*:[^=\n]*)?\s*=")


def _plain(value: Any) -> bool:
    """Whether a value can stand in the head of a sweep: one of JSON's, or the parts of a version."""
    if isinstance(value, tuple):
        return 0 < len(value) <= 4 and all(type(item) is int for item in value)
    return isinstance(value, (bool, int, str, type(None)))


def _vendor_words(names: Iterable[str]) -> Words:
    return Words(names, learning=True, roots=_VENDOR_ROOTS, root_words=frozenset(), texts=_VENDOR_TEXTS)


class _Fetch:
    """Contents of blobs, those at hand first, and their pieces."""

    def __init__(self, contents: dict[str, bytes], read: Callable[[list[str]], Iterable[bytes]]) -> None:
        self._contents = contents
        self._read = read
        self._cuts: dict[str, Cut] = {}

    def __call__(self, blob: str) -> bytes:
        found = self._contents.get(blob)
        if found is None:
            (found,) = self._read([blob])
            self._contents[blob] = found
        return found

    def cut(self, blob: str) -> Cut:
        found = self._cuts.get(blob)
        if found is None:
            found = self._cuts[blob] = cut_of(self(blob))
        return found


def learn(files: Mapping[str, bytes], world: World) -> Vocabulary:
    """The vocabulary of one tree, module -> source."""
    learner = Learner(world)
    learner.learn({module: module for module in files}, lambda blobs: (files[blob] for blob in blobs))
    return learner.vocabulary()


def _telling(table: Table, name: str) -> bool:
    """Whether a name is worth something else on one target than on another, at any place."""
    for place in table.places_of(name):
        vector = table.at(name, place)
        found = [_called(table.values.world, item, at) for at, item in enumerate(vector)]
        if any(not same(found[0], item) for item in found[1:]):
            if any(item is not None and not isinstance(item, Open) for item in found):
                return True
            if isinstance(vector[0], Function) and not place[1] and _asks(vector[0], found):
                return True
    return False


def _asks(function: Function, found: list[Any]) -> bool:
    """Whether a function is short and decides by what it is given."""
    needs = any(default is None for _, default in function.term[1])
    return needs and all(isinstance(item, Open) and len(item.text) <= _RESIDUE for item in found)


def _called(world: World, value: Any, at: int) -> Any:
    if isinstance(value, Function):
        return Evaluation(world, at).call(value, [], {})
    return value
