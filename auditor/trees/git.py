"""A git repository: its revisions, objects, refs and listings.

Foreign repositories are read, never trusted: ``--git-dir`` is always explicit (so git neither walks up
from the current folder nor refuses a repository owned by somebody else), only plumbing that runs no
hook, filter, pager or diff driver is used, no transport is allowed unless a caller asks for the network,
and nothing in the repository is written by a read. The children are those of :mod:`auditor.trees.gitchild`.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from auditor.errors import UserError
from auditor.trees.gitchild import IN_FLIGHT, Batch, first_words, network_error, run_git


class MissingObject(Exception):
    """An object is not in the object store. The argument is its id."""


def checked_revision(rev: str) -> str:
    """``rev`` if it can be a revision at all; ``UserError`` T015 for NUL, line ends and the like."""
    if not rev or rev.startswith("-") or any(ord(c) < 32 or ord(c) == 127 for c in rev):
        raise UserError(
            "T015",
            f"{rev!r} cannot be a commit name",
            hints=["give a commit id, an abbreviation of 7 digits or more, a tag, a branch, or REV~3"],
        )
    return rev


@dataclass(frozen=True)
class CommitFacts:
    """What a commit object says: ``time`` in unix seconds, ``date`` in the committer's time zone."""

    oid: str
    tree: str
    time: int
    date: str


