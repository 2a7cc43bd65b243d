"""A Python file cut into statements that are parsed only when somebody looks at them.

A release of the audited project has tens of megabytes of source, and the parser is the most expensive
step of an audit. Most statements have nothing to do with the GPU, so a file is cut at its top-level
statements, and large classes once more at their members, by looking at the text alone; a piece is
parsed on first use. The cut is exact for text whose triple quotes balance within each statement; where
they do not, or where a piece does not parse alone, the whole file is parsed instead.
"""

from __future__ import annotations

import ast
import io
import itertools
import re
import textwrap
import tokenize

from auditor.pytext import no_giants

_SERIAL = itertools.count()
_WORD = re.compile(r"\w+")
#: A string, or a comment (the only group). No two parts can begin alike: what is never closed costs no more.
_COMMENT = re.compile(
    r"\"\"\"[^\"\\]*(?:(?:\\.|\"(?!\"\"))[^\"\\]*)*\"\"\"|'''[^'\\]*(?:(?:\\.|'(?!''))[^'\\]*)*'''"
    r"|\"[^\"\\\n]*(?:\\.[^\"\\\n]*)*\"|'[^'\\\n]*(?:\\.[^'\\\n]*)*'|(#[^\n]*)",
    re.S,
)
_START = re.compile(r"\n(?=[^\s#)\]}])")
_HEAD = re.compile(
    r"(?P<deco>@)|(?P<def>(?:async[ \t]+)?def[ \t]+(?P<fn>\w+))|class[ \t]+(?P<cls>\w+)"
    r"|(?P<cont>(?:else|elif|except|finally)\b)"
)
#: Decorators that stand on a line each, and the ``def`` after them.
_PLAIN_DEF = re.compile(r"(?:[ \t]*@[^\n]*\n)*(?P<def>[ \t]*def[ \t])")
#: What was looked at in a piece: its text, its statements, its members, whether it leads to a root.
TEXT, NODES, MEMBERS, HOT = 1, 2, 4, 8
#: Where a piece is looked at for what its decorators say, in characters.
OPENING = 400
#: Classes up to this size are parsed whole: cutting them costs more than it saves.
SMALL_CLASS = 1500


class Unparsable(Exception):
    """A file that cannot be read as Python: message and line."""

    def __init__(self, message: str, line: int) -> None:
        super().__init__(message)
        self.message = message
        self.line = line


class _Irregular(Exception):
    """The text cannot be cut safely."""


