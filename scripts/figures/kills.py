"""Patches killed while they write: whether anything is lost, and what the moment hit."""

from __future__ import annotations

import re
import subprocess
from collections import Counter
from collections.abc import Iterator

from figures.measure import PYTHON, SCRIPTS, table
from figures.setting import Setting

ENDS = ("not begun", "put back", "finished", "done before the kill")
HEAD = ("what is killed", "written as", "moments", *ENDS)
#: The release of which a part is written to.
_RELEASE = "0.5.14"
_SAID = re.compile(r"(\w+): (\d+) \w+, nothing lost; (.*)")


def lines(at: Setting) -> Iterator[str]:
    """One row a way of writing."""
    yield from table(HEAD, _rows(at))


def _rows(at: Setting) -> Iterator[tuple[object, ...]]:
    wheel = at.wheel(_RELEASE)
    if wheel is None:
        at.talk(f"left out: no wheel of {_RELEASE}")
        return
    moments = ("--moments", str(at.options.moments or (200 if at.full else 10)))
    rounds = ("--rounds", str(at.options.moments or (60 if at.full else 6)))
    pair = ("--pair", str(at.options.moments or (40 if at.full else 6)))
    trials = {
        "the layer that writes": ("kill_trial.py", *moments),
        "the real commands": ("kill_cli_trial.py", *rounds, *pair),
    }
    for name, (script, *words) in trials.items():
        trial = [PYTHON, str(SCRIPTS / script), "--wheel", str(wheel), *words, "--in", str(at.work)]
        done = subprocess.run(trial, stdout=subprocess.PIPE, text=True, check=False)
        if done.returncode:
            at.wrong.append(f"{script}: exit {done.returncode}")
        for way, number, ends in _SAID.findall(done.stdout):
            counts = counted(ends)
            yield name, way, number, *(counts[end] for end in ENDS)


def counted(told: str) -> Counter[str]:
    """What a trial says of its ends, with their verbs, by column. A run that was complete and only not
    tidied up yet was done.
    """
    counts: Counter[str] = Counter()
    for end, number in re.findall(r"(?:apply|revert) (.*?) (\d+)(?:, |$)", told):
        counts[next((known for known in ENDS if known.startswith(end)), ENDS[-1])] += int(number)
    return counts
