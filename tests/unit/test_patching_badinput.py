"""Patches that would do harm, or quietly nothing: the plan says so, and nothing is written."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from test_patching_plan import FILES, PICK, planned, statuses, tree_at

from auditor.errors import UserError
from auditor.patching.diffs.lines import file_change
from auditor.patching.diffs.parse import parse_patch
from auditor.patching.diffs.write import write_diff
from auditor.patching.paths import check_no_twins, check_target_path, in_the_way
from auditor.patching.port.carry import port
from auditor.profile import Profile, load_profile
from auditor.trees.names import blob_id

FOLDER = "python/sglang/srt"
PATH = f"{FOLDER}/pick.py"


@pytest.fixture(scope="module")
def profile() -> Profile:
    return load_profile("sglang")


def added(path: str, mode: str = "100644", text: str = "x = 1\n") -> bytes:
    """A git diff that adds a file of one line; a link's target has no line end."""
    end = "" if text.endswith("\n") else "\n\\ No newline at end of file\n"
    return (
        f"diff --git a/{path} b/{path}\nnew file mode {mode}\nindex 0000000..1111111\n"
        f"--- /dev/null\n+++ b/{path}\n@@ -0,0 +1 @@\n+{text}{end}"
    ).encode()


def renamed(word: str, old: str, new: str) -> bytes:
    return (
        f"diff --git a/{old} b/{new}\nsimilarity index 100%\n{word} from {old}\n{word} to {new}\n"
    ).encode()


@pytest.mark.parametrize(
    "path",
    [
        ".gitmodules", "python/.GitAttributes", "python/.gitattributes .", "gitmod~1", "python/GITATT~2",
        "python/.gitmodules::$DATA", "GI7EBA~1", ".patches-state/state.json", "python/.Patches-State. /x",
        "python/__pycache__/x.pyc", ".hg/hgrc", ".SVN/x",
    ],
)  # fmt: skip
def test_names_that_other_tools_act_on(path: str) -> None:
    with pytest.raises(UserError) as caught:
        check_target_path(path, "x.patch")
    assert (caught.value.code, caught.value.place, len(caught.value.hints)) == ("P040", "x.patch", 1)


@pytest.mark.parametrize("path", ["python/a\u202eb.py", "python/a\u200bb.py", "a\u2028b.py", "x/\u2066y"])
def test_a_name_shows_all_that_is_in_it(path: str) -> None:
    with pytest.raises(UserError, match="cannot be seen") as caught:
        parse_patch(added(path), "x.patch")
    assert caught.value.code == "P004" and caught.value.hints


def test_folders_are_twins_as_files_are() -> None:
    there = ["a/b/c.py", "a/B.py"]
    for path in ("a/B/d.py", "A/x.py", "a/b/C.PY"):
        with pytest.raises(UserError) as caught:
            check_no_twins([path], there, "x.patch")
        assert (caught.value.code, caught.value.place) == ("P040", "x.patch")
    with pytest.raises(UserError):
        check_no_twins(["new/x.py", "New/y.py"])
    check_no_twins(["a/b/d.py", "z/B/c.py"], there[:1])


def test_a_path_is_a_file_or_a_folder() -> None:
    assert in_the_way(["a/b.py/c.py"], {"a/b.py"}) == ("a/b.py/c.py", "a/b.py")
    assert in_the_way(["a"], {"a/b.py"}) == ("a", "a/b.py")
    assert in_the_way(["q", "q/z.py"], set()) == ("q/z.py", "q")
    assert in_the_way(["a/bc.py", "ab"], {"a/b.py", "abc/d"}) is None


@pytest.mark.parametrize("allowed", ["", "policy: {allow: [symlinks, modes]}\n"])
def test_a_link_is_not_written_and_the_plan_says_so(tmp_path: Path, profile: Profile, allowed: str) -> None:
    turned = f"diff --git a/{PATH} b/{PATH}\nold mode 100644\nnew mode 120000\n".encode()
    for raw in (added(f"{FOLDER}/l.py", "120000", "/etc/passwd"), turned):
        if not allowed:
            with pytest.raises(UserError) as caught:
                planned(tmp_path, profile, {"one": raw})
            assert caught.value.code == "P005" and caught.value.hints
            continue
        found = planned_with(tmp_path, profile, raw, allowed)
        assert found[0] == "conflict" and "a symbolic link: none is written" in found[1]


def planned_with(tmp_path: Path, profile: Profile, raw: bytes, extra: str) -> tuple[str, str]:
    from test_patching_plan import patchset

    from auditor.patching.planning.plan import plan

    entry = plan(patchset(tmp_path, {"one": raw}, extra), tree_at(tmp_path / "tree"), profile).entries[0]
    return entry.outcome.status, entry.outcome.hunks[0].note


