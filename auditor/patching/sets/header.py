"""The head of a patch: why it exists, how far it is upstream, where it applies, and when it can go.

One head, two spellings. A structural patch or a reference writes it as YAML fields; a diff writes the same as
DEP-3 fields (https://dep-team.pages.debian.net/deps/dep3/) with ``Upstream-Status`` as Yocto spells it, and
``X-`` fields for what neither of them knows. The YAML types make ``reports/schema/patch-1.json``.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Annotated, Literal

import msgspec

from auditor.errors import UserError
from auditor.lazyre import lazy
from auditor.patching.edits.model import Edit, Settled
from auditor.patching.kernels.model import Kernel
from auditor.patching.model import ChangeSet
from auditor.reporting.published import schema_bytes

Kind = Literal["going-upstream", "local-only", "incompatible"]
#: Yocto's words; the second value says what the bracket has to hold, if anything.
STATUS_WORDS: dict[str, str | None] = {
    "Pending": None,
    "Submitted": "where: a URL",
    "Backport": "what: a commit or a URL",
    "Denied": None,
    "Inactive-Upstream": None,
    "Inappropriate": "why",
}
_STATUS = lazy(r"(?P<word>[A-Za-z-]+)(?:\s*\[(?P<detail>[^\[\]]*)\])?(?P<rest>.*)", re.DOTALL)
Text = Annotated[str, msgspec.Meta(min_length=1)]
Name = Annotated[str, msgspec.Meta(pattern=r"^[a-z0-9][a-z0-9._-]*$", max_length=80)]


class Strict(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True, rename="kebab"
):
    """Base of what is read from a patchset: unknown keys are errors."""


class Why(Strict, frozen=True):
    """Why the change is carried here. ``link`` is asked for where it goes upstream, ``reason`` elsewhere."""

    kind: Kind
    reason: str = ""
    link: str = ""


class Expectation(Strict, frozen=True):
    """What must be true of the patched tree, per target; exactly one of ``query``, ``gate``, ``predicate``.

    Values of ``expect`` are verdicts, ``true``/``false``/``unknown``, values of a predicate, or ``unchanged``
    (as before the patch), ``absent`` and ``present``. A key is a target, a glob of targets, or ``default``.
    """

    query: str = ""
    gate: str = ""
    predicate: str = ""
    expect: dict[str, bool | int | str] = {}

    def subject(self) -> tuple[str, str]:
        """What is asked, and of which one."""
        found = [
            (word, getattr(self, word)) for word in ("query", "gate", "predicate") if getattr(self, word)
        ]
        return found[0] if found else ("", "")

    def expected(self) -> dict[str, str]:
        """The expectations as words: ``true``, not a Python bool."""
        return {
            target: str(value).lower() if isinstance(value, bool) else str(value)
            for target, value in self.expect.items()
        }


class Example(Strict, frozen=True):
    """A small file before and after a structural patch, or the reason for which the patch leaves it alone."""

    before: str
    after: str | None = None
    skip: str | None = None
    path: str = ""  # where the file lies; by default where the first edit points
    title: str = ""


class Reference(Strict, frozen=True):
    """Content that is resolved from a clone: one commit, a range ``A..B``, or a pull request."""

    commit: str | int = ""  # an id of digits only is a number in YAML
    range: str = ""
    pr: int | None = None

    def commit_id(self) -> str:
        """The commit as text, "" where none is named."""
        return str(self.commit)

    def shown(self) -> str:
        """The reference in one word for a table."""
        return self.commit_id()[:12] or self.range or f"#{self.pr}"


class Header(Strict, frozen=True):
    """What every patch says about itself, in whichever form its content comes."""

    title: Text
    why: Why | None = None
    removal: str = ""  # when and how the patch can go
    status: str = ""  # "Submitted [URL]"
    applies: dict[str, str] = {}  # upstream -> version specifiers
    requires: tuple[Name, ...] = ()  # patches of the same patchset
    targets: tuple[Text, ...] = ()
    project: str = ""  # the upstream that it changes; by default the first of the patchset
    upstreamed_when: Expectation | None = None
    verify: tuple[Expectation, ...] = ()
    author: str = ""
    date: str = ""
    description: str = ""
    fields: dict[str, str] = {}  # further DEP-3 fields: Origin, Bug, Last-Update, Reviewed-by, …


class PatchFile(Header, frozen=True):
    """``patches/NAME.yaml``: a head with either edits or a reference; with edits also kernels."""

    settled: tuple[Settled, ...] = ()  # forms of the tree in which there is nothing to do
    edits: tuple[Edit, ...] = ()
    upstream: Reference | None = None
    exclude: tuple[Text, ...] = ()  # globs of paths that a reference is not wanted for
    examples: tuple[Example, ...] = ()
    kernels: tuple[Kernel, ...] = ()  # kernels of files that it brings, for `patches verify --kernels`

    def header(self) -> Header:
        """The head alone."""
        return Header(**{name: getattr(self, name) for name in Header.__struct_fields__})


def split_status(status: str) -> tuple[str, str]:
    """Word and bracket of a status. UserError P023 where it is not one of Yocto's, or lacks its bracket."""
    match = _STATUS.fullmatch(status.strip())
    word = match["word"] if match else ""
    if not match or word not in STATUS_WORDS or match["rest"].strip():
        near = next((known for known in STATUS_WORDS if known.lower() == word.lower()), "")
        raise UserError(
            "P023",
            f"the status {status!r} is not one of {', '.join(STATUS_WORDS)}, with a detail in [ ]",
            hints=[f"write `status: {near or 'Pending'}`"],
        )
    detail = (match["detail"] or "").strip()
    needed = STATUS_WORDS[word]
    if needed and not detail:
        raise UserError("P023", f"{word} says in [ ] {needed}", hints=[f"write `status: {word} [...]`"])
    return word, detail


