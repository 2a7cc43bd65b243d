"""Run a port command over cases with a certain answer and say what it got right.

    python scripts/port_score.py --repo CLONE --cases FOLDER [--in-process | --command "TOOL ..."] \\
        [--tool auditor|git-apply|git-apply-3|cherry-pick|patch-F3] [--list] [--json FILE]

``scripts/port_cases.py`` makes the cases. Each is run in one work tree (a clone that shares the objects of
CLONE, made below ``--work``) at the target, with ``--patch FILE --root DIR --base REV --tip REV`` after the
command (``--no-revs``: without the last two), and judged by what it left behind:

    exit 0 or 11    *right*: every file the answer changes has the same statements, and no other file
                    changed; *order*: the same statements in another order; else *wrong*. 11 (needs a look)
                    is counted beside: a doubtful one that is flagged is not silent.
    exit 3          *refused*; the tree must be untouched, else *wrong*
    exit 10         nothing to do; right where the answer says so and the tree is untouched, else *wrong*
    anything else   *failed*, which no tool may be

Free for Python: the order of statements of a module or class body, of keywords in a call, of imports and
of the names of one import; comments and layout. Everything else, and every other kind of file, is compared
as it stands. Exit code 1 if anything is wrong or failed.
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import io
import json
import os
import shlex
import subprocess
import sys
import time
import tokenize
from collections import Counter, defaultdict
from dataclasses import dataclass
from pathlib import Path
from typing import Any

# -- comparing two files ------------------------------------------------------------------------------


def _dump(node: object, bag: bool) -> str:
    """A text of a syntax tree in which what may stand in any order is sorted; ``bag``: everything is."""
    if isinstance(node, list):
        parts = [_dump(x, bag) for x in node]
        return "[" + ",".join(sorted(parts) if bag else parts) + "]"
    if not isinstance(node, ast.AST):
        return repr(node)
    if isinstance(node, ast.Constant):
        return f"{type(node.value).__name__} {node.value!r}"
    cells = []
    for name, value in ast.iter_fields(node):
        if name in ("ctx", "kind", "type_comment", "type_ignores"):
            continue
        if isinstance(value, list) and value and isinstance(value[0], ast.stmt):
            free = isinstance(node, (ast.Module, ast.ClassDef)) and name == "body"
            cells.append(f"{name}={_body(value, free, bag)}")
        elif isinstance(node, ast.Call) and name == "keywords":
            cells.append("keywords=" + ",".join(sorted(_dump(x, bag) for x in value)))
        else:
            cells.append(f"{name}={_dump(value, bag)}")
    if isinstance(node, ast.Dict) and bag:
        pairs = sorted(f"{_dump(k, bag)}:{_dump(v, bag)}" for k, v in zip(node.keys, node.values))
        return f"Dict({pairs})"
    return f"{type(node).__name__}({';'.join(cells)})"


def _body(body: list[ast.stmt], free: bool, bag: bool) -> str:
    """A list of statements: imports one name each, and each run of imports sorted."""
    out: list[str] = []
    run: list[str] = []
    for stmt in body:
        if isinstance(stmt, (ast.Import, ast.ImportFrom)):
            origin = "" if isinstance(stmt, ast.Import) else f"{'.' * stmt.level}{stmt.module}"
            run += [f"import {origin}:{a.name}:{a.asname}" for a in stmt.names]
        else:
            out += [*sorted(run), _dump(stmt, bag)]
            run = []
    out += sorted(run)
    return "{" + "\n".join(sorted(out) if free or bag else out) + "}"


def compare_python(got: str, want: str) -> str:
    """``right``, ``order`` or ``wrong`` for two Python texts. The wanted one parses."""
    try:
        one = ast.parse(got)
    except (SyntaxError, ValueError, RecursionError):
        return "wrong"
    two = ast.parse(want)
    if _dump(one, False) == _dump(two, False):
        return "right"
    return "order" if _dump(one, True) == _dump(two, True) else "wrong"


def compare(path: str, got: bytes | None, want: bytes | None) -> str:
    """The verdict for one file; None: there is no such file."""
    if got == want:
        return "right"
    if got is None or want is None:
        return "wrong"
    if path.endswith((".py", ".pyi")):
        try:
            text = want.decode()
            ast.parse(text)
            return compare_python(got.decode(), text)
        except (SyntaxError, ValueError):
            pass
    return "order" if sorted(got.splitlines()) == sorted(want.splitlines()) else "wrong"


def comments(data: bytes) -> Counter[str]:
    """The comments of a Python file, counted."""
    with contextlib.suppress(tokenize.TokenError, SyntaxError, ValueError):
        return Counter(
            t.string for t in tokenize.tokenize(io.BytesIO(data).readline) if t.type == tokenize.COMMENT
        )
    return Counter()


# -- the work tree ------------------------------------------------------------------------------------


class WorkTree:
    """One checkout that shares the objects of a clone and is put back before every case."""

    def __init__(self, repo: str, root: Path) -> None:
        self.root = root
        self.env = {k: v for k, v in os.environ.items() if not k.startswith("GIT_")}
        self.env.update(GIT_NO_LAZY_FETCH="1", GIT_CONFIG_GLOBAL=os.devnull, LC_ALL="C")
        for role in ("AUTHOR", "COMMITTER"):
            self.env.update({f"GIT_{role}_NAME": "n", f"GIT_{role}_EMAIL": "e"})
        self.texts: dict[str, bytes] = {}
        self.at = ""
        if not (root / ".git").exists():
            store = subprocess.run(
                ["git", "-c", "safe.directory=*", "-C", repo, "rev-parse", "--git-path", "objects"],
                stdout=subprocess.PIPE, check=True, text=True,
            ).stdout.strip()  # fmt: skip
            self.git("init", "-q", str(root), cwd=None)
            where = root / ".git/objects/info/alternates"
            where.write_text(f"{Path(repo, store).resolve()}\n")
            for name, value in (
                ("gc.auto", "0"),
                ("core.untrackedCache", "true"),
                ("core.hooksPath", os.devnull),
            ):
                self.git("config", name, value)

    def git(self, *args: str, cwd: Path | None = Path(), stdin: bytes | None = None) -> tuple[int, bytes]:
        """(exit status, what it printed)."""
        done = subprocess.run(
            ["git", "-c", "core.quotePath=false", *args],
            cwd=self.root if cwd == Path() else cwd,
            input=stdin,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=self.env,
        )
        return done.returncode, done.stdout

    def put(self, commit: str) -> None:
        """The tree of the commit, nothing else."""
        rc, _ = self.git("checkout", "-q", "-f", "--detach", commit)
        if rc:
            raise RuntimeError(f"{commit} cannot be checked out")
        self.git("clean", "-fdxq")
        self.at = commit

    def prepare(self, patch: str) -> str:
        """A commit of our own with this patch on the tree; its id."""
        self.git("apply", "--index", "--whitespace=nowarn", stdin=patch.encode("utf-8", "surrogateescape"))
        rc, _ = self.git("commit", "-q", "--no-verify", "-m", "prepared")
        if rc:
            raise RuntimeError(f"{self.at}: the preparing patch does not apply")
        self.at = self.git("rev-parse", "HEAD")[1].decode().strip()
        return self.at

    def changed(self) -> set[str]:
        """Paths that are not as in the commit: content, mode, new, gone."""
        _, out = self.git("status", "--porcelain", "-z", "--no-renames", "-uall", "--ignored")
        # Renames are never folded, so every entry is "XY path".
        return {e[3:].decode("utf-8", "surrogateescape") for e in out.split(b"\0") if e}

    def same_mode(self, path: str) -> bool:
        """Whether an existing file is executable exactly if it was in the commit."""
        _, out = self.git("ls-tree", self.at, "--", path)
        full = self.root / path
        if not out or not full.exists() or full.is_symlink():
            return True
        return out.startswith(b"100755") == bool(full.stat().st_mode & 0o100)

    def read(self, path: str) -> bytes | None:
        """The bytes of a file, None where there is none."""
        full = self.root / path
        if full.is_symlink():
            return os.readlink(full).encode()
        return full.read_bytes() if full.is_file() else None

    def blob(self, name: str) -> bytes:
        """The bytes of an object."""
        if name in self.texts:
            return self.texts[name]
        rc, out = self.git("cat-file", "blob", name)
        if rc:
            raise RuntimeError(f"no blob {name}")
        return out


# -- the tools ----------------------------------------------------------------------------------------


def run_command(argv: list[str], in_process: bool) -> tuple[int, str]:
    """(exit status, what it said) of a port command."""
    if not in_process:
        done = subprocess.run(
            argv, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace"
        )
        return done.returncode, done.stdout
    from auditor.cli.main import umbrella  # the project is run from its own folder

    out = io.StringIO()
    before, sys.argv = sys.argv, ["sglang-auditor", *argv]
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(out):
        try:
            code = umbrella()
        except SystemExit as stop:
            code = stop.code if isinstance(stop.code, int) else 1
        except Exception as error:
            print(f"{type(error).__name__}: {error}")
            code = 4
    sys.argv = before
    return int(code or 0), out.getvalue()


def run_baseline(tool: str, tree: WorkTree, patch: Path, base: str) -> tuple[int, str]:
    """One of today's tools, with its exit status in our words."""
    full = str(patch.resolve())
    if tool == "patch-F3":
        done = subprocess.run(
            ["patch", "-p1", "-F3", "-f", "-s", "--no-backup-if-mismatch", "-i", full],
            cwd=tree.root, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        )  # fmt: skip
        code = done.returncode
    elif tool == "cherry-pick":
        index = {**tree.env, "GIT_INDEX_FILE": str(tree.root / ".git/other-index")}
        for args in (["read-tree", base], ["apply", "--cached", full]):
            if subprocess.run(["git", *args], cwd=tree.root, env=index, stderr=subprocess.DEVNULL).returncode:
                return 4, "the patch does not apply to its own base"
        made = subprocess.run(["git", "write-tree"], cwd=tree.root, env=index, stdout=subprocess.PIPE)
        theirs = made.stdout.decode().strip()
        commits: list[str] = []
        for of, parent in ((f"{base}^{{tree}}", ""), (theirs, "0")):
            more = ["-p", commits[0]] if parent else []
            commits.append(tree.git("commit-tree", "-m", "x", *more, of)[1].decode().strip())
        code, _ = tree.git("cherry-pick", "--allow-empty", "--keep-redundant-commits", "-n", commits[1])
        if code:
            tree.git("cherry-pick", "--quit")
    else:
        code, _ = tree.git("apply", *(["-3"] if tool == "git-apply-3" else []), full)
    if code:
        tree.put(tree.at)  # what a failed one leaves behind is thrown away, as a person would
        return 3, ""
    return (0 if tree.changed() else 10), ""


