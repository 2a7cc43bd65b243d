"""From the words of an edit to its place: symbols followed through imports and moves, patterns counted."""

from __future__ import annotations

import ast
import difflib
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from auditor.patching.edits.miss import Miss, NotHere
from auditor.patching.edits.source import PySource, read_source
from auditor.patching.mapping import PathMap
from auditor.patching.symbols import Module, module_of, read_module
from auditor.profile import Profile
from auditor.queries.pattern import match, parse_segment, shape
from auditor.trees.base import SourceTree

_SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
_HOPS = 12


@dataclass
class Place:
    """Where an edit is to be made. ``scopes``: the nodes of the symbol, or the whole module."""

    source: PySource
    parts: tuple[str, ...]  # of the symbol in its module
    scopes: list[ast.AST]
    moved: str = ""  # how it was found, where that is not where the edit says
    sure: bool = True

    @property
    def path(self) -> str:
        return self.source.path

    @property
    def symbol(self) -> str:
        return ".".join(self.parts)

    def shown(self) -> str:
        """The place for a person."""
        return f"{self.path}:{self.symbol}" if self.parts else self.path


@dataclass
class Tree:
    """A tree while a patch is carried to it: the base, and what the edits so far have made of it."""

    base: SourceTree
    profile: Profile
    files: dict[str, bytes | None] = field(default_factory=dict)
    #: What was looked for already: place as named -> file, symbol, how it was found.
    found: dict[str, tuple[str, tuple[str, ...], str, bool]] = field(default_factory=dict)
    #: Whether what is not where it is said to be is looked for in the whole package.
    search: bool = True

    def __post_init__(self) -> None:
        self.map = PathMap(self.profile, self.base.blobs())
        root = self.map.root
        self._prefix = f"{root}/" if root else ""

    def has(self, path: str) -> bool:
        """Whether there is such a file now."""
        return self.files[path] is not None if path in self.files else path in self.base.blobs()

    def read(self, path: str) -> bytes:
        """The file as the edits so far left it. ``Miss`` P070 where there is none."""
        if path in self.files:
            data = self.files[path]
        else:
            data = self.base.read(path) if path in self.base.blobs() else None
        if data is None:
            raise Miss("P070", f"there is no file {path}", self.like_path(path))
        return data

    def like_path(self, path: str) -> list[str]:
        """Files with that name elsewhere."""
        name = path.rpartition("/")[2]
        found = [p for p in self.base.blobs() if p.rpartition("/")[2] == name and p != path]
        return difflib.get_close_matches(path, found, n=3, cutoff=0.0)

    def path(self, path: str) -> str:
        """A path of a patch in this tree. ``Miss`` P070 where an installed copy has none of the kind."""
        found = self.map.path(path)
        if found is None:
            raise NotHere("P070", f"{path} is not part of an installed copy")
        return found

    def module_path(self, module: tuple[str, ...]) -> str | None:
        """The file of a module."""
        stem = self._prefix + "/".join(module)
        return next((p for p in (f"{stem}.py", f"{stem}/__init__.py") if self.has(p)), None)

    def package_files(self) -> list[str]:
        """Python files of the package that are not tests, sorted."""
        start = f"{self._prefix}{self.profile.package}/"
        paths = {p for p in self.base.blobs() if p.startswith(start)} | set(self.files)
        return sorted(
            p for p in paths if p.endswith(".py") and not self.profile.is_excluded(p) and self.has(p)
        )

    def scan(self, pattern: re.Pattern[bytes]) -> list[str]:
        """Package files with a match."""
        paths = self.package_files()
        changed = [p for p in paths if p in self.files]
        found = [p for p in changed if pattern.search(self.read(p))]
        plain = [p for p in paths if p not in self.files]
        found += [p for p, data in self.base.read_many(plain) if pattern.search(data)]
        return sorted(found)

    def imports(self, path: str) -> Module | None:
        """What a module imports."""
        return read_module(
            self.read(path), module_of(path, self.profile), package=path.endswith("__init__.py")
        )


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


@dataclass(frozen=True)
class Found:
    """One match of a pattern. ``holes``: metavariable -> source text."""

    node: ast.AST
    holes: Mapping[str, str]


def every(place: Place, text: str) -> list[Found]:
    """All matches of a pattern in a place, in the order of the text."""
    wanted = shape(text)
    source = place.source
    out: dict[ast.AST, Found] = {}
    for scope in place.scopes:
        if any(need not in _scope_bytes(source, scope) for need in wanted.needs):
            continue
        for node in ast.walk(scope):
            if node not in out and wanted.could_match(node):
                bound = holes(source, node, text)
                if bound is not None:
                    out[node] = Found(node, bound)
    return sorted(out.values(), key=lambda found: source.span(found.node))


def _scope_bytes(source: PySource, scope: ast.AST) -> bytes:
    if isinstance(scope, ast.Module):
        return source.data
    return source.data[source.statement_start(scope) : source.span(scope)[1]]


def holes(source: PySource, node: ast.AST, text: str) -> dict[str, str] | None:
    """What the metavariables of a pattern stand for in a node, as written; None where it does not fit."""
    if isinstance(node, ast.Module) or not hasattr(node, "end_lineno"):
        return None
    indent = b""
    if isinstance(node, ast.stmt):
        start = source.span(node)[0]
        before = source.data[source.line_start(start) : start]
        indent = before if not before.strip() else b""
    part = parse_segment(source.text(node), expression=isinstance(node, ast.expr), indent=indent)
    if part is None:
        return None
    bindings = match(text, part)
    if bindings is None:
        return None
    return {name: _code(value) for name, value in bindings.items()}


