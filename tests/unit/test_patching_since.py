"""Since when a tree has a patch: the commit by content, the release by tags or by the version file."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest
from test_patching_rebase import ONE, ROOT, A, change, commit, git, patchset

from auditor.patching.line import Line, gallop, turn
from auditor.patching.model import ChangeSet, FileChange
from auditor.patching.past.since import Since, since, since_edits
from auditor.patching.planning.plan import plan
from auditor.patching.planning.sources import Sources
from auditor.patching.port.carry import port
from auditor.patching.sets.patchset import load_patchset
from auditor.profile import load_profile
from auditor.trees.commit import CommitTree
from auditor.trees.folder import FolderTree
from auditor.trees.git import GitRepo
from auditor.trees.versions import first_release, main_line, release_by_bump, steps

PATH = ROOT + "srt/a.py"


def history(folder: Path, versions: list[Mapping[str, str | None]]) -> list[str]:
    """A clone with one commit per entry, named by its number; their ids."""
    return [commit(folder, files, f"change {n} (#{n + 100})") for n, files in enumerate(versions)]


def repo_at(folder: Path) -> GitRepo:
    return GitRepo.find(folder) or pytest.fail("no clone")


def asked(folder: Path, patch: FileChange, rev: str = "HEAD", **options: object) -> Since | None:
    repo = repo_at(folder)
    tree = CommitTree(repo, rev)

    def blob(oid: str) -> bytes | None:
        done = repo.run("cat-file", "blob", oid)
        return done.stdout if done.returncode == 0 else None

    changes = ChangeSet((patch,))
    outcome = port(changes, tree, blobs=blob)
    return since(changes, outcome, tree, repo, blobs=blob, **options)  # type: ignore[arg-type]


def grown(text: str, count: int) -> list[Mapping[str, str | None]]:
    """Versions that only add to the end."""
    return [
        {PATH: text + "".join(f"\n\ndef more_{n}():\n    return {n}\n" for n in range(k + 1))}
        for k in range(count)
    ]


@pytest.mark.parametrize("later", [0, 1, 9])
@pytest.mark.parametrize("before", [1, 6])
def test_the_commit_that_brought_it(tmp_path: Path, before: int, later: int) -> None:
    versions = [{PATH: A}, *grown(A, before), {PATH: ONE}, *grown(ONE, later)]
    ids = history(tmp_path / "c", versions)
    found = asked(tmp_path / "c", change(PATH, A, ONE))
    assert found is not None and found.oid == ids[before + 1]
    assert found.pr == str(101 + before) and (found.hunks, found.of) == (1, 1)
    assert found.release == "" and found.why == "the clone has no release tags"


def test_taken_back_and_brought_again_counts_from_the_last_time(tmp_path: Path) -> None:
    ids = history(tmp_path / "c", [{PATH: A}, {PATH: ONE}, {PATH: A + "\n"}, {PATH: ONE + "\n"}])
    found = asked(tmp_path / "c", change(PATH, A, ONE))
    assert found is not None and found.oid == ids[3]


def test_the_last_hunk_decides(tmp_path: Path) -> None:
    both = ONE.replace("c = 3", "c = 30")
    ids = history(tmp_path / "c", [{PATH: A}, {PATH: ONE}, {PATH: both}, {PATH: both + "\nx = 1\n"}])
    found = asked(tmp_path / "c", change(PATH, A, both))
    assert found is not None and found.oid == ids[2]


def test_a_file_that_moved_after_the_landing(tmp_path: Path) -> None:
    new = ROOT + "kernels/a.py"
    ids = history(tmp_path / "c", [{PATH: A}, {PATH: ONE}, {PATH: None, new: ONE}, {new: ONE + "\nx = 1\n"}])
    found = asked(tmp_path / "c", change(PATH, A, ONE))
    assert found is not None and found.oid == ids[1]


def test_the_lowest_release_with_the_commit(tmp_path: Path) -> None:
    folder = tmp_path / "c"
    ids = history(folder, [{PATH: A}, {PATH: ONE}, {PATH: ONE + "\nx = 1\n"}])
    git(folder, "tag", "v0.9.0", ids[0])
    git(folder, "tag", "v0.10.0", ids[2])
    git(folder, "tag", "v0.10.1", ids[2])
    git(folder, "tag", "nightly", ids[1])
    assert first_release(repo_at(folder), ids[1]) == ("0.10.0", True)
    found = asked(folder, change(PATH, A, ONE))
    assert found is not None and found.text() == f"since 0.10.0, {ids[1][:9]} #101, 1 of 1 hunk"
    git(folder, "tag", "-d", "v0.10.0", "v0.10.1")
    found = asked(folder, change(PATH, A, ONE))
    assert found is not None and (found.release, found.why) == ("", "in no release of this clone")


def test_the_release_by_the_version_file(tmp_path: Path) -> None:
    folder, version = tmp_path / "c", ROOT + "version.py"
    ids = history(
        folder,
        [
            {PATH: A, version: '__version__ = "1.0"\n'},
            {version: '__version__ = "1.1"\n'},
            {PATH: ONE},
            {version: '# a note\n__version__ = "1.1"\n'},
            {version: '# a note\n__version__ = "1.2.post1"\n'},
            {version: '__version__ = "1.3"\n'},
            {PATH: ONE + "\n"},
        ],
    )
    repo = repo_at(folder)
    assert release_by_bump(repo, main_line(repo), ids[2], [version]) == "1.2.post1"
    assert release_by_bump(repo, main_line(repo), ids[0], [version]) == "1.1"
    assert release_by_bump(repo, main_line(repo), ids[5], [version]) == "1.3"  # the commit that says so
    assert release_by_bump(repo, main_line(repo), ids[6], [version]) == ""
    found = asked(folder, change(PATH, A, ONE), version_files=[version])
    assert found is not None and found.release == "1.2.post1" and found.why == ""


def test_an_unpacked_wheel_is_looked_for_by_its_files(tmp_path: Path) -> None:
    folder = tmp_path / "c"
    ids = history(folder, [{PATH: A}, {PATH: ONE}, {PATH: A + "\n"}, {PATH: ONE + "\n"}])
    place = tmp_path / "wheel" / "sglang" / "srt" / "a.py"
    place.parent.mkdir(parents=True)
    place.write_text(ONE)
    patch = change(PATH, A, ONE)
    tree = FolderTree(tmp_path / "wheel")
    local = FileChange("sglang/srt/a.py", "sglang/srt/a.py", patch.hunks, patch.old_blob, patch.new_blob)
    outcome = port(ChangeSet((local,)), tree, blobs=lambda oid: A.encode())
    assert outcome.status == "upstream"
    found = since(
        ChangeSet((patch,)), outcome, tree, repo_at(folder), blobs=lambda oid: A.encode(), root="python/"
    )
    assert found is not None and found.oid == ids[1]


def test_what_is_not_upstream_has_no_since(tmp_path: Path) -> None:
    history(tmp_path / "c", [{PATH: A}, {PATH: A + "\n"}])
    assert asked(tmp_path / "c", change(PATH, A, ONE)) is None


def test_where_an_answer_turns() -> None:
    row = [False, False, True, False, False, True, True, True, True]
    asked_at: list[int] = []

    def test(place: int) -> bool:
        asked_at.append(place)
        return row[place]

    assert turn(test, 0, 8) == 5
    assert turn(lambda at: at >= 700, 0, 1000) == 700
    assert turn(lambda at: True, 0, 9) is None and turn(lambda at: False, 0, 9) is None
    assert gallop(lambda at: at > 3, 100) == 0 and gallop(lambda at: True, 100) is None
    assert gallop(lambda at: at > 90, 100) == 84


def test_versions_along_a_line(tmp_path: Path) -> None:
    new = ROOT + "b.py"
    ids = history(tmp_path / "c", [{PATH: A}, {PATH: ONE}, {PATH: None, new: ONE}])
    repo = repo_at(tmp_path / "c")
    found = steps(repo, ids[2], [PATH])
    assert [step.entry.oid for step in found] == ids
    assert found[0].changes[PATH][0] == "" and found[2].changes[PATH][1] == ""
    assert steps(repo, ids[2], [PATH]) == found  # as kept
    line = Line(repo, ids[2], [PATH])
    assert line.paths == [PATH, new] and line.renamed(3, PATH) == new
    assert line.last_with(PATH, found[1].changes[PATH][1]) == 2
    assert line.last_like({PATH: "", new: ""}) is None
    assert line.last_like({PATH: ""}) == 3


def test_since_when_the_edits_find_themselves_done(tmp_path: Path) -> None:
    sized = A.replace("def first():", "def first(size=1):")
    wanted = sized.replace("size=1", "size=2")
    ids = history(
        tmp_path / "c",
        [
            {PATH: A, ROOT + "version.py": '__version__ = "1"\n'},
            {PATH: sized},
            {PATH: wanted},
            {PATH: wanted.replace("size=2", "size = 2")},
        ],
    )
    found = patchset(tmp_path, {"one": [change(PATH, A, ONE)]})
    (found.folder / "patches" / "one.patch").unlink()
    (found.folder / "patches" / "one.yaml").write_text(
        "title: Another default\nwhy: {kind: local-only, reason: a test}\nedits:\n"
        '  - set-default: {in: sglang.srt.a.first, name: size, was: "1", to: "2"}\n'
    )
    found = load_patchset(found.folder)
    repo, profile = repo_at(tmp_path / "c"), load_profile("sglang")
    tree = CommitTree(repo, "HEAD")
    entry = plan(found, tree, profile).entries[0]
    assert entry.outcome.status == "upstream"
    told = since_edits(entry.patch, entry.outcome, tree, repo, profile, files=found.new_file)
    assert told is not None and told.oid == ids[2]


def test_merged_and_changed_since(tmp_path: Path) -> None:
    folder = tmp_path / "c"
    moved_on = ONE.replace("a = 10", "a = load(10)")
    first = {PATH: A, ROOT + "version.py": '__version__ = "1"\n'}
    versions: list[Mapping[str, str | None]] = [first, {PATH: ONE}, {PATH: moved_on}]
    ids = history(folder, versions)
    found = patchset(tmp_path, {"one": [change(PATH, A, ONE)]})
    repo, profile = repo_at(folder), load_profile("sglang")
    for at, status in ((0, "clean"), (1, "upstream"), (2, "upstream")):
        tree = CommitTree(repo, ids[at])
        sources = Sources(tree, [repo])
        entry = plan(found, tree, profile, sources=sources).entries[0]
        assert (at, entry.outcome.status) == (at, status)
        if at == 2:
            assert entry.outcome.note.startswith(f"merged as {ids[1][:12]}")
            told = since(entry.changes or ChangeSet(()), entry.outcome, tree, repo, blobs=sources.blob)
            assert told is not None and told.oid == ids[1]
    git(folder, "checkout", "-q", "-b", "side", ids[0])
    side = commit(folder, {PATH: A.replace("a = 1", "a = load(10)")}, "another")
    entry = plan(
        found, CommitTree(repo, side), profile, sources=Sources(CommitTree(repo, side), [repo])
    ).entries[0]
    assert entry.outcome.status == "conflict"  # the main line has it, this branch does not
