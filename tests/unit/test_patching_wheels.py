"""Patchsets on releases: one tree as a wheel, unpacked and installed, and what an older one has."""

from __future__ import annotations

import hashlib
import zipfile
from pathlib import Path

import pytest

from auditor.cli.clickrun import run
from auditor.cli.groups import patches
from auditor.patching.planning.sources import Sources
from auditor.trees.folder import FolderTree
from auditor.trees.names import blob_id
from auditor.trees.release import stored_releases

A = b"a = 1\nb = 2\nc = 3\nd = 4\n"
LATER = b"import os\n\n\ndef early():\n    return os\n\n\na = 1\nb = 2\nc = 30\nd = 4\n"
DIFF = f"""Subject: Two is more
X-Why: local-only: a test
Upstream-Status: Pending
X-Removal: never
---
diff --git a/python/sglang/srt/a.py b/python/sglang/srt/a.py
index {blob_id(A)}..{blob_id(A.replace(b"b = 2", b"b = 22"))} 100644
--- a/python/sglang/srt/a.py
+++ b/python/sglang/srt/a.py
@@ -1,4 +1,4 @@
 a = 1
-b = 2
+b = 22
 c = 3
 d = 4
"""


def wheel(cache: Path, version: str, a: bytes) -> Path:
    """A release as an earlier run left it in the cache."""
    place = cache / "wheels" / f"sglang-{version}"
    place.mkdir(parents=True)
    path = place / f"sglang-{version}-py3-none-any.whl"
    info = f"sglang-{version}.dist-info"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("sglang/__init__.py", b"")
        archive.writestr("sglang/version.py", b"v = 1\n")
        archive.writestr("sglang/srt/a.py", a)
        archive.writestr("tools/beside.py", b"x = 1\n")
        archive.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: sglang\nVersion: {version}\n")
        archive.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        archive.writestr(f"{info}/RECORD", "")
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    path.with_suffix(".sha256").write_text(f"{digest}  {path.name}\n")
    return path


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("SGLANG_AUDITOR_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("auditor.cli.patches.target._stored", {})
    root = tmp_path / "patchsets" / "set"
    (root / "patches").mkdir(parents=True)
    (root / "patchset.yaml").write_text("title: S\nupstreams:\n  sglang: {}\norder: [one]\n")
    (root / "patches/one.patch").write_text(DIFF)
    return tmp_path


def call(*words: object) -> int:
    return run(patches, "patches", [str(word) for word in words])


def test_a_lock_of_a_release_holds_for_it_unpacked_and_installed(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = wheel(here / "cache", "1.2.3", A)
    assert call("lock", "set", "--onto", "1.2.3") == 0
    target = here / "site"
    with zipfile.ZipFile(file) as archive:
        archive.extractall(target)
    # what an installer adds and leaves out
    (target / "sglang-1.2.3.dist-info/INSTALLER").write_text("pip\n")
    (target / "tools/beside.py").unlink()
    capsys.readouterr()
    assert call("verify", "set", "--to", target) == 1  # not yet
    assert call("apply", "set", "--to", target, "--frozen") == 0
    assert call("verify", "set", "--to", target) == 0
    assert "1 file is what the lock of set says, to the byte" in capsys.readouterr().out
    (target / "sglang/version.py").write_text("v = 2\n")
    assert call("verify", "set", "--to", target) == 1


def test_a_release_in_the_cache_is_what_older_contents_are_read_from(here: Path) -> None:
    wheel(here / "cache", "1.2.3", A)
    wheel(here / "cache", "1.2.4", LATER)
    (here / "cache/wheels/sglang-kernel-1.0").mkdir()
    assert [tree.info().version for tree in stored_releases("sglang")] == ["1.2.3", "1.2.4"]
    # c = 3 is gone: by its lines alone the hunk fits nowhere; with the file that it was made for it does
    assert call("status", "set", "--onto", "1.2.4") == 0
    assert call("export", "set", "--squash", "--onto", "1.2.4", "--output", here / "out.patch") == 0
    assert "+b = 22\n c = 30\n" in (here / "out.patch").read_text()


def test_without_the_release_it_is_a_conflict(here: Path) -> None:
    wheel(here / "cache", "1.2.4", LATER)
    assert call("status", "set", "--onto", "1.2.4") == 3


def test_contents_of_older_trees_by_whole_and_short_ids(tmp_path: Path) -> None:
    for name, data in (("new", LATER), ("old", A)):
        (tmp_path / name / "sglang/srt").mkdir(parents=True)
        (tmp_path / name / "sglang/srt/a.py").write_bytes(data)
    asked = []

    def kept() -> list[FolderTree]:
        asked.append(1)
        return [FolderTree(tmp_path / "old")]

    sources = Sources(FolderTree(tmp_path / "new"), kept=kept)
    assert sources.blob(blob_id(LATER)) == LATER
    assert not asked
    assert sources.blob(blob_id(A)) == A
    assert sources.blob(blob_id(A)[:7]) == A
    assert sources.blob(blob_id(A)[:6]) is None
    assert sources.blob("0" * 40) is None
    assert len(asked) == 1


def test_a_release_that_is_not_there_hints_with_an_option_that_patches_has(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from auditor.cli.patches.target import base_tree
    from auditor.errors import UserError
    from auditor.profile import load_profile
    from auditor.trees import open as opening

    def refused(*_args: object, **_kwargs: object) -> None:
        raise UserError("T009", "the index has no wheel of it", hints=["--release 0.5.23"])

    monkeypatch.setattr(opening, "open_tree", refused)
    with pytest.raises(UserError) as caught:
        base_tree("0.99.99", None, load_profile("sglang"))
    assert list(caught.value.hints) == ["--onto 0.5.23"]
