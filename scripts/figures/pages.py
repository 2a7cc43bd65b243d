"""The HTML pages: how large they are, and how long they take to answer in a browser."""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

from figures.measure import Command, run, table
from figures.setting import BOTH, Setting

HEAD = ("page", "MB", "rows", "load", "first filter", "next filter")
#: At most: of a full audit in MB, to the first filter in ms of the page's thread.
_MOST_MB, _MOST_MS = 1.5, 100


def lines(at: Setting) -> Iterator[str]:
    """One row a page; milliseconds of CPU of the page's own thread, median of three."""
    yield from table(HEAD, _rows(at))


def _asked(at: Setting) -> Iterator[tuple[str, tuple[str, ...]]]:
    """The pages: a name, and the words of the command that makes it. Few of them at small size."""
    old, middle, new = (at.wheel(release) for release in ("0.5.18", "0.5.20", "0.5.23"))
    if new:
        yield "audit of 0.5.23", (at.project, "--wheel", str(new))
    if at.repo:
        name = f"kernels of {at.commit}, nine targets"
        yield name, ("kernels", at.project, "--commit", at.commit, "--repo", at.repo)
    if not at.full:
        return
    if old and middle:
        yield "diff 0.5.18 → 0.5.20", ("diff", str(old), str(middle))
    if middle and new:
        yield "guard 0.5.20 → 0.5.23", ("guard", str(middle), str(new))
    if at.has(f"{at.commit}~500"):
        of_commit = (at.project, "--commit", at.commit, "--repo", at.repo)
        span = f"{at.commit}~500..{at.commit}"
        yield f"audit of {at.commit} with the past of its gates, 500 commits", (*of_commit, "--history", span)
    if at.has("c7397de57"):
        words = ("guard", at.commit, "c7397de57", "--repo", at.repo, "--patchset", "sm120")
        yield f"guard {at.commit} → c7397de57 with `--patchset sm120`", words


def _rows(at: Setting) -> Iterator[tuple[object, ...]]:
    pages: dict[str, Path] = {}
    for number, (name, words) in enumerate(_asked(at)):
        pages[name] = at.work / f"page-{number}.html"
        target = () if words[0] == "kernels" else ("--target", BOTH)
        made = at.ours(*words, *target, "--format", "html", "--output", str(pages[name]), cache="pages")
        if (code := run(Command(made.words, made.environment)).code) not in (0, 1):
            at.wrong.append(f"{name}: exit {code}")
            del pages[name]
    took = _looked_at(at, list(pages.values()))
    for name, path in pages.items():
        size, known = path.stat().st_size / 1e6, took.get(str(path), {})
        filters = [known.get(what) for what in ("load", "first filter", "next filter")]
        yield name, f"{size:.2f}", f"{_rows_of(path):,}", *("" if t is None else t for t in filters)
        if name.startswith("audit of 0"):
            at.aim(f"page of a full audit <= {_MOST_MB} MB", f"{size:.2f}", size <= _MOST_MB)
    first = [t["first filter"] for t in took.values()]
    if first:
        at.aim(f"first filter of a page <= {_MOST_MS} ms", f"at most {max(first)}", max(first) <= _MOST_MS)


def _looked_at(at: Setting, pages: list[Path]) -> dict[str, dict[str, int]]:
    """What the browser says of each page; nothing where there is no browser."""
    if problem := at.lacking("browser"):
        at.talk(f"how long pages take to answer is left out: {problem}")
        return {}
    where = {"PUPPETEER": str(at.options.puppeteer), "CHROMIUM": at.chromium}
    words = ["node", str(Path(__file__).with_name("pages.mjs")), *map(str, pages)]
    done = subprocess.run(words, stdout=subprocess.PIPE, text=True, env={**os.environ, **where}, check=False)
    if done.returncode:
        at.wrong.append(f"the browser: exit {done.returncode}")
    told = [json.loads(line) for line in done.stdout.splitlines()]
    return {each.pop("page"): each for each in told}


def _rows_of(page: Path) -> int:
    """The rows that a page can show: of its facts, the longest list of rows."""
    found = re.search(rb'<script type="application/json" id="facts">(.*?)</script>', page.read_bytes(), re.S)
    return len(json.loads(found[1]).get("rows", ())) if found else 0
