"""A sweep of a range: what it costs, and what it sees of what an audit sees."""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from figures.measure import Command, beside, in_turns, load, median, ratios, run, spread, table
from figures.setting import BOTH, PEER, Setting

HEAD = ("command", "CPU s", "CPU, ratio to ast-grep", "MiB")
_OTHER = ("other way, audit", "other way, quick", "one side open, audit", "undecided, quick")
COUNTS = ("commit", "gates, audit", "gates, quick", *_OTHER)
KINDS = ("kind", "gates of the audit", "of these, seen by the sweep")
#: How long the range is, in commits.
LENGTH = 500
_TARGET, _REFERENCE = "sm_120", "sm_100"


def lines(at: Setting) -> Iterator[str]:
    """What it costs; then its counts beside those of audits, and which gates it sees, kind by kind."""
    length = LENGTH
    while not at.has(f"{at.commit}~{length}") and length > 1:
        length //= 2
    span = f"{at.commit}~{length}..{at.commit}"
    name = f"sweep {span}, sm_120 and sm_121, nothing kept"
    taken = in_turns(at.with_peer({name: _sweep(at, span)}), at.rounds(1, 4))
    base = taken.get(PEER)
    rows = [
        (n, spread([r.cpu for r in runs], 1), beside(runs, base), f"{max(r.memory for r in runs):.0f}")
        for n, runs in taken.items()
    ]
    if at.full:
        out = at.work / "everything.jsonl"
        done = run(_sweep(at, "--all", "--commit", at.commit), out)
        commits = out.read_bytes().count(b"\n") - 1
        cells = (f"{done.cpu:.0f}", "-", f"{done.memory:.0f}")
        rows.append((f"sweep of all {commits:,} first-parent commits up to {at.commit} (one run)", *cells))
        at.aim("sweep of the whole history <= 60 CPU s", f"{done.cpu:.0f}", done.cpu <= 60)
        at.aim("its memory <= 300 MiB", f"{done.memory:.0f}", done.memory <= 300)
    yield from table(HEAD, rows)
    yield load()
    yield ""
    if base:
        met = median(taken[name]) <= 0.4 * median(base)
        at.aim(f"sweep of {length} commits <= 0.4 of ast-grep, CPU", spread(ratios(taken[name], base)), met)
    file = at.work / "span.jsonl"
    run(_sweep(at, span), file)
    known = Known(at, file)
    reports: dict[int, Any] = {}
    for back in [n * length // 4 for n in range(4)] if at.full else [0]:
        report = at.work / "report.json"
        run(at.audit(f"{at.commit}~{back}"), report)
        reports[back] = json.loads(report.read_bytes())["gates"]
    yield from table(COUNTS, (known.beside(back, gates) for back, gates in reports.items()))
    yield from table(KINDS, known.kinds(reports[0]))
    yield known.alone(24 if at.full else 2)


def _sweep(at: Setting, *words: str) -> Command:
    return at.ours("sweep", *words, "--target", BOTH, "--repo", at.repo, "--format", "json")


class Known:
    """The file of a sweep, and the trees that it is of, read one by one."""

    def __init__(self, at: Setting, file: Path) -> None:
        from auditor.history.sweeping.sweep import read_head
        from auditor.profile import load_profile
        from auditor.trees.git import GitRepo

        self.at = at
        first, *rest = file.read_bytes().splitlines()
        self.head = read_head(first, file.name)
        self.lines = [json.loads(line) for line in rest]
        found = GitRepo.find(at.repo)
        assert found is not None
        self.repo = found
        self.profile = load_profile(at.project)

    def beside(self, back: int, gates: list[dict[str, Any]]) -> tuple[object, ...]:
        """The counts of an audit of the commit ``back`` before the last, and those of the sweep."""
        line = self.lines[-1 - back]
        pairs = [(gate["truth"][_TARGET], gate["truth"][_REFERENCE]) for gate in gates]
        other = sum({*pair} == {"true", "false"} for pair in pairs)
        half = sum(a != b and "unknown" in (a, b) for a, b in pairs)
        quick = line["targets"][_TARGET]
        name = f"{self.at.commit}~{back}" if back else self.at.commit
        return name, len(gates), line["gates"], other, quick["differs"], half, quick["undecided"]

    def tree(self, commit: str) -> Any:
        """A tree read alone and whole, with nothing remembered."""
        from auditor.history.sweeping.quick import Quick
        from auditor.trees.commit import parse_tree_listing

        alone = Quick(
            self.head.setup, self.profile, lambda ids: self.repo.read_objects(list(ids)), memo=False
        )
        alone.load(parse_tree_listing(self.repo.list_tree(self.repo.commit(commit).tree)))
        return alone

    def kinds(self, gates: list[dict[str, Any]]) -> Iterator[tuple[object, ...]]:
        """How many gates of an audit the sweep sees too, by file, symbol and condition."""
        seen: Counter[tuple[str, str, str]] = Counter()
        for file in self.tree(self.at.commit).files.values():
            seen.update((gate.path, gate.symbol, gate.predicate) for gate, _ in file.gates.values())
        every: Counter[str] = Counter()
        also: Counter[str] = Counter()
        for gate in gates:
            key = (gate["path"], gate["symbol"], gate["predicate"])
            every[gate["kind"]] += 1
            if seen[key] > 0:
                seen[key] -= 1
                also[gate["kind"]] += 1
        for kind, count in sorted(every.items(), key=lambda item: (-item[1], item[0])):
            yield f"`{kind}`", count, also[kind]
        yield "all", sum(every.values()), sum(also.values())

    def alone(self, number: int) -> str:
        """Commits picked at random: what the commits before them led to is what their tree alone says."""
        picked = random.Random(self.at.commit).sample(self.lines, min(number, len(self.lines)))
        other = []
        for line in picked:
            counts = self.tree(line["commit"]).counts()
            targets = {n: {"differs": a, "undecided": b} for n, (a, b) in counts.targets.items()}
            if (counts.gates, targets) != (line["gates"], line["targets"]):
                other.append(line["commit"][:9])
        self.at.wrong += [f"sweep: other counts at {commit}" for commit in other]
        same = len(picked) - len(other)
        return f"Of {len(picked)} commits, picked at random, {same} have the counts of their tree read alone."
