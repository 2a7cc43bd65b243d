"""What the audit says of the kernel registries of real releases, against what they answered when they ran.

Needs a folder of release wheels in SGLANG_AUDITOR_WHEELS, or releases in the cache; skipped otherwise.
"""

from __future__ import annotations

import importlib.util
import json
import os
import re
from pathlib import Path
from typing import Any

import pytest

from auditor.gates.reading import source_files
from auditor.profile import load_profile
from auditor.trees.cache import cache_dir
from auditor.trees.wheel import WheelTree

TOP = Path(__file__).parents[2]
KEYS = {p.stem.rpartition("-")[2]: p for p in (TOP / "tests/keys/oracle").glob("registries-*.json")}


def _wheels() -> dict[str, Path]:
    folders = [Path(os.environ["SGLANG_AUDITOR_WHEELS"])] if os.environ.get("SGLANG_AUDITOR_WHEELS") else []
    folders += [cache_dir()]
    found = [p for folder in folders if folder.is_dir() for p in sorted(folder.rglob("sglang-*.whl"))]
    named = ((re.match(r"sglang-(\d+\.\d+\.\d+)-", p.name), p) for p in found)
    return {match[1]: path for match, path in named if match and match[1] in KEYS}


WHEELS = _wheels()


def _compare() -> Any:
    spec = importlib.util.spec_from_file_location("compared", TOP / "scripts/oracle/compare_registries.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.compare


@pytest.mark.skipif(not WHEELS, reason="no release wheels: set SGLANG_AUDITOR_WHEELS to a folder of them")
@pytest.mark.parametrize("version", sorted(WHEELS) or ["none"])
def test_nothing_contradicts_what_ran(version: str) -> None:
    _root, files, _problems = source_files(WheelTree(WHEELS[version]), load_profile("sglang"))
    held = json.loads(KEYS[version].read_text(encoding="utf-8"))
    wrong, agreed, left_open = _compare()(held, files)
    assert wrong == []
    assert agreed >= 2 * 9 * len(held["rows"]) - 40
    assert left_open == 0
