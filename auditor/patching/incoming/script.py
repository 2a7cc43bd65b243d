"""Scripts that replace text in files, turned into a patch; they are read as data and never run.

The replacements are made on the base in memory, with the counts that the script itself asks for, and become a
diff. Whatever else would change a file is reported with its line.
"""

from __future__ import annotations

import ast

from auditor import pytext
from auditor.errors import UserError
from auditor.patching.diffs.lines import file_change
from auditor.patching.diffs.scan import DEFAULT_LIMITS
from auditor.patching.incoming.patches import Imported, Incoming, Options, Row, patch_name, path_matches
from auditor.patching.incoming.scriptread import Replacement, Script, ScriptPath, read_script
from auditor.patching.model import ChangeSet
from auditor.trees.base import SourceTree
from auditor.trees.overlay import OverlayTree


def take_script(text: str, label: str, base: SourceTree, options: Options) -> Imported:
    """The patch that a replacing script makes of the base.

    UserError P037 (not a script that can be read as data), P038 (an anchor that the base does not have, or
    has another number of times than the script says).
    """
    found = read_script(text, label)
    if not found.writes:
        lines = ", ".join(f"line {line}: {what}" for line, what in sorted(found.dark.items())[:3])
        raise UserError(
            "P037",
            f"no plain replacement in this script{f' ({lines})' if lines else ''}",
            place=label,
            hints=["run it yourself in a checkout, then patches import the output of git diff"],
        )
    after: dict[str, str] = {}
    notes: list[str] = [f"line {line}: {what}" for line, what in sorted(found.notes.items())]
    left_out: list[str] = []
    excluded: list[str] = []
    done: dict[ScriptPath, tuple[Replacement, ...]] = {}
    replaced = 0
    for content in found.writes:
        path = _resolve(content.path, base, label)
        if path_matches(path, options.exclude):
            excluded.append(path)
            continue
        text_now = after.get(path)
        if text_now is None:
            try:
                text_now = base.read(path).decode("utf-8")
            except UnicodeDecodeError:
                raise UserError("P037", f"{path} is not UTF-8", place=label) from None
        # A text that is written twice on the way holds its first replacements both times.
        earlier = done.get(content.path, ())
        edits = content.edits[len(earlier) :] if content.edits[: len(earlier)] == earlier else content.edits
        done[content.path] = content.edits
        for edit in edits:
            text_now = _made(edit, text_now, path, content.path, found, label, notes)
            replaced += 1
        after[path] = text_now
    changes = []
    for path, new in sorted(after.items()):
        change = file_change(path, base.read(path), new.encode())
        if change is not None:
            changes.append(change)
    left_out += [
        f"line {line}: {what}: not plain, and not taken" for line, what in sorted(found.dark.items())
    ]
    if not changes:
        row = Row(label, excluded=tuple(excluded), left_out=tuple(left_out), notes=("it changes nothing",))
        return Imported([], [row], base)
    module = ast.get_docstring(pytext.parse(text)) or ""
    name = patch_name(label, "")
    title = module.split("\n")[0].rstrip(".") or name.replace("-", " ").capitalize()
    notes.insert(0, f"{replaced} replacement{'' if replaced == 1 else 's'} of a script, made on the base")
    patch = Incoming(name, ChangeSet(tuple(changes), subject=title, body=module.partition("\n")[2].strip()))
    row = Row(
        source=label,
        patch=name,
        title=title,
        paths=tuple(change.path for change in changes),
        hunks=sum(len(change.hunks) for change in changes),
        fits=len(changes),
        excluded=tuple(excluded),
        left_out=tuple(left_out),
        notes=tuple(notes),
    )
    tree = OverlayTree(base, {path: new.encode() for path, new in after.items()})
    return Imported([patch], [row], tree)


def _made(
    edit: Replacement, text: str, path: str, where: ScriptPath, found: Script, label: str, notes: list[str]
) -> str:
    place = f"{label}:{edit.line}"
    there = text.count(edit.old) if edit.old else 0
    expected = found.counts.get((where, edit.old))
    if not there:
        fact = f"the text that it replaces is not in {path}"
        if edit.new and edit.new in text:
            fact += ", but what it puts there is: already done?"
        raise UserError("P038", fact, place=place, hints=["name the base that the script was made for"])
    if expected is not None and expected != there:
        raise UserError(
            "P038", f"the script says {expected} times, {path} has the text {there} times", place=place
        )
    if len(text) + there * len(edit.new) > DEFAULT_LIMITS.size:
        raise UserError("P003", f"{path} would become larger than any patch", place=place)
    if edit.count >= 0 and there > max(edit.count, 1) and expected is None:
        notes.append(f"line {edit.line}: {there} places in {path}, the first {edit.count} as the script does")
    elif edit.count < 0 and there > 1 and expected is None:
        notes.append(f"line {edit.line}: all {there} places in {path}, as the script does")
    return text.replace(edit.old, edit.new, min(edit.count, there) if edit.count >= 0 else -1)


def _resolve(path: ScriptPath, base: SourceTree, label: str) -> str:
    """The one file of the base whose path ends so. UserError P031."""
    parts = [part for part in path.parts if part not in ("", ".", "/")]
    names = list(base.blobs())
    for start in range(len(parts)):
        end = "/".join(parts[start:])
        found = [name for name in names if name == end or name.endswith("/" + end)]
        exact = [name for name in found if name == end]
        if len(exact or found) == 1:
            return (exact or found)[0]
        if found:
            raise UserError("P031", f"{len(found)} files of the base end in {end}", place=label)
    raise UserError("P031", f"the base has no file {'/'.join(parts)}", place=label)
