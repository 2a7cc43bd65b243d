"""Reports and baselines read back, and compared."""

from __future__ import annotations

import functools
import hashlib
import re

from auditor.errors import UserError
from auditor.gates.audit import AuditOptions, audit
from auditor.gates.model import Report
from auditor.history import baseline
from auditor.history.diff import compare
from auditor.queries.exampletree import PRELUDE, PROFILE, MemoryTree
from auditor.reporting import jsonout

_CASE = (
    "from example.gpu import major\n\ndef pick(x):\n    if major() >= 10:\n        return 1\n    return 2\n"
)


@functools.cache
def _report() -> Report:
    options = AuditOptions(targets=("sm_90", "sm_120"), project="example", profile=PROFILE, queries=())
    return audit(MemoryTree({**PRELUDE, "example/case.py": _CASE}), options)


WORDS = (
    b'"schema_version":"1.0"', b'"schema_version":"2"', b"null", b"true", b"[]", b"{}", b"1e400", b'"\\ud800"', b'"$schema":', b"[" * 3000,
    b'{"a":' * 3000, b"urn:sglang-auditor:schema:baseline:1", b"urn:sglang-auditor:schema:baseline:2", b"\xff", b'"sm_120":"same"',
)  # fmt: skip
SEEDS = (jsonout.dumps(_report()), baseline.dumps(baseline.baseline(_report(), None, ())))


def one_input(data: bytes) -> None:
    found = []
    for given in (data, _signed(data)):
        try:
            found.append(jsonout.loads(given, "report.json"))
        except UserError:
            pass
        try:
            kept = baseline.loads(baseline.unpacked(given, "b.json"), "b.json")
        except UserError:
            continue
        assert baseline.loads(baseline.dumps(kept), "b.json") == kept, "written again it is another"
        found.append(kept.report)
    for report in found:
        try:
            compare(_report(), report)
            compare(report, _report())
        except UserError:
            pass
        jsonout.dumps(report)


def _signed(data: bytes) -> bytes:
    """The same with the digest that it would have: damage within a baseline, past its guard."""
    body = re.split(rb',\n"digest":', data)[0]
    return body + b',\n"digest":"' + hashlib.sha256(body).hexdigest().encode() + b'"\n}\n'
