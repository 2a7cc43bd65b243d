"""``patches port`` on a work tree: what it leaves behind, what it says, and what history changes."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from auditor.cli import groups
from auditor.cli.clickrun import run
from auditor.patching.diffs.parse import parse_patch
from auditor.patching.port.history import History
from auditor.trees.git import GitRepo

BASE = """\
def first(x):
    return x + 1


def second(x):
    y = x * 2
    return y
"""
THEIRS = BASE.replace("y = x * 2", "y = x * 3")


class Clone:
    """A repository with one file; commits come from texts."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.git("init", "-q", "-b", "main")

    def git(self, *args: str) -> str:
        done = subprocess.run(
            ["git", "-c", "user.name=n", "-c", "user.email=e", *args],
            cwd=self.root,
            check=True,
            capture_output=True,
            text=True,
        )
        return done.stdout.strip()

    def commit(self, text: str, subject: str = "change") -> str:
        (self.root / "a.py").write_text(text)
        self.git("add", "-A")
        self.git("commit", "-q", "-m", subject)
        return self.git("rev-parse", "HEAD")


@pytest.fixture
def clone(tmp_path: Path) -> Clone:
    root = tmp_path / "clone"
    root.mkdir()
    return Clone(root)


def _patch(clone: Clone, folder: Path, old: str, new: str) -> Path:
    path = folder / "my.patch"
    path.write_text(clone.git("diff", "--full-index", old, new) + "\n")
    return path


def _port(clone: Clone, patch: Path, *more: str) -> int:
    return run(groups.patches, "patches", ["port", "--patch", str(patch), "--root", str(clone.root), *more])


def _status(clone: Clone) -> str:
    return clone.git("status", "--porcelain", "--ignored")


