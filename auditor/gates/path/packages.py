"""Which versions of other packages a tree asks for, with the line that says so."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from auditor.gates.model import Gate
from auditor.gates.path.model import Pin, Place
from auditor.profile import Profile
from auditor.trees.base import SourceTree
from auditor.trees.watched import paths_like

_SECTION = re.compile(r"^\s*\[([^\[\]]+)\]\s*(?:#.*)?$")
_LIST = re.compile(r"^\s*(?P<key>[\w.-]+|\"[^\"]+\")\s*=\s*\[")
_TEXT = re.compile(r"\"((?:[^\"\\]|\\.)*)\"|'([^']*)'")
_NAME = re.compile(r"^\s*([A-Za-z0-9][A-Za-z0-9._-]*)")
_EXACT = re.compile(r"^\s*==\s*([^\s,;*]+)\s*$")
_EXTRA = re.compile(r"\bextra\s*==\s*[\"']([^\"']+)[\"']")


class Requirement:
    """One stated dependency: ``text`` as written, normal ``name``, ``extra`` it belongs to ("" for none)."""

    __slots__ = ("name", "text", "extra", "place")

    def __init__(self, text: str, extra: str, place: Place) -> None:
        match = _NAME.match(text)
        self.name = normal_name(match[1]) if match else ""
        self.text = text.strip()
        self.extra = extra
        self.place = place

    @property
    def version(self) -> str | None:
        """The one version that is allowed, or None where more are."""
        specifier = self.text.partition(";")[0]
        specifier = re.sub(r"^\s*[\w.-]+\s*(\[[^\]]*\])?", "", specifier).strip().strip("()")
        match = _EXACT.match(specifier)
        return match[1] if match else None


def normal_name(name: str) -> str:
    """A distribution's name as package indexes compare it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def requirements(tree: SourceTree, profile: Profile, root: str) -> list[Requirement]:
    """Everything the tree's metadata asks for, in order. Empty where it holds no metadata."""
    start = profile.start
    if start is None:
        return []
    out: list[Requirement] = []
    for path in _metadata(tree, start.metadata, root):
        text = tree.read(path).decode("utf-8", "replace").replace("\r\n", "\n")
        found = toml_requirements(text, path) if path.endswith(".toml") else header_requirements(text, path)
        out += found
        if out:
            break
    return out


def _metadata(tree: SourceTree, patterns: Iterable[str], root: str) -> Iterator[str]:
    paths = tree.blobs()
    for pattern in patterns:
        base = f"{root}/{pattern}" if root else pattern
        if base in paths:
            yield base
        elif any(c in pattern for c in "*?"):
            wanted = "".join({"*": "[^/]*", "?": "[^/]"}.get(c) or re.escape(c) for c in base)
            yield from paths_like(tree, wanted)


def header_requirements(text: str, path: str) -> list[Requirement]:
    """``Requires-Dist`` headers of a METADATA file."""
    out = []
    for at, line in enumerate(text.split("\n"), 1):
        if not line:
            break  # the description follows
        key, colon, value = line.partition(":")
        if colon and key.lower() == "requires-dist":
            extra = _EXTRA.search(value)
            out.append(Requirement(value, extra[1] if extra else "", Place(path, at)))
    return out


def toml_requirements(text: str, path: str) -> list[Requirement]:
    """Dependencies and extras of a ``pyproject.toml``, with their lines, which a TOML parser would not give.

    Reads what packaging tools write: lists of texts, one or many lines, with comments.
    """
    out: list[Requirement] = []
    section, extra, inside = "", "", False
    for at, line in enumerate(text.split("\n"), 1):
        if not inside:
            head = _SECTION.match(line)
            if head:
                section = head[1].strip()
                continue
            opened = _LIST.match(line)
            key = opened["key"].strip('"') if opened else ""
            if section == "project" and key == "dependencies":
                extra = ""
            elif section == "project.optional-dependencies" and key:
                extra = key
            else:
                continue
            inside = True
            assert opened is not None
            line = line[opened.end() :]
        rest = line
        while rest:
            rest = rest.lstrip(" \t,")
            if rest.startswith("#") or not rest:
                break
            if rest.startswith("]"):
                inside = False
                break
            match = _TEXT.match(rest)
            if match is None:
                break
            value = match[1] if match[1] is not None else match[2]
            out.append(Requirement(value.replace('\\"', '"'), extra, Place(path, at)))
            rest = rest[match.end() :]
    return out


def pins(stated: list[Requirement], profile: Profile, gates: Iterable[Gate]) -> tuple[Pin, ...]:
    """The packages of the profile that the tree asks for, or that some gate depends on."""
    start = profile.start
    if start is None:
        return ()
    hanging: dict[str, list[Place]] = {}
    for gate in gates:
        for top in {r.split(" ")[0][4:].split(".")[0] for r in gate.unknown_because if r.startswith("dep.")}:
            hanging.setdefault(top, []).append(Place(gate.path, gate.line, gate.symbol))
    by_name: dict[str, list[Requirement]] = {}
    for item in stated:
        by_name.setdefault(item.name, []).append(item)
    out = []
    asked = {normal_name(p.name) for p in start.packages} & set(by_name)
    covered = {module for p in start.packages if normal_name(p.name) in asked for module in p.modules}
    for package in start.packages:
        found = by_name.get(normal_name(package.name), [])
        places = {(p.path, p.line): p for module in package.modules for p in hanging.get(module, ())}
        depending = tuple(places[key] for key in sorted(places))
        plain = [r for r in found if not r.extra] or found
        if plain:
            best = plain[0]
            out.append(Pin(package.name, best.text, best.version, best.place, best.extra, depending))
        elif depending and not set(package.modules) & covered:
            out.append(Pin(package.name, None, None, None, "", depending))
            covered |= set(package.modules)
    return tuple(out)
