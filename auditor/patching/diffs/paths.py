"""Names of files in a diff: unquoting, stripping of leading folders, and which paths are refused.

A path out of a patch is input from a stranger. It may only name a place inside the tree: nothing absolute,
no ``..``, no control characters, and nothing that some file system would take for ``.git``.
"""

from __future__ import annotations

import re
import unicodedata

from auditor.errors import UserError
from auditor.lazyre import lazy

_MAX_PATH = 4096
_MAX_NAME = 255
#: Characters that HFS+ ignores in names, so that ``.g<ZWNJ>it`` is ``.git`` there (the list git keeps too).
_IGNORED = dict.fromkeys([*range(0x200C, 0x2010), *range(0x202A, 0x202F), *range(0x206A, 0x2070), 0xFEFF])
#: Categories of characters that leave no mark, or turn the writing: two names would read as one.
_UNSEEN = {"Cf", "Zl", "Zp"}
_ESCAPES = {
    ord("a"): 7, ord("b"): 8, ord("t"): 9, ord("n"): 10, ord("v"): 11, ord("f"): 12, ord("r"): 13,
    ord('"'): ord('"'), ord("\\"): ord("\\"),
}  # fmt: skip
#: Pairs of prefixes that git writes before the two names (``diff.mnemonicPrefix`` included).
_PREFIXES = {"a": "b", "b": "a", "i": "w", "w": "i", "c": "iw", "o": "w", "1": "2", "2": "1"}
#: What editors and people append to the copy they keep.
_BACKUP = lazy(r"(?:\.(?:orig|bak|old|backup|org|new|patched|fixed)\d*|~)$")


def check_path(path: str, place: str | None = None) -> str:
    """``path`` as it stands, if it names a place inside a tree; else UserError P004."""

    def refuse(why: str) -> UserError:
        shown = path if len(path) <= 200 else path[:200] + "…"
        return UserError(
            "P004",
            f"the path {shown!r} {why}",
            place=place,
            hints=["correct the name in the patch, or take that file out of it"],
        )

    if not path or len(path) > _MAX_PATH:
        raise refuse("is empty" if not path else "is too long")
    if any(ord(char) < 32 or 127 <= ord(char) < 160 for char in path):
        raise refuse("holds a control character")
    if path[0] == "/" or re.match(r"[A-Za-z]:", path) or path.startswith("\\"):
        raise refuse("is absolute; a patch names files from the top of the tree")
    if "\\" in path:
        raise refuse("holds a backslash; names are separated by /")
    for part in path.split("/"):
        if part in ("", ".", ".."):
            raise refuse("leaves the tree" if part == ".." else "has an empty or `.` part")
        if len(part.encode("utf-8", "surrogateescape")) > _MAX_NAME:
            raise refuse("has a part that is too long")
        if is_dot_git(part):
            raise refuse("lies in .git")
    if not path.isascii() and any(unicodedata.category(char) in _UNSEEN for char in path):
        raise refuse("holds a character that cannot be seen")
    return path


def is_dot_git(part: str) -> bool:
    """Whether some file system takes this name for ``.git``: case, trailing dots, short names, ignorables."""
    return plain_name(part) in (".git", "git~1")


def plain_name(part: str) -> str:
    """The name that some file system takes this one for, without case: what it drops or ignores left out.

    HFS+ ignores some characters and composes letters; NTFS ends a name at a stream's colon and drops dots
    and spaces at its end.
    """
    if not part.isascii():
        part = unicodedata.normalize("NFC", part.translate(_IGNORED))
    return part.casefold().split(":")[0].rstrip(". ")


def unquote(raw: bytes, place: str | None = None) -> bytes:
    """A name as git quotes it (``"a/\\303\\244"``) as its bytes; an unquoted name as it is."""
    if not raw.startswith(b'"'):
        return raw
    out, end = unquote_prefix(raw, place)
    if end != len(raw):
        raise UserError("P002", "text after a quoted name", place=place)
    return out


def unquote_prefix(raw: bytes, place: str | None = None) -> tuple[bytes, int]:
    """The bytes of the quoted name that ``raw`` starts with, and where it ends."""
    out = bytearray()
    at = 1
    while at < len(raw):
        char = raw[at]
        if char == ord('"'):
            return bytes(out), at + 1
        if char != ord("\\"):
            out.append(char)
            at += 1
            continue
        follow = raw[at + 1 : at + 2]
        octal = re.match(rb"[0-3][0-7]{2}", raw[at + 1 : at + 4])
        if octal:
            out.append(int(octal[0], 8))
            at += 4
        elif follow and follow[0] in _ESCAPES:
            out.append(_ESCAPES[follow[0]])
            at += 2
        else:
            break
    raise UserError("P002", "a quoted name that does not end or holds an unknown escape", place=place)


def quote(path: str) -> bytes:
    """A name as git writes it with ``core.quotePath=true``: quoted only where needed."""
    raw = path.encode("utf-8", "surrogateescape")
    if re.fullmatch(rb"[\x20\x21\x23-\x5b\x5d-\x7e]+", raw):
        return raw
    back = {value: key for key, value in _ESCAPES.items()}
    out = bytearray(b'"')
    for byte in raw:
        if byte in back:
            out += b"\\" + bytes([back[byte]])
        elif byte < 32 or byte >= 127:
            out += b"\\%03o" % byte
        else:
            out.append(byte)
    return bytes(out + b'"')


def decode(raw: bytes, place: str | None = None) -> str:
    """The text of a name. UserError P004 where it is not UTF-8."""
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError:
        raise UserError("P004", f"the path {raw[:200]!r} is not UTF-8", place=place) from None


def strip_parts(name: str, count: int, *, exact: bool = False) -> str | None:
    """``name`` without its first ``count`` parts, as ``patch -p`` strips; None where there are not so many.

    An absolute name has an empty first part. ``diff -r one/ two/`` doubles a slash; ``exact`` keeps it, for
    names that git wrote.
    """
    parts = name.split("/") if exact else re.split(r"/+", name)
    return "/".join(parts[count:]) if count < len(parts) else None


def without_backup(name: str) -> str:
    """The name without the ending that a kept copy got (``.orig``, ``.bak``, ``~``)."""
    return _BACKUP.sub("", name)


def git_strip(old: str, new: str) -> int:
    """How many leading parts of a pair of names in a git diff are git's own: 1 for ``a/ b/``, else 0.

    Both names the same means ``--no-prefix``: with prefixes they differ.
    """
    first, second = old.split("/")[0], new.split("/")[0]
    return 1 if "/" in old and "/" in new and second in tuple(_PREFIXES.get(first, "")) else 0
