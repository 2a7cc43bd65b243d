"""A patch carried to another tree, by the cheapest proof that holds, hunk by hunk.

Pure: reads a :class:`SourceTree` and blobs, returns what the files become. Nothing is dropped and nothing
is placed with fuzz; a patch is carried whole or not at all.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any

from auditor.errors import UserError
from auditor.patching.diffs.lines import split_lines
from auditor.patching.diffs.parse import binary_after
from auditor.patching.model import ChangeSet, FileChange, Hunk, HunkResult, Outcome, Status, status_of
from auditor.patching.port.file import merge_file
from auditor.patching.port.finder import finder_of
from auditor.patching.port.history import History, goes_again, landed
from auditor.patching.port.hunks import apply_hunks
from auditor.patching.port.moved import MovedPart, MovedPort, is_shim
from auditor.patching.port.pieces import FileMerge, Piece
from auditor.patching.port.plain import carry_plain
from auditor.trees.base import SourceTree
from auditor.trees.names import blob_id

Blobs = Callable[[str], "bytes | None"]
_LINK = "120000"
_NO_LINKS = "a symbolic link: none is written, it could lead out of the tree; git am takes what export writes"
#: Proofs of what is carried besides lines.
_RENAME, _MODE = "file renamed", "file mode"
_RANK = {"upstream": 0, "clean": 1, "moved": 2, "look": 3, "obsolete": 4, "conflict": 5}


@dataclass
class FilePort:
    """What one change of the patch does to the tree."""

    hunks: list[HunkResult] = field(default_factory=list)
    files: dict[str, bytes | None] = field(default_factory=dict)
    modes: dict[str, str] = field(default_factory=dict)


def port(
    change_set: ChangeSet,
    tree: SourceTree,
    *,
    blobs: Blobs,
    renames: Mapping[str, str] | None = None,
    history: History | None = None,
) -> Outcome:
    """What becomes of ``change_set`` on ``tree``.

    ``blobs`` gives the content of a blob id (full or an unambiguous beginning), None where it is not known.
    ``renames`` are paths known to have moved, old to new. ``history`` is asked whether the patch was merged,
    where the tree alone shows only a part of it.
    """
    work = _Port(tree, blobs, dict(renames or {}))
    work.named = {
        path for change in change_set.changes for path in (change.old_path, change.new_path) if path
    }
    parts = [work.change(change) for change in change_set.changes]
    outcome = _outcome(parts)
    return outcome if history is None else merged_before(outcome, change_set, history)


def merged_before(outcome: Outcome, change_set: ChangeSet, history: History) -> Outcome:
    """A patch that was merged and then changed is upstream, though it does not read so any more."""
    if outcome.status != "upstream" and not goes_again(outcome) and not _without_lines(outcome):
        also = {hunk.to_path for hunk in outcome.hunks if hunk.to_path}
        landing = history.landing(change_set, also)
        if landing is not None and not landing.reverted_by:
            return landed(outcome, landing)
    return replace(outcome, note=history.note) if history.note else outcome


def _without_lines(outcome: Outcome) -> bool:
    """Whether a file is still to be renamed, or to get a mode: history is asked about lines only."""
    return any(hunk.status == "clean" and hunk.proof in (_RENAME, _MODE) for hunk in outcome.hunks)


def _outcome(parts: list[FilePort]) -> Outcome:
    hunks = tuple(hunk for part in parts for hunk in part.hunks)
    words = {hunk.status for hunk in hunks}
    status = status_of(words)
    if status in ("conflict", "upstream"):
        return Outcome(status, hunks)
    files: dict[str, bytes | None] = {}
    modes: dict[str, str] = {}
    for part in parts:
        files.update(part.files)
        modes.update(part.modes)
    if not files and not modes:
        if words & {"upstream", "partly"}:
            return Outcome("upstream", hunks)
        # All that it changes was left out: nothing is done, and nothing of it was there.
        return Outcome("conflict", tuple(replace(hunk, status="conflict") for hunk in hunks))
    return Outcome(status, hunks, dict(sorted(files.items())), dict(sorted(modes.items())))


class _Port:
    def __init__(self, tree: SourceTree, blobs: Blobs, renames: dict[str, str]) -> None:
        self.tree = tree
        self.blobs = blobs
        self.renames = renames
        self.paths = tree.blobs()
        self.named: set[str] = set()  # by any change of the patch: none of these is where another file went
        self.finder = finder_of(tree)

    def change(self, change: FileChange) -> FilePort:
        """Carry one file's change."""
        if _LINK in (change.old_mode, change.new_mode):
            return _whole(change, "conflict", "", _NO_LINKS)
        if change.old_path is None:
            return self._new(change)
        path = self._find(change)
        if change.copied:
            return self._copied(change, path)
        if path is None:
            if change.new_path is None:
                return _whole(change, "upstream", "no such file", "the file it deletes is not there")
            if change.new_path != change.old_path and change.new_path in self.paths:
                path = change.new_path
            else:
                return self._split_up(change, None)
        ours = self.tree.read(path)
        base = self._base(change, ours)
        if change.new_path is None:
            return self._deleted(change, path, ours, base)
        if change.binary is not None or change.delta is not None:
            done = self._binary(change, path, ours, base)
        else:
            done = self._text(change, path, ours, base)
        self._placed(change, path, done, ours)
        if path not in (change.old_path, change.new_path):
            done.hunks = [_moved(hunk, path) for hunk in done.hunks]
        return done

    def _copied(self, change: FileChange, path: str | None) -> FilePort:
        """A copy: the file it is made from stays as it is."""
        if path is None:
            return _whole(change, "conflict", "", f"{change.old_path} is not in the tree")
        target = change.path
        ours = self.tree.read(path)
        base = self._base(change, ours)
        done = self._text(change, path, ours, base) if change.hunks else _whole(change, "clean", "same file")
        if change.binary is not None or change.delta is not None:
            done, after = _whole(change, "clean", "whole content"), _binary_result(change, ours, base)
            if after is None:
                return _whole(change, "conflict", "", f"{path} is binary and was changed since")
            data = after
        else:
            data = done.files.get(path) or ours
        if any(hunk.status == "conflict" for hunk in done.hunks):
            return done
        if target in self.paths:
            if self.tree.read(target) == data:
                return _whole(change, "upstream", "same file")
            return self._in_the_way(change, target)
        done.files = {target: data}
        if change.new_mode == "100755":
            done.modes[target] = change.new_mode
        # What the source has already is new in the copy.
        done.hunks = [replace(h, status="clean") if h.status == "upstream" else h for h in done.hunks]
        return done

    def _in_the_way(self, change: FileChange, path: str) -> FilePort:
        return _whole(change, "conflict", "", f"{path} is there already, and is another file")

    def _find(self, change: FileChange) -> str | None:
        """The file of the tree that the change is for: of that name, known to have moved, or found."""
        path = change.old_path or ""
        if path in self.paths and not (path.endswith(".py") and self._is_shim(change, path)):
            return path
        moved = self.renames.get(path)
        if moved in self.paths:
            return moved
        base = self.blobs(change.old_blob) if change.old_blob.strip("0") else None
        found = self.finder.file(path, base, blob=change.old_blob) if base is not None else None
        if found in self.named:
            found = None
        return found or (path if path in self.paths else None)

    def _is_shim(self, change: FileChange, path: str) -> bool:
        """Whether the file that the patch names only hands on what has moved elsewhere."""
        if self.paths[path] == change.old_blob:
            return False
        ours = self.tree.read(path)
        base = self.blobs(change.old_blob) if change.old_blob.strip("0") else None
        return base is not None and len(ours) * 2 < len(base) and is_shim(ours) and not is_shim(base)

    def _split_up(self, change: FileChange, path: str | None) -> FilePort:
        """Carry a change whose functions and classes are in other files now; ``path`` what is left of it."""
        gone = f"{change.old_path} is not in the tree"
        base = self.blobs(change.old_blob) if change.old_blob.strip("0") else None
        if base is None or not (change.old_path or "").endswith((".py", ".pyi")) or change.new_path is None:
            return _whole(change, "conflict", "", gone)
        applied = apply_hunks(split_lines(base), change.hunks)
        if applied is None:
            return _whole(change, "conflict", "", "the patch does not fit the file it names as its base")
        ours = self.tree.read(path) if path is not None and not self._is_shim(change, path) else None
        try:
            moved = MovedPort(base, applied, ours, path or change.old_path or "", self.finder).run()
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            return _whole(change, "conflict", "", gone)
        if moved.conflict or not moved.parts:
            return _whole(change, "conflict", "", moved.conflict or gone)
        done = FilePort(files=dict(moved.files))
        for number in range(len(change.hunks)):
            edits = [e for e, owner in zip(applied.edits, applied.owner) if owner == number]
            parts = [p for p in moved.parts if any(p.change.touches(e) for e in edits)]
            done.hunks.append(_of_parts(change, number, parts))
        return done

    def _base(self, change: FileChange, ours: bytes) -> bytes | None:
        """The file the patch was made for, if it is known: by its id, or because ours is it."""
        if change.old_blob.strip("0"):
            if blob_id(ours).startswith(change.old_blob):
                return ours
            return self.blobs(change.old_blob)
        return None

    def _new(self, change: FileChange) -> FilePort:
        path = change.path
        data = (
            change.binary if change.binary is not None else b"".join(t for h in change.hunks for t in h.new())
        )
        if path not in self.paths:
            done = _whole(change, "clean", "new file")
            done.files[path] = data
            if change.new_mode == "100755":
                done.modes[path] = change.new_mode
            return done
        ours = self.tree.read(path)
        if ours == data:
            return _whole(change, "upstream", "same file")
        return self._in_the_way(change, path)

    def _deleted(self, change: FileChange, path: str, ours: bytes, base: bytes | None) -> FilePort:
        old = b"".join(text for hunk in change.hunks for text in hunk.old())
        if ours in (base, old, change.binary_old):
            done = _whole(change, "clean", "preimage identical")
            done.files[path] = None
            return done
        return _whole(change, "conflict", "", f"{path} was changed since, and the patch deletes it")

    def _binary(self, change: FileChange, path: str, ours: bytes, base: bytes | None) -> FilePort:
        after = _binary_result(change, ours, base)
        if after is not None and ours == after:
            return _whole(change, "upstream", "same file")
        if after is not None and (ours == base or ours == change.binary_old):
            done = _whole(change, "clean", "preimage identical")
            done.files[path] = after
            return done
        return _whole(change, "conflict", "", f"{path} is binary and was changed since")

    def _text(self, change: FileChange, path: str, ours: bytes, base: bytes | None) -> FilePort:
        if not change.hunks:  # a rename or a mode, nothing else
            done = _whole(change, "clean", "no lines change")
            done.files[path] = ours
            return done
        our_lines = split_lines(ours)
        if base is None:
            return self._unknown_base(change, path, our_lines)
        applied = apply_hunks(split_lines(base), change.hunks)
        if applied is None:
            return _whole(change, "conflict", "", "the patch does not fit the file it names as its base")
        theirs = b"".join(applied.lines)
        if ours == base:
            done = FilePort(files={path: theirs})
            done.hunks = [
                self._result(change, n, "clean", "preimage identical") for n in range(len(change.hunks))
            ]
            return done
        if ours == theirs:
            return FilePort(
                [self._result(change, n, "upstream", "same file") for n in range(len(change.hunks))]
            )
        merged = _merge(base, change.hunks, ours, path)
        if any(piece.homeless is not None for piece in merged.conflicts):
            moved = self._split_up(change, path)
            if not any(hunk.status == "conflict" for hunk in moved.hunks):
                return moved
        return self._merged(change, path, merged, ours)

    def _unknown_base(self, change: FileChange, path: str, our_lines: list[bytes]) -> FilePort:
        lines, told = carry_plain(our_lines, change.hunks)
        done = FilePort()
        for number, hunk in enumerate(told):
            done.hunks.append(
                HunkResult(change.path, number, hunk.status, hunk.proof, line=hunk.line, note=hunk.note)
            )
        words = {hunk.status for hunk in told}
        if "conflict" not in words and words != {"upstream"}:
            done.files[path] = b"".join(lines)
        return done

    def _merged(self, change: FileChange, path: str, merged: FileMerge, ours: bytes) -> FilePort:
        done = FilePort()
        for number in range(len(change.hunks)):
            pieces = [piece for piece in merged.pieces if piece.hunk == number]
            done.hunks.append(self._of_pieces(change, number, pieces))
        if not merged.conflicts and merged.data != ours:
            done.files[path] = merged.data
        return done

    def _of_pieces(self, change: FileChange, number: int, pieces: list[Piece]) -> HunkResult:
        if not pieces:
            return self._result(change, number, "upstream", "no statement in it")
        worst = max(pieces, key=lambda piece: _RANK[piece.status])
        status: Any = worst.status
        if status == "clean" and any(piece.status == "upstream" for piece in pieces):
            status = "partly"
        return HunkResult(
            change.path,
            number,
            status,
            worst.proof,
            symbol=worst.symbol,
            note=worst.note,
        )

    def _result(self, change: FileChange, number: int, status: Status, proof: str) -> HunkResult:
        return HunkResult(change.path, number, status, proof)

    def _placed(self, change: FileChange, path: str, done: FilePort, ours: bytes) -> None:
        """Carry a rename of the patch, and its mode."""
        if any(hunk.status == "conflict" for hunk in done.hunks):
            return
        target = change.new_path or path
        if target != path and path == change.old_path and target in self.paths:
            there = self._in_the_way(change, target)  # and what it would take the place of is still here
            done.hunks, done.files = there.hunks, {}
            return
        if change.new_path != change.old_path and path == change.old_path:
            done.files[target] = done.files.pop(path, ours)
            done.files[path] = None
            _also(change, done, _RENAME)
        elif change.new_path == change.old_path or path == target:
            target = path
            if done.files.get(path) == ours:
                del done.files[path]
                if not change.new_mode or change.new_mode == change.old_mode:
                    done.hunks = [
                        HunkResult(h.path, h.index, "upstream", h.proof) if h.index == -1 else h
                        for h in done.hunks
                    ]
        if change.new_mode and change.new_mode != change.old_mode and change.old_mode:
            done.files.setdefault(target, ours)
            done.modes[target] = change.new_mode
            _also(change, done, _MODE)


