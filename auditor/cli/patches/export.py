"""``patches export``: a patchset in the forms that other tools take."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from auditor.cli.command import VerbCommand
from auditor.cli.output import echo
from auditor.cli.patches.base import FOLDER, base_options, layout_of
from auditor.cli.words import PatchsetType
from auditor.errors import EXIT_FINDINGS, EXIT_OK, UserError

if TYPE_CHECKING:
    from auditor.patching.export.forms import Piece
    from auditor.patching.model import FileChange
    from auditor.patching.sets.patchset import Patchset
    from auditor.profile import Profile


@click.command(
    "export",
    cls=VerbCommand,
    example=(
        "patches export mine --format-patch > mine.mbox",
        "patches export mine --quilt --output debian/patches",
        "patches export mine --dockerfile --into /opt/src --onto 0.5.16 --output docker/mine",
        "patches export mine --plugin --onto 0.5.14,0.5.16 --output plugin",
    ),
)
@click.argument("patchset", type=PatchsetType())
@click.option("--format-patch", "form", flag_value="mail", default="mail", help="Mails for git am (default).")
@click.option("--quilt", "form", flag_value="quilt", help="A folder with series and DEP-3 heads.")
@click.option("--squash", "form", flag_value="squash", help="One diff of all patches.")
@click.option(
    "--dockerfile", "form", flag_value="dockerfile", help="Files with hashes, and a stanza for a Dockerfile."
)
@click.option("--plugin", "form", flag_value="plugin", help="A package that replaces functions at the start.")
@click.option("--partial", is_flag=True, help="With --plugin: leave out what is no function.")
@click.option("--output", metavar="PATH", help="A file, or a folder for the forms of several files.")
@click.option("--overwrite", is_flag=True, help="Replace a folder that an export wrote.")
@click.option("--check", is_flag=True, help="Write nothing; exit 1 if the output is another.")
@click.option("--into", "target", metavar="DIR", help="The tree in the image, for --dockerfile.")
@click.option("--installed-layout", is_flag=True, help="Paths as in site-packages.")
@click.option("--upstream", metavar="NAME", help="Which upstream's patches, where the patchset has several.")
@FOLDER
@base_options("--onto")
def export(
    patchset: str,
    form: str,
    partial: bool,
    output: str | None,
    overwrite: bool,
    check: bool,
    target: str | None,
    installed_layout: bool,
    upstream: str | None,
    folder: str | None,
    base: str | None,
    clone: str | None,
) -> int:
    """How do I hand my patches to git am, quilt, or a Dockerfile? The same patchset gives the same bytes.

    --plugin writes a package that needs no patched tree: it replaces functions through the project's own
    hooks on the GPUs that the patches name, and ends the process where one is not in force. Releases are
    separated by commas. A patch that does more than change functions is listed (exit 1); --partial leaves it
    out.

    With --onto each patch is what it comes to on that tree: moved hunks at their new place, structural edits
    and references as diffs, nothing for what is upstream already. A patch that conflicts is no export
    (exit 3).
    """
    from auditor.cli.patches.target import load, profile_of
    from auditor.cli.patches.upstreams import elsewhere
    from auditor.patching.sets.upstreams import upstream_profile

    found = load(patchset, folder)
    name, base = _one_upstream(found, base, upstream)
    profile = upstream_profile(found, name, profile_of)
    others = elsewhere(found, [name])
    found = replace(found, patches=tuple(p for p in found.patches if found.project_of(p) == name))
    if form == "plugin":
        from auditor.cli.patches.plugin import write_plugin

        return write_plugin(found, profile, partial, output, overwrite, check, base, clone)
    layout = layout_of(profile)
    content = _as_it_is(found, form) if base is None else _on_base(found, profile, form, base, clone, others)
    if not content.pieces:
        raise UserError("P035", f"{found.name} has nothing to export", hints=[f"patches show {found.typed}"])
    if installed_layout:
        content = _within_package(content, found.name, layout.roots)
    data, files = _written_as(form, found, content, target, output)
    stanza = form == "dockerfile"
    return _put(data, files, found.name, output, overwrite=overwrite, check=check, stanza=stanza)


@dataclass(frozen=True)
class _Content:
    """What is exported. ``changes``: all patches as one; ``results``: the files afterwards, on a base."""

    pieces: list[Piece]
    changes: tuple[FileChange, ...] = ()
    results: dict[str, bytes | None] | None = None


def _as_it_is(patchset: Patchset, form: str) -> _Content:
    from auditor.patching.export import forms

    pieces = forms.pieces_of(patchset)
    return _Content(pieces, forms.squashed(pieces, patchset.name) if form == "squash" else ())


def _on_base(
    patchset: Patchset, profile: Profile, form: str, base: str, clone: str | None, others: list[str]
) -> _Content:
    from auditor.cli.patches.target import base_tree, sources_for
    from auditor.patching.export import forms
    from auditor.patching.export.plan import on_tree

    tree = base_tree(base, clone, profile)
    exported = on_tree(patchset, tree, profile, layout_of(profile), sources_for(tree, clone, profile), others)
    for text in exported.notes:
        echo(f"note: {text}", err=True)
    pieces = list(exported.pieces)
    whole = form == "squash"
    changes = forms.squashed_between(exported.base, exported.result, pieces) if whole else ()
    return _Content(pieces, changes, exported.contents())


def _within_package(content: _Content, name: str, roots: tuple[str, ...]) -> _Content:
    """The same under the paths of an installed copy."""
    from auditor.patching.export import forms

    pieces = forms.installed_layout(content.pieces, roots)
    whole = forms.Piece(name, pieces[0].header, forms.ChangeSet(content.changes))
    changes = forms.installed_layout([whole], roots)[0].changes.changes if content.changes else ()
    results = _below(content.results, roots) if content.results is not None else None
    return _Content(pieces, changes, results)


def _written_as(
    form: str, patchset: Patchset, content: _Content, target: str | None, output: str | None
) -> tuple[bytes, dict[str, bytes] | None]:
    """The export as one file, and as several by name where the form has them."""
    from auditor.patching.export import forms

    if form == "mail":
        return forms.mailbox(content.pieces), forms.mails(content.pieces)
    if form == "quilt":
        if output is None:
            hint = f"patches export {patchset.typed} --quilt --output DIR"
            raise UserError("U001", "a quilt folder needs a place", hints=[hint])
        return b"", forms.quilt(content.pieces)
    if form == "squash":
        return forms.write_diff(content.changes), None
    if target is None:
        hint = f"patches export {patchset.typed} --dockerfile --into DIR"
        raise UserError("U001", "--into says where the tree lies in the image", hints=[hint])
    if not forms.plain_name(target) or (output and not forms.plain_name(output)):
        raise UserError(
            "P035",
            "a path of a Dockerfile stanza holds letters, digits, `.`, `_`, `-` and `/`",
            place=target,
        )
    source = output or f"patches/{patchset.name}"
    data, files = forms.dockerfile(
        content.pieces, patchset.name, source=source, target=target, results=content.results
    )
    if output:
        files["Dockerfile.patches"] = data
    return data, files


def _put(
    data: bytes,
    files: dict[str, bytes] | None,
    name: str,
    output: str | None,
    *,
    overwrite: bool,
    check: bool,
    stanza: bool,
) -> int:
    """Write the export where it is wanted, or say whether it is there already."""
    from auditor.cli.output import write_bytes
    from auditor.patching.export.write import matches_folder, write_export

    if output is None or files is None:
        if check:
            same = output is not None and Path(output).is_file() and Path(output).read_bytes() == data
            return checked(same, [output or "-"], name)
        write_bytes(data, output)
        if stanza:
            echo("next: the same command with --output DIR writes the files it copies", err=True)
        return EXIT_OK
    if check:
        stale = matches_folder(Path(output), files)
        return checked(not stale, stale, name)
    write_export(Path(output), files, overwrite=overwrite)
    for path in sorted(files):
        echo(f"{output.rstrip('/')}/{path}")
    return EXIT_OK


def _one_upstream(patchset: Patchset, base: str | None, upstream: str | None) -> tuple[str, str | None]:
    """Whose patches are exported, and the base: one output is for one upstream. ``UserError`` P035."""
    from auditor.cli.patches.upstreams import named
    from auditor.patching.sets.upstreams import upstreams_of

    name, rev = named(base, list(patchset.file.upstreams)) if base is not None else ("", None)
    if name and upstream and name != upstream:
        raise UserError("U005", f"--onto says {name}, --upstream {upstream}", hints=[f"--upstream {name}"])
    names = upstreams_of(patchset)
    chosen = name or upstream or (names[0] if len(names) == 1 else "")
    if not chosen:
        raise UserError(
            "P035",
            f"{patchset.name} has patches for {' and '.join(names)}: an export is for one of them",
            place=patchset.place,
            hints=[f"patches export {patchset.typed} --upstream {each}" for each in names],
        )
    return chosen, rev


def checked(same: bool, stale: list[str], name: str) -> int:
    """Says what ``--check`` found."""
    for each in () if same else stale:
        echo(f"stale  {each}")
    echo("as exported" if same else f"not what {name} is now", err=True)
    return EXIT_OK if same else EXIT_FINDINGS


def _below(results: dict[str, bytes | None], roots: tuple[str, ...]) -> dict[str, bytes | None]:
    """The results under the paths of an installed copy; what it does not have is left out."""
    out = {}
    for path, data in results.items():
        for root in roots:
            if path.startswith(f"{root}/"):
                out[path[len(root) + 1 :]] = data
    return out
