"""Two trees and what changed between them: what ``audit diff`` and ``audit guard`` share."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterator
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from auditor.cli.request import FORMATS, Request, in_actions
from auditor.cli.source import audited, opened
from auditor.errors import UserError
from auditor.lazyre import lazy

if TYPE_CHECKING:
    from rich.console import Console

    from auditor.gates.model import Report
    from auditor.history.baseline import Baseline
    from auditor.history.flags import Flag
    from auditor.history.model import Change, Diff
    from auditor.native.model import Availability
    from auditor.trees.base import SourceTree

_VERSION = lazy(r"v?\d+\.\d+(\.\d+)*([a-z]+\d+)*(\.post\d+)?")
#: Changes whose commit is looked for line by line; more would take long.
_MOST_TRACED = 60


class Compared(NamedTuple):
    """What changed; the newer tree, how many commits lie between, and whether files were left out."""

    diff: Diff
    tree: SourceTree | None
    between: str
    problems: bool
    new: Report
    old_tree: SourceTree | None = None
    old: Report | None = None


class _Side(NamedTuple):
    """One side of a comparison: an audit, and the tree it is of or the baseline it comes from."""

    report: Report
    tree: SourceTree | None
    kept: Baseline | None = None


@contextmanager
def compared(a: str, b: str, request: Request, kernels: bool = True) -> Iterator[Compared]:
    """The comparison of two trees (a commit, release, wheel, folder, baseline, kept report), open within."""
    from auditor.history.diff import compare
    from auditor.history.still import with_what_stands

    with ExitStack() as stack:
        # both are found before either is audited: what is misspelled is said at once
        old_tree, new_tree = (_found(word, request, stack) for word in (_forked(a, request), b))
        old, new = _side(old_tree, request), _side(new_tree, request)
        notes: list[str] = []
        maps = _kernels(old, new, request, notes) if kernels else None
        flags = _flags(old, new, request)
        found = compare(old.report, new.report, kernels=maps, flags=flags, notes=notes)
        found = msgspec.structs.replace(found, changes=with_what_stands(found.changes, old.tree, new.tree))
        found, between = _with_commits(found, old, new, request)
        problems = bool(old.report.problems or new.report.problems)
        yield Compared(found, new.tree, between, problems, new.report, old.tree, old.report)


def show(
    found: Compared,
    request: Request,
    *,
    verbose: int,
    tripped: Collection[Change],
    empty: str = "nothing changed in meaning",
    whole: Diff | None = None,
) -> None:
    """Print a comparison in the form that is asked for.

    ``tripped`` are the changes that stop a person; ``empty`` is said where nothing changed. ``whole``: this
    is what a guard says, and all that changed, also what did not trip it.
    """
    from auditor.cli.output import render, write_bytes
    from auditor.reporting import diffjson, diffpage

    if request.format == "json":
        write_bytes(diffjson.dumps(found.diff), request.output)
        return
    if request.format == "html":
        write_bytes(_page(found, request, tuple(tripped), empty, whole), request.output)
        return
    if request.format in FORMATS:
        from auditor.cli.audit.papers import diff_paper, write_paper

        write_paper(diff_paper(found, tripped, empty), request, found.tree)
        return

    def draw(console: Console) -> None:
        diffpage.render(
            found.diff,
            console,
            verbose=verbose,
            quiet=request.quiet,
            tree=found.tree,
            commits=found.between,
            empty=empty,
            everything=request.verbose > 0,
        )

    render(draw, request.output, request.color)
    if in_actions():
        from auditor.cli.audit.papers import annotate, diff_paper

        annotate(diff_paper(found, tripped, empty), request)


def _page(
    found: Compared, request: Request, tripped: tuple[Change, ...], empty: str, whole: Diff | None
) -> bytes:
    import shlex

    from auditor.profile import load_profile
    from auditor.reporting.diffpage import header_lines
    from auditor.reporting.html import diff as diffhtml

    diff = found.diff
    judged = None
    if whole is not None:
        judged = diffhtml.Judged(tripped, empty)
        diff = msgspec.structs.replace(diff, changes=whole.changes)
    clone = request.repo or request.path
    return diffhtml.page(
        diff,
        header_lines(diff, found.between),
        found.new,
        old=found.old,
        judged=judged,
        url=load_profile(request.project).url or "",
        repo=f" --repo {shlex.quote(clone)}" if clone else "",
    )


def kinds_of_change(text: str, option: str) -> set[str]:
    """A comma list of kinds of change, given to ``option``. UserError U006 for an unknown one."""
    from auditor.history.model import KINDS

    names = {word.strip() for word in text.split(",") if word.strip()}
    for name in sorted(names):
        if name not in KINDS:
            import difflib

            near = difflib.get_close_matches(name, KINDS, n=1)
            fact = f"unknown kind of change {name!r}; known are {', '.join(KINDS)}"
            raise UserError("U006", fact, place=f"{option} {text}", hints=[f"{option} {n}" for n in near])
    return names


def ends_typed(a: str, b: str | None, verb: str, default: str | None = None) -> tuple[str, str]:
    """The two trees that were typed, as two words or as ``A..B``; of ``A...B`` the first is the whole word.

    UserError U005 where a range stands beside a tree or lacks an end, U001 where the newer one is not named.
    """
    old, dots, new = a.partition("..")
    if not dots or "../" in a or a.startswith("."):
        if b is None and default is None:
            raise UserError("U001", "missing argument 'B'", hints=[f"{verb} {a} HEAD", f"{verb} --help"])
        return a, b or default or "HEAD"
    new = new.removeprefix(".")
    if not new:
        raise UserError("U005", f"{a!r} names one end", hints=[f"{verb} {a}HEAD"])
    if b is not None:
        raise UserError("U005", f"{a!r} names both trees already", hints=[f"{verb} {a}"])
    return (a if "..." in a else old), new


def _forked(a: str, request: Request) -> str:
    """The older end as a tree is named: of ``A...B`` the id of the commit that both come from, else itself.

    UserError H023 where there is no such commit.
    """
    from auditor.trees.between import merge_base
    from auditor.trees.commit import CommitTree

    old, dots, new = a.partition("...")
    if not dots or "../" in a:
        return a
    with opened(
        request._replace(commit=new, release=None, wheel=None, installed=None, worktree=False)
    ) as tree:
        base = merge_base(tree.repo, old, new) if isinstance(tree, CommitTree) else ""
    if not base:
        raise UserError("H023", f"no commit is in both {old} and {new}", hints=[f"audit diff {old} {new}"])
    return base


def _found(word: str, request: Request, stack: ExitStack) -> _Side | SourceTree:
    """One side, before anything is audited: a baseline, a kept report, or an open tree."""
    if word.endswith((".json", ".json.gz")):
        from auditor.history import baseline
        from auditor.reporting import jsonout

        try:
            with open(word, "rb") as file:
                data = file.read()
        except OSError as error:
            fact = f"cannot read the report: {(error.strerror or str(error)).lower()}"
            raise UserError("U013", fact, place=word, hints=["audit diff A.json B.json"]) from None
        data = baseline.unpacked(data, word)
        if baseline.is_baseline(data):
            kept = baseline.loads(data, word)
            return _Side(kept.report, None, kept)
        return _Side(jsonout.loads(data, word), None)
    return stack.enter_context(opened(_request_for(word, request)))


def _side(found: _Side | SourceTree, request: Request) -> _Side:
    """The side with its audit."""
    return found if isinstance(found, _Side) else _Side(audited(found, request), found)


def _request_for(word: str, request: Request) -> Request:
    """Where a word lies: a wheel or folder on this disk, else a commit where a clone is named or near, and
    a release where it looks like one and no clone is named."""
    plain = request._replace(commit=None, release=None, wheel=None, installed=None, worktree=False)
    if word.endswith(".whl"):
        return plain._replace(wheel=word, path=None, repo=None)
    if os.sep in word and os.path.isdir(word):
        return plain._replace(path=word, repo=None)
    if _VERSION.fullmatch(word) and request.path is None and request.repo is None and not _is_commit(word):
        return plain._replace(release=word.removeprefix("v"))
    return plain._replace(commit=word)


def _is_commit(word: str) -> bool:
    """Whether the clone around this folder knows the word (a tag like v0.5.18, say)."""
    from auditor.trees.git import GitRepo

    repo = GitRepo.find(".")
    if repo is None:
        return False
    try:
        repo.commit(word)
    except UserError:
        return False
    return True


def _kernels(a: _Side, b: _Side, request: Request, notes: list[str]) -> Any:
    """The maps of both sides, or None with a note where one has none."""
    out = []
    for side in (a, b):
        if side.tree is None:
            found = side.kept.kernels if side.kept is not None else None
            if found is None:
                what = "the baseline" if side.kept is not None else "a kept report"
                notes.append(f"kernels are not compared: {what} has no map of them")
        else:
            found = kernels_of(side.tree, request, notes)
        if found is None:
            return None
        out.append(found)
    return out[0], out[1]


def kernels_of(tree: SourceTree, request: Request, notes: list[str]) -> Availability | None:
    """The map of a tree's kernels, or None with a note where it has none."""
    from auditor.cli.progress import Progress
    from auditor.native.model import Availability

    def made() -> Availability:
        from auditor.native.availability import availability
        from auditor.native.world import KernelOptions

        return availability(tree, KernelOptions(request.targets, request.assumptions, request.project))

    label = tree.info().label
    try:
        with Progress(request.quiet).waiting(f"reading the kernels of {label}"):
            return _remembered("kernel-maps", Availability, tree, request, made)
    except UserError as error:
        notes.append(f"kernels are not compared: {label}: {error.fact}")
        return None


