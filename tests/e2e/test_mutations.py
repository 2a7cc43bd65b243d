"""Real releases under other names and in another layout: the audit says the same of them.

One release and the busiest files here, for the sake of time; ``scripts/mutations.py`` does all of it.
"""

from __future__ import annotations

import importlib.util
import sys
from collections import Counter
from types import ModuleType

import pytest
from real_trees import ROOT, real_tree

from auditor.gates.model import Report
from auditor.trees.base import SourceTree

RELEASE = "0.5.14"
#: So many files hold two thirds of all gates.
BUSIEST = 40


def load(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, ROOT / "scripts" / f"{name}.py")
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


mutations = load("mutations")


@pytest.fixture(scope="module")
def tree() -> SourceTree:
    return real_tree(RELEASE)


@pytest.fixture(scope="module")
def texts(tree: SourceTree) -> dict[str, str]:
    found: dict[str, str] = mutations.sources(tree)
    return found


@pytest.fixture(scope="module")
def report(tree: SourceTree) -> Report:
    found: Report = mutations.report_of(tree)
    return found


@pytest.mark.wheels
def test_other_names_change_nothing_but_names(
    tree: SourceTree, texts: dict[str, str], report: Report
) -> None:
    names = mutations.new_names(report, texts)
    assert len(names) > 90 and {"is_sm100_supported", "get_device_sm", "_is_blackwell"} <= names.keys()
    assert len(mutations.by_name(report, names)) < 10
    _, differs = mutations.tried(tree, texts, report, "renamed")
    assert differs == []


@pytest.mark.wheels
def test_another_layout_changes_nothing_but_lines(
    tree: SourceTree, texts: dict[str, str], report: Report
) -> None:
    busiest = [path for path, _ in Counter(g.path for g in report.gates).most_common(BUSIEST)]
    assert sum(g.path in busiest for g in report.gates) * 3 > len(report.gates) * 2
    told, differs = mutations.tried(tree, texts, report, "all", busiest)
    assert told == f"{BUSIEST} files"
    assert differs == []
