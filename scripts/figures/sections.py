"""The sections of docs/benchmarks.md, in its order: ``make bench BENCH_ARGS="--only NAME"`` repeats one."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

from figures import (
    alarms,
    comparing,
    following,
    gpu,
    kills,
    pages,
    past,
    patching,
    porting,
    profile,
    repeating,
    right,
    span,
    speed,
)
from figures.setting import Setting


class Section(NamedTuple):
    """A section: its name, its heading, what it cannot do without, the heads of its tables as in the docs."""

    name: str
    heading: str
    needs: tuple[str, ...]
    cost: str  # CPU seconds, small and full
    heads: tuple[tuple[str, ...], ...]
    lines: Callable[[Setting], Iterator[str]]


SECTIONS = (
    Section("speed", "Speed", ("clone",), "60, 170", (speed.HEAD,), speed.lines),
    Section("next", "The next commit", ("later commits",), "100, 700", (following.HEAD,), following.lines),
    Section("range", "A range", ("clone",), "60, 250", (span.HEAD, span.COUNTS, span.KINDS), span.lines),
    Section("history", "The past of a gate", ("clone",), "35, 70", (past.HEAD,), past.lines),
    Section(
        "profile", "Where the time goes", ("clone",), "15, 30", (profile.COLD, profile.AGAIN), profile.lines
    ),
    Section("correctness", "Correctness", (), "60, 120", (right.KEY, right.ORACLE), right.lines),
    Section("porting", "Porting", ("clone",), "120, 2500", (porting.HEAD,), porting.lines),
    Section("patches", "Patches", ("later commits",), "40, 80", (patching.HEAD,), patching.lines),
    Section("kills", "Killed at random moments", ("wheels",), "60, 900", (kills.HEAD,), kills.lines),
    Section("diff", "Diff and guard", (), "70, 500", (comparing.HEAD, comparing.SIZES), comparing.lines),
    Section("pages", "Pages", (), "60, 150", (pages.HEAD,), pages.lines),
    Section("repeatability", "Repeatability", ("clone",), "25, 50", (repeating.HEAD,), repeating.lines),
    Section("alarms", "Alarms of the guard", ("later commits",), "60, 1500", (), alarms.lines),
    Section("kernels", "Kernels on a GPU", ("GPU",), "-", (gpu.COMPILED, gpu.DECODE, gpu.INDEXER), gpu.lines),
)
NAMES = tuple(section.name for section in SECTIONS)