# -- judging ------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Verdict:
    """One case: the word that is counted, whether it was flagged, and why."""

    case: str
    klass: str
    kind: str
    word: str
    code: int
    why: str = ""
    seconds: float = 0.0


def judge(meta: dict[str, Any], code: int, tree: WorkTree) -> tuple[str, str]:
    """(word, why) for what a run left in the tree."""
    changed = tree.changed()
    expect = meta["expect"]
    if code in (3, 10) and changed:
        return "wrong", f"exit {code}, yet changed {sorted(changed)[:3]}"
    if code not in (0, 3, 10, 11):
        return "failed", f"exit {code}"
    nothing = code == 10 or (code in (0, 11) and not changed)
    if expect == "not-upstream":
        return ("wrong", "claimed to be upstream") if nothing else ("right", "")
    if code == 3:
        return "refused", ""
    if expect == "upstream":
        return ("right", "") if nothing else ("wrong", f"changed {sorted(changed)[:3]}")
    if nothing:
        return "wrong", "claimed to be upstream"
    if extra := sorted(changed - set(expect)):
        return "wrong", f"changed {extra[:3]}"
    words = {}
    for path, blob in expect.items():
        got = tree.read(path)
        words[path] = compare(path, got, None if blob is None else tree.blob(blob))
        if blob is not None and got is not None and not tree.same_mode(path) and not meta.get("modes"):
            words[path] = "wrong"
    for word in ("wrong", "order"):
        if bad := [p for p, w in words.items() if w == word]:
            return word, f"{word}: {bad[0]}"
    lost = [
        p
        for p, b in expect.items()
        if b and p.endswith(".py") and comments(tree.read(p) or b"") != comments(tree.blob(b))
    ]
    return "right", f"other comments: {lost[0]}" if lost else ""


