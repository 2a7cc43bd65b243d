"""Puts an export into a folder, whole or not at all, and says whether a folder is what an export gives."""

from __future__ import annotations

import os
import re
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path

from auditor.errors import UserError

_OURS = re.compile(r"[\w.-]+\.patch|series|(RESULT\.)?SHA256SUMS|Dockerfile\.patches")


def matches_folder(folder: Path, files: Mapping[str, bytes]) -> list[str]:
    """Names that differ, are missing, or are there too many; empty where the folder is the export."""
    there = {path.name: path for path in folder.iterdir()} if folder.is_dir() else {}
    stale = [
        name
        for name, data in files.items()
        if name not in there or not there[name].is_file() or there[name].read_bytes() != data
    ]
    return sorted(stale + [name for name in there if name not in files])


def write_export(folder: Path, files: Mapping[str, bytes], *, overwrite: bool) -> None:
    """The folder with exactly these files. UserError P034 where it holds anything else."""
    shown = folder.name if folder.is_absolute() else folder.as_posix()
    if folder.is_symlink() or (folder.exists() and not folder.is_dir()):
        raise UserError("P034", "not a folder", place=shown)
    there = sorted(folder.iterdir()) if folder.exists() else []
    if there and not matches_folder(folder, files):
        return
    foreign = [path.name for path in there if not _OURS.fullmatch(path.name) or not path.is_file()]
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
