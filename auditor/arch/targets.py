"""The GPU targets: what each one is, how much it holds and which instructions it has.

The facts are data (``targets.json`` beside this file), each with its NVIDIA source. This module decodes
them once per process; that takes well under a millisecond.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path

import msgspec

from auditor.errors import UserError

_DATA = Path(__file__).with_name("targets.json")


@dataclass(frozen=True)
class Fact:
    """One statement about a target and where NVIDIA says so."""

    value: bool | int
    source: str
    title: str  # for people: "tensor memory accelerator (cp.async.bulk.tensor)"
    unit: str = ""  # "bytes", "threads", ...; "" for yes/no facts
    suffix: str = ""  # "a" or "f": only code built for an architecture- or family-specific target has it


@dataclass(frozen=True)
class Target:
    """A GPU architecture. Equal by name; sizes in bytes, registers are 32 bits wide."""

    name: str  # "sm_120"
    capability: tuple[int, int] = field(compare=False)  # (12, 0)
    sm: int = field(compare=False)  # 120
    generation: str = field(compare=False)  # "Blackwell"
    cards: tuple[str, ...] = field(compare=False)  # examples, not all
    limits: dict[str, Fact] = field(compare=False, repr=False)  # every number below, with its source
    features: dict[str, Fact] = field(compare=False, repr=False)
    machine: str = field(default="x86_64", compare=False)  # processor of the machines that it is found in
    sms: int = field(default=0, compare=False)  # SMs of its largest card; 0 where the data does not say

    @property
    def major(self) -> int:
        return self.capability[0]

    @property
    def minor(self) -> int:
        return self.capability[1]

    @property
    def capability_text(self) -> str:
        """``"12.0"``: always text, a number would drop the zero."""
        return f"{self.major}.{self.minor}"

    @property
    def smem_per_block(self) -> int:
        """Most shared memory one block may opt in to."""
        return self.limit("smem_per_block")

    @property
    def smem_per_sm(self) -> int:
        return self.limit("smem_per_sm")

    def limit(self, name: str) -> int:
        """A number such as ``regs_per_sm``. KeyError for a name the data does not hold."""
        return int(self.limits[name].value)

    def has(self, feature: str) -> bool:
        """Whether the architecture has an instruction or unit. KeyError for a name the data does not hold."""
        return bool(self.features[feature].value)


class _Limit(msgspec.Struct, forbid_unknown_fields=True):
    unit: str
    title: str
    source: str


class _Feature(msgspec.Struct, forbid_unknown_fields=True):
    title: str
    source: str
    on: list[str] | str  # names, or "9.0+": that capability and every later one
    suffix: str = ""


class _Row(msgspec.Struct, forbid_unknown_fields=True):
    name: str
    capability: str
    generation: str
    cards: tuple[str, ...]
    limits: dict[str, int]


class _Machines(msgspec.Struct, forbid_unknown_fields=True):
    default: str
    on: dict[str, str]  # target -> the one processor that it comes with
    source: str


class _Sms(msgspec.Struct, forbid_unknown_fields=True):
    on: dict[str, int]
    source: str


class _File(msgspec.Struct, forbid_unknown_fields=True):
    note: str
    sources: dict[str, str]
    machines: _Machines
    sms: _Sms
    limits: dict[str, _Limit]
    features: dict[str, _Feature]
    targets: list[_Row]
    common_limits: dict[str, int]


def _capability(text: str) -> tuple[int, int]:
    major, _, minor = text.partition(".")
    return int(major), int(minor)


@lru_cache(maxsize=1)
def _file() -> _File:
    return msgspec.json.decode(_DATA.read_bytes(), type=_File)


@lru_cache(maxsize=1)
def _targets() -> dict[str, Target]:
    data = _file()
    out: dict[str, Target] = {}
    for row in data.targets:
        capability = _capability(row.capability)
        numbers = {**row.limits, **data.common_limits}
        limits = {
            name: Fact(numbers[name], spec.source, spec.title, spec.unit)
            for name, spec in data.limits.items()
        }
        features = {}
        for name, feature in data.features.items():
            if isinstance(feature.on, str):
                value = capability >= _capability(feature.on.rstrip("+"))
            else:
                value = row.name in feature.on
            features[name] = Fact(value, feature.source, feature.title, suffix=feature.suffix)
        out[row.name] = Target(
            name=row.name,
            capability=capability,
            sm=capability[0] * 10 + capability[1],
            generation=row.generation,
            cards=row.cards,
            limits=limits,
            features=features,
            machine=data.machines.on.get(row.name, data.machines.default),
            sms=data.sms.on.get(row.name, 0),
        )
    return out


def load_targets() -> dict[str, Target]:
    """All targets by name, oldest capability first. The dict is the caller's own."""
    return dict(_targets())


def fact_sources() -> dict[str, str]:
    """The documents which facts cite by a short name (``ptx``, ``guide``, ...), in full."""
    return dict(_file().sources)


_WORD = re.compile(r"(?:sm_?|compute_?|cc_?)?(\d+(?:\.\d+)?)", re.IGNORECASE)


def parse_targets(text: str) -> tuple[str, ...]:
    """Target names from what people type: ``sm_120,sm121,12.0,120`` or ``all``.

    Order is kept and repetitions are dropped. UserError E001 for an unknown target (with the nearest
    known ones as hint) and for an empty list.
    """
    known = _targets()
    out: dict[str, None] = {}
    for word in (part.strip() for part in text.split(",")):
        if not word:
            continue
        if word.lower() == "all":
            out.update(dict.fromkeys(known))
            continue
        out[_one_target(word)] = None
    if not out:
        raise UserError("E001", "no target given", place=f"--target {text!r}", hints=["--target sm_120"])
    return tuple(out)


def _one_target(word: str) -> str:
    known = _targets()
    match = _WORD.fullmatch(word)
    if match:
        for target in known.values():
            # "12.0" is compared as a capability and "120" as a number: "1.20" is neither.
            if match[1] == (target.capability_text if "." in word else str(target.sm)):
                return target.name
    cards = _cards(word)
    hints = [f"--target {name}        # {', '.join(names)}" for name, names in cards.items()]
    if not cards:
        hints = [f"--target {name}" for name in _near(word)]
    hints.append("audit targets")
    raise UserError(
        "E001",
        f"unknown target {word!r}; known are {', '.join(known)}",
        place=f"--target {word}",
        hints=hints,
    )


def _cards(word: str) -> dict[str, list[str]]:
    """The targets of the cards that are called so: a number of the name, and no word that the name lacks."""
    said = set(re.findall(r"[a-z]+|\d+", word.lower()))
    out: dict[str, list[str]] = {}
    if {"sm", "compute"} & said or not any(part.isdigit() for part in said):
        return out
    for target in _targets().values():
        for card in target.cards:
            parts = set(re.findall(r"[a-z]+|\d+", card.lower()))
            if said <= parts or parts <= said:
                out.setdefault(target.name, []).append(card)
    return out


def _near(word: str) -> list[str]:
    """Known names near to a mistyped one: the plain form of ``sm_120a`` first, then by spelling."""
    import difflib  # slow to import, and only an error needs it

    known = _targets()
    digits = "".join(re.findall(r"\d+", word))
    if f"sm_{digits}" in known:
        return [f"sm_{digits}"]
    return difflib.get_close_matches(f"sm_{digits}" if digits else word.lower(), list(known), n=1, cutoff=0.5)
