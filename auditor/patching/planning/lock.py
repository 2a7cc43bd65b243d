"""``patchset.lock``: what a patchset comes to on one base, to the byte, so that anything else is refused.

The lock holds no text of any patch or tree: ids, hashes, names and counts. It is sorted and ends its lines in
LF; the same patchset on the same base gives the same bytes.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec

from auditor.errors import EXIT_FINDINGS, UserError
from auditor.gates.path.packages import requirements
from auditor.patching.mapping import PathMap
from auditor.patching.planning.model import Plan, Planned, Plans
from auditor.patching.sets.patchset import Patchset
from auditor.profile import Profile
from auditor.readback import Damaged, from_json
from auditor.trees.base import SourceTree
from auditor.trees.commit import CommitTree
from auditor.trees.names import blob_id, listing_id
from auditor.trees.treeid import parse_listing, tree_id

SCHEMA = 1
NAME = "patchset.lock"


#: What `how_it_differs` says of a file that no patch was applied to.
BEFORE = "is as in the base, no patch is applied to it"


class _Strict(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True, rename="kebab"):
    pass


class LockedFile(_Strict, frozen=True):
    """Blob ids of one file before and after one patch; "" where there is none."""

    path: str
    before: str = ""
    after: str = ""
    mode: str = ""


class LockedReference(_Strict, frozen=True):
    """What a reference to the upstream came to."""

    before: str
    after: str
    pr: int = 0


class Anchor(_Strict, frozen=True):
    """A place that a structural edit goes to, and how often it has to be there."""

    symbol: str
    count: int


class LockedPatch(_Strict, frozen=True):
    """One patch: the hash of its file and what it does to each file of the tree."""

    name: str
    sha256: str
    status: str
    files: tuple[LockedFile, ...] = ()
    anchors: tuple[Anchor, ...] = ()
    upstream: LockedReference | None = None
    project: str = ""  # the upstream that it changes, where there are several


class LockedBase(_Strict, frozen=True):
    """One upstream: the tree the patches go on, and the tree that comes out."""

    url: str
    kind: str  # "commit", or what kind of folder or archive it was
    label: str
    tree: str  # git tree id, or a digest over sorted (path, blob id)
    result: str
    commit: str = ""
    version: str = ""
    dependencies: dict[str, str] = {}  # what the tree's metadata pins exactly


class Lock(_Strict, frozen=True):
    """The whole file."""

    schema: int
    patchset: str
    upstreams: dict[str, LockedBase]
    patches: tuple[LockedPatch, ...]

    def patches_of(self, upstream: str) -> list[LockedPatch]:
        """The patches that change one upstream."""
        return [patch for patch in self.patches if patch.project in ("", upstream)]


def lock_of(plan: Plan) -> Lock:
    """The lock of a plan in which every patch goes. ``UserError`` P060 for a tree that has no id."""
    return Lock(SCHEMA, plan.patchset.name, {plan.profile.name: _base(plan)}, tuple(_patches(plan)))


def lock_all(plans: Plans) -> Lock:
    """The same for the trees of several upstreams: every patch in the order of the patchset."""
    if len(plans.plans) == 1:
        return lock_of(plans.plans[0])
    bases = {plan.profile.name: _base(plan) for plan in plans.plans}
    made = {
        patch.name: msgspec.structs.replace(patch, project=plan.profile.name)
        for plan in plans.plans
        for patch in _patches(plan)
    }
    order = [patch.name for patch in plans.patchset.patches]
    return Lock(SCHEMA, plans.patchset.name, bases, tuple(made[name] for name in order if name in made))


def with_upstream(old: Lock, new: Lock, upstream: str, order: Sequence[str]) -> Lock:
    """A lock of several upstreams in which one has another base; ``new`` is the lock of that one alone."""
    made = {patch.name: patch for patch in old.patches if patch.project not in ("", upstream)}
    for patch in new.patches:
        made[patch.name] = msgspec.structs.replace(patch, project=upstream)
    bases = {name: new.upstreams.get(name, base) for name, base in {**old.upstreams, **new.upstreams}.items()}
    return Lock(SCHEMA, old.patchset, bases, tuple(made[name] for name in order if name in made))


def _base(plan: Plan) -> LockedBase:
    profile = plan.profile
    info = plan.tree.info()
    upstream = plan.patchset.file.upstreams.get(profile.name)
    return LockedBase(
        url=(upstream.url if upstream is not None else "") or profile.url,
        kind="commit" if info.commit else "package",
        label=info.label,
        tree=base_id(plan.tree, profile),
        result=result_id(plan),
        commit=info.commit or "",
        version=info.version or "",
        dependencies=_dependencies(plan.tree, profile),
    )


def base_id(tree: SourceTree, profile: Profile) -> str:
    """The id of a tree: git's own for a commit, else a digest over what an installed copy has of it.

    Metadata beside the packages is left out: an installer writes its own, and a patch never goes there.
    """
    info = tree.info()
    blobs = tree.blobs()
    if info.commit or not profile.is_installed(blobs):
        return info.content_id
    tops = tuple(f"{name}/" for name in (profile.package, *profile.native_packages))
    return listing_id({path: oid for path, oid in blobs.items() if path.startswith(tops)})


def result_id(plan: Plan) -> str:
    """The id of the tree with all patches: git's own for a commit, computed here, else a digest."""
    tree = plan.tree
    if not isinstance(tree, CommitTree):
        return base_id(plan.result, plan.profile)
    listing = parse_listing(tree.repo.list_tree(tree.commit.tree))
    for path, data in plan.files.items():
        name = path.encode()
        if data is None:
            listing.pop(name, None)
        else:
            mode = plan.modes.get(path, "").encode() or listing.get(name, (b"100644", b""))[0]
            listing[name] = (mode, blob_id(data).encode())
    return tree_id(listing)


