"""Writing to a git checkout: objects, index, branch and HEAD, without running anything a repository names.

Objects go in through ``fast-import``, the index through ``update-index --index-info``, the branch through
``update-ref``; working files are written by us. Hooks are off, filter drivers are overridden, submodules are
not entered, so nothing of a hostile repository runs. ``auditor.trees.git`` starts git and sees to the rest.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from auditor.errors import UserError
from auditor.patching.write.journal import GitPart
from auditor.patching.write.ownindex import own_index, require_unlocked
from auditor.patching.write.reflocks import SCRATCH, forget_scratch_lock, free
from auditor.trees.git import CommitFacts, GitRepo
from auditor.trees.gitchild import first_words
from auditor.trees.names import blob_id, decode_path
from auditor.trees.treeid import tree_id

#: Folder in the git directory with the record and the journal.
GIT_STORE = "patches-state"
_NO_ID = "0" * 40
#: Seconds to wait for another git process that has the index.
_INDEX_PATIENCE = 5.0


@dataclass(frozen=True)
class Commit:
    """One patch as a commit. ``files``: path -> (bytes or None, mode)."""

    message: str
    author: str  # "Name <mail>", "" for whoever commits
    date: str  # "seconds zone", "" for now
    files: dict[str, tuple[bytes | None, str]]


@dataclass(frozen=True)
class IndexEntry:
    """``flag`` is the letter of ``git ls-files -v``: ``H`` plain, ``S`` outside a sparse checkout, ``h`` …"""

    mode: str
    oid: str
    flag: str


class Checkout:
    """The git side of a target with a working tree."""

    def __init__(self, repo: GitRepo) -> None:
        assert repo.work_tree is not None
        self.repo = repo
        self.root: Path = repo.work_tree
        self.store: Path = repo.git_dir / GIT_STORE
        self._quiet: list[str] | None = None

    # reading

    def head(self) -> tuple[CommitFacts, str]:
        """The commit that is checked out, and the branch ("refs/heads/x"), "" if detached."""
        commit = self.repo.commit("HEAD")
        if len(commit.oid) != 40:
            raise UserError(
                "P050",
                "this repository names its objects by sha256, which cannot be written yet",
                place=str(self.root),
                hints=["git clone it into a repository with the usual object format"],
            )
        return commit, self.repo.head_ref()

    def index(self, paths: Iterable[str]) -> dict[str, IndexEntry]:
        """The index entries of these paths."""
        wanted = list(paths)
        found: dict[str, IndexEntry] = {}
        for at in range(0, len(wanted), 500):
            listed = self.repo.output(
                "--literal-pathspecs", "ls-files", "-s", "-v", "-z", "--full-name", "--",
                *wanted[at : at + 500], work_tree=True,
            )  # fmt: skip
            for line in listed.split(b"\0"):
                if not line:
                    continue
                meta, _, name = line.partition(b"\t")
                flag, mode, oid, stage = meta.decode().split(" ")
                path = decode_path(name)
                if stage != "0":
                    raise self._dirty([path], "has a merge that is not resolved")
                found[path] = IndexEntry(mode, oid, flag)
        return found

    def index_listing(self) -> dict[bytes, tuple[bytes, bytes]]:
        """path -> (mode, id) of the whole index. ``UserError`` P051 where a merge is not resolved."""
        found = {}
        for line in self.repo.output("ls-files", "-s", "-z", "--full-name", work_tree=True).split(b"\0"):
            if line:
                meta, _, path = line.partition(b"\t")
                mode, oid, stage = meta.split(b" ")
                if stage != b"0":
                    raise self._dirty([decode_path(path)], "has a merge that is not resolved")
                found[path] = (mode, oid)
        return found

    def dirty(self) -> list[str]:
        """Tracked files whose content, in the index or on the disk, is not that of HEAD; sorted."""
        found = set()
        for line in self._changed("diff-index", "--cached", "HEAD"):
            found.add(line[1])
        told = [(meta, path) for meta, path in self._changed("diff-files") if path not in found]
        entries = self.index([path for _, path in told])  # a copied clone tells every file: one question
        for meta, path in told:
            # Only the facts of the disk say so; the bytes decide, and they are read without any conversion.
            if self._bytes_differ(path, meta, entries.get(path)):
                found.add(path)
        return sorted(found)

    def _changed(self, verb: str, *args: str) -> list[tuple[list[str], str]]:
        raw = self.repo.output(
            *self._without_filters(), verb, "--raw", "-z", "--no-renames", "--abbrev=40",
            "--ignore-submodules=all", *args, work_tree=True,
        )  # fmt: skip
        parts = raw.split(b"\0")
        return [
            (meta[1:].decode().split(" "), decode_path(name))
            for meta, name in zip(parts[0::2], parts[1::2], strict=False)
        ]

    def _bytes_differ(self, path: str, meta: list[str], entry: IndexEntry | None) -> bool:
        place = self.root / path
        if meta[4] == "M" and meta[0] == "120000" and entry is not None:
            try:
                return entry.oid != blob_id(os.fsencode(os.readlink(place)))
            except OSError:
                return True
        if meta[4] != "M" or not meta[0].startswith("100"):
            return True
        try:
            data, executable = place.read_bytes(), bool(place.lstat().st_mode & 0o100)
        except OSError:
            return True
        if entry is None or place.is_symlink() or executable != (entry.mode == "100755"):
            return True
        return entry.oid not in (blob_id(data), blob_id(data.replace(b"\r\n", b"\n")))

    def _without_filters(self) -> list[str]:
        """Options that switch off every filter driver any configuration of this repository defines."""
        if self._quiet is None:
            done = self.repo.run("config", "-z", "--name-only", "--get-regexp", r"^filter\.")
            names = {name.rpartition(".")[0] for name in done.stdout.decode("utf-8", "replace").split("\0")}
            self._quiet = []
            for name in sorted(names - {""}):
                if "=" in name or "\n" in name:
                    raise UserError(
                        "P050",
                        f"the repository configures {name!r}, which cannot be switched off",
                        place=str(self.repo.git_dir / "config"),
                        hints=["remove that section from the configuration"],
                    )
                for key, value in (("clean", ""), ("smudge", ""), ("process", ""), ("required", "false")):
                    self._quiet += ["-c", f"{name}.{key}={value}"]
        return self._quiet

    def _dirty(self, paths: list[str], why: str) -> UserError:
        return UserError(
            "P051", f"{paths[0]} {why}", place=str(self.root), hints=[self.repo.command("status")]
        )

    def require_idle(self) -> None:
        """``UserError`` P051 in the middle of a merge, a rebase or the like."""
        names = {
            "MERGE_HEAD": "merge", "rebase-merge": "rebase", "rebase-apply": "rebase",
            "CHERRY_PICK_HEAD": "cherry-pick", "REVERT_HEAD": "revert", "BISECT_LOG": "bisect",
        }  # fmt: skip
        for name, word in names.items():
            if (self.repo.git_dir / name).exists():
                raise UserError(
                    "P051",
                    f"a {word} is not finished here",
                    place=str(self.root),
                    hints=[self.repo.command(f"{word} {'reset' if word == 'bisect' else '--abort'}")],
                )

    def require_unlocked(self) -> None:
        """``UserError`` P052 while another git process has the index."""
        require_unlocked(self.repo.git_dir, _INDEX_PATIENCE)

    # writing

    def write_objects(
        self, blobs: Sequence[bytes], commits: Sequence[Commit] = (), parent: str = ""
    ) -> list[str]:
        """Put contents into the object store; the ids of the commits, each on the one before, on ``parent``.

        Commits hang on a scratch ref until :meth:`forward` moves a branch.
        """
        out: list[bytes] = [b"feature done\n"]
        marks: dict[bytes, int] = {}
        for data in [*blobs, *(d for c in commits for d, _ in c.files.values() if d is not None)]:
            if data not in marks:
                marks[data] = len(marks) + 1
                out += [b"blob\nmark :%d\ndata %d\n" % (marks[data], len(data)), data, b"\n"]
        committer = self._committer() if commits else b""
        for number, commit in enumerate(commits):
            mark = len(marks) + 1 + number
            author = _ident(commit.author)
            who = author + b" " + commit.date.encode() if author and commit.date else committer
            if author and not commit.date:
                who = author + b" " + committer.rpartition(b"> ")[2]
            message = commit.message.encode("utf-8", "replace")
            out.append(b"commit %s\nmark :%d\n" % (SCRATCH.encode(), mark))
            out.append(b"author %s\ncommitter %s\ndata %d\n%s\n" % (who, committer, len(message), message))
            out.append(b"from %s\n" % (parent.encode() if number == 0 else b":%d" % (mark - 1)))
            for path, (data_, mode) in sorted(commit.files.items()):
                if data_ is None:
                    out.append(b"D %s\n" % _quoted(path))
                else:
                    out.append(b"M %s :%d %s\n" % (mode.encode(), marks[data_], _quoted(path)))
            out.append(b"\nget-mark :%d\n" % mark)
        out.append(b"done\n")
        if commits:
            forget_scratch_lock(self.repo)
            if self._at(SCRATCH) or (self.repo.git_dir / SCRATCH).exists():
                self.repo.run("update-ref", "-d", SCRATCH)
        done = self.repo.run("fast-import", "--quiet", "--date-format=raw", stdin=b"".join(out))
        if done.returncode != 0:
            raise self._refused(f"git cannot store the result: {first_words(done.stderr)}")
        return done.stdout.decode().split()

    def index_tree(self) -> str:
        """The tree id of the index as it is. ``git write-tree`` would take its lock, and write."""
        return tree_id(self.index_listing())

    def _committer(self) -> bytes:
        done = self.repo.run("var", "GIT_COMMITTER_IDENT")
        now = int(os.environ.get("SOURCE_DATE_EPOCH") or time.time())
        who = done.stdout.strip().rpartition(b"> ")[0] + b">" if done.returncode == 0 else b""
        zone = done.stdout.strip().rpartition(b" ")[2] if done.returncode == 0 else b"+0000"
        if "SOURCE_DATE_EPOCH" in os.environ:
            zone = b"+0000"
        return (who or b"patches <patches@localhost>") + b" %d %s" % (now, zone)

    def forward(self, part: GitPart) -> None:
        """Index, branch and HEAD as they shall be; what is so already is left."""
        self._set_index([(path, after) for path, _, after in part.index])
        if part.ref:
            self._move(part.ref, part.new, part.old)
        if part.head_after != part.head_before:
            self._set_head(part.head_after)
        self.forget_scratch()

    def back(self, part: GitPart) -> None:
        """Index, branch and HEAD as they were; what is so already is left."""
        if part.head_after != part.head_before and self._head_says() == part.head_after:
            self._set_head(part.head_before)
        if part.ref and self._at(part.ref) == part.new and part.new != part.old:
            if part.old:
                self._move(part.ref, part.old, part.new)
            else:
                free(self.repo, part.ref, (part.new,))
                self._git("update-ref", "--no-deref", "-d", part.ref, part.new)
        self._set_index([(path, before) for path, before, _ in part.index])
        self.forget_scratch()

    def _set_index(self, wanted: list[tuple[str, str]]) -> None:
        there = self.index([path for path, _ in wanted])
        lines = []
        for path, entry in wanted:
            now = there.get(path)
            if (f"{now.mode} {now.oid}" if now else "") != entry:
                lines.append(f"{entry or '0 ' + _NO_ID}\t".encode() + _raw(path))
        if not wanted:
            return
        quiet = self._without_filters()
        with own_index(self.repo.git_dir, self.store, _INDEX_PATIENCE) as index:
            if lines:
                self._git("update-index", "-z", "--index-info", stdin=b"\0".join(lines) + b"\0", index=index)
            # Facts of the new files, so that nothing has to be read again; also where an earlier run was
            # killed before it came to this. A failure costs only that.
            # Only of these: a look at every file of the tree takes longer than all the rest.
            there_now = [path for path, entry in wanted if entry]
            for at in range(0, len(there_now), 500):
                self.repo.run(
                    "--literal-pathspecs", *quiet, "add", "--refresh", "--", *there_now[at : at + 500],
                    work_tree=True, index=index,
                )  # fmt: skip

    def _at(self, ref: str) -> str:
        return self.repo.first_commit([ref])

    def _move(self, ref: str, new: str, old: str) -> None:
        now = self._at(ref)
        if now == new:
            return
        free(self.repo, ref, (new, old))
        if now != old:
            raise UserError(
                "P044",
                f"{ref} was moved while the patches were written; everything is as before",
                place=str(self.root),
                hints=["run it again when nobody else works there"],
            )
        self._git("update-ref", "--no-deref", "-m", "patches", ref, new, old or _NO_ID)

    def _head_says(self) -> str:
        return self.repo.head_ref() or self._at("HEAD")

    def _set_head(self, value: str) -> None:
        free(self.repo, "HEAD", (value, f"ref: {value}"))
        if value.startswith("refs/"):
            self._git("symbolic-ref", "-m", "patches", "HEAD", value)
        else:
            self._git("update-ref", "--no-deref", "-m", "patches", "HEAD", value)

    def forget_scratch(self) -> None:
        """Let go of commits that no branch was moved to."""
        forget_scratch_lock(self.repo)
        if (self.repo.git_dir / SCRATCH).exists():
            self.repo.run("update-ref", "-d", SCRATCH)

    def _git(self, *args: str, stdin: bytes | None = None, index: Path | None = None) -> None:
        # Whatever writes the index looks again at files that changed within the same second.
        done = self.repo.run(*self._without_filters(), *args, stdin=stdin, work_tree=True, index=index)
        if done.returncode != 0:
            raise self._refused(f"git {args[0]} failed: {first_words(done.stderr)}")

    def _refused(self, fact: str) -> UserError:
        place = str(self.repo.git_dir)
        return UserError("P043", fact, place=place, hints=["check space and permissions there"])


def _raw(path: str) -> bytes:
    return path.encode()


def _quoted(path: str) -> bytes:
    """A path in fast-import's spelling."""
    text = path.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return b'"' + text.encode() + b'"'


def _ident(author: str) -> bytes:
    """``Name <mail>`` without what git does not take; b"" if it is no such thing."""
    name, _, mail = author.partition("<")
    mail = mail.rpartition(">")[0] or mail
    clean = "".join(c for c in mail if c > " " and c not in "<>")
    words = " ".join("".join(c if c >= " " and c not in "<>" else " " for c in name).split())
    return f"{words or clean} <{clean}>".encode("utf-8", "replace") if clean or words else b""
