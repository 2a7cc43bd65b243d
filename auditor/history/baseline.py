"""What is known of a tree, kept in one file: gates, kernels and flags that later trees are judged by.

A guard that compares with a file needs neither the base commit nor its kernels again. The file carries a
digest of itself: what was cut off or edited by hand is refused, never half believed.
"""

from __future__ import annotations

import hashlib
import re
import zlib

import msgspec

from auditor import __version__
from auditor.errors import UserError
from auditor.gates.model import Arm, Report, check_whole
from auditor.history.arms import EFFECTS, told_effects
from auditor.history.flags import Flag
from auditor.native.model import Availability
from auditor.readback import Damaged, from_json

SCHEMA_ID = "urn:sglang-auditor:schema:baseline:1"
SCHEMA_VERSION = "1.0"
_DIGEST = re.compile(rb'\n"digest":"([0-9a-f]{64})"\n\}\n\Z')
#: No baseline is larger; a real one has two to four MB.
_LARGEST = 64 << 20


class Baseline(msgspec.Struct, frozen=True):
    """A kept audit with what a comparison needs besides. ``kernels`` is None where they could not be read."""

    schema_version: str
    tool: str
    report: Report
    kernels: Availability | None
    flags: tuple[Flag, ...]


def baseline(report: Report, kernels: Availability | None, flags: tuple[Flag, ...]) -> Baseline:
    """What a comparison asks of a tree, and no more: what arms do, shortly, and no proofs."""
    gates = tuple(
        msgspec.structs.replace(gate, arms=_short(gate.arms), roots=(), via=(), unknown_because=())
        for gate in report.gates
    )
    slim = msgspec.structs.replace(report, gates=gates, predicates=())
    if kernels is not None:
        rows = tuple(
            msgspec.structs.replace(
                row, cells={t: msgspec.structs.replace(cell, proof=()) for t, cell in row.cells.items()}
            )
            for row in kernels.rows
        )
        kernels = msgspec.structs.replace(kernels, rows=rows, libraries=(), sites=(), packages=())
    return Baseline(SCHEMA_VERSION, f"sglang-auditor {__version__}", slim, kernels, flags)


def _short(arms: tuple[Arm, ...]) -> tuple[Arm, ...]:
    """Arms with no more effects than a comparison tells, and one to say that there are more."""
    most = EFFECTS + 1
    return tuple(msgspec.structs.replace(arm, effects=told_effects(arm)[:most]) for arm in arms)


def dumps(kept: Baseline) -> bytes:
    """The file: UTF-8 JSON, a gate and a kernel a line, with its digest as the last field."""
    encode = msgspec.json.Encoder(order="deterministic").encode
    out = [b'{\n"$schema":' + encode(SCHEMA_ID)]
    for name in kept.__struct_fields__:
        value = getattr(kept, name)
        if isinstance(value, msgspec.Struct):
            out.append(b',\n"' + name.encode() + b'":' + _by_line(value, encode))
        else:
            out.append(b',\n"' + name.encode() + b'":' + encode(value))
    body = b"".join(out)
    digest = hashlib.sha256(body).hexdigest().encode()
    return body + b',\n"digest":"' + digest + b'"\n}\n'


def _by_line(value: msgspec.Struct, encode: object) -> bytes:
    """An object with each of its long lists an entry a line, so that two baselines can be compared."""
    assert callable(encode)
    fields = []
    for name in value.__struct_fields__:
        item = getattr(value, name)
        if isinstance(item, tuple) and len(item) > 1 and isinstance(item[0], msgspec.Struct):
            text = b"[\n" + b",\n".join(encode(one) for one in item) + b"\n]"
        else:
            text = encode(item)
        fields.append(b'"' + name.encode() + b'":' + text)
    return b"{" + b",\n".join(fields) + b"}"


def unpacked(data: bytes, name: str) -> bytes:
    """The file itself, where it may be gzip's. UserError H003 where it is cut off, H004 for one too large."""
    if not data.startswith(b"\x1f\x8b"):
        return data
    again = [f"gunzip --test {name}"]
    work = zlib.decompressobj(wbits=31)
    try:
        out = work.decompress(data, _LARGEST)
    except zlib.error:
        raise UserError("H004", "not a baseline: damaged within", place=name, hints=again) from None
    if work.unconsumed_tail:
        raise UserError("H004", "not a baseline: larger than any is", place=name, hints=again)
    if not work.eof:
        raise UserError("H003", "the packed baseline was cut off", place=name, hints=again)
    return out


def is_baseline(data: bytes) -> bool:
    """Whether a file says that it is a baseline, of whatever version."""
    return b"urn:sglang-auditor:schema:baseline:" in data[:200]


def loads(data: bytes, name: str) -> Baseline:
    """A baseline read back; ``name`` is what errors call it.

    UserError H002 for another schema, H003 for a file that was cut off or edited, H004 for one that is no
    baseline.
    """
    again = [f"write it again with: audit baseline write {name} --commit REV"]
    if len(data) > _LARGEST or not is_baseline(data):
        raise UserError("H004", "not a baseline", place=name, hints=again)
    if b'"' + SCHEMA_ID.encode() + b'"' not in data[:200]:
        found = data[:200].partition(b"schema:baseline:")[2].partition(b'"')[0].decode("ascii", "replace")
        fact = f"a baseline of schema {found}, this tool reads {SCHEMA_ID.rpartition(':')[2]}"
        raise UserError("H002", fact, place=name, hints=again)
    data = data.replace(b"\r\n", b"\n")  # git may have changed the line ends; no text in it holds a raw one
    match = _DIGEST.search(data)
    if match is None:
        raise UserError("H003", "the baseline was cut off: its digest is missing", place=name, hints=again)
    body = data[: match.start() - 1]  # up to the comma before the digest
    if hashlib.sha256(body).hexdigest().encode() != match[1]:
        fact = "the baseline was edited by hand: its digest does not fit"
        raise UserError("H003", fact, place=name, hints=[*again, "audit sglang --exceptions FILE"])
    try:
        kept = from_json(data, Baseline)
    except Damaged as error:
        raise UserError("H004", f"not a baseline: {error}", place=name, hints=again) from None
    check_whole(kept.report, name, "H004")
    return kept
