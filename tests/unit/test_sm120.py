"""The patchset sm120: its head, its own files, and the verdicts that docs/sm120.md promises."""

from __future__ import annotations

import hashlib
import importlib.util
import json
import os
import sys
import types
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from auditor.patching.sets.lint import lint_patchset
from auditor.patching.sets.patchset import load_patchset
from auditor.trees.git import GitRepo
from auditor.trees.names import blob_id
from auditor.trees.wheel import WheelTree

ROOT = Path(__file__).parents[2]
PATCHSET = ROOT / "patchsets" / "sm120"
PAGE = (ROOT / "docs" / "sm120.md").read_text()
#: One of each form of the tree: the others are compared by scripts/sm120_table.py.
WHEELS = ("0.5.13", "0.5.16", "0.5.20", "0.5.23")


def module(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None and spec.loader is not None
    found = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(found)
    return found


TABLE = module(ROOT / "scripts" / "sm120_table.py")


def test_lint_finds_nothing() -> None:
    assert [f"{each.place} {each.message}" for each in lint_patchset(PATCHSET)] == []


def test_every_patch_states_what_must_be_true_and_for_whom() -> None:
    for patch in load_patchset(PATCHSET).patches:
        head = patch.header
        assert head.why is not None and head.removal and head.status and head.verify, patch.name
        assert set(head.targets) <= {"sm_120", "sm_121"} and head.targets, patch.name
        stated = {target for each in head.verify for target in each.expected()}
        assert "default" in stated or {"sm_90", "sm_10?"} <= stated, patch.name


def test_the_page_has_a_row_and_a_section_for_every_patch() -> None:
    names = [patch.name for patch in load_patchset(PATCHSET).patches]
    for base, column in TABLE.written(PAGE).items():
        assert list(column) == names, base
        assert "!" not in column.values(), base
    heads = [line[4:] for line in PAGE.splitlines() if line.startswith("### ")]
    assert [name for line in heads for name in line.split(", ")] == names


@pytest.mark.parametrize("version", WHEELS)
def test_verdicts_on_wheels(version: str) -> None:
    folder = os.environ.get("SGLANG_AUDITOR_WHEELS", "")
    wheel = TABLE.wheels(Path(folder)).get(version) if folder else None
    if wheel is None:
        pytest.skip(f"no wheel of {version} in SGLANG_AUDITOR_WHEELS ({folder or 'not set'}): make wheels")
    found = TABLE.verdicts(WheelTree(wheel, distribution="sglang"), None)
    assert TABLE.differences(TABLE.written(PAGE)[version], found, whole=False) == []


def test_verdicts_on_the_commit() -> None:
    clone = os.environ.get("SGLANG_AUDITOR_CLONE", "")
    if not clone:
        pytest.skip("SGLANG_AUDITOR_CLONE names no clone of SGLang: 735a256 is not compared")
    from auditor.trees.commit import CommitTree

    repo = GitRepo.find(Path(clone))
    assert repo is not None
    found = TABLE.verdicts(CommitTree(repo, TABLE.COMMIT), repo)
    assert TABLE.differences(TABLE.written(PAGE)[TABLE.COMMIT], found, whole=True) == []


def test_the_lock_is_of_these_patches() -> None:
    lock = PATCHSET / "patchset.lock"
    if not lock.is_file():
        pytest.skip("patchsets/sm120 has no lock")
    again = "patches lock sm120 --onto 735a256 --clone CLONE writes it anew"
    held = json.loads(lock.read_text())
    found = load_patchset(PATCHSET)
    here = [(patch.name, hashlib.sha256(patch.raw).hexdigest()) for patch in found.patches]
    assert [(row["name"], row["sha256"]) for row in held["patches"]] == here, again
    after = {row["path"]: row.get("after") for patch in held["patches"] for row in patch["files"]}
    for name in found.file.files:
        whole = blob_id(found.new_file(name))
        registered = (
            "/sm120_indexer" in name or "/sm120_sparse" in name
        )  # with what registers them at the end
        assert after[name] == whole or registered, again


# The file that decides for NIXL.

TRANSFER = PATCHSET / "files" / "python" / "sglang" / "srt" / "arg_groups" / "sm120_transfer.py"


def machine(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, *, family_12: bool, rdma: bool, packages: tuple[str, ...]
) -> ModuleType:
    """The module as it would be on such a machine."""
    common = types.ModuleType("sglang.srt.utils.common")
    common.is_sm120_supported = lambda: family_12  # type: ignore[attr-defined]
    for name in ("sglang", "sglang.srt", "sglang.srt.utils"):
        monkeypatch.setitem(sys.modules, name, types.ModuleType(name))
    monkeypatch.setitem(sys.modules, "sglang.srt.utils.common", common)
    found = module(TRANSFER)
    for name in found.CHOSEN_BY:
        monkeypatch.delenv(name, raising=False)
    devices = tmp_path / "infiniband"
    if rdma:
        (devices / "mlx5_0").mkdir(parents=True)
    monkeypatch.setattr(found, "RDMA_DEVICES", str(devices))
    monkeypatch.setattr(found, "_importable", lambda package: package in packages)
    return found


def arguments(**changes: Any) -> SimpleNamespace:
    given: dict[str, Any] = {
        "disaggregation_mode": "decode",
        "disaggregation_transfer_backend": "mooncake",
        "disaggregation_ib_device": None,
    }
    return SimpleNamespace(**{**given, **changes})


@pytest.mark.parametrize(
    ("family_12", "rdma", "packages", "changes", "wanted"),
    [
        (True, False, ("nixl", "mooncake"), {}, "nixl"),
        (True, False, ("nixl",), {"disaggregation_mode": "prefill"}, "nixl"),
        (True, False, ("mooncake",), {}, None),
        (True, True, ("nixl",), {}, None),
        (False, False, ("nixl",), {}, None),
        (False, False, (), {}, None),
        (True, False, ("nixl",), {"disaggregation_mode": "null"}, None),
        (True, False, ("nixl",), {"disaggregation_transfer_backend": "mooncake_tcp"}, None),
        (True, False, ("nixl",), {"disaggregation_transfer_backend": "mori"}, None),
        (True, False, ("nixl",), {"disaggregation_ib_device": "mlx5_0"}, None),
        (True, False, ("nixl",), {"enable_unified_memory": True}, None),
        (True, False, ("nixl",), {"speculative_algorithm": "DSPARK"}, None),
        (True, False, ("nixl",), {"speculative_algorithm": "EAGLE"}, "nixl"),
    ],
)
def test_transfer_backend(
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    family_12: bool,
    rdma: bool,
    packages: tuple[str, ...],
    changes: dict[str, Any],
    wanted: str | None,
) -> None:
    here = machine(monkeypatch, tmp_path, family_12=family_12, rdma=rdma, packages=packages)
    assert here.transfer_backend_for(arguments(**changes)) == wanted


@pytest.mark.parametrize("name", ["MC_FORCE_TCP", "MOONCAKE_PROTOCOL", "SGLANG_MOONCAKE_CUSTOM_MEM_POOL"])
def test_a_chosen_transport_of_mooncake_stays(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, name: str
) -> None:
    here = machine(monkeypatch, tmp_path, family_12=True, rdma=False, packages=("nixl",))
    monkeypatch.setenv(name, "1")
    assert here.transfer_backend_for(arguments()) is None


def test_nothing_to_move_the_cache_with_is_said(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    here = machine(monkeypatch, tmp_path, family_12=True, rdma=False, packages=())
    with pytest.raises(ValueError, match="pip install nixl"):
        here.transfer_backend_for(arguments())


# A tree whose cache is laid out otherwise is refused, with the constant.


def test_another_layout_of_the_cache_is_refused() -> None:
    from auditor.patching.planning.plan import plan
    from auditor.profile import load_profile
    from auditor.queries.exampletree import MemoryTree

    attention = "python/sglang/srt/layers/attention"
    tree = MemoryTree(
        {
            "python/sglang/version.py": "",
            f"{attention}/flash_mla_sm120.py": "_TILE_SIZE = 128\n",
            f"{attention}/dsv4/indexer.py": "def fp8_paged_mqa_logits_torch_sm120():\n    block_size = 32\n",
        }
    )
    found = plan(load_patchset(PATCHSET), tree, load_profile("sglang"), only=("splitk-sparse-decode",),
                 there=("env-and-registration",))  # fmt: skip
    (entry,) = found.entries
    notes = [hunk.note for hunk in entry.outcome.hunks if hunk.note.startswith("P080")]
    assert entry.outcome.status == "conflict" and not entry.outcome.files
    assert any("does not have `_TILE_SIZE = 64`: the kernel has one scale for 64 numbers" in n for n in notes)
    assert any("line 1 `_TILE_SIZE = 128`" in n for n in notes)
