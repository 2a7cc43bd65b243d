"""Patchsets on disk: finding one, reading it strictly, and its patches in order.

``patchsets/NAME/patchset.yaml`` says for which upstreams and in which order; ``patches/`` holds one file per
patch; ``files/`` whole new files. Reading one starts nothing and writes nothing. What cannot be read is one
UserError at its line; what can be read but should not be is for :mod:`auditor.patching.sets.lint`.
"""

from __future__ import annotations

import difflib
import re
import shlex
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Literal

import msgspec

from auditor import yamlio
from auditor.data import data_root
from auditor.errors import UserError
from auditor.lazyre import lazy
from auditor.patching.diffs.parse import DEFAULT_LIMITS, OPT_IN, parse_patch
from auditor.patching.model import ChangeSet
from auditor.patching.paths import STATE_FOLDER
from auditor.patching.sets.header import (
    Header,
    Name,
    PatchFile,
    Reference,
    Strict,
    Text,
    from_fields,
    schema_of,
)

Form = Literal["structural", "diff", "reference"]
_NAME = lazy(r"[a-z0-9][a-z0-9._-]{0,79}")
_FILE_LIMIT = 64 << 20


class Upstream(Strict, frozen=True):
    """One project that the patchset changes, or that its patches ask for."""

    url: str = ""
    versions: str = ""  # specifiers as in a requirement: ">=0.5.12,<0.6"
    root: str = (
        ""  # folder of the repository below which an installed copy begins; "" where the profile knows
    )
    package: str = ""  # what it is imported as; "" where a profile knows, or as it is called
    distributions: tuple[Text, ...] = ()  # what an installer calls it
    places: dict[Text, Text] = {}  # folder of the repository -> where an installed copy has it


class Policy(Strict, frozen=True):
    """What the owner of the patchset allows and asks for."""

    allow: tuple[Literal["modes", "symlinks", "markers"], ...] = ()
    exclude: tuple[Text, ...] = ()  # globs of paths that no patch of it should touch


class NewFile(Strict, frozen=True):
    """Where a whole file below ``files/`` comes from, and under which licence it may be carried."""

    licence: Text
    provenance: Text


class PatchsetFile(Strict, frozen=True, kw_only=True):
    """``patchset.yaml``."""

    title: Text
    why: str = ""
    upstreams: Annotated[dict[Name, Upstream], msgspec.Meta(min_length=1)]
    order: tuple[Name, ...]
    policy: Policy = Policy()
    files: dict[Text, NewFile] = {}


@dataclass(frozen=True)
class Patch:
    """One patch of a patchset, read.

    ``changes`` is there for a diff, ``reference`` for a reference, and ``edits`` (the nodes as written, with
    their places in ``document``) for a structural patch.
    """

    name: str
    place: str  # what errors call the file: "patchsets/sm120/patches/x.yaml"
    form: Form
    header: Header
    raw: bytes
    edits: tuple[dict[str, object], ...] = ()
    document: yamlio.Document | None = None
    file: PatchFile | None = None
    changes: ChangeSet | None = None
    reference: Reference | None = None


@dataclass(frozen=True)
class Patchset:
    """A patchset as read from its folder; patches in the order in which they are applied."""

    name: str
    folder: Path
    place: str  # what errors call the folder
    file: PatchsetFile
    document: yamlio.Document
    patches: tuple[Patch, ...] = field(default=())
    typed: str = ""  # what a command calls it: its name where that is enough, else its folder

    def patch(self, name: str) -> Patch:
        """The patch of that name. UserError P021 with the nearest one where there is none."""
        for patch in self.patches:
            if patch.name == name:
                return patch
        known = [patch.name for patch in self.patches]
        near = difflib.get_close_matches(name, known, n=1, cutoff=0.5)
        raise UserError(
            "P021",
            f"no patch {name!r} in the patchset {self.name}",
            place=self.place,
            hints=[f"patches show {self.typed} {word}" for word in near] or [f"patches show {self.typed}"],
        )

    def new_file(self, name: str) -> bytes:
        """The content of a file below ``files/``. UserError P024 where it is not there or not listed."""
        path = self.folder / "files" / name
        place = f"{self.place}/files/{name}"
        if name not in self.file.files:
            raise UserError(
                "P024",
                f"files/{name} is not listed with licence and provenance",
                place=f"{self.place}/patchset.yaml",
                hints=[f"add `{name}: {{licence: …, provenance: …}}` to `files:` in patchset.yaml"],
            )
        if path.is_symlink() or not path.resolve().is_relative_to((self.folder / "files").resolve()):
            raise UserError("P024", "a link, or outside of the patchset", place=place)
        return _read(path, place)

    def project_of(self, patch: Patch) -> str:
        """Which upstream a patch changes."""
        return patch.header.project or next(iter(self.file.upstreams))


