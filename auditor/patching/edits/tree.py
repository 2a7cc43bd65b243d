"""A tree while a patch is carried to it, and the places in it that edits name."""

from __future__ import annotations

import ast
import difflib
import re
from dataclasses import dataclass, field

from auditor.patching.edits.miss import Miss, NotHere
from auditor.patching.edits.source import PySource
from auditor.patching.mapping import PathMap
from auditor.patching.symbols import Module, module_of, read_module
from auditor.profile import Profile
from auditor.trees.base import SourceTree


@dataclass
class Place:
    """Where an edit is to be made. ``scopes``: the nodes of the symbol, or the whole module."""

    source: PySource
    parts: tuple[str, ...]  # of the symbol in its module
    scopes: list[ast.AST]
    moved: str = ""  # how it was found, where that is not where the edit says
    sure: bool = True

    @property
    def path(self) -> str:
        return self.source.path

    @property
    def symbol(self) -> str:
        return ".".join(self.parts)

    def shown(self) -> str:
        """The place for a person."""
        return f"{self.path}:{self.symbol}" if self.parts else self.path


@dataclass
class Tree:
    """A tree while a patch is carried to it: the base, and what the edits so far have made of it."""

    base: SourceTree
    profile: Profile
    files: dict[str, bytes | None] = field(default_factory=dict)
    #: What was looked for already: place as named -> file, symbol, how it was found.
    found: dict[str, tuple[str, tuple[str, ...], str, bool]] = field(default_factory=dict)
    #: Whether what is not where it is said to be is looked for in the whole package.
    search: bool = True

    def __post_init__(self) -> None:
        self.map = PathMap(self.profile, self.base.blobs())
        root = self.map.root
        self._prefix = f"{root}/" if root else ""

    def has(self, path: str) -> bool:
        """Whether there is such a file now."""
        return self.files[path] is not None if path in self.files else path in self.base.blobs()

    def read(self, path: str) -> bytes:
        """The file as the edits so far left it. ``Miss`` P070 where there is none."""
        if path in self.files:
            data = self.files[path]
        else:
            data = self.base.read(path) if path in self.base.blobs() else None
        if data is None:
            raise Miss("P070", f"there is no file {path}", self.like_path(path))
        return data

    def like_path(self, path: str) -> list[str]:
        """Files with that name elsewhere."""
        name = path.rpartition("/")[2]
        found = [p for p in self.base.blobs() if p.rpartition("/")[2] == name and p != path]
        return difflib.get_close_matches(path, found, n=3, cutoff=0.0)

    def path(self, path: str) -> str:
        """A path of a patch in this tree. ``Miss`` P070 where an installed copy has none of the kind."""
        found = self.map.path(path)
        if found is None:
            raise NotHere("P070", f"{path} is not part of an installed copy")
        return found

    def module_path(self, module: tuple[str, ...]) -> str | None:
        """The file of a module."""
        stem = self._prefix + "/".join(module)
        return next((p for p in (f"{stem}.py", f"{stem}/__init__.py") if self.has(p)), None)

    def package_files(self) -> list[str]:
        """Python files of the package that are not tests, sorted."""
        start = f"{self._prefix}{self.profile.package}/"
        paths = {p for p in self.base.blobs() if p.startswith(start)} | set(self.files)
        return sorted(
            p for p in paths if p.endswith(".py") and not self.profile.is_excluded(p) and self.has(p)
        )

    def scan(self, pattern: re.Pattern[bytes]) -> list[str]:
        """Package files with a match."""
        paths = self.package_files()
        changed = [p for p in paths if p in self.files]
        found = [p for p in changed if pattern.search(self.read(p))]
        plain = [p for p in paths if p not in self.files]
        found += [p for p, data in self.base.read_many(plain) if pattern.search(data)]
        return sorted(found)

    def imports(self, path: str) -> Module | None:
        """What a module imports."""
        return read_module(
            self.read(path), module_of(path, self.profile), package=path.endswith("__init__.py")
        )
