"""Reports for other tools: SARIF, GitHub's annotations, Markdown and JUnit say the same, and nothing runs."""

from __future__ import annotations

import gzip
import json
import os
import re
import subprocess
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import jsonschema
import msgspec
import pytest
from markdown_it import MarkdownIt
from sample_report import TARGETS, gate, sample

from auditor.gates.model import Finding, Report
from auditor.history.model import Change, Commit, Diff
from auditor.reporting import github, junit, markdown, sarif
from auditor.reporting.linehash import line_hashes
from auditor.reporting.notes import Note, Paper, Rule, of_diff, of_report
from auditor.reporting.terminal import head_lines

RULES = {
    "attention/sparse-prefill-unguarded": Rule(
        "attention/sparse-prefill-unguarded", "Sparse prefill without a build", "It dies.", "error"
    )
}
SOURCE = b"".join(b"line %d of a file\n" % n for n in range(3000))


def paper(report: Report | None = None, everything: bool = False) -> Paper:
    return of_report(report or sample(), ("toy 735a256", "assuming"), RULES, everything=everything)


def log(of: Paper, source: bool = True) -> dict:
    read = (lambda path: SOURCE) if source else None
    return json.loads(sarif.dumps(of, source=read, url="https://example.org/toy", automation="toy/sm_120"))


def test_the_worst_comes_first_and_what_is_undecided_is_counted() -> None:
    found = paper()
    assert [(note.level, note.line) for note in found.notes] == [
        ("error", 140),
        ("warning", 22),
        ("warning", 2271),
        ("note", 9),
    ]
    assert found.left_out == {"undecided": 1}
    assert found.problems == ("python/toy/broken.py:3 invalid syntax",)
    assert len(paper(everything=True).notes) == 5


def test_a_chain_leads_from_the_gate_to_the_question() -> None:
    first = paper().notes[0]
    assert [(step.text, step.line) for step in first.chain] == [
        ("if query.shape[0] > LARGE_BATCH_THRESHOLD", 140),
        ("toy.platform.is_big: true on sm_100 · false on sm_120 sm_121", 12),
        ("toy.platform.capability", 0),
        ("torch.cuda.get_device_capability", 0),
    ]


def test_a_note_keeps_its_key_where_lines_moved() -> None:
    report = sample()
    moved = msgspec.structs.replace(
        report,
        gates=tuple(
            msgspec.structs.replace(g, line=g.line + 40, end_line=g.end_line + 40) for g in report.gates
        ),
        findings=tuple(msgspec.structs.replace(f, line=f.line + 40) for f in report.findings),
    )
    assert [note.key for note in paper(moved).notes] == [note.key for note in paper().notes]


def test_two_notes_never_share_a_key() -> None:
    report = sample()
    twice = Finding("a/b", "", "python/toy/args.py", 1, "f", {"sm_120": "blocked"}, "error", "at x.py:1")
    again = msgspec.structs.replace(twice, line=9, message="at x.py:9")
    found = paper(msgspec.structs.replace(report, findings=(*report.findings, twice, again)))
    assert len({note.key for note in found.notes}) == len(found.notes)


def test_sarif_fits_github() -> None:
    run = log(paper())["runs"][0]
    rules = run["tool"]["driver"]["rules"]
    for result in run["results"]:
        assert rules[result["ruleIndex"]]["id"] == result["ruleId"]
        prints = result["partialFingerprints"]
        line = result["locations"][0]["physicalLocation"]["region"]["startLine"]
        assert prints["primaryLocationLineHash"] == line_hashes(SOURCE, [line])[line]
        assert len(prints["gateHash/v1"]) == 32
    for rule in rules:
        assert (
            rule["shortDescription"]["text"] and rule["help"]["markdown"] and rule["fullDescription"]["text"]
        )
    assert run["results"][0]["level"] == "error"
    assert run["results"][0]["properties"]["targets"] == {"sm_120": "unguarded", "sm_121": "unguarded"}
    assert [step["location"]["physicalLocation"]["region"]["startLine"] for step in
            run["results"][0]["codeFlows"][0]["threadFlows"][0]["locations"]] == [140, 12]  # fmt: skip
    assert run["versionControlProvenance"][0]["revisionId"] == "7" * 40
    texts = [n["message"]["text"] for n in run["invocations"][0]["toolExecutionNotifications"]]
    assert texts[0] == "Not audited: python/toy/broken.py:3 invalid syntax"
    assert "1 undecided" in texts[1]


