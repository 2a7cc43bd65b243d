"""`audit guard` from end to end, on a small history: exit codes, patchsets, formats, wrong ends."""

from __future__ import annotations

import gzip
import json
import os
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import jsonschema
import pytest
from browser import facts
from markdown_it import MarkdownIt

from auditor.cli import groups
from auditor.cli.clickrun import run

ROOT = Path(__file__).parents[2]
#: Every kind of change.
TRIPS = "outcome,kernel,forced,default,predicate,added,removed,flag,respelled,moved"
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


# -- ends that are wrong ---------------------------------------------------------------------------

GATE_CHANGED = PICK.replace(">= 12", "== 9")


def test_a_base_that_a_shallow_clone_lacks_is_said_with_the_way_to_get_it(
    history: History, tmp_path: Path, capsys: Capture
) -> None:
    first = history.git("rev-parse", "HEAD")
    history.commit("second", pick=GATE_CHANGED)
    clone = tmp_path / "shallow"
    history.git("clone", "-q", "--depth", "1", f"file://{history.folder}", str(clone))
    code, _, err = audit(capsys, "guard", first, "HEAD", "--repo", str(clone))
    assert code == 2 and "error[T002]" in err and "fetch --unshallow" in err and "shallow" in err


def test_a_fork_is_compared_from_where_it_left_upstream(history: History, capsys: Capture) -> None:
    base = history.git("rev-parse", "HEAD")
    history.git("checkout", "-q", "-b", "fork")
    history.commit("our own", pick=PICK.replace(">= 12", "== 8"))
    history.git("checkout", "-q", "main")
    history.commit("quiet", **{"python/sglang/srt/other.py": "X = 1\n"})
    assert audit(capsys, "guard", "fork...main")[0] == 0, "what the fork changed is no news"
    assert audit(capsys, "guard", "fork..main")[0] == 1
    history.commit("other way (#41)", pick=GATE_CHANGED)
    for words in (("guard", "fork...main"), ("guard", base, "main"), ("guard", f"{base}..main")):
        code, out, _ = audit(capsys, *words, "--format", "json")
        told = json.loads(out)
        assert code == 1 and [c["commits"][0]["pr"] for c in told["changes"]] == ["41"], words
        assert told["old"]["commit"] == base
    assert "#41" in audit(capsys, "diff", "fork...main")[1]
    assert "#41" in audit(capsys, "diff", f"{base}..main")[1]


@pytest.mark.parametrize(
    ("words", "code", "hint"),
    [
        (("guard", "HEAD", "upstream/main"), "T002", "did you mean main"),
        (("guard", "HEAD...nosuch"), "T002", "git -C . fetch --all"),
        (("guard", "HEAD...alone"), "H023", "audit diff HEAD alone"),
        (("guard", "HEAD..", "HEAD"), "U005", "audit guard HEAD..HEAD"),
        (("guard", "HEAD..main", "HEAD"), "U005", "audit guard HEAD..main"),
        (("guard", "HEAD", "--patchset", "nosuch"), "P020", "help: patches list"),
        (("guard", "HEAD", "--exceptions", "nosuch.yaml"), "H010", ""),
        (("guard", "HEAD", "--output", "no/such/file"), "U004", "mkdir -p no/such"),
        (("diff", "HEAD"), "U001", "audit diff HEAD HEAD"),
        (("sglang", "--exceptions", "nosuch.yaml"), "H010", ""),
    ],
)
def test_what_is_misspelled_is_said_before_anything_is_audited(
    history: History,
    capsys: Capture,
    monkeypatch: pytest.MonkeyPatch,
    words: tuple[str, ...],
    code: str,
    hint: str,
) -> None:
    history.git("checkout", "-q", "--orphan", "alone")
    history.git("commit", "-q", "--allow-empty", "-m", "alone")
    history.git("checkout", "-q", "main")
    monkeypatch.setattr("auditor.gates.cache.kept_report", lambda *_, **__: pytest.fail("an audit was begun"))
    got, out, err = audit(capsys, *words)
    assert (got, out) == (2, "") and f"error[{code}]" in err and hint in err, err


