"""Files of sweeps, read back and grouped."""

from __future__ import annotations

from auditor.errors import UserError
from auditor.history.sweeping.model import SCHEMA, CommitLine, GateChange, GateFact, Head, Setup
from auditor.history.sweeping.sweep import encoded
from auditor.history.sweeping.trend import facts, read_sweep, trend

_SETUP = Setup(
    "example", "quick", ("sm_120",), "sm_100", "13.0", "python", "python/example", vocabulary=("a.b",)
)
_FACT = GateFact("id", "a.py", "f", "if", "major() >= 10")
_LINES = [
    CommitLine(
        f"{n:040x}",
        f"2026-0{n}-01",
        f"#{n}",
        n,
        {"sm_120": {"differs": n, "undecided": 1}},
        changes=(GateChange("added", _FACT),),
        moved=n % 2,
    )
    for n in range(1, 5)
]
_WHOLE = (
    b"\n".join([encoded(Head(SCHEMA, "t", "a" * 40, "b" * 40, 4, _SETUP)), *map(encoded, _LINES)]) + b"\n"
)
WORDS = (
    b"\n",
    b'"date":"',
    b'"targets":{}',
    b"null",
    b"1e400",
    b'"\\ud800"',
    b"\xff",
    b"{",
    b"[" * 2000,
    b'{"a":' * 2000,
    b'"gates":-1',
    b'"sweep":"9"',
    b'"problem":"x"',
)
SEEDS = (_WHOLE, _WHOLE[:-30], b"")


def one_input(data: bytes) -> None:
    head, lines, _ = read_sweep(data, "f.jsonl")
    for by in (None, "month", "commit", "year"):
        try:
            facts(trend(head, lines, by))
        except UserError:
            continue
