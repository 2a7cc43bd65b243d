"""The strict YAML that every file of ours is written in."""

from __future__ import annotations

from auditor import yamlio
from tests.fuzz import engine

WORDS = (
    b"&a ", b"*a", b"!!python/object:os.system ", b"<<: ", b"- ", b"{", b"[", b"? ", b": ", b"|\n ", b">-\n ", b"---\n", b"...\n", b"%YAML 1.1\n",
    b"\t", b"0x10", b"1e5", b"~", b"yes", b"'", b'"\\x', b"\xc2\x85", b"#",
)  # fmt: skip
SEEDS = (
    b"a: 1\nb: [x, {c: d}]\ne: |\n  text\n",
    b"- &a [1, 2]\n- *a\n",
    b"",
    b"? a\n: b\n",
    *engine.files_below(engine.ROOT / "queries", "*.yaml", 5),
)


def one_input(data: bytes) -> None:
    document = yamlio.load(data, "in.yaml")
    for step in ((), (0,), ("a",), ("a", 0, "b")):
        line, column = document.mark(*step)
        assert line >= 1 and column >= 1
