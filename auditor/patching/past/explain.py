"""Why a patch conflicts: what it wants, what the upstream did to the same lines, and which commit did it.

The commit is not guessed from a log: the hunk is tried on the versions of its file along the first-parent
line, and the one named is the one before which it goes and with which it stops.
"""

from __future__ import annotations

import keyword
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

from auditor.errors import UserError
from auditor.lazyre import lazy
from auditor.patching.diffs.lines import changed_ranges, split_lines
from auditor.patching.line import Line, gallop, relevant, turn
from auditor.patching.mapping import PathMap
from auditor.patching.merge.statements import Source
from auditor.patching.model import ChangeSet, FileChange, Hunk, HunkResult
from auditor.patching.past.culprit import Culprit, culprit_of
from auditor.patching.past.since import tip_of
from auditor.patching.planning.model import Plan, Planned
from auditor.patching.planning.remade import Names
from auditor.patching.planning.sources import Sources
from auditor.patching.port.carry import port
from auditor.trees.base import SourceTree
from auditor.trees.between import LogEntry
from auditor.trees.git import GitRepo
from auditor.trees.overlay import OverlayTree

_WORD = lazy(rb"[A-Za-z_][A-Za-z0-9_]{2,}")
_DEFINES = lazy(rb"(?m)^[ \t]*(?:async )?(?:def|class) ([A-Za-z_]\w*)")
#: Versions of a file up to which every change to the lines is named.
_FOLLOWED = 400
_NEAR = 3
_NO_HISTORY = "naming the commit needs the history: --clone PATH of a clone of the upstream"
Lines = tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class HunkStory:
    """One hunk that does not go. Lines are marked ``-`` and ``+`` and have no line end."""

    path: str
    index: int
    symbol: str  # what encloses it where it was made
    fact: str  # what the port says
    patch: Lines
    upstream: Lines  # what became of the same lines on the tree
    culprit: Culprit | None = None
    why: str = ""  # why no culprit is named, or what is not sure about it
    also: tuple[LogEntry, ...] = ()  # other commits that changed these lines, oldest first
    near: tuple[str, ...] = ()  # places on the tree that it could be meant for
    what: str = "hunk"  # or "edit", of a structural patch


@dataclass(frozen=True)
class Explained:
    """A patch on a tree. ``stories`` are of its hunks in conflict."""

    entry: Planned
    stories: tuple[HunkStory, ...] = field(default=())


def explain(plan: Plan, name: str, sources: Sources, repo: GitRepo | None) -> Explained:
    """What hinders the patch ``name`` of a plan. Without ``repo`` no commit is named, and it is said so."""
    entry = next(e for e in plan.entries if e.name == name)
    if entry.outcome.status == "conflict" and entry.patch.form == "structural":
        return Explained(entry, tuple(_edit_stories(plan, entry, repo)))
    if entry.outcome.status != "conflict" or entry.changes is None:
        return Explained(entry)
    work = _Work(plan, entry, sources, repo)
    bad = [hunk for hunk in entry.outcome.hunks if hunk.status == "conflict"]
    return Explained(entry, tuple(work.story(hunk) for hunk in bad))


def _edit_stories(plan: Plan, entry: Planned, repo: GitRepo | None) -> Iterable[HunkStory]:
    """The edits of a structural patch that do not go."""
    from auditor.patching.past.explain_edits import culprit_of_edit

    tip = tip_of(plan.tree, repo) if repo is not None else ""
    for hunk in entry.outcome.hunks:
        if hunk.status != "conflict":
            continue
        culprit: Culprit | None = None
        also: tuple[LogEntry, ...] = ()
        why = _NO_HISTORY
        if repo is not None and tip:
            try:
                culprit, why, also = culprit_of_edit(plan, entry.patch, hunk, repo, tip)
            except (KeyError, UserError):
                why = "the history cannot be read: objects of it are not in the clone"
        fact, _, near = hunk.note.partition("; nearest: ")
        places = tuple(near.split(", ")) if near else ()
        yield HunkStory(hunk.path, hunk.index, hunk.symbol, fact, (), (), culprit, why, also, places, "edit")


