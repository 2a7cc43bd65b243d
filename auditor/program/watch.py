"""What an evaluation looked at, so that its result can be kept for a tree in which only other files differ.

Most files of a tree are only searched: for roots, for classes that derive from a class of interest, for
imports of what was learned. A search is written down as a question about one file, and a file that was
read for good as its path. A file that was not read and that says no to every question has no part in the
result; so a changed file that was not read and says no changes nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any

from auditor.program import externals
from auditor.program.imports import imported_modules

_CLASS = re.compile(rb"\nclass[ \t]+(\w+)[ \t]*\(([^)]*)")


class Watched(dict[str, bytes]):
    """The files of a program. Reading one notes its path; :meth:`peek` is for searches that are noted as
    questions. Whoever goes through all contents without a question makes the result depend on all files."""

    def __init__(self, files: dict[str, bytes]) -> None:
        super().__init__(files)
        self.read: set[str] = set()
        self.asked: set[str] = set()  # module names that were looked up, there or not
        self.bases: set[str] = set()  # short names of classes whose subclasses were looked for
        self.words: set[tuple[str, str]] = set()  # (word, pattern of paths) whose files were looked for
        self.readers: set[tuple[str, str, frozenset[str]]] = set()  # (word, second word or "", modules)
        self.all = False

    def peek(self, path: str) -> bytes:
        return dict.__getitem__(self, path)

    def __getitem__(self, path: str) -> bytes:
        self.read.add(path)
        return dict.__getitem__(self, path)

    def get(self, path: str, default: Any = None) -> Any:
        self.read.add(path)
        return dict.get(self, path, default)

    def items(self) -> Any:
        self.all = True
        return dict.items(self)

    def values(self) -> Any:
        self.all = True
        return dict.values(self)


def class_statements(data: bytes) -> Iterator[tuple[str, str]]:
    """(short name of a base, class) for every base that a top-level class statement of a file names."""
    position = data.find(b"\nclass ")
    while position >= 0:
        end = data.find(b":\n", position)
        match = _CLASS.match(data, position, end if end > 0 else len(data))
        if match is not None:
            child = match.group(1).decode("utf-8", "replace")
            for base in match.group(2).split(b","):
                short = base.split(b"[")[0].split(b".")[-1].strip()
                if short and b"=" not in base:
                    yield short.decode("utf-8", "replace"), child
        position = data.find(b"\nclass ", position + 1)


class Questions:
    """The questions of an earlier evaluation, to be asked of other files."""

    def __init__(
        self,
        bases: Iterable[str],
        words: Iterable[tuple[str, str]],
        readers: Iterable[tuple[str, str, Iterable[str]]],
        package: str,
    ) -> None:
        self.bases = frozenset(bases)
        self.words = [(word.encode(), re.compile(within)) for word, within in words]
        self.readers = [(w.encode(), h.encode(), frozenset(names)) for w, h, names in readers]
        self.package = package.encode()

    def concerns(self, data: bytes, module: str, path: str) -> bool:
        """Whether a file of that module name would have had a part in the result."""
        if any(word in data for word in externals.ROOT_WORDS):
            return True
        if any(word in data and within.search(path) for word, within in self.words):
            return True
        if any(base in self.bases for base, _ in class_statements(data)):
            return True
        init = path.endswith("__init__.py")
        imports = imported_modules(data, module, init, self.package)
        passes_on = b"import *" in data or init
        for word, holder, modules in self.readers:
            named = word.decode("utf-8", "replace")
            by_name = any(f"{name}.{named}" in imports for name in modules)
            if by_name or not modules.isdisjoint(imports):
                if by_name or passes_on or (word in data and holder in data):
                    return True
        return False


__all__ = ["Questions", "Watched", "class_statements"]
