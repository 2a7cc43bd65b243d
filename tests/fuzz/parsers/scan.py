"""The patterns of queries, looked for in foreign Python."""

from __future__ import annotations

import functools

from auditor.queries.load import load_files
from auditor.queries.scan import ScanPlan
from tests.fuzz.parsers import python

_EXAMPLES = [
    text.encode()
    for file in load_files(None, ())
    for example in file.query.examples
    for text in (example.code, *example.files.values())
    if text
]
WORDS = (
    *python.WORDS,
    b"torch.cuda.",
    b"capability",
    b"is_sm90",
    b"importlib.util.find_spec('x')",
    b"import torch as t\n",
    b"(" * 150,
    b"0x" + b"f" * 4000,
)
SEEDS = (*_EXAMPLES[:30], *python.SEEDS)


@functools.cache
def _plan() -> tuple[ScanPlan, list[str]]:
    queries = [file.query for file in load_files(None, ()) if not file.query.plugin]
    plan = ScanPlan(queries)
    return plan, sorted(plan._words)


def one_input(data: bytes) -> None:
    plan, ids = _plan()
    for hit in plan.scan(data, "example.case", dict.fromkeys(ids)):
        assert hit.line >= 1
