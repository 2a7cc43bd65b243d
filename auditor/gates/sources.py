"""Which files of a tree are its source."""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import sha256

#: Files above this many bytes are generated tables, not code with decisions; they are listed, not parsed.
MAX_FILE = 4_000_000


def inside_of(root: str, package: str) -> str:
    """The folder of the audited package, with a slash behind it."""
    return f"{root}/{package}/" if root else f"{package}/"


def is_source(path: str, inside: str) -> bool:
    """Whether a path is a Python file of the package."""
    return path.startswith(inside) and path.endswith(".py")


def listing_digest(blobs: Iterable[str]) -> str:
    """A digest of all paths of a tree."""
    return sha256("\0".join(sorted(blobs)).encode("utf-8", "surrogatepass")).hexdigest()
