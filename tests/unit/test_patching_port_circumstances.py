"""``patches port`` where the tree, the patch or the place it is called from are not the plain ones."""

from __future__ import annotations

import io
import os
import subprocess
from pathlib import Path

import pytest

from auditor.cli import groups
from auditor.cli.clickrun import run

BASE = "def a():\n    x = 1\n    return x\n\n\ndef b():\n    y = 1\n    return y\n"
EDITED = BASE.replace("y = 1", "y = 2")
OURS = BASE.replace("x = 1", "x = 7")


class Clone:
    """A repository; commits come from what lies in its folder."""

    def __init__(self, root: Path) -> None:
        self.root = root
        root.mkdir()
        self.git("init", "-q", "-b", "main")

    def git(self, *args: str) -> str:
        words = ["git", "-c", "user.name=n", "-c", "user.email=e", *args]
        return subprocess.run(words, cwd=self.root, check=True, capture_output=True, text=True).stdout

    def commit(self, **files: str | None) -> str:
        """Files by name, ``_`` for a dot; None: gone."""
        for name, text in files.items():
            path = self.root / name.replace("_", ".")
            if text is None:
                path.unlink()
            else:
                path.write_text(text)
        self.git("add", "-A")
        self.git("commit", "-q", "--allow-empty", "-m", "change")
        return self.git("rev-parse", "HEAD").strip()

    def patch(self, old: str, new: str) -> Path:
        path = self.root.parent / "my.patch"
        path.write_text(self.git("diff", "--full-index", "-M", old, new))
        return path


@pytest.fixture
def clone(tmp_path: Path) -> Clone:
    return Clone(tmp_path / "clone")


def _port(*words: str) -> int:
    return run(groups.patches, "patches", ["port", *words])


def _edit_on_ours(clone: Clone) -> Path:
    base = clone.commit(a_py=BASE)
    patch = clone.patch(base, clone.commit(a_py=EDITED))
    clone.git("checkout", "-q", base)
    clone.commit(a_py=OURS)
    return patch


@pytest.mark.parametrize(
    ("cwd", "patch", "root"),
    [(".", "my.patch", "clone"), ("clone", "../my.patch", "."), ("clone/sub", "../../my.patch", "..")],
)
def test_paths_are_from_where_it_is_called(
    clone: Clone, monkeypatch: pytest.MonkeyPatch, cwd: str, patch: str, root: str
) -> None:
    _edit_on_ours(clone)
    (clone.root / "sub").mkdir()
    monkeypatch.chdir(clone.root.parent / cwd)
    assert _port("--patch", patch, "--root", root, "--base", "HEAD~1") == 0
    monkeypatch.chdir(clone.root)
    assert Path("a.py").read_text() == EDITED.replace("x = 1", "x = 7")


def test_a_patch_from_standard_input(clone: Clone, monkeypatch: pytest.MonkeyPatch) -> None:
    data = _edit_on_ours(clone).read_bytes()
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(data)))
    assert _port("--patch", "-", "--root", str(clone.root)) == 0


def test_a_mode_that_the_file_has_is_nothing_to_do(clone: Clone) -> None:
    base = clone.commit(run_sh="echo\n")
    (clone.root / "run.sh").chmod(0o755)
    patch = clone.patch(base, clone.commit())
    words = ("--patch", str(patch), "--root", str(clone.root))
    assert _port(*words) == 10
    clone.git("checkout", "-q", base)
    assert _port(*words) == 0
    assert os.access(clone.root / "run.sh", os.X_OK)


def test_a_mode_is_set_though_the_lines_are_there(clone: Clone) -> None:
    base = clone.commit(run_sh="echo\n")
    (clone.root / "run.sh").chmod(0o755)
    patch = clone.patch(base, clone.commit(run_sh="echo 1\n"))
    (clone.root / "run.sh").chmod(0o644)
    clone.commit()
    assert _port("--patch", str(patch), "--root", str(clone.root), "--base", base) == 0
    assert os.access(clone.root / "run.sh", os.X_OK)
    assert (clone.root / "run.sh").read_text() == "echo 1\n"


def test_a_file_is_renamed_though_the_lines_are_there(clone: Clone) -> None:
    base = clone.commit(a_py=BASE)
    patch = clone.patch(base, clone.commit(a_py=None, b_py=EDITED))
    assert "rename to b.py" in patch.read_text()
    clone.git("checkout", "-q", base)
    clone.commit(a_py=EDITED)
    assert _port("--patch", str(patch), "--root", str(clone.root), "--base", base) == 0
    assert not (clone.root / "a.py").exists()
    assert (clone.root / "b.py").read_text() == EDITED


def test_a_renamed_file_stays_executable(clone: Clone) -> None:
    clone.commit(a_py=BASE)
    (clone.root / "a.py").chmod(0o755)
    base = clone.commit()
    (clone.root / "a.py").rename(clone.root / "b.py")
    patch = clone.patch(base, clone.commit())
    clone.git("checkout", "-q", base)
    assert _port("--patch", str(patch), "--root", str(clone.root)) == 0
    assert os.access(clone.root / "b.py", os.X_OK)


def test_a_rename_to_a_file_that_is_there_is_a_conflict(clone: Clone) -> None:
    base = clone.commit(a_py=BASE)
    patch = clone.patch(base, clone.commit(a_py=None, b_py=EDITED))
    clone.git("checkout", "-q", base)
    clone.commit(b_py="other = 1\n")
    assert _port("--patch", str(patch), "--root", str(clone.root)) == 3
    assert clone.git("status", "--porcelain") == ""


@pytest.mark.parametrize("what", ["ignored", "folder", "link"])
def test_what_is_in_the_way_of_a_new_file_stays(clone: Clone, what: str) -> None:
    base = clone.commit(a_py=BASE)
    patch = clone.patch(base, clone.commit(new_py="x = 1\n"))
    clone.git("checkout", "-q", base)
    path = clone.root / "new.py"
    if what == "ignored":
        (clone.root / ".git" / "info" / "exclude").write_text("new.py\n")
        path.write_text("mine\n")
    elif what == "folder":
        path.mkdir()
    else:
        path.symlink_to("a.py")
    assert _port("--patch", str(patch), "--root", str(clone.root)) == 3
    assert path.is_symlink() == (what == "link") and path.is_dir() == (what == "folder")
    assert what != "ignored" or path.read_text() == "mine\n"
    assert (clone.root / "a.py").read_text() == BASE
