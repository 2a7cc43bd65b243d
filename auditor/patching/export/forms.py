"""Writes a patchset in the forms that other tools take: mails, a quilt folder, one diff, a Dockerfile stanza.

The same patchset gives the same bytes: no clock, no name or version of a program, no commit id but zeros,
full blob ids where they are known.
"""

from __future__ import annotations

import hashlib
import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from auditor.errors import UserError
from auditor.patching.diffs.lines import file_change
from auditor.patching.diffs.write import write_diff, write_patch
from auditor.patching.model import ChangeSet, FileChange
from auditor.patching.sets.header import Header, with_header
from auditor.patching.sets.patchset import Patchset
from auditor.trees.base import SourceTree


@dataclass(frozen=True)
class Piece:
    """One patch with its content as a diff, whatever it was before."""

    name: str
    header: Header
    changes: ChangeSet


def pieces_of(patchset: Patchset) -> list[Piece]:
    """The patches of a stack of diffs. UserError P035 where one is none and so needs a base."""
    out = []
    for patch in patchset.patches:
        if patch.changes is None:
            what = "a reference to its upstream" if patch.reference else "structural"
            raise UserError(
                "P035",
                f"{patch.name} is {what}: it becomes a diff only on a base",
                place=patch.place,
                hints=[f"patches export {patchset.typed} --onto REV"],
            )
        out.append(Piece(patch.name, patch.header, patch.changes))
    return out


def between(before: SourceTree, after: SourceTree) -> list[FileChange]:
    """What makes ``after`` of ``before``, file by file, sorted."""
    old, new = before.blobs(), after.blobs()
    out: list[FileChange] = []
    for path in sorted(old.keys() | new.keys()):
        if old.get(path) == new.get(path):
            continue
        change = file_change(
            path,
            before.read(path) if path in old else None,
            after.read(path) if path in new else None,
        )
        if change is not None:
            out.append(change)
    return out


def mails(pieces: Sequence[Piece]) -> dict[str, bytes]:
    """As ``git format-patch --zero-commit --full-index --no-signature --no-stat`` does: name -> mail."""
    width = max(4, len(str(len(pieces))))
    out: dict[str, bytes] = {}
    for number, piece in enumerate(pieces, 1):
        changes = with_header(piece.header, piece.changes)
        changes = replace(changes, author=changes.author or "unknown <unknown@localhost>")
        out[f"{number:0{width}}-{piece.name}.patch"] = write_patch(changes, mbox=True)
    return out


def mailbox(pieces: Sequence[Piece]) -> bytes:
    """All mails in one file for ``git am``."""
    return b"\n".join(mails(pieces).values())


def quilt(pieces: Sequence[Piece]) -> dict[str, bytes]:
    """A quilt folder: ``series`` and the patches with DEP-3 heads."""
    out = {"series": "".join(f"{piece.name}.patch\n" for piece in pieces).encode()}
    for piece in pieces:
        out[f"{piece.name}.patch"] = write_patch(with_header(piece.header, piece.changes))
    return out


def squashed(pieces: Sequence[Piece], name: str) -> tuple[FileChange, ...]:
    """Patches of different files as one set of changes. UserError P035 where two change one file."""
    owner: dict[str, str] = {}
    out: list[FileChange] = []
    for piece in pieces:
        for change in piece.changes.changes:
            for path in {change.old_path, change.new_path} - {None}:
                first = owner.setdefault(path or "", piece.name)
                if first != piece.name:
                    raise UserError(
                        "P035",
                        f"{first} and {piece.name} both change {path}: that is one diff only on a base",
                        hints=[f"patches export {name} --squash --onto REV"],
                    )
            out.append(change)
    return tuple(out)


def squashed_between(
    before: SourceTree, after: SourceTree, pieces: Sequence[Piece]
) -> tuple[FileChange, ...]:
    """All that the patches make of a base as one set of changes."""
    return tuple(_with_modes(between(before, after), pieces))


def _with_modes(changes: Sequence[FileChange], pieces: Sequence[Piece]) -> list[FileChange]:
    """The changes with the modes that the patches give; a tree knows contents only."""
    modes = {
        change.path: (change.old_mode, change.new_mode)
        for piece in pieces
        for change in piece.changes.changes
        if change.new_mode
    }
    out = []
    for change in changes:
        old, new = modes.get(change.path, ("", ""))
        if change.new_path is not None:
            change = replace(change, old_mode="" if change.old_path is None else old, new_mode=new)
        out.append(change)
    return out


