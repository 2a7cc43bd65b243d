"""``patches show``: what a patch changes and why it exists."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from auditor.cli.command import VerbCommand
from auditor.cli.output import echo
from auditor.cli.patches.base import FOLDER
from auditor.cli.words import PatchsetType, PatchType

if TYPE_CHECKING:
    from auditor.patching.sets.patchset import Patch, Patchset


@click.command(
    "show", cls=VerbCommand, example=("patches show mine", "patches show mine open-the-gate --diff")
)
@click.argument("patchset", type=PatchsetType())
@click.argument("patch", type=PatchType(), required=False, metavar="[PATCH]")
@click.option("--diff", "with_diff", is_flag=True, help="The diff as well, in its canonical form.")
@click.option("--format", "form", type=click.Choice(("terminal", "json")), default="terminal")
@FOLDER
def show(patchset: str, patch: str | None, with_diff: bool, form: str, folder: str | None) -> None:
    """What is in this patchset; what does this patch change, why is it carried, and when can it go?"""
    from auditor.patching.sets.patchset import load_patchset

    found = load_patchset(patchset, Path(folder) if folder else None)
    if form == "json":
        from auditor.cli.output import write_bytes
        from auditor.cli.patches.page import envelope

        chosen = found.patches if patch is None else (found.patch(patch),)
        head = {"patchset": found.name, "title": found.file.title}
        rows = [_as_json(found, each) for each in chosen]
        write_bytes(envelope("show", **head, patches=rows), None)
        return
    if patch is None:
        _stack(found)
        return
    _one(found, found.patch(patch))
    changes = found.patch(patch).changes
    if with_diff and changes is not None:
        from auditor.patching.diffs.write import write_diff

        echo()
        sys.stdout.flush()
        sys.stdout.buffer.write(write_diff(changes.changes))


def _as_json(patchset: Patchset, patch: Patch) -> dict[str, Any]:
    import msgspec

    changes = patch.changes.changes if patch.changes else ()
    return {
        "name": patch.name,
        "form": patch.form,
        "file": patch.place,
        "project": patchset.project_of(patch),
        "header": msgspec.to_builtins(patch.header),
        "reference": msgspec.to_builtins(patch.reference) if patch.reference else None,
        "edits": len(patch.edits),
        "kernels": [
            {"file": kernel.file, "function": kernel.function, "language": kernel.language}
            for kernel in (patch.file.kernels if patch.file is not None else ())
        ],
        "paths": [change.path for change in changes],
    }


def _stack(patchset: Patchset) -> None:
    file = patchset.file
    echo(f"{patchset.name}: {file.title}")
    if file.why:
        echo(f"\n{_folded(file.why.strip())}")
    for name, upstream in file.upstreams.items():
        echo("  ".join(word for word in (f"for {name}", upstream.versions, upstream.url) if word))
    echo()
    many = len({patchset.project_of(item) for item in patchset.patches}) > 1
    rows = [
        (
            item.name,
            *((patchset.project_of(item),) if many else ()),
            item.header.status or "no status",
            _content(item),
            item.header.title,
        )
        for item in patchset.patches
    ]
    last = 4 if many else 3
    room = _room()
    names = max((len(row[0]) for row in rows), default=0) + 2
    widths = [max((len(row[at]) for row in rows), default=0) for at in range(last)]
    broad = sum(widths) + 2 * last + max((len(row[last]) for row in rows), default=0)
    for row in rows:
        if room and broad > room:  # what it does beside its name, the rest below
            echo(f"{row[0]:<{names}}{_folded(row[last], names)}")
            echo(" " * names + _folded(" · ".join(row[1:last]), names))
            continue
        words = (f"{row[at]:<{widths[at]}}" for at in range(last))
        echo("  ".join([*words, row[last]]).rstrip())


def _room() -> int:
    """The columns of the terminal that is written to (or pretended, for a picture), 0 where it is none: there
    a line stays a line."""
    import os
    import shutil

    terminal = sys.stdout.isatty() or bool(os.environ.get("FORCE_COLOR"))
    return shutil.get_terminal_size().columns if terminal else 0


def _folded(text: str, indent: int = 0) -> str:
    """The text as wide as the terminal, later lines indented; as it is where no terminal is written to."""
    import textwrap

    room = _room()
    if not room:
        return text.replace("\n", "\n" + " " * indent)
    wide = max(room - indent, 20)
    lines = [
        textwrap.wrap(line, wide, break_long_words=False, break_on_hyphens=False) or [""]
        for line in text.split("\n")
    ]
    return ("\n" + " " * indent).join(part for parts in lines for part in parts)


def _content(patch: Patch) -> str:
    if patch.reference is not None:
        return f"upstream {patch.reference.shown()}"
    if patch.changes is not None:
        count = len(patch.changes.changes)
        return f"diff of {count} file{'' if count == 1 else 's'}"
    return f"{len(patch.edits)} edit{'' if len(patch.edits) == 1 else 's'}"


def _one(patchset: Patchset, patch: Patch) -> None:
    header = patch.header
    echo(f"{_folded(f'{patch.name}: {header.title}')}\n")
    if header.description:
        echo(f"{_folded(header.description.strip())}\n")
    why = header.why
    said = " ".join(word for word in (why.link, why.reason.strip()) if word) if why else ""
    applies = "; ".join(f"{name} {spec}".strip() for name, spec in header.applies.items())
    rows = [
        ("why", f"{why.kind}: {said}".rstrip(": ") if why else "not said"),
        ("removal", header.removal.strip() or "not said"),
        ("status", header.status or "not said"),
        ("changes", patchset.project_of(patch)),
        ("applies", applies),
        ("requires", ", ".join(header.requires)),
        ("targets", ", ".join(header.targets)),
        ("author", header.author),
    ]
    rows += [(name.lower(), value) for name, value in header.fields.items()]
    for item in (*header.verify, *((header.upstreamed_when,) if header.upstreamed_when else ())):
        kind, name = item.subject()
        words = ", ".join(f"{target} {value}" for target, value in item.expected().items())
        rows.append(
            ("upstream if" if item is header.upstreamed_when else "verify", f"{kind} {name}: {words}")
        )
    rows += [("content", _content(patch)), ("file", patch.place)]
    if patch.reference is not None and patch.file is not None and patch.file.exclude:
        rows.append(("without", ", ".join(patch.file.exclude)))
    for kernel in patch.file.kernels if patch.file is not None else ():
        rows.append(("kernel", f"{kernel.function} in files/{kernel.file} ({kernel.language})"))
    width = max(len(label) for label, text in rows if text) + 2
    for label, text in rows:
        if text:
            echo(f"{label:<{width}}{_folded(text, width)}")
    for change in patch.changes.changes if patch.changes else ():
        added = sum(mark == "+" for hunk in change.hunks for mark, _ in hunk.lines)
        removed = sum(mark == "-" for hunk in change.hunks for mark, _ in hunk.lines)
        kind = "new" if change.old_path is None else "gone" if change.new_path is None else ""
        if change.old_path and change.new_path and change.old_path != change.new_path:
            kind = f"from {change.old_path}"
        size = "binary" if change.binary is not None or change.delta is not None else f"+{added} -{removed}"
        echo(f"  {change.path}  {size}  {kind}".rstrip())
