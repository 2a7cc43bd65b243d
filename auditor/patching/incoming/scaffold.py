"""Writes the first version of a patchset or of a patch, with every field that lint asks for."""

from __future__ import annotations

from pathlib import Path

from auditor.errors import UserError
from auditor.patching.edits.templates import template
from auditor.patching.incoming.write import append_patches, patchset_text, quoted, write_folder
from auditor.patching.sets.patchset import check_name, find_patchset

_HEAD = """\
# yaml-language-server: $schema=../../../reports/schema/patch-1.json
title: {title}
why:
  # going-upstream (with link), local-only or incompatible (with reason)
  kind: local-only
  reason: Say why this is carried here and not upstream.
removal: Say what has to happen so that it can go.
# Pending | Submitted [URL] | Backport [commit] | Denied | Inactive-Upstream | Inappropriate [reason]
status: Pending
"""
_EDITS = """\
# One or more edits; each names its place by symbol and pattern, never by line. All of them: docs and
# reports/schema/patch-1.json (add-import, narrow, widen, insert-arm, insert, guard, replace, set-default, …).
edits:
  - widen:
      in: package.module.pick
      at: "$CARD.major == 10"
      with: card.major == 12
# What the audit of the patched tree has to say; `default` is every other target.
# verify:
#   - gate: AREA/NAME
#     expect: {{sm_120: true, default: unchanged}}
examples:
  - title: The arm is taken for this family too
    before: |
      def pick(card):
          if card.major == 10:
              return "fast"
          return "slow"
    after: |
      def pick(card):
          if card.major == 10 or card.major == 12:
              return "fast"
          return "slow"
  - title: A tree that has it
    before: |
      def pick(card):
          if card.major == 10 or card.major == 12:
              return "fast"
          return "slow"
    skip: it is there already
"""
_ONE_EDIT = """\
# One or more edits; each names its place by symbol and pattern, never by line. See docs/edits.md.
edits:
"""
_EXAMPLES = """\
# Small files before and after, or with the reason for which they are left alone; `patches lint` runs them:
# examples:
#   - before: |
#       …
#     after: |
#       …
"""


def new_patchset(name: str, folder: Path | None, *, title: str, project: str, url: str) -> Path:
    """An empty patchset; returns its folder. UserError P026 (name), P034 (it exists, or the disk refuses)."""
    _checked(name, "patches new")
    path = (folder or Path("patchsets")) / name
    text = patchset_text(title or f"What {name} is for, in one line", {project: (url, "")}, ())
    write_folder(path, {"patchset.yaml": text.encode()})
    return path


def new_patch(
    patchset: str,
    name: str,
    folder: Path | None,
    *,
    title: str = "",
    commit: str | None = None,
    range_: str | None = None,
    pr: int | None = None,
    edit: str = "",
) -> Path:
    """A patch at the end of a patchset: a reference if one is given, else structural. Returns its file.

    ``edit`` is the kind of its first edit; by default one with examples.

    UserError P020 (no patchset), P022 (kind), P026 (name), P034 (there is one), U005 (two references).
    """
    path = find_patchset(patchset, folder)
    _checked(name, f"patches new {patchset}")
    given = {"commit": commit, "range": range_, "pr": pr}
    words = [
        f"{key}: {value if key == 'pr' else quoted(str(value))}" for key, value in given.items() if value
    ]
    if words and edit:
        raise UserError("U005", "a patch has either edits or a reference to an upstream")
    if len(words) > 1:
        raise UserError("U005", "one of --commit, --range and --pr says where the patch comes from")
    text = _HEAD.format(title=quoted(title or "What it changes, in one line"))
    if words:
        text += f"upstream: {{{words[0]}}}\n"
    elif edit:
        text += _ONE_EDIT + template(edit) + _EXAMPLES
    else:
        text += _EDITS.format()
    append_patches(path, {f"{name}.yaml": text.encode()})
    return path / "patches" / f"{name}.yaml"


def _checked(name: str, command: str) -> None:
    if not check_name(name):
        import re

        near = re.sub(r"[^a-z0-9._-]+", "-", name.lower()).strip("-._") or "mine"
        raise UserError(
            "P026",
            "a name is lower-case letters, digits, `-`, `_` and `.`",
            place=name,
            hints=[f"{command} {near}"],
        )
