"""Mine ports with a certain answer from a clone of SGLang's history, for ``scripts/port_score.py``.

    python scripts/port_cases.py --repo CLONE --out FOLDER [--last 4500] [--seed 1]

Nothing of the history is stored in this project; the folder is made again from any clone. Every case is
``FOLDER/NAME/patch`` (a git diff with full blob ids) and ``meta.json``:

    kind      where the case comes from (below), and for commuted ones what stands beside the change
    class     ``clean`` or ``conflict``, as git's own three-way merge (ort) of the trees sees it;
              ``upstream`` and ``control`` for commits whose presence is asked
    base      the commit that the patch was made on
    target    the commit that it is to be carried to
    expect    path -> blob id (null: gone) of every file that the right answer changes; ``"upstream"`` for
              nothing to do; ``"not-upstream"`` where only that claim is known to be wrong
    distance  commits of the main line between base and target, where both are on it

Why the answers are certain:

``pair``      the same change by hand on two bases (one pull request on two branches, a branch carried
              along, a re-land). Kept where both change exactly the same lines of the same files.
``revert``    a revert as a port of the inverse of what it reverts, kept by the same test.
``commute``   a commit Y of the main line, pulled back line by line, commit by commit, to a point before
              its neighbourhood changed; kept while every line that Y touches exists unchanged, and only
              where the older result parses. Carrying it forward again is Y itself.
``squash``    two neighbours X and Y, Y on no line of X: the patch is both, the target has X already.
``moved``     a function that went to another file or class word for word; Y, which edits it there, is
              expressed on the old place.
``alive``     a merged commit; all its added lines are still attributed to it, line by line, at the target,
              and no line that it removed came back.
``late``      a merged commit of which later commits, none of them a revert, rewrote a part: merged, so
              there is nothing to do, but no longer line by line.
``before``    a control: the target is older than the commit.
``undone``    a control: the target is just after a revert of the commit.
"""

from __future__ import annotations

import argparse
import ast
import json
import os
import random
import re
import shutil
import subprocess
import sys
import textwrap
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

NULL = "0" * 40
MOST_FILES, MOST_LINES = 6, 160


@dataclass(frozen=True)
class Op:
    """Old lines [a, b) give way to ``new``. Counted from 0."""

    a: int
    b: int
    new: tuple[str, ...] = ()


@dataclass
class Change:
    """What one commit does to one file; ``ops`` in old lines, ascending, without context."""

    old: str | None
    new: str | None
    old_blob: str
    new_blob: str
    ops: list[Op] = field(default_factory=list)
    removed: list[str] = field(default_factory=list)
    binary: bool = False


@dataclass
class Commit:
    """One commit of the main line."""

    id: str
    parent: str
    author: str
    subject: str
    changes: list[Change] = field(default_factory=list)

    def size(self) -> int:
        """Added and removed lines."""
        return sum(len(c.removed) + sum(len(o.new) for o in c.ops) for c in self.changes)


