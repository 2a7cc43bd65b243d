"""Facts about released kernels: how they are made, what a report takes from them, what it says without."""

from __future__ import annotations

import sys
from pathlib import Path

import msgspec
import pytest

from auditor.arch import load_targets
from auditor.errors import UserError
from auditor.gates.audit import AuditOptions, audit
from auditor.gates.model import Finding
from auditor.native.model import Cell, Row
from auditor.native.sites import facts as sites_facts
from auditor.native.sites.facts import dumped, facts_of, known_versions, load_facts
from auditor.native.sites.wrappers import Use
from auditor.profile import Package
from auditor.queries.exampletree import PRELUDE, PROFILE, MemoryTree

sys.path.insert(0, str(Path(__file__).parent))
import pathtree  # noqa: E402

TARGETS = tuple(load_targets())
FULL = (1 << len(TARGETS)) - 1
_start = pathtree.profile().start
assert _start is not None
START = msgspec.structs.replace(
    _start,
    packages=(Package(name="kern-bin", modules=("kern",)),),
    metadata=("*.dist-info/METADATA",),
)
PROFILE_ = msgspec.structs.replace(
    PROFILE, native_packages=("kern",), native_distributions=("kern-bin",), start=START
)
CASE = "from kern.ops import sparse\n\n\ndef go(q):\n    return sparse(q)\n\n\nGO = [go]\n"


def rows(machine: str) -> list[Row]:
    def cell(target: str) -> Cell:
        if target in ("sm_90", "sm_100"):
            return Cell("runs", "kern_ops: 90a 100a")
        if target == "sm_80":
            return Cell("raises", "TORCH_CHECK(sm >= 90) fails: words of somebody")
        return Cell("not-built", "kern_ops: 90a 100a")

    here = [Row("kern::sparse_fwd", "op", "kern/ops.cc", 3, {t: cell(t) for t in TARGETS})]
    if machine == "x86_64":
        here.append(Row("kern::old_fwd", "op", "kern/ops.cc", 9, {t: Cell("runs") for t in TARGETS}))
    return here


def made() -> sites_facts.NativeFacts:
    builds = {f"13.0 {machine}": rows(machine) for machine in ("x86_64", "aarch64")}
    use = Use(FULL & ~1, 0, frozenset(), ("inner",))
    return facts_of("kern-bin", "1.0", "abc", builds, {"kern.ops.sparse": {"kern::sparse_fwd": use}})


@pytest.fixture
def shipped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "queries" / "native"
    folder.mkdir(parents=True)
    (folder / "kern-bin-1.0.json").write_bytes(dumped(made()))
    monkeypatch.setattr(sites_facts, "data_root", lambda: tmp_path)
    return folder


def found(requirement: str, **assumptions: str) -> list[Finding]:
    tree = MemoryTree(
        {
            **PRELUDE,
            "example/case.py": CASE,
            "example-1.dist-info/METADATA": f"Name: example\nRequires-Dist: {requirement}\n\n",
        }
    )
    options = AuditOptions(
        targets=("sm_120", "sm_121"), profile=PROFILE_, queries=(), use_cache=False, assumptions=assumptions
    )
    return [f for f in audit(tree, options).findings if "kern" in f.message or "sparse" in f.message]


def test_the_same_facts_come_back(shipped: Path) -> None:
    facts = load_facts("kern-bin", "1.0")
    assert facts == made() and dumped(facts) == dumped(made())
    assert known_versions("Kern_Bin") == ["1.0"]
    assert facts.builds == ("13.0 aarch64", "13.0 x86_64")
    by_name = {row.name: row for row in facts.rows("13.0", "x86_64")}
    cell = by_name["kern::sparse_fwd"].cells["sm_120"]
    assert (cell.outcome, cell.reason) == ("not-built", "kern_ops: 90a 100a")
    assert cell.proof[0].text == "taken from facts of kern-bin 1.0, read at abc"
    assert by_name["kern::sparse_fwd"].cells["sm_80"] == msgspec.structs.replace(
        cell, outcome="raises", reason="TORCH_CHECK(sm >= 90) fails"
    )
    assert by_name["kern::old_fwd"].cells["sm_120"].outcome == "runs"
    other = {row.name: row for row in facts.rows("13.0", "aarch64")}
    assert other["kern::old_fwd"].cells["sm_120"].outcome == "not-built"
    assert {c.outcome for row in facts.rows("12.0", None) for c in row.cells.values()} == {"unknown"}
    assert facts.uses(FULL)["kern.ops.sparse"]["kern::sparse_fwd"].may == FULL & ~1


def test_a_wheel_is_judged_by_the_version_that_it_pins(shipped: Path) -> None:
    (one,) = found("kern-bin==1.0")
    assert (one.path, one.line, one.severity) == ("example/case.py", 5, "error")
    assert one.verdict == {"sm_120": "unguarded", "sm_121": "unguarded"}
    assert one.detail == (
        "sparse ← inner ← kern.sparse_fwd ← kern_ops: 90a 100a",
        "taken from facts of kern-bin 1.0, read at abc",
    )


@pytest.mark.parametrize("requirement", ["kern-bin==2.0", "kern-bin>=1.0", "kern-bin"])
def test_without_facts_the_report_says_so_once(shipped: Path, requirement: str) -> None:
    (one,) = found(requirement)
    assert (one.path, one.line, one.severity) == ("example-1.dist-info/METADATA", 2, "note")
    assert one.verdict == {"sm_120": "undecided", "sm_121": "undecided"}
    assert one.message == (
        f"calls of compiled kernels are not judged: nothing is known of {requirement}, only of 1.0"
    )


def test_a_build_that_is_not_known_is_said(shipped: Path) -> None:
    (one,) = found("kern-bin==1.0", cuda="11.8")
    assert one.severity == "note" and "no facts about a build for CUDA 11.8" in one.message


def test_damaged_facts_are_an_error(shipped: Path) -> None:
    (shipped / "kern-bin-1.0.json").write_bytes(b'{"format": 1}')
    with pytest.raises(UserError) as caught:
        found("kern-bin==1.0")
    assert caught.value.code == "N020" and caught.value.place == "queries/native/kern-bin-1.0.json"


def test_a_version_is_no_path(shipped: Path) -> None:
    assert load_facts("kern-bin", "../native/kern-bin-1.0") is None


@pytest.mark.parametrize("version", ["0.4.2.post2", "0.4.3", "0.4.4", "0.4.5"])
def test_shipped_facts_are_whole_and_in_our_own_words(version: str) -> None:
    facts = load_facts("sglang-kernel", version)
    assert facts is not None and facts.version == version and len(facts.commit) == 40
    assert not any("fails:" in reason for reason in facts.reasons)
    rows_ = {row.name: row for row in facts.rows("13.0", None)}
    prefill = rows_["sgl_kernel::sparse_prefill_fwd"].cells
    built = {t for t, c in prefill.items() if c.outcome != "not-built"}
    assert built == {"sm_90", "sm_100", "sm_103"}
    assert prefill["sm_120"].reason == "flashmla_ops: 90a 100a 103a"
    assert "sgl_kernel::sparse_prefill_fwd" in facts.names["sgl_kernel.flash_mla.flash_mla_sparse_fwd"]
