"""What a change of files is to a checkout: index entries, commits with their trailers, branch and HEAD."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from auditor.errors import UserError
from auditor.patching.write.checkout import Checkout, Commit, IndexEntry
from auditor.patching.write.journal import GitPart
from auditor.patching.write.state import SCHEMA, Applied, State
from auditor.patching.write.unapply import take_back
from auditor.trees.names import blob_id

#: A file as it is on a disk: its content, None for no file, and its permissions.
File = tuple["bytes | None", int]


@dataclass(frozen=True)
class Step:
    """One patch as it was planned, ready to be written. ``files`` as in ``Outcome.files``."""

    patchset: str
    name: str
    sha256: str
    status: str
    files: dict[str, bytes | None]
    modes: dict[str, str] = field(default_factory=dict)
    note: str = ""
    message: str = ""  # of its commit; made from the names where empty
    author: str = ""
    date: str = ""  # "seconds zone", "" for now


def git_mode(perm: int) -> str:
    """The mode that git keeps of a file with these permissions."""
    return "100755" if perm & 0o100 else "100644"


def _message(step: Step) -> str:
    subject = step.message.strip() or step.name
    trailers = [
        f"Patch-Name: {step.name}",
        f"Patch-Set: {step.patchset}",
        f"Patch-Hash: sha256:{step.sha256}",
        f"Patch-Status: {step.status}",
    ]
    last = subject.rpartition("\n\n")[2] if "\n\n" in subject else ""
    glue = "\n" if last and all(_is_trailer(line) for line in last.split("\n")) else "\n\n"
    return subject + glue + "\n".join(trailers) + "\n"


def _is_trailer(line: str) -> bool:
    key, colon, value = line.partition(": ")
    return bool(colon and value) and key.replace("-", "").isalnum()


def entries_of(checkout: Checkout, before: dict[str, File]) -> dict[str, IndexEntry]:
    """The index of the touched files, which must be what is on the disk and nothing special."""
    entries = checkout.index(before)
    for path, (data, _) in before.items():
        entry = entries.get(path)
        if entry is not None and entry.flag != "H":
            what = "outside the sparse checkout" if entry.flag == "S" else "marked as unchanged in the index"
            hint = (
                "sparse-checkout disable"
                if entry.flag == "S"
                else f"update-index --no-assume-unchanged {path}"
            )
            raise UserError(
                "P051", f"{path} is {what}", place=str(checkout.root), hints=[checkout.repo.command(hint)]
            )
        if (entry.oid if entry else "") != (blob_id(data) if data is not None else ""):
            raise UserError(
                "P051",
                f"{path} is not the same in the index and on the disk",
                place=str(checkout.root),
                hints=[checkout.repo.command(f"stash push -- {path}")],
            )
    return entries


def git_part(
    checkout: Checkout,
    entries: dict[str, IndexEntry],
    after: dict[str, File],
    commits: list[Commit],
    way: str,
    branch: str,
    *,
    same_branch: bool = False,
) -> tuple[GitPart, list[str]]:
    """Store objects, and say what becomes of index, branch and HEAD. Nothing points at them yet."""
    head, current = checkout.head()
    checkout.require_unlocked()
    index = []
    for path, (data, perm) in sorted(after.items()):
        entry = entries.get(path)
        old = f"{entry.mode} {entry.oid}" if entry is not None else ""
        new = "" if data is None else f"{git_mode(perm)} {blob_id(data)}"
        index.append((path, old, new))
    if way != "commits" or not commits:
        checkout.write_objects([data for data, _ in after.values() if data is not None])
        return GitPart(tuple(index)), []
    ids = checkout.write_objects([], commits, head.oid)
    says = current or head.oid
    if same_branch:
        ref, old = current or "HEAD", head.oid
        after_head = current or ids[-1]
    else:
        ref = f"refs/heads/{branch}"
        old = head.oid if ref == current else ""
        after_head = ref
    if ref == "HEAD":
        says = after_head  # `ref` moves it, there is no branch to switch to
    return GitPart(tuple(index), ref, old, ids[-1], says, after_head), ids


def inverse_commits(state: State, removed: Sequence[Applied], before: dict[str, File]) -> list[Commit]:
    """One commit per patch taken out, last one first."""
    commits = []
    left = state
    now = dict(before)
    for patch in removed:
        there = {path: _found(file) for path, file in now.items()}
        one = take_back(left, [(patch.patchset, patch.name)], there.__getitem__)
        left = State(SCHEMA, state.project, state.way, state.base, "", one.kept)
        now |= one.files
        files = {path: (data, git_mode(perm)) for path, (data, perm) in one.files.items()}
        if not files:
            continue
        trailers = f"Patch-Name: {patch.name}\nPatch-Set: {patch.patchset}\n"
        said = f"Take out {patch.name}\n\n" + (f"Reverts {patch.commit}\n\n" if patch.commit else "")
        commits.append(Commit(said + trailers, "", "", files))
    return commits


def _found(file: File) -> tuple[bytes, int] | None:
    data, perm = file
    return None if data is None else (data, perm)
