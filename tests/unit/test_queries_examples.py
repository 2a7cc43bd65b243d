"""Every example of every shipped query, run through the real audit."""

from __future__ import annotations

import pytest

from auditor.queries.examples import run_examples, title_of
from auditor.queries.load import load_queries
from auditor.queries.model import Query
from auditor.queries.new import scaffold

pytest.importorskip("auditor.gates.audit", reason="the audit is not here yet")

CASES = [(query, index) for query in load_queries() for index in range(len(query.examples))]


@pytest.mark.parametrize(
    ("query", "index"), CASES, ids=[f"{q.id}: {title_of(q.examples[i], i)}" for q, i in CASES]
)
def test_example(query: Query, index: int) -> None:
    (result,) = run_examples(query, only=index)
    assert not result.failed, f"{result.outcome}: {result.detail}"


@pytest.mark.parametrize("kind", ["gate", "code"])
def test_a_scaffold_passes(tmp_path, kind) -> None:  # type: ignore[no-untyped-def]
    scaffold("moe/my-gate", folder=tmp_path, kind=kind)
    (query,) = load_queries(tmp_path)
    assert [(r.outcome, r.detail) for r in run_examples(query) if r.failed] == []
