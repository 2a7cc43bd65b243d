"""Every kind of edit has an example in its documentation, and every example there holds."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from auditor import yamlio
from auditor.patching.edits.check import check_edits
from auditor.patching.edits.examples import failed
from auditor.patching.edits.model import KINDS
from auditor.patching.header import PatchFile
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


def test_an_example_can_fail() -> None:
    block = next(block for block in BLOCKS if "set-constant" in block)
    wrong = patch(block.replace("STAGES: int = 2", "STAGES: int = 3"))
    assert failed(wrong.edits, wrong.examples[0], PROFILE) == (
        "the result is another one:\n--- expected\n+++ made\n@@ -1 +1 @@\n"
        "-STAGES: int = 3  # per block\n+STAGES: int = 2  # per block"
    )
    same = patch(re.sub(r"(?s)    after: .*", "    skip: never\n", block))
    assert "change what they are to leave alone" in failed(same.edits, same.examples[0], PROFILE)
