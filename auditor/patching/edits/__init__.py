"""Structural edits: a small closed set of changes to Python and configuration files, placed by anchors.

:mod:`model` is what a patch can say, :mod:`anchors` finds the place, one module per group of edits makes the
change, :mod:`apply` carries a whole patch to a tree in memory. An edit only says where bytes are put in or
replaced, so that everything outside is the same byte for byte.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from auditor.patching.model import Outcome
    from auditor.patching.sets.patchset import Patch
    from auditor.profile import Profile
    from auditor.trees.base import SourceTree


def apply_edits(
    patch: Patch, tree: SourceTree, profile: Profile, *, files: Callable[[str], bytes] | None = None
) -> Outcome:
    """What becomes of a structural patch on a tree; pure. See :func:`auditor.patching.edits.apply.apply`."""
    from auditor.patching.edits.apply import apply  # the types of edits are read without this

    assert patch.file is not None
    return apply(patch.file.edits, tree, profile, files=files)
