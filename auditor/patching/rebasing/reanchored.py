"""A structural patch whose places moved, with their new names in it; every other byte stays."""

from __future__ import annotations

from auditor.patching.model import HunkResult, Outcome
from auditor.patching.sets.patchset import Patch
from auditor.patching.symbols import module_of
from auditor.profile import Profile


def reanchored(patch: Patch, outcome: Outcome, profile: Profile) -> bytes | None:
    """The file of the patch with ``in:`` of the edits that moved set to where they went.

    None where nothing moved, or where a place is not written in one piece on the line of its edit.
    """
    if patch.document is None or any(example.path for example in (patch.file.examples if patch.file else ())):
        return None
    lines = patch.raw.decode("utf-8").split("\n")
    changed = False
    for index, edit in enumerate(patch.edits):
        moved = [h for h in outcome.hunks if h.index == index and h.to_path]
        places = {(hunk.to_path, hunk.symbol) for hunk in moved}
        if not places:
            continue
        if len(places) != 1 or len(edit) != 1:
            return None
        (kind, body), *_ = edit.items()
        if not isinstance(body, dict) or not isinstance(body.get("in"), str):
            return None
        was, now = body["in"], _named(body["in"], moved[0], profile)
        line, _ = patch.document.mark("edits", index, kind, key="in")
        text = lines[line - 1]
        if not now or text.count(was) != 1:
            return None
        lines[line - 1] = text.replace(was, now)
        changed = changed or now != was
    return "\n".join(lines).encode() if changed else None


def _named(was: str, hunk: HunkResult, profile: Profile) -> str:
    """The new place, spelled as the old one was: by import path or by file."""
    if "/" in was or was.partition(":")[0].endswith(".py"):
        path = hunk.to_path if profile.below_root(was) != was else profile.below_root(hunk.to_path)
        return f"{path}:{hunk.symbol}" if hunk.symbol else path
    module = module_of(hunk.to_path, profile)
    return f"{module}.{hunk.symbol}" if module and hunk.symbol else module
