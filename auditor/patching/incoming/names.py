"""Which file of the tree is meant by a name in somebody's diff.

A name may carry git's ``a/``, the folders of another machine (``/usr/lib/python3/site-packages/…``), the
top folder of an unpacked archive, or lack the folder that an installed copy does not have. The tree decides;
where it cannot, nothing is guessed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from auditor.errors import UserError
from auditor.patching.diffs.lines import split_lines
from auditor.patching.diffs.parse import git_names, plain_absent, plain_names, plain_strips, same_file
from auditor.patching.diffs.paths import check_path, decode, strip_parts
from auditor.patching.diffs.scan import RawFile
from auditor.trees.base import SourceTree, TreeInfo

_DEEPEST = 14


@dataclass(frozen=True)
class Layout:
    """How the project lies in a repository and when installed, from its profile.

    ``roots`` are the folders of the repository that an installed copy does not have (``python``), ``package``
    the top folder of an installed copy. ``places`` are folders that lie elsewhere there: (in the repository,
    in an installed copy); ``installed`` tells from the paths of a tree which of the two it is.
    """

    roots: tuple[str, ...] = ()
    package: str = ""
    places: tuple[tuple[str, str], ...] = ()
    installed: Callable[[Iterable[str]], bool] | None = None


@dataclass(frozen=True)
class Naming:
    """How names of one patch become paths: parts off the front, then a folder before them."""

    strip: int  # of plain diffs
    git_strip: int | None = None  # of git diffs; None: git's own prefix
    prefix: str = ""
    notes: tuple[str, ...] = ()


def raw_path(raw: RawFile, naming: Naming, label: str) -> str:
    """The path that a file of the patch gets."""
    place = f"{label}:{raw.line}"
    if raw.git:
        old, new = git_names(raw, naming.git_strip, place)
        path = new or old
    else:
        path = _plain_path(raw, naming.strip) or ""
    return naming.prefix + (path or "")


def _plain_path(raw: RawFile, count: int) -> str | None:
    old, new = plain_names(raw)
    if old is None or new is None:
        return strip_parts(old or new or "", count)
    return same_file(old, new, count)


def choose_naming(
    files: Sequence[RawFile],
    tree: SourceTree | None,
    layout: Layout,
    strip: int | None,
    directory: str,
    label: str,
    *,
    hint: int | None = None,
) -> Naming:
    """How the names of this patch are meant. UserError P031 where more than one way fits, or none."""
    prefix = directory.strip("/") + "/" if directory.strip("/") else ""
    if strip is not None:
        return Naming(strip, strip, prefix)
    try:
        if tree is not None:
            return _by_tree(files, tree, layout, prefix, label)
        return _by_names(files, layout, prefix, label)
    except UserError:
        if hint is None:
            raise
        return Naming(hint, hint, prefix, (f"{hint} leading folders taken off its names, as the list says",))


def _by_tree(files: Sequence[RawFile], tree: SourceTree, layout: Layout, prefix: str, label: str) -> Naming:
    """The one way in which the tree has every file that is changed, and the lines that it changes."""
    paths = set(tree.blobs())
    prefixes = [prefix] if prefix else ["", *(f"{root}/" for root in layout.roots)]
    ways: dict[tuple[str, ...], Naming] = {}
    fresh: dict[tuple[str, ...], tuple[int, int, Naming]] = {}
    folders = {path.rpartition("/")[0] for path in paths}
    best = 0
    for before in prefixes:
        if ways:
            break  # a folder is put before the names only where they lead nowhere without it
        for git, plain in _counts(files):
            naming = Naming(plain, git, before)
            named = _names_of(files, naming, label)
            if named is None:
                continue
            there = sum(path in paths for path, existing in named if existing)
            wanted = sum(existing for _, existing in named)
            new = tuple(path for path, _ in named)
            if wanted and there == wanted:
                ways.setdefault(new, naming)
            elif not wanted and (rank := _folders_known(new, folders)):
                fresh.setdefault(new, (rank, sum(path.count("/") for path in new), naming))
            best = max(best, there)
    if fresh:
        # Of new files only: names as written, if the tree has a folder for them; else the longest that lie in
        # the package. Whatever would have to be shortened further is taken as it is written, or refused.
        plainly = tuple(path for path, _ in _names_of(files, _as_written(files, prefix), label) or ())
        if all(raw.git for raw in files):
            for path, raw in zip(plainly, files, strict=False):
                check_path(path, f"{label}:{raw.line}")
        inside = {
            named: row
            for named, row in fresh.items()
            if not layout.package or all(_package_at(f"x/{path}", layout) for path in named)
        }
        fresh = {plainly: fresh[plainly]} if plainly in fresh else inside
    if fresh:
        best_rank = max(row[:2] for row in fresh.values())
        ways = {named: row[2] for named, row in fresh.items() if row[:2] == best_rank}
    if not ways and best:
        # Not every file is there. Only names that need no help are taken then.
        naming = _as_written(files, prefix)
        named = _names_of(files, naming, label)
        if named and any(path in paths for path, existing in named if existing):
            return _with_notes(naming)
    if not ways:
        if all(raw.git for raw in files):
            return _with_notes(Naming(0, None, prefix))
        raise _unclear(files, "the base has none of its files under any name", label)
    if len(ways) > 1:
        as_written = tuple(path for path, _ in _names_of(files, _as_written(files, prefix), label) or ())
        if as_written in ways:
            return _with_notes(ways[as_written])
        standing = {way: _standing(files, way, tree, label) for way in ways.values()}
        most = [way for way, count in standing.items() if count == max(standing.values())]
        if len(most) == 1:
            return _with_notes(most[0])
        raise _unclear(files, f"the base has its files under {len(ways)} names", label)
    (naming,) = ways.values()
    return _with_notes(naming)


def _as_written(files: Sequence[RawFile], prefix: str) -> Naming:
    """Names with no more taken off than git's prefix, or what makes both names of a pair equal."""
    return Naming(min(plain_strips([raw for raw in files if not raw.git]) or [0]), None, prefix)


