"""A patch carried to a tree: one folder per kind of conflict under ``tests/cases/port``.

``patch`` was made on ``base``; on ``target`` it must give ``expected`` and the status in ``outcome``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

import pytest

from auditor.patching.diffs.parse import parse_patch
from auditor.patching.merge.changes import Changes
from auditor.patching.merge.lines import Edit
from auditor.patching.merge.statements import Source
from auditor.patching.model import Outcome
from auditor.patching.port.carry import port
from auditor.trees.base import TreeInfo
from auditor.trees.names import blob_id, listing_id

CASES = Path(__file__).parents[1] / "cases" / "port"


class MemoryTree:
    """A tree of bytes."""

    def __init__(self, files: Mapping[str, bytes]) -> None:
        self.files = dict(sorted(files.items()))

    def info(self) -> TreeInfo:
        return TreeInfo("folder", "memory", listing_id(self.blobs()))

    def blobs(self) -> dict[str, str]:
        return {path: blob_id(data) for path, data in self.files.items()}

    def read(self, path: str) -> bytes:
        return self.files[path]

    def read_many(self, paths: Iterable[str]) -> Iterator[tuple[str, bytes]]:
        for path in paths:
            yield path, self.files[path]

    def local_path(self, path: str) -> str | None:
        return None


def _folder(folder: Path) -> dict[str, bytes]:
    return {str(p.relative_to(folder)): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


def _carry(base: Mapping[str, bytes], target: Mapping[str, bytes], patch: bytes) -> Outcome:
    known = {blob_id(data): data for data in base.values()}
    return port(parse_patch(patch, "patch"), MemoryTree(target), blobs=known.get)


def _after(target: Mapping[str, bytes], outcome: Outcome) -> dict[str, bytes]:
    after = dict(target)
    for path, data in outcome.files.items():
        if data is None:
            del after[path]
        else:
            after[path] = data
    return after


@pytest.mark.parametrize("name", sorted(p.name for p in CASES.iterdir()))
def test_case(name: str) -> None:
    folder = CASES / name
    target = _folder(folder / "target")
    outcome = _carry(_folder(folder / "base"), target, (folder / "patch").read_bytes())
    wanted = {path: data.decode() for path, data in _folder(folder / "expected").items()}
    got = {path: data.decode() for path, data in _after(target, outcome).items()}
    assert got == wanted, outcome.hunks
    assert outcome.status == (folder / "outcome").read_text().strip(), outcome.hunks


@pytest.mark.parametrize("name", sorted(p.name for p in CASES.iterdir()))
def test_a_carried_patch_is_upstream_afterwards(name: str) -> None:
    folder = CASES / name
    target = _folder(folder / "target")
    base, patch = _folder(folder / "base"), (folder / "patch").read_bytes()
    outcome = _carry(base, target, patch)
    if outcome.status == "conflict":
        assert not outcome.files
        return
    again = _carry(base, _after(target, outcome), patch)
    assert again.status == "upstream", again.hunks


@pytest.mark.parametrize("name", sorted(p.name for p in CASES.iterdir()))
def test_a_patch_on_its_own_base_is_clean_and_twice_is_nothing(name: str) -> None:
    folder = CASES / name
    base, patch = _folder(folder / "base"), (folder / "patch").read_bytes()
    outcome = _carry(base, base, patch)
    assert outcome.status == "clean"
    assert {hunk.proof for hunk in outcome.hunks} == {"preimage identical"}
    again = _carry(base, _after(base, outcome), patch)
    assert again.status == "upstream" and not again.files


TWO = b"def one(x):\n    x = x + 1\n    return x\n\n\ndef two(x):\n    x = x + 1\n    return x\n"
PLAIN = b"""\
--- a.py
+++ a.py
@@ -6,3 +6,3 @@ def two(x):
     x = x + 1
-    return x
+    return -x
"""


def test_a_base_that_nobody_has_needs_one_place() -> None:
    patch = PLAIN.replace(b"-6,3 +6,3", b"-7,2 +7,2")
    outcome = port(parse_patch(patch, "p"), MemoryTree({"a.py": TWO}), blobs=lambda _: None)
    assert outcome.status == "clean"
    assert outcome.files["a.py"] == TWO[:-9] + b"return -x\n"
    nameless = patch.replace(b" def two(x):", b"")
    refused = port(parse_patch(nameless, "p"), MemoryTree({"a.py": TWO}), blobs=lambda _: None)
    assert refused.status == "conflict" and not refused.files
    assert "more than once" in refused.hunks[0].note
    after = {"a.py": TWO[:-9] + b"return -x\n"}
    assert port(parse_patch(patch, "p"), MemoryTree(after), blobs=lambda _: None).status == "upstream"
    other = port(parse_patch(patch, "p"), MemoryTree({"a.py": b"x = 1\n"}), blobs=lambda _: None)
    assert other.status == "conflict" and "not in the file" in other.hunks[0].note


def test_lines_that_go_from_a_header_go_from_the_function_that_it_is_there() -> None:
    body = "    url = args.url()\n    if not reachable(url):\n        return\n"
    base = f"def start(\n    args,\n    text,\n):\n{body}    report(url)\n"
    theirs = (
        f"def warm(\n    args,\n):\n{body}    return True\n\n\n"
        "def start(\n    args,\n    text,\n):\n    report(url)\n"
    )
    changes = Changes(Source(base.encode()), Source(theirs.encode())).all
    added = next(c for c in changes if c.added and c.added[0].name == "warm")
    assert added.touches(Edit(2, 3, 2, 2))  # `text,` is gone from what is the header of `warm` now
    assert not added.touches(Edit(2, 3, 14, 14))
