"""Schemas of operators as PyTorch writes them, held against the Python functions that stand for them.

Source of the types: ``torch.library.infer_schema`` and ``aten/src/ATen/native/README.md`` of PyTorch.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass

from auditor import pytext
from auditor.lazyre import lazy

_ARGUMENT = lazy(
    r"(?P<type>[A-Za-z]\w*(?:\[\d*\])?\??(?:\[\d*\]\??)?)(?P<alias>\(\w+!?(?:\s*->\s*\w+)?\)|!)?(?P<more>\[\d*\]|\?)*"
    r"\s+(?P<name>[A-Za-z_]\w*)\s*(?:=\s*(?P<default>.+))?",
    re.DOTALL,
)
_PLAIN = {"int": "int", "SymInt": "int", "float": "float", "bool": "bool", "str": "str"}
_DTYPES = {"ScalarType": "torch.dtype", "Device": "torch.device", "Scalar": "Number"}


@dataclass(frozen=True)
class Argument:
    """One argument: ``type`` without its alias (``Tensor``, ``Tensor?``, ``int[]``)."""

    name: str
    type: str
    written: bool  # the operator writes to it
    default: str = ""


@dataclass(frozen=True)
class Schema:
    """``arguments`` in order; ``returns`` as written, "" for nothing."""

    arguments: tuple[Argument, ...]
    returns: str

    @property
    def written(self) -> tuple[str, ...]:
        """Names of the arguments that are written to."""
        return tuple(each.name for each in self.arguments if each.written)


def read_schema(text: str) -> Schema:
    """``(Tensor q, Tensor(a!) out) -> ()``. ValueError says what is wrong."""
    text = text.strip()
    end = _closing(text)
    if not text.startswith("(") or end < 0:
        raise ValueError("a schema has the form `(Tensor x, float s) -> Tensor`")
    arrow = re.fullmatch(r"\s*->\s*(.+)", text[end + 1 :], re.DOTALL)
    if arrow is None:
        raise ValueError("a schema says what comes out: `-> Tensor`, `-> ()`")
    arguments = []
    for part in split_outer(text[1:end]):
        if part == "*":
            continue
        match = _ARGUMENT.fullmatch(part)
        if match is None:
            raise ValueError(f"`{part}` is no argument of a schema")
        alias = match["alias"] or ""
        arguments.append(
            Argument(
                match["name"], match["type"] + (match["more"] or ""), "!" in alias, match["default"] or ""
            )
        )
    names = [each.name for each in arguments]
    for name in names:
        if names.count(name) > 1:
            raise ValueError(f"{name} is there twice")
    returns = " ".join(arrow[1].split())
    return Schema(tuple(arguments), "" if returns == "()" else returns)


def _closing(text: str) -> int:
    depth = 0
    for at, char in enumerate(text):
        depth += (char in "([") - (char in ")]")
        if depth == 0:
            return at
    return -1


def split_outer(text: str) -> list[str]:
    """Parts between commas that are in no brackets."""
    out, depth, start = [], 0, 0
    for at, char in enumerate(text):
        depth += (char in "([") - (char in ")]")
        if char == "," and depth == 0:
            out.append(text[start:at].strip())
            start = at + 1
    out.append(text[start:].strip())
    return [part for part in out if part]


def mismatches(schema: Schema, function: ast.FunctionDef, *, typed: bool) -> Iterator[str]:
    """Why a function cannot stand for an operator with a schema.

    ``typed``: the schema will be inferred from the annotations, so that each has to say the same.
    """
    spec = function.args
    if spec.vararg or spec.kwarg or spec.posonlyargs:
        yield f"{function.name} takes its arguments by `*` or `/`, which no schema says"
        return
    found = [*spec.args, *spec.kwonlyargs]
    wanted = [each.name for each in schema.arguments]
    if [each.arg for each in found] != wanted:
        taken = ", ".join(each.arg for each in found)
        yield f"{function.name} takes ({taken}), the schema ({', '.join(wanted)})"
        return
    if not typed:
        return
    for each, argument in zip(found, schema.arguments, strict=True):
        said = _annotation(each.annotation)
        if each.annotation is None:
            yield f"{each.arg} of {function.name} has no annotation to take a schema from"
        elif said and said != _normal(argument.type):
            text = ast.unparse(each.annotation)
            yield f"{each.arg} of {function.name} is {text}, the schema says {argument.type}"
    nothing = isinstance(function.returns, ast.Constant) and function.returns.value is None
    if function.returns is None:
        yield f"{function.name} does not say what it returns"
    elif nothing != (schema.returns == ""):
        text = ast.unparse(function.returns)
        yield f"{function.name} returns {text}, the schema says {schema.returns or '()'}"


def _normal(kind: str) -> str:
    """A type of a schema in the words of :func:`_annotation`."""
    if kind.endswith("?"):
        return f"{_normal(kind[:-1])}?"
    listed = re.fullmatch(r"(.+)\[\d*\]", kind)
    if listed:
        return f"{_normal(listed[1])}[]"
    return _PLAIN.get(kind, kind)


def _annotation(node: ast.expr | None) -> str:
    """An annotation as a type of a schema, "" where it is none that is known here."""
    if node is None:
        return ""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        try:
            return _annotation(pytext.parse_expression(node.value))
        except SyntaxError:
            return ""
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitOr):
        for one, other in ((node.left, node.right), (node.right, node.left)):
            if isinstance(other, ast.Constant) and other.value is None:
                return _optional(one)
        return ""
    if isinstance(node, ast.Subscript):
        head = ast.unparse(node.value).rpartition(".")[2]
        if head == "Optional":
            return _optional(node.slice)
        if head in ("List", "list", "Sequence"):
            inner = _annotation(node.slice)
            return f"{inner}[]" if inner else ""
        return ""
    text = ast.unparse(node)
    for known, said in _DTYPES.items():
        if text == said or text == said.rpartition(".")[2]:
            return known
    if text in ("torch.Tensor", "Tensor"):
        return "Tensor"
    return _PLAIN.get(text, "")


def _optional(node: ast.expr) -> str:
    inner = _annotation(node)
    return f"{inner}?" if inner else ""
