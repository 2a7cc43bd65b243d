"""The quick parser against click: the same request, or no answer."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from auditor.cli.audit import project as audit_project
from auditor.cli.audit.quick import request_of
from auditor.cli.clickrun import run
from auditor.cli.request import SPECS, Request

ROOT = Path(__file__).resolve().parents[2]


def by_click(words: list[str]) -> tuple[Request | None, int]:
    """The request that click makes of the words, and the exit code."""
    seen: list[Request] = []

    def catch(request: Request) -> int:
        seen.append(request)
        return 0

    patch = pytest.MonkeyPatch()
    try:
        patch.setattr(audit_project, "audit_project", catch)
        code = run(audit_project.project("sglang"), "audit sglang", words)
    finally:
        patch.undo()
    return (seen[0] if seen else None), code


OPTIONS = [name for spec in SPECS for name in spec.names]
VALUES = [
    "735a256",
    "a/b",
    "sm_120",
    "120,121",
    "all",
    "json",
    "never",
    "x=1",
    "x=2",
    "y =z",
    "blocked",
    "",
    "-",
]
ODD = [
    "-vv",
    "-qv",
    "--",
    "--format=json",
    "--target=sm_90",
    "-q=1",
    "--verb",
    "--help",
    "--quiet=1",
    "--worktree=a",
]
WORD = st.sampled_from(OPTIONS) | st.sampled_from(VALUES) | st.sampled_from(ODD)
#: Mostly well-formed lines, or nearly every one would only be a mistake.
PAIR = st.builds(
    lambda spec, value: [spec.names[-1]] if spec.kind in ("flag", "count") else [spec.names[-1], value],
    st.sampled_from(SPECS),
    st.sampled_from(VALUES),
)


@settings(max_examples=150, deadline=None)
@given(st.lists(PAIR | WORD.map(lambda word: [word]), max_size=6).map(lambda groups: sum(groups, [])))
@example([])
@example(["--worktree", "--repo", "x"])
@example(["--installed", "-"])
@example(["--output", "-"])
@example(["--commit", "--release"])
def test_quick_agrees_with_click(words: list[str]) -> None:
    quick = request_of("sglang", words)
    if quick is not None:
        assert (quick, 0) == by_click(words)


@pytest.mark.parametrize(
    "words",
    [
        [],
        ["--commit", "735a256", "--target", "sm_120,sm_121", "--against", "sm_100"],
        ["--release", "0.5.14", "--format", "json", "--output", "a.json", "--fail-on", "blocked,unguarded"],
        ["--release=0.5.14", "--target=all", "-v", "-v", "-q", "--no-cache", "--defaults", "--allow-fetch"],
        ["--worktree", "--assume", "dep.x=absent", "--assume", "cuda=12.8"],
        ["--installed", "--color", "never"],
        ["--repo", "https://h.example/a", "--commit", "x"],
    ],
)
def test_plain_lines_are_quick(words: list[str]) -> None:
    quick = request_of("sglang", words)
    assert quick is not None
    assert (quick, 0) == by_click(words)


@pytest.mark.parametrize(
    "words",
    [
        ["--help"],
        ["-vv"],
        ["stray"],
        ["--target", "sm_12"],
        ["--against", "all"],
        ["--format", "xml"],
        ["--fail-on", "x"],
        ["--assume", "x"],
        ["--commit"],
        ["--path", "a", "--worktree", "b"],
        ["--quiet=1"],
    ],
)
def test_everything_else_is_left_to_click(words: list[str]) -> None:
    assert request_of("sglang", words) is None


def test_a_plain_line_does_not_import_click(tmp_path: Path) -> None:
    code = (
        "import sys; from auditor.cli.main import audit; import auditor.cli.audit.report as p\n"
        "p.audit_project = lambda request: print(request.commit) or 1\n"
        "sys.argv = ['audit', 'sglang', '--commit', 'abc']; code = audit()\n"
        "heavy = {'libcst', 'git', 'rich', 'yaml', 'click'}\n"
        "print('loaded', sorted(heavy & set(sys.modules)), code)"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)
    assert done.stdout.splitlines() == ["abc", "loaded [] 1"], done.stderr


def test_every_option_reaches_the_request() -> None:
    words: dict[str, Any] = {
        "text": "t", "file": "f", "maybe": "m", "choice": None, "targets": "sm_80", "target": "sm_86",
        "assumption": "cuda=12.8", "verdicts": "blocked",
    }  # fmt: skip
    plain = request_of("sglang", [])
    for spec in SPECS:
        line = [spec.names[-1]]
        if spec.kind not in ("flag", "count"):
            line.append(spec.choices[-1] if spec.kind == "choice" else words[spec.kind])
        assert request_of("sglang", line) != plain, spec.names