class _Work:
    def __init__(self, plan: Plan, entry: Planned, sources: Sources, repo: GitRepo | None) -> None:
        assert entry.changes is not None
        self.plan = plan
        self.entry = entry
        self.changes = entry.changes
        self.sources = sources
        self.repo = repo
        below = plan.tree.blobs()
        self.map = PathMap(plan.profile, below)
        self.names = Names(plan.profile, below)
        self.tip = tip_of(plan.tree, repo) if repo is not None else ""
        self.before: list[tuple[str, ChangeSet]] = []  # the patches before it, which it may stand on
        for other in plan.entries:
            if other.name == entry.name:
                break
            if other.changes is not None and other.outcome.status in ("clean", "moved", "partly", "look"):
                self.before.append((other.name, other.changes))
        self._lines: dict[str, Line] = {}

    def story(self, hunk: HunkResult) -> HunkStory:
        """One hunk, or a file as a whole where the index is -1."""
        change = next((c for c in self.changes.changes if c.path == hunk.path), None)
        if change is None:
            return HunkStory(
                hunk.path, hunk.index, hunk.symbol, hunk.note, (), (), why="the patch does not name it"
            )
        part = change
        if 0 <= hunk.index < len(change.hunks):
            part = replace(change, hunks=(change.hunks[hunk.index],), new_blob="")
        base = self.sources.blob(change.old_blob) if change.old_blob.strip("0") else None
        place = self._place(change, hunk)
        ours = self.plan.tree.read(place) if place is not None else None
        culprit, why, also = self._culprit(change, part, base, place)
        return HunkStory(
            hunk.path,
            hunk.index,
            hunk.symbol or _symbol(base, part),
            hunk.note or hunk.proof,
            _own_lines(part.hunks),
            _their_lines(base, ours, part.hunks) if base is not None and ours is not None else (),
            culprit,
            why,
            also,
            self._near(part, base, ours, place),
        )

    def _place(self, change: FileChange, hunk: HunkResult) -> str | None:
        """The file on the tree."""
        below = self.plan.tree.blobs()
        for path in (hunk.to_path, change.old_path, change.new_path):
            here = self.map.path(path) if path else None
            if here in below:
                return here
        return None

    # the commit

    def _culprit(
        self, change: FileChange, part: FileChange, base: bytes | None, place: str | None
    ) -> tuple[Culprit | None, str, tuple[LogEntry, ...]]:
        if self.repo is None or not self.tip:
            return None, _NO_HISTORY, ()
        try:
            return self._bisected(self.repo, change, part, base, place)
        except (KeyError, UserError) as error:
            fact = (
                error.fact if isinstance(error, UserError) else "objects of the history are not in the clone"
            )
            return None, f"the history cannot be read: {fact}", ()

    def _bisected(
        self, repo: GitRepo, change: FileChange, part: FileChange, base: bytes | None, place: str | None
    ) -> tuple[Culprit | None, str, tuple[LogEntry, ...]]:
        line = self._line(repo, change, place)
        end, caveat = self._end(line), ""
        if end is None:
            end = len(line) - 1
            caveat = f"{self.plan.tree.info().label} itself is not on it, by the content of this file"
        path = change.old_path or change.path
        low = line.last_with(path, change.old_blob)
        for _, other in reversed(self.before) if low is None else ():  # made on top of another patch
            for below in other.changes:
                if low is None and below.path == path:
                    low = line.last_with(below.old_path or path, below.old_blob)

        def stops(at: int) -> bool:
            return not self._goes(line.tree(at), part)

        if caveat and not stops(end):
            return None, f"it goes on the clone's main line up to its end; {caveat}", ()
        other_patch = self._in_the_way(line, end, part)
        if other_patch:
            return None, f"it goes on the upstream alone: {other_patch} of the stack is in its way", ()
        if not stops(end):
            return None, "it goes on its file alone: what hinders it is elsewhere in the tree", ()
        if low is None or low >= end or stops(low):
            low = gallop(stops, end)
        at = turn(stops, low, end) if low is not None else None
        if not at:
            fact = "no version of the file in this history takes it"
            return None, f"{fact}; {caveat}" if caveat else fact, ()
        also = self._touched(line, path, base, part, low or 0, end)
        entry = line.entries[at - 1]
        also = tuple(other for other in also if other.oid != entry.oid)
        moved = line.renamed(at, path) if path not in line.states[at] else ""
        return culprit_of(repo, entry, _words(self.changes), moved), caveat, also

    def _line(self, repo: GitRepo, change: FileChange, place: str | None) -> Line:
        here = self.names.repository(place) if place is not None else None
        if change.path not in self._lines:
            self._lines[change.path] = Line(
                repo, self.tip, relevant((change.old_path, change.new_path, here))
            )
        return self._lines[change.path]

    def _end(self, line: Line) -> int | None:
        """The place of the tree on the line; None where its files are not on it."""
        if self.plan.tree.info().commit == self.tip:
            return len(line) - 1
        here = self.plan.tree.blobs()
        wanted = {path: self.names.tree(path) for path in line.paths}
        return line.last_like({path: here.get(at, "") for path, at in wanted.items() if at is not None})

    def _in_the_way(self, line: Line, end: int, part: FileChange) -> str:
        """The patch of the stack without which the hunk would go, "" if there is none."""
        if not self._goes(line.tree(end), part, 0):
            return ""
        for count, (name, _) in enumerate(self.before, 1):
            if not self._goes(line.tree(end), part, count):
                return name
        return ""

    def _goes(self, tree: SourceTree, part: FileChange, count: int | None = None) -> bool:
        """Whether the hunk goes on a version of its file, the patches before it (or ``count``) first."""
        paths = {part.old_path, part.new_path} - {None}
        now = tree
        for _, other in self.before[:count]:
            mine = tuple(c for c in other.changes if {c.old_path, c.new_path} & paths)
            if mine:
                done = port(replace(other, changes=mine), now, blobs=self.sources.blob)
                if done.files:
                    now = OverlayTree(now, done.files)
        return port(ChangeSet((part,)), now, blobs=self.sources.blob).status != "conflict"

    def _touched(
        self, line: Line, path: str, base: bytes | None, part: FileChange, low: int, end: int
    ) -> tuple[LogEntry, ...]:
        """The commits that changed the lines of the hunk, followed from version to version."""
        spans = _spans(part.hunks)
        if base is None or not spans or end - low > _FOLLOWED or path not in line.states[low]:
            return ()
        first, last = min(s for s, _ in spans), max(e for _, e in spans)
        assert self.repo is not None
        lines = split_lines(line.tree(low).read(path))
        if lines != split_lines(base):
            return ()
        out = []
        for at in range(low + 1, end + 1):
            blob = line.states[at].get(path)
            if blob == line.states[at - 1].get(path):
                continue
            if blob is None:
                break
            new = split_lines(line.tree(at).read(path))
            shift_first = shift_last = 0
            hit = False
            for a, b, _, d in changed_ranges(lines, new):
                if b <= first:
                    shift_first = shift_last = d - b
                elif a < last:
                    hit, shift_last = True, d - b
            if hit:
                out.append(line.entries[at - 1])
            first, last, lines = first + shift_first, max(last + shift_last, first + shift_first), new
        return tuple(out)

    # candidates

    def _near(
        self, part: FileChange, base: bytes | None, ours: bytes | None, place: str | None
    ) -> tuple[str, ...]:
        """Where on the tree the lines, or what they stand in, could be now."""
        if ours is not None and place is not None and part.hunks:
            return tuple(_best_lines(ours, part.hunks, self.names.repository(place)))
        symbol = _symbol(base, part).rpartition(".")[2].encode()
        wanted = {symbol} if symbol else set(_DEFINES.findall(base)) if base is not None else set()
        if not wanted:
            return ()
        scored = []
        tree = self.plan.tree
        suffix = part.path.rpartition(".")[2]
        paths = [path for path in tree.blobs() if path.rpartition(".")[2] == suffix]
        for path, data in tree.read_many(paths):
            found = [m for m in _DEFINES.finditer(data) if m[1] in wanted]
            if found:
                names = dict.fromkeys(m[1].decode() for m in found)
                number = data[: found[0].start(1)].count(b"\n") + 1
                shown = ", ".join(list(names)[:3])
                scored.append((-len(names), path, f"{self.names.repository(path)}:{number} defines {shown}"))
        return tuple(text for _, _, text in sorted(scored)[:_NEAR])


