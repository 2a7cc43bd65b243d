"""Each route of a kernel on the real tree: what it needs is there, and names that are taken are found.

Needs a clone of SGLang in SGLANG_AUDITOR_HISTORY.
"""

from __future__ import annotations

import os

import msgspec
import pytest

from auditor import yamlio
from auditor.patching.edits.apply import apply
from auditor.patching.edits.check import check_edits
from auditor.patching.edits.model import Edit
from auditor.patching.model import Outcome
from auditor.profile import load_profile
from auditor.trees.base import SourceTree
from auditor.trees.open import TreeSpec, open_tree

FILES = {
    "scale.py": b"import torch\n\n\ndef launch(x, s, out):\n    out.copy_(x * s)\n",
    "scale.cuh": b"#pragma once\n",
    "scale.cu": b"void mine_scale() {}\n",
}
PROJECT = """
- register-kernel:
    in: sglang.srt.layers.attention.mine_scale
    operator: sglang::NAME
    through: project
    file: {path: python/sglang/srt/layers/attention/mine_scale.py, from: scale.py}
    schema: "(Tensor x, float s, Tensor(a!) out) -> ()"
    implementation: |
      def NAME(x: torch.Tensor, s: float, out: torch.Tensor) -> None:
          launch(x, s, out)
    fake: |
      def _mine_fake(x: torch.Tensor, s: float, out: torch.Tensor) -> None:
          return None
    flag: {name: SGLANG_MINE_SCALE, as: EnvBool(True)}
    dispatch:
      - in: sglang.srt.layers.attention.flash_mla_sm120.flash_mla_with_kvcache_sm120
        at: q = kwargs["q"]
        when: is_sm120_supported()
        off: not envs.SGLANG_MINE_SCALE.get()
        imports:
          - from sglang.srt.environ import envs
          - from sglang.srt.utils import is_sm120_supported
          - from sglang.srt.layers.attention.mine_scale import NAME
        code: NAME(kwargs["q"], 1.0, kwargs["q"])
"""
JIT = """
- register-kernel:
    in: sglang.srt.layers.attention.mine_scale
    operator: sglang::mine_jit
    through: project
    file: {path: python/sglang/srt/layers/attention/mine_scale.py, from: scale.py}
    jit: {source: mine/scale.cuh, from: scale.cuh, function: "Mine::run", suffix: a}
    schema: "(Tensor x, Tensor(a!) out) -> ()"
    implementation: |
      def mine_jit(x: torch.Tensor, out: torch.Tensor) -> None:
          _jit_mine_jit_module().mine_jit(x, out)
    fake: |
      def _mine_fake(x: torch.Tensor, out: torch.Tensor) -> None:
          return None
"""
NATIVE = """
- register-kernel:
    in: sgl-kernel/python/sgl_kernel/elementwise.py
    operator: sgl_kernel::NAME
    schema: "(Tensor! out, Tensor x, float s) -> ()"
    expose: sgl-kernel/python/sgl_kernel/__init__.py
    native:
      source: {path: sgl-kernel/csrc/elementwise/mine_scale.cu, from: scale.cu}
      cmake: {path: sgl-kernel/CMakeLists.txt, list: SOURCES, member: csrc/elementwise/mine_scale.cu}
      definition:
        path: sgl-kernel/csrc/common_extension.cc
        after: "  m.impl(\\"rmsnorm\\", torch::kCUDA, &rmsnorm);\\n"
      implementation:
        path: sgl-kernel/csrc/common_extension.cc
        before: "\\n  m.def(\\"fused_add_rmsnorm(Tensor"
    wrapper: |
      def NAME(out: torch.Tensor, x: torch.Tensor, s: float) -> None:
          torch.ops.sgl_kernel.NAME.default(out, x, s)
"""


@pytest.fixture(scope="module")
def tree() -> SourceTree:
    history = os.environ.get("SGLANG_AUDITOR_HISTORY", "")
    if not history:
        pytest.skip("SGLANG_AUDITOR_HISTORY does not name a clone of SGLang")
    return open_tree(TreeSpec(path=history, commit="735a256"), distribution="sglang", default_url=None)


def made(tree: SourceTree, text: str, name: str = "") -> Outcome:
    document = yamlio.load(("edits:\n" + text.replace("NAME", name)).encode(), "patch.yaml", code="P022")
    edits = msgspec.convert(document.data["edits"], tuple[Edit, ...])
    check_edits(edits, document)
    return apply(edits, tree, load_profile("sglang"), files=FILES.__getitem__)


@pytest.mark.history
def test_the_routes_go(tree: SourceTree) -> None:
    outcome = made(tree, PROJECT, "mine_scale")
    assert outcome.status == "clean", outcome
    assert set(outcome.files) == {
        "python/sglang/srt/environ.py",
        "python/sglang/srt/layers/attention/flash_mla_sm120.py",
        "python/sglang/srt/layers/attention/mine_scale.py",
    }
    outcome = made(tree, JIT)
    assert outcome.status == "clean", outcome
    assert "python/sglang/jit_kernel/csrc/mine/scale.cuh" in outcome.files
    assert b"from sglang.jit_kernel.utils import cache_once  # noqa: E402\n" in (
        outcome.files["python/sglang/srt/layers/attention/mine_scale.py"] or b""
    )
    outcome = made(tree, NATIVE, "mine_scale")
    assert outcome.status == "clean", outcome
    cmake = (outcome.files["sgl-kernel/CMakeLists.txt"] or b"").decode()
    before = cmake.partition('    "csrc/elementwise/mine_scale.cu"\n')[0]
    assert before.endswith('fused_add_rms_norm_kernel.cu"\n')


@pytest.mark.history
@pytest.mark.parametrize(
    "text, name, place",
    [
        (PROJECT, "unified_attention_with_output", "python/sglang/srt/layers/radix_attention.py:158"),
        (NATIVE, "merge_state_v2", "sgl-kernel/csrc/common_extension.cc:57"),
    ],
)
def test_taken_names(tree: SourceTree, text: str, name: str, place: str) -> None:
    notes = [hunk.note for hunk in made(tree, text, name).hunks if hunk.status == "conflict"]
    assert len(notes) == 1 and notes[0].startswith("P079: ") and "is taken" in notes[0], notes
    assert place in notes[0]