def digest(data: bytes) -> str:
    """sha256 in hex."""
    return hashlib.sha256(data).hexdigest()


def checksums(files: Mapping[str, bytes]) -> bytes:
    """``SHA256SUMS`` as ``sha256sum --check`` reads it."""
    return "".join(f"{digest(data)}  {name}\n" for name, data in sorted(files.items())).encode()


def dockerfile(
    pieces: Sequence[Piece],
    name: str,
    *,
    source: str,
    target: str,
    results: Mapping[str, bytes | None] | None = None,
) -> tuple[bytes, dict[str, bytes]]:
    """A stanza that puts the patches into an image, and the files it copies.

    ``source`` is the folder of the files as the build sees it, ``target`` the tree in the image. Every step
    is joined by ``&&``, so the first one that fails fails the build; ``git apply`` has no fuzz. ``results``
    (path -> content after) makes the stanza prove what is on the disk afterwards.
    """
    files = {
        f"{number:04}-{piece.name}.patch": write_diff(piece.changes.changes)
        for number, piece in enumerate(pieces, 1)
    }
    sums = checksums(files)
    where = f"/opt/patches/{name}"
    lines = [
        f"# The patches of {name}, in order. Written by `patches export {name} --dockerfile`; do not edit.",
        f"COPY {source.rstrip('/')}/ {where}/",
        "RUN set -eu \\",
        f" && cd {where} && echo {digest(sums)}'  SHA256SUMS' | sha256sum --check --status \\",
        " && sha256sum --check --strict SHA256SUMS \\",
        f" && cd {shlex.quote(target)} \\",
    ]
    # In a folder below somebody's repository `git apply` skips everything and says nothing.
    lines.append(' && GIT_CEILING_DIRECTORIES="$(dirname "$PWD")" && export GIT_CEILING_DIRECTORIES \\')
    apply = "git apply --whitespace=nowarn"
    lines += [f" && {apply} {where}/{file} \\" for file in files]
    files["SHA256SUMS"] = sums
    if results is not None:
        proof = {path: data for path, data in results.items() if data is not None}
        files["RESULT.SHA256SUMS"] = checksums(proof)
        gone = sorted(path for path, data in results.items() if data is None)
        lines += [f" && test ! -e {shlex.quote(path)} \\" for path in gone]
        expected = digest(files["RESULT.SHA256SUMS"])
        lines.append(f" && echo {expected}'  {where}/RESULT.SHA256SUMS' | sha256sum --check --status \\")
        lines.append(f" && sha256sum --check --strict {where}/RESULT.SHA256SUMS \\")
    else:
        last = f"{len(pieces):04}-{pieces[-1].name}.patch"
        lines.append(f" && {apply} --reverse --check {where}/{last} \\")
    lines.append(f" && echo {shlex.quote(f'{name}: {len(pieces)} patches applied and verified')}")
    return ("\n".join(lines) + "\n").encode(), files


def installed_layout(pieces: Sequence[Piece], roots: Sequence[str]) -> list[Piece]:
    """The patches with the paths of an installed copy. What it does not have is not in them.

    UserError P035 where nothing is left of a patch.
    """
    out = []
    for piece in pieces:
        changes = []
        for change in piece.changes.changes:
            for root in roots:
                paths = [change.old_path, change.new_path]
                if all(path is None or path.startswith(f"{root}/") for path in paths):
                    old, new = (path and path[len(root) + 1 :] for path in paths)
                    changes.append(replace(change, old_path=old, new_path=new))
                    break
        if not changes:
            raise UserError(
                "P035",
                f"{piece.name} changes nothing that an installed copy has",
                hints=["leave --installed-layout out"],
            )
        out.append(replace(piece, changes=replace(piece.changes, changes=tuple(changes))))
    return out


def plain_name(text: str) -> bool:
    """Whether a path can stand in a Dockerfile without quoting."""
    return re.fullmatch(r"[A-Za-z0-9._/-]+", text) is not None
