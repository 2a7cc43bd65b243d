"""``patches rebase`` and ``patches explain`` as a person types them: pages, exit codes, files."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from test_patching_rebase import FILES, ONE, ROOT, TWO, A, change, commit, patchset

PATH = ROOT + "srt/a.py"
CLASH = A.replace("a = 1", "a = 2")


def patches(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    code = "import sys; from auditor.cli.main import patches; sys.exit(patches())"
    env = os.environ | {"SGLANG_AUDITOR_CACHE_DIR": str(folder / "cache"), "PYTHONPATH": os.getcwd()}
    return subprocess.run(
        [sys.executable, "-c", code, *words], cwd=folder, capture_output=True, text=True, env=env
    )


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A folder with a clone whose second commit clashes with the first patch."""
    commit(tmp_path / "clone", FILES, "base")
    commit(tmp_path / "clone", {PATH: CLASH}, "clash (#12)")
    both = CLASH.replace("c = 3", "c = 33")
    patchset(tmp_path, {"one": [change(PATH, A, ONE)], "three": [change(PATH, CLASH, both)]})
    return tmp_path


def listing(folder: Path) -> dict[str, bytes]:
    return {p.relative_to(folder).as_posix(): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


REBASE = ("rebase", "set", "--onto", "main", "--clone", "clone", "--no-audit")


def test_conflict_edit_continue(place: Path) -> None:
    before = listing(place / "patchsets")
    done = patches(place, *REBASE, "--dry-run")
    assert done.returncode == 3 and "nothing of the patchset was changed" in done.stdout
    assert listing(place / "patchsets") == before
    done = patches(place, *REBASE)
    assert done.returncode == 3
    assert "next: patches explain set one --onto main" in done.stdout
    assert "patches rebase set --continue" in done.stdout
    work = place / "patchsets" / "set" / "rebase"
    marked = work / "one" / PATH
    assert "<<<<<<<" in marked.read_text()
    again = patches(place, *REBASE)
    assert again.returncode == 2 and "error[P064]: a rebase was begun already" in again.stderr
    again = patches(place, "rebase", "set", "--continue", "--clone", "clone", "--no-audit")
    assert again.returncode == 2 and "error[P065]: a conflict marker is left" in again.stderr
    assert {n: d for n, d in listing(place / "patchsets").items() if "/rebase/" not in n} == before
    marked.write_text(CLASH.replace("a = 2", "a = 12"))
    done = patches(place, "rebase", "set", "--continue", "--clone", "clone", "--no-audit")
    assert done.returncode == 0, done.stderr
    assert "written, all or nothing" in done.stdout and not work.exists()
    record = json.loads((place / "patchsets" / "set" / "rebase.json").read_text())
    assert [p["name"] for p in record["patches"] if p.get("resolved")] == ["one"]
    done = patches(place, "status", "set", "--onto", "main", "--clone", "clone")
    assert done.returncode == 0 and "2 patches: 2 clean" in done.stdout
    done = patches(place, "lock", "set", "--check", "--onto", "main", "--clone", "clone", "--no-audit")
    assert done.returncode == 0, done.stdout
    after = listing(place / "patchsets")
    done = patches(place, *REBASE)  # a second time: nothing to do, the same bytes
    assert done.returncode == 0 and listing(place / "patchsets") == after


def test_abort_leaves_the_patchset_as_it_was(place: Path) -> None:
    before = listing(place / "patchsets")
    assert patches(place, *REBASE).returncode == 3
    assert listing(place / "patchsets") != before
    done = patches(place, "rebase", "set", "--abort")
    assert done.returncode == 0 and listing(place / "patchsets") == before
    assert not (place / "patchsets" / "set" / "rebase").exists()
    done = patches(place, "rebase", "set", "--abort")
    assert done.returncode == 2 and "no rebase was begun" in done.stderr


def test_explain_names_the_commit_and_says_what_to_type(place: Path) -> None:
    done = patches(place, "explain", "set", "one", "--onto", "main", "--clone", "clone")
    assert done.returncode == 3
    assert "clash (#12)" in done.stdout and "hunk 1 in first" in done.stdout
    assert "- " + "    a = 1" in done.stdout and "+ " + "    a = 2" in done.stdout
    assert "next: patches rebase set --onto main" in done.stdout
    done = patches(place, "explain", "set", "one", "--onto", "main", "--clone", "clone", "--format", "json")
    told = json.loads(done.stdout)
    assert told["hunks"][0]["culprit"]["pr"] == "12" and told["status"] == "conflict"
    done = patches(place, "explain", "set", "three", "--onto", "main", "--clone", "clone")
    assert done.returncode == 0 and "three on " in done.stdout


def test_status_says_since_when(place: Path) -> None:
    commit(place / "clone", {PATH: CLASH.replace("c = 3", "c = 33")}, "three (#13)")
    commit(place / "clone", {PATH: CLASH.replace("c = 3", "c = 33") + "\nx = 1\n"}, "more (#14)")
    subprocess.run(["git", "tag", "v1.4.0"], cwd=place / "clone", check=True)
    done = patches(place, "status", "set", "--onto", "main", "--clone", "clone")
    assert "since 1.4.0, " in done.stdout and " #13, 1 of 1 hunk" in done.stdout
    done = patches(place, "status", "set", "--onto", "main", "--clone", "clone", "--format", "json")
    rows = {row["name"]: row for row in json.loads(done.stdout)["patches"]}
    assert rows["three"]["since"]["release"] == "1.4.0" and rows["three"]["since"]["pr"] == "13"
    assert "since" not in rows["one"]


def test_the_first_release_by_content(place: Path) -> None:
    path = place / "clone"
    subprocess.run(["git", "tag", "v1.0.0", "HEAD"], cwd=path, check=True)
    commit(path, {PATH: CLASH.replace("c = 3", "c = 33")}, "three (#13)")
    subprocess.run(["git", "tag", "v1.1.0", "HEAD"], cwd=path, check=True)
    words = ("explain", "set", "three", "--onto", "main", "--clone", "clone", "--releases")
    assert "first of v1.0.0,v1.1.0: v1.1.0\n" in patches(place, *words, "v1.0.0,v1.1.0").stdout
    assert "none of v1.0.0 has it\n" in patches(place, *words, "v1.0.0").stdout


@pytest.mark.parametrize("words", [("--accept-look", "nope"), ("--retire", "nope"), ("--resolve", "nope=x")])
def test_a_patch_that_is_not_there(place: Path, words: tuple[str, str]) -> None:
    done = patches(place, *REBASE, *words)
    assert done.returncode == 2 and "error[P021]" in done.stderr


def test_killed_at_any_moment_it_is_before_or_after(tmp_path: Path) -> None:
    commit(tmp_path / "clone", FILES, "base")
    commit(tmp_path / "clone", {PATH: "import re\n" + A}, "later")
    patchset(tmp_path, {"one": [change(PATH, A, ONE)], "two": [change(PATH, ONE, TWO)]})
    before = listing(tmp_path / "patchsets")
    start = time.monotonic()
    assert patches(tmp_path, *REBASE).returncode == 0
    whole = time.monotonic() - start
    after = listing(tmp_path / "patchsets")
    assert before != after
    code = "import sys; from auditor.cli.main import patches; sys.exit(patches())"
    env = os.environ | {"SGLANG_AUDITOR_CACHE_DIR": str(tmp_path / "cache"), "PYTHONPATH": os.getcwd()}
    for part in (0.6, 0.75, 0.85, 0.95):
        for path in listing(tmp_path / "patchsets"):
            (tmp_path / "patchsets" / path).unlink()
        for path, data in before.items():
            (tmp_path / "patchsets" / path).write_bytes(data)
        child = subprocess.Popen(
            [sys.executable, "-c", code, *REBASE], cwd=tmp_path, env=env,
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        time.sleep(whole * part)
        child.send_signal(signal.SIGKILL)
        child.wait()
        done = patches(tmp_path, *REBASE)
        assert done.returncode == 0, done.stderr
        found = {n: d for n, d in listing(tmp_path / "patchsets").items() if not n.endswith("rebase.json")}
        assert found == {n: d for n, d in after.items() if not n.endswith("rebase.json")}


def test_a_half_written_patchset_is_not_read(tmp_path: Path) -> None:
    from auditor.patching.write.disk import Root
    from auditor.patching.write.journal import Put, Share, transact

    found = patchset(tmp_path, {"one": [change(PATH, A, ONE)], "two": [change(PATH, ONE, TWO)]})
    before = listing(tmp_path / "patchsets")
    files = [found.folder / "patches" / f"{name}.patch" for name in ("one", "two")]
    puts = [
        Put(f"patches/{f.name}", f.read_bytes(), f.read_bytes() + b"\n", f.stat().st_mode & 0o777, 0o644)
        for f in files
    ]

    def step(word: str) -> None:
        if word.startswith("put "):
            os._exit(9)  # one of two files is in place

    child = os.fork()
    if child == 0:
        with Root(found.folder) as root:
            transact(Share(root, found.folder / ".patches-state", puts, "port", "x", None, None), step=step)
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 9
    assert listing(tmp_path / "patchsets") != before
    done = patches(tmp_path, "show", "set")
    assert done.returncode == 2 and "patches rebase set --abort" in done.stderr
    done = patches(tmp_path, "rebase", "set", "--abort")
    assert done.returncode == 0 and "it is put back" in done.stderr
    assert listing(tmp_path / "patchsets") == before
