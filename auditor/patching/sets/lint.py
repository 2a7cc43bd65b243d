"""Checks what can be read but should not be so: heads without a reason, lists that do not match the disk,
orders that cannot work, patches that contradict themselves or each other.

Every problem is found, not only the first; each has the code and the place that the same fact has elsewhere.
"""

from __future__ import annotations

import fnmatch
import hashlib
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from packaging.specifiers import SpecifierSet

from auditor.arch.targets import load_targets
from auditor.errors import UserError
from auditor.patching.kernels.launches import wrong_declarations
from auditor.patching.model import ChangeSet
from auditor.patching.sets.header import Expectation, Header, split_status, status_of_dep3
from auditor.patching.sets.patchset import Patch, Patchset, check_name, load_outline, load_patch
from auditor.patching.sets.upstreams import check_row
from auditor.profile import load_profile, profile_names

#: Words of an expectation that name no target but all others.
_DEFAULT = "default"


@dataclass(frozen=True)
class Problem:
    """One thing to mend."""

    code: str
    place: str
    message: str
    hints: tuple[str, ...] = ()


def lint_patchset(folder: Path) -> list[Problem]:
    """All problems of one patchset, sorted by place. Reads only its own folder."""
    try:
        outline = load_outline(folder)
    except UserError as error:
        return [_problem(error)]
    out: list[Problem] = []
    if not check_name(outline.name):
        out.append(
            Problem(
                "P026", outline.place, "a patchset is named in lower-case letters, digits, `-`, `_` and `.`"
            )
        )
    patches = []
    for name in dict.fromkeys(outline.file.order):
        try:
            patches.append(load_patch(outline, name))
        except UserError as error:
            out.append(_problem(error))
    out += _listing(outline)
    out += _upstreams(outline)
    for patch in patches:
        out += _head(outline, patch)
        if patch.changes is not None:
            out += _changes(outline, patch, patch.changes)
        if patch.form == "structural":
            out += _edits(outline, patch)
        if patch.file is not None and patch.file.examples:
            out += _examples(outline, patch)
    out += map(_problem, wrong_declarations(replace(outline, patches=tuple(patches))))
    out += _order(outline, patches)
    out += _duplicates(patches)
    return sorted(out, key=lambda item: (_sort_key(item.place), item.code, item.message))


def _sort_key(place: str) -> tuple[str, list[int]]:
    name, *numbers = place.split(":")
    return name, [int(number) for number in numbers if number.isdecimal()]


def _problem(error: UserError) -> Problem:
    return Problem(error.code, error.place or "", str(error), error.hints)


def _listing(patchset: Patchset) -> Iterator[Problem]:
    """Listed and on disk, both ways."""
    document, order = patchset.document, patchset.file.order
    for at, name in enumerate(order):
        if name in order[:at]:
            yield Problem("P024", document.place("order", at), f"{name} is listed twice", ("remove one",))
    patches = patchset.folder / "patches"
    for path in sorted(patches.iterdir()) if patches.is_dir() else []:
        place = f"{patchset.place}/patches/{path.name}"
        if path.name.startswith("."):
            continue
        if path.suffix not in (".yaml", ".patch") or not path.is_file() or path.is_symlink():
            yield Problem("P024", place, "neither a .yaml nor a .patch file", ("move it out of patches/",))
        elif path.stem not in order:
            hint = f"add `- {path.stem}` to `order:` in {patchset.place}/patchset.yaml, or remove the file"
            yield Problem(
                "P024", place, "this patch is not in the order list, so nothing applies it", (hint,)
            )
    files = patchset.folder / "files"
    # what Python leaves beside a file that somebody ran is nobody's
    there = {
        path.relative_to(files).as_posix()
        for path in files.rglob("*")
        if path.is_file() and "__pycache__" not in path.relative_to(files).parts
    }
    for name in sorted(there - set(patchset.file.files)):
        yield Problem(
            "P024",
            f"{patchset.place}/files/{name}",
            "a file without licence and provenance",
            (f"add `{name}: {{licence: …, provenance: …}}` to `files:` in patchset.yaml",),
        )
    for name in sorted(set(patchset.file.files) - there):
        yield Problem("P024", document.place("files", key=name), f"no such file: files/{name}", ())


def _upstreams(patchset: Patchset) -> Iterator[Problem]:
    for name, row in patchset.file.upstreams.items():
        yield from _specifiers(row.versions, patchset.document.place("upstreams", name, "versions"))

        known = name in profile_names()
        if known and (row.package or row.distributions or row.root or row.places):
            place = patchset.document.place("upstreams", name)
            fact = f"the profile of {name} says where it lies; what is said here is not used"
            yield Problem("P021", place, fact, ("remove package, distributions, root and places",))
        wrong = "" if known else check_row(name, row)
        if wrong:
            yield Problem("P021", patchset.document.place("upstreams", name), wrong, ())


