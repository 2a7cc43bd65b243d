"""Ordered lists of patches as projects keep them: quilt's ``series``, ``.patches``, a Dockerfile, JSON.

A Dockerfile is read as data: which patch files its ``RUN`` lines name, in which order, with which ``-p`` and
which ``--exclude``. Nothing of it is run; a name that only a shell could work out is reported, not guessed.
"""

from __future__ import annotations

import fnmatch
import hashlib
import json
import os
import re
import shlex
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

from auditor.errors import UserError
from auditor.readback import Damaged, plain_json

_PATCH = (".patch", ".diff")
#: What else in a RUN changes a tree, and cannot be read as a patch that is here.
_OTHER_CHANGES = (
    (r"\bsed\s+(?:-[a-zA-Z]*i|--in-place)\S*.*", "edits files in place"),
    (
        r"\bgit\s+(?:cherry-pick|merge|pull|revert)\b.*",
        "takes commits from elsewhere: patches new … --commit ID",
    ),
    (r"\bgit\s+fetch\b.*\bpull/\d+\S*", "takes a pull request: patches new … --pr N"),
    (r"\b(?:curl|wget)\b.*\.(?:patch|diff)\b", "downloads a patch: get it once and import it"),
)


@dataclass(frozen=True)
class Listed:
    """One line of a list: the file, as written in the list, and how it is applied."""

    name: str
    line: int
    strip: int | None = None
    exclude: tuple[str, ...] = ()
    directory: str = ""
    sha256: str = ""
    title: str = ""


@dataclass
class Listing:
    """A list read: its patches in order, and what of it could not be read as data."""

    entries: list[Listed] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)
    copies: list[tuple[str, str]] = field(default_factory=list)  # COPY source, destination


def read_series(text: str, label: str) -> Listing:
    """quilt's ``series`` (``NAME -p0 # why``) or electron's ``.patches``. UserError P033."""
    out = Listing()
    for number, line in enumerate(text.split("\n"), 1):
        words = re.split(r"(?:^|\s)#", line.strip(), maxsplit=1)[0].split()
        if not words:
            continue
        strip: int | None = None
        for word in words[1:]:
            match = re.fullmatch(r"-p(\d{1,2})", word)
            if match is None:
                fact = "applied in reverse" if word == "-R" else f"an option that is not known: {word}"
                raise UserError("P033", f"{words[0]} is {fact}", place=f"{label}:{number}")
            strip = int(match[1])
        # quilt counts the name of the folder as git counts its prefix.
        out.entries.append(Listed(words[0], number, strip))
    return out


def read_json(text: str, label: str) -> Listing:
    """A JSON list of names, or of objects with a name, and perhaps ``sha256``, ``strip``. UserError P033."""

    def fail(fact: str) -> UserError:
        return UserError(
            "P033", fact, place=label, hints=['write {"patches": ["first.patch", {"file": "second.patch"}]}']
        )

    def unique(pairs: list[tuple[str, object]]) -> dict[str, object]:
        if len({key for key, _ in pairs}) != len(pairs):
            raise fail("a key is set twice")
        return dict(pairs)

    try:
        data = json.loads(text, object_pairs_hook=unique)
    except (ValueError, RecursionError):
        raise fail("not valid JSON") from None
    if isinstance(data, dict):
        lists = [key for key in ("patches", "series", "order", "files") if isinstance(data.get(key), list)]
        if len(lists) != 1:
            raise fail("an object with one list: patches, series, order or files")
        data = data[lists[0]]
    if not isinstance(data, list):
        raise fail("neither a list nor an object that holds one")
    out = Listing()
    for number, item in enumerate(data, 1):
        if isinstance(item, str):
            out.entries.append(Listed(item, number))
            continue
        names = [key for key in ("file", "path", "patch", "name") if isinstance(item, dict) and key in item]
        if not names or not isinstance(item[names[0]], str):
            raise fail(f"entry {number} names no file")
        strip = item.get("strip", item.get("p"))
        out.entries.append(
            Listed(
                item[names[0]],
                number,
                strip if isinstance(strip, int) and not isinstance(strip, bool) else None,
                sha256=str(item.get("sha256") or ""),
                title=str(item.get("title") or ""),
            )
        )
    return out


