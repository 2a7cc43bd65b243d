"""Python sources: the whole audit, the quick reader of a sweep, what patches ask of a file."""

from __future__ import annotations

import random
import sys

from auditor.gates.audit import AuditOptions, audit
from auditor.history.sweeping.extract import Words
from auditor.history.sweeping.pieces import Reader, Unreadable
from auditor.patching.merge.statements import source_of
from auditor.patching.symbols import read_module
from auditor.queries.exampletree import PRELUDE, PROFILE, MemoryTree
from auditor.reporting import jsonout
from tests.fuzz import engine

sys.path.insert(0, str(engine.ROOT / "tests" / "unit"))
import program_fuzz  # noqa: E402

WORDS = (
    b"if major() >= 10:\n    ", b"match number():\n    case ", b"case [1, *_] | {'a': x}:\n", b":= ", b"lambda *a, **k: ", b"[x for x in ", b"try:\n    ",
    b"except* E:\n", b"finally:\n    ", b"class C(C):\n    ", b"def f(f=f):\n    ", b"async def ", b"await ", b"yield from ", b"nonlocal x\n", b"global x\n",
    b"del x\n", b"from . import *\n", b"from .... import x\n", b"import example.case\n", b"with a as b, c as (d, *e):\n    ", b"f'{x!r:{y}}'", b"1 << 99999999",
    b"9 ** 9 ** 9", b"'a' * 99999999", b"range(10**18)", b"@f\n", b"type X = int\n", b"def f[T](): ...\n", b"__import__('os')", b"os.environ['A']", b"(" * 150,
    b"[" * 150, b"not " * 900, b"-" * 900, b"a." * 900, b"x = x + x\n", b"while True:\n    ", b"# coding: utf-7\n", b"\x0c", b"\xef\xbb\xbf", b"\t", b"\\\n", b"0x", b"1e999",
    b"1_0j", b"...", b"setattr(f, 'a', f)\n", b"cap()[::-1]", b"torch.cuda.get_device_capability()", b"globals()['x']", b"super().__init__()", b"a, *b = ",
)  # fmt: skip
SEEDS = (
    b"from example.gpu import major, number\n\nclass C:\n    on = major() == 12\n\n    def go(self):\n        return self.on and number() in (120, 121)\n\n\ndef pick(x):\n    if C().go():\n        return 1\n    raise ValueError(x)\n",
    b"import torch\nx = [i for i in (9, 10) if torch.cuda.get_device_capability()[0] == i]\nmatch x:\n    case [9, *_]:\n        y = 1\n    case _:\n        y = 2\n",
    b"# coding: latin-1\ndef f():\n    try:\n        yield from f()\n    finally:\n        return\n",
    b"",
)
_OPTIONS = AuditOptions(targets=("sm_90", "sm_120", "sm_121"), project="example", profile=PROFILE, queries=())


def generated(rng: random.Random) -> bytes:
    """A program that asks which GPU it runs on."""
    return program_fuzz.program(rng)["example/case.py"].encode()


def one_input(data: bytes) -> None:
    files: dict[str, str | bytes] = {**PRELUDE, "example/gpu.py": program_fuzz.GPU, "example/case.py": data}
    report = audit(MemoryTree(files), _OPTIONS)
    jsonout.loads(jsonout.dumps(report), "report.json")
    words = Words(frozenset({"example.gpu.major", "example.gpu.number"}))
    for memo in (True, False):
        try:
            Reader(words, memo).facts(data)
        except Unreadable:
            pass
    read_module(data, "example.case")
    try:
        source = source_of(data)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return
    for statement in source.statements():
        assert statement.tokens is not None and statement.norm is not None