def test_a_file_in_the_place_of_a_folder_is_a_conflict(tmp_path: Path, profile: Profile) -> None:
    cases = {
        "below": (added(f"{PATH}/x.py"), f"{PATH} is a file there, not a folder"),
        "above": (added(FOLDER), f"{FOLDER} is a folder there"),
    }
    for name, (raw, note) in cases.items():
        outcome = planned(tmp_path, profile, {name: raw}).entries[0].outcome
        assert (outcome.status, outcome.hunks[0].note, outcome.files) == ("conflict", note, {})
    stack = {"one": added(f"{FOLDER}/q"), "two": added(f"{FOLDER}/q/z.py")}
    assert statuses(planned(tmp_path, profile, stack)) == {"one": "clean", "two": "conflict"}
    gone = write_diff([change for change in [file_change(PATH, FILES[PATH], None)] if change is not None])
    stack = {"one": gone, "two": added(f"{PATH}/z.py")}
    assert statuses(planned(tmp_path, profile, stack)) == {"one": "clean", "two": "clean"}


def test_a_rename_onto_another_file_is_a_conflict(tmp_path: Path, profile: Profile) -> None:
    found = planned(tmp_path, profile, {"one": renamed("rename", PATH, f"{FOLDER}/utils.py")})
    assert statuses(found) == {"one": "conflict"} and not found.files
    assert "is there already, and is another file" in found.entries[0].outcome.hunks[0].note


def test_a_copy_leaves_what_it_is_made_from(tmp_path: Path, profile: Profile) -> None:
    new = f"{FOLDER}/copy.py"
    found = planned(tmp_path, profile, {"one": renamed("copy", PATH, new)})
    assert statuses(found) == {"one": "clean"} and found.files == {new: PICK.encode()}
    lines = PICK.split("\n")
    hunk = f"@@ -3,2 +3,2 @@\n {lines[2]}\n-{lines[3]}\n+def choose():\n".encode()
    edited = renamed("copy", PATH, new) + f"--- a/{PATH}\n+++ b/{new}\n".encode() + hunk
    found = planned(tmp_path, profile, {"one": edited})
    assert found.files == {new: PICK.replace("pick()", "choose()").encode()}
    files = FILES | {new: PICK.encode()}
    found = planned(
        tmp_path, profile, {"one": renamed("copy", PATH, new)}, tree=tree_at(tmp_path / "b", files)
    )
    assert statuses(found) == {"one": "upstream"}
    found = planned(tmp_path, profile, {"one": edited}, tree=tree_at(tmp_path / "b", files))
    assert statuses(found) == {"one": "conflict"}


def test_a_binary_difference_is_carried_or_a_conflict(tmp_path: Path, profile: Profile) -> None:
    from test_patching_port import MemoryTree

    old = bytes(range(256)) * 40
    new = old[:5000] + b"\0\0changed\0" + old[5000:]
    root = tmp_path / "repository"
    root.mkdir()

    def git(*words: str) -> bytes:
        return subprocess.run(["git", *words], cwd=root, check=True, capture_output=True).stdout

    git("init", "-q")
    (root / "x.bin").write_bytes(old)
    git("add", "x.bin")
    (root / "x.bin").write_bytes(new)
    raw = git("diff", "--binary", "--full-index")
    assert b"\ndelta " in raw
    changes = parse_patch(raw, "x.patch")

    def carried(data: bytes, known: dict[str, bytes]) -> tuple[str, dict[str, bytes | None]]:
        outcome = port(changes, MemoryTree({"x.bin": data}), blobs=known.get)
        return outcome.status, outcome.files

    assert carried(old, {}) == ("clean", {"x.bin": new})
    assert carried(new, {}) == ("upstream", {})
    assert carried(old[::-1], {}) == ("conflict", {})
    assert carried(old[::-1], {blob_id(old): old}) == ("conflict", {})


