"""The shipped queries on real trees, held against facts that were written by reading.

The facts are in ``tests/keys/facts.yaml``. Needs release wheels in SGLANG_AUDITOR_WHEELS, a clone of SGLang
in SGLANG_AUDITOR_HISTORY, or both; every tree that is not there is skipped by name. One audit per tree, all
facts of that tree in one test.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from real_trees import real_report

from auditor.gates.model import Finding

FACTS: dict[str, Any] = yaml.safe_load(
    (Path(__file__).parents[1] / "keys" / "facts.yaml").read_text(encoding="utf-8")
)
TREES = ["735a256", "0.5.12", "0.5.16", "0.5.20", "0.5.23"]
TARGETS = ("sm_120", "sm_121")


def findings_of(tree: str, shared: Path) -> dict[str, list[Finding]]:
    """query -> findings of one tree."""
    out: dict[str, list[Finding]] = {}
    for finding in real_report(tree, shared).findings:
        out.setdefault(finding.query, []).append(finding)
    return out


def place(finding: Finding) -> str:
    return f"{finding.path.removeprefix('python/')}:{finding.line}"


@pytest.mark.history
@pytest.mark.parametrize("tree", TREES)
def test_facts_of(tree: str, shared: Path) -> None:
    found = findings_of(tree, shared)
    large_prefill(tree, found.get("attention/large-prefill-unguarded", []))
    forced_flags(tree, found.get("arguments/env-forced", []))
    mxfp4(tree, found.get("moe/mxfp4-workaround", []))
    deepgemm(tree, found)
    disaggregation(tree, found)
    blind_writes(tree, found.get("arguments/written-before-auto-arm", []))


def large_prefill(tree: str, found: list[Finding]) -> None:
    facts = FACTS["large_indexer_query_threshold"]
    prefill = next(d for d in facts["decides"] if "sparse prefill" in d["what"])
    if tree in facts["absent_in"] or prefill["guarded_against_sm_120"][tree]:
        assert found == []
        return
    (finding,) = found
    # the fact names the comparison, the finding the statement that holds it: one line above
    path, line = prefill["at"][tree].split(":")
    assert place(finding) == f"{path}:{int(line) - 1}"
    assert finding.verdict == dict.fromkeys(TARGETS, "unguarded")
    assert finding.severity == "error"
    assert f"more than {facts['value']:,} query rows" in finding.message
    assert "SGLANG_OPT_FLASHMLA_SPARSE_PREFILL at any size" in finding.message
    assert "flash_mla_sparse_fwd, no 12.x build" in finding.message
    indexer = next(d for d in facts["decides"] if "indexer metadata" in d["what"])
    assert indexer["at"][tree].rsplit("/", 1)[-1] in finding.message  # the second thing it decides
    assert "8192" in (finding.fix or "")


def forced_flags(tree: str, found: list[Finding]) -> None:
    facts = FACTS["forced_flags_sm120_deepseek_v4"]["by_tree"][tree]
    wanted = {
        f"{facts['path']}:{fact['line']}": (name, str(bool(fact["value"])))
        for name, fact in facts["flags"].items()
        if not fact["only_when_not_set"]
    }
    mine = {place(f): f for f in found if place(f) in wanted}
    assert set(mine) == set(wanted)
    for where, (name, value) in wanted.items():
        assert mine[where].message.startswith(f"envs.{name} becomes {value} in ")
        assert mine[where].verdict == dict.fromkeys(TARGETS, "env-forced")
    asked_first = {
        f"{facts['path']}:{fact['line']}" for fact in facts["flags"].values() if fact["only_when_not_set"]
    }
    assert not asked_first & {place(f) for f in found}
    if tree == "735a256":
        readers = FACTS["forced_flags_sm120_deepseek_v4"]["readers_at_735a256"]
        for name, places in readers.items():
            message = next(f.message for f in found if f".{name} " in f.message)
            assert all(p.rsplit("/", 1)[-1] in message for p in places)


def mxfp4(tree: str, found: list[Finding]) -> None:
    facts = FACTS["mxfp4_moe_deepseek_v4_sm120"]
    here = facts["triton_file_present"].get(tree, tree in facts and "arm" in facts[tree])
    assert len(found) == (1 if here else 0)
    if tree == "735a256":
        assert facts[tree]["arm"].startswith(place(found[0]))
        assert found[0].verdict == dict.fromkeys(TARGETS, "workaround")


def deepgemm(tree: str, found: dict[str, list[Finding]]) -> None:
    facts = FACTS["deepgemm_gate"]["by_tree"][tree]
    missed = found.get("deepgemm/enabled-on-sm121", [])
    if facts["exact_120"]:
        (finding,) = missed
        assert place(finding) == f"{facts['path']}:{facts['line']}"
        assert finding.verdict == {"sm_120": "same", "sm_121": "missed-variant"}
    else:
        assert missed == []
    # 0.5.12 has no test for 12.x at all and counts it among 10.x
    grouped = found.get("deepgemm/grouped-with-sm100", [])
    assert bool(grouped) == (tree == "0.5.12")
    scales = [place(f) for f in found.get("deepgemm/scales-on-sm121", [])]
    line = facts.get("scale_ue8m0", {}).get("line")
    assert (f"{facts['path']}:{line}" in scales) == (tree == "0.5.20")


def disaggregation(tree: str, found: dict[str, list[Finding]]) -> None:
    facts = FACTS["disaggregation"]
    (transfer,) = found["disaggregation/transfer-default"]
    assert place(transfer) == facts["transfer_backend_default"][tree][0]
    assert repr(facts["transfer_backend_default"][tree][1]) in transfer.message
    assert "NIXL is in no dependency list" in transfer.message
    (nixl,) = found["disaggregation/nixl-backend"]
    assert place(nixl) == facts["nixl_backend_default"][tree][0]
    (check,) = found["disaggregation/device-check-mooncake-only"]
    # the fact names the first comparison or the statement that holds it
    path, line = facts["ib_device_validation_only_for_mooncake"][tree].split(":")
    assert check.path.removeprefix("python/") == path and abs(check.line - int(line)) <= 2


def blind_writes(tree: str, found: list[Finding]) -> None:
    wanted = {
        fact["write"]
        for fact in FACTS["arch_blind_write_before_auto_arm"]
        if fact["tree"] == tree and "arm" in fact
    }
    assert wanted <= {place(f) for f in found}
