"""The ``GIT binary patch`` parts of a diff: base 85, zlib, literals and deltas.

The format is git's own (``Documentation/gitformat-pack`` for the delta): lines of up to 52 bytes, the first
letter says how many, then base 85; together a zlib stream of the size that the head states.
"""

from __future__ import annotations

import base64
import zlib

from auditor.errors import UserError
from auditor.lazyre import lazy
from auditor.trees.names import blob_id

_LETTERS = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
_HEAD = lazy(rb"(literal|delta) (\d{1,12})")
_STORED = 65_535


def is_head(line: bytes) -> bool:
    """Whether the line starts a literal or a delta."""
    return _HEAD.fullmatch(line) is not None


def read_block(lines: list[bytes], at: int, limit: int, place: str) -> tuple[str, bytes, int]:
    """The block whose head stands at ``lines[at]``: kind, inflated bytes, and the line after it.

    UserError P007 where it is damaged, P003 where it would be larger than ``limit`` bytes.
    """
    head = _HEAD.fullmatch(lines[at])
    if head is None:
        raise UserError("P007", "a binary patch starts with `literal SIZE` or `delta SIZE`", place=place)
    size = int(head[2])
    if size > limit:
        raise _too_large(size, limit, place)
    at += 1
    packed = bytearray()
    while at < len(lines) and lines[at]:
        packed += _line(lines[at], place)
        at += 1
    inflater = zlib.decompressobj()
    try:
        data = inflater.decompress(bytes(packed), size + 1)
    except zlib.error:
        raise _damaged(place, "is not a zlib stream") from None
    if len(data) != size or not inflater.eof or inflater.unused_data:
        raise _damaged(place, f"does not hold the {size:,} bytes it says")
    return head[1].decode(), data, at + 1


def _line(line: bytes, place: str) -> bytes:
    length = _LETTERS.find(line[:1]) + 1
    coded = line[1:]
    if not length or len(coded) % 5 or len(coded) // 5 != (length + 3) // 4:
        raise _damaged(place, "has a line of the wrong length")
    try:
        return base64.b85decode(coded)[:length]
    except ValueError:
        raise _damaged(place, "is not base 85") from None


def _damaged(place: str, fact: str) -> UserError:
    return UserError(
        "P007", f"the binary patch {fact}", place=place, hints=["git diff --binary --full-index"]
    )


def _too_large(size: int, limit: int, place: str | None) -> UserError:
    return UserError(
        "P003",
        f"binary content of {size:,} bytes; at most {limit:,} are read",
        place=place,
        hints=["leave that file out: git diff BASE..TIP -- . ':!FILE'"],
    )


def apply_delta(base: bytes, delta: bytes, limit: int, place: str | None = None) -> bytes:
    """The bytes that a git delta makes of ``base``. UserError P007 where it was made for another base."""

    def fail(fact: str) -> UserError:
        return UserError("P007", f"the binary delta {fact}", place=place)

    at = 0

    def number() -> int:
        nonlocal at
        value = shift = 0
        while True:
            if at >= len(delta) or shift > 56:
                raise fail("ends too early")
            byte = delta[at]
            at += 1
            value |= (byte & 0x7F) << shift
            shift += 7
            if not byte & 0x80:
                return value

    if number() != len(base):
        raise fail("was made for a file of another size")
    size = number()
    if size > limit:
        raise _too_large(size, limit, place)
    out = bytearray()
    while at < len(delta):
        code = delta[at]
        at += 1
        if code & 0x80:
            fields = [0] * 7
            for bit in range(7):
                if code & (1 << bit):
                    if at >= len(delta):
                        raise fail("ends too early")
                    fields[bit] = delta[at]
                    at += 1
            offset = fields[0] | fields[1] << 8 | fields[2] << 16 | fields[3] << 24
            count = (fields[4] | fields[5] << 8 | fields[6] << 16) or 0x10000
            if offset + count > len(base):
                raise fail("copies from beyond the end")
            out += base[offset : offset + count]
        elif code:
            if at + code > len(delta):
                raise fail("ends too early")
            out += delta[at : at + code]
            at += code
        else:
            raise fail("holds an unknown instruction")
        if len(out) > size:
            break
    if len(out) != size:
        raise fail("does not make the size it says")
    return bytes(out)


def write_block(data: bytes) -> list[bytes]:
    """The lines of a literal, its head included.

    The zlib stream holds stored blocks only: how well a library packs differs from version to version, and
    the same content has to give the same bytes everywhere.
    """
    stream = bytearray(b"\x78\x01")
    for start in range(0, max(len(data), 1), _STORED):
        part = data[start : start + _STORED]
        last = start + _STORED >= len(data)
        stream += bytes([last]) + len(part).to_bytes(2, "little")
        stream += (len(part) ^ 0xFFFF).to_bytes(2, "little") + part
    stream += zlib.adler32(data).to_bytes(4, "big")
    lines = [b"literal %d" % len(data)]
    for start in range(0, len(stream), 52):
        chunk = bytes(stream[start : start + 52])
        padded = chunk + b"\0" * (-len(chunk) % 4)
        lines.append(_LETTERS[len(chunk) - 1 : len(chunk)] + base64.b85encode(padded))
    return lines


def matches(data: bytes, blob: str) -> bool:
    """Whether ``data`` has the blob id that a diff states, which may be abbreviated or unknown."""
    return not blob or blob_id(data).startswith(blob)
