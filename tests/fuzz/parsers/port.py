"""Versions of a file and a patch between two of them: carried, merged, said as replaced functions, compared."""

from __future__ import annotations

import random

from auditor.errors import UserError
from auditor.patching.diffs.lines import file_change
from auditor.patching.model import ChangeSet
from auditor.patching.plugin.express import change_of
from auditor.patching.port.carry import port
from auditor.patching.symbols import imports_at, lost_symbols, read_module
from auditor.queries.exampletree import MemoryTree
from auditor.trees.names import blob_id
from tests.fuzz import engine
from tests.fuzz.parsers import python

_CASES = sorted((engine.ROOT / "tests" / "cases" / "port").iterdir())
_MARK = b"\n=======8<=======\n"


def _versions(case: object) -> bytes | None:
    base, target = (sorted((case / part).rglob("*.py")) for part in ("base", "target"))  # type: ignore[operator]
    if not base or not target:
        return None
    before, ours = base[0].read_bytes(), target[0].read_bytes()
    theirs = b"".join(reversed(before.splitlines(True)[:3])) + b"".join(before.splitlines(True)[3:])
    return _MARK.join([before, theirs, ours])


WORDS = (
    *python.WORDS,
    _MARK,
    b"<<<<<<< a\n",
    b"=======\n",
    b"    ",
    b"# why\n",
    b"import a\n",
    b"from a import (\n    b,\n)\n",
    b"@d\n",
)
SEEDS = (
    b"def f(x):\n    a = 1\n    if x:\n        return 1\n    return 2\n" + _MARK + b"def f(x, y=3):\n    a = 1\n    if x and y:\n        return 1\n    return 2\n"
    + _MARK + b"import os\n\n\ndef f(x):\n    a = 1\n    if x or os:\n        return 1\n    return 4\n",
    *(made for made in map(_versions, _CASES[:12]) if made is not None),
)  # fmt: skip


def generated(rng: random.Random) -> bytes:
    """Three versions that share most lines."""
    lines = rng.choice(SEEDS).split(_MARK)[0].splitlines(True)
    return _MARK.join(
        b"".join(line * rng.choice((1, 1, 1, 1, 0, 2)) for line in lines) + rng.choice((b"", b"end"))
        for _ in range(3)
    )


def one_input(data: bytes) -> None:
    base, theirs, ours = (*data.split(_MARK), b"", b"")[:3]
    change = file_change("a.py", base, theirs)
    for before, after in ((base, theirs), (base, ours)):
        change_of(before, after, "a.py")
        old = read_module(before, "a")
        if old is not None:
            lost_symbols(old, read_module(after, "a"))
    list(imports_at(ours, "a", False, None))
    if change is None:
        return
    known = {blob_id(base): base}
    for blobs in (known.get, lambda _: None):
        for tree in (MemoryTree({"a.py": ours}), MemoryTree({"b/a.py": ours, "c.py": base})):
            try:
                outcome = port(ChangeSet((change,)), tree, blobs=blobs)
            except UserError as error:
                assert error.render()
                continue
            assert outcome.status != "conflict" or not outcome.files
