"""Two versions of a module, audited and compared: gates, flags, their defaults, what still stands."""

from __future__ import annotations

import functools

import msgspec

from auditor.gates.audit import AuditOptions, audit
from auditor.gates.model import Report
from auditor.history.defaults import default_of, with_flipped_defaults
from auditor.history.diff import compare
from auditor.history.flags import declared_flags
from auditor.history.past import symbols_of, text_of
from auditor.history.still import with_what_stands
from auditor.profile import Symbol
from auditor.queries.exampletree import PRELUDE, PROFILE, MemoryTree
from auditor.reporting import diffjson
from tests.fuzz.parsers import python

_PROFILE = msgspec.structs.replace(PROFILE, flags=(Symbol("example.case", "Flags"),))
_CASE = b"""from example.gpu import major


class Flags:
    FAST = EnvBool(False)
    DEEP: int = 3


def pick(x):
    if major() >= 10 and Flags.FAST:
        return [y for y in x if y > major()]
    return 2 if x else 3
"""
WORDS = (
    *python.WORDS,
    b"    FAST = EnvBool(True)\n",
    b"    DEEP = ",
    b"class Flags:\n",
    b"if major() >= 12:\n",
    b"0x" + b"f" * 4000,
    b"a.b" + b".c" * 700,
)
SEEDS = (_CASE, _CASE.replace(b"False", b"True").replace(b"10", b"12"), *python.SEEDS)
_OPTIONS = AuditOptions(targets=("sm_90", "sm_120"), project="example", profile=_PROFILE, queries=())


def _tree(data: bytes) -> MemoryTree:
    return MemoryTree({**PRELUDE, "example/case.py": data})


@functools.cache
def _right() -> Report:
    return audit(_tree(_CASE), _OPTIONS)


def one_input(data: bytes) -> None:
    old, new = _tree(_CASE), _tree(data)
    report = audit(new, _OPTIONS)
    flags = declared_flags(old, _PROFILE), declared_flags(new, _PROFILE)
    for flag in flags[1].values():
        default_of(flag.declared)
    default_of(data.decode("utf-8", "replace")[:2000])
    diff = compare(_right(), report, flags=flags)
    changes = with_what_stands(diff.changes, old, new)
    changes = tuple(with_flipped_defaults(changes, *flags, report))
    for gate in report.gates[:3]:
        for symbols in symbols_of(gate, report).values():
            text_of(data, symbols)
    diffjson.dumps(msgspec.structs.replace(diff, changes=changes))
