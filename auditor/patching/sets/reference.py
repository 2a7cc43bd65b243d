"""Patches that are a commit, a range or a pull request of the upstream, read from the user's own clone.

Nothing of their content is stored: the clone gives it each time a plan is made, and the lock pins it by blob
ids. The difference is made here from the two versions of each file, so that no diff driver, filter or
attribute of the repository has a say in it.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass

from auditor.errors import UserError
from auditor.lazyre import lazy
from auditor.patching.diffs.lines import file_change
from auditor.patching.model import ChangeSet, FileChange
from auditor.patching.sets.header import Reference
from auditor.profile import compile_patterns
from auditor.trees.git import GitRepo, MissingObject
from auditor.trees.names import decode_path

_NO_ID = lazy(r"0+")


@dataclass(frozen=True)
class Resolved:
    """What a reference means in one clone: the tree after, and the one before it."""

    before: str  # commit id
    after: str
    changes: ChangeSet
    commits: int = 1
    pr: int = 0


def resolve(
    reference: Reference, repo: GitRepo, *, exclude: Collection[str] = (), place: str | None = None
) -> Resolved:
    """The content of a reference. ``exclude`` are globs of paths that are not wanted.

    ``UserError`` P060 where the clone does not have it, with what to fetch.
    """
    if reference.range:
        first, _, last = reference.range.partition("..")
        before, after = _commit(repo, first, place), _commit(repo, last, place)
        if not repo.is_ancestor(before, after):
            raise UserError(
                "P060",
                f"{first} is not part of the history of {last}",
                place=place,
                hints=["A..B, older first"],
            )
        pr = 0
    elif reference.pr is not None:
        before, after = _pull_request(repo, reference.pr, place)
        pr = reference.pr
    else:
        after = _commit(repo, reference.commit_id(), place)
        before = _parent(repo, after, place)
        pr = 0
    changes = _changes(repo, before, after, exclude, place)
    if not changes:
        raise UserError("P060", f"{reference.shown()} changes no file that is wanted", place=place)
    subject, body, author, date = _words(repo, after)
    count = repo.output("rev-list", "--count", f"{before}..{after}").decode().strip()
    found = ChangeSet(changes, subject, body, author, date, commit=after)
    return Resolved(before, after, found, int(count), pr or _number(subject))


def _commit(repo: GitRepo, rev: str, place: str | None) -> str:
    try:
        return repo.commit(rev).oid
    except UserError as error:
        if error.code not in ("T002", "T003"):
            raise
        raise UserError(
            "P060",
            f"the commit {rev} is not in this clone" if error.code == "T002" else error.fact,
            place=place,
            hints=[repo.command("fetch --all --tags"), "--clone PATH names another clone"],
        ) from None


def _parent(repo: GitRepo, commit: str, place: str | None) -> str:
    """The first parent; the empty tree has no commit, so a root commit is no patch."""
    done = repo.run("rev-parse", "--verify", "-q", f"{commit}^1^{{commit}}")
    if done.returncode != 0:
        hint = "fetch --unshallow" if repo.is_shallow else "log -1 " + commit[:12]
        raise UserError(
            "P060", f"what {commit[:12]} changed cannot be told: its parent is not here", place=place,
            hints=[repo.command(hint)],
        )  # fmt: skip
    return done.stdout.decode().strip()


def _pull_request(repo: GitRepo, number: int, place: str | None) -> tuple[str, str]:
    """Before and after of a pull request: its squashed commit, or its head where that was fetched."""
    listed = repo.output(
        "log", "--all", "--format=%H%x09%s", "--fixed-strings", f"--grep=(#{number})"
    ).decode("utf-8", "replace")
    merged = [line.split("\t", 1) for line in listed.splitlines()]
    merged = [pair for pair in merged if pair[1].rstrip().endswith(f"(#{number})")]
    if merged:
        # The same change on several branches: the first one made is the one on the main line.
        after = merged[-1][0]
        return _parent(repo, after, place), after
    for ref in (f"refs/pull/{number}/head", f"refs/remotes/origin/pr/{number}", f"refs/heads/pr/{number}"):
        done = repo.run("rev-parse", "--verify", "-q", f"{ref}^{{commit}}")
        if done.returncode == 0:
            head = done.stdout.decode().strip()
            base = repo.run("merge-base", head, "HEAD")
            if base.returncode == 0 and (start := base.stdout.decode().strip()) != head:
                return start, head
    raise UserError(
        "P060",
        f"pull request {number} is not in this clone, neither merged nor fetched",
        place=place,
        hints=[
            repo.command(f"fetch origin pull/{number}/head:refs/pull/{number}/head"),
            "--clone PATH names another clone",
        ],
    )


def _changes(
    repo: GitRepo, before: str, after: str, exclude: Collection[str], place: str | None
) -> tuple[FileChange, ...]:
    raw = repo.output("diff-tree", "-r", "--raw", "-z", "-M", "--abbrev=40", before, after)
    unwanted = compile_patterns(tuple(exclude))
    parts = raw.decode("utf-8", "surrogateescape").split("\0")
    rows: list[tuple[str, str, str, str, str, str]] = []
    at = 0
    while at < len(parts) - 1:
        old_mode, new_mode, old, new, kind = parts[at][1:].split(" ")
        names = parts[at + 1 : at + (3 if kind[0] in "RC" else 2)]
        at += 1 + len(names)
        rows.append((kind[0], old_mode, new_mode, old, new, "\0".join(names)))
    wanted = [oid for row in rows for oid in (row[3], row[4]) if not _NO_ID.fullmatch(oid)]
    files = [row for row in rows if "160000" not in (row[1], row[2])]
    try:
        contents = dict(zip(wanted, repo.read_objects(wanted), strict=True))
    except MissingObject as missing:
        raise UserError(
            "P060",
            f"the contents of {missing} are not in this clone",
            place=place,
            hints=[repo.command("fetch --refetch --no-filter")],
        ) from None
    out = []
    for kind, old_mode, new_mode, old, new, names_text in files:
        names = [decode_path(name.encode("utf-8", "surrogateescape")) for name in names_text.split("\0")]
        if unwanted.match(names[-1]):
            continue
        if "120000" in (old_mode, new_mode):
            raise UserError("P060", f"it changes the link {names[-1]}, which no patch may", place=place)
        change = file_change(names[-1], contents.get(old), contents.get(new))
        if change is None and old_mode == new_mode and kind not in "RC":
            continue
        old_path = None if kind == "A" else names[0]
        new_path = None if kind == "D" else names[-1]
        hunks = change.hunks if change is not None else ()
        moded = kind == "A" or old_mode != new_mode
        out.append(
            FileChange(
                old_path if kind != "C" else None,
                new_path,
                hunks,
                "" if kind in "AC" else old,
                "" if kind == "D" else new,
                "" if kind == "A" else old_mode if moded else "",
                "" if kind == "D" else new_mode if moded else "",
                binary=change.binary if change is not None else None,
                binary_old=change.binary_old if change is not None else None,
            )
        )
    return tuple(out)


def _words(repo: GitRepo, commit: str) -> tuple[str, str, str, str]:
    """Subject, body, author and date of a commit."""
    for raw in repo.read_objects([commit]):
        head, _, message = raw.decode("utf-8", "replace").partition("\n\n")
        subject, _, body = message.partition("\n")
        author = next((line[7:] for line in head.split("\n") if line.startswith("author ")), "")
        who, _, when = author.rpartition("> ")
        return subject.strip(), body.strip(), f"{who}>" if who else "", when
    raise AssertionError("an object that was found is gone")


def _number(subject: str) -> int:
    found = re.search(r"\(#([0-9]{1,9})\)\s*$", subject)
    return int(found[1]) if found else 0
