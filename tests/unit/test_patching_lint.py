"""``patches lint``: every kind of thing to mend is found, where it stands; a good patchset is left alone."""

# ruff: noqa: E501

from __future__ import annotations

import json
from pathlib import Path

import pytest

from auditor.cli import groups
from auditor.cli.clickrun import run
from auditor.patching.sets.lint import lint_patchset
from tests.unit.test_patching_patchset import EDITS, HEAD, PATCHSET, REFERENCE, made

DIFF = """\
diff --git a/pkg/mod.py b/pkg/mod.py
--- a/pkg/mod.py
+++ b/pkg/mod.py
@@ -1,3 +1,3 @@
 a
-b
+B
 c
@@ -9,2 +9,3 @@
 y
+Y
 z
"""


def found(root: Path) -> list[str]:
    return [
        f"{problem.code} {problem.place.split('/')[-1]} {problem.message}" for problem in lint_patchset(root)
    ]


def test_nothing_to_mend(tmp_path: Path) -> None:
    assert found(made(tmp_path)) == []


@pytest.mark.parametrize(
    ("file", "old", "new", "expected"),
    [
        ("patches/one.patch", "X-Why: local-only: no card upstream\n", "",
         "P023 one.patch no why: a patch says whether it is going upstream, local only, or incompatible by design"),
        ("patches/one.patch", ": no card upstream", "", "P023 one.patch local-only, but no reason says why"),
        ("patches/one.patch", "X-Removal: when the card is tested\n", "",
         "P023 one.patch no removal plan: a patch says when it can go"),
        ("patches/one.patch", "Upstream-Status: Pending\n", "", "P023 one.patch no status"),
        ("patches/one.patch", "Status: Pending\n", "Status: Pending\nForwarded: https://example.org\n",
         "P023 one.patch the DEP-3 fields say Submitted [https://example.org], Upstream-Status says Pending"),
        ("patches/one.patch", "Status: Pending\n", "Status: Pending\nLast-Update: 3.3.2026\n",
         "P023 one.patch Last-Update is a day, not '3.3.2026'"),
        ("patches/one.patch", "Status: Pending", "Status: Submitted [x]",
         "P023 one.patch local-only, but submitted upstream"),
        ("patches/one.patch", "local-only", "incompatible",
         "P023 one.patch incompatible by design, but pending"),
        ("patches/one.patch", "X-Why: local-only: no card upstream", "X-Why: going-upstream",
         "P023 one.patch going upstream, but no link says where"),
        ("patches/one.patch", "X-Removal", "X-Applies: sglang >=x\nX-Removal",
         "P021 one.patch not version specifiers: '>=x'"),
        ("patches/one.patch", "X-Removal", "X-Applies: vllm >=1\nX-Removal",
         "P023 one.patch applies names vllm, which is no upstream of this patchset"),
        ("patches/two.yaml", "Submitted [https://example.org/3]", "Inappropriate [x]",
         "P023 two.yaml:4:1 going upstream, and Inappropriate there"),
        ("patches/two.yaml", "Submitted [https://example.org/3]", "Merged",
         "P023 two.yaml:4:1 the status 'Merged' is not one of Pending, Submitted, Backport, Denied, "
         "Inactive-Upstream, Inappropriate, with a detail in [ ]"),
        ("patches/three.yaml", "sm_120]", "sm_999]", "P023 three.yaml:6:1 no such target: sm_999"),
        ("patches/three.yaml", "gate: area/name", "gate: area/name\n    query: x/y",
         "P023 three.yaml:7:1 an expectation names one of query, gate and predicate"),
        ("patches/three.yaml", "expect: {sm_120: true, default: unchanged}", "expect: {}",
         "P023 three.yaml:7:1 an expectation without `expect:` checks nothing"),
        ("patches/three.yaml", "verify:", "upstreamed-when: {gate: a, expect: {sm_120: unchanged}}\nverify:",
         "P023 three.yaml:7:1 `unchanged` cannot say that something is upstream"),
        ("patches/three.yaml", "requires: [one]", "requires: [four]",
         "P025 three.yaml:5:1 requires four, which is not in the order list"),
        ("patches/three.yaml", "requires: [one]", "requires: [three]",
         "P025 three.yaml:5:1 three requires itself"),
        ("patches/three.yaml", "requires: [one]", "project: vllm",
         "P023 three.yaml:5:1 vllm is no upstream of this patchset"),
        ("patchset.yaml", "two, three", "three", "P024 two.yaml this patch is not in the order list, so nothing applies it"),
        ("patchset.yaml", "two, three", "two, three, one", "P024 patchset.yaml:5:26 one is listed twice"),
        ("patchset.yaml", ">=0.5.12", "0.5.12", "P021 patchset.yaml:3:22 not version specifiers: '0.5.12,<0.6'"),
        ("patchset.yaml", "order", "files: {k.py: {licence: MIT, provenance: x}}\norder",
         "P024 patchset.yaml:5:9 no such file: files/k.py"),
        ("patchset.yaml", "order", "policy: {exclude: ['pkg/*']}\norder",
         "P024 one.patch pkg/mod.py is touched, which the policy excludes: pkg/*"),
        ("patches/one.patch", "@@ -1,3 +1,3 @@", "@@ -1,3 +4,3 @@",
         "P023 one.patch pkg/mod.py: the hunk at line 1 says it lands at 4; with the hunks before it that is 1"),
        ("patches/one.patch", "+B\n", "+<<<<<<< ours\n",
         "P006 one.patch:12 an added line is a marker of an unsolved merge: <<<<<<< ours"),
        ("patches/one.patch", "b/pkg/mod.py", "b/../mod.py", "P004 one.patch:6 the path '../mod.py' leaves the tree"),
    ],
)  # fmt: skip
def test_one_thing_to_mend(tmp_path: Path, file: str, old: str, new: str, expected: str) -> None:
    root = made(tmp_path)
    text = (root / file).read_text()
    assert old in text
    (root / file).write_text(text.replace(old, new))
    assert expected in found(root)


