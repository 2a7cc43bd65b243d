"""``patches export --plugin``: what goes into the package, what does not, and the folder."""

from __future__ import annotations

from pathlib import Path

from auditor.cli.output import echo
from auditor.cli.patches.export import checked
from auditor.cli.patches.target import base_tree, sources_for
from auditor.errors import EXIT_FINDINGS, EXIT_OK, UserError
from auditor.patching.export.write import matches_folder, write_export
from auditor.patching.plugin.package import package, variant_of
from auditor.patching.sets.patchset import Patchset
from auditor.profile import Profile


def write_plugin(
    found: Patchset,
    profile: Profile,
    partial: bool,
    output: str | None,
    overwrite: bool,
    check: bool,
    base: str | None,
    clone: str | None,
) -> int:
    """``--plugin``: exit code 1 where something cannot be in it and nobody said that this is fine."""
    command = f"patches export {found.typed} --plugin"
    if base is None:
        raise UserError("U001", "a plugin is made for a release", hints=[f"{command} --onto 0.5.14"])
    if output is None:
        raise UserError("U001", "a plugin needs a place", hints=[f"{command} --onto {base} --output DIR"])
    variants = []
    for word in dict.fromkeys(each.strip() for each in base.split(",") if each.strip()):
        tree = base_tree(word, clone, profile)
        variants.append(variant_of(found, tree, profile, sources_for(tree, clone, profile)))
    for variant in variants:
        for name, status in variant.nothing:
            echo(f"{variant.version}  {name}: nothing to do ({status})", err=True)
        for left in variant.left:
            echo(f"{variant.version}  {left.patch}: not expressible as replaced functions", err=True)
            for reason in left.reasons:
                echo(f"    {reason}", err=True)
    missing = sorted({left.patch for variant in variants for left in variant.left})
    if missing and not partial:
        echo(f"nothing written: {', '.join(missing)} would be missing", err=True)
        echo("help: --partial leaves them out; an edit of the tree has them all", err=True)
        return EXIT_FINDINGS
    files = package(found, variants, profile)
    if check:
        stale = matches_folder(Path(output), files)
        return checked(not stale, stale, found.name)
    write_export(Path(output), files, overwrite=overwrite)
    for name in files:
        echo(f"{output.rstrip('/')}/{name}")
    if missing:
        echo(f"note: without {', '.join(missing)}", err=True)
    return EXIT_OK
