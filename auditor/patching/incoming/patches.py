"""Turns what people carry (diffs, mails, series, folders, scripts) into patches of a patchset.

Everything is read as data and nothing is run. Without a base tree, names are taken as the diff gives them;
with one, the leading folders that a name has too many or too few are found by what is in the tree, and each
change says whether it fits. What is not taken is listed with its reason.
"""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from auditor.errors import UserError
from auditor.patching.diffs.exact import apply_exactly
from auditor.patching.diffs.mails import decoded_mail, is_mail_start, read_prelude
from auditor.patching.diffs.parse import Limits, changes_of
from auditor.patching.diffs.scan import DEFAULT_LIMITS, RawFile, Scan, check_size, scan
from auditor.patching.incoming.names import Layout, choose_naming, raw_path
from auditor.patching.model import ChangeSet, FileChange
from auditor.trees.base import SourceTree
from auditor.trees.names import blob_id
from auditor.trees.overlay import OverlayTree


@dataclass(frozen=True)
class Source:
    """One diff to take: what to call it, its bytes, and what a list says about it.

    ``strip`` is what a list says (``-p2``). It may count from another folder than the top of the tree, so it
    is asked only where names and tree do not answer.
    """

    label: str
    data: bytes
    strip: int | None = None
    exclude: tuple[str, ...] = ()
    directory: str = ""  # put before every name (`git apply --directory`)
    title: str = ""


@dataclass(frozen=True)
class Options:
    """What the person asks for."""

    strip: int | None = None
    exclude: tuple[str, ...] = ()
    allow: tuple[str, ...] = ()
    layout: Layout = field(default_factory=lambda: Layout())
    limits: Limits = DEFAULT_LIMITS


@dataclass(frozen=True)
class Row:
    """What became of one input (or one mail of it). ``left_out`` was not asked for; ``excluded`` was."""

    source: str
    patch: str = ""  # its name in the patchset; "" where nothing was taken
    title: str = ""
    paths: tuple[str, ...] = ()
    hunks: int = 0
    fits: int | None = None  # how many files fit the base exactly; None without a base
    excluded: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Incoming:
    """One patch to be."""

    name: str
    changes: ChangeSet


@dataclass
class Imported:
    """All patches, in order, with a row for every input; ``tree`` is the base with what fits applied."""

    patches: list[Incoming] = field(default_factory=list)
    rows: list[Row] = field(default_factory=list)
    tree: SourceTree | None = None

    @property
    def complete(self) -> bool:
        """Whether nothing was left out that was not excluded by request."""
        return not any(row.left_out for row in self.rows)


def take(sources: Sequence[Source], base: SourceTree | None, options: Options) -> Imported:
    """Take diffs in order. UserError of the diff reader, P030 (nothing in it), P031 (which file?)."""
    out = Imported(tree=base)
    for source in sources:
        check_size(source.data, source.label, options.limits)
        pieces = split_series(decoded_mail(source.data))
        for number, piece in enumerate(pieces, 1):
            label = source.label if len(pieces) == 1 else f"{source.label}#{number}"
            _take_one(out, replace(source, label=label, data=piece), options)
    if not out.patches:
        raise UserError(
            "P030",
            "nothing to import: no input holds a diff",
            place=", ".join(source.label for source in sources[:3]) or None,
            hints=["git format-patch BASE..TIP"],
        )
    return out


def split_series(data: bytes) -> list[bytes]:
    """The mails of a mailbox, or the commits of a ``git log -p``; anything else is one piece."""
    lines = data.split(b"\n")
    starts = [at for at, line in enumerate(lines) if is_mail_start(line)]
    if not starts and re.match(rb"commit [0-9a-f]{40}\b", data):
        starts = [at for at, line in enumerate(lines) if re.match(rb"commit [0-9a-f]{40}\b", line)]
    if len(starts) < 2:
        return [data]
    if b"\n".join(lines[: starts[0]]).strip():
        starts = [0, *starts]
    return [b"\n".join(lines[a:b]) + b"\n" for a, b in zip(starts, [*starts[1:], len(lines)])]


