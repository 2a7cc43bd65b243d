"""What must hold of a carried file: it parses, and every name is as known as it was on both sides."""

from __future__ import annotations

import ast
import builtins
from dataclasses import dataclass
from functools import lru_cache

from auditor.patching.merge.statements import parsed

_BUILTINS = frozenset(dir(builtins)) | {
    "__file__", "__name__", "__doc__", "__package__", "__spec__", "__path__", "__all__", "__class__",
    "__annotations__", "__builtins__", "__loader__", "__module__", "__qualname__",
}  # fmt: skip


@dataclass(frozen=True)
class Names:
    """The names of one file. ``stars``: some come from ``import *``, so nobody can say which are known."""

    bound: frozenset[str]
    unknown: frozenset[str]  # loaded somewhere, bound nowhere in the file
    stars: bool


def _tree(data: bytes) -> ast.Module | None:
    try:
        return parsed(data)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


@lru_cache(maxsize=512)
def names_of(data: bytes) -> Names | None:
    """The names of a file, None where it does not parse."""
    tree = _tree(data)
    if tree is None:
        return None
    bound: set[str] = set()
    loaded: set[str] = set()
    stars = False
    for node in ast.walk(tree):
        if isinstance(node, ast.Name):
            (loaded if isinstance(node.ctx, ast.Load) else bound).add(node.id)
        elif isinstance(node, (ast.Import, ast.ImportFrom)):
            for alias in node.names:
                stars = stars or alias.name == "*"
                bound.add((alias.asname or alias.name).split(".")[0])
        elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            bound.add(node.name)
        elif isinstance(node, ast.arg):
            bound.add(node.arg)
        elif isinstance(node, ast.ExceptHandler) and node.name:
            bound.add(node.name)
        elif isinstance(node, (ast.Global, ast.Nonlocal)):
            bound.update(node.names)
        elif isinstance(node, (ast.MatchAs, ast.MatchStar)) and node.name:
            bound.add(node.name)
        elif isinstance(node, ast.MatchMapping) and node.rest:
            bound.add(node.rest)
    return Names(frozenset(bound), frozenset(loaded - bound - _BUILTINS), stars)


@lru_cache(maxsize=512)
def parses(data: bytes) -> bool:
    """Whether a file is Python to read."""
    return _tree(data) is not None


@lru_cache(maxsize=512)
def compiles(data: bytes) -> bool:
    """Whether a file is Python that a compiler takes: repeated keywords and misplaced ``return`` included.

    Nothing of it is run.
    """
    tree = _tree(data)
    if tree is None:
        return False
    try:
        compile(tree, "file", "exec", dont_inherit=True)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    return True


def lost_names(result: bytes, ours: bytes, theirs: bytes) -> list[str]:
    """Names that the result uses and nobody defines there, though both sides knew each of theirs."""
    after = names_of(result)
    if after is None or after.stars or not after.unknown:
        return []
    mine, other = names_of(ours), names_of(theirs)
    if mine is None or other is None:
        return []
    return sorted(after.unknown - mine.unknown - other.unknown)


def doubled_definitions(result: bytes, ours: bytes, theirs: bytes) -> list[str]:
    """Functions and classes that the result defines twice in one place, and neither side did."""
    after = _definitions(result)
    return sorted(after - _definitions(ours) - _definitions(theirs)) if after else []


@lru_cache(maxsize=512)
def _definitions(data: bytes) -> frozenset[str]:
    """Qualified names defined more than once in the same body."""
    tree = _tree(data)
    if tree is None:
        return frozenset()
    twice: set[str] = set()
    work: list[tuple[str, list[ast.stmt]]] = [("", tree.body)]
    while work:
        prefix, body = work.pop()
        seen: set[str] = set()
        for node in body:
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
                if node.name in seen:
                    twice.add(prefix + node.name)
                seen.add(node.name)
                work.append((f"{prefix}{node.name}.", node.body))
    return frozenset(twice)