def test_in_a_checkout_the_upload_hashes_the_lines() -> None:
    for result in log(paper(), source=False)["runs"][0]["results"]:
        assert set(result["partialFingerprints"]) == {"gateHash/v1"}


def many(number: int) -> Paper:
    base = paper()
    levels = ("note", "warning", "error")
    notes = [
        replace(base.notes[-1], line=n + 1, key=f"{n:032x}", level=levels[n % 3], message=f"message {n}")
        for n in range(number)
    ]
    return replace(base, notes=tuple(sorted(notes, key=lambda note: note.order)))


def test_a_hundred_thousand_results_are_cut_to_what_github_takes_with_a_notice() -> None:
    data = sarif.dumps(many(100_000), source=None, url="https://example.org", automation="toy")
    run = json.loads(data)["runs"][0]
    assert 0 < len(run["results"]) <= sarif.MOST_RESULTS
    assert len(gzip.compress(data)) <= sarif.MOST_BYTES
    assert {result["level"] for result in run["results"]} == {"error"}
    texts = [n["message"]["text"] for n in run["invocations"][0]["toolExecutionNotifications"]]
    assert any("of 100,000 results left out" in text for text in texts)


def test_markdown_and_annotations_stay_within_their_limits() -> None:
    found = many(30_000)
    text = markdown.render(found)
    assert len(text) <= markdown.COMMENT
    assert "more that do not fit here" in text
    lines = github.render(found).splitlines()
    for kind in ("error", "warning", "notice"):
        assert sum(line.startswith(f"::{kind} ") for line in lines) == 10
    assert "more in the summary of the job" in lines[-1]


HOSTILE = (
    "x\x1b[31m\r\n::error file=a::b <script>alert(1)</script> `|` "
    "[a](javascript:b) ![i](https://e/x.png) @all & ]]>"
)


def hostile() -> Paper:
    report = sample()
    bad = gate("ee", "a\nb::c,d.py", 3, HOSTILE, HOSTILE, "tff", ("blocked", "blocked"))
    told = Finding(
        "x/y", "", "e\x1b.py", 1, HOSTILE, {"sm_120": "blocked"}, "error", HOSTILE, detail=(HOSTILE,)
    )
    return of_report(
        msgspec.structs.replace(report, gates=(*report.gates, bad), findings=(*report.findings, told)),
        (HOSTILE,),
        {"x/y": Rule("x/y", HOSTILE, HOSTILE, "error")},
    )


def markup(text: str) -> set[str]:
    """What of a page is a link, an image or HTML, as a parser of Markdown reads it."""
    found = set()
    for block in MarkdownIt("commonmark").enable("table").parse(text):
        for token in (block, *(block.children or ())):
            if token.type in ("link_open", "image"):
                found.add(token.type)
            elif token.type.startswith("html"):
                found |= set(re.findall(r"<[^>]*>", token.content))
    return found


def test_hostile_text_is_shown_and_never_interpreted() -> None:
    found = hostile()
    commands = github.render(found)
    assert "\x1b" not in commands and "\r" not in commands
    for line in commands.splitlines():
        assert line.startswith(("::error ", "::warning ", "::notice "))
        properties = line.split("::", 2)[1]
        assert properties.count("file=") <= 1
    text = markdown.render(found)
    assert "\x1b" not in text
    assert markup(text) <= {"<br>", "<details>", "<summary>", "</summary>", "</details>"}
    case = ElementTree.fromstring(junit.render(found))
    assert "\x1b" not in ElementTree.tostring(case, encoding="unicode")
    run = json.loads(sarif.dumps(found, source=None, url="https://e", automation="a"))["runs"][0]
    assert all("\x1b" not in r["message"]["text"] for r in run["results"])
    assert (
        "[a](" not in next(r for r in run["tool"]["driver"]["rules"] if r["id"] == "x/y")["help"]["markdown"]
    )