def _take_one(out: Imported, source: Source, options: Options) -> None:
    found = scan(source.data, source.label, options.limits)
    head = read_prelude(found.prelude)
    if not found.files:
        if _is_cover(source):
            out.rows.append(
                Row(source.label, title=head.subject, notes=("a cover letter: it holds no diff",))
            )
        else:
            why = f"no diff in it: {head.subject or 'it is empty'}"
            out.rows.append(Row(source.label, title=head.subject, left_out=(why,)))
        return
    notes = ["its line ends were CRLF"] if found.crlf else []
    if found.cut:
        notes.append("its last line has no end: look whether it was cut off")
    naming = choose_naming(
        found.files, out.tree, options.layout, options.strip, source.directory, source.label,
        hint=source.strip,
    )  # fmt: skip
    notes += naming.notes
    patterns = (*source.exclude, *options.exclude)
    kept: list[tuple[str, RawFile]] = []
    excluded: list[tuple[str, RawFile]] = []
    for raw in found.files:
        path = raw_path(raw, naming, source.label)
        (excluded if path_matches(path, patterns) else kept).append((path, raw))
    left_out = [f"line {line}: {text}: it is not in the patch" for line, text in found.only_in]
    row = Row(
        source.label,
        title=source.title or head.subject,
        excluded=tuple(path for path, _ in excluded),
        left_out=tuple(left_out),
    )
    if not kept:
        out.rows.append(replace(row, notes=(*notes, "all of it is excluded"), left_out=tuple(left_out)))
        return
    groups = _without_repeats([raw for _, raw in kept])
    if len(groups) > 1:
        notes.append(f"a file is changed more than once, so it became {len(groups)} patches")
    for number, group in enumerate(groups):
        changes = changes_of(
            Scan([], group, found.crlf),
            source.label,
            strip=naming.strip,
            git_strip=naming.git_strip,
            prefix=naming.prefix,
            allow=options.allow,
        )
        fitted, tree, more = _fit(changes, out.tree)
        title = source.title or head.subject or _title_of(source.label)
        if number:
            title = f"{title} (part {number + 1})"
        headers = list(head.headers)
        if head.commit and not any(name.lower() == "origin" for name, _ in headers):
            headers.append(("Origin", f"other, commit:{head.commit}"))
        patch = ChangeSet(fitted, title, head.body, head.author, head.date, tuple(headers), head.commit)
        name = unique_name(patch_name(source.label, title), [each.name for each in out.patches])
        out.patches.append(Incoming(name, patch))
        fits = None
        if out.tree is not None:
            fits = len(fitted) - len([note for note in more if note.startswith("does not fit")])
        out.tree = tree
        out.rows.append(
            replace(
                row,
                patch=name,
                title=title,
                paths=tuple(change.path for change in fitted),
                hunks=sum(len(change.hunks) for change in fitted),
                fits=fits,
                notes=(*notes, *more),
                left_out=tuple(left_out) if not number else (),
                excluded=row.excluded if not number else (),
            )
        )
        notes = []


def _is_cover(source: Source) -> bool:
    """The mail 0 of a series, which has no diff by its nature."""
    return re.search(rb"(?m)^Subject: \[[^\]]*\b0+/\d+\]", source.data[:4000]) is not None


def path_matches(path: str, patterns: Sequence[str]) -> bool:
    """Whether a glob fits the whole path, or (without a slash) its last part; ``dir/`` is all below it."""
    for pattern in patterns:
        if pattern.endswith("/") and (path.startswith(pattern) or f"/{pattern}" in f"/{path}"):
            return True
        if fnmatch.fnmatchcase(path, pattern):
            return True
        if "/" not in pattern and fnmatch.fnmatchcase(path.rpartition("/")[2], pattern):
            return True
        if pattern.startswith("**/") and fnmatch.fnmatchcase(path, pattern[3:]):
            return True
    return False


def _without_repeats(files: list[RawFile]) -> list[list[RawFile]]:
    """The files in groups in which none comes twice: concatenated diffs are applied one after the other."""
    groups: list[list[RawFile]] = [[]]
    seen: set[bytes] = set()
    for raw in files:
        names = {raw.new_name, raw.old_name, raw.head, *(raw.renamed or ())} - {None, b"/dev/null", b""}
        known = {name for name in names if name is not None}
        # A file that becomes a link is a removal and an addition: one change of one patch.
        follows = groups[-1] and groups[-1][-1].is_deleted and raw.is_new and groups[-1][-1].head == raw.head
        if known & seen and not follows:
            groups.append([])
            seen = set()
        seen |= known
        groups[-1].append(raw)
    return groups