def read_dockerfile(text: str, label: str) -> Listing:
    """The patches that the ``RUN`` lines of a Dockerfile name, in their order."""
    out = Listing()
    known: dict[str, str] = {}
    here = "/"
    for number, instruction, rest in _instructions(text):
        if instruction == "FROM":
            here = "/"
        elif instruction in ("ARG", "ENV"):
            for name, value in _settings(rest, instruction):
                known[name] = _substituted(value, known)
        elif instruction == "WORKDIR":
            here = _joined(here, _substituted(rest.strip(), known))
        elif instruction in ("COPY", "ADD"):
            *sources, destination = _copy_words(_substituted(rest, known)) or [""]
            target = _joined(here, destination) + ("/" if destination.endswith(("/", ".")) else "")
            out.copies += [(source, target) for source in sources]
        elif instruction == "RUN":
            _run(out, _substituted(rest, known, shell=True), number, here, label)
    return out


def _instructions(text: str) -> list[tuple[int, str, str]]:
    """(line, word, rest) of each instruction, continued lines joined, here-documents taken in."""
    out: list[tuple[int, str, str]] = []
    lines = text.split("\n")
    at = 0
    while at < len(lines):
        start = at
        line = lines[at].rstrip("\r").strip()
        at += 1
        if not line or line.startswith("#"):
            continue
        while line.endswith("\\") and at < len(lines):
            following = lines[at].rstrip("\r").strip()
            at += 1
            if not following.startswith("#"):
                line = f"{line[:-1]} {following}"
        for mark in re.findall(r"<<-?\s*['\"]?(\w+)['\"]?", line):
            while at < len(lines):
                following = lines[at].rstrip("\r")
                at += 1
                if following.strip() == mark:
                    break
                line += "\n" + following
        word, _, rest = line.partition(" ")
        out.append((start + 1, word.upper(), rest.strip()))
    return out


def _settings(rest: str, instruction: str) -> list[tuple[str, str]]:
    if instruction == "ENV" and "=" not in rest.split(" ")[0]:
        name, _, value = rest.partition(" ")
        return [(name, value.strip())]
    try:
        words = shlex.split(rest)
    except ValueError:
        return []
    return [(name, value) for name, equals, value in (word.partition("=") for word in words) if equals]


def _substituted(text: str, known: dict[str, str], *, shell: bool = False) -> str:
    """``text`` with the variables that ARG and ENV set; others stay as they are."""

    def value(match: re.Match[str]) -> str:
        name = match[1] or match[3]
        if name in known:
            return known[name]
        return match[2][2:] if match[2] and not shell else match[0]

    return re.sub(r"\$\{(\w+)(:-[^}]*)?\}|\$(\w+)", value, text)


def _joined(folder: str, name: str) -> str:
    parts: list[str] = []
    for part in (name if name.startswith("/") else f"{folder}/{name}").split("/"):
        if part == "..":
            parts = parts[:-1]
        elif part not in ("", "."):
            parts.append(part)
    return "/" + "/".join(parts)


def _copy_words(rest: str) -> list[str]:
    if rest.lstrip().startswith("["):
        try:
            found = plain_json(rest)
        except Damaged:
            return []
        return [word for word in found if isinstance(word, str)] if isinstance(found, list) else []
    words = rest.split()
    if any(word.startswith("--from") for word in words):
        return []
    return [word for word in words if not word.startswith("--")]


def _run(out: Listing, script: str, number: int, here: str, label: str) -> None:
    """The patch files that one RUN names. A loop's words stand for its variable."""
    script = _without_heredoc_head(script)
    loops: dict[str, list[str]] = {}
    for match in re.finditer(r"\bfor\s+(\w+)\s+in\s+([^;\n]*?)\s*(?:;|\n)\s*do\b", script):
        loops[match[1]] = match[2].split()
    body = re.sub(r"\bfor\s+\w+\s+in\s+[^;\n]*?\s*(?:;|\n)\s*do\b", "\n", script)
    for command in re.split(r"&&|\|\||[;\n|]", body):
        here = _cd(command, here)
        for pattern, why in _OTHER_CHANGES:
            if found := re.search(pattern, command):
                shown = " ".join(found[0].split())[:60]
                out.left_out.append(f"{label}:{number}: `{shown}` {why}")
        if not re.search(r"\bapply\b|\bpatch\b|\bam\b|\bquilt\b", command):
            continue
        words = command.replace("<", " < ").replace("=", " ").split()
        strip = re.search(r"(?:\s-p\s?|--strip[= ])(\d{1,2})\b", command)
        exclude = tuple(re.findall(r"--exclude[= ]['\"]?([^\s'\"]+)", command))
        directory = re.search(r"--directory[= ]['\"]?([^\s'\"]+)", command)
        for word in words:
            name = word.strip("\"'()")
            if "://" in name:
                continue  # said above
            variable = re.fullmatch(r"(.*/)?\$\{?(\w+)\}?(\.\w+)?", name)
            if variable and variable[2] in loops:
                names = [
                    f"{variable[1] or ''}{each}{variable[3] or ''}".strip("\"'")
                    for each in loops[variable[2]]
                ]
            elif name.endswith(_PATCH):
                names = [name]
            else:
                continue
            for each in names:
                if "$" in each or "`" in each:
                    out.left_out.append(f"{label}:{number}: {each} is known only to the shell")
                    continue
                if not each.endswith((*_PATCH, "*")):
                    continue
                out.entries.append(
                    Listed(
                        _joined(here, each),
                        number,
                        int(strip[1]) if strip else None,
                        exclude,
                        directory[1] if directory else "",
                    )
                )


