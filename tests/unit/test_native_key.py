"""The map of kernels of the real commit against the answer key, which was read by hand."""

from __future__ import annotations

import os
import resource
from pathlib import Path
from typing import Any

import pytest

from auditor import yamlio
from auditor.arch import load_targets
from auditor.native.availability import availability
from auditor.native.model import Availability, Row
from auditor.native.world import KernelOptions
from auditor.trees.open import TreeSpec, open_tree

KEY: dict[str, Any] = yamlio.load(Path(__file__).parents[1] / "keys" / "native-735a256.yaml").data
OUTCOMES = ("runs", "raises", "not-built", "falls-through", "unknown")


@pytest.fixture(scope="module")
def found() -> Availability:
    history = os.environ.get("SGLANG_AUDITOR_HISTORY", "")
    if not history:
        pytest.skip("SGLANG_AUDITOR_HISTORY does not name a clone of SGLang")
    tree = open_tree(TreeSpec(path=history, commit=KEY["commit"]), distribution="sglang", default_url=None)
    return availability(tree, KernelOptions(tuple(load_targets())))


def row(found: Availability, name: str) -> Row:
    (one,) = [one for one in found.rows if one.name == f"sgl_kernel::{name}"]
    return one


def test_the_key_has_enough_cells() -> None:
    assert sum(len(cells[o]) for cells in KEY["cells"].values() for o in OUTCOMES if o in cells) >= 120


@pytest.mark.history
def test_every_operator_has_a_row_and_most_cells_are_decided(found: Availability) -> None:
    assert len([one for one in found.rows if one.kind == "op"]) == KEY["operators"]
    assert found.problems == ()
    assert found.stats["op cells"] == KEY["operators"] * 9
    assert found.stats["op decided"] >= 780


@pytest.mark.history
@pytest.mark.parametrize("name", sorted(KEY["cells"]))
def test_cells(found: Availability, name: str) -> None:
    said = {target: o for o in OUTCOMES for target in KEY["cells"][name].get(o, ())}
    cells = row(found, name).cells
    assert {target: cells[target].outcome for target in said} == said
    assert all(cells[target].reason for target in said)


@pytest.mark.history
def test_libraries(found: Availability) -> None:
    got = {}
    for library in found.libraries:
        assert all(one.what == "cubin" and one.when == "true" for one in library.built)
        got[library.output] = {
            machine: sorted(one.arch for one in library.built if machine in (one.machines or (machine,)))
            for machine in ("x86_64", "aarch64")
        }
    said = {
        name: {machine: sorted(map(str, spec[machine])) for machine in ("x86_64", "aarch64")}
        for name, spec in KEY["libraries"].items()
    }
    assert got == said


@pytest.mark.history
def test_the_whole_chain_is_told(found: Availability) -> None:
    for item in KEY["proof"]:
        proof = row(found, item["operator"]).cells[item["target"]].proof
        assert [f"{step.path}:{step.line}" for step in proof] == item["places"]
    told = {problem.path for problem in found.unread if "registers operators" in problem.message}
    assert sorted(told) == KEY["unread"]
    fetched = [problem.message for problem in found.unread if "fetched at build time" in problem.message]
    assert sorted(text.split()[0] for text in fetched) == KEY["fetched"]


@pytest.mark.history
def test_an_older_compiler_builds_less() -> None:
    history = os.environ.get("SGLANG_AUDITOR_HISTORY", "")
    if not history:
        pytest.skip("SGLANG_AUDITOR_HISTORY does not name a clone of SGLang")
    tree = open_tree(TreeSpec(path=history, commit=KEY["commit"]), distribution="sglang", default_url=None)
    options = KernelOptions(("sm_100", "sm_120", "sm_121"), {"cuda": "12.8"})
    old = availability(tree, options)
    # flashmla.cmake wants more than 12.8 for 100a, and the flags for 121a come with 13.0
    assert row(old, "sparse_prefill_fwd").cells["sm_100"].outcome == "not-built"
    assert row(old, "silu_and_mul").cells["sm_120"].outcome == "runs"
    assert row(old, "silu_and_mul").cells["sm_121"].outcome == "not-built"


@pytest.mark.history
def test_options_of_the_build_can_be_given() -> None:
    history = os.environ.get("SGLANG_AUDITOR_HISTORY", "")
    if not history:
        pytest.skip("SGLANG_AUDITOR_HISTORY does not name a clone of SGLang")
    tree = open_tree(TreeSpec(path=history, commit=KEY["commit"]), distribution="sglang", default_url=None)
    options = KernelOptions(("sm_80", "sm_90"), {"cmake.ENABLE_BELOW_SM90": "OFF"})
    cells = row(availability(tree, options), "silu_and_mul").cells
    assert (cells["sm_80"].outcome, cells["sm_90"].outcome) == ("not-built", "runs")


def _cpu() -> float:
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


@pytest.mark.history
def test_it_is_quick() -> None:
    history = os.environ.get("SGLANG_AUDITOR_HISTORY", "")
    if not history:
        pytest.skip("SGLANG_AUDITOR_HISTORY does not name a clone of SGLang")
    tree = open_tree(TreeSpec(path=history, commit=KEY["commit"]), distribution="sglang", default_url=None)
    start = _cpu()
    availability(tree, KernelOptions(("sm_120",)))
    assert _cpu() - start < 3  # about 0.6 on an idle machine