def _words(changes: ChangeSet) -> set[str]:
    """Names in the lines of a patch, context included."""
    found = {
        word.decode()
        for change in changes.changes
        for hunk in change.hunks
        for _, text in hunk.lines
        for word in _WORD.findall(text.partition(b"#")[0])
    }
    return {word for word in found if not keyword.iskeyword(word)}


def _text(line: bytes) -> str:
    return line.decode("utf-8", "backslashreplace").rstrip("\r\n")


def _own_lines(hunks: Iterable[Hunk]) -> Lines:
    return tuple((mark, _text(text)) for hunk in hunks for mark, text in hunk.lines if mark != " ")


def _spans(hunks: Iterable[Hunk]) -> list[tuple[int, int]]:
    """Where each hunk changes lines of its base, from 0; an insertion spans the lines around it."""
    out = []
    for hunk in hunks:
        at = hunk.old_start - 1 if hunk.old() else hunk.old_start
        first = last = -1
        for mark, _ in hunk.lines:
            if mark == "+":
                first, last = (at if first < 0 else first), max(last, at)
            elif mark == "-":
                first, last = (at if first < 0 else first), max(last, at + 1)
            at += mark != "+"
        if first >= 0:
            out.append((max(first - 1, 0), last + 1))
    return out


def _their_lines(base: bytes, ours: bytes, hunks: Iterable[Hunk]) -> Lines:
    """What the upstream made of the lines that the hunks change."""
    old, new = split_lines(base), split_lines(ours)
    spans = _spans(hunks)
    out: list[tuple[str, str]] = []
    for a, b, c, d in changed_ranges(old, new):
        if any(a <= last and first <= b for first, last in spans):
            out += [("-", _text(line)) for line in old[a:b]]
            out += [("+", _text(line)) for line in new[c:d]]
    return tuple(out)