def default_folders() -> tuple[Path, ...]:
    """Where patchsets are looked for, in that order: here, and those that come with the tool."""
    return Path("patchsets"), data_root() / "patchsets"


def list_patchsets(folder: Path | None = None) -> list[tuple[str, Path]]:
    """(name, folder) of every patchset, sorted by name; one here hides one of the same name elsewhere."""
    found: dict[str, Path] = {}
    for root in (folder,) if folder else default_folders():
        if not root.is_dir():
            if folder:
                raise UserError("P020", "no such folder of patchsets", place=str(folder))
            continue
        for path in root.iterdir():
            if (path / "patchset.yaml").is_file() and path.name[0] not in "._":
                found.setdefault(path.name, path)
    return sorted(found.items())


def find_patchset(name: str, folder: Path | None = None) -> Path:
    """The folder of a patchset, by its name or by its path. UserError P020 where there is none."""
    if "/" in name or name in (".", ".."):
        if (Path(name) / "patchset.yaml").is_file():
            return Path(name)
        raise UserError("P020", "no patchset.yaml in it", place=name, hints=["patches list"])
    known = dict(list_patchsets(folder))
    if name in known:
        return known[name]
    if not folder and (Path(name) / "patchset.yaml").is_file():
        return Path(name)
    near = difflib.get_close_matches(name, known, n=1, cutoff=0.5)
    hints = [*(f"patches show {word}" for word in near), "patches list"]
    if check_name(name):
        hints.append(f"patches new {name}")
    fact = f"no such patchset: {name!r}" + (f"; there is {', '.join(sorted(known))}" if known else "")
    raise UserError("P020", fact, hints=hints)


def check_name(name: str) -> bool:
    """Whether a patchset or a patch may be called so."""
    return _NAME.fullmatch(name) is not None and not name.endswith((".yaml", ".patch", ".", ".lock"))


def load_patchset(name: str | Path, folder: Path | None = None) -> Patchset:
    """A whole patchset. ``name`` is one to look for, or the folder itself.

    UserError P020 (not found), P021 (patchset.yaml), P022 (a patch), or of the diff reader.
    """
    path = name if isinstance(name, Path) else find_patchset(name, folder)
    patchset = load_outline(path, folder)
    if (path / STATE_FOLDER / "journal").exists():
        raise UserError(
            "P056",
            "a rebase was stopped in the middle: its files are of two kinds",
            place=patchset.place,
            hints=[f"patches rebase {patchset.typed} --abort        # finishes it, or puts it back"],
        )
    patches = tuple(load_patch(patchset, each) for each in patchset.file.order)
    return Patchset(
        patchset.name, path, patchset.place, patchset.file, patchset.document, patches, patchset.typed
    )


def load_outline(path: Path, folder: Path | None = None) -> Patchset:
    """A patchset without its patches; ``folder`` is where it was looked for by name."""
    name = path.name or path.resolve().name
    place = path.as_posix()
    if path.is_relative_to(data_root()):
        place = f"patchsets/{name}"  # one that comes with the tool, wherever that is installed
    elif path.is_absolute() and path.is_relative_to(Path.cwd()):
        place = path.relative_to(Path.cwd()).as_posix()
    document = yamlio.load(path / "patchset.yaml", f"{place}/patchset.yaml", code="P021")
    typed = _typed(name, path, folder)
    return Patchset(name, path, place, document.convert(PatchsetFile), document, typed=typed)


def _typed(name: str, path: Path, folder: Path | None) -> str:
    if folder is not None and path.parent == folder:
        return f"{name} --folder {shlex.quote(folder.as_posix())}"
    if path.parent in default_folders():
        return name
    text = path.as_posix()
    return shlex.quote(text if "/" in text or text in (".", "..") else f"./{text}")


