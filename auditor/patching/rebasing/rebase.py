"""A patchset moved to another base: planned, written anew, and planned again to prove that it is the same.

Nothing here writes to a disk. :func:`rebase` says what every patch comes to; what it gives in ``files`` is
all that a patchset's folder gets, and there is nothing in it while one patch needs a person.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace

import msgspec

from auditor.errors import EXIT_CONFLICT, UserError
from auditor.patching.diffs.write import write_patch
from auditor.patching.model import ChangeSet, FileChange
from auditor.patching.planning.lock import NAME as LOCK
from auditor.patching.planning.lock import Lock, lock_of, read_lock, with_upstream
from auditor.patching.planning.lock import encode as encode_lock
from auditor.patching.planning.model import Given, Judge, Plan, Planned
from auditor.patching.planning.plan import plan
from auditor.patching.planning.remade import Names, remade, taken_back
from auditor.patching.planning.sources import Sources
from auditor.patching.rebasing.reanchored import reanchored
from auditor.patching.sets.header import from_fields
from auditor.patching.sets.patchset import Patch, Patchset, read_patch
from auditor.profile import Profile
from auditor.trees.base import SourceTree
from auditor.trees.overlay import OverlayTree

#: What the rebase did and how it is known, beside the lock.
RECORD = "rebase.json"
#: Outcomes with which a patch stays in the folder though the tree has no need of it.
NOT_NEEDED = ("upstream", "obsolete")


class KeptHunk(msgspec.Struct, frozen=True, omit_defaults=True):
    """One hunk of the patch as it was before, and the proof by which it was carried."""

    path: str
    hunk: int
    status: str
    proof: str
    to: str = ""
    symbol: str = ""
    note: str = ""


class KeptFile(msgspec.Struct, frozen=True):
    """A file that a person resolved: ids on the new base before and after the patch, "" for none."""

    path: str
    before: str
    after: str


class KeptPatch(msgspec.Struct, frozen=True, omit_defaults=True):
    """One patch: hash of its file before and after, and what became of it."""

    name: str
    before: str
    after: str
    status: str
    hunks: tuple[KeptHunk, ...]
    resolved: tuple[KeptFile, ...] = ()  # by a person
    accepted: bool = False  # a person looked at it


class Record(msgspec.Struct, frozen=True):
    """``rebase.json``: how the patchset came to its base, without any text of it."""

    schema: int
    patchset: str
    base: str
    tree: str
    commit: str
    patches: tuple[KeptPatch, ...]


@dataclass(frozen=True)
class Rebased:
    """What a rebase comes to. ``files`` (names below the patchset's folder) is empty if something is open."""

    plan: Plan
    again: Plan | None  # the patchset as rewritten, on the same tree
    waiting: tuple[Planned, ...]  # carried by a guess that nobody accepted yet
    rewritten: tuple[str, ...] = ()
    retired: tuple[str, ...] = ()
    files: dict[str, bytes | None] = field(default_factory=dict)

    @property
    def ready(self) -> bool:
        """Whether nothing is left for a person to decide."""
        return self.again is not None

    @property
    def not_needed(self) -> tuple[Planned, ...]:
        """Patches that are kept, but that this base has no need of."""
        return tuple(
            e for e in self.plan.entries if e.outcome.status in NOT_NEEDED and e.name not in self.retired
        )


def rebase(
    patchset: Patchset,
    tree: SourceTree,
    profile: Profile,
    *,
    sources: Sources | None = None,
    judge: Judge | None = None,
    accepted: Collection[str] = (),
    given: Mapping[str, Given] | None = None,
    retire: Collection[str] = (),
    whole: Patchset | None = None,
) -> Rebased:
    """Move ``patchset`` to ``tree``.

    ``whole`` is the patchset where ``patchset`` has only the patches of one of its upstreams: the others are
    taken to be where they are, and so is their part of the lock. Without one there is no lock to write.

    ``accepted`` are patches whose flagged guess a person looked at; ``given`` are patches that a person
    resolved; ``retire`` are patches to take out because the tree has them, or because a conflict is to end
    so. ``UserError`` P063 for a patch to retire that still goes, or where the rewritten patchset would not
    come to the same tree.
    """
    for name in (*accepted, *retire):
        patchset.patch(name)
    sources = sources or Sources(tree)
    beside = [p for p in (whole or patchset).patches if p not in patchset.patches]
    there = [p.name for p in beside]
    planned = plan(
        patchset, tree, profile, sources=sources, stop=False, judge=judge, given=given, there=there
    )
    first = planned
    if retire:

        def without_them(names: Collection[str]) -> Plan:
            left = tuple(p for p in patchset.patches if p.name not in names)
            return plan(
                replace(patchset, patches=left), tree, profile, sources=sources, stop=False, judge=judge,
                given=given, stack=patchset, there=there,
            )  # fmt: skip

        for name in retire:
            others = set(retire) - {name}
            # What stands on another one that goes may be a conflict only without that.
            _check_retired([planned, without_them(others)] if others else [planned], name, set(retire))
        for name in retire:
            _check_needed(beside, name)
        planned = without_them(retire)
    waiting = tuple(e for e in planned.doubtful if e.name not in accepted)
    if planned.failed or waiting:
        return Rebased(planned, None, waiting)
    raws = _written(planned, sources)
    patches = tuple(
        replace_raw(patchset, patch, raws[patch.name]) if patch.name in raws else patch
        for patch in patchset.patches
        if patch.name not in retire
    )
    new = replace(patchset, patches=patches)
    again = plan(new, tree, profile, sources=sources, stop=False, judge=judge, there=there)
    _check_same(planned, again)
    of = {entry.name: _file_of(entry.patch) for entry in first.entries}
    files: dict[str, bytes | None] = {f"patches/{of[name]}": raw for name, raw in raws.items()}
    files |= {f"patches/{of[name]}": None for name in retire}
    if retire:
        path = patchset.folder / "patchset.yaml"
        text = path.read_text(encoding="utf-8")
        files["patchset.yaml"] = without(text, retire, f"{patchset.place}/patchset.yaml").encode()
    record = _record(first, raws, accepted, given or {}, retire)
    files[RECORD] = msgspec.json.format(msgspec.json.encode(record), indent=2) + b"\n"
    lock = lock_of(again) if not beside else _merged_lock(whole or patchset, again)
    if lock is not None:
        files[LOCK] = encode_lock(lock)
    return Rebased(planned, again, (), tuple(raws), tuple(retire), files)


def _merged_lock(whole: Patchset, again: Plan) -> Lock | None:
    """The lock with another base of one upstream; None where the others were never locked."""
    if not (whole.folder / LOCK).is_file():
        return None
    old = read_lock(whole)
    here = again.profile.name
    others = {whole.project_of(patch) for patch in whole.patches} - {here}
    if not others <= old.upstreams.keys():
        return None
    return with_upstream(old, lock_of(again), here, [patch.name for patch in whole.patches])


def _check_needed(beside: Iterable[Patch], name: str) -> None:
    for other in beside:
        if name in other.header.requires:
            raise UserError(
                "P063",
                f"{other.name} requires {name}",
                place=other.place,
                hints=[f"take {name} out of its list of required patches first"],
            )


def _file_of(patch: Patch) -> str:
    return f"{patch.name}.{'patch' if patch.form == 'diff' else 'yaml'}"


def _check_retired(plans: list[Plan], name: str, all_of: set[str]) -> None:
    found = [next(e for e in each.entries if e.name == name) for each in plans]
    if not any(entry.outcome.status in (*NOT_NEEDED, "conflict") for entry in found):
        raise UserError(
            "P063",
            f"{name} is {found[0].outcome.status} on {plans[0].tree.info().label}: it is still needed there",
            place=found[0].patch.place,
        )
    for other in plans[0].entries:
        if name in other.patch.header.requires and other.name not in all_of:
            raise UserError(
                "P063",
                f"{other.name} requires {name}",
                place=other.patch.place,
                hints=[f"take {name} out of its list of required patches first"],
            )


def _written(planned: Plan, sources: Sources) -> dict[str, bytes]:
    """name -> bytes of every patch file that is another one on this tree."""
    out: dict[str, bytes] = {}
    files: dict[str, bytes | None] = {}
    below = planned.tree.blobs()
    names = Names(planned.profile, below)
    now: SourceTree = planned.tree
    for entry in planned.entries:
        outcome = entry.outcome
        made: tuple[FileChange, ...] | None = None
        if entry.patch.form == "diff" and (outcome.files or outcome.modes):
            made = remade(entry.changes, outcome, now, names)
        elif entry.patch.form == "diff" and outcome.status == "upstream" and _made_on_stack(entry, sources):
            assert entry.changes is not None
            made = taken_back(entry.changes, now, names)
        if made is not None:
            assert entry.patch.changes is not None
            raw = write_patch(replace(entry.patch.changes, changes=made))
            if from_fields(_read_back(planned.patchset, entry.patch, raw), entry.name) != entry.patch.header:
                raise UserError(
                    "P063",
                    f"the head of {entry.name} does not survive being written again",
                    place=entry.patch.place,
                    hints=[f"patches lint {planned.patchset.typed}"],
                )
            if raw != entry.patch.raw:
                out[entry.name] = raw
        elif entry.patch.form == "structural" and outcome.files:
            renamed = reanchored(entry.patch, outcome, planned.profile)
            if renamed is not None and _comes_to(planned, entry, renamed, now):
                out[entry.name] = renamed
        if outcome.files:
            files |= outcome.files
            for path in [p for p, data in files.items() if data is None and p not in below]:
                del files[path]
            now = OverlayTree(planned.tree, files)
    return out


def _made_on_stack(entry: Planned, sources: Sources) -> bool:
    """Whether what a patch was made for is known only through patches that are written anew."""
    changes = entry.changes.changes if entry.changes is not None else ()
    wanted = [change.old_blob for change in changes if change.old_blob.strip("0")]
    return any(sources.stored(oid) is None and sources.blob(oid) is not None for oid in wanted)


def _comes_to(planned: Plan, entry: Planned, raw: bytes, now: SourceTree) -> bool:
    """Whether a structural patch with new names for its places does the very same."""
    from auditor.patching.edits import apply_edits

    new = replace_raw(planned.patchset, entry.patch, raw)
    done = apply_edits(new, now, planned.profile, files=planned.patchset.new_file)
    return done.status in ("clean", "partly") and done.files == entry.outcome.files


def _read_back(patchset: Patchset, patch: Patch, raw: bytes) -> ChangeSet:
    changes = replace_raw(patchset, patch, raw).changes
    assert changes is not None
    return changes


def replace_raw(patchset: Patchset, patch: Patch, raw: bytes) -> Patch:
    """The patch with another content of its file."""
    return read_patch(patchset, patch.name, patch.place, raw)


def _check_same(first: Plan, again: Plan) -> None:
    """The rewritten patches come to the very bytes that the old ones came to."""
    if again.failed or again.doubtful:
        bad = (*again.failed, *again.doubtful)[0]
        fact = f"{bad.name}, rewritten, is {bad.outcome.status} on its own base; nothing was written"
        before = next(entry for entry in first.entries if entry.name == bad.name)
        hints = (
            [f"--retire {bad.name}        # the base has it"] if before.outcome.status in NOT_NEEDED else []
        )
        raise UserError("P063", fact, place=bad.patch.place, hints=hints, exit_code=EXIT_CONFLICT)
    if dict(first.files) != dict(again.files) or first.modes != again.modes:
        keys = first.files.keys() | again.files.keys()
        other = sorted(p for p in keys if first.files.get(p, b"-") != again.files.get(p, b"-"))
        raise UserError(
            "P063",
            "the rewritten patches would come to another tree; nothing was written",
            place=other[0] if other else None,
            exit_code=EXIT_CONFLICT,
        )


def _record(
    planned: Plan,
    raws: Mapping[str, bytes],
    accepted: Collection[str],
    given: Mapping[str, Given],
    retire: Collection[str],
) -> Record:
    info = planned.tree.info()
    patches = []
    for entry, files in planned.steps():
        resolved = [KeptFile(*file) for file in files] if entry.name in given else []
        raw = raws.get(entry.name)
        after_hash = hashlib.sha256(raw).hexdigest() if raw is not None else entry.sha256
        patches.append(
            KeptPatch(
                entry.name,
                entry.sha256,
                "" if entry.name in retire else after_hash,
                entry.outcome.status,
                tuple(
                    KeptHunk(h.path, h.index, h.status, h.proof, h.to_path, h.symbol, h.note)
                    for h in entry.outcome.hunks
                ),
                tuple(resolved),
                entry.outcome.status == "look" and entry.name in accepted,
            )
        )
    return Record(1, planned.patchset.name, info.label, info.content_id, info.commit or "", tuple(patches))


def without(text: str, names: Iterable[str], place: str) -> str:
    """``patchset.yaml`` without some names of its order; every other byte stays. UserError P034."""
    gone = set(names)
    lines = text.split("\n")
    at = next((n for n, line in enumerate(lines) if re.match(r"order\s*:", line)), None)
    if at is None:
        raise UserError("P034", "no `order:` at the start of a line", place=place)
    flow = re.fullmatch(r"(order\s*:\s*)\[(.*)\](\s*(?:#.*)?)", lines[at])
    if flow:
        words = [word.strip() for word in flow[2].split(",") if word.strip()]
        lines[at] = (
            f"{flow[1]}[{', '.join(w for w in words if w.strip(chr(34) + chr(39)) not in gone)}]{flow[3]}"
        )
        return "\n".join(lines)
    kept = []
    left = 0
    for number, line in enumerate(lines):
        match = re.fullmatch(r"\s*-\s+[\"']?([a-z0-9._-]+)[\"']?\s*(?:#.*)?", line)
        if number > at and match and match[1] in gone:
            gone.discard(match[1])
            continue
        if number > at and match:
            left += 1
        kept.append(line)
    if gone:
        raise UserError(
            "P034", "the order is written in a way that cannot be changed", place=f"{place}:{at + 1}"
        )
    if not left:
        kept[at] = "order: []"
    return "\n".join(kept)


__all__ = ["NOT_NEEDED", "RECORD", "Record", "Rebased", "rebase", "replace_raw", "without"]
