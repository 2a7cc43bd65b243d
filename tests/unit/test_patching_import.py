"""``patches import`` on a folder per scenario: ``tests/cases/import/NAME``.

``arguments.txt`` is what is typed, ``input/`` what it is typed on, ``expected/`` the patchset that comes out
(absent where nothing may be written) and ``output.txt`` what is said. ``base/`` is the tree of all of them.
With ``UPDATE_CASES=1`` the expectations are written anew, to be read before they are kept.
"""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest

from auditor.cli import groups
from auditor.cli.clickrun import run
from auditor.patching.diffs.exact import apply_exactly
from auditor.patching.diffs.parse import parse_patch
from auditor.patching.sets.patchset import load_patchset

CASES = Path(__file__).parent.parent / "cases" / "import"
NAMES = sorted(path.parent.name for path in CASES.glob("*/arguments.txt"))


def prepared(name: str, folder: Path) -> list[str]:
    """A copy of the case to work in, and the words to type there."""
    shutil.copytree(CASES / name / "input", folder / "input")
    words = shlex.split((CASES / name / "arguments.txt").read_text())
    base = CASES / "base"
    if "--installed-base" in words:
        shutil.copytree(base / "python" / "sglang", folder / "base" / "sglang")
    else:
        shutil.copytree(base, folder / "base")
    if "--no-base" not in words:
        words += ["--base", "base"]
    words = [word for word in words if word not in ("--no-base", "--installed-base")]
    return ["import", *words, "--into", "mine"]


def files_below(folder: Path) -> dict[str, bytes]:
    found = [path for path in folder.rglob("*") if path.is_file()] if folder.is_dir() else []
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in sorted(found)}


