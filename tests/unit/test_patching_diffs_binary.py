"""Blocks and deltas of git's binary patches that are damaged: each is refused with what is wrong with it."""

from __future__ import annotations

import base64
import zlib

import pytest

from auditor.errors import UserError
from auditor.patching.diffs.gitbinary import apply_delta, read_block, write_block

BASE = b"0123456789"
DELTAS = [
    (b"", "ends too early"),
    (b"\x8a", "ends too early"),
    (b"\x80" * 10, "ends too early"),
    (b"\x09\x01\x01a", "was made for a file of another size"),
    (b"\x0a\x02\x91", "ends too early"),
    (b"\x0a\x02\x91\x09\x02", "copies from beyond the end"),
    (b"\x0a\x02\x05a", "ends too early"),
    (b"\x0a\x02\x00", "holds an unknown instruction"),
    (b"\x0a\x02\x01a", "does not make the size it says"),
    (b"\x0a\x02\x03abc\x03abc", "does not make the size it says"),
]


@pytest.mark.parametrize("delta, fact", DELTAS)
def test_a_delta(delta: bytes, fact: str) -> None:
    with pytest.raises(UserError) as error:
        apply_delta(BASE, delta, 100, "p:1")
    assert (error.value.code, error.value.fact) == ("P007", f"the binary delta {fact}")


def test_what_deltas_make() -> None:
    assert apply_delta(BASE, b"\x0a\x05\x91\x02\x03\x02ab", 100) == b"234ab"
    large = bytes(70_000)
    assert apply_delta(large, b"\xf0\xa2\x04\x80\x80\x04\x80", 70_000) == bytes(0x10000)  # no size: 65536
    with pytest.raises(UserError) as error:
        apply_delta(BASE, b"\x0a\x7f", 100)
    assert error.value.code == "P003"


def _coded(data: bytes) -> bytes:
    return bytes([64 + len(data)]) + base64.b85encode(data + bytes(-len(data) % 4))


STREAM = zlib.compress(b"abc")
BLOCKS = [
    ([b"nothing 3"], "a binary patch starts with `literal SIZE` or `delta SIZE`"),
    ([b"literal 3", b"A"], "the binary patch has a line of the wrong length"),
    ([b"literal 3", b"!abcde"], "the binary patch has a line of the wrong length"),
    ([b"literal 3", b"Dab de"], "the binary patch is not base 85"),
    ([b"literal 3", _coded(b"abcd")], "the binary patch is not a zlib stream"),
    ([b"literal 4", _coded(STREAM)], "the binary patch does not hold the 4 bytes it says"),
    ([b"literal 3", _coded(STREAM + b"x")], "the binary patch does not hold the 3 bytes it says"),
]


@pytest.mark.parametrize("lines, fact", BLOCKS)
def test_a_block(lines: list[bytes], fact: str) -> None:
    with pytest.raises(UserError) as error:
        read_block(lines, 0, 100, "p:1")
    assert (error.value.code, error.value.fact) == ("P007", fact)


@pytest.mark.parametrize("data", [b"", b"abc", bytes(range(256)) * 300])
def test_what_is_written_is_read(data: bytes) -> None:
    lines = write_block(data)
    assert read_block([*lines, b"", b"rest"], 0, 100_000, "p:1") == ("literal", data, len(lines) + 1)
