"""Keys and lists of JSON, TOML and CMake files: what is put where, and why it is not."""

from __future__ import annotations

import pytest

from tests.unit.test_patching_edits import whole

MADE = [
    (
        "add-to-list: {path: p.json, list: a.b, members: [2, 3]}",
        '{"a": {"b": [1, 2]}}',
        '{"a": {"b": [1, 2, 3]}}',
    ),
    ("set-key: {path: p.json, key: [a, 1], was: 2, to: 5}", '{"a": [1, 2]}', '{"a": [1, 5]}'),
    ("set-key: {path: p.json, key: [a], was: absent, to: [x]}", '{"b": 1}', '{"b": 1, "a": ["x"]}'),
    ("set-key: {path: p.toml, key: [t, a.b], to: 1}", "t = {c = 2}\n", 't = {c = 2, "a.b" = 1}\n'),
    (
        "set-key: {path: p.toml, key: [t, c], was: 2, to: 3}",
        "t = {b = [1], c = 2}\n",
        "t = {b = [1], c = 3}\n",
    ),
    ("set-key: {path: p.toml, key: [t, u, b], was: 1, to: 2}", "[t]\nu.b = 1\n", "[t]\nu.b = 2\n"),
    (
        "set-key: {path: p.toml, key: [t, 1, b], was: 1, to: 2}",
        "[[t]]\nb = 0\n[[t]]\nb = 1\n",
        "[[t]]\nb = 0\n[[t]]\nb = 2\n",
    ),
    (
        "set-key: {path: p.toml, key: [t, 0, u, b], was: 1, to: true}",
        "[[t]]\n[t.u]\nb = 1\n",
        "[[t]]\n[t.u]\nb = true\n",
    ),
    (
        "add-to-list: {path: CMakeLists.txt, list: SOURCES, members: [a/b.cu, c.cu]}",
        "set(SOURCES\n    a/a.cu\n    a/c.cu\n)\n",
        "set(SOURCES\n    a/a.cu\n    a/b.cu\n    a/c.cu\n    c.cu\n)\n",
    ),
    (
        "add-to-list: {path: x.cmake, list: SOURCES, member: a/b.cu}",
        "if((A) AND B)\n  list(APPEND SOURCES a/z.cu a/a.cu) # é\nendif()\n",
        "if((A) AND B)\n  list(APPEND SOURCES a/z.cu a/a.cu a/b.cu) # é\nendif()\n",
    ),
    (
        "add-to-list: {path: x.cmake, list: ARCHS, member: 12.0a}",
        '# set(ARCHS)\nset(ARCHS "9.0a")\n',
        '# set(ARCHS)\nset(ARCHS "9.0a" "12.0a")\n',
    ),
    (
        "add-to-list: {path: x.cmake, list: target_sources ops, member: b.cu}",
        "target_sources(ops)\n",
        "target_sources(ops b.cu)\n",
    ),
]


@pytest.mark.parametrize("edit, before, after", MADE)
def test_what_is_put_where(edit: str, before: str, after: str) -> None:
    path = edit.partition("path: ")[2].partition(",")[0]
    outcome = whole(f"- {edit}", {path: before})
    assert (outcome.files[path] or b"").decode() == after
    again = whole(f"- {edit}", {path: after})
    assert again.status == "upstream" and not again.files


MISSES: list[tuple[str, str | bytes, str]] = [
    ("set-key: {path: p.json, key: [a], to: 1}", b'{"b": "\xff"}', "P073: p.json is not UTF-8"),
    (
        "add-to-list: {path: x.cmake, list: A, member: b}",
        b"set(A \xff\0)",
        "P073: x.cmake is not UTF-8",
    ),
    (
        "set-key: {path: x.cmake, key: [a], to: 1}",
        "set(a 2)",
        "P075: set-key is for JSON and TOML; add-to-list or edit-text for CMake",
    ),
    (
        "set-key: {path: p.yaml, key: [a], to: 1}",
        "a: 2",
        "P075: p.yaml is neither JSON, TOML nor CMake: use edit-text",
    ),
    (
        "set-key: {path: p.json, key: [a], to: 1}",
        '{"b": ' + "[" * 101 + "]" * 101 + "}",
        "P073: line 1 of p.json cannot be read",
    ),
    ("set-key: {path: p.json, key: [a], was: 2, to: 1}", '{"b": 1}', "P070: p.json has no a"),
    ("set-key: {path: p.json, key: [a, b], to: 1}", '{"a": [1]}', "P075: a in p.json has no keys"),
    ("set-key: {path: p.json, key: [a, 3], to: 1}", '{"a": [1]}', "P075: a in p.json has no keys"),
    (
        "set-key: {path: p.toml, key: [a], to: {b: 1}}",
        "c = 1\n",
        "P075: a value of TOML is text, a number, true, false or a list of them",
    ),
    ("add-to-list: {path: p.json, list: [a, 0], member: 1}", '{"a": []}', "P070: p.json has no a.0"),
    (
        "add-to-list: {path: x.cmake, list: A, member: b}",
        "set(B c)\nset(C)\nset()\n",
        "P071: A is set 0 times in x.cmake, expected 1; nearest: B, C",
    ),
    (
        "add-to-list: {path: x.cmake, list: A, member: b}",
        "set(A c)\nset(A d)\n",
        "P071: A is set 2 times in x.cmake, expected 1; nearest: A",
    ),
]


@pytest.mark.parametrize("edit, before, note", MISSES)
def test_why_it_is_not(edit: str, before: str | bytes, note: str) -> None:
    path = edit.partition("path: ")[2].partition(",")[0]
    outcome = whole(f"- {edit}", {path: before})
    assert not outcome.files and [hunk.note for hunk in outcome.hunks] == [note]
