"""Writing a plan to a target, and taking patches back: both in one transaction, read back afterwards."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

import msgspec

from auditor.errors import EXIT_CONFLICT, EXIT_FINDINGS, UserError
from auditor.patching.diffs.delta import delta
from auditor.patching.sets.upstreams import facts_of
from auditor.patching.write.checkout import Commit
from auditor.patching.write.disk import Root, held, perm_after
from auditor.patching.write.gitpart import (
    File,
    Step,
    _message,
    entries_of,
    git_mode,
    git_part,
    inverse_commits,
)
from auditor.patching.write.journal import (
    GitPart,
    Put,
    Share,
    left_behind,
)
from auditor.patching.write.repair import PATIENCE, drop_record, lock_of, locks
from auditor.patching.write.state import SCHEMA, Applied, State, encode, how_it_stands
from auditor.patching.write.target import Target
from auditor.patching.write.together import transact_together
from auditor.patching.write.unapply import take_back
from auditor.trees.names import blob_id, listing_id
from auditor.trees.treeid import tree_id, tree_with


@dataclass(frozen=True)
class Written:
    """What is on the target now. ``result`` is the tree id after reading back."""

    result: str
    commits: tuple[str, ...] = ()
    branch: str = ""
    files: tuple[str, ...] = ()


@contextmanager
def at_work(target: Target, patience: float = PATIENCE) -> Iterator[Root]:
    """Hold the target for a change. ``UserError`` P042 another run, P056 an unfinished one."""
    with all_at_work([target], patience) as roots:
        yield roots[0]


@contextmanager
def all_at_work(targets: Sequence[Target], patience: float = PATIENCE) -> Iterator[list[Root]]:
    """Hold several targets, always in the same order, so that two runs cannot wait for each other."""
    with ExitStack() as stack:
        for lock in locks([lock_of(target) for target in targets]):
            stack.enter_context(held(lock, patience))
        roots = [stack.enter_context(Root(target.root)) for target in targets]
        for target, root in zip(targets, roots, strict=True):
            found = left_behind(root, target.store)
            if found is not None:
                raise UserError(
                    "P056",
                    f"an earlier run was stopped in the middle ({found.header.verb} {found.header.what})",
                    place=target.shown,
                    hints=[f"patches doctor {target.option}"],
                    exit_code=EXIT_CONFLICT,
                )
        yield roots


@dataclass(frozen=True)
class Ready:
    """What a change would do to one target: nothing is written yet."""

    target: Target
    share: Share
    written: Written
    removed: tuple[Applied, ...] = ()


def write_all(ready: Sequence[Ready], *, progress: Callable[[str], None] | None = None) -> list[Written]:
    """Write to every target, or to none; each is read back before the change counts as complete."""
    transact_together([each.share for each in ready], step=progress)
    return [each.written for each in ready]


#: A target, its root, the patches for it, the way they are written, and the branch where that is commits.
Asked = tuple[Target, Root, Sequence[Step], str, str]


def ready_all(asked: Sequence[Asked], together: Sequence[Target]) -> list[Ready]:
    """What a run would do to each target; where one cannot be written, nothing of it is left on any.

    ``together`` are all targets of the patchset, also those that have everything already.
    """
    ready: list[Ready] = []
    try:
        for target, root, steps, way, branch in asked:
            partners = {
                other.profile.name: os.path.relpath(
                    os.path.realpath(other.root), os.path.realpath(target.root)
                )
                for other in together
                if other is not target
            }
            ready.append(ready_steps(target, root, steps, way=way, branch=branch, partners=partners))
    except BaseException:
        for target, *_ in asked:
            if target.checkout is not None:
                target.checkout.forget_scratch()
        raise
    return ready


def write_steps(
    target: Target,
    root: Root,
    steps: Sequence[Step],
    *,
    way: str,
    branch: str = "",
    progress: Callable[[str], None] | None = None,
) -> Written:
    """Write planned patches on top of what the target holds: `ready_steps`, then all of it or nothing."""
    return write_all([ready_steps(target, root, steps, way=way, branch=branch)], progress=progress)[0]


def ready_steps(
    target: Target,
    root: Root,
    steps: Sequence[Step],
    *,
    way: str,
    branch: str = "",
    partners: Mapping[str, str] | None = None,
) -> Ready:
    """Planned patches on top of what the target holds. ``way``: ``commits``, ``staged``, ``folder``.

    The plan must have been made on ``target.tree``; a file that differs from it by now is refused (P051).
    ``partners`` are the other upstreams that are written in the same change, and the way to them.
    """
    if target.checkout is not None:
        target.checkout.require_idle()
    before = {path: _read(root, path) for path in sorted({p for step in steps for p in step.files})}
    _still_as_planned(target, before)
    state = target.state
    _same_way(target, state, way)
    applied, after, commits = _chain(steps, before)
    checkout = target.checkout
    part: GitPart | None = None
    ids: list[str] = []
    if checkout is not None:
        entries = entries_of(checkout, before)
        part, ids = git_part(checkout, entries, after, commits, way, branch)
        waiting = iter(ids)
        applied = [msgspec.structs.replace(p, commit=next(waiting, "")) if p.files else p for p in applied]
    result = _result(target, after, way)
    new = State(
        schema=SCHEMA,
        project=target.profile.name,
        way=way,
        base=state.base if state is not None else target.base(),
        result=result,
        patches=(*(state.patches if state is not None else ()), *applied),
        folders=_folders(root, state, before, after),
        upstream=facts_of(target.profile),
        partners={**(state.partners if state is not None else {}), **(partners or {})},
    )
    share = _share(target, root, before, after, "apply", steps, state, new, part, result)
    return Ready(target, share, Written(result, tuple(ids), branch, tuple(sorted(after))))


def revert(
    target: Target,
    root: Root,
    names: Sequence[tuple[str, str]],
    *,
    progress: Callable[[str], None] | None = None,
) -> tuple[Written, list[Applied]]:
    """Take patches out by inverse change: `ready_revert`, then all of it or nothing."""
    ready = ready_revert(target, root, names)
    return write_all([ready], progress=progress)[0], list(ready.removed)


def ready_revert(target: Target, root: Root, names: Sequence[tuple[str, str]]) -> Ready:
    """Patches taken out by inverse change, last one first; every byte, mode and index entry as before them.

    ``UserError`` P053 (a conflict) where somebody changed the same lines since, P057 if nothing is applied.
    """
    state = target.state
    if state is None:
        raise UserError("P057", "nothing is applied here", place=target.shown, hints=["patches status"])
    undone = take_back(state, names, root.read)
    before = {path: _read(root, path) for path in undone.files}
    after = undone.files
    checkout = target.checkout
    part: GitPart | None = None
    ids: list[str] = []
    if checkout is not None:
        entries = entries_of(checkout, before)
        commits = inverse_commits(state, undone.removed, before) if state.way == "commits" else []
        part, ids = git_part(checkout, entries, after, commits, state.way, "", same_branch=True)
    result = _result(target, after, state.way)
    new = None
    if undone.kept:
        new = msgspec.structs.replace(state, result=result, patches=undone.kept)
    drop = () if undone.kept else state.folders
    share = _share(target, root, before, after, "revert", undone.removed, state, new, part, result, drop)
    written = Written(result, tuple(ids), "", tuple(sorted(after)))
    return Ready(target, share, written, tuple(undone.removed))


def require_as_recorded(target: Target, root: Root) -> None:
    """A record is only built on where the bytes are what it says; one of which nothing is left is dropped.

    ``UserError`` P058, exit code 1, where some files are as recorded and others are not.
    """
    files = stands(target, root)
    odd = [path for path, how in files.items() if how != "applied"]
    if not odd:
        return
    if set(files.values()) == {"as before"}:
        drop_record(target)
        return
    assert target.state is not None
    was, now = target.state.base.version, target.version or ""
    why = f"the package is {now} now, the record is of {was}" if was != now else f"{odd[0]} was changed since"
    raise UserError(
        "P058",
        f"patches are recorded here, but the files are others: {why}",
        place=target.shown,
        hints=[
            f"patches doctor {target.option}        # says which files",
            f"patches doctor --forget {target.option}        # drops the record",
        ],
        exit_code=EXIT_FINDINGS,
    )


def _read(root: Root, path: str) -> File:
    found = root.read(path)
    return found if found is not None else (None, 0)


def _still_as_planned(target: Target, before: dict[str, File]) -> None:
    blobs = target.tree.blobs()
    for path, (data, _) in before.items():
        if (blob_id(data) if data is not None else "") == blobs.get(path, ""):
            continue
        if target.checkout is None:
            raise UserError(
                "P044", "a file was changed since it was read", place=path, hints=["run it again"]
            )
        repo = target.checkout.repo
        if data is not None and blob_id(data.replace(b"\r\n", b"\n")) == blobs.get(path, ""):
            raise UserError(
                "P051",
                f"git changes the line ends of {path} on checkout: what is there is not what was planned on",
                place=target.shown,
                hints=[repo.command("-c core.autocrlf=false checkout HEAD -- .")],
            )
        fact = (
            "is in the way: it is not part of the commit" if path not in blobs else "has uncommitted changes"
        )
        raise UserError(
            "P051",
            f"{path} {fact}",
            place=target.shown,
            hints=[repo.command(f"stash push {'-u ' if path not in blobs else ''}-- {path}")],
        )


def _chain(
    steps: Sequence[Step], before: dict[str, File]
) -> tuple[list[Applied], dict[str, File], list[Commit]]:
    """The records, the files in the end, and the commits of patches in order."""
    now = dict(before)
    applied: list[Applied] = []
    commits: list[Commit] = []
    for step in steps:
        deltas = []
        files: dict[str, tuple[bytes | None, str]] = {}
        for path, data in sorted(step.files.items()):
            old, old_perm = now[path]
            perm = perm_after(step.modes.get(path, ""), old_perm, data)
            if (data, perm) == (old, old_perm):
                continue
            deltas.append(delta(path, old, data, old_perm, perm))
            now[path] = (data, perm)
            files[path] = (data, git_mode(perm))
        applied.append(
            Applied(step.patchset, step.name, step.sha256, step.status, tuple(deltas), note=step.note)
        )
        if files:
            commits.append(Commit(_message(step), step.author, step.date, files))
    return applied, {path: now[path] for path in now if now[path] != before[path]}, commits


def _same_way(target: Target, state: State | None, way: str) -> None:
    if state is not None and state.way != way:
        words = {"commits": "as commits: --branch NAME", "staged": "staged: --stage"}
        raise UserError(
            "P058",
            f"patches are applied here already, {words.get(state.way, state.way)}; both ways do not mix",
            place=target.shown,
            hints=[f"patches revert {target.option}"],
        )


def _folders(
    root: Root, state: State | None, before: dict[str, File], after: dict[str, File]
) -> tuple[str, ...]:
    made = set(state.folders if state is not None else ())
    for path, (data, _) in after.items():
        if data is not None and before[path][0] is None:
            made.update(root.missing_folders(path))
    return tuple(sorted(made, key=lambda path: (path.count("/"), path)))


def _result(target: Target, after: dict[str, File], way: str) -> str:
    """The id of the tree as it will be: git's own for a checkout, a digest over paths and blobs otherwise."""
    if target.checkout is None:
        blobs = dict(target.tree.blobs())
        for path, (data, _) in after.items():
            if data is None:
                blobs.pop(path, None)
            else:
                blobs[path] = blob_id(data)
        return listing_id(blobs)
    changes = {
        path.encode(): None if data is None else (git_mode(perm).encode(), blob_id(data).encode())
        for path, (data, perm) in after.items()
    }
    if way == "commits":
        head, _ = target.checkout.head()
        repo = target.checkout.repo
        return tree_with(head.tree, changes, lambda oid: next(repo.read_objects([oid])))
    listing = target.checkout.index_listing()
    for name, entry in changes.items():
        if entry is None:
            listing.pop(name, None)
        else:
            listing[name] = entry
    return tree_id(listing)


