"""Real releases under other names and in another layout: the audit says the same of them.

Part of one release here, for the sake of time; ``scripts/mutations.py`` does all of three.
"""

from __future__ import annotations

import importlib.util
import sys
from collections import Counter
from types import ModuleType

import pytest
from real_trees import ROOT, real_tree

from auditor.queries.exampletree import MemoryTree

RELEASE = "0.5.14"
#: Where half of all gates are; so many of the files hold most of them.
PART = (
    "sglang/srt/layers/attention/",
    "sglang/srt/layers/deep_gemm_wrapper/",
    "sglang/srt/layers/quantization/",
    "sglang/srt/utils/",
    "sglang/srt/server_args.py",
    "sglang/srt/environ.py",
)
BUSIEST = 16


def load(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, ROOT / "scripts" / f"{name}.py")
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


mutations = load("mutations")


@pytest.mark.wheels
def test_names_and_layout_change_nothing_but_names_and_lines() -> None:
    whole = real_tree(RELEASE)
    wanted = [path for path in whole.blobs() if path.startswith(PART) and path.endswith(".py")]
    tree = MemoryTree({path: data.decode() for path, data in whole.read_many(wanted)})
    texts, report = mutations.sources(tree), mutations.report_of(tree)
    names = mutations.new_names(report, texts)
    assert len(names) > 50 and {"is_sm100_supported", "get_device_sm", "_is_blackwell"} <= names.keys()
    assert len(mutations.by_name(report, names)) < 10
    busiest = [path for path, _ in Counter(g.path for g in report.gates).most_common(BUSIEST)]
    assert sum(g.path in busiest for g in report.gates) * 10 > len(report.gates) * 7
    told, differs = mutations.tried(tree, texts, report, "renamed+all", busiest, names)
    assert told.endswith(f"; {BUSIEST} files") and differs == []
