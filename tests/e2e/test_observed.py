"""The audit of real trees against values that SGLang itself gave under a faked capability.

``tests/keys/oracle`` holds what was observed (``scripts/oracle`` observes it); the audit may leave a value
open, it may never contradict one. The answer key of 735a256, written by reading, is held against the same
commit.
"""

from __future__ import annotations

import importlib.util
import json
import os
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from real_trees import ROOT, real_report, real_tree

from auditor.gates.reading import build_program, source_files
from auditor.profile import load_profile
from auditor.program.startup import run_startup
from auditor.program.values import EnumMember, Unknown, is_const
from auditor.reporting import jsonout

ORACLE = ROOT / "tests" / "keys" / "oracle"
HELPERS = sorted(p.stem.removeprefix("helpers-") for p in ORACLE.glob("helpers-*.json"))
STARTS = sorted(p.stem.removeprefix("server-args-") for p in ORACLE.glob("server-args-*.json"))
#: A start takes one or two CPU seconds. Each tree is asked for every third model, one tree for the first, the
#: next for the second; for all of them where this is set.
EVERY = 1 if os.environ.get("SGLANG_AUDITOR_WHOLE") else 3


def script(path: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(Path(path).stem, ROOT / "scripts" / path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    import sys

    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def reports(shared: Path, tmp_path: Path) -> Any:
    def report(name: str) -> Path:
        path = tmp_path / f"{name}.json"
        path.write_bytes(jsonout.dumps(real_report(name, shared)))
        return path

    return report


@pytest.mark.wheels
@pytest.mark.parametrize("name", HELPERS)
def test_no_helper_contradicts_what_was_observed(
    name: str, reports: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    compare = script("oracle/compare.py")
    wrong = compare.main(str(ORACLE / f"helpers-{name}.json"), str(reports(name)))
    told = capsys.readouterr().out
    assert wrong == 0, told
    agree, left_open = (int(told.splitlines()[-1].split(" ")[i]) for i in (0, 2))
    assert agree > 100 and left_open < agree / 3, told.splitlines()[-1]


@pytest.mark.wheels
@pytest.mark.parametrize("name", STARTS)
def test_no_server_argument_contradicts_what_was_observed(name: str) -> None:
    observed = json.loads((ORACLE / f"server-args-{name}.json").read_text(encoding="utf-8"))
    tree, profile = real_tree(name), load_profile("sglang")
    root, files, _problems = source_files(tree, profile)
    agree, wrong = 0, []
    models = list(observed["models"].items())[STARTS.index(name) % EVERY :: EVERY]
    for model, facts in models:
        name_of_class = model.split(".")[0]
        program = build_program(files, root, profile, {"model": name_of_class}, True)
        start = run_startup(program, name_of_class)
        for at, target in enumerate(observed["targets"]):
            for key, real in {**facts["same"], **facts["by_target"].get(target, {})}.items():
                value = start.arguments.get(key.removeprefix("args."))
                if not key.startswith("args.") or value is None:
                    continue
                said = value.at(at)
                if isinstance(said, Unknown):
                    possible = said.options
                elif is_const(said):
                    possible = (said,)
                else:
                    continue
                if possible is None:
                    continue
                plain = [o.value if isinstance(o, EnumMember) else o for o in possible]
                if real not in plain:
                    wrong.append(f"{model} {target} {key}: {plain} and not {real!r}")
                elif len(plain) == 1:
                    agree += 1
    assert wrong == []
    assert agree > 45 * len(models)


@pytest.mark.history
def test_the_answer_key_of_735a256(reports: Any) -> None:
    score = script("score.py")
    gates, neutral = score.load_key(ROOT / "tests" / "keys" / "735a256")
    report = json.loads(reports("735a256").read_text(encoding="utf-8"))
    result = score.score(report["gates"], gates, neutral)
    assert result.wrong == []
    assert result.recall >= 0.97
    assert result.unknown_share <= 0.08
