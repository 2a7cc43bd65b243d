"""The same file in a repository and in a wheel: ``python/pkg/a.py`` and ``pkg/a.py``.

A patch made on one is carried to the other by its paths alone. What a wheel does not have (tests, the source
of native code) is left out of the change there, and named.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from auditor.patching.model import ChangeSet, FileChange
from auditor.profile import Profile


class PathMap:
    """How paths of a patch are spelled in one tree."""

    def __init__(self, profile: Profile, blobs: Mapping[str, str]) -> None:
        self.profile = profile
        self.root = profile.root_of(blobs)
        self.installed = profile.is_installed(blobs)
        ways = profile.places.items()
        self._moved = [(f"{a}/", f"{b}/") if self.installed else (f"{b}/", f"{a}/") for a, b in ways]
        self._packages = tuple(f"{name}/" for name in (profile.package, *profile.native_packages))

    def path(self, path: str) -> str | None:
        """The path in this tree; None for what an installed copy does not have."""
        for old, new in self._moved:
            if path.startswith(old):
                return new + path[len(old) :]
        below = self.profile.below_root(path)
        if below.startswith(f"{self.profile.package}/"):
            return f"{self.root}/{below}" if self.root else below
        if self.installed and not below.startswith(self._packages):
            return None
        return path

    def change_set(self, changes: ChangeSet) -> tuple[ChangeSet, dict[str, str], list[str]]:
        """The changes with this tree's paths, tree path -> path in the patch, what is left out."""
        kept: list[FileChange] = []
        named: dict[str, str] = {}
        left: list[str] = []
        for change in changes.changes:
            old = self.path(change.old_path) if change.old_path is not None else None
            new = self.path(change.new_path) if change.new_path is not None else None
            if (change.old_path is not None and old is None) or (change.new_path is not None and new is None):
                left.append(change.path)
                continue
            kept.append(replace(change, old_path=old, new_path=new))
            named[new or old or ""] = change.path
        return replace(changes, changes=tuple(kept)), named, left
