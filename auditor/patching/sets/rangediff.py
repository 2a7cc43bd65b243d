"""Two versions of a patchset, patch by patch: what came, went, moved in the order, and changed in which way.

A patch is found again by its name, else by its title, else by the lines it adds and removes. A change that
is only of line numbers or blob ids is told apart from one of content.
"""

from __future__ import annotations

import difflib
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import msgspec

from auditor.patching.diffs.write import write_diff
from auditor.patching.model import ChangeSet
from auditor.patching.sets.header import Header, to_fields
from auditor.patching.sets.patchset import Patch, Patchset

Kind = Literal["same", "rebased", "context", "changed", "added", "removed"]
#: From which share of equal lines on two patches of different names are the same patch.
_SIMILAR = 0.6
#: Lines compared for that; more would make it quadratic.
_MOST_LINES = 4_000


@dataclass(frozen=True)
class PatchDiff:
    """What became of one patch. Positions count from 1; None where it is not in that version.

    ``rebased``: other line numbers or blob ids; ``context``: other lines around it; ``changed``: other lines
    added or removed.
    """

    name: str
    kind: Kind
    old_name: str | None
    old_position: int | None
    new_position: int | None
    moved: bool = False  # stands elsewhere among the patches that are in both
    header: tuple[str, ...] = ()  # "status: Pending -> Submitted [...]"
    files: tuple[str, ...] = ()  # files in which its content differs
    diff: tuple[str, ...] = ()  # the difference of the two contents, line by line

    @property
    def same(self) -> bool:
        """Nothing differs."""
        return self.kind == "same" and not self.moved and not self.header and self.old_name == self.name


@dataclass(frozen=True)
class PatchsetDiff:
    """The difference of two versions."""

    settings: tuple[str, ...]  # of patchset.yaml, the order left out
    patches: tuple[PatchDiff, ...]

    @property
    def same(self) -> bool:
        """Nothing differs."""
        return not self.settings and all(patch.same for patch in self.patches)


def compare(old: Patchset, new: Patchset) -> PatchsetDiff:
    """What changed from ``old`` to ``new``, in the order of the new one, removed patches where they stood."""
    pairs = _pairs(old.patches, new.patches)
    moved = _moved([old_at for old_at, _ in sorted(pairs, key=lambda pair: pair[1])])
    by_new = {new_at: old_at for old_at, new_at in pairs}
    paired = {old_at for old_at, _ in pairs}
    rows: list[tuple[tuple[int, int], PatchDiff]] = []
    for at, patch in enumerate(new.patches):
        if at not in by_new:
            rows.append(((at, 1), PatchDiff(patch.name, "added", None, None, at + 1)))
            continue
        before = old.patches[by_new[at]]
        kind, files, diff = _content(before, patch)
        rows.append(
            (
                (at, 1),
                PatchDiff(
                    patch.name, kind, before.name, by_new[at] + 1, at + 1, by_new[at] in moved,
                    _header(before.header, patch.header), files, diff,
                ),
            )
        )  # fmt: skip
    for at, patch in enumerate(old.patches):
        if at not in paired:
            rows.append(((at, 0), PatchDiff(patch.name, "removed", patch.name, at + 1, None)))
    rows.sort(key=lambda row: row[0])
    return PatchsetDiff(_settings(old, new), tuple(row for _, row in rows))


def _pairs(old: Sequence[Patch], new: Sequence[Patch]) -> list[tuple[int, int]]:
    """(position in old, in new) of patches that are the same one."""
    names = {patch.name: at for at, patch in enumerate(old)}
    pairs = [(names[patch.name], at) for at, patch in enumerate(new) if patch.name in names]
    left_old = [at for at in range(len(old)) if at not in {a for a, _ in pairs}]
    left_new = [at for at in range(len(new)) if at not in {b for _, b in pairs}]
    scores = []
    for a in left_old:
        for b in left_new:
            score = _likeness(old[a], new[b])
            if score >= _SIMILAR:
                scores.append((-score, a, b))
    for _, a, b in sorted(scores):
        if a in left_old and b in left_new:
            left_old.remove(a)
            left_new.remove(b)
            pairs.append((a, b))
    return pairs


def _likeness(old: Patch, new: Patch) -> float:
    if old.form != new.form:
        return 0.0
    if old.changes is None or new.changes is None:
        return 1.0 if _digest(old) == _digest(new) else 0.0
    if old.header.title == new.header.title and _paths(old.changes) & _paths(new.changes):
        return 0.99
    left, right = (_touched(changes)[:_MOST_LINES] for changes in (old.changes, new.changes))
    if left == right:
        return 1.0
    matcher = difflib.SequenceMatcher(None, left, right, autojunk=False)
    if matcher.real_quick_ratio() < _SIMILAR or matcher.quick_ratio() < _SIMILAR:
        return 0.0
    return matcher.ratio()


def _paths(changes: ChangeSet) -> set[str]:
    return {change.path for change in changes.changes}