def _dependencies(tree: SourceTree, profile: Profile) -> dict[str, str]:
    root = profile.root_of(tree.blobs()) or ""
    found = {r.name: r.version for r in requirements(tree, profile, root) if r.version and not r.extra}
    return {name: str(found[name]) for name in sorted(found)}


def _patches(plan: Plan) -> list[LockedPatch]:
    out = []
    for entry, steps in plan.steps():
        files = []
        for path, before, after in steps:
            mode = entry.outcome.modes.get(path, "")
            if before != after or mode:
                files.append(LockedFile(path, before, after, mode))
        reference = None
        if entry.resolved is not None:
            reference = LockedReference(entry.resolved.before, entry.resolved.after, entry.resolved.pr)
        out.append(
            LockedPatch(
                entry.name, entry.sha256, entry.outcome.status, tuple(files), _anchors(entry), reference
            )
        )
    return out


def _anchors(entry: Planned) -> tuple[Anchor, ...]:
    """Where the edits of a structural patch go, counted."""
    counted: dict[str, int] = {}
    if entry.patch.form == "structural":
        for hunk in entry.outcome.hunks:
            if hunk.symbol:
                counted[hunk.symbol] = counted.get(hunk.symbol, 0) + 1
    return tuple(Anchor(symbol, counted[symbol]) for symbol in sorted(counted))


def encode(lock: Lock) -> bytes:
    """The lock as it lies on the disk."""
    return msgspec.json.format(msgspec.json.encode(lock), indent=2) + b"\n"


def read_lock(patchset: Patchset, path: Path | None = None) -> Lock:
    """The lock of a patchset. ``UserError`` P061 where there is none or it cannot be read."""
    place = path or patchset.folder / NAME
    shown = str(path) if path is not None else f"{patchset.place}/{NAME}"
    try:
        lock = from_json(place.read_bytes(), Lock)
    except FileNotFoundError:
        raise UserError(
            "P061", "there is no lock", place=shown, hints=[f"patches lock {patchset.typed} --onto REV"]
        ) from None
    except OSError as error:
        raise UserError("P061", f"cannot be read: {error.strerror or error}", place=shown) from None
    except Damaged as error:
        raise UserError(
            "P061", f"not a lock: {error}", place=shown, hints=[f"patches lock {patchset.typed} --onto REV"]
        ) from None
    if lock.schema != SCHEMA:
        raise UserError(
            "P061",
            f"a lock of version {lock.schema}, this is for {SCHEMA}",
            place=shown,
            hints=[f"patches lock {patchset.typed} --onto REV"],
        )
    return lock


