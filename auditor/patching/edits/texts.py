"""Edits of whole files and of plain text: exact, never with fuzz."""

from __future__ import annotations

import re
from collections.abc import Callable

from auditor.patching.edits import model
from auditor.patching.edits.kernel import KernelFile
from auditor.patching.edits.miss import Miss
from auditor.patching.edits.source import Splice
from auditor.patching.edits.tree import Tree
from auditor.trees.names import blob_id

Files = Callable[[str], bytes]


def whole_file(
    tree: Tree, edit: model.AddFile | model.ReplaceFile | model.DeleteFile, files: Files | None
) -> tuple[str, bytes | None, bool]:
    """Path, content after (None: gone), and whether that changes anything."""
    path = tree.path(edit.path)
    there = tree.read(path) if tree.has(path) else None
    if isinstance(edit, model.DeleteFile):
        if there is not None:
            _check_version(path, there, edit.was)
        return path, None, there is not None
    if files is None:
        raise Miss("P078", f"no folder `files/` to take {edit.from_} from")
    data = files(edit.from_)
    if isinstance(edit, KernelFile):
        data = data.rstrip(b"\n") + b"\n" + edit.tail.encode()
    if there == data:
        return path, data, False
    if isinstance(edit, model.AddFile):
        if there is not None:
            raise Miss("P077", f"{path} is there already, and is another file", [blob_id(there)])
    elif there is None:
        raise Miss("P070", f"there is no file {path}", tree.like_path(path))
    else:
        _check_version(path, there, edit.was)
    return path, data, True


def _check_version(path: str, data: bytes, was: tuple[str, ...]) -> None:
    """Only a version that the patch knows is replaced or goes."""
    found = blob_id(data)
    if not any(found.startswith(each) for each in was):
        raise Miss("P077", f"{path} is another version than the edit knows", [f"was: [{found}]"])


def text_edit(data: bytes, path: str, edit: model.EditText | model.NativeText) -> list[Splice]:
    """Exact text, as many times as the edit says."""
    newline = b"\r\n" if b"\r\n" in data else b"\n"

    def raw(text: str) -> bytes:
        return text.encode().replace(b"\n", newline)

    if isinstance(edit, model.EditText) and edit.find:
        old, new = raw(edit.find), raw(edit.with_ or "")
    else:
        anchor, extra = raw(edit.before or edit.after), raw(edit.insert)
        old = anchor
        new = extra + anchor if edit.before else anchor + extra
    done = _places(data, new) if new else []
    spans = [(at, at + len(new)) for at in done]
    todo = [at for at in _places(data, old) if not any(a <= at and at + len(old) <= b for a, b in spans)]
    if len(todo) + len(done) != edit.count and len(todo) != edit.count:
        raise _miss(data, path, old, todo, edit.count)
    return [Splice(at, at + len(old), new) for at in todo]


def _places(data: bytes, text: bytes) -> list[int]:
    out = []
    at = data.find(text)
    while at >= 0:
        out.append(at)
        at = data.find(text, at + len(text))
    return out


def _miss(data: bytes, path: str, text: bytes, found: list[int], count: int) -> Miss:
    shown = " ".join(text.decode("utf-8", "replace").split())[:60]
    fact = f"`{shown}` is in {path} {len(found)} times, expected {count}"
    if found:
        return Miss("P071", fact, [f"line {_line(data, at)}" for at in found[:4]])
    loose = rb"\s+".join(re.escape(word) for word in text.split())
    near = [data.count(b"\n", 0, hit.start()) + 1 for hit in re.finditer(loose, data)] if loose else []
    if near:
        return Miss("P071", f"{fact}; with other blanks it is there", [f"line {line}" for line in near[:3]])
    first = next((line.strip() for line in text.split(b"\n") if line.strip()), b"")
    lines = [n for n, line in enumerate(data.split(b"\n"), 1) if first and first in line]
    return Miss("P071", fact, [f"line {line}" for line in lines[:3]])


def _line(data: bytes, at: int) -> int:
    return data.count(b"\n", 0, at) + 1
