"""The ready-made pieces for CI: they parse, and an input never becomes code."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[2]
ACTION = ROOT / ".github" / "actions" / "audit"
NIGHTLY = ROOT / ".github" / "workflows" / "nightly.yml"
WORKFLOWS = sorted([ACTION / "action.yml", NIGHTLY, *(ROOT / "docs" / "ci").glob("*.yml")])


def steps(value: Any) -> Iterator[dict[str, Any]]:
    if isinstance(value, dict):
        if "run" in value or "uses" in value or "script" in value:
            yield value
        for item in value.values():
            yield from steps(item)
    elif isinstance(value, list):
        for item in value:
            yield from steps(item)


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_no_expression_stands_in_a_script(path: Path) -> None:
    found = list(steps(yaml.safe_load(path.read_text())))
    assert found
    for step in found:
        for script in (step.get("run", ""), *([] if "script" not in step else step["script"])):
            assert "${{" not in str(script)


def test_the_nightly_run_takes_every_reader() -> None:
    matrix = yaml.safe_load(NIGHTLY.read_text())["jobs"]["fuzz"]["strategy"]["matrix"]
    assert matrix["parser"] == sorted(
        path.stem for path in (ROOT / "tests" / "fuzz" / "parsers").glob("*.py")
    )


def test_the_hooks_are_whole_tree_hooks() -> None:
    hooks = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text())
    assert {hook["id"] for hook in hooks} == {"audit-lint-queries", "patches-lint", "audit-guard"}
    for hook in hooks:
        assert {"id", "name", "entry", "language"} <= set(hook)
        assert hook["pass_filenames"] is False and hook["require_serial"] is True


def ran(tmp_path: Path, code: int = 0, **inputs: str) -> tuple[int, list[str], str]:
    """Exit code, words of the first call of ``audit`` and what the action put out, with a stand-in for it."""
    tools = tmp_path / "bin"
    tools.mkdir(exist_ok=True)
    (tools / "audit").write_text(f'#!/bin/bash\nprintf "%s\\n" "$@" >> {tmp_path}/words\nexit {code}\n')
    (tools / "audit").chmod(0o755)
    env = {
        "PATH": f"{tools}:{os.environ['PATH']}",
        "GITHUB_OUTPUT": str(tmp_path / "out"),
        "TARGET": "sm_120",
    }
    done = subprocess.run(
        ["bash", str(ACTION / "run.sh")],
        env={**env, "TREE": "HEAD", **inputs},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    words = (tmp_path / "words").read_text().splitlines() if (tmp_path / "words").exists() else []
    out = (tmp_path / "out").read_text() if (tmp_path / "out").exists() else ""
    return done.returncode, words, out


def test_the_action_asks_for_an_audit_or_a_guard(tmp_path: Path) -> None:
    assert ran(tmp_path, MODE="audit", TREE="0.5.18", FAIL_ON="blocked") == (
        0,
        ["sglang", "--release=0.5.18", "--fail-on=blocked", "--target=sm_120", "--format=github"],
        "code=0\n",
    )
    (tmp_path / "words").unlink()
    _, words, _ = ran(tmp_path, MODE="guard", BASE="known.json", REPO=".", PATCHSET="sm120")
    assert words == [
        "guard", "known.json", "HEAD", "--patchset=sm120", "--target=sm_120", "--repo=.", "--format=github",
    ]  # fmt: skip


@pytest.mark.parametrize("code", [0, 1, 2, 3, 4])
def test_the_action_ends_with_the_code_of_the_tool(tmp_path: Path, code: int) -> None:
    assert ran(tmp_path, code, MODE="guard", BASE="a")[0] == code
    assert ran(tmp_path, code, MODE="guard", BASE="a", SARIF="o.sarif")[0] == code


@pytest.mark.parametrize(
    "name", ["TREE", "TARGET", "BASE", "REPO", "FAIL_ON", "EXCEPTIONS", "SARIF", "HTML", "PATCHSET"]
)
def test_no_input_runs(tmp_path: Path, name: str) -> None:
    for text in (
        "$(touch hacked)",
        "`touch hacked`",
        "; touch hacked",
        "a' && touch hacked '",
        '"; touch hacked; "',
    ):
        for mode in ("audit", "guard"):
            given = {"MODE": mode, "BASE": "x", name: text}
            _, words, _ = ran(tmp_path, **given)
            assert any(text in word for word in words) or (mode, name) in {
                ("audit", "BASE"), ("audit", "PATCHSET"),
            }  # fmt: skip
            assert not (tmp_path / "hacked").exists()


def test_wrong_modes_and_options_in_disguise_are_refused(tmp_path: Path) -> None:
    assert ran(tmp_path, MODE="rm -rf") == (2, [], "code=2\n")
    assert ran(tmp_path, MODE="guard")[0] == 2
    assert ran(tmp_path, MODE="guard", BASE="--output=x")[0] == 2
    assert ran(tmp_path, MODE="guard", BASE="x", TREE="--output=x")[0] == 2
    assert not (tmp_path / "words").exists()
