"""Repositories whose files are damaged: HEAD, refs, packs, indexes, loose objects; and what git answers."""

from __future__ import annotations

import io
import os
import shutil
import subprocess
from pathlib import Path

from auditor.errors import UserError
from auditor.trees.between import entry_of
from auditor.trees.commit import CommitTree, parse_tree_listing
from auditor.trees.git import GitRepo, MissingObject, _parse_commit
from auditor.trees.gitchild import Batch
from auditor.trees.worktree import WorktreeTree
from tests.fuzz import engine

STARTS = frozenset({"subprocess.Popen", "os.posix_spawn", "os.fork", "os.exec"})


def _made() -> Path:
    """A small repository: a commit in a pack, a loose one, a tag."""
    folder = engine.place() / "git-seed"
    env = {**os.environ, "GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_SYSTEM": "/dev/null"}
    env |= {
        f"GIT_{who}_{what}": value
        for who in ("AUTHOR", "COMMITTER")
        for what, value in (("NAME", "n"), ("EMAIL", "e"), ("DATE", "1700000000 +0100"))
    }

    def git(*words: str) -> None:
        subprocess.run(
            ["git", "-C", str(folder), *words],
            check=True,
            env=env,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )

    folder.mkdir(exist_ok=True)
    git("init", "-q", "-b", "main", ".")
    shutil.rmtree(folder / ".git" / "hooks", ignore_errors=True)
    for number in range(2):
        (folder / "a.py").write_text(f"a = {number}\n" * 5)
        git("add", "a.py")
        git("commit", "-q", "-m", f"c{number}")
        if not number:
            git("gc", "-q")
    git("tag", "v1.2.3")
    return folder


_SEED = _made()
_FILES = sorted(
    str(p.relative_to(_SEED))
    for p in (_SEED / ".git").rglob("*")
    if p.is_file() and p.name not in ("description", "exclude")
)
WORDS = (
    b"ref: refs/heads/main\n", b"ref: ref: ", b"gitdir: ../../x\n", b"\0", b"PACK\0\0\0\2", b"\xfftOc", b"tree ", b"committer n <e> 99999999999999999999 +9999\n",
    b"committer n <e> -1 -0x0\n", b"100644 blob ", b"\t", b"\x1f", b" missing\n", b" ambiguous\n", b" commit 18446744073709551616\n", b" commit 5\n", b"\xff",
    b"^" + b"0" * 40 + b"\n", b"[core]\n\tworktree = /\n", b"[include]\n\tpath = /dev/null\n", b"120000 ", b"160000 ",
)  # fmt: skip
#: The first byte says which file the rest is put into.
SEEDS = tuple(
    bytes([at]) + (_SEED / name).read_bytes()[: engine.LONGEST - 1] for at, name in enumerate(_FILES)
) + (
    b"\0100644 blob 0123456789012345678901234567890123456789\ta.py\x00120000 blob 0123456789012345678901234567890123456789\tl\0",
    b"\0tree 0123456789012345678901234567890123456789\nauthor n <e> 1 +0000\ncommitter n <e> 1700000000 +0100\n\nm\n",
    b"\x000123456789012345678901234567890123456789 commit 3\nabc\n0123 missing\n",
    b"\x000123456789012345678901234567890123456789\x1f2024-01-01\x1fsubject (#12)",
)


def one_input(data: bytes) -> None:
    at, rest = data[:1], data[1:]
    parse_tree_listing(rest)
    facts = _parse_commit("0" * 40, rest)
    assert isinstance(facts.date, str)
    entry_of(rest.decode("utf-8", "replace"))
    batch = object.__new__(Batch)
    batch._out = io.BytesIO(rest)
    for _ in range(5):
        if batch.answer()[1] == b"ended":
            break
    folder = engine.place() / "git"
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(_SEED, folder)
    target = folder / _FILES[(at[0] if at else 0) % len(_FILES)]
    target.chmod(0o644)
    target.write_bytes(rest)
    repo = GitRepo.at(folder)
    if repo is None:
        return
    try:
        for look in (_head, _commits, _worktree):
            try:
                look(repo)
            except (UserError, MissingObject):
                continue
    finally:
        repo.close()


def _head(repo: GitRepo) -> None:
    repo.head_ref()
    repo.refs()
    repo.first_commit(["v1.2.3", "main"])


def _commits(repo: GitRepo) -> None:
    for rev in ("HEAD", "main", "v1.2.3", "main~1"):
        try:
            tree = CommitTree(repo, rev)
            tree.info()
            for path in tree.blobs():
                tree.read(path)
        except UserError:
            continue


def _worktree(repo: GitRepo) -> None:
    tree = WorktreeTree(repo)
    tree.info()
    dict(tree.blobs())
