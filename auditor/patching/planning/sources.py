"""Where contents come from while a plan is made: the tree itself, clones that are here, other trees."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from functools import cached_property

from auditor.errors import UserError
from auditor.patching.model import ChangeSet, Outcome
from auditor.patching.planning.chain import Chain
from auditor.patching.sets.patchset import Patch, Patchset
from auditor.patching.sets.reference import Resolved, resolve
from auditor.trees.base import SourceTree
from auditor.trees.git import GitRepo, MissingObject

#: Lengths of a blob id as diffs write it, and as git stores it.
_SHORTEST_ID = 7
_WHOLE_ID = 40


class Sources:
    """Where contents come from while a plan is made: the tree, clones that are here, other trees.

    ``older`` are trees that the patches were made for. ``kept`` gives more of them (releases fetched
    before); it is asked once, and only where nothing else has a content.
    """

    def __init__(
        self,
        tree: SourceTree,
        clones: Collection[GitRepo] = (),
        older: Collection[SourceTree] = (),
        kept: Callable[[], Sequence[SourceTree]] | None = None,
    ) -> None:
        self.tree = tree
        self._ask_kept = kept
        self.older = tuple(older)  # trees that the patches were made for
        own = getattr(tree, "repo", None) or getattr(getattr(tree, "base", None), "repo", None)
        self.clones = [own] if isinstance(own, GitRepo) else []
        self.clones += [clone for clone in clones if clone not in self.clones]
        self._resolved: dict[str, Resolved] = {}
        self._chain: Chain | None = None
        self._contents: dict[str, bytes | None] = {}

    def stack(self, patchset: Patchset) -> None:
        """Let contents that only the patches of a stack make be found too."""
        changes = [c for patch in patchset.patches if patch.changes for c in patch.changes.changes]
        self._chain = Chain(changes, self.stored)
        self._contents.clear()

    @cached_property
    def _by_id(self) -> dict[str, tuple[SourceTree, str]]:
        trees = (*self.older, self.tree)
        return {oid: (tree, path) for tree in trees for path, oid in tree.blobs().items()}

    def blob(self, oid: str) -> bytes | None:
        """The content of a blob id, or of the beginning of one where a clone knows which; else None."""
        if oid not in self._contents:
            data = self.stored(oid)
            if data is None and self._chain is not None:
                data = self._chain.content(oid)
            self._contents[oid] = data
        return self._contents[oid]

    def stored(self, oid: str) -> bytes | None:
        """The same, without what only the patches of a stack make."""
        if oid in self._by_id:
            tree, path = self._by_id[oid]
            return tree.read(path)
        for clone in self.clones:
            try:
                for data in clone.read_objects([oid]):
                    return data
            except MissingObject:
                continue
        kept, path = self._kept.get(oid) or self._begins(oid) or (None, "")
        return kept.read(path) if kept is not None else None

    @cached_property
    def _kept(self) -> dict[str, tuple[SourceTree, str]]:
        trees = self._ask_kept() if self._ask_kept is not None else ()
        return {oid: (tree, path) for tree in reversed(trees) for path, oid in tree.blobs().items()}

    def _begins(self, oid: str) -> tuple[SourceTree, str] | None:
        """The one content of the trees without history whose id begins with a short one."""
        if not _SHORTEST_ID <= len(oid) < _WHOLE_ID:
            return None
        both = {**self._kept, **self._by_id}
        found = [each for each in both if each.startswith(oid)]
        return both[found[0]] if len(found) == 1 else None

    def resolve(self, patch: Patch) -> Resolved:
        """The content of a reference. ``UserError`` P060 where no clone that is here has it."""
        assert patch.reference is not None
        if patch.name in self._resolved:
            return self._resolved[patch.name]
        if not self.clones:
            raise UserError(
                "P060",
                f"{patch.name} is {patch.reference.shown()} of the upstream, and there is no clone to read",
                place=patch.place,
                hints=["--clone PATH of a clone of the upstream"],
            )
        exclude = patch.file.exclude if patch.file is not None else ()
        first: UserError | None = None
        for clone in self.clones:
            try:
                found = resolve(patch.reference, clone, exclude=exclude, place=patch.place)
            except UserError as error:
                first = first or error
                continue
            self._resolved[patch.name] = found
            return found
        assert first is not None
        raise first

    def merged(self, changes: ChangeSet, outcome: Outcome) -> Outcome:
        """The outcome, or upstream where the history of the tree says that the patch was merged."""
        if outcome.status not in ("conflict", "partly", "look"):
            return outcome
        from auditor.patching.planning.merged import merged  # not needed where every patch goes

        for clone in self.clones:
            found = merged(changes, outcome, self.tree, clone)
            if found.status == "upstream":
                return found
        return outcome

    def contains(self, commit: str) -> bool:
        """Whether the tree is a commit that has ``commit`` in its history."""
        at = self.tree.info().commit if self.clones else None
        return bool(at) and any(clone.is_ancestor(commit, str(at)) for clone in self.clones)
