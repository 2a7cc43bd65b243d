"""Which files a target lets a patch write, beyond the rules that every path in a patch obeys.

Checked on the name alone and in one place, so that diffs, structural edits and replaced files are held to
the same rule. Links and letter case on the disk are checked by :mod:`auditor.patching.write`.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Collection, Iterable

from auditor.errors import UserError
from auditor.lazyre import lazy
from auditor.patching.diffs.paths import check_path, plain_name

#: Where records of what was applied lie in a folder without git.
STATE_FOLDER = ".patches-state"

#: Names of a part of a path that belong to other tools or to us.
_FORBIDDEN = {".hg", ".svn", "__pycache__", STATE_FOLDER}
#: Files that make git run or fetch things in whatever folder they lie, and what NTFS calls them for short.
_GIT_FILES = lazy(r"\.gitmodules|\.gitattributes|gitmod~[1-9]|gitatt~[1-9]|(?:gi7eba|gi7d29)~[1-9]")


def check_target_path(path: str, place: str | None = None) -> str:
    """``path`` if a patch may write it; ``UserError`` P004 (no path inside a tree) or P040 otherwise."""
    check_path(path, place)
    for part in path.split("/"):
        name = plain_name(part)
        runs = _GIT_FILES.fullmatch(name) is not None
        if runs or name in _FORBIDDEN or name.startswith(f"{STATE_FOLDER}."):
            why = "makes git run or fetch things" if runs else "is not for patches"
            raise UserError(
                "P040",
                f"a patch names {path!r}, and {part} {why}",
                place=place,
                hints=["take that file out of the patch"],
            )
    return path


def check_no_twins(paths: Iterable[str], among: Iterable[str] = (), place: str | None = None) -> None:
    """``UserError`` P040 if two paths are one on a file system that ignores case or composes letters.

    Folders count as files do: ``a/B/x`` beside ``a/b/y`` is one folder there. ``among`` are paths that are
    there already; they may differ from each other as they like.
    """
    seen: dict[str, str] = {}
    for path in sorted(set(paths)):
        for name in (path, *_above(path)):
            other = seen.setdefault(_folded(name), name)
            if other != name:
                raise _twins(other, name, place)
    folders: set[str] = set()
    for path in among:  # every file of a tree: no call for the plain ones
        other = seen.get(path.casefold() if path.isascii() else _folded(path), path)
        if other != path:
            raise _twins(path, other, place)
        above = path.rpartition("/")[0]
        if above not in folders:
            folders |= {above, *_above(above)}
    for path in sorted(folders):
        other = seen.get(_folded(path), path)
        if other != path:
            raise _twins(path, other, place)


def in_the_way(added: Iterable[str], there: Collection[str]) -> tuple[str, str] | None:
    """A path that is added and one that is there, of which one would be a file and a folder at once."""
    new = sorted(set(added))
    above = {folder: path for path in new for folder in _above(path)}
    for path in new:
        for folder in _above(path):
            if folder in there or folder in new:
                return path, folder
    clash = min((path for path in there if path in above), default=None)
    if clash is not None:
        return above[clash], clash
    tops = tuple(f"{path}/" for path in new)
    inside = min((path for path in there if path.startswith(tops)), default=None) if tops else None
    if inside is not None:
        return next(path for path in new if inside.startswith(f"{path}/")), inside
    return None


def _above(path: str) -> list[str]:
    """The folders a path lies in, innermost first."""
    found = []
    while path := path.rpartition("/")[0]:
        found.append(path)
    return found


def _twins(one: str, other: str, place: str | None) -> UserError:
    return UserError(
        "P040",
        f"{one!r} and {other!r} are the same on some systems",
        place=place,
        hints=["give it the spelling that is there"],
    )


def _folded(text: str) -> str:
    return text.casefold() if text.isascii() else unicodedata.normalize("NFC", text).casefold()
