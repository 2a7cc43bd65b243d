"""A guard that is added makes a finding go, one that is deleted makes it come: tried in real trees.

    python scripts/guards_trial.py
    SGLANG_AUDITOR_CLONE=PATH python scripts/guards_trial.py 0.5.14 0.5.20 735a256

Of each tree the part that the places need (releases are wheels in ``.cache/wheels``: ``make wheels``; the
commit brings the C++ of its kernels), and a mutant of it in which every place got its guard, or lost it.
Prints a row per place; exit code 1 where a finding did not follow. Two audits a tree, 3 to 5 CPU seconds
each.
"""

from __future__ import annotations

import argparse
import ast
import os
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import groupby
from typing import Any, NamedTuple

from mutations import report_of, wheel

from auditor.gates.model import Report
from auditor.queries.exampletree import MemoryTree
from auditor.trees.base import SourceTree
from auditor.trees.open import TreeSpec, open_tree

PART = (
    *(
        f"sglang/srt/layers/{name}"
        for name in (
            "attention/attention_registry",
            "attention/deepseek_v4_backend",
            "attention/dsa_backend",
            "attention/dsv4/",
            "attention/flash",
            "attention/triton_ops/extend",
            "attention/xpu_backend",
            "deep_gemm_wrapper/",
            "moe/cutlass",
            "moe/ep_moe/",
            "moe/moe_runner/",
            "quantization/fp8",
            "quantization/w4afp8",
        )
    ),
    "sglang/srt/utils/",
    "sglang/srt/server_args.py",
    "sglang/srt/environ.py",
    "sglang/jit_kernel/flash_attention",
)
NATIVE_PART = (
    *(
        f"python/sglang/srt/layers/{name}"
        for name in (
            "attention/attention_registry",
            "attention/cutlass_mla",
            "moe/cutlass",
            "moe/ep_moe/",
            "quantization/fp8",
            "quantization/w4afp8",
            "quantization/w8a8_int8",
        )
    ),
    "python/sglang/srt/utils/",
    "python/sglang/srt/server_args.py",
    "python/sglang/srt/environ.py",
    "python/pyproject.toml",
    "sgl-kernel/CMakeLists.txt",
    "sgl-kernel/cmake/",
    "sgl-kernel/csrc/attention/cutlass_",
    "sgl-kernel/csrc/common_extension.cc",
    "sgl-kernel/csrc/cutlass_extensions/",
    "sgl-kernel/csrc/gemm/int8",
    "sgl-kernel/csrc/moe/cutlass_moe",
    "sgl-kernel/csrc/moe/fp8_blockwise",
    "sgl-kernel/include/",
    "sgl-kernel/python/",
)
LATER_PART = (
    "sglang/srt/layers/attention/deepseek_v4",
    "sglang/srt/layers/attention/dsv4/",
    "sglang/srt/layers/deep_gemm_wrapper/",
    "sglang/srt/utils/",
    "sglang/srt/server_args.py",
    "sglang/srt/arg_groups/",
    "sglang/srt/environ.py",
    "sglang/srt/runtime_context.py",
)
FAMILY = ("sm_120", "sm_121")
LAYERS = "sglang/srt/layers"
ROOT = "torch.cuda.get_device_capability()[0] == 12"
BETWEEN = "(12, 0) <= torch.cuda.get_device_capability() < (13, 0)"
HELPER = "from sglang.srt.utils import is_sm120_supported\n"
Change = Callable[[Any], Any]


@dataclass(frozen=True)
class Place:
    """Where a guard is added or deleted, and the finding that must go or come: the verdict in ``told`` (or in
    the same file), with ``word`` in its message or detail."""

    what: str
    path: str
    symbol: str
    change: Change
    word: str
    verdict: str = "unguarded"
    told: str = ""


def first(text: str) -> Change:
    """Statements at the beginning of a function."""

    def change(node: Any) -> None:
        node.body[:0] = ast.parse(text).body

    return change


def narrowed(word: str, guard: str) -> Change:
    """``not guard and`` before the conditions of the ``if`` statements that mention a word."""

    def change(node: Any) -> None:
        for child in ast.walk(node):
            if isinstance(child, ast.If) and word in ast.unparse(child.test):
                child.test = ast.parse(f"not ({guard}) and ({ast.unparse(child.test)})", mode="eval").body

    return change


def replaced(old: str, new: str) -> Change:
    """Another condition."""

    def change(node: Any) -> None:
        for child in ast.walk(node):
            if isinstance(child, ast.If) and ast.unparse(child.test) == old:
                child.test = ast.parse(new, mode="eval").body

    return change


