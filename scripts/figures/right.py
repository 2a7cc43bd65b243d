"""Whether what an audit decides is right: against a key, and against what the project's own code answered."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterator

import score

from figures.measure import PYTHON, ROOT, SCRIPTS, run, table
from figures.setting import Setting

KEY = ("against the key that was written by reading", "")
ORACLE = ("tree", "agree", "left open", "contradict", "not listed")
_COUNTS = re.compile(r"(\d+) agree, (\d+) left open, (\d+) contradict, (\d+) names not listed")


def lines(at: Setting) -> Iterator[str]:
    """Both tables."""
    if at.repo:
        yield from table(KEY, _key(at))
    else:
        at.talk("against the key: left out, no clone")
    yield from table(ORACLE, _oracle(at))


def _key(at: Setting) -> Iterator[tuple[object, ...]]:
    report = at.work / "report.json"
    run(at.audit(at.commit), report)
    gates, neutral = score.load_key(ROOT / "tests" / "keys" / "735a256")
    found = score.score(json.loads(report.read_bytes())["gates"], gates, neutral)
    decided = found.agree + len(found.wrong)
    at.wrong += [f"against the key: {line}" for line in found.wrong]
    yield "gates in the key", found.key_gates
    yield "recall", f"{found.recall:.1%} ({found.found})"
    yield "precision in the files of the key", f"{found.precision:.1%} ({found.extra} not in the key)"
    yield "decided values that agree", f"{found.agree:,} of {decided:,}"
    unknown = f"{found.unknown_where_decided} of {found.decided_cells:,} cells ({found.unknown_share:.1%})"
    yield "unknown where the key decides", unknown


def _oracle(at: Setting) -> Iterator[tuple[object, ...]]:
    recorded = sorted((ROOT / "tests" / "keys" / "oracle").glob("helpers-*.json"))
    if not recorded:
        at.talk("against the project's own answers: left out, none are recorded in tests/keys/oracle")
    # Each tree costs an audit: of releases, the oldest and the newest say most.
    for path in recorded if at.full else [recorded[0], *recorded[-2:]] if recorded else []:
        name = path.stem.removeprefix("helpers-")
        source = at.source(name)
        if source is None:
            at.talk(f"{name}: left out, neither its wheel (--wheels) nor a clone that has it")
            continue
        claims = at.work / "claims.json"
        run(at.ours("predicates", *source, "--format", "json"), claims)
        compare = [PYTHON, str(SCRIPTS / "oracle" / "compare.py"), str(path), str(claims)]
        said = subprocess.run(compare, capture_output=True, text=True, check=False).stdout
        counts = _COUNTS.search(said)
        if counts is None or counts[3] != "0":
            at.wrong.append(f"{name}: contradicts what the project's own code answered")
        if counts is not None:
            yield name, *counts.groups()
