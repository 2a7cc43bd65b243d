"""What stands before the first file of a patch: a mail, a `git show`, DEP-3 fields, or plain prose."""

from __future__ import annotations

import base64
import binascii
import quopri
import re
from dataclasses import dataclass, field

from auditor.lazyre import lazy

_MBOX = lazy(rb"From ([0-9a-f]{40}|[0-9a-f]{64}) .*")
_FIELD = lazy(r"([A-Za-z][A-Za-z0-9-]*):(?:[ \t]+(.*)|)$")
#: Fields that may also stand in the text: Yocto keeps them there, and DEP-3 allows a second paragraph.
_IN_TEXT = lazy(
    r"(Upstream-Status|Forwarded|Origin|Bug(?:-[A-Za-z0-9]+)?|Applied-Upstream|Last-Update|X-[A-Za-z0-9-]+)"
    r":[ \t]+(.*)$",
    re.IGNORECASE,
)
#: A line of prose that would end it; the writer puts one blank more before it.
ENDS_PROSE = lazy(r" *(?:---(?:\s|$)|diff -|Index: |From |={20}|@@ -|\*\*\* )")
#: No subject or name is longer; decoding and cutting take more than linear time.
_LONGEST = 4_000
#: The fields of a mail end within so many bytes.
_HEAD = 1 << 16


@dataclass
class Prelude:
    """The head of one patch. ``headers`` are the fields as written, in order."""

    subject: str = ""
    body: str = ""
    author: str = ""
    date: str = ""
    commit: str = ""
    headers: list[tuple[str, str]] = field(default_factory=list)


def is_mail_start(line: bytes) -> bool:
    """Whether a line is the ``From COMMIT DATE`` with which git starts each mail of a series."""
    return _MBOX.fullmatch(line.rstrip(b"\r")) is not None


def read_prelude(lines: list[bytes]) -> Prelude:
    """What the lines before the first file say. Never fails: prose is prose."""
    raw = [line.removesuffix(b"\r") for line in lines]
    while raw and not raw[0].strip():
        raw.pop(0)
    out = Prelude()
    if not raw:
        return out
    match = _MBOX.fullmatch(raw[0])
    if match:
        if set(match[1]) != {ord("0")}:
            out.commit = match[1].decode()
        raw.pop(0)
    text = [_text(line) for line in raw]
    if not match and (shown := re.fullmatch(r"commit ([0-9a-f]{7,64})(?: \(.*\))?", text[0])):
        out.commit = shown[1]
        _git_show(out, text[1:])
    elif text and _FIELD.match(text[0]):
        rest = _fields(out, text)
        _body(out, rest)
    else:
        _body(out, text)
        out.subject, _, out.body = out.body.partition("\n")
        out.subject = out.subject.lstrip("#").strip()
        out.body = out.body.strip("\n")
    return out


def decoded_mail(data: bytes) -> bytes:
    """A mail whose text is quoted-printable or base64, with its text as it was; any other patch as it is."""
    end = re.compile(rb"\r?\n\r?\n").search(data, 0, _HEAD)
    if end is None or not re.match(rb"(?:From |[A-Za-z][A-Za-z0-9-]*:)", data):
        return data
    head, body = data[: end.end()], data[end.end() :]
    found = re.search(rb"^Content-Transfer-Encoding:[ \t]*([\w-]+)", head, re.MULTILINE | re.IGNORECASE)
    coding = found[1].lower() if found else b""
    if coding == b"quoted-printable":
        return head + quopri.decodestring(body)
    if coding == b"base64":
        try:
            return head + base64.b64decode(b"".join(body.split()), validate=True)
        except binascii.Error:
            return data
    return data


def _text(raw: bytes) -> str:
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError:
        return raw.decode("latin-1")


def _fields(out: Prelude, text: list[str]) -> list[str]:
    """Takes the paragraph of fields off the front; returns what follows its blank line."""
    found: list[tuple[str, str]] = []
    at = 0
    while at < len(text) and text[at].strip() and text[at] != "---":
        match = _FIELD.match(text[at])
        if match:
            found.append((match[1], (match[2] or "").strip()))
        elif found and text[at][:1] in " \t":
            name, value = found[-1]
            line = text[at].strip()
            folded = name.lower() in ("subject", "from", "date")
            # In DEP-3 a lone dot is an empty line of a long description.
            found[-1] = (name, f"{value} {line}" if folded else f"{value}\n{'' if line == '.' else line}")
        else:
            break
        at += 1
    for name, value in found:
        _take(out, name, value)
    return text[at:]


def _take(out: Prelude, name: str, value: str) -> None:
    low = name.lower()
    if low in ("subject", "description"):
        first, _, rest = _unfolded(value).partition("\n")
        if not out.subject:
            out.subject = plain_subject(first)
            out.body = rest.strip("\n")
    elif low in ("from", "author"):
        out.author = out.author or _unfolded(value)
    elif low == "date":
        out.date = out.date or value
    out.headers.append((name, value))


def _unfolded(value: str) -> str:
    if "=?" not in value or len(value) > _LONGEST:
        return value
    import email.errors  # few heads need it, and it is slow to load
    import email.header

    try:
        return str(email.header.make_header(email.header.decode_header(value)))
    except (LookupError, ValueError, email.errors.MessageError):  # odd words, alphabets that nobody knows
        return value


def plain_subject(text: str) -> str:
    """A subject without ``[PATCH 1/3]`` and ``Re:`` in front."""
    text = text[:_LONGEST]
    while match := re.match(r"\s*(?:[Rr]e:|\[[^\[\]]*\])", text):
        if "[" in match[0] and "PATCH" not in match[0]:
            break
        text = text[match.end() :]
    return text.strip()


def _git_show(out: Prelude, text: list[str]) -> None:
    at = 0
    while at < len(text) and text[at].strip():
        name, _, value = text[at].partition(":")
        if name in ("Author", "Date"):
            setattr(out, name.lower(), value.strip())
        at += 1
    message = [line[4:] if line.startswith("    ") else line for line in text[at:]]
    _body(out, message)
    out.subject, _, out.body = out.body.partition("\n")
    out.body = out.body.strip("\n")


def _body(out: Prelude, text: list[str]) -> None:
    """The prose up to ``---``; fields in it go to the headers. A ``From:`` in front names the real author."""
    while text and not text[0].strip():
        text = text[1:]
    if text and (match := re.fullmatch(r"From: (.+ <.+>)", text[0])):
        out.author = match[1]
        text = text[1:]
    kept: list[str] = []
    for line in text:
        if line.rstrip() == "---" or line.startswith(("Index: ", "diff -", "=" * 20)):
            break
        if line.startswith(" ") and ENDS_PROSE.match(line):
            line = line[1:]
        match = _IN_TEXT.match(line)
        if match:
            out.headers.append((match[1], match[2].strip()))
        else:
            kept.append(line.rstrip())
    body = "\n".join(kept).strip("\n")
    out.body = f"{out.body}\n{body}".strip("\n") if out.body else body
