"""Repeat the figures of docs/benchmarks.md: speed beside ast-grep, correctness, repeatability.

    make bench BENCH_ARGS="--repo CLONE --ast-grep PROGRAM --wheels FOLDER"

Every round runs each command once, in an order that rotates from round to round, so that a noisy machine
hits all of them alike; ratios are formed round by round, and the median is given with its least and greatest.
CPU seconds are user and system time of the command and all its children; memory is the largest process.
What is not there (no ast-grep, no clone, no wheels) is named and left out. Linux and macOS.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

HERE = Path(__file__).resolve().parent
PYTHON = sys.executable
#: The part of ``audit kernels`` that is about operators of the compiled libraries: CMake and C++.
_OPERATORS = """
import sys
from auditor.native.availability import KernelOptions, availability
from auditor.trees.open import TreeSpec, open_tree
repo, commit, project = sys.argv[1:]
tree = open_tree(TreeSpec(path=repo, commit=commit), distribution=None, default_url=None)
availability(tree, KernelOptions(("sm_120",), project=project, declared=False))
"""
#: Ceilings, as ratios to ast-grep in the same round (``--help``: to an empty Python), and MiB.
TARGETS = {
    "cold": 0.35,
    "cold wall": 0.6,
    "same commit": 0.02,
    "next commit": 0.08,
    "help": 6.0,
    "operators": 0.2,
    "memory": 150,
}


class Run(NamedTuple):
    """What one command took."""

    cpu: float
    wall: float
    memory: float  # MiB
    code: int


class Command(NamedTuple):
    name: str
    words: tuple[str, ...]
    environment: dict[str, str]


def run(command: Command, out: Path | None = None) -> Run:
    """Run a command and measure it; its output goes to ``out`` or nowhere."""
    environment = {**os.environ, "PYTHONPATH": str(HERE.parent), **command.environment}
    with open(out or os.devnull, "wb") as file:
        start = time.perf_counter()
        child = subprocess.Popen(
            command.words, stdin=subprocess.DEVNULL, stdout=file, stderr=subprocess.DEVNULL, env=environment
        )
        _, status, used = os.wait4(child.pid, 0)
        wall = time.perf_counter() - start
        child.returncode = os.waitstatus_to_exitcode(status)
    unit = 1024**2 if sys.platform == "darwin" else 1024
    return Run(used.ru_utime + used.ru_stime, wall, used.ru_maxrss / unit, child.returncode)


class Bench:
    """The options, and what they make possible."""

    def __init__(self, options: argparse.Namespace, work: Path) -> None:
        self.options = options
        self.work = work
        self.missing: list[str] = []
        self.commit = options.commit
        self.repo = options.repo
        if not self.repo:
            self.missing.append("no clone of the audited project: --repo CLONE or BENCH_REPO")
        elif self.git("cat-file", "-e", f"{self.commit}^{{commit}}") is None:
            self.missing.append(f"the clone has no commit {self.commit}: --commit REV")
            self.repo = None
        self.ast_grep = options.ast_grep or shutil.which("ast-grep")
        if not self.ast_grep or not os.access(self.ast_grep, os.X_OK):
            self.missing.append("no ast-grep to compare with: --ast-grep PROGRAM or BENCH_AST_GREP")
            self.ast_grep = None

    def git(self, *words: str) -> str | None:
        done = subprocess.run(
            ["git", "-c", "safe.directory=*", "-C", self.repo, *words],
            capture_output=True,
            text=True,
            check=False,
        )
        return done.stdout if done.returncode == 0 else None

    def audit(self, *words: str, cache: str | None = None, **environment: str) -> Command:
        """An audit as JSON; ``cache`` names a cache folder, None means no cache."""
        folder = self.work / (cache or "unused")
        where = () if cache else ("--no-cache",)
        return Command(
            "audit",
            (PYTHON, "-c", _ENTRY, self.options.project, "--format", "json", *words, *where),
            {"SGLANG_AUDITOR_CACHE_DIR": str(folder), **environment},
        )

    def of_commit(self, commit: str, cache: str | None = None, **environment: str) -> Command:
        return self.audit("--commit", commit, "--repo", self.repo, cache=cache, **environment)

    def of_sweep(self, *words: str) -> Command:
        """A quick sweep to standard output, without a cache."""
        given = ("sweep", *words, "--target", "sm_120,sm_121", "--repo", str(self.repo))
        unused = {"SGLANG_AUDITOR_CACHE_DIR": str(self.work / "unused")}
        return Command("audit", (PYTHON, "-c", _ENTRY, *given), unused)

    def checkout(self) -> Path | None:
        """A folder with the files of the commit, for ast-grep, which reads no commits."""
        if self.options.tree:
            return Path(self.options.tree)
        if self.repo is None:
            return None
        folder = self.work / "checkout"
        folder.mkdir()
        archive = self.work / "checkout.tar"
        if self.git("archive", "-o", str(archive), self.commit, self.options.folder) is None:
            return None
        shutil.unpack_archive(archive, folder, filter="data") if sys.version_info >= (3, 12) else (
            shutil.unpack_archive(archive, folder)
        )
        archive.unlink()
        return folder / self.options.folder

    def later(self, count: int) -> list[str]:
        """The next commits on the first-parent line towards a branch."""
        for branch in (self.options.branch, "origin/main", "main", "HEAD"):
            if not branch:
                continue
            listed = self.git(
                "rev-list", "--first-parent", "--ancestry-path", "--reverse", f"{self.commit}..{branch}"
            )
            if listed:
                return listed.split()[:count]
        return []

    # -- speed

    def speed(self) -> Iterator[str]:
        yield "## Speed"
        if self.repo is None:
            yield "left out: no clone"
            return
        commands = {
            "python -c pass": Command("", (PYTHON, "-c", "pass"), {}),
            "audit --help": Command("", (PYTHON, "-c", _ENTRY, "--help"), {}),
        }
        tree = self.checkout() if self.ast_grep else None
        if self.ast_grep and tree:
            rules = self.options.rules or str(HERE / "bench_rules.yml")
            words = (
                self.ast_grep,
                "scan",
                "-r",
                rules,
                "--json=stream",
                "--threads",
                "2",
                "--no-ignore",
                "vcs",
            )
            commands["ast-grep scan, a checkout"] = Command("", (*words, str(tree)), {})
        commands["audit, cold, no checkout"] = self.of_commit(self.commit)
        commands["operators of the compiled libraries, sm_120, cold"] = Command(
            "", (PYTHON, "-c", _OPERATORS, self.repo, self.commit, self.options.project), {}
        )
        commands["audit kernels, all targets, cold"] = Command(
            "audit",
            (PYTHON, "-c", _ENTRY, "kernels", self.options.project, "--format", "json", "--no-cache")
            + ("--commit", self.commit, "--repo", self.repo),
            {"SGLANG_AUDITOR_CACHE_DIR": str(self.work / "unused")},
        )
        if self.git("cat-file", "-e", f"{self.commit}~500^{{commit}}") is not None:
            commands["sweep of 500 commits, cold"] = self.of_sweep(f"{self.commit}~500..{self.commit}")
        commands["audit, the same commit again"] = self.of_commit(self.commit, "warm")
        later = self.later(5)
        run(self.of_commit(self.commit, "warm"))
        for count in (1, 5):
            if len(later) >= count:
                commands[f"audit, {count} commit{'s' if count > 1 else ''} on"] = self.of_commit(
                    later[count - 1], f"next-{count}"
                )
        taken: dict[str, list[Run]] = {name: [] for name in commands}
        names = list(commands)
        for number in range(self.options.rounds):
            for count in (1, 5):
                shutil.rmtree(self.work / f"next-{count}", ignore_errors=True)
                shutil.copytree(self.work / "warm", self.work / f"next-{count}")
            turn = number % len(names)
            for name in names[turn:] + names[:turn]:
                taken[name].append(run(commands[name]))
        base = "ast-grep scan, a checkout"
        load = " ".join(f"{value:.1f}" for value in os.getloadavg())
        yield f"{self.options.rounds} rounds; load {load}; {os.cpu_count()} CPUs"
        yield ""
        yield "| command | CPU s | CPU, ratio to ast-grep | wall s | wall ratio | MiB |"
        yield "| --- | --- | --- | --- | --- | --- |"
        for name, runs in taken.items():
            if any(r.code not in (0, 1, 2) for r in runs):
                yield f"| {name} | failed | | | | |"
                continue
            ratios = [_ratio(runs, taken.get(base), field) for field in ("cpu", "wall")]
            yield (
                f"| {name} | {_median(runs, 'cpu'):.3f} | {ratios[0]} "
                f"| {_median(runs, 'wall'):.3f} | {ratios[1]} "
                f"| {max(r.memory for r in runs):.0f} |"
            )
        yield ""
        started = _ratio(taken["audit --help"], taken["python -c pass"], "cpu")
        yield f"`audit --help` to `python -c pass`: {started}"

    # -- sweep of everything

    def sweep(self) -> Iterator[str]:
        yield "## The whole first-parent history, a quick sweep"
        if self.repo is None:
            yield "left out: no clone"
            return
        out = self.work / "sweep.jsonl"
        done = run(self.of_sweep("--all", "--commit", self.commit), out)
        commits = out.read_bytes().count(b"\n") - 1
        yield f"{commits:,} commits: {done.cpu:.1f} CPU s, {done.wall:.1f} s, {done.memory:.0f} MiB"

    # -- history

    def history(self) -> Iterator[str]:
        yield "## Next commits"
        later = self.later(self.options.history) if self.repo else []
        if not later:
            yield "left out: no clone, or no later commits"
            return
        run(self.of_commit(self.commit, "history"))
        kept, same = 0, 0
        for commit in later:
            first, second = self.work / "first.json", self.work / "second.json"
            warm = run(self.of_commit(commit, "history"), first)
            cold = run(self.of_commit(commit), second)
            kept += warm.cpu < cold.cpu / 3
            same += first.read_bytes() == second.read_bytes()
        yield f"{len(later)} following commits, one after the other: {kept} taken over without evaluation, "
        yield f"{same} with the same bytes as a cold run"

    # -- correctness

    def correctness(self) -> Iterator[str]:
        yield "## Correctness"
        if self.repo is None:
            yield "against the key: left out, no clone"
        else:
            report = self.work / "report.json"
            run(self.of_commit(self.commit), report)
            done = subprocess.run(
                [PYTHON, str(HERE / "score.py"), str(report)], capture_output=True, text=True, check=False
            )
            yield "against the key that was written by reading (`scripts/score.py`):"
            yield "```"
            yield (done.stdout or done.stderr).rstrip()
            yield "```"
        yield "against what the project's own code answered under a faked GPU (`scripts/oracle/compare.py`):"
        recorded = sorted((HERE.parent / "tests" / "keys" / "oracle").glob("helpers-*.json"))
        for path in recorded:
            name = path.stem.removeprefix("helpers-")
            source = self._source(name)
            if source is None:
                yield f"- {name}: left out, no wheel of it (--wheels FOLDER)"
                continue
            claims = self.work / "claims.json"
            command = Command(
                "", (PYTHON, "-c", _ENTRY, "predicates", *source, "--format", "json", "--no-cache"), {}
            )
            run(command, claims)
            done = subprocess.run(
                [PYTHON, str(HERE / "oracle" / "compare.py"), str(path), str(claims)],
                capture_output=True,
                text=True,
                check=False,
            )
            lines = (done.stdout or done.stderr).strip().splitlines() or ["no answer"]
            yield f"- {name}: {lines[-1]}"

    def _source(self, name: str) -> tuple[str, ...] | None:
        if "." not in name:
            known = self.repo is not None and self.git("cat-file", "-e", f"{name}^{{commit}}") is not None
            return ("--commit", name, "--repo", self.repo) if known else None
        if self.options.wheels:
            for wheel in sorted(Path(self.options.wheels).glob(f"*-{name}-*.whl")):
                return ("--wheel", str(wheel))
        return None

    # -- patches

    def patches(self) -> Iterator[str]:
        yield "## Patches"
        if self.repo is None:
            yield "left out: no clone"
            return
        import bench_patches

        sets = self.work / "sets"
        branch = self.options.branch or "main"
        bench_patches.make(self.repo, sets, commit=self.commit, branch=branch, project=self.options.project)
        checkout = self.work / "patched"
        self.git("clone", "-q", "--shared", "--no-checkout", ".", str(checkout))
        yield f"load {' '.join(f'{value:.1f}' for value in os.getloadavg())}; {os.cpu_count()} CPUs"
        yield ""
        yield "| set | command | CPU s | CPU, ratio to git am | wall s | wall ratio | exit |"
        yield "| --- | --- | --- | --- | --- | --- | --- |"
        bases = ",".join((sets / "bases").read_text().split())
        for name in ("near", "far"):
            told = {"status": ("--onto", self.commit), "matrix of 20": ("--matrix", bases)}
            for verb, words in told.items():
                command = self.of_patches("status", str(sets / name), *words, "--clone", self.repo)
                for which in ("the first time", "again"):
                    done = run(command)
                    yield (
                        f"| {name} | {verb}, {which} | {done.cpu:.2f} | - | {done.wall:.2f} | - "
                        f"| {done.code} |"
                    )
        yield from self._applied(sets / "near", checkout)

    def _applied(self, patchset: Path, checkout: Path) -> Iterator[str]:
        """``git am`` and ``patches apply`` of the same patches on the same commit, in turns."""
        am = Command(
            "",
            (*_GIT, "-C", str(checkout), "-c", "user.name=N", "-c", "user.email=n@localhost", "am", "-q")
            + (str(patchset.with_suffix(".mbox")),),
            {},
        )
        apply = self.of_patches("apply", str(patchset), "--to", str(checkout), "--branch", "patched")
        taken: dict[str, list[Run]] = {"git am": [], "apply --branch, again": []}
        for number in range(self.options.rounds + 1):
            for name, command in (("git am", am), ("apply --branch, again", apply)):
                for words in (
                    ("checkout", "-q", "-f", "--detach", self.commit),
                    ("branch", "-qD", "patched"),
                ):
                    subprocess.run((*_GIT, "-C", str(checkout), *words), capture_output=True, check=False)
                shutil.rmtree(checkout / ".git" / "patches-state", ignore_errors=True)
                done = run(command)
                if number:  # the first apply plans, which the others find done
                    taken[name].append(done)
        for name, runs in taken.items():
            ratios = [_ratio(runs, taken["git am"], field) for field in ("cpu", "wall")]
            yield (
                f"| {patchset.name} | {name} | {_median(runs, 'cpu'):.2f} | {ratios[0]} "
                f"| {_median(runs, 'wall'):.2f} | {ratios[1]} | {max(r.code for r in runs)} |"
            )

    def of_patches(self, *words: str) -> Command:
        """A verb of ``patches``, with a cache of its own."""
        return Command(
            "patches",
            (PYTHON, "-c", _PATCHES, *words, "--format", "json"),
            {"SGLANG_AUDITOR_CACHE_DIR": str(self.work / "patches-cache")},
        )

    # -- repeatability

    def repeatability(self) -> Iterator[str]:
        yield "## Repeatability"
        if self.repo is None:
            yield "left out: no clone"
            return
        answers: dict[str, bytes] = {}
        for seed in ("0", "1", "4242"):
            out = self.work / "answer.json"
            run(self.of_commit(self.commit, PYTHONHASHSEED=seed), out)
            answers[f"cold, hash seed {seed}"] = out.read_bytes()
        for words in ("filling the cache", "from the cache"):
            run(self.of_commit(self.commit, "repeat"), out)
            answers[words] = out.read_bytes()
        different = [name for name, data in answers.items() if data != answers["cold, hash seed 0"]]
        said = f"DIFFERENT: {', '.join(different)}" if different else "identical bytes"
        yield f"{', '.join(answers)}: {said}"


_GIT = ("git", "-c", "safe.directory=*")
_PATCHES = "import sys; from auditor.cli.main import patches; sys.exit(patches())"
_ENTRY = "import sys; from auditor.cli.main import audit; sys.exit(audit())"


def _median(runs: Sequence[Run], field: str) -> float:
    return statistics.median(getattr(r, field) for r in runs)


def _ratio(runs: Sequence[Run], base: Sequence[Run] | None, field: str) -> str:
    """Median of the ratios of each round, with the least and the greatest."""
    if not base:
        return "-"
    ratios = [getattr(r, field) / max(getattr(b, field), 1e-9) for r, b in zip(runs, base, strict=True)]
    return f"{statistics.median(ratios):.3f} [{min(ratios):.3f}-{max(ratios):.3f}]"


def main(argv: list[str] | None = None) -> int:
    """Command line; returns 0, or 2 where nothing at all could be measured."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    environment = os.environ.get
    parser.add_argument(
        "--repo", default=environment("BENCH_REPO"), help="clone with the commit (BENCH_REPO)"
    )
    parser.add_argument("--commit", default=environment("BENCH_COMMIT", "735a256"))
    parser.add_argument("--branch", default=environment("BENCH_BRANCH"), help="where later commits are found")
    parser.add_argument("--folder", default="python", help="folder of the commit that ast-grep scans")
    parser.add_argument(
        "--tree", default=environment("BENCH_TREE"), help="that folder, where it lies unpacked"
    )
    parser.add_argument("--ast-grep", default=environment("BENCH_AST_GREP"), help="program (BENCH_AST_GREP)")
    parser.add_argument("--rules", default=environment("BENCH_RULES"), help="other rules for ast-grep")
    parser.add_argument("--wheels", default=environment("BENCH_WHEELS"), help="folder of release wheels")
    parser.add_argument("--project", default="sglang")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--history", type=int, default=8, help="later commits that are audited both ways")
    parts = ("speed", "sweep", "history", "correctness", "patches", "repeatability")
    parser.add_argument("--only", choices=parts, action="append", help="only this part; may be repeated")
    options = parser.parse_args(argv)
    with contextlib.ExitStack() as stack:
        work = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="bench-")))
        # An installed package has its modules compiled: not to measure the compiler in every run.
        os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
        os.environ["PYTHONPYCACHEPREFIX"] = str(work / "compiled")
        bench = Bench(options, work)
        for line in bench.missing:
            print(f"missing: {line}", flush=True)
        for part in options.only or parts:
            for line in getattr(bench, part)():
                print(line, flush=True)
            print(flush=True)
    targets = ", ".join(f"{name} {value:g}" for name, value in TARGETS.items())
    print(f"aims: {targets}")
    return 2 if len(bench.missing) == 2 and not options.wheels else 0


if __name__ == "__main__":
    sys.exit(main())
