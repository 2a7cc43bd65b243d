"""The audit of a tree: from files to a report."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from auditor import __version__
from auditor.arch import load_targets, parse_targets
from auditor.gates.cache import Record
from auditor.gates.discover import Collector, finish, predicates
from auditor.gates.model import Finding, Gate, Predicate, Problem, Report, tree_facts
from auditor.gates.reading import build_program, no_collector, source_files
from auditor.profile import Profile, load_profile
from auditor.program.program import Program
from auditor.program.watch import Watched
from auditor.tooldigest import tool_digest
from auditor.trees.base import SourceTree

SCHEMA_VERSION = "1.1"
_SEVERITY = {
    "unguarded": "error",
    "blocked": "warning",
    "dead-arm": "warning",
    "misgrouped": "warning",
    "missed-variant": "warning",
    "env-forced": "warning",
    "wrong-default": "warning",
    "workaround": "note",
    "fallback": "note",
}


class AuditOptions(msgspec.Struct, frozen=True):
    """What to audit for. ``queries`` None means the shipped ones, () none at all."""

    targets: tuple[str, ...]
    reference: str = "sm_100"
    assumptions: dict[str, str] = {}
    defaults: bool = False
    use_cache: bool = True
    project: str = "sglang"
    profile: Profile | None = None
    queries: tuple[Any, ...] | None = None


def audit(
    tree: SourceTree,
    options: AuditOptions,
    progress: Callable[..., None] | None = None,
    record: Record | None = None,
) -> Report:
    """Audit a tree. UserError for wrong options or a tree that is not the project's.

    ``record`` is filled with what the audit looked at.
    """
    all_targets = load_targets()
    chosen = tuple(options.targets)
    for name in (*chosen, options.reference):
        if name not in all_targets:
            parse_targets(name)
    profile = options.profile or load_profile(options.project)
    root, files, problems = source_files(tree, profile)
    files = Watched(files)
    if record is not None:
        record.begin(root, profile.package, files, [problem.path for problem in problems])
        record.assumed = sorted(k[4:] for k in options.assumptions if k.startswith("dep."))
    program = build_program(files, root, profile, options.assumptions, options.defaults)
    names = tuple(all_targets)
    majors = {name: t.capability[0] for name, t in all_targets.items()}
    collector = Collector(program, names, majors, options.reference)
    with no_collector():
        program.discover()
        program.forget_trees()
    judged = chosen if options.reference in chosen else (*chosen, options.reference)
    gates = finish(collector, judged, profile.area)
    found = list(generic_findings(gates, chosen))
    found += query_findings(record.tree if record is not None else tree, options, profile, program, gates)
    listed = predicates(program, collector, gates)
    found += dependency_findings(record.tree if record is not None else tree, options, profile, listed)
    found = native_findings(tree, options, profile, program, found, record)
    problems += [Problem(path, line, message) for path, (line, message) in program.problems.items()]
    info = tree.info()
    assumptions = {"cuda": program.world.cuda, **options.assumptions}
    if options.defaults:
        assumptions["defaults"] = "yes"
    return Report(
        schema_version=SCHEMA_VERSION,
        tool=f"sglang-auditor {__version__}",
        project=profile.name,
        tree=tree_facts(info),
        targets=chosen,
        reference=options.reference,
        assumptions=dict(sorted(assumptions.items())),
        predicates=listed,
        gates=gates,
        findings=tuple(sorted(found, key=_finding_order)),
        problems=tuple(sorted(problems, key=lambda p: (p.path, p.line, p.message))),
        stats={"files": len(files), "gates": len(gates), "predicates": len(listed)},
    )


def generic_findings(gates: tuple[Gate, ...], targets: tuple[str, ...]) -> list[Finding]:
    """A finding per gate that is not the same on some target."""
    out = []
    for gate in gates:
        verdict = {t: gate.verdict[t] for t in targets}
        if all(v in ("same", "undecided") for v in verdict.values()):
            continue
        if gate.kind in ("assign", "return", "argument") and "missed-variant" not in verdict.values():
            continue
        worst = min((v for v in verdict.values() if v in _SEVERITY), key=list(_SEVERITY).index)
        out.append(
            Finding(
                query="",
                gate=gate.id,
                path=gate.path,
                line=gate.line,
                symbol=gate.symbol,
                verdict=verdict,
                severity=_SEVERITY[worst],
                message=f"{gate.kind} {gate.predicate}",
                area=gate.area,
            )
        )
    return out


def query_findings(
    tree: SourceTree, options: AuditOptions, profile: Profile, program: Program, gates: tuple[Gate, ...]
) -> list[Finding]:
    """What the queries have to say."""
    queries = options.queries
    if queries == ():
        return []
    from auditor.queries.engine import run_queries
    from auditor.queries.load import load_queries

    if queries is None:
        queries = load_queries()
    return list(
        run_queries(
            queries,
            gates=gates,
            tree=tree,
            program=program,
            targets=options.targets,
            reference=options.reference,
            profile=profile,
        )
    )


def dependency_findings(
    tree: SourceTree, options: AuditOptions, profile: Profile, listed: tuple[Predicate, ...]
) -> list[Finding]:
    """Guards that do not fit the versions of packages that the tree pins; none without queries."""
    if options.queries == ():
        return []
    from auditor.native import packages

    return packages.dependency_findings(tree, profile, listed, options.targets)


def native_findings(
    tree: SourceTree,
    options: AuditOptions,
    profile: Profile,
    program: Program,
    found: list[Finding],
    record: Record | None,
) -> list[Finding]:
    """``found`` together with the calls of operators that are not there for a target: from the tree's own
    native source, else from what is known of the release of kernels that it pins. Comes last: it runs
    functions that discovery passed by."""
    from auditor.native.absent import from_facts, native_digest, pinned_facts, rows_of, with_unguarded

    digest = native_digest(tree, profile)
    if record is not None:
        record.native = digest
    if not digest:
        pinned = pinned_facts(record.tree if record is not None else tree, profile)
        if pinned is None:
            return found
        with no_collector():
            return from_facts(found, tree, program, profile, options.targets, options.assumptions, pinned)
    tool = tool_digest() if options.use_cache else ""
    kept = rows_of(tree, profile, options.assumptions, tool=tool, digest=digest)
    with no_collector():
        return with_unguarded(found, tree, program, profile, options.targets, options.assumptions, kept)


def _finding_order(finding: Finding) -> tuple[Any, ...]:
    return (finding.path, finding.line, finding.query, finding.symbol, finding.message)