class GitRepo:
    """One repository, found on disk without starting git. Not for use from several threads at once."""

    def __init__(self, git_dir: Path, work_tree: Path | None) -> None:
        self.git_dir = git_dir
        self.work_tree = work_tree
        common = _first_line(git_dir / "commondir")
        self.common_dir = (git_dir / common).resolve() if common else git_dir
        self._running: set[Batch] = set()
        self._process = os.getpid()
        self._idle: Batch | None = None
        self._idle_network = False
        self._listed = ("", b"")  # a tree's full id, and its listing: the last one asked for

    @classmethod
    def find(cls, path: str | os.PathLike[str]) -> GitRepo | None:
        """The repository that ``path`` is in or is: a clone, a linked worktree or a bare repository."""
        start = Path(os.path.abspath(path))
        for folder in (start, *start.parents):
            repo = cls.at(folder)
            if repo is not None:
                return repo
        return None

    @classmethod
    def at(cls, folder: Path) -> GitRepo | None:
        """The repository whose top is ``folder`` itself, or None."""
        dot = folder / ".git"
        try:
            if dot.is_dir():
                return cls(dot, folder) if _is_git_dir(dot) else None
            if dot.is_file():
                line = _first_line(dot)
                if line.startswith("gitdir: "):
                    target = Path(os.path.join(folder, line[len("gitdir: ") :]))
                    return cls(target.resolve(), folder) if _is_git_dir(target) else None
                return None
            return cls(folder, None) if _is_git_dir(folder) else None
        except (OSError, ValueError):
            return None

    # facts about the repository that need no child

    @property
    def is_shallow(self) -> bool:
        return (self.common_dir / "shallow").is_file()

    @property
    def is_partial(self) -> bool:
        """Whether objects may be absent by design (a clone made with ``--filter``)."""
        try:
            return any(n.endswith(".promisor") for n in os.listdir(self.common_dir / "objects" / "pack"))
        except OSError:
            return False

    # running git

    def run(
        self,
        *args: str,
        stdin: bytes | None = None,
        network: bool = False,
        work_tree: bool = False,
        index: Path | None = None,
    ) -> subprocess.CompletedProcess[bytes]:
        """Run a git command on this repository, whatever its exit status."""
        # Both in full: git runs in the work tree, where a relative path would mean another folder.
        where = [f"--git-dir={os.path.abspath(self.git_dir)}"]
        cwd = None
        if work_tree and self.work_tree is not None:
            cwd = os.path.abspath(self.work_tree)
            where.append(f"--work-tree={cwd}")
        else:
            where += ["-c", "core.bare=true"]  # whatever core.worktree says, it is not looked at
        return run_git(
            [*where, *args],
            stdin=stdin,
            network=network,
            cwd=cwd,
            index=index and Path(os.path.abspath(index)),
        )

    def output(self, *args: str, stdin: bytes | None = None, work_tree: bool = False) -> bytes:
        """Standard output of a git command that must succeed; ``UserError`` T013 otherwise."""
        done = self.run(*args, stdin=stdin, work_tree=work_tree)
        if done.returncode != 0:
            raise UserError(
                "T013", f"git {args[0]} failed: {first_words(done.stderr)}", place=str(self.git_dir)
            )
        return done.stdout

    # objects

    def _own(self) -> None:
        """Leave the children of the process that this one was forked from alone."""
        if self._process != os.getpid():
            self._process, self._running, self._idle = os.getpid(), set(), None

    def _take(self, network: bool) -> Batch:
        self._own()
        batch, self._idle = self._idle, None
        if batch is not None and self._idle_network == network:
            return batch
        if batch is not None:
            self._end(batch)
        batch = Batch(self.git_dir, network)
        self._running.add(batch)
        return batch

    def _give(self, batch: Batch, network: bool) -> None:
        if self._idle is not None:
            self._end(batch)
        else:
            self._idle, self._idle_network = batch, network

    def _end(self, batch: Batch) -> None:
        self._running.discard(batch)
        batch.close()

    def close(self) -> None:
        """End every child of this repository; a stream that is still being read breaks off."""
        self._own()
        self._idle = None
        while self._running:
            self._running.pop().close()

    def __del__(self) -> None:
        try:
            self.close()
        except Exception:  # interpreter shutdown: the child ends with its pipe
            pass

    def read_objects(self, names: Sequence[str], *, network: bool = False) -> Iterator[bytes]:
        """Contents of objects, streamed in the given order. ``MissingObject`` where one is not there.

        Reads may be nested: each running stream has a child of its own, and one idle child is kept.
        """
        wanted = [n.encode() for n in names]
        batch = self._take(network)
        asked = answered = 0
        try:
            while answered < len(wanted):
                if asked - answered <= IN_FLIGHT // 2:
                    upto = min(answered + IN_FLIGHT, len(wanted))
                    if upto > asked:
                        batch.ask(wanted[asked:upto])
                        asked = upto
                _, kind, content = batch.answer()
                if kind == b"ended":
                    raise MissingObject(names[answered])
                answered += 1
                if kind in (b"missing", b"ambiguous"):
                    raise MissingObject(names[answered - 1])
                yield content
        finally:
            # Answers nobody took would be read as those of the next question.
            if asked == answered and batch in self._running:
                self._give(batch, network)
            else:
                self._end(batch)

    def commit(self, rev: str) -> CommitFacts:
        """Resolve a revision to a commit. ``UserError`` T002 unknown, T003 ambiguous, T015 impossible."""
        checked_revision(rev)
        batch = self._take(False)
        batch.ask([f"{rev}^{{commit}}".encode("utf-8", "surrogateescape")])
        oid, kind, content = batch.answer()
        if kind == b"commit":
            self._give(batch, False)
            return _parse_commit(oid.decode(), content)
        self._end(batch)
        if kind == b"ambiguous" or (kind == b"missing" and _is_hex(rev)):
            candidates = self._commits_with_prefix(rev)
            if len(candidates) > 1:
                raise UserError(
                    "T003",
                    f"{rev} is the beginning of {len(candidates)} commits",
                    place=", ".join(c[:12] for c in candidates[:8]),
                    hints=[f"give more digits: {candidates[0][: len(rev) + 4]}"],
                )
        raise self._unknown(rev)

    def first_commit(self, names: Iterable[str]) -> str:
        """The full id of the first of these revisions that is a commit here, "" where none is."""
        for name in names:
            batch = self._take(False)
            batch.ask([f"{checked_revision(name)}^{{commit}}".encode("utf-8", "surrogateescape")])
            oid, kind, _ = batch.answer()
            if kind == b"ended":
                self._end(batch)
                continue
            self._give(batch, False)
            if kind == b"commit":
                return oid.decode()
        return ""

    def head_ref(self) -> str:
        """The branch that is checked out ("refs/heads/x"), "" where HEAD is a commit.

        Read from the file itself where it is one that git writes, as it is at this moment; git is asked for
        everything else (links, refs that name refs, refs that are not files).
        """
        head = self.git_dir / "HEAD"
        line = "" if head.is_symlink() else _first_line(head)
        if len(line) >= 40 and _is_hex(line):
            return ""
        ref = line[len("ref: ") :] if line.startswith("ref: refs/heads/") else ""
        if ref and ref != "refs/heads/.invalid" and not _first_line(self.common_dir / ref).startswith("ref:"):
            return ref
        done = self.run("symbolic-ref", "-q", "HEAD")
        return done.stdout.decode("utf-8", "replace").strip() if done.returncode == 0 else ""

    def _commits_with_prefix(self, prefix: str) -> list[str]:
        base = prefix.rstrip("~^0123456789") if "~" in prefix or "^" in prefix else prefix
        if not 4 <= len(base) <= 64:
            return []
        found = self.run("rev-parse", f"--disambiguate={base}").stdout.decode().split()
        if len(found) < 2:
            return []
        kinds = self.run("cat-file", "--batch-check", stdin="\n".join(found).encode() + b"\n").stdout.decode()
        return sorted(line.split()[0] for line in kinds.splitlines() if line.split()[1:2] == ["commit"])

    def refs(self) -> dict[str, str]:
        """Short name -> object id of every branch and tag."""
        done = self.run("for-each-ref", "--format=%(refname:short)%09%(objectname)")
        lines = done.stdout.decode("utf-8", "replace").splitlines()
        return dict(line.split("\t", 1) for line in lines if "\t" in line)

    def _unknown(self, rev: str) -> UserError:
        from difflib import get_close_matches

        hints = []
        fetch = self.command("fetch")
        if _is_hex(rev):
            if self.is_shallow:
                hints.append(f"{fetch} --unshallow        # this clone is shallow")
            if len(rev) >= 40:
                hints.append(f"{fetch} origin {rev}")
            else:
                hints.append(f"{fetch} --all --tags        # then try again")
        else:
            if self.is_shallow:
                hints.append(f"{fetch} --unshallow        # this clone is shallow")
            names = list(self.refs())
            near = get_close_matches(rev, names, 3, 0.6)
            if f"v{rev}" in names:
                near = [f"v{rev}"]
            elif f"origin/{rev}" in names:
                near = [f"origin/{rev}"]
            elif "/" in rev:  # the branch of a remote that is called otherwise here, or of none
                branch = rev.partition("/")[2]
                near = [n for n in names if n == branch or n.partition("/")[2] == branch][:2] or near
            if near:
                hints.append("did you mean " + " or ".join(near) + "?")
            if rev[:1].isdigit() and "." in rev:
                hints.append(f"a release is named with --release {rev}")
            if not hints:
                hints.append(f"{fetch} --all --tags        # then try again")
        hints.append("--repo URL looks in a remote repository")
        return UserError(
            "T002", f"no commit named {rev} in this repository", place=str(self.location), hints=hints
        )

    @property
    def location(self) -> Path:
        """The folder a person knows this repository by."""
        return self.work_tree or self.git_dir

    def command(self, words: str) -> str:
        """A git command on this repository as a person would type it here."""
        import shlex

        return f"git -C {shlex.quote(os.path.relpath(self.location))} {words}"

    def list_tree(self, tree: str, *, network: bool = False) -> bytes:
        """Raw ``ls-tree -r -z``: ``mode type id TAB path NUL``. ``MissingObject`` if a part is absent."""
        if self._listed[0] == tree:
            return self._listed[1]
        done = self.run("ls-tree", "-r", "-z", "--full-tree", tree, network=network)
        if done.returncode != 0:
            raise MissingObject(tree)
        if len(tree) >= 40 and _is_hex(tree):
            self._listed = (tree, done.stdout)
        return done.stdout

    def missing_blobs(self, commit: str) -> set[str]:
        """Ids of the objects of a commit's tree that are not in the object store."""
        done = self.run("rev-list", "--objects", "--no-walk", "--missing=print", commit)
        return {line[1:].split()[0].decode() for line in done.stdout.splitlines() if line.startswith(b"?")}

    def promisor_remote(self) -> str | None:
        """The remote that promised the objects a partial clone left out."""
        done = self.run("config", "--get-regexp", r"^(extensions\.partialclone|remote\..*\.promisor)$")
        for line in done.stdout.decode("utf-8", "replace").splitlines():
            key, _, value = line.partition(" ")
            if key.lower() == "extensions.partialclone" and value:
                return value
            if key.lower().startswith("remote.") and value.lower() in ("true", "1", "yes", "on"):
                return key[len("remote.") : -len(".promisor")]
        return None

    def fetch_objects(self, oids: Sequence[str]) -> None:
        """Fetch objects a partial clone left out, in one request. ``UserError`` T010 if that fails.

        A repository of another user is refused (T013): its configuration may name programs to run.
        """
        self.require_own()
        remote = self.promisor_remote()
        if remote is None:
            raise UserError(
                "T005",
                f"{len(oids)} objects are missing and the clone names no remote to fetch them from",
                place=str(self.location),
                hints=[self.command("fetch --refetch --no-filter")],
            )
        done = self.run(
            "-c",
            "fetch.negotiationAlgorithm=noop",
            "fetch",
            "--quiet",
            "--no-tags",
            "--no-write-fetch-head",
            "--recurse-submodules=no",
            "--filter=blob:none",
            "--stdin",
            "--",
            remote,
            stdin="\n".join(oids).encode() + b"\n",
            network=True,
        )
        if done.returncode != 0:
            raise network_error(done.stderr, remote)

    def require_own(self) -> None:
        """``UserError`` T013 if the repository belongs to somebody else (its config could run programs)."""
        if hasattr(os, "geteuid"):
            owner = os.stat(self.git_dir).st_uid
            if owner != os.geteuid():
                raise UserError(
                    "T013",
                    "will not fetch into a repository that belongs to another user",
                    place=str(self.location),
                    hints=["fetch there as its owner, or audit with --repo URL"],
                )

    def is_ancestor(self, older: str, newer: str) -> bool:
        return self.run("merge-base", "--is-ancestor", older, newer).returncode == 0