def _code(value: Any) -> str:
    """The source that a metavariable stands for, as written."""
    import libcst as cst

    if isinstance(value, tuple):
        small = bool(value) and isinstance(value[0], (cst.BaseSmallStatement, cst.BaseCompoundStatement))
        return ("; " if small else ", ").join(_code(item) for item in value)
    for separator in ("comma", "semicolon"):
        if hasattr(value, separator):
            value = value.with_changes(**{separator: cst.MaybeSentinel.DEFAULT})
    return cst.Module(body=()).code_for_node(value).strip()


def inside(place: Place, found: Iterable[Found], within: str) -> list[Found]:
    """Those matches that lie in a match of ``within``; of an ``if`` without its ``else``, in the branch."""
    if not within:
        return list(found)
    branch = not _says_else(within)
    around = {id(each.node) for each in every(place, within)}
    kept = []
    for each in found:
        below: ast.AST | None = None
        node: ast.AST | None = each.node
        while node is not None and (id(node) not in around or (branch and _is_else(node, below))):
            below, node = node, place.source.parents.get(node)
        if node is not None:
            kept.append(each)
    return kept


def _says_else(pattern: str) -> bool:
    return re.search(r"(?m)^\s*(?:else|elif)\b", pattern) is not None


def _is_else(node: ast.AST, below: ast.AST | None) -> bool:
    return isinstance(node, ast.If) and any(each is below for each in node.orelse)


def miscounted(place: Place, text: str, found: list[Found], within: str, count: int) -> Miss:
    """Why a pattern does not fit as often as it should. ``pattern`` is set where it does not fit at all."""
    source = place.source

    def shown(node: ast.AST) -> str:
        return f"line {node.lineno} `{source.shown(node)}`"  # type: ignore[attr-defined]

    flat = " ".join(text.split())
    fact = f"`{flat}` matches {_places(len(found))} in {place.shown()}, expected {count}"
    if len(found) > count:
        return Miss("P071", fact, [shown(each.node) for each in found[:4]])
    if within:
        outside = [each for each in every(place, text) if each not in found]
        if outside:
            return Miss(
                "P071", f"{fact}; outside of `within` it matches too", [shown(e.node) for e in outside[:3]]
            )
    absent = [
        need.decode()
        for need in shape(text).needs
        if all(need not in _scope_bytes(source, scope) for scope in place.scopes)
    ]
    if absent:
        fact += f"; {', '.join(absent)} {'does' if len(absent) == 1 else 'do'} not occur there"
    miss = Miss("P071", fact, _nearest(source, place.scopes, text, flat))
    miss.pattern = text
    return miss


def _nearest(source: PySource, scopes: list[ast.AST], text: str, flat: str) -> list[str]:
    """Places that have most of what a pattern needs: of its kind first, then where its rarest name occurs."""
    wanted = shape(text)
    words = [re.compile(rb"\b" + re.escape(need) + rb"\b") for need in wanted.needs]
    scored: list[tuple[int, float, int, ast.AST]] = []
    for scope in scopes:
        for node in ast.walk(scope):
            if not isinstance(node, wanted.roots) or isinstance(node, ast.Name):
                continue
            start, end = source.span(node)
            has = sum(bool(word.search(source.data, start, end)) for word in words)
            shown = source.shown(node, 2 * len(flat))
            like = difflib.SequenceMatcher(None, flat, shown).quick_ratio() if len(scored) < 4000 else 0.0
            if has or like > 0.6:
                scored.append((-has, round(-like, 3), start, node))
    scored.sort(key=lambda item: item[:3])
    out = [f"line {node.lineno} `{source.shown(node)}`" for *_, node in scored[:3]]  # type: ignore[attr-defined]
    best = -scored[0][0] if scored else 0
    if best < len(wanted.needs) and wanted.needs:
        need = wanted.needs[0]
        for scope in scopes:
            at = source.data.find(need, 0 if isinstance(scope, ast.Module) else source.span(scope)[0])
            end = len(source.data) if isinstance(scope, ast.Module) else source.span(scope)[1]
            while 0 <= at < end and len(out) < 4:
                line = source.data[source.line_start(at) : source.line_end(at)].decode("utf-8", "replace")
                row = f"line {source.data.count(bytes([10]), 0, at) + 1} `{' '.join(line.split())[:60]}`"
                if row not in out:
                    out.insert(0, row)
                at = source.data.find(need, source.line_end(at))
    return out[:4]


def elsewhere(tree: Tree, text: str, path: str) -> list[str]:
    """Other files of the package that have every name of a pattern, with the line of the first one."""
    needs = shape(text).needs
    if not needs or len(needs[0]) < 4:
        return []
    out = []
    for candidate in tree.scan(re.compile(rb"\b" + re.escape(needs[0]) + rb"\b")):
        data = tree.read(candidate)
        if candidate != path and all(need in data for need in needs):
            out.append(f"{candidate}:{data.count(bytes([10]), 0, data.index(needs[0])) + 1}")
    return out[:3]


def _places(count: int) -> str:
    return "1 place" if count == 1 else f"{count} places"


def substituted(text: str, holes: Mapping[str, str]) -> str:
    """``text`` with metavariables replaced by what they stood for."""

    def one(hit: re.Match[str]) -> str:
        name = hit[1] or hit[2]
        return holes.get(name, hit[0])

    return re.sub(r"\$\.\.\.([A-Z][A-Z0-9_]*)|\$([A-Z][A-Z0-9_]*)", one, text)


def ancestors(source: PySource, node: ast.AST) -> Iterator[ast.AST]:
    """The nodes around a node, innermost first."""
    at = source.parents.get(node)
    while at is not None:
        yield at
        at = source.parents.get(at)