class _Without(ast.NodeTransformer):
    def __init__(self, test: str) -> None:
        self.test = test

    def visit_If(self, node: ast.If) -> Any:
        self.generic_visit(node)
        return (node.orelse or ast.Pass()) if ast.unparse(node.test) == self.test else node

    def visit_Assert(self, node: ast.Assert) -> Any:
        return ast.Pass() if self.test in ast.unparse(node.test) else node


def without(test: str) -> Change:
    """The arm of a test, or the assertion, is gone; what stood in ``else`` is left."""

    def change(node: Any) -> None:
        _Without(test).visit(node)

    return change


class _Under(ast.NodeTransformer):
    def __init__(self, call: str, test: str) -> None:
        self.call, self.test = call, test

    def visit_Expr(self, node: ast.Expr) -> Any:
        if ast.unparse(node).startswith(self.call):
            return ast.If(ast.parse(self.test, mode="eval").body, [node], [])
        return node


class _Freed(ast.NodeTransformer):
    def __init__(self, test: str) -> None:
        self.test = test

    def visit_If(self, node: ast.If) -> Any:
        self.generic_visit(node)
        return node.body if ast.unparse(node.test) == self.test else node


def freed(test: str) -> Change:
    """What a test guards is done without it."""

    def change(node: Any) -> None:
        _Freed(test).visit(node)

    return change


def dropped(part: str) -> Change:
    """Conditions without one of the parts that have to hold together."""

    def change(node: Any) -> None:
        for child in ast.walk(node):
            if isinstance(child, ast.If) and isinstance(child.test, ast.BoolOp):
                left = [value for value in child.test.values if ast.unparse(value) != part]
                child.test.values = left

    return change


def under(call: str, test: str) -> Change:
    """A condition around the calls that begin with a text."""

    def change(node: Any) -> None:
        _Under(call, test).visit(node)

    return change


def text(old: str, new: str) -> Change:
    """Other text in a file that is not Python: each place that a pattern finds."""
    return lambda whole: re.sub(old, new, whole, flags=re.DOTALL)


RAISES = f"import torch\nif {ROOT}:\n    raise NotImplementedError('not on 12.x')"
ASSERTS = f"{HELPER}assert not is_sm120_supported()"
CONFIGURER = f"{LAYERS}/deep_gemm_wrapper/configurer.py"
DSA = f"{LAYERS}/attention/dsa_backend.py"
DSV4 = f"{LAYERS}/attention/deepseek_v4_backend.py"
W4A8 = f"{LAYERS}/moe/cutlass_w4a8_moe.py"
CUTLASS = f"{LAYERS}/moe/cutlass_moe.py"
REGISTRY = f"{LAYERS}/attention/attention_registry.py"
ARGUMENTS = "sglang/srt/server_args.py"
ADJUST = "ServerArgs._handle_model_specific_adjustments"
FLAG = "envs.SGLANG_OPT_USE_TOPK_V2"

