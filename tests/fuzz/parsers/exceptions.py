"""Files of exceptions."""

from __future__ import annotations

from auditor.gates.model import TreeFacts
from auditor.history.exceptions import expired, load_exceptions
from tests.fuzz import engine

WORDS = (
    b"exceptions:\n", b"  - gate: ", b"query: ", b"symbol: ", b"targets: [sm_120]\n", b"verdict: unguarded\n", b"until: 0.6.0\n", b"reason: ",
    b"evidence: ", b"1!2.0.dev+x",
)  # fmt: skip
SEEDS = (
    b"exceptions:\n  - gate: g1\n    targets: [sm_120]\n    verdict: unguarded\n    reason: known\n    evidence: https://example.invalid\n    until: 0.6.0\n",
    b"exceptions:\n  - query: attention/x\n    symbol: C.m\n    verdict: blocked\n    reason: r\n    evidence: e\n    until: 1.0rc1\n",
)
_FACTS = TreeFacts("release", "x", "0", None, "0.5.9", None, None, False)


def one_input(data: bytes) -> None:
    path = engine.place() / "exceptions.yaml"
    path.write_bytes(data)
    for entry in load_exceptions(path).entries:
        expired(entry.until, _FACTS)
