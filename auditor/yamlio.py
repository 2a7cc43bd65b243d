"""Strict, safe YAML: what is written is what is read, and every error names its line.

Query files, profiles and patchsets are input from people, so the surprises of YAML 1.1 are off: nothing
but ``true``, ``false``, ``null``, an empty value and plain decimal integers is anything else than text
(``on``, ``yes``, ``12.0``, ``1.20``, ``12:30:45`` and dates stay text), keys are always text, a repeated
key is an error, and so are tags, merge keys and a second document. Size, depth, number of nodes and
aliases are limited, so that a small file cannot grow large.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from auditor.errors import UserError
from auditor.lazyre import lazy

T = TypeVar("T")

_INT = lazy(r"0|-?[1-9][0-9]{0,17}")
_WORDS: dict[str, Any] = {"true": True, "false": False, "null": None, "": None}


@dataclass(frozen=True)
class Limits:
    """How much one file may hold. ``nodes`` counts what aliases repeat each time they repeat it."""

    size: int = 1 << 20  # bytes
    depth: int = 40
    nodes: int = 100_000
    aliases: int = 100


DEFAULT_LIMITS = Limits()


class _Node:
    """One value with the place it was written at; ``line`` and ``column`` count from 1."""

    __slots__ = ("value", "line", "column", "items", "keys", "size")

    def __init__(self, line: int, column: int) -> None:
        self.value: Any = None
        self.line = line
        self.column = column
        self.items: dict[str | int, _Node] = {}
        self.keys: dict[str, tuple[int, int]] = {}
        self.size = 1


class Document:
    """The data of one file (dict, list, str, int, bool, None) and where each value was written."""

    def __init__(self, name: str, root: _Node, code: str) -> None:
        self.name = name
        self.data = root.value
        self.code = code
        self._root = root

    def mark(self, *path: str | int, key: str | None = None) -> tuple[int, int]:
        """Line and column, from 1, of the value at a path, or of one ``key`` in the mapping there.

        A path that leads nowhere gives the nearest value above it.
        """
        node = self._root
        for step in path:
            if step not in node.items:
                break
            node = node.items[step]
        if key is not None and key in node.keys:
            return node.keys[key]
        return node.line, node.column

    def place(self, *path: str | int, key: str | None = None) -> str:
        """The same as ``name:line:column``."""
        line, column = self.mark(*path, key=key)
        return f"{self.name}:{line}:{column}"

    def error(
        self,
        fact: str,
        *path: str | int,
        key: str | None = None,
        code: str | None = None,
        hints: tuple[str, ...] = (),
    ) -> UserError:
        """A UserError that points at a value of this file; the caller raises it."""
        return UserError(code or self.code, fact, place=self.place(*path, key=key), hints=hints)

    def convert(self, type_: type[T]) -> T:
        """The data as a msgspec type. A mismatch is a UserError at the line of the value."""
        try:
            return msgspec.convert(self.data, type_)
        except msgspec.ValidationError as exc:
            raise self._explain(str(exc), type_) from None

    def _explain(self, text: str, type_: Any) -> UserError:
        message = text
        steps: tuple[str | int, ...] = ()
        match = re.fullmatch(r"(.*) - at `(?:key in )?(\$.*)`", text, re.DOTALL)
        if match:
            message, steps = match[1], tuple(_steps(match[2]))
        unknown = re.fullmatch(r"Object contains unknown field `(.*)`", message, re.DOTALL)
        if unknown:
            name = unknown[1]
            near = _near(name, _field_names(type_))
            hints = (f"write `{near}` instead of `{name}`",) if near else (f"remove `{name}`",)
            return self.error(f"unknown field `{name}`", *steps, key=name, hints=hints)
        missing = re.fullmatch(r"Object missing required field `(.*)`", message, re.DOTALL)
        if missing:
            return self.error(f"`{missing[1]}` is missing", *steps, hints=(f"add `{missing[1]}:`",))
        where = ".".join(str(step) for step in steps)
        words = message[:1].lower() + message[1:]
        for ours, theirs in (("mapping", "object"), ("list", "array"), ("text", "str"), ("number", "int")):
            words = words.replace(f"`{theirs}`", ours)
        return self.error(f"{where}: {words}" if where else words, *steps)


def _steps(path: str) -> Iterator[str | int]:
    """The steps of a msgspec path: ``$.a[0].b``. ``[...]`` (any key) ends it: the place is not known."""
    for name, index in re.findall(r"\.([^.\[\]]+)|\[([^\]]*)\]", path):
        if name:
            yield name
        elif index.isdecimal():
            yield int(index)
        else:
            return


def _field_names(type_: Any) -> set[str]:
    """Every field name that occurs anywhere in a type."""
    import msgspec.inspect as inspect

    names: set[str] = set()
    seen: set[Any] = set()

    def walk(info: Any) -> None:
        if isinstance(info, inspect.StructType):
            if info.cls in seen:
                return
            seen.add(info.cls)
            for item in info.fields:
                names.add(item.encode_name)
                walk(item.type)
            return
        for attribute in ("item_type", "value_type"):
            if hasattr(info, attribute):
                walk(getattr(info, attribute))
        for part in (*getattr(info, "types", ()), *getattr(info, "item_types", ())):
            walk(part)

    walk(inspect.type_info(type_))
    return names


def _near(word: str, known: set[str]) -> str | None:
    import difflib  # only an error needs it

    found = difflib.get_close_matches(word, sorted(known), n=1, cutoff=0.6)
    return found[0] if found else None


def load(
    source: str | Path | bytes,
    name: str | None = None,
    *,
    code: str = "U010",
    limits: Limits = DEFAULT_LIMITS,
) -> Document:
    """Reads one YAML file, or the bytes of one.

    ``name`` is what errors call it (default: the path as given). ``code`` is the code of every UserError
    that this file can cause, here and later in :meth:`Document.convert`.
    """
    if isinstance(source, bytes):
        raw, shown = source, name or "<bytes>"
    else:
        shown = name or str(source)
        raw = _read(Path(source), shown, code, limits)
    if len(raw) > limits.size:
        raise UserError(code, f"larger than {limits.size:,} bytes", place=shown)
    return Document(shown, _Builder(_text(raw, shown, code), shown, code, limits).document(), code)


def load_as(type_: type[T], source: str | Path | bytes, name: str | None = None, *, code: str = "U010") -> T:
    """:func:`load` and :meth:`Document.convert` in one, for callers that need no lines afterwards."""
    return load(source, name, code=code).convert(type_)


def _read(path: Path, shown: str, code: str, limits: Limits) -> bytes:
    try:
        with path.open("rb") as handle:
            return handle.read(limits.size + 1)
    except OSError as exc:
        raise UserError(code, f"cannot be read: {exc.strerror or exc}", place=shown) from None


def _text(raw: bytes, shown: str, code: str) -> str:
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as exc:
        line = raw.count(b"\n", 0, exc.start) + 1
        column = exc.start - (raw.rfind(b"\n", 0, exc.start) + 1) + 1
        raise UserError(
            code, "not UTF-8", place=f"{shown}:{line}:{column}", hints=["save it as UTF-8"]
        ) from None
    # What YAML calls printable; checked here because the parsers give no line for the others.
    bad = re.search("[^\t\n\r\x20-\x7e\x85\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]", text)
    if bad:
        line = text.count("\n", 0, bad.start()) + 1
        column = bad.start() - text.rfind("\n", 0, bad.start())
        raise UserError(code, f"control character U+{ord(bad[0]):04X}", place=f"{shown}:{line}:{column}")
    return text


class _Builder:
    """Builds the tree from the parser's events, checking as it goes."""

    def __init__(self, text: str, name: str, code: str, limits: Limits) -> None:
        import yaml  # not needed by most runs, which find their data in the cache

        self.yaml = yaml
        self.name, self.code, self.limits = name, code, limits
        self.text = text
        self.anchors: dict[str, _Node] = {}
        self.nodes = 0
        self.aliases = 0
        self.events: Any = None

    def fail(self, fact: str, mark: Any, hint: str | None = None) -> UserError:
        place = f"{self.name}:{mark.line + 1}:{mark.column + 1}" if mark else self.name
        return UserError(self.code, fact, place=place, hints=[hint] if hint else [])

    def document(self) -> _Node:
        yaml = self.yaml
        loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
        self.events = iter(yaml.parse(self.text, Loader=loader))
        try:
            return self._document()
        except yaml.MarkedYAMLError as exc:
            fact = " ".join(part for part in (exc.problem, exc.context) if part) or "not YAML"
            raise self.fail(f"not valid YAML: {fact}", exc.problem_mark or exc.context_mark) from None
        except yaml.YAMLError as exc:
            raise self.fail(f"not valid YAML: {exc}", None) from None
        finally:
            self.events = None

    def _document(self) -> _Node:
        yaml = self.yaml
        root: _Node | None = None
        for event in self.events:
            if isinstance(event, yaml.DocumentStartEvent):
                if root is not None:
                    raise self.fail("a second document", event.start_mark, "keep one document per file")
            elif isinstance(event, yaml.NodeEvent):
                root = self.node(event, 0)
        return root if root is not None else _Node(1, 1)

    def node(self, event: Any, depth: int) -> _Node:
        yaml = self.yaml
        mark = event.start_mark
        if depth > self.limits.depth:
            raise self.fail(f"nested deeper than {self.limits.depth} levels", mark)
        if isinstance(event, yaml.AliasEvent):
            return self.alias(event)
        self.count(1, mark)
        if event.tag is not None:
            raise self.fail(f"tag {event.tag!r}", mark, "remove the tag: values are read as written")
        node = _Node(mark.line + 1, mark.column + 1)
        if isinstance(event, yaml.ScalarEvent):
            node.value = event.value if event.style else resolve(event.value)
        elif isinstance(event, yaml.SequenceStartEvent):
            self.sequence(node, depth)
        else:
            self.mapping(node, depth)
        if event.anchor is not None:
            # Known only from here on, so that a value cannot contain itself.
            self.anchors[event.anchor] = node
        return node

    def count(self, nodes: int, mark: Any) -> None:
        self.nodes += nodes
        if self.nodes > self.limits.nodes:
            raise self.fail(f"more than {self.limits.nodes:,} values", mark)

    def alias(self, event: Any) -> _Node:
        self.aliases += 1
        if self.aliases > self.limits.aliases:
            raise self.fail(f"more than {self.limits.aliases} aliases", event.start_mark)
        node = self.anchors.get(event.anchor)
        if node is None:
            raise self.fail(f"alias *{event.anchor} has no anchor above it", event.start_mark)
        self.count(node.size, event.start_mark)
        return node

    def sequence(self, node: _Node, depth: int) -> None:
        node.value = []
        for event in self.events:
            if isinstance(event, self.yaml.SequenceEndEvent):
                return
            child = self.node(event, depth + 1)
            node.items[len(node.value)] = child
            node.value.append(child.value)
            node.size += child.size

    def mapping(self, node: _Node, depth: int) -> None:
        yaml = self.yaml
        node.value = {}
        for event in self.events:
            if isinstance(event, yaml.MappingEndEvent):
                return
            mark = event.start_mark
            # (libyaml says "" for the style of a plain scalar, the parser in Python says None)
            if not isinstance(event, yaml.ScalarEvent) or event.tag is not None:
                raise self.fail("a key that is not plain text", mark)
            key = event.value
            if key == "<<" and not event.style:
                raise self.fail("merge key <<", mark, "write the fields out")
            if key in node.value:
                line = node.keys[key][0]
                raise self.fail(f"key `{key}` is already set in line {line}", mark, "remove one of the two")
            node.keys[key] = (mark.line + 1, mark.column + 1)
            self.count(1, mark)
            child = self.node(next(self.events), depth + 1)
            node.items[key] = child
            node.value[key] = child.value
            node.size += child.size + 1


def resolve(text: str) -> Any:
    """What an unquoted scalar means: a bool, None, an int in plain decimal, else the text itself."""
    if text in _WORDS:
        return _WORDS[text]
    return int(text) if _INT.fullmatch(text) else text