ADDED = (
    Place("a condition, with the file's own alias", DSV4, "DeepseekV4AttnBackend.forward",
          narrowed("is_extend_without_speculative", "_is_sm120"), "flash_mla_sparse_fwd"),
    Place("`raise` behind a root", DSA, "DeepseekSparseAttnBackend._forward_flashmla_sparse",
          first(RAISES), "flash_mla_sparse_fwd"),
    Place("`assert` of a helper", DSA, "DeepseekSparseAttnBackend._forward_flashmla_kv",
          first(ASSERTS), "flash_mla_with_kvcache"),
    Place("`raise` in the constructor", f"{LAYERS}/attention/flashmla_backend.py", "FlashMLABackend.__init__",
          first(RAISES), "get_mla_metadata"),
    Place("`assert` in the constructor", f"{LAYERS}/attention/flashattention_backend.py",
          "FlashAttentionBackend.__init__", first(ASSERTS), "get_scheduler_metadata"),
    Place("`raise` where it is registered", REGISTRY, "create_intel_xpu_backend", first(RAISES),
          "flash_attn_with_kvcache", told=f"{LAYERS}/attention/xpu_backend.py"),
    Place("early `return`", W4A8, "cutlass_w4a8_moe",
          first(f"{HELPER}if is_sm120_supported():\n    return None"), "cutlass_w4a8_moe"),
    Place("`raise` of a tuple comparison", W4A8, "cutlass_w4a8_moe_deepep_normal",
          first(f"import torch\nif {BETWEEN}:\n    raise ValueError"),
          "cutlass_w4a8_moe_deepep_normal"),
    Place("a chain of helpers", W4A8, "cutlass_w4a8_moe_deepep_ll",
          first(f"{HELPER}wide = is_sm120_supported()\nsmall = not wide\nassert small, 'no'"),
          "cutlass_w4a8_moe_deepep_ll"),
    Place("an environment flag is asked whether it is set", ARGUMENTS, ADJUST,
          under(f"{FLAG}.set(", f"not {FLAG}.is_set()"), FLAG, "env-forced"),
    Place("a default of the server's arguments", ARGUMENTS, ADJUST,
          replaced("is_cuda() and get_device_sm() >= 80",
                   "is_cuda() and get_device_sm() >= 80 and not is_sm120_supported()"),
          "becomes fa3", "wrong-default"),
)  # fmt: skip
DELETED = (
    Place("an arm of its own", DSV4, "_create_flashmla_metadata", without("_is_sm120"), "get_mla_metadata"),
    Place("`if` / `else`", DSV4, "DeepseekV4AttnBackend.forward", without("_is_sm120"),
          "flash_mla_with_kvcache"),
    Place("`assert` of a helper", CUTLASS, "cutlass_fused_experts_fp8", without("is_sm100_supported()"),
          "es_sm100_mxfp8_blockscaled_grouped"),
    Place("a condition of a branch", CUTLASS, "cutlass_fused_experts_fp8",
          replaced("is_sm90_supported() and es_up", "es_up"), "es_fp8_blockwise_scaled_grouped_mm"),
    Place("`raise` in a wrapper", "sglang/jit_kernel/flash_attention_v3.py", "flash_attn_with_kvcache",
          without("not _is_fa3_supported()"), "flash_attn_with_kvcache"),
    Place("a default's family", ARGUMENTS, "ServerArgs._get_default_attn_backend",
          replaced("is_hopper_with_cuda_12_3() and is_no_spec_infer_or_topk_one(self)",
                   "is_no_spec_infer_or_topk_one(self)"), "becomes fa3", "wrong-default"),
    Place("an arm of a default", ARGUMENTS, "ServerArgs._handle_deterministic_inference",
          replaced("is_sm100_supported() or is_sm120_supported()", "is_sm100_supported()"),
          "becomes fa3", "wrong-default"),
    Place("the sibling", f"{LAYERS}/attention/triton_ops/extend_attention.py",
          "_get_block_sizes_for_extend_attention",
          replaced("_is_cuda and CUDA_CAPABILITY[0] == 12", "_is_cuda and CUDA_CAPABILITY == (12, 0)"),
          "CUDA_CAPABILITY", "missed-variant"),
    Place("early `return`", CONFIGURER, "_compute_enable_deep_gemm", without("sm_version == 120"),
          "sgl-deep-gemm"),
)  # fmt: skip
MHC = "envs.SGLANG_OPT_USE_TILELANG_MHC_PRE"
HOOK = "sglang/srt/arg_groups/model_hook.py"
LATER_ADDED = (
    Place("the sibling is named too", CONFIGURER, "_compute_enable_deep_gemm",
          replaced("sm_version == 120", "sm_version in (120, 121)"), "sm_version", "missed-variant"),
)  # fmt: skip
LATER_DELETED = (
    Place("whether an environment flag is set", HOOK, "handle_model_specific_adjustments",
          freed(f"not {MHC}.is_set()"), MHC, "env-forced"),
    Place("a condition before an early `return`", DSV4, "DeepseekV4AttnBackend.forward",
          dropped("not get_platform().is_sm120"), "_forward_prefill_sparse"),
)  # fmt: skip
SOURCES = "sgl-kernel/csrc"
NATIVE_ADDED = (
    Place("`TORCH_CHECK` of the capability", f"{SOURCES}/moe/cutlass_moe/w4a8/scaled_mm_entry.cu",
          "cutlass_w4a8_moe_mm",
          text(r"int64_t topk\) \{\n  (?=cutlass_w4a8_moe_mm_sm90)",
               r"\g<0>TORCH_CHECK(get_sm_version_num() == 90, \"9.0 only\");\n  "),
          "cutlass_w4a8_moe_mm", told=f"python/{W4A8}"),
)  # fmt: skip
NATIVE_DELETED = (
    Place("`TORCH_CHECK` of the capability", f"{SOURCES}/attention/cutlass_mla_kernel.cu",
          "cutlass_mla_decode", text(r"TORCH_CHECK\(sm_version == 100\b.*?\);", ""), "cutlass_mla_decode",
          told=f"python/{LAYERS}/attention/cutlass_mla_backend.py"),
    Place("the last `else` of a chain", f"{SOURCES}/gemm/int8_gemm_kernel.cu", "int8_scaled_mm",
          text(r"TORCH_CHECK_NOT_IMPLEMENTED\(\s*false\b.*?\);", ""), "int8_scaled_mm",
          told=f"python/{LAYERS}/quantization/w8a8_int8.py"),
    Place("a check of what was done", f"{SOURCES}/moe/fp8_blockwise_moe_kernel.cu",
          "fp8_blockwise_scaled_grouped_mm",
          text(r"TORCH_CHECK_NOT_IMPLEMENTED\(\s*can_implement\b.*?\);", ""),
          "fp8_blockwise_scaled_grouped_mm", told=f"python/{CUTLASS}"),
)  # fmt: skip


