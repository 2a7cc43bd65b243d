"""Environment flags that a tree declares, read from the class that the profile names."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable
from dataclasses import dataclass

import msgspec

from auditor import pytext
from auditor.history.model import Change
from auditor.profile import Profile
from auditor.trees.base import SourceTree


@dataclass(frozen=True)
class Flag:
    """One declared flag. ``declared`` is the text of its declaration, without the name."""

    name: str
    declared: str
    path: str
    line: int


def declared_flags(tree: SourceTree, profile: Profile) -> dict[str, Flag]:
    """Flags by name; none where the tree has no such class or its file does not parse."""
    blobs = tree.blobs()
    root = profile.root_of(blobs)
    out: dict[str, Flag] = {}
    if root is None:
        return out
    for place in profile.flags:
        path = f"{root}/{place.module.replace('.', '/')}.py".lstrip("/")
        if path not in blobs:
            continue
        try:
            module = pytext.parse(tree.read(path))
        except (SyntaxError, ValueError, RecursionError):
            continue
        for node in module.body:
            if isinstance(node, ast.ClassDef) and node.name == place.symbol:
                for item in node.body:
                    if isinstance(item, (ast.Assign, ast.AnnAssign)) and item.value is not None:
                        target = item.targets[0] if isinstance(item, ast.Assign) else item.target
                        if isinstance(target, ast.Name) and target.id.isupper():
                            try:
                                text = ast.unparse(item.value)
                            except RecursionError:  # nothing that `default_of` could read
                                continue
                            out[target.id] = Flag(target.id, text, path, item.lineno)
    return out


def with_first_readers(changes: Iterable[Change], old: SourceTree | None) -> tuple[Change, ...]:
    """``changes``; of a flag that is declared now and was read before without that, the place is said.

    A tree that is not at hand is not asked.
    """
    told = tuple(changes)
    names = [c.what for c in told if c.kind == "flag" and c.why == "declared"]
    if not names or old is None:
        return told
    named = re.compile(rb"(?<!\w)(" + b"|".join(re.escape(n.encode()) for n in sorted(names)) + rb")(?!\w)")
    readers: dict[str, str] = {}
    for path, data in old.read_many(sorted(path for path in old.blobs() if path.endswith(".py"))):
        for match in named.finditer(data):
            place = f"{path}:{data.count(bytes([10]), 0, match.start()) + 1}"
            readers.setdefault(match[1].decode(), place)
    return tuple(
        msgspec.structs.replace(c, why=f"registered now; was read before, undeclared, at {readers[c.what]}")
        if c.kind == "flag" and c.why == "declared" and c.what in readers
        else c
        for c in told
    )
