"""What export writes is what git, quilt and a Dockerfile take; and two versions of a patchset compared."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from auditor.cli import groups
from auditor.cli.clickrun import run
from auditor.patching.diffs.parse import parse_patch
from tests.unit.test_patching_import import CASES, files_below

EXPECTED = CASES / "series" / "expected"


def git(folder: Path, *words: str, data: bytes | None = None) -> bytes:
    env = {**os.environ, "GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1"}
    who = ["-c", "user.name=T", "-c", "user.email=t@example.org", "-c", "core.autocrlf=false"]
    done = subprocess.run(["git", *who, *words], cwd=folder, input=data, capture_output=True, env=env)
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout


@pytest.fixture
def work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the patchset ``mine`` (three patches, each on top of the one before) and its base."""
    shutil.copytree(EXPECTED, tmp_path / "patchsets" / "mine")
    shutil.copytree(CASES / "base", tmp_path / "base")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def exported(capsys: pytest.CaptureFixture[str], *words: str, code: int = 0) -> str:
    assert run(groups.patches, "patches", ["export", "mine", *words]) == code
    return capsys.readouterr().out


def checkout(folder: Path) -> Path:
    root = folder / "checkout"
    shutil.copytree(folder / "base", root)
    git(root, "init", "-q")
    git(root, "add", "-A")
    git(root, "commit", "-qm", "base")
    return root


def wanted(folder: Path) -> dict[str, bytes]:
    """The base with the patches applied by git, one after the other."""
    root = folder / "wanted"
    shutil.copytree(folder / "base", root)
    for name in ("family", "sibling", "limit"):
        git(root, "apply", data=(EXPECTED / "patches" / f"{name}.patch").read_bytes())
    return files_below(root)


def test_mails_go_through_git_am(work: Path, capsys: pytest.CaptureFixture[str]) -> None:
    root = checkout(work)
    out = exported(capsys, "--format-patch")
    git(root, "am", data=out.encode())
    shutil.rmtree(work / "x", ignore_errors=True)
    subjects = git(root, "log", "--reverse", "--format=%s", "HEAD~3..HEAD").decode().split("\n")
    assert subjects[:3] == ["The family", "Sibling", "Limit"]
    body = git(root, "log", "-1", "--format=%b", "HEAD~2").decode()
    assert "Forwarded: no" in body and "All of it." in body
    git_files = {path: data for path, data in files_below(root).items() if not path.startswith(".git/")}
    assert git_files == wanted(work)
    assert "From 0000000000000000000000000000000000000000 Mon Sep 17 00:00:00 2001" in out
    folder = exported(capsys, "--output", "mails")
    assert folder.split() == ["mails/0001-family.patch", "mails/0002-sibling.patch", "mails/0003-limit.patch"]


def test_quilt(work: Path, capsys: pytest.CaptureFixture[str]) -> None:
    exported(capsys, "--quilt", "--output", "debian/patches")
    found = files_below(work / "debian" / "patches")
    assert found["series"] == b"family.patch\nsibling.patch\nlimit.patch\n"
    assert parse_patch(found["family.patch"]).headers == (
        ("Subject", "The family"),
        ("Forwarded", "no"),
        ("Last-Update", "2026-03-03"),
        ("Upstream-Status", "Pending"),
    )
    # Reading it in again gives the same stack.
    words = ["import", "debian/patches", "--into", "again", "--base", "base"]
    assert run(groups.patches, "patches", words) == 0
    capsys.readouterr()
    assert run(groups.patches, "patches", ["diff", "mine", "again", "--exit-code"]) in (0, 1)
    assert "content" not in capsys.readouterr().out


