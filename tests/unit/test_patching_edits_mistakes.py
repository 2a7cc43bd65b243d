"""Edits that cannot be meant: each is refused before any tree is read, with what is wrong with it."""

from __future__ import annotations

import pytest

from auditor.errors import UserError
from tests.unit.test_patching_edits import edits_of

WORDS = {
    "OPERATOR": "in: example.m, operator: 'ours::scale', schema: '(Tensor q) -> Tensor'",
    "PYTHON": "implementation: 'def scale(q): return q', fake: 'def fake(q): return q'",
    "NATIVE": "native: {definition: {path: a.cc, after: x, insert: y}}",
    "BLOB": "0" * 40,
}

MISTAKES = [
    ("{}", "one edit is one of add-import, "),
    ("{}", "; this is none"),
    (
        "{delete-file: {path: a, was: [BLOB]}, set-key: {path: a, key: [b], to: 1}}",
        "; this is delete-file and set-key",
    ),
    ("narrow: {in: 'example m', at: a, with: b}", "'example m' is neither package.module.symbol nor path/"),
    ("narrow: {in: ../m.py, at: a, with: b}", "../m.py"),
    ("insert: {in: example.m.f, at: end, code: '# nothing'}", "no statement in it"),
    ("insert: {in: example.m.f, code: x = 1}", "one of before, after, at says where"),
    ("insert: {in: example.m.f, at: end, code: 'x ='}", "not Python: "),
    ("guard: {in: example.m.f, at: f(), if: 'a b'}", "not a Python expression: "),
    ("add-import: {in: example.m, import: x = 1}", "not one import statement"),
    ("add-import: {in: example.m, import: import a; import b}", "not one import statement"),
    ("add-import: {in: example.m, import: from a import *}", "an edit names what it imports"),
    ("set-default: {in: example.m.f, name: x, was: '1', to: ' 1'}", "`was` and `to` are the same"),
    ("set-constant: {in: example.m, name: X, was: '1', to: '1 '}", "`was` and `to` are the same"),
    ("set-argument: {in: example.m, call: f($...A), argument: x, was: '1', to: '1'}", "are the same"),
    ("set-call: {in: example.m, call: f, to: g}", "a pattern of a call has the form `name(…)`"),
    ("add-member: {in: example.m, name: X, member: a, members: [b]}", "one of member, members and key says"),
    ("add-member: {in: example.m, name: X}", "one of member, members and key says what is added"),
    ("add-member: {in: example.m, name: X, key: a}", "key and value go together"),
    ("add-member: {in: example.m, name: X, member: a, value: b}", "key and value go together"),
    ("add-member: {in: example.m, call: f(), member: a}", "argument says which one of the call"),
    ("add-member: {in: example.m, name: X, member: a, before: b, after: c}", "one of before and after says"),
    ("add-member: {in: example.m, name: X, members: [a, 'b c']}", "not a Python expression: "),
    ("declare-flag: {name: A-B, as: Flag(True)}", "'A-B' is no name"),
    ("add-to-list: {path: a.json, list: b}", "one of member and members says what is added"),
    ("add-to-list: {path: a.json, list: b, member: 1, members: [2]}", "one of member and members says"),
    ("narrow: {in: example.m, at: a  ==  b, with: a == b}", "changes nothing: it is the pattern itself"),
    ("replace: {in: example.m, find: a, with: a}", "changes nothing: it is the pattern itself"),
    ("replace: {in: example.m, find: 'f($X)', with: 'g($X, $Y, $Z)'}", "$Y is not in `find`"),
    ("edit-text: {path: a, find: x, before: y, with: z}", "one of find, before and after says where"),
    ("edit-text: {path: a, find: x}", "find goes with `with`"),
    ("edit-text: {path: a, find: x, with: y, insert: z}", "find goes with `with`"),
    ("edit-text: {path: a, before: x}", "before and after go with `insert`"),
    ("edit-text: {path: a, after: x, with: y, insert: z}", "before and after go with `insert`"),
    ("edit-text: {path: a, find: x, with: x}", "changes nothing: it is what `find` has"),
    (
        "one-of: {variants: [{title: a}, {title: b, edits: [{delete-file: {path: a, was: [BLOB]}}]}]}",
        "a variant without edits says by `when` in which form nothing is to be done",
    ),
    (
        "one-of: {variants: [{title: a, edits: [{one-of: {variants: ["
        "{title: c, when: [{in: example.m, gone: true}]}, {title: d, when: [{in: example.m, gone: true}]}"
        "]}}]}, {title: b, when: [{in: example.m, gone: true}]}]}",
        "a variant holds plain edits, no further variants",
    ),
    ("one-of: {variants: [{title: a, edits: [{}]}, {title: b, edits: [{}]}]}", "; this is none"),
    ("register-kernel: {OPERATOR, fake: 'def fake(q): ...'}", "needs `implementation`"),
    ("register-kernel: {OPERATOR, implementation: 'def scale(q): ...'}", "needs `fake`"),
    (
        "register-kernel: {in: example.m, operator: 'ours::scale', PYTHON}",
        "a custom operator needs `schema`",
    ),
    ("register-kernel: {OPERATOR, NATIVE}", "needs `wrapper` or `fake` in Python"),
    (
        "register-kernel: {in: example.m, operator: 'ours::scale', wrapper: 'def w(q): ...', "
        "native: {definition: {path: a.cc, after: x}}}",
        "a definition is written from the schema; give it, or `insert`",
    ),
    (
        "register-kernel: {OPERATOR, wrapper: 'def w(q): ...', "
        "native: {definition: {path: a.cc, after: x}, header: {path: a.h, after: x}}}",
        "a declaration in C++ has to be given: `insert`",
    ),
    (
        "register-kernel: {OPERATOR, PYTHON, through: project, device: CPU}",
        "the project's function registers Python functions for CUDA",
    ),
    ("register-kernel: {OPERATOR, PYTHON, expose: example.n}", "only `wrapper` can be exposed"),
    (
        "register-kernel: {in: example.m, operator: 'ours::scale', schema: '(\"q\") -> Tensor', PYTHON}",
        "a schema is one line without quotes",
    ),
    (
        "register-kernel: {OPERATOR, implementation: 'x = 1', fake: 'def fake(q): ...'}",
        "one function, without further statements",
    ),
    *(
        ("register-kernel: {OPERATOR, PYTHON, jit: {from: a.cuh, JIT}}".replace("JIT", jit), fact)
        for jit, fact in (
            ("source: ../a.cuh, function: f", "../a.cuh"),
            ("source: a.cuh, function: f, suffix: b", "has the suffix a or f, or none"),
            ("source: a.cuh, function: 'f\"'", "the name of a C++ function, without quotes"),
            ("source: a.cuh, function: f, arguments: 'a b'", "not arguments of a call: "),
            ("source: a.cuh, function: f, arguments: a", "further arguments are given by name"),
        )
    ),
]


@pytest.mark.parametrize("edit, fact", MISTAKES)
def test_a_mistake(edit: str, fact: str) -> None:
    with pytest.raises(UserError) as error:
        for word, text in WORDS.items():
            edit = edit.replace(word, text)
        edits_of(f"- {edit}")
    assert error.value.code == "P022" and fact in error.value.fact
