"""What ``audit guard`` says at each commit of a range: each against its parent, each tree audited once.

    python scripts/every_guard.py audits --repo CLONE --range 735a256..main --most 500 --keep FOLDER
    python scripts/every_guard.py alarms --repo CLONE --range 735a256..main --most 500 --keep FOLDER

``audits`` writes, for each first-parent commit and the one before the first, what a guard compares (the
audit, the map of kernels, the flags) into a file of its own in FOLDER, and passes by those that are there:
the same line again goes on where it was stopped, and a second process with the same line takes other
commits. The ends come first, then the middle of a span whose ends differ most, so that a run that is stopped
early knows most: differences add up, so in a span whose ends are alike only what came and went again can be
missed. ``--only A,B`` makes these files again. A map of kernels is taken over from a neighbour where no file
differs that it can be read from.

``alarms`` compares each kept commit with the kept one before it and prints a line of JSON with all that
trips (``--table``: a row of Markdown for each alarm, and the counts). It audits nothing, so it is quick:
after a change of how trees are compared it is run again; after a change of how they are read, ``audits
--only`` first.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
import zlib
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import msgspec

from auditor.cli.audit.quick import request_of
from auditor.cli.audit.twotrees import flags_of, kernels_of
from auditor.cli.request import Request
from auditor.cli.source import audited
from auditor.gates.cache import LOOKED, RECENT, Asked
from auditor.gates.cache import Kept as CacheOf
from auditor.gates.model import Report
from auditor.history.causes import folded
from auditor.history.diff import compare
from auditor.history.flags import Flag
from auditor.history.guard import tripping
from auditor.history.model import Change, Diff
from auditor.native.model import Availability
from auditor.profile import load_profile
from auditor.program.externals import ROOT_WORDS
from auditor.tooldigest import tool_digest
from auditor.trees.between import log_entry
from auditor.trees.cache import cached_bytes, store_bytes, write_whole
from auditor.trees.commit import CommitTree
from auditor.trees.git import GitRepo

#: Spans longer than this many commits are halved whatever their ends say.
_COARSE = 32


class Kept(msgspec.Struct):
    """One tree as a guard sees it, and what it cost: CPU seconds of the audit and of the map of kernels."""

    tool: str
    report: Report
    kernels: Availability | None
    flags: dict[str, Flag]
    notes: list[str]
    looked: list[str]  # keys of audits in the cache that this one is, or may be taken over from
    audit_s: float
    kernels_s: float


class Line(msgspec.Struct):
    """What a guard says of one commit."""

    commit: str
    span: int  # commits since the one it is compared with: 1 where that is its parent
    date: str
    pr: str
    subject: str
    counts: dict[str, int]  # changes of every kind
    alarms: list[Change]
    follow: int  # alarms that are folded into the others
    notes: tuple[str, ...] = ()


def commits_of(repo: GitRepo, given: str, most: int) -> list[str]:
    """The commit before the range, and its first-parent commits, oldest first."""
    base = given.partition("..")[0]
    raw = repo.output("rev-list", "--first-parent", "--reverse", given, "--")
    return [repo.commit(base).oid, *raw.decode().split()[:most]]


def file_of(folder: Path, commit: str) -> Path:
    """Where the audit of a commit is kept."""
    return folder / f"{commit}.kept"


class Work:
    """The audits of a range, as many as there is time for."""

    def __init__(
        self, repo: GitRepo, commits: list[str], request: Request, folder: Path, among: Path | None
    ) -> None:
        self.repo = repo
        self.commits = commits
        self.request = request
        self.folder = folder
        self.among = among
        self.tool = tool_digest()
        self.asked = Asked(
            request.targets, request.reference, request.assumptions, request.defaults, request.project
        )
        self.profile = load_profile(request.project)
        self.spans: dict[tuple[int, int], tuple[int, ...]] = {}
        self.memory: dict[int, Kept] = {}
        for claim in folder.glob("*.claim"):
            if not Path(f"/proc/{claim.read_text()}").exists():
                claim.unlink()  # of a process that was stopped

    def run(self) -> None:
        """Until every commit has its file."""
        while (at := self._next()) is not None:
            claim = self.folder / f"{self.commits[at]}.claim"
            try:
                with open(claim, "x") as file:
                    file.write(str(os.getpid()))
            except FileExistsError:
                continue
            try:
                if not self._has(at):
                    self.make(at)
            finally:
                claim.unlink()

    def _has(self, at: int) -> bool:
        return file_of(self.folder, self.commits[at]).exists()

    def _next(self) -> int | None:
        """Ends first, then the middle of the span that says most: alarms, other changes, length."""
        taken = {path.name for path in self.folder.iterdir()}
        there = [n for n, c in enumerate(self.commits) if f"{c}.kept" in taken]
        busy = {name.partition(".")[0] for name in taken}  # those that are there, and those in work
        free = [n for n, commit in enumerate(self.commits) if commit not in busy]
        if self.among is not None:
            wanted = set(self.among.read_text().split())
            free = [n for n in free if self.commits[n] in wanted]
        if not free:
            return None
        for end in {0, len(self.commits) - 1}.intersection(free):
            return end
        best = None
        for a, b in zip(there, there[1:]):
            inside = [n for n in free if a < n < b]
            if inside and all(f"{c}.claim" not in taken for c in self.commits[a:b]):
                middle = min(inside, key=lambda n: (abs(2 * n - a - b), n))
                rank = (*self._weight(a, b), -a)
                if best is None or rank > best[0]:
                    best = rank, middle
        return best[1] if best is not None else free[len(free) // 2]

    def _weight(self, a: int, b: int) -> tuple[int, ...]:
        if b - a > _COARSE:
            return (3, b - a)
        if (a, b) not in self.spans:
            diff = compared(self._read(a), self._read(b))
            other = sum(change.kind not in ("moved", "respelled") for change in diff.changes)
            self.spans[a, b] = (2 if tripping(diff) else 1 if other else 0, b - a)
        return self.spans[a, b]

    def _read(self, at: int) -> Kept:
        if at not in self.memory:
            if len(self.memory) > 8:
                self.memory.clear()
            self.memory[at] = read_kept(self.folder, self.commits[at])
        return self.memory[at]

    def _neighbours(self, at: int) -> list[int]:
        """The nearest kept commits before and after."""
        before = next((n for n in range(at - 1, -1, -1) if self._has(n)), None)
        after = next((n for n in range(at + 1, len(self.commits)) if self._has(n)), None)
        return [n for n in (before, after) if n is not None]

    def make(self, at: int) -> None:
        """The file of one commit."""
        commit = self.commits[at]
        tree = CommitTree(self.repo, commit)
        near = sorted(self._neighbours(at), key=lambda n: abs(n - at))
        cache = CacheOf(self.asked)
        looked = list(dict.fromkeys(key for n in near for key in self._read(n).looked))[:4]
        if looked:
            store_bytes(RECENT, cache.question, "\n".join(looked).encode())
        start = time.process_time()
        report = audited(tree, self.request)
        middle = time.process_time()
        own = cache.key(tree.info())
        cold = cached_bytes(LOOKED, own) is not None
        looked = [own] if cold else looked
        notes: list[str] = []
        kernels: Availability | None = None
        like = next((n for n in near if not self._touches_kernels(tree, self.commits[n])), None)
        if like is not None and self._read(like).kernels is not None:
            same = self._read(like).kernels
            assert same is not None
            kernels = msgspec.structs.replace(same, tree=report.tree)
        else:
            kernels = kernels_of(tree, self.request, notes)
        end = time.process_time()
        flags = flags_of(tree, self.request)
        kept = Kept(self.tool, report, kernels, flags, notes, looked, middle - start, end - middle)
        write_whole(file_of(self.folder, commit), zlib.compress(msgspec.msgpack.encode(kept), 1))
        left = sum(not self._has(n) for n in range(len(self.commits)))
        words = f"{'cold' if cold else 'same'} {kept.audit_s:.1f} + {kept.kernels_s:.1f} s"
        print(f"{time.strftime('%H:%M:%S')} {at} {commit[:9]} {words}, {left} left", flush=True)

    def _touches_kernels(self, tree: CommitTree, other: str) -> bool:
        """Whether a file that the map of kernels may be read from differs from another commit's."""
        was = CommitTree(self.repo, other)
        old, new = was.blobs(), tree.blobs()
        changed = [p for p in {*old, *new} if old.get(p) != new.get(p)]
        native = tuple(f"{build.folder}/" for build in self.profile.native.builds)
        if any(
            path.startswith(native) or path.endswith(("pyproject.toml", ".cuh", ".cu", ".h"))
            for path in changed
        ):
            return True
        root = self.profile.root_of(new)
        inside = f"{root}/{self.profile.package}/" if root else f"{self.profile.package}/"
        sources = [p for p in changed if p.startswith(inside) and p.endswith(".py")]
        for side, blobs in ((was, old), (tree, new)):
            for _, data in side.read_many([p for p in sources if p in blobs]):
                if any(word in data for word in (*ROOT_WORDS, b"load_jit", b"register_kernel", b"triton")):
                    return True
        return False


