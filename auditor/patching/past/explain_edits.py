"""Why a structural edit does not go: the commit after which its place, or what it looks for there, was gone.

Only for a miss that one file explains (no such symbol, a pattern that fits another number of places, another
value than expected): the edit is tried on the versions of that file.
"""

from __future__ import annotations

from collections.abc import Callable

from auditor.patching.edits.apply import apply, named_by
from auditor.patching.line import Line, gallop, turn
from auditor.patching.model import HunkResult
from auditor.patching.past.culprit import Culprit, culprit_of
from auditor.patching.planning.model import Plan
from auditor.patching.planning.remade import Names
from auditor.patching.sets.patchset import Patch
from auditor.trees.base import SourceTree
from auditor.trees.between import LogEntry
from auditor.trees.git import GitRepo
from auditor.trees.overlay import OverlayTree

_OF_ONE_FILE = ("P070", "P071", "P075", "P077")


def culprit_of_edit(
    plan: Plan, patch: Patch, hunk: HunkResult, repo: GitRepo, tip: str
) -> tuple[Culprit | None, str, tuple[LogEntry, ...]]:
    """(commit, why there is none or what is not sure, other commits) for one edit in conflict."""
    assert patch.file is not None
    code = hunk.note.partition(":")[0]
    if code not in _OF_ONE_FILE or not 0 <= hunk.index < len(patch.file.edits):
        return None, "its reason does not lie in the history of one file", ()
    edit = patch.file.edits[hunk.index]
    profile = plan.profile
    root = next((each for each in profile.roots.repository if each), "")
    names = Names(profile, plan.tree.blobs())
    paths = _candidates(named_by(edit.body()), f"{root}/" if root else "")
    if hunk.path in plan.tree.blobs():
        paths = [*paths, names.repository(hunk.path)]
    line = Line(repo, tip, paths)
    if not line.entries:
        return None, "no file that its place could be in is in the history of the clone", ()
    end = len(line) - 1
    caveat = ""
    if plan.tree.info().commit != tip:
        here = plan.tree.blobs()
        asked = {path: names.tree(path) for path in line.paths}
        found = line.last_like({path: here.get(at, "") for path, at in asked.items() if at is not None})
        end = end if found is None else found
        caveat = "" if found is not None else f"{plan.tree.info().label} itself is not on it"
    marker = f"{root}/{profile.markers[0]}" if root else profile.markers[0]

    def stops(at: int) -> bool:
        tree: SourceTree = line.tree(at)
        if marker not in tree.blobs():
            tree = OverlayTree(tree, {marker: b""})  # what tells a tree of the project
        done = apply([edit], tree, profile, files=_files(plan))
        return any(h.status == "conflict" and h.note.startswith(code) for h in done.hunks)

    low = gallop(stops, end) if stops(end) else None
    at = turn(stops, low, end) if low is not None else None
    if not at:
        return None, "no version of its file in this history takes it", ()
    entry = line.entries[at - 1]
    gone = [path for path in line.states[at - 1] if path not in line.states[at]]
    moved = next((new for path in gone if (new := line.renamed(at, path))), "")
    used = {part for part in named_by(edit.body()).replace("/", ".").split(".") if len(part) > 2}
    return culprit_of(repo, entry, used, moved), caveat, ()


def _files(plan: Plan) -> Callable[[str], bytes]:
    return plan.patchset.new_file


def _candidates(named: str, root: str) -> list[str]:
    """Files that a place could be in, by the names of the repository."""
    if "/" in named or named.partition(":")[0].endswith(".py"):
        path = named.partition(":")[0]
        return [path if path.startswith(root) else root + path]
    parts = named.split(".")
    stems = [root + "/".join(parts[:count]) for count in range(2, len(parts) + 1)]
    return [f"{stem}{ending}" for stem in stems for ending in (".py", "/__init__.py")]
