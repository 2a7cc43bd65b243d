"""Facts of a file from the pieces it can be cut into, each looked at once.

A file is cut at lines that begin at column 0, and a class once more at its members. A piece that mentions
no predicate and is closed (its brackets and quotes match) says nothing; another one has to parse alone,
else the next one is joined to it. A piece that parses alone leaves nothing open for the next. Files with
carriage returns, form feeds, an encoding of their own or pieces that never parse are read whole. So the
facts are those of the whole file, whatever was kept before.
"""

from __future__ import annotations

import ast
import re
from hashlib import blake2b

from auditor.history.sweeping.extract import LONGEST, NONE, Facts, Words, facts_of

#: Where a file is cut: before a statement at column 0 that goes on with none before it.
CUT = re.compile(rb"\n(?=[A-Za-z_@])(?!(?:else|elif|except|finally)\b)")
_MEMBER = re.compile(rb"\n(?=    [A-Za-z_@])(?!    (?:else|elif|except|finally)\b)")
_SETS = re.compile(rb"^\s+(?:global |(?:self|cls)\.\w+(?:\s*:[^=\n]+)?\s*=[^=])", re.MULTILINE)
_CLASS = re.compile(rb"(?:@[^\n]*\n)*class\s+(\w+)")
_CODING = re.compile(rb"^[ \t]*#.*?coding[:=][ \t]*(?!utf-?8\b)", re.MULTILINE | re.IGNORECASE)
#: A class larger than this many bytes is cut into its members.
_LARGE = 1500
#: So many pieces are joined before the whole file is read instead.
_JOINED = 60
_BAD = Facts(sites=())._replace(gates=None)  # type: ignore[arg-type]
_ERRORS = (SyntaxError, ValueError, RecursionError, MemoryError)


class Unreadable(Exception):
    """A file that does not parse."""


class Reader:
    """Facts of files, with a memory of pieces. ``memo`` False reads every file whole."""

    def __init__(self, words: Words, memo: bool = True) -> None:
        self.words = words
        self.memo = memo
        self._known: dict[bytes, Facts] = {}
        self._texts: dict[str, str] = {}

    def facts(self, data: bytes, mentions: bool = False) -> Facts:
        """What a file says. :class:`Unreadable` where it does not parse.

        ``mentions`` says that it is known to mention a predicate, or may be taken to.
        """
        if not mentions and not self.words.in_text(data):
            return NONE
        if self.memo and not _odd(data):
            found = self._cut(data)
            if found is not None:
                return found
        return self._whole(data)

    def _whole(self, data: bytes) -> Facts:
        try:
            text = data.replace(b"\r\n", b"\n").replace(b"\r", b"\n").replace(b"\f", b" ")
            return facts_of(ast.parse(data).body, text, self.words)
        except _ERRORS:
            raise Unreadable from None

    def _cut(self, data: bytes) -> Facts | None:
        pieces = _with_decorators(CUT.split(data))
        out: list[Facts] = []
        at = 0
        while at < len(pieces):
            piece = pieces[at]
            found = self._piece(piece)
            joined = 1
            while found is _BAD:
                if at + joined >= len(pieces) or joined > _JOINED:
                    return None
                piece = piece + b"\n" + pieces[at + joined]
                joined += 1
                found = self._piece(piece)
            if found is not NONE:
                out.append(found)
            at += joined
        return _together(out)

    def _piece(self, piece: bytes) -> Facts:
        key = blake2b(piece, digest_size=12).digest()
        found = self._known.get(key)
        if found is None:
            found = self._known[key] = self._read(piece)
        return found

    def _read(self, piece: bytes) -> Facts:
        if not self.words.in_text(piece) and _closed(piece):
            return NONE
        head = _CLASS.match(piece)
        if head is not None and len(piece) > _LARGE:
            found = self._members(piece, head[1].decode("utf-8", "replace"))
            if found is not None:
                return found
        try:
            return facts_of(ast.parse(piece).body, piece, self.words)
        except _ERRORS:
            return _BAD

    def _members(self, piece: bytes, name: str) -> Facts | None:
        """The facts of a class from its members, None where it cannot be cut."""
        parts = _MEMBER.split(piece)
        header, at = parts[0], 1
        while not _parses(header + b"\n    pass\n"):
            if at >= len(parts) or at > 20:
                return None
            header += b"\n" + parts[at]
            at += 1
        if at == len(parts) or self.words.in_text(header):
            return None
        members = _with_decorators(parts[at:], b"    @")
        out: list[Facts] = []
        at = 0
        while at < len(members):
            member = members[at]
            found = self._member(member, name)
            joined = 1
            while found is _BAD:
                if at + joined >= len(members) or joined > _JOINED:
                    return None
                member = member + b"\n" + members[at + joined]
                joined += 1
                found = self._member(member, name)
            if found is not NONE:
                out.append(found)
            at += joined
        return _together(out)

    def _member(self, member: bytes, name: str) -> Facts:
        key = blake2b(b"\n%s\n%s" % (name.encode(), member), digest_size=12).digest()
        found = self._known.get(key)
        if found is None:
            if not self.words.in_text(member) and _closed(member):
                found = NONE
            elif self.words.learning and _no_definition(member):
                found = NONE
            else:
                source = b"if 1:\n" + member
                try:
                    only = ast.parse(source).body
                    first = only[0]
                    alone = len(only) == 1 and isinstance(first, ast.If) and not first.orelse
                    body = first.body if isinstance(first, ast.If) else []
                    found = facts_of(body, source, self.words, name) if alone else _BAD
                except _ERRORS:
                    found = _BAD
            self._known[key] = found
        return found


def _with_decorators(pieces: list[bytes], mark: bytes = b"@") -> list[bytes]:
    """The pieces with decorators joined to what they decorate."""
    out: list[bytes] = []
    waiting = b""
    for piece in pieces:
        joined = waiting + piece
        if piece.startswith(mark):
            waiting = joined + b"\n"
        else:
            out.append(joined)
            waiting = b""
    if waiting:
        out.append(waiting[:-1])
    return out


def _together(parts: list[Facts]) -> Facts:
    if not parts:
        return NONE
    if len(parts) == 1:
        return parts[0]
    gates = tuple(gate for part in parts for gate in part.gates)
    return Facts(gates, tuple(site for part in parts for site in part.sites))


def _odd(data: bytes) -> bool:
    """Whether a file is better read whole."""
    if b"\r" in data or b"\f" in data or b"\0" in data or data.startswith(b"\xef\xbb\xbf"):
        return True
    return _CODING.search(data[:200]) is not None


def _closed(piece: bytes) -> bool:
    """Whether nothing stays open at the end of a piece, judged by its brackets and quotes alone."""
    return (
        piece.count(b"(") == piece.count(b")")
        and piece.count(b"[") == piece.count(b"]")
        and piece.count(b"{") == piece.count(b"}")
        and piece.count(b'"""') % 2 == 0
        and piece.count(b"'''") % 2 == 0
        and not piece.endswith(b"\\")
    )


def _no_definition(member: bytes) -> bool:
    """Whether a member is a long function that sets nothing beyond itself, and closed."""
    return member.count(b"\n") > LONGEST and _SETS.search(member) is None and _closed(member)


def _parses(source: bytes) -> bool:
    try:
        ast.parse(source)
    except _ERRORS:
        return False
    return True
