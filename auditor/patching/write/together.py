"""One transaction on several targets: all of them complete, or all as before, also when killed in between.

Every target has its own journal, which names the others. All journals are on the disk before a file of any
target is touched. When every target holds what it shall hold, one small file in the store of the first says
so: from then on the change is complete, before that it never was. What is left behind is finished or put
back by that file alone, from any of the targets; it goes last.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from auditor.errors import EXIT_CONFLICT, UserError
from auditor.patching.write.disk import Root, write_down
from auditor.patching.write.journal import (
    COMPLETE,
    Found,
    Git,
    Group,
    Header,
    Member,
    Share,
    begin,
    carry,
    clear,
    finish,
    header_of,
    left_behind,
    new_token,
    put_back,
    raise_as_said,
    strange,
    take_back,
    transact,
)


def transact_together(shares: Sequence[Share], *, step: Callable[[str], None] | None = None) -> None:
    """Carry out the change of every target, or of none. ``UserError`` as of `transact`, P045 where a target
    cannot be put back: its journal is kept then, and every other target is as before.
    """
    if len(shares) == 1:
        return transact(shares[0], step=step)
    token = new_token()
    begun: list[tuple[Share, Header]] = []
    first = shares[0]
    share = first
    try:
        for share in shares:
            header = header_of(share, Group(token, members_of(shares, share)))
            begin(share, header)
            begun.append((share, header))
            _tell(step, f"begun {share.name}")
        for share, header in begun:
            carry(share, header, step)
            _tell(step, f"carried {share.name}")
        for share in shares:
            if share.check is not None:
                share.check()
        share = first
        write_down(first.store / COMPLETE, token.encode())
    except BaseException as error:
        (first.store / COMPLETE).unlink(missing_ok=True)  # first of all: it must not speak for half a change
        failed: UserError | None = None
        for other, header in reversed(begun):
            try:
                put_back(other, header)
            except UserError as trouble:
                failed = failed or trouble
        if failed is not None:
            raise failed from error
        raise_as_said(error, share)
    _tell(step, "complete")
    try:
        for share, header in [*begun[1:], begun[0]]:
            clear(share, header)
            _tell(step, f"cleared {share.name}")
    except OSError as error:
        raise_as_said(error, share)
    return None


def _tell(step: Callable[[str], None] | None, what: str) -> None:
    if step is not None:
        step(what)


def members_of(shares: Sequence[Share], seen_from: Share) -> tuple[Member, ...]:
    """All targets, by their way from one of them: folders that are moved together stay together."""
    here = os.path.realpath(seen_from.root.folder)

    def way(place: Path) -> str:
        return os.path.relpath(os.path.realpath(place), here)

    return tuple(Member(each.name, way(each.root.folder), way(each.store)) for each in shares)


@dataclass(frozen=True)
class Place:
    """Where a target of an unfinished change lies."""

    name: str
    root: Path
    store: Path


def places(group: Group, root: Path) -> list[Place]:
    """The targets of a group, seen from the one at ``root``, in their order.

    ``UserError`` P048 for one that is not where it was: what became of the change cannot be told without it.
    """
    here = Path(os.path.realpath(root))
    found = []
    for member in group.members:
        place = Place(
            member.name,
            Path(os.path.normpath(here / member.root)),
            Path(os.path.normpath(here / member.store)),
        )
        if not place.root.is_dir():
            raise UserError(
                "P048",
                f"an unfinished run changed {member.name} too, which is not where it was",
                place=str(place.root),
                hints=["put it back there, then: patches doctor --to PATH"],
                exit_code=EXIT_CONFLICT,
            )
        found.append(place)
    return found


def is_complete(group: Group, found: Sequence[Place]) -> bool:
    """Whether the change was complete on all targets when it was stopped."""
    try:
        return (found[0].store / COMPLETE).read_bytes() == group.token.encode()
    except OSError:
        return False


@dataclass(frozen=True)
class Left:
    """The share of one target in a change that was stopped, as its journal says it."""

    place: Place
    root: Root
    found: Found
    git: Git | None


def recover_together(
    group: Group, found: Sequence[Place], left: Sequence[Left]
) -> Literal["finished", "put back"]:
    """Finish a change of several targets if it was complete, else put every target back.

    ``left`` are those that have its journal still, in their order. ``UserError`` P046 where somebody else
    changed a file since: nothing is touched then.
    """
    complete = is_complete(group, found)
    for each in left:
        odd = list(each.found.strange)
        if complete and not odd and not each.found.whole:
            odd = [entry.path for entry in each.found.header.entries][:1]
        if odd:
            raise strange(each.place.store, odd)
    if not complete:
        for each in left:
            take_back(each.root, each.place.store, each.found, each.git)
        return "put back"
    last = found[0]
    for each in sorted(left, key=lambda each: each.place == last):
        finish(each.root, each.place.store, each.found, each.git)
    return "finished"


__all__ = [
    "Left", "Place", "is_complete", "left_behind", "members_of", "places", "recover_together",
    "transact_together",
]  # fmt: skip
