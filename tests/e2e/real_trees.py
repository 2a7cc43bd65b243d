"""Real trees for tests: release wheels and the public history, where they are at hand.

``SGLANG_AUDITOR_WHEELS`` names a folder with wheels (``make wheels`` fills ``.cache/wheels``, which is the
default), ``SGLANG_AUDITOR_HISTORY`` a clone. A tree that is not there is skipped with its name.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

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
