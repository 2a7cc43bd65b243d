"""Runs ``audit`` with a sampling profile: python scripts/figures/sampled.py OUT WORDS...

Every few milliseconds of CPU the functions that are running are counted once each. OUT gets JSON: how many
samples there were, and of each function (``folder/file:name``) in how many it ran.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from collections import Counter
from types import FrameType

#: Seconds of CPU between samples; a kernel may make it more.
_EVERY = 0.002

counts: Counter[str] = Counter()


def sample(_: int, frame: FrameType | None) -> None:
    """Count what is running."""
    here: set[str] = set()
    while frame is not None:
        code = frame.f_code
        here.add(f"{'/'.join(code.co_filename.split(os.sep)[-2:])}:{code.co_name}")
        frame = frame.f_back
    counts.update(here)
    counts["all"] += 1


def main(out: str, words: list[str]) -> int:
    """Run the words; what they print goes nowhere."""
    from auditor.cli.main import audit

    sys.argv = ["audit", *words]
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    signal.signal(signal.SIGPROF, sample)
    signal.setitimer(signal.ITIMER_PROF, _EVERY, _EVERY)
    try:
        code = audit()
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else 1
    signal.setitimer(signal.ITIMER_PROF, 0)
    with open(out, "w", encoding="utf-8") as file:
        json.dump(counts, file)
    return int(code or 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2:]))
