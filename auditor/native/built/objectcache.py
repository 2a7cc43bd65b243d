"""Facts of objects as JSON, so that a wheel of hundreds of megabytes is unpacked once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

import msgspec

from auditor.native.built.fatbin import Image
from auditor.native.built.objects import ObjectFacts
from auditor.readback import Damaged, from_json

#: Changes whenever what is read from an object changes.
VERSION = 2


class _Stored(msgspec.Struct, array_like=True):
    path: str
    format: str
    machine: str
    size: int
    units: list[tuple[int, list[Image]]]
    listed: list[tuple[str, str, int]]
    for_linking: int
    schemas: dict[str, str]
    names: list[str]
    problems: list[str]
    partial: bool


def encode(objects: Mapping[str, ObjectFacts]) -> bytes:
    """All objects of a tree. The same facts give the same bytes."""
    return msgspec.json.encode([_stored(facts) for facts in objects.values()])


def decode(data: bytes) -> dict[str, ObjectFacts] | None:
    """What :func:`encode` was given; None for anything else."""
    try:
        stored = from_json(data, list[_Stored])
    except Damaged:
        return None
    return {
        one.path: ObjectFacts(
            one.path,
            one.format,
            one.machine,
            one.size,
            Counter({frozenset(images): count for count, images in one.units}),
            Counter({(what, arch): count for what, arch, count in one.listed}),
            one.for_linking,
            one.schemas,
            set(one.names),
            one.problems,
            one.partial,
        )
        for one in stored
    }


def _stored(facts: ObjectFacts) -> _Stored:
    return _Stored(
        facts.path,
        facts.format,
        facts.machine,
        facts.size,
        sorted((count, sorted(unit)) for unit, count in facts.units.items()),
        sorted((what, arch, count) for (what, arch), count in facts.listed.items()),
        facts.for_linking,
        dict(sorted(facts.schemas.items())),
        sorted(facts.names),
        facts.problems,
        facts.partial,
    )
