"""The kernels of patchsets/sm120 on the GPU of this machine, beside those that they replace."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

from figures.measure import PYTHON, ROOT, table
from figures.setting import Setting

_BESIDE = ("ratio, plain", "ratio, Gluon", "floor", "of the floor, plain / Gluon")
DECODE = ("tokens", "heads", "batch", "theirs", "plain Triton", "Gluon", *_BESIDE)
INDEXER = ("context, table made for", "batch", "theirs", "ours", "ratio", "floor", "of the floor")
COMPILED = ("compiled for sm_120", "shared memory", "registers", "blocks a multiprocessor")


def lines(at: Setting) -> Iterator[str]:
    """What ``benchmarks/kernels.py`` finds: what it compiled for sm_120, then microseconds a call."""
    told = at.work / "kernels.json"
    theirs = ("--sglang", str(at.checkout)) if at.checkout else ()
    if not theirs:
        at.talk("the kernels they replace are left out: no clone, and no --tree")
    words = [PYTHON, str(ROOT / "benchmarks" / "kernels.py"), *theirs, "--json", str(told)]
    done = subprocess.run([*words, *(() if at.full else ("--quick",))], stdout=sys.stderr, check=False)
    if done.returncode:
        at.wrong.append(f"benchmarks/kernels.py: exit {done.returncode}")
        return
    found = json.loads(told.read_bytes())
    yield from told_of(found)
    for aim in aims_of(found):
        at.aim(*aim)


def told_of(found: dict[str, Any]) -> Iterator[str]:
    """The tables of what was written as JSON."""
    device = ("device", "multiprocessors", "memory GB/s", "torch", "triton")
    yield ", ".join(f"{name} {found[name]}" for name in device)
    yield ""
    compiled = dict.fromkeys(_compiled(row) for part in _PARTS for row in found[part]["sm_120"])
    yield from table(COMPILED, compiled)  # a launch is known by what it takes, not by all its constants
    yield from table(DECODE, (_decode(row) for row in found["decode"]["speed"]))
    yield from table(INDEXER, (_indexer(row) for row in found["indexer"]["speed"]))
    errors = {
        part: sorted(row["error"] for row in found[part]["accuracy"] if row["path"] != "theirs")
        for part in _PARTS
    }
    for part, some in errors.items():
        yield f"Relative error of ours against float64, {part}: {some[0]:.2e} to {some[-1]:.2e}."


_PARTS = ("decode", "indexer")
#: Times faster than theirs at least: the layer, heads, batch (None: any), and ours.
_AIMS = (
    ("128 window + 512", None, None, "plain", 20),
    ("128 window + 512", None, None, "gluon", 25),
    ("128 window + 512", 64, 64, "gluon", 80),
    ("128 window", 64, 1, "plain", 7),
    ("128 window", 64, 64, "plain", 40),
    ("128 window + 64", 64, 1, "plain", 12),
    ("128 window + 64", 64, 64, "plain", 50),
    ("indexer, 8K in a table for 8K", None, 1, "plain", 10),
    ("indexer, 128K in a table for 128K", None, 16, "plain", 28),
    ("indexer, 8K in a table for 128K", None, 16, "plain", 100),
)


def aims_of(found: dict[str, Any]) -> Iterator[tuple[str, str, bool]]:
    """What was aimed at, for the sizes that were measured beside theirs."""
    every = [row for part in _PARTS for row in found[part]["speed"]]
    for layer, heads, batch, name, least in _AIMS:
        rows = [row for row in every if row["layer"] == layer and "theirs" in row]
        rows = [row for row in rows if heads in (None, row["heads"]) and batch in (None, row["batch"])]
        if not rows:
            continue
        times = sorted(row["theirs"] / row[name] for row in rows)
        reached = f"{times[0]:.0f}" if len(times) == 1 else f"{times[0]:.0f} to {times[-1]:.0f}"
        ours = {"plain": "plain Triton", "gluon": "Gluon"}[name]
        size = f"{heads} heads, " * bool(heads) + (f"batch {batch}" if batch else "every size")
        said = f"{layer if layer.startswith('indexer') else f'decode, {layer}'}, {size}: {ours}"
        yield f"{said} >= {least} times theirs, on {found['device']}", reached, times[0] >= least


def _compiled(row: dict[str, Any]) -> tuple[object, ...]:
    return row["kernel"], f"{row['shared']:,}", row["registers"], row["blocks"]


def _time(value: float | None) -> str:
    return "" if value is None else f"{value:,.0f}" if value >= 200 else f"{value:.1f}"


def _times(row: dict[str, Any], name: str) -> str:
    return f"{row['theirs'] / row[name]:.0f}" if "theirs" in row else ""


def _decode(row: dict[str, Any]) -> tuple[object, ...]:
    paths = ("theirs", "plain", "gluon")
    floor = " / ".join(f"{100 * row['floor'] / row[name]:.0f}" for name in ("plain", "gluon"))
    beside = (_times(row, "plain"), _times(row, "gluon"), f"{row['floor']:.2f}", f"{floor} %")
    return row["layer"], row["heads"], row["batch"], *(_time(row.get(name)) for name in paths), *beside


def _indexer(row: dict[str, Any]) -> tuple[object, ...]:
    layer = row["layer"].removeprefix("indexer, ").replace(" in a table for ", ", ")
    times = (_time(row.get("theirs")), _time(row["plain"]), _times(row, "plain"))
    return layer, row["batch"], *times, f"{row['floor']:.2f}", f"{100 * row['floor'] / row['plain']:.0f} %"
