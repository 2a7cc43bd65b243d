"""One patch for several forms of the tree: ``settled``, ``one-of`` and ``require``."""

from __future__ import annotations

import textwrap
from pathlib import Path

import pytest

from auditor import yamlio
from auditor.errors import UserError
from auditor.patching.edits import model
from auditor.patching.edits.apply import apply
from auditor.patching.edits.check import check_edits, check_settled
from auditor.patching.edits.signs import settled
from auditor.patching.model import Outcome
from auditor.patching.planning.plan import plan
from auditor.patching.sets.header import PatchFile
from auditor.patching.sets.patchset import load_patchset
from auditor.profile import load_profile
from auditor.queries.exampletree import PROFILE, MemoryTree

OLD = "def pick(sm):\n    if sm == 120:\n        return 1\n    return 2\n"


def read(text: str) -> PatchFile:
    document = yamlio.load(("title: A patch\n" + textwrap.dedent(text)).encode(), "p.yaml", code="P022")
    file = document.convert(PatchFile)
    check_edits(file.edits, document)
    check_settled(file.settled, document)
    return file


def made(text: str, files: dict[str, str]) -> Outcome:
    return apply(read(text).edits, MemoryTree(files), PROFILE)


TWO_PLACES = """
    edits:
      - one-of:
          variants:
            - title: in a
              edits:
                - replace: {in: example.a.pick, find: $SM == 120, with: "$SM in (120, 121)"}
            - title: in b, later
              edits:
                - replace: {in: example.b.choose, find: $SM == 120, with: "$SM in (120, 121)"}
            - title: nowhere any more
              when: [{in: example.c, has: KNOWN = True}]
    """


def test_the_first_variant_is_what_it_was_made_for() -> None:
    done = made(TWO_PLACES, {"example/a.py": OLD})
    assert (done.status, [h.note for h in done.hunks]) == ("clean", [""])
    assert b"sm in (120, 121)" in (done.files["example/a.py"] or b"")


def test_another_variant_is_moved_and_says_where_to() -> None:
    done = made(TWO_PLACES, {"example/b.py": OLD.replace("pick", "choose")})
    assert done.status == "moved"
    assert [(h.to_path, h.note) for h in done.hunks] == [("example/b.py", "in b, later")]
    assert list(done.files) == ["example/b.py"]


def test_a_variant_without_edits_has_nothing_to_do() -> None:
    done = made(TWO_PLACES, {"example/c.py": "KNOWN = True\n"})
    assert (done.status, done.hunks, done.files) == ("upstream", (), {})


def test_no_variant_goes_and_each_says_why() -> None:
    done = made(TWO_PLACES, {"example/a.py": "def pick(sm):\n    return sm > 100\n"})
    (hunk,) = done.hunks
    assert (done.status, done.files) == ("conflict", {})
    assert hunk.note.startswith("P071: no variant goes; in a: P071: `$SM == 120` matches 0 places")
    assert "nowhere any more: example.c is of another form" in hunk.note


def test_a_variant_that_fails_half_way_leaves_nothing_behind() -> None:
    text = """
        edits:
          - one-of:
              variants:
                - title: both
                  edits:
                    - set-constant: {in: example.a, name: A, was: "1", to: "2"}
                    - set-constant: {in: example.a, name: GONE, was: "1", to: "2"}
                - title: one
                  edits:
                    - set-constant: {in: example.a, name: B, was: "1", to: "2"}
        """
    done = made(text, {"example/a.py": "A = 1\nB = 1\n"})
    assert (done.status, done.files) == ("moved", {"example/a.py": b"A = 1\nB = 2\n"})


def test_made_twice_it_is_there_already() -> None:
    once = made(TWO_PLACES, {"example/b.py": OLD.replace("pick", "choose")}).files["example/b.py"] or b""
    again = made(TWO_PLACES, {"example/b.py": once.decode()})
    assert (again.status, again.files) == ("upstream", {})


def test_the_place_is_looked_for_elsewhere_only_where_no_variant_names_it() -> None:
    files = {"example/b.py": OLD.replace("pick", "choose"), "example/z.py": OLD}
    assert list(made(TWO_PLACES, files).files) == ["example/b.py"]
    del files["example/b.py"]
    assert list(made(TWO_PLACES, files).files) == ["example/z.py"]


LAYOUT = """
    edits:
      - require: {in: example.cache, has: BYTES = 576, because: the kernel reads this layout}
      - replace: {in: example.a.pick, find: $SM == 120, with: "$SM in (120, 121)"}
    """


