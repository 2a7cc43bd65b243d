"""An outcome that cannot be on a disk: a path that would be a file and a folder at once."""

from __future__ import annotations

from collections.abc import Collection

from auditor.patching.model import HunkResult, Outcome
from auditor.patching.paths import in_the_way


def added(outcome: Outcome, before: Collection[str]) -> list[str]:
    """Paths of an outcome that a tree with the paths ``before`` does not have."""
    return [path for path, data in outcome.files.items() if data is not None and path not in before]


def blocked(outcome: Outcome, before: Collection[str]) -> Outcome:
    """The outcome, or a conflict that says which path is in the way on a tree with the paths ``before``."""
    new = added(outcome, before)
    if not new:
        return outcome
    clash = in_the_way(new, {path for path in before if outcome.files.get(path, b"") is not None})
    if clash is None:
        return outcome
    path, there = clash
    note = f"{there} is a file there, not a folder" if path.startswith(there) else f"{path} is a folder there"
    return Outcome("conflict", (HunkResult(path, -1, "conflict", "", note=note),))
