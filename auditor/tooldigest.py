"""What this tool is: a digest of its code, its queries and profiles, and the Python that runs it."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path

from auditor.data import data_root

_digests: dict[Path, str] = {}


def tool_digest() -> str:
    """A digest of everything of ours that a report depends on: code, queries, profiles, Python's version.
    It is made once in a process."""
    root = data_root()
    if root not in _digests:
        _digests[root] = _tool_digest(root)
    return _digests[root]


def _tool_digest(root: Path) -> str:
    digest = sha256(repr(sys.version_info[:3]).encode())
    code = Path(__file__).parent
    for folder, kinds in ((code, (".py", ".json")), (root / "queries", (".py", ".yaml", ".json"))):
        for path in sorted(_files(str(folder), kinds)):
            with open(path, "rb") as file:
                data = file.read()
            digest.update(b"%s\0%d\0" % (path[len(str(folder)) :].encode(), len(data)) + data)
    return digest.hexdigest()


def _files(folder: str, kinds: tuple[str, ...]) -> Iterator[str]:
    import os

    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                if entry.name not in ("__pycache__", "_data"):
                    yield from _files(entry.path, kinds)
            elif entry.name.endswith(kinds):
                yield entry.path
