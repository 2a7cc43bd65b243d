"""Reads the bytes of a diff into its files and hunks, exactly, without deciding yet what the names mean.

Lines end at ``\\n`` only; everything else in a line belongs to its content, so CRLF files, form feeds and
bytes of no encoding survive. Counts in a hunk head are checked against the lines that follow, and nothing is
allocated because a head says so.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from auditor.errors import UserError
from auditor.lazyre import lazy
from auditor.patching.diffs import gitbinary
from auditor.patching.model import Hunk


@dataclass(frozen=True)
class Limits:
    """What one patch may hold. Sizes in bytes; ``binary`` is the inflated size of one file."""

    size: int = 32 << 20
    files: int = 5_000
    hunks: int = 100_000
    lines: int = 1_000_000
    binary: int = 32 << 20
    binary_total: int = 64 << 20
    prose: int = 1 << 20  # before the first file
    name: int = 8_192  # of a line that names a file


DEFAULT_LIMITS = Limits()


@dataclass
class RawFile:
    """One file of a diff as it is written. Names are bytes, unquoted where git quoted them."""

    line: int  # of its first line in the patch, from 1
    git: bool
    head: bytes = b""  # what follows `diff --git `
    old_name: bytes | None = None  # from ---
    new_name: bytes | None = None  # from +++
    old_time: str = ""
    new_time: str = ""
    old_mode: str = ""
    new_mode: str = ""
    is_new: bool = False
    is_deleted: bool = False
    renamed: tuple[bytes, bytes] | None = None
    copied: tuple[bytes, bytes] | None = None
    old_blob: str = ""
    new_blob: str = ""
    hunks: list[Hunk] = field(default_factory=list)
    hunk_lines: list[int] = field(default_factory=list)
    binary: tuple[str, bytes] | None = None  # "literal" or "delta", and its bytes
    binary_old: tuple[str, bytes] | None = None
    binary_missing: bool = False


@dataclass
class Scan:
    """All of a patch: the lines before its first file, its files, and lines between that say something."""

    prelude: list[bytes]
    files: list[RawFile]
    crlf: bool  # every line of the patch ended in CRLF; one CR was taken off each
    cut: bool = False  # the last line of the patch has no end
    only_in: list[tuple[int, str]] = field(default_factory=list)  # `Only in DIR: NAME` of diff -r


_HUNK = lazy(rb"@@ -(\d{1,9})(?:,(\d{1,9}))? \+(\d{1,9})(?:,(\d{1,9}))? @@(?: ?(.*))?", re.DOTALL)
_INDEX = lazy(rb"index ([0-9a-f]{4,64})\.\.([0-9a-f]{4,64})(?: ([0-7]{6}))?")
_MODE = lazy(rb"[0-7]{6}")
_TIME = lazy(rb"(\s+)(\d{4}-\d\d-\d\d \d\d:\d\d(?::\d\d)?.*)$")
_BINARY = lazy(rb"Binary files .* differ|Files .* differ")


def scan(data: bytes, name: str = "", limits: Limits = DEFAULT_LIMITS) -> Scan:
    """The files of a patch. ``name`` is what errors call it.

    UserError P001 (not a diff this reads), P002 (malformed), P003 (too large), P007 (binary), P009 (merge).
    """
    check_size(data, name, limits)
    _refuse_encodings(data, name)
    data = data.removeprefix(b"\xef\xbb\xbf")
    lines = data.split(b"\n")
    if lines[-1] == b"":
        lines.pop()
    # A paste may have lost the very last line end.
    whole = lines if data.endswith(b"\n") else lines[:-1]
    crlf = bool(whole) and all(line.endswith(b"\r") for line in whole)
    if crlf:
        lines = [line.removesuffix(b"\r") for line in lines]
    found = _Scanner(lines, name, limits, crlf).run()
    found.cut = not data.endswith(b"\n")
    return found


#: What to do with too much of anything.
SPLIT = "split it into one patch per change: git format-patch BASE..TIP"


def check_size(data: bytes, name: str, limits: Limits) -> None:
    """UserError P003 for more than one patch may be, before anything looks into it."""
    if len(data) > limits.size:
        raise UserError(
            "P003",
            f"it is larger than {limits.size:,} bytes, which is the most that is read",
            place=name or None,
            hints=[SPLIT],
        )


def _refuse_encodings(data: bytes, name: str) -> None:
    if data[:2] in (b"\xff\xfe", b"\xfe\xff") or b"\0" in data[:4]:
        raise UserError(
            "P001",
            "this is UTF-16, not a diff as a program wrote it; a shell re-encoded it",
            place=name or None,
            hints=["git diff --output=FILE"],
        )
    if re.match(rb"(?:\x1b\[[0-9;]*m)+(?:diff|---|commit)", data):
        raise UserError(
            "P001",
            "the diff holds terminal colours",
            place=name or None,
            hints=["git diff --no-color --output=FILE"],
        )


class _Scanner:
    def __init__(self, lines: list[bytes], name: str, limits: Limits, crlf: bool) -> None:
        self.lines = lines
        self.name = name or "patch"
        self.limits = limits
        self.out = Scan([], [], crlf)
        self.at = 0
        self.hunks = self.kept = self.binary = self.prose = 0

    def place(self, at: int | None = None) -> str:
        return f"{self.name}:{(self.at if at is None else at) + 1}"

    def fail(self, fact: str, at: int | None = None, *hints: str, code: str = "P002") -> UserError:
        if code == "P003" and not hints:
            hints = (SPLIT,)
        return UserError(code, fact, place=self.place(at), hints=hints)

    def run(self) -> Scan:
        lines = self.lines
        while self.at < len(lines):
            line = lines[self.at]
            if self._starts_git():
                self._git_file()
            elif self._starts_plain(self.at):
                self._plain_file()
            elif line.startswith((b"diff --cc ", b"diff --combined ")):
                raise self.fail(
                    "a diff of a merge, which says against two parents at once",
                    None,
                    "git diff FIRST_PARENT MERGE",
                    code="P009",
                )
            elif (
                line.startswith(b"*** ")
                and self._peek(1).startswith(b"--- ")
                and self._peek(2)[:5] == b"*****"
            ):
                raise self.fail("a context diff; unified ones are read", None, "diff -u OLD NEW", code="P001")
            elif line.startswith(b"--- ") and self._peek(1).startswith(b"+++ "):
                raise self.fail(
                    "a file without a hunk: `@@ -LINE,COUNT +LINE,COUNT @@` comes next", self.at + 2
                )
            elif re.match(rb'diff --git "?[a-z]/.* "?[a-z]/', line):
                raise self.fail(
                    "this line starts a file, but what follows is not what git writes", self.at + 1
                )
            elif self.out.files:
                self._between(line)
                self.at += 1
            else:
                if line.startswith(b"@@ -") and _HUNK.fullmatch(line):
                    raise self.fail("a hunk that belongs to no file: the lines --- and +++ are missing")
                self.prose += len(line) + 1
                if self.prose > self.limits.prose:
                    raise self.fail(
                        f"more than {self.limits.prose:,} bytes before the first file", code="P003"
                    )
                self.out.prelude.append(line)
                self.at += 1
        return self.out

    def _peek(self, ahead: int) -> bytes:
        return self.lines[self.at + ahead] if self.at + ahead < len(self.lines) else b""

    def _between(self, line: bytes) -> None:
        if line.startswith(b"@@ -") and _HUNK.fullmatch(line):
            raise self.fail("a hunk that belongs to no file: the lines --- and +++ are missing")
        if line.startswith(b"Only in ") and b": " in line:
            self.out.only_in.append((self.at + 1, line.decode("utf-8", "replace")))
        elif _BINARY.fullmatch(line) and line.startswith(b"Binary"):
            file = self._new_file(RawFile(self.at + 1, git=False))
            file.binary_missing = True
            left, _, right = line[len(b"Binary files ") : -len(b" differ")].partition(b" and ")
            file.old_name, file.new_name = left, right

    def _starts_git(self) -> bool:
        line = self.lines[self.at]
        if not line.startswith(b"diff --git "):
            return False
        # The words may also stand in prose; a real one is followed by what git writes next.
        return self.at + 1 == len(self.lines) or bool(
            re.match(
                rb"(?:old mode|new mode|deleted file|new file|copy from|rename (?:from|old)|(?:dis)?simil"
                rb"arity|index|---|GIT binary|Binary files|diff --git) ?",
                self._peek(1),
            )
        )

    def _starts_plain(self, at: int) -> bool:
        """``---``, ``+++`` and a hunk, one after the other."""
        if at + 1 >= len(self.lines) or not self.lines[at].startswith(b"--- "):
            return False
        return self.lines[at + 1].startswith(b"+++ ") and (
            at + 2 < len(self.lines) and self.lines[at + 2].startswith(b"@@ ")
        )

    def _new_file(self, file: RawFile) -> RawFile:
        for at in range(self.at, min(self.at + 2, len(self.lines))):
            if len(self.lines[at]) > self.limits.name:
                raise self.fail("a line that names a file is too long", at, code="P003")
        if len(self.out.files) >= self.limits.files:
            raise self.fail(f"more than {self.limits.files:,} files", code="P003")
        self.out.files.append(file)
        return file

    def _plain_file(self) -> None:
        file = self._new_file(RawFile(self.at + 1, git=False))
        self._names(file)
        self._hunks(file)

    def _names(self, file: RawFile) -> None:
        from auditor.patching.diffs.paths import unquote

        for mark in ("old", "new"):
            rest = self.lines[self.at][4:]
            if len(rest) > self.limits.name:
                raise self.fail("a line that names a file is too long", code="P003")
            text, tab, stamp = rest.partition(b"\t")
            if not tab:
                found = _TIME.search(rest)
                if found:
                    text, stamp = rest[: found.start()], found[2]
            setattr(file, f"{mark}_name", unquote(text, self.place()))
            setattr(file, f"{mark}_time", stamp.strip().decode("utf-8", "replace"))
            self.at += 1

    def _git_file(self) -> None:
        from auditor.patching.diffs.paths import unquote

        start = self.at
        file = self._new_file(RawFile(start + 1, git=True, head=self.lines[start][len(b"diff --git ") :]))
        self.at += 1
        pairs: dict[str, bytes] = {}
        while self.at < len(self.lines):
            line = self.lines[self.at]
            words = {
                b"old mode ": "old_mode",
                b"new mode ": "new_mode",
                b"deleted file mode ": "old_mode",
                b"new file mode ": "new_mode",
            }
            key = next((word for word in words if line.startswith(word)), None)
            if key is not None:
                mode = line[len(key) :]
                if not _MODE.fullmatch(mode):
                    raise self.fail("a mode is six octal digits")
                setattr(file, words[key], mode.decode())
                file.is_deleted |= key.startswith(b"deleted")
                file.is_new |= key.startswith(b"new file")
            elif match := re.match(rb"(copy|rename) (from|to|old|new) (.+)", line, re.DOTALL):
                side = "from" if match[2] in (b"from", b"old") else "to"
                pairs[f"{match[1].decode()} {side}"] = unquote(match[3], self.place())
            elif line.startswith(b"index "):
                self._index(file, line)
            elif not re.match(rb"(?:dis)?similarity index \d+%$", line):
                break
            self.at += 1
        for kind, attribute in (("rename", "renamed"), ("copy", "copied")):
            ends = pairs.get(f"{kind} from"), pairs.get(f"{kind} to")
            if ends[0] is not None and ends[1] is not None:
                setattr(file, attribute, ends)
            elif any(end is not None for end in ends):
                raise self.fail(f"`{kind} from` and `{kind} to` belong together", start)
        if self.at >= len(self.lines):
            return
        line = self.lines[self.at]
        if line == b"GIT binary patch":
            self._binary(file)
        elif _BINARY.fullmatch(line) and line.startswith(b"Binary"):
            file.binary_missing = True
            self.at += 1
        elif line.startswith(b"--- ") and self._peek(1).startswith(b"+++ "):
            self._names(file)
            self._hunks(file)
            if not file.hunks:
                raise self.fail("a file without a hunk", start)

    def _index(self, file: RawFile, line: bytes) -> None:
        match = _INDEX.fullmatch(line)
        if match is None:
            code = "P009" if b"," in line else "P002"
            raise self.fail("an index line is `index OLD..NEW` with an optional mode", code=code)
        # All zeros is git's way to say that there is no such side.
        file.old_blob, file.new_blob = (
            "" if set(text) == {ord("0")} else text.decode() for text in (match[1], match[2])
        )
        if match[3]:
            file.old_mode = file.new_mode = match[3].decode()

    def _binary(self, file: RawFile) -> None:
        start = self.at
        self.at += 1
        blocks: list[tuple[str, bytes]] = []
        while len(blocks) < 2 and self.at < len(self.lines) and gitbinary.is_head(self.lines[self.at]):
            where = self.place()
            kind, data, self.at = gitbinary.read_block(self.lines, self.at, self.limits.binary, where)
            self.binary += len(data)
            if self.binary > self.limits.binary_total:
                raise self.fail("more binary content than is read in one patch", start, code="P003")
            blocks.append((kind, data))
        if not blocks:
            raise self.fail(
                "a binary patch without content", start, "git diff --binary --full-index", code="P007"
            )
        file.binary = blocks[0]
        file.binary_old = blocks[1] if len(blocks) > 1 else None

    def _hunks(self, file: RawFile) -> None:
        end = 0  # the last old line that the hunk before covers
        while self.at < len(self.lines) and self.lines[self.at].startswith(b"@@ "):
            start = self.at
            hunk = self._hunk()
            old = len(hunk.old())
            # A hunk without old lines stands after the line it names, any other one at it.
            first = hunk.old_start if old else hunk.old_start + 1
            if first <= end:
                raise self.fail("this hunk overlaps the one before it or stands in the wrong order", start)
            end = first + old - 1
            file.hunks.append(hunk)
            file.hunk_lines.append(start + 1)
        if self.at < len(self.lines):
            self._after_hunks()

    def _after_hunks(self) -> None:
        line = self.lines[self.at]
        if line.startswith(b"@@"):
            raise self.fail("not a hunk head; it is written `@@ -LINE,COUNT +LINE,COUNT @@`")
        if line[:1] not in (b"+", b"-", b" ", b"\\") or line.rstrip() in (b"", b"--") or line == b"-- ":
            return
        if line.startswith(b"--") and line.removesuffix(b"--")[2:] in self._boundaries():
            return
        if not self._starts_plain(self.at):
            raise self.fail(
                "the hunk goes on after the number of lines that its head says",
                None,
                "write the right counts into the head, or make the diff again",
            )

    def _boundaries(self) -> set[bytes]:
        """What ends the parts of a mail whose diff is an attachment."""
        head = b"\n".join(self.out.prelude)
        return set(re.findall(rb'boundary="?([^"\s;]{1,70})', head))

    def _hunk(self) -> Hunk:
        head = self.at
        match = _HUNK.fullmatch(self.lines[head])
        if match is None:
            raise self.fail("not a hunk head; it is written `@@ -LINE,COUNT +LINE,COUNT @@`")
        self.hunks += 1
        if self.hunks > self.limits.hunks:
            raise self.fail(f"more than {self.limits.hunks:,} hunks", code="P003")
        want_old = left_old = int(match[2]) if match[2] is not None else 1
        want_new = left_new = int(match[4]) if match[4] is not None else 1
        if (want_old and not int(match[1])) or (want_new and not int(match[3])):
            raise self.fail("lines count from 1")
        kept: list[tuple[str, bytes]] = []
        add = kept.append
        lines, at, end = self.lines, head + 1, len(self.lines)
        while left_old or left_new:
            line = lines[at] if at < end else b"?"
            mark = line[:1]
            if mark == b" " and left_old and left_new:
                add((" ", line[1:] + b"\n"))
                left_old -= 1
                left_new -= 1
            elif mark == b"+" and left_new:
                add(("+", line[1:] + b"\n"))
                left_new -= 1
            elif mark == b"-" and left_old:
                add(("-", line[1:] + b"\n"))
                left_old -= 1
            elif not mark and left_old and left_new:
                add((" ", b"\n"))  # an editor took the blank off an empty context line
                left_old -= 1
                left_new -= 1
            elif line.startswith(b"\\ ") and kept:
                self._no_newline(kept, left_old, left_new, at)
            else:
                self.at = at
                raise self._lies(head, want_old - left_old, want_old, want_new - left_new, want_new)
            at += 1
        if at < end and lines[at].startswith(b"\\ "):
            self._no_newline(kept, 0, 0, at)
            at += 1
        self.kept += len(kept)
        if self.kept > self.limits.lines:
            raise self.fail(f"more than {self.limits.lines:,} lines", code="P003")
        if not any(mark != " " for mark, _ in kept):
            raise self.fail("a hunk that changes nothing", head)
        self.at = at
        section = (match[5] or b"").rstrip(b" \t\r\n").decode("utf-8", "replace")  # what git takes for space
        return Hunk(int(match[1]), int(match[3]), tuple(kept), section)

    def _no_newline(self, kept: list[tuple[str, bytes]], left_old: int, left_new: int, at: int) -> None:
        mark, text = kept[-1]
        more = (mark != "+" and left_old) or (mark != "-" and left_new)
        if more or not text.endswith(b"\n"):
            raise self.fail("`\\ No newline at end of file` before the end of the file", at)
        kept[-1] = (mark, text[:-1])

    def _lies(self, head: int, old: int, want_old: int, new: int, want_new: int) -> UserError:
        return UserError(
            "P002",
            f"the hunk ends early: its head says {want_old:,} lines before and {want_new:,} after, "
            f"{old:,} and {new:,} follow",
            place=self.place(head),
            hints=[f"look at line {self.at + 1}; make the diff again if it was cut off or edited by hand"],
        )
