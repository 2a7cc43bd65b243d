"""One command measured, several of them in turns, and what was measured as cells of a table.

CPU seconds are user and system time of a command and all its children; memory is that of the largest process.
Ratios are formed within a round, in which every command runs once, in an order that rotates, so that a noisy
machine hits all of them alike. Linux and macOS.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent.parent
SCRIPTS = ROOT / "scripts"
PYTHON = sys.executable


class Run(NamedTuple):
    """What one command took: seconds, MiB, and how it ended."""

    cpu: float
    wall: float
    memory: float
    code: int


class Command(NamedTuple):
    """A command line, and what it has in its environment besides."""

    words: tuple[str, ...]
    environment: dict[str, str] = {}


def run(command: Command, out: Path | None = None) -> Run:
    """Run a command and measure it; its output goes to ``out`` or nowhere. It runs in this checkout, so that
    what is measured is the program that lies here.
    """
    environment = {**os.environ, "PYTHONPATH": str(ROOT), **command.environment}
    with open(out or os.devnull, "wb") as file:
        start = time.perf_counter()
        child = subprocess.Popen(
            command.words,
            cwd=ROOT,
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=subprocess.DEVNULL,
            env=environment,
        )
        _, status, used = os.wait4(child.pid, 0)
        wall = time.perf_counter() - start
        child.returncode = os.waitstatus_to_exitcode(status)
    unit = 1024**2 if sys.platform == "darwin" else 1024
    return Run(used.ru_utime + used.ru_stime, wall, used.ru_maxrss / unit, child.returncode)


def in_turns(
    commands: Mapping[str, Command], rounds: int, before: Callable[[int], None] = lambda _: None
) -> dict[str, list[Run]]:
    """Every command once a round; ``before`` is called with the number of each round."""
    taken: dict[str, list[Run]] = {name: [] for name in commands}
    names = list(commands)
    for number in range(rounds):
        before(number)
        turn = number % len(names)
        for name in names[turn:] + names[:turn]:
            taken[name].append(run(commands[name]))
    return taken


def median(runs: Sequence[Run], field: str = "cpu") -> float:
    """The median of one thing that was measured."""
    return statistics.median(getattr(r, field) for r in runs)


def spread(values: Sequence[float], digits: int = 2) -> str:
    """The median, and in brackets the least and the greatest where there are several."""
    if not values:
        return "-"
    said = f"{statistics.median(values):.{digits}f}"
    return said if len(values) == 1 else f"{said} [{min(values):.{digits}f}-{max(values):.{digits}f}]"


def ratios(runs: Sequence[Run], base: Sequence[Run] | None, field: str = "cpu") -> list[float]:
    """The ratio of each round; none without a reference."""
    return [getattr(r, field) / max(getattr(b, field), 1e-9) for r, b in zip(runs, base or ())]


def beside(runs: Sequence[Run], base: Sequence[Run] | None, field: str = "cpu", digits: int = 2) -> str:
    """The ratios as a cell; the reference itself is 1."""
    return "1" if runs is base else spread(ratios(runs, base, field), digits)


def worst(runs: Sequence[Run]) -> int:
    """The exit code that says most: 0 and 1 are answers, the others are not."""
    return max((r.code for r in runs), key=lambda code: (code not in (0, 1), abs(code)))


def row(*cells: object) -> str:
    """A row of a Markdown table."""
    return "| " + " | ".join(str(cell) for cell in cells) + " |"


def table(head: Sequence[str], rows: Iterable[Sequence[object]]) -> Iterator[str]:
    """A Markdown table, row by row as they come, with a blank line behind; nothing where there is no row."""
    begun = False
    for cells in rows:
        if not begun:
            yield row(*head)
            yield row(*("---" for _ in head))
        begun = True
        yield row(*cells)
    if begun:
        yield ""


def load() -> str:
    """What else this machine had to do, for below a table."""
    return f"Load {' '.join(f'{value:.1f}' for value in os.getloadavg())}; {os.cpu_count()} CPUs."