def _specifiers(text: str, place: str) -> Iterator[Problem]:
    try:
        SpecifierSet(text)
    except ValueError:  # also a number of thousands of digits
        yield Problem("P021", place, f"not version specifiers: {text!r}", ('write ">=0.5.12,<0.6"',))


def _place(patch: Patch, key: str) -> str:
    """Where a field of a head stands: its line in YAML, else the file."""
    if patch.document is not None:
        return patch.document.place(key=key)
    return patch.place


def _head(patchset: Patchset, patch: Patch) -> Iterator[Problem]:
    header = patch.header

    def problem(message: str, key: str, *hints: str) -> Problem:
        return Problem("P023", _place(patch, key), message, hints)

    def spelled(field: str, yaml: str) -> str:
        return f"add `{yaml}`" if patch.document is not None else f"add `{field}`"

    if header.why is None:
        yield problem(
            "no why: a patch says whether it is going upstream, local only, or incompatible by design",
            "title",
            spelled("X-Why: local-only: REASON", "why: {kind: local-only, reason: …}"),
        )
    elif (
        header.why.kind == "going-upstream" and not header.why.link and header.status.startswith("Submitted")
    ):
        pass  # the status has the link
    elif header.why.kind == "going-upstream" and not header.why.link:
        yield problem(
            "going upstream, but no link says where",
            "why",
            spelled("X-Why: going-upstream: URL", "link: URL"),
        )
    elif header.why.kind != "going-upstream" and not header.why.reason.strip():
        yield problem(f"{header.why.kind}, but no reason says why", "why")
    if not header.removal.strip():
        yield problem(
            "no removal plan: a patch says when it can go",
            "title",
            spelled("X-Removal: WHEN", "removal: …"),
        )
    if not header.status:
        yield problem("no status", "title", spelled("Upstream-Status: Pending", "status: Pending"))
    else:
        try:
            split_status(header.status)
        except UserError as error:
            yield problem(str(error), "status", *error.hints)
        else:
            yield from _contradictions(patch, header)
    yield from _scope(patchset, patch, header)


def _contradictions(patch: Patch, header: Header) -> Iterator[Problem]:
    word, _ = split_status(header.status)
    place = _place(patch, "status")
    said = status_of_dep3(header.fields)
    if said and split_status(said)[0] != word and word not in ("Denied", "Inactive-Upstream"):
        yield Problem(
            "P023", place, f"the DEP-3 fields say {said}, Upstream-Status says {header.status}", ("keep one",)
        )
    if header.why is None:
        return
    kind = header.why.kind
    if kind == "going-upstream" and word in ("Inappropriate", "Denied"):
        yield Problem("P023", place, f"going upstream, and {word} there", ("change one of why and status",))
    if kind != "going-upstream" and word == "Submitted":
        yield Problem("P023", place, f"{kind}, but submitted upstream", ("write kind: going-upstream",))
    if kind == "incompatible" and word == "Pending":
        yield Problem(
            "P023", place, "incompatible by design, but pending", ("write status: Inappropriate [REASON]",)
        )
    updated = next((value for name, value in header.fields.items() if name.lower() == "last-update"), "")
    if updated and not re.fullmatch(r"\d{4}-\d\d-\d\d", updated):
        yield Problem("P023", place, f"Last-Update is a day, not {updated!r}", ("write YYYY-MM-DD",))


def _scope(patchset: Patchset, patch: Patch, header: Header) -> Iterator[Problem]:
    known = patchset.file.upstreams
    if header.project and header.project not in known:
        yield Problem(
            "P023",
            _place(patch, "project"),
            f"{header.project} is no upstream of this patchset",
            (f"add `{header.project}: {{}}` to `upstreams:` in patchset.yaml",),
        )
    name = patchset.project_of(patch)
    stated = [
        word
        for word, there in (("verify", header.verify), ("upstreamed-when", header.upstreamed_when))
        if there
    ]
    if stated and name in known and name not in profile_names():
        fact = f"{stated[0]} is never checked: {name} has no profile to audit it by"
        yield Problem("P023", _place(patch, stated[0]), fact, ("remove it, or say it in prose",))
    for name, text in header.applies.items():
        if name not in known:
            yield Problem(
                "P023",
                _place(patch, "applies"),
                f"applies names {name}, which is no upstream of this patchset",
                (f"add `{name}: {{}}` to `upstreams:` in patchset.yaml",),
            )
        yield from _specifiers(text, _place(patch, "applies"))
    targets = load_targets()
    for target in header.targets:
        if not fnmatch.filter(targets, target):
            yield Problem("P023", _place(patch, "targets"), f"no such target: {target}", ("audit targets",))
    for key, items in (("verify", header.verify), ("upstreamed-when", (header.upstreamed_when,))):
        for item in items:
            if item is not None:
                yield from _expectation(patch, key, item)