def read_kept(folder: Path, commit: str) -> Kept:
    """The audit of a commit that was kept before."""
    return msgspec.msgpack.decode(zlib.decompress(file_of(folder, commit).read_bytes()), type=Kept)


def compared(old: Kept, new: Kept) -> Diff:
    """The comparison that the guard makes of two trees."""
    notes = sorted({*old.notes, *new.notes})
    maps = (old.kernels, new.kernels) if old.kernels is not None and new.kernels is not None else None
    return compare(old.report, new.report, kernels=maps, flags=(old.flags, new.flags), notes=notes)


def lines(repo: GitRepo, commits: list[str], folder: Path, only: set[str]) -> Iterator[Line]:
    """What the guard says at each kept commit, compared with the kept one before it."""
    there = [n for n, commit in enumerate(commits) if file_of(folder, commit).exists()]
    last: tuple[int, Kept] | None = None
    for before, at in zip(there, there[1:]):
        commit = commits[at]
        if only and commit not in only:
            continue
        first = last[1] if last is not None and last[0] == before else read_kept(folder, commits[before])
        new = read_kept(folder, commit)
        last = at, new
        diff = compared(first, new)
        trips = tripping(diff)
        shown, _ = folded(trips)
        counts = dict(sorted(Counter(change.kind for change in diff.changes).items()))
        entry = log_entry(repo, commit)
        yield Line(
            commit,
            at - before,
            entry.date,
            entry.pr,
            entry.subject,
            counts,
            list(shown),
            len(trips) - len(shown),
            diff.notes,
        )