def run_cases(args: argparse.Namespace, cases: list[Path]) -> list[Verdict]:
    """All verdicts, in the order of the cases."""
    tree = WorkTree(args.repo, args.work)
    metas = {c: json.loads((c / "meta.json").read_text(encoding="utf-8")) for c in cases}
    targets = sorted({m["target"] for m in metas.values()})
    _, dates = tree.git("log", "--no-walk=unsorted", "--format=%ct", *targets)
    when = dict(zip(targets, map(int, dates.split())))  # neighbours in time differ in few files
    out = []
    for case in sorted(cases, key=lambda c: (when[metas[c]["target"]], metas[c]["target"], c.name)):
        meta = metas[case]
        tree.put(meta["target"])
        if "prepare" in meta:
            meta["target"] = tree.prepare(meta["prepare"])
        if meta.get("literal"):  # answers that no commit of the clone has
            tree.texts = {
                f"text {n}": t.encode("utf-8", "surrogateescape")
                for n, t in enumerate(meta["expect"].values())
            }
            meta["expect"] = dict(zip(meta["expect"], tree.texts))
        start = time.monotonic()
        if args.tool == "auditor":
            argv = ["patches", "port"] if args.in_process else shlex.split(args.command)
            argv += ["--patch", str((case / "patch").resolve()), "--root", str(tree.root.resolve())]
            argv += [] if args.no_revs else ["--base", meta["base"], "--tip", meta["target"]]
            code, said = run_command(argv, args.in_process)
        else:
            code, said = run_baseline(args.tool, tree, case / "patch", meta["base"])
        took = time.monotonic() - start
        word, why = judge(meta, code, tree)
        if word == "failed":
            why += ": " + (said.strip().splitlines() or [""])[-1][:150]
        out.append(Verdict(case.name, meta["class"], meta["kind"], word, code, why, took))
        if args.verbose:
            print(f"{case.name}: {word} (exit {code}, {took:.2f} s) {why}", flush=True)
    return sorted(out, key=lambda v: v.case)


