"""One transaction on a target: all of it, or nothing, also when the process is killed in between.

Before anything is touched, the journal is on the disk: every file with its id before and after, the bytes
before, and what becomes of the index, the branch and the record of what is applied. Then new contents are
staged beside the files, checked, and renamed. The journal goes last; as long as it is there, the target is
unfinished, and :func:`recover` puts it back, or finishes it if every file is in place already.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, NoReturn, Protocol

import msgspec

from auditor.errors import EXIT_CONFLICT, UserError
from auditor.patching.write.disk import Root, settle_folder, trouble, write_down
from auditor.readback import from_json
from auditor.trees.names import blob_id

JOURNAL = "journal"
STATE = "state.json"
#: In the store of the first target of several: the token of a change that is complete on all of them.
COMPLETE = "complete"


@dataclass(frozen=True)
class Put:
    """One file: the bytes that are there and the bytes that shall be; None for no file.

    ``before_perm`` and ``after_perm`` are permission bits (0 where there is no file).
    """

    path: str
    before: bytes | None
    after: bytes | None
    before_perm: int = 0
    after_perm: int = 0


class Entry(msgspec.Struct, frozen=True):
    """A file in the journal; ``size`` bytes of its old content stand after the header, in order."""

    path: str
    before: str
    after: str
    before_perm: int
    after_perm: int
    size: int


class GitPart(msgspec.Struct, frozen=True, omit_defaults=True):
    """What changes in a checkout besides files. Index lines as ``mode id``, "" for no entry."""

    index: tuple[tuple[str, str, str], ...] = ()  # path, before, after
    ref: str = ""  # the branch that moves
    old: str = ""  # where it stood, "" if it was not there
    new: str = ""
    head_before: str = ""  # what HEAD says: "refs/heads/x", or a commit id if detached
    head_after: str = ""


class Member(msgspec.Struct, frozen=True):
    """One target of a change of several; paths are relative to the folder of the target that names it."""

    name: str  # for people: the upstream
    root: str
    store: str


class Group(msgspec.Struct, frozen=True):
    """All targets of one change. The first one's store says whether it is complete; see `together`."""

    token: str
    members: tuple[Member, ...]


class Header(msgspec.Struct, frozen=True):
    """The journal without the old bytes."""

    schema: int
    verb: str
    what: str  # for people: "sm120: a, b"
    token: str
    entries: tuple[Entry, ...]
    folders: tuple[str, ...]  # made by this transaction, outermost first
    drop: tuple[str, ...]  # folders to remove at the end, if they are empty then
    state_before: str | None
    state_after: str | None
    git: GitPart | None = None
    group: Group | None = None


class Git(Protocol):
    """The part of a transaction that only a checkout has; both ways can be repeated."""

    def forward(self, part: GitPart) -> None: ...

    def back(self, part: GitPart) -> None: ...


@dataclass(frozen=True)
class Share:
    """What one target gets in a transaction.

    ``drop`` are folders to remove if they are empty in the end. ``check`` is asked when everything is in
    place and can still be taken back.
    """

    root: Root
    store: Path
    puts: list[Put]
    verb: str
    what: str
    state_before: str | None
    state_after: str | None
    drop: tuple[str, ...] = ()
    git: Git | None = None
    part: GitPart | None = None
    name: str = ""  # for people: the upstream
    check: Callable[[], None] | None = None


def transact(share: Share, *, step: Callable[[str], None] | None = None) -> None:
    """Carry out the change of every file, the git part and the record, or none of them.

    ``UserError`` P043 for a disk that refuses, P044 for a file that somebody else changed meanwhile; the
    target is as before then.
    """
    header = header_of(share)
    begin(share, header)
    try:
        carry(share, header, step)
        if share.check is not None:
            share.check()
    except BaseException as error:
        put_back(share, header)
        raise_as_said(error, share)
    clear(share, header)


def header_of(share: Share, group: Group | None = None) -> Header:
    """The journal of a change before it is begun; asks the disk which folders are new."""
    return Header(
        schema=1,
        verb=share.verb,
        what=share.what,
        token=new_token(),
        entries=tuple(
            Entry(p.path, _id(p.before), _id(p.after), p.before_perm, p.after_perm, len(p.before or b""))
            for p in share.puts
        ),
        folders=tuple(_new_folders(share.root, share.puts)),
        drop=share.drop,
        state_before=share.state_before,
        state_after=share.state_after,
        git=share.part,
        group=group,
    )


def new_token() -> str:
    """A name that no other change has."""
    return f"{os.getpid():x}{os.urandom(4).hex()}"


