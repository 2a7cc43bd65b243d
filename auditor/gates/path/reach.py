"""Which functions and classes stand behind a class, by the names that their text mentions.

An over-approximation that is cheap: a definition is behind another one if its name is a word of the other's
text and that name means it there (defined in the same file, or imported from where it is defined).
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator
from typing import Any

from auditor import pytext
from auditor.profile import Profile
from auditor.program.syntax import source_of

#: Names are followed this far from the classes that the start builds.
HOPS = 5
_WORD = re.compile(r"[A-Za-z_]\w*")
_STRINGS = re.compile(r'"""(?:[^"\\]|\\.|"(?!""))*"""|#[^\n]*', re.S)


class Reach:
    """Finds definitions within some areas of the project."""

    def __init__(self, program: Any, profile: Profile) -> None:
        self.program = program
        self.profile = profile
        self._imports: dict[str, dict[str, tuple[str, str]]] = {}
        self._words: dict[tuple[str, str], frozenset[str]] = {}
        self._segments: dict[str, dict[str, list[Any]]] = {}

    def behind(self, starts: Iterable[tuple[str, str]], areas: tuple[str, ...]) -> dict[tuple[str, str], int]:
        """``(path, top-level name)`` -> how many names away it is, for everything behind ``starts``."""
        out = dict.fromkeys(starts, 0)
        edge = list(out)
        for hop in range(1, HOPS + 1):
            found: list[tuple[str, str]] = []
            for path, name in edge:
                for other in self.mentioned(path, name):
                    if other in out or self.profile.is_excluded(other[0]):
                        continue
                    if self.profile.area(other[0]) not in areas:
                        continue
                    out[other] = hop
                    found.append(other)
            edge = found
        return out

    def mentioned(self, path: str, name: str) -> Iterator[tuple[str, str]]:
        """The definitions that the text of one names."""
        own = self.segments(path)
        imports = self.imports(path)
        words = self.words(path, name)
        for word in sorted(words):
            if word in own and word != name:
                yield path, word
            elif word in imports:
                module, original = imports[word]
                yield from self._imported(module, original, words)

    def _imported(self, module: str, original: str, words: frozenset[str]) -> Iterator[tuple[str, str]]:
        for _ in range(4):  # a package that hands a name on is looked through
            path = self.program.names.get(module)
            if path is None:
                return
            if not original:
                yield from ((path, word) for word in sorted(words & set(self.segments(path))))
                return
            if original in self.segments(path):
                yield path, original
                return
            inner = f"{module}.{original}"
            if inner in self.program.names:
                module, original = inner, ""
                continue
            onward = self.imports(path).get(original)
            if onward is None:
                return
            module, original = onward

    def segments(self, path: str) -> dict[str, list[Any]]:
        """Functions and classes of a file by name."""
        if path not in self._segments:
            out: dict[str, list[Any]] = {}
            module = self.program.module(self.program.paths[path])
            for segment in module.segments if module is not None else ():
                if segment.kind != "other":
                    out.setdefault(segment.name, []).append(segment)
            self._segments[path] = out
        return self._segments[path]

    def words(self, path: str, name: str) -> frozenset[str]:
        """The words of a definition's text, without comments and doc strings."""
        key = (path, name)
        if key not in self._words:
            text = "\n".join(_text(s) for s in self.segments(path).get(name, ()))
            self._words[key] = frozenset(_WORD.findall(_STRINGS.sub("", text)))
        return self._words[key]

    def imports(self, path: str) -> dict[str, tuple[str, str]]:
        """Names that import statements anywhere in a file bind: name -> (module, name there or "")."""
        if path in self._imports:
            return self._imports[path]
        out: dict[str, tuple[str, str]] = {}
        self._imports[path] = out
        module = self.program.module(self.program.paths[path])
        if module is None:
            return out
        for node in _import_statements(module.text):
            if isinstance(node, ast.ImportFrom):
                base = self.program.absolute(node.module, node.level, module)
                for alias in node.names:
                    out.setdefault(alias.asname or alias.name, (base, alias.name))
            else:
                for alias in node.names:
                    if alias.asname:
                        out.setdefault(alias.asname, (alias.name, ""))
        return out


_IMPORT = re.compile(
    r"^[ \t]*((?:from[ \t]+[\w.]+[ \t]+import[ \t]+(?:\([^)]*\)|[^\n(]+))|import[ \t]+[^\n]+)", re.M
)


def _import_statements(text: str) -> Iterator[ast.Import | ast.ImportFrom]:
    for match in _IMPORT.finditer(text):
        try:
            body = pytext.parse(match[1].strip()).body
        except (SyntaxError, ValueError):
            continue
        for node in body:
            if isinstance(node, (ast.Import, ast.ImportFrom)):
                yield node


def _text(segment: Any) -> str:
    if segment.text:
        return str(segment.text)
    return "\n".join(source_of(node) for node in segment.nodes())
