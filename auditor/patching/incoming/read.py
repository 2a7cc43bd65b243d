"""Which kind of input a path on this disk is, and the patches that it gives."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from auditor.errors import UserError
from auditor.patching.diffs.exact import apply_exactly
from auditor.patching.diffs.scan import DEFAULT_LIMITS
from auditor.patching.incoming.lists import Listing, files_of, read_dockerfile, read_json, read_series
from auditor.patching.incoming.names import RepositoryView
from auditor.patching.incoming.patches import Imported, Options, Row, Source, take, unique_name
from auditor.patching.model import FileChange
from auditor.trees.base import SourceTree
from auditor.trees.overlay import OverlayTree

Kind = Literal["patch", "series", "dockerfile", "json", "script", "files", "folder", "numbered"]
_PATCH = (".patch", ".diff", ".mbox", ".eml", ".mail")
_MOST_FILES = 2_000


def read_inputs(paths: Sequence[Path], base: SourceTree | None, options: Options) -> Imported:
    """The patches of all inputs, in order. Nothing is written.

    UserError P030 (nothing in it), P031 (names), P032 (needs a base), P033 (a list), or of the diff reader.
    """
    if base is not None:
        base = RepositoryView.of(base, options.layout)
    out = Imported(tree=base)
    for path in paths:
        _read(out, path, options)
    if not out.patches:
        reasons = [reason for row in out.rows for reason in (*row.left_out, *row.notes)]
        raise UserError(
            "P030",
            f"nothing to import{': ' + reasons[0] if reasons else ''}",
            place=_shown(paths[0]) if paths else None,
            hints=["git format-patch BASE..TIP"],
        )
    return out


def _shown(path: Path) -> str:
    """How a report names an input: relative as given, else its last part."""
    return path.name if path.is_absolute() else path.as_posix()


def kind_of(path: Path) -> Kind:
    """What an input is, by its name and content. UserError P033 where it is nothing that can be read."""
    name = path.name.lower()
    if path.is_dir():
        return "folder"
    if not path.is_file():
        raise UserError("P033", "no such file or folder", place=_shown(path))
    if re.match(r"(docker|container)file\b", name) or name.endswith((".dockerfile", ".containerfile")):
        return "dockerfile"
    if name in ("series", ".patches", "patches.txt", "order", "order.txt") or name.endswith(".series"):
        return "series"
    if name.endswith(".json"):
        return "json"
    if name.endswith(".py"):
        return "script"
    return "patch"


def _read(out: Imported, path: Path, options: Options) -> None:
    kind = kind_of(path)
    if kind == "folder":
        kind, path = kind_of_folder(path)
    label = _shown(path)
    if kind == "numbered":
        # By number, not by letters: 10 comes after 9.
        found = [each for each in path.iterdir() if each.name.endswith(_PATCH)]
        found.sort(key=lambda each: (int((re.match(r"\d*", each.name) or [""])[0] or 0), each.name))
        _add(out, [Source(each.name, _bytes(each)) for each in found], options)
    elif kind == "patch":
        _add(out, [Source(label, _bytes(path))], options)
    elif kind == "script":
        from auditor.patching.incoming.script import take_script

        if out.tree is None:
            raise _needs_base(label, "a script that replaces text")
        taken = take_script(_text(path), label, out.tree, options)
        _merge(out, taken)
    elif kind == "files":
        from auditor.patching.incoming.overlay import take_overlay

        if out.tree is None:
            raise _needs_base(label, "a folder of whole files")
        patch, row = take_overlay(folder_files(path), out.tree, options.layout, label, options.exclude)
        _merge(out, Imported([patch], [row], _with(out.tree, patch.changes.changes)))
    else:
        reader = {"series": read_series, "json": read_json, "dockerfile": read_dockerfile}[kind]
        listing = reader(_text(path), label)
        if not listing.entries and not listing.left_out:
            raise UserError("P030", "the list names no patch", place=label)
        _take_listing(out, listing, path, label, kind == "dockerfile", options)


def _take_listing(
    out: Imported, listing: Listing, path: Path, label: str, docker: bool, options: Options
) -> None:
    sources = [
        Source(
            file.name,
            _bytes(file),
            entry.strip,
            entry.exclude,
            entry.directory,
            entry.title,
        )
        for entry, file in files_of(listing, path.parent, label, docker)
    ]
    if sources:
        _add(out, sources, options)
    for source, target in listing.copies if options.layout.package else ():
        if options.layout.package in target.split("/")[2:] and not source.endswith(_PATCH):
            listing.left_out.append(f"{label}: COPY {source} puts whole files over {target}: import {source}")
    if listing.left_out:
        out.rows.append(Row(label, left_out=tuple(listing.left_out)))


def _add(out: Imported, sources: list[Source], options: Options) -> None:
    try:
        _merge(out, take(sources, out.tree, options))
    except UserError as error:
        # A file without a diff among others is left out aloud; alone it is the error.
        if error.code != "P030" or not out.patches:
            raise
        out.rows += [Row(source.label, left_out=("no diff in it",)) for source in sources]


def _merge(out: Imported, taken: Imported) -> None:
    """Appends, giving a second patch of one name another one."""
    from dataclasses import replace

    renamed: dict[str, str] = {}
    for patch in taken.patches:
        name = unique_name(patch.name, [each.name for each in out.patches])
        renamed[patch.name] = name
        out.patches.append(replace(patch, name=name))
    out.rows += [replace(row, patch=renamed.get(row.patch, row.patch)) for row in taken.rows]
    out.tree = taken.tree


def _with(tree: SourceTree, changes: Sequence[FileChange]) -> SourceTree:
    after: dict[str, bytes | None] = {}
    for change in changes:
        old = change.old_path
        after[change.path] = apply_exactly(change, tree.read(old) if old else None)
    return OverlayTree(tree, after)


def _needs_base(label: str, what: str) -> UserError:
    return UserError(
        "P032",
        f"{what} becomes a patch only against the tree that it was made for",
        place=label,
        hints=[
            "patches import INPUT --into NAME --base REV",
        ],
    )


def _bytes(path: Path) -> bytes:
    try:
        with path.open("rb") as handle:
            return handle.read(DEFAULT_LIMITS.size + 1)
    except OSError as error:
        raise UserError("P033", f"cannot be read: {error.strerror or error}", place=_shown(path)) from None


def _text(path: Path) -> str:
    try:
        return _bytes(path).decode("utf-8-sig")
    except UnicodeDecodeError:
        raise UserError("P033", "not UTF-8", place=_shown(path)) from None


def kind_of_folder(path: Path) -> tuple[Kind, Path]:
    """A folder with a list is that list; with patches whose names are numbered, those; else whole files."""
    label = _shown(path)
    for name in ("series", ".patches"):
        if (path / name).is_file():
            return "series", path / name
    names = [each.name for each in path.iterdir() if each.is_file()]
    patches = sorted(name for name in names if name.endswith(_PATCH))
    if not patches:
        return "files", path
    if any(each.is_dir() and each.name[0] != "." for each in path.iterdir()):
        raise UserError(
            "P033", "patches and folders side by side: is this a stack or a set of whole files?", place=label,
            hints=[f"patches import {label}/{patches[0]} …"],
        )  # fmt: skip
    if len(patches) > 1 and not all(re.match(r"\d", name) for name in patches):
        shown = " ".join(patches[:4]) + (" …" if len(patches) > 4 else "")
        raise UserError(
            "P033",
            f"{len(patches)} patches without an order: no series file, and their names are not numbered",
            place=label,
            hints=[f"write their names in order into {label}/series", f"or name them in order: {shown}"],
        )
    return "numbered", path


def folder_files(path: Path) -> dict[str, bytes]:
    """Name below the folder -> content, sorted; hidden ones left out. UserError P003, P005, P033."""
    out: dict[str, bytes] = {}
    total = 0
    for each in sorted(path.rglob("*")):
        name = each.relative_to(path).as_posix()
        if any(part.startswith(".") for part in name.split("/")):
            continue
        if each.is_symlink():
            raise UserError("P005", f"{name} is a symbolic link", place=_shown(path))
        if each.is_file():
            out[name] = _bytes(each)
            total += len(out[name])
            if len(out) > _MOST_FILES or total > 2 * DEFAULT_LIMITS.size:
                raise UserError("P003", "more files than one patch is made of", place=_shown(path))
    return out
