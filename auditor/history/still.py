"""Gates that came or went, whose condition stands in both trees: only what it depends on is another.

A gate is a condition that depends on the GPU. ``if backend not in KNOWN`` is one as long as something above
it sets ``backend`` by the GPU; when that goes, the audit has no gate there any more, and the line stays.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from functools import cache
from typing import Protocol

import msgspec

from auditor import pytext
from auditor.history.model import Change
from auditor.trees.base import SourceTree


class _Lines(Protocol):
    def __call__(self, path: str) -> dict[tuple[str, str], int]: ...


def with_what_stands(
    changes: Iterable[Change], old: SourceTree | None, new: SourceTree | None
) -> tuple[Change, ...]:
    """``changes``; a gate that came or went says so where its condition was there before, or is still there.

    A tree that is not at hand (a baseline, a kept report) is not asked.
    """
    before, after = _reader(old), _reader(new)
    out = []
    for change in changes:
        key = change.symbol, change.what
        if change.kind == "removed" and after is not None:
            line = after(change.path).get(key)
            if line is not None:
                text = f"the condition is still there, line {line}, and depends on the GPU no more"
                change = msgspec.structs.replace(change, why=text)
        elif change.kind == "added" and before is not None:
            line = before(change.path).get(key)
            if line is not None:
                text = f"the condition was there before, line {line}, and did not depend on the GPU"
                change = msgspec.structs.replace(change, why=text)
        out.append(change)
    return tuple(out)


def _reader(tree: SourceTree | None) -> _Lines | None:
    if tree is None:
        return None

    @cache
    def lines(path: str) -> dict[tuple[str, str], int]:
        if path not in tree.blobs():
            return {}
        try:
            module = pytext.parse(tree.read(path))
            return {key: line for key, line in reversed(list(_conditions(module.body, "")))}
        except (SyntaxError, ValueError, RecursionError):
            return {}

    return lines


def _conditions(body: Iterable[ast.AST], symbol: str) -> Iterator[tuple[tuple[str, str], int]]:
    """((symbol, condition), line) of every test, in the order of the source."""
    for node in body:
        inner = symbol
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            inner = f"{symbol}.{node.name}" if symbol else node.name
        elif isinstance(node, (ast.If, ast.IfExp, ast.While, ast.Assert)):
            yield (symbol, ast.unparse(node.test)), node.test.lineno
        elif isinstance(node, ast.comprehension):
            for test in node.ifs:
                yield (symbol, ast.unparse(test)), test.lineno
        yield from _conditions(ast.iter_child_nodes(node), inner)


__all__ = ["with_what_stands"]
