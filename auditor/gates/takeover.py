"""Whether the report of an earlier tree holds for another one, and what it says there.

Files that differ are compared with what the audit noted (see :mod:`auditor.program.watch` and
:mod:`auditor.program.same`). Where all that was looked at is the same, the report is that of a cold run
but for the facts about the tree and the numbers of lines, which are moved.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from auditor.gates.sources import MAX_FILE, inside_of, is_source, listing_digest
from auditor.program.same import Asked, Different, Moved, same_module, same_text
from auditor.program.watch import Questions
from auditor.trees.base import HasContents, SourceTree
from auditor.trees.watched import matching_paths

if TYPE_CHECKING:
    from auditor.gates.model import Arm, Gate, Report
    from auditor.profile import Profile

#: Trees further apart than this many files are audited anew without asking file by file.
MAX_CHANGED = 400
_PLACE = re.compile(r"([\w./+-]+\.py):(\d+)")


class Taken:
    """A report that is taken over: how many source files the tree has, and where lines went."""

    def __init__(self, count: int, lines: Mapping[str, Moved], paths: Sequence[str]) -> None:
        self.count = count
        self.lines = lines
        self.paths = paths

    def moved(self, report: Report) -> Report:
        """The report with the lines of this tree. Different where a line cannot be told."""
        import msgspec

        if all(lines.still for lines in self.lines.values()):
            return report
        change = msgspec.structs.replace
        return change(
            report,
            gates=tuple(self._gate(gate) if gate.path in self.lines else gate for gate in report.gates),
            predicates=tuple(change(p, line=self._line(p.path, p.line)) for p in report.predicates),
            findings=tuple(
                change(
                    f,
                    line=self._line(f.path, f.line),
                    message=self._text(f.message),
                    detail=tuple(self._text(text) for text in f.detail),
                )
                for f in report.findings
            ),
            problems=tuple(change(p, line=self._line(p.path, p.line)) for p in report.problems),
        )

    def _line(self, path: str, line: int) -> int:
        lines = self.lines.get(path)
        return line if lines is None else lines.line(line)

    def _gate(self, gate: Gate) -> Gate:
        import msgspec

        return msgspec.structs.replace(
            gate,
            line=self._line(gate.path, gate.line),
            end_line=self._line(gate.path, gate.end_line),
            arms=tuple(self._arm(gate.path, arm) for arm in gate.arms),
        )

    def _arm(self, path: str, arm: Arm) -> Arm:
        import msgspec

        return msgspec.structs.replace(
            arm,
            line=self._line(path, arm.line),
            end_line=self._line(path, arm.end_line),
            effects=tuple(msgspec.structs.replace(e, line=self._line(path, e.line)) for e in arm.effects),
        )

    def _text(self, text: str) -> str:
        """A text with the places in it moved."""

        def place(match: re.Match[str]) -> str:
            name, line = match.group(1), int(match.group(2))
            now = {
                self._line(path, line)
                for path in ([name] if name in self.lines else self.paths)
                if path == name or path.endswith(f"/{name}")
            }
            if not now:
                return match.group(0)
            if len(now) > 1 or len(str(*now)) != len(match.group(2)):
                raise Different  # two files of that name, or texts that may be sorted otherwise
            return f"{name}:{next(iter(now))}"

        return _PLACE.sub(place, text)


def taken(
    record: Mapping[str, Any], tree: SourceTree, profile: Profile, sources: HasContents
) -> Taken | None:
    """How the report of what was recorded holds for a tree, or None. Only what differs is read: from the
    tree, and earlier texts from what lies beside it or from ``sources``."""
    blobs = tree.blobs()
    root = profile.root_of(blobs)
    if root is None or root != record["root"]:
        return None
    if any(blobs.get(path) != blob for path, blob in record["others"].items()):
        return None
    if any((path in blobs) != there for path, there in record["there"].items()):
        return None
    if record["listing"] is not None and record["listing"] != listing_digest(blobs):
        return None
    if any(matching_paths(blobs, pattern) != found for pattern, found in record["matching"].items()):
        return None
    from auditor.native.sources.digest import native_digest

    if native_digest(tree, profile) != record["native"]:
        return None
    inside = inside_of(root, profile.package)
    old: Mapping[str, str] = record["files"]
    new = {path: blob for path, blob in blobs.items() if is_source(path, inside)}
    changed = [path for path, blob in new.items() if old.get(path) != blob]
    gone = [path for path in old if path not in new]
    read = set(record["read"])
    if len(changed) + len(gone) > MAX_CHANGED or not read.isdisjoint(changed) or not read.isdisjoint(gone):
        return None
    if not all(_not_asked(path, old, new, record, root) for path in (*changed, *gone)):
        return None
    try:
        count = len(new) - record["left_out"]
        return Taken(count, _compare(record, tree, profile, sources, changed, gone), sorted(new))
    except Different:
        return None


def _not_asked(
    path: str, old: Mapping[str, str], new: Mapping[str, str], record: Mapping[str, Any], root: str
) -> bool:
    """Whether nobody asked for a module that comes or goes, or for a package that does so with it."""
    if path in old and path in new:
        return True
    asked = set(record["asked"])
    name = _module(path, root)
    while name:
        if name in asked:
            return False
        name = name.rpartition(".")[0]
        if any(_module(p, root) == name or p.startswith(_folder(name, root)) for p in old if p in new):
            break
    return True


def _compare(
    record: Mapping[str, Any],
    tree: SourceTree,
    profile: Profile,
    sources: HasContents,
    changed: Sequence[str],
    gone: Sequence[str],
) -> dict[str, Moved]:
    files: Mapping[str, str] = record["files"]
    modules: Mapping[str, Any] = record["modules"]
    root = record["root"]
    questions = Questions(
        record["bases"], record["words"], record["readers"], record["vocabularies"], profile.package
    )
    asked = _asked(record)
    out: dict[str, Moved] = {}
    for path, before, after in _texts(files, tree, sources, changed, gone):
        name = _module(path, root)
        if max(len(before), len(after)) > MAX_FILE:
            raise Different
        if questions.answers(before, name, path) != questions.answers(after, name, path):
            raise Different
        if not same_text(record["noted"].get(path, ()), before, after):
            raise Different
        if path not in modules:
            if any(w.encode() in text for w in asked.everywhere for text in (before, after)):
                raise Different
            continue
        if modules[path] is None or path in gone:
            raise Different
        out[path] = same_module(modules[path], name, before, after, asked, path in record["scanned"])
    return out


def _texts(
    files: Mapping[str, str],
    tree: SourceTree,
    sources: HasContents,
    changed: Sequence[str],
    gone: Sequence[str],
) -> Iterator[tuple[str, bytes, bytes]]:
    """(path, bytes before, bytes after) of files that differ; b"" for one that is not there."""
    there = [path for path in (*changed, *gone) if path in files]
    ids = [files[path] for path in there]
    found = tree.contents(ids) if isinstance(tree, HasContents) else None
    if found is None:
        found = sources.contents(ids)
    if found is None:
        raise Different
    before = dict(zip(there, found, strict=True))
    for path, data in tree.read_many(changed):
        yield path, before.get(path, b""), data
    for path in gone:
        yield path, before[path], b""


def _asked(record: Mapping[str, Any]) -> Asked:
    from auditor.program.externals import ROOT_WORDS

    names: dict[str, set[str]] = {}
    for module, name in record["globals"]:
        names.setdefault(module, set()).add(name)
    return Asked(
        hot=frozenset(record["hot"]),
        roots=tuple(word.decode() for word in ROOT_WORDS),
        members=frozenset(record["members"]),
        globals={module: frozenset(found) for module, found in names.items()},
        everywhere=tuple(record["everywhere"]),
        assumed=frozenset(record["assumed"]),
    )


def _module(path: str, root: str) -> str:
    name = path[len(root) + 1 if root else 0 : -len(".py")].replace("/", ".")
    return name.removesuffix(".__init__")


def _folder(name: str, root: str) -> str:
    folder = name.replace(".", "/") + "/"
    return f"{root}/{folder}" if root else folder


__all__ = ["Taken", "taken"]
