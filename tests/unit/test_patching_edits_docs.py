"""Every kind of edit has an example in its documentation, and every example there holds."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from auditor import yamlio
from auditor.errors import UserError
from auditor.patching.edits.check import check_edits
from auditor.patching.edits.examples import failed
from auditor.patching.edits.model import KINDS
from auditor.patching.edits.templates import template
from auditor.patching.sets.header import PatchFile
from auditor.patching.sets.lint import lint_patchset
from auditor.queries.exampletree import PROFILE

PAGE = (Path(__file__).parents[2] / "docs" / "edits.md").read_text()
BLOCKS = re.findall(r"(?m)^```yaml\n(.*?)^```", PAGE, re.DOTALL)


def patch(block: str) -> PatchFile:
    document = yamlio.load(("title: A patch\n" + block).encode(), "edits.md", code="P022")
    file = document.convert(PatchFile)
    check_edits(file.edits, document)
    return file


def test_every_kind_is_there() -> None:
    used = {kind for block in BLOCKS for edit in patch(block).edits for kind in edit.kinds()}
    assert used == set(KINDS)


@pytest.mark.parametrize("block", BLOCKS, ids=[block.split()[2].strip(":") for block in BLOCKS])
def test_examples_hold(block: str) -> None:
    file = patch(block)
    for example in file.examples:
        assert failed(file.edits, example, PROFILE) == ""


@pytest.mark.parametrize("kind", KINDS)
def test_templates_are_read(kind: str) -> None:
    assert patch("edits:\n" + template(kind)).edits[0].kinds() == [kind]


def test_no_template_for_what_is_no_kind() -> None:
    with pytest.raises(UserError) as caught:
        template("narow")
    assert (caught.value.code, caught.value.hints) == ("P022", ("--edit narrow",))


def test_lint_runs_the_examples(tmp_path: Path) -> None:
    folder = tmp_path / "patchsets" / "mine"
    (folder / "patches").mkdir(parents=True)
    (folder / "patchset.yaml").write_text("title: Mine\nupstreams: {sglang: {}}\norder: [one]\n")
    head = "title: One\nwhy: {kind: local-only, reason: mine}\nremoval: later\nstatus: Pending\n"
    block = next(block for block in BLOCKS if "set-constant" in block)
    path = folder / "patches" / "one.yaml"
    path.write_text(head + block)
    assert lint_patchset(folder) == []
    path.write_text(head + block.replace("STAGES: int = 2", "STAGES: int = 3"))
    (problem,) = lint_patchset(folder)
    assert (problem.code, problem.place) == ("P027", f"{folder.as_posix()}/patches/one.yaml:8:5")
    path.write_text(head + "edits:\n  - add-file: {path: example/x.py, from: x.py}\n")
    (problem,) = lint_patchset(folder)
    assert (problem.code, problem.message) == ("P024", "files/x.py is not listed")


def test_an_example_can_fail() -> None:
    block = next(block for block in BLOCKS if "set-constant" in block)
    wrong = patch(block.replace("STAGES: int = 2", "STAGES: int = 3"))
    assert failed(wrong.edits, wrong.examples[0], PROFILE) == (
        "the result is another one:\n--- expected\n+++ made\n@@ -1 +1 @@\n"
        "-STAGES: int = 3  # per block\n+STAGES: int = 2  # per block"
    )
    same = patch(re.sub(r"(?s)    after: .*", "    skip: never\n", block))
    assert "change what they are to leave alone" in failed(same.edits, same.examples[0], PROFILE)
