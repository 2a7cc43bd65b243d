"""Whether an earlier report holds for a tree, question by question, on records written by hand."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from auditor import tooldigest
from auditor.arch import load_targets
from auditor.errors import UserError
from auditor.gates import cache as cache_module
from auditor.gates.arms import effects
from auditor.gates.audit import AuditOptions, audit
from auditor.gates.cache import Kept, Record, Sources, listing_digest
from auditor.gates.discover import show
from auditor.gates.takeover import Taken, taken
from auditor.gates.verdicts import exact_miss
from auditor.program.same import Different, Moved
from auditor.program.values import External
from auditor.queries.exampletree import PRELUDE, PROFILE, MemoryTree

FILES = {**PRELUDE, "example/other.py": "def work(x):\n    return x + 1\n", "notes.txt": "x"}
TREE = MemoryTree(FILES)


class Texts:
    """Earlier texts by blob id."""

    def __init__(self, tree: MemoryTree) -> None:
        self._texts = {blob: tree.read(path) for path, blob in tree.blobs().items()}

    def contents(self, ids: Sequence[str]) -> list[bytes] | None:
        return [self._texts[oid] for oid in ids]


def record(**changes: Any) -> dict[str, Any]:
    """What an audit of the tree looked at that looked at nothing."""
    blobs = TREE.blobs()
    return {
        "root": "",
        "files": {path: blob for path, blob in blobs.items() if path.endswith(".py")},
        "left_out": 0,
        "read": ["example/gpu.py"],
        "others": {"notes.txt": blobs["notes.txt"]},
        "there": {"setup.cfg": False},
        "listing": None,
        "matching": {r".*\.cu": []},
        "asked": ["example.gpu"],
        "bases": [],
        "words": [],
        "readers": [],
        "vocabularies": [],
        "modules": {},
        "noted": {},
        "scanned": [],
        "everywhere": [],
        "hot": [],
        "members": [],
        "globals": [],
        "native": "",
        "assumed": [],
        **changes,
    }


def holds(changes: dict[str, str | None], asked: dict[str, Any], sources: Any = None) -> bool:
    files: dict[str, str] = {path: text for path, text in {**FILES, **changes}.items() if text is not None}
    how = taken(record(**asked), MemoryTree(files), PROFILE, sources or Texts(TREE))
    assert how is None or how.count == sum(path.endswith(".py") for path in files)
    return how is not None


OTHER = {"example/other.py": "def work(x):\n    return x + 2\n"}


@pytest.mark.parametrize(
    ("changes", "asked", "wanted"),
    [
        ({}, {}, True),
        (OTHER, {}, True),
        ({"example/other.py": None}, {}, True),
        ({"example/new.py": "X = 1\n"}, {}, True),
        ({"example/deep/new.py": "X = 1\n"}, {}, True),
        ({}, {"root": "python"}, False),
        ({"example/__init__.py": None}, {}, False),
        ({"notes.txt": "y"}, {}, False),
        ({"notes.txt": None}, {}, False),
        ({"setup.cfg": ""}, {}, False),
        ({"a.cu": ""}, {}, False),
        ({}, {"listing": listing_digest(TREE.blobs())}, True),
        ({"a.txt": ""}, {"listing": listing_digest(TREE.blobs())}, False),
        ({}, {"native": "digest"}, False),
        ({"example/gpu.py": "X = 1\n"}, {}, False),
        ({"example/gpu.py": None}, {}, False),
        ({"example/new.py": "X = 1\n"}, {"asked": ["example.new"]}, False),
        ({"example/deep/new.py": "X = 1\n"}, {"asked": ["example.deep"]}, False),
        ({"example/other.py": None}, {"asked": ["example.other"]}, False),
        (OTHER, {"everywhere": ["x + 2"]}, False),
        (OTHER, {"everywhere": ["x + 3"]}, True),
        (OTHER, {"modules": {"example/other.py": None}}, False),
        ({"example/other.py": "#" * 5_000_000}, {}, False),
    ],
)
def test_a_report_holds_where_nothing_that_was_asked_differs(
    changes: dict[str, str | None], asked: dict[str, Any], wanted: bool
) -> None:
    assert holds(changes, asked) == wanted


def test_earlier_texts_that_nobody_has_are_not_guessed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SGLANG_AUDITOR_CACHE_DIR", str(tmp_path))
    assert not holds(dict(OTHER), {}, Sources("0" * 64))
    assert holds({}, {}, Sources("0" * 64)), "nothing is asked of it"


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("nothing in it", "nothing in it"),
        ("at one.py:12", "at one.py:16"),
        ("at pkg/one.py:12 and pkg/one.py:11", "at pkg/one.py:16 and pkg/one.py:15"),
        ("at gone.py:12", "at gone.py:12"),
        ("at two.py:12", "at two.py:12"),
        ("at same.py:12", None),  # two files of that name, moved differently
        ("at one.py:99", None),  # no longer as long: texts may be sorted otherwise
        ("at one.py:13", None),  # a line that nobody saw
    ],
)
def test_places_in_texts_move_with_their_lines(text: str, wanted: str | None) -> None:
    lines = {"pkg/one.py": Moved(), "pkg/a/same.py": Moved()}
    lines["pkg/one.py"].add(10, 12, 14)
    lines["pkg/one.py"].add(99, 99, 101)
    lines["pkg/a/same.py"].add(10, 12, 14)
    how = Taken(4, lines, ["pkg/a/same.py", "pkg/b/same.py", "pkg/one.py", "pkg/two.py"])
    if wanted is None:
        with pytest.raises(Different):
            how._text(text)
    else:
        assert how._text(text) == wanted


def test_a_cache_that_cannot_keep_keeps_nothing_half(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = cache_module.Asked(("sm_120",), "sm_100", {}, False, "sglang")
    unused = Kept(asked._replace(use_cache=False))
    unused.put(TREE.info(), b"report")
    assert unused.get(TREE.info()) is None and list(unused.taken_over(TREE, PROFILE)) == []
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("SGLANG_AUDITOR_CACHE_DIR", str(tmp_path / "file"))
    full = Kept(asked)
    full.put(TREE.info(), b"report", Record(TREE))
    assert full.get(TREE.info()) is None
    monkeypatch.setenv("SGLANG_AUDITOR_CACHE_DIR", str(tmp_path / "there"))
    kept = Kept(asked)
    kept.put(TREE.info(), b"report", Record(TREE))  # of which everything may have been looked at
    assert kept.get(TREE.info()) == b"report" and list(kept.taken_over(TREE, PROFILE)) == []


def test_the_tool_is_its_code_and_not_what_is_made_of_it(tmp_path: Path) -> None:
    for name in ("a.py", "b.txt", "__pycache__/c.py", "_data/d.py", "deep/e.json"):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text("")
    found = tooldigest._files(str(tmp_path), (".py", ".json"))
    assert sorted(path[len(str(tmp_path)) + 1 :] for path in found) == ["a.py", "deep/e.json"]


# --- what an audit says of trees and targets that are not there


def options(**more: Any) -> AuditOptions:
    return AuditOptions(
        **{"targets": ("sm_120",), "profile": PROFILE, "queries": (), "use_cache": False, **more}
    )


def test_a_target_or_a_tree_that_is_none_is_refused() -> None:
    with pytest.raises(UserError) as caught:
        audit(TREE, options(reference="sm_999"))
    assert "sm_999" in caught.value.fact
    with pytest.raises(UserError) as caught:
        audit(MemoryTree({"a.py": ""}), options())
    assert caught.value.code == "T020" and "example/__init__.py" in caught.value.fact


def test_a_file_that_is_too_large_is_a_problem_of_its_own() -> None:
    report = audit(MemoryTree({**FILES, "example/table.py": "#" * 4_000_001}), options())
    (problem,) = report.problems
    assert (problem.path, problem.message) == (
        "example/table.py",
        "left out: 4,000,001 bytes, more than 4,000,000",
    )


def test_an_annotated_name_without_a_value_sets_nothing() -> None:
    import ast

    body = ast.parse("x: int\ny: int = 1\nz = f(2)").body
    assert [(e.kind, e.what) for e in effects(body, ())] == [
        ("set", "y = 1"),
        ("call", "f(2)"),
        ("set", "z = f(2)"),
    ]


def test_a_lone_target_of_a_family_has_no_sibling_to_fall_behind() -> None:
    majors = {name: target.capability[0] for name, target in load_targets().items()}
    of = [name for name, major in majors.items() if major == 12]
    truth: dict[str, Any] = {name: "true" for name in majors}
    truth.update(dict.fromkeys(of, "false"), **{of[0]: "unknown"})
    one = {name: value for name, value in truth.items() if majors[name] != 12 or name == of[0]}
    assert exact_miss(one, {name: majors[name] for name in one}) == set()


def test_names_from_outside_are_shown_by_their_names() -> None:
    assert show(External("torch.float16")) == "torch.float16"
