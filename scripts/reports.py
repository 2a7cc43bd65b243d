"""Make the committed audits in reports/: facts of each release and of one commit, their index, and the diffs.

    python scripts/reports.py --wheels .cache/wheels [--repo CLONE]     write all that can be had
    python scripts/reports.py --wheels .cache/wheels --since 0.5.20     only these and later ones
    python scripts/reports.py --wheels .cache/wheels --check 0.5.12     hold a committed one against its wheel

A committed audit is a baseline (`audit baseline write`), packed: gates, kernels and flags, for sm_120 and
sm_121. `audit guard reports/facts/0.5.18.json.gz NEW` compares with it. ``--check`` fails where more than one
in fifty gates and kernels differs from what is committed: what the tool sees grows, and `make reports`
brings these files up to date. Costs about 20 CPU seconds a release.
"""

from __future__ import annotations

import argparse
import gzip
import sys
from collections import Counter
from pathlib import Path

from msgspec.structs import replace

from auditor.cli.audit.papers import diff_paper
from auditor.cli.audit.twotrees import Compared, flags_of, kernels_of
from auditor.cli.request import SPECS, Request, build
from auditor.cli.source import audited, opened
from auditor.errors import UserError
from auditor.gates.model import VERDICTS, Report
from auditor.history.baseline import Baseline, baseline, dumps, loads
from auditor.history.diff import compare
from auditor.history.guard import tripping
from auditor.history.model import Diff
from auditor.reporting import markdown

ROOT = Path(__file__).resolve().parent.parent / "reports"
TARGETS = ("sm_120", "sm_121")
RELEASES = tuple(f"0.5.{number}" for number in range(12, 24))
COMMIT = "735a256"
#: Pages longer than this are cut; the facts hold everything.
PAGE = 40_000
#: One in this many gates and kernels may differ before a check fails.
SLACK = 50
START, END = "<!-- index -->", "<!-- end of the index -->"


def request(**given: object) -> Request:
    """What the command line would have given for these options."""
    words = {
        spec.dest: () if spec.many else spec.default if spec.kind not in ("flag",) else False
        for spec in SPECS
    }
    words |= {"target": TARGETS, "against": ("sm_100",), "verbose": 0, "quiet": True, "worktree": None}
    return build({**words, **given})


def audit(asked: Request) -> tuple[Report, Baseline]:
    """The audit of a tree, and what of it is kept."""
    notes: list[str] = []
    with opened(asked) as tree:
        report = audited(tree, asked)
        kernels = kernels_of(tree, asked, notes)
        flags = flags_of(tree, asked)
    for note in notes:
        print(f"note: {note}", file=sys.stderr)
    # What arms do is told in the words of the source, and that is not ours to publish.
    bare = replace(report, gates=tuple(replace(gate, arms=()) for gate in report.gates))
    return bare, baseline(bare, kernels, tuple(flags[name] for name in sorted(flags)))


def wheel(folder: Path, release: str) -> Path | None:
    """The wheel of a release, if it is there."""
    return next(iter(sorted(folder.glob(f"sglang-{release}-*.whl"))), None)


def packed(kept: Baseline) -> bytes:
    """The same bytes every time: no name and no clock in the archive."""
    return gzip.compress(dumps(kept), 9, mtime=0)


def committed(name: str) -> Baseline:
    """What reports/facts holds. UserError H00n where it was edited."""
    path = ROOT / "facts" / f"{name}.json.gz"
    return loads(gzip.decompress(path.read_bytes()), path.name)


def changes(old: Baseline, new: Baseline, report: Report) -> Diff:
    """What changed; ``report`` is the whole newer audit, which knows what follows from what."""
    both = (old.kernels, new.kernels) if old.kernels is not None and new.kernels is not None else None
    flags = tuple({flag.name: flag for flag in kept.flags} for kept in (old, new))
    return compare(old.report, report, kernels=both, flags=(flags[0], flags[1]))


def page(diff: Diff, report: Report) -> str:
    """The comparison as a page, what trips the guard first."""
    paper = diff_paper(Compared(diff, None, "", False, report), tripping(diff), "nothing changed in meaning")
    return markdown.render(paper, PAGE)