def test_done(clone: Clone, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    base = clone.commit(BASE)
    patch = _patch(clone, tmp_path, base, clone.commit(THEIRS))
    clone.git("checkout", "-q", base)
    clone.commit("import os\n\n\n" + BASE.replace("x + 1", "x + os.getpid()"))
    assert _port(clone, patch) == 0
    assert "y = x * 3" in (clone.root / "a.py").read_text()
    assert _status(clone) == "M a.py"
    assert "three-way merge" in capsys.readouterr().out


def test_a_dry_run_writes_nothing(clone: Clone, tmp_path: Path) -> None:
    base = clone.commit(BASE)
    patch = _patch(clone, tmp_path, base, clone.commit(THEIRS))
    clone.git("checkout", "-q", base)
    assert _port(clone, patch, "--dry-run") == 0
    assert _status(clone) == ""


def test_not_done_leaves_the_tree_alone(
    clone: Clone, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    base = clone.commit(BASE)
    patch = _patch(clone, tmp_path, base, clone.commit(THEIRS))
    clone.git("checkout", "-q", base)
    clone.commit(BASE.replace("y = x * 2", "y = x * 9"))
    assert _port(clone, patch) == 3
    assert _status(clone) == ""
    assert "`y = x * 2` was changed on both sides" in capsys.readouterr().out


def test_already_there(clone: Clone, tmp_path: Path) -> None:
    base = clone.commit(BASE)
    patch = _patch(clone, tmp_path, base, clone.commit(THEIRS))
    assert _port(clone, patch) == 10
    clone.commit(THEIRS.replace("    return y", "    z = y\n    return z"))
    assert _port(clone, patch) == 10
    assert _status(clone) == ""


def test_a_guess_is_done_and_said(clone: Clone, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    base = clone.commit(BASE)
    theirs = BASE.replace("    return y", "    check(y)\n    return y")
    patch = _patch(clone, tmp_path, base, clone.commit(theirs))
    clone.git("checkout", "-q", base)
    clone.commit(BASE.replace("    return y", "    count(y)\n    return y"))
    assert _port(clone, patch) == 11
    assert (clone.root / "a.py").read_text().endswith("    count(y)\n    check(y)\n    return y\n")
    assert "order inside a function" in capsys.readouterr().out


def test_merged_and_changed_since_is_nothing_to_do(
    clone: Clone, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    base = clone.commit(BASE)
    merged = clone.commit(THEIRS, "Use three (#12)")
    patch = _patch(clone, tmp_path, base, merged)
    clone.commit(THEIRS.replace("y = x * 3", "y = x * 4"))
    assert _port(clone, patch) == 3  # the tree alone cannot tell
    assert _port(clone, patch, "--base", base) == 10
    assert f"merged as {merged[:12]} (Use three (#12))" in capsys.readouterr().out


def test_merged_and_taken_back_is_missing(clone: Clone, tmp_path: Path) -> None:
    base = clone.commit(BASE)
    merged = clone.commit(THEIRS)
    patch = _patch(clone, tmp_path, base, merged)
    clone.commit(BASE)
    assert _port(clone, patch, "--base", base) == 0
    assert (clone.root / "a.py").read_text() == THEIRS


def test_a_revert_and_a_second_landing_are_told_apart(clone: Clone, tmp_path: Path) -> None:
    base = clone.commit(BASE)
    first = clone.commit(THEIRS)
    patch = _patch(clone, tmp_path, base, first)
    back = clone.commit(BASE)
    changes = parse_patch(patch.read_bytes(), "p")
    repo = GitRepo.at(clone.root)
    assert repo is not None
    landing = History(repo, base, back).landing(changes)
    assert landing is not None and landing.commit == first and landing.reverted_by == back
    again = clone.commit(THEIRS)
    landing = History(repo, base, again).landing(changes)
    assert landing is not None and landing.commit == again and not landing.reverted_by
    assert History(repo, again, again).landing(changes) is None


def test_unknown_revisions_are_said_and_not_fatal(
    clone: Clone, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    base = clone.commit(BASE)
    patch = _patch(clone, tmp_path, base, clone.commit(THEIRS))
    clone.git("checkout", "-q", base)
    assert _port(clone, patch, "--base", "0" * 40) == 0
    assert "history was not asked" in capsys.readouterr().out


def test_an_unpacked_wheel_has_other_paths_and_no_tests(
    clone: Clone, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source = clone.root / "python" / "sglang" / "srt"
    source.mkdir(parents=True)
    (clone.root / "test").mkdir()
    for text in (BASE, THEIRS):
        (source / "model.py").write_text(text)
        (clone.root / "test" / "test_model.py").write_text(text)
        clone.commit("x = 1\n")
    patch = _patch(clone, tmp_path, "HEAD~1", "HEAD")
    wheel = tmp_path / "wheel" / "sglang" / "srt"
    wheel.mkdir(parents=True)
    (wheel.parent / "__init__.py").write_text("")
    (wheel.parent / "version.py").write_text("__version__ = '1'\n")
    (wheel / "model.py").write_text("import os\n\n\n" + BASE)
    from auditor.profile import load_profile

    for marker in load_profile("sglang").markers:
        path = wheel.parent.parent / marker
        if not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text("")
    root = str(wheel.parent.parent)
    assert run(groups.patches, "patches", ["port", "--patch", str(patch), "--root", root]) == 0
    assert (wheel / "model.py").read_text() == "import os\n\n\n" + THEIRS
    assert "test/test_model.py: not part of this tree" in capsys.readouterr().out
    assert sorted(p.name for p in wheel.parent.parent.iterdir()) == ["sglang"]
    assert run(groups.patches, "patches", ["port", "--patch", str(patch), "--root", root]) == 10


def test_bad_input_is_one_error(clone: Clone, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    clone.commit(BASE)
    assert _port(clone, tmp_path / "absent.patch") == 2
    assert "error[P001]: cannot read the patch" in capsys.readouterr().err
    empty = tmp_path / "empty.patch"
    empty.write_text("")
    assert _port(clone, empty) == 2
    assert run(groups.patches, "patches", ["port", "--patch", str(empty), "--root", "/nowhere/at/all"]) == 2


def test_a_revert_that_others_got_in_the_way_of_is_a_revert(clone: Clone, tmp_path: Path) -> None:
    base = clone.commit(BASE)
    theirs = BASE.replace(
        "    y = x * 2\n", "    if x < 0:\n        raise ValueError(x)\n    y = x * 3\n    note(y)\n"
    )
    merged = clone.commit(theirs)
    patch = _patch(clone, tmp_path, base, merged)
    clone.commit(theirs.replace("note(y)", "note(y, x)"))  # one of its lines was rewritten
    back = clone.commit(BASE.replace("return y", "return y + 0"))  # ... and the rest taken back by hand
    repo = GitRepo.at(clone.root)
    assert repo is not None
    landing = History(repo, base, back).landing(parse_patch(patch.read_bytes(), "p"))
    assert landing is not None and landing.reverted_by == back
    assert _port(clone, patch, "--base", base) != 10


def test_a_rewrite_of_a_part_is_no_revert(clone: Clone, tmp_path: Path) -> None:
    base = clone.commit(BASE)
    theirs = BASE.replace("    y = x * 2\n", "    y = x * 3\n    note(y)\n    log(y)\n    keep(y)\n")
    patch = _patch(clone, tmp_path, base, clone.commit(theirs))
    clone.commit(theirs.replace("y = x * 3", "y = x * 4").replace("log(y)", "log(y, x)"))
    assert _port(clone, patch, "--base", base) == 10


def test_a_landing_is_known_however_the_two_files_were_compared(clone: Clone, tmp_path: Path) -> None:
    base = clone.commit(BASE)
    theirs = BASE.replace("    y = x * 2\n", "    y = x * 3\n    note(y)\n")
    merged = clone.commit(theirs)
    first, second = (clone.git("rev-parse", f"{rev}:a.py") for rev in (base, merged))
    old, new = BASE.splitlines(), theirs.splitlines()
    rows = [f"-{line}" for line in old] + [f"+{line}" for line in new]
    patch = tmp_path / "whole.patch"  # the same two files, as a comparison that found nothing in common
    patch.write_text(
        f"diff --git a/a.py b/a.py\nindex {first}..{second} 100644\n--- a/a.py\n+++ b/a.py\n"
        f"@@ -1,{len(old)} +1,{len(new)} @@\n" + "\n".join(rows) + "\n"
    )
    clone.commit(theirs.replace("note(y)", "note(y, x)"))
    assert _port(clone, patch, "--base", base) == 10


@pytest.mark.parametrize("name", ["a.py", "a.yaml"])
def test_a_landing_in_the_twin_is_none(tmp_path: Path, name: str) -> None:
    """The same lines, changed by a commit of the range in a function that only looks like ours."""
    root = tmp_path / "clone"
    root.mkdir()
    clone = Clone(root)

    def commit(image: str, video: str) -> str:
        head = {"a.py": ("def image():", "def video():"), "a.yaml": ("image:", "video:")}[name]
        (root / name).write_text(f"{head[0]}\n{image}\n\n{head[1]}\n{video}")
        clone.git("add", "-A")
        clone.git("commit", "-q", "-m", "change")
        return clone.git("rev-parse", "HEAD")

    old, new, other = "    size = 1\n", "    size = 2\n", "    scale = 5\n"
    base = commit(old, old)
    patch = _patch(clone, tmp_path, base, commit(old, new))
    clone.git("checkout", "-q", base)
    commit(new, old)
    commit(new, other)
    assert _port(clone, patch, "--base", base) == 3
    clone.git("checkout", "-q", base)
    commit(old, new)
    commit(old, other)
    assert _port(clone, patch, "--base", base) == 10
