"""Which commit stopped a patch, what it did, and what is said where that is not known."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest
from test_patching_rebase import FILES, ONE, ROOT, A, change, commit, patchset

from auditor.patching.model import FileChange
from auditor.patching.past.explain import Explained, HunkStory, explain
from auditor.patching.planning.plan import plan
from auditor.patching.planning.sources import Sources
from auditor.patching.sets.patchset import load_patchset
from auditor.profile import Profile, load_profile
from auditor.trees.base import SourceTree
from auditor.trees.commit import CommitTree
from auditor.trees.folder import FolderTree
from auditor.trees.git import GitRepo

PATH = ROOT + "srt/a.py"
CLASH = A.replace("a = 1", "a = two_of(2)")


@pytest.fixture(scope="module")
def profile() -> Profile:
    return load_profile("sglang")


def told(
    tmp_path: Path,
    profile: Profile,
    versions: list[Mapping[str, str | None]],
    patches: Mapping[str, list[FileChange]],
    name: str,
    *,
    tree: SourceTree | None = None,
    with_clone: bool = True,
) -> tuple[Explained, list[str]]:
    folder = tmp_path / "clone"
    ids = [commit(folder, FILES, "base")]
    ids += [commit(folder, files, f"change {n} (#{n + 100})") for n, files in enumerate(versions, 1)]
    repo = GitRepo.find(folder) or pytest.fail("no clone")
    found = patchset(tmp_path, patches)
    tree = tree or CommitTree(repo, "HEAD")
    sources = Sources(tree, [repo] if with_clone else [])
    planned = plan(found, tree, profile, sources=sources, stop=False)
    return explain(planned, name, sources, repo if with_clone else None), ids


def one(found: Explained) -> HunkStory:
    assert found.entry.outcome.status == "conflict"
    (story,) = found.stories
    return story


def test_the_commit_after_which_the_hunk_does_not_go(tmp_path: Path, profile: Profile) -> None:
    versions = [
        {PATH: A + "\nx = 1\n"},
        {"other.txt": "x\n"},
        {PATH: CLASH + "\nx = 1\n", "other.txt": "y\n"},
        {PATH: CLASH + "\nx = 2\n"},
    ]
    found, ids = told(tmp_path, profile, versions, {"one": [change(PATH, A, ONE)]}, "one")
    story = one(found)
    assert story.culprit is not None and story.culprit.entry.oid == ids[3]
    assert story.culprit.entry.pr == "103" and story.symbol == "first" and story.why == ""
    assert story.culprit.files == (("M", "other.txt", "other.txt"), ("M", PATH, PATH))
    assert story.patch == (("-", "    a = 1"), ("+", "    a = 10"))
    assert story.upstream == (("-", "    a = 1"), ("+", "    a = two_of(2)"))
    assert story.also == ()


def test_each_commit_that_changed_the_lines_is_named(tmp_path: Path, profile: Profile) -> None:
    versions = [
        {PATH: "import re\n" + A},
        {PATH: "import re\n" + A.replace("return a", "return a + 0")},
        {PATH: "import re\n" + CLASH.replace("return a", "return a + 0")},
        {PATH: "import re\n" + CLASH.replace("return a", "return a + 0").replace("c = 3", "c = 4")},
    ]
    found, ids = told(tmp_path, profile, versions, {"one": [change(PATH, A, ONE)]}, "one")
    story = one(found)
    assert story.culprit is not None and story.culprit.entry.oid == ids[3]
    assert [entry.oid for entry in story.also] == [ids[2]]  # the line below; not the import, not the third


def test_a_file_that_is_gone_names_who_removed_it(tmp_path: Path, profile: Profile) -> None:
    gone = ROOT + "srt/gone.py"
    text = FILES[gone]
    versions = [{PATH: A + "\n"}, {gone: None}, {PATH: A + "\n\n"}]
    patch = change(gone, text, text.replace("x = 1", "x = 10"))
    found, ids = told(tmp_path, profile, versions, {"one": [patch]}, "one")
    story = one(found)
    assert story.culprit is not None and story.culprit.entry.oid == ids[2]
    assert ("D", gone, gone) in story.culprit.files and story.culprit.moved == ""
    assert [lost.name for lost in story.culprit.lost] == ["gone"]


def test_a_name_that_was_renamed_is_told(tmp_path: Path, profile: Profile) -> None:
    old = A.replace("def first", "def first_helper_of_all").replace("a = 1", "a = first_helper_of_all")
    new = old.replace("first_helper_of_all", "first_helper_of_every").replace("return a", "return [a]")
    mine = old.replace("a = first_helper_of_all", "a = first_helper_of_all or 1")
    versions = [{PATH: old}, {PATH: new}]
    found, ids = told(tmp_path, profile, versions, {"one": [change(PATH, old, mine)]}, "one")
    story = one(found)
    assert story.culprit is not None and story.culprit.entry.oid == ids[2]
    assert [(lost.name, lost.now) for lost in story.culprit.lost] == [
        ("first_helper_of_all", "first_helper_of_every")
    ]


def test_a_patch_on_top_of_another_is_tried_with_it(tmp_path: Path, profile: Profile) -> None:
    other = ONE.replace("b = 2", "b = 20")
    versions = [{PATH: A + "\nx = 1\n"}, {PATH: A.replace("b = 2", "b = 3") + "\nx = 1\n"}]
    patches = {"one": [change(PATH, A, ONE)], "two": [change(PATH, ONE, other)]}
    found, ids = told(tmp_path, profile, versions, patches, "two")
    story = one(found)
    assert story.culprit is not None and story.culprit.entry.oid == ids[2]
    assert story.symbol == "second"


def test_an_earlier_patch_in_the_way_is_no_commit_of_the_upstream(tmp_path: Path, profile: Profile) -> None:
    patches = {"one": [change(PATH, A, ONE)], "two": [change(PATH, A, A.replace("a = 1", "a = 7"))]}
    found, _ = told(tmp_path, profile, [{PATH: A + "\nx = 1\n"}], patches, "two")
    story = one(found)
    assert story.culprit is None
    assert story.why == "it goes on the upstream alone: one of the stack is in its way"


def test_without_a_clone_it_says_what_is_needed(tmp_path: Path, profile: Profile) -> None:
    wheel = tmp_path / "wheel"
    for name, text in {"version.py": '__version__ = "9"\n', "srt/a.py": CLASH}.items():
        (wheel / "sglang" / name).parent.mkdir(parents=True, exist_ok=True)
        (wheel / "sglang" / name).write_text(text)
    patches = {"one": [change(PATH, A, ONE)]}
    found, _ = told(tmp_path, profile, [], patches, "one", tree=FolderTree(wheel), with_clone=False)
    story = one(found)
    assert story.culprit is None and "--clone PATH" in story.why


def test_a_wheel_is_placed_on_the_line_by_its_files(tmp_path: Path, profile: Profile) -> None:
    wheel = tmp_path / "wheel"
    for name, text in {"version.py": '__version__ = "9"\n', "srt/a.py": CLASH}.items():
        (wheel / "sglang" / name).parent.mkdir(parents=True, exist_ok=True)
        (wheel / "sglang" / name).write_text(text)
    versions = [{PATH: CLASH}, {PATH: A.replace("a = 1", "a = 5")}]
    patches = {"one": [change(PATH, A, ONE)]}
    found, ids = told(tmp_path, profile, versions, patches, "one", tree=FolderTree(wheel))
    story = one(found)
    assert story.culprit is not None and story.culprit.entry.oid == ids[1] and story.why == ""
    (wheel / "sglang" / "srt" / "a.py").write_text(A.replace("a = 1", "a = 8"))
    (tmp_path / "b").mkdir()
    found, ids = told(tmp_path / "b", profile, versions, patches, "one", tree=FolderTree(wheel))
    story = one(found)  # not on the line: what is said is said of the line, and says so
    assert story.culprit is not None and story.culprit.entry.oid == ids[1]
    assert "itself is not on it" in story.why


def test_what_does_not_conflict_has_no_story(tmp_path: Path, profile: Profile) -> None:
    found, _ = told(tmp_path, profile, [{PATH: A + "\n"}], {"one": [change(PATH, A, ONE)]}, "one")
    assert found.entry.outcome.status == "clean" and found.stories == ()


SIZED = A.replace("def first():", "def first(size=1):")
AWAY = ROOT + "srt/other.py"


@pytest.mark.parametrize(
    ("third", "code"),
    [
        ({PATH: SIZED.replace("first", "primary")}, "P070"),
        ({PATH: SIZED.replace("size=1", "size=3")}, "P077"),
        ({PATH: None, AWAY: "z = 1\n"}, "P070"),
    ],
)
def test_an_edit_whose_place_went(
    tmp_path: Path, profile: Profile, third: dict[str, str | None], code: str
) -> None:
    folder = tmp_path / "clone"
    last = {path: text + "\nlast = 1\n" for path, text in third.items() if text}
    versions: list[Mapping[str, str | None]] = [{**FILES, PATH: SIZED}, {PATH: SIZED + "\n"}, third, last]
    ids = [commit(folder, files, f"change {n} (#{n + 100})") for n, files in enumerate(versions)]
    found = patchset(tmp_path, {"one": [change(PATH, A, ONE)]})
    (found.folder / "patches" / "one.patch").unlink()
    (found.folder / "patches" / "one.yaml").write_text(
        "title: Another default\nwhy: {kind: local-only, reason: a test}\nedits:\n"
        '  - set-default: {in: sglang.srt.a.first, name: size, was: "1", to: "2"}\n'
    )
    repo = GitRepo.find(folder) or pytest.fail("no clone")
    tree = CommitTree(repo, "HEAD")
    sources = Sources(tree, [repo])
    planned = plan(load_patchset(found.folder), tree, profile, sources=sources, stop=False)
    story = one(explain(planned, "one", sources, repo))
    assert story.fact.startswith(code) and story.what == "edit"
    assert story.culprit is not None and story.culprit.entry.oid == ids[2]
