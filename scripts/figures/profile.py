"""Where a run spends its time: a sampling profile of a cold one, the steps of one that the cache answers."""

from __future__ import annotations

import json
import statistics
from collections.abc import Iterator
from pathlib import Path

from figures.measure import PYTHON, Command, run, table
from figures.setting import Setting

COLD = ("part of a cold audit (they overlap)", "samples")
AGAIN = ("step of the same audit again", "CPU ms")
#: What each part is seen by: a function that runs while it lasts.
PARTS = {
    "visiting functions": "program/visiting.py:visit",
    "values of attributes, over all that writes them": "program/summaries.py:stored_attribute",
    "whether something changes a value under another name": "program/classes.py:mutated",
    "the top level of modules": "program/modules.py:_top_level",
    "calls of compiled kernels": "gates/audit.py:native_findings",
    "queries": "gates/audit.py:query_findings",
    "Python's parser": "/ast.py:parse",
    "importing modules": "<frozen importlib._bootstrap>:_find_and_load",
}
#: Ends by telling what it took, and which modules it had.
_TOLD = """
import json, os, sys
out, sys.argv = sys.argv[1], ["audit", *sys.argv[2:]]
from auditor.cli.main import audit
code = audit()
took = os.times()
modules = [name for name in sys.modules if name != "__main__"]
facts = {"own": took.user + took.system, "git": took.children_user + took.children_system, "modules": modules}
json.dump(facts, open(out, "w"))
os._exit(0)
"""
_IMPORT = """
import importlib, json, sys
for name in json.load(open(sys.argv[1]))["modules"]:
    try:
        importlib.import_module(name)
    except ImportError:
        pass
"""


def lines(at: Setting) -> Iterator[str]:
    """Both tables."""
    told = at.work / "sampled.json"
    words = (at.project, "--format", "json", "--commit", at.commit, "--repo", at.repo)
    where = {"SGLANG_AUDITOR_CACHE_DIR": str(at.work / "profiled")}
    sampled = str(Path(__file__).with_name("sampled.py"))
    done = run(Command((PYTHON, sampled, str(told), *words), where))
    if done.code or not told.exists():
        at.wrong.append(f"sampled.py: exit {done.code}")
        return
    counts = json.loads(told.read_bytes())
    shares = {
        part: sum(number for name, number in counts.items() if name.endswith(function)) / counts["all"]
        for part, function in PARTS.items()
    }
    by_share = sorted(shares.items(), key=lambda item: -item[1])
    yield from table(COLD, ((part, f"{share:.0%}") for part, share in by_share))
    yield f"{counts['all']:,} samples, at every one all functions that were running."
    yield ""
    yield from table(AGAIN, _again(at, words, where))


def _again(at: Setting, words: tuple[str, ...], where: dict[str, str]) -> Iterator[tuple[object, ...]]:
    told = at.work / "again.json"
    own, git, start, loaded = ([] for _ in range(4))
    for _ in range(at.rounds(5, 15)):
        run(Command((PYTHON, "-c", _TOLD, str(told), *words), where), at.work / "again.out")
        facts = json.loads(told.read_bytes())
        own.append(facts["own"])
        git.append(facts["git"])
        start.append(run(Command((PYTHON, "-c", "pass"))).cpu)
        loaded.append(run(Command((PYTHON, "-c", _IMPORT, str(told)))).cpu)
    first = statistics.median(start)
    steps = {
        "starting Python": first,
        f"importing {len(facts['modules']):,} modules": statistics.median(loaded) - first,
        "git": statistics.median(git),
        "the whole command": statistics.median(map(sum, zip(own, git))),
    }
    for step, seconds in steps.items():
        yield step, f"{1000 * seconds:.0f}"
