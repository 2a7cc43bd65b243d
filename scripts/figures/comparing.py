"""What it takes to compare two trees, and to keep what is known of releases."""

from __future__ import annotations

import gzip
import os
import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from figures.measure import PYTHON, ROOT, SCRIPTS, Command, Run, load, ratios, run, spread, table
from figures.setting import Setting

HEAD = ("command", "CPU s", "ratio to ast-grep")
SIZES = ("what is committed", "KiB")
_OLD, _NEW = "0.5.18", "0.5.20"


def lines(at: Setting) -> Iterator[str]:
    """What it costs, each beside ast-grep where that is at hand; then the sizes of what is kept."""
    yield from table(HEAD, _rows(at))
    yield load()
    yield ""
    yield from table(SIZES, _sizes())


def _rows(at: Setting) -> Iterator[tuple[object, ...]]:
    asked: dict[str, Callable[[], Run]] = {_joined_name(): _join}
    if at.branch:
        later = at.later(40)
        both = _guard(at, at.commit, later[0])
        further = _guard(at, at.commit, later[-1])
        run(both)
        asked["`audit guard A B`, both trees seen before"] = lambda: run(both)
        asked[f"the newer tree not seen before, {len(later)} commits on"] = lambda: run(further)
    else:
        at.talk("`audit guard A B`: left out, no clone with later commits")
    if at.full and not at.lacking("wheels"):
        asked["`make reports`: every release there is a wheel of, and one commit, nothing kept"] = lambda: (
            _reports(at)
        )
    for name, work in asked.items():
        taken, peers = [], []
        for _ in range(at.rounds(1, 3) if not name.startswith(("the newer", "`make")) else 1):
            taken.append(work())
            peers += [run(at.ast_grep)] if at.ast_grep else []
        yield name, spread([r.cpu for r in taken]), spread(ratios(taken, peers))


def _guard(at: Setting, old: str, new: str) -> Command:
    return at.ours("guard", old, new, "--repo", at.repo, "--format", "json", cache="compared")


def _committed(release: str) -> bytes:
    return gzip.decompress((ROOT / "reports" / "facts" / f"{release}.json.gz").read_bytes())


def _joined_name() -> str:
    from auditor.history.baseline import loads

    gates = [len(loads(_committed(release), release).report.gates) for release in (_OLD, _NEW)]
    return f"joining {gates[0]:,} gates of {_OLD} with {gates[1]:,} of {_NEW}"


def _join() -> Run:
    """In this process: the trees are not read, the committed audits are."""
    from auditor.history.baseline import loads
    from auditor.history.join import join

    old, new = (loads(_committed(release), release).report.gates for release in (_OLD, _NEW))
    start, wall = time.process_time(), time.perf_counter()
    join(old, new)
    return Run(time.process_time() - start, time.perf_counter() - wall, 0, 0)


def _reports(at: Setting) -> Run:
    """On a copy of what it writes to: the script finds reports/ beside its own folder."""
    copy = at.work / "reports-made"
    shutil.copytree(ROOT / "reports", copy / "reports")
    (copy / "scripts").mkdir()
    shutil.copy(SCRIPTS / "reports.py", copy / "scripts")
    words = (PYTHON, str(copy / "scripts" / "reports.py"), "--wheels", str(Path(at.options.wheels).resolve()))
    repo = ("--repo", at.repo) if at.repo else ()
    done = run(Command((*words, *repo), {"SGLANG_AUDITOR_CACHE_DIR": str(at.work / "reports-cache")}))
    if done.code:
        at.wrong.append(f"reports.py: exit {done.code}")
    return done


def _sizes() -> Iterator[tuple[object, ...]]:
    facts = sorted(path.stat().st_size / 1024 for path in (ROOT / "reports" / "facts").glob("*.gz"))
    every = sum(
        os.stat(os.path.join(folder, name)).st_size
        for folder, _, names in os.walk(ROOT / "reports")
        for name in names
    )
    yield "an audit, packed", f"{facts[0]:.0f} to {facts[-1]:.0f}"
    yield "all of `reports/`", f"{every / 1024:,.0f}"
