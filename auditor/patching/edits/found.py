"""Matches of a pattern in a place: counted, narrowed, and what is told where the count is another."""

from __future__ import annotations

import ast
import difflib
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from auditor.patching.edits.miss import Miss
from auditor.patching.edits.source import PySource
from auditor.patching.edits.tree import Place, Tree
from auditor.queries.pattern import match, parse_segment
from auditor.queries.shape import shape


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
