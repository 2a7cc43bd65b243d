"""An arm that nobody evaluated can reach is dead only if it was written for somebody who comes by."""

from __future__ import annotations

import pytest

from auditor.gates.audit import AuditOptions, audit
from auditor.queries.exampletree import PRELUDE, PROFILE, MemoryTree

HEAD = "import torch\n\nfrom example.gpu import data_centre, major, on_rocm\n\n\ndef go():\n"
ASSERTED = "    assert major() == 9\n    if data_centre():\n        return 1\n"
WITHIN = "    if major() == 9:\n        if data_centre():\n            return 1\n"
OLDER = "    if major() < 8:\n        if torch.cuda.get_device_capability()[1] < 5:\n            return 1\n"
VENDOR = "    if on_rocm():\n        if torch.cuda.get_device_capability() >= (3, 1):\n            return 1\n"


@pytest.mark.parametrize(
    "body, verdict", [(ASSERTED, "dead-arm"), (WITHIN, "dead-arm"), (OLDER, "same"), (VENDOR, "same")]
)
def test_dead_is_what_somebody_comes_to(body: str, verdict: str) -> None:
    tree = MemoryTree({**PRELUDE, "example/case.py": f"{HEAD}{body}"})
    options = AuditOptions(targets=("sm_100",), profile=PROFILE, queries=(), use_cache=False)
    gates = [g for g in audit(tree, options).gates if g.path == "example/case.py" and g.kind == "if"]
    assert gates[-1].verdict == {"sm_100": verdict}