def _expectation(patch: Patch, key: str, item: Expectation) -> Iterator[Problem]:
    place = _place(patch, key)
    given = [word for word in ("query", "gate", "predicate") if getattr(item, word)]
    if len(given) != 1:
        yield Problem("P023", place, "an expectation names one of query, gate and predicate", ())
    if not item.expect:
        yield Problem(
            "P023", place, "an expectation without `expect:` checks nothing", ("add expect: {sm_120: true}",)
        )
    targets = load_targets()
    for target in item.expect:
        if target != _DEFAULT and not fnmatch.filter(targets, target):
            yield Problem("P023", place, f"no such target: {target}", ("audit targets",))
    if key == "upstreamed-when" and "unchanged" in item.expected().values():
        yield Problem("P023", place, "`unchanged` cannot say that something is upstream", ())


def _changes(patchset: Patchset, patch: Patch, changes: ChangeSet) -> Iterator[Problem]:
    for change in changes.changes:
        for pattern in patchset.file.policy.exclude:
            if fnmatch.fnmatchcase(change.path, pattern):
                yield Problem(
                    "P024", patch.place, f"{change.path} is touched, which the policy excludes: {pattern}", ()
                )
        shift = 0
        for hunk in change.hunks:
            old, new = len(hunk.old()), len(hunk.new())
            expected = hunk.old_start + shift + (0 if old else 1) - (0 if new else 1)
            if hunk.new_start != expected and change.old_path and change.new_path:
                yield Problem(
                    "P023",
                    patch.place,
                    f"{change.path}: the hunk at line {hunk.old_start} says it lands at {hunk.new_start}; "
                    f"with the hunks before it that is {expected}",
                    ("patches export writes it anew",),
                )
                break
            shift += new - old


def _examples(patchset: Patchset, patch: Patch) -> Iterator[Problem]:
    """The examples of a structural patch come out as they say."""
    from auditor.patching.edits.examples import failed  # needs the parsers of Python, which diffs do not

    assert patch.file is not None and patch.document is not None
    name = patchset.project_of(patch)
    if patch.reference is not None:
        yield Problem("P023", _place(patch, "examples"), "examples are for edits, not for a reference", ())
        return
    if name not in profile_names():
        return
    profile = load_profile(name)
    for at, example in enumerate(patch.file.examples):
        wrong = failed(patch.file.edits, example, profile)
        if wrong:
            title = f" ({example.title})" if example.title else ""
            place = patch.document.place("examples", at)
            yield Problem("P027", place, f"example {at + 1}{title}: {wrong}", ())


def _edits(patchset: Patchset, patch: Patch) -> Iterator[Problem]:
    """Whole files are listed with their licence."""
    assert patch.file is not None and patch.document is not None
    for index, edit in enumerate(patch.file.edits):
        for body in edit.bodies():
            for part in (body, getattr(getattr(body, "native", None), "source", None)):
                name = getattr(part, "from_", "")
                if name and name not in patchset.file.files:
                    hint = f"add `{name}: {{licence: …, provenance: …}}` to `files:` in patchset.yaml"
                    yield Problem(
                        "P024", patch.document.place("edits", index), f"files/{name} is not listed", (hint,)
                    )


def _order(patchset: Patchset, patches: list[Patch]) -> Iterator[Problem]:
    """What a patch requires is listed, and listed before it; no ring."""
    names = list(patchset.file.order)
    for patch in patches:
        for needed in patch.header.requires:
            place = _place(patch, "requires")
            if needed == patch.name:
                yield Problem("P025", place, f"{needed} requires itself", ())
            elif needed not in names:
                yield Problem("P025", place, f"requires {needed}, which is not in the order list", ())
            elif names.index(needed) > names.index(patch.name):
                ring = _ring(patch.name, {each.name: each.header.requires for each in patches})
                if ring:
                    yield Problem("P025", place, f"patches require each other: {' -> '.join(ring)}", ())
                else:
                    hint = f"move `- {needed}` before `- {patch.name}` in patchset.yaml"
                    yield Problem("P025", place, f"requires {needed}, which comes later", (hint,))


def _ring(start: str, requires: dict[str, tuple[str, ...]]) -> list[str]:
    """A way from a patch over what it requires back to itself, or nothing."""
    seen: set[str] = set()
    ways = [[start]]
    while ways:
        way = ways.pop()
        for following in sorted(requires.get(way[-1], ())):
            if following == start:
                return [*way, start]
            if following not in seen:
                seen.add(following)
                ways.append([*way, following])
    return []


def _duplicates(patches: list[Patch]) -> Iterator[Problem]:
    """The same hunk in two patches: the second one can only fail, or be taken for upstream."""
    seen: dict[str, tuple[str, str]] = {}
    for patch in patches:
        for change in patch.changes.changes if patch.changes else ():
            for hunk in change.hunks:
                digest = hashlib.sha256(repr((change.path, hunk.lines)).encode()).hexdigest()
                first = seen.setdefault(digest, (patch.name, change.path))
                if first[0] != patch.name:
                    yield Problem(
                        "P008",
                        patch.place,
                        f"the hunk at line {hunk.old_start} of {change.path} is in {first[0]} too",
                        ("remove it from one of the two",),
                    )
