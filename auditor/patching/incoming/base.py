"""Which commit whole files were copied from: the one whose versions of them differ in the fewest lines.

A folder of whole files undoes every upstream change made since its base. Against the right base only the
person's own lines are left.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from auditor.errors import UserError
from auditor.patching.diffs.lines import split_lines
from auditor.patching.incoming.names import Layout
from auditor.patching.incoming.overlay import Placing
from auditor.patching.incoming.read import folder_files, kind_of_folder
from auditor.trees.commit import CommitTree
from auditor.trees.git import GitRepo

#: Versions of one file that are looked at, newest first.
_MOST = 1_500


@dataclass(frozen=True)
class Nearest:
    """The commit, how many lines of all files differ from it, and how many from the next best state."""

    commit: str
    lines: int
    others: int | None  # the next best; None where there is only one state


def find_base(folder: Path, repo: GitRepo, layout: Layout, tip: str = "HEAD") -> Nearest:
    """The commit that a folder of whole files was taken from. UserError P031, P032, U001 (no such folder)."""
    if not folder.is_dir() or kind_of_folder(folder)[0] != "files":
        raise UserError("U001", "only for a folder of whole files a base is looked for", hints=["--base REV"])
    files = folder_files(folder)
    paths = set(CommitTree(repo, tip).blobs())
    place = Placing(list(files), paths, layout, folder.name)
    return nearest_base({place(name): data for name, data in files.items()}, repo, tip)


def nearest_base(files: Mapping[str, bytes], repo: GitRepo, tip: str = "HEAD") -> Nearest:
    """The newest state of ``files`` (path in the repository -> content) that is nearest, up to ``tip``.

    Files that the history never had are new and say nothing. UserError P032 where it had none of them, T002
    for an unknown revision.
    """
    head = repo.commit(tip).oid
    history: dict[str, dict[str, str]] = {}  # path -> commit -> blob after it, newest first
    for path in files:
        history[path] = _versions(repo, head, path)
    known = [path for path in files if history[path]]
    if not known:
        raise UserError("P032", "the clone's history has none of the files", hints=["--base REV"])
    distances: dict[tuple[str, str], int] = {}
    for path in known:
        wanted = Counter(split_lines(files[path]))
        blobs = list(dict.fromkeys(blob for blob in history[path].values() if blob))
        for blob, data in zip(blobs, repo.read_objects(blobs)):
            have = Counter(split_lines(data))
            distances[path, blob] = (wanted - have).total() + (have - wanted).total()
    order = _order(repo, head, {commit for path in known for commit in history[path]})
    now = {path: next(iter(history[path].values())) for path in known}
    states: list[tuple[int, str]] = []
    # From the newest commit down: before a commit that changed a file, the file was as the older one left it.
    older = {path: list(history[path].items()) for path in known}
    for commit in order:
        if all(now.values()):
            states.append((sum(distances[path, now[path]] for path in known), commit))
        for path in known:
            if commit in history[path]:
                rest = [blob for name, blob in older[path][[n for n, _ in older[path]].index(commit) + 1 :]]
                now[path] = rest[0] if rest else ""
    if not states:
        raise UserError("P032", "no commit of the clone has all of the files", hints=["--base REV"])
    best = min(lines for lines, _ in states)
    others = [lines for lines, _ in states if lines != best]
    commit = next(commit for lines, commit in states if lines == best)
    return Nearest(commit, best, min(others) if others else None)


def _versions(repo: GitRepo, head: str, path: str) -> dict[str, str]:
    """Commit -> blob id that it left the file with ("" where it removed it), newest first."""
    words = (
        "log",
        f"-{_MOST}",
        "--first-parent",
        "-m",
        "--raw",
        "--no-abbrev",
        "--no-renames",
        "--format=@%H",
    )
    out: dict[str, str] = {}
    commit = ""
    for line in (
        repo.output(*words, head, "--", f":(literal,top){path}").decode("utf-8", "replace").split("\n")
    ):
        if line.startswith("@"):
            commit = line[1:]
        elif line.startswith(":") and commit:
            new = line.split(" ")[3]
            out.setdefault(commit, "" if set(new) == {"0"} else new)
    return out


def _order(repo: GitRepo, head: str, commits: set[str]) -> list[str]:
    """The commits as they follow each other in the first-parent history, newest first."""
    listed = repo.output("rev-list", "--first-parent", head).decode().split()
    return [commit for commit in listed if commit in commits]