def carry(share: Share, header: Header, step: Callable[[str], None] | None) -> None:
    """Everything between the journal and its end; whatever is raised in it is for `put_back`."""
    contents = {p.path: p.after for p in share.puts if p.after is not None}
    _stage(share.root, header, contents, step)
    _rename(share.root, header, step)
    _read_back(share.root, header)
    if share.git is not None and share.part is not None:
        share.git.forward(share.part)
    _write_state(share.store, share.state_after)


def put_back(share: Share, header: Header) -> None:
    """The target as before, and the journal gone. ``UserError`` P045 where that fails: it stays then."""
    _undo(share.root, share.store, header, {p.path: p.before for p in share.puts}, share.git)
    end(share.store)


def clear(share: Share, header: Header) -> None:
    """The end of a change that is complete: empty folders and the journal go."""
    for folder in reversed(header.drop):
        share.root.drop_folder(folder)
    end(share.store)


def raise_as_said(error: BaseException, share: Share) -> NoReturn:
    """An error of the disk in words, any other as it is."""
    if isinstance(error, OSError):
        raise trouble(error, str(error.filename or share.root.folder)) from error
    raise error


def _id(data: bytes | None) -> str:
    return "" if data is None else blob_id(data)


def _there(root: Root, path: str) -> tuple[str, int]:
    """Id and permission bits of what is there, as an entry of the journal has them."""
    found = root.read(path)
    return (_id(found[0]), found[1]) if found else ("", 0)


def _as_before(entry: Entry) -> tuple[str, int]:
    return entry.before, entry.before_perm if entry.before else 0


def _as_after(entry: Entry) -> tuple[str, int]:
    return entry.after, entry.after_perm if entry.after else 0


def _new_folders(root: Root, puts: list[Put]) -> list[str]:
    """Folders to be made, outermost first; asks the disk for the others' spelling too."""
    found: dict[str, None] = {}
    for put in puts:
        if put.before is None and put.after is not None:
            found |= dict.fromkeys(root.missing_folders(put.path))
    return sorted(found, key=lambda path: (path.count("/"), path))


def begin(share: Share, header: Header) -> None:
    """Put the journal on the disk. ``UserError`` P043."""
    store = share.store
    body = b"".join(p.before or b"" for p in share.puts)
    head = msgspec.json.encode(header)
    made = not store.is_dir()
    try:
        store.mkdir(exist_ok=True)
        write_down(store / JOURNAL, b"%d\n%s%s" % (len(head), head, body))
        if made:
            settle_folder(store.parent)
    except OSError as error:
        if made:
            _drop_store(store)
        raise trouble(error, str(store)) from None


def _stage(
    root: Root, header: Header, contents: Mapping[str, bytes], step: Callable[[str], None] | None
) -> None:
    for folder in header.folders:
        root.make_folder(folder)
    for entry in header.entries:
        if entry.after and entry.after != entry.before:
            root.stage(entry.path, header.token, contents[entry.path], entry.after_perm)
            if step is not None:
                step(f"staged {entry.path}")


def _rename(root: Root, header: Header, step: Callable[[str], None] | None) -> None:
    for entry in header.entries:
        if _there(root, entry.path) != _as_before(entry):
            raise UserError(
                "P044",
                "a file was changed while the patches were written; every other file is as before",
                place=entry.path,
                hints=["run it again when nobody else writes there"],
            )
        if not entry.after:
            root.remove(entry.path)
        elif entry.after != entry.before:
            root.put(entry.path, header.token)
        else:
            root.chmod(entry.path, entry.after_perm)
        if step is not None:
            step(f"put {entry.path}")
    root.settle([entry.path for entry in header.entries])


def _read_back(root: Root, header: Header) -> None:
    for entry in header.entries:
        if _there(root, entry.path) != _as_after(entry):
            raise UserError(
                "P044",
                "a file does not read back as it was written; every other file is as before",
                place=entry.path,
                hints=["run it again when nobody else writes there"],
            )


def _write_state(store: Path, text: str | None) -> None:
    if text is None:
        (store / STATE).unlink(missing_ok=True)
    else:
        write_down(store / STATE, text.encode())


