"""The C++ and CUDA grammar, loaded once, and small helpers over its nodes."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any

#: A check without its ``;``, as macros allow it, is one for the grammar too.
_CHECK = re.compile(r"^[ \t]*[A-Z][A-Z0-9_]*(?:CHECK|ASSERT)[A-Z0-9_]*\s*\(", re.MULTILINE)


@lru_cache(maxsize=1)
def _parser() -> Any:
    import tree_sitter
    import tree_sitter_cuda

    return tree_sitter.Parser(tree_sitter.Language(tree_sitter_cuda.language()))


def parse_block(body: str) -> Any:
    """The statements of a braced body (``{ … }``) as the node of a compound statement.

    Lines of the nodes count from 0 at the body's first line. Never fails: what cannot be read is an
    ``ERROR`` node among the others.
    """
    root = _parser().parse(b"void f()" + body.encode("utf-8", "replace")).root_node
    for child in root.children:
        if child.type == "function_definition":
            block = child.child_by_field_name("body")
            if block is not None:
                return block
    return root


def text(node: Any) -> str:
    """The source of a node."""
    return str(node.text.decode("utf-8", "replace"))


def named(node: Any) -> list[Any]:
    """The named children without comments."""
    return [child for child in node.named_children if child.type != "comment"]


def unquoted(node: Any) -> str | None:
    """The value of a string literal or of several that stand side by side; None for anything else."""
    if node.type == "string_literal":
        inside = text(node)
        return inside[inside.index('"') + 1 : -1].replace('\\"', '"')
    if node.type == "raw_string_literal":
        for child in node.children:
            if child.type == "raw_string_content":
                return text(child)
        return ""
    if node.type == "concatenated_string":
        parts = [unquoted(child) for child in named(node)]
        return None if any(part is None for part in parts) else "".join(part or "" for part in parts)
    if node.type == "parenthesized_expression" and len(named(node)) == 1:
        return unquoted(named(node)[0])
    return None


def closed_checks(body: str) -> str:
    """The body with a ``;`` behind each check that lacks one; lines stay where they are."""
    out: list[str] = []
    kept = 0
    for match in _CHECK.finditer(body):
        depth = 0
        for bracket in re.finditer(r"[()]|\"(?:\\.|[^\"\\\n])*\"", body[match.end() - 1 :]):
            depth += {"(": 1, ")": -1}.get(bracket[0], 0)
            if depth == 0:
                at = match.end() - 1 + bracket.end()
                if re.match(r"\s*\n\s*[A-Za-z_}]", body[at:]) and at > kept:
                    out += [body[kept:at], ";"]
                    kept = at
                break
    return "".join([*out, body[kept:]])


def substituted(body: str, params: tuple[str, ...] | None, args: list[str]) -> str:
    """The body of a macro with arguments in place of its parameters; ``#`` and ``##`` are left out."""
    if params is None:
        return body
    given = dict(zip(params, args))
    if params[-1:] == ("...",):
        given["__VA_ARGS__"] = ", ".join(args[len(params) - 1 :])
    body = re.sub(r"\s*##\s*", "", body)
    return re.sub(r"#?\b([A-Za-z_]\w*)\b", lambda m: given.get(m[1], m[1]), body)
