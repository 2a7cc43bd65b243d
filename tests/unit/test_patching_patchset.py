"""Patchsets: reading them strictly, both spellings of a head, schemas, scaffolds."""

from __future__ import annotations

from pathlib import Path

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

from auditor import yamlio
from auditor.cli import groups
from auditor.cli.clickrun import run
from auditor.data import data_root
from auditor.errors import UserError
from auditor.patching.diffs.parse import parse_patch
from auditor.patching.diffs.write import write_patch
from auditor.patching.sets.header import (
    STATUS_WORDS,
    Expectation,
    Header,
    Why,
    from_fields,
    patch_schema,
    split_status,
    status_of_dep3,
    to_fields,
    with_header,
)
from auditor.patching.sets.lint import lint_patchset
from auditor.patching.sets.patchset import (
    find_patchset,
    list_patchsets,
    load_patchset,
    patchset_schema,
)

DIFF = """\
diff --git a/pkg/mod.py b/pkg/mod.py
--- a/pkg/mod.py
+++ b/pkg/mod.py
@@ -1,3 +1,3 @@
 a
-b
+B
 c
"""
PATCHSET = """\
title: Mine
upstreams:
  sglang: {versions: ">=0.5.12,<0.6"}
  flashinfer: {}
order: [one, two, three]
"""
REFERENCE = """\
title: By reference
why: {kind: going-upstream, link: "https://example.org/3"}
removal: when it is released
status: Submitted [https://example.org/3]
upstream: {commit: 1234567}
exclude: ["test/**"]
"""
EDITS = """\
title: Structural
why: {kind: local-only, reason: nobody else has the card}
removal: when upstream tests the card
status: Inappropriate [card of ours]
requires: [one]
targets: [sm_120]
verify:
  - gate: area/name
    expect: {sm_120: true, default: unchanged}
edits:
  - add-import: {in: pkg.mod, import: "import os"}
"""
HEAD = """\
Subject: Open the gate
Upstream-Status: Pending
X-Why: local-only: no card upstream
X-Removal: when the card is tested
---
"""


def made(folder: Path, **files: str) -> Path:
    root = folder / "patchsets" / "mine"
    texts = {
        "patchset.yaml": PATCHSET,
        "patches/one.patch": HEAD + DIFF,
        "patches/two.yaml": REFERENCE,
        "patches/three.yaml": EDITS,
        **files,
    }
    for name, text in texts.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


def test_loading(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = load_patchset(made(tmp_path))
    one, two, three = found.patches
    assert [patch.form for patch in found.patches] == ["diff", "reference", "structural"]
    assert one.header.why == Why(kind="local-only", reason="no card upstream")
    assert one.changes is not None and one.changes.changes[0].path == "pkg/mod.py"
    assert two.reference is not None and two.reference.commit_id() == "1234567"
    assert two.file is not None and two.file.exclude == ("test/**",)
    assert three.edits == ({"add-import": {"in": "pkg.mod", "import": "import os"}},)
    assert three.document is not None and three.document.place("edits", 0).endswith("three.yaml:11:5")
    assert three.header.verify[0].expected() == {"sm_120": "true", "default": "unchanged"}
    assert found.project_of(three) == "sglang"
    assert three.place == f"{found.folder.as_posix()}/patches/three.yaml"
    monkeypatch.chdir(tmp_path)
    assert load_patchset(found.folder).patches[2].place == "patchsets/mine/patches/three.yaml"
    with pytest.raises(UserError) as caught:
        found.patch("tow")
    assert caught.value.hints == (f"patches show {found.typed} two",)


@pytest.mark.parametrize(
    ("file", "old", "new", "code", "place"),
    [
        ("patchset.yaml", "title: Mine", "titel: Mine", "P021", "patchset.yaml:1:1"),
        ("patchset.yaml", "order: [one, two, three]", "order: one", "P021", "patchset.yaml:5:8"),
        ("patchset.yaml", "order: [one, two, three]", "order: [One]", "P021", "patchset.yaml:5:9"),
        ("patchset.yaml", "two, three", "two, four", "P024", "patchset.yaml:5:19"),
        ("patches/two.yaml", "commit: 1234567", "commit: main", "P022", "two.yaml:5:20"),
        ("patches/two.yaml", "commit: 1234567", "range: 1234567..HEAD", "P022", "two.yaml:5:19"),
        ("patches/two.yaml", "commit: 1234567", "pr: 0", "P022", "two.yaml:5:11"),
        ("patches/two.yaml", "commit: 1234567", "commit: 1234567, pr: 3", "P022", "two.yaml:5:11"),
        ("patches/two.yaml", "going-upstream", "upstreaming", "P022", "two.yaml:2"),
        ("patches/three.yaml", "edits:", "upstream: {pr: 1}\nedits:", "P022", "three.yaml:1:1"),
        ("patches/one.patch", "X-Why: local-only", "X-Why: because", "P022", "one.patch"),
        ("patches/one.patch", "-1,3 +1,3", "-1,4 +1,4", "P002", "one.patch:9"),
    ],
)
def test_what_cannot_be_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, file: str, old: str, new: str, code: str, place: str
) -> None:
    root = made(tmp_path)
    monkeypatch.chdir(tmp_path)
    text = (root / file).read_text()
    assert old in text
    (root / file).write_text(text.replace(old, new))
    with pytest.raises(UserError) as caught:
        load_patchset(root)
    assert caught.value.code == code
    assert place in (caught.value.place or "")
    assert str(tmp_path) not in caught.value.render()
    problems = lint_patchset(root)
    assert any(problem.code == code and place in problem.place for problem in problems)


