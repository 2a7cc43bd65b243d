"""Kill the real ``patches apply`` and ``patches revert`` while they write, and see whether anything is lost.

    python scripts/kill_cli_trial.py --wheel sglang-0.5.14-*.whl --rounds 60 --pair 40

As ``kill_trial.py``, which kills the layer that writes in a child of its own; here the command line is
started as a person starts it, and killed with SIGKILL, every second time with the git that it started. Nine
of ten times the clock begins when the journal appears, so that most moments lie in the writing itself.
``pair`` is a change of two upstreams in two folders at once. After each, what ``patches doctor`` does must
leave everything as before or as after the run, in all targets alike. Exit code 1 where it does not.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import kill_trial

from auditor.cli.clickrun import run
from auditor.cli.groups import patches
from auditor.patching.diffs.lines import file_change
from auditor.patching.diffs.write import write_diff
from auditor.patching.model import FileChange
from auditor.patching.write.gitpart import Step
from auditor.patching.write.journal import JOURNAL
from auditor.patching.write.target import open_target
from auditor.profile import load_profile

WAYS = (*kill_trial.WAYS, "pair")
OTHER = "flashinfer"
COMMAND = "import sys; from auditor.cli.main import patches; sys.exit(patches())"
Snapshot = dict[str, tuple[int, bytes]]


@dataclass
class Trial:
    """The targets of one way of writing, the patchset, and what each run of it looks like."""

    way: str
    roots: list[Path]
    patchset: Path
    dice: random.Random
    env: dict[str, str]
    took: dict[str, tuple[float, float]] = field(default_factory=dict)

    @property
    def to(self) -> list[str]:
        if len(self.roots) == 1:
            return ["--to", str(self.roots[0])]
        names = ("sglang", OTHER)
        return [w for name, root in zip(names, self.roots, strict=True) for w in ("--to", f"{name}={root}")]

    def words(self, verb: str) -> list[str]:
        more = ["--no-audit"] if verb == "apply" else []
        more += ["--branch", "mine"] if verb == "apply" and self.way == "commits" else []
        return [verb, str(self.patchset), *self.to, *more]

    def journal(self) -> bool:
        """Whether a run has begun to write."""
        stores = [root / ".git/patches-state" for root in self.roots]
        stores += [
            root / name for root in self.roots for name in (".patches-state", f".patches-state.{OTHER}")
        ]
        return any((store / JOURNAL).exists() for store in stores)

    def start(self, verb: str) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            [sys.executable, "-c", COMMAND, *self.words(verb)],
            env=self.env, start_new_session=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        )  # fmt: skip

    def whole(self, verb: str) -> None:
        """A run that nobody kills; how long it takes to the journal, and from there on."""
        began = time.monotonic()
        child = self.start(verb)
        while not self.journal() and child.poll() is None:
            time.sleep(0.001)
        wrote = time.monotonic()
        while self.journal():
            time.sleep(0.001)
        written = time.monotonic()
        said = child.communicate()[0]
        if child.returncode != 0:
            raise SystemExit(f"{self.way} {verb}: {said.decode()}")
        took = (wrote - began, written - wrote)
        self.took[verb] = took
        if verb == "revert":
            self.leave_branch()

    def killed(self, verb: str) -> tuple[bool, bool]:
        """A run that is killed; whether it was done before, and whether it had begun to write."""
        late, group = self.dice.random() < 0.9, self.dice.random() < 0.5
        before, writing = self.took[verb]
        child = self.start(verb)
        if late:
            while not self.journal() and child.poll() is None:
                time.sleep(0.0005)
        time.sleep(self.dice.uniform(0, 1.1 * writing if late else before + writing))
        with suppress(ProcessLookupError):
            (os.killpg if group else os.kill)(child.pid, signal.SIGKILL)
        said = child.communicate()[0]
        if not group:
            kill_trial._wait_for_group(child.pid)  # a git that lives on
        if child.returncode not in (0, -signal.SIGKILL):
            raise SystemExit(f"{self.way} {verb} failed by itself: {said.decode()}")
        return child.returncode == 0, self.journal()

    def doctor(self) -> None:
        """``patches doctor`` in a child; it must say that all is well."""
        child = os.fork()
        if child == 0:
            quiet = os.open(os.devnull, os.O_WRONLY)
            os.dup2(quiet, 1)
            os._exit(run(patches, "patches", ["doctor", *self.to]))
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        if code != 0:
            raise SystemExit(f"{self.way}: doctor says {code}")

    def leave_branch(self) -> None:
        if self.way == "commits":
            root = self.roots[0]
            if kill_trial.git(root, "symbolic-ref", "HEAD") != "refs/heads/main":
                kill_trial.git(root, "symbolic-ref", "HEAD", "refs/heads/main")
            if kill_trial.git(root, "branch", "--list", "mine"):
                kill_trial.git(root, "branch", "-q", "-D", "mine")

    def snapshots(self) -> list[Snapshot]:
        found = [kill_trial.snapshot(root, (root / ".git").exists()) for root in self.roots]
        return [{k: v for k, v in each.items() if ".patches-state" not in k} for each in found]


def patchset_of(steps: Sequence[tuple[str, Step, dict[str, bytes]]], place: Path) -> Path:
    """The patchset of (upstream, step, the files it changes as they were)."""
    names = [step.name for _, step, _ in steps]
    rows = f"  sglang: {{}}\n  {OTHER}: {{distributions: [flashinfer-python]}}\n"
    (place / "patches").mkdir(parents=True)
    text = f"title: Trial\nupstreams:\n{rows}order: [{', '.join(names)}]\n"
    if all(name == "sglang" for name, _, _ in steps):
        text = text.replace(rows, "  sglang: {}\n")
    (place / "patchset.yaml").write_text(text)
    for upstream, step, was in steps:
        changes: list[FileChange] = []
        for path, data in sorted(step.files.items()):
            change = file_change(path, was.get(path), data, mode="100644")
            assert change is not None
            changes.append(change)
        head = f"Subject: {step.name}\n" + (f"X-Project: {OTHER}\n" if upstream == OTHER else "") + "---\n"
        (place / "patches" / f"{step.name}.patch").write_bytes(head.encode() + write_diff(changes))
    return place


def with_old(steps: Sequence[Step], files: dict[str, bytes]) -> list[tuple[str, Step, dict[str, bytes]]]:
    """Each step with what its files were before it."""
    now = dict(files)
    out = []
    for step in steps:
        out.append(("sglang", step, {path: now[path] for path in step.files if path in now}))
        for path, data in step.files.items():
            if data is None:
                del now[path]
            else:
                now[path] = data
    return out


def trial_of(way: str, wheel: Path, work: Path, dice: random.Random) -> Trial:
    """Targets and patchset of one way, made anew in ``work``."""
    root = work / "target"
    kill_trial.unpack(wheel, root / "python" if way in ("staged", "commits") else root, dice)
    for record in root.rglob("*.dist-info/RECORD"):  # of the part that was unpacked
        lines = record.read_text().splitlines(keepends=True)
        there = [line for line in lines if (record.parent.parent / line.split(",")[0]).exists()]
        record.write_text("".join(there))
    if way in ("staged", "commits"):
        kill_trial.git(root, "init", "-q", "-b", "main")
        kill_trial.git(root, "add", "-A")
        kill_trial.git(root, "commit", "-q", "-m", "start")
    target = open_target(str(root), None, load_profile("sglang"))
    todo = kill_trial.steps(target, dice)
    files = dict(target.tree.read_many(sorted({p for s in todo for p in s.files} & set(target.tree.blobs()))))
    rows = with_old(todo, files)
    roots = [root]
    if way == "pair":
        other = work / "other"
        (other / OTHER / "gates").mkdir(parents=True)
        (other / "flashinfer_python-0.7.0.dist-info").mkdir()
        meta = "Metadata-Version: 2.1\nName: flashinfer-python\nVersion: 0.7.0\n"
        (other / "flashinfer_python-0.7.0.dist-info/METADATA").write_text(meta)
        made = {f"{OTHER}/__init__.py": b"from .gates import g0\n", f"{OTHER}/gates/__init__.py": b""}
        text = b"".join(b"x%d = %d\n" % (number, number) for number in range(80))
        made |= {f"{OTHER}/gates/g{number}.py": text for number in range(12)}
        for path, data in made.items():
            (other / path).write_bytes(data)
        for number in range(5):
            path, more = f"{OTHER}/gates/g{number}.py", f"{OTHER}/gates/g{number + 5}.py"
            changed: dict[str, bytes | None] = {
                path: text.replace(b"x7 = 7", b"x7 = 70"),
                more: text.replace(b"x9 = 9", b"x9 = 90"),
                f"{OTHER}/new/n{number}.py": b"y = 1\n",
            }  # fmt: skip
            rows.insert(2 * number, (OTHER, Step("set", f"f{number}", "", "clean", changed), made))
        roots.append(other)
    env = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    env |= {"SGLANG_AUDITOR_CACHE_DIR": str(work / "cache"), "PYTHONPYCACHEPREFIX": str(work / "pyc")}
    env["PYTHONPATH"] = str(Path(__file__).parent.parent)
    env |= {f"GIT_{who}_{what}": "a@b" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
    return Trial(way, roots, patchset_of(rows, work / "patchsets/trial"), dice, env)


def rounds_of(trial: Trial, rounds: int) -> dict[str, int]:
    """Apply and revert in turns, killed each time; how often which end came."""
    before = trial.snapshots()
    trial.whole("apply")
    after = trial.snapshots()
    trial.whole("revert")
    if trial.snapshots() != before:
        raise SystemExit(f"{trial.way}: revert is not the way back")
    trial.whole("apply")
    on = True
    left = {"apply": rounds // 2, "revert": rounds - rounds // 2}
    ends: dict[str, int] = {}
    while left["apply"] or left["revert"]:
        verb = "revert" if on else "apply"
        if not left[verb]:
            trial.whole(verb)
            on = not on
            continue
        left[verb] -= 1
        done, begun = trial.killed(verb)
        trial.doctor()
        now = trial.snapshots()
        if trial.way == "commits" and now[0]["<tree>"] == before[0]["<tree>"]:
            trial.leave_branch()
        if now not in (before, after) or (done and now != (before if on else after)):
            good = after if on else before
            odd = [k for a, b in zip(now, good) for k in sorted(a.keys() | b.keys()) if a.get(k) != b.get(k)]
            raise SystemExit(f"{trial.way} {verb}: {odd[:6]}")
        changed = (now == after) != on
        end = "done before" if done else ("finished" if changed else "put back") if begun else "not begun"
        if not begun and not done and changed:
            end = "complete, killed behind it"
        ends[f"{verb} {end}"] = ends.get(f"{verb} {end}", 0) + 1
        on = now == after
    return ends


def main() -> int:
    """Run the trial and print one line a way."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--wheel", type=Path, required=True, help="a release wheel of SGLang")
    parser.add_argument("--rounds", type=int, default=60, help="for each of folder, staged and commits")
    parser.add_argument("--pair", type=int, default=40, help="rounds of two upstreams at once")
    parser.add_argument("--ways", default=",".join(WAYS), help="which of folder, staged, commits, pair")
    parser.add_argument("--seed", type=int, default=4)
    parser.add_argument("--in", dest="where", type=Path, help="a folder to work in, best on a memory disk")
    words = parser.parse_args()
    for way in words.ways.split(","):
        work = Path(tempfile.mkdtemp(prefix="kill-cli-", dir=words.where))
        try:
            trial = trial_of(way, words.wheel, work, random.Random(f"{way} {words.seed}"))
            os.environ["SGLANG_AUDITOR_CACHE_DIR"] = trial.env["SGLANG_AUDITOR_CACHE_DIR"]
            ends = rounds_of(trial, words.pair if way == "pair" else words.rounds)
        finally:
            shutil.rmtree(work, ignore_errors=True)
        told = ", ".join(f"{end} {count}" for end, count in sorted(ends.items()))
        print(f"{way}: {sum(ends.values())} rounds, nothing lost; {told}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