def test_squash(work: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(groups.patches, "patches", ["export", "mine", "--squash"]) == 2
    assert "P035" in capsys.readouterr().err
    out = exported(capsys, "--squash", "--onto", "base")
    (change,) = parse_patch(out.encode()).changes
    assert len(change.old_blob) == len(change.new_blob) == 40
    root = checkout(work)
    git(root, "apply", data=out.encode())
    assert {k: v for k, v in files_below(root).items() if not k.startswith(".git/")} == wanted(work)
    installed = exported(capsys, "--squash", "--onto", "base", "--installed-layout")
    assert parse_patch(installed.encode()).changes[0].path == "sglang/srt/layers/pick.py"


def test_a_patch_that_does_not_fit_is_no_export(work: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = work / "base" / "python" / "sglang" / "srt" / "layers" / "pick.py"
    file.write_bytes(file.read_bytes().replace(b"64", b"65"))
    assert run(groups.patches, "patches", ["export", "mine", "--squash", "--onto", "base"]) == 3
    assert "error[P035]: limit does not go onto base" in capsys.readouterr().err


def test_onto_another_tree_the_patches_are_those_of_that_tree(
    work: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = work / "base" / "python" / "sglang" / "srt" / "layers" / "pick.py"
    text = file.read_bytes().replace(b"kernel a card gets.", b"kernel a card gets.\n\nMore words.")
    file.write_bytes(text.replace(b"64 if", b"96 if"))
    assert (
        run(groups.patches, "patches", ["export", "mine", "--quilt", "--output", "out", "--onto", "base"])
        == 0
    )
    said = capsys.readouterr()
    assert "note: limit: upstream" in said.err
    found = files_below(work / "out")
    assert found["series"] == b"family.patch\nsibling.patch\n"
    root = checkout(work)
    for name in ("family", "sibling"):
        git(root, "apply", "--unidiff-zero", data=found[f"{name}.patch"])
    assert b"card.major in (10, 11, 12)" in (root / "python/sglang/srt/layers/pick.py").read_bytes()
    assert b"@@ -4,7 +4,7 @@" in found["family.patch"]


@pytest.mark.parametrize("with_base", [False, True])
def test_the_dockerfile_stanza_runs(work: Path, capsys: pytest.CaptureFixture[str], with_base: bool) -> None:
    """Its RUN line as a shell runs it, with the copied files where COPY puts them."""
    base = ["--onto", "base"] if with_base else []
    image = work / "image"
    words = ["--dockerfile", "--output", "docker/mine", "--into", f"{image}", *base]
    exported(capsys, *words)
    stanza = (work / "docker" / "mine" / "Dockerfile.patches").read_text()
    assert stanza.splitlines()[1] == "COPY docker/mine/ /opt/patches/mine/"
    script = stanza.split("\nRUN ", 1)[1].replace("/opt/patches/mine", f"{work}/docker/mine")

    def build() -> int:
        shutil.rmtree(image, ignore_errors=True)
        shutil.copytree(work / "base", image)
        if not good:
            file = image / "python" / "sglang" / "srt" / "layers" / "pick.py"
            file.write_bytes(file.read_bytes().replace(b"slow", b"slower"))
        return subprocess.run(["sh", "-c", script], capture_output=True).returncode

    good = True
    assert build() == 0
    assert files_below(image) == wanted(work)
    good = False
    assert build() != 0
    good = True
    patch = work / "docker" / "mine" / "0002-sibling.patch"
    patch.write_bytes(patch.read_bytes().replace(b"11", b"13"))
    assert build() != 0, "a patch that was changed afterwards"


def test_the_same_bytes_and_the_check(work: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["--quilt", "--output", "out"]
    exported(capsys, *words)
    first = files_below(work / "out")
    exported(capsys, *words)
    assert files_below(work / "out") == first
    exported(capsys, *words, "--check")
    file = work / "patchsets" / "mine" / "patches" / "limit.patch"
    file.write_bytes(file.read_bytes().replace(b"Limit", b"The limit"))
    assert exported(capsys, *words, "--check", code=1) == "stale  limit.patch\n"
    assert run(groups.patches, "patches", ["export", "mine", *words]) == 2
    assert files_below(work / "out") == first
    exported(capsys, *words, "--overwrite")
    exported(capsys, *words, "--check")
    (work / "out" / "mine.txt").write_text("a person's file")
    assert run(groups.patches, "patches", ["export", "mine", *words, "--overwrite"]) == 2
    assert (work / "out" / "mine.txt").exists()


def test_structural_patches_need_a_base(work: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(groups.patches, "patches", ["new", "mine", "by-hand", "--commit", "1234567"]) == 0
    assert run(groups.patches, "patches", ["export", "mine"]) == 2
    assert "by-hand is a reference to its upstream" in capsys.readouterr().err


def test_structural_patches_on_a_base_are_diffs(work: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(groups.patches, "patches", ["new", "edits", "fast-on-twelve", "--title", "x"]) == 2
    assert run(groups.patches, "patches", ["new", "edits"]) == 0
    assert run(groups.patches, "patches", ["new", "edits", "fast-on-twelve"]) == 0
    file = work / "patchsets" / "edits" / "patches" / "fast-on-twelve.yaml"
    file.write_text(file.read_text().replace("in: package.module.pick", "in: sglang.srt.layers.pick.pick"))
    capsys.readouterr()
    assert run(groups.patches, "patches", ["export", "edits", "--onto", "base", "--output", "out"]) == 0
    root = checkout(work)
    git(root, "am", "--quiet", str(work / "out" / "0001-fast-on-twelve.patch"))
    text = (root / "python" / "sglang" / "srt" / "layers" / "pick.py").read_text()
    assert "    if card.major == 10 or card.major == 12:\n" in text
    body = git(root, "log", "-1", "--format=%b").decode()
    assert "X-Why: local-only: Say why" in body and "Upstream-Status: Pending" in body


# --- two versions


def diffed(capsys: pytest.CaptureFixture[str], *words: str) -> dict[str, dict[str, object]]:
    assert run(groups.patches, "patches", ["diff", *words, "--format", "json"]) == 0
    return {row["name"]: row for row in json.loads(capsys.readouterr().out)["patches"]}


def test_versions(work: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shutil.copytree(work / "patchsets" / "mine", work / "patchsets" / "next")
    assert run(groups.patches, "patches", ["diff", "mine", "next", "--exit-code"]) == 0
    root = work / "patchsets" / "next"
    rows = diffed(capsys, "mine", "next") if capsys.readouterr() else {}
    assert {row["kind"] for row in rows.values()} == {"same"}
    patches = root / "patches"
    text = (patches / "family.patch").read_text()
    (patches / "family.patch").write_text(text.replace("Forwarded: no", "Forwarded: https://example.org/1"))
    text = (patches / "sibling.patch").read_text()
    (patches / "sibling.patch").write_text(text.replace("@@ -2,7 +2,7 @@", "@@ -12,7 +12,7 @@"))
    text = (patches / "limit.patch").read_text()
    (patches / "the-limit.patch").write_text(text.replace("96 if", "97 if"))
    (patches / "limit.patch").unlink()
    (root / "patchset.yaml").write_text(
        (root / "patchset.yaml")
        .read_text()
        .replace("  - family\n", "")
        .replace("- limit", "- the-limit\n  - family")
    )
    rows = diffed(capsys, "mine", "next")
    assert list(rows) == ["sibling", "the-limit", "family"]
    assert rows["sibling"]["kind"] == "rebased"
    assert rows["family"]["moved"] and rows["family"]["kind"] == "same"
    assert rows["family"]["header"] == [
        "Forwarded: no -> https://example.org/1",
        "Upstream-Status: Pending -> Submitted [https://example.org/1]",
    ]
    assert rows["the-limit"]["kind"] == "changed" and rows["the-limit"]["old_name"] == "limit"
    assert rows["the-limit"]["files"] == ["python/sglang/srt/layers/pick.py"]
    assert run(groups.patches, "patches", ["diff", "mine", "next", "--exit-code", "--diff"]) == 1
    out = capsys.readouterr().out
    assert "* the-limit  content in python/sglang/srt/layers/pick.py; was limit\n" in out
    assert "moved from 1 to 3" in out


def test_versions_in_history(work: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(groups.patches, "patches", ["diff", "mine"]) == 2
    assert "no git repository" in capsys.readouterr().err
    git(work, "init", "-q")
    git(work, "add", "-A")
    git(work, "commit", "-qm", "first")
    assert run(groups.patches, "patches", ["diff", "mine", "--exit-code"]) == 0
    file = work / "patchsets" / "mine" / "patchset.yaml"
    file.write_text(file.read_text().replace("  - limit\n", ""))
    (work / "patchsets" / "mine" / "patches" / "limit.patch").unlink()
    capsys.readouterr()
    rows = diffed(capsys, "mine")
    assert [(row["name"], row["kind"]) for row in rows.values()] == [
        ("family", "same"), ("sibling", "same"), ("limit", "removed"),
    ]  # fmt: skip
    rows = diffed(capsys, "mine", "mine@HEAD")
    assert rows["limit"]["kind"] == "added"
    shutil.rmtree(work / "patchsets")
    assert run(groups.patches, "patches", ["diff", "mine@HEAD", "mine@HEAD", "--exit-code"]) == 0
