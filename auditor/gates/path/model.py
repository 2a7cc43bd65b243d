"""What ``audit path`` says: the decisions that the start of a server takes for one model on one target."""

from __future__ import annotations

from typing import Literal

import msgspec

from auditor.gates.model import Problem, TreeFacts, Tri


class Place(msgspec.Struct, frozen=True, omit_defaults=True):
    """Where something is written. ``symbol`` is qualified within its module, "" at module level."""

    path: str
    line: int
    symbol: str = ""


class Layer(msgspec.Struct, frozen=True, omit_defaults=True):
    """A class that the model builds, directly or through its own parts."""

    name: str
    place: Place
    built_by: str  # class of the model
    built_at: Place
    area: str = ""


class ModelClass(msgspec.Struct, frozen=True, omit_defaults=True):
    """A model class with its file. ``lines`` is the length of the file, ``bases`` its classes of the tree."""

    name: str
    place: Place
    lines: int
    bases: tuple[str, ...] = ()
    named_at: tuple[Place, ...] = ()  # where the class is written as text, outside its own file


class Model(msgspec.Struct, frozen=True, omit_defaults=True):
    """1: the model's class, its draft variants and what it is built of."""

    main: ModelClass
    variants: tuple[ModelClass, ...]
    layers: tuple[Layer, ...]
    classes: tuple[Layer, ...] = ()  # parts that are the model's own


class Write(msgspec.Struct, frozen=True, omit_defaults=True):
    """An assignment of an argument on the way. ``surely`` is false where it depends on something unknown."""

    value: str
    surely: bool
    place: Place


class Argument(msgspec.Struct, frozen=True, omit_defaults=True):
    """2: one server argument. Values are as Python writes them; None where not known."""

    name: str
    value: str | None
    default: str | None
    reference: str | None  # its value on the reference target
    unknown_because: tuple[str, ...] = ()
    options: tuple[str, ...] = ()  # the values it may have, where few
    default_at: Place | None = None
    writes: tuple[Write, ...] = ()
    source: Literal["start", "checkpoint", "user"] = "start"
    given: str | None = None  # what the user asked for; lost where `source` is not "user"
    listed: bool = False  # one of those that the profile names


class Flag(msgspec.Struct, frozen=True, omit_defaults=True):
    """2: an environment flag that the start sets. ``overrides`` says that a user's setting is lost."""

    name: str
    value: str
    surely: bool
    overrides: bool
    place: Place
    default: str | None = None
    default_at: Place | None = None
    readers: tuple[Place, ...] = ()
    only_here: bool = False  # the reference target does not get it


class Refusal(msgspec.Struct, frozen=True, omit_defaults=True):
    """2: a point at which the start may end in an exception."""

    what: str
    surely: bool
    place: Place


class Outcome(msgspec.Struct, frozen=True, omit_defaults=True):
    """A class that a choice may lead to, the conditions that stay open, and where it is returned."""

    name: str
    place: Place | None
    when: tuple[str, ...]
    chosen_at: Place


class GateNote(msgspec.Struct, frozen=True, omit_defaults=True):
    """A gate behind a choice that goes another way than on the reference, or a finding there."""

    gate: str
    verdict: str
    place: Place
    test: str
    truth: Tri | None
    does: tuple[str, ...] = ()
    query: str = ""
    message: str = ""
    detail: tuple[str, ...] = ()
    fix: str | None = None
    area: str = ""


class Choice(msgspec.Struct, frozen=True, omit_defaults=True):
    """3 and 4: a backend, the entry it is registered under, what that leads to, and the gates behind it."""

    argument: str
    value: str | None
    reference: str | None
    entry: Place | None
    outcomes: tuple[Outcome, ...]
    files: int  # files behind the outcomes that were looked through
    gates: tuple[GateNote, ...]
    quantization: str | None = None
    config: Outcome | None = None  # the class that the quantization leads to


class Pin(msgspec.Struct, frozen=True, omit_defaults=True):
    """5: a dependency as the project's metadata states it, and the gates that depend on its presence."""

    name: str
    requirement: str | None  # None: in no dependency list
    version: str | None  # where exactly one is allowed
    place: Place | None
    extra: str = ""
    gates: tuple[Place, ...] = ()


class DeviceCheck(msgspec.Struct, frozen=True, omit_defaults=True):
    """6: a check of network devices and the backends for which it runs (empty: not known)."""

    backends: tuple[str, ...]
    place: Place


class ByHand(msgspec.Struct, frozen=True, omit_defaults=True):
    """6: a package that a transfer backend imports and that no dependency list holds."""

    backend: str
    package: str
    install: str  # a command
    imported_at: tuple[Place, ...]


class Setting(msgspec.Struct, frozen=True, omit_defaults=True):
    """A default with its place."""

    name: str
    value: str | None
    place: Place | None = None


class Disaggregation(msgspec.Struct, frozen=True, omit_defaults=True):
    """6: how prefill and decode servers hand over their cache."""

    transfer: Setting
    flags: tuple[Setting, ...]
    checks: tuple[DeviceCheck, ...]
    by_hand: tuple[ByHand, ...]
    advice: str = ""  # options to type


class StartOn(msgspec.Struct, frozen=True, omit_defaults=True):
    """Sections 2 to 4, which depend on the target."""

    target: str
    arguments: tuple[Argument, ...]
    flags: tuple[Flag, ...]
    refusals: tuple[Refusal, ...]
    attention: tuple[Choice, ...]
    experts: Choice | None  # None where the model builds no expert layers


class Dossier(msgspec.Struct, frozen=True):
    """The whole answer."""

    schema_version: str
    tool: str
    project: str
    tree: TreeFacts
    targets: tuple[str, ...]
    reference: str
    assumptions: dict[str, str]
    model: Model
    followed: bool  # False: the start itself could not be run, so that 2 says only what was given
    starts: tuple[StartOn, ...]
    packages: tuple[Pin, ...]
    disaggregation: Disaggregation
    problems: tuple[Problem, ...]