def _with_notes(naming: Naming) -> Naming:
    notes = []
    count = max(naming.strip, naming.git_strip or 0)
    if count > 1:
        notes.append(f"{count} leading folders taken off its names")
    if naming.prefix:
        notes.append(f"{naming.prefix} put before its names")
    return Naming(naming.strip, naming.git_strip, naming.prefix, tuple(notes))


class RepositoryView:
    """An installed copy under the names that its files have in the repository."""

    def __init__(self, base: SourceTree, root: str, places: Sequence[tuple[str, str]] = ()) -> None:
        self.base = base
        self.root = f"{root}/" if root else ""
        self._places = [(f"{there}/", f"{here}/") for there, here in places]
        self._names = {self.named(path): path for path in base.blobs()}

    @classmethod
    def of(cls, tree: SourceTree, layout: Layout) -> SourceTree:
        """``tree`` itself if it is laid out as the repository is, else a view of it."""
        blobs = tree.blobs()
        roots = [f"{root}/" for root in layout.roots if root]
        if roots and not any(path.startswith(tuple(roots)) for path in blobs):
            return cls(tree, layout.roots[0], layout.places)
        if not roots and layout.places and layout.installed is not None and layout.installed(blobs):
            return cls(tree, "", layout.places)
        return tree

    def named(self, path: str) -> str:
        """The name in the repository of a path of the installed copy."""
        for there, here in self._places:
            if path.startswith(here):
                return there + path[len(here) :]
        return self.root + path

    def info(self) -> TreeInfo:
        return self.base.info()

    def blobs(self) -> Mapping[str, str]:
        below = self.base.blobs()
        return dict(sorted((name, below[path]) for name, path in self._names.items()))

    def read(self, path: str) -> bytes:
        return self.base.read(self._names[path])

    def read_many(self, paths: Iterable[str]) -> Iterator[tuple[str, bytes]]:
        for path in paths:
            yield path, self.read(path)

    def local_path(self, path: str) -> str | None:
        return self.base.local_path(self._names[path]) if path in self._names else None


def _counts(files: Sequence[RawFile]) -> list[tuple[int | None, int]]:
    """Ways to strip: (of git diffs, of plain ones), what needs no help first."""
    plain = [raw for raw in files if not raw.git]
    if not plain:
        return [(None, 0), *((count, 0) for count in range(_DEEPEST))]
    counts = plain_strips(plain)[:_DEEPEST]
    return [(None, count) for count in counts]


def _names_of(files: Sequence[RawFile], naming: Naming, label: str) -> list[tuple[str, bool]] | None:
    """(path, whether the base has to have it) of each file; None where a name is too short for it."""
    out = []
    for raw in files:
        if raw.git:
            try:
                old, new = git_names(raw, naming.git_strip, label)
            except UserError:
                return None
            path = old or new
            existing = old is not None
        else:
            path = _plain_path(raw, naming.strip)
            existing = not plain_absent(raw)[0] and not _only_adds(raw)
        if not path:
            return None
        out.append((naming.prefix + path, existing))
    return out


