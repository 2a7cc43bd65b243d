"""Puts an export into a folder, whole or not at all, and says whether a folder is what an export gives."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path

from auditor.errors import UserError
from auditor.lazyre import lazy

_OURS = lazy(r"[\w.-]+\.patch|series|(RESULT\.)?SHA256SUMS|Dockerfile\.patches")
#: Where a build of a package puts what it makes, beside the export.
_BUILT = "dist"


def matches_folder(folder: Path, files: Mapping[str, bytes]) -> list[str]:
    """Names that differ, are missing, or are there too many; empty where the folder is the export."""
    there = _there(folder)
    stale = [
        name
        for name, data in files.items()
        if name not in there or not there[name].is_file() or there[name].read_bytes() != data
    ]
    return sorted(stale + [name for name in there if name not in files])


def _there(folder: Path) -> dict[str, Path]:
    """What lies in a folder, links not followed; without what a build made of it."""
    out: dict[str, Path] = {}
    todo = [folder] if folder.is_dir() else []
    while todo:
        for path in sorted(todo.pop().iterdir()):
            name = path.relative_to(folder).as_posix()
            if name == _BUILT:
                continue
            if path.is_dir() and not path.is_symlink():
                todo.append(path)
            else:
                out[name] = path
    return out


def _listed(folder: Path) -> set[str]:
    """The files that an export in folders wrote, from its own list of hashes."""
    sums = folder / "SHA256SUMS"
    text = sums.read_text(encoding="utf-8", errors="replace") if sums.is_file() else ""
    return {line.partition("  ")[2] for line in text.splitlines()}


def write_export(folder: Path, files: Mapping[str, bytes], *, overwrite: bool) -> None:
    """The folder with exactly these files. UserError P034 where it holds anything else."""
    shown = folder.name if folder.is_absolute() else folder.as_posix()
    if folder.is_symlink() or (folder.exists() and not folder.is_dir()):
        raise UserError("P034", "not a folder", place=shown)
    there = _there(folder)
    if there and not matches_folder(folder, files):
        return
    listed = _listed(folder)
    foreign = [
        name
        for name, path in sorted(there.items())
        if not (_OURS.fullmatch(name) or name in listed) or path.is_symlink() or not path.is_file()
    ]
    if foreign:
        raise UserError("P034", f"the folder holds what no export wrote: {foreign[0]}", place=shown)
    if there and not overwrite:
        raise UserError(
            "P034",
            "the folder holds another export",
            place=shown,
            hints=["the same command with --overwrite"],
        )
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        staged = Path(tempfile.mkdtemp(prefix=f".{folder.name}.", dir=folder.parent))
        old = staged.with_name(staged.name + ".old")
        try:
            for name, data in files.items():
                (staged / name).parent.mkdir(parents=True, exist_ok=True)
                (staged / name).write_bytes(data)
            mask = os.umask(0)
            os.umask(mask)
            staged.chmod(0o777 & ~mask)
            if folder.exists():
                os.rename(folder, old)
            try:
                os.rename(staged, folder)
            except OSError:
                if old.exists():
                    os.rename(old, folder)
                raise
        finally:
            shutil.rmtree(staged, ignore_errors=True)
            shutil.rmtree(old, ignore_errors=True)
    except OSError as error:
        raise UserError("P034", f"cannot be written: {error.strerror or error}", place=shown) from None