def test_two_files_for_one_patch(tmp_path: Path) -> None:
    root = made(tmp_path, **{"patches/one.yaml": REFERENCE})
    with pytest.raises(UserError, match="two files"):
        load_patchset(root)


def test_a_link_is_no_patch(tmp_path: Path) -> None:
    root = made(tmp_path)
    (root / "patches" / "two.yaml").rename(tmp_path / "elsewhere.yaml")
    (root / "patches" / "two.yaml").symlink_to(tmp_path / "elsewhere.yaml")
    with pytest.raises(UserError, match="no file for this patch"):
        load_patchset(root)


def test_finding(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made(tmp_path)
    monkeypatch.chdir(tmp_path)
    assert find_patchset("mine") == Path("patchsets/mine")
    assert find_patchset("patchsets/mine") == Path("patchsets/mine")
    assert ("mine", Path("patchsets/mine")) in list_patchsets()
    with pytest.raises(UserError) as caught:
        find_patchset("mime")
    assert "patches show mine" in caught.value.hints
    with pytest.raises(UserError, match="no such folder"):
        list_patchsets(Path("elsewhere"))


TEXT = st.text(st.sampled_from("abc äB-1."), min_size=1, max_size=20).map(
    lambda text: " ".join(text.split()) or "x"
)
WORD = st.sampled_from(["one", "two-b", "c.3"])
EXPECT = st.builds(
    lambda kind, value: Expectation(**{kind: "area/name"}, expect={"sm_120": value, "default": "unchanged"}),
    st.sampled_from(["query", "gate", "predicate"]),
    st.sampled_from(["true", "same", "2"]),
)
HEADERS = st.builds(
    Header,
    title=TEXT,
    why=st.none()
    | st.builds(
        Why,
        kind=st.sampled_from(["going-upstream", "local-only", "incompatible"]),
        reason=TEXT | st.just(""),
        link=st.sampled_from(["", "https://example.org/1", "#12"]),
    ),
    removal=TEXT | st.just(""),
    status=st.sampled_from(
        ["", "Pending", "Denied", "Submitted [https://example.org/1]", "Backport [1234567]"]
    ),
    applies=st.dictionaries(
        st.sampled_from(["sglang", "deep-gemm"]), st.sampled_from(["", ">=1,<2", "==1.0"])
    ),
    requires=st.lists(WORD, unique=True).map(tuple),
    targets=st.lists(st.sampled_from(["sm_120", "sm_12*"]), unique=True).map(tuple),
    project=st.sampled_from(["", "flashinfer"]),
    upstreamed_when=st.none() | EXPECT,
    verify=st.lists(EXPECT, max_size=2).map(tuple),
    author=st.sampled_from(["", "A Person <a@example.org>"]),
    description=st.lists(TEXT, max_size=3).map("\n\n".join),
)


@given(HEADERS)
def test_a_head_survives_as_fields(header: Header) -> None:
    changes = parse_patch(DIFF.encode())
    for mbox in (False, True):
        written = write_patch(with_header(header, changes), mbox=mbox)
        again = from_fields(parse_patch(written), "none")
        for name in Header.__struct_fields__:
            if name != "fields":  # those are what the status says in DEP-3
                assert getattr(again, name) == getattr(header, name), name
        assert write_patch(with_header(again, changes), mbox=mbox) == written


@pytest.mark.parametrize(
    ("fields", "status"),
    [
        ({}, ""),
        ({"Forwarded": "no"}, "Pending"),
        ({"Forwarded": "not-needed"}, "Inappropriate [not needed upstream]"),
        ({"Forwarded": "https://example.org/1"}, "Submitted [https://example.org/1]"),
        ({"Forwarded": "yes", "Bug": "https://example.org/2"}, "Submitted [https://example.org/2]"),
        ({"Applied-Upstream": "0.5.20"}, "Backport [0.5.20]"),
        ({"Origin": "backport, commit:1234567"}, "Backport [commit:1234567]"),
        ({"Origin": "vendor"}, ""),
    ],
)
def test_dep3_and_yocto(fields: dict[str, str], status: str) -> None:
    assert status_of_dep3(fields) == status
    if status:
        split_status(status)


def test_status_words() -> None:
    assert split_status("Submitted [x]") == ("Submitted", "x")
    for bad in ("Submitted", "Backport", "Inappropriate", "pending", "Pending because", "Accepted", ""):
        with pytest.raises(UserError) as caught:
            split_status(bad)
        assert caught.value.code == "P023"
    for word, needed in STATUS_WORDS.items():
        if not needed:
            assert split_status(word) == (word, "")
    assert dict(to_fields(Header(title="x", status="Inappropriate [ours]")))["Forwarded"] == "not-needed"


def test_schemas() -> None:
    folder = data_root() / "reports" / "schema"
    for name, schema in (("patchset-1.json", patchset_schema()), ("patch-1.json", patch_schema())):
        path = folder / name
        if not path.exists():  # the first time
            path.write_bytes(schema)
        assert path.read_bytes() == schema, "the types changed: delete the file and run this test once"
    import json

    whole = json.loads(patchset_schema())
    jsonschema.Draft202012Validator.check_schema(whole)
    jsonschema.validate(yamlio.load(PATCHSET.encode()).data, whole)
    part = json.loads(patch_schema())
    for text in (REFERENCE, EDITS):
        jsonschema.validate(yamlio.load(text.encode()).data, part)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({"title": "x", "colour": 1}, part)


def test_new(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(tmp_path)
    patches = groups.patches
    assert run(patches, "patches", ["new", "mine", "--title", "What: it is"]) == 0
    assert run(patches, "patches", ["new", "mine", "fix", "--pr", "12"]) == 0
    assert run(patches, "patches", ["new", "mine", "open-gate"]) == 0
    assert run(patches, "patches", ["new", "mine", "back", "--commit", "1234567", "--title", "Bring it"]) == 0
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    assert run(patches, "patches", ["new", "mine"]) == 2
    assert run(patches, "patches", ["new", "mine", "fix"]) == 2
    assert run(patches, "patches", ["new", "mine", "Bad Name"]) == 2
    assert "patches new mine bad-name" in capsys.readouterr().err
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == before
    found = load_patchset(tmp_path / "patchsets" / "mine")
    assert found.file.title == "What: it is"
    assert [(patch.name, patch.form) for patch in found.patches] == [
        ("fix", "reference"), ("open-gate", "structural"), ("back", "reference"),
    ]  # fmt: skip
    assert lint_patchset(tmp_path / "patchsets" / "mine") == []
    assert run(patches, "patches", ["list"]) == 0
    listed = [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]
    assert "mine 3 patches What: it is (sglang)" in listed
    assert run(patches, "patches", ["show", "mine"]) == 0
    assert "back       Pending  upstream 1234567  Bring it" in capsys.readouterr().out
    monkeypatch.setattr("auditor.cli.patches.show._room", lambda: 36)
    assert run(patches, "patches", ["show", "mine"]) == 0
    narrow = capsys.readouterr().out.splitlines()
    at = narrow.index("back       Bring it")
    assert narrow[at + 1] == "           Pending · upstream" and narrow[at + 2] == "           1234567"
    assert max(map(len, narrow[at:])) <= 36


def test_show(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    made(tmp_path)
    monkeypatch.chdir(tmp_path)
    assert run(groups.patches, "patches", ["show", "mine", "one", "--diff"]) == 0
    out = capsys.readouterr().out
    assert "why      local-only: no card upstream\n" in out
    assert "  pkg/mod.py  +1 -1\n" in out
    assert out.endswith(DIFF)
    assert run(groups.patches, "patches", ["show", "mine", "three"]) == 0
    assert "verify    gate area/name: sm_120 true, default unchanged\n" in capsys.readouterr().out


def test_the_patchsets_that_come_with_the_tool_are_well_formed() -> None:
    for _, folder in list_patchsets(data_root() / "patchsets"):
        assert lint_patchset(folder) == []


def test_pages_as_json(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    import json

    made(tmp_path)
    (tmp_path / "x.patch").write_text(DIFF)
    monkeypatch.chdir(tmp_path)
    pages = {}
    for words in (
        ["show", "mine"],
        ["list"],
        ["lint"],
        ["diff", "mine", "mine"],
        ["import", "x.patch", "--into", "x"],
    ):
        run(groups.patches, "patches", [*words, "--format", "json"])
        pages[words[0]] = json.loads(capsys.readouterr().out)
        assert pages[words[0]]["schema_version"] == "1.0"
        assert str(tmp_path) not in json.dumps(pages[words[0]])
    assert [patch["form"] for patch in pages["show"]["patches"]] == ["diff", "reference", "structural"]
    assert pages["show"]["patches"][0]["header"]["why"] == {
        "kind": "local-only",
        "reason": "no card upstream",
    }
    assert pages["diff"]["same"] is True
    assert pages["import"]["inputs"][0]["paths"] == ["pkg/mod.py"] and pages["import"]["complete"] is True


def test_a_patchset_is_called_as_it_can_be_typed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    text = "title: T\nupstreams: {sglang: {}}\norder: []\n"
    for folder in ("patchsets/near", "far/away", "alone"):
        (tmp_path / folder).mkdir(parents=True)
        (tmp_path / folder / "patchset.yaml").write_text(text)
    assert load_patchset("near").typed == "near"
    assert load_patchset("patchsets/near").typed == "near"
    assert load_patchset("far/away").typed == "far/away"
    assert load_patchset("alone").typed == "./alone"
    assert load_patchset("away", Path("far")).typed == "away --folder far"
    for folder in ("near", "far/away", "./alone"):
        assert load_patchset(load_patchset(folder).typed).folder == load_patchset(folder).folder
