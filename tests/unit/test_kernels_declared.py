"""What a patch says about its kernels is read strictly."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from auditor import yamlio
from auditor.errors import UserError
from auditor.patching.sets.header import PatchFile

DOCS = Path(__file__).parents[2] / "docs" / "kernels.md"


def _example() -> str:
    return re.findall(r"```yaml\n(.*?)```", DOCS.read_text(), re.DOTALL)[0]


def test_the_example_of_the_docs_is_a_patch() -> None:
    file = yamlio.load(_example().encode(), "x.yaml", code="P022").convert(PatchFile)
    (kernel,) = file.kernels
    assert (kernel.function, kernel.language, kernel.tensor_cores) == ("_logits", "triton", "required")
    assert kernel.signature["q"] == "*fp8e4nv" and kernel.configs == "CONFIGS"
    assert kernel.variants == ({"PAGED": True}, {"PAGED": False, "PAGE": 1})
    assert kernel.launch is not None and kernel.launch.shapes[1] == {
        "B": 16,
        "entries": 32768,
        "BLOCK_N": 128,
    }


@pytest.mark.parametrize(
    ("old", "new", "fact"),
    [
        ("tensor-cores: required", "tensor-cores: maybe", "maybe"),
        ("tensor-cores: required              # or none", "", "`tensor-cores` is missing"),
        ("function: _logits", "function: a.b", "function"),
        ("blocks-per-sm: 1", "blocks-per-sm: 0", "blocks-per-sm"),
        ("launch:", "launched:", "unknown field `launched`"),
    ],
)
def test_a_wrong_field_is_named(old: str, new: str, fact: str) -> None:
    text = _example().replace(old, new, 1)
    assert text != _example()
    with pytest.raises(UserError, match=re.escape(fact)) as caught:
        yamlio.load(text.encode(), "x.yaml", code="P022").convert(PatchFile)
    assert caught.value.code == "P022"
