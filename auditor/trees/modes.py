"""Whether a file of a tree is executable: what a rename has to carry along."""

from __future__ import annotations

import os

from auditor.trees.base import SourceTree
from auditor.trees.commit import CommitTree
from auditor.trees.overlay import OverlayTree


def is_executable(tree: SourceTree, path: str) -> bool:
    """Whether ``path`` may be run by its owner. False where the tree cannot say: a packed wheel."""
    while isinstance(tree, OverlayTree):
        tree = tree.base
    if isinstance(tree, CommitTree):
        done = tree.repo.run("ls-tree", "-z", "--full-tree", tree.commit.tree, "--", path)
        return done.stdout.startswith(b"100755 ")
    local = tree.local_path(path) if path in tree.blobs() else None
    try:
        return local is not None and bool(os.stat(local).st_mode & 0o100)
    except OSError:
        return False
