"""Answers that are kept: a search through a tree is kept small, and only for the same listing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from auditor.patching.model import Outcome
from auditor.patching.planning.outcomes import outcome_of
from auditor.trees.base import SourceTree
from auditor.trees.folder import FolderTree


def test_a_patch_that_searched_many_files_is_kept_for_many_trees(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache = tmp_path / "cache"
    monkeypatch.setenv("SGLANG_AUDITOR_CACHE_DIR", str(cache))
    ran: list[str] = []

    def tree(number: int) -> FolderTree:
        root = tmp_path / str(number)
        for at in range(300):
            path = root / f"a/folder/with/a/long/name/file_{at:04}.py"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(f"x = {number if at == 7 else 0}\n")
        return FolderTree(root)

    def work(watched: SourceTree, blobs: object) -> Outcome:
        ran.append(watched.info().label)
        for path in watched.blobs():
            watched.read(path)
        return Outcome("clean")

    trees = [tree(number) for number in range(3)]
    for _ in range(2):
        assert [outcome_of("key", each, lambda oid: None, work).status for each in trees] == ["clean"] * 3
    assert len(ran) == 3
    kept = [path for path in (cache / "patch-outcomes").rglob("*") if path.is_file()]
    assert len(kept) == 1 and kept[0].stat().st_size < 2000
    (tmp_path / "1/a/folder/with/a/long/name/file_0001.py").write_text("x = 5\n")
    outcome_of("key", FolderTree(tmp_path / "1"), lambda oid: None, work)
    assert len(ran) == 4


@pytest.mark.parametrize(
    "look",
    [
        lambda tree: "b.py" in tree.blobs(),
        lambda tree: tree.blobs().get("b.py") is not None,
        lambda tree: any(path == "b.py" for path in tree.blobs()),
        lambda tree: len(tree.blobs()) == 2,
        lambda tree: bool(tree.matching_paths(r"b.*")),
        lambda tree: bool([path for path, _ in tree.blobs().items() if path == "b.py"]),
    ],
)
def test_what_is_not_there_is_looked_at_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, look: Any
) -> None:
    monkeypatch.setenv("SGLANG_AUDITOR_CACHE_DIR", str(tmp_path / "cache"))
    without, beside = tmp_path / "without", tmp_path / "beside"
    for root, names in ((without, ("a.py",)), (beside, ("a.py", "b.py"))):
        root.mkdir()
        for name in names:
            (root / name).write_text("x = 1\n")

    def work(watched: SourceTree, blobs: object) -> Outcome:
        return Outcome("clean" if look(watched) else "obsolete")

    for root, status in ((without, "obsolete"), (beside, "clean"), (without, "obsolete")):
        assert outcome_of("key", FolderTree(root), lambda oid: None, work).status == status
