"""Environment flags that a tree declares, read from the class that the profile names."""

from __future__ import annotations

import ast
from dataclasses import dataclass

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
            module = ast.parse(tree.read(path))
        except (SyntaxError, ValueError, RecursionError):
            continue
        for node in module.body:
            if isinstance(node, ast.ClassDef) and node.name == place.symbol:
                for item in node.body:
                    if isinstance(item, (ast.Assign, ast.AnnAssign)) and item.value is not None:
                        target = item.targets[0] if isinstance(item, ast.Assign) else item.target
                        if isinstance(target, ast.Name) and target.id.isupper():
                            text = ast.unparse(item.value)
                            out[target.id] = Flag(target.id, text, path, item.lineno)
    return out