def _undo(
    root: Root, store: Path, header: Header, before: Mapping[str, bytes | None], git: Git | None
) -> None:
    """Put every file, the index, the branch and the record back. ``UserError`` P045 where that fails.

    A file that is neither as before nor as after belongs to somebody else, and is left.
    """
    try:
        for entry in header.entries:
            root.unstage(entry.path, header.token)
        for entry in reversed(header.entries):
            there = _there(root, entry.path)
            if there == _as_before(entry):
                continue
            if there[0] not in (entry.before, entry.after):
                continue
            old = before[entry.path]
            if old is None:
                root.remove(entry.path)
            elif there[0] == entry.before:
                root.chmod(entry.path, entry.before_perm)
            else:
                root.stage(entry.path, header.token, old, entry.before_perm)
                root.put(entry.path, header.token)
        for folder in reversed(header.folders):
            root.drop_folder(folder)
        if git is not None and header.git is not None:
            git.back(header.git)
        root.settle([entry.path for entry in header.entries])
        _write_state(store, header.state_before)
    except (OSError, UserError) as error:
        said = error.fact if isinstance(error, UserError) else (error.strerror or str(error)).lower()
        raise UserError(
            "P045",
            f"the change could not be taken back: {said}; its journal is kept",
            place=str(store / JOURNAL),
            hints=["patches doctor --to PATH puts it back once that is mended"],
        ) from error


def strange(store: Path, paths: list[str]) -> UserError:
    """The error for files that are neither as before nor as after an unfinished run."""
    more = f" and {len(paths) - 1} more" if len(paths) > 1 else ""
    return UserError(
        "P046",
        f"{paths[0]}{more} was changed by somebody else in the middle of an unfinished run; it is left alone",
        place=str(store / JOURNAL),
        hints=["put the file back by hand, then: patches doctor --to PATH"],
        exit_code=EXIT_CONFLICT,
    )


def end(store: Path) -> None:
    """The journal goes, and the store with it where no record is left."""
    (store / JOURNAL).unlink(missing_ok=True)
    (store / COMPLETE).unlink(missing_ok=True)  # only after the journal: it says what becomes of others'
    settle_folder(store)
    if not (store / STATE).exists():
        _drop_store(store)


def _drop_store(store: Path) -> None:
    try:
        store.rmdir()
    except OSError:
        pass  # not empty, or not ours


@dataclass(frozen=True)
class Found:
    """What a journal that was left behind says. ``whole`` says that every file is in place already."""

    header: Header
    old: dict[str, bytes | None]
    whole: bool
    strange: tuple[str, ...]  # files that are neither as before nor as after


def read_journal(store: Path) -> tuple[Header, dict[str, bytes | None]] | None:
    """A journal and the bytes of every file from before it, or None. ``UserError`` P047 if it is damaged."""
    try:
        raw = (store / JOURNAL).read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise trouble(error, str(store / JOURNAL)) from None
    try:
        size, _, rest = raw.partition(b"\n")
        header = from_json(rest[: int(size)], Header)
        body = rest[int(size) :]
        if header.schema != 1 or len(body) != sum(entry.size for entry in header.entries):
            raise ValueError("it is cut off or of another version")
    except ValueError as error:
        raise UserError(
            "P047",
            f"the journal of an unfinished run cannot be read: {error}",
            place=str(store / JOURNAL),
            hints=["restore the target from where it came from, then remove the journal"],
        ) from None
    old: dict[str, bytes | None] = {}
    at = 0
    for entry in header.entries:
        old[entry.path] = body[at : at + entry.size] if entry.before else None
        at += entry.size
    return header, old


def left_behind(root: Root, store: Path) -> Found | None:
    """The journal of an unfinished run, or None. ``UserError`` P047 if it cannot be read."""
    read = read_journal(store)
    if read is None:
        return None
    header, old = read
    whole = True
    odd = []
    for entry in header.entries:
        there = _there(root, entry.path)
        if there[0] not in (entry.before, entry.after):
            odd.append(entry.path)
        whole = whole and there == _as_after(entry)
    return Found(header, old, whole and not odd, tuple(odd))


def recover(root: Root, store: Path, found: Found, git: Git | None) -> Literal["finished", "put back"]:
    """Finish what is in place already, put everything else back; then the journal goes.

    ``UserError`` P046 where somebody else changed a file since: nothing is touched then.
    """
    if found.strange:
        raise strange(store, list(found.strange))
    if found.whole:
        finish(root, store, found, git)
        return "finished"
    take_back(root, store, found, git)
    return "put back"


def finish(root: Root, store: Path, found: Found, git: Git | None) -> None:
    """Index, branch, HEAD and record of a change whose files are all in place; then the journal goes."""
    try:
        for entry in found.header.entries:
            root.unstage(entry.path, found.header.token)
        if git is not None and found.header.git is not None:
            git.forward(found.header.git)
        _write_state(store, found.header.state_after)
        for folder in reversed(found.header.drop):
            root.drop_folder(folder)
    except OSError as error:
        raise trouble(error, str(error.filename or root.folder)) from None
    end(store)


def take_back(root: Root, store: Path, found: Found, git: Git | None) -> None:
    """The target as before a change that was left; then the journal goes."""
    _undo(root, store, found.header, found.old, git)
    end(store)
