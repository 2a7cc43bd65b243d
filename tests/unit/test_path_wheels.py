"""The dossier's facts on real releases, against what was read by hand (tests/keys/facts.yaml).

Needs a folder of release wheels in SGLANG_AUDITOR_WHEELS, or releases in the cache; skipped otherwise. Each
part is asked by itself, without the discovery of gates, which would take minutes.
"""

from __future__ import annotations

import os
import re
from functools import lru_cache
from pathlib import Path
from typing import Any

import pytest
import yaml

from auditor.gates.path.choice import Factory, layer_facts, registered, runner_facts, table_entry
from auditor.gates.path.models import find_model
from auditor.gates.path.packages import normal_name, requirements
from auditor.gates.path.places import Arguments
from auditor.gates.path.transfer import disaggregation
from auditor.gates.reading import build_program, source_files
from auditor.profile import load_profile
from auditor.trees.cache import cache_dir
from auditor.trees.wheel import WheelTree

FACTS = yaml.safe_load((Path(__file__).parents[1] / "keys" / "facts.yaml").read_text())
PROFILE = load_profile("sglang")
START = PROFILE.start
assert START is not None
SM_120 = 7


def _wheels() -> dict[str, Path]:
    folders = [Path(os.environ["SGLANG_AUDITOR_WHEELS"])] if os.environ.get("SGLANG_AUDITOR_WHEELS") else []
    folders += [cache_dir()]
    out: dict[str, Path] = {}
    for folder in folders:
        for path in sorted(folder.rglob("sglang-*.whl")) if folder.is_dir() else ():
            match = re.match(r"sglang-(\d+\.\d+\.\d+)-", path.name)
            if match and match[1] in FACTS["pins"]:
                out.setdefault(match[1], path)
    return out


WHEELS = _wheels()
pytestmark = pytest.mark.skipif(
    not WHEELS, reason="no release wheels: set SGLANG_AUDITOR_WHEELS to a folder with sglang-*.whl"
)
each = pytest.mark.parametrize("version", sorted(WHEELS) or ["none"])


@lru_cache(maxsize=1)
def opened(version: str) -> tuple[Any, Any, str]:
    tree = WheelTree(WHEELS[version])
    root, files, problems = source_files(tree, PROFILE)
    assert problems == []
    return tree, build_program(files, root, PROFILE, {}, True), root


@each
def test_a_release(version: str) -> None:
    tree, program, root = opened(version)
    _model(program, version)
    stated = requirements(tree, PROFILE, root)
    _packages(stated, version)
    _transfer(program, stated, version)
    _attention(program)
    _experts(program)


def _model(program: Any, version: str) -> None:
    model = find_model(program, PROFILE, "DeepseekV4ForCausalLM")
    assert model.main.place.path == "sglang/srt/models/deepseek_v4.py"
    text = program.files[model.main.place.path].decode().split("\n")
    assert text[model.main.place.line - 1].startswith("class DeepseekV4ForCausalLM")
    drafts = {v.name: v.place.path for v in model.variants}
    assert drafts["DeepseekV4ForCausalLMNextN"] == "sglang/srt/models/deepseek_v4_nextn.py"
    built = {layer.name for layer in model.layers}
    assert {"FusedMoE", "RadixAttention", "C4Indexer"} <= built, version


def _packages(stated: list[Any], version: str) -> None:
    have = {item.name: item for item in stated if not item.extra}
    for name, pinned in FACTS["pins"][version].items():
        if pinned == "not pinned":
            assert normal_name(name) not in have, name
        else:
            item = have[normal_name(name)]
            assert item.version == str(pinned), name
            assert item.place.path == f"sglang-{version}.dist-info/METADATA" and item.place.line > 1


def _transfer(program: Any, stated: list[Any], version: str) -> None:
    facts = FACTS["disaggregation"]
    arguments = Arguments(program, PROFILE)
    part = disaggregation(program, PROFILE, arguments, stated, None)
    where, value = facts["transfer_backend_default"][version]
    assert part.transfer.value == repr(value) and part.transfer.place is not None
    assert f"{part.transfer.place.path}:{part.transfer.place.line}" == where
    where, name, value = facts["nixl_backend_default"][version]
    (flag,) = part.flags
    assert (flag.name, flag.value) == (name, repr(value)) and flag.place is not None
    assert f"{flag.place.path}:{flag.place.line}" == where
    where = facts["ib_device_validation_only_for_mooncake"][version]
    assert [(c.backends, f"{c.place.path}:{c.place.line}") for c in part.checks] == [(("mooncake",), where)]
    by_hand = {entry.backend: entry for entry in part.by_hand}
    assert by_hand["nixl"].install == "pip install nixl"
    assert {p.path.rpartition("/")[2] for p in by_hand["nixl"].imported_at} >= {"conn.py"}


def _attention(program: Any) -> None:
    registry = START.attention.registry
    function = registered(program, registry.module, registry.symbol, "dsv4")
    assert function is not None
    outcomes = Factory(program, SM_120).outcomes(function)
    assert "DeepseekV4AttnBackend" in {o.name for o in outcomes}
    assert not any("Hip" in o.name or "Ascend" in o.name for o in outcomes), "other vendors' are decided away"


def _experts(program: Any) -> None:
    spec = START.experts
    row = table_entry(program, spec.table.module, spec.table.symbol, "fp8", SM_120)
    assert row is not None and row[0].name == "Fp8Config"
    method = row[0].find(spec.method)[1]

    def methods(runner: str) -> set[str]:
        facts = runner_facts(program, spec.runner.module, spec.runner.symbol, spec.readers, runner, SM_120)
        found = Factory(program, SM_120, layer_facts(spec.layers, facts)).outcomes(method)
        return {o.name for o in found}

    assert "Mxfp4MarlinMoEMethod" in methods("marlin")
    assert "Mxfp4MarlinMoEMethod" not in methods("triton")
    assert any(name.startswith("Mxfp4Flashinfer") for name in methods("flashinfer_mxfp4"))
    assert not any(name.startswith("Mxfp4") for name in methods("triton"))