def found(report: Report, place: Place) -> set[tuple[str, str, str]]:
    """The findings of a place: symbol, severity and message."""
    return {
        (finding.symbol, finding.severity, finding.message)
        for finding in report.findings
        if finding.path == (place.told or place.path)
        and (not place.verdict or place.verdict in (finding.verdict["sm_120"], finding.verdict["sm_121"]))
        and (place.told or place.symbol == finding.symbol or place.verdict == "unguarded")
        and any(place.word in text for text in (finding.message, finding.symbol, *finding.detail))
    }


def mutant(tree: SourceTree, places: Iterable[Place]) -> MemoryTree:
    """The tree with every place changed."""
    files: dict[str, str | bytes] = dict(tree.read_many(tree.blobs()))
    for path, here in groupby(sorted(places, key=lambda p: p.path), key=lambda p: p.path):
        files[path] = changed(bytes_of(files[path]).decode(), list(here), path.endswith(".py"))
    return MemoryTree(files)


def bytes_of(data: str | bytes) -> bytes:
    """A file's bytes."""
    return data if isinstance(data, bytes) else data.encode()


def changed(source: str, places: list[Place], python: bool) -> str:
    """A file with its places changed. Each change has to change something."""
    if not python:
        for place in places:
            source, old = place.change(source), source
            assert source != old, place.what
        return source
    module = ast.parse(source)
    for place in places:
        node: Any = module
        for name in place.symbol.split("."):
            (node,) = [n for n in node.body if getattr(n, "name", "") == name]
        before = ast.unparse(node)
        place.change(node)
        assert ast.unparse(ast.fix_missing_locations(node)) != before, place.what
    return ast.unparse(module)


class Trial(NamedTuple):
    """A real tree, the folders and files of it that the places need, and the places."""

    tree: str
    part: tuple[str, ...]
    added: tuple[Place, ...]
    deleted: tuple[Place, ...]


TRIALS = (
    Trial("0.5.14", PART, ADDED, DELETED),
    Trial("0.5.20", LATER_PART, LATER_ADDED, LATER_DELETED),
    Trial("735a256", NATIVE_PART, NATIVE_ADDED, NATIVE_DELETED),
)


def part_of(trial: Trial) -> MemoryTree:
    """What the places need of a release, or of a commit with the sources of its library of kernels."""
    if trial.tree.startswith("0."):
        whole: SourceTree = wheel(trial.tree)
        wanted = (*trial.part, f"sglang-{trial.tree}.dist-info/METADATA")
    else:
        clone = TreeSpec(path=os.environ["SGLANG_AUDITOR_CLONE"], commit=trial.tree)
        whole, wanted = open_tree(clone, distribution="sglang", default_url=None), trial.part
    return MemoryTree(dict(whole.read_many([path for path in whole.blobs() if path.startswith(wanted)])))


def rows(trial: Trial) -> list[tuple[str, Place, bool]]:
    """Each place with whether its finding followed."""
    tree = part_of(trial)
    before = report_of(tree, FAMILY)
    after = report_of(mutant(tree, (*trial.added, *trial.deleted)), FAMILY)
    out = []
    for kind, places in (("added", trial.added), ("deleted", trial.deleted)):
        for place in places:
            old, new = found(before, place), found(after, place)
            out.append((kind, place, bool(old - new and not new - old if kind == "added" else new - old)))
    return out


def main() -> int:
    """Entry point."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("trees", nargs="*", help="0.5.14, 0.5.20, 735a256 (default: the first)")
    wanted = parser.parse_args().trees or [TRIALS[0].tree]
    bad = False
    for trial in TRIALS:
        for kind, place, followed in rows(trial) if trial.tree in wanted else ():
            print(f"{'ok  ' if followed else 'FAIL'} {trial.tree} {kind:8} {place.what:48} {place.symbol}")
            bad |= not followed
    return int(bad)


if __name__ == "__main__":
    raise SystemExit(main())
