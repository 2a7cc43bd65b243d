"""A folder of whole files that somebody copies over a tree, turned into a patch against its base."""

from __future__ import annotations

from collections.abc import Mapping

from auditor.errors import UserError
from auditor.patching.diffs.lines import file_change, split_lines
from auditor.patching.diffs.paths import check_path
from auditor.patching.incoming.names import Layout
from auditor.patching.incoming.patches import Incoming, Row, patch_name, path_matches
from auditor.patching.model import ChangeSet, FileChange
from auditor.trees.base import SourceTree

#: What lies beside the files and is none of them.
_BESIDE = (
    "readme*",
    "license*",
    "sha256sums*",
    "manifest*.json",
    "*.sha256",
    "*.bak",
    "*.orig",
    "*.pyc",
    "*~",
)


def take_overlay(
    files: Mapping[str, bytes],
    base: SourceTree,
    layout: Layout,
    label: str,
    exclude: tuple[str, ...] = (),
) -> tuple[Incoming, Row]:
    """One patch that makes the base's files those of the folder.

    UserError P030 where nothing differs, P031 where it cannot be told where the files lie in the tree.
    """
    kept: dict[str, bytes] = {}
    excluded, notes = [], []
    for name, data in sorted(files.items()):
        check_path(name, label)
        if path_matches(name, exclude):
            excluded.append(name)
        elif path_matches(name.lower(), _BESIDE) or "__pycache__" in name.split("/"):
            notes.append(f"{name} is not source: not taken")
        else:
            kept[name] = data
    before = Placing(list(kept), set(base.blobs()), layout, label)
    changes: list[FileChange] = []
    fresh = 0
    for name, data in kept.items():
        path = before(name)
        old = base.read(path) if path in base.blobs() else None
        change = file_change(path, old, data)
        if change is None:
            notes.append(f"{path} is the base's own file: nothing to take")
            continue
        fresh += old is None
        changes.append(change)
        if old is not None and change.hunks:
            removed = sum(mark == "-" for hunk in change.hunks for mark, _ in hunk.lines)
            lines = len(split_lines(old))
            if removed * 3 > lines > 20:
                notes.append(f"{path}: {removed} of {lines} lines differ; was it taken from another base?")
    if not changes:
        raise UserError("P030", "nothing in the folder differs from the base", place=label)
    if fresh:
        notes.append(f"{fresh} of {len(changes)} files are new")
    name = patch_name(label, "")
    title = name.replace("-", " ")
    patch = Incoming(name, ChangeSet(tuple(changes), subject=title[:1].upper() + title[1:]))
    row = Row(
        label,
        patch.name,
        patch.changes.subject,
        tuple(change.path for change in changes),
        sum(len(change.hunks) for change in changes),
        len(changes),
        tuple(excluded),
        (),
        tuple(notes),
    )
    return patch, row


class Placing:
    """Where a file of the folder lies in the tree: some parts off the front, a root before."""

    def __init__(self, names: list[str], paths: set[str], layout: Layout, label: str) -> None:
        ways: dict[tuple[str, ...], tuple[int, tuple[int, str]]] = {}
        for prefix in ("", *(f"{root}/" for root in layout.roots if root)):
            for count in range(8):
                cut = [name.split("/")[count:] for name in names]
                if not all(cut):
                    break
                named = tuple(prefix + "/".join(parts) for parts in cut)
                there = sum(path in paths for path in named)
                if there:
                    ways.setdefault(named, (there, (count, prefix)))
        best = max((there for there, _ in ways.values()), default=0)
        found = [way for there, way in ways.values() if there == best]
        if len(found) != 1:
            fact = "the base has none of the folder's files" if not found else "it fits the tree in two ways"
            raise UserError(
                "P031", fact, place=label, hints=["lay the files out as they lie in the tree, from its top"]
            )
        self.count, self.prefix = found[0]

    def __call__(self, name: str) -> str:
        return self.prefix + "/".join(name.split("/")[self.count :])
