"""Every configuration of every kernel that comes with the tool passes its own gate."""

from __future__ import annotations

import pytest

from auditor.data import data_root
from auditor.patching.kernels.gate import run_gate
from auditor.patching.sets.patchset import load_patchset
from tests.kernels.test_gate_compiled import pytestmark as needs_triton

pytestmark = needs_triton
FOLDER = data_root() / "patchsets"
SETS = sorted(path.parent.name for path in FOLDER.glob("*/patchset.yaml"))


@pytest.mark.parametrize("name", SETS or ["none"])
def test_kernels_that_come_with_the_tool_pass(name: str) -> None:
    if name == "none":
        pytest.skip("no patchset comes with the tool")
    patchset = load_patchset(FOLDER / name)
    if not any(patch.file is not None and patch.file.kernels for patch in patchset.patches):
        pytest.skip(f"{name} declares no kernel")
    report = run_gate(patchset)
    wrong = [(row.function, row.target, row.config, row.reasons) for row in report.rows if not row.ok]
    assert (wrong, report.failures) == ([], ())
    assert {"sm_120", "sm_121"} <= set(report.targets)
