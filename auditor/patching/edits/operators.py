"""Where a tree registers an operator: in Python through PyTorch or the project's functions, and in C++.

A name that is taken is kept by some projects without a word, so that a second registration has no effect. The
search is by text first, so that only files with the name are parsed. A registration whose name is computed
cannot be seen.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import NamedTuple

from auditor.native.cxx.ops import MARK, registrations
from auditor.native.sources.text import every_part, without_comments
from auditor.patching.edits.miss import Miss
from auditor.patching.edits.source import read_source
from auditor.patching.edits.tree import Tree
from auditor.profile import Profile

_CPLUSPLUS = (".cc", ".cpp", ".cxx", ".cu", ".cuh", ".h", ".hpp")
#: Functions and methods of PyTorch that define an operator, first argument: its name, with or without schema.
_TORCH = ("define", "custom_op", "triton_op")


class Registered(NamedTuple):
    """One place that defines the operator."""

    path: str
    line: int

    def shown(self) -> str:
        """The place for a person."""
        return f"{self.path}:{self.line}"


def registered(tree: Tree, operator: str) -> list[Registered]:
    """All places that define an operator ``namespace::name``, sorted."""
    namespace, _, name = operator.partition("::")
    word = re.compile(rb"\b" + re.escape(name).encode() + rb"\b")
    out: list[Registered] = []
    for path, data in _files(tree):
        if not word.search(data):
            continue
        if path.endswith(".py"):
            out += [Registered(path, line) for line in _in_python(data, path, namespace, name, tree.profile)]
        elif MARK.encode() in data:
            out += [Registered(path, line) for line in _in_cplusplus(data, namespace, name)]
    return sorted(out)


def _files(tree: Tree) -> Iterator[tuple[str, bytes]]:
    """Python of the packages and all C++, as the edits so far left it, tests left out."""
    profile = tree.profile
    packages = tuple(f"{build.python}/" for build in profile.native.builds if build.python)
    inside = f"{tree.map.root}/{profile.package}/" if tree.map.root else f"{profile.package}/"
    paths = sorted(
        path
        for path in {*tree.base.blobs(), *tree.files}
        if (path.endswith(_CPLUSPLUS) or (path.endswith(".py") and path.startswith((inside, *packages))))
        and not profile.is_excluded(path)
        and tree.has(path)
    )
    plain = [path for path in paths if path not in tree.files]
    for path in paths:
        if path in tree.files:
            yield path, tree.read(path)
    yield from tree.base.read_many(plain)


def _in_cplusplus(data: bytes, namespace: str, name: str) -> list[int]:
    text = every_part(without_comments(data.decode("utf-8", "replace")))
    own = [
        each
        for each in registrations(text).ops
        if each.name.partition(".")[0] == name and each.namespace == namespace
    ]
    schemas = [each.line for each in own if each.schema]
    return schemas or [each.line for each in own if each.key == "CatchAll"][:1]


def _in_python(data: bytes, path: str, namespace: str, name: str, profile: Profile) -> list[int]:
    try:
        tree = read_source(data, path).tree
    except Miss:
        return []
    functions = {
        each.function.rpartition(".")[2]: each for each in profile.operators if each.namespace == namespace
    }
    libraries = _libraries(tree)
    out: set[int] = set()
    decorators: set[int] = set()
    for node in ast.walk(tree):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            for decorator in node.decorator_list:
                decorators.add(id(decorator))
                call = decorator if isinstance(decorator, ast.Call) else None
                word = _last(call.func if call else decorator)
                if word in functions:
                    said = _keyword(call, functions[word].name) if call else None
                    if (said if said is not None else node.name) == name:
                        out.add(node.lineno)
                elif word in _TORCH and call and _names(call, f"{namespace}::{name}"):
                    out.add(node.lineno)
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call) or id(node) in decorators:
            continue
        word = _last(node.func)
        if word in functions:
            each = functions[word]
            said = _keyword(node, each.name)
            if said is None and each.position is not None and len(node.args) > each.position:
                said = _text(node.args[each.position])
            if said is None and each.position is None and node.args:
                said = _last(node.args[0])
            if said == name:
                out.add(node.lineno)
        elif word in _TORCH:
            if _names(node, f"{namespace}::{name}"):
                out.add(node.lineno)
            elif _names(node, name) and isinstance(node.func, ast.Attribute):
                library = libraries.get(ast.unparse(node.func.value), namespace)
                if library == namespace and ast.unparse(node.func.value) != "torch.library":
                    out.add(node.lineno)
    return sorted(out)


def _libraries(tree: ast.Module) -> dict[str, str]:
    """Variable -> namespace, for ``x = Library("namespace", …)``."""
    out = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Call):
            if _last(node.value.func) == "Library" and node.value.args:
                said = _text(node.value.args[0])
                if said:
                    out.update({ast.unparse(target): said for target in node.targets})
    return out


def _names(call: ast.Call, name: str) -> bool:
    """Whether the first argument is a name, alone or before a schema."""
    said = _text(call.args[0]) if call.args else _keyword(call, "name")
    return bool(said) and str(said).partition("(")[0].strip().partition(".")[0] == name


def _keyword(call: ast.Call, name: str) -> str | None:
    return next((_text(word.value) for word in call.keywords if word.arg == name), None)


def _text(node: ast.expr) -> str | None:
    """A text that is written out, or the written start of one that is put together."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        return _text(node.left)
    if isinstance(node, ast.JoinedStr) and node.values:
        return _text(node.values[0])
    return None


def _last(node: ast.expr) -> str:
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""
