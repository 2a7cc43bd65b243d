"""Patches that the upstream merged and changed since: told by the commit that made exactly their change.

The tree alone shows of such a patch that it does not go. Its history shows the commit, and that none took it
back. Asked only where a patch does not go as it is.
"""

from __future__ import annotations

import hashlib

from auditor.errors import UserError
from auditor.patching.line import Line, relevant
from auditor.patching.model import ChangeSet, Outcome
from auditor.patching.port.history import History, Landing, goes_again, landed
from auditor.tooldigest import tool_digest
from auditor.trees.base import SourceTree
from auditor.trees.cache import remembered
from auditor.trees.git import GitRepo
from auditor.trees.versions import is_before, main_line

_KIND = "landings"
#: Commits of the main line that are looked at first: patches are seldom older, and the whole line is long.
_RECENT = 2500


def merged(changes: ChangeSet, outcome: Outcome, tree: SourceTree, repo: GitRepo) -> Outcome:
    """``outcome``, or upstream where a commit of the tree's history made the change and it was not undone.

    ``changes`` have the paths of the repository. A tree that is no commit, and no tagged release, of ``repo``
    keeps its outcome.
    """
    if outcome.status not in ("conflict", "partly", "look") or goes_again(outcome):
        return outcome
    tip = exact_tip(tree, repo)
    if not tip:
        return outcome
    also = tuple(sorted(hunk.to_path for hunk in outcome.hunks if hunk.to_path))
    try:
        found = landing_before(changes, also, repo, tip)
    except (KeyError, UserError):
        return outcome  # a clone that lacks objects tells nothing
    return outcome if found is None or found.reverted_by else landed(outcome, found)


def exact_tip(tree: SourceTree, repo: GitRepo) -> str:
    """The commit of ``repo`` that the tree is, by its id or the tag of its release; "" if it is none."""
    info = tree.info()
    names = [info.commit] if info.commit else []
    names += [f"refs/tags/v{info.version}", f"refs/tags/{info.version}"] if info.version else []
    return repo.first_commit(names)


def landing_before(changes: ChangeSet, also: tuple[str, ...], repo: GitRepo, tip: str) -> Landing | None:
    """The commit in the history of ``tip`` that made the change, as far as the main line tells it.

    The main line is read once for all of its commits; another branch is read for itself.
    """
    top = main_line(repo)
    if top and top != tip and is_before(repo, tip, top, top):
        found = _landing(changes, also, repo, top)
        if found is None:
            return None
        if is_before(repo, found.commit, tip, top):
            back = found.reverted_by
            undone = back if back and is_before(repo, back, tip, top) else ""
            return Landing(found.commit, found.subject, undone)
    return _landing(changes, also, repo, tip)


def _landing(changes: ChangeSet, also: tuple[str, ...], repo: GitRepo, tip: str) -> Landing | None:
    digest = hashlib.sha256(f"{tool_digest()} {tip} {also}".encode())
    for change in changes.changes:
        digest.update(repr((change.old_path, change.new_path, change.old_blob, change.hunks)).encode())
    key = digest.hexdigest()

    def find() -> Landing | None:
        base = _base(changes, repo, tip)
        return History(repo, base, tip).landing(changes, also) if base else None

    return remembered(_KIND, key, Landing | None, find)


def _base(changes: ChangeSet, repo: GitRepo, tip: str) -> str:
    """The last commit before which all files are as the patch was made for, "" where that is not known."""
    asked = [c for c in changes.changes if c.old_path is not None and len(c.old_blob.strip("0")) >= 7]
    if not asked:
        return ""
    paths = relevant([c.old_path for c in asked])
    recent = repo.first_commit([f"{tip}~{_RECENT}"])
    if recent:
        line = Line(repo, tip, paths, recent)
        near = [line.last_with(str(c.old_path), c.old_blob) for c in asked]
        if all(near):  # a place after the first one; otherwise what lies before has to be seen
            return line.at(min(place for place in near if place))
    line = Line(repo, tip, paths)
    places = [line.last_with(str(c.old_path), c.old_blob) for c in asked]
    known = [place for place in places if place is not None]
    if not known:
        return ""
    at = min(known)
    return line.at(at) or f"{line.entries[0].oid}^1"
