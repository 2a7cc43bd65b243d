"""From the words of an edit to its place: symbols followed through imports and moves."""

from __future__ import annotations

import ast
import difflib
import re

from auditor.patching.edits.miss import Miss, NotHere
from auditor.patching.edits.source import PySource, read_source
from auditor.patching.edits.tree import Place, Tree

_SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
_HOPS = 12


def resolve(tree: Tree, where: str) -> Place:
    """The place that ``in`` names. ``Miss`` P070, P076."""
    known = tree.found.get(where)
    if known is not None and tree.has(known[0]) and (tree.search or not known[2]):
        path, parts, moved, sure = known
        source = read_source(tree.read(path), path)
        nodes: list[ast.AST] = source.named(parts) if parts else [source.tree]
        if nodes:
            return Place(source, parts, nodes, moved, sure)
    place = _resolved(tree, where)
    tree.found[where] = (place.path, place.parts, place.moved, place.sure)
    return place


def resolve_name(tree: Tree, where: str, name: str) -> Place:
    """The body that assigns a name; ``where`` may also be a module that passes the name on."""
    path = "/" in where or where.endswith(".py")
    asked = f"{where}{'.' if not path or ':' in where else ':'}{name}"
    try:
        place = resolve(tree, asked)
    except NotHere:
        raise
    except Miss:
        return resolve(tree, where)  # which says what is there
    around = place.parts[:-1]
    nodes: list[ast.AST] = place.source.named(around) if around else [place.source.tree]
    return Place(place.source, around, nodes, place.moved, place.sure)


def module_itself(tree: Tree, where: str) -> Place:
    """A module by import path or file, also one that only passes names on. ``Miss`` P070."""
    if "/" in where or where.endswith(".py"):
        path: str | None = tree.path(where.partition(":")[0])
    else:
        path = tree.module_path(tuple(where.split(".")))
    if path is None:
        raise Miss("P070", f"no module {where}")
    source = read_source(tree.read(path), path)
    return Place(source, (), [source.tree])


def _resolved(tree: Tree, where: str) -> Place:
    if "/" in where or where.endswith(".py"):
        path, _, symbol = where.partition(":")
        return _in_file(tree, tree.path(path), tuple(symbol.split(".")) if symbol else (), where)
    parts = tuple(where.split("."))
    for size in range(len(parts), 0, -1):
        file = tree.module_path(parts[:size])
        if file is not None and (size > 1 or len(parts) == 1):
            return _in_file(tree, file, parts[size:], where)
    if not tree.search:
        raise Miss("P070", f"no module or symbol {where}")
    return _searched(tree, parts, where)


def _in_file(tree: Tree, path: str, parts: tuple[str, ...], where: str) -> Place:
    seen = {path}
    trail: list[str] = []
    for _ in range(_HOPS):
        source = read_source(tree.read(path), path)
        if not parts:
            passes_on = tree.imports(path) if _may_be_shim(source) else None
            ahead = [tree.module_path(tuple(m.split("."))) for m in passes_on.passes_on] if passes_on else []
            if not ahead:
                return Place(source, parts, [source.tree], _via(trail))
            if len(ahead) > 1 or ahead[0] is None or ahead[0] in seen:
                names = passes_on.passes_on if passes_on else ()
                raise Miss("P076", f"{path} only passes names on: a change there has no effect", list(names))
            following, rest = str(ahead[0]), parts
        else:
            nodes = source.named(parts)
            if nodes:
                return Place(source, parts, nodes, _via(trail))
            step = _imported(tree, path, source, parts)
            if step is None or step[0] in seen:
                return _missed(tree, path, source, parts)
            following, rest = step
        trail.append(path)
        seen.add(following)
        path, parts = following, rest
    raise Miss("P070", f"{where} leads through more than {_HOPS} files")


def _via(trail: list[str]) -> str:
    return f"through {', '.join(trail)}" if trail else ""


def _may_be_shim(source: PySource) -> bool:
    return all(
        isinstance(node, (ast.Import, ast.ImportFrom, ast.Expr, ast.Assign)) for node in source.tree.body
    ) and bool(source.tree.body)


def _imported(
    tree: Tree, path: str, source: PySource, parts: tuple[str, ...]
) -> tuple[str, tuple[str, ...]] | None:
    """The file and symbol behind a name that a module imports."""
    name = parts[0]
    if b"import" not in source.data:
        return None
    module = tree.imports(path)
    if module is None:
        return None
    for item in module.imports:
        if item.name == name:
            own = tuple(item.module.split("."))
            found = tree.module_path(own)
            if found is not None and found != path:
                return found, parts
            found = tree.module_path((*own, name))  # the name is a module
            if found is not None:
                return found, parts[1:]
    for star in module.stars:
        found = tree.module_path(tuple(star.split(".")))
        if found is not None and found != path:
            inner = read_source(tree.read(found), found)
            if inner.named(parts[:1]) or _imported(tree, found, inner, parts) is not None:
                return found, parts
    return None


