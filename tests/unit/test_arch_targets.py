"""The target data holds NVIDIA's figures, and names are read as people write them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import auditor.arch.targets as targets_module
from auditor.arch import fact_sources, load_targets, parse_targets
from auditor.errors import UserError

KIB = 1024
NAMES = ("sm_80", "sm_86", "sm_89", "sm_90", "sm_100", "sm_103", "sm_110", "sm_120", "sm_121")


def test_names_capabilities_and_numbers_agree() -> None:
    targets = load_targets()
    assert tuple(targets) == NAMES
    for name, target in targets.items():
        assert name == target.name == f"sm_{target.sm}"
        assert target.sm == target.capability[0] * 10 + target.capability[1]
        assert target.cards
    assert targets["sm_103"].capability == (10, 3)
    assert targets["sm_120"].capability_text == "12.0"


def test_capabilities_are_text_in_the_data() -> None:
    raw = json.loads(Path(targets_module.__file__).with_name("targets.json").read_text())
    assert [row["capability"] for row in raw["targets"]] == [
        "8.0", "8.6", "8.9", "9.0", "10.0", "10.3", "11.0", "12.0", "12.1",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("name", "block", "sm", "warps", "blocks"),
    [
        ("sm_80", 163, 164, 64, 32),
        ("sm_86", 99, 100, 48, 16),
        ("sm_89", 99, 100, 48, 24),
        ("sm_90", 227, 228, 64, 32),
        ("sm_100", 227, 228, 64, 32),
        ("sm_103", 227, 228, 64, 32),
        ("sm_110", 227, 228, 48, 24),
        ("sm_120", 99, 100, 48, 24),
        ("sm_121", 99, 100, 48, 24),
    ],
)
def test_limits(name: str, block: int, sm: int, warps: int, blocks: int) -> None:
    target = load_targets()[name]
    assert target.smem_per_block == block * KIB
    assert target.smem_per_sm == sm * KIB
    assert target.smem_per_sm - target.smem_per_block == target.limit("smem_reserved_per_block")
    assert target.limit("warps_per_sm") == warps
    assert target.limit("threads_per_sm") == warps * target.limit("warp_size")
    assert target.limit("blocks_per_sm") == blocks
    assert target.limit("regs_per_sm") == 65536


@pytest.mark.parametrize(
    ("feature", "have"),
    [
        ("wgmma", {"sm_90"}),
        ("tma", {"sm_90", "sm_100", "sm_103", "sm_110", "sm_120", "sm_121"}),
        ("cluster", {"sm_90", "sm_100", "sm_103", "sm_110", "sm_120", "sm_121"}),
        ("tcgen05", {"sm_100", "sm_103", "sm_110"}),
        ("tmem", {"sm_100", "sm_103", "sm_110"}),
        ("cta_group_2", {"sm_100", "sm_103", "sm_110"}),
        ("fp8_mma", set(NAMES) - {"sm_80", "sm_86"}),
        ("mma_mxf8f6f4", {"sm_120", "sm_121"}),
        ("mma_mxf4nvf4", {"sm_120", "sm_121"}),
        ("ldmatrix", set(NAMES)),
    ],
)
def test_features(feature: str, have: set[str]) -> None:
    assert {name for name, target in load_targets().items() if target.has(feature)} == have


def test_every_fact_cites_a_known_source() -> None:
    known = fact_sources()
    for target in load_targets().values():
        for name, fact in {**target.limits, **target.features}.items():
            assert fact.source.split(":")[0] in known, name
            assert len(fact.source) > 12, name


def test_a_feature_lists_only_known_targets() -> None:
    for name, feature in targets_module._file().features.items():
        if not isinstance(feature.on, str):
            assert set(feature.on) <= set(NAMES), name


def test_unknown_fact_names_are_errors() -> None:
    target = load_targets()["sm_120"]
    with pytest.raises(KeyError):
        target.has("tensor_cores_9")
    with pytest.raises(KeyError):
        target.limit("smem")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("sm_120", ("sm_120",)),
        ("sm120", ("sm_120",)),
        ("SM_120", ("sm_120",)),
        ("12.0", ("sm_120",)),
        ("120", ("sm_120",)),
        ("10.3, sm_121 ,8.0", ("sm_103", "sm_121", "sm_80")),
        ("sm_120,12.0,120", ("sm_120",)),
        ("all", NAMES),
        ("sm_121,all", ("sm_121", *NAMES[:-1])),
    ],
)
def test_parse(text: str, expected: tuple[str, ...]) -> None:
    assert parse_targets(text) == expected


@pytest.mark.parametrize(
    ("text", "suggestion"),
    [("sm_122", "sm_12"), ("sm_120a", "sm_120"), ("sm_12O", "sm_12"), ("sm_1200", "sm_120"), ("101", "sm_1")],
)
def test_unknown_target_suggests_a_near_one(text: str, suggestion: str) -> None:
    with pytest.raises(UserError) as caught:
        parse_targets(text)
    assert caught.value.code == "E001"
    assert caught.value.exit_code == 2
    assert caught.value.hints[0].startswith(f"--target {suggestion}")


@pytest.mark.parametrize("text", ["", " , ", "hopper", "12.00", "1.20"])
def test_nonsense_is_refused(text: str) -> None:
    with pytest.raises(UserError) as caught:
        parse_targets(text)
    assert caught.value.code == "E001"
    assert caught.value.hints


def test_the_returned_dict_is_a_copy() -> None:
    load_targets().clear()
    assert tuple(load_targets()) == NAMES


@pytest.mark.parametrize(
    ("card", "target"),
    [
        ("rtx5090", "sm_120"),
        ("rtx-pro-6000", "sm_120"),
        ("GB10", "sm_121"),
        ("b300", "sm_103"),
        ("A6000", "sm_86"),
        ("5090", "sm_120"),
        ("RTX PRO 6000 Blackwell Max-Q", "sm_120"),
    ],
)
def test_the_name_of_a_card_leads_to_its_target(card: str, target: str) -> None:
    with pytest.raises(UserError) as caught:
        parse_targets(card)
    assert caught.value.hints[0].split("#")[0].strip() == f"--target {target}"


def test_a_name_that_several_cards_have_gives_all() -> None:
    with pytest.raises(UserError) as caught:
        parse_targets("rtx6000")
    assert caught.value.hints == (
        "--target sm_86        # RTX A6000",
        "--target sm_89        # RTX 6000 Ada",
        "--target sm_120        # RTX PRO 6000 Blackwell",
        "audit targets",
    )
