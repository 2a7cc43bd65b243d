"""Which files a target lets a patch write, beyond the rules that every path in a patch obeys.

Checked on the name alone and in one place, so that diffs, structural edits and replaced files are held to
the same rule. Links and letter case on the disk are checked by :mod:`auditor.patching.write`.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable

from auditor.errors import UserError
from auditor.patching.diffpaths import check_path

#: Where records of what was applied lie in a folder without git.
STATE_FOLDER = ".patches-state"

#: Names of a part of a path that belong to other tools or to us.
_FORBIDDEN = {".hg", ".svn", "__pycache__", STATE_FOLDER}
#: Files that make git run or fetch things in whatever folder they lie.
_GIT_FILES = {".gitmodules", ".gitattributes"}


def check_target_path(path: str, place: str | None = None) -> str:
    """``path`` if a patch may write it; ``UserError`` P004 (no path inside a tree) or P040 otherwise."""
    check_path(path, place)
    for part in path.split("/"):
        name = _folded(part.rstrip(". "))
        if name in _FORBIDDEN or name in _GIT_FILES or name.startswith(f"{STATE_FOLDER}."):
            why = "makes git run or fetch things" if name in _GIT_FILES else "is not for patches"
            raise UserError("P040", f"a patch names {path!r}, and {part} {why}", place=place)
    return path


def check_no_twins(paths: Iterable[str], among: Iterable[str] = ()) -> None:
    """``UserError`` P040 if two paths are one on a file system that ignores case or composes letters.

    ``among`` are paths that are there already; they may differ from each other as they like.
    """
    seen: dict[str, str] = {}
    for path in sorted(set(paths)):
        other = seen.setdefault(_folded(path), path)
        if other != path:
            raise _twins(other, path)
    for path in among:  # every file of a tree: no call for the plain ones
        other = seen.get(path.casefold() if path.isascii() else _folded(path), path)
        if other != path:
            raise _twins(path, other)


def _twins(one: str, other: str) -> UserError:
    return UserError(
        "P040", f"{one!r} and {other!r} are the same file on some systems", hints=["correct the patch"]
    )


def _folded(text: str) -> str:
    return text.casefold() if text.isascii() else unicodedata.normalize("NFC", text).casefold()
