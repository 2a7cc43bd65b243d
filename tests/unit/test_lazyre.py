"""Patterns that are compiled late: every one of the project is right, and behaves as a compiled one."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

import auditor
from auditor.lazyre import lazy


def test_it_is_compiled_when_it_is_used() -> None:
    pattern = lazy("(")
    with pytest.raises(re.error):
        pattern.match("(")
    word = lazy(r"(?P<word>[a-z]+)", re.IGNORECASE)
    found = word.fullmatch("Word")
    assert found is not None and found["word"] == "Word"
    assert word.sub("x", "a b") == "x x" and word.pattern == r"(?P<word>[a-z]+)"
    assert lazy(rb"\d").findall(b"a1b2") == [b"1", b"2"]


def test_every_pattern_of_the_project_compiles() -> None:
    seen = 0
    for file in sorted(Path(auditor.__file__).parent.rglob("*.py")):
        text = file.read_text(encoding="utf-8")
        if "import lazy" not in text:
            continue
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "lazy":
                pattern = eval(ast.unparse(node), {"lazy": lazy, "re": re})  # the project's own words
                assert isinstance(pattern.pattern, (str, bytes)), file
                seen += 1
    assert seen > 30