def test_merges_name_the_commit_that_made_the_change(history: History, capsys: Capture) -> None:
    base = history.git("rev-parse", "HEAD")
    for name in ("one", "two", "three"):
        history.git("checkout", "-q", "-b", name, base)
        if name == "two":
            history.commit("other way (#41)", pick=GATE_CHANGED)
        else:
            history.commit(f"{name} (#4)", **{f"python/sglang/srt/{name}.py": "X = 1\n"})
    history.git("checkout", "-q", "main")
    history.git("merge", "-q", "--no-ff", "-m", "octopus", "one", "two", "three")
    assert len(history.git("log", "-1", "--format=%P").split()) >= 3
    code, out, _ = audit(capsys, "guard", base, "HEAD")
    assert code == 1 and "#41" in out and "yes → no" in out


def test_a_change_that_was_reverted_is_none(history: History, capsys: Capture) -> None:
    history.commit("second", pick=GATE_CHANGED)
    history.git("revert", "--no-edit", "HEAD")
    assert audit(capsys, "guard", "HEAD~2", "HEAD")[0] == 0
    assert audit(capsys, "guard", "HEAD~1", "HEAD")[0] == 1


def test_a_file_that_was_renamed_and_edited_trips_for_what_it_changed(
    history: History, capsys: Capture
) -> None:
    new = "python/sglang/srt/choose.py"
    history.commit("second", pick=None, **{new: GATE_CHANGED})
    code, out, _ = audit(capsys, "guard", "HEAD~1", "HEAD", "--format", "json")
    (change,) = json.loads(out)["changes"]
    assert code == 1
    assert (change["kind"], change["path"], change["old_path"]) == ("outcome", new, PICKS)


def test_a_new_gate_that_forgets_a_sibling_trips_where_that_is_asked(
    history: History, capsys: Capture, tmp_path: Path
) -> None:
    narrow = PICK + "\n\ndef rows():\n    if cap() == (12, 0):\n        return 64\n    return 128\n"
    history.commit("second", pick=narrow)
    asked = ("guard", "HEAD~1", "HEAD", "--target", "sm_120,sm_121")
    assert audit(capsys, *asked)[0] == 0, "nothing was lost"
    code, out, _ = audit(capsys, *asked, "--fail-on", "missed-variant")
    assert code == 1 and "missed-variant on sm_121" in out and "pick.py:15" in out
    code, out, _ = audit(capsys, *asked, "--fail-on", "missed-variant", "--format", "json")
    (change,) = json.loads(out)["changes"]
    assert (change["kind"], change["why"]) == ("added", "missed-variant on sm_121")
    assert audit(capsys, *asked, "--fail-on", "blocked")[0] == 0, "another verdict"
    assert audit(capsys, *asked[:-1], "sm_120", "--fail-on", "missed-variant")[0] == 0, "another target"
    given = tmp_path / "deliberate.yaml"
    given.write_text(
        f"exceptions: [{{gate: {change['gate']}, verdict: missed-variant, targets: [sm_121], reason: r, "
        "evidence: e, until: 9.0.0}]\n"
    )
    held = audit(capsys, *asked, "--fail-on", "missed-variant", "--exceptions", str(given))
    assert held[0] == 0, held
    history.commit("third", pick=narrow.replace("cap() ==", "cap() >="))
    assert audit(capsys, "guard", "HEAD~2", *asked[2:], "--fail-on", "missed-variant")[0] == 0, "mended"


def test_an_empty_range_is_quiet_and_one_that_runs_backwards_is_named(
    history: History, capsys: Capture
) -> None:
    code, out, _ = audit(capsys, "guard", "HEAD", "HEAD")
    assert code == 0 and "0 commits" in out and "quiet" in out
    history.commit("second", pick=GATE_CHANGED)
    code, out, _ = audit(capsys, "guard", "HEAD", "HEAD~1")
    assert code == 1 and "backwards over 1 commit" in out


