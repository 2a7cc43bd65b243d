"""Repeat the figures of docs/benchmarks.md, section by section: scripts/figures has a module for each.

    make bench BENCH_ARGS="--repo CLONE --ast-grep PROGRAM --wheels FOLDER"
    make bench BENCH_ARGS="--only speed,next --size full"
    make bench BENCH_ARGS="--list"

Tables go to standard output, as Markdown, as they are in the docs; all else goes to standard error. What is
not there (no clone, no ast-grep, no wheels, no browser, no GPU) is named, and what needs it is left out.
``--size small``, the default, takes a quarter of an hour and shows less; ``full`` is what the docs have.

Exit codes: 0; 1 where a figure is wrong (a contradiction, other bytes, something lost, a command that
failed); 2 where the words are wrong or nothing at all could be measured.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

sys.path.insert(1, str(Path(__file__).resolve().parent.parent))

from figures.measure import table  # noqa: E402
from figures.sections import NAMES, SECTIONS, Section  # noqa: E402
from figures.setting import SIZES, Setting  # noqa: E402

AIMS = ("aim", "reached", "")


def parser() -> argparse.ArgumentParser:
    """The options."""
    words = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    known = os.environ.get
    where = words.add_argument_group("what to measure with")
    where.add_argument("--repo", default=known("BENCH_REPO"), help="clone with the commit (BENCH_REPO)")
    where.add_argument("--ast-grep", default=known("BENCH_AST_GREP"), help="program (BENCH_AST_GREP)")
    where.add_argument("--wheels", default=known("BENCH_WHEELS"), help="folder of wheels (BENCH_WHEELS)")
    where.add_argument(
        "--puppeteer",
        default=known("BENCH_PUPPETEER", "."),
        help="folder with puppeteer-core (BENCH_PUPPETEER)",
    )
    where.add_argument("--cases", help="porting: cases that are made already")
    where.add_argument("--keep", help="alarms: folder of audits, to go on where it was stopped")
    where.add_argument("--work", help="folder for all that is made, best on a memory disk")
    what = words.add_argument_group("what to measure")
    what.add_argument(
        "--only", action="append", metavar="NAMES", help=f"these sections alone: {','.join(NAMES)}"
    )
    what.add_argument("--size", choices=SIZES, default="small")
    what.add_argument("--rounds", type=int, help="how often commands run in turns")
    what.add_argument("--commits", type=int, help="next, alarms: how many commits")
    what.add_argument("--moments", type=int, help="kills: how many of each")
    what.add_argument(
        "--list", action="store_true", help="the sections, what they need and cost; measure nothing"
    )
    tree = words.add_argument_group("another project or commit")
    tree.add_argument("--project", default="sglang")
    tree.add_argument("--commit", default=known("BENCH_COMMIT", "735a256"))
    tree.add_argument("--branch", default=known("BENCH_BRANCH"), help="where later commits are found")
    tree.add_argument("--folder", default="python", help="folder of the commit that ast-grep scans")
    tree.add_argument("--tree", default=known("BENCH_TREE"), help="that folder, where it lies unpacked")
    tree.add_argument("--rules", default=known("BENCH_RULES"), help="other rules for ast-grep")
    return words


def chosen(given: list[str] | None) -> list[Section]:
    """The sections that ``--only`` names, in their own order. ``ValueError`` for a name that is none."""
    names = {name for text in given or (",".join(NAMES),) for name in text.split(",") if name}
    if unknown := sorted(names - {*NAMES}):
        raise ValueError(f"no such section: {', '.join(unknown)}; there are {', '.join(NAMES)}")
    return [section for section in SECTIONS if section.name in names]


def measured(section: Section, at: Setting) -> Iterator[str]:
    """The lines of a section, under its heading; none where something is not there."""
    lacking = [why for need in section.needs if (why := at.lacking(need))]
    if lacking:
        at.talk(f"{section.name}: left out: {'; '.join(lacking)}")
        return
    at.talk(f"{section.name} …")
    begun = False
    try:
        for line in section.lines(at):
            if not begun:
                yield f"## {section.heading}"
                yield ""
            begun = True
            yield line
    except (
        OSError,
        ValueError,
        LookupError,
    ) as error:  # of a command that left no answer
        at.wrong.append(f"{section.name}: stopped: {error!r}")
    if begun:
        yield ""


def main(argv: list[str] | None = None) -> int:
    """Command line; returns the exit code."""
    words = parser()
    options = words.parse_args(argv)
    try:
        sections = chosen(options.only)
    except ValueError as error:
        words.error(str(error))
    if options.list:
        rows = ((s.name, s.heading, ", ".join(s.needs), s.cost) for s in sections)
        print("\n".join(table(("name", "section", "needs", "CPU s, small and full"), rows)))
        return 0
    if options.work:
        Path(options.work).mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="bench-", dir=options.work) as folder:
        # An installed package has its modules compiled: not to measure the compiler in every run.
        os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
        os.environ["PYTHONPYCACHEPREFIX"] = str(Path(folder) / "compiled")
        os.environ["SGLANG_AUDITOR_CACHE_DIR"] = str(Path(folder) / "cache")
        at = Setting(options, Path(folder))
        last: str | None = None
        for section in sections:
            for line in measured(section, at):
                if line or last:  # one blank line at once
                    print(line, flush=True)
                last = line
        if at.aims:
            print("## Aims\n")
            print(
                "\n".join(
                    table(AIMS, ((a.what, a.reached, "met" if a.met else "**missed**") for a in at.aims))
                )
            )
    for line in at.wrong:
        at.talk(f"WRONG: {line}")
    return 1 if at.wrong else 2 if last is None else 0


if __name__ == "__main__":
    sys.exit(main())
