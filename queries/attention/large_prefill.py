"""What a size limit is worth, who else reads it, and which flags take the same way at any size."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from auditor import pytext
from auditor.queries.engine import Match

FLAG = re.compile(r"\b([A-Z][A-Z0-9_]{5,})\.get\(")


def refine(context, matches: list[Match]) -> list[Match]:
    trees: dict[str, ast.Module] = {}
    for match in matches:
        bound = match.captures["BOUND"].rsplit(".", 1)[-1]
        defined = re.compile(
            rf"^{re.escape(bound)}\s*(?::[^=\n]+)?=\s*(0x[0-9a-fA-F]+|[0-9_]+)", re.MULTILINE
        )
        value, readers = "", []
        files = dict(context.files_with(bound))
        files.setdefault(match.path, context.tree.read(match.path))
        for path, data in files.items():
            found = defined.search(data.decode("utf-8", "replace"))
            if found and not value:
                value = f"{int(found[1], 0):,}"
            if path not in trees:
                trees[path] = _tree(data)
            readers += [(path, line, symbol) for line, symbol in _readers(trees[path], bound)]
        here = trees[match.path]
        inside, test = range(0), ""
        for node in ast.walk(here):
            if isinstance(node, ast.If) and node.lineno == match.line:
                inside, test = range(match.line, node.body[0].lineno), ast.unparse(node.test)
        others = [
            f"{path.rsplit('/', 1)[-1]}:{line} ({symbol})"
            for path, line, symbol in readers
            if path != match.path or line not in inside
        ]
        flags = list(dict.fromkeys(FLAG.findall(test)))
        kernel = _kernel(here, match.captures["CALL"].rsplit(".", 1)[-1])
        match.captures |= {
            "KERNEL": f" ({kernel}, no 12.x build)" if kernel else "",
            "VALUE": value or bound,
            "FLAGS": f", or {' or '.join(flags)} at any size" if flags else "",
            **_when_on(context, flags),
            "OTHERS": f"; {bound} also decides in {', '.join(others)}" if others else "",
        }
    return matches


def _tree(data: bytes) -> ast.Module:
    try:
        return pytext.parse(data)
    except SyntaxError:
        return ast.Module([], [])


def _when_on(context, flags: list[str]) -> dict[str, str]:
    """What is said instead where one of the flags is on unless it is set: then no size is safe."""
    on = [flag for flag in flags if _is_on(context, flag)]
    if not on:
        return {}
    off = " ".join(f"{flag}=0" for flag in on)
    return {
        "FLAGS": f", and any at all while {' or '.join(on)} is on, as it is by default,",
        "FIX": f"{off} and --chunked-prefill-size 8192: the flag takes batches of any size there, a batch"
        " above the limit goes there without it; patches show sm120 sparse-prefill-guard",
    }


def _is_on(context, flag: str) -> bool:
    """Whether the declaration of a flag says True."""
    declared = re.compile(
        rf"^\s*{flag}\s*(?::[^=\n]+)?=\s*(?:\w+\(\s*(?:default\s*=\s*)?)?True\b", re.MULTILINE
    )
    return any(declared.search(data.decode("utf-8", "replace")) for _, data in context.files_with(flag))


def _kernel(tree: ast.Module, name: str) -> str:
    """The kernel that a function of the file imports from the project's package of compiled kernels."""
    for function in ast.walk(tree):
        if isinstance(function, (ast.FunctionDef, ast.AsyncFunctionDef)) and function.name == name:
            for node in ast.walk(function):
                if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("sgl_kernel"):
                    return node.names[0].name
    return ""


def _readers(tree: ast.AST, name: str, symbol: str = "module level") -> Iterator[tuple[int, str]]:
    """(line, function) of the comparisons with a name."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            yield from _readers(node, name, node.name)
            continue
        if isinstance(node, ast.Compare):
            for side in (node.left, *node.comparators):
                if name in (getattr(side, "id", ""), getattr(side, "attr", "")):
                    yield side.lineno, symbol
        yield from _readers(node, name, symbol)