def _touched(changes: ChangeSet) -> list[str]:
    """The lines that a patch adds and removes, with the files they are in."""
    return [
        f"{change.path}\0{mark}{text!r}"
        for change in changes.changes
        for hunk in change.hunks
        for mark, text in hunk.lines
        if mark != " "
    ]


def _digest(patch: Patch) -> str:
    """Of what a structural patch or a reference does, its head left out."""
    data = msgspec.json.encode([patch.edits, patch.reference], order="deterministic")
    return hashlib.sha256(data).hexdigest()


def _moved(row: Sequence[int]) -> set[int]:
    """Which of a row of old positions are not in its longest rising part: the fewest patches that moved."""
    best: list[list[int]] = []
    longest: list[int] = []
    for at in row:
        before: list[int] = []
        for way in best:
            if way[-1] < at and len(way) > len(before):
                before = way
        best.append([*before, at])
        longest = max(longest, best[-1], key=len)
    return set(row) - set(longest)


def _header(old: Header, new: Header) -> tuple[str, ...]:
    """Fields that differ, as ``field: before -> after``."""
    out = []
    for label, before, after in (
        ("title", old.title, new.title),
        ("author", old.author, new.author),
        ("date", old.date, new.date),
        ("text", old.description, new.description),
    ):
        if before != after:
            out.append(f"{label}: {_short(before)} -> {_short(after)}")
    fields = [_by_name(to_fields(header)) if _readable(header) else {} for header in (old, new)]
    for name in dict.fromkeys([*fields[0], *fields[1]]):
        before, after = fields[0].get(name, ""), fields[1].get(name, "")
        if before != after:
            out.append(f"{name}: {_short(before)} -> {_short(after)}")
    return tuple(out)


def _readable(header: Header) -> bool:
    from auditor.errors import UserError

    try:
        to_fields(header)
    except UserError:
        return False
    return True


def _by_name(fields: Sequence[tuple[str, str]]) -> dict[str, str]:
    out: dict[str, str] = {}
    for name, value in fields:
        out[name] = f"{out[name]}; {value}" if name in out else value
    return out


def _short(text: str) -> str:
    text = " ".join(text.split())
    return (text if len(text) <= 70 else text[:69] + "…") or "nothing"


def _content(old: Patch, new: Patch) -> tuple[Kind, tuple[str, ...], tuple[str, ...]]:
    if old.changes is None or new.changes is None or old.form != new.form:
        if old.form == new.form and _digest(old) == _digest(new):
            return "same", (), ()
        texts = [_text(patch) for patch in (old, new)]
        return "changed", (), _unified(texts[0], texts[1])
    diffs = [write_diff(patch.changes.changes) for patch in (old, new) if patch.changes]
    if diffs[0] == diffs[1]:
        return "same", (), ()
    sides = []
    for patch in (old, new):
        by_file: dict[str, list[tuple[str, bytes]]] = {}
        for change in patch.changes.changes if patch.changes else ():
            by_file[change.path] = [line for hunk in change.hunks for line in hunk.lines]
        sides.append(by_file)
    paths = sorted(sides[0].keys() | sides[1].keys())
    others = [path for path in paths if sides[0].get(path) != sides[1].get(path)]
    if not others and not _binary_differs(old, new):
        return "rebased", (), ()
    lines = [[[line for line in side.get(path, []) if line[0] != " "] for path in others] for side in sides]
    kind: Kind = "context" if lines[0] == lines[1] and not _binary_differs(old, new) else "changed"
    shown = [
        [f"{path}: {mark}{text.decode('utf-8', 'backslashreplace').rstrip()}"
         for path in others for mark, text in side.get(path, [])]
        for side in sides
    ]  # fmt: skip
    return kind, tuple(others), _unified(shown[0], shown[1])


def _binary_differs(old: Patch, new: Patch) -> bool:
    sides = [
        {
            change.path: (change.binary, change.delta, change.new_mode, change.old_path, change.new_path)
            for change in patch.changes.changes
        }
        for patch in (old, new)
        if patch.changes
    ]
    return sides[0] != sides[1]


def _text(patch: Patch) -> list[str]:
    return patch.raw.decode("utf-8", "backslashreplace").splitlines()


def _unified(old: list[str], new: list[str]) -> tuple[str, ...]:
    lines = list(difflib.unified_diff(old, new, n=2, lineterm=""))
    return tuple(line for line in lines[2:])


def _settings(old: Patchset, new: Patchset) -> tuple[str, ...]:
    sides = [msgspec.to_builtins(patchset.file) for patchset in (old, new)]
    out = []
    for key in sorted(sides[0].keys() | sides[1].keys()):
        before, after = sides[0].get(key), sides[1].get(key)
        if key != "order" and before != after:
            words = [
                msgspec.json.encode(side, order="deterministic").decode() if side else ""
                for side in (before, after)
            ]
            out.append(f"{key}: {_short(words[0])} -> {_short(words[1])}")
    return tuple(out)