def _remembered(kind: str, type_: Any, tree: SourceTree, request: Request, make: Callable[[], Any]) -> Any:
    """What this very tool makes of this very tree for these questions, from the cache where it is there."""
    if not request.use_cache:
        return make()
    import hashlib

    from auditor.tooldigest import tool_digest
    from auditor.trees.cache import remembered

    asked = request.targets, sorted(request.assumptions.items()), request.project
    key = hashlib.sha256(f"{tool_digest()} {tree.info()!r} {asked!r}".encode()).hexdigest()
    return remembered(kind, key, type_, make)


def _flags(a: _Side, b: _Side, request: Request) -> Any:
    out = []
    for side in (a, b):
        if side.tree is not None:
            out.append(flags_of(side.tree, request))
        elif side.kept is not None:
            out.append({flag.name: flag for flag in side.kept.flags})
        else:
            return None
    return out[0], out[1]


def flags_of(tree: SourceTree, request: Request) -> dict[str, Flag]:
    """The environment flags that a tree declares, by name."""
    from auditor.history.flags import Flag, declared_flags
    from auditor.profile import load_profile

    def made() -> dict[str, Flag]:
        return declared_flags(tree, load_profile(request.project))

    found: dict[str, Flag] = _remembered("flags", dict[str, Flag], tree, request, made)
    return found