class Segment:
    """One top-level statement (or class member): ``def``, ``class`` or a run of other statements."""

    __slots__ = (
        "kind",
        "name",
        "start",
        "indent",
        "serial",
        "_source",
        "_begin",
        "_end",
        "_nodes",
        "_members",
        "_header",
        "_kept",
        "_size",
        "_code",
        "looked",
        "noted",
    )

    def __init__(self, kind: str, name: str, start: int, text: str, indent: int = 0) -> None:
        self.kind = kind
        self.name = name
        self.start = start  # line of the first character, 1-based
        self._source, self._begin, self._end = text, 0, len(text)
        self.indent = indent
        self.serial = next(_SERIAL)  # unlike id(), never given twice
        self._nodes: list[ast.stmt] | None = None
        self._members: list[Segment] | None = None
        self._header: ast.ClassDef | None = None
        self._kept = False  # its text does not parse alone
        self._size = -1
        self._code: str | None = None
        self.looked = 0
        self.noted: set[tuple[object, ...]] | None = None

    @classmethod
    def of(cls, kind: str, name: str, start: int, source: str, begin: int, end: int, indent: int) -> Segment:
        """A piece of a longer text, which is not copied."""
        segment = cls(kind, name, start, source, indent)
        segment._begin, segment._end = begin, end
        return segment

    @property
    def text(self) -> str:
        self.looked |= TEXT
        return self._source[self._begin : self._end]

    def peek(self) -> str:
        """The text, for somebody who notes what is asked of it."""
        return self._source[self._begin : self._end]

    @property
    def has_text(self) -> bool:
        """Whether there is a text: not for functions and classes within functions."""
        return self._end > self._begin

    def code(self) -> str:
        """As :meth:`peek`; where there is no text, one made of the tree."""
        if self.has_text or not self._nodes:
            return self.peek()
        if self._code is None:
            self._code = ast.unparse(self._nodes[0])
        return self._code

    def longer(self, limit: int) -> bool:
        """Whether it has more words than that: layout does not make a function a long one."""
        self.note("longer", limit)
        if self._size < 0:
            self._size = len(_WORD.findall(self.code()))
        return self._size > limit

    def note(self, *question: object) -> None:
        """Note a question of :mod:`auditor.program.same` that is answered from :meth:`peek`."""
        if self.noted is None:
            self.noted = set()
        self.noted.add(question)

    @property
    def end(self) -> int:
        return self.start + self.text.count("\n")

    def nodes(self) -> list[ast.stmt]:
        """The parsed statements. Raises :class:`_Irregular` where the piece does not parse alone."""
        self.looked |= NODES
        if self._nodes is None:
            self._nodes = self._parse(self.peek(), self.start)
        return self._nodes

    def node(self) -> ast.stmt:
        return self.nodes()[0]

    def decorators(self) -> list[ast.expr] | None:
        """The decorators of a plain ``def``, without parsing it; None where that takes a parser."""
        if self._nodes is not None or not self.has_text or self.kind != "def":
            return None
        self.note("decorators")
        head = self.head()
        if head is None:
            return None
        if not head.strip():
            return []
        try:
            node = ast.parse(textwrap.dedent(head) + "def _(): pass\n").body
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            return None
        if len(node) != 1 or not isinstance(node[0], ast.FunctionDef):
            return None
        return node[0].decorator_list

    def head(self) -> str | None:
        """What stands before the ``def`` of a plain function; None for what is not plain."""
        match = _PLAIN_DEF.match(self.peek())
        return self.peek()[: match.start("def")] if match is not None else None

    @property
    def last(self) -> int:
        """The last line of the text, comments behind the statements included."""
        lines = self._source.count("\n", self._begin, self._end)
        return self.start + lines - self._source.endswith("\n", self._begin, self._end)

    @property
    def cut_open(self) -> bool:
        """Whether this is a class whose members were looked at one by one."""
        return self.looked & (MEMBERS | NODES | TEXT) == MEMBERS

    @property
    def parsed(self) -> bool:
        """Whether the nodes are there already."""
        return self._nodes is not None

    def forget(self) -> None:
        """Drop the parsed nodes; they are parsed again on the next use."""
        if not self._kept:
            self._nodes = None

    def _parse(self, text: str, start: int) -> list[ast.stmt]:
        if self.indent == 0:
            source = "\n" * (start - 1) + text
        else:
            source = "\n" * (start - 2) + "if 1:\n" + text
        try:
            body = ast.parse(source).body
            no_giants(text)
        except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
            raise _Irregular from error
        if self.indent:
            body = body[0].body if len(body) == 1 and isinstance(body[0], ast.If) else []
        if not body and text.strip() and self.kind != "other":
            raise _Irregular
        return body

    def class_node(self) -> ast.ClassDef:
        """A class without its body (decorators, bases, keywords)."""
        if self._header is None:
            self.members()
            assert self._header is not None
        return self._header

    def members(self) -> list[Segment]:
        """The pieces of a class body."""
        self.looked |= MEMBERS
        if self._members is not None:
            return self._members
        if self._nodes is None and self._end - self._begin > SMALL_CLASS:
            cut = self._cut_members()
            if cut is not None:
                self._header, self._members = cut
                return self._members
        node = self.node()
        if not isinstance(node, ast.ClassDef):
            raise _Irregular
        self._header = node
        self._members = from_nodes(node.body, self.peek(), self.start)
        return self._members

    def _cut_members(self) -> tuple[ast.ClassDef, list[Segment]] | None:
        text = self.peek()
        lines_before = header_end(text)
        if lines_before is None:
            return None
        head, body = text[:lines_before], text[lines_before:]
        match = re.search(r"^([ \t]+)[^\s#]", body, re.M)
        if match is None or "\t" in match.group(1):
            return None
        indent = len(match.group(1)) - self.indent
        if indent <= 0:
            return None
        try:
            header = self._parse(head + " " * (self.indent + indent) + "pass\n", self.start)
        except _Irregular:
            return None
        if len(header) != 1 or not isinstance(header[0], ast.ClassDef):
            return None
        try:
            members = cut(body, self.start + head.count("\n"), self.indent + indent)
        except _Irregular:
            return None
        return header[0], members


def header_end(text: str) -> int | None:
    """Offset just behind the line that ends ``class X(...):``."""
    match = re.search(r"^[ \t]*class[ \t]+\w+", text, re.M)
    if match is None:
        return None
    depth, i, size = 0, match.end(), len(text)
    while i < size:
        c = text[i]
        if c in "([{":
            depth += 1
        elif c in ")]}":
            depth -= 1
        elif c in "\"'":
            return None
        elif c == "#":
            i = text.find("\n", i)
            if i < 0:
                return None
        elif c == ":" and depth == 0:
            end = text.find("\n", i)
            rest = text[i + 1 : end].strip()
            return end + 1 if end > 0 and (not rest or rest.startswith("#")) else None
        i += 1
    return None


