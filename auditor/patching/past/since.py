"""Since when a tree has a patch: the commit that completed it, and the first release with that commit.

Told by content, from the versions of the files that the patch touches along the first-parent line, found by
halving; what was found is kept for the patch and the tip.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection
from dataclasses import dataclass
from functools import lru_cache

import msgspec

from auditor.errors import UserError
from auditor.patching.line import Line, gallop, relevant, turn
from auditor.patching.model import ChangeSet, Outcome
from auditor.patching.planning.merged import exact_tip, landing_before
from auditor.patching.planning.remade import Names
from auditor.patching.port.carry import port
from auditor.patching.port.history import MERGED
from auditor.patching.sets.patchset import Patch
from auditor.profile import Profile
from auditor.tooldigest import tool_digest
from auditor.trees.base import SourceTree
from auditor.trees.between import LogEntry, log_entry
from auditor.trees.cache import remembered
from auditor.trees.git import GitRepo
from auditor.trees.overlay import OverlayTree
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
    """Since when ``tree`` has a diff that is upstream on it; None where history does not tell.

    ``root`` stands before a path of the tree to make it one of the repository. A tree that is no commit of
    ``repo`` is looked for by its files on the main line; where it is not there, the whole line is asked.
    ``version_files`` name the release where no tag does.
    """
    if outcome.status != "upstream" or not changes.changes:
        return None
    went = [root + hunk.to_path for hunk in outcome.hunks if hunk.to_path]
    named = relevant([path for c in changes.changes for path in (c.old_path, c.new_path)], went)
    words = [
        repr((c.old_path, c.new_path, c.old_blob, c.hunks, c.old_mode, c.new_mode, c.binary))
        for c in changes.changes
    ]

    def low(line: Line) -> int | None:
        places = [line.last_with(c.old_path or "", c.old_blob) for c in changes.changes]
        return max((place for place in places if place is not None), default=None)

    asked = _Asked(
        outcome,
        tree,
        repo,
        root,
        tuple(version_files),
        named,
        lambda few: port(changes, few, blobs=blobs).status == "upstream",
        low,
        changes if any(hunk.proof == MERGED for hunk in outcome.hunks) else None,
    )
    return _kept(asked, words)


def since_edits(
    patch: Patch,
    outcome: Outcome,
    tree: SourceTree,
    repo: GitRepo,
    profile: Profile,
    *,
    files: Callable[[str], bytes],
    version_files: Collection[str] = (),
) -> Since | None:
    """The same for a structural patch, each of whose edits finds itself done."""
    from auditor.patching.edits import apply_edits

    if outcome.status != "upstream" or patch.form != "structural":
        return None
    names = Names(profile, tree.blobs())
    here = tree.blobs()
    paths = [names.repository(p) for h in outcome.hunks for p in (h.to_path, h.path) if p in here]
    marker = next((f"{root}/" for root in profile.roots.repository if root), "") + profile.markers[0]

    def holds(few: SourceTree) -> bool:
        whole = few if marker in few.blobs() else OverlayTree(few, {marker: b""})
        return apply_edits(patch, whole, profile, files=files).status == "upstream"

    root = names.repository("")
    asked = _Asked(
        outcome, tree, repo, root, tuple(version_files), relevant(paths), holds, lambda line: None, None
    )
    return _kept(asked, [patch.raw.decode("utf-8", "replace")])


@dataclass(frozen=True)
class _Asked:
    """``paths`` are followed; ``holds`` says whether a version of them has the patch, ``low`` where not."""

    outcome: Outcome
    tree: SourceTree
    repo: GitRepo
    root: str
    version_files: tuple[str, ...]
    paths: list[str]
    holds: Callable[[SourceTree], bool]
    low: Callable[[Line], int | None]
    merged: ChangeSet | None  # a patch that only its history shows


def _kept(asked: _Asked, words: list[str]) -> Since | None:
    """The answer, from the cache where it was given before for this patch, tip and tags."""
    repo, tree = asked.repo, asked.tree
    tip = tip_of(tree, repo)
    if not tip or not asked.paths:
        return None
    refs = _tags(repo)
    at = tree.info().content_id if tree.info().commit != tip else ""
    text = repr((tool_digest(), tip, at, asked.paths, asked.version_files, words))
    key = hashlib.sha256(text.encode("utf-8", "surrogatepass") + refs).hexdigest()

    def find() -> Since | None:
        try:
            found = _find(asked, tip)
            if found is not None and not found.release:
                bumped = release_by_bump(repo, main_line(repo) or tip, found.oid, asked.version_files)
                found = msgspec.structs.replace(found, release=bumped, why="" if bumped else found.why)
        except (KeyError, UserError):
            return None  # a clone that lacks objects tells nothing
        return found

    return remembered(_KIND, key, Since | None, find)


def tip_of(tree: SourceTree, repo: GitRepo) -> str:
    """The commit whose line a tree is on: its own, that of its release, else the tip of the main line."""
    return exact_tip(tree, repo) or main_line(repo)


@lru_cache(maxsize=8)
def _tags(repo: GitRepo) -> bytes:
    return repo.run("for-each-ref", "--format=%(objectname)", "refs/tags").stdout


def _find(asked: _Asked, tip: str) -> Since | None:
    if asked.merged is not None:
        return _landed(asked.merged, asked.outcome, asked.tree, asked.repo)
    line = Line(asked.repo, tip, asked.paths)
    end = len(line) - 1
    if asked.tree.info().commit != tip:
        here = asked.tree.blobs()
        root = asked.root
        below = {path: here.get(path[len(root) :], "") for path in line.paths if path.startswith(root)}
        found = line.last_like(below)
        end = found if found is not None else end

    def there(place: int) -> bool:
        return asked.holds(line.tree(place))

    low = asked.low(line)
    if low is None or low >= end or there(low):
        low = gallop(there, end)
    at = turn(there, low, end) if low is not None else None
    return _said(line.entries[at - 1], asked.outcome, asked.repo) if at else None


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