def _missed(tree: Tree, path: str, source: PySource, parts: tuple[str, ...]) -> Place:
    """The symbol is not in its file: elsewhere in the package, or nowhere."""
    if not tree.search:
        raise Miss("P070", f"symbol {'.'.join(parts)} is not in {path}")
    if not source.named(parts[:1]):
        found = _search(tree, parts, path)
        if found is not None:
            return found
    own = [".".join(name) for name, _ in source.definitions()]
    near = difflib.get_close_matches(".".join(parts), own, n=3, cutoff=0.5)
    near += [n for n in own if n.rpartition(".")[2] == parts[-1] and n not in near][:3]
    nearest = [f"{path}:{name}" for name in near]
    others = _definers(tree, parts[-1])
    if len(parts) > 1 and len(others) == 1:
        alone = read_source(tree.read(others[0]), others[0])
        same = [name for name, node in alone.definitions() if name[-1] == parts[-1] and is_scope(node)]
        if len(same) == 1:
            note = f"{path} has no {'.'.join(parts)}: the only {parts[-1]} of the package"
            return Place(alone, same[0], alone.named(same[0]), note, sure=False)
    nearest += [p for p in others if p != path][: 3 - len(nearest)]
    raise Miss("P070", f"symbol {'.'.join(parts)} is not in {path}", nearest)


def _searched(tree: Tree, parts: tuple[str, ...], where: str) -> Place:
    """The module is gone: the one file of its name, else the symbol elsewhere in the package, or nowhere."""
    if parts[0] != tree.profile.package:
        hints = [f"in: {tree.profile.package}.module.symbol", "in: path/to/file.py:symbol"]
        raise Miss("P070", f"no module or symbol {where}", hints)
    # How many of the parts were the module nobody can say any more: the shortest symbol is tried first.
    sizes = range(len(parts), max(len(parts) - 3, 1), -1)
    for size in sizes:
        found = _named_module(tree, parts[size - 1], parts[size:])
        if found is not None:
            return found
    for size in sizes:
        if size < len(parts):
            found = _search(tree, parts[size:], "/".join(parts[:size]) + ".py")
            if found is not None:
                return found
    raise Miss("P070", f"no module or symbol {where}", _definers(tree, parts[-1])[:3])


def _named_module(tree: Tree, name: str, symbol: tuple[str, ...]) -> Place | None:
    """A symbol in the one file of the package that has a name, if it is not only passed on there."""
    places = []
    for path in tree.package_files():
        if path.endswith((f"/{name}.py", f"/{name}/__init__.py")):
            source = read_source(tree.read(path), path)
            if _may_be_shim(source) and (module := tree.imports(path)) and module.passes_on:
                continue
            nodes: list[ast.AST] = source.named(symbol) if symbol else [source.tree]
            if nodes:
                places.append(Place(source, symbol, nodes, "the only module of that name"))
    return places[0] if len(places) == 1 else None


def _definers(tree: Tree, name: str) -> list[str]:
    return tree.scan(
        re.compile(rb"(?m)^[ \t]*(?:async +)?(?:def|class) +" + re.escape(name).encode() + rb"\b")
    )


def _search(tree: Tree, parts: tuple[str, ...], path: str) -> Place | None:
    """The one file of the package that defines a symbol; ``Miss`` where several do."""
    word = re.escape(parts[0]).encode()
    top = re.compile(
        rb"(?m)^(?:(?:async +)?(?:def|class) +" + word + rb"\b|" + word + rb" *(?::[^=\n]+)?=[^=])"
    )
    found = []
    for candidate in tree.scan(top):
        source = read_source(tree.read(candidate), candidate)
        nodes = source.named(parts)
        if nodes:
            found.append(Place(source, parts, nodes, "the only definition in the package"))
    if len(found) > 1:
        name = path.rpartition("/")[2]
        same = [place for place in found if place.path.rpartition("/")[2] == name]
        if len(same) != 1:
            raise Miss(
                "P070",
                f"symbol {'.'.join(parts)} is not in {path}, and defined in {len(found)} other files",
                [place.path for place in found[:3]],
            )
        found = same
        found[0].moved = "the only definition in a file of that name"
    return found[0] if found else None


def is_scope(node: ast.AST) -> bool:
    """Whether a node is a function or a class."""
    return isinstance(node, _SCOPES)
