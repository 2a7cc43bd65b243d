"""Whether the same question has the same answer, byte for byte."""

from __future__ import annotations

from collections.abc import Iterator

from figures.measure import run, table
from figures.setting import Setting

HEAD = ("the JSON of an audit", "bytes", "as the first one")


def lines(at: Setting) -> Iterator[str]:
    """Cold runs with different hash seeds, one that fills the cache, one that is answered from it."""
    out = at.work / "answer.json"
    seeds = ("0", "1", "4242") if at.full else ("0",)
    commands = {f"cold, hash seed {n}": at.audit(at.commit, PYTHONHASHSEED=n) for n in seeds}
    commands["filling the cache, hash seed 7"] = at.audit(at.commit, "repeated", PYTHONHASHSEED="7")
    commands["from the cache"] = at.audit(at.commit, "repeated")
    rows: list[tuple[object, ...]] = []
    first = b""
    for name, command in commands.items():
        done = run(command, out)
        data = out.read_bytes()
        first = first or data
        if data != first or done.code:
            at.wrong.append(f"repeatability: {name} gives other bytes, or exit {done.code}")
        rows.append((name, f"{len(data):,}", "the same" if data == first else "DIFFERENT"))
    yield from table(HEAD, rows)
