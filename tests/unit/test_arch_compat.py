"""Which cubin and which PTX run where, by NVIDIA's compatibility rules."""

from __future__ import annotations

import pytest

from auditor.arch import CompiledFor, cubin_runs_on, family, load_targets, may_use, parse_arch, ptx_runs_on
from auditor.errors import UserError

ALL = load_targets()


def _where(test, arch: str) -> set[int]:  # type: ignore[no-untyped-def]
    return {target.sm for target in ALL.values() if test(arch, target)}


@pytest.mark.parametrize(
    ("arch", "where"),
    [
        ("80", {80, 86, 89}),
        ("86", {86, 89}),
        ("sm_89", {89}),
        ("90", {90}),
        ("90a", {90}),
        ("100", {100, 103}),
        ("100a", {100}),
        ("100f", {100, 103}),
        ("103a", {103}),
        ("103f", {103}),
        ("101a", set()),
        ("110a", {110}),
        ("110f", {110}),
        ("120", {120, 121}),
        ("120a", {120}),
        ("120f", {120, 121}),
        ("121a", {121}),
        ("121f", {121}),
        ("12.0a", {120}),
    ],
)
def test_cubin(arch: str, where: set[int]) -> None:
    assert _where(cubin_runs_on, arch) == where


@pytest.mark.parametrize(
    ("arch", "where"),
    [
        ("compute_80", {80, 86, 89, 90, 100, 103, 110, 120, 121}),
        ("compute_90", {90, 100, 103, 110, 120, 121}),
        ("compute_90a", {90}),
        ("compute_100f", {100, 103}),
        ("compute_120", {120, 121}),
        ("compute_121", {121}),
        ("compute_120a", {120}),
    ],
)
def test_ptx(arch: str, where: set[int]) -> None:
    assert _where(ptx_runs_on, arch) == where


def test_block_scaled_mma_needs_a_suffix() -> None:
    card = ALL["sm_120"]
    assert not may_use("sm_120", card, "mma_mxf4nvf4")
    assert may_use("sm_120a", card, "mma_mxf4nvf4")
    assert may_use("sm_120f", ALL["sm_121"], "mma_mxf4nvf4")
    assert not may_use("sm_120a", ALL["sm_121"], "mma_mxf4nvf4")
    assert may_use("sm_120", card, "tma")
    assert not may_use("sm_120a", card, "tcgen05")
    assert may_use("sm_90a", ALL["sm_90"], "wgmma")
    assert not may_use("sm_90", ALL["sm_90"], "wgmma")


@pytest.mark.parametrize(
    ("text", "capability", "suffix"),
    [
        ("90a", (9, 0), "a"),
        ("sm_103", (10, 3), ""),
        ("sm100f", (10, 0), "f"),
        ("compute_121", (12, 1), ""),
        ("12.0", (12, 0), ""),
        ("8.6", (8, 6), ""),
    ],
)
def test_parse_arch(text: str, capability: tuple[int, int], suffix: str) -> None:
    assert parse_arch(text) == CompiledFor(capability, suffix)


@pytest.mark.parametrize("text", ["", "9", "sm_", "sm_90b", "120aa", "native", "12.00", "-1.0"])
def test_parse_arch_refuses(text: str) -> None:
    with pytest.raises(UserError) as caught:
        parse_arch(text)
    assert caught.value.code == "E002"


def test_text_reads_back() -> None:
    for text in ("sm_90a", "sm_103", "sm_120f"):
        assert parse_arch(text).text == text


def test_families() -> None:
    assert family(ALL["sm_103"]) == family(ALL["sm_100"]) == "10.x"
    assert family(ALL["sm_121"]) == "12.x"