def _also(change: FileChange, done: FilePort, proof: str) -> None:
    """Say of a change whose lines are all there that something else of it is still to be done."""
    if all(hunk.status == "upstream" for hunk in done.hunks):
        done.hunks.append(HunkResult(change.path, -1, "clean", proof))


@lru_cache(maxsize=96)
def _merge(base: bytes, hunks: tuple[Hunk, ...], ours: bytes, path: str) -> FileMerge:
    """The merge of one file, kept: the same versions of it meet again on the next tree."""
    applied = apply_hunks(split_lines(base), hunks)
    assert applied is not None
    return merge_file(base, applied, ours, path=path)


def _of_parts(change: FileChange, number: int, parts: list[MovedPart]) -> HunkResult:
    """What became of a hunk whose parts went to other files."""
    guess = next((p.settled.guess for p in parts if p.settled.guess), "")
    there = bool(parts) and all(p.settled.already for p in parts)
    to_path = next((p.path for p in parts if p.path), "")
    status: Status = "upstream" if there else "look" if guess else "moved" if to_path else "clean"
    symbol = next((p.settled.symbol for p in parts if p.settled.symbol), "")
    return HunkResult(
        change.path, number, status, "same symbol elsewhere", to_path=to_path, symbol=symbol, note=guess
    )


def _moved(hunk: HunkResult, path: str) -> HunkResult:
    """The same result, said of the file that it went to."""
    status: Status = "moved" if hunk.status == "clean" else hunk.status
    return replace(hunk, status=status, to_path=path)


def _binary_result(change: FileChange, ours: bytes, base: bytes | None) -> bytes | None:
    """The content that a binary change leads to, None where the file it was made from is not known."""
    if change.new_blob and change.new_blob == blob_id(ours):
        return ours
    try:
        return binary_after(change, base)
    except UserError:  # a difference, made from another file
        return None


def _whole(change: FileChange, status: Status, proof: str, note: str = "") -> FilePort:
    return FilePort([HunkResult(change.path, -1, status, proof, note=note)])