class Repo:
    """A clone that is only read; what is made on the way goes to an object store of our own."""

    def __init__(self, path: str, scratch: Path) -> None:
        self.path, self.scratch = path, scratch
        (scratch / "objects").mkdir(parents=True, exist_ok=True)
        store = self._plain("rev-parse", "--git-path", "objects").strip()
        self.env = {
            **os.environ,
            "GIT_OBJECT_DIRECTORY": str(scratch / "objects"),
            "GIT_ALTERNATE_OBJECT_DIRECTORIES": str(Path(path, store).resolve()),
            "GIT_INDEX_FILE": str(scratch / "index"),
            "GIT_AUTHOR_DATE": "1700000000 +0000",
            "GIT_COMMITTER_DATE": "1700000000 +0000",
            "GIT_AUTHOR_NAME": "n",
            "GIT_AUTHOR_EMAIL": "e",
            "GIT_COMMITTER_NAME": "n",
            "GIT_COMMITTER_EMAIL": "e",
            "GIT_NO_LAZY_FETCH": "1",
        }
        self._raw: dict[tuple[str, str], list[tuple[str, str, str, str, str]]] = {}
        self._cat = subprocess.Popen(
            self._argv("cat-file", "--batch"), stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=self.env
        )

    def _argv(self, *args: str) -> list[str]:
        return ["git", "-c", "safe.directory=*", "-c", "core.quotePath=false", "-C", self.path, *args]

    def _plain(self, *args: str) -> str:
        return subprocess.run(self._argv(*args), stdout=subprocess.PIPE, check=True, text=True).stdout

    def git(self, *args: str, stdin: bytes | None = None, check: bool = True) -> str:
        """What git prints, as UTF-8 with surrogates for the rest."""
        done = subprocess.run(
            self._argv(*args),
            input=stdin,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL if not check else None,
            env=self.env,
        )
        if check and done.returncode:
            raise RuntimeError(f"git {' '.join(args)}: exit {done.returncode}")
        self.rc = done.returncode
        return done.stdout.decode("utf-8", "surrogateescape")

    def blob(self, name: str) -> str | None:
        """The text of an object (``REV:path`` too), None where there is none."""
        assert self._cat.stdin and self._cat.stdout
        self._cat.stdin.write(name.encode("utf-8", "surrogateescape") + b"\n")
        self._cat.stdin.flush()
        head = self._cat.stdout.readline().split()
        if len(head) < 3:
            return None
        data = self._cat.stdout.read(int(head[2]) + 1)[:-1]
        return data.decode("utf-8", "surrogateescape")

    def write(self, text: str) -> str:
        """A new blob in our own store."""
        return self.git("hash-object", "-w", "--stdin", stdin=text.encode("utf-8", "surrogateescape")).strip()

    def mode(self, rev: str, path: str) -> str:
        """The mode of a file that is there."""
        return self.git("ls-tree", rev, "--", path).split(" ")[0]

    def tree_with(self, rev: str, files: dict[str, tuple[str, str] | None]) -> str:
        """The tree of ``rev`` with these paths replaced: path -> (mode, blob), None: gone."""
        self.git("read-tree", rev)
        rows = [
            f"{e[0]} {e[1]}\t{path}\n" if e else f"0 {NULL}\t{path}\n" for path, e in sorted(files.items())
        ]
        self.git("update-index", "--index-info", stdin="".join(rows).encode("utf-8", "surrogateescape"))
        return self.git("write-tree").strip()

    def patch(self, old: str, new: str) -> str:
        """The diff of two trees as a port takes it."""
        return self.git("diff-tree", "-r", "-p", "-M", "--full-index", "--binary", old, new)

    def ort_conflicts(self, base: str, ours: str, theirs: str) -> tuple[bool, str]:
        """Whether git's merge of two trees from a third conflicts, and the tree that it makes."""
        root = self.git("commit-tree", "-m", "b", f"{base}^{{tree}}").strip()
        one = self.git("commit-tree", "-m", "o", "-p", root, f"{ours}^{{tree}}").strip()
        two = self.git("commit-tree", "-m", "t", "-p", root, f"{theirs}^{{tree}}").strip()
        out = self.git("merge-tree", "--write-tree", one, two, check=False)
        return self.rc != 0, out.split("\n", 1)[0]

    def raw(self, old: str, new: str) -> list[tuple[str, str, str, str, str]]:
        """(path, old mode, new mode, old blob, new blob) of the files that differ between two trees."""
        if (known := self._raw.get((old, new))) is not None:
            return known
        out = self.git("diff-tree", "-r", "--no-renames", "-z", "--full-index", "--raw", old, new)
        cells = out.split("\0")
        rows = []
        for head, path in zip(cells[::2], cells[1::2]):
            a, b, c, d, _ = head.lstrip(":").split(" ")
            rows.append((path, a, b, c, d))
        self._raw[(old, new)] = rows
        return rows

    def log(self, span: list[str], *more: str) -> list[Commit]:
        """Commits with what they change, without context."""
        out = self.git(
            "log", "-M", "-p", "-U0", "--full-index", "--no-color", "--diff-algorithm=histogram", *more,
            "--format=%x01%H%x00%P%x00%an%x00%s", *span,
        )  # fmt: skip
        return [read_commit(part) for part in out.split("\x01")[1:]]


HUNK = re.compile(r"@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@")


def read_commit(text: str) -> Commit:
    """One entry of ``Repo.log``. Hunks are read by their counts, so content cannot be taken for a header."""
    lines = text.split("\n")
    name, parents, author, subject = lines[0].split("\0")
    commit = Commit(name, parents.split(" ")[0], author, subject)
    change: Change | None = None
    i = 1
    while i < len(lines):
        line = lines[i]
        i += 1
        if line.startswith("diff --git "):
            change = Change("?", "?", "", "")
            commit.changes.append(change)
            rest = line[len("diff --git ") :]
            half = (len(rest) - 1) // 2
            if rest[2:half] == rest[half + 3 :]:
                change.old = change.new = rest[2:half]
        elif change is None:
            continue
        elif line.startswith("new file"):
            change.old = None
        elif line.startswith("deleted file"):
            change.new = None
        elif line.startswith("rename from "):
            change.old = line[12:]
        elif line.startswith("rename to "):
            change.new = line[10:]
        elif line.startswith("index "):
            change.old_blob, change.new_blob = line.split(" ")[1].split("..")
        elif line.startswith(("Binary files", "old mode", "copy from")):
            change.binary = True
        elif match := HUNK.match(line):
            start, count, _, added = (int(x) if x is not None else 1 for x in match.groups())
            a = start - 1 if count else start
            new: list[str] = []
            left, right = count, added
            while left or right:
                body = lines[i]
                i += 1
                if body.startswith("-"):
                    change.removed.append(body[1:])
                    left -= 1
                elif body.startswith("+"):
                    new.append(body[1:])
                    right -= 1
                else:  # no newline at the end of the file: such files are left alone
                    change.binary = True
            change.ops.append(Op(a, a + count, tuple(new)))
            if i < len(lines) and lines[i].startswith("\\"):
                change.binary = True
    return commit


