"""Changes to functions and classes that went to another file: carried there, if one place is clearly it."""

from __future__ import annotations

import ast
from dataclasses import dataclass, field

from auditor import pytext
from auditor.patching.merge.changes import Change, Changes
from auditor.patching.merge.imports import Import, ImportEdit, bound, imported
from auditor.patching.merge.statements import Source, Statement, source_of
from auditor.patching.merge.tokens import Splice
from auditor.patching.merge.tree import Settled, TreeMerge, first_words
from auditor.patching.port.check import compiles, doubled_definitions, lost_names
from auditor.patching.port.count import unaccounted
from auditor.patching.port.finder import Finder
from auditor.patching.port.hunks import Applied
from auditor.patching.port.pieces import spliced


@dataclass
class MovedPart:
    """What became of one change: where it went ("" for its own file), and how."""

    change: Change
    settled: Settled
    path: str = ""


@dataclass
class MovedMerge:
    """``files`` are the changed ones; ``conflict`` says why nothing is."""

    files: dict[str, bytes] = field(default_factory=dict)
    parts: list[MovedPart] = field(default_factory=list)
    conflict: str = ""


def is_shim(data: bytes) -> bool:
    """Whether a file only hands on what others define: imports, a docstring, ``__all__``."""
    try:
        tree = pytext.parse(data)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    return bool(tree.body) and all(
        isinstance(node, (ast.Import, ast.ImportFrom))
        or (isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant))
        or (
            isinstance(node, ast.Assign)
            and all(isinstance(target, ast.Name) and target.id == "__all__" for target in node.targets)
        )
        for node in tree.body
    )


class MovedPort:
    """Carries one file's changes to wherever its functions and classes are now."""

    def __init__(self, base: bytes, applied: Applied, ours: bytes | None, path: str, finder: Finder) -> None:
        self.base = source_of(base)
        self.theirs = source_of(b"".join(applied.lines))
        self.ours = source_of(ours) if ours is not None else None
        self.path = path
        self.finder = finder
        self.merges: dict[str, TreeMerge] = {}
        self.splices: dict[str, list[Splice]] = {}

    def run(self) -> MovedMerge:
        """All changes, or the reason why one of them has no place."""
        out = MovedMerge()
        late: list[Change] = []
        home = TreeMerge(self.base, self.ours) if self.ours is not None else None
        for change in Changes(self.base, self.theirs).all:
            settled = home.settle(change) if home is not None else None
            if settled is not None and not settled.conflict:
                self._take(out, change, settled, "")
                continue
            found = self._elsewhere(change, home)
            if found is None:
                late.append(change)
            elif found[1].conflict:
                out.conflict = found[1].conflict
                return out
            else:
                self._take(out, change, found[1], found[0])
        for change in late:
            if change.kind == "trivia":
                continue
            if home is not None or len(self.merges) != 1:
                lost = (change.removed or change.added)[0]
                out.conflict = f"`{first_words(lost)}` has no place any more"
                return out
            path, merge = next(iter(self.merges.items()))
            settled = merge.settle(change)
            if settled.conflict:
                out.conflict = settled.conflict
                return out
            self._take(out, change, settled, path)
        self._write(out)
        return out

    def _take(self, out: MovedMerge, change: Change, settled: Settled, path: str) -> None:
        out.parts.append(MovedPart(change, settled, path))
        self.splices.setdefault(path, []).extend(settled.splices)

    def _elsewhere(self, change: Change, home: TreeMerge | None) -> tuple[str, Settled] | None:
        """The change settled in another file; None where its function or class is nowhere else."""
        for lost in self._scopes(change):
            if home is not None and home.mate(lost) is not None:
                continue
            found = self.finder.scope(lost, self.path)
            if found is None:
                continue
            path, statement = found
            merge = self.merges.get(path)
            if merge is None:
                merge = self.merges[path] = TreeMerge(self.base, statement.source)
            merge.homes[lost] = statement
            return path, merge.settle(change)
        return None

    @staticmethod
    def _scopes(change: Change) -> list[Statement]:
        """The functions and classes around a change, outermost first."""
        out: list[Statement] = []
        children = change.arm_base.children
        at = change.removed[0] if change.removed else (children[0].parent if children else None)
        while at is not None:
            if at.is_scope and not (change.kind == "gap" and at in change.removed):
                out.append(at)
            at = at.parent
        return out[::-1]

    def _write(self, out: MovedMerge) -> None:
        for path, splices in self.splices.items():
            if not splices:
                continue
            source = self.ours if path == "" else self.merges[path].ours
            assert source is not None
            data = spliced(source.data, splices)
            if data is None:
                out.conflict = "two changes meet at one place"
                out.files.clear()
                return
            if path:
                data = self._with_imports(source, data)
            why = self._wrong(source, data)
            if why:
                out.conflict = why
                out.files.clear()
                return
            out.files[path or self.path] = data

    def _with_imports(self, source: Source, data: bytes) -> bytes:
        """``data`` with the imports that what came to it needs, as the file that it left has them."""
        lost = lost_names(data, source.data, self.theirs.data)
        known = {bound(item): item for item in imported(self.theirs.top.children)}
        wanted = [known[name] for name in lost if name in known]
        if not wanted:
            return data
        after = source_of(data)
        here = imported(after.top.children)
        splices: list[Splice] = []
        new: list[Import] = []
        edits: dict[int, ImportEdit] = {}
        for item in wanted:
            home = next((s for i, s in here.items() if i[0] and i[0] == item[0]), None)
            if home is None:
                new.append(item)
            else:
                edits.setdefault(id(home), ImportEdit(home, [], [])).add.append(item)
        for edit in edits.values():
            splices += edit.splices()
        if new and here:
            last = max(here.values(), key=lambda s: s.end)
            lines = [_import_line(item) for item in new]
            splices.append(Splice(last.end, last.end, b"".join(lines)))
        return spliced(data, splices) or data

    def _wrong(self, source: Source, data: bytes) -> str:
        if not compiles(data) and compiles(source.data):
            return "what comes out is not valid Python"
        twice = doubled_definitions(data, source.data, self.theirs.data)
        if twice:
            return f"`{twice[0]}` would be defined twice"
        lost = lost_names(data, source.data, self.theirs.data)
        if lost:
            return f"`{lost[0]}` is not defined in the file that it goes to"
        try:
            stray = unaccounted(self.base, self.theirs, source, data)
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            return "what comes out does not parse"
        return f"`{stray}` would come or go without the patch saying so" if stray else ""


def _import_line(item: Import) -> bytes:
    module, name, renamed = item
    what = f"{name} as {renamed}" if renamed else name
    return (f"from {module} import {what}\n" if module else f"import {what}\n").encode()
