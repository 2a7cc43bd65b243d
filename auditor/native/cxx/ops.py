"""Operators that a C++ file registers with PyTorch: ``TORCH_LIBRARY`` blocks, ``m.def`` and ``m.impl``."""

from __future__ import annotations

import re
from typing import Any, NamedTuple

from auditor.native.cxx.parse import named, parse_block, text, unquoted
from auditor.native.sources.text import hollowed

#: Text that a file with registrations contains.
MARK = "TORCH_LIBRARY"
_BLOCK = re.compile(r"\b\w*TORCH_LIBRARY(_FRAGMENT)?(_IMPL)?\w*\s*\(([^(){};]*)\)\s*\{")
_LAST = re.compile(r"([A-Za-z_]\w*(?:\s*::\s*[A-Za-z_]\w*)*)\W*\Z")


class Registration(NamedTuple):
    """One ``def`` or ``impl``. ``key`` is the dispatch key, ``CatchAll`` without one, "" for a schema."""

    namespace: str
    name: str  # with the overload: "add.out"
    schema: str
    key: str
    function: str  # "flash::mha_fwd"; "" for a schema alone, "lambda" for a function without a name
    line: int


class _Block(NamedTuple):
    """One block: the name of the library in it, what its registrations have in common, and what was found."""

    handle: str
    namespace: str
    key: str
    first: int  # its line in the file
    ops: list[Registration]
    faults: list[tuple[int, str]]


class Registrations(NamedTuple):
    """What one file registers, and what could not be read."""

    ops: tuple[Registration, ...]
    faults: tuple[tuple[int, str], ...]


def registrations(prepared: str, extension: str = "") -> Registrations:
    """The registrations in prepared text. ``extension`` is the library's name, for blocks that use it."""
    code = hollowed(prepared)
    ops: list[Registration] = []
    faults: list[tuple[int, str]] = []
    for match in _BLOCK.finditer(code):
        line_start = code.rfind("\n", 0, match.start()) + 1
        if code[line_start : match.start()].lstrip().startswith("#"):
            continue
        words = [word.strip() for word in match[3].split(",")]
        line = code.count("\n", 0, match.start()) + 1
        if len(words) < 2 or not words[0] or not words[-1]:
            faults.append((line, f"a {MARK} block without namespace and name"))
            continue
        namespace = extension if words[0] == "TORCH_EXTENSION_NAME" and extension else words[0]
        key = words[1] if match[2] and len(words) > 2 else ""
        end = _end(code, match.end() - 1)
        if end < 0:
            faults.append((line, f"the {MARK} block has no end"))
            end = len(code)
        first = code.count("\n", 0, match.end() - 1) + 1
        block = _Block(words[-1], namespace, key, first, ops, faults)
        _collect(parse_block(prepared[match.end() - 1 : end + 1]), block)
    return Registrations(tuple(ops), tuple(faults))


def _end(code: str, at: int) -> int:
    depth = 0
    for match in re.finditer(r"[{}]", code[at:]):
        depth += 1 if match[0] == "{" else -1
        if depth == 0:
            return at + match.start()
    return -1


def _collect(parsed: Any, block: _Block) -> None:
    stack = [parsed]
    while stack:
        node = stack.pop()
        if node.type == "call_expression":
            function = node.child_by_field_name("function")
            if function is not None and function.type == "field_expression":
                words = re.split(r"\s*(?:\.|->)\s*", text(function))
                if len(words) == 2 and words[0] == block.handle and words[1] in ("def", "impl"):
                    _take(node, words[1], block)
                    continue
        if node.type == "ERROR" and re.search(
            rf"\b{re.escape(block.handle)}\s*\.\s*(def|impl)\b", text(node)
        ):
            block.faults.append(
                (block.first + node.start_point[0], "registrations that the grammar cannot read")
            )
        stack.extend(reversed(node.children))


def _take(node: Any, verb: str, block: _Block) -> None:
    line = block.first + node.start_point[0]
    arguments = node.child_by_field_name("arguments")
    args = named(arguments) if arguments is not None else []
    schema = _schema(args[0]) if args else None
    if schema is None:
        block.faults.append((line, f"{verb} of an operator whose name is not written out"))
        return
    name, _, rest = schema.partition("(")
    name, namespace = name.strip(), block.namespace
    if "::" in name:
        namespace, _, name = name.partition("::")
    key, function = block.key, ""
    for arg in args[1:]:
        shown = text(arg)
        if arg.type == "initializer_list" or "at::Tag" in shown:
            continue
        found = _key(shown)
        if found:
            key = found
            continue
        inner = re.match(r"(?:torch|c10)::dispatch\s*\(\s*([\w:]+)\s*,", shown)
        if inner:
            key = _key(inner[1]) or inner[1]
        function = _function(arg, shown)
    if function and not key:
        key = "CatchAll"
    block.ops.append(
        Registration(
            namespace, name, " ".join(schema.split()) if rest else "", key if function else "", function, line
        )
    )


def _schema(node: Any) -> str | None:
    value = unquoted(node)
    if value is not None:
        return value
    if node.type == "call_expression":  # torch::schema("…"), TORCH_SELECTIVE_SCHEMA("…")
        arguments = node.child_by_field_name("arguments")
        inside = named(arguments) if arguments is not None else []
        return unquoted(inside[0]) if inside else None
    return None


def _key(shown: str) -> str:
    match = re.fullmatch(r"(?:(?:torch|c10|at)::)*(?:k([A-Z]\w*)|DispatchKey::(\w+))", shown)
    return (match[1] or match[2]) if match else ""


def _function(arg: Any, shown: str) -> str:
    if arg.type == "lambda_expression":
        return "lambda"
    shown = re.sub(r"<[^<>]*>", "", shown)
    match = _LAST.search(shown)
    return re.sub(r"\s+", "", match[1]) if match else shown[:80]