@dataclass(frozen=True)
class Touch:
    """Where a pulled-back change stands directly beside another one."""

    by: int  # index of the other commit in the main line
    op: int  # number of the op
    both_insert: bool


def pull_back(ops: list[Op], across: list[Op]) -> tuple[list[Op], list[tuple[int, bool]]] | None:
    """``ops``, given in the new lines of a change, in its old lines; and which of them touch it.

    None where an op meets a line that the change made, or spans lines that it took away. For each op that
    stands directly beside the change: its number, and whether both only insert.
    """
    ranges = []  # (old a, old b, new a, new b)
    shift = 0
    for other in across:
        na = other.a + shift
        ranges.append((other.a, other.b, na, na + len(other.new)))
        shift += len(other.new) - (other.b - other.a)
    back: list[Op] = []
    touches: list[tuple[int, bool]] = []
    for number, op in enumerate(ops):
        at = 0
        place: int | None = None
        for oa, ob, na, nb in ranges:
            if op.a == op.b:
                if na < op.a < nb:
                    return None
                if na == op.a or nb == op.a:
                    touches.append((number, oa == ob))
                    if place is None:
                        place = oa if na == op.a else ob
            else:
                if na < nb and na < op.b and op.a < nb or na == nb and op.a < na < op.b:
                    return None
                if nb == op.a or na == op.b:
                    touches.append((number, False))
            if nb <= op.a:
                at = ob - nb
        a = place if place is not None else op.a + at
        back.append(Op(a, a + op.b - op.a, op.new))
    for one, two in zip(back, back[1:]):
        if one.b > two.a or (one.b == two.a and one.a == one.b):
            return None
    return back, touches


def apply_ops(text: str, ops: list[Op]) -> str:
    """The text with these lines replaced."""
    lines = text.split("\n")
    for op in reversed(ops):
        lines[op.a : op.b] = op.new
    return "\n".join(lines)


def moved_ops(ops: list[Op]) -> list[tuple[int, int]]:
    """The line ranges of the new text that the ops made."""
    out, shift = [], 0
    for op in ops:
        out.append((op.a + shift, op.a + shift + len(op.new)))
        shift += len(op.new) - (op.b - op.a)
    return out


def parses(text: str) -> ast.Module | None:
    """The syntax tree, if it is Python."""
    try:
        return ast.parse(text)
    except (SyntaxError, ValueError):
        return None


def scope_of(tree: ast.Module, a: int, b: int) -> str:
    """What the lines [a, b) stand in: import, literal, class, module or function."""
    scope = "module"
    literals = (ast.Call, ast.List, ast.Dict, ast.Set, ast.Tuple, ast.arguments)
    for node in ast.walk(tree):  # outer nodes come first
        line = getattr(node, "lineno", None)
        end = getattr(node, "end_lineno", None)
        if line is None or end is None or not (line - 1 <= a and b <= end):
            continue
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            return "import"
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            scope = "function" if a >= node.body[0].lineno - 1 else "literal"
        elif isinstance(node, ast.ClassDef):
            scope = "class"
        elif isinstance(node, literals) and a > line - 1 and b < end:
            scope = "literal"
    return scope


