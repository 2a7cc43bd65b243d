"""The record of what is applied to a target: enough to say so without git or network, and to take it back.

It names every file by blob id before and after each patch and keeps the difference, never a copy of the
whole file. What it says is never believed alone: ``status`` and ``revert`` read the bytes that are there.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from auditor.errors import UserError
from auditor.patching.diffs.delta import FileDelta
from auditor.patching.sets.upstreams import Facts
from auditor.readback import Damaged, from_json

SCHEMA = 1


class Base(msgspec.Struct, frozen=True, omit_defaults=True):
    """The tree the patches were applied to."""

    label: str
    tree: str  # git tree id, or a digest over sorted (path, blob id)
    commit: str = ""
    version: str = ""


class Applied(msgspec.Struct, frozen=True, omit_defaults=True):
    """One patch on a target, in the order of application."""

    patchset: str
    name: str
    sha256: str  # of the patch as it was read
    status: str  # what the plan said: "clean", "moved", "partly", "look", "upstream"
    files: tuple[FileDelta, ...] = ()
    commit: str = ""  # where it was written as a commit
    note: str = ""


class State(msgspec.Struct, frozen=True, omit_defaults=True):
    """Everything that is applied to one target."""

    schema: int
    project: str
    way: str  # "commits", "staged" or "folder"
    base: Base
    result: str  # the tree id after the last patch
    patches: tuple[Applied, ...] = ()
    folders: tuple[str, ...] = ()  # made on the way, outermost first
    upstream: Facts | None = None  # None for one that has a profile
    partners: dict[str, str] = {}  # other upstreams written with it -> the way to them from this target


def encode(state: State) -> str:
    """The record as text; the same record gives the same text."""
    return msgspec.json.format(msgspec.json.encode(state), indent=1).decode() + "\n"


def decode(text: bytes, place: str) -> State:
    """``UserError`` P047 for a record that cannot be read."""
    try:
        state = from_json(text, State)
    except Damaged as error:
        raise _damaged(str(error), place) from None
    if state.schema != SCHEMA:
        raise _damaged(f"it is of version {state.schema}, this is for {SCHEMA}", place)
    return state


def _damaged(why: str, place: str) -> UserError:
    return UserError(
        "P047",
        f"the record of what is applied cannot be read: {why}",
        place=place,
        hints=["restore the target from where it came from, then remove the record"],
    )


def expected_files(state: State) -> dict[str, tuple[str, str]]:
    """path -> (blob id before the first patch, after the last) of every file that the record speaks of."""
    first: dict[str, str] = {}
    last: dict[str, str] = {}
    for patch in state.patches:
        for change in patch.files:
            first.setdefault(change.path, change.old)
            last[change.path] = change.new
    return {path: (first[path], last[path]) for path in sorted(first)}


def how_it_stands(state: State, there: Mapping[str, str]) -> dict[str, str]:
    """path -> ``applied``, ``as before`` or ``changed``, by the blob ids there are now ("" for none)."""
    found = {}
    for path, (before, after) in expected_files(state).items():
        now = there.get(path, "")
        found[path] = "applied" if now == after else "as before" if now == before else "changed"
    return found
