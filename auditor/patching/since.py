"""Since when a tree has a patch: the commit that completed it, and the first release with that commit.

Told by content, from the versions of the files that the patch touches along the first-parent line, found by
halving; what was found is kept for the patch and the tip.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection

import msgspec

from auditor.errors import UserError
from auditor.patching.line import Line, gallop, relevant, turn
from auditor.patching.merged import MERGED, exact_tip, landing_before
from auditor.patching.model import ChangeSet, Outcome
from auditor.patching.outcomes import tool_digest
from auditor.patching.port import port
from auditor.trees.base import SourceTree
from auditor.trees.between import LogEntry, log_entry
from auditor.trees.cache import cached_bytes, store_bytes
from auditor.trees.git import GitRepo
from auditor.trees.versions import first_release, main_line, release_by_bump

_KIND = "since"


class Since(msgspec.Struct, frozen=True):
    """``oid`` is the commit with which the last hunk was there. ``release`` is the first with it, "" if none
    is known; ``why`` says why then."""

    oid: str
    date: str
    subject: str
    pr: str
    release: str
    why: str
    hunks: int
    of: int

    def text(self) -> str:
        """``since 0.5.16, faf689409 #30272, 1 of 1 hunk``."""
        first = f"since {self.release}, " if self.release else "since "
        number = f" #{self.pr}" if self.pr else ""
        return f"{first}{self.oid[:9]}{number}, {self.hunks} of {self.of} hunk{'' if self.of == 1 else 's'}"


def since(
    changes: ChangeSet,
    outcome: Outcome,
    tree: SourceTree,
    repo: GitRepo,
    *,
    blobs: Callable[[str], bytes | None],
    root: str = "",
    version_files: Collection[str] = (),
) -> Since | None:
    """Since when ``tree`` has a patch that is upstream on it; None where history does not tell.

    ``root`` stands before a path of the tree to make it one of the repository. A tree that is no commit of
    ``repo`` is looked for by its files on the main line; where it is not there, the whole line is asked.
    ``version_files`` name the release where no tag does.
    """
    if outcome.status != "upstream" or not changes.changes:
        return None
    tip = tip_of(tree, repo)
    if not tip:
        return None
    gone = sorted(h.to_path for h in outcome.hunks if h.to_path)
    refs = repo.run("for-each-ref", "--format=%(objectname)", "refs/tags").stdout
    key = _key(changes, tip, refs, tree.info().content_id if tree.info().commit != tip else "", gone)
    kept = cached_bytes(_KIND, key)
    if kept is not None:
        try:
            return msgspec.msgpack.decode(kept, type=Since | None)
        except msgspec.DecodeError:
            pass
    try:
        found = _find(changes, outcome, tree, repo, tip, blobs, root)
        if found is not None and not found.release:
            bumped = release_by_bump(repo, main_line(repo) or tip, found.oid, version_files)
            found = msgspec.structs.replace(found, release=bumped, why="" if bumped else found.why)
    except (KeyError, UserError):
        found = None  # a clone that lacks objects tells nothing
    store_bytes(_KIND, key, msgspec.msgpack.encode(found))
    return found


def tip_of(tree: SourceTree, repo: GitRepo) -> str:
    """The commit whose line a tree is on: its own, that of its release, else the tip of the main line."""
    return exact_tip(tree, repo) or main_line(repo)


def _key(changes: ChangeSet, tip: str, refs: bytes, tree: str, gone: list[str]) -> str:
    digest = hashlib.sha256(f"{tool_digest()} {tip} {tree} {gone}".encode() + refs)
    for change in changes.changes:
        digest.update(repr((change.old_path, change.new_path, change.old_blob, change.hunks)).encode())
        digest.update(repr((change.old_mode, change.new_mode, change.binary)).encode())
    return digest.hexdigest()


def _find(
    changes: ChangeSet,
    outcome: Outcome,
    tree: SourceTree,
    repo: GitRepo,
    tip: str,
    blobs: Callable[[str], bytes | None],
    root: str,
) -> Since | None:
    went = [root + hunk.to_path for hunk in outcome.hunks if hunk.to_path]
    named = relevant([path for c in changes.changes for path in (c.old_path, c.new_path)], went)
    if any(hunk.proof == MERGED for hunk in outcome.hunks):
        return _landed(changes, outcome, tree, repo)
    line = Line(repo, tip, named)
    end = len(line) - 1
    if tree.info().commit != tip:
        here = tree.blobs()
        below = {path: here.get(path[len(root) :], "") for path in line.paths if path.startswith(root)}
        found = line.last_like(below)
        end = found if found is not None else end
    low = max(
        (
            place
            for c in changes.changes
            if (place := line.last_with(c.old_path or "", c.old_blob)) is not None
        ),
        default=None,
    )

    def there(place: int) -> bool:
        return port(changes, line.tree(place), blobs=blobs).status == "upstream"

    if low is None or low >= end or there(low):
        low = gallop(there, end)
    at = turn(there, low, end) if low is not None else None
    if not at:
        return None
    return _said(line.entries[at - 1], outcome, repo)


def _landed(changes: ChangeSet, outcome: Outcome, tree: SourceTree, repo: GitRepo) -> Since | None:
    """The commit that made exactly this change, where the code moved on after it."""
    also = tuple(sorted(hunk.to_path for hunk in outcome.hunks if hunk.to_path))
    tip = exact_tip(tree, repo)
    found = landing_before(changes, also, repo, tip) if tip else None
    return _said(log_entry(repo, found.commit), outcome, repo) if found is not None else None


def _said(entry: LogEntry, outcome: Outcome, repo: GitRepo) -> Since:
    release, tagged = first_release(repo, entry.oid)
    why = "" if release else "in no release of this clone" if tagged else "the clone has no release tags"
    hunks = [hunk for hunk in outcome.hunks if hunk.status != "skipped"]
    have = sum(hunk.status == "upstream" for hunk in hunks)
    return Since(entry.oid, entry.date, entry.subject, entry.pr, release, why, have, len(hunks))