@pytest.mark.parametrize("name", NAMES)
def test_case(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    words = prepared(name, tmp_path)
    monkeypatch.chdir(tmp_path)
    before = files_below(tmp_path)
    code = run(groups.patches, "patches", words)
    said = capsys.readouterr()
    output = f"exit {code}\n{said.out}{said.err}"
    made = files_below(tmp_path / "patchsets" / "mine")
    here = CASES / name
    if os.environ.get("UPDATE_CASES"):
        shutil.rmtree(here / "expected", ignore_errors=True)
        (here / "output.txt").write_text(output)
        for path, data in made.items():
            target = here / "expected" / path
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(data)
    assert output == (here / "output.txt").read_text()
    assert made == files_below(here / "expected")
    if code == 2:
        assert files_below(tmp_path) == before, "nothing may be written"
    else:
        load_patchset(tmp_path / "patchsets" / "mine")


@pytest.mark.parametrize("name", [name for name in NAMES if (CASES / name / "expected").is_dir()])
def test_what_fits_makes_the_files_that_were_meant(name: str) -> None:
    """The patches of a case, in order, on its base: each that says it fits gives what its ids say."""
    tree = files_below(CASES / "base")
    for patch in load_patchset(CASES / name / "expected").patches:
        assert patch.changes is not None
        for change in parse_patch(patch.raw).changes:
            before = tree.get(change.old_path or "")
            after = apply_exactly(change, before)
            if len(change.old_blob) == 40 or len(change.new_blob) == 40:
                assert after is not None, change.path
                tree[change.path] = after


def test_an_interrupted_import_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from auditor.patching.incoming import write as incoming_write

    words = prepared("series", tmp_path)
    monkeypatch.chdir(tmp_path)
    before = files_below(tmp_path)

    def refuse(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(incoming_write.os, "rename", refuse)
    assert run(groups.patches, "patches", words) == 2
    assert files_below(tmp_path) == before
    assert not (tmp_path / "patchsets").exists()


def test_append(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(tmp_path)
    prepared("series", tmp_path)
    assert run(groups.patches, "patches", ["import", "input/family.patch", "--into", "mine"]) == 0
    file = tmp_path / "patchsets" / "mine" / "patchset.yaml"
    file.write_text(file.read_text() + "# a remark that stays\npolicy: {allow: [modes]}\n")
    words = ["import", "input/sibling.patch", "input/family.patch", "--into", "mine", "--append"]
    assert run(groups.patches, "patches", words) == 0
    assert load_patchset(tmp_path / "patchsets" / "mine").file.order == ("family", "sibling", "family-2")
    assert "# a remark that stays\npolicy" in file.read_text()
    before = files_below(tmp_path)
    (tmp_path / "input" / "mode.diff").write_text(
        "diff --git a/python/sglang/version.py b/python/sglang/version.py\nold mode 100644\nnew mode 100755\n"
    )
    before = files_below(tmp_path)
    words = ["import", "input/mode.diff", "--into", "mine", "--append", "--allow", "modes"]
    assert run(groups.patches, "patches", words) == 0, "its policy allows modes"
    assert load_patchset(tmp_path / "patchsets" / "mine").file.order[-1] == "mode"
    assert run(groups.patches, "patches", [*words[:-1], "symlinks"]) == 2
    before = files_below(tmp_path)
    assert run(groups.patches, "patches", ["import", "input/nothing", "--into", "mine", "--append"]) == 2
    assert run(groups.patches, "patches", ["import", "input/family.patch", "--into", "mine"]) == 2
    assert "there is such a patchset already" in capsys.readouterr().err
    assert files_below(tmp_path) == before


@pytest.mark.parametrize(
    "text",
    [
        "x = 'a'\n" + "x = x + x\n" * 60 + "open('f').read()\n",
        "x = " + "+".join(["'a'"] * 3000) + "\n",
        "def f(a):\n    f(a)\n    f(a)\n    f(a)\nf(1)\n",
        "for a in (1,) * 9:\n"
        + "".join(" " * n + "for b in range(9):\n" for n in range(1, 30))
        + " " * 30
        + "pass\n",
        "(" * 500,
        "\0",
    ],
)
def test_a_script_cannot_make_the_reader_grow(text: str) -> None:
    import time

    from auditor.errors import UserError
    from auditor.patching.incoming.scriptread import read_script

    start = time.monotonic()
    try:
        found = read_script(text, "x.py")
    except UserError as error:
        assert error.code == "P037"
    else:
        assert not found.writes
    assert time.monotonic() - start < 5


def test_nothing_of_a_script_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    prepared("script", tmp_path)
    evil = 'open("ran", "w").write("x")\nimport os\nos.system("touch ran")\n'
    (tmp_path / "evil.py").write_text(evil)
    assert run(groups.patches, "patches", ["import", "evil.py", "--into", "mine", "--base", "base"]) == 2
    assert not (tmp_path / "ran").exists()


def test_the_base_of_whole_files_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Files copied from an old commit and changed: against the newest one they would undo what came since."""
    clone = tmp_path / "clone"
    shutil.copytree(CASES / "base", clone)

    def git(*words: str) -> str:
        who = ["-c", "user.name=T", "-c", "user.email=t@example.org"]
        done = subprocess.run(["git", *who, *words], cwd=clone, capture_output=True, text=True, check=True)
        return done.stdout.strip()

    pick = clone / "python" / "sglang" / "srt" / "layers" / "pick.py"
    rows = clone / "python" / "sglang" / "srt" / "layers" / "old_home.py"
    git("init", "-q")
    commits = []
    for number in range(6):
        (pick if number % 2 else rows).write_text(
            (pick if number % 2 else rows).read_text() + "".join(f"more_{number}_{n} = 1\n" for n in range(4))
        )
        git("add", "-A")
        git("commit", "-qm", f"step {number}")
        commits.append(git("rev-parse", "HEAD"))
    git("checkout", "-q", commits[3])
    overlay = tmp_path / "overlay" / "sglang" / "srt" / "layers"
    overlay.mkdir(parents=True)
    for path in (pick, rows):
        (overlay / path.name).write_text(
            path.read_text().replace("row_3 = 3", "row_3 = 33").replace("64", "96")
        )
    (overlay / "fresh.py").write_text("new = True\n")
    git("checkout", "-q", commits[5])
    monkeypatch.chdir(tmp_path)
    words = ["import", "overlay", "--into", "mine", "--find-base", "--clone", "clone"]
    assert run(groups.patches, "patches", words) == 0
    said = capsys.readouterr()
    assert f"base {commits[3][:12]}: 4 lines differ from it; at the next best 8" in said.err
    (patch,) = load_patchset(tmp_path / "patchsets" / "mine").patches
    assert patch.changes is not None
    changed = [line for change in patch.changes.changes for hunk in change.hunks for line in hunk.lines]
    assert sorted(text for mark, text in changed if mark == "-") == [
        b"    return 64 if card.small else 128\n", b"row_3 = 3\n",
    ]  # fmt: skip
    assert run(groups.patches, "patches", ["import", "overlay", "overlay", "--into", "x", "--find-base"]) == 2


@pytest.mark.parametrize(
    ("name", "wanted"),
    [
        ("python/sglang/new_folder/x.py", "python/sglang/new_folder/x.py"),  # not python/x.py
        ("python/sglang/A/b/c/x.py", "python/sglang/A/b/c/x.py"),
        ("tools/x.py", "tools/x.py"),
        ("../../etc/x", None),
        ("python/../../x", None),
        (".git/hooks/pre-commit", None),
        ("python/.GIT/config", None),
    ],
)
def test_a_new_file_goes_where_it_is_written_or_nowhere(
    tmp_path: Path, name: str, wanted: str | None
) -> None:
    from auditor.errors import UserError
    from auditor.patching.diffs.scan import scan
    from auditor.patching.incoming.names import Layout, choose_naming, raw_path
    from auditor.trees.folder import FolderTree

    base = tmp_path / "base"
    (base / "python/sglang/srt").mkdir(parents=True)
    for path in ("python/setup.py", "python/sglang/srt/a.py", "README.md"):
        (base / path).write_text("a = 1\n")
    head = f"diff --git a/{name} b/{name}\nnew file mode 100644\n"
    diff = f"{head}--- /dev/null\n+++ b/{name}\n@@ -0,0 +1 @@\n+x\n"
    files = scan(diff.encode(), "x.patch").files

    def named() -> str:
        naming = choose_naming(files, FolderTree(base), Layout(("python",), "sglang"), None, "", "x.patch")
        return raw_path(files[0], naming, "x.patch")

    if wanted is None:
        with pytest.raises(UserError) as caught:
            named()
        assert caught.value.code == "P004"
    else:
        assert named() == wanted