def load_patch(patchset: Patchset, name: str) -> Patch:
    """One patch that the order names. UserError P024 where there is no file, or two, for it."""
    stem = patchset.folder / "patches"
    found = [stem / f"{name}{ending}" for ending in (".yaml", ".patch")]
    there = [path for path in found if path.is_file() and not path.is_symlink()]
    if len(there) != 1:
        at = patchset.file.order.index(name) if name in patchset.file.order else 0
        fact = "two files, .yaml and .patch, for one patch" if there else "no file for this patch"
        raise patchset.document.error(
            f"{fact}: patches/{name}",
            "order",
            at,
            code="P024",
            hints=(f"patches new {patchset.name} {name}",) if not there else ("remove one of the two",),
        )
    path = there[0]
    place = f"{patchset.place}/patches/{path.name}"
    return read_patch(patchset, name, place, _read(path, place))


def read_patch(patchset: Patchset, name: str, place: str, raw: bytes) -> Patch:
    """A patch from the bytes of its file; what ``place`` ends in says which form it has."""
    if place.endswith(".patch"):
        return _diff(patchset, name, place, raw)
    return _structural(name, place, raw)


def _read(path: Path, place: str) -> bytes:
    try:
        with path.open("rb") as handle:
            return handle.read(_FILE_LIMIT)
    except OSError as error:
        raise UserError("P022", f"cannot be read: {error.strerror or error}", place=place) from None


def _diff(patchset: Patchset, name: str, place: str, raw: bytes) -> Patch:
    changes = parse_patch(raw, place, allow=patchset.file.policy.allow, limits=DEFAULT_LIMITS)
    try:
        header = from_fields(changes, name)
    except UserError as error:
        error.place = error.place or place
        raise
    return Patch(name, place, "diff", header, raw, changes=changes)


def _structural(name: str, place: str, raw: bytes) -> Patch:
    document = yamlio.load(raw, place, code="P022")
    file = document.convert(PatchFile)
    if bool(file.edits) == bool(file.upstream):
        fact = (
            "edits and a reference to an upstream in one patch"
            if file.edits
            else "neither edits nor upstream"
        )
        raise document.error(fact, hints=("keep one of `edits:` and `upstream:`",))
    if file.kernels and not file.edits:
        raise document.error("kernels are declared by the patch that brings their files", key="kernels")
    if file.upstream:
        _check_reference(document, file.upstream)
    else:
        from auditor.patching.edits.check import check_edits  # a patchset of diffs needs no patterns

        check_edits(file.edits, document)
    if file.settled:
        from auditor.patching.edits.check import check_settled

        check_settled(file.settled, document)
    return Patch(
        name,
        place,
        "structural" if file.edits else "reference",
        file.header(),
        raw,
        edits=tuple(document.data.get("edits") or ()),
        document=document,
        file=file,
        reference=file.upstream,
    )


def _check_reference(document: yamlio.Document, reference: Reference) -> None:
    given = [word for word in ("commit", "range", "pr") if getattr(reference, word)]
    if len(given) != 1:
        raise document.error("one of commit, range and pr names the content", "upstream")
    if reference.commit and not re.fullmatch(r"[0-9a-f]{7,64}", reference.commit_id()):
        raise document.error(
            "a commit is named by its id, 7 to 64 hex digits: names of branches move", "upstream", "commit"
        )
    if reference.range and not re.fullmatch(r"[0-9a-f]{7,64}\.\.[0-9a-f]{7,64}", reference.range):
        raise document.error("a range is COMMIT..COMMIT, both as hex ids", "upstream", "range")
    if reference.pr is not None and reference.pr <= 0:
        raise document.error("a pull request has a positive number", "upstream", "pr")


def patchset_schema() -> bytes:
    """The JSON Schema of ``patchset.yaml``, as committed in ``reports/schema/patchset-1.json``."""
    return schema_of(PatchsetFile, "patchset-1.json", "Patchset: upstreams, order and policy")


__all__ = [
    "OPT_IN", "NewFile", "Patch", "Patchset", "PatchsetFile", "Policy", "Upstream", "check_name",
    "default_folders", "find_patchset", "list_patchsets", "load_outline", "load_patch", "load_patchset",
    "patchset_schema", "read_patch",
]  # fmt: skip
