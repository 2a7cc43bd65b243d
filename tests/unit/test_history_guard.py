"""`audit guard` from end to end, on a small history: exit codes, patchsets, formats, wrong ends."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from xml.etree import ElementTree

import jsonschema
import pytest

from auditor.cli import groups
from auditor.cli.clickrun import run

UTILS = "import torch\n\n\ndef cap():\n    return torch.cuda.get_device_capability()\n"
PICK = """\
from sglang.srt.utils import cap


def pick():
    if cap()[0] >= 12:
        return "small"
    return "none"


def name():
    return "slow"
"""
PICKS = "python/sglang/srt/pick.py"
FILES = {
    "python/sglang/__init__.py": "",
    "python/sglang/version.py": '__version__ = "1.2.3"\n',
    "python/sglang/srt/__init__.py": "",
    "python/sglang/srt/utils.py": UTILS,
    PICKS: PICK,
}
PATCH = f"""\
diff --git a/{PICKS} b/{PICKS}
--- a/{PICKS}
+++ b/{PICKS}
@@ -9,3 +9,3 @@

 def name():
-    return "slow"
+    return "quick"
"""


class History:
    """A clone whose commits are written file by file."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir()
        self.git("init", "-q", "-b", "main", ".")

    def git(self, *words: str) -> str:
        who = ["-c", "user.name=n", "-c", "user.email=n@example.org", "-c", "commit.gpgsign=false"]
        given = ["git", "-C", str(self.folder), *who, *words]
        return subprocess.run(given, check=True, capture_output=True, text=True).stdout.strip()

    def commit(self, subject: str, **texts: str | None) -> str:
        """A commit of the files by path (``PICKS`` under the name ``pick``); None takes one away."""
        for path, text in {PICKS if key == "pick" else key: text for key, text in texts.items()}.items():
            file = self.folder / path
            if text is None:
                file.unlink()
            else:
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_text(text)
        self.git("add", "-A")
        self.git("commit", "-q", "--allow-empty", "-m", subject)
        return self.git("rev-parse", "HEAD")


@pytest.fixture
def history(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> History:
    monkeypatch.setenv("SGLANG_AUDITOR_CACHE_DIR", str(tmp_path / "cache"))
    found = History(tmp_path / "clone")
    found.commit("first", **FILES)
    monkeypatch.chdir(found.folder)
    return found


def audit(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    code = run(groups.audit, "audit", [*words])
    out, err = capsys.readouterr()
    return code, out, err


Capture = pytest.CaptureFixture[str]


def patchset(folder: Path, patch: str = PATCH) -> str:
    root = folder / "patchsets" / "small"
    (root / "patches").mkdir(parents=True)
    (root / "patchset.yaml").write_text("title: Set\nupstreams:\n  sglang: {}\norder: [quick]\n")
    (root / "patches" / "quick.patch").write_text(patch)
    return str(root)


def test_a_patchset_that_goes_leaves_the_guard_quiet(
    history: History, tmp_path: Path, capsys: Capture
) -> None:
    history.commit("second", pick="# a line\n" + PICK)
    code, out, _ = audit(capsys, "guard", "HEAD~1", "HEAD", "--patchset", patchset(tmp_path))
    assert code == 0
    assert "patches of small: 1 moved" in out and "quiet: nothing that these targets rely on" in out


def test_a_patch_that_does_not_go_any_more_trips(history: History, tmp_path: Path, capsys: Capture) -> None:
    history.commit("second", pick=PICK.replace("def name():\n    return", "def title(x):\n    x +="))
    folder = patchset(tmp_path)
    code, out, _ = audit(capsys, "guard", "HEAD~1", "HEAD", "--patchset", folder)
    assert code == 1
    assert "patches of small: 1 conflict" in out and "clean → conflict" in out and "quiet" not in out
    code, out, _ = audit(capsys, "guard", "HEAD~1", "HEAD", "--patchset", folder, "--format", "json")
    found = json.loads(out)
    jsonschema.validate(
        found, json.loads(Path(__file__).parents[2].joinpath("reports/schema/diff-1.json").read_text())
    )
    (patch, *checks) = found["patches"]
    assert (patch["name"], patch["status"], patch["before"], patch["trips"]) == (
        "quick",
        "conflict",
        "clean",
        True,
    )
    assert patch["path"] == PICKS and found["changes"] == []
    assert [check["status"] for check in checks if check["name"] == "audit"] == ["not run"]


def test_every_format_names_a_patch_that_does_not_go(
    history: History, tmp_path: Path, capsys: Capture
) -> None:
    history.commit("second", pick=PICK.replace("def name():\n    return", "def title(x):\n    x +="))
    words = ("guard", "HEAD~1", "HEAD", "--patchset", patchset(tmp_path), "--format")
    told = {}
    for form in ("github", "markdown", "junit", "sarif"):
        code, told[form], _ = audit(capsys, *words, form)
        assert code == 1, form
    assert told["github"].startswith(f"::error file={PICKS},line=")
    assert "small: quick: clean → conflict" in told["markdown"]
    assert ElementTree.fromstring(told["junit"]).attrib["failures"] == "1"
    (result,) = json.loads(told["sarif"])["runs"][0]["results"]
    assert (result["ruleId"], result["level"]) == ("patchset/patch", "error")


def test_a_patch_that_came_upstream_is_news(history: History, tmp_path: Path, capsys: Capture) -> None:
    history.commit("second", pick=PICK.replace("slow", "quick"))
    code, out, _ = audit(capsys, "guard", "HEAD~1", "HEAD", "--patchset", patchset(tmp_path))
    assert code == 0 and "clean → upstream" in out and "quiet" in out


def test_a_promise_that_does_not_hold_trips(history: History, tmp_path: Path, capsys: Capture) -> None:
    broken = PATCH.replace('+    return "quick"', "+    return nowhere")
    code, out, _ = audit(capsys, "guard", "HEAD", "HEAD", "--patchset", patchset(tmp_path, broken))
    assert code == 1
    assert "patches of small: 1 clean; not held: names" in out and "nowhere is not defined" in out


def test_an_unknown_patchset_is_wrong_input(history: History, capsys: Capture) -> None:
    code, _, err = audit(capsys, "guard", "HEAD", "HEAD", "--patchset", "nosuch")
    assert code == 2 and "error[P02" in err
