"""Which names of a project ask for the GPU: learned from its trees, no list of them is kept.

Round by round: a definition that reads a root, or a name of the round before, and is worth something else
on one target than on another, gives a name. What only asks for the vendor (an NVIDIA build is assumed)
gives a fixed value.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from auditor.history.sweeping.extract import Words, words_of
from auditor.history.sweeping.kleene import Evaluation, Function, Open, Properties, World, same
from auditor.history.sweeping.pieces import Reader, Unreadable
from auditor.history.sweeping.table import Table, Values
from auditor.program.externals import AVAILABLE, FIXED_CALLS, HIP_VERSION

_ROUNDS = 8
#: Definitions of vendor names longer than this many bytes are not looked at.
_SHORT = 1200
_VENDOR_ROOTS = frozenset({AVAILABLE, HIP_VERSION, *FIXED_CALLS})
_VENDOR_TEXTS = (
    b"torch.version",
    b"version.hip",
    b"cuda.is_available",
    b"xpu.is_available",
    b"npu.is_available",
)
_CUT = re.compile(rb"\n(?=[A-Za-z_@])(?!(?:else|elif|except|finally)\b)")
#: Names that say nothing by themselves.
_SHORTEST = 4
#: What is left of a call without arguments, in characters, where a function is still a predicate.
_RESIDUE = 160


class Vocabulary:
    """Names that depend on the architecture, and what vendor names are worth."""

    def __init__(self, names: Iterable[str] = (), vendor: Mapping[str, Any] | None = None) -> None:
        self.names = frozenset(names)
        self.vendor = dict(vendor or {})

    def with_(self, other: Vocabulary) -> Vocabulary:
        """Both; a vendor name that is worth two things is dropped."""
        vendor = {**self.vendor, **other.vendor}
        for name in self.vendor.keys() & other.vendor.keys():
            if not same(self.vendor[name], other.vendor[name]):
                del vendor[name]
        names = self.names | other.names
        return Vocabulary(
            names, {k: v for k, v in sorted(vendor.items()) if k.removesuffix("()") not in names}
        )


def learn(files: Mapping[str, bytes], world: World) -> Vocabulary:
    """The vocabulary of one tree, by module. ``world`` should hold every target there is."""
    index = {module: frozenset(words_of(data)) for module, data in files.items()}
    vendor = _vendor(files, index, world)
    world.vendor.update(vendor)
    values = Values(world)
    names: set[str] = set()
    new: set[str] = set()
    table = Table(values, ())
    for number in range(_ROUNDS):
        words = Words(names, learning=True)
        sought = frozenset(name.encode() for name in new) if number else words.scanned
        reader = Reader(words)
        table.names = frozenset(names)
        table._uses.clear()
        table._cache.clear()
        candidates: set[str] = set()
        for module, data in files.items():
            if sought.isdisjoint(index[module]) and (number or not any(t in data for t in words.texts)):
                continue
            try:
                sites = reader.facts(data).sites
            except Unreadable:
                continue
            table.put(module, sites)
            candidates.update(site.name for site in sites)
        # Candidates may stand on each other: all of them are tried as names, and those kept that tell.
        table.names = frozenset(names | candidates)
        table._uses.clear()
        table._cache.clear()
        new = {name for name in candidates - names if len(name) >= _SHORTEST and _telling(table, name)}
        if not new:
            break
        names |= new
    return Vocabulary(names, {k: v for k, v in vendor.items() if k.removesuffix("()") not in names})


def _telling(table: Table, name: str) -> bool:
    """Whether a name is worth something else on one target than on another, at any place."""
    for module, owner in sorted(table._sites.get(name, ())):
        vector = table._place(name, (module, owner))
        found = [_called(table.values.world, item, at) for at, item in enumerate(vector)]
        if any(not same(found[0], item) for item in found[1:]):
            if any(item is not None and not isinstance(item, Open) for item in found):
                return True
            if isinstance(vector[0], Function) and not owner and _asks(vector[0], found):
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


def _vendor(
    files: Mapping[str, bytes], index: Mapping[str, frozenset[bytes]], world: World
) -> dict[str, Any]:
    """Short definitions that are worth the same on all targets of an NVIDIA build."""
    vendor: dict[str, Any] = {}
    disputed: set[str] = set()
    new: set[str] = set()
    for number in range(3):
        words = Words(
            {name.removesuffix("()") for name in vendor},
            learning=True,
            roots=_VENDOR_ROOTS,
            root_words=frozenset(),
            texts=_VENDOR_TEXTS,
        )
        inner = World(world.capabilities, (0,) * world.count, world.cuda, vendor)
        table = Table(Values(inner), ())
        sought = frozenset(name.removesuffix("()").encode() for name in new)
        reader = Reader(words)
        for module, data in files.items():
            if number and sought.isdisjoint(index[module]):
                continue
            if not number and not any(text in data for text in _VENDOR_TEXTS):
                continue
            pieces = [p for p in _CUT.split(data) if len(p) <= _SHORT and words.in_text(p)]
            sites = []
            for piece in pieces:
                try:
                    sites += [s for s in reader.facts(piece).sites if not s.owner and s.guard is None]
                except Unreadable:
                    continue
            table.put(module, tuple(sites))
        new = set()
        for name in sorted(table._sites):
            for place in sorted(table._sites[name]):
                vector = table._place(name, place)
                key = f"{name}()" if isinstance(vector[0], Function) else name
                found = [_called(inner, item, at) for at, item in enumerate(vector)]
                if any(isinstance(item, (Open, Function, Properties)) for item in found):
                    continue
                if any(not same(found[0], item) for item in found) or isinstance(found[0], tuple):
                    continue
                if key in vendor and not same(vendor[key], found[0]):
                    disputed.add(key)
                elif key not in vendor:
                    vendor[key] = found[0]
                    new.add(key)
        if not new:
            break
    return {key: vendor[key] for key in sorted(vendor) if key not in disputed}