def differences(patchset: Patchset, lock: Lock) -> list[str]:
    """Where the files of the patchset are not those that were locked; [] if they are."""
    locked = {patch.name: patch for patch in lock.patches}
    here = {patch.name: hashlib.sha256(patch.raw).hexdigest() for patch in patchset.patches}
    out = [f"{name} is not in the lock" for name in here if name not in locked]
    out += [f"{name} is in the lock only" for name in locked if name not in here]
    out += [
        f"{name} was changed since" for name in here if name in locked and locked[name].sha256 != here[name]
    ]
    if not out and list(here) != list(locked):
        out.append("the order of the patches is another")
    return out


def require_locked(patchset: Patchset, plan: Plan, lock: Lock) -> None:
    """``UserError`` P062, exit code 1, where a plan is anything else than what was locked.

    A folder without git has no commit: there the files that the patches touch must be the locked ones.
    """
    wrong = differences(patchset, lock)
    base = lock.upstreams.get(plan.profile.name)
    if base is None:
        wrong.append(f"the lock says nothing about {plan.profile.name}")
    info = plan.tree.info()
    if not wrong and base is not None:
        same_kind = (base.kind == "commit") == (info.commit is not None)
        if same_kind and base_id(plan.tree, plan.profile) != base.tree:
            wrong.append(f"the base is {info.label}, the lock is for {base.label} (another tree)")
        elif not same_kind and base.version and info.version and base.version != info.version:
            wrong.append(f"the base is {info.version}, the lock is for {base.version}")
    if not wrong:
        wrong = _other_files(plan, lock)
    if wrong:
        more = f" (and {len(wrong) - 1} more)" if len(wrong) > 1 else ""
        raise UserError(
            "P062",
            f"not what the lock says: {wrong[0]}{more}",
            place=f"{patchset.place}/{NAME}",
            hints=[f"patches lock {patchset.typed} --onto REV        # if the change is meant"],
            exit_code=EXIT_FINDINGS,
        )


def _other_files(plan: Plan, lock: Lock) -> list[str]:
    paths = PathMap(plan.profile, plan.tree.blobs())
    planned = {(patch.name, file.path): file for patch in _patches(plan) for file in patch.files}
    chosen = {entry.name for entry in plan.entries}
    out = []
    for patch in lock.patches_of(plan.profile.name):
        if patch.name not in chosen:
            continue
        for file in patch.files:
            path = paths.path(file.path)
            if path is None:
                continue
            found = planned.pop((patch.name, path), None)
            if found is None:
                out.append(f"{patch.name} does not change {path}")
            elif (found.before, found.after, found.mode) != (file.before, file.after, file.mode):
                side = "before" if found.before != file.before else "after"
                out.append(f"{path} is another file {side} {patch.name}")
    return out + [f"{name} changes {path}" for name, path in planned]


def expected(lock: Lock, profile: Profile, blobs: Mapping[str, str]) -> dict[str, str]:
    """path in this tree -> blob id after all patches ("" for a file that is gone), of every locked file."""
    return {path: steps[-1][1] for path, steps in locked_steps(lock, profile, blobs).items()}


def locked_steps(lock: Lock, profile: Profile, blobs: Mapping[str, str]) -> dict[str, list[tuple[str, str]]]:
    """path in this tree -> its blob ids: ("", in the base), then (patch, after it) for each that changes it.

    "" is the id of no file.
    """
    paths = PathMap(profile, blobs)
    found: dict[str, list[tuple[str, str]]] = {}
    for patch in lock.patches_of(profile.name):
        for file in patch.files:
            path = paths.path(file.path)
            if path is not None:
                found.setdefault(path, [("", file.before)]).append((patch.name, file.after))
    return dict(sorted(found.items()))


def how_it_differs(there: str, steps: Sequence[tuple[str, str]]) -> str:
    """What a file with the blob id ``there`` is of those in `locked_steps`; "" where it is as locked."""
    if there == steps[-1][1]:
        return ""
    if there == steps[0][1]:
        return BEFORE
    for (patch, oid), (following, _) in zip(steps[1:], steps[2:], strict=False):
        if there == oid:
            return f"is as {patch} leaves it, {following} is not applied"
    return "is missing" if not there else "is there" if not steps[-1][1] else "is another file"