def from_nodes(body: list[ast.stmt], text: str, first: int) -> list[Segment]:
    """Segments around statements that are parsed already. ``text`` holds them, from line ``first`` on; where
    it is empty (a class within a function), so are theirs."""
    out: list[Segment] = []
    lines = text.split("\n")
    starts = [0, *itertools.accumulate(len(line) + 1 for line in lines)]
    behind = first - 1  # the last line of the statement before
    for node in body:
        begin, end = node.lineno, node.end_lineno or node.lineno
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            kind, name = "def", node.name
        elif isinstance(node, ast.ClassDef):
            kind, name = "class", node.name
        else:
            kind, name = "other", ""
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            begin = min([begin, *(d.lineno for d in node.decorator_list)])
        if text:
            place = starts[begin - first], starts[end - first + 1]
            segment = Segment.of(kind, name, begin, text, *place, node.col_offset)
            segment._kept = begin <= behind or bool(lines[begin - first][: node.col_offset].strip())
        else:
            segment = Segment(kind, name, node.lineno, "")
            segment._kept = True
        segment._nodes = [node]
        if begin <= behind and out:
            out[-1]._kept = True
        behind = end
        out.append(segment)
    return out


def cut(text: str, first_line: int, indent: int = 0) -> list[Segment]:
    """Cut text into segments at statements indented by exactly ``indent`` spaces."""
    if indent:
        pattern = re.compile(rf"\n {{{indent}}}(?=[^\s#)\]}}])")
    else:
        pattern = _START
    starts = [m.start() + 1 for m in pattern.finditer(text)]
    if re.match(rf" {{{indent}}}[^\s#)\]}}]", text):
        starts.insert(0, 0)
    if not starts:
        return []
    starts.append(len(text))
    line = first_line + text.count("\n", 0, starts[0])
    pieces: list[tuple[str, str, int, int, int]] = []
    i, last = 0, len(starts) - 1
    while i < last:
        begin = starts[i]
        head = _HEAD.match(text, begin + indent)
        j = i + 1
        if head is not None and head.group("deco"):
            # decorators belong to the definition that follows them
            while j < last:
                following = _HEAD.match(text, starts[j] + indent)
                j += 1
                if following is None or not following.group("deco"):
                    if following is not None:
                        head = following
                    break
        stop = starts[j]
        while True:
            double, single = text.count('"""', begin, stop), text.count("'''", begin, stop)
            if double and single:
                raise _Irregular
            if double % 2 == 0 and single % 2 == 0:
                break
            if j >= last:
                raise _Irregular
            j += 1
            stop = starts[j]
        if text.endswith("\\\n", begin, stop):
            raise _Irregular
        if head is not None and head.group("fn"):
            kind, name = "def", head.group("fn")
        elif head is not None and head.group("cls"):
            kind, name = "class", head.group("cls")
        else:
            kind, name = "other", ""
        continued = head is not None and head.group("cont")
        if pieces and (continued or (kind == "other" and pieces[-1][0] == "other")):
            if continued and pieces[-1][0] != "other":
                raise _Irregular
            k, n, b, _, ln = pieces[-1]
            pieces[-1] = (k, n, b, stop, ln)
        else:
            pieces.append((kind, name, begin, stop, line))
        line += text.count("\n", begin, stop)
        i = j
    return [Segment.of(k, n, ln, text, b, e, indent) for k, n, b, e, ln in pieces]


def decode(data: bytes) -> str:
    """File bytes to text with ``\\n`` line ends, honouring a BOM and a coding cookie."""
    if b"\0" in data:
        raise Unparsable("holds null bytes", data[: data.index(b"\0")].count(b"\n") + 1)
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data[: error.start].count(b"\n") + 1
        try:
            encoding, _ = tokenize.detect_encoding(io.BytesIO(data).readline)
            text = data.decode(encoding)
        except (SyntaxError, UnicodeDecodeError, LookupError):
            raise Unparsable("is not valid UTF-8", line) from None
    if "\r" in text:
        text = text.replace("\r\n", "\n").replace("\r", "\n")
    if not text.endswith("\n"):
        text += "\n"
    return text


def bare(text: str) -> str:
    """The text without its comments, line for line: what is found by looking at text must not depend on what
    somebody wrote beside it."""
    if "#" not in text:
        return text
    out, at = [], 0
    for match in _COMMENT.finditer(text):
        if match.lastindex:
            out.append(text[at : match.start()])
            at = match.end()
    out.append(text[at:])
    return "".join(out)


def segments(text: str) -> list[Segment]:
    """Cut a module. Raises :class:`Unparsable` where Python itself would refuse the file."""
    try:
        pieces = cut(text, 1)
        for piece in pieces:
            if piece.kind == "other":
                piece.nodes()
        return pieces
    except _Irregular:
        return whole(text)


def whole(text: str) -> list[Segment]:
    """Parse the whole file at once: slower, and the reference for :func:`segments`."""
    try:
        body = ast.parse(text).body
        no_giants(text)
        return from_nodes(body, text, 1)
    except SyntaxError as error:
        raise Unparsable(error.msg or "does not parse", error.lineno or 1) from None
    except (RecursionError, MemoryError):  # what the parser says when its own stack is full
        raise Unparsable("is nested too deeply to be parsed", 1) from None
    except ValueError as error:
        raise Unparsable(f"does not parse: {error}", 1) from None


Irregular = _Irregular
