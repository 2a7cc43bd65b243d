"""What becomes of parts of hunks, and how changes to a file are put together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from auditor.patching.merge.changes import Change
from auditor.patching.merge.tokens import Splice


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
