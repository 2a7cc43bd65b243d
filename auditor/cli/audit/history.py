"""``audit history``: which commits changed what a gate means."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING

import click
import msgspec

from auditor.cli.command import Option, VerbCommand
from auditor.cli.options import Request, tree_options
from auditor.errors import UserError

if TYPE_CHECKING:
    from rich.console import Console

    from auditor.gates.model import Gate, Report
    from auditor.history.past import Past
    from auditor.trees.between import LogEntry
    from auditor.trees.commit import CommitTree
    from auditor.trees.git import GitRepo

#: Where no range is named and it is not known where the gate came from: so many commits, or all there are.
_MOST = 200
#: How often the line of a gate is followed to the one that stood there before. Each costs an audit.
_STEPS = 8
#: A shorter line is no sign of its gate.
_TELLING = 8


@click.command(
    cls=VerbCommand,
    example=(
        "audit history deep_gemm_wrapper/configurer.py:22 --target sm_120,sm_121",
        "audit history 1a4155c6a9c6 v0.5.13..HEAD --repo ../sglang --every",
    ),
)
@click.argument("word", metavar="GATE")
@click.argument("commits", metavar="[A..B]", required=False)
@click.option(
    "--every",
    is_flag=True,
    cls=Option,
    section="what is asked",
    help="Look at each commit that could matter.",
)
@click.option(
    "--moved", is_flag=True, cls=Option, section="output", help="Also where it only moved or was respelled."
)
@tree_options(trees_are_words=True)
def history(word: str, commits: str | None, every: bool, moved: bool, request: Request) -> None:
    """Which commits changed what this gate means, when, in which pull request, and from what to what?

    GATE is a gate's id, path:line or a symbol, at the newer end of the range or at the older one. Without a
    range: from where it came from to HEAD. Commits are found by halving; --every also finds changes that were
    taken back.
    """
    from auditor.cli.output import render, write_bytes
    from auditor.reporting import pastpage

    found = _past(word, commits, every, moved, request)
    if request.format == "json":
        write_bytes(pastpage.dumps(found), request.output)
        return

    def draw(console: Console) -> None:
        pastpage.render(found, console, quiet=request.quiet)

    render(draw, request.output, request.color)


def _past(word: str, text: str | None, every: bool, moved: bool, request: Request) -> Past:
    from auditor import __version__
    from auditor.cli.progress import Progress
    from auditor.history.model import Commit
    from auditor.history.past import SCHEMA_VERSION, Past, events, kept, same_gate, symbols_of
    from auditor.trees.between import commits_between, line_of_commits
    from auditor.trees.steps import ends_of

    notes: list[str] = []
    symbols: dict[str, set[str]] = {}
    if text is None:
        repo, old, new, newer, older = _whole(word, request, symbols)
    else:
        try:
            repo, old, new = _range(text, word, request)
        except UserError as error:
            raise _of_releases(error, text) from None
        first, last = ends_of(text, f"audit history {word}")
        newer, older = _audited(last, request), _audited(first, request)
    gate, here = _gate(word, newer, older)
    _add(symbols, symbols_of(gate, newer if here else older))
    across = same_gate(gate, older if here else newer)
    if across is not None:
        _add(symbols, symbols_of(across, older if here else newer))
    line = _that_matter(repo, old, line_of_commits(repo, old, new, symbols), symbols)
    points = [old, *(entry.oid for entry, _ in line)]
    reports: dict[int, Report] = {0: older}
    if len(points) > 1:
        reports[len(points) - 1] = newer  # no commit after the last of them can matter

    def gate_at(number: int, like: Gate) -> Gate | None:
        if number not in reports:
            with Progress(request.quiet).waiting(f"auditing {points[number][:9]}"):
                reports[number] = _audited(points[number], request._replace(quiet=True))
        return same_gate(like, reports[number])

    told = kept(
        events(gate_at, gate, len(points), newer.targets, every=every, from_first=text is None), moved
    )
    changes = []
    for number, change in told:
        entry = line[number - 1][0]
        commit = Commit(entry.oid, entry.date, entry.subject, entry.pr)
        changes.append(msgspec.structs.replace(change, commits=(commit,)))
    if not here:
        notes.append(f"the gate is not in {newer.tree.label} any more")
    total = len(commits_between(repo, old, new))
    return Past(
        schema_version=SCHEMA_VERSION,
        tool=f"sglang-auditor {__version__}",
        project=newer.project,
        gate=gate.id,
        path=gate.path,
        symbol=gate.symbol,
        what=f"{gate.kind} {gate.predicate}",
        targets=newer.targets,
        reference=newer.reference,
        assumptions=newer.assumptions,
        old=older.tree.label,
        new=newer.tree.label,
        commits=total,
        touching=len(line),
        audited=len(reports),
        every=every,
        events=tuple(changes),
        notes=tuple(notes),
    )


def _add(symbols: dict[str, set[str]], more: Mapping[str, Collection[str]]) -> None:
    for path, names in more.items():
        symbols.setdefault(path, set()).update(names)


def _that_matter(
    repo: GitRepo,
    old: str,
    line: list[tuple[LogEntry, tuple[str, ...]]],
    symbols: Mapping[str, Collection[str]],
) -> list[tuple[LogEntry, tuple[str, ...]]]:
    """The commits that change what the files say about the symbols."""
    from auditor.history.past import text_of
    from auditor.trees.commit import CommitTree

    digests: dict[tuple[str, str], bytes] = {}

    def said(commit: str, path: str) -> bytes:
        tree = CommitTree(repo, commit)
        blob = tree.blobs().get(path)
        if blob is None:
            return b""
        if (path, blob) not in digests:
            digests[path, blob] = text_of(tree.read(path), symbols[path])
        return digests[path, blob]

    known = {path: said(old, path) for path in symbols}
    out = []
    for entry, paths in line:
        now = {path: said(entry.oid, path) for path in paths if path in symbols}
        if any(known[path] != text for path, text in now.items()):
            out.append((entry, paths))
        known.update(now)
    return out


def _range(text: str, word: str, request: Request) -> tuple[GitRepo, str, str]:
    """The repository and the full ids of a range's ends, before anything is audited. UserError H020, H021."""
    from auditor.trees.steps import ends_of, first_parents

    verb = f"audit history {word}"
    with _commit_of(ends_of(text, verb)[1], f"{verb} {text}", request) as tree:
        line = first_parents(tree.repo, text, verb)
        return tree.repo, line.first, line.last


