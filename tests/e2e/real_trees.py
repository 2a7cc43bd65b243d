"""Real trees for tests: release wheels and the public history, where they are at hand.

``SGLANG_AUDITOR_WHEELS`` names a folder with wheels (``make wheels`` fills ``.cache/wheels``, which is the
default), ``SGLANG_AUDITOR_HISTORY`` a clone. A tree that is not there is skipped with its name.
"""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

import pytest

from auditor.gates.audit import AuditOptions, audit
from auditor.gates.model import Report
from auditor.reporting import jsonout
from auditor.trees.base import SourceTree
from auditor.trees.open import TreeSpec, open_tree
from auditor.trees.wheel import WheelTree

ROOT = Path(__file__).parents[2]


def real_tree(name: str) -> SourceTree:
    """The tree of a release ("0.5.14") or commit ("735a256")."""
    if name.startswith("0."):
        folder = Path(os.environ.get("SGLANG_AUDITOR_WHEELS") or ROOT / ".cache" / "wheels")
        wheels = sorted(folder.glob(f"sglang-{name}-*.whl"))
        if not wheels:
            pytest.skip(f"no wheel of {name}: run `make wheels` or set SGLANG_AUDITOR_WHEELS")
        return WheelTree(wheels[0])
    history = os.environ.get("SGLANG_AUDITOR_HISTORY")
    if not history:
        pytest.skip(f"{name} needs SGLANG_AUDITOR_HISTORY, the path of a clone of SGLang")
    return open_tree(TreeSpec(path=history, commit=name), distribution="sglang", default_url=None)


def real_report(name: str, shared: Path) -> Report:
    """The cold audit of such a tree for sm_120 and sm_121, all queries, made once for all tests and workers.

    It takes 10 to 30 CPU seconds, and several tests ask different things of it. ``shared`` is a folder of
    this run of pytest alone: nothing is kept from one run to the next.
    """
    tree = real_tree(name)
    with open(shared / f"{name}.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        kept = shared / f"{name}.json"
        if not kept.exists():
            report = audit(tree, AuditOptions(targets=("sm_120", "sm_121"), use_cache=False))
            kept.write_bytes(jsonout.dumps(report))
        return jsonout.loads(kept.read_bytes(), kept.name)
