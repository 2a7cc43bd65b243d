"""Operator schemas and names among the strings of an object.

``TORCH_LIBRARY`` registers operators from string literals, which a compiler leaves in the read-only data as
they are, NUL-terminated. They are recognised by the grammar of operator schemas (PyTorch, ``aten/src/ATen/
native/README.md``): ``name(Type arg, ...) -> Type``.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

#: Longer strings are no schemas, bytes.
LONGEST = 1 << 13
#: More candidates than this, or more bytes of them, are not looked at.
MOST = 100_000
MOST_BYTES = 16 << 20
_ARROW = re.compile(rb"\)\s*->")
_HEAD = re.compile(r"((?:[A-Za-z_]\w*::)?[A-Za-z_]\w*)(?:\.\w+)?\(")
_ALIAS = r"(?:\([a-z!| *>-]+\)|!)?"  # Tensor(a!), Tensor!
_TYPE = rf"[A-Za-z]\w*{_ALIAS}\??(?:\[\d*\]{_ALIAS}\??)*"
_ARGUMENT = re.compile(rf"\*|{_TYPE} [A-Za-z_]\w*(?: ?= ?.+)?")
_RETURN = re.compile(rf"{_TYPE}(?: [A-Za-z_]\w*)?")
_BLANKS = re.compile(r"\s+")
_GIVES = re.compile(r" ?-> ?")


def tidy(text: str) -> str:
    """A schema with its blanks made single: some are written over many lines, or in columns."""
    text = _GIVES.sub(" -> ", _BLANKS.sub(" ", text).strip())
    return text.replace("( ", "(").replace(" ?", "?").replace(" !", "!")


def schema_name(text: str) -> str | None:
    """The operator's name, with its namespace if the schema gives one; None if ``text``, tidied, is none."""
    head = _HEAD.match(text)
    if head is None:
        return None
    close = text.rfind(") -> ")
    gives = text[close + 5 :]
    if gives.startswith("("):  # several results, the last of which ends in a bracket too
        close = text.rfind(") -> (")
        gives = text[close + 6 : -1] if text.endswith(")") else "?"
    inside = text[head.end() : close]
    if close < head.end() - 1 or not all(_ARGUMENT.fullmatch(part) for part in _split(inside)):
        return None
    return head[1] if all(_RETURN.fullmatch(part) for part in _split(gives)) else None


def _split(text: str) -> list[str]:
    """Arguments, at commas outside brackets and quotes."""
    parts, depth, quote, start = [], 0, "", 0
    for at, sign in enumerate(text):
        if quote:
            quote = "" if sign == quote else quote
        elif sign in "\"'":
            quote = sign
        elif sign in "([":
            depth += 1
        elif sign in ")]":
            depth -= 1
            if depth < 0:
                return [""]
        elif sign == "," and depth == 0:
            parts.append(text[start:at].strip())
            start = at + 1
    rest = text[start:].strip()
    return [*parts, rest] if rest or parts else []


@dataclass
class Strings:
    """Collects from pieces of an object, in order. ``wanted`` are further names to look for."""

    wanted: frozenset[str] = frozenset()
    schemas: dict[str, str] = field(default_factory=dict)  # text -> name
    names: set[str] = field(default_factory=set)
    full: bool = False
    _carry: bytes = b""
    _seen: int = 0
    _bytes: int = 0

    def __post_init__(self) -> None:
        self._wanted = frozenset(name.encode() for name in self.wanted)

    def feed(self, piece: bytes) -> None:
        """Bytes that follow what was fed before."""
        data = self._carry + piece
        last = data.rfind(b"\0")
        if last < 0:
            self._carry = data[-LONGEST:]
            return
        self._look(data, last)
        self._carry = data[max(last, len(data) - LONGEST) :]

    def gap(self) -> None:
        """What comes next does not follow what was fed before."""
        self.feed(b"\0")  # which leaves nothing but itself to be carried on

    def _look(self, data: bytes, last: int) -> None:
        match = _ARROW.search(data, 0, last)
        while match and not self.full:
            at = match.start()
            self._seen += 1
            self.full = self._seen >= MOST or self._bytes >= MOST_BYTES
            start = data.rfind(b"\0", max(0, at - LONGEST), at)
            end = data.find(b"\0", at, at + LONGEST)
            if start >= 0 and end >= 0:
                self._bytes += end - start
                self._add(data[start + 1 : end])
            match = _ARROW.search(data, max(end, at + 1), last)
        if self.wanted:
            first = data.find(b"\0") + 1
            found = self._wanted.intersection(data[first:last].split(b"\0"))
            self.names |= {name.decode() for name in found}

    def _add(self, raw: bytes) -> None:
        try:
            text = tidy(raw.decode("ascii"))
        except UnicodeDecodeError:
            return
        name = schema_name(text) if text.isprintable() else None
        if name is not None:
            self.schemas[text] = name
