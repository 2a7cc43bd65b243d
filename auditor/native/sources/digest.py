"""Whether two trees have the same native source, without reading it."""

from __future__ import annotations

from hashlib import sha256

from auditor.profile import Profile
from auditor.trees.base import SourceTree


def native_digest(tree: SourceTree, profile: Profile) -> str:
    """The content of everything that the rows and wrappers of a tree are read from; "" where it has none."""
    folders = tuple(f"{build.folder}/" for build in profile.native.builds)
    if not folders:
        return ""
    digest = sha256()
    found = False
    for path, blob in tree.blobs().items():
        if path.startswith(folders):
            found = True
            digest.update(f"{path}\0{blob}\n".encode("utf-8", "surrogatepass"))
    return digest.hexdigest() if found else ""


__all__ = ["native_digest"]
