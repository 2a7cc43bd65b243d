"""The first-parent line of a range: each commit with the files that it changed, read from git's log in one
go.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from auditor.errors import UserError
from auditor.trees.between import FORMAT, LogEntry, entry_of
from auditor.trees.git import GitRepo

_REGULAR = ("100644", "100755", "100664")


@dataclass(frozen=True)
class Step:
    """A commit and its changes against its first parent: ``(path, blob id)``, "" where the file went."""

    entry: LogEntry
    parent: str  # "" for a root
    changes: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Line:
    """The ends of a range. ``first`` is "" where it begins with a root commit (or where a clone is cut
    off).
    """

    first: str
    last: str


def ends_of(words: str, verb: str) -> tuple[str, str]:
    """The two ends that ``A..B`` or ``A..`` names. UserError H020 for what is no range; ``verb`` is the line
    to type again, without it.
    """
    old, dots, new = words.partition("..")
    if not dots or new.startswith(".") or not old:
        again = f"{old or 'A'}..{new.lstrip('.') or 'HEAD'}"
        raise UserError(
            "H020", f"a range of commits is written A..B, not {words!r}", hints=[f"{verb} {again}"]
        )
    return old, new or "HEAD"


def first_parents(repo: GitRepo, words: str, verb: str = "audit sweep") -> Line:
    """The commits that ``A..B`` names. UserError H020 for what is no range, or an empty or reversed one, or
    one from a commit that does not lead to the other; T002 where an end is not in this clone.
    """
    old, new = ends_of(words, verb)
    first, last = repo.commit(old).oid, repo.commit(new).oid
    if first == last:
        raise UserError(
            "H020", f"{words} is empty: both ends are {first[:9]}", hints=[f"{verb} {old}~20..{new}"]
        )
    if not repo.is_ancestor(first, last):
        if repo.is_ancestor(last, first):
            fact = f"{words} is reversed: {new} comes before {old}"
            raise UserError("H020", fact, hints=[f"{verb} {new}..{old}"])
        fact = f"{old} does not lead to {new}: they are on two branches"
        base = repo.run("merge-base", first, last).stdout.decode().strip()
        hints = [f"{verb} {base[:9]}..{new}"] if base else []
        if repo.is_shallow:
            hints.append(repo.command("fetch --unshallow") + "        # this clone is shallow")
        raise UserError("H020", fact, hints=hints)
    return Line(first, last)


def steps_of(repo: GitRepo, line: Line, folders: Sequence[str]) -> list[Step]:
    """The commits of a first-parent line, oldest first, each with what it changed below ``folders``.

    A merge is what it brought to its first parent. Links and submodules count as absent. UserError T013
    where git refuses.
    """
    span = f"{line.first}..{line.last}" if line.first else line.last
    raw = repo.output(
        "-c",
        "log.showRoot=true",
        "log",
        "--no-show-signature",
        "--first-parent",
        "--sparse",
        "--reverse",
        "-m",
        "--raw",
        "-z",
        "--no-abbrev",
        "--no-renames",
        "--no-color",
        "--no-ext-diff",
        f"--format=%P%x1f{FORMAT}",
        span,
        "--",
        *(f":(literal,top){folder}" for folder in folders),
    )
    out: list[Step] = []
    changes: list[tuple[str, str]] = []
    head: tuple[LogEntry, str] | None = None
    tokens = iter(raw.decode("utf-8", "surrogateescape").split("\0"))
    for token in tokens:
        token = token.lstrip("\n")
        if not token:
            continue
        if token.startswith(":"):
            _, mode, _, new, _ = token.split(" ")
            path = next(tokens, "")
            changes.append((path, new if mode in _REGULAR else ""))
            continue
        if head is not None:
            out.append(Step(head[0], head[1], tuple(changes)))
        changes = []
        parents, _, rest = token.partition("\x1f")
        head = entry_of(rest), parents.partition(" ")[0]
    if head is not None:
        out.append(Step(head[0], head[1], tuple(changes)))
    return out
