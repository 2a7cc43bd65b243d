"""One commit, as the reason for which a patch stopped to fit: what it did, and which names it took away."""

from __future__ import annotations

import difflib
from collections.abc import Collection
from dataclasses import dataclass

from auditor.lazyre import lazy
from auditor.trees.between import LogEntry
from auditor.trees.git import GitRepo, MissingObject
from auditor.trees.versions import files_of

_WORD = lazy(rb"[A-Za-z_][A-Za-z0-9_]{2,}")
_DEFINED = lazy(rb"(?m)^[ \t]*(?:(?:async )?(?:def|class)[ \t]+)?([A-Za-z_]\w*)[ \t]*(?:[(:]|=[^=])")
#: A commit with more files is not read for the names that it took away.
_MOST = 400


@dataclass(frozen=True)
class Lost:
    """A name of the patch that is in none of the commit's files after it. ``now`` is a guess, or ""."""

    name: str
    now: str = ""


@dataclass(frozen=True)
class Culprit:
    """``files`` are (kind, path before, path after); ``moved`` is where the patch's file went."""

    entry: LogEntry
    files: tuple[tuple[str, str, str], ...]
    lost: tuple[Lost, ...] = ()
    moved: str = ""


def culprit_of(repo: GitRepo, entry: LogEntry, used: Collection[str], moved: str = "") -> Culprit:
    """What a commit did, as far as it matters to a patch that uses the names ``used``."""
    files = files_of(repo, entry.oid)
    lost = _lost(repo, entry.oid, files, used) if len(files) <= _MOST else ()
    return Culprit(entry, tuple(files), lost, moved)


def _lost(
    repo: GitRepo, commit: str, files: list[tuple[str, str, str]], used: Collection[str]
) -> tuple[Lost, ...]:
    before = [f"{commit}^1:{old}" for kind, old, _ in files if kind != "A" and "\n" not in old]
    after = [f"{commit}:{new}" for kind, _, new in files if kind != "D" and "\n" not in new]
    old_words, old_defined = _names(repo, before)
    new_words, new_defined = _names(repo, after)
    gone = sorted(name for name in used if name.encode() in old_words - new_words)
    fresh = sorted(name.decode() for name in new_defined - old_words)
    out = []
    for name in gone:
        near: list[str] = []
        if name.encode() in old_defined:
            near = difflib.get_close_matches(name, fresh, n=1, cutoff=0.72)
        out.append(Lost(name, near[0] if near else ""))
    # What was defined there matters more than what was only said.
    return tuple(sorted(out, key=lambda lost: (lost.name.encode() not in old_defined, lost.name)))


def _names(repo: GitRepo, names: list[str]) -> tuple[set[bytes], set[bytes]]:
    words: set[bytes] = set()
    defined: set[bytes] = set()
    try:
        for data in repo.read_objects(names):
            if b"\0" not in data[:8000]:
                words.update(_WORD.findall(data))
                defined.update(_DEFINED.findall(data))
    except MissingObject:
        pass  # a partial clone: fewer names are known
    return words, defined
