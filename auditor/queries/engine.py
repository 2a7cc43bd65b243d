"""Runs queries over an audited tree: gates that were discovered, and code the prefilter points at.

The work is one pass for all queries. Files are read once and searched for words; only a file with a word of a
``code`` query is parsed, and LibCST sees only candidate statements (see :mod:`auditor.queries.pattern`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from string import Formatter
from typing import Any

from auditor.gates.model import Finding, Gate
from auditor.profile import Profile
from auditor.program.watch import Watched
from auditor.queries.checks import GATE_FIELDS
from auditor.queries.gatematch import gate_matches, gates_at, places_of, reach, stands_under, truth_holds
from auditor.queries.model import DEFAULT, FROM, Query
from auditor.queries.scan import CodeHit, Regions, ScanPlan
from auditor.trees.base import SourceTree


def run_queries(
    queries: Sequence[Query],
    *,
    gates: Sequence[Gate],
    tree: SourceTree,
    program: object = None,
    targets: Sequence[str],
    reference: str,
    profile: Profile | None = None,
    plugin_folder: Path | None = None,
) -> tuple[Finding, ...]:
    """What the queries find, by query, path, line and message; a finding is never given twice.

    ``targets`` are the ones asked about: a match whose verdict is ``same`` on all of them is no finding.
    ``profile`` says which files belong to the project (default: every ``.py`` file). ``program`` is handed to
    plugins as it is; its ``files``, if it has them, are not read again.
    """
    by_path: dict[str, list[Gate]] = {}
    for gate in gates:
        by_path.setdefault(gate.path, []).append(gate)
    plan = ScanPlan(queries)
    where = {
        query.id: regions_of(query, by_path, reference)
        for query in queries
        if query.match is not None and query.match.code is not None
    }
    hits = scan_tree(plan, where, tree, profile, getattr(program, "files", None))
    by_query: dict[str, list[tuple[str, CodeHit]]] = {}
    for path in sorted(hits):
        for hit in hits[path]:
            by_query.setdefault(hit.query, []).append((path, hit))
    found: dict[tuple[Any, ...], Finding] = {}
    memo: dict[Any, Any] = {}
    for query in queries:
        matches = list(_matches(query, gates, by_path, by_query, (*targets, reference), reference))
        if query.plugin:
            from auditor.queries.plugins import PluginContext, run_plugin

            context = PluginContext(
                tuple(gates), tree, program, tuple(targets), reference, profile, query, memo
            )
            matches = run_plugin(query, context, plugin_folder, matches)
        for match in matches:
            finding = _finding(query, match, targets)
            if finding is not None:
                found.setdefault(_key(finding), finding)
    return tuple(found[key] for key in sorted(found))


def regions_of(
    query: Query, by_path: Mapping[str, Sequence[Gate]], reference: str
) -> dict[str, list[tuple[int, int]]] | None:
    """path -> lines in which a code hit of the query can be, from the gates; None: anywhere in the project.

    Most ``code`` queries are about code at a gate, so most files need not be looked at.
    """
    assert query.match is not None and query.match.code is not None
    gate, code = query.match.gate, query.match.code
    out: dict[str, list[tuple[int, int]]] = {}
    if gate is not None:
        for path, gates in by_path.items():
            lines = [
                lines for g in gates if gate_matches(gate, g, reference) for lines in places_of(g, code.place)
            ]
            if lines:
                out[path] = lines
        return out
    if code.reached:
        everywhere = {target: "true" for gates in by_path.values() for g in gates for target in g.truth}
        if truth_holds(code.reached, everywhere, reference):
            return None
        for path, gates in by_path.items():
            lines = [(arm.line, arm.end_line) for g in gates for arm in g.arms if arm.when != "unknown"]
            if lines:
                out[path] = lines
        return out
    return None


def scan_tree(
    plan: ScanPlan,
    where: Mapping[str, Mapping[str, Regions] | None],
    tree: SourceTree,
    profile: Profile | None = None,
    files: Mapping[str, bytes] | None = None,
) -> dict[str, list[CodeHit]]:
    """Code hits of all queries by path. ``where``: query -> path -> lines, or None for the whole project.

    ``files`` are the bytes of the project's modules, where the caller has them already. Only files that a
    query can have a hit in are read, and none if there is no such query.
    """
    everywhere = [id_ for id_ in plan.ids if where.get(id_) is None]
    named = {path for id_ in plan.ids for path in (where.get(id_) or ())}
    root = profile.root_of(tree.blobs()) if profile else ""
    if files is not None:
        paths = sorted(files) if everywhere else sorted(named.intersection(files))
        peek = files.peek if isinstance(files, Watched) else files.__getitem__
        contents: Iterable[tuple[str, bytes]] = ((path, peek(path)) for path in paths)
        if isinstance(files, Watched):
            files.code_words.update(word for id_ in plan.ids for word in plan.words(id_))
            files.everywhere.update(word for id_ in everywhere for word in plan.words(id_))
            files.scanned.update(named.intersection(files))
    else:
        contents = tree.read_many(source_paths(tree, profile, root) if everywhere else sorted(named))
    out: dict[str, list[CodeHit]] = {}
    for path, data in contents:
        ids = [*everywhere, *(id_ for id_ in plan.ids if path in (where.get(id_) or ()))]
        interested = plan.interested(data, ids)
        if not interested or (profile and profile.is_excluded(path)):
            continue
        lines = {id_: (where.get(id_) or {}).get(path) for id_ in interested}
        found = plan.scan(data, module_name(path, root), lines)
        if found:
            out[path] = found
            if isinstance(files, Watched):
                files.scanned.add(path)
    return out


class Match:
    """One place a query matches: a gate, a piece of code, or a piece of code at a gate."""

    __slots__ = ("path", "line", "symbol", "module", "gate", "captures", "verdict", "reached")

    def __init__(
        self,
        path: str,
        line: int,
        symbol: str,
        *,
        module: str = "",
        gate: Gate | None = None,
        captures: Mapping[str, str] | None = None,
        verdict: Mapping[str, str] | None = None,
        reached: Mapping[str, str] | None = None,
    ) -> None:
        self.path = path
        self.line = line
        self.symbol = symbol
        self.module = module
        self.gate = gate
        self.captures = dict(captures or {})
        self.verdict = verdict  # overrides the query's, for plugins
        self.reached = dict(reached or {})  # per target, for code


def _matches(
    query: Query,
    gates: Sequence[Gate],
    by_path: Mapping[str, list[Gate]],
    hits: Mapping[str, list[tuple[str, CodeHit]]],
    targets: Sequence[str],
    reference: str,
) -> Iterator[Match]:
    if query.match is None:
        return
    wanted, code = query.match.gate, query.match.code
    if code is None:
        if wanted is not None:
            for gate in gates:
                if gate_matches(wanted, gate, reference):
                    yield Match(gate.path, gate.line, gate.symbol, module=gate.module, gate=gate)
        return
    accepted: dict[str, list[Gate]] = {}
    for path, hit in hits.get(query.id, ()):
        here = by_path.get(path, ())
        comes = reach(hit, here, sorted({target for gate in here for target in gate.truth} | set(targets)))
        if not truth_holds(code.reached, comes, reference):
            continue
        if code.not_under is not None and any(
            stands_under(hit, gate) and gate_matches(code.not_under, gate, reference) for gate in here
        ):
            continue
        if wanted is None:
            yield Match(path, hit.line, hit.symbol, captures=hit.captures, reached=comes)
            continue
        if path not in accepted:
            accepted[path] = [g for g in here if gate_matches(wanted, g, reference)]
        found = gates_at(hit, code.place, accepted[path])
        if found is not None:
            at_gate = code.report == "gate"
            yield Match(
                path,
                found.line if at_gate else hit.line,
                found.symbol if at_gate else hit.symbol,
                module=found.module,
                gate=found,
                captures=hit.captures,
                reached=comes,
            )


def verdict_of(query: Query, match: Match, targets: Iterable[str]) -> dict[str, str]:
    """The verdict per target: by the key that names it, a glob, ``when-…``, from the gate, by default.

    With ``when-reached``, a target that does not come to the code gets ``same`` whatever else is said.
    """
    mapping = dict(match.verdict) if match.verdict is not None else dict(query.verdict)
    from_gate = mapping.pop(FROM, "") == "gate"
    default = mapping.pop(DEFAULT, None)
    out: dict[str, str] = {}
    for target in targets:
        verdict = mapping.get(target)
        if verdict is None:
            verdict = next((v for glob, v in mapping.items() if fnmatchcase(target, glob)), None)
        if verdict is None and match.gate is not None:
            verdict = mapping.get(f"when-{match.gate.truth.get(target, 'unknown')}")
        if match.reached and (reached_verdict := mapping.get("when-reached")) is not None:
            comes = match.reached.get(target) != "false"
            verdict = (verdict or reached_verdict) if comes else "same"
        if verdict is None and from_gate and match.gate is not None:
            verdict = match.gate.verdict.get(target)
        out[target] = verdict or default or "same"
    return out


def _finding(query: Query, match: Match, targets: Sequence[str]) -> Finding | None:
    verdict = verdict_of(query, match, targets)
    if all(value == "same" for value in verdict.values()):
        return None
    gate = match.gate
    return Finding(
        query=query.id,
        gate=gate.id if gate else "",
        path=match.path,
        line=match.line,
        symbol=match.symbol,
        verdict=verdict,
        severity=query.severity,
        message=fill(query.message, match),
        area=query.area,
        detail=_detail(gate),
        fix=match.captures.get("FIX") or (query.fix.strip() if query.fix else None),
    )


def _detail(gate: Gate | None) -> tuple[str, ...]:
    if gate is None:
        return ()
    lines = [f"gate: {gate.predicate}"]
    if gate.unknown_because:
        lines.append(f"depends on: {', '.join(gate.unknown_because)}")
    return tuple(lines)


def fill(template: str, match: Match) -> str:
    """A message with its fields filled in; what the match does not have becomes ``?``."""
    values: dict[str, str] = {
        "path": match.path,
        "line": str(match.line),
        "symbol": match.symbol or "module level",
        "module": match.module,
        **match.captures,
    }
    if match.gate is not None:
        values |= {f"gate.{name}": str(getattr(match.gate, name)) for name in GATE_FIELDS}
    parts = []
    for text, name, _, _ in Formatter().parse(template):
        parts.append(text)
        if name is not None:
            parts.append(values.get(name, "?"))
    return " ".join("".join(parts).split())


def _key(finding: Finding) -> tuple[Any, ...]:
    return (finding.query, finding.path, finding.line, finding.gate, finding.symbol, finding.message)


def silent(queries: Iterable[Query], findings: Iterable[Finding]) -> tuple[str, ...]:
    """Ids of queries that found nothing although finding nothing is not their normal case, sorted.

    Such a query may be out of date: what it is about was renamed, moved or fixed.
    """
    heard = {finding.query for finding in findings}
    return tuple(sorted(q.id for q in queries if q.absent != "ok" and q.id not in heard))


def source_paths(tree: SourceTree, profile: Profile | None, root: str | None) -> list[str]:
    """The ``.py`` files of the project's package, sorted; without a profile all ``.py`` files of the tree.

    Files that the profile excludes are still among them: asking it is dear, so that is left to the few files
    that matter.
    """
    inside = f"{_prefix(root)}{profile.package}/" if profile else ""
    return [path for path in tree.blobs() if path.endswith(".py") and path.startswith(inside)]


def module_name(path: str, root: str | None) -> str:
    """The dotted name of a source file below a source root."""
    return path[len(_prefix(root)) : -len(".py")].removesuffix("/__init__").replace("/", ".")


def _prefix(root: str | None) -> str:
    return f"{root}/" if root else ""
