"""Patterns: what matches, what a metavariable stands for, and that the cheap test never rejects a match."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from auditor.queries import pattern
from auditor.queries.pattern import code_of, match, parse_segment
from auditor.queries.shape import PatternError, shape


def captures(text: str, code: str) -> dict[str, str] | None:
    """Match one statement or expression; checks on the way that the shape agrees."""
    (statement,) = ast.parse(code).body
    node = statement.value if isinstance(statement, ast.Expr) else statement
    parsed = parse_segment(code.encode(), expression=isinstance(statement, ast.Expr))
    assert parsed is not None
    found = match(text, parsed)
    if found is not None:
        assert shape(text).could_match(node), "the cheap test rejected a match"
    return None if found is None else {name: code_of(value) for name, value in found.items()}


@pytest.mark.parametrize(
    ("text", "code", "expected"),
    [
        ("$F.set($V)", "flags.A.set(True)", {"F": "flags.A", "V": "True"}),
        ("$F.set($V)", "flags.A.set(  # why\n  True,\n)", {"F": "flags.A", "V": "True"}),
        ("$F.set($V)", "flags.A.set(True, 1)", None),
        ("$F.set($V)", "flags.A.set(value=True)", None),
        ("$F.set($...A)", "flags.A.set(x, value=True)", {"F": "flags.A", "A": "x, value=True"}),
        ("f($...A, last)", "f(1, 2, last)", {"A": "1, 2"}),
        ("f($...A, last)", "f(last)", {"A": ""}),
        ("f($X, $X)", "f(a.b, a . b)", {"X": "a.b"}),
        ("f($X, $X)", "f(a.b, a.c)", None),
        ("f($_, $_)", "f(1, 2)", {}),
        ("f(a=$A, b=$B)", "f(b=2, a=1)", {"A": "1", "B": "2"}),
        ("f($...R, a=$A)", "f(0, c=3, a=1)", {"A": "1", "R": "0, c=3"}),
        ("f(a=$A)", "f(a=1, b=2)", None),
        ("'on'", '"on"', {}),
        ("'on'", '"o" "n"', {}),
        ("'on'", '"off"', None),
        ("$X == 16", "a == 0x10", {"X": "a"}),
        ("$X > $Y", "a >= b", None),
        ("$X == $Y", "((a) == (b))", {"X": "a", "Y": "b"}),
        ("$A and $B", "x and y and z", {"A": "x and y", "B": "z"}),
        ("x = $V", "x = 1", {"V": "1"}),
        ("x = $V", "x: int = 1", None),
        ("x: $T = $V", "x: list[int] = []", {"T": "list[int]", "V": "[]"}),
        ("$O.$A = 'x'", "self.backend = 'x'", {"O": "self", "A": "backend"}),
        ("from $M import f", "from ..a.b import f", {"M": "a.b"}),
        ("from $M import $...N, f", "from a import (b, c as d, f)", {"M": "a", "N": "b, c as d"}),
        ("from a import f", "from .a import f", None),
        ("import a.b as $N", "import a.b as c", {"N": "c"}),
        ("[$...H, $T]", "[1, 2, 3]", {"H": "1, 2", "T": "3"}),
        ("{**$...R, 'k': $V}", "{'a': 1, 'k': 2}", {"R": "'a': 1", "V": "2"}),
        ("$X if $C else $Y", "1 if a else 2", {"X": "1", "C": "a", "Y": "2"}),
        ("return $V", "return f(1)", {"V": "f(1)"}),
        ("return", "return 1", None),
        ("if $C:\n    $...B", "if a:\n    b()\n    c()", {"C": "a", "B": "b(); c()"}),
        ("if $C:\n    $...B", "if a: b()\nelse: c()", {"C": "a", "B": "b()"}),
        ("if $C:\n    $...B\nelse:\n    $...D", "if a:\n    b()", None),
        (
            "if $C:\n    $...B\n    return $V",
            "if a:\n    b()\n    return 1",
            {"C": "a", "B": "b()", "V": "1"},
        ),
        ("if $C:\n    return $V", "if a:\n    b()\n    return 1", None),
        ("def f($...P):\n    $...B", "@wrap\ndef f(a, *, b: int = 1) -> int:\n    pass", {"B": "pass"}),
        ("def $F(a, b):\n    $...B", "def g(a: int, b=2):\n    return 1", {"F": "g", "B": "return 1"}),
        ("raise $E($...A)", "raise ValueError('x', 1)", {"E": "ValueError", "A": "'x', 1"}),
        ("assert $C, $M", "assert a", None),
        (
            "with $X as $Y:\n    $...B",
            "with open(p) as f:\n    pass",
            {"X": "open(p)", "Y": "f", "B": "pass"},
        ),
    ],
)
def test_match(text: str, code: str, expected: dict[str, str] | None) -> None:
    found = captures(text, code)
    if expected is None:
        assert found is None
    else:
        assert found is not None
        assert {name: found[name] for name in expected} == expected


@pytest.mark.parametrize(
    ("text", "fact"),
    [
        ("$X", "a lone metavariable matches everything"),
        ("$...XS", "a lone metavariable matches everything"),
        ("a = 1\nb = 2", "one statement or one expression, this has 2"),
        ("if :", "the pattern is not Python"),
        ("", "this has 0"),
    ],
)
def test_what_is_no_pattern(text: str, fact: str) -> None:
    with pytest.raises(PatternError, match=fact):
        shape(text)


def test_a_dollar_in_a_string_is_no_metavariable() -> None:
    assert shape('f("$X", $Y)').holes == {"Y"}
    assert captures('f("$X", $Y)', 'f("$X", 1)') == {"Y": "1"}


def test_needed_names_stand_in_every_match() -> None:
    assert set(shape("$F.set(value=$V, key='word')").needs) == {b"set", b"value", b"key", b"word"}


PATTERNS = (
    "$X.$Y",
    "$X($...A)",
    "$F($X, $...A)",
    "$X = $Y",
    "$X: $T = $Y",
    "return $X",
    "if $C:\n    $...B",
    "if $C:\n    return $X",
    "if $C:\n    $...B\nelse:\n    $...D",
    "for $X in $Y:\n    $...B",
    "def $F($...P):\n    $...B",
    "$X in $Y",
    "$A and $B",
    "not $X",
    "[$...X]",
    "($A, $...X)",
    "{$K: $V, **$...R}",
    "$X[$...I]",
    "from $M import $...N",
    "$A if $B else $C",
    "f($X)",
    "class $C($...B):\n    $...S",
    "raise $E",
)


def test_the_cheap_test_is_sound_on_real_code() -> None:
    """Whatever LibCST matches, the shape has to let through; our own source is the sample."""
    text = Path(pattern.__file__).with_name("gatematch.py").read_text()
    lines = text.splitlines(keepends=True)
    matched = rejected = 0
    for node in ast.walk(ast.parse(text)):
        if not isinstance(node, (ast.expr, ast.stmt)) or isinstance(node, (ast.Name, ast.Constant, ast.Expr)):
            continue
        segment = ast.get_source_segment(text, node)
        assert segment is not None
        indent = lines[node.lineno - 1][: node.col_offset]
        indent = indent if not indent.strip() else " " * len(indent)
        parsed = parse_segment(
            segment.encode(), expression=isinstance(node, ast.expr), indent=indent.encode()
        )
        if parsed is None:
            continue
        for text_ in PATTERNS:
            if match(text_, parsed) is not None:
                matched += 1
                assert shape(text_).could_match(node), (text_, segment)
            elif isinstance(node, shape(text_).roots):
                rejected += not shape(text_).could_match(node)
    assert matched > 300 and rejected > 50