def test_a_baseline_for_other_targets_is_refused_with_the_option_that_fits(
    history: History, tmp_path: Path, capsys: Capture
) -> None:
    known = str(tmp_path / "known.json")
    assert audit(capsys, "baseline", "write", known, "--target", "sm_120,sm_121")[0] == 0
    code, _, err = audit(capsys, "guard", known, "HEAD", "--target", "sm_120")
    assert code == 2 and "error[H001]" in err and "sm_120,sm_121 and sm_120" in err
    assert "help: --target sm_120,sm_121" in err
    packed = tmp_path / "known.json.gz"
    packed.write_bytes(gzip.compress(Path(known).read_bytes()))
    assert audit(capsys, "guard", str(packed), "HEAD", "--target", "sm_120,sm_121")[0] == 0
    packed.write_bytes(packed.read_bytes()[:-20])
    code, _, err = audit(capsys, "guard", str(packed), "HEAD", "--target", "sm_120,sm_121")
    assert code == 2 and "error[H003]" in err and "cut off" in err


def test_what_lies_broken_in_the_cache_changes_nothing(
    history: History, tmp_path: Path, capsys: Capture
) -> None:
    history.commit("second", pick=GATE_CHANGED)
    first = audit(capsys, "guard", "HEAD~1", "HEAD", "--format", "json")
    files = [path for path in (tmp_path / "cache").rglob("*") if path.is_file()]
    assert first[0] == 1 and len(files) > 3
    for path in files:
        data = path.read_bytes()
        path.write_bytes(data[: len(data) // 2] + b"\xff\x00" + data[len(data) // 2 + 7 :])
    assert audit(capsys, "guard", "HEAD~1", "HEAD", "--format", "json")[:2] == first[:2]


def test_two_guards_at_once_in_one_cache_say_the_same(history: History, tmp_path: Path) -> None:
    history.commit("second", pick=GATE_CHANGED)
    start = "import sys; from auditor.cli.main import audit; sys.exit(audit())"
    words = ["guard", "HEAD~1", "HEAD", "--format", "json"]
    both = [
        subprocess.Popen(
            [sys.executable, "-c", start, *words],
            stdout=subprocess.PIPE,
            cwd=history.folder,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
        )
        for _ in range(2)
    ]
    outs = [process.communicate(timeout=240)[0] for process in both]
    assert [process.returncode for process in both] == [1, 1]
    assert outs[0] == outs[1] and json.loads(outs[0])["changes"]


def test_hostile_text_is_inert_in_every_format(history: History, capsys: Capture) -> None:
    hostile = "python/sglang/srt/a\n::error::b\x1b[31m<i>.py"
    text = PICK.replace("cap()[0] >= 12", "cap()[0] >= 12 and x != '\x1b[2J</td><script>::error::|`'")
    history.commit("second", **{hostile: text.replace("def pick():", "def pick(x=0):")})
    history.commit("third (#1)\x1b[31m", **{hostile: text.replace("[0] >= 12", "[0] == 9")})
    for form in ("terminal", "github", "markdown", "junit", "sarif", "json"):
        _, out, err = audit(capsys, "guard", "HEAD~1", "HEAD", "--format", form, "--trip-on", TRIPS)
        assert "\x1b" not in out + err, form
        if form == "github":
            assert all(line.startswith(("::error ", "::warning ", "::notice ")) for line in out.splitlines())
        if form == "markdown":
            blocks = MarkdownIt("commonmark").enable("table").parse(out)
            parts = [part for block in blocks for part in (block, *(block.children or ()))]
            html = {tag for p in parts if p.type.startswith("html") for tag in p.content.split("\n")}
            assert not [tag for tag in html if "script" in tag] and not [
                p for p in parts if p.type == "image"
            ]
        if form == "junit":
            ElementTree.fromstring(out)
        if form in ("sarif", "json"):
            json.loads(out)


# -- pages -----------------------------------------------------------------------------------------


def test_pages_of_a_guard_and_of_a_comparison(history: History, tmp_path: Path, capsys: Capture) -> None:
    history.commit("other way (#41)", pick=GATE_CHANGED)
    file = tmp_path / "page.html"
    words = ("HEAD~1", "HEAD", "--format", "html", "--output", str(file))
    code, out, _ = audit(capsys, "guard", *words, "--trip-on", TRIPS)
    assert (code, out) == (1, "")
    found = facts(file.read_bytes())
    assert found["guard"]["tripped"] == sum("x" in row for row in found["rows"]) > 0
    assert [found["texts"][commit[2]] for commit, _ in found["guard"]["pulls"]] == ["41"]
    assert found["upstream"].startswith("https://github.com/") and len(found["tree"]) == 40
    assert audit(capsys, "diff", *words)[0] == 0
    assert facts(file.read_bytes())["guard"] is None


def test_the_past_of_gates_in_the_page_of_an_audit(history: History, tmp_path: Path, capsys: Capture) -> None:
    # a quick sweep learns no name as short as the other one
    longer = PICK.replace("cap", "get_cap")
    utils = {"python/sglang/srt/utils.py": UTILS.replace("cap()", "get_cap()")}
    first = history.commit("first", pick=longer, **utils)
    history.commit("other way (#41)", pick=longer.replace(">= 12", "== 9"))
    history.commit("nothing", **{"python/sglang/srt/other.py": "X = 1\n"})
    sweep, diff, past, page = (tmp_path / name for name in ("s.jsonl", "d.json", "p.json", "page.html"))
    assert audit(capsys, "sweep", f"{first}..HEAD", "--output", str(sweep))[0] == 0
    assert audit(capsys, "diff", first, "HEAD", "--format", "json", "--output", str(diff))[0] == 0
    gate = f"{PICKS}:5"
    code, _, err = audit(capsys, "history", gate, f"{first}..HEAD", "--format", "json", "--output", str(past))
    assert code == 0, err
    told = {}
    for word in (f"{first}..HEAD", str(sweep), str(diff), str(past)):
        code, _, err = audit(
            capsys, "sglang", "--commit", "HEAD", "--format", "html", "--output", str(page), "--history", word
        )
        assert code == 0, err
        data = page.read_bytes()
        found = facts(data)
        told[word] = [[found["texts"][n] for n in h] for row in found["rows"] for h in row.get("h", ())]
        assert (b"<figure>" in data) == (word not in (str(diff), str(past)))
        assert len(found["from"]) == 1
    ranged, swept, compared, one = told.values()
    assert ranged == swept
    ((_, _, pull, _, what),) = swept
    assert pull == "41" and what == "condition changed  sm_120: yes → no  (was get_cap()[0] >= 12)"
    assert [event[2] for event in one] == ["41"]
    assert compared[0][4].startswith(f"{first[:7]} → ")


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (("--history", "nosuch.jsonl", "--format", "html"), "U013"),
        (("--history", "bad.json", "--format", "html"), "U013"),
        (("--history", "other.jsonl", "--format", "html"), "H001"),
        (("--history", "HEAD..HEAD", "--format", "html"), "H020"),
        (("--history", "HEAD..HEAD"), "U005"),
        (("--history", "two.jsonl", "--history", "three.jsonl", "--format", "html"), "U005"),
    ],
)
def test_a_past_that_is_none(history: History, capsys: Capture, words: tuple[str, ...], code: str) -> None:
    history.commit("second", pick=GATE_CHANGED)
    audit(capsys, "sweep", "HEAD~1..HEAD", "--output", "two.jsonl")
    swept = Path("two.jsonl").read_text()
    Path("three.jsonl").write_text(swept)
    Path("other.jsonl").write_text(swept.replace('"project":"sglang"', '"project":"other"'))
    Path("bad.json").write_text('{"$schema":"urn:other"}')
    got, out, err = audit(capsys, "sglang", *words)
    assert (got, out) == (2, "") and f"error[{code}]" in err and err.count("error[") == 1
