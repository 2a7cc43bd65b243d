"""The examples of a structural patch: a small file before and after, or left alone."""

from __future__ import annotations

import difflib
from collections.abc import Sequence

from auditor.patching.edits.apply import apply, named_by
from auditor.patching.edits.miss import Miss
from auditor.patching.edits.model import Edit
from auditor.patching.edits.source import read_source
from auditor.patching.sets.header import Example
from auditor.profile import Profile
from auditor.queries.exampletree import MemoryTree


def failed(edits: Sequence[Edit], example: Example, profile: Profile) -> str:
    """What is wrong with an example, "" where it holds. A file that is to be left alone has no ``after``.

    ``skip`` says why the edits are not made: they are there already, or do not fit.
    """
    if (example.after is None) == (example.skip is None):
        return "an example has either `after`, or `skip` with the reason for which it is left alone"
    path = example.path or _path(edits, example.before, profile)
    outcome = apply(edits, MemoryTree({path: example.before}), profile, only=path)
    if not outcome.hunks:
        return f"no edit is for {path}: `path` of the example says which file it is"
    notes = [hunk.note for hunk in outcome.hunks if hunk.status == "conflict"]
    if example.skip is not None:
        return (
            ""
            if outcome.status in ("upstream", "conflict")
            else "the edits change what they are to leave alone"
        )
    if notes:
        return f"the edits do not go: {notes[0]}"
    after = (outcome.files.get(path) or example.before.encode()).decode()
    if after == example.after:
        return ""
    lines = difflib.unified_diff(
        (example.after or "").splitlines(), after.splitlines(), "expected", "made", lineterm="", n=1
    )
    return "the result is another one:\n" + "\n".join(lines)


def _path(edits: Sequence[Edit], before: str, profile: Profile) -> str:
    """The file that the first edit points to, of one with variants the first of them that knows the text."""
    found = [_file(named_by(body), before, profile) for body in edits[0].bodies()]
    return next((path for path, known in found if known), found[0][0])


def _file(named: str, before: str, profile: Profile) -> tuple[str, bool]:
    """The file of a place, and whether that is known: what of a name is the module, the text tells."""
    if not named and profile.flags:
        named = profile.flags[0].qualified
    if "/" in named or named.endswith(".py"):
        return named.partition(":")[0], True
    parts = tuple(named.split("."))
    try:
        source = read_source(before.encode(), "example")
    except Miss:
        return "/".join(parts) + ".py", False
    for size in range(1, len(parts)):
        if source.named(parts[size:]):
            return "/".join(parts[:size]) + ".py", True
    return "/".join(parts) + ".py", False
