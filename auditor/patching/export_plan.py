"""Patches of every form as diffs against a base, by way of a plan."""

from __future__ import annotations

from auditor.errors import UserError
from auditor.patching.export import Piece
from auditor.patching.patchset import Patchset
from auditor.trees.base import SourceTree


def planned_pieces(patchset: Patchset, tree: SourceTree, project: str) -> list[Piece]:
    """What each patch makes of the base. UserError P035 until structural patches can be planned."""
    raise UserError("P035", "structural patches and references cannot be exported yet", place=patchset.place)
