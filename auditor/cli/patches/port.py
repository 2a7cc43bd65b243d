"""``patches port``: one diff carried to one tree, in place, whole or not at all."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from auditor.cli.command import Option, VerbCommand
from auditor.cli.output import echo
from auditor.errors import EXIT_CONFLICT, EXIT_OK, UserError

if TYPE_CHECKING:
    from auditor.patching.model import HunkResult, Outcome
    from auditor.trees.base import SourceTree
    from auditor.trees.git import GitRepo

#: Beside the common exit codes: the tree has it already; carried, but a person should look.
EXIT_UPSTREAM = 10
EXIT_LOOK = 11
_MOST = 100 << 20


@click.command(
    cls=VerbCommand,
    example=(
        "patches port --patch my.patch --root ../sglang",
        "patches port --patch my.patch --root ../sglang --base v0.5.16 --tip HEAD --dry-run",
    ),
)
@click.option(
    "--patch",
    "patch",
    required=True,
    cls=Option,
    metavar="FILE",
    help="The diff, with full blob ids where it can; - for standard input",
)
@click.option(
    "--root",
    required=True,
    cls=Option,
    metavar="DIR",
    help="The tree to change: a work tree, or a folder without git",
)
@click.option("--base", cls=Option, metavar="REV", help="The commit that the patch was made on")
@click.option("--tip", cls=Option, metavar="REV", help="The commit that the tree stands at")
@click.option("--project", default="sglang", show_default=True, cls=Option, help="The project's profile")
@click.option("--dry-run", is_flag=True, cls=Option, help="Say what would be done; change nothing")
@click.option("-q", "--quiet", is_flag=True, cls=Option, help="Say nothing but errors")
def port(
    patch: str, root: str, base: str | None, tip: str | None, project: str, dry_run: bool, quiet: bool
) -> int:
    """Does this diff fit that tree, and where? Carry it there.

    Exit codes: 0 done, 3 not done and the tree untouched, 10 nothing to do because the tree has it, 11 done
    but a person should look.
    """
    from auditor.patching.diffs.parse import OPT_IN, parse_patch
    from auditor.patching.model import Outcome
    from auditor.patching.planning.blocked import blocked
    from auditor.patching.planning.filemodes import with_modes
    from auditor.patching.port.carry import port as carry
    from auditor.trees.modes import is_executable

    changes = parse_patch(_read(patch), os.path.basename(patch), allow=OPT_IN)
    tree, repo = _open(root)
    left: list[str] = []
    if repo is None:  # an unpacked wheel spells paths in its own way, and has no tests
        from auditor.patching.mapping import PathMap
        from auditor.profile import load_profile

        changes, _, left = PathMap(load_profile(project), tree.blobs()).change_set(changes)
    history = None
    if base is not None and repo is not None:
        from auditor.patching.port.history import History

        history = History(repo, base, tip or "HEAD")
    outcome = carry(changes, tree, blobs=_blobs(repo), history=history)
    outcome = with_modes(changes, outcome, tree, lambda path: is_executable(tree, path))
    outcome = blocked(outcome, tree.blobs())
    if left and not changes.changes:
        outcome = Outcome("conflict", note="none of its files is part of this tree")
    if outcome.files and not dry_run:
        from auditor.patching.write.inplace import write_in_place

        write_in_place(
            Path(root), repo, outcome.files, outcome.modes, tree.blobs(), what=os.path.basename(patch)
        )
    if not quiet:
        echo(_text(outcome, dry_run), nl=False)
        for path in left:
            echo(f"  . {path}: not part of this tree, left out")
    if outcome.status == "conflict":
        return EXIT_CONFLICT
    return {"upstream": EXIT_UPSTREAM, "look": EXIT_LOOK}.get(outcome.status, EXIT_OK)


def _read(path: str) -> bytes:
    try:
        if path == "-":
            data = sys.stdin.buffer.read(_MOST + 1)
        else:
            with open(path, "rb") as file:
                data = file.read(_MOST + 1)
        if len(data) > _MOST:
            from auditor.patching.diffs.scan import SPLIT

            raise UserError("P003", "the patch is larger than 100 MB", place=path, hints=[SPLIT])
        return data
    except OSError as error:
        raise UserError(
            "P001", f"cannot read the patch: {(error.strerror or str(error)).lower()}", place=path
        ) from None


def _open(root: str) -> tuple[SourceTree, GitRepo | None]:
    from auditor.trees.folder import FolderTree
    from auditor.trees.git import GitRepo
    from auditor.trees.worktree import WorktreeTree

    folder = Path(root)
    if not folder.is_dir():
        raise UserError("T001", "no such folder", place=root, hints=["check --root"])
    repo = GitRepo.at(folder)
    if repo is not None and repo.work_tree is not None:
        return WorktreeTree(repo), repo
    return FolderTree(folder), None


def _blobs(repo: GitRepo | None):  # type: ignore[no-untyped-def]
    known: dict[str, bytes | None] = {}

    def blob(oid: str) -> bytes | None:
        if repo is None:
            return None
        if oid not in known:
            done = repo.run("cat-file", "blob", oid)
            known[oid] = done.stdout if done.returncode == 0 else None
        return known[oid]

    return blob


def _text(outcome: Outcome, dry_run: bool) -> str:
    from auditor.patching.model import GLYPHS

    lines = [f"{GLYPHS[outcome.status]} {_HEADLINE[outcome.status]}"]
    if dry_run and outcome.files:
        lines[0] += " (dry run: nothing was written)"
    lines += [f"  {outcome.note}"] if outcome.note else []
    lines += [_line(hunk) for hunk in outcome.hunks]
    return "\n".join(lines) + "\n"


_HEADLINE = {
    "clean": "carried",
    "moved": "carried, to another place than it was made for",
    "partly": "carried; some of it was there already",
    "upstream": "nothing to do: the tree has it",
    "look": "carried; a person should look at the marked hunks",
    "conflict": "not carried; nothing was changed",
}


def _line(hunk: HunkResult) -> str:
    from auditor.patching.model import GLYPHS

    where = hunk.path if hunk.index < 0 else f"{hunk.path} hunk {hunk.index + 1}"
    told = [f"in {hunk.symbol}"] if hunk.symbol else []
    told += [f"now {hunk.to_path}"] if hunk.to_path else []
    told += [hunk.proof] if hunk.proof else []
    told += [hunk.note] if hunk.note else []
    return f"  {GLYPHS[hunk.status]} {where}: {'; '.join(told)}"
