"""Data read back: what the tool wrote before, and JSON of others. Damage is one exception, of whatever kind.

The decoders raise half a dozen: of syntax, of types, of bytes that are no UTF-8, of numbers with thousands of
digits, of nesting that exhausts the stack.
"""

from __future__ import annotations

from typing import Any, TypeVar

T = TypeVar("T")


class Damaged(ValueError):
    """Bytes that cannot be read back; the text says why, in one line."""


def plain_json(data: bytes | str) -> Any:
    """Any JSON, by the decoder that costs no import."""
    import json

    try:
        return json.loads(data)
    except RecursionError:
        raise Damaged("it is nested too deeply") from None
    except ValueError as error:
        raise Damaged(str(error)) from None


def from_json(data: bytes, type_: type[T]) -> T:
    """JSON as a msgspec type."""
    import msgspec

    found: T = _decoded(msgspec.json.decode, data, type_)
    return found


def from_msgpack(data: bytes, type_: Any) -> Any:
    """MessagePack as a msgspec type."""
    import msgspec

    return _decoded(msgspec.msgpack.decode, data, type_)


def _decoded(decode: Any, data: bytes, type_: Any) -> Any:
    try:
        return decode(data, type=type_)
    except RecursionError:
        raise Damaged("it is nested too deeply") from None
    except ValueError as error:  # msgspec's own are ValueErrors too
        raise Damaged(str(error)) from None


__all__ = ["Damaged", "from_json", "from_msgpack", "plain_json"]
