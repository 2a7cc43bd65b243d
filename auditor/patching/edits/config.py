"""Typed small edits of files that are not Python: JSON, TOML and CMake; and their plain text."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from typing import Any

import msgspec

from auditor.lazyre import lazy
from auditor.patching.edits import model, texts
from auditor.patching.edits.items import insert_item
from auditor.patching.edits.miss import Miss
from auditor.patching.edits.source import Lines, Splice
from auditor.readback import Damaged, plain_json

_BLANK = lazy(r"[ \t\r\n]*")
_STRING = lazy(r'"(?:[^"\\]|\\.)*"', re.DOTALL)
_SCALAR = lazy(r"[^\s,\]}]+")


def change(data: bytes, path: str, edit: model.Strict) -> list[Splice]:
    """The splices of an edit of a file that is not read as Python. Empty where it is made already."""
    if isinstance(edit, (model.EditText, model.NativeText)):
        return texts.text_edit(data, path, edit)
    assert isinstance(edit, (model.SetKey, model.AddToList))
    kind = _kind(path)
    try:
        data.decode("ascii" if kind == "cmake" else "utf-8")
    except UnicodeDecodeError:
        if kind != "cmake" or b"\0" in data:
            raise Miss("P073", f"{path} is not UTF-8") from None
    if kind == "cmake":
        if isinstance(edit, model.SetKey):
            raise Miss("P075", "set-key is for JSON and TOML; add-to-list or edit-text for CMake")
        return _cmake(data, path, edit)
    root = _read_json(data, path) if kind == "json" else _read_toml(data, path)
    if isinstance(edit, model.SetKey):
        return _set_key(data, path, root, edit, kind)
    return _add(data, path, root, edit, kind)


def check(data: bytes, path: str) -> None:
    """``Miss`` P073 where a file that a reader of ours knows would not be read any more."""
    if path.endswith(".json"):
        _read_json(data, path)
    elif path.endswith(".toml"):
        _read_toml(data, path)


def _kind(path: str) -> str:
    name = path.rpartition("/")[2]
    if name.endswith(".json"):
        return "json"
    if name.endswith(".toml"):
        return "toml"
    if name == "CMakeLists.txt" or name.endswith(".cmake"):
        return "cmake"
    raise Miss("P075", f"{path} is neither JSON, TOML nor CMake: use edit-text")


@dataclass
class Value:
    """A value with its bytes from ``start`` to ``end``. Positions are of bytes."""

    start: int
    end: int
    data: Any
    items: list[Value] = field(default_factory=list)
    keys: dict[str, Value] = field(default_factory=dict)
    spans: list[tuple[int, int]] = field(default_factory=list)  # of the members, with their keys
    line: bool = False  # a TOML table: its members are lines


class _Json:
    def __init__(self, text: str, path: str) -> None:
        self.text, self.path, self.at = text, path, 0

    def blank(self) -> None:
        match = _BLANK.match(self.text, self.at)
        assert match is not None
        self.at = match.end()

    def fail(self) -> Miss:
        return Miss("P073", f"line {self.text.count(chr(10), 0, self.at) + 1} of {self.path} cannot be read")

    def value(self, depth: int = 0) -> Value:
        self.blank()
        start = self.at
        if depth > 100:
            raise self.fail()
        here = self.text[start : start + 1]
        if here in ("{", "["):
            return self.container(start, "}" if here == "{" else "]", depth)
        match = (_STRING if here == '"' else _SCALAR).match(self.text, start)
        if match is None:
            raise self.fail()
        self.at = match.end()
        try:
            return Value(start, self.at, plain_json(match[0].encode("latin-1").decode()))
        except ValueError:
            raise self.fail() from None

    def container(self, start: int, closing: str, depth: int) -> Value:
        out = Value(start, start, {} if closing == "}" else [])
        self.at += 1
        self.blank()
        while self.text[self.at : self.at + 1] != closing:
            if out.spans:
                if self.text[self.at : self.at + 1] != ",":
                    raise self.fail()
                self.at += 1
                self.blank()
            first = self.at
            if closing == "}":
                key = self.value(depth + 1).data
                self.blank()
                if not isinstance(key, str) or self.text[self.at : self.at + 1] != ":" or key in out.keys:
                    raise self.fail()
                self.at += 1
                item = self.value(depth + 1)
                out.keys[key] = item
                out.data[key] = item.data
            else:
                item = self.value(depth + 1)
                out.items.append(item)
                out.data.append(item.data)
            out.spans.append((first, self.at))
            self.blank()
        self.at += 1
        out.end = self.at
        return out


def _read_json(data: bytes, path: str) -> Value:
    # Latin-1 keeps one character for each byte, so that positions are those of bytes.
    reader = _Json(data.decode("latin-1"), path)
    try:
        plain_json(data)
    except Damaged:
        raise Miss("P073", f"{path} is not JSON") from None
    return reader.value()


_TOML_LINE = lazy(r"[ \t]*(?:(\[\[?)([^\]\n]+)\]\]?|([A-Za-z0-9_.\"'-][^=\n#]*?)[ \t]*=[ \t]*)")
_TOML_STRING = lazy(
    r'"""(?:[^\\]|\\.)*?"""(?!")|' + r"'''.*?'''(?!')|" + r'"(?:[^"\\\n]|\\.)*"|' + r"'[^'\n]*'", re.DOTALL
)


def _read_toml(data: bytes, path: str) -> Value:
    """The tables of a TOML file with the places of their values. ``tomllib`` checks it where there is one."""
    try:
        import tomllib  # type: ignore[import-not-found, unused-ignore]
    except ImportError:  # Python 3.10
        tomllib = None  # type: ignore[assignment, unused-ignore]
    if tomllib is not None:
        try:
            tomllib.loads(data.decode())
        except RecursionError:
            raise Miss("P073", f"{path} is nested too deeply") from None
        except ValueError as error:
            raise Miss("P073", f"{path} is not TOML: {error}") from None
    text = data.decode("latin-1")
    root = Value(0, 0, {}, line=True)
    table = root
    at = 0
    while at < len(text):
        stop = text.find("\n", at) + 1 or len(text)
        line = _TOML_LINE.match(text, at, stop)
        if line is None:
            at = stop
            continue
        if line[1]:
            table = _toml_table(root, _toml_key(line[2]), line[1] == "[[")
            table.start = table.end = at = stop
            continue
        value, at = _toml_value(text, line.end(), path)
        target = table
        *above, last = _toml_key(line[3])
        for name in above:
            target = target.keys.setdefault(name, Value(0, 0, {}, line=True))
        target.keys[last] = value
        at = text.find("\n", at) + 1 or len(text)
        table.end = at
    return root


def _toml_key(text: str) -> list[str]:
    return [part.strip().strip("\"'") for part in re.findall(r"\"[^\"]*\"|'[^']*'|[^.]+", text.strip())]


def _toml_table(root: Value, names: list[str], array: bool) -> Value:
    table = root
    for name in names:
        if array and name is names[-1]:
            holder = table.keys.setdefault(name, Value(0, 0, []))
            holder.items.append(Value(0, 0, {}, line=True))
            return holder.items[-1]
        table = table.keys.setdefault(name, Value(0, 0, {}, line=True))
        if table.items:
            table = table.items[-1]
    return table


def _toml_value(text: str, start: int, path: str) -> tuple[Value, int]:
    """One value and where it ends."""
    if text[start] in "[{":
        out = Value(start, start, [] if text[start] == "[" else {})
        at = start + 1
        while True:
            at = _toml_blank(text, at)
            if at >= len(text):
                raise Miss("P073", f"a bracket of {path} is not closed")
            if text[at] in "]}":
                break
            if text[at] == ",":
                at += 1
                continue
            first = at
            if text[start] == "{":
                key = _TOML_LINE.match(text, at)
                if key is None or not key[3]:
                    raise Miss("P075", f"an inline table of {path} cannot be read")
                item, at = _toml_value(text, key.end(), path)
                out.keys[_toml_key(key[3])[-1]] = item
            else:
                item, at = _toml_value(text, at, path)
                out.items.append(item)
                out.data.append(item.data)
            out.spans.append((first, at))
        out.end = at + 1
        return out, out.end
    match = _TOML_STRING.match(text, start) or re.compile(r"[^,\]}#\n\r]*[^,\]}#\n\r \t]").match(text, start)
    if match is None:
        raise Miss("P073", f"a value of {path} cannot be read")
    return Value(start, match.end(), _toml_scalar(match[0])), match.end()


def _toml_blank(text: str, at: int) -> int:
    match = re.compile(r"(?:[ \t\r\n]|#[^\n]*)*").match(text, at)
    return match.end() if match else at


def _toml_scalar(text: str) -> Any:
    raw = text.encode("latin-1").decode("utf-8", "replace")
    if raw.startswith("'") and not raw.startswith("'''"):
        return raw[1:-1]
    try:
        return plain_json(raw)
    except Damaged:
        return raw


def _written(value: Any, kind: str) -> bytes:
    if kind == "toml" and (value is None or isinstance(value, dict)):
        raise Miss("P075", "a value of TOML is text, a number, true, false or a list of them")
    return json.dumps(value, ensure_ascii=False).encode()


def _at(root: Value, keys: tuple[str | int, ...], path: str) -> Value | None:
    value = root
    for depth, key in enumerate(keys):
        if isinstance(key, int) and 0 <= key < len(value.items):
            value = value.items[key]
        elif isinstance(key, str) and key in value.keys:
            value = value.keys[key]
        elif depth == len(keys) - 1:
            return None
        else:
            raise Miss(
                "P070", f"{path} has no {'.'.join(map(str, keys[: depth + 1]))}", sorted(value.keys)[:4]
            )
    return value


def _set_key(data: bytes, path: str, root: Value, edit: model.SetKey, kind: str) -> list[Splice]:
    found = _at(root, edit.key, path)
    name = ".".join(map(str, edit.key))
    if found is not None:
        if _same(found, edit.to):
            return []
        if edit.was is msgspec.UNSET or edit.was == "absent" or not _same(found, edit.was):
            shown = data[found.start : found.end].decode("utf-8", "replace")
            wanted = "absent" if edit.was is msgspec.UNSET else edit.was
            raise Miss("P077", f"{name} in {path} is {' '.join(shown.split())[:60]}, expected {wanted}")
        return [Splice(found.start, found.end, _written(edit.to, kind))]
    if edit.was is not msgspec.UNSET and edit.was != "absent":
        raise Miss("P070", f"{path} has no {name}")
    holder = _at(root, edit.key[:-1], path) if len(edit.key) > 1 else root
    assert holder is not None
    key = str(edit.key[-1])
    if holder.line:
        text = _toml_word(key) + b" = " + _written(edit.to, kind)
        lines = Lines(data, path)
        lead = b"" if not data[: holder.end] or data[: holder.end].endswith(b"\n") else lines.newline
        return [Splice(holder.end, holder.end, lead + text + lines.newline)]
    if not isinstance(holder.data, dict):
        raise Miss("P075", f"{'.'.join(map(str, edit.key[:-1]))} in {path} has no keys")
    if kind == "toml":
        text = _toml_word(key) + b" = " + _written(edit.to, kind)
    else:
        text = json.dumps(key, ensure_ascii=False).encode() + b": " + _written(edit.to, kind)
    return insert_item(
        Lines(data, path), holder.start + 1, holder.end - 1, holder.spans, len(holder.spans), [text]
    )


def _toml_word(key: str) -> bytes:
    """A key as TOML has it: without quotes where it needs none."""
    return (key if re.fullmatch(r"[A-Za-z0-9_-]+", key) else json.dumps(key, ensure_ascii=False)).encode()


def _same(found: Value, wanted: Any) -> bool:
    """``1`` and ``true`` are not the same, as they are to Python."""
    return json.dumps(found.data, sort_keys=True) == json.dumps(wanted, sort_keys=True)


def _wanted(edit: model.AddToList) -> list[Any]:
    return [edit.member] if edit.member is not None else list(edit.members)


def _add(data: bytes, path: str, root: Value, edit: model.AddToList, kind: str) -> list[Splice]:
    keys = tuple(edit.list_.split(".")) if isinstance(edit.list_, str) else edit.list_
    found = _at(root, keys, path)
    name = ".".join(map(str, keys))
    if found is None:
        raise Miss("P070", f"{path} has no {name}")
    if not isinstance(found.data, list) or found.line:
        raise Miss("P075", f"{name} in {path} is no list")
    new = [item for item in _wanted(edit) if not any(_same(each, item) for each in found.items)]
    if not new:
        return []
    written = [_written(item, kind) for item in new]
    return insert_item(
        Lines(data, path), found.start + 1, found.end - 1, found.spans, len(found.spans), written
    )


_CMAKE_TOKEN = lazy(rb'#\[(=*)\[.*?\]\1\]|#[^\n]*|"(?:[^"\\]|\\.)*"|\(|\)|[^\s()#"]+', re.DOTALL)


def _cmake(data: bytes, path: str, edit: model.AddToList) -> list[Splice]:
    """Words at the end of ``set(NAME …)``, ``list(APPEND NAME …)`` or of ``command WORD``."""
    name = edit.list_ if isinstance(edit.list_, str) else " ".join(map(str, edit.list_))
    found = []
    for start, words, close in _commands(data):
        flat = [word for word, _, _ in words]
        own = f"{start.decode('utf-8', 'replace').lower()} {flat[0]}" if flat else ""
        if (own.startswith("set ") and flat[0] == name) or own.lower() == name.lower() and own:
            found.append((words[1:], words[0], close))
        elif own == "list APPEND" and flat[1:2] == [name]:
            found.append((words[2:], words[1], close))
    new = [str(item) for item in _wanted(edit)]
    there = [item for item in new if any(item in [w.strip('"') for w, _, _ in each[0]] for each in found)]
    missing = [item for item in new if item not in there]
    if not missing:
        return []
    if len(found) != 1:
        known = sorted(
            {words[0][0] for start, words, _ in _commands(data) if start.lower() == b"set" and words}
        )
        raise Miss("P071", f"{name} is set {len(found)} times in {path}, expected 1", known[:4])
    words, head, close = found[0]
    lines = Lines(data, path)
    quoted = bool(words) and words[-1][0].startswith('"')
    placed: dict[int, list[bytes]] = {}
    for item in missing:
        text = f'"{item}"' if quoted else item
        at, written = _cmake_member(lines, words, head, text)
        placed.setdefault(at, []).append(written)
    return [Splice(at, at, b"".join(texts)) for at, texts in placed.items()]


def _cmake_member(
    lines: Lines, words: list[tuple[str, int, int]], head: tuple[str, int, int], item: str
) -> tuple[int, bytes]:
    """Where one more word goes, and how: in order among those of its folder, if they are, else at the end."""
    folder = item.rpartition("/")[0]
    mates = [word for word in words if folder and word[0].rpartition("/")[0] == folder]
    if [word[0] for word in mates] != sorted(word[0] for word in mates):
        mates = []
    greater = [word for word in mates if word[0] > item]
    near = greater[0] if greater else mates[-1] if mates else words[-1] if words else head
    blanks = lines.data[lines.line_start(near[1]) : near[1]]
    own_line = bool(words) and not blanks.strip()
    if greater:
        return near[1], item.encode() + (lines.newline + blanks if own_line else b" ")
    if not own_line:
        return near[2], b" " + item.encode()
    rest = re.compile(rb"[ \t]*#[^\r\n]*").match(lines.data, near[2])
    return rest.end() if rest else near[2], lines.newline + blanks + item.encode()


def _commands(data: bytes) -> list[tuple[bytes, list[tuple[str, int, int]], int]]:
    """(name, words with their bytes, closing bracket) of every command."""
    out = []
    before = b""
    words: list[tuple[str, int, int]] = []
    name, depth = b"", 0
    for token in _CMAKE_TOKEN.finditer(data):
        text = token[0]
        if text.startswith(b"#"):
            continue
        if text == b"(":
            depth += 1
            if depth == 1:
                name, words = before, []
        elif text == b")":
            depth -= 1
            if depth == 0:
                out.append((name, words, token.start()))
        elif depth:
            words.append((text.decode("utf-8", "replace"), token.start(), token.end()))
        before = text
    return out
