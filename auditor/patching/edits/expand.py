"""Edits that stand for several: a flag of the profile's class, and a kernel with all that belongs to it."""

from __future__ import annotations

import msgspec

from auditor.patching.edits import model
from auditor.patching.edits.kernel import kernel
from auditor.patching.edits.miss import Miss
from auditor.patching.edits.tree import Tree


def expanded(edit: model.Strict, tree: Tree) -> list[model.Strict]:
    """An edit as the plain ones that it stands for; itself for most. ``Miss`` P070 without a flags class."""
    if isinstance(edit, model.DeclareFlag):
        return [_flag(edit, tree)]
    if isinstance(edit, model.RegisterKernel):
        flag = [] if edit.flag is None else [_flag(edit.flag, tree)]
        return [*flag, *kernel(edit, tree)]
    return [edit]


def _flag(edit: model.DeclareFlag, tree: Tree) -> model.DeclareFlag:
    if edit.in_:
        return edit
    if not tree.profile.flags:
        raise Miss("P070", f"the profile {tree.profile.name} names no class of flags", ["in: module.Class"])
    return msgspec.structs.replace(edit, in_=tree.profile.flags[0].qualified)
