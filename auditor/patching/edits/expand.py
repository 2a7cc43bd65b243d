"""Edits that stand for several: a flag of the profile's class, and a kernel with all that belongs to it."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator

import msgspec

from auditor.patching.edits import model
from auditor.patching.edits.anchors import Tree
from auditor.patching.edits.miss import Miss
from auditor.patching.edits.source import dedented


def expanded(edit: model.Strict, tree: Tree) -> list[model.Strict]:
    """An edit as the plain ones that it stands for; itself for most. ``Miss`` P070 without a flags class."""
    if isinstance(edit, model.DeclareFlag):
        return [_flag(edit, tree)]
    if isinstance(edit, model.RegisterKernel):
        return list(_kernel(edit, tree))
    return [edit]


def _flag(edit: model.DeclareFlag, tree: Tree) -> model.DeclareFlag:
    if edit.in_:
        return edit
    if not tree.profile.flags:
        raise Miss("P070", f"the profile {tree.profile.name} names no class of flags", ["in: module.Class"])
    return msgspec.structs.replace(edit, in_=tree.profile.flags[0].qualified)


def _kernel(edit: model.RegisterKernel, tree: Tree) -> Iterator[model.Strict]:
    if edit.flag is not None:
        yield _flag(edit.flag, tree)
    if edit.native is not None:
        yield from _native(edit.native)
    if edit.implementation or edit.fake:
        yield model.AddImport(in_=edit.in_, import_="import torch")
    if edit.implementation:
        schema = f'torch.library.define("{edit.operator}", "{edit.schema}")\n'
        head = f'@torch.library.impl("{edit.operator}", "{edit.device}")\n'
        yield model.Insert(in_=edit.in_, at="end", code=schema)
        yield model.Insert(in_=edit.in_, at="end", code=head + dedented(edit.implementation))
    if edit.fake:
        head = f'@torch.library.register_fake("{edit.operator}")\n'
        yield model.Insert(in_=edit.in_, at="end", code=head + dedented(edit.fake))
    if edit.wrapper:
        yield model.Insert(in_=edit.in_, at="end", code=edit.wrapper)
    for site in edit.dispatch:
        body = "".join(f"{line.strip()}\n" for line in site.imports) + dedented(site.code)
        code = f"if {_joined(site.when)} and not {_joined(site.off)}:\n" + textwrap.indent(body, "    ")
        yield model.Insert(in_=site.in_, before=site.at, within=site.within, count=site.count, code=code)


def _joined(text: str) -> str:
    """A condition as an operand; calls and names need no brackets."""
    flat = " ".join(text.split())
    plain = flat.replace(".", "").replace("_", "").replace("()", "").isalnum()
    return flat if plain else f"({flat})"


def _native(native: model.Native) -> Iterator[model.Strict]:
    for part in (native.source, native.cmake, native.archs):
        if part is not None:
            yield part
    for text in (native.header, native.definition, native.implementation):
        if text is not None:
            yield model.EditText(
                path=text.path, before=text.before, after=text.after, insert=text.insert, count=text.count
            )
