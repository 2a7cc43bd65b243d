"""What becomes of a patchset on a tree: every patch in its order, in memory, on an overlay; none is written.

Each patch is carried to the tree as the patches before it left it. A patch that does not go is a fact in the
plan, not an exception; patches that stand on it are not tried, and everything that is known is reported.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from functools import cached_property

from auditor.errors import UserError
from auditor.patching.mapping import PathMap
from auditor.patching.model import ChangeSet, HunkResult, Outcome
from auditor.patching.paths import check_no_twins, check_target_path
from auditor.patching.planning.blocked import added, blocked
from auditor.patching.planning.filemodes import with_modes
from auditor.patching.planning.model import Given, Ground, Judge, Plan, Planned, Plans
from auditor.patching.planning.outcomes import outcome_of
from auditor.patching.planning.sources import Sources
from auditor.patching.sets.patchset import Patch, Patchset
from auditor.profile import Profile
from auditor.trees.base import SourceTree
from auditor.trees.modes import is_executable
from auditor.trees.overlay import OverlayTree


def plan(
    patchset: Patchset,
    tree: SourceTree,
    profile: Profile,
    *,
    sources: Sources | None = None,
    only: Collection[str] = (),
    stop: bool = True,
    version: str | None = None,
    judge: Judge | None = None,
    renames: Mapping[str, str] | None = None,
    there: Collection[str] = (),
    given: Mapping[str, Given] | None = None,
    stack: Patchset | None = None,
) -> Plan:
    """Carry the patches of ``patchset`` (or ``only`` some) to ``tree``.

    ``stop``: after a patch that does not go, no other is tried; without it, those that stand on none of the
    failed ones are. ``judge`` says whether a patch's ``upstreamed-when`` holds, asked only before a conflict
    is declared. ``there`` are patches that the tree holds already; ``given`` are patches, by name, whose
    outcome a person made. ``stack`` are the patches that these were made on top of, if they are others.

    ``UserError`` for a patch that cannot be read or names a path no patch may.
    """
    for name in only:
        patchset.patch(name)
    sources = sources or Sources(tree)
    sources.stack(stack or patchset)
    work = _Plan(patchset, tree, profile, sources, version, judge, dict(renames or {}), stop)
    work.there |= set(there)
    work.given = dict(given or {})
    for patch in patchset.patches:
        if not only or patch.name in only:
            work.add(patch)
    return Plan(patchset, tree, profile, tuple(work.entries), work.files, work.modes)


def plan_all(
    patchset: Patchset,
    grounds: Sequence[Ground],
    *,
    only: Collection[str] = (),
    stop: bool = True,
    there: Collection[str] = (),
) -> Plans:
    """Carry every patch to the tree of its upstream. One order and one stack: a patch of one upstream may
    need one of another, and with ``stop`` none is tried after one that does not go, whatever it changes.

    Patches of an upstream that is not among ``grounds`` are skipped, in the first plan.
    """
    for name in only:
        patchset.patch(name)
    works: dict[str, _Plan] = {}
    in_trees: set[str] = set(there)
    missing: dict[str, str] = {}
    for ground in grounds:
        sources = ground.sources or Sources(ground.tree)
        sources.stack(patchset)
        work = _Plan(patchset, ground.tree, ground.profile, sources, ground.version, ground.judge, {}, stop)
        work.there, work.missing = in_trees, missing
        works[ground.profile.name] = work
    first = next(iter(works.values()))
    for patch in patchset.patches:
        if not only or patch.name in only:
            works.get(patchset.project_of(patch), first).add(patch)
    made = (Plan(patchset, w.tree, w.profile, tuple(w.entries), w.files, w.modes) for w in works.values())
    return Plans(patchset, tuple(made))


class _Plan:
    def __init__(
        self,
        patchset: Patchset,
        tree: SourceTree,
        profile: Profile,
        sources: Sources,
        version: str | None,
        judge: Judge | None,
        renames: dict[str, str],
        stop: bool,
    ) -> None:
        self.patchset = patchset
        self.tree = tree
        self.profile = profile
        self.sources = sources
        self.version = version or tree.info().version
        self.judge = judge
        self.renames = renames
        self.stop = stop
        self.map = PathMap(profile, tree.blobs())
        self.files: dict[str, bytes | None] = {}
        self.modes: dict[str, str] = {}
        self.entries: list[Planned] = []
        self.there: set[str] = set()  # patches that are in, by name
        self.given: dict[str, Given] = {}
        self._now: SourceTree = tree
        self.missing: dict[str, str] = {}  # patch that is not in the tree -> why
        self._spoilt: set[str] = set()  # files that a failed patch would have changed

    def add(self, patch: Patch) -> None:
        """Carry one more patch."""
        project = self.patchset.project_of(patch)
        entry = Planned(patch, project, hashlib.sha256(patch.raw).hexdigest(), Outcome("skipped"))
        entry = self._before(entry) or self._carry(entry)
        entry = replace(entry, outcome=blocked(entry.outcome, self._now.blobs()))
        outcome = entry.outcome
        self.entries.append(entry)
        if outcome.status in ("conflict", "not-tried", "skipped"):
            self.missing[patch.name] = outcome.status
        else:
            self.there.add(patch.name)
        if outcome.status in ("conflict", "not-tried"):
            self._spoilt |= {hunk.to_path or hunk.path for hunk in outcome.hunks}
        if outcome.files or outcome.modes:
            self._take(patch, outcome)

    def _before(self, entry: Planned) -> Planned | None:
        """What can be said without looking at the content."""
        patch = entry.patch
        if entry.project != self.profile.name:
            return replace(entry, outcome=Outcome("skipped", note=f"for {entry.project}, which is not here"))
        spec = patch.header.applies.get(entry.project, "")
        if spec and self.version is not None and not _version_fits(self.version, spec, patch.place):
            return replace(entry, outcome=Outcome("skipped", note=f"for {spec}, this is {self.version}"))
        failed = [name for name, why in self.missing.items() if why in ("conflict", "not-tried")]
        if self.stop and failed:
            return self._not_tried(entry, f"{failed[0]} does not go")
        for name in patch.header.requires:
            if name not in self.there:
                return self._not_tried(entry, f"it needs {name} ({self.missing.get(name, 'not chosen')})")
        return None

    def _not_tried(self, entry: Planned, why: str) -> Planned:
        changes = entry.patch.changes
        hunks = tuple(HunkResult(c.path, -1, "not-tried", "") for c in (changes.changes if changes else ()))
        return replace(entry, outcome=Outcome("not-tried", hunks, note=why))

    def _carry(self, entry: Planned) -> Planned:
        patch = entry.patch
        if patch.name in self.given:
            return replace(entry, outcome=self.given[patch.name](self._now), changes=patch.changes)
        done = self._settled(patch, entry.sha256)
        if done is not None:
            return replace(entry, outcome=done)
        if patch.form == "structural":
            return replace(entry, outcome=self._judged(patch, self._structural(patch, entry.sha256)))
        resolved = None
        changes = patch.changes
        if patch.reference is not None:
            try:
                resolved = self.sources.resolve(patch)
            except UserError as error:
                if self.stop or error.code != "P060":
                    raise
                # Where all are asked for, one that cannot be read does not hide what is known of the others.
                hint = f" ({error.hints[0]})" if error.hints else ""
                return self._not_tried(entry, f"{error.fact}{hint}")
            changes = resolved.changes
        assert changes is not None
        mapped, named, left = self.map.change_set(changes)
        skipped = tuple(
            HunkResult(path, -1, "skipped", "", note="not part of an installed copy") for path in left
        )
        touched = {self.map.path(c.path) or c.path for c in changes.changes}
        if not mapped.changes:
            outcome = Outcome("skipped", skipped, note="an installed copy has none of its files")
        else:
            words = [entry.sha256, self.map.root or "", resolved.after if resolved is not None else ""]
            words += [repr(sorted(self.renames.items())), repr(patch.file.exclude if patch.file else "")]
            outcome = with_modes(mapped, self._port(" ".join(words), mapped), self._now, self._executable)
            hunks = tuple(replace(h, path=named.get(h.path, h.path)) for h in outcome.hunks)
            outcome = self.sources.merged(changes, replace(outcome, hunks=hunks))
            hunks = outcome.hunks
            outcome = replace(outcome, hunks=(*hunks, *skipped))
            if outcome.status == "conflict" and self._spoilt & (touched | set(named.values())):
                # Whether it would go with the patch that failed, nobody knows.
                return self._not_tried(entry, "an earlier patch to the same file does not go")
        if resolved is not None and outcome.status == "conflict" and self.sources.contains(resolved.after):
            note = "part of this tree's history; the code has changed since"
            outcome = Outcome("upstream", outcome.hunks, note=note)
        return replace(entry, outcome=self._judged(patch, outcome), changes=changes, resolved=resolved)

    def _port(self, key: str, changes: ChangeSet) -> Outcome:
        def work(tree: SourceTree, blob: Callable[[str], bytes | None]) -> Outcome:
            from auditor.patching.port.carry import port  # not needed where the answer is kept

            return port(changes, tree, blobs=blob, renames=self.renames)

        return outcome_of(key, self._now, self.sources.blob, work)

    def _executable(self, path: str) -> bool:
        """Whether a file may be run, as earlier patches have left it."""
        was = self.modes.get(path, "")
        return was == "100755" or (not was and is_executable(self.tree, path))

    def _settled(self, patch: Patch, sha256: str) -> Outcome | None:
        """What the patch itself says of forms of the tree in which it has nothing to do."""
        rows = patch.file.settled if patch.file is not None else ()
        if not rows:
            return None

        def work(tree: SourceTree, blob: Callable[[str], bytes | None]) -> Outcome:
            from auditor.patching.edits.signs import settled

            return settled(rows, tree, self.profile) or Outcome("clean")

        found = outcome_of(f"{sha256} settled {self._context}", self._now, self.sources.blob, work)
        return found if found.status != "clean" else None

    def _structural(self, patch: Patch, sha256: str) -> Outcome:
        def work(tree: SourceTree, blob: Callable[[str], bytes | None]) -> Outcome:
            from auditor.patching.edits import apply_edits

            return apply_edits(patch, tree, self.profile, files=self.patchset.new_file)

        return outcome_of(f"{sha256} {self._context}", self._now, self.sources.blob, work)

    @cached_property
    def _context(self) -> str:
        """A digest of what a structural patch depends on besides itself and the tree."""
        import msgspec

        digest = hashlib.sha256(msgspec.json.encode(self.profile))
        for name in sorted(self.patchset.file.files):
            digest.update(name.encode() + b"\0" + hashlib.sha256(self.patchset.new_file(name)).digest())
        return digest.hexdigest()

    def _judged(self, patch: Patch, outcome: Outcome) -> Outcome:
        """A conflict, unless the tree does what the patch is for already."""
        when = patch.header.upstreamed_when
        if outcome.status != "conflict" or when is None or self.judge is None:
            return outcome
        if self.judge(when, self._now):
            return Outcome("upstream", outcome.hunks, note="the tree does what it is for (upstreamed-when)")
        return outcome

    def _take(self, patch: Patch, outcome: Outcome) -> None:
        below = self.tree.blobs()
        before = self._now.blobs()
        for path in outcome.files:
            check_target_path(path, patch.place)
            if self.map.installed and self.map.path(path) is None:
                raise UserError("P040", f"{path} is no part of the package", place=patch.place)
        new = added(outcome, before)
        if new:
            check_no_twins(new, [path for path in before if path not in outcome.files], patch.place)
        self.files |= outcome.files
        for path in [p for p, data in self.files.items() if data is None and p not in below]:
            del self.files[path]  # added by one patch, removed by a later one
        self.modes |= outcome.modes
        for path in [p for p in self.modes if p in self.files and self.files[p] is None]:
            del self.modes[path]
        self._now = OverlayTree(self.tree, self.files)


def _version_fits(version: str, spec: str, place: str) -> bool:
    from packaging.specifiers import SpecifierSet

    try:
        wanted = SpecifierSet(spec)
    except ValueError:  # also a number of thousands of digits
        raise UserError(
            "P022", f"{spec!r} does not name versions", place=place, hints=['write ">=0.5.13,<0.6"']
        ) from None
    try:
        return wanted.contains(version, prereleases=True)
    except ValueError:
        return True