def table(found: list[Line]) -> str:
    """The alarms as rows of Markdown; of each kind, how many changes there are and how many trip."""
    loud = [line for line in found if line.alarms]
    kinds = Counter(change.kind for line in loud for change in line.alarms)
    out = [f"{len(found)} guards, {len(loud)} tripped, {sum(kinds.values())} alarms.", ""]
    out += ["| commit | PR | kind | place | what | from → to |", "| --- | --- | --- | --- | --- | --- |"]
    for line in loud:
        for change in line.alarms:
            ways = ", ".join(f"{t}: {way} → {change.after.get(t, '')}" for t, way in change.before.items())
            what = change.what.replace("|", "\\|")
            place = f"{change.path}:{change.line}"
            out.append(f"| {line.commit[:9]} | #{line.pr} | `{change.kind}` | {place} | `{what}` | {ways} |")
    changes: Counter[str] = Counter()
    for line in found:
        changes.update(line.counts)
    out += ["", "| kind | changes | trip |", "| --- | --- | --- |"]
    out += [f"| `{kind}` | {number} | {kinds[kind]} |" for kind, number in sorted(changes.items())]
    return "\n".join(out) + "\n"


def main() -> int:
    """Audit the commits of a range, or compare the audits that are kept."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("work", choices=("audits", "alarms"))
    parser.add_argument("--repo", required=True)
    parser.add_argument("--range", required=True, dest="given", metavar="A..B")
    parser.add_argument("--most", type=int, default=500)
    parser.add_argument("--keep", required=True, type=Path)
    parser.add_argument("--target", default="sm_120")
    parser.add_argument("--only", default="", help="these commits alone, made again")
    parser.add_argument("--among", type=Path, help="a file of commits: no others are audited")
    parser.add_argument("--table", action="store_true")
    asked = parser.parse_args()
    request = request_of("sglang", ["--path", asked.repo, "--target", asked.target, "--quiet"])
    repo = GitRepo.find(asked.repo)
    assert request is not None and repo is not None
    commits = commits_of(repo, asked.given, asked.most)
    only = {repo.commit(word).oid for word in asked.only.split(",") if word}
    if asked.work == "audits":
        asked.keep.mkdir(parents=True, exist_ok=True)
        work = Work(repo, commits, request, asked.keep, asked.among)
        if not only:
            work.run()
        for at in sorted(commits.index(commit) for commit in only):
            work.make(at)
        return 0
    found = []
    for line in lines(repo, commits, asked.keep, only):
        found.append(line)
        if not asked.table:
            sys.stdout.write(msgspec.json.encode(line).decode() + "\n")
    if asked.table:
        sys.stdout.write(table(found))
    return 0


if __name__ == "__main__":
    os.environ.setdefault("GIT_OPTIONAL_LOCKS", "0")
    raise SystemExit(main())
