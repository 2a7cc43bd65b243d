"""Where in its files a change is made: what tells a commit that made it from one that made it in a twin."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from auditor.patching.diffs.lines import split_lines
from auditor.patching.merge.lines import edits, matching
from auditor.patching.model import ChangeSet
from auditor.patching.port.hunks import apply_hunks
from auditor.patching.port.scope import scope_at

#: Names of the functions and classes around a line; where it is not Python, the next line above that is less
#: deep.
Place = tuple[bytes, ...]


def places(old: bytes, new: bytes, python: bool) -> set[Place]:
    """The places of all lines that differ between two versions of a file; blank ones left out."""
    before, after = split_lines(old), split_lines(new)
    out: set[Place] = set()
    for edit in edits(matching(before, after), len(before), len(after)):
        for lines, start, end in ((before, edit.a0, edit.a1), (after, edit.b0, edit.b1)):
            for at in range(start, end):
                if depth := _depth(lines[at]):
                    out.add(scope_at(lines, at, depth) if python else _above(lines, at, depth))
                elif lines[at].strip():
                    out.add(())
    return out


def _depth(line: bytes) -> int:
    return len(line) - len(line.lstrip(b" \t")) if line.strip() else 0


def _above(lines: Sequence[bytes], at: int, depth: int) -> Place:
    for line in range(at - 1, -1, -1):
        if lines[line].strip() and _depth(lines[line]) < depth:
            return (lines[line].strip(),)
    return ()


def of_patch(changes: ChangeSet, blobs: Callable[[str], bytes | None]) -> set[Place]:
    """The places of a patch, as far as the files are known that it was made for."""
    out: set[Place] = set()
    for change in changes.changes:
        base = blobs(change.old_blob) if change.old_path and change.new_path and change.hunks else None
        applied = apply_hunks(split_lines(base), change.hunks) if base is not None else None
        if base is not None and applied is not None:
            out |= places(base, b"".join(applied.lines), _is_python(change.path))
    return out


def of_files(pairs: Iterable[tuple[str, bytes | None, bytes | None]]) -> set[Place]:
    """The places of (path, file before, file after); a file that came or went has none."""
    out: set[Place] = set()
    for path, old, new in pairs:
        if old is not None and new is not None and old != new:
            out |= places(old, new, _is_python(path))
    return out


def _is_python(path: str) -> bool:
    return path.endswith((".py", ".pyi"))
