"""``patches import``: what people carry becomes a patchset."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from auditor.cli.command import VerbCommand
from auditor.cli.output import echo
from auditor.cli.patches.base import FOLDER, base_options, layout_of
from auditor.cli.request import DEFAULT_PROJECT
from auditor.errors import EXIT_FINDINGS, EXIT_OK, UserError

if TYPE_CHECKING:
    from auditor.patching.incoming.patches import Imported, Incoming
    from auditor.profile import Profile


@click.command(
    "import",
    cls=VerbCommand,
    example=(
        "patches import docker/patches/*.patch --into mine --base 0.5.16",
        "patches import Dockerfile --into mine --exclude test/",
        "patches import overlay/ --into mine --base v0.5.16 --clone ../sglang",
    ),
)
@click.argument("inputs", nargs=-1, required=True, type=click.Path(path_type=Path), metavar="INPUT...")
@click.option("--into", "name", metavar="NAME", help="The patchset to write; default: the name of the input.")
@click.option("--append", is_flag=True, help="Add to the end of a patchset that is there.")
@click.option("--title", metavar="TEXT", help="What the patchset is, in one line.")
@click.option("--versions", metavar="SPEC", default="", help='Versions it is for: ">=0.5.12,<0.6".')
@click.option("--strip", type=click.IntRange(0, 20), metavar="N", help="Leading folders to take off names.")
@click.option("--exclude", multiple=True, metavar="GLOB", help="Files not wanted: 'test/*', 'test_*.py'.")
@click.option(
    "--allow",
    multiple=True,
    type=click.Choice(("modes", "symlinks", "markers")),
    help="Take patches that do this; written into the policy.",
)
@click.option(
    "--find-base",
    is_flag=True,
    help="For a folder of whole files: look for the commit that they were taken from.",
)
@click.option("--dry-run", is_flag=True, help="Say what would be taken; write nothing.")
@click.option("--format", "form", type=click.Choice(("terminal", "json")), default="terminal")
@click.option("--project", default=DEFAULT_PROJECT, hidden=True)
@click.option("--upstream", metavar="NAME", help="With --append: which upstream they change.")
@FOLDER
@base_options("--base")
def import_(
    inputs: tuple[Path, ...],
    name: str | None,
    append: bool,
    title: str | None,
    versions: str,
    strip: int | None,
    exclude: tuple[str, ...],
    allow: tuple[str, ...],
    find_base: bool,
    dry_run: bool,
    form: str,
    project: str,
    upstream: str | None,
    folder: str | None,
    base: str | None,
    clone: str | None,
) -> int:
    """How do I turn my diffs, overlays or scripts into patches? Nothing of them is run.

    INPUT is a diff, a mail or mailbox, a series file, a Dockerfile, a JSON list, a folder of numbered patches
    or of whole files, or a script that replaces text. --base names the tree that they were made on: with it
    names are found in the tree, line ends are fitted, and each patch says whether it fits.
    Exit 1 if something was left out that was not excluded.
    """
    from auditor.cli.output import write_bytes
    from auditor.cli.patches.target import base_tree, profile_of
    from auditor.patching.incoming.patches import Options
    from auditor.patching.incoming.read import read_inputs
    from auditor.patching.incoming.write import write_imported
    from auditor.patching.sets.patchset import find_patchset

    chosen = name or _name_of(inputs[0])
    if append:
        target = find_patchset(chosen, Path(folder) if folder else None)
    else:
        target = Path(folder or "patchsets") / chosen
    profile = _profile(target, upstream, append) if upstream is not None else profile_of(project)
    options = Options(strip, exclude, allow, layout_of(profile))
    if find_base:
        base = _found_base(inputs, base, clone, profile)
    tree = base_tree(base, clone, profile) if base is not None else None
    taken = read_inputs(inputs, tree, options)
    label = tree.info().label if tree else ""
    if upstream is not None:
        taken.patches = [_marked(each, upstream) for each in taken.patches]
    if not dry_run:
        names = write_imported(
            target,
            taken.patches,
            title=title or f"Patches imported as {chosen}",
            upstreams={project: (profile.url or "", versions)},
            allow=sorted(set(allow)),
            append=append,
        )
        renamed = dict(zip((patch.name for patch in taken.patches), names))
    else:
        renamed = {}
    if form == "json":
        write_bytes(_as_json(taken, renamed, target.name, label, dry_run), None)
        return EXIT_OK if taken.complete else EXIT_FINDINGS
    _report(taken, renamed, label)
    count = len(taken.patches)
    echo(f"{count} patch{'' if count == 1 else 'es'} {'would be ' if dry_run else ''}written to {target}")
    if not dry_run:
        option = f" --folder {folder}" if folder else ""
        if any(row.fits is not None and row.fits < len(row.paths) for row in taken.rows):
            echo(f"next: patches status {chosen} --onto {base} says what becomes of the others", err=True)
        echo(f"next: say why each is carried, then patches lint {chosen}{option}", err=True)
        echo(
            f"      patches status {chosen} --onto VERSION{option} says what becomes of them there", err=True
        )
    return EXIT_OK if taken.complete else EXIT_FINDINGS


def _profile(target: Path, upstream: str, append: bool) -> Profile:
    """The profile of a row of a patchset that is there. ``UserError`` U005 where none can be meant."""
    from auditor.cli.patches.target import profile_of
    from auditor.patching.sets.patchset import load_outline
    from auditor.patching.sets.upstreams import upstream_profile

    if not append:
        raise UserError(
            "U005",
            "--upstream names a row of a patchset that is there",
            hints=[f"--append --upstream {upstream}        # after `patches new {target.name}` and the row"],
        )
    return upstream_profile(load_outline(target), upstream, profile_of)


def _marked(patch: Incoming, upstream: str) -> Incoming:
    """The patch with the upstream it changes in its head."""
    kept = [(name, value) for name, value in patch.changes.headers if name.lower() != "x-project"]
    return replace(patch, changes=replace(patch.changes, headers=(*kept, ("X-Project", upstream))))


def _found_base(inputs: tuple[Path, ...], tip: str | None, clone: str | None, profile: Profile) -> str:
    """The commit that the one folder was taken from; ``--base`` says where the search begins."""
    from auditor.cli.patches.target import clones
    from auditor.patching.incoming.base import find_base

    repos = clones(clone, profile)
    if len(inputs) != 1 or not repos:
        fact = "a base is looked for in a clone of the upstream, for one folder of whole files"
        raise UserError("U001", fact, hints=["--find-base --clone PATH"])
    found = find_base(inputs[0], repos[0], layout_of(profile), tip or "HEAD")
    others = "" if found.others is None else f"; at the next best {found.others:,}"
    echo(f"base {found.commit[:12]}: {found.lines:,} lines differ from it{others}", err=True)
    return found.commit


def _name_of(first: Path) -> str:
    from auditor.patching.incoming.patches import patch_name
    from auditor.patching.sets.patchset import check_name

    stem = (
        first.resolve().parent.name
        if first.is_file() and first.suffix not in (".patch", ".diff")
        else first.name
    )
    found = patch_name(stem, "")
    if not check_name(found):
        raise UserError("P026", "no name for the patchset", place=str(first), hints=["--into NAME"])
    return found


def _as_json(taken: Imported, renamed: dict[str, str], patchset: str, base: str, dry_run: bool) -> bytes:
    from dataclasses import asdict

    from auditor.cli.patches.page import envelope

    rows = [{**asdict(row), "patch": renamed.get(row.patch, row.patch)} for row in taken.rows]
    data = {"patchset": patchset, "base": base, "written": not dry_run, "complete": taken.complete}
    return envelope("import", **data, inputs=rows)


def _report(taken: Imported, renamed: dict[str, str], base: str) -> None:
    """One line for each patch, and under it what was not taken as it stood."""
    width = max((len(renamed.get(row.patch, row.patch)) for row in taken.rows if row.patch), default=0)
    for row in taken.rows:
        if row.patch:
            files = len(row.paths)
            words = (
                f"{files} file{'' if files == 1 else 's'}, {row.hunks} hunk{'' if row.hunks == 1 else 's'}"
            )
            if row.fits is not None:
                words += (
                    f"; fits {base}" if row.fits == files else f"; {row.fits} of {files} files fit {base}"
                )
            echo(f"+ {renamed.get(row.patch, row.patch):<{width}}  {row.source}: {words}")
        elif row.notes or row.excluded:
            echo(f". {row.source}: nothing of it taken")
        for path in row.excluded:
            echo(f"    excluded  {path}")
        for text in row.notes:
            echo(f"    note      {text}")
        for text in row.left_out:
            echo(f"! left out  {text if text.startswith(row.source) else f'{row.source}: {text}'}")