def from_fields(changes: ChangeSet, fallback: str) -> Header:
    """The head that a diff's own fields give. ``fallback`` is the title of a patch without a subject.

    UserError P022 where a field of ours cannot be read.
    """
    fields: dict[str, list[str]] = {}
    for name, value in changes.headers:
        fields.setdefault(name.lower(), []).append(value)

    def one(name: str) -> str:
        return fields[name][0].strip() if name in fields else ""

    other = {
        name: value
        for name, value in changes.headers
        if re.fullmatch(
            r"(?i)origin|bug(-\w+)?|forwarded|last-update|applied-upstream|reviewed-by|acked-by", name
        )
    }
    return Header(
        title=changes.subject or fallback,
        why=_read_why(one("x-why")),
        removal=one("x-removal"),
        status=one("upstream-status") or status_of_dep3(other),
        applies=_read_applies(one("x-applies")),
        requires=tuple(_words(one("x-requires"))),
        targets=tuple(_words(one("x-targets"))),
        project=one("x-project"),
        upstreamed_when=next(map(_read_expectation, fields.get("x-upstreamed-when", ())), None),
        verify=tuple(map(_read_expectation, fields.get("x-verify", ()))),
        author=changes.author,
        date=changes.date,
        description=changes.body,
        fields=other,
    )


def status_of_dep3(fields: dict[str, str]) -> str:
    """The Yocto status that DEP-3 fields say, or "" where they say nothing."""
    low = {name.lower(): " ".join(value.split()) for name, value in fields.items()}
    if low.get("applied-upstream"):
        return f"Backport [{low['applied-upstream']}]"
    origin = low.get("origin", "")
    if re.match(r"(upstream|backport)\b", origin) and ("," in origin):
        return f"Backport [{origin.partition(',')[2].strip()}]"
    forwarded = low.get("forwarded", "")
    if not forwarded:
        return ""
    if forwarded.lower() == "no":
        return "Pending"
    if forwarded.lower().startswith("not-needed"):
        return f"Inappropriate [{forwarded[10:].strip(' ,:;()') or 'not needed upstream'}]"
    return f"Submitted [{low.get('bug', forwarded) if forwarded.lower() == 'yes' else forwarded}]"