def test_order_and_rings(tmp_path: Path) -> None:
    root = made(tmp_path, **{"patchset.yaml": PATCHSET.replace("one, two, three", "three, two, one")})
    assert found(root) == ["P025 three.yaml:5:1 requires one, which comes later"]
    head = HEAD.replace("X-Removal", "X-Requires: three\nX-Removal")
    (root / "patches" / "one.patch").write_text(head + DIFF)
    assert "P025 three.yaml:5:1 patches require each other: three -> one -> three" in found(root)


def test_what_lies_about(tmp_path: Path) -> None:
    lies = {"patches/four.patch": HEAD + DIFF, "patches/note.txt": "x", "files/k.cu": "x"}
    root = made(tmp_path, **lies, **{"files/pkg/__pycache__/k.cpython-311.pyc": "x"})
    assert found(root) == [
        "P024 k.cu a file without licence and provenance",
        "P024 four.patch this patch is not in the order list, so nothing applies it",
        "P024 note.txt neither a .yaml nor a .patch file",
    ]


def test_the_same_hunk_twice(tmp_path: Path) -> None:
    order = PATCHSET.replace("two, three", "two, three, four")
    root = made(tmp_path, **{"patchset.yaml": order, "patches/four.patch": HEAD + DIFF})
    assert "P008 four.patch the hunk at line 1 of pkg/mod.py is in one too" in found(root)


def test_all_problems_are_found_at_once_and_sorted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    root = made(
        tmp_path,
        **{
            "patches/one.patch": DIFF,
            "patches/two.yaml": REFERENCE.replace("removal: when it is released\n", ""),
            "patches/three.yaml": EDITS.replace("edits:", "edts:"),
        },
    )
    monkeypatch.chdir(tmp_path)
    assert run(groups.patches, "patches", ["lint", "mine", "--format", "json"]) == 1
    rows = json.loads(capsys.readouterr().out)["problems"]
    assert [(row["code"], row["place"].split("/")[-1]) for row in rows] == [
        ("P023", "one.patch"), ("P023", "one.patch"), ("P023", "one.patch"),
        ("P022", "three.yaml:10:1"), ("P023", "two.yaml:1:1"),
    ]  # fmt: skip
    assert rows[3]["hints"] == ["write `edits` instead of `edts`"]
    assert run(groups.patches, "patches", ["lint"]) == 1
    assert "5 problems in" in capsys.readouterr().err
    assert root.is_dir()


def test_examples_are_tests(tmp_path: Path) -> None:
    from auditor.patching.incoming.scaffold import new_patch, new_patchset

    folder = tmp_path / "patchsets"
    new_patchset("mine", folder, title="Mine", project="sglang", url="")
    path = new_patch("mine", "gate", folder)
    assert found(folder / "mine") == []
    text = path.read_text()
    path.write_text(text.replace("card.major == 10 or card.major == 12", "card.major in (10, 12)", 1))
    (problem,) = lint_patchset(folder / "mine")
    assert problem.code == "P027" and problem.place.endswith("gate.yaml:22:5")
    assert problem.message.startswith(
        "example 1 (The arm is taken for this family too): the result is another"
    )
    path.write_text(
        text.replace("    skip: it is there already", "    skip: x").replace("== 12:\n", "== 13:\n")
    )
    assert [row.split(":")[0] for row in found(folder / "mine")] == ["P027 gate.yaml", "P027 gate.yaml"]