def _symbol(base: bytes | None, part: FileChange) -> str:
    """The qualified name of what encloses the first changed line, where the base is Python."""
    if base is None or not part.hunks or not part.path.endswith((".py", ".pyi")):
        return ""
    try:
        source = Source(base)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return ""
    spans = _spans(part.hunks[:1])
    if not spans:
        return ""
    statement = source.enclosing(spans[0][0] + 2)
    return statement.qualified() if statement is not None else ""


def _best_lines(ours: bytes, hunks: Sequence[Hunk], path: str) -> list[str]:
    """The places of a file with most of the distinctive old lines of the hunks, best first."""
    lines = [line.strip() for line in split_lines(ours)]
    out: list[tuple[int, int]] = []
    for hunk in hunks[:1]:
        wanted = [line.strip() for line in hunk.old()]
        wanted = [line for line in wanted if len(line) > 4]
        if not wanted:
            continue
        size = len(hunk.old())
        hits = {n for n, line in enumerate(lines) if line in set(wanted)}
        for start in sorted(hits):
            score = sum(1 for n in range(start, min(start + size, len(lines))) if n in hits)
            out.append((-min(score, len(wanted)), start))
        best: list[tuple[int, int]] = []
        for score, start in sorted(out):
            if all(abs(start - other) > size for _, other in best) and -score * 2 >= len(wanted):
                best.append((score, start))
        return [
            f"{path}:{start + 1} has {-score} of {len(wanted)} of its old lines"
            for score, start in best[:_NEAR]
        ]
    return []


__all__ = ["Explained", "HunkStory", "explain"]