def test_a_constant_that_changed_refuses_the_patch() -> None:
    done = made(LAYOUT, {"example/a.py": OLD, "example/cache.py": "BYTES = 656\n"})
    assert (done.status, done.files) == ("conflict", {})
    assert done.hunks[0].note == (
        "P080: example/cache.py does not have `BYTES = 576`: the kernel reads this layout; "
        "nearest: line 1 `BYTES = 656`"
    )


def test_what_is_required_is_no_part_of_the_change() -> None:
    done = made(LAYOUT, {"example/a.py": OLD, "example/cache.py": "BYTES = 576\n"})
    assert (done.status, list(done.files)) == ("clean", ["example/a.py"])
    there = OLD.replace("sm == 120", "sm in (120, 121)")
    done = made(LAYOUT, {"example/a.py": there, "example/cache.py": "BYTES = 576\n"})
    assert done.status == "upstream"


@pytest.mark.parametrize(
    ("sign", "files", "there"),
    [
        ("has: sm == 120", {"example/a.py": OLD}, True),
        ("has: sm == 121", {"example/a.py": OLD}, False),
        ("has: sm == 120", {"example/b.py": OLD}, False),
        ("has: sm == 120", {"example/b.py": OLD, "example/a.py": "from example.b import pick\n"}, True),
        ("lacks: sm == 121", {"example/a.py": OLD}, True),
        ("lacks: sm == 120", {"example/a.py": OLD}, False),
        ("lacks: sm == 120", {"example/b.py": OLD}, False),
        ("gone: true", {"example/a.py": OLD}, False),
        ("gone: true", {"example/b.py": OLD}, False),
        ("gone: true", {"example/b.py": "x = 1\n"}, True),
    ],
)
def test_signs(sign: str, files: dict[str, str], there: bool) -> None:
    rows = read(f"""
        settled:
          - as: obsolete
            since: "2.0"
            because: it is so
            when: [{{in: example.a.pick, {sign}}}]
        """).settled
    found = settled(rows, MemoryTree(files), PROFILE)
    said = (found.status, found.note) if found is not None else None
    assert said == (("obsolete", "since 2.0: it is so") if there else None)


@pytest.mark.parametrize(
    ("text", "place", "fact"),
    [
        ("edits:\n  - require: {in: a.b}\n", "p.yaml:3:14", "one of has, lacks, gone says where"),
        (
            "edits:\n  - require: {in: a.b, has: x, gone: true}\n",
            "p.yaml:3:14",
            "one of has, lacks, gone says where",
        ),
        (
            "settled:\n  - {as: upstream, because: b, when: [{in: a.b, has: 'x ='}]}\n",
            "p.yaml:3:54",
            "the pattern is not Python",
        ),
        (
            "edits:\n  - one-of:\n      variants:\n        - {title: a}\n        - {title: b}\n",
            "p.yaml:5:11",
            "a variant without edits says by `when` in which form nothing is to be done",
        ),
    ],
)
def test_mistakes_have_their_place(text: str, place: str, fact: str) -> None:
    with pytest.raises(UserError) as caught:
        read(text)
    assert caught.value.place == place
    assert fact in str(caught.value)


def test_within_an_if_is_its_branch() -> None:
    text = """
        edits:
          - guard:
              in: example.a
              within: |
                if a():
                    $...BODY
              at: x.set(1)
              if: not x.is_set()
        """
    before = "if a():\n    x.set(1)\nelif b():\n    x.set(1)\nelse:\n    x.set(1)\n"
    done = made(text, {"example/a.py": before})
    assert done.files == {
        "example/a.py": b"if a():\n    if not x.is_set():\n        x.set(1)\n"
        b"elif b():\n    x.set(1)\nelse:\n    x.set(1)\n"
    }


def test_a_settled_reference_needs_no_clone(tmp_path: Path) -> None:
    folder = tmp_path / "mine"
    (folder / "patches").mkdir(parents=True)
    (folder / "patchset.yaml").write_text("title: Mine\nupstreams: {sglang: {}}\norder: [one]\n")
    (folder / "patches" / "one.yaml").write_text(
        "title: One\nupstream: {commit: 0123abc}\n"
        "settled:\n  - as: upstream\n    since: 0.5.14\n    because: its function is there\n"
        "    when: [{in: sglang.srt.a.new, has: return $_}]\n"
    )
    found = load_patchset(folder)
    tree = MemoryTree(
        {"python/sglang/version.py": "", "python/sglang/srt/a.py": "def new():\n    return 1\n"}
    )
    (entry,) = plan(found, tree, load_profile("sglang")).entries
    assert (entry.outcome.status, entry.outcome.note) == ("upstream", "since 0.5.14: its function is there")
    assert isinstance(found.patches[0].file, PatchFile)
    assert found.patches[0].file.settled[0].when == (model.Sign(in_="sglang.srt.a.new", has="return $_"),)
