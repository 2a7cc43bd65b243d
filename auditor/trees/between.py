"""Commits between two commits of one repository, and which of them touched which file."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass

from auditor.lazyre import lazy
from auditor.trees.git import GitRepo

#: How git's log is asked for what :func:`entry_of` reads.
FORMAT = "%H%x1f%cs%x1f%s"
_PR = lazy(r"\(#(\d+)\)\s*$")


@dataclass(frozen=True)
class LogEntry:
    """A commit as the log tells it. ``pr`` is the number at the end of the subject, "" if there is none."""

    oid: str
    date: str  # committer date, YYYY-MM-DD
    subject: str

    @property
    def pr(self) -> str:
        match = _PR.search(self.subject)
        return match[1] if match else ""


class Mark:
    """What stands around the head of a commit in a log: nobody who writes a subject or names a file knows it.

    ``asked`` is for git's format, ``given`` is what git writes.
    """

    def __init__(self) -> None:
        word = os.urandom(8).hex()
        self.asked = f"%x1e{word}"
        self.given = f"\x1e{word}"


def commits_between(repo: GitRepo, old: str, new: str) -> list[LogEntry]:
    """Commits that ``new`` has and ``old`` has not, newest first. UserError T013 where git refuses."""
    raw = repo.output("log", "--no-show-signature", f"--format={FORMAT}", f"{old}..{new}", "--")
    return [entry_of(line) for line in raw.decode("utf-8", "replace").split("\n") if line]


def log_entry(repo: GitRepo, commit: str) -> LogEntry:
    """One commit as the log tells it. UserError T013 where git refuses."""
    raw = repo.output("log", "-1", "--no-show-signature", f"--format={FORMAT}", commit, "--")
    return entry_of(raw.decode("utf-8", "replace").strip("\n"))


def oldest_of(repo: GitRepo, new: str, most: int) -> str:
    """The commit that lies ``most`` first parents back, the first one where the line is shorter."""
    raw = repo.output("rev-list", "--first-parent", f"--max-count={most + 1}", new, "--")
    return raw.decode().split()[-1]


def merge_base(repo: GitRepo, a: str, b: str) -> str:
    """The id of the best commit that both lead to, "" where there is none. UserError T002 for what is no
    commit."""
    ends = repo.commit(a).oid, repo.commit(b).oid
    return repo.run("merge-base", *ends).stdout.decode().strip()


def brought(repo: GitRepo, new: str, path: str, text: str) -> str:
    """The id of the newest first-parent commit up to ``new`` since which ``path`` holds ``text``, "" for
    none. UserError T013 where git refuses.
    """
    raw = repo.output(
        "log",
        "--no-show-signature",
        "--first-parent",
        "-m",
        "--no-renames",
        "--no-ext-diff",
        "--no-textconv",
        "--format=%H",
        f"-S{text}",
        new,
        "--",
        f":(literal,top){path}",
    )
    for oid in dict.fromkeys(raw.decode().split()):
        before = repo.run("cat-file", "blob", f"{oid}^:{path}").stdout
        if text.encode("utf-8", "surrogateescape") not in before:
            return oid
    return ""


def touched(repo: GitRepo, old: str, new: str, paths: Iterable[str]) -> dict[str, list[LogEntry]]:
    """Path -> the commits between that touched it, newest first. Merges are left out."""
    wanted = sorted(set(paths))
    if not wanted:
        return {}
    mark = Mark()
    raw = repo.output(
        "log",
        "--no-show-signature",
        "--no-merges",
        "--no-renames",
        "--name-only",
        "-z",
        f"--format={mark.asked}{FORMAT}{mark.asked}",
        f"{old}..{new}",
        "--",
        *(f":(literal,top){path}" for path in wanted),
    )
    out: dict[str, list[LogEntry]] = {path: [] for path in wanted}
    parts = raw.decode("utf-8", "replace").split(mark.given)
    for head, names in zip(parts[1::2], parts[2::2]):
        entry = entry_of(head)
        for name in names.strip("\0\n").split("\0"):
            if name.strip("\n") in out:
                out[name.strip("\n")].append(entry)
    return out


def line_of_commits(
    repo: GitRepo, old: str, new: str, paths: Iterable[str]
) -> list[tuple[LogEntry, tuple[str, ...]]]:
    """The first-parent commits between that touched one of the paths, oldest first, with those they touched.

    A merge counts with what it brought in. UserError T013 where git refuses.
    """
    wanted = sorted(set(paths))
    mark = Mark()
    raw = repo.output(
        "log",
        "--no-show-signature",
        "--first-parent",
        "-m",
        "--reverse",
        "--no-renames",
        "--name-only",
        "-z",
        f"--format={mark.asked}{FORMAT}{mark.asked}",
        f"{old}..{new}",
        "--",
        *(f":(literal,top){path}" for path in wanted),
    )
    parts = raw.decode("utf-8", "replace").split(mark.given)
    return [
        (
            entry_of(head),
            tuple(name.strip("\n") for name in names.strip("\0\n").split("\0") if name.strip("\n")),
        )
        for head, names in zip(parts[1::2], parts[2::2])
    ]


def changed_lines(repo: GitRepo, old: str, new: str, path: str) -> list[tuple[LogEntry, str]]:
    """The commits between that touched ``path``, newest first, each with the lines it added or removed."""
    mark = Mark()
    raw = repo.output(
        "log",
        "--no-show-signature",
        "--no-merges",
        "--no-renames",
        "--no-color",
        "--no-ext-diff",
        "--no-textconv",
        "--unified=0",
        "--patch",
        f"--format={mark.asked}{FORMAT}%n",
        f"{old}..{new}",
        "--",
        f":(literal,top){path}",
    )
    out = []
    for part in raw.decode("utf-8", "replace").split(mark.given)[1:]:
        head, _, patch = part.partition("\n")
        out.append((entry_of(head), "\n".join(_hunks(patch))))
    return out


def _hunks(patch: str) -> list[str]:
    """The lines of a patch that were added or removed, without their sign; its headers look like them."""
    lines = []
    inside = False
    for line in patch.split("\n"):
        if line.startswith(("@@", "diff ")):
            inside = line.startswith("@@")
        elif inside and line[:1] in ("+", "-"):
            lines.append(line[1:])
    return lines


def entry_of(line: str) -> LogEntry:
    """The commit that :data:`FORMAT` wrote."""
    oid, _, rest = line.strip("\0\n").partition("\x1f")
    date, _, subject = rest.partition("\x1f")
    return LogEntry(oid, date, subject.encode("utf-8", "replace").decode())
