"""Schemas of operators: what is read, and which functions cannot stand for one."""

from __future__ import annotations

import ast

import pytest

from auditor.patching.edits.schema import mismatches, read_schema

GOOD = "(Tensor q, float scale=1.0, *, Tensor(a!) out, int[]? sizes=None, ScalarType? dtype=None) -> ()"


def test_what_is_read() -> None:
    schema = read_schema(GOOD)
    assert [(each.name, each.type, each.default) for each in schema.arguments] == [
        ("q", "Tensor", ""),
        ("scale", "float", "1.0"),
        ("out", "Tensor", ""),
        ("sizes", "int[]?", "None"),
        ("dtype", "ScalarType?", "None"),
    ]
    assert schema.written == ("out",) and schema.returns == ""
    assert read_schema(" (int[2] x)  ->  (Tensor,\n Tensor) ").returns == "(Tensor, Tensor)"


@pytest.mark.parametrize(
    "text, fact",
    [
        ("Tensor x -> Tensor", "a schema has the form"),
        ("(Tensor x -> Tensor", "a schema has the form"),
        ("(Tensor x)", "a schema says what comes out"),
        ("(Tensor) -> Tensor", "`Tensor` is no argument of a schema"),
        ("(Tensor x, int x) -> Tensor", "x is there twice"),
    ],
)
def test_what_is_none(text: str, fact: str) -> None:
    with pytest.raises(ValueError, match=fact.replace("(", r"\(")):
        read_schema(text)


def said(function: str, schema: str = "(Tensor x) -> Tensor", typed: bool = True) -> list[str]:
    """Why a function cannot stand for a schema."""
    node = ast.parse(function).body[0]
    assert isinstance(node, ast.FunctionDef)
    return list(mismatches(read_schema(schema), node, typed=typed))


FITS = [
    ("Tensor x", "x: torch.Tensor"),
    ("Tensor x", "x: 'torch.Tensor'"),
    ("Tensor? x", "x: Tensor | None"),
    ("Tensor? x", "x: None | Tensor"),
    ("Tensor? x", "x: Optional[Tensor]"),
    ("int[] x", "x: List[int]"),
    ("int[3] x", "x: typing.Sequence[int]"),
    ("SymInt x", "x: int"),
    ("ScalarType x", "x: torch.dtype"),
    ("Device x", "x: device"),
    # what is not known here says nothing against it
    ("Tensor x", "x: 'not an annotation'"),
    ("Tensor x", "x: int | str"),
    ("Tensor x", "x: Optional[Strange]"),
    ("Tensor x", "x: list[Strange]"),
    ("Tensor x", "x: dict[str, int]"),
    ("Tensor x", "x: Strange"),
]


@pytest.mark.parametrize("argument, annotation", FITS)
def test_annotations_that_fit(argument: str, annotation: str) -> None:
    assert said(f"def f({annotation}) -> Tensor: ...", f"({argument}) -> Tensor") == []


@pytest.mark.parametrize(
    "function, schema, facts",
    [
        (
            "def f(*x): ...",
            "(Tensor x) -> Tensor",
            ["f takes its arguments by `*` or `/`, which no schema says"],
        ),
        (
            "def f(x, /): ...",
            "(Tensor x) -> ()",
            ["f takes its arguments by `*` or `/`, which no schema says"],
        ),
        ("def f(x, y): ...", "(Tensor x) -> ()", ["f takes (x, y), the schema (x)"]),
        (
            "def f(x): ...",
            "(Tensor x) -> ()",
            ["x of f has no annotation to take a schema from", "f does not say what it returns"],
        ),
        ("def f(x: int) -> None: ...", "(Tensor x) -> ()", ["x of f is int, the schema says Tensor"]),
        ("def f(x: int) -> None: ...", "(int x) -> Tensor", ["f returns None, the schema says Tensor"]),
        ("def f(x: int) -> Tensor: ...", "(int x) -> ()", ["f returns Tensor, the schema says ()"]),
    ],
)
def test_functions_that_do_not(function: str, schema: str, facts: list[str]) -> None:
    assert said(function, schema) == facts
    if "takes" not in facts[0]:
        assert said(function, schema, typed=False) == []
