"""In which function a line stands, read from indentation: enough to tell a method from its twin."""

from __future__ import annotations

from collections.abc import Sequence

from auditor.lazyre import lazy
from auditor.patching.merge.lines import Group
from auditor.patching.port.hunks import Applied

_DEFINITION = lazy(rb"([ \t]*)(?:async[ \t]+)?(?:def|class)[ \t]+(\w+)")
_STARTS = (b"def ", b"class ", b"async ")

Scope = tuple[bytes, ...]


def scope_at(lines: Sequence[bytes], at: int, indent: int) -> Scope:
    """Names of the functions and classes around a line before ``at`` (from 0) that is ``indent`` deep."""
    names: list[bytes] = []
    for line in range(min(at, len(lines)) - 1, -1, -1):
        if indent == 0:
            break
        if not lines[line].lstrip().startswith(_STARTS):
            continue
        found = _DEFINITION.match(lines[line])
        if found is not None and len(found[1]) < indent:
            names.append(found[2])
            indent = len(found[1])
    return tuple(reversed(names))


def _depth(lines: Sequence[bytes]) -> int:
    """Indentation of the first line that has text."""
    line = next((line for line in lines if line.strip()), b"")
    return len(line) - len(line.lstrip(b" \t"))


def elsewhere(group: Group, base: Sequence[bytes], ours: Sequence[bytes], applied: Applied) -> bool:
    """Whether the lines of a group lie in another function of ours than of the base: in a twin, perhaps."""
    for edit in applied.edits:
        if not (group.base[0] <= edit.a0 and edit.a1 <= group.base[1]):
            continue
        removed, added = base[edit.a0 : edit.a1], applied.lines[edit.b0 : edit.b1]
        depth = _depth(removed if any(line.strip() for line in removed) else added)
        at = group.ours[0]
        if group.ours[1] - at == group.base[1] - group.base[0]:
            at += edit.a0 - group.base[0]
        if depth and scope_at(base, edit.a0, depth) != scope_at(ours, at, depth):
            return True
    return False


def same_scope(applied: Applied, start: int, ours: Sequence[bytes], at: int) -> bool:
    """Whether line ``start`` of theirs and line ``at`` of ours lie in functions of the same names."""
    depth = _depth(applied.lines[start:])
    return scope_at(applied.lines, start, depth) == scope_at(ours, at, depth)