def _only_adds(raw: RawFile) -> bool:
    """A plain diff whose only hunk has no line before it: the file may be new."""
    return len(raw.hunks) == 1 and raw.hunks[0].old_start == 0 and not raw.hunks[0].old()


def _folders_known(new: Sequence[str], folders: set[str]) -> int:
    """For a patch of new files only: 2 where the tree has the folder of each, 1 where it has those above."""
    parents = [path.rpartition("/")[0] for path in new]
    if all(parent in folders for parent in parents):
        return 2
    return int(all(parent in folders or parent.rpartition("/")[0] in folders for parent in parents))


def _standing(files: Sequence[RawFile], naming: Naming, tree: SourceTree, label: str) -> int:
    """How many hunks find their old lines where they say, with names read this way."""
    count = 0
    for raw in files:
        path = raw_path(raw, naming, label)
        if path not in tree.blobs():
            continue
        lines = split_lines(tree.read(path).replace(b"\r\n", b"\n"))
        for hunk in raw.hunks:
            old = [text.replace(b"\r\n", b"\n") for text in hunk.old()]
            count += lines[hunk.old_start - 1 : hunk.old_start - 1 + len(old)] == old
    return count


def _by_names(files: Sequence[RawFile], layout: Layout, prefix: str, label: str) -> Naming:
    """Without a tree: git's prefix, the least that makes both names equal, or the package's folder."""
    plain = [raw for raw in files if not raw.git]
    counts = plain_strips(plain) if plain else [0]
    if not counts:
        raise _unclear(plain, "no number of leading folders makes both names of each file equal", label)
    first = counts[0]

    def names_at(count: int) -> list[str]:
        return [_plain_path(raw, count) or "" for raw in plain]

    names = names_at(first)
    if all(name and not name.startswith("/") and ".." not in name.split("/") for name in names):
        found = _shared(names, layout)
        if found is None or found[0] == 0:
            fresh = plain and all(plain_absent(raw)[0] for raw in plain) and found is None
            told = ("all its files are new: their names are taken as they are written",) if fresh else ()
            return Naming(first, None, prefix, told)
    for count in counts:
        found = _shared(names_at(count), layout)
        if found is not None:
            parts, before = found
            notes = (f"{count + parts} leading folders taken off its names",) if count + parts > 1 else ()
            return Naming(count + parts, None, prefix or before, (*notes, *_put(before)))
    if all(name and not name.startswith("/") for name in names):
        return Naming(first, None, prefix)
    raise _unclear(plain, "its names are those of another machine", label)


def _put(before: str) -> tuple[str, ...]:
    return (f"{before} put before its names: they are those of an installed copy",) if before else ()


def _shared(names: Sequence[str], layout: Layout) -> tuple[int, str] | None:
    """How many leading parts all names have before the tree begins, and what an installed copy lacks.

    The names that hold the package say how many; the others have to begin with the same folders.
    """
    found = {at for at in (_package_at(name, layout) for name in names) if at is not None}
    if len(found) != 1:
        return None
    (parts, before) = found.pop()
    heads = {tuple(name.split("/")[:parts]) for name in names}
    return (parts, before) if len(heads) == 1 else None


def _package_at(name: str, layout: Layout) -> tuple[int, str] | None:
    """How many leading parts stand before the project's tree in a name, and what an installed copy lacks.

    A folder that is only called like the package says nothing: clones are called so too. It counts below the
    repository's root, or where packages are installed.
    """
    parts = name.split("/")
    for root in layout.roots:
        tops = [*root.split("/"), layout.package]
        at = [n for n in range(len(parts) - len(tops)) if parts[n : n + len(tops)] == tops]
        if at:
            return (at[0], "") if len(at) == 1 else None
    at = [
        n
        for n in range(1, len(parts) - 1)
        if parts[n] == layout.package and parts[n - 1] in ("site-packages", "dist-packages")
    ]
    root = layout.roots[0] if layout.roots else ""
    return (at[0], f"{root}/" if root else "") if len(at) == 1 else None


def _unclear(files: Sequence[RawFile], why: str, label: str) -> UserError:
    for raw in files:
        for each in (raw.old_name, raw.new_name):
            if each is not None and b".." in each.split(b"/"):
                check_path(decode(each, label).lstrip("/"), f"{label}:{raw.line}")
    names = [decode(name or raw.head, label) for raw in files[:1] for name in (raw.old_name,)]
    name = names[0] if names else ""
    return UserError(
        "P031",
        f"which file of the tree is {name!r}? {why}",
        place=f"{label}:{files[0].line}" if files else label,
        hints=[
            "patches import PATCH --strip NUMBER",
            "patches import PATCH --base REV (the tree it was made on)",
        ],
    )