class Miner:
    """Writes the cases of one history."""

    def __init__(self, repo: Repo, out: Path, last: int, seed: int, tip: str = "refs/heads/main") -> None:
        self.repo, self.out = repo, out
        self.rng = random.Random(seed)
        self.counts: Counter[str] = Counter()
        tip = repo.git("rev-parse", tip).strip()
        self.line = repo.log(
            ["-n", str(last), tip], "--first-parent", "--diff-merges=first-parent", "--reverse"
        )
        # --reverse with -n gives the last ones, oldest first.
        self.at = {c.id: i for i, c in enumerate(self.line)}
        self.by_path: dict[str, list[tuple[int, Change]]] = defaultdict(list)
        for i, commit in enumerate(self.line):
            for change in commit.changes:
                if change.new is not None:
                    self.by_path[change.new].append((i, change))
        self.seen: set[str] = set()
        self.names: dict[str, dict[str, list[str]] | None] = {}

    def save(
        self,
        kind: str,
        klass: str,
        base: str,
        target: str,
        patch: str,
        expect: Any,
        **more: Any,
    ) -> bool:
        """One case on disk; False where the same patch and target were written before."""
        key = f"{target}\0{patch}"
        if key in self.seen or not patch.strip():
            return False
        self.seen.add(key)
        self.counts[f"{klass} {kind}"] += 1
        name = f"{klass}-{kind}-{self.counts[f'{klass} {kind}']:03d}"
        folder = self.out / name
        folder.mkdir(parents=True)
        (folder / "patch").write_bytes(patch.encode("utf-8", "surrogateescape"))
        distance = self.at[target] - self.at[base] if target in self.at and base in self.at else None
        meta = {
            "kind": kind, "class": klass, "base": base, "target": target, "distance": distance,
            "expect": expect, **more,
        }  # fmt: skip
        (folder / "meta.json").write_text(json.dumps(meta, indent=1, sort_keys=True) + "\n", encoding="utf-8")
        return True

    def carried(
        self, kind: str, base: str, theirs: str, target: str, expect: dict[str, str | None], **more: Any
    ) -> bool:
        """A case from trees: base, base with the patch, target; its class is what ort says."""
        conflict, _ = self.repo.ort_conflicts(base, target, theirs)
        patch = self.repo.patch(base, theirs)
        return self.save(kind, "conflict" if conflict else "clean", base, target, patch, expect, **more)

    # -- the same change twice ------------------------------------------------------------------

    def pairs(self, most: int = 4) -> None:
        """The same author and subject on two bases; and reverts with what they revert."""
        out = self.repo.git("log", "--all", "--no-merges", "--format=%H%x00%P%x00%an%x00%s%x00%b%x01")
        groups: dict[str, list[tuple[str, str]]] = defaultdict(list)
        by_id: dict[str, tuple[str, str]] = {}
        by_pr: dict[str, list[tuple[str, str]]] = defaultdict(list)
        reverts: list[tuple[str, str, str]] = []
        for entry in out.split("\x01"):
            cells = entry.lstrip("\n").split("\0")
            if len(cells) < 5 or not cells[1]:
                continue
            name, parent, author, subject, body = cells
            number = re.search(r"\(#(\d+)\)$", subject)
            bare = re.sub(r"\s*\(#\d+\)|\(cherry[- ]pick[^)]*\)", "", subject).strip()
            bare = re.sub(r'^(?:re-?land|reapply|re-?apply)\W+(.*?)"?$', r"\1", bare, flags=re.I)
            by_id[name] = (name, parent)
            if number:
                by_pr[number[1]].append((name, parent))
            if bare.startswith("Revert "):
                inner = re.search(r"This reverts commit ([0-9a-f]{40})", body)
                pull = re.search(r"\(#(\d+)\)", subject)
                reverts.append((name, parent, inner[1] if inner else pull[1] if pull else ""))
            elif not author.endswith("bot") and len(bare) > 14 and not bare.startswith(("Update ", "Merge ")):
                groups[bare.lower()].append((name, parent))
        for _, members in sorted(groups.items()):
            wanted = [(s, t) for s in members for t in members if s != t]
            self.rng.shuffle(wanted)
            kept = 0
            for source, target in wanted[:12]:
                if kept < most and self.pair("pair", source[1], source[0], target[1], target[0]):
                    kept += 1
        for name, parent, key in reverts:
            for source in [by_id[key]] if key in by_id else by_pr.get(key, [])[:1]:
                self.pair("revert", source[0], source[1], parent, name)

    def pair(self, kind: str, base: str, theirs: str, target: str, answer: str) -> bool:
        """A case if both diffs change the same lines of the same files, and not the same blobs."""
        one, two = self.repo.raw(base, theirs), self.repo.raw(target, answer)
        if not one or len(one) > 30 or {r[0] for r in one} != {r[0] for r in two}:
            return False
        if [(r[0], r[3]) for r in one] == [(r[0], r[3]) for r in two]:
            return False  # the same preimages: nothing to carry
        if any(r[1] == "120000" or r[2] == "120000" or "160000" in r[1:3] for r in one + two):
            return False
        texts = []
        for a, b in ((base, theirs), (target, answer)):
            lines = Counter()  # type: ignore[var-annotated]
            path = ""
            for commit in [
                read_commit(
                    "x\0y\0z\0s\n"
                    + self.repo.git("diff-tree", "-r", "-p", "-U0", "--full-index", "--no-renames", a, b)
                )
            ]:  # noqa: E501
                for change in commit.changes:
                    path = change.new or change.old or ""
                    if change.binary and not change.ops:
                        return False
                    lines.update((path, "-", x) for x in change.removed)
                    lines.update((path, "+", x) for op in change.ops for x in op.new)
            texts.append(lines)
        if texts[0] != texts[1]:
            return False
        places = self.touched(one)
        if places is None or places != self.touched(two):
            return False  # a port into the sibling twin has the same lines, too
        expect = {r[0]: (None if r[4] == NULL else r[4]) for r in two}
        return self.carried(kind, base, theirs, target, expect, source=theirs, answer=answer)

    def touched(self, rows: list[tuple[str, str, str, str, str]]) -> set[tuple[str, str]] | None:
        """(path, class or function) that differ between two trees; None where Python does not parse."""
        out = set()
        for path, _, _, old, new in rows:
            if not path.endswith(".py"):
                continue
            bodies = []
            for blob in (old, new):
                if blob not in self.names:
                    self.names[blob] = named("" if blob == NULL else self.repo.blob(blob) or "")
                names = self.names[blob]
                if names is None:
                    return None
                bodies.append(names)
            one, two = bodies
            out |= {(path, name) for name in one.keys() | two.keys() if one.get(name) != two.get(name)}
        return out

    # -- commuted -------------------------------------------------------------------------------

    def steps_back(self, index: int, furthest: int) -> Iterator[tuple[int, dict[str, Any]]]:
        """(index of an older commit, path now -> what the change is there), as far as every line exists.

        The older commit is the parent of a commit that touched one of the files.
        """
        commit = self.line[index]
        state: dict[str, Any] = {}
        for change in commit.changes:
            if change.binary or change.old is None or change.new is None or change.old != change.new:
                continue
            if not change.new.endswith(".py"):
                continue
            state[change.new] = {"path": change.new, "ops": change.ops, "blob": change.old_blob, "touch": []}
        if not state:
            return
        for older in range(index - 1, max(0, index - furthest), -1):
            hit = False
            for change in self.line[older].changes:
                for entry in state.values():
                    if change.new != entry["path"]:
                        continue
                    hit = True
                    if (
                        change.old is None
                        or change.binary
                        or change.new_blob
                        and change.new_blob != entry["blob"]
                    ):
                        return
                    moved = pull_back(entry["ops"], change.ops)
                    if moved is None:
                        return
                    entry["ops"] = moved[0]
                    entry["touch"] = entry["touch"] + [Touch(older, n, f) for n, f in moved[1]]
                    entry["renamed"] = entry.get("renamed") or change.old != change.new
                    entry["blob"] = change.old_blob or entry["blob"]
                    entry["path"] = change.old
            if hit:
                yield older, {k: dict(v) for k, v in state.items()}

    def commuted(self, conflicts: int, cleans: int, furthest: int = 900) -> None:
        """Commits of the main line, pulled back to before their neighbourhood changed."""
        order = list(range(len(self.line) // 6, len(self.line)))
        self.rng.shuffle(order)
        per_kind: Counter[str] = Counter()
        made_clean = 0
        for index in order:
            commit = self.line[index]
            if not 0 < len(commit.changes) <= MOST_FILES or commit.size() > MOST_LINES:
                continue
            last: tuple[int, dict[str, Any]] | None = None
            first: tuple[int, dict[str, Any]] | None = None
            deep: tuple[int, dict[str, Any]] = (index, {})
            for older, state in self.steps_back(index, furthest):
                if not any(e["touch"] or e.get("renamed") for e in state.values()):
                    last = (older, state)
                else:
                    first = first or (older, state)
                deep = (older, state)
            if first:
                kind = self.kind_of(index, first[1])
                if per_kind[kind] < conflicts and self.commute(kind, index, *first):
                    per_kind[kind] += 1
                touching = {(p, t.op, t.by) for p, e in deep[1].items() for t in e["touch"]}
                if len(touching) > 2 and per_kind["many"] < conflicts:
                    per_kind["many"] += self.commute("commute-many", index, *deep)
            if last and made_clean < cleans and index - last[0] > 20:
                made_clean += self.commute("commute", index, *last)

    def kind_of(self, index: int, state: dict[str, Any]) -> str:
        """``commute-`` and what stands beside: both-SCOPE, beside-SCOPE or renamed."""
        for path, entry in sorted(state.items()):
            if entry["touch"]:
                change = next(c for c in self.line[index].changes if c.new == path)
                tree = parses(self.repo.blob(change.new_blob) or "")
                if tree is None:
                    return "commute-other"
                where = moved_ops(change.ops)
                scopes = {
                    scope_of(tree, where[t.op][0], max(where[t.op][1], where[t.op][0] + 1))
                    for t in entry["touch"]
                }
                scope = next(s for s in ("function", "literal", "class", "module", "import") if s in scopes)
                how = "both" if any(t.both_insert for t in entry["touch"]) else "beside"
                return f"commute-{how}-{scope}"
        return "commute-renamed"

    def commute(self, kind: str, index: int, older: int, state: dict[str, Any]) -> bool:
        """One commuted case, if the older result parses where the older text does."""
        base = self.line[older].parent
        files: dict[str, tuple[str, str] | None] = {}
        expect: dict[str, str | None] = {}
        for now, entry in sorted(state.items()):
            text = self.repo.blob(f"{base}:{entry['path']}")
            if text is None:
                return False
            new = apply_ops(text, entry["ops"])
            if parses(new) is None or new == text:
                return False
            files[entry["path"]] = (self.repo.mode(base, entry["path"]), self.repo.write(new))
            expect[now] = next(c for c in self.line[index].changes if c.new == now).new_blob
        theirs = self.repo.tree_with(base, files)
        made = self.line[index]
        return self.carried(kind, base, theirs, made.parent, expect, answer=made.id)

    def squashed(self, most: int, furthest: int = 300) -> None:
        """X and Y of one file, next to each other: the patch is both, the target has X already."""
        order = list(range(len(self.line) // 6, len(self.line)))
        self.rng.shuffle(order)
        made = 0
        for index in order:
            commit = self.line[index]
            if made >= most or not 0 < len(commit.changes) <= 3 or commit.size() > MOST_LINES:
                continue
            if len([c for c in commit.changes if (c.new or "").endswith(".py")]) != 1:
                continue
            for older, state in self.steps_back(index, furthest):
                (path, entry), *_ = state.items()
                first = self.line[older]
                if first.size() > MOST_LINES or len(first.changes) > 3 or entry.get("renamed"):
                    break
                # The patch is Y over X; the file must not have changed between the two.
                change = next(c for c in commit.changes if c.new == path)
                mine = next((c for c in first.changes if c.new == path), None)
                if mine is None or mine.new_blob != change.old_blob or mine.binary or mine.old != path:
                    break
                theirs = self.repo.tree_with(
                    first.parent, {path: (self.repo.mode(first.parent, path), change.new_blob)}
                )
                kind = "squash-beside" if entry["touch"] else "squash"
                if kind == "squash" and self.counts["clean squash"] >= most // 3:
                    break
                made += self.carried(
                    kind, first.parent, theirs, commit.parent, {path: change.new_blob}, answer=commit.id
                )
                break

    # -- functions that moved -------------------------------------------------------------------

    def moved(self, most: int, furthest: int = 900) -> None:
        """Functions that went elsewhere word for word, and later edits of them."""
        made = 0
        for index in range(len(self.line) - 1, -1, -1):
            commit = self.line[index]
            if made >= most:
                return
            paths = [c for c in commit.changes if (c.new or c.old or "").endswith(".py")]
            if not paths or len(paths) > 120:
                continue
            lost = {x.strip() for c in paths for x in c.removed if "def " in x}
            if not lost & {x.strip() for c in paths for op in c.ops for x in op.new if "def " in x}:
                continue
            gone: dict[tuple[str, str], tuple[str, int, int, int]] = {}
            come: dict[str, dict[tuple[str, str], tuple[int, int, int]]] = defaultdict(dict)
            for change in paths:
                before = functions(self.repo.blob(change.old_blob)) if change.old and change.old_blob else {}
                after = functions(self.repo.blob(change.new_blob)) if change.new and change.new_blob else {}
                for key in before.keys() - after.keys():
                    gone[key[1:]] = (change.old or "", *before[key])
                for key in after.keys() - before.keys():
                    come[change.new or ""][key[1:]] = after[key]
            for path, there in sorted(come.items()):
                pairs = [(there[key], gone[key]) for key in sorted(there.keys() & gone.keys())]
                if pairs:
                    made += self.moved_edits(index, path, pairs, furthest)

    def moved_edits(
        self,
        index: int,
        path: str,
        pairs: list[tuple[tuple[int, int, int], tuple[str, int, int, int]]],
        furthest: int,
        most: int = 4,
    ) -> int:
        """Later commits that edit nothing of the file but functions that came there, on the old places."""
        made = 0
        before: list[list[Op]] = []  # what happened to the file since, oldest first
        base = self.line[index].parent
        for later, change in self.by_path[path]:
            if later <= index:
                continue
            if later - index > furthest or change.binary or change.old != path or made >= most:
                break
            ops: list[Op] | None = change.ops
            for earlier in reversed(before):
                back = pull_back(ops, earlier) if ops is not None else None
                ops = back[0] if back else None
            before.append(change.ops)
            commit = self.line[later]
            if ops is None or commit.size() > MOST_LINES:
                continue
            old: dict[str, list[Op]] = defaultdict(list)
            for op in ops:
                for (start, end, indent), (where, at, _, dent) in pairs:
                    if start <= op.a < end and op.b <= end and not op.a == op.b == start:
                        new = tuple(shifted(x, dent - indent) for x in op.new)
                        old[where].append(Op(op.a - start + at, op.b - start + at, new))
                        break
                else:
                    break
            if sum(map(len, old.values())) != len(ops):
                continue
            files: dict[str, tuple[str, str] | None] = {}
            for where, moved in old.items():
                text = self.repo.blob(f"{base}:{where}")
                new_text = None if text is None else apply_ops(text, sorted(moved, key=lambda o: (o.a, o.b)))
                if new_text is None or new_text == text or parses(new_text) is None:
                    break
                files[where] = (self.repo.mode(base, where), self.repo.write(new_text))
            if len(files) != len(old):
                continue
            theirs = self.repo.tree_with(base, files)
            kind = "moved-class" if set(files) == {path} else "moved-file"
            expect: dict[str, str | None] = {path: change.new_blob}
            made += self.carried(kind, base, theirs, commit.parent, expect, answer=commit.id)
        return made

    # -- already upstream -----------------------------------------------------------------------

    def upstream(self, each: int) -> None:
        """Merged commits at +50, +200 and +800; controls before the merge and after a revert."""
        top = len(self.line) - 1
        undone = self.undone()
        order = list(range(max(0, top - 2600), top - 60))
        self.rng.shuffle(order)
        full: Counter[int] = Counter()
        late = 0
        for index in order:
            commit = self.line[index]
            if commit.subject.startswith("Revert") or commit.id in undone:
                continue
            if not 0 < len(commit.changes) <= MOST_FILES or not 4 <= commit.size() <= MOST_LINES:
                continue
            if any(c.binary or c.new is None for c in commit.changes):
                continue
            if late >= each and all(full[d] >= each for d in (50, 200, 800)):
                break
            patch = self.repo.patch(commit.parent, commit.id)
            for distance in (50, 200, 800):
                if index + distance > top or full[distance] >= each and late >= each:
                    continue
                target = self.line[index + distance].id
                alive = self.alive(commit, index, index + distance)
                if alive == 1.0 and full[distance] < each:
                    if self.save(
                        "alive", "upstream", commit.parent, target, patch, "upstream", merged=commit.id
                    ):
                        full[distance] += 1
                elif 0.5 <= alive < 1.0 and late < each:
                    late += self.save(
                        "late",
                        "late",
                        commit.parent,
                        target,
                        patch,
                        "upstream",
                        merged=commit.id,
                        alive=alive,
                    )

    def alive(self, commit: Commit, index: int, until: int) -> float:
        """Which share of the added lines is still there, commit by commit; 0 where removed ones came back."""
        total = left = 0
        for change in commit.changes:
            path: str | None = change.new
            mine = [x for a, b in moved_ops(change.ops) for x in range(a, b)]
            anchors = [a for (a, b), op in zip(moved_ops(change.ops), change.ops) if a == b]
            total += len(mine) + len(anchors)
            for later in range(index + 1, until + 1):
                for other in self.line[later].changes:
                    if other.old != path or path is None:
                        continue
                    if other.new is None or other.binary and not other.ops:
                        mine, anchors, path = [], [], None
                        break
                    if set(x.strip() for x in change.removed if x.strip()) & {
                        x.strip() for op in other.ops for x in op.new
                    } and any(op.a <= a <= op.b for op in other.ops for a in (*mine, *anchors)):
                        return 0.0
                    mine = [y for x in mine if (y := forward(x, other.ops)) is not None]
                    anchors = [
                        y
                        for x in anchors
                        if not any(o.a <= x <= o.b for o in other.ops)
                        and (y := forward(x, other.ops)) is not None
                    ]
                    path = other.new
                    break
            left += len(mine) + len(anchors)
        return left / total if total else 0.0

    def undone(self) -> dict[str, int]:
        """Commit -> index of its revert, on the main line."""
        by_pr: dict[str, str] = {}
        out: dict[str, int] = {}
        for i, commit in enumerate(self.line):
            if commit.subject.startswith("Revert"):
                numbers = re.findall(r"#(\d+)", commit.subject)
                if numbers and numbers[0] in by_pr:
                    out[by_pr[numbers[0]]] = i
                continue
            if number := re.search(r"\(#(\d+)\)$", commit.subject):
                by_pr[number[1]] = commit.id
        return out

    def controls(self, each: int) -> None:
        """Targets on which the claim "already upstream" is wrong."""
        order = list(range(900, len(self.line)))
        self.rng.shuffle(order)
        made = 0
        for index in order:
            commit = self.line[index]
            if made >= each:
                break
            if not 0 < len(commit.changes) <= MOST_FILES or not 3 <= commit.size() <= MOST_LINES:
                continue
            if any(c.binary for c in commit.changes) or commit.subject.startswith("Revert"):
                continue
            distance = (1, 20, 100, 400)[made % 4]
            patch = self.repo.patch(commit.parent, commit.id)
            made += self.save(
                "before", "control", commit.parent, self.line[index - 1 - distance].id, patch, "not-upstream"
            )
        for name, index in sorted(self.undone().items()):
            commit = self.line[self.at[name]]
            if commit.size() > 400 or index - self.at[name] > 800:
                continue
            back = self.repo.raw(self.line[index].parent, self.line[index].id)
            if {r[0] for r in back} != {p for c in commit.changes for p in (c.old, c.new) if p}:
                continue
            patch = self.repo.patch(commit.parent, commit.id)
            self.save("undone", "control", commit.parent, self.line[index].id, patch, "not-upstream")


def named(text: str) -> dict[str, list[str]] | None:
    """Qualified name of each function -> its source (one name may be defined twice); None: not Python."""
    tree = parses(text)
    if tree is None:
        return None
    lines = text.split("\n")
    out: dict[str, list[str]] = defaultdict(list)

    def walk(body: list[ast.stmt], above: str) -> None:
        for node in body:
            if isinstance(node, ast.ClassDef):
                walk(node.body, f"{above}{node.name}.")
            elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
                out[above + node.name].append("\n".join(lines[node.lineno - 1 : node.end_lineno]))

    walk(tree.body, "")
    return out


def forward(line: int, ops: list[Op]) -> int | None:
    """Where a line is after the ops; None where they replaced it."""
    shift = 0
    for op in ops:
        if op.a <= line < op.b:
            return None
        if op.b <= line:
            shift += len(op.new) - (op.b - op.a)
    return line + shift


def shifted(line: str, dent: int) -> str:
    """A line with that much more (or less) indentation."""
    if not line.strip():
        return line
    return " " * dent + line if dent >= 0 else line[min(-dent, len(line) - len(line.lstrip())) :]


def functions(text: str | None) -> dict[tuple[str, str, str], tuple[int, int, int]]:
    """(qualified name, name, source without indentation) -> (first line, end, indent); 5 lines or more."""
    tree = parses(text or "")
    if tree is None or text is None:
        return {}
    lines = text.split("\n")
    out = {}

    def walk(body: list[ast.stmt], above: str) -> None:
        for node in body:
            if isinstance(node, ast.ClassDef):
                walk(node.body, f"{above}{node.name}.")
            elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
                a, b = node.lineno - 1, node.end_lineno or 0
                if b - a >= 5:
                    source = textwrap.dedent("\n".join(lines[a:b]))
                    out[(above + node.name, node.name, source)] = (a, b, node.col_offset)

    walk(tree.body, "")
    return out


def main() -> int:
    """Write all cases."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--repo", required=True, help="a clone of SGLang (bare or not), only read")
    parser.add_argument(
        "--out", required=True, type=Path, help="folder for the cases; must not exist or be empty"
    )
    parser.add_argument("--last", type=int, default=4500, help="commits of the main line to look at")
    parser.add_argument("--tip", default="refs/heads/main", help="newest commit of the main line to look at")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", default="", help="only these steps, with commas between")
    args = parser.parse_args()
    if args.out.exists() and any(args.out.iterdir()):
        print(f"{args.out} is not empty", file=sys.stderr)
        return 2
    scratch = args.out.with_name(args.out.name + ".scratch")
    miner = Miner(Repo(args.repo, scratch), args.out, args.last, args.seed, args.tip)
    print(f"{len(miner.line)} commits of the main line read", flush=True)
    steps = {
        "pairs": miner.pairs,
        "commuted": lambda: miner.commuted(16, 110),
        "squashed": lambda: miner.squashed(30),
        "moved": lambda: miner.moved(40),
        "upstream": lambda: miner.upstream(50),
        "controls": lambda: miner.controls(30),
    }
    for name, step in steps.items():
        if not args.only or name in args.only.split(","):
            step()
            print(name, dict(sorted(miner.counts.items())), flush=True)
    shutil.rmtree(scratch)
    return 0


if __name__ == "__main__":
    sys.exit(main())