def _first_line(path: Path) -> str:
    try:
        with open(path, encoding="utf-8", errors="surrogateescape") as file:
            return file.readline(8192).rstrip("\r\n")
    except (OSError, ValueError):  # a name with NUL, which a damaged file can give
        return ""


def _is_git_dir(folder: Path) -> bool:
    """What git itself looks for: HEAD, and objects and refs here or in the common folder."""
    if not (folder / "HEAD").is_file():
        return False
    common = _first_line(folder / "commondir")
    base = folder / common if common else folder
    return (base / "objects").is_dir() and ((base / "refs").is_dir() or (base / "reftable").is_dir())


def _is_hex(rev: str) -> bool:
    base = rev.split("~")[0].split("^")[0]
    return 4 <= len(base) <= 64 and all(c in "0123456789abcdefABCDEF" for c in base)


def _parse_commit(oid: str, content: bytes) -> CommitFacts:
    tree = date = ""
    time = 0
    for line in content.split(b"\n\n", 1)[0].split(b"\n"):
        if line.startswith(b"tree "):
            tree = line[5:].decode()
        elif line.startswith(b"committer "):
            seconds, _, zone = line.rpartition(b"> ")[2].partition(b" ")
            try:
                time = int(seconds)
                sign = -1 if zone.startswith(b"-") else 1
                offset = sign * (int(zone[1:3]) * 3600 + int(zone[3:5]) * 60)
            except ValueError:
                offset = 0
            date = _day(time + offset)
    return CommitFacts(oid, tree, time, date)


def _day(seconds: int) -> str:
    from time import gmtime, strftime

    try:
        return strftime("%Y-%m-%d", gmtime(seconds))
    except (OverflowError, ValueError, OSError):
        return ""
