"""What changed in meaning between two audits."""

from __future__ import annotations

import msgspec

from auditor.gates.model import TreeFacts

#: Kinds of change, the ones that matter most first: the order of reports.
KINDS: dict[str, str] = {
    "outcome": "a target goes another way than before",
    "kernel": "a target gained or lost a kernel",
    "forced": "a setting is overwritten that was not before, or no longer",
    "default": "a default became wrong for a target, or right, or flipped and trouble hangs on it",
    "predicate": "the condition is another, and so is what it means",
    "added": "a gate that was not there",
    "removed": "a gate that is not there any more",
    "flag": "an environment flag was declared, dropped or renamed",
    "respelled": "the condition is spelled otherwise and means the same",
    "moved": "the same gate at another place",
}


class Commit(msgspec.Struct, frozen=True):
    """An upstream commit that may have made a change. ``pr`` is the number in its subject, "" if none."""

    id: str
    date: str
    subject: str
    pr: str = ""


class Change(msgspec.Struct, frozen=True, omit_defaults=True):
    """One change. ``before`` and ``after`` map a target to what it got; only targets that differ are in them.

    ``path``, ``line``: the place in the newer tree; in the older one where nothing is left in the newer.
    """

    kind: str  # one of KINDS
    what: str  # the condition, the operator, the flag
    path: str
    line: int
    symbol: str = ""
    gate: str = ""  # id in the newer tree, in the older one for a removed gate
    old_gate: str = ""
    old_path: str = ""
    old_line: int = 0
    old_what: str = ""
    before: dict[str, str] = {}
    after: dict[str, str] = {}
    why: str = ""
    row: str = ""  # of a kernel: op | jit | registry | triton; of the default of a flag: flag
    commits: tuple[Commit, ...] = ()  # those that touched the file, where known; one: it was this one
    area: str = ""
    follows: str = ""  # id of the gate whose change brought this one
    did: dict[str, str] = {}  # target -> what its arm did before, where it goes another way now
    does: dict[str, str] = {}  # target -> what its arm does now
    own: tuple[str, ...] = ()  # targets that had an arm of their own at a gate that is gone
    refuses: tuple[str, ...] = ()  # targets that a gate which is new stops, in a function that was there


class PatchState(msgspec.Struct, frozen=True, omit_defaults=True):
    """What becomes of one patch on the newer tree, or one thing that the patched tree should hold.

    ``status`` of a patch is a word of ``patches status``; of a check it is ok, failed or not run.
    """

    patchset: str
    name: str  # of the patch, or the level of the check: compiles, names, symbols, audit
    status: str
    kind: str = "patch"  # patch | check
    before: str = ""  # status of the patch on the older tree, "" where that is not known
    note: str = ""
    detail: tuple[str, ...] = ()  # what does not go, or does not hold
    path: str = ""  # in the newer tree, where one place can be named
    line: int = 0
    trips: bool = False


class Diff(msgspec.Struct, frozen=True):
    """Two trees and what changed. ``stats``: gates the same, undecided in both, and changes per kind."""

    schema_version: str
    tool: str
    project: str
    old: TreeFacts
    new: TreeFacts
    targets: tuple[str, ...]
    reference: str
    assumptions: dict[str, str]
    changes: tuple[Change, ...]
    stats: dict[str, int]
    notes: tuple[str, ...] = ()  # what could not be compared, and why
    patches: tuple[PatchState, ...] = ()  # of the patchsets that the guard was asked about