def _counted(number: int) -> str:
    return f"{number:,} commit{'' if number == 1 else 's'}"


def _with_commits(found: Diff, a: _Side, b: _Side, request: Request) -> tuple[Diff, str]:
    """Name the upstream commit of each change where both sides are commits of one repository.

    Of a baseline the commit is known by its id: it is looked for in the repository of the newer side.
    """
    from auditor.history.model import Commit
    from auditor.history.words import names_it, sought
    from auditor.trees.between import LogEntry, changed_lines, commits_between, touched
    from auditor.trees.commit import CommitTree

    if not isinstance(b.tree, CommitTree):
        return found, ""
    repo, new = b.tree.repo, b.tree.commit.oid
    if isinstance(a.tree, CommitTree) and a.tree.repo.git_dir == repo.git_dir:
        old = a.tree.commit.oid
    elif a.tree is None and a.report.tree.commit:
        old = a.report.tree.commit
        try:
            repo.commit(old)
        except UserError:
            from auditor.cli.output import note

            text = f"note: {old[:9]} of the baseline is not in this clone: no commit can be named"
            note(text, request.quiet)
            return found, ""
    else:
        return found, ""
    back = 0 if repo.is_ancestor(old, new) else len(commits_between(repo, new, old))
    between = commits_between(repo, old, new)
    paths = {path for change in found.changes for path in (change.path, change.old_path) if path}
    by_path = touched(repo, old, new, paths)
    lines: dict[str, list[tuple[LogEntry, str]]] = {}
    # A file is read once for all its changes; what a target lost or gained for sure comes first.
    for change in sorted(found.changes, key=sought):
        path = change.path if change.path in by_path else change.old_path
        if len(by_path.get(path, ())) > 1 and len(lines) < _MOST_TRACED and change.kind != "moved":
            if path not in lines:
                lines[path] = changed_lines(repo, old, new, path)

    def commits(change: Change) -> tuple[Commit, ...]:
        path = change.path if by_path.get(change.path) else change.old_path
        entries: list[LogEntry] = by_path.get(path, [])
        exact = [entry for entry, text in lines.get(path, ()) if names_it(change, text)]
        if change.kind != "moved":
            entries = exact or entries
        return tuple(Commit(e.oid, e.date, e.subject, e.pr) for e in entries)

    changes = tuple(msgspec.structs.replace(c, commits=commits(c)) for c in found.changes)
    words = _counted(len(between))
    if back:
        words = f"{words}, on two branches" if between else f"backwards over {_counted(back)}"
    return msgspec.structs.replace(found, changes=changes), words
