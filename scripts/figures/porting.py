"""Patches carried to other versions, judged by cases whose right answer is certain."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import port_score

from figures.measure import PYTHON, SCRIPTS
from figures.setting import Setting

HEAD = ("cases", "all", *port_score.WORDS)


def lines(at: Setting) -> Iterator[str]:
    """Ours on all cases, then the tool of today on the conflicts: the tables of ``scripts/port_score.py``."""
    cases = Path(at.options.cases) if at.options.cases else _made(at)
    if cases is None:
        return
    sample = () if at.full else ("--sample", "2")
    for tool, only in (("auditor", ""), ("cherry-pick", "conflict-")):
        words = ("--repo", at.repo, "--cases", str(cases), "--work", str(at.work / "ported"), "--in-process")
        told = at.work / f"{tool}.json"
        score = [PYTHON, str(SCRIPTS / "port_score.py"), *words, *sample, "--json", str(told)]
        done = subprocess.run(
            [*score, "--tool", tool, "--only", only], stdout=subprocess.PIPE, text=True, check=False
        )
        yield "With `patches port`:" if tool == "auditor" else "The conflicts with `git cherry-pick`:"
        yield ""
        yield done.stdout.partition("\n\n")[0]
        yield ""
        if tool == "auditor" and done.returncode and told.exists():
            bad = [v for v in json.loads(told.read_bytes()) if v["word"] in ("wrong", "failed")]
            at.wrong += [f"porting: {v['case']}: {v['word']}, {v['why']}" for v in bad]


def _made(at: Setting) -> Path | None:
    """The cases, mined from the clone; few of the newest commits where they need not be all."""
    out = at.work / "cases"
    last = ("--last", "4500" if at.full else "400")
    words = ("--repo", at.repo, "--out", str(out), *last)
    done = subprocess.run(
        [PYTHON, str(SCRIPTS / "port_cases.py"), *words], stdout=subprocess.DEVNULL, check=False
    )
    if done.returncode or not any(out.glob("*/meta.json")):
        at.wrong.append(f"port_cases.py made no cases: exit {done.returncode}")
        return None
    return out
