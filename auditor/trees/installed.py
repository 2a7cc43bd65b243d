"""An installed copy, found through the metadata that pip left. It is never imported."""

from __future__ import annotations

import csv
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from urllib.parse import unquote, urlsplit

from auditor.errors import UserError
from auditor.readback import plain_json
from auditor.trees.base import SourceTree, TreeInfo
from auditor.trees.folder import FilesOnDisk, FolderTree
from auditor.trees.git import GitRepo
from auditor.trees.names import listing_id, metadata_headers, normal_name, text_path
from auditor.trees.worktree import WorktreeTree


class InstalledTree(FilesOnDisk):
    """The files that a distribution's RECORD lists, as they are on disk now.

    ``dirty`` says that some differ from what was installed, or are gone.
    """

    def __init__(self, site: Path, record: bytes, version: str | None, *, notes: Sequence[str] = ()) -> None:
        super().__init__(site, notes=notes)
        self._version = version
        self._expected: dict[str, str] = {}  # path -> "sha256=..." as RECORD gives it, may be empty
        for row in _rows(record, site):
            parts = row[0].split("/") if row else [""]
            # Scripts (`../../../bin/x`) and byte code are not source.
            if ".." in parts or "" in parts or "__pycache__" in parts or os.path.isabs(row[0]):
                continue
            if "\0" in row[0]:
                raise _damaged(site, "a name with NUL")
            self._expected[row[0]] = row[1] if len(row) > 1 else ""

    def _names(self) -> Iterable[str]:
        return self._expected

    def _expects(self, name: str) -> str:
        expected = self._expected[name]
        return expected if expected.startswith("sha256=") else ""

    def changed_paths(self) -> list[str]:
        """Files that differ from what was installed or are gone, sorted."""
        blobs = self.blobs()
        gone = {text_path(name) for name in self._expected}.difference(blobs)
        return sorted({*self._remarks, *gone})

    def _describe(self, blobs: Mapping[str, str]) -> TreeInfo:
        dirty = bool(self._remarks) or len(blobs) != len(self._expected)
        label = (self._version or "installed") + (", changed since it was installed" if dirty else "")
        return TreeInfo("installed", label, listing_id(blobs), version=self._version, dirty=dirty)


def installed_tree(distribution: str, where: str | None = None, *, notes: Sequence[str] = ()) -> SourceTree:
    """The installed copy of ``distribution``.

    ``where`` is a site-packages folder, a virtual environment or its interpreter; None means the
    interpreter that runs this. Editable installs give the folder or clone they point to.
    ``UserError`` T011 if there is none.
    """
    sites = _sites(where)
    wanted = normal_name(distribution)
    for site in sites:
        info = dist_info(site, wanted)
        if info is None:
            continue
        version = version_of(info)
        editable = _editable_folder(info)
        if editable is not None:
            return _editable_tree(editable, version, notes)
        record = _bytes(info / "RECORD")
        if record:
            return InstalledTree(site, record, version, notes=notes)
        tops = (_bytes(info / "top_level.txt") or wanted.encode()).decode("utf-8", "replace").split()
        only = [top for top in tops if "/" not in top and top != ".." and (site / top).is_dir()]
        if only:
            return FolderTree(
                site, only=only, kind="installed", label=version or "installed", version=version, notes=notes
            )
    raise UserError(
        "T011",
        f"{distribution} is not installed" + (f" in {where}" if where else " for this Python"),
        place=None if where is None else str(sites[0]),
        hints=[
            "--installed VENV looks in another virtual environment or site-packages folder",
            "--release X.Y.Z reads a release without installing it",
        ],
    )


def _sites(where: str | None) -> list[Path]:
    if where is None:
        import sys

        found = [Path(p) for p in sys.path if p and os.path.isdir(p)]
        return list(dict.fromkeys(found))
    path = Path(os.path.abspath(where))
    if path.is_file():  # an interpreter: its environment is two folders up
        path = path.parent.parent
    if not path.is_dir():
        raise UserError("T001", "no such folder", place=where, hints=["check the path after --installed"])
    inner = sorted(path.glob("lib/python3*/site-packages")) + sorted(path.glob("lib/python3*/dist-packages"))
    inner += sorted(path.glob("Lib/site-packages"))
    return inner or [path]


def _rows(record: bytes, site: Path) -> Iterator[list[str]]:
    try:
        yield from csv.reader(record.decode("utf-8", "surrogateescape").splitlines())
    except csv.Error as error:
        raise _damaged(site, str(error)) from None


def _damaged(site: Path, why: str) -> UserError:
    return UserError(
        "T006",
        f"the list of installed files is damaged: {why}",
        place=str(site),
        hints=["install the package again: pip install --force-reinstall --no-deps NAME==VERSION"],
    )


def version_of(info: Path) -> str | None:
    """The version that the metadata of an installed distribution states."""
    return metadata_headers(_bytes(info / "METADATA") or b"").get("Version")


def dist_info(site: Path, wanted: str) -> Path | None:
    """The ``.dist-info`` folder of the distribution with this normal name, or None."""
    try:
        names = sorted(n for n in os.listdir(site) if n.endswith(".dist-info"))
    except OSError:
        return None
    for name in names:
        if normal_name(name[: -len(".dist-info")].rpartition("-")[0]) == wanted:
            return site / name
    return None


def _editable_folder(info: Path) -> Path | None:
    try:
        facts = plain_json(_bytes(info / "direct_url.json") or b"null")
        if facts["dir_info"]["editable"] is not True:
            return None
        parts = urlsplit(facts["url"])
    except (ValueError, KeyError, TypeError):
        return None
    folder = unquote(parts.path)
    return Path(folder) if parts.scheme == "file" and os.path.isdir(folder) else None


def _editable_tree(folder: Path, version: str | None, notes: Sequence[str]) -> SourceTree:
    repo = GitRepo.find(folder)
    if repo is not None and repo.work_tree is not None:
        return WorktreeTree(repo, notes=[*notes, "an editable install: this is the clone it points to"])
    return FolderTree(
        folder, version=version, notes=[*notes, "an editable install: this is the folder it points to"]
    )


def _bytes(path: Path) -> bytes | None:
    try:
        return path.read_bytes()
    except OSError:
        return None