def test_junit_counts_and_names_cases() -> None:
    tree = ElementTree.fromstring(junit.render(paper()))
    assert tree.attrib["tests"] == "5" and tree.attrib["failures"] == "3" and tree.attrib["errors"] == "1"
    assert len(tree.findall(".//testcase")) == 5
    assert len(tree.findall(".//failure")) == 3
    empty = replace(paper(), notes=(), problems=())
    assert len(ElementTree.fromstring(junit.render(empty)).findall(".//testcase")) == 1


def test_a_comparison_makes_errors_of_what_tripped() -> None:
    report = sample()
    change = Change(
        "outcome", "is_big()", "python/toy/a.py", 4, "run", "aa",
        before={"sm_120": "no"}, after={"sm_120": "yes"},
        commits=(Commit("c7397de57" + "0" * 31, "2026-06-19", "Take it (#28231)", "28231"),),
    )  # fmt: skip
    other = Change("added", "cap()", "python/toy/b.py", 5, "go", "bb")
    diff = Diff(
        "1.0", "t", "toy", report.tree, report.tree, TARGETS, "sm_100", {}, (change, other), {"same": 3}
    )
    found = of_diff(diff, ("toy",), (change,), "quiet")
    assert [(n.level, n.rule) for n in found.notes] == [("error", "change/outcome"), ("note", "change/added")]
    assert found.notes[0].detail == ("c7397de57 #28231 2026-06-19 Take it", "gate aa")
    assert dict(found.notes[0].verdicts) == {"sm_120": "no → yes"}
    assert "c7397de57 \\#28231" in markdown.render(found)


def test_what_is_lost_comes_first_and_what_is_only_open_last() -> None:
    def change(kind: str, what: str, before: str, after: str, **more: object) -> Change:
        ways = {"before": {"sm_120": before}} | ({"after": {"sm_120": after}} if after else {})
        return Change(kind, what, f"python/toy/{what}.py", 4, "run", what, **ways, **more)

    tripped = (
        change("outcome", "opened", "no", "unknown", why="open: arg.x"),
        change("outcome", "turned", "no", "yes", did={"sm_120": "return 1"}, does={"sm_120": "raise Bad"}),
        change("default", "wrong", "same", "wrong-default"),
        change("added", "refusal", "", "yes", refuses=("sm_120",)),
        change("removed", "own", "yes", "", own=("sm_120",)),
    )
    others = (
        change("kernel", "fresh", "absent", "runs", row="jit"),
        change("kernel", "doubtful", "runs", "unknown", row="jit"),
        change("forced", "freed", "env-forced", "same"),
    )
    report = sample()
    diff = Diff("1.0", "t", "toy", report.tree, report.tree, TARGETS, "sm_100", {}, (*tripped, *others), {})
    found = of_diff(diff, ("toy",), tripped, "quiet")
    assert [(n.level, n.group, n.message) for n in found.notes] == [
        ("error", "lost", "refusal"),
        ("error", "lost", "own"),
        ("error", "another way", "turned"),
        ("error", "settings", "wrong"),
        ("error", "open now", "opened"),
        ("warning", "", "doubtful"),
        ("note", "", "fresh"),
        ("note", "", "freed"),
    ]
    text = markdown.render(found)
    heads = re.findall(r"Must be looked at: ([a-z ]+) \(", text)
    assert heads == ["lost", "another way", "settings", "open now"]
    assert "before: return 1<br>now: raise Bad" in text and "yes → gone on sm\\_120" in text
    assert "sm\\_120 went on here, and is refused" in text and "open: arg.x" in text


def test_hashes_of_lines() -> None:
    # from GitHub's own algorithm: blanks and tabs do not count, CR LF is one end, equal hashes are numbered
    assert line_hashes(b"a\nb\n", [1, 2, 3]) == line_hashes(b" a\t\r\n b \r\n", [1, 2, 3])
    repeated = line_hashes(b"x\n" * 300, range(1, 301))
    assert repeated[1].endswith(":1") and repeated[2] == repeated[1].replace(":1", ":2")
    assert len({value.partition(":")[0] for value in repeated.values()}) > 1
    assert line_hashes(b"", [1]) == {1: line_hashes(b"", [1])[1]}
    assert line_hashes(b"a", [1, 2]).keys() == {1}


