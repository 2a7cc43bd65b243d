"""What becomes of a patchset on a tree, as data: a row a patch, and what the tree gets."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cached_property

from auditor.patching.model import ChangeSet, Outcome
from auditor.patching.planning.sources import Sources
from auditor.patching.sets.header import Expectation
from auditor.patching.sets.patchset import Patch, Patchset
from auditor.patching.sets.reference import Resolved
from auditor.profile import Profile
from auditor.trees.base import SourceTree
from auditor.trees.names import blob_id
from auditor.trees.overlay import OverlayTree


@dataclass(frozen=True)
class Planned:
    """One patch of a plan. ``sha256`` is of its file; ``changes`` what a diff or a reference came to."""

    patch: Patch
    project: str
    sha256: str
    outcome: Outcome
    changes: ChangeSet | None = None
    resolved: Resolved | None = None

    @property
    def name(self) -> str:
        return self.patch.name


@dataclass(frozen=True)
class Plan:
    """A patchset on a tree. ``files`` is what the tree gets, all patches together."""

    patchset: Patchset
    tree: SourceTree
    profile: Profile
    entries: tuple[Planned, ...]
    files: dict[str, bytes | None] = field(default_factory=dict)
    modes: dict[str, str] = field(default_factory=dict)

    @property
    def failed(self) -> tuple[Planned, ...]:
        """Patches that did not go: in conflict first, then those that were not tried."""
        bad = [e for e in self.entries if e.outcome.status == "conflict"]
        return (*bad, *(e for e in self.entries if e.outcome.status == "not-tried"))

    @property
    def doubtful(self) -> tuple[Planned, ...]:
        """Patches that were carried, but that a person should look at."""
        return tuple(e for e in self.entries if e.outcome.status == "look")

    @cached_property
    def result(self) -> SourceTree:
        """The tree with all patches that go."""
        if not self.files:
            return self.tree
        return OverlayTree(self.tree, self.files, label=f"{self.tree.info().label} with {self.patchset.name}")

    def steps(self) -> Iterator[tuple[Planned, list[tuple[str, str, str]]]]:
        """Each patch, with (path, blob id before it, after it) of its files by path; "" for no file."""
        now = dict(self.tree.blobs())
        for entry in self.entries:
            files = []
            for path, data in sorted(entry.outcome.files.items()):
                after = "" if data is None else blob_id(data)
                files.append((path, now.get(path, ""), after))
                now[path] = after
            yield entry, files

    def counts(self) -> dict[str, int]:
        """Status -> number of patches, in the order in which they first come."""
        found: dict[str, int] = {}
        for entry in self.entries:
            found[entry.outcome.status] = found.get(entry.outcome.status, 0) + 1
        return found


#: What a person made of a patch: asked for the tree as the patches before it left it.
Given = Callable[[SourceTree], Outcome]
#: Whether an expectation holds on a tree; None where that cannot be told.
Judge = Callable[[Expectation, SourceTree], "bool | None"]


@dataclass(frozen=True)
class Ground:
    """Where the patches of one upstream are planned; see `plan` for what each part is."""

    tree: SourceTree
    profile: Profile
    sources: Sources | None = None
    version: str | None = None
    judge: Judge | None = None


@dataclass(frozen=True)
class Plans:
    """A patchset on the trees of several upstreams, one plan for each."""

    patchset: Patchset
    plans: tuple[Plan, ...]

    @property
    def entries(self) -> tuple[Planned, ...]:
        """Every patch that was planned, in the order of the patchset."""
        place = {patch.name: at for at, patch in enumerate(self.patchset.patches)}
        return tuple(sorted((e for p in self.plans for e in p.entries), key=lambda e: place[e.name]))

    @property
    def failed(self) -> tuple[Planned, ...]:
        """Patches that did not go, as in `Plan.failed`."""
        bad = [entry for each in self.plans for entry in each.failed]
        return tuple(sorted(bad, key=lambda entry: entry.outcome.status != "conflict"))

    @property
    def doubtful(self) -> tuple[Planned, ...]:
        """Patches that were carried, but that a person should look at."""
        return tuple(entry for each in self.plans for entry in each.doubtful)
