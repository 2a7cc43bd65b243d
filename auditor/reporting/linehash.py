"""Hashes of lines as GitHub's code scanning makes them, to follow an alert when lines move.

The upload action computes them itself where the file lies in the checkout. Where another tree was audited (a
commit, a release, an installed copy) it cannot, so they are written along.

A line's hash covers the hundred characters from its start on that are neither blank nor tab, over line ends
(CR LF and CR count as LF), as a polynomial with base 37 modulo 2**64; the end of the file is one more
character, 65535, with zeros behind it. ``:n`` counts equal hashes from the top.
"""

from __future__ import annotations

from collections.abc import Iterable

_WIDTH = 100
_BASE = 37
_MASK = (1 << 64) - 1
_END = 65535
_OUT = pow(_BASE, _WIDTH - 1, 1 << 64)


def line_hashes(data: bytes, lines: Iterable[int]) -> dict[int, str]:
    """Line number -> hash (hexadecimal, ``:n`` behind it) for the wanted lines that the file has."""
    wanted = set(lines)
    units, starts = _units(data)
    seen: dict[int, int] = {}
    out: dict[int, str] = {}
    padded = [*units, *[0] * _WIDTH]
    value, at = _hash(padded, 0), 0
    for number, start in enumerate(starts, 1):
        if start - at >= _WIDTH:
            value, at = _hash(padded, start), start
        while at < start:  # one character out at the front, one in behind
            value = ((value - padded[at] * _OUT) * _BASE + padded[at + _WIDTH]) & _MASK
            at += 1
        seen[value] = seen.get(value, 0) + 1
        if number in wanted:
            out[number] = f"{value:x}:{seen[value]}"
    return out


def _hash(units: list[int], start: int) -> int:
    value = 0
    for unit in units[start : start + _WIDTH]:
        value = (value * _BASE + unit) & _MASK
    return value


def _units(data: bytes) -> tuple[list[int], list[int]]:
    """The characters that count (UTF-16 units, as in the action), and where each line starts among them."""
    text = data.decode("utf-8", "replace")
    if not text.isascii():
        raw = text.encode("utf-16-le", "surrogatepass")
        codes: Iterable[int] = memoryview(raw).cast("H")
    else:
        codes = text.encode()
    units: list[int] = []
    starts: list[int] = []
    at_start, after_cr = True, False
    for code in codes:
        if code in (32, 9) or (after_cr and code == 10):
            after_cr = False
            continue
        after_cr = code == 13
        if after_cr:
            code = 10
        if at_start:
            starts.append(len(units))
        at_start = code == 10
        units.append(code)
    if at_start:
        starts.append(len(units))
    units.append(_END)
    return units, starts
