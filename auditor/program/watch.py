"""What an evaluation looked at, so that its result can be kept for a tree in which only other files differ.

Most files of a tree are only searched: for roots, for classes that derive from a class of interest, for
imports of what was learned. A search is written down as a question about one file, and a file that was
read for good as its path. A file that was not read and that says no to every question has no part in the
result; so a changed file that was not read and says no changes nothing.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from auditor.program import externals, textual
from auditor.program.imports import imported_modules
from auditor.program.source import NODES

_CLASS = re.compile(rb"\nclass[ \t]+(\w+)[ \t]*\(([^)]*)")


class Watched(dict[str, bytes]):
    """The files of a program. Reading one notes its path; :meth:`peek` is for searches that are noted as
    questions. Whoever goes through all contents without a question makes the result depend on all files."""

    def __init__(self, files: dict[str, bytes]) -> None:
        super().__init__(files)
        self.read: set[str] = set()
        self.modules: dict[str, Any] = {}  # path -> its Module, whose pieces know what was looked at
        self.hot: set[str] = set()  # names that lead to a root, once all are known
        self.asked: set[str] = set()  # module names that were looked up, there or not
        self.globals: set[tuple[str, str]] = set()  # (module, name) that was looked up, there or not
        self.members: set[str] = set()  # names that were looked up in classes, there or not
        self.bases: set[str] = set()  # short names of classes whose subclasses were looked for
        self.words: set[tuple[str, str]] = set()  # (word, pattern of paths) whose files were looked for
        self.readers: set[tuple[str, str, frozenset[str]]] = set()  # (word, second word or "", modules)
        self.noted: dict[str, set[tuple[str, ...]]] = {}  # path -> questions about its text
        self.vocabularies: list[tuple[list[str], list[str]]] = []  # (markers, words), see textual.names_of
        self.code_words: set[str] = set()  # words of code patterns that were looked for in pieces
        self.everywhere: set[str] = set()  # those that were looked for in all files
        self.scanned: set[str] = set()  # files in which they were looked for
        self.all = False

    def take(self, path: str, module: Any) -> None:
        """Note the module that was made of a file: from here on its pieces are looked at one by one."""
        if self.modules.setdefault(path, module) is not module:
            self.read.add(path)

    def look(self, path: str, wanted: Callable[[Any], bool]) -> None:
        """Note that the wanted pieces of a file were read."""
        module = self.modules.get(path)
        if module is None:
            self.read.add(path)
        else:
            _look(module.segments, wanted)

    def look_for(self, path: str, words: Iterable[str]) -> None:
        """Note that the pieces of a file that hold one of the words were read."""
        words = tuple(words)
        self.look(path, lambda piece: any(word in piece.peek() for word in words))
        if path in self.modules:
            self.modules[path].parts.update(words)

    def ask(self, path: str, question: Callable[[bytes, bytes], bool], word: str) -> bool:
        """The answer of a function of :mod:`auditor.program.textual` about a file, which is noted."""
        self.noted.setdefault(path, set()).add((question.__name__, word))
        return question(self.peek(path), word.encode())

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


def _look(pieces: Iterable[Any], wanted: Callable[[Any], bool]) -> None:
    for piece in pieces:
        if piece.has_text and wanted(piece):
            if piece.cut_open:
                _look(piece.members(), wanted)
            else:
                piece.looked |= NODES


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
    """The questions of an earlier evaluation about whole files, to be asked of later ones."""

    def __init__(
        self,
        bases: Iterable[str],
        words: Iterable[tuple[str, str]],
        readers: Iterable[tuple[str, str, Iterable[str]]],
        vocabularies: Iterable[tuple[list[str], list[str]]],
        package: str,
    ) -> None:
        self.bases = frozenset(bases)
        self.words = [(word.encode(), re.compile(within)) for word, within in words]
        self.readers = [(w, w.encode(), h.encode(), frozenset(names)) for w, h, names in readers]
        self.vocabularies = [(markers, [w.encode() for w in words]) for markers, words in vocabularies]
        self.package = package.encode()

    def answers(self, data: bytes, module: str, path: str) -> list[object]:
        """Everything that the evaluation would have learned of a file of that module name without reading
        it. An empty list for a file that says no to all."""
        out: list[object] = []
        if any(word in data for word in externals.ROOT_WORDS):
            out.append("root")
        out += [("word", word) for word, within in self.words if word in data and within.search(path)]
        out += [pair for pair in class_statements(data) if pair[0] in self.bases]
        for markers, words in self.vocabularies:
            found = textual.names_of(data, markers, words)
            if found:
                out.append(found)
        init = path.endswith("__init__.py")
        imports = imported_modules(data, module, init, self.package)
        passes_on = b"import *" in data or init
        lazy = textual.answers_by_name(data)
        for name, word, holder, modules in self.readers:
            if lazy and textual.quotes(data, word):
                out.append(("lazy", name))
            by_name = {m for m in modules if f"{m}.{name}" in imports}
            seen = modules & imports
            if by_name or (seen and (passes_on or (word in data and holder in data))):
                out.append((name, by_name, seen, passes_on, word in data, holder in data))
        return out


__all__ = ["Questions", "Watched", "class_statements"]