def _without_heredoc_head(script: str) -> str:
    return re.sub(r"<<-?\s*['\"]?\w+['\"]?", "", script, count=1)


def _cd(command: str, here: str) -> str:
    match = re.match(r"\s*cd\s+['\"]?([^\s'\"]+)", command)
    return _joined(here, match[1]) if match and "$" not in match[1] else here


def files_of(listing: Listing, folder: Path, label: str, docker: bool) -> list[tuple[Listed, Path]]:
    """The files on this disk that a list means, in its order. UserError P033 where one is missing or outside.

    In a Dockerfile a name is one of the image; ``COPY`` says which file of the build's folder it is. That
    folder is the Dockerfile's, or one above it.
    """
    out: list[tuple[Listed, Path]] = []
    for entry in listing.entries:
        place = f"{label}:{entry.line}"
        if docker:
            paths = _of_image(entry.name, listing.copies, folder)
            if not paths:
                listing.left_out.append(f"{place}: no COPY brings {entry.name} from a file that is here")
                continue
        else:
            if entry.name.startswith("/") or ".." in PurePosixPath(entry.name).parts:
                raise UserError("P033", f"{entry.name} lies outside of the list's folder", place=place)
            paths = [folder / entry.name]
        for path in paths:
            if not os.path.isfile(path):  # unlike Path.is_file, not upset by a name that no file can have
                raise UserError("P033", f"no such file: {entry.name}", place=place)
            if entry.sha256 and hashlib.sha256(path.read_bytes()).hexdigest() != entry.sha256.lower():
                raise UserError(
                    "P033", f"{entry.name} is not the file whose sha256 the list has", place=place
                )
            if all(path != known for _, known in out):
                out.append((entry, path))
    taken = {path for _, path in out}
    for source, _ in listing.copies if docker else ():
        for path in _sources(source, folder):
            for each in sorted(path.iterdir()) if path.is_dir() else [path]:
                if each.suffix in _PATCH and each not in taken:
                    taken.add(each)
                    listing.left_out.append(f"{label}: {each.name} is copied, but no RUN names it")
    return out


def _sources(source: str, folder: Path) -> list[Path]:
    """What a COPY source means in the Dockerfile's folder, or the nearest folder above that has it."""
    name = (
        re.sub(r"\*{2,}", "*", source.strip("/")) or "."
    )  # to Docker, two stars are one: no walk through a disk
    if ".." in PurePosixPath(name).parts or "$" in name:
        return []
    folder = folder.resolve()
    for context in (folder, *list(folder.parents)[:3]):
        try:
            found = sorted(context.glob(name)) if re.search(r"[*?\[]", name) else [context / name]
        except (OSError, ValueError):  # a name that no file can have
            return []
        found = [path for path in found if os.path.exists(path)]
        if found:
            return found
        if (context / ".git").exists():
            break
    return []


def _of_image(name: str, copies: list[tuple[str, str]], folder: Path) -> list[Path]:
    """The files that lie at a path (or glob) of the image, sorted as a shell sorts them."""
    found: dict[str, Path] = {}
    for source, target in copies:
        for path in _sources(source, folder):
            pairs = [(target.rstrip("/") + "/" + each.name, each) for each in sorted(path.iterdir())] if (
                path.is_dir()
            ) else [(target if not target.endswith("/") else target + path.name, path)]  # fmt: skip
            for inside, each in pairs:
                if each.is_file() and (inside == name or fnmatch.fnmatchcase(inside, name)):
                    if each.suffix in _PATCH:
                        found[inside] = each
    return [found[inside] for inside in sorted(found)]
