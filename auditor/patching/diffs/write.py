"""Writes change sets as diffs and patches: the same change set gives the same bytes everywhere."""

from __future__ import annotations

from collections.abc import Iterable

from auditor.patching.diffs import gitbinary
from auditor.patching.diffs.mails import ENDS_PROSE
from auditor.patching.diffs.paths import quote
from auditor.patching.model import ChangeSet, FileChange, Hunk
from auditor.trees.names import blob_id

_ZERO = "From 0000000000000000000000000000000000000000 Mon Sep 17 00:00:00 2001"


def canonical(changes: Iterable[FileChange]) -> tuple[FileChange, ...]:
    """The changes sorted by path, removals before additions of the same path."""
    return tuple(sorted(changes, key=lambda change: (change.path, change.new_path is not None)))


def write_diff(changes: Iterable[FileChange]) -> bytes:
    """A git diff of the changes: sorted, full ids where they are known, no word of how similar files are."""
    out: list[bytes] = []
    for change in canonical(changes):
        _write_file(out, change)
    return b"".join(out)


def _write_file(out: list[bytes], change: FileChange) -> None:
    old, new = change.old_path or change.path, change.path
    names = quote(f"a/{old}"), quote(f"b/{new}")
    out.append(b"diff --git %s %s\n" % names)
    old_blob, new_blob = _blobs(change)
    mode = b""
    if change.old_path is None:
        out.append(b"new file mode %s\n" % (change.new_mode or "100644").encode())
    elif change.new_path is None:
        out.append(b"deleted file mode %s\n" % (change.old_mode or "100644").encode())
    elif change.old_mode != change.new_mode and change.old_mode and change.new_mode:
        out.append(b"old mode %s\nnew mode %s\n" % (change.old_mode.encode(), change.new_mode.encode()))
    elif change.new_mode:
        mode = b" " + change.new_mode.encode()
    if change.old_path and change.new_path and (change.old_path != change.new_path or change.copied):
        word = b"copy" if change.copied else b"rename"
        out.append(b"%s from %s\n%s to %s\n" % (word, quote(old), word, quote(new)))
    is_binary = change.binary is not None or change.binary_old is not None or change.delta is not None
    touched = bool(change.hunks) or is_binary or change.old_path is None or change.new_path is None
    if touched and old_blob and new_blob:
        out.append(b"index %s..%s%s\n" % (old_blob.encode(), new_blob.encode(), mode))
    if is_binary:
        _write_binary(out, change)
    elif change.hunks:
        old_line = names[0] if change.old_path else b"/dev/null"
        new_line = names[1] if change.new_path else b"/dev/null"
        # git ends a name with blanks by a tab, so that no reader takes the rest for a time.
        tabs = [b"\t" if b" " in name and not name.startswith(b'"') else b"" for name in (old_line, new_line)]
        out.append(b"--- %s%s\n+++ %s%s\n" % (old_line, tabs[0], new_line, tabs[1]))
        for hunk in change.hunks:
            _write_hunk(out, hunk)


def _blobs(change: FileChange) -> tuple[str, str]:
    """The two ids of an index line; worked out where the patch holds the whole content."""
    old, new = change.old_blob, change.new_blob
    whole_old, whole_new = change.binary_old, change.binary
    if change.old_path is None and not change.binary:
        whole_new = b"".join(line for hunk in change.hunks for line in hunk.new())
    if change.new_path is None and not change.binary_old and change.delta_old is None:
        whole_old = b"".join(line for hunk in change.hunks for line in hunk.old())
    if whole_old is not None:
        old = blob_id(whole_old)
    if whole_new is not None:
        new = blob_id(whole_new)
    width = max(len(old), len(new), 7)
    return ("0" * width if change.old_path is None else old), (
        "0" * width if change.new_path is None else new
    )


def _write_binary(out: list[bytes], change: FileChange) -> None:
    out.append(b"GIT binary patch\n")
    pairs = (
        (change.binary if change.new_path is not None else b"", change.delta),
        (change.binary_old if change.old_path is not None else b"", change.delta_old),
    )
    for whole, delta in pairs:
        if whole is None and delta is None:
            continue
        lines = gitbinary.write_block(whole if whole is not None else delta or b"")
        if whole is None:
            lines[0] = lines[0].replace(b"literal", b"delta")
        out.extend(line + b"\n" for line in [*lines, b""])


def _write_hunk(out: list[bytes], hunk: Hunk) -> None:
    old = sum(mark != "+" for mark, _ in hunk.lines)
    new = sum(mark != "-" for mark, _ in hunk.lines)
    section = b" " + hunk.section.encode() if hunk.section else b""
    spans = [
        b"%d" % start if count == 1 else b"%d,%d" % (start, count)
        for start, count in ((hunk.old_start, old), (hunk.new_start, new))
    ]
    out.append(b"@@ -%s +%s @@%s\n" % (spans[0], spans[1], section))
    for mark, text in hunk.lines:
        out.append(mark.encode() + text)
        if not text.endswith(b"\n"):
            out.append(b"\n\\ No newline at end of file\n")


def write_patch(changes: ChangeSet, *, mbox: bool = False) -> bytes:
    """The patch with its head: author, date, subject, fields, text, ``---`` and the diff.

    ``mbox`` starts it as ``git format-patch --zero-commit`` does and moves the fields below the text, where
    ``git am`` keeps them. No clock, no name of a program, no statistics.
    """
    # No line of prose may look like what ends it; reading takes the blank off again.
    body = "\n".join(
        f" {line}" if ENDS_PROSE.match(line) else line.rstrip()
        for line in changes.body.strip("\n").split("\n")
    )
    known = ("from", "author", "date", "subject", "description")
    fields = [(name, value) for name, value in changes.headers if name.lower() not in known]
    head: list[str] = [_ZERO] if mbox else []
    for name, value in (("From", changes.author), ("Date", changes.date)):
        if value:
            head.append(f"{name}: {' '.join(value.split())}")
    subject = " ".join(changes.subject.split())
    if subject:
        head.append(f"Subject: {'[PATCH] ' if mbox else ''}{subject}")
    lines = [f"{name}: " + _folded(value) for name, value in fields]
    out = "\n".join(head if mbox else [*head, *lines])
    if body:
        out += f"\n\n{body}"
    if mbox and lines:
        out += "\n\n" + "\n".join(lines)
    if out.strip():
        out = out.lstrip("\n") + "\n---\n"
    return out.encode("utf-8", "surrogateescape") + write_diff(changes.changes)


def _folded(value: str) -> str:
    """A value of several lines as DEP-3 folds it: each further line indented, an empty one as a dot."""
    first, *rest = value.split("\n")
    return "\n".join([first.strip(), *(f" {line.strip() or '.'}" for line in rest)])