def to_fields(header: Header) -> tuple[tuple[str, str], ...]:
    """The head as DEP-3, Yocto and ``X-`` fields, in a fixed order; reading them gives the same head."""
    out: list[tuple[str, str]] = []
    given = {name.lower(): (name, value) for name, value in header.fields.items()}
    if header.status:
        word, detail = split_status(header.status)
        forwarded = {"Pending": "no", "Submitted": detail, "Inappropriate": "not-needed"}.get(word)
        if forwarded and not {"forwarded", "applied-upstream"} & given.keys():
            given["forwarded"] = ("Forwarded", forwarded)
        if word == "Backport" and not {"applied-upstream", "origin"} & given.keys():
            found = re.fullmatch(r"[0-9a-f]{7,64}", detail)
            given["applied-upstream"] = ("Applied-Upstream", f"commit:{detail}" if found else detail)
    order = ("origin", "bug", "forwarded", "applied-upstream", "reviewed-by", "acked-by", "last-update")
    for key in sorted(given, key=lambda key: (order.index(key) if key in order else 1.5, key)):
        out.append(given[key])
    if header.status:
        out.append(("Upstream-Status", header.status))
    if header.why:
        out.append(("X-Why", _write_why(header.why)))
    if header.removal:
        out.append(("X-Removal", header.removal.strip()))
    if header.project:
        out.append(("X-Project", header.project))
    if header.applies:
        out.append(
            ("X-Applies", "; ".join(f"{name} {spec}".strip() for name, spec in header.applies.items()))
        )
    if header.requires:
        out.append(("X-Requires", ", ".join(header.requires)))
    if header.targets:
        out.append(("X-Targets", ", ".join(header.targets)))
    if header.upstreamed_when:
        out.append(("X-Upstreamed-When", _write_expectation(header.upstreamed_when)))
    out += [("X-Verify", _write_expectation(item)) for item in header.verify]
    return tuple((name, value) for name, value in out)


def with_header(header: Header, changes: ChangeSet) -> ChangeSet:
    """The same changes under this head."""
    return replace(
        changes,
        subject=header.title,
        body=header.description,
        author=header.author,
        date=header.date,
        headers=to_fields(header),
    )


def _words(text: str) -> list[str]:
    return [word for word in re.split(r"[,\s]+", text) if word]


def _read_why(text: str) -> Why | None:
    if not text:
        return None
    kind, _, rest = text.partition(":")
    if kind.strip() not in ("going-upstream", "local-only", "incompatible"):
        raise UserError(
            "P022",
            f"X-Why starts with going-upstream, local-only or incompatible, not {kind.strip()!r}",
            hints=["X-Why: local-only: REASON"],
        )
    rest = " ".join(rest.split())
    link = re.match(r"(https?://\S+|#\d+)\s*", rest)
    reason = rest[link.end() :] if link else rest
    return Why(kind=kind.strip(), link=link[1] if link else "", reason=reason)  # type: ignore[arg-type]


def _write_why(why: Why) -> str:
    words = [word for word in (why.link, " ".join(why.reason.split())) if word]
    return f"{why.kind}: {' '.join(words)}" if words else why.kind


def _read_applies(text: str) -> dict[str, str]:
    out = {}
    for part in text.split(";"):
        match = re.fullmatch(r"\s*([A-Za-z0-9][A-Za-z0-9._-]*)\s*([<>=!~].*|)", part)
        if part.strip() and not match:
            raise UserError(
                "P022", f"X-Applies: not a name with versions: {part.strip()!r}",
                hints=["X-Applies: sglang >=0.5.12,<0.6"],
            )  # fmt: skip
        if match:
            out[match[1]] = match[2].strip()
    return out


def _read_expectation(text: str) -> Expectation:
    """``query ID sm_120=live, sm_100=unchanged``."""
    words = text.split()
    pairs = {}
    if len(words) > 2 and words[0] in ("query", "gate", "predicate"):
        for word in " ".join(words[2:]).split(","):
            target, equals, value = word.strip().partition("=")
            if not equals:
                break
            pairs[target.strip()] = value.strip()
        else:
            return Expectation(**{words[0]: words[1]}, expect=dict(pairs))  # type: ignore[arg-type]
    raise UserError(
        "P022",
        f"an expectation is `query|gate|predicate NAME TARGET=VALUE, …`, not {text!r}",
        hints=["X-Verify: gate ID sm_120=true, sm_100=unchanged"],
    )


def _write_expectation(item: Expectation) -> str:
    kind, name = item.subject()
    return f"{kind} {name} " + ", ".join(f"{target}={value}" for target, value in item.expected().items())


def patch_schema() -> bytes:
    """The JSON Schema of ``patches/NAME.yaml``, as committed in ``reports/schema/patch-1.json``."""
    return schema_of(
        PatchFile, "patch-1.json", "Patch: a head with edits, or with a reference to an upstream"
    )


def schema_of(type_: type[msgspec.Struct], identity: str, title: str) -> bytes:
    """A schema (draft 2020-12) as UTF-8 JSON with a final newline."""
    return schema_bytes(msgspec.json.schema(type_)["$defs"], type_.__name__, identity, title)
