"""From the bytes of a patch to a :class:`ChangeSet` and back; every part of the patch manager uses these two.

Reading is strict and exact. A patch that leaves the tree, lies about its counts, holds conflict markers or
changes what its head does not say is refused with a code and a place; nothing is repaired in silence.
Writing is canonical: the same change set gives the same bytes, whatever git wrote it first.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable

from auditor.errors import UserError
from auditor.lazyre import lazy
from auditor.patching.diffs import gitbinary
from auditor.patching.diffs.mails import decoded_mail, read_prelude
from auditor.patching.diffs.paths import (
    check_path,
    decode,
    git_strip,
    strip_parts,
    unquote_prefix,
    without_backup,
)
from auditor.patching.diffs.scan import DEFAULT_LIMITS, Limits, RawFile, Scan, check_size, scan
from auditor.patching.model import ChangeSet, FileChange
from auditor.trees.names import blob_id

__all__ = [
    "DEFAULT_LIMITS", "OPT_IN", "Limits", "binary_after", "binary_before", "changes_of", "git_names",
    "parse_patch", "plain_absent", "plain_names", "plain_strips", "same_file",
]  # fmt: skip

#: What a patch may only do where its owner says so: change modes, make or change symbolic links, and add
#: lines that look like markers of an unsolved merge.
OPT_IN = ("modes", "symlinks", "markers")
_FILE_MODES = {"100644": "100644", "100755": "100755", "100664": "100644"}
_EMPTY = blob_id(b"")
_MARKER = lazy(rb"(?:<{7}|>{7}|\|{7})(?: .*)?\r?\n?")


def parse_patch(
    data: bytes,
    name: str = "",
    *,
    strip: int | None = None,
    allow: Collection[str] = (),
    limits: Limits = DEFAULT_LIMITS,
) -> ChangeSet:
    """One patch: a git diff, a mail with one, a ``git show``, or a unified diff, with prose before it.

    ``strip`` is how many leading parts of names to take off; None takes off ``a/`` and ``b/`` where git put
    them, and in a plain diff as few parts as make both names of a file equal. ``allow`` holds what of
    :data:`OPT_IN` the patch may do.

    UserError P001 (no diff), P002 (malformed), P003 (too large), P004 (a path that is refused), P005 (a mode
    or link without opt-in), P006 (conflict markers), P007 (binary), P008 (one file twice), P009 (a merge).
    """
    check_size(data, name, limits)
    found = scan(decoded_mail(data), name, limits)
    if not found.files:
        raise UserError(
            "P001",
            "no diff in it" if data.strip() else "the patch is empty",
            place=name or None,
            hints=["git diff --full-index --binary BASE..TIP > my.patch"],
        )
    head = read_prelude(found.prelude)
    return ChangeSet(
        changes=changes_of(found, name, strip=strip, git_strip=strip, allow=allow),
        subject=head.subject,
        body=head.body,
        author=head.author,
        date=head.date,
        headers=tuple(head.headers),
        commit=head.commit,
    )


def changes_of(
    found: Scan,
    name: str = "",
    *,
    strip: int | None = None,
    git_strip: int | None = None,
    prefix: str = "",
    allow: Collection[str] = (),
) -> tuple[FileChange, ...]:
    """The files of a scanned patch as changes, checked against each other.

    ``strip`` is for plain diffs, ``git_strip`` for git's; None as in :func:`parse_patch`. ``prefix`` is put
    before every name afterwards.
    """
    shown = name or "patch"
    if strip is None:
        counts = plain_strips(found.files)
        strip = counts[0] if counts else 0
    out: list[FileChange] = []
    for raw in found.files:
        count = git_strip if raw.git else strip
        out.append(_change(raw, count, prefix, f"{shown}:{raw.line}", frozenset(allow)))
    _check_together(out, found.files, shown)
    return tuple(out)


def plain_strips(files: Iterable[RawFile]) -> list[int]:
    """How many leading parts can be taken off the names of plain diffs so that each pair names one file.

    Ascending; the first is the least. Empty where no number fits all files.
    """
    pairs = [plain_names(raw) for raw in files if not raw.git]
    both = [(old, new) for old, new in pairs if old is not None and new is not None]
    one = [old or new or "" for old, new in pairs if old is None or new is None]
    fitting = [
        count
        for count in range(20)
        if all(same_file(old, new, count) for old, new in both)
        and all(strip_parts(text, count) is not None for text in one)
    ]
    if not both and one and all(text.startswith(("a/", "b/")) for text in one):
        fitting = [count for count in fitting if count >= 1]
    return fitting


def plain_names(raw: RawFile) -> tuple[str | None, str | None]:
    """Both names of a plain diff as written; None for ``/dev/null``."""
    return tuple(  # type: ignore[return-value]
        None if name is None or name == b"/dev/null" else decode(name, None)
        for name in (raw.old_name, raw.new_name)
    )


def plain_absent(raw: RawFile) -> tuple[bool, bool]:
    """Whether there is no file before, and none after: ``/dev/null``, or what ``diff -N`` writes for that."""
    sides = ((raw.old_name, raw.old_time, "old"), (raw.new_name, raw.new_time, "new"))
    return tuple(_absent(name, stamp, raw, side) for name, stamp, side in sides)  # type: ignore[return-value]


def _absent(name: bytes | None, stamp: str, raw: RawFile, side: str) -> bool:
    if name is None or name == b"/dev/null":
        return True
    # `diff -N` shows an absent file as an empty one from the start of time.
    if not re.match(r"1970-01-01|1969-12-31", stamp) or len(raw.hunks) != 1:
        return False
    hunk = raw.hunks[0]
    return not (hunk.old() if side == "old" else hunk.new())


def same_file(old: str, new: str, count: int) -> str | None:
    """The one name of both sides after stripping, endings of backups ignored; None where they are two."""
    left, right = strip_parts(old, count), strip_parts(new, count)
    if not left or not right:
        return None
    if left == right:
        return left
    if without_backup(left) == right:
        return right
    return left if without_backup(right) == left else None


def _git_count(raw: RawFile, place: str) -> int:
    if raw.old_name and raw.new_name and b"/dev/null" not in (raw.old_name, raw.new_name):
        return git_strip(decode(raw.old_name, place), decode(raw.new_name, place))
    head = _head_names(raw, place)
    if head is not None:
        return git_strip(*head)
    name = next((each for each in (raw.new_name, raw.old_name) if each and each != b"/dev/null"), b"")
    return 1 if name.startswith((b"a/", b"b/")) else 0


def _head_names(raw: RawFile, place: str) -> tuple[str, str] | None:
    """The two names of a ``diff --git`` line; None where blanks leave more than one way to read it."""
    head = raw.head
    if head.startswith(b'"'):
        old, end = unquote_prefix(head, place)
        rest = head[end + 1 :]
        new = unquote_prefix(rest, place)[0] if rest.startswith(b'"') else rest
        return decode(old, place), decode(new, place)
    if head.endswith(b'"') and b' "' in head:
        at = head.index(b' "')
        return decode(head[:at], place), decode(unquote_prefix(head[at + 1 :], place)[0], place)
    words = head.split(b" ")
    if len(words) == 2:
        return decode(words[0], place), decode(words[1], place)
    # With blanks in names only the same name twice can be read; both sides are then of equal length.
    middle = len(head) // 2
    old, new = head[:middle], head[middle + 1 :]
    same = old.partition(b"/")[2] == new.partition(b"/")[2]
    return (decode(old, place), decode(new, place)) if head[middle : middle + 1] == b" " and same else None


def _change(raw: RawFile, count: int | None, prefix: str, place: str, allow: frozenset[str]) -> FileChange:
    old, new = git_names(raw, count, place) if raw.git else _plain_paths(raw, count or 0, place)
    old = None if old is None else prefix + _checked(old, place, raw)
    new = None if new is None else prefix + _checked(new, place, raw)
    old_mode, new_mode = _modes(raw, place, allow)
    if raw.binary_missing:
        raise UserError(
            "P007",
            f"the binary file {new or old} is named, but its content is not in the patch",
            place=place,
            hints=["git diff --binary --full-index BASE..TIP > my.patch"],
        )
    _check_sides(raw, old, new, place)
    if "markers" not in allow:
        _check_markers(raw, place)
    binary, delta = _binary_side(raw.binary, raw.binary_old, place)
    before, delta_old = _binary_side(raw.binary_old, raw.binary, place)
    if raw.binary is not None and old is None and (delta is not None or raw.binary[0] == "delta"):
        raise UserError("P007", "a new file as a delta against nothing", place=place)
    if raw.binary is not None and raw.old_blob and before is not None:
        _check_blob(before, raw.old_blob, place)
    if binary is not None and raw.new_blob:
        _check_blob(binary, raw.new_blob, place)
    return FileChange(
        old_path=old,
        new_path=new,
        hunks=tuple(raw.hunks),
        old_blob=raw.old_blob,
        new_blob=raw.new_blob,
        old_mode=old_mode,
        new_mode=new_mode,
        binary=None if new is None else binary,
        binary_old=None if old is None else before,
        delta=delta,
        delta_old=delta_old,
        copied=raw.copied is not None,
    )


def _checked(path: str, place: str, raw: RawFile) -> str:
    try:
        return check_path(path, place)
    except UserError as error:
        if not raw.git and path.startswith("/"):
            error.hints = ("patches import PATCH --base REV", "patches import PATCH --strip NUMBER")
        raise


def git_names(raw: RawFile, count: int | None, place: str) -> tuple[str | None, str | None]:
    """Both paths of a file of a git diff, ``count`` parts off (None: git's prefix); None for no such side.

    UserError P002, P004.
    """
    if count is None:
        count = _git_count(raw, place)

    def stripped(name: bytes, parts: int) -> str:
        text = strip_parts(decode(name, place), parts, exact=True)
        if text is None:
            raise UserError("P004", f"the path {name!r} has fewer than {parts + 1} parts", place=place)
        return text

    pair = raw.renamed or raw.copied
    if pair:
        # git strips these by one part less: they carry no a/ and b/.
        old, new = (stripped(name, max(count - 1, 0)) for name in pair)
        for shown, path in ((raw.old_name, old), (raw.new_name, new)):
            if shown is not None and stripped(shown, count) != path:
                raise UserError(
                    "P002", f"two names of one side, {path} and {stripped(shown, count)}", place=place
                )
    elif raw.old_name is not None and raw.new_name is not None:
        sides = [
            None if name == b"/dev/null" else stripped(name, count) for name in (raw.old_name, raw.new_name)
        ]
        known = sides[0] or sides[1]
        if known is None:
            raise UserError("P002", "both sides are /dev/null", place=place)
        old, new = sides[0] or known, sides[1] or known
        if (sides[0] is None and not raw.is_new) or (sides[1] is None and not raw.is_deleted):
            # Some tools leave out `new file mode` and say it by /dev/null alone.
            raw.is_new, raw.is_deleted = sides[0] is None, sides[1] is None
    else:
        head = _head_names(raw, place)
        if head is None:
            raise UserError("P002", "the names in this line can be read in more than one way", place=place)
        old, new = (stripped(name.encode(), count) for name in head)
    if old != new and not pair:
        check_path(old, place)
        check_path(new, place)
        raise UserError("P002", f"two names, {old} and {new}, but no rename is said", place=place)
    if raw.is_new and raw.is_deleted:
        raise UserError("P002", f"{new} is new and deleted at once", place=place)
    return (None if raw.is_new else old), (None if raw.is_deleted else new)


def _plain_paths(raw: RawFile, count: int, place: str) -> tuple[str | None, str | None]:
    old, new = plain_names(raw)
    no_old, no_new = plain_absent(raw)
    if no_old and no_new:
        raise UserError("P002", "neither a file before nor one after", place=place)
    if old is None or new is None:
        path = strip_parts(old or new or "", count)
        if path is None:
            raise UserError("P004", f"the path {old or new} has fewer than {count + 1} parts", place=place)
    else:
        path = same_file(old, new, count)
        if path is None:
            raise UserError(
                "P002",
                f"two names, {old} and {new}, that are not one file without their first {count} parts",
                place=place,
                hints=["patches import PATCH --strip NUMBER"],
            )
    return (None if no_old else path), (None if no_new else path)


def _modes(raw: RawFile, place: str, allow: frozenset[str]) -> tuple[str, str]:
    shown: list[str] = []
    for mode in (raw.old_mode, raw.new_mode):
        if mode == "160000":
            raise UserError("P005", "a change of a submodule, which is not content of this tree", place=place)
        if mode == "120000" and "symlinks" not in allow:
            raise UserError("P005", "a symbolic link, which could lead out of the tree", place=place, hints=(
                "patches import PATCH --allow symlinks",
                "or, in a patchset, `allow: [symlinks]` below `policy:` in patchset.yaml",
            ))  # fmt: skip
        if mode and mode != "120000" and mode not in _FILE_MODES:
            raise UserError("P005", f"mode {mode} is not one of a file: 100644 or 100755", place=place)
        shown.append(_FILE_MODES.get(mode, mode))
    old, new = shown
    if old and new and old != new and "modes" not in allow:
        raise UserError("P005", f"a change of mode, {old} to {new}", place=place, hints=(
            "patches import PATCH --allow modes",
            "or, in a patchset, `allow: [modes]` below `policy:` in patchset.yaml",
        ))  # fmt: skip
    return old, new


def _check_sides(raw: RawFile, old: str | None, new: str | None, place: str) -> None:
    """A new file has no lines before, a deleted one none after."""
    for at, hunk in zip(raw.hunk_lines, raw.hunks):
        where = place.rpartition(":")[0] + f":{at}"
        if old is None and hunk.old():
            raise UserError("P002", f"{new} is new, but lines of it are kept or removed", place=where)
        if new is None and hunk.new():
            raise UserError("P002", f"{old} is deleted, but lines of it are kept or added", place=where)
    if (old is None or new is None) and len(raw.hunks) > 1:
        raise UserError("P002", "a new or deleted file in more than one hunk", place=place)
    if not raw.hunks and raw.binary is None and not _may_be_empty(raw, old, new):
        raise UserError(
            "P002",
            f"{new or old} changes, but the change is not here: the patch was cut off",
            place=place,
            hints=["get the patch again, whole"],
        )
    if old is not None and new is not None and old == new and not raw.hunks and raw.binary is None:
        if raw.old_mode == raw.new_mode:
            raise UserError("P002", f"nothing about {new} is changed", place=place)


def _may_be_empty(raw: RawFile, old: str | None, new: str | None) -> bool:
    """Whether a change without content can be whole: of a mode or a name, or of an empty file."""
    if old is None or new is None:
        blob = raw.new_blob if old is None else raw.old_blob
        return bool(blob) and _EMPTY.startswith(blob)
    return raw.old_blob == raw.new_blob


def _check_markers(raw: RawFile, place: str) -> None:
    for at, hunk in zip(raw.hunk_lines, raw.hunks):
        for offset, (mark, text) in enumerate(hunk.lines, 1):
            if mark == "+" and text[:1] in (b"<", b">", b"|") and _MARKER.fullmatch(text):
                shown = text[:40].decode("utf-8", "replace").strip()
                raise UserError(
                    "P006",
                    f"an added line is a marker of an unsolved merge: {shown}",
                    place=place.rpartition(":")[0] + f":{at + offset}",
                    hints=["solve the merge in the tree it came from, then make the diff again"],
                )


def _binary_side(
    block: tuple[str, bytes] | None, other: tuple[str, bytes] | None, place: str
) -> tuple[bytes | None, bytes | None]:
    """Whole content and delta of one side; a delta against the literal of the other side is worked out."""
    if block is None:
        return None, None
    kind, data = block
    if kind == "literal":
        return data, None
    if other is not None and other[0] == "literal":
        return gitbinary.apply_delta(other[1], data, DEFAULT_LIMITS.binary, place), None
    return None, data


def _check_blob(data: bytes, blob: str, place: str) -> None:
    if not gitbinary.matches(data, blob):
        raise UserError(
            "P007",
            f"the binary content is not the blob {blob} that the patch names",
            place=place,
            hints=["git diff --binary --full-index BASE..TIP > my.patch"],
        )


def _check_together(changes: list[FileChange], raws: list[RawFile], shown: str) -> None:
    written: dict[str, RawFile] = {}
    removed: dict[str, RawFile] = {}
    for change, raw in zip(changes, raws):
        if change.new_path is not None:
            first = written.setdefault(change.new_path, raw)
            if first is not raw:
                raise _twice(change.new_path, first, raw, shown)
        gone = change.old_path if change.old_path != change.new_path and not change.copied else None
        if gone is not None:
            first = removed.setdefault(gone, raw)
            if first is not raw:
                raise _twice(gone, first, raw, shown)
    for path in written.keys() & removed.keys():
        # A file that becomes a link is written as a removal and an addition; anything else is a loop.
        if written[path].is_new is False and written[path].renamed is None:
            raise _twice(path, removed[path], written[path], shown)


def _twice(path: str, first: RawFile, second: RawFile, shown: str) -> UserError:
    return UserError(
        "P008",
        f"{path} is changed twice in one patch, in lines {first.line} and {second.line}",
        place=f"{shown}:{second.line}",
        hints=["make two patches of it; they are applied in order"],
    )


def binary_after(change: FileChange, before: bytes | None) -> bytes:
    """The content after a binary change, given the one before. UserError P007 where it does not fit."""
    if change.binary is not None:
        return change.binary
    if change.delta is None or before is None:
        raise UserError("P007", f"no binary content for {change.path}")
    if not gitbinary.matches(before, change.old_blob):
        raise UserError("P007", f"{change.path} is not the file that the binary delta was made for")
    return gitbinary.apply_delta(before, change.delta, DEFAULT_LIMITS.binary)


def binary_before(change: FileChange, after: bytes | None) -> bytes:
    """The content before a binary change, given the one after. UserError P007 where it does not fit."""
    if change.binary_old is not None:
        return change.binary_old
    if change.delta_old is None or after is None:
        raise UserError("P007", f"the binary change of {change.path} cannot be reversed")
    if not gitbinary.matches(after, change.new_blob):
        raise UserError("P007", f"{change.path} is not the file that the binary delta was made for")
    return gitbinary.apply_delta(after, change.delta_old, DEFAULT_LIMITS.binary)
