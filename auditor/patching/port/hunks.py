"""Hunks on the lines they were made for: applied exactly, never with fuzz."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from auditor.patching.merge.lines import Edit, Match
from auditor.patching.model import Hunk


@dataclass(frozen=True)
class Applied:
    """``lines`` after the hunks, and what the two versions have in common.

    ``edits`` are the changed regions (before, after), ``owner`` the hunk each belongs to, ``starts`` the
    line (from 0) each hunk's first line has before and after.
    """

    lines: list[bytes]
    common: list[Match]
    edits: list[Edit]
    owner: list[int]
    starts: list[tuple[int, int]]


def apply_hunks(lines: Sequence[bytes], hunks: Sequence[Hunk], *, search: bool = False) -> Applied | None:
    """``lines`` with all hunks, or None where one does not fit.

    Without ``search`` each must stand at the line it names; with it, where its old lines occur exactly
    once after the hunk before it (and as the file's first or last lines if it says so).
    """
    out: list[bytes] = []
    common: list[Match] = []
    edits: list[Edit] = []
    owner: list[int] = []
    starts: list[tuple[int, int]] = []
    at = 0

    def keep(upto: int) -> None:
        nonlocal at
        if upto > at:
            if common and common[-1][0] + common[-1][2] == at and common[-1][1] + common[-1][2] == len(out):
                common[-1] = (common[-1][0], common[-1][1], common[-1][2] + upto - at)
            else:
                common.append((at, len(out), upto - at))
            out.extend(lines[at:upto])
            at = upto

    for number, hunk in enumerate(hunks):
        old = hunk.old()
        start = hunk.old_start - 1 if old else hunk.old_start
        if not 0 <= start or start < at or list(lines[start : start + len(old)]) != old:
            places = find(lines, old, at) if search and old else []
            if len(places) != 1:
                return None
            start = places[0]
        keep(start)
        starts.append((start, len(out)))
        a0, b0 = at, len(out)
        for mark, text in hunk.lines:
            if mark == " ":
                if a0 < at or b0 < len(out):
                    edits.append(Edit(a0, at, b0, len(out)))
                    owner.append(number)
                keep(at + 1)
                a0, b0 = at, len(out)
            elif mark == "-":
                at += 1
            else:
                out.append(text)
        if a0 < at or b0 < len(out):
            edits.append(Edit(a0, at, b0, len(out)))
            owner.append(number)
    keep(len(lines))
    if any(not line.endswith(b"\n") for line in out[:-1]):
        return None  # only the last line of a file can be without an end
    return Applied(out, common, edits, owner, starts)


def find(lines: Sequence[bytes], wanted: Sequence[bytes], start: int = 0) -> list[int]:
    """Where ``wanted`` occurs in ``lines``, from ``start`` on."""
    if not wanted:
        return []
    rarest = max(range(len(wanted)), key=lambda k: len(wanted[k].strip()))
    key, wanted = wanted[rarest], list(wanted)
    out: list[int] = []
    at = start + rarest
    while True:
        try:
            at = lines.index(key, at)
        except ValueError:
            return out
        if list(lines[at - rarest : at - rarest + len(wanted)]) == wanted:
            out.append(at - rarest)
        at += 1


def reverse(hunk: Hunk) -> Hunk:
    """The hunk that takes ``hunk`` back."""
    turned = {"+": "-", "-": "+", " ": " "}
    return Hunk(
        hunk.new_start, hunk.old_start, tuple((turned[m], text) for m, text in hunk.lines), hunk.section
    )
