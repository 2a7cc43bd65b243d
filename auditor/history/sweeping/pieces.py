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
from collections.abc import Callable
from hashlib import blake2b
from typing import NamedTuple

from auditor.history.sweeping.extract import FEW, LONGEST, NONE, Facts, Words, facts_of

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
_OTHERS = bytes(c for c in range(256) if c not in b"()[]{}")
_BAD = Facts(sites=())._replace(gates=None)  # type: ignore[arg-type]
Cut = list[bytes]
_ERRORS = (SyntaxError, ValueError, RecursionError, MemoryError)


class Unreadable(Exception):
    """A file that does not parse."""


class _Kept(NamedTuple):
    """What was read of a piece. ``there`` is what it mentions of the vocabulary: while that stays the same,
    so does what it says.
    """

    age: int  # of the vocabulary that it was last looked up with
    there: frozenset[bytes]
    facts: Facts
    learned: bool  # read for learning: definitions of all names
    partial: bool  # and without the members that define nothing


class _Row(NamedTuple):
    """Pieces in a row, and what was read of them: of how many joined pieces each."""

    pieces: Cut
    read: list[tuple[int, Facts]]

    def beginning(self, pieces: Cut) -> list[tuple[int, Facts]]:
        """What is known of a row that begins as this one does."""
        at = 0
        for number, (joined, _) in enumerate(self.read):
            if pieces[at : at + joined] != self.pieces[at : at + joined]:
                return self.read[:number]
            at += joined
        return self.read[:]

    def ends(self, pieces: Cut, begun: int) -> dict[int, list[tuple[int, Facts]]]:
        """By its length: what is known of an end that is the same in both rows, ``begun`` pieces on."""
        most = min(len(pieces), len(self.pieces)) - begun
        alike = 0
        while alike < most and pieces[-1 - alike] == self.pieces[-1 - alike]:
            alike += 1
        out: dict[int, list[tuple[int, Facts]]] = {}
        length = 0
        for number in range(len(self.read) - 1, -1, -1):
            length += self.read[number][0]
            if length > alike:
                break
            out[length] = self.read[number:]
        return out


_NO_ROW = _Row([], [])