def _share(
    target: Target,
    root: Root,
    before: dict[str, File],
    after: dict[str, File],
    verb: str,
    what: Sequence[Step] | Sequence[Applied],
    old: State | None,
    new: State | None,
    part: GitPart | None,
    result: str,
    drop: tuple[str, ...] = (),
) -> Share:
    puts = [
        Put(path, before[path][0], data, before[path][1], perm)
        for path, (data, perm) in sorted(after.items())
        if (data, perm) != before[path]
    ]
    known = new or old
    return Share(
        root,
        target.store,
        puts,
        verb,
        ", ".join(dict.fromkeys(entry.name for entry in what)),
        encode(old) if old is not None else None,
        encode(new) if new is not None else None,
        drop,
        target.checkout,
        part,
        target.profile.name,
        (lambda: _same_tree(target, result, known.way, part)) if known is not None else None,
    )


def _same_tree(target: Target, result: str, way: str, part: GitPart | None) -> None:
    """Ask git for the tree it has now. ``UserError`` P044 if it is not the one that was meant."""
    if target.checkout is None or part is None:
        return
    if way == "commits":
        there = target.checkout.head()[0].tree
    else:
        there = target.checkout.index_tree()
    if there != result:
        raise UserError(
            "P044",
            f"the tree is {there}, not {result} as planned",
            place=target.shown,
            hints=[target.checkout.repo.command("status")],
        )


def stands(target: Target, root: Root) -> dict[str, str]:
    """path -> whether each file of the record is ``applied``, ``as before`` or ``changed`` on the target."""
    if target.state is None:
        return {}
    there = {}
    for patch in target.state.patches:
        for change in patch.files:
            found = root.read(change.path)
            there[change.path] = blob_id(found[0]) if found is not None else ""
    return how_it_stands(target.state, there)
