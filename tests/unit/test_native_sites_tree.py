"""Unguarded calls of a real tree: the chain is derived, and a guard makes the finding vanish.

Needs a clone of SGLang in SGLANG_AUDITOR_HISTORY. What is expected was found by reading the source.
"""

from __future__ import annotations

import os

import pytest

from auditor.gates.audit import AuditOptions, audit
from auditor.gates.model import Finding
from auditor.trees.base import SourceTree
from auditor.trees.open import TreeSpec, open_tree
from auditor.trees.overlay import OverlayTree

BACKEND = "python/sglang/srt/layers/attention/deepseek_v4_backend.py"
TEST = "            if forward_batch.forward_mode.is_extend_without_speculative() and ("
#: file -> unguarded findings of sm_120 and sm_121 in it, with their severity
EXPECTED = {
    "deepseek_v4_backend.py": ["error"],  # any start of DeepSeek V4 comes here with a long prompt
    "dsa_backend.py": ["error", "warning"],  # picked for a bf16 cache; flashmla_kv only by hand
    "flashattention_backend.py": ["warning"],  # the main path asserts; a draft backend by hand does not
    "flashmla_backend.py": ["warning"],
    "xpu_backend.py": ["warning"],
    "cutlass_w4a8_moe.py": ["warning"] * 3,  # a w4afp8 checkpoint
}


@pytest.fixture(scope="module")
def tree() -> SourceTree:
    history = os.environ.get("SGLANG_AUDITOR_HISTORY", "")
    if not history:
        pytest.skip("SGLANG_AUDITOR_HISTORY does not name a clone of SGLang")
    return open_tree(TreeSpec(path=history, commit="735a256"), distribution="sglang", default_url=None)


def unguarded(tree: SourceTree) -> list[Finding]:
    report = audit(tree, AuditOptions(targets=("sm_120", "sm_121"), use_cache=False))
    return [f for f in report.findings if "unguarded" in f.verdict.values()]


def changed(tree: SourceTree, old: str, new: str) -> OverlayTree:
    text = tree.read(BACKEND).decode()
    assert text.count(old) == 1
    return OverlayTree(tree, {BACKEND: text.replace(old, new).encode()})


@pytest.mark.history
def test_the_chain_is_derived_and_every_finding_is_known(tree: SourceTree) -> None:
    found = unguarded(tree)
    (one,) = [f for f in found if f.path == BACKEND]
    assert (one.line, one.symbol) == (1405, "DeepseekV4AttnBackend.forward")
    assert one.verdict == {"sm_120": "unguarded", "sm_121": "unguarded"}
    chain = "flash_mla_sparse_fwd (deepseek_v4_backend.py:1551) ← sgl_kernel.sparse_prefill_fwd ← "
    assert f"{chain}flashmla_ops: 90a 100a 103a" in one.detail
    by_file: dict[str, list[str]] = {}
    for finding in found:
        by_file.setdefault(finding.path.rpartition("/")[2], []).append(finding.severity)
    assert {name: sorted(words) for name, words in by_file.items()} == EXPECTED


@pytest.mark.history
@pytest.mark.parametrize(
    "old, new",
    [
        (TEST, TEST.replace("if ", "if not _is_sm120 and ")),
        (TEST, f"            if _is_sm120:\n                raise NotImplementedError\n{TEST}"),
        (
            "        from sgl_kernel.flash_mla import flash_mla_sparse_fwd\n",
            "        from sgl_kernel.flash_mla import flash_mla_sparse_fwd\n\n        assert not _is_sm120\n",
        ),
    ],
)
def test_a_guard_makes_it_vanish_and_come_back(tree: SourceTree, old: str, new: str) -> None:
    guarded = changed(tree, old, new)
    assert BACKEND not in {f.path for f in unguarded(guarded)}
    if new.startswith(TEST[:16]) and "not _is_sm120 and" in new:
        again = changed(guarded, new, old)
        assert BACKEND in {f.path for f in unguarded(again)}
