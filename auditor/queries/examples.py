"""Runs the examples of a query: the real audit on a small tree, compared with what the example expects.

Outcomes are named as ast-grep names them: *validated* (a valid example and silence), *reported* (an invalid
one and the expected finding), *noisy* (a finding that should not be), *missing* (silence where a finding
should be) and *wrong* (a finding that differs from the expected one).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Literal

import msgspec

from auditor.arch.targets import load_targets
from auditor.gates.model import Finding, Gate
from auditor.queries.engine import run_queries
from auditor.queries.exampletree import CASE, PACKAGE, PROFILE, MemoryTree, example_tree
from auditor.queries.model import DEFAULT, Example, Query

Outcome = Literal["validated", "reported", "noisy", "missing", "wrong"]

#: Outcomes that are failures.
FAILURES: frozenset[str] = frozenset({"noisy", "missing", "wrong"})

#: At the end of a line of an example: a finding has to be here, and nowhere without it.
MARKER = "# audit: here"

REFERENCE = "sm_100"

#: (tree, assumptions) -> discovered gates. Tests may give their own.
Discover = Callable[[MemoryTree, Mapping[str, str]], Sequence[Gate]]


class Result(msgspec.Struct, frozen=True):
    """What became of one example."""

    query: str
    index: int  # from 0, in the order of the file
    title: str
    kind: str
    outcome: Outcome
    detail: str = ""  # for failures: what was expected and what was found

    @property
    def failed(self) -> bool:
        return self.outcome in FAILURES


def discover(tree: MemoryTree, assumptions: Mapping[str, str]) -> Sequence[Gate]:
    """The gates of an example tree by the real audit."""
    from auditor.gates.audit import AuditOptions, audit

    options = AuditOptions(
        targets=tuple(load_targets()),
        reference=REFERENCE,
        profile=PROFILE,
        assumptions=dict(assumptions),
        queries=(),
    )
    return audit(tree, options).gates


def run_examples(
    query: Query, *, folder: Path | None = None, discover: Discover = discover, only: int | None = None
) -> list[Result]:
    """Every example of a query in the order of the file, or the one with index ``only``."""
    return [
        _run(query, index, example, folder, discover)
        for index, example in enumerate(query.examples)
        if only is None or index == only
    ]


def _run(query: Query, index: int, example: Example, folder: Path | None, discover: Discover) -> Result:
    tree = example_tree(example)
    targets = tuple(load_targets())
    findings = run_queries(
        [query],
        gates=discover(tree, example.assume),
        tree=tree,
        profile=PROFILE,
        targets=targets,
        reference=REFERENCE,
        plugin_folder=folder,
    )
    outcome, detail = judge(example, tree, findings)
    return Result(query.id, index, title_of(example, index), example.kind, outcome, detail)


def title_of(example: Example, index: int) -> str:
    """The title of an example, or its kind and number."""
    return example.title or f"{example.kind} example {index + 1}"


def judge(example: Example, tree: MemoryTree, findings: Sequence[Finding]) -> tuple[Outcome, str]:
    """The outcome of an example given what was found in its tree, and for failures why."""
    if example.expect == "none":
        if findings:
            return "noisy", f"expected nothing, found {_places(findings)}: {findings[0].message}"
        return "validated", ""
    if not findings:
        return "missing", "expected a finding, found nothing"
    assert not isinstance(example.expect, str)
    marked = _marked(example, tree)
    found_at = sorted({(finding.path, finding.line) for finding in findings})
    if marked and found_at != marked:
        return "wrong", f"expected at {_lines(marked)}, found at {_lines(found_at)}"
    count = example.count if example.count is not None else (None if marked else 1)
    if count is not None and len(findings) != count:
        return "wrong", f"expected {count} finding(s), found {len(findings)}: {_places(findings)}"
    for finding in findings:
        for target, verdict in finding.verdict.items():
            wanted = _expected(example.expect, target)
            if wanted is not None and wanted != verdict:
                return (
                    "wrong",
                    f"{target}: expected {wanted}, found {verdict} at {_places([finding])}",
                )
    return "reported", ""


def _expected(expect: Mapping[str, str], target: str) -> str | None:
    if target in expect:
        return expect[target]
    found = next((v for glob, v in expect.items() if fnmatchcase(target, glob)), None)
    return found if found is not None else expect.get(DEFAULT)


def _marked(example: Example, tree: MemoryTree) -> list[tuple[str, int]]:
    paths = [CASE] if example.code is not None else [f"{PACKAGE}/{path}" for path in example.files]
    return sorted(
        (path, number)
        for path in paths
        for number, line in enumerate(tree.read(path).decode().splitlines(), start=1)
        if line.rstrip().endswith(MARKER)
    )


def _places(findings: Iterable[Finding]) -> str:
    return _lines(sorted({(finding.path, finding.line) for finding in findings}))


def _lines(places: Iterable[tuple[str, int]]) -> str:
    return ", ".join(f"{path}:{line}" for path, line in places)