MULTITOOL = os.environ.get("SGLANG_AUDITOR_SARIF", "")


def sarif_log(path: Path, of: Paper, root: Path) -> Path:
    path.write_bytes(
        sarif.dumps(of, source=lambda p: (root / p).read_bytes(), url="https://e.org", automation="a")
    )
    return path


@pytest.fixture
def tool() -> str:
    if not Path(MULTITOOL, "Sarif.Multitool").is_file():
        pytest.skip("no SARIF Multitool: set SGLANG_AUDITOR_SARIF to its folder (make sarif)")
    return str(Path(MULTITOOL, "Sarif.Multitool"))


def run(*words: str) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, "DOTNET_SYSTEM_GLOBALIZATION_INVARIANT": "1"}
    return subprocess.run(words, capture_output=True, text=True, env=env, check=False)


def test_the_log_passes_the_multitool_with_githubs_rules_and_its_own_hashes(
    tool: str, tmp_path: Path
) -> None:
    found = paper(everything=True)
    for number, path in enumerate(sorted({note.path for note in found.notes})):
        file = tmp_path / "src" / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(f"# {number} größer\r\n".encode() + SOURCE)
    ours = sarif_log(tmp_path / "ours.sarif", found, tmp_path / "src")
    schema = json.loads(Path(MULTITOOL, "sarif-2.1.0.json").read_bytes())
    jsonschema.Draft202012Validator(schema).validate(json.loads(ours.read_bytes()))
    broken = json.loads(ours.read_bytes())
    for rule in broken["runs"][0]["tool"]["driver"]["rules"]:
        del rule["help"]
    (tmp_path / "broken.sarif").write_text(json.dumps(broken))
    told = tmp_path / "told.sarif"
    both = str(ours), str(tmp_path / "broken.sarif")
    run(tool, "validate", *both, "--rule-kind", "Sarif;Ghas", "--output", str(told))
    results = [r for one in json.loads(told.read_bytes())["runs"] for r in one.get("results", [])]
    places = {r["locations"][0]["physicalLocation"]["artifactLocation"]["uri"] for r in results}
    assert [place.rpartition("/")[2] for place in places] == ["broken.sarif"], results  # it does find faults

    bare = json.loads(ours.read_bytes())
    bare["runs"][0]["originalUriBaseIds"] = {"SRCROOT": {"uri": f"{(tmp_path / 'src').as_uri()}/"}}
    for result in bare["runs"][0]["results"]:
        del result["partialFingerprints"]["primaryLocationLineHash"]
    (tmp_path / "bare.sarif").write_text(json.dumps(bare))
    hashed = tmp_path / "hashed.sarif"
    done = run(
        tool, "rewrite", str(tmp_path / "bare.sarif"), "--insert", "RollingHashPartialFingerprints",
        "--output", str(hashed),
    )  # fmt: skip
    assert done.returncode == 0, done.stdout
    pairs = zip(
        json.loads(ours.read_bytes())["runs"][0]["results"],
        json.loads(hashed.read_bytes())["runs"][0]["results"],
        strict=True,
    )
    for mine, theirs in pairs:
        name = "primaryLocationLineHash"
        assert mine["partialFingerprints"][name] == theirs["partialFingerprints"][name]


def test_every_format_says_what_was_not_looked_at() -> None:
    report = sample()
    text = "calls of compiled kernels are not judged"
    told = Finding(
        "", "", "pyproject.toml", 1, "", {"sm_120": "undecided", "sm_121": "undecided"}, "note", text
    )
    found = msgspec.structs.replace(report, findings=(*report.findings, told))
    assert head_lines(found, None)[-1] == text
    assert text not in head_lines(report, None)


def test_a_note_is_a_note() -> None:
    note = Note("r", "note", "a.py", 1, 1, "", "m", {}, "k")
    assert note.order < replace(note, line=2).order
    assert replace(note, level="error").order < note.order
