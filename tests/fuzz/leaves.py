"""Documents with one value of a wrong kind: every place of a right document, each of the wrong values.

    python -m tests.fuzz.leaves [READER ...]

Random changes of text seldom give a document that is right but for the type of one value deep within it.
Here each value of the seeds of a reader is replaced by each of ``WRONG``, and each mapping gets a key that it
should not have and loses each that it has. Places that differ in a number of a list alone are taken once.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
from auditor import yamlio  # noqa: E402
from auditor.errors import UserError  # noqa: E402
from tests.fuzz import engine  # noqa: E402

#: Readers whose inputs are YAML or JSON.
READERS = ("edits", "exceptions", "kept", "lists", "patchset", "profile", "query", "records", "sweep")
HOSTILE = "\x1b[31m</script><img src=x onerror=alert(1)>\n::error::x"
#: Wrong values, as they are written.
WRONG = (
    "null", "true", "-1", "0", "9" * 400, "1e999", "NaN", '""', '"\\u0000"', '"\\ud800"',
    json.dumps(HOSTILE), '"../../x"', '"' + "x" * 5000 + '"', '"(a+)+$"', '"9999999999"', "[]", "{}",
    "[null]", '[[["a"]]]', '{"a": {"b": []}}', "[" * 35 + "]" * 35, "[1, 1]", '["a", "a"]',
)  # fmt: skip
_HOLE = "@hole@"


def documents(data: bytes) -> Iterator[tuple[Any, list[Any] | None]]:
    """What a seed holds: one document, or one a line with those around it."""
    lines = data.splitlines()
    if data[:1] == b"{" and len(lines) > 1 and all(line[:1] == b"{" for line in lines):
        try:
            whole = [json.loads(line) for line in lines]
        except ValueError:
            return
        for one in whole:
            yield one, whole
        return
    try:
        yield (json.loads(data) if data[:1] == b"{" else yamlio.load(data, "seed").data), None
    except (ValueError, UserError):
        return


def _holes(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[tuple[Any, ...], Any]]:
    """(place without numbers of lists, the document with a hole at it)."""
    if path:
        yield path, _HOLE
    if isinstance(value, dict):
        for key, inner in value.items():
            for where, made in _holes(inner, (*path, str(key))):
                yield where, {**value, key: made}
            yield (*path, str(key), "gone"), {k: v for k, v in value.items() if k != key}
        yield (*path, "more"), {**value, "more than asked": _HOLE}
        yield (*path, "hostile"), {**value, HOSTILE: 1}
    elif isinstance(value, list):
        for at, inner in enumerate(value):
            for where, made in _holes(inner, (*path, "[]")):
                yield where, [*value[:at], made, *value[at + 1 :]]


def _places(target: engine.Parser) -> Iterator[tuple[tuple[str, ...], Any, Any, list[Any]]]:
    """(place, document with a hole there, the document, it and those around it) of all seeds of a reader."""
    seen: set[tuple[Any, ...]] = set()
    for seed in target.SEEDS:
        for document, around in documents(seed):
            for path, made in _holes(document):
                if path not in seen:
                    seen.add(path)
                    yield path, made, document, around or [document]


def _filled(made: Any, document: Any, around: list[Any], wrong: str) -> bytes:
    text = json.dumps(made).replace(', "digest": ', ',\n"digest":')  # as a baseline has it
    one = text.replace(f'"{_HOLE}"', wrong, 1)
    return ("\n".join(one if each is document else json.dumps(each) for each in around) + "\n").encode()


def inputs(target: engine.Parser) -> Iterator[tuple[str, bytes]]:
    """(place and value in words, input) for each place and each wrong value."""
    for path, made, document, around in _places(target):
        for wrong in WRONG if path[-1] not in ("gone", "hostile") else ("",):
            yield f"{'.'.join(path)!r}: {wrong[:30]}", _filled(made, document, around, wrong)


def some(target: engine.Parser, most: int, dice: random.Random) -> list[bytes]:
    """A few of them."""
    places = list(_places(target))
    chosen = dice.sample(places, min(most, len(places)))
    return [_filled(made, document, around, dice.choice(WRONG)) for _, made, document, around in chosen]


def main() -> int:
    """Try them all; the exit code is 1 where one was a fault."""
    from tests.fuzz.drive import Found

    ask = argparse.ArgumentParser(description=__doc__)
    ask.add_argument("names", nargs="*", choices=[*READERS, []])
    given = ask.parse_args()
    faults = 0
    for name in given.names or READERS:
        target, found = engine.parser(name), Found(name)
        count = 0
        for words, data in inputs(target):
            count += 1
            try:
                engine.try_one(target, data)
            except engine.Fault as fault:
                if fault.kind not in found.shortest:
                    print(words)
                found.keep(fault, data)
        faults += len(found.shortest)
        print(f"{name}: {count} documents, {len(found.shortest)} kinds of faults", flush=True)
    return int(bool(faults))


if __name__ == "__main__":
    sys.exit(main())
