"""Small questions to nodes of the C++ grammar: what is called, declared, passed."""

from __future__ import annotations

import re
from typing import Any

from auditor.native.cxx.parse import named, text, unquoted


def declared_name(node: Any) -> str:
    """The name that a declarator declares, pointers and references left out."""
    while node is not None and node.type not in ("identifier", "field_identifier"):
        inner = node.child_by_field_name("declarator")
        if inner is None:
            inner = next(
                (
                    child
                    for child in node.named_children
                    if child.type in ("identifier", "pointer_declarator")
                ),
                None,
            )
        node = inner
    return text(node) if node is not None else ""


def called(function: Any) -> str:
    """The name of what is called, template arguments left out; "" for anything that has none."""
    if function is None:
        return ""
    if function.type == "field_expression":
        member = function.child_by_field_name("field")
        return called(member)
    if function.type in ("template_function", "template_method", "dependent_name"):
        inner = function.child_by_field_name("name")
        return called(inner) if inner is not None else ""
    if function.type == "qualified_identifier":
        return re.sub(r"<[^()]*>|\s", "", text(function))
    if function.type in ("identifier", "field_identifier"):
        return text(function)
    if function.type == "primitive_type":
        return text(function)
    return ""


def template_arguments(shown: str) -> str:
    """The template arguments of a called name: ``f<A, B>`` gives ``A, B``."""
    _, _, rest = shown.partition("<")
    return rest


def calls_in(node: Any) -> list[Any]:
    """The outermost calls inside an expression, in order."""
    found: list[Any] = []
    pending = [node]
    while pending:  # not by recursion: an operator that stands a thousand times is as deep
        one = pending.pop()
        if one.type == "call_expression":
            found.append(one)
        elif one.type != "lambda_expression":
            pending += reversed(one.named_children)
    return found


def has_call(node: Any) -> bool:
    """Whether an expression calls anything."""
    return bool(calls_in(node))


def lambdas_in(node: Any) -> list[Any]:
    """Functions without a name among the arguments of a call, brackets around them ignored."""
    arguments = node.child_by_field_name("arguments")
    out = []
    for arg in named(arguments) if arguments is not None else []:
        while arg.type == "parenthesized_expression" and len(named(arg)) == 1:
            arg = named(arg)[0]
        if arg.type == "lambda_expression":
            out.append(arg)
    return out


def message_of(node: Any) -> str:
    """The text of a string argument, shortened for a reason; "" for anything else."""
    value = unquoted(node)
    return " ".join(value.split())[:160].rstrip(" :,;") if value else ""


def parameter_names(shown: str) -> list[str]:
    """The names of the parameters in the text between a function's brackets; "" for one without."""
    out: list[str] = []
    depth = 0
    start = 0
    for at, char in enumerate(shown):
        if char in "(<{[":
            depth += 1
        elif char in ")>}]":
            if char == ")" and depth == 0:
                out.append(shown[start:at])
                break
            depth -= 1
        elif char == "," and depth == 0:
            out.append(shown[start:at])
            start = at + 1
    names = []
    for piece in out:
        match = re.search(r"([A-Za-z_]\w*)\s*(?:\[[^\]]*\])?\s*\Z", piece.partition("=")[0])
        names.append(match[1] if match else "")
    return names
