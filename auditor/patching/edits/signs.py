"""What has to be in a tree, or must not be: signs of its form, asked before anything is changed."""

from __future__ import annotations

import ast
from collections.abc import Sequence

from auditor import pytext
from auditor.patching.edits import model
from auditor.patching.edits.anchors import resolve
from auditor.patching.edits.found import Found, every, inside
from auditor.patching.edits.miss import Miss
from auditor.patching.edits.tree import Place, Tree
from auditor.patching.model import Outcome
from auditor.profile import Profile
from auditor.trees.base import SourceTree


def there(tree: Tree, sign: model.Sign) -> bool:
    """Whether a tree has the sign where the sign says; the package is only searched for what is gone."""
    search = tree.search
    tree.search = sign.gone
    try:
        return _missing(tree, sign) is None
    finally:
        tree.search = search


def required(tree: Tree, edit: model.Require) -> Place | None:
    """The place of a sign that has to be there. ``Miss`` P080 with what is there instead."""
    found = _missing(tree, edit)
    if found is None:
        return None if edit.gone else resolve(tree, edit.in_)
    tail = f": {edit.because.strip()}" if edit.because else ""
    raise Miss("P080", f"{found.fact}{tail}", found.nearest)


def settled(rows: Sequence[model.Settled], tree: SourceTree, profile: Profile) -> Outcome | None:
    """What a tree makes of a patch that has nothing to do in some forms of it; None where it has."""
    work = Tree(tree, profile)
    for row in rows:
        if all(there(work, sign) for sign in row.when):
            since = f"since {row.since}: " if row.since else ""
            return Outcome(row.as_, note=f"{since}{' '.join(row.because.split())}")
    return None


def _missing(tree: Tree, sign: model.Sign) -> Miss | None:
    """Why a sign is not there; None where it is."""
    try:
        place = resolve(tree, sign.in_)
    except Miss as miss:
        if sign.gone:
            return None
        return miss
    if sign.gone:
        return Miss("P080", f"{place.shown()} is still there")
    pattern = sign.has or sign.lacks
    found = inside(place, every(place, pattern), sign.within)
    flat = " ".join(pattern.split())
    if sign.lacks:
        return Miss("P080", f"{place.shown()} has `{flat}`", _shown(place, found)) if found else None
    if found:
        return None
    return Miss("P080", f"{place.shown()} does not have `{flat}`", _instead(place, pattern))


def _shown(place: Place, found: Sequence[Found]) -> list[str]:
    return [f"line {each.node.lineno} `{place.source.shown(each.node)}`" for each in found[:3]]  # type: ignore[attr-defined]


def _instead(place: Place, pattern: str) -> list[str]:
    """Where a name has another value than expected: what it has."""
    try:
        body = pytext.parse(pattern.replace("$", "_")).body
    except SyntaxError:
        return []
    if len(body) != 1 or not isinstance(body[0], ast.Assign) or not isinstance(body[0].targets[0], ast.Name):
        return []
    return _shown(place, every(place, f"{body[0].targets[0].id} = $_"))
