"""In a real release a guard makes its finding go, and the finding comes where a guard is deleted."""

from __future__ import annotations

import sys

import pytest
from real_trees import ROOT, real_tree

sys.path.insert(0, str(ROOT / "scripts"))
import guards_trial  # noqa: E402


@pytest.mark.wheels
def test_findings_follow_the_guards() -> None:
    trial = guards_trial.TRIALS[0]
    real_tree(trial.tree)
    rows = guards_trial.rows(trial)
    assert len(trial.added) >= 10 and len(trial.deleted) >= 9 and len(rows) >= 20
    assert [place.what for _, place, followed in rows if not followed] == []
