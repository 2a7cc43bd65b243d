"""Values of CMake variables with three-valued truth: items that remember their place and their conditions.

A value is a list of items, as a CMake string is a list separated by ``;``. An item that was added under a
condition nobody can decide here is ``unknown``, and a reference to a variable that is set elsewhere stays in
the text as ``${NAME}`` with the name among the reasons.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple

from auditor.gates.model import Tri


class Item(NamedTuple):
    """One element of a list.

    ``when``: whether it is there. ``because``: the conditions it came through, or what an unknown ``when``
    hangs on. ``open``: reasons why the text itself is not fully known.
    """

    text: str
    path: str
    line: int
    when: Tri = "true"
    because: tuple[str, ...] = ()
    open: tuple[str, ...] = ()


Value = tuple[Item, ...]


class Truth(NamedTuple):
    """A three-valued condition; ``why`` says what an unknown one depends on."""

    value: Tri
    why: tuple[str, ...] = ()


TRUE = Truth("true")
FALSE = Truth("false")


def merged(*groups: Iterable[str]) -> tuple[str, ...]:
    """All reasons once, in order."""
    return tuple(dict.fromkeys(text for group in groups for text in group))


def unknown(*why: str) -> Truth:
    """Unknown, with its reasons."""
    return Truth("unknown", why)


def text_of(value: Value) -> tuple[str | None, tuple[str, ...]]:
    """The value as one string, or None with the reasons why it is not known."""
    why: tuple[str, ...] = ()
    parts = []
    for item in value:
        if item.when == "unknown":
            why = merged(why, item.because)
        if item.open:
            why = merged(why, item.open)
        if item.when != "false":
            parts.append(item.text)
    return (None, why) if why else (";".join(parts), ())


def union(values: list[Value], reason: str) -> Value:
    """What a variable holds after branches of which nobody knows which one runs.

    An item that every branch has stays as it is; any other is unknown for ``reason``.
    """
    first = values[0]
    if all(value == first for value in values[1:]):
        return first
    out: dict[tuple[str, int], Item] = {}
    counts: dict[tuple[str, int], int] = {}
    for value in values:
        seen: set[tuple[str, int]] = set()
        for item in value:
            key = (item.text, item.line)
            out.setdefault(key, item)
            if key not in seen:
                seen.add(key)
                counts[key] = counts.get(key, 0) + 1
    result = []
    for key, item in out.items():
        if counts[key] < len(values):
            because = merged(item.because if item.when == "unknown" else (), (reason,))
            item = item._replace(when="unknown", because=because)
        result.append(item)
    return tuple(result)


_FALSE = {"", "0", "OFF", "NO", "FALSE", "N", "IGNORE", "NOTFOUND"}
_TRUE = {"1", "ON", "YES", "TRUE", "Y"}


def constant(text: str) -> bool | None:
    """The truth of one of CMake's constants, None for any other text."""
    upper = text.upper()
    if upper in _TRUE:
        return True
    if upper in _FALSE or upper.endswith("-NOTFOUND"):
        return False
    if re.fullmatch(r"-?\d+(\.\d+)?", text):
        return float(text) != 0
    return None


def compare_versions(left: str, right: str) -> int | None:
    """-1, 0 or 1; None where a part that is not known (``13.0.*``) decides."""
    a, b = _parts(left), _parts(right)
    for x, y in zip(a + [0] * (len(b) - len(a)), b + [0] * (len(a) - len(b))):
        if x is None or y is None:
            return None
        if x != y:
            return -1 if x < y else 1
    return 0


def version_truth(operator: str, left: str, right: str) -> bool | None:
    """The value of ``VERSION_LESS`` and its kind. None where a part that is not known decides."""
    order = compare_versions(left, right)
    if order is None:
        # 13.0.* against 13.0: equal or greater, whatever the last part is.
        floor = compare_versions(left.replace(".*", ""), right)
        if floor is None or floor != 0 or "*" in right:
            return None
        return {"VERSION_GREATER_EQUAL": True, "VERSION_LESS": False}.get(operator)
    return {
        "VERSION_LESS": order < 0,
        "VERSION_GREATER": order > 0,
        "VERSION_EQUAL": order == 0,
        "VERSION_LESS_EQUAL": order <= 0,
        "VERSION_GREATER_EQUAL": order >= 0,
    }[operator]


def _parts(text: str) -> list[int | None]:
    out: list[int | None] = []
    for part in text.split("."):
        if part == "*":
            out.append(None)
            continue
        digits = re.match(r"[0-9]{0,18}", part)
        assert digits is not None
        out.append(int(digits[0] or 0))
        if digits[0] != part:
            break
    return out