@contextmanager
def _commit_of(rev: str, verb: str, request: Request) -> Iterator[CommitTree]:
    """The tree of a commit of a clone. UserError H021 where what is here is none; ``verb`` was typed."""
    from auditor.cli.source import opened
    from auditor.trees.commit import CommitTree

    with opened(_of_commit(rev, request)) as tree:
        if not isinstance(tree, CommitTree):
            raise UserError("H021", "a history needs a clone", hints=[f"{verb} --repo ../sglang"])
        yield tree


def _whole(
    word: str, request: Request, symbols: dict[str, set[str]]
) -> tuple[GitRepo, str, str, Report, Report]:
    """The repository, the ids of the commit before a gate of HEAD came and of HEAD, and the audits of both.

    The line that the gate stands on is followed to the commit that brought it; where the tree before has the
    gate too, on another line or in another file, from there on. Its symbols come into ``symbols``.
    """
    from auditor.cli.progress import Progress
    from auditor.history.past import same_gate, symbols_of
    from auditor.trees.between import brought, oldest_of

    with _commit_of("HEAD", f"audit history {word}", request) as tree:
        repo, new = tree.repo, tree.commit.oid
    newer = older = _audited(new, request)
    gate: Gate | None = _gate(word, newer, newer)[0]
    old = new
    for _ in range(_STEPS):
        assert gate is not None
        line = _line_of(repo, old, gate)
        with Progress(request.quiet).waiting("looking for the commit that brought it"):
            came = brought(repo, old, gate.path, line) if line else ""
        if not came:
            break
        before = repo.first_commit([f"{came}^1"])
        old = before or came  # where it came with the very first commit, nothing is before it
        older = _audited(old, request)
        gate = same_gate(gate, older)
        if gate is None or not before:
            break
        _add(symbols, symbols_of(gate, older))
    if old == new:
        old = oldest_of(repo, new, _MOST)
        older = _audited(old, request)
    return repo, old, new, newer, older


def _line_of(repo: GitRepo, commit: str, gate: Gate) -> str:
    """The longest line of a gate's condition, as it is written, "" where all are too short to tell."""
    from auditor.trees.commit import CommitTree

    tree = CommitTree(repo, commit)
    if gate.path not in tree.blobs():
        return ""
    lines = tree.read(gate.path).decode("utf-8", "surrogateescape").split("\n")
    longest = max((text.strip() for text in lines[gate.line - 1 : gate.end_line]), key=len, default="")
    return longest if len(longest) >= _TELLING else ""


def _of_releases(error: UserError, text: str) -> UserError:
    """The error, with what can be asked of two releases where the range names no commits but these."""
    ends = text.split("..")
    if error.code != "T002" or len(ends) != 2 or not all(re.fullmatch(r"\d+(\.\w+)+", end) for end in ends):
        return error
    hints = [f"audit diff {ends[0]} {ends[1]}        # releases; a history is of commits, such as A~500..A"]
    return UserError(error.code, error.fact, place=error.place, hints=hints)


def _of_commit(word: str, request: Request) -> Request:
    return request._replace(commit=word, release=None, wheel=None, installed=None, worktree=False)


def _audited(commit: str, request: Request) -> Report:
    """The audit of a commit."""
    from auditor.cli.source import audited, opened

    plain = _of_commit(commit, request)
    with opened(plain) as tree:
        return audited(tree, plain)


def _gate(word: str, newer: Report, older: Report) -> tuple[Gate, bool]:
    """The one gate that a word names, and whether the newer audit has it. UserError U012, H022."""
    from auditor.cli.audit.gate import select

    try:
        gates, here = select(newer, word)[0], True
    except UserError as error:
        try:
            gates, here = select(older, word)[0], False
        except UserError:
            hints = [hint.replace("audit gate ", "audit history ", 1) for hint in error.hints]
            raise UserError(error.code, error.fact, place=error.place, hints=hints) from None
    if len(gates) != 1:
        hints = [
            f"audit history {gate.id}    # {gate.path}:{gate.line} {gate.predicate}" for gate in gates[:6]
        ]
        raise UserError("H022", f"{word!r} names {len(gates)} gates; one is needed", hints=hints)
    return gates[0], here
