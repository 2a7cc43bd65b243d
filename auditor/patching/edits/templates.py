"""The first version of each kind of edit, to be filled in. Every one is read without an error."""

from __future__ import annotations

import difflib
import textwrap

from auditor.errors import UserError
from auditor.patching.edits.model import KINDS

_AT = "in: package.module.Class.method"
_TEMPLATES = {
    "add-import": """
        in: package.module
        import: from package.other import name
    """,
    "narrow": f"""
        {_AT}
        at: "name == 1"
        with: not other()
    """,
    "widen": f"""
        {_AT}
        at: "name == 1"
        with: other()
    """,
    "insert-arm": f"""
        {_AT}
        after: "name == 1"
        if: "name == 2"
        then: |
          return value
    """,
    "insert": f"""
        {_AT}
        after: name = $_
        code: |
          name = other(name)
    """,
    "guard": f"""
        {_AT}
        at: name = $_
        if: not other()
    """,
    "replace": f"""
        {_AT}
        find: "$X == 1"
        with: "$X in (1, 2)"
    """,
    "set-default": f"""
        {_AT}
        name: parameter
        was: "1"
        to: "2"
    """,
    "set-constant": """
        in: package.module
        name: NAME
        was: "1"
        to: "2"
    """,
    "set-argument": f"""
        {_AT}
        call: function($...ARGS)
        argument: name
        was: absent
        to: "1"
    """,
    "set-call": f"""
        {_AT}
        call: function($...ARGS)
        to: other
    """,
    "add-member": """
        in: package.module
        name: NAMES
        member: '"text"'
    """,
    "require": """
        in: package.module
        has: NAME = 1
        because: the patch is written for this value
    """,
    "one-of": """
        variants:
          - title: as the patch was made for
            edits:
              - replace: {in: package.module, find: "$X == 1", with: "$X in (1, 2)"}
          - title: where it went later
            edits:
              - replace: {in: package.other, find: "$X == 1", with: "$X in (1, 2)"}
    """,
    "declare-flag": """
        name: NAME
        as: Flag(False)
    """,
    "register-kernel": """
        in: package.module
        operator: mine::name
        schema: "(Tensor x) -> Tensor"
        implementation: |
          def _name(x: torch.Tensor) -> torch.Tensor:
              return other(x)
        fake: |
          def _name_fake(x: torch.Tensor) -> torch.Tensor:
              return torch.empty_like(x)
        dispatch:
          - in: package.module.function
            at: return other($...ARGS)
            when: supported()
            off: flags.NAME.get()
            code: return torch.ops.mine.name(x)
    """,
    "add-file": """
        path: package/new.py
        from: new.py
    """,
    "replace-file": """
        path: package/file.json
        from: file.json
        was: ["0000000000000000000000000000000000000000"]  # git rev-parse REV:PATH
    """,
    "delete-file": """
        path: package/old.py
        was: ["0000000000000000000000000000000000000000"]  # git rev-parse REV:PATH
    """,
    "edit-text": """
        path: folder/file.h
        find: old text
        with: new text
    """,
    "set-key": """
        path: folder/file.json
        key: [name]
        was: 1
        to: 2
    """,
    "add-to-list": """
        path: folder/CMakeLists.txt
        list: SOURCES
        member: folder/new.cu
    """,
}


def template(kind: str) -> str:
    """One edit of a kind as YAML, as an item of ``edits:``. UserError P022 for no such kind."""
    if kind not in _TEMPLATES:
        near = difflib.get_close_matches(kind, KINDS, n=1, cutoff=0.4)
        hints = [f"--edit {word}" for word in near] or [f"one of {', '.join(KINDS)}"]
        raise UserError("P022", f"no such kind of edit: {kind!r}", hints=hints)
    body = textwrap.indent(textwrap.dedent(_TEMPLATES[kind]).strip("\n "), " " * 6)
    return f"  - {kind}:\n{body}\n"
