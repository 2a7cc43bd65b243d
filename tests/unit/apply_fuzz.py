"""Random trees and diffs, carried by us and by git: where git says yes, the bytes are the same.

``cases(rng, count)`` makes them, all diffs by one git process; ``judged`` applies one with ``git apply`` and with
ours and says what came of it; ``mailed`` does the same with ``git am``.
"""

from __future__ import annotations

import os
import random
import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from auditor.errors import UserError
from auditor.patching.diffs.parse import OPT_IN, parse_patch
from auditor.patching.model import ChangeSet, FileChange, Outcome
from auditor.patching.planning.filemodes import with_modes
from auditor.patching.port.carry import port
from auditor.patching.port.hunks import reverse
from auditor.queries.exampletree import MemoryTree
from auditor.trees.names import blob_id

Tree = dict[str, tuple[bytes, str]]  # path -> content, mode
PATHS = (
    "a.py",
    "pkg/b.py",
    "pkg/deep/c.txt",
    "ü/ö.txt",
    "sp ace.txt",
    'q"uote.py',
    "+x",
    "- y",
    "e.bin",
    "a",
    "Z.md",
)
_LINES = (
    b"def f(x):\n", b"    return x\n", b"    if x:\n", b"        pass\n", b"\n", b"import os\n", b"x = 1\n", b"y = 2\n", b"# c\n", b"    y = f(x)\n",
    b"class C:\n", b"    on = True\n", b"}\n", b"{\n", b"-- \n", b"+++ b\n", b"--- a\n", b"@@ -1 +1 @@\n", b"diff --git a/a b/a\n", b"\xff\n", b"ab  \n", b"\t\n",
)  # fmt: skip
_ENV = {
    **{k: v for k, v in os.environ.items() if not k.startswith("GIT_")},
    "GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_SYSTEM": "/dev/null", "GIT_CEILING_DIRECTORIES": "/", "LC_ALL": "C.UTF-8",
    "GIT_AUTHOR_NAME": "n", "GIT_AUTHOR_EMAIL": "e", "GIT_COMMITTER_NAME": "n", "GIT_COMMITTER_EMAIL": "e",
    "GIT_AUTHOR_DATE": "1700000000 +0000", "GIT_COMMITTER_DATE": "1700000000 +0000",
}  # fmt: skip


