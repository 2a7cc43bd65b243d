"""The working tree of a clone: tracked files and new ones that are not ignored, as they are on disk now."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from auditor.errors import UserError
from auditor.trees.base import TreeInfo
from auditor.trees.commit import parse_tree_listing
from auditor.trees.folder import FilesOnDisk
from auditor.trees.git import GitRepo, MissingObject
from auditor.trees.names import blob_id, listing_id, text_path


class WorktreeTree(FilesOnDisk):
    """Uncommitted changes included; nothing of git's own conversions (line ends, filters) is run.

    Ids are computed from the bytes on disk and not taken from the index: an index entry's id is that of
    the *converted* content, and comparing time stamps would have git run the filters a repository names.
    """

    def __init__(self, repo: GitRepo, *, notes: Sequence[str] = ()) -> None:
        if repo.work_tree is None:
            raise UserError(
                "T001",
                "a bare repository has no working tree",
                place=str(repo.git_dir),
                hints=["name a commit: --commit HEAD"],
            )
        super().__init__(repo.work_tree, notes=notes)
        self.repo = repo
        self._sparse: set[str] = set()

    def _names(self) -> Iterable[str]:
        listed = self.repo.output(
            "ls-files",
            "-z",
            "-t",
            "--cached",
            "--others",
            "--exclude-standard",
            "--full-name",
            work_tree=True,
        )
        names = set()
        for entry in listed.split(b"\0"):
            mark, name = entry[:2], entry[2:].decode("utf-8", "surrogateescape")
            if mark == b"S ":  # outside a sparse checkout: not on disk, and not deleted either
                self._sparse.add(text_path(name))
            elif name and not name.endswith("/"):  # a folder here is a repository inside this one
                names.add(name)
        if self._sparse:
            self.notes += (f"{len(self._sparse)} files are outside the sparse checkout and were not read",)
        return names

    def _describe(self, blobs: Mapping[str, str]) -> TreeInfo:
        try:
            head = self.repo.commit("HEAD")
            committed = parse_tree_listing(self.repo.list_tree(head.tree))
        except (UserError, MissingObject):  # no commit yet, or a partial clone without trees
            return TreeInfo("worktree", "working tree", listing_id(blobs), dirty=True)
        dirty = self._differs(committed, blobs)
        return TreeInfo(
            "worktree",
            f"working tree on {head.oid[:7]}" + (", with uncommitted changes" if dirty else ""),
            listing_id(blobs),
            commit=head.oid,
            date=head.date or None,
            dirty=dirty,
        )

    def _differs(self, committed: Mapping[str, str], blobs: Mapping[str, str]) -> bool:
        expected = {path: oid for path, oid in committed.items() if path not in self._sparse}
        if expected == blobs:
            return False
        if expected.keys() != blobs.keys():
            return True
        for path, oid in expected.items():
            if blobs[path] != oid:
                # A checkout with CRLF line ends is not a change.
                if blob_id(self.read(path).replace(b"\r\n", b"\n")) != oid:
                    return True
        return False
