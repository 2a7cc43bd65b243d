"""What the kernels of ``patchsets/sm120`` compute, in Triton's interpreter on the CPU, against float64.

It says nothing on layouts, races, shared memory or speed, and it does not run Gluon: for those, see
``benchmarks/kernels.py``, on a GPU.
"""

from __future__ import annotations

import ast
import importlib.util
import json
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
KERNELS = HERE.parents[1] / "patchsets/sm120/files/python/sglang/srt/layers/attention"

MISSING = [name for name in ("triton", "numpy") if importlib.util.find_spec(name) is None]
needs_kernels = pytest.mark.skipif(
    bool(MISSING), reason=f"no {' and '.join(MISSING)}: python -m pip install 'sglang-auditor[kernels]'"
)


def names() -> list[str]:
    """The cases, by reading: their module needs what may not be installed."""
    for node in ast.parse((HERE / "cases.py").read_text()).body:
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            if node.targets[0].id == "CASES" and isinstance(node.value, ast.Dict):
                return [ast.literal_eval(key) for key in node.value.keys if key]
    raise AssertionError("no CASES in cases.py")


def run(*arguments: str) -> dict[str, float]:
    done = subprocess.run(
        [sys.executable, str(HERE / "cases.py"), *arguments], capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return json.loads(done.stdout)


@needs_kernels
@pytest.mark.parametrize("name", names())
def test_against_float64(name: str) -> None:
    found = run(name)
    if name == "refusals":
        assert found == {"taken": 0, "calls": 9}
        return
    if name.startswith("indexer"):
        assert found["error"] <= 1e-6
        return
    # bf16 of the result alone is up to 1.8e-3 here.
    assert found["error"] <= 2e-3
    assert found["lse"] <= 1e-5
    assert found.get("differs", 0) == 0
    assert found.get("dead", 0) == 0


@pytest.mark.parametrize("path", sorted(KERNELS.glob("sm120_*[!t].py")), ids=lambda path: path.stem)
def test_configurations_are_data(path: Path) -> None:
    """What is launched can be read without running anything, and is never tuned at run time."""
    tree = ast.parse(path.read_text())
    tables = {
        target.id: ast.literal_eval(node.value)
        for node in tree.body
        if isinstance(node, ast.Assign)
        and isinstance(target := node.targets[0], ast.Name)
        and target.id.endswith("_CONFIGS")
    }
    assert tables
    for table in tables.values():
        assert all(set(config) >= {"num_warps", "num_stages"} for config in table)
        assert len({json.dumps(config) for config in table}) == len(table)
    assert "autotune" not in path.read_text()
