"""Structural patches: every operator, checked, tried on the examples of the patch itself and on a small tree."""

from __future__ import annotations

import re

from auditor.patching.edits.apply import apply
from auditor.patching.edits.examples import failed
from auditor.patching.sets.patchset import load_outline, read_patch
from auditor.queries.exampletree import PRELUDE, PROFILE, MemoryTree
from tests.fuzz import engine

_BLOCKS = re.findall(r"^```yaml\n(.*?)^```", (engine.ROOT / "docs" / "edits.md").read_text(), re.S | re.M)
_DOCS = tuple(b"title: T\n" + block.encode() for block in _BLOCKS if block.startswith(("edits:", "settled:")))
_EDITS = (
    b"  - narrow: {in: example.m.pick, at: major() >= 10, with: major() != 12}\n",
    b"  - insert: {in: example.m, after: 'def pick($...): $...BODY', code: \"def new():\\n    return 1\\n\"}\n",
    b"  - set-default: {in: example.m.pick, name: size, was: '4', to: '8'}\n",
    b"  - set-constant: {in: example.m, name: LIMIT, was: '3', to: '5'}\n",
    b"  - set-argument: {in: example.m.pick, call: run($...ARGS), argument: fast, was: 'False', to: 'True'}\n",
    b"  - edit-text: {path: example/t.txt, find: two, with: zwei}\n",
    b"  - set-key: {path: example/c.json, key: [a, b], to: 5}\n",
    b"  - set-key: {path: example/c.toml, key: [a, c], to: [1, x], was: x}\n",
    b"  - add-to-list: {path: example/c.json, list: [c], member: 7}\n",
    b"  - add-member: {in: example.m, name: TABLE, key: '\"c\"', value: '3'}\n",
)
WORDS = (
    *sorted({w for block in _DOCS for w in re.findall(rb"[a-z-]+: ", block)}), b"$A", b"$_", b"$...B", b"$", b"|\n      ", b"lambda: ", b"def f():\n  ",
    b"[0]", b"\\n", b"'''", b"\xc3\xbc", b"..", b"null", b"\xf0\x9f\x98\x80", b"\\\n", b"#", b";", b":=", b"await ", b"f'{x}'", b"*", b"**",
)  # fmt: skip
SEEDS = (*_DOCS, *(b"title: T\nedits:\n" + e for e in _EDITS), b"title: T\nedits:\n" + b"".join(_EDITS))
_SOURCE = '''\
"""A module."""
import os
from example.gpu import major, minor

LIMIT = 3
TABLE = {"a": 1, "b": [1, 2]}


class Box:
    on = True

    def go(self, x, *, fast=False):  # why
        return x if self.on else None


def pick(size=4, *rest, mode: str = "auto"):
    if major() >= 10 and size > LIMIT:
        return run(size, fast=False)
    elif major() == 9:
        return run(1)
    else:
        x = Box().go(1, fast=True)
    return x


def run(n, fast=None):
    return n
'''
_FILES: dict[str, str | bytes] = {
    **PRELUDE,
    "example/m.py": _SOURCE,
    "example/t.txt": "one\ntwo\nthree\n",
    "example/c.json": '{"a": {"b": 4}, "c": [1, {"d": null}]}\n',
    "example/c.toml": '[a]\nb = 4\nc = "x"\n',
}
_OUTLINE = b"title: T\nwhy: W\nupstreams:\n  sglang: {url: x}\norder: [one]\n"


def one_input(data: bytes) -> None:
    folder = engine.place() / "structural"
    folder.mkdir(exist_ok=True)
    (folder / "patchset.yaml").write_bytes(_OUTLINE)
    patch = read_patch(load_outline(folder), "one", "one.yaml", data)
    assert patch.file is not None
    for example in patch.file.examples:
        failed(patch.file.edits, example, PROFILE)
    outcome = apply(patch.file.edits, MemoryTree(_FILES), PROFILE)
    if outcome.status == "clean" and outcome.files:
        after = {**_FILES, **{path: made for path, made in outcome.files.items() if made is not None}}
        apply(patch.file.edits, MemoryTree(after), PROFILE)