def row(name: str, kept: Baseline) -> str:
    """One line of the index."""
    counts = []
    for target in TARGETS:
        seen = Counter(gate.verdict.get(target, "same") for gate in kept.report.gates)
        for finding in kept.report.findings:
            if not finding.gate:
                seen[finding.verdict.get(target, "same")] += 1
        words = [f"{seen[v]} {v}" for v in VERDICTS if seen[v] and v not in ("same", "undecided")]
        counts.append(", ".join(words))
    rows = f"{len(kept.kernels.rows):,}" if kept.kernels is not None else "–"
    numbers = f"{len(kept.report.gates):,} | {rows} | {len(kept.flags):,}"
    return f"| [{name}](facts/{name}.json.gz) | {numbers} | {counts[0]} | {counts[1]} |"


def index(names: list[str], trips: dict[tuple[str, str], tuple[int, int]]) -> str:
    """The part of reports/README.md that is made."""
    out = [
        START,
        "| tree | gates | kernels | flags | sm_120 | sm_121 |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    out += [row(name, committed(name)) for name in names]
    out += ["", "| from → to | changes | trip the guard |", "| --- | --- | --- |"]
    for (a, b), (number, bad) in trips.items():
        out.append(f"| [{a} → {b}](diffs/{a}-{b}.md) | {number:,} | {bad} |")
    return "\n".join([*out, END])


def write(folder: Path, repo: str | None, since: str = "") -> int:
    """Write all that can be had, and say what could not. Releases before ``since`` stay as they are."""
    for name in ("facts", "diffs"):
        (ROOT / name).mkdir(exist_ok=True)
    last: tuple[str, Baseline] | None = None
    trips: dict[tuple[str, str], tuple[int, int]] = {}
    for number, release in enumerate(RELEASES):
        if since and number < RELEASES.index(since):
            kept = committed(release)
            if last is not None:
                diff = changes(last[1], kept, kept.report)
                trips[last[0], release] = (len(diff.changes), len(tripping(diff)))
            last = release, kept
            continue
        path = wheel(folder, release)
        if path is None:
            print(f"no wheel of {release} in {folder}: make wheels", file=sys.stderr)
            return 1
        report, kept = audit(request(wheel=str(path)))
        (ROOT / "facts" / f"{release}.json.gz").write_bytes(packed(kept))
        if last is not None:
            diff = changes(last[1], kept, report)
            (ROOT / "diffs" / f"{last[0]}-{release}.md").write_text(page(diff, report))
            trips[last[0], release] = (len(diff.changes), len(tripping(diff)))
        last = release, kept
        print(f"{release}: {len(kept.report.gates):,} gates", file=sys.stderr)
    for old in (ROOT / "diffs").glob("*.md"):
        if tuple(old.stem.split("-")) not in trips:
            old.unlink()  # of two that are no neighbours any more
    if repo is not None:
        _, kept = audit(request(commit=COMMIT, path=repo))
        (ROOT / "facts" / f"{COMMIT}.json.gz").write_bytes(packed(kept))
    else:
        print(f"{COMMIT} is left as it is: --repo CLONE makes it", file=sys.stderr)
    names = [name for name in (*RELEASES, COMMIT) if (ROOT / "facts" / f"{name}.json.gz").exists()]
    readme = ROOT / "README.md"
    before, _, rest = readme.read_text().partition(START)
    readme.write_text(before + index(names, trips) + rest.partition(END)[2])
    return 0


def check(folder: Path, release: str) -> int:
    """Hold a committed audit against a new one."""
    path = wheel(folder, release)
    kept = committed(release)
    if path is None:
        print(f"no wheel of {release}: its committed audit is whole, and not held against anything")
        return 0
    report, now = audit(request(wheel=str(path)))
    diff = changes(kept, now, report)
    total = len(report.gates) + (len(now.kernels.rows) if now.kernels is not None else 0)
    print(f"{release}: {len(diff.changes)} of {total:,} gates and kernels differ from what is committed")
    for change in diff.changes[:10]:
        print(f"  {change.kind} {change.path}:{change.line} {change.what[:80]}")
    if len(diff.changes) * SLACK > total:
        print("too many: make reports")
        return 1
    return 0


def main() -> int:
    """Parse the words and do it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--wheels", type=Path, default=Path(".cache/wheels"))
    parser.add_argument("--repo")
    parser.add_argument("--since", choices=RELEASES, default="", help="leave those before it as they are")
    parser.add_argument("--check", nargs="+", metavar="RELEASE")
    words = parser.parse_args()
    try:
        if words.check:
            return max(check(words.wheels, release) for release in words.check)
        return write(words.wheels, words.repo, words.since)
    except UserError as error:
        print(error.render(), file=sys.stderr)
        return error.exit_code


if __name__ == "__main__":
    sys.exit(main())
