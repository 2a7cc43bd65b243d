"""What the patch manager wrote before: locks, records of a target, journals, the state of a rebase."""

from __future__ import annotations

import shutil
from pathlib import Path

import msgspec

from auditor.errors import UserError
from auditor.patching.planning.lock import differences, encode, read_lock
from auditor.patching.rebasing.work import FOLDER, STATE, read_state
from auditor.patching.sets.patchset import load_outline
from auditor.patching.write import state
from auditor.patching.write.disk import Root
from auditor.patching.write.journal import JOURNAL, Entry, Header, left_behind, recover
from auditor.trees.names import blob_id
from tests.fuzz import engine

_OUTLINE = b"title: T\nwhy: W\nupstreams:\n  sglang: {url: x}\norder: [one]\n"
_OLD, _NEW = b"old\n", b"new\n"


def _journal(*paths: str) -> bytes:
    entries = tuple(Entry(path, blob_id(_OLD), blob_id(_NEW), 0o644, 0o644, len(_OLD)) for path in paths)
    head = msgspec.json.encode(
        Header(1, "apply", "s: one", "0123456789abcdef", entries, ("made",), ("made",), None, "x")
    )
    return b"%d\n" % len(head) + head + _OLD * len(paths)


WORDS = (
    b'"schema":1', b'"schema":2', b'"path":"../out"', b'"path":"/abs"', b'"path":"a"', b'"path":".git/config"', b'"path":""', b"null", b"-1", b'"size":-4', b"[]", b"{}",
    b"\xff", b'"\\ud800"', b"[" * 2000, b'{"a":' * 2000, b'"token":"../../x"', b'"folders":["../x"]', b'"drop":[".."]', b'"\\u0000"',
)  # fmt: skip
SEEDS = (
    _journal("a", "sub/b"),
    _journal("../out"),
    b'{"schema":1,"patchset":"s","upstreams":{},"patches":[{"name":"one","sha256":"00","status":"clean","files":[{"path":"a","after":"1"}]}]}',
    b'{"schema":1,"project":"sglang","way":"folder","base":{"label":"x","tree":"t"},"result":"r","patches":[{"patchset":"s","name":"one","sha256":"0","status":"clean"}]}',
    b'{"schema":1,"onto":"x","tree":"t","patches":{"one":"0"},"open":[]}',
    b"",
)


def one_input(data: bytes) -> None:
    folder = engine.place() / "kept-set"
    (folder / FOLDER).mkdir(parents=True, exist_ok=True)
    (folder / "patchset.yaml").write_bytes(_OUTLINE)
    (folder / "patchset.lock").write_bytes(data)
    (folder / FOLDER / STATE).write_bytes(data)
    patchset = load_outline(folder)
    for read in (_lock, read_state, _record, _left):
        try:
            read(patchset if read is not _record else data)  # type: ignore[operator, arg-type]
        except UserError as error:
            assert error.render()


def _lock(patchset: object) -> None:
    folder = engine.place() / "kept-set" / "patchset.lock"
    lock = read_lock(patchset, folder)  # type: ignore[arg-type]
    differences(patchset, lock)  # type: ignore[arg-type]
    encode(lock)


def _record(data: bytes) -> None:
    found = state.decode(data, "state.json")
    assert state.decode(state.encode(found).encode(), "state.json") == found
    state.expected_files(found)
    state.how_it_stands(found, {"a": "1"})


def _left(patchset: object) -> None:
    """A journal that somebody else put there: nothing outside of the target changes, whatever it says."""
    around = engine.place() / "around"
    shutil.rmtree(around, ignore_errors=True)
    target, store = around / "target", around / "store"
    store.mkdir(parents=True)
    (target / "sub").mkdir(parents=True)
    (target / ".git").mkdir()
    kept = {around / "out": _OLD, target / ".git" / "config": b"[core]\n", store / "other": b"x"}
    for path, text in kept.items():
        path.write_bytes(text)
    (target / "a").write_bytes(_NEW)
    (store / JOURNAL).write_bytes((Path(engine.place()) / "kept-set" / "patchset.lock").read_bytes())
    with Root(target) as root:
        found = left_behind(root, store)
        if found is not None:
            recover(root, store, found, None)
    for path, text in kept.items():
        assert path.read_bytes() == text, f"{path.name} was written"
    assert {p.name for p in around.iterdir()} <= {"out", "target", "store"}, "something was made outside"