WORDS = ("right", "right?", "order", "order?", "wrong", "wrong?", "refused", "failed")


def table(verdicts: list[Verdict], kinds: bool) -> list[str]:
    """Counts as a Markdown table; a question mark: flagged with exit 11."""
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    for v in verdicts:
        flag = "?" if v.code == 11 and v.word in ("right", "order", "wrong") else ""
        counts[f"{v.klass} {v.kind}" if kinds else v.klass][v.word + flag] += 1
    lines = ["| cases | all | " + " | ".join(WORDS) + " |", "| --- |" + " --- |" * (len(WORDS) + 1)]
    for name, row in sorted(counts.items()):
        lines.append(
            f"| {name} | {sum(row.values())} | " + " | ".join(str(row[w] or "") for w in WORDS) + " |"
        )
    return lines


def main() -> int:
    """Run, print, and fail if anything is wrong."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--repo", required=True, help="the clone that the cases were made from")
    parser.add_argument("--cases", required=True, type=Path)
    parser.add_argument(
        "--work", type=Path, help="folder for the work tree, best in memory (beside the cases)"
    )
    parser.add_argument("--command", default=f"{sys.executable} -m auditor patches port")
    parser.add_argument(
        "--in-process", action="store_true", help="call the project's main instead of a command"
    )
    parser.add_argument(
        "--tool",
        default="auditor",
        choices=("auditor", "git-apply", "git-apply-3", "cherry-pick", "patch-F3"),
    )
    parser.add_argument("--no-revs", action="store_true", help="do not name base and tip")
    parser.add_argument("--only", default="", help="only cases whose name contains this")
    parser.add_argument("--sample", type=int, default=0, help="at most so many cases of each kind")
    parser.add_argument("--list", action="store_true", help="every case that is not right")
    parser.add_argument("--verbose", action="store_true")
    parser.add_argument("--json", type=Path, help="write all verdicts here")
    args = parser.parse_args()
    args.work = args.work or args.cases.with_name(args.cases.name + ".work")
    cases = sorted(p.parent for p in args.cases.glob("*/meta.json") if args.only in p.parent.name)
    if args.sample:
        cases = [c for c in cases if int(c.name.rsplit("-", 1)[1]) <= args.sample]
    if not cases:
        print(f"no cases in {args.cases}", file=sys.stderr)
        return 2
    if args.in_process:
        sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
    verdicts = run_cases(args, cases)
    print("\n".join([*table(verdicts, False), "", *table(verdicts, True)]))
    took = sorted(v.seconds for v in verdicts)
    print(f"\nseconds per case: median {took[len(took) // 2]:.2f}, most {took[-1]:.2f}")
    if args.list:
        for v in verdicts:
            if v.word != "right" or v.why:
                print(f"{v.case}: {v.word} (exit {v.code}) {v.why}")
    if args.json:
        args.json.write_text(json.dumps([vars(v) for v in verdicts], indent=1) + "\n", encoding="utf-8")
    return 1 if any(v.word in ("wrong", "failed") for v in verdicts) else 0


if __name__ == "__main__":
    sys.exit(main())
