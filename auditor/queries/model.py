"""What a query file holds, as types; ``reports/schema/query-1.json`` is generated from them.

Field names are kebab-case in YAML (``known-limits``) and snake_case here. Everything is optional unless the
comment says otherwise, and an unknown field is an error: a misspelt constraint must not widen a query.
"""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

Outcome = bool | Literal["true", "false", "unknown", "not-true", "not-false", "decided"]
Severity = Literal["error", "warning", "note"]
CaptureKind = Literal["name", "string", "number", "call", "constant"]
Place = Literal["inside", "then", "else", "before", "after", "same-symbol"]

_Text = Annotated[str, msgspec.Meta(min_length=1)]

#: In ``verdict``: every target that no other key names.
DEFAULT = "default"
#: In ``verdict``: take what the gate itself says, where no other key names the target.
FROM = "from"
#: In ``verdict``: the targets on which the gate's condition has that value, or which come to the code.
WHEN = ("when-true", "when-false", "when-unknown", "when-reached")
#: In ``truth`` and ``reached``: the target that others are compared with.
REFERENCE = "reference"


class _Strict(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True, rename="kebab"):
    pass


class PredicateMatch(_Strict, frozen=True):
    """The canonical condition of a gate, by regular expression or by structure.

    Meant for shapes (``$X == $N``, ``.*>.*``), not for names: a query that spells a helper of the audited
    tree stops matching when upstream renames it. Use ``truth`` for meaning.
    """

    pattern: str | None = None
    regex: str | None = None


class EffectMatch(_Strict, frozen=True):
    """One thing an arm has to do; every given field has to hold for the same effect. Values are globs."""

    call: str | None = None
    imports: str | None = None
    set: str | None = None
    raises: str | None = None
    returns: str | None = None
    asserts: str | None = None
    disables: str | None = None
    gives: str | None = None  # the value the arm has, sets or returns: "'plain'"
    nothing: bool = False  # the arm has no effect at all


class ArmsMatch(_Strict, frozen=True):
    """What the outcomes of a gate do: ``then`` where its condition is true, ``else`` where it is false."""

    then: EffectMatch | None = None
    else_: EffectMatch | None = msgspec.field(default=None, name="else")
    any: EffectMatch | None = None


class GateMatch(_Strict, frozen=True):
    """Constraints on a discovered gate; all given ones have to hold, a list means any of its members."""

    symbol: tuple[_Text, ...] | _Text = ()  # glob on "package.module:Qualified.symbol"
    module: tuple[_Text, ...] | _Text = ()  # glob on "package.module"
    kind: tuple[_Text, ...] | _Text = ()
    scope: Literal["arch", "platform"] | None = None
    predicate: PredicateMatch | None = None
    via: tuple[_Text, ...] | _Text = ()  # glob on the qualified names the gate reads
    truth: dict[str, Outcome] = {}  # target, or glob of targets ("sm_12*"), to value
    reached: dict[str, Outcome] = {}
    verdict: dict[str, _Text] = {}  # the gate's own verdict
    arms: ArmsMatch | None = None
    unknown_because: tuple[_Text, ...] | _Text = ()  # glob on one of the reasons


class CaptureMatch(_Strict, frozen=True):
    """A constraint on what a metavariable stands for."""

    name: tuple[_Text, ...] | _Text = ()  # glob on the dotted name, imports resolved
    regex: str | None = None  # has to match the whole source text
    is_: CaptureKind | None = msgspec.field(default=None, name="is")


class CodeMatch(_Strict, frozen=True):
    """A piece of Python that is not (only) a gate, written as code with ``$X`` and ``$...XS``."""

    pattern: tuple[_Text, ...] | _Text  # required; several spellings of the same thing
    within: tuple[_Text, ...] | _Text = ()  # glob on "package.module:Qualified.symbol" around it
    contains: tuple[_Text, ...] | _Text = ()  # patterns; each has to match a node inside it
    not_inside: tuple[_Text, ...] | _Text = ()  # patterns; none of them may enclose it within its function
    reached: dict[str, Outcome] = {}  # by the gates around it; target or glob to value
    not_under: GateMatch | None = None  # no such gate may be it, or hold it in its ``then`` arm
    where: dict[str, CaptureMatch] = {}  # metavariable to constraint
    place: Place = "inside"  # relation to the gate, where ``gate`` is given too
    report: Literal["code", "gate"] = "code"  # which of the two a finding points at; one finding each


class Match(_Strict, frozen=True):
    """``gate``, ``code``, or both: then one finding for each code match standing in ``place`` to a gate."""

    gate: GateMatch | None = None
    code: CodeMatch | None = None


class Example(_Strict, frozen=True):
    """A small program and what the query says about it; examples are the documentation and the tests.

    A line that ends in ``# audit: here`` is one at which a finding has to be, and no other line may have one.
    """

    kind: Literal["valid", "invalid", "unknown"]  # required
    expect: dict[str, _Text] | Literal["none"]  # required: target to verdict, or no finding
    title: str = ""
    code: str | None = None  # one module, or …
    files: dict[str, str] = {}  # … several; paths are relative to the package "example"
    count: int | None = None  # number of findings, where it is not one (or the number of markers)
    assume: dict[str, str] = {}


class Query(_Strict, frozen=True):
    """A named pattern with a meaning."""

    id: _Text  # required: the path under queries/, without .yaml
    title: _Text  # required: one line, no full stop
    why: _Text  # required: what breaks when this is read wrongly
    verdict: dict[str, _Text]  # required: target, glob, "when-…", "default" to verdict; "from: gate"
    message: _Text  # required: the finding, with {gate.symbol}, {NAME of a metavariable}
    examples: tuple[Example, ...]  # required: at least one valid and one invalid
    words: tuple[_Text, ...] = ()  # required with ``code``: a file without any of them is not looked at
    match: Match | None = None
    plugin: str | None = None  # file name beside the YAML
    severity: Severity = "warning"
    fix: str | None = None  # a command, or one sentence
    references: tuple[str, ...] = ()
    known_limits: str = ""
    absent: Literal["ok", "notable"] = "notable"  # "ok": finding nothing is the normal case

    @property
    def area(self) -> str:
        """The first folder of the id."""
        return self.id.split("/", 1)[0] if "/" in self.id else ""


def listed(value: tuple[str, ...] | str) -> tuple[str, ...]:
    """A field that may be one text or a list of them, as a tuple."""
    return (value,) if isinstance(value, str) else tuple(value)


def query_schema() -> bytes:
    """The JSON Schema of a query file, as committed in ``reports/schema/query-1.json``.

    Two-space indent, keys sorted, one newline at the end. Structs are titled by their class; an editor shows
    the docstrings as they are.
    """
    schema = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": "query-1.json",
        "title": "A query of sglang-auditor",
        **msgspec.json.schema(Query),
    }
    return msgspec.json.format(msgspec.json.encode(schema, order="sorted"), indent=2) + b"\n"