def _fit(
    changes: Sequence[FileChange], tree: SourceTree | None
) -> tuple[tuple[FileChange, ...], SourceTree | None, list[str]]:
    """The changes with the base's line ends and full blob ids where they fit, and the tree after them."""
    if tree is None:
        return tuple(changes), None, []
    out, notes = [], []
    after: dict[str, bytes | None] = {}
    blobs = tree.blobs()
    for change in changes:
        old = change.old_path
        before = tree.read(old) if old is not None and old in blobs else None
        change, note = _line_ends(change, before)
        if note:
            notes.append(f"{change.path}: {note}")
        result = apply_exactly(change, before)
        if result is None:
            notes.append(_why_not(change, before))
            out.append(change)
            continue
        if (
            change.new_blob
            and change.new_path is not None
            and not blob_id(result).startswith(change.new_blob)
        ):
            notes.append(f"{change.path}: the result is not the file that it names: it was edited or cut off")
        if change.new_path is None:
            after[change.path] = None
        else:
            after[change.new_path] = result
            if change.old_path not in (None, change.new_path) and not change.copied:
                after.setdefault(change.old_path or "", None)
        out.append(
            replace(
                change,
                old_blob=blob_id(before) if before is not None else "",
                new_blob=blob_id(result) if change.new_path is not None else "",
            )
        )
    return tuple(out), OverlayTree(tree, after) if after else tree, notes


def _why_not(change: FileChange, before: bytes | None) -> str:
    if change.old_path is None:
        return f"does not fit: {change.path} is new in it, but the base has such a file"
    if before is None:
        return f"does not fit: the base has no {change.old_path}"
    return f"does not fit the base as it stands: {change.path}"


def _line_ends(change: FileChange, before: bytes | None) -> tuple[FileChange, str]:
    """The change in the line ends of the file it goes to, where that has only one kind of them."""
    if before is None or not change.hunks or b"\n" not in before:
        return change, ""
    lines = [text for hunk in change.hunks for mark, text in hunk.lines if text.endswith(b"\n")]
    with_cr = sum(text.endswith(b"\r\n") for text in lines)
    crs, ends = before.count(b"\r\n"), before.count(b"\n")
    if crs == 0 and lines and with_cr == len(lines):
        return _mapped(change, lambda text: text[:-2] + b"\n"), "taken with LF, as the file has"
    if crs == ends and with_cr == 0:
        return _mapped(change, lambda text: text[:-1] + b"\r\n"), "taken with CRLF, as the file has"
    return change, ""


def _mapped(change: FileChange, turn: Callable[[bytes], bytes]) -> FileChange:
    hunks = tuple(
        replace(
            hunk,
            lines=tuple((mark, turn(text) if text.endswith(b"\n") else text) for mark, text in hunk.lines),
        )
        for hunk in change.hunks
    )
    return replace(change, hunks=hunks)


def patch_name(label: str, title: str) -> str:
    """A name for a patch: its file's without number and ending, else its title in kebab."""
    stem = label.partition("#")[0].rpartition("/")[2]
    stem = re.sub(r"(\.(patch|diff|mbox|eml|txt|py|mail))+$", "", stem, flags=re.IGNORECASE)
    stem = re.sub(r"^\d+[-_.]", "", stem)
    text = title if "#" in label or stem in ("", "patch", "diff", "changes", "-") else stem
    slug = re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")[:60].strip("-")
    return slug or "patch"


def _title_of(label: str) -> str:
    words = patch_name(label, "").replace("-", " ")
    return words[:1].upper() + words[1:]


def unique_name(name: str, taken: Sequence[str]) -> str:
    """``name``, or the same with a number that is free."""
    if name not in taken:
        return name
    return next(f"{name}-{number}" for number in range(2, 10_000) if f"{name}-{number}" not in taken)
