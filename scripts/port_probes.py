"""More cases for ``scripts/port_score.py``, of kinds that ``scripts/port_cases.py`` does not make.

    python scripts/port_probes.py --repo CLONE --out FOLDER [--last 4500] [--seed 1] [--skip FOLDER ...]

Same folders, same ``meta.json``. ``--skip`` names folders of older cases: what is in them is not made again.
The steps of ``port_cases.py`` can be run from here, too (``--only commuted,upstream``).

``same``      two commits of any branch that change exactly the same lines, whoever made them and whatever
              they are called (``pair``), or one the inverse of the other (``revert``). Where the paths
              differ, one file must have gone from one to the other (``pair-moved``).
``twin``      one commit that makes the same change at two places of one file. The target has it at the first
              place already (``prepare``: a patch on the target that is committed first); the patch is the
              second one.
``near``      a control: a merged commit, one number, text or truth value of its added lines changed to
              another. Nothing of the tree has that, so it is not upstream.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import re
import shutil
import subprocess
import sys
from collections import Counter, defaultdict
from pathlib import Path

from port_cases import (
    MOST_LINES,
    Change,
    Commit,
    Miner,
    Op,
    Repo,
    apply_ops,
    parses,
    read_commit,
)

CONSTANT = re.compile(r"(?<![\w.\"'])(\d+)(?![\w.\"'])|\b(True|False)\b|(?<=[\"'])([a-z]\w{2,})(?=[\"'])")


class Prober(Miner):
    """Writes the cases of these kinds."""

    used: set[tuple[str, str]]

    def skip(self, folder: Path) -> None:
        """Do not make again what is in another folder."""
        for path in sorted(folder.glob("*/meta.json")):
            meta = json.loads(path.read_text(encoding="utf-8"))
            patch = path.with_name("patch").read_bytes().decode("utf-8", "surrogateescape")
            self.seen.add(f"{meta['target']}\0{patch}")
            self.used |= {(meta["kind"].split("-")[0], meta.get(key, "")) for key in ("answer", "merged")}

    def save(self, kind: str, klass: str, base: str, target: str, patch: str, expect, **more) -> bool:  # type: ignore[no-untyped-def]
        """As of the miner; not where an older set has a case of that kind from the same commit."""
        head = kind.split("-")[0]
        if head not in ("pair", "revert", "twin", "near") and any(
            (head, more.get(key)) in self.used for key in ("answer", "merged")
        ):
            return False
        return super().save(kind, klass, base, target, patch, expect, **more)

    # -- the same lines, twice ------------------------------------------------------------------

    def same(self, most: int, each: int = 3) -> None:
        """Commits with the same changed lines, from everything that the clone has."""
        groups: dict[bytes, list[tuple[str, str, str]]] = defaultdict(list)
        for commit in self.everything():
            lines: Counter[tuple[str, str]] = Counter()
            for change in commit.changes:
                lines.update(("-", x) for x in change.removed)
                lines.update(("+", x) for op in change.ops for x in op.new)
            if not 2 <= sum(n for (_, text), n in lines.items() if text.strip()) <= 600:
                continue
            if any(c.binary for c in commit.changes):
                continue
            inverse = Counter({("-" if mark == "+" else "+", text): n for (mark, text), n in lines.items()})
            groups[_key(lines)].append(("pair", commit.parent, commit.id))
            groups[_key(inverse)].append(("revert", commit.id, commit.parent))
        made = 0
        names = sorted(key for key, members in groups.items() if len(members) > 1)
        self.rng.shuffle(names)
        for key in names:
            wanted = [
                (one, two)
                for one in groups[key]
                for two in groups[key]
                if two[0] == "pair" and {one[1], one[2]} != {two[1], two[2]}
            ]
            self.rng.shuffle(wanted)
            kept = 0
            for (kind, base, theirs), (_, target, answer) in wanted[:16]:
                if kept < each and self.one_pair(kind, base, theirs, target, answer):
                    kept += 1
            made += kept
            if made >= most:
                break

    def everything(self):  # type: ignore[no-untyped-def]
        """All commits that are no merges, with what they change, one by one."""
        argv = self.repo._argv(
            *("log", "--all", "--no-merges", "-p", "-U0", "--full-index", "--no-renames", "--no-color"),
            *("--diff-algorithm=histogram", "--format=%x01%H%x00%P%x00%an%x00%s"),
        )
        with subprocess.Popen(argv, stdout=subprocess.PIPE, env=self.repo.env) as git:
            assert git.stdout
            rest: list[bytes] = []
            for line in git.stdout:
                if line.startswith(b"\x01"):
                    if rest and len(rest) < 4000:
                        yield read_commit(b"".join(rest).decode("utf-8", "surrogateescape"))
                    rest = [line[1:]]
                elif len(rest) < 4000:
                    rest.append(line)

    def one_pair(self, kind: str, base: str, theirs: str, target: str, answer: str) -> bool:
        """A case, if both commits make the same change in the same functions, on other files or versions."""
        one, two = self.repo.raw(base, theirs), self.repo.raw(target, answer)
        if self.neighbours(base, theirs) != self.neighbours(target, answer):
            return False  # a twin: the same lines at another place
        if {r[0] for r in one} == {r[0] for r in two}:
            return self.pair(kind, base, theirs, target, answer)
        if len(one) != len(two) or not one or len(one) > 6 or any("0" * 6 in r[1:3] for r in one + two):
            return False
        here = self.touched(one)
        there = self.touched(two)
        if here is None or there is None or sorted(n for _, n in here) != sorted(n for _, n in there):
            return False
        # The file went from here to there: each side has one of the two paths only.
        for path in {r[0] for r in one} - {r[0] for r in two}:
            if self.repo.blob(f"{target}:{path}") is not None:
                return False
        for path in {r[0] for r in two} - {r[0] for r in one}:
            if self.repo.blob(f"{base}:{path}") is not None:
                return False
        there_lines = [set((self.repo.blob(r[3]) or "").split("\n")) for r in two]
        for row in one:
            lines = set((self.repo.blob(row[3]) or "").split("\n"))
            if not any(2 * len(lines & other) > max(len(lines), len(other)) for other in there_lines):
                return False  # another file, of which the same lines were true
        expect: dict[str, str | None] = {r[0]: r[4] for r in two}
        return self.carried(kind + "-moved", base, theirs, target, expect, source=theirs, answer=answer)

    def neighbours(self, old: str, new: str) -> list[tuple[tuple[str, ...], str]]:
        """The changed lines, each run with the nearest line above it that is less deep."""
        out: list[tuple[tuple[str, ...], str]] = []
        text = "x\0y\0z\0s\n" + self.repo.git(
            "diff-tree", "-r", "-p", "-U0", "--full-index", "--no-renames", old, new
        )
        for change in read_commit(text).changes:
            before = ((self.repo.blob(change.old_blob) if change.old else "") or "").split("\n")
            for op in change.ops:
                lines = tuple(before[op.a : op.b]) or op.new
                depth = min((_depth(x) for x in lines if x.strip()), default=0)
                above = (x for x in reversed(before[: op.a]) if x.strip() and _depth(x) < depth)
                out.append((lines, next(above, "")))
        return sorted(out)

    # -- twins ----------------------------------------------------------------------------------

    def twins(self, most: int) -> None:
        """One change at two places of a file, of which the target has one."""
        order = list(range(len(self.line)))
        self.rng.shuffle(order)
        made = 0
        for index in order:
            commit = self.line[index]
            if made >= most:
                return
            if commit.size() > MOST_LINES:
                continue
            for change in commit.changes:
                if change.binary or change.old is None or change.old != change.new:
                    continue
                if change.new.endswith(".py") and len(change.ops) > 1 and self.twin(commit, change):
                    made += 1
                    break

    def twin(self, commit: Commit, change: Change) -> bool:
        """One case from the first two ops that do the same."""
        text = self.repo.blob(change.old_blob)
        if text is None:
            return False
        lines = text.split("\n")
        known: dict[tuple[tuple[str, ...], tuple[str, ...]], Op] = {}
        for op in change.ops:
            key = (tuple(lines[op.a : op.b]), op.new)
            other = known.setdefault(key, op)
            if other is op or not any(x.strip() for x in op.new):
                continue
            ours, theirs = apply_ops(text, [other]), apply_ops(text, [op])
            both = apply_ops(text, [other, op])
            if parses(ours) is None or parses(theirs) is None or ours == theirs:
                return False
            path = change.new or ""
            mode = self.repo.mode(commit.parent, path)
            trees = [
                self.repo.tree_with(commit.parent, {path: (mode, self.repo.write(t))}) for t in (ours, theirs)
            ]
            conflict, _ = self.repo.ort_conflicts(commit.parent, *trees)
            return self.save(
                "twin", "conflict" if conflict else "clean", commit.parent, commit.parent,
                self.repo.patch(commit.parent, trees[1]), {path: both},
                prepare=self.repo.patch(commit.parent, trees[0]), answer=commit.id, literal=True,
            )  # fmt: skip
        return False

    # -- nearly the same ------------------------------------------------------------------------

    def near(self, most: int) -> None:
        """Merged commits with one constant changed to another."""
        top = len(self.line) - 1
        order = list(range(max(0, top - 3500), top - 1))
        self.rng.shuffle(order)
        made = 0
        for index in order:
            commit = self.line[index]
            if made >= most:
                return
            if not 0 < len(commit.changes) <= 3 or not 2 <= commit.size() <= MOST_LINES:
                continue
            if any(c.binary or c.new is None or c.old is None for c in commit.changes):
                continue
            made += self.near_one(commit, index, (0, 5, 50, 300)[made % 4])

    def near_one(self, commit: Commit, index: int, distance: int) -> bool:
        """One case, if a constant can be changed so that nobody has the result."""
        if index + distance >= len(self.line):
            return False
        target = self.line[index + distance].id
        for change in commit.changes:
            if not (change.new or "").endswith(".py"):
                continue
            for number, op in enumerate(change.ops):
                for at, text in enumerate(op.new):
                    if text.lstrip().startswith(("#", '"', "'")) or not (found := CONSTANT.search(text)):
                        continue
                    value = found[0]
                    other = {"True": "False", "False": "True"}.get(value)
                    other = other or (str(int(value) + 3) if value.isdigit() else value + "_b")
                    line = text[: found.start()] + other + text[found.end() :]
                    whole = self.repo.blob(change.new_blob) or ""
                    now = self.repo.blob(f"{target}:{change.new}") or ""
                    if line.strip() in whole or line.strip() in now:
                        continue
                    ops = list(change.ops)
                    ops[number] = Op(op.a, op.b, (*op.new[:at], line, *op.new[at + 1 :]))
                    old = self.repo.blob(change.old_blob)
                    if old is None or parses(made := apply_ops(old, ops)) is None:
                        continue
                    path = change.new or ""
                    mode = self.repo.mode(commit.id, path)
                    theirs = self.repo.tree_with(commit.id, {path: (mode, self.repo.write(made))})
                    patch = self.repo.patch(commit.parent, theirs)
                    return self.save(
                        "near", "control", commit.parent, target, patch, "not-upstream", merged=commit.id
                    )
        return False


def _depth(line: str) -> int:
    return len(line) - len(line.lstrip())


def _key(lines: Counter[tuple[str, str]]) -> bytes:
    text = "\n".join(f"{mark}{text}\t{n}" for (mark, text), n in sorted(lines.items()))
    return hashlib.sha1(text.encode("utf-8", "surrogateescape")).digest()


def main() -> int:
    """Write all cases."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--repo", required=True, help="a clone of SGLang (bare or not), only read")
    parser.add_argument("--out", required=True, type=Path, help="folder for the cases; must be empty")
    parser.add_argument("--last", type=int, default=4500, help="commits of the main line to look at")
    parser.add_argument("--tip", default="refs/heads/main", help="newest commit of the main line to look at")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--skip", type=Path, action="append", default=[], help="cases not to make again")
    parser.add_argument("--only", default="same,twin,near", help="only these steps, with commas between")
    args = parser.parse_args()
    if args.out.exists() and any(args.out.iterdir()):
        print(f"{args.out} is not empty", file=sys.stderr)
        return 2
    scratch = args.out.with_name(args.out.name + ".scratch")
    prober = Prober(Repo(args.repo, scratch), args.out, args.last, args.seed, args.tip)
    prober.used = set()
    for folder in args.skip:
        prober.skip(folder)
    prober.used = {(kind, name) for kind, name in prober.used if name}
    steps = {
        "same": lambda: prober.same(400),
        "twin": lambda: prober.twins(40),
        "near": lambda: prober.near(40),
        "commuted": lambda: prober.commuted(10, 40),
        "squashed": lambda: prober.squashed(10),
        "upstream": lambda: prober.upstream(20),
        "controls": lambda: prober.controls(30),
    }
    for name, step in steps.items():
        if name in args.only.split(","):
            step()
            print(name, dict(sorted(prober.counts.items())), flush=True)
    shutil.rmtree(scratch)
    return 0


if __name__ == "__main__":
    sys.exit(main())
