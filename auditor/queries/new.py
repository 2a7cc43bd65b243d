"""Writes the first version of a query file: one that already lints clean and whose examples pass."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Literal

from auditor.errors import UserError
from auditor.queries.load import default_folder

_GATE = """\
# yaml-language-server: $schema={schema}
id: {id}
title: {title}
why: >
  Say what breaks, and for whom, when this gate is read wrongly.
match:
  gate:
    # What the condition is worth, not how it is spelled: the source renames its helpers.
    truth: {{sm_120: true, reference: false}}
    arms:
      then: {{raises: "*"}}
verdict: {{sm_12*: blocked}}
severity: warning
message: "{{symbol}} refuses to go on where {{gate.predicate}}"
examples:
  - kind: invalid
    title: The arm of this family raises
    code: |
      from example.gpu import workstation


      def start():
          if workstation():  # audit: here
              raise RuntimeError("no kernel for this GPU")
          return 1
    expect: {{sm_120: blocked, sm_121: blocked, sm_100: same}}
  - kind: valid
    title: Another family raises
    code: |
      from example.gpu import data_centre


      def start():
          if data_centre():
              raise RuntimeError("no kernel for this GPU")
          return 1
    expect: none
  - kind: unknown
    title: It depends on an argument
    code: |
      def start(wanted):
          if wanted:
              raise RuntimeError("no kernel for this GPU")
          return 1
    expect: none
"""

_CODE = """\
# yaml-language-server: $schema={schema}
id: {id}
title: {title}
why: >
  Say what breaks, and for whom, when nobody looks at this place.
words: [backend]
match:
  code:
    # $X stands for one node, $...XS for any number of them.
    pattern: $OPTIONS.backend = $VALUE
    where:
      VALUE: {{is: string}}
verdict: {{default: wrong-default}}
severity: note
message: "{{symbol}} sets the backend to {{VALUE}}"
examples:
  - kind: invalid
    title: A constant is written
    code: |
      def adjust(options):
          options.backend = "slow"  # audit: here
    expect: {{default: wrong-default}}
  - kind: valid
    title: The user's choice is kept
    code: |
      def adjust(options, chosen):
          options.backend = chosen
    expect: none
"""


def scaffold(
    id_: str,
    *,
    folder: Path | None = None,
    title: str = "",
    kind: Literal["gate", "code"] = "gate",
) -> Path:
    """Write ``<folder>/<id>.yaml`` and return its path.

    UserError Q011 for an id that is not ``area/name`` in lower-case kebab, Q014 where the file exists or
    cannot be written. An existing file is never touched.
    """
    root = folder or default_folder()
    if not re.fullmatch(r"[a-z0-9-]+(/[a-z0-9-]+)+", id_):
        near = re.sub(r"[^a-z0-9/]+", "-", id_.lower()).strip("-/") or "my-gate"
        hint = near if "/" in near else f"moe/{near}"
        raise UserError(
            "Q011",
            "an id is area/name in lower-case kebab",
            place=id_,
            hints=[f"audit query new {hint}"],
        )
    path = root / f"{id_}.yaml"
    shown = f"{root.name}/{id_}.yaml"
    schema = "../" * (id_.count("/") + 1) + "reports/schema/query-1.json"
    template = _CODE if kind == "code" else _GATE
    text = template.format(id=id_, title=_quoted(title or "One line that says what is found"), schema=schema)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("x", encoding="utf-8", newline="\n") as handle:
            handle.write(text)
    except FileExistsError:
        raise UserError(
            "Q014", "there is such a query already", place=shown, hints=[f"audit query show {id_}"]
        ) from None
    except OSError as error:
        raise UserError("Q014", f"cannot be written: {error.strerror or error}", place=shown) from None
    return path


def _quoted(text: str) -> str:
    """A title as a YAML scalar."""
    text = " ".join(text.split()).rstrip(".")
    plain = re.fullmatch(r"[A-Za-z][^:#'\"\\\[\]{}&*!|>%@`,]*", text)
    if plain and text not in ("true", "false", "null"):
        return text
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'
