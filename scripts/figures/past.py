"""The past of single gates: how many commits could matter, how many trees are audited, what it costs."""

from __future__ import annotations

import json
from collections.abc import Iterator

from figures.measure import load, run, table
from figures.setting import BOTH, Setting

HEAD = ("gate", "range", "commits that touch what it depends on", "trees audited", "CPU s", "what it says")
#: A gate at the newer end of a range, and the range: one whose meaning stayed, one that moved.
_ASKED = (
    ("mxfp4.py:218", "735a256~2000..735a256"),
    ("extend_attention.py:78", "6ed9843b5~20..6ed9843b5"),
)


def lines(at: Setting) -> Iterator[str]:
    """One row a gate; the second one only at full size."""
    yield from table(HEAD, _rows(at))
    yield load()


def _rows(at: Setting) -> Iterator[tuple[object, ...]]:
    for gate, span in _ASKED if at.full else _ASKED[:1]:
        if not all(at.has(end) for end in span.split("..")):
            at.talk(f"{gate}: left out, the clone does not have {span}")
            continue
        out = at.work / "past.json"
        words = ("history", gate, span, "--moved", "--repo", at.repo, "--target", BOTH, "--format", "json")
        done = run(at.ours(*words), out)
        if done.code:
            at.wrong.append(f"audit history {gate} {span}: exit {done.code}")
            continue
        told = json.loads(out.read_bytes())
        events = [f"{event['kind']} at {event['commits'][0]['id'][:9]}" for event in told["events"]]
        touching = f"{told['touching']} of {told['commits']:,}"
        name = f"`{told['what']}`, `{gate}`"
        yield (
            name,
            span,
            touching,
            told["audited"],
            f"{done.cpu:.0f}",
            ", ".join(events) or "nothing changed it",
        )