class Reader:
    """Facts of files, with a memory of pieces. ``memo`` False reads every file whole."""

    def __init__(self, words: Words, memo: bool = True) -> None:
        self.words = words
        self.memo = memo
        self._age = 0
        self._known: dict[bytes, _Kept] = {}
        self._heads: set[bytes] = set()  # of classes, that are whole
        self._left_out = 0  # members so far that define nothing
        self._last: dict[tuple[str, str], _Row] = {}  # by path and class
        self._path = ""

    def use(self, words: Words) -> None:
        """Another vocabulary from now on, over the same roots. What was read of a piece stays where the piece
        mentions the same of it.
        """
        self.words = words
        self._age += 1
        self._last.clear()

    def facts(
        self, data: bytes, there: frozenset[bytes] | None = None, cut: Cut | None = None, path: str = ""
    ) -> Facts:
        """What a file says. :class:`Unreadable` where it does not parse.

        ``there`` is what it may mention of the vocabulary, where that is known; ``cut`` its pieces. Of a file
        with the ``path`` of an earlier one, only the pieces between those at both ends that are the same are
        looked at.
        """
        self._path = path
        if there is None:
            if not self.words.in_text(data):
                return NONE
            there = self.words.scanned
        if self.memo and not _odd(data):
            found = self._cut(cut_of(data) if cut is None else cut, there)
            if found is not None:
                return found
        return self._whole(data)

    def _whole(self, data: bytes) -> Facts:
        try:
            text = data.replace(b"\r\n", b"\n").replace(b"\r", b"\n").replace(b"\f", b" ")
            there = self.words.present(text)
            return facts_of(ast.parse(data).body, text, self.words, there)
        except _ERRORS:
            raise Unreadable from None

    def _cut(self, pieces: Cut, among: frozenset[bytes]) -> Facts | None:
        return self._joined("", pieces, lambda piece: self._piece(piece, among))

    def _joined(self, name: str, pieces: Cut, read: Callable[[bytes], Facts]) -> Facts | None:
        """The facts of pieces in a row; one that does not parse alone is joined with the next. None where
        that leads nowhere. ``name`` is the class that they are members of.
        """
        place = (self._path, name)
        last = self._last.pop(place, _NO_ROW) if self._path else _NO_ROW
        out = last.beginning(pieces)
        at = sum(number for number, _ in out)
        ends = last.ends(pieces, at)
        while at < len(pieces):
            if len(pieces) - at in ends:
                out += ends[len(pieces) - at]
                break
            piece = pieces[at]
            found = read(piece)
            joined = 1
            while found is _BAD:
                if at + joined >= len(pieces) or joined > _JOINED:
                    return None
                piece = piece + b"\n" + pieces[at + joined]
                joined += 1
                found = read(piece)
            out.append((joined, found))
            at += joined
        if self._path:
            self._last[place] = _Row(pieces, out)
        return _together([found for _, found in out if found is not NONE])

    def _piece(self, piece: bytes, among: frozenset[bytes]) -> Facts:
        if self._says_nothing(piece, among):
            return NONE
        head = _CLASS.match(piece) if self._path and len(piece) > _LARGE else None
        if head is not None and (self._path, name := head[1].decode("utf-8", "replace")) in self._last:
            found = self._members(piece, name, among)  # most of them are known
            if found is not None:
                return found
        key = blake2b(piece, digest_size=12).digest()
        return self._kept(key, piece, among) or self._keep(key, piece, among, self._read)

    def _says_nothing(self, piece: bytes, among: frozenset[bytes]) -> bool:
        """Whether a piece can be passed over, judged by the few words that its file mentions."""
        if len(among) > FEW:
            return False
        for word in among:
            if word in piece:
                return False
        for text in self.words.texts:
            if text in piece:
                return False
        return _closed(piece)

    def _kept(self, key: bytes, piece: bytes, among: frozenset[bytes]) -> Facts | None:
        """What is known of a piece, if that is still true."""
        kept = self._known.get(key)
        if kept is None:
            return None
        if kept.age == self._age:
            return kept.facts
        if self.words.present(piece, among) != kept.there or (kept.partial and not self.words.learning):
            return None
        facts, learned = kept.facts, kept.learned
        if learned and not self.words.learning:
            learned = False
            if facts is not NONE and facts is not _BAD:
                facts = _narrowed(facts, self.words.names)
        self._known[key] = kept._replace(age=self._age, facts=facts, learned=learned)
        return facts

    def _keep(
        self,
        key: bytes,
        piece: bytes,
        among: frozenset[bytes],
        read: Callable[[bytes, frozenset[bytes]], Facts],
    ) -> Facts:
        there = self.words.present(piece, among)
        before = self._left_out
        found = read(piece, there)
        partial = self._left_out > before
        self._known[key] = _Kept(self._age, there, found, self.words.learning, partial)
        return found

    def _read(self, piece: bytes, there: frozenset[bytes]) -> Facts:
        if not there and _closed(piece):
            return NONE
        head = _CLASS.match(piece)
        if head is not None and len(piece) > _LARGE:
            found = self._members(piece, head[1].decode("utf-8", "replace"), there)
            if found is not None:
                return found
        try:
            return facts_of(ast.parse(piece).body, piece, self.words, there)
        except _ERRORS:
            return _BAD

    def _members(self, piece: bytes, name: str, there: frozenset[bytes]) -> Facts | None:
        """The facts of a class from its members, None where it cannot be cut."""
        parts = _MEMBER.split(piece)
        header, at = parts[0], 1
        while not self._is_head(header):
            if at >= len(parts) or at > 20:
                return None
            header += b"\n" + parts[at]
            at += 1
        if at == len(parts) or self.words.in_text(header):
            return None
        among = there & self.words.scanned
        members = _with_decorators(parts[at:], b"    @")
        return self._joined(name, members, lambda member: self._member(member, name, among))

    def _is_head(self, header: bytes) -> bool:
        if header in self._heads:
            return True
        if _parses(header + b"\n    pass\n"):
            self._heads.add(header)
            return True
        return False

    def _member(self, member: bytes, name: str, among: frozenset[bytes]) -> Facts:
        if self._says_nothing(member, among):
            return NONE
        if self.words.learning and _no_definition(member):
            self._left_out += 1
            return NONE
        key = blake2b(b"\n%s\n%s" % (name.encode(), member), digest_size=12).digest()
        return self._kept(key, member, among) or self._keep(
            key, member, among, lambda m, there: self._inside(m, name, there)
        )

    def _inside(self, member: bytes, name: str, there: frozenset[bytes]) -> Facts:
        """The facts of a member of the class ``name``."""
        if not there and _closed(member):
            return NONE
        source = b"if 1:\n" + member
        try:
            only = ast.parse(source).body
        except _ERRORS:
            return _BAD
        first = only[0]
        if len(only) != 1 or not isinstance(first, ast.If) or first.orelse:
            return _BAD
        try:
            return facts_of(first.body, source, self.words, there, name)
        except _ERRORS:
            return _BAD


def cut_of(data: bytes) -> Cut:
    """The pieces of a file, to be read in order."""
    return _with_decorators(CUT.split(data))


def _narrowed(facts: Facts, names: frozenset[str]) -> Facts:
    """What is said without the definitions of other names."""
    sites = tuple(site for site in facts.sites if site.name in names)
    if len(sites) == len(facts.sites):
        return facts
    return Facts(facts.gates, sites) if facts.gates or sites else NONE


def _with_decorators(pieces: list[bytes], mark: bytes = b"@") -> list[bytes]:
    """The pieces with decorators joined to what they decorate."""
    out: list[bytes] = []
    waiting = b""
    if not any(piece.startswith(mark) for piece in pieces):
        return pieces
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
    brackets = piece.translate(None, _OTHERS)
    return (
        brackets.count(b"(") == brackets.count(b")")
        and brackets.count(b"[") == brackets.count(b"]")
        and brackets.count(b"{") == brackets.count(b"}")
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
