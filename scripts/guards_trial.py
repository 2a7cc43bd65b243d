"""A guard that is added makes a finding go, one that is deleted makes it come: tried in a real release.

    python scripts/guards_trial.py

Two mutants of the part of release 0.5.14 that the places need (its wheel in ``.cache/wheels``: ``make
wheels``): one in which every place of ``ADDED`` got a guard, one in which every guard of ``DELETED`` is gone.
Prints a row per place; exit code 1 where a finding did not follow. Three audits, about 5 CPU seconds each.
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from mutations import report_of, wheel

from auditor.gates.model import Report
from auditor.queries.exampletree import MemoryTree
from auditor.trees.base import SourceTree

RELEASE = "0.5.14"
PART = (
    "sglang/srt/layers/",
    "sglang/srt/utils/",
    "sglang/srt/server_args.py",
    "sglang/srt/environ.py",
    "sglang/srt/model_executor/",
    f"sglang-{RELEASE}.dist-info/METADATA",
)
LAYERS = "sglang/srt/layers"
ROOT = "torch.cuda.get_device_capability()[0] == 12"
BETWEEN = "(12, 0) <= torch.cuda.get_device_capability() < (13, 0)"
HELPER = "from sglang.srt.utils import is_sm120_supported\n"
Change = Callable[[Any], None]


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


RAISES = f"import torch\nif {ROOT}:\n    raise NotImplementedError('not on 12.x')"
ASSERTS = f"{HELPER}assert not is_sm120_supported()"
DSA = f"{LAYERS}/attention/dsa_backend.py"
DSV4 = f"{LAYERS}/attention/deepseek_v4_backend.py"
W4A8 = f"{LAYERS}/moe/cutlass_w4a8_moe.py"
REGISTRY = f"{LAYERS}/attention/attention_registry.py"

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
    Place("the sibling is named too", f"{LAYERS}/deep_gemm_wrapper/configurer.py",
          "_compute_enable_deep_gemm", replaced("sm_version == 120", "sm_version in (120, 121)"),
          "sm_version", "missed-variant"),
)  # fmt: skip
DELETED = (
    Place("an arm of its own", DSV4, "_create_flashmla_metadata", without("_is_sm120"), "get_mla_metadata"),
    Place("`if` / `else`", DSV4, "DeepseekV4AttnBackend.forward", without("_is_sm120"),
          "flash_mla_with_kvcache"),
)  # fmt: skip


def found(report: Report, place: Place) -> set[tuple[str, str, str]]:
    """The findings of a place: symbol, severity and message."""
    return {
        (finding.symbol, finding.severity, finding.message)
        for finding in report.findings
        if finding.path == (place.told or place.path)
        and place.verdict in (finding.verdict["sm_120"], finding.verdict["sm_121"])
        and (place.told or place.symbol == finding.symbol or place.verdict == "unguarded")
        and any(place.word in text for text in (finding.message, finding.symbol, *finding.detail))
    }


def mutant(tree: SourceTree, places: tuple[Place, ...]) -> MemoryTree:
    """The tree with every place changed."""
    files: dict[str, str | bytes] = dict(tree.read_many(tree.blobs()))
    for path in sorted({place.path for place in places}):
        module = ast.parse(files[path])
        for place in places:
            if place.path == path:
                node: Any = module
                for name in place.symbol.split("."):
                    (node,) = [n for n in node.body if getattr(n, "name", "") == name]
                before = ast.unparse(node)
                place.change(node)
                assert ast.unparse(ast.fix_missing_locations(node)) != before, place.what
        files[path] = ast.unparse(module)
    return MemoryTree(files)


def part() -> MemoryTree:
    """What the places need of the release."""
    whole = wheel(RELEASE)
    return MemoryTree(dict(whole.read_many([path for path in whole.blobs() if path.startswith(PART)])))


def rows() -> list[tuple[str, Place, bool]]:
    """Each place with whether its finding followed."""
    tree = part()
    before = report_of(tree)
    out = []
    for kind, places in (("added", ADDED), ("deleted", DELETED)):
        after = report_of(mutant(tree, places))
        for place in places:
            old, new = found(before, place), found(after, place)
            out.append((kind, place, bool(old - new) if kind == "added" else bool(new - old)))
    return out


def main() -> int:
    """Entry point."""
    bad = False
    for kind, place, followed in rows():
        print(f"{'ok  ' if followed else 'FAIL'} {kind:8} {place.what:42} {place.symbol}")
        bad |= not followed
    return int(bad)


if __name__ == "__main__":
    raise SystemExit(main())