def git(where: Path, *words: str, data: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    """Run git there."""
    return subprocess.run(["git", *words], cwd=where, input=data, env=_ENV, capture_output=True, check=False)


# trees


def text(rng: random.Random, lines: int | None = None) -> bytes:
    """Lines with many that are the same, so that places are ambiguous now and then."""
    some = rng.sample(_LINES, rng.randrange(3, len(_LINES)))
    out = [
        rng.choice(some) if rng.random() < 0.5 else b"line %d\n" % rng.randrange(500)
        for _ in range(lines if lines is not None else rng.randrange(30))
    ]
    if rng.random() < 0.1:
        out = [line.replace(b"\n", b"\r\n") for line in out]
    if out and rng.random() < 0.25:
        out[-1] = out[-1].rstrip(b"\r\n") or b"end"
    return b"".join(out)


def content(rng: random.Random) -> bytes:
    """Text mostly; now and then nothing, or binary."""
    form = rng.randrange(12)
    if form == 0:
        return b""
    if form == 1:
        return bytes(rng.randrange(256) for _ in range(rng.randrange(1, 60))) + b"\0"
    return text(rng)


def changed(rng: random.Random, data: bytes) -> bytes:
    """The same with a few lines put in, taken out or replaced."""
    lines = data.split(b"\n")
    for _ in range(1 + rng.randrange(3)):
        at = rng.randrange(len(lines) + 1)
        form = rng.randrange(5)
        if form == 0:
            lines[at:at] = [b"new %d" % rng.randrange(99)] * (1 + rng.randrange(2))
        elif form == 1:
            del lines[at : at + 1 + rng.randrange(3)]
        elif form == 2:
            lines[at : at + 1] = [b"other %d" % rng.randrange(99)]
        elif form == 3:
            lines[at:at] = [rng.choice(_LINES).rstrip(b"\n")]
        else:
            lines = lines[:-1] if lines[-1:] == [b""] else [*lines, b""]
    return b"\n".join(lines)


def base_tree(rng: random.Random) -> Tree:
    """A handful of files."""
    chosen = rng.sample(PATHS, rng.randrange(1, 5))
    if "a" in chosen and "a.py" in chosen:
        chosen.remove("a")
    return {path: (content(rng), "100755" if rng.random() < 0.15 else "100644") for path in chosen}


def next_tree(rng: random.Random, tree: Tree) -> Tree:
    """The tree after a commit: changes, new files, removals, renames, modes."""
    out = dict(tree)
    for path in list(out):
        data, mode = out[path]
        form = rng.randrange(10)
        if form < 5:
            out[path] = (changed(rng, data), mode)
        elif form == 5:
            del out[path]
        elif form == 6:
            free = [p for p in PATHS if p not in out]
            del out[path]
            out[rng.choice(free)] = (
                changed(rng, data) if rng.random() < 0.5 and len(data) > 100 else data,
                mode,
            )
        elif form == 7:
            out[path] = (data, "100755" if mode == "100644" else "100644")
    free = [p for p in PATHS if p not in out]
    if rng.random() < 0.3 and free:
        out[rng.choice(free)] = (content(rng), "100644")
    return out


def other_tree(rng: random.Random, tree: Tree, after: Tree) -> tuple[str, Tree]:
    """The tree that the diff is carried to, and how it came from ``tree``."""
    form = rng.choice(("same", "same", "shifted", "shifted", "disturbed", "applied", "half"))
    out = dict(tree)
    if form == "applied":
        return form, dict(after)
    for path, (data, mode) in tree.items():
        if form == "shifted" and b"\0" not in data and rng.random() < 0.7:
            more = b"".join(b"above %d\n" % n for n in range(rng.randrange(1, 9)))
            out[path] = (
                (more + data, mode) if rng.random() < 0.7 or not data.endswith(b"\n") else (data + more, mode)
            )
        elif form == "disturbed" and rng.random() < 0.7:
            out[path] = (changed(rng, data), mode)
        elif form == "half" and rng.random() < 0.5:
            if path in after:
                out[path] = after[path]
            else:
                del out[path]
    return form, out


# diffs


@dataclass(frozen=True)
class Case:
    """A diff from ``base`` to ``after``, and the tree it is carried to."""

    number: int
    base: Tree
    after: Tree
    form: str
    ours: Tree
    diff: bytes


def cases(rng: random.Random, count: int, where: Path, *options: str) -> Iterator[Case]:
    """So many cases, those without a difference left out. ``options`` go to git's diff."""
    pairs = []
    stream = []
    for number in range(count):
        base = base_tree(rng)
        after = next_tree(rng, base)
        pairs.append((base, after))
        for side, tree in (("a", base), ("b", after)):
            stream.append(
                b"commit refs/heads/%d%s\ncommitter n <e> 1700000000 +0000\ndata 0\ndeleteall\n"
                % (number, side.encode())
            )
            for path, (data, mode) in tree.items():
                name = '"' + "".join(f"\\{byte:03o}" for byte in path.encode()) + '"'
                stream.append(f"M {mode} inline {name}\ndata {len(data)}\n".encode() + data + b"\n")
    repo = where / "repo"
    repo.mkdir(parents=True)
    assert git(repo, "init", "-q", "--bare", ".").returncode == 0
    done = git(repo, "fast-import", "--quiet", data=b"".join(stream))
    assert done.returncode == 0, done.stderr
    names = "".join(f"{n}{side}^{{tree}}\n" for n in range(count) for side in "ab")
    trees = [
        line.split()[0]
        for line in git(repo, "cat-file", "--batch-check", data=names.encode()).stdout.splitlines()
    ]
    asked = b"".join(trees[2 * n] + b" " + trees[2 * n + 1] + b"\n" for n in range(count))
    listed = git(
        repo, "diff-tree", "--stdin", "-p", "-r", "-M", "--full-index", "--binary", *options, data=asked
    ).stdout
    heads = list(re.finditer(rb"(?m)^([0-9a-f]{40}) ([0-9a-f]{40})\n", listed))
    ends = [head.start() for head in heads[1:]] + [len(listed)]
    diffs = {(h[1], h[2]): listed[h.end() : end] for h, end in zip(heads, ends)}
    for number, (base, after) in enumerate(pairs):
        diff = diffs.get((trees[2 * number], trees[2 * number + 1]), b"")
        if diff.strip():
            form, ours = other_tree(rng, base, after)
            yield Case(number, base, after, form, ours, diff)


# what comes of it


def by_git(case: Case, where: Path, *words: str) -> Tree | None:
    """The tree after ``git apply``, None where it refuses."""
    shutil.rmtree(where, ignore_errors=True)
    where.mkdir(parents=True)
    for path, (data, mode) in case.ours.items():
        file = where / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(data)
        file.chmod(int(mode[3:], 8))
    if git(where, "apply", "--whitespace=nowarn", *words, "-", data=case.diff).returncode:
        return None
    out: Tree = {}
    for file in sorted(where.rglob("*")):
        if file.is_file():
            out[str(file.relative_to(where))] = (
                file.read_bytes(),
                "100755" if file.stat().st_mode & 0o100 else "100644",
            )
    return out


def by_us(changes: ChangeSet, ours: Tree, known: Mapping[str, bytes]) -> tuple[Outcome, Tree]:
    """What we say, and the tree after it."""
    tree = MemoryTree({path: data for path, (data, _) in ours.items()})
    outcome = port(changes, tree, blobs=lambda oid: _blob(known, oid))
    outcome = with_modes(changes, outcome, tree, lambda path: ours[path][1] == "100755")
    out = dict(ours)
    for path, made in outcome.files.items():
        if made is None:
            del out[path]
        else:
            out[path] = (made, out.get(path, (b"", "100644"))[1])
    for path, mode in outcome.modes.items():
        out[path] = (out[path][0], mode)
    return outcome, out


def _blob(known: Mapping[str, bytes], oid: str) -> bytes | None:
    found = [data for name, data in known.items() if name.startswith(oid)]
    return found[0] if len(found) == 1 else None


def read(case: Case) -> ChangeSet | str:
    """The diff as we read it, or the code of the error."""
    try:
        return parse_patch(case.diff, "case.patch", allow=OPT_IN)
    except UserError as error:
        return error.code


def judged(case: Case, where: Path) -> tuple[str, str]:
    """A word for what came of a case, and the detail of a fault ("" where there is none)."""
    theirs = by_git(case, where)
    changes = read(case)
    if isinstance(changes, str):
        return f"{case.form}: refused {changes}, git {'yes' if theirs is not None else 'no'}", ""
    base = {blob_id(data): data for data, _ in case.base.values()}
    words = []
    for known in (base, {}):
        outcome, made = by_us(changes, case.ours, known)
        words.append(f"{outcome.status}{'' if known else ' (base unknown)'}")
        if outcome.status == "conflict":
            if theirs is not None and known:
                return f"{case.form}: conflict, git yes", shown(case, outcome, made, theirs)
            continue
        if theirs is not None and made != theirs and not only_line_ends(changes, made, theirs):
            return f"{case.form}: other bytes, {words[-1]}, git yes", shown(case, outcome, made, theirs)
        if theirs is None and known:
            why = unlike_a_merge(case, changes, outcome, where)
            if why:
                return f"{case.form}: {why}", shown(case, outcome, made, theirs)
        if outcome.status == "clean" and theirs is None and case.form == "same":
            return f"{case.form}: clean, git no", shown(case, outcome, made, theirs)
        if (
            case.form == "same"
            and known
            and outcome.status in ("clean", "partly", "look")
            and made != case.after
        ):
            return f"{case.form}: not what the diff says", shown(case, outcome, made, theirs)
        if case.form == "applied" and made != case.after:
            return f"{case.form}: done twice", shown(case, outcome, made, theirs)
        copied = any(change.copied for change in changes.changes)  # the inverse removes what it does not name
        if case.form == "same" and known and outcome.status == "clean" and not copied:
            back, again = by_us(turned(changes), made, {blob_id(d): d for d, _ in case.after.values()})
            if again != case.ours:
                return f"{case.form}: not undone", shown(case, back, again, case.ours)
    return f"{case.form}: {', '.join(words)}, git {'yes' if theirs is not None else 'no'}", ""


def only_line_ends(changes: ChangeSet, made: Tree, theirs: Tree) -> bool:
    """Whether all that differs is the end of a last line that is context without one in the diff.

    Git takes the end of such a line away where the tree has one; a line that a patch does not change stays as
    it is with us.
    """
    context = {c.path for c in changes.changes if c.hunks and c.hunks[-1].lines[-1][0] == " "}
    other = {path for path in {*made, *theirs} if made.get(path) != theirs.get(path)}
    return other <= context and all(
        path in made and path in theirs and made[path] == (theirs[path][0] + b"\n", theirs[path][1])
        for path in other
    )


def unlike_a_merge(case: Case, changes: ChangeSet, outcome: Outcome, where: Path) -> str:
    """What is wrong with files that were carried where ``git apply`` refuses: they are what a merge gives."""
    for change in changes.changes:
        path = change.new_path
        if (
            change.old_path is None
            or path is None
            or path not in outcome.files
            or change.old_path not in case.ours
        ):
            continue
        versions = [case.ours[change.old_path][0], case.base[change.old_path][0], case.after[path][0]]
        if any(b"\0" in data for data in versions):
            continue
        hunks = [h for h in outcome.hunks if h.path == change.path]
        if any(h.status in ("upstream", "partly", "look") for h in hunks):
            continue  # what is there already, or is for a person to look at, says so
        proofs = {h.proof for h in hunks}
        for name, data in zip("abc", versions):
            (where / name).write_bytes(data)
        merged = git(where, "merge-file", "-p", "a", "b", "c")
        if merged.returncode == 0 and merged.stdout != outcome.files[path]:
            return f"other bytes than a merge ({', '.join(sorted(proofs)) or 'none'})"
        if merged.returncode != 0 and proofs and proofs <= {"preimage identical", "three-way merge"}:
            return "clean, and a merge has conflicts"
    return ""


def turned(changes: ChangeSet) -> ChangeSet:
    """The change set that undoes it."""
    return ChangeSet(
        tuple(
            FileChange(
                change.new_path, change.old_path, tuple(map(reverse, change.hunks)), change.new_blob, change.old_blob, change.new_mode, change.old_mode, change.binary_old, change.binary, change.delta_old, change.delta,
            )
            for change in changes.changes
        )
    )  # fmt: skip


def shown(case: Case, outcome: Outcome, made: Tree, theirs: Tree | None) -> str:
    """A fault for whoever has to find it."""
    parts = [
        f"diff:\n{case.diff.decode('utf-8', 'backslashreplace')}",
        f"tree: {case.ours}",
        f"{outcome.status}: {outcome.hunks}",
        f"ours: {made}",
        f"git: {theirs}",
    ]
    return "\n".join(parts)


# mails


def mailed(case: Case, where: Path) -> tuple[str, str]:
    """The same with ``git am`` of the mail that ``git format-patch`` makes of the commit."""
    shutil.rmtree(where, ignore_errors=True)
    where.mkdir(parents=True)
    git(where, "init", "-q", "-b", "main", ".")
    for tree, name in ((case.base, "base"), (case.after, "after"), (case.ours, "ours")):
        git(where, "rm", "-rqf", "--ignore-unmatch", ".")
        for path, (data, mode) in tree.items():
            file = where / path
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(data)
            file.chmod(int(mode[3:], 8))
        git(where, "add", "-A")
        assert git(where, "commit", "-q", "--allow-empty", "-m", f"{name} für ü").returncode == 0
        git(where, "tag", name)
    mail = git(where, "format-patch", "--stdout", "--binary", "--full-index", "base..after").stdout
    done = git(where, "-c", "core.autocrlf=false", "am", "-q", "--keep-cr", data=mail)
    theirs: Tree | None = None
    if done.returncode == 0:
        theirs = {}
        for file in where.rglob("*"):
            if file.is_file() and ".git" not in file.relative_to(where).parts:
                mode = "100755" if file.stat().st_mode & 0o100 else "100644"
                theirs[str(file.relative_to(where))] = (file.read_bytes(), mode)
    try:
        changes = parse_patch(mail, "case.patch", allow=OPT_IN)
    except UserError as error:
        return f"{case.form}: refused {error.code}, git {'yes' if theirs is not None else 'no'}", ""
    outcome, made = by_us(changes, case.ours, {blob_id(data): data for data, _ in case.base.values()})
    if changes.subject != "after für ü":
        return "subject", shown(case, outcome, made, theirs) + repr(changes.subject)
    if theirs is not None and (outcome.status == "conflict" or made != theirs):
        return f"{case.form}: other, {outcome.status}, git yes", shown(case, outcome, made, theirs)
    return f"{case.form}: {outcome.status}, git {'yes' if theirs is not None else 'no'}", ""
