"""What there is to measure with: a clone, ast-grep, wheels, a browser, a GPU; and what is not there."""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

from figures.measure import PYTHON, Command

GIT = ("git", "-c", "safe.directory=*")
AUDIT = "import sys; from auditor.cli.main import audit; sys.exit(audit())"
PATCHES = "import sys; from auditor.cli.main import patches; sys.exit(patches())"
SIZES = ("small", "full")
#: Targets of what is measured for people who carry both cards.
BOTH = "sm_120,sm_121"


class Aim(NamedTuple):
    """What was aimed at, and what came of it."""

    what: str
    reached: str
    met: bool


class Setting:
    """The options, what they make possible, and what was found: aims, and figures that are wrong."""

    def __init__(self, options: argparse.Namespace, work: Path) -> None:
        self.options = options
        for name in ("repo", "wheels", "tree", "rules", "cases", "keep"):
            if given := getattr(options, name):  # commands run in another folder
                setattr(options, name, str(Path(given).resolve()))
        self.work = work
        self.commit: str = options.commit
        self.project: str = options.project
        self.full: bool = options.size == "full"
        self.aims: list[Aim] = []
        self.wrong: list[str] = []

    def talk(self, text: str) -> None:
        """Something that is no figure."""
        print(text, file=sys.stderr, flush=True)

    def aim(self, what: str, reached: str, met: bool) -> None:
        """Remember what an aim came to."""
        self.aims.append(Aim(what, reached, met))

    def rounds(self, small: int, full: int) -> int:
        """How often each command runs."""
        return int(self.options.rounds or (full if self.full else small))

    def lacking(self, need: str) -> str:
        """Why something is not at hand; "" where it is."""
        known: dict[str, Callable[[], str]] = {
            "clone": self._no_clone,
            "later commits": self._no_later,
            "ast-grep": self._no_ast_grep,
            "wheels": self._no_wheels,
            "browser": self._no_browser,
            "GPU": self._no_gpu,
        }
        return known[need]()

    # a clone

    @cached_property
    def repo(self) -> str:
        """The clone; "" without one, or without the commit."""
        return "" if self._no_clone() else str(self.options.repo)

    def _no_clone(self) -> str:
        if not self.options.repo:
            return "no clone of the audited project: --repo CLONE or BENCH_REPO"
        if self.git("cat-file", "-e", f"{self.commit}^{{commit}}") is None:
            return f"the clone has no commit {self.commit}: --commit REV"
        return ""

    def git(self, *words: str) -> str | None:
        """Output of git on the clone, None where it fails."""
        done = subprocess.run(
            [*GIT, "-C", str(self.options.repo), *words], capture_output=True, text=True, check=False
        )
        return done.stdout if done.returncode == 0 else None

    def has(self, commit: str) -> bool:
        """Whether the clone has a commit."""
        return bool(self.repo) and self.git("cat-file", "-e", f"{commit}^{{commit}}") is not None

    @cached_property
    def branch(self) -> str:
        """Where commits after the commit are found; "" where there are none."""
        for branch in (self.options.branch, "origin/main", "main", "HEAD"):
            if branch and self.git("rev-list", "-1", f"{self.commit}..{branch}"):
                return str(branch)
        return ""

    def later(self, count: int) -> list[str]:
        """The next commits of the main line."""
        span = f"{self.commit}..{self.branch}"
        listed = self.git("rev-list", "--first-parent", "--ancestry-path", "--reverse", span)
        return (listed or "").split()[:count]

    def _no_later(self) -> str:
        if problem := self._no_clone():
            return problem
        return "" if self.branch else f"the clone has nothing after {self.commit}: --branch NAME"

    @cached_property
    def checkout(self) -> Path | None:
        """A folder with the sources of the commit, for programs that read no commits."""
        if self.options.tree:
            return Path(self.options.tree)
        archive = self.work / "checkout.tar"
        if not self.repo or self.git("archive", "-o", str(archive), self.commit, self.options.folder) is None:
            return None
        folder = self.work / "checkout"
        if sys.version_info >= (3, 12):
            shutil.unpack_archive(archive, folder, filter="data")
        else:
            shutil.unpack_archive(archive, folder)
        archive.unlink()
        return folder / str(self.options.folder)

    # other programs

    @cached_property
    def ast_grep(self) -> Command | None:
        """The peer: what of an audit's questions a pattern can ask, on a checkout of the commit."""
        if self._no_ast_grep() or self.checkout is None:
            return None
        rules = self.options.rules or str(Path(__file__).with_name("rules.yml"))
        words = ("scan", "-r", rules, "--json=stream", "--threads", "2", "--no-ignore", "vcs")
        return Command((self._program, *words, str(self.checkout)))

    @property
    def _program(self) -> str:
        named = shutil.which(str(self.options.ast_grep or "ast-grep"))
        return str(Path(named).resolve()) if named else ""

    def _no_ast_grep(self) -> str:
        return "" if self._program else "no ast-grep to compare with: --ast-grep PROGRAM or BENCH_AST_GREP"

    def with_peer(self, commands: dict[str, Command]) -> dict[str, Command]:
        """Commands, and ast-grep among them if it is there."""
        return {PEER: self.ast_grep, **commands} if self.ast_grep else commands

    def wheel(self, release: str) -> Path | None:
        """The wheel of a release, if it is there."""
        return next(iter(self._wheels(f"{self.project}-{release}-*.whl")), None)

    def _wheels(self, pattern: str) -> Iterator[Path]:
        yield from sorted(Path(self.options.wheels).glob(pattern)) if self.options.wheels else ()

    def _no_wheels(self) -> str:
        there = next(self._wheels(f"{self.project}-*.whl"), None)
        return "" if there else "no wheels of releases: --wheels FOLDER or BENCH_WHEELS (make wheels)"

    def source(self, name: str) -> tuple[str, ...] | None:
        """The options that name a tree: a release's wheel, or a commit of the clone."""
        if "." in name:
            wheel = self.wheel(name)
            return None if wheel is None else ("--wheel", str(wheel))
        return ("--commit", name, "--repo", self.repo) if self.has(name) else None

    @property
    def chromium(self) -> str:
        """The browser; "" without one."""
        named = os.environ.get("CHROMIUM")
        return named or next(filter(None, map(shutil.which, ("chromium", "chromium-browser"))), "")

    def _no_browser(self) -> str:
        if not shutil.which("node"):
            return "no node"
        if not self.chromium:
            return "no Chromium: CHROMIUM=PROGRAM"
        if not (Path(self.options.puppeteer) / "node_modules" / "puppeteer-core").is_dir():
            return "no puppeteer-core: npm install puppeteer-core in a folder, --puppeteer FOLDER"
        return ""

    def _no_gpu(self) -> str:
        asked = "import torch, triton; raise SystemExit(not torch.cuda.is_available())"
        done = subprocess.run([PYTHON, "-c", asked], capture_output=True, check=False)
        return "" if done.returncode == 0 else "no GPU, or no torch and Triton for it in this Python"

    # commands of ours

    def ours(self, *words: str, cache: str = "", entry: str = AUDIT, **environment: str) -> Command:
        """A command of ours; ``cache`` names a cache folder, "" means nothing is kept."""
        where = {"SGLANG_AUDITOR_CACHE_DIR": str(self.work / (cache or "unused"))}
        more = () if cache else ("--no-cache",)
        return Command((PYTHON, "-c", entry, *words, *more), {**where, **environment})

    def audit(self, commit: str, cache: str = "", **environment: str) -> Command:
        """The audit of a commit as JSON."""
        words = (self.project, "--format", "json", "--commit", commit, "--repo", self.repo)
        return self.ours(*words, cache=cache, **environment)


#: How the peer is called in tables.
PEER = "ast-grep scan, a checkout"