def test_port_says_what_is_not_there_and_what_is_in_the_way(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from auditor.cli.clickrun import run
    from auditor.cli.groups import patches

    root = tmp_path / "tree"
    tree_at(root, {path.removeprefix("python/"): data for path, data in FILES.items()})
    before = sorted(root.rglob("*"))
    cases = [
        (added("docs/x.md"), "none of its files is part of this tree"),
        (added("sglang/srt/q") + added("sglang/srt/q/z.py"), "sglang/srt/q is a file there, not a folder"),
        (added("sglang/srt"), "sglang/srt is a folder there"),
    ]
    for raw, said in cases:
        (tmp_path / "x.patch").write_bytes(raw)
        words = ["port", "--patch", str(tmp_path / "x.patch"), "--root", str(root)]
        assert run(patches, "patches", words) == 3
        assert said in capsys.readouterr().out and sorted(root.rglob("*")) == before


def test_a_disk_that_refuses_is_told_with_the_file_it_is_about(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from test_patching_write import folder, opened, snapshot, steps, write

    from auditor.patching.write import disk

    root = folder(tmp_path)
    before = snapshot(root)
    real = os.open

    def refuse(path: str, flags: int, *args: int, **more: int) -> int:
        if str(path).startswith(".server_args.py."):
            raise PermissionError(13, "Permission denied", path)
        return real(path, flags, *args, **more)

    monkeypatch.setattr(disk.os, "open", refuse)
    with pytest.raises(UserError) as caught:
        write(opened(root), steps(""), "folder")
    assert (caught.value.code, caught.value.place) == ("P043", "sglang/srt/server_args.py")
    monkeypatch.undo()
    assert snapshot(root) == before


def test_nothing_that_a_repository_names_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from test_patching_plan import patchset
    from test_patching_write import clone, git

    from auditor.cli.clickrun import run
    from auditor.cli.groups import patches

    monkeypatch.setenv("SGLANG_AUDITOR_CACHE_DIR", str(tmp_path / "cache"))
    root = clone(tmp_path)
    (root / ".gitattributes").write_text("* filter=bad diff=bad merge=bad\n")
    git(root, "add", "-A")
    git(root, "commit", "-q", "-m", "attributes")
    canary, trap = tmp_path / "ran", tmp_path / "trap.sh"
    trap.write_text(f"#!/bin/sh\necho ran >> {canary}\ncat\n")
    trap.chmod(0o755)
    keys = """core.fsmonitor core.pager core.editor core.sshCommand core.askPass core.gitProxy
        core.alternateRefsCommand diff.external diff.bad.command diff.bad.textconv merge.bad.driver
        filter.bad.clean filter.bad.smudge filter.bad.process gpg.program credential.helper sequence.editor
        uploadpack.packObjectsHook pager.log pager.cat-file interactive.diffFilter""".split()
    included = root / ".git/more"
    for key in keys:
        git(root, "config", "--file", str(included), key, f"!{trap}" if "helper" in key else str(trap))
    for key, value in {
        "filter.bad.required": "true", "commit.gpgsign": "true", "trace2.eventTarget": str(canary),
        "core.hooksPath": str(tmp_path / "hooks"), "submodule.recurse": "true",
    }.items():  # fmt: skip
        git(root, "config", "--file", str(included), key, value)
    git(root, "config", "include.path", "more")
    (tmp_path / "hooks").mkdir()
    for hook in ("post-index-change", "reference-transaction", "post-checkout", "pre-commit", "post-commit"):
        (tmp_path / "hooks" / hook).symlink_to(trap)
    subprocess.run(["git", "status"], cwd=root, capture_output=True)
    assert canary.exists(), "the traps are none"
    canary.unlink()
    path = "python/sglang/srt/a.py"
    change = file_change(path, b"one\ntwo\nthree\n", b"one\n2\nthree\n", mode="100644")
    assert change is not None
    mine = str(patchset(tmp_path, {"one": write_diff([change])}).folder)
    onto = ("--onto", "main", "--clone", str(root))
    for words in (
        ("status", mine, *onto), ("lock", mine, *onto, "--no-audit"), ("verify", mine, *onto, "--no-audit"),
        ("explain", mine, "one", *onto), ("export", mine, "--squash", *onto),
        ("apply", mine, "--to", str(root), "--no-audit"), ("status", mine, "--to", str(root)),
        ("doctor", "--to", str(root)), ("revert", mine, "--to", str(root)),
        ("apply", mine, "--to", str(root), "--branch", "mine", "--no-audit"),
        ("revert", mine, "--to", str(root)),
    ):  # fmt: skip
        os.utime(root / path, (1, 1))  # git looks at it again
        assert run(patches, "patches", list(words)) == 0, (words, capsys.readouterr().err)
        assert not canary.exists(), words


@pytest.mark.parametrize("name", ["sglang.pth", "_sglang.pth", "easy-install.pth", "zz.pth"])
def test_a_file_of_paths_to_another_copy_is_refused(tmp_path: Path, name: str) -> None:
    from test_patching_write import clone, folder, opened

    root, other = folder(tmp_path), clone(tmp_path)
    (root / name).write_text(f"# a comment\nimport os; os.getcwd()\n{root}\n{tmp_path}/nothing\n")
    assert opened(root).root == root
    (root / name).write_text(f"{other}/python\n")
    with pytest.raises(UserError) as caught:
        opened(root)
    assert caught.value.code == "P054" and name in (caught.value.place or "")


def test_a_folder_of_something_else_is_told_without_a_look_at_its_files(tmp_path: Path) -> None:
    from test_patching_write import opened

    (tmp_path / "gone").symlink_to(tmp_path / "nothing")
    with pytest.raises(UserError, match="nothing of sglang is here") as caught:
        opened(tmp_path)
    assert caught.value.code == "P055" and "--installed" in caught.value.hints
