"""One file: the base it was, theirs (the base with the patch) and ours, merged by the cheapest means that do.

Lines first, as git merges them. Where lines conflict, the Python statements around the conflict, one change
at a time; everything else stays the line merge.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from auditor.patching.mergechanges import Change, Changes
from auditor.patching.mergetokens import Splice
from auditor.patching.mergetree import Settled, TreeMerge
from auditor.patching.porthunks import Applied
from auditor.patching.portlines import Group, matching, merge, result, split_lines
from auditor.patching.statements import Source


@dataclass
class Piece:
    """What became of one part of a hunk."""

    hunk: int
    status: str  # clean | upstream | look | conflict
    proof: str
    note: str = ""
    symbol: str = ""
    homeless: Change | None = None


@dataclass
class FileMerge:
    """``data`` is ours with the patch (ours itself where nothing had to change); ``pieces`` say why."""

    data: bytes
    pieces: list[Piece] = field(default_factory=list)

    @property
    def conflicts(self) -> list[Piece]:
        return [piece for piece in self.pieces if piece.status == "conflict"]


def merge_file(base: bytes, applied: Applied, ours: bytes, *, python: bool) -> FileMerge:
    """Carry ``applied`` (the patch on ``base``) to ``ours``."""
    base_lines, our_lines, their_lines = split_lines(base), split_lines(ours), applied.lines
    groups = merge(
        base_lines, our_lines, their_lines, to_ours=matching(base_lines, our_lines), to_theirs=applied.common
    )
    touched = [group for group in groups if group.kind != "ours"]
    pieces: list[Piece] = []
    if not any(group.kind == "conflict" for group in touched):
        for group in touched:
            for hunk in _hunks(group, applied):
                same = group.kind == "same"
                pieces.append(
                    Piece(hunk, "upstream" if same else "clean", "same lines" if same else "three-way merge")
                )
        return FileMerge(b"".join(result(groups, our_lines, their_lines)), pieces)
    if python:
        done = _by_statement(base, b"".join(their_lines), ours, touched, applied, our_lines)
        if done is not None:
            return done
    for group in touched:
        for hunk in _hunks(group, applied):
            if group.kind == "conflict":
                line = group.ours[0] + 1
                pieces.append(
                    Piece(hunk, "conflict", "", f"lines it changes were changed too, at line {line}")
                )
            else:
                pieces.append(Piece(hunk, "clean", "three-way merge"))
    return FileMerge(ours, pieces)


def _hunks(group: Group, applied: Applied) -> list[int]:
    """The hunks whose changes lie in a group."""
    lo, hi = group.base
    found = {
        owner
        for edit, owner in zip(applied.edits, applied.owner)
        if lo <= edit.a0 and edit.a1 <= hi and group.theirs[0] <= edit.b0 and edit.b1 <= group.theirs[1]
    }
    return sorted(found)


def _meets(a: tuple[int, int], b: tuple[int, int]) -> bool:
    """Whether two half-open ranges have a line in common."""
    return max(a[0], b[0]) < min(a[1], b[1])


def _touches(change: Change, group: Group, applied: Applied) -> bool:
    """Whether a change to a statement is made of lines of this group."""
    for edit in applied.edits:
        if not (group.base[0] <= edit.a0 and edit.a1 <= group.base[1]):
            continue
        if not (group.theirs[0] <= edit.b0 and edit.b1 <= group.theirs[1]):
            continue
        if _meets(change.base_lines, (edit.a0, edit.a1)) or _meets(change.theirs_lines, (edit.b0, edit.b1)):
            return True
    return False


def _by_statement(
    base: bytes,
    theirs: bytes,
    ours: bytes,
    groups: Sequence[Group],
    applied: Applied,
    our_lines: Sequence[bytes],
) -> FileMerge | None:
    """The conflicting groups by statement, the others by line; None where a version does not parse."""
    try:
        sources = [Source(each) for each in (base, theirs, ours)]
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    changes = Changes(sources[0], sources[1]).all
    covered = {id(g): [c for c in changes if _touches(c, g, applied)] for g in groups}
    chosen: list[Change] = []
    by_statement = [g for g in groups if g.kind == "conflict"]
    at = 0
    while at < len(by_statement):  # closed under: a change that reaches into another group takes that too
        for change in covered[id(by_statement[at])]:
            if change in chosen:
                continue
            chosen.append(change)
            for other in groups:
                if other not in by_statement and change in covered[id(other)]:
                    by_statement.append(other)
        at += 1
    tree = TreeMerge(sources[0], sources[2])
    offsets = [0]
    for line in our_lines:
        offsets.append(offsets[-1] + len(line))
    splices: list[Splice] = []
    pieces: list[Piece] = []
    for group in groups:
        if group in by_statement:
            if not covered[id(group)]:
                pieces += [
                    Piece(h, "upstream", "no statement in it", "only blank lines or comments, left out")
                    for h in _hunks(group, applied)
                ]
            continue
        for hunk in _hunks(group, applied):
            same = group.kind == "same"
            pieces.append(
                Piece(hunk, "upstream" if same else "clean", "same lines" if same else "three-way merge")
            )
        if group.kind == "theirs":
            text = b"".join(applied.lines[group.theirs[0] : group.theirs[1]])
            splices.append(Splice(offsets[group.ours[0]], offsets[group.ours[1]], text))
    for change in sorted(chosen, key=lambda c: (c.base_lines, c.theirs_lines)):
        settled = tree.settle(change)
        hunks = sorted({h for g in by_statement if change in covered[id(g)] for h in _hunks(g, applied)})
        pieces += [_piece(h, settled, change) for h in hunks]
        splices += settled.splices
    if any(piece.status == "conflict" for piece in pieces):
        return FileMerge(ours, pieces)
    data = spliced(ours, splices)
    if data is None:
        return FileMerge(
            ours, [Piece(p.hunk, "conflict", "", "two changes meet at one place") for p in pieces]
        )
    return FileMerge(data, pieces)


def _piece(hunk: int, settled: Settled, change: Change) -> Piece:
    if settled.conflict:
        homeless = change if settled.homeless is not None else None
        return Piece(hunk, "conflict", "", settled.conflict, settled.symbol, homeless)
    if settled.already:
        return Piece(hunk, "upstream", "same statements", settled.note, settled.symbol)
    if settled.guess:
        return Piece(hunk, "look", "statement merge", settled.guess, settled.symbol)
    return Piece(hunk, "clean", "statement merge", settled.note, settled.symbol)


def spliced(data: bytes, splices: Sequence[Splice]) -> bytes | None:
    """``data`` with all splices made; None where two overlap."""
    order = sorted(range(len(splices)), key=lambda k: (splices[k].start, splices[k].end, k))
    out: list[bytes] = []
    at = 0
    for k in order:
        splice = splices[k]
        if splice.start < at:
            return None
        out += [data[at : splice.start], splice.text]
        at = splice.end
    out.append(data[at:])
    return b"".join(out)
