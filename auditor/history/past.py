"""The past of one gate: which commits changed what it means.

Commits that leave alone what the gate and the names its value comes from are written in cannot change it, so
only the others are looked at; and of these, where a range is long, only as many as halving needs.
"""

from __future__ import annotations

import ast
import hashlib
from collections.abc import Callable, Iterable, Sequence

import msgspec

from auditor import pytext
from auditor.gates.model import Gate, Predicate, Report
from auditor.history.diff import came, change_of, went
from auditor.history.join import join
from auditor.history.model import Change

SCHEMA_VERSION = "1.0"


class Past(msgspec.Struct, frozen=True):
    """What became of a gate in a range of commits. ``events`` are oldest first; each names its commit."""

    schema_version: str
    tool: str
    project: str
    gate: str  # id in the newest tree of the range that has it
    path: str
    symbol: str
    what: str
    targets: tuple[str, ...]
    reference: str
    assumptions: dict[str, str]
    old: str  # the range's ends, as a person calls them
    new: str
    commits: int  # first-parent commits in the range
    touching: int  # of these, those that touch a statement the gate depends on
    audited: int  # trees that were audited for this
    every: bool  # whether each touching commit was looked at; else changes that were taken back are not seen
    events: tuple[Change, ...]
    notes: tuple[str, ...] = ()


def symbols_of(gate: Gate, report: Report) -> dict[str, set[str]]:
    """File -> qualified symbols in it that a gate's meaning is written in; "" is the module level."""
    known: dict[str, Predicate] = {item.name: item for item in report.predicates}
    modules = {item.path: item.module for item in report.gates}
    out: dict[str, set[str]] = {gate.path: {gate.symbol}}
    todo, seen = list(gate.via), set(gate.via)
    while todo:
        item = known.get(todo.pop())
        if item is not None:
            module = modules.get(item.path, "")
            inside = item.name.removeprefix(f"{module}.") if module else item.name.rpartition(".")[2]
            out.setdefault(item.path, set()).add(inside)
            todo += [name for name in item.via if name not in seen]
            seen.update(item.via)
    return out


def text_of(data: bytes, symbols: Iterable[str]) -> bytes:
    """A digest of what a file says about some symbols: their statements, and all that is at module level.

    A symbol that is not found by its name counts as the whole file, and so does a file that does not parse.
    """
    whole = hashlib.sha256(data).digest()
    try:
        tree = pytext.parse(data)
    except (SyntaxError, ValueError, RecursionError):
        return whole
    lines = data.split(b"\n")
    heads: dict[str, ast.stmt] = {}
    digest = hashlib.sha256()

    def said(node: ast.stmt) -> None:
        first = min([node.lineno, *(d.lineno for d in getattr(node, "decorator_list", ()))])
        digest.update(b"\n".join(lines[first - 1 : node.end_lineno]) + b"\0")

    for node in tree.body:
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            heads[node.name] = node
        else:
            said(node)
    for symbol in sorted(set(symbols) - {""}):
        first, _, rest = symbol.partition(".")
        node = heads.get(first)  # type: ignore[assignment]
        if node is None:
            # a name assigned at module level has been seen; anything else is not understood
            digest.update(b"" if first.encode() in data else whole)
            continue
        if isinstance(node, ast.ClassDef) and rest:
            members = [m for m in node.body if isinstance(m, (ast.FunctionDef, ast.AsyncFunctionDef))]
            for member in node.body:
                if member not in members or member.name in (rest.partition(".")[0], "__init__"):  # type: ignore[attr-defined]
                    said(member)
        else:
            said(node)
    return digest.digest()


def same_gate(wanted: Gate, report: Report) -> Gate | None:
    """The gate of another audit that is this one, or None."""
    pairs, _, _ = join([wanted], report.gates)
    return pairs[0][1] if pairs else None


def events(
    gate_at: Callable[[int, Gate], Gate | None],
    newest: Gate,
    count: int,
    targets: tuple[str, ...],
    *,
    every: bool,
    from_first: bool = False,
) -> list[tuple[int, Change]]:
    """The changes of a gate along ``count`` states, each with the number of the state that it came with.

    ``gate_at(n, like)`` finds in state ``n`` the gate that is ``like`` in a later one. State ``count - 1``
    has, or had, ``newest``. Without ``every`` a stretch whose two ends agree is not looked into.
    ``from_first``: it is known to have come with state 1, so that is where to look first.
    """
    known: dict[int, Gate | None] = {}

    def state(number: int) -> Gate | None:
        if number not in known:
            later = [n for n in sorted(known) if n > number and known[n] is not None]
            like = known[later[0]] if later else newest
            assert like is not None
            known[number] = gate_at(number, like)
        return known[number]

    def changed(a: int, b: int) -> Change | None:
        before, after = state(a), state(b)
        if before is None or after is None:
            if before is after:
                return None
            return came(after, targets) if after is not None else went(before, targets)  # type: ignore[arg-type]
        return change_of(before, after, targets)

    out: list[tuple[int, Change]] = []

    def look(low: int, high: int) -> None:
        state(high)
        change = changed(low, high)
        if high - low == 1:
            if change is not None:
                out.append((high, change))
            return
        if change is None and not every:
            return
        middle = (low + high) // 2
        look(middle, high)
        look(low, middle)

    if from_first and count > 2:
        look(1, count - 1)
        look(0, 1)
    elif count > 1:
        look(0, count - 1)
    return sorted(out, key=lambda item: item[0])


def kept(found: Sequence[tuple[int, Change]], moved: bool) -> list[tuple[int, Change]]:
    """Events worth a line: without ``moved``, those that change what the gate means."""
    return [item for item in found if moved or item[1].kind not in ("moved", "respelled")]
