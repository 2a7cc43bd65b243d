"""Mailboxes and logs of many commits, cut into patches and named."""

from __future__ import annotations

from auditor.patching.incoming.patches import Options, Source, split_series, take
from auditor.queries.exampletree import MemoryTree
from tests.fuzz.parsers import patch

WORDS = (*patch.WORDS, b"\nFrom ", b"From: ", b"commit ")
SEEDS = patch.SEEDS
_TREE = MemoryTree({"pkg/m.py": "a\nb\nc\n1\n2\n3\n4\n5\ny", "a": "x\n", "gone": "", "x.txt": "one\r\n"})
generated = patch.generated


def one_input(data: bytes) -> None:
    assert b"".join(split_series(data)).replace(b"\n", b"") == data.replace(b"\n", b""), (
        "cutting lost something"
    )
    take([Source("in.mbox", data), Source("two", data)], _TREE, Options())
