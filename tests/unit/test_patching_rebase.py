"""A patchset moved to a new base: what is written, what is refused, and that nothing is lost."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest

from auditor.errors import UserError
from auditor.patching.diffs.lines import file_change
from auditor.patching.diffs.parse import parse_patch
from auditor.patching.diffs.write import write_diff
from auditor.patching.model import FileChange
from auditor.patching.planning.chain import Chain
from auditor.patching.planning.sources import Sources
from auditor.patching.rebasing.rebase import Rebased, rebase, without
from auditor.patching.rebasing.work import both_sides, check_state, given_by, read_state, state_of, work_files
from auditor.patching.sets.patchset import Patchset, load_patchset
from auditor.profile import Profile, load_profile
from auditor.trees.commit import CommitTree
from auditor.trees.folder import FolderTree
from auditor.trees.git import GitRepo
from auditor.trees.names import blob_id

ROOT = "python/sglang/"
A = """\
import os


def first():
    a = 1
    return a


def second():
    b = 2
    return b


def third():
    c = 3
    return c
"""
MODES = "policy:\n  allow: [modes]\n"
FILES = {
    ROOT + "version.py": '__version__ = "1.0"\n',
    ROOT + "srt/a.py": A,
    ROOT + "srt/gone.py": "def gone():\n    x = 1\n    return x\n",
    "test/test_a.py": "def test():\n    assert 1\n",
}


def git(folder: Path, *words: str) -> str:
    argv = ["git", "-c", "user.name=A", "-c", "user.email=a@b.c", "-c", "commit.gpgsign=false", *words]
    return subprocess.run(argv, cwd=folder, check=True, capture_output=True, text=True).stdout.strip()


def commit(folder: Path, files: Mapping[str, str | None], message: str) -> str:
    folder.mkdir(exist_ok=True)
    if not (folder / ".git").exists():
        git(folder, "init", "-q", "-b", "main")
    for path, text in files.items():
        place = folder / path
        if text is None:
            place.unlink()
        else:
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_text(text)
    git(folder, "add", "-A")
    git(folder, "commit", "-qm", message)
    return git(folder, "rev-parse", "HEAD")


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    commit(tmp_path / "clone", FILES, "base")
    return tmp_path / "clone"


@pytest.fixture(scope="module")
def profile() -> Profile:
    return load_profile("sglang")


def change(path: str, old: str | None, new: str | None) -> FileChange:
    found = file_change(path, *(text.encode() if text is not None else None for text in (old, new)))
    assert found is not None
    return found


def patchset(folder: Path, patches: Mapping[str, list[FileChange]], more: str = "") -> Patchset:
    root = folder / "patchsets" / "set"
    (root / "patches").mkdir(parents=True, exist_ok=True)
    order = "".join(f"  - {name}\n" for name in patches)
    (root / "patchset.yaml").write_text(f"title: Set\nupstreams:\n  sglang: {{}}\norder:\n{order}{more}")
    for name, changes in patches.items():
        text = f"Subject: {name}\nUpstream-Status: Pending\n\nWhy it is so.\n---\n"
        (root / "patches" / f"{name}.patch").write_bytes(text.encode() + write_diff(changes))
    return load_patchset(root)


def onto(clone: Path, found: Patchset, profile: Profile, rev: str = "HEAD", **options: object) -> Rebased:
    tree = CommitTree(GitRepo.find(clone) or pytest.fail("no clone"), rev)
    return rebase(found, tree, profile, **options)  # type: ignore[arg-type]


def statuses(found: Rebased) -> dict[str, str]:
    return {entry.name: entry.outcome.status for entry in found.plan.entries}


def text_of(found: Rebased, name: str) -> str:
    return (found.files[f"patches/{name}.patch"] or b"").decode()


ONE = A.replace("a = 1", "a = 10")
TWO = ONE.replace("a = 10", "a = 10\n    a += 5")


def test_the_second_patch_to_a_file_is_carried_though_no_clone_has_its_base(
    tmp_path: Path, clone: Path, profile: Profile
) -> None:
    path = ROOT + "srt/a.py"
    found = patchset(tmp_path, {"one": [change(path, A, ONE)], "two": [change(path, ONE, TWO)]})
    later = A.replace("import os\n", "import os\nimport sys\n").replace("c = 3", "c = 33")
    commit(clone, {path: later}, "later (#7)")
    moved = onto(clone, found, profile)
    assert statuses(moved) == {"one": "clean", "two": "clean"} and moved.ready
    assert moved.rewritten == ("one", "two")
    first = parse_patch(moved.files["patches/one.patch"] or b"", "one").changes[0]
    second = parse_patch(moved.files["patches/two.patch"] or b"", "two").changes[0]
    after_one = later.replace("a = 1", "a = 10")
    assert (first.old_blob, first.new_blob) == (blob_id(later.encode()), blob_id(after_one.encode()))
    assert second.old_blob == first.new_blob
    assert second.new_blob == blob_id(after_one.replace("a = 10", "a = 10\n    a += 5").encode())
    head = text_of(moved, "two").split("---\n")[0]
    assert "Subject: two\nUpstream-Status: Pending\n" in head and "Why it is so." in head


def test_the_chain_gives_only_what_an_id_proves() -> None:
    good = change("a.py", A, ONE)
    known = {blob_id(A.encode()): A.encode()}
    chain = Chain([good, change("a.py", ONE, TWO)], known.get)
    assert chain.content(blob_id(TWO.encode())) == TWO.encode()
    assert chain.content(blob_id(TWO.encode())[:10]) == TWO.encode()
    lie = FileChange("a.py", "a.py", good.hunks, good.old_blob, "1" * 40)
    assert Chain([lie], known.get).content("1" * 40) is None


def test_a_file_that_moved_is_followed_and_named_anew(tmp_path: Path, clone: Path, profile: Profile) -> None:
    found = patchset(tmp_path, {"one": [change(ROOT + "srt/a.py", A, ONE)]})
    commit(clone, {ROOT + "srt/a.py": None, ROOT + "kernels/a.py": A.replace("c = 3", "c = 4")}, "move")
    moved = onto(clone, found, profile)
    assert statuses(moved) == {"one": "moved"}
    assert f"diff --git a/{ROOT}kernels/a.py b/{ROOT}kernels/a.py\n" in text_of(moved, "one")
    assert "srt/a.py" not in text_of(moved, "one")


def test_what_is_upstream_is_kept_until_a_person_retires_it(
    tmp_path: Path, clone: Path, profile: Profile
) -> None:
    path = ROOT + "srt/a.py"
    other = A.replace("c = 3", "c = 30")
    found = patchset(tmp_path, {"one": [change(path, A, ONE)], "two": [change(path, A, other)]})
    commit(clone, {path: ONE}, "one (#3)")
    moved = onto(clone, found, profile)
    assert statuses(moved) == {"one": "upstream", "two": "clean"}
    assert [entry.name for entry in moved.not_needed] == ["one"]
    assert "patches/one.patch" not in moved.files
    moved = onto(clone, found, profile, retire=["one"])
    assert moved.files["patches/one.patch"] is None and moved.retired == ("one",)
    assert (moved.files["patchset.yaml"] or b"").decode().endswith("order:\n  - two\n")
    with pytest.raises(UserError, match="two is clean on .* still needed") as failed:
        onto(clone, found, profile, retire=["two"])
    assert failed.value.code == "P063"


def test_a_partly_merged_patch_keeps_the_rest(tmp_path: Path, clone: Path, profile: Profile) -> None:
    path = ROOT + "srt/a.py"
    both = ONE.replace("c = 3", "c = 30")
    found = patchset(tmp_path, {"one": [change(path, A, both)]})
    commit(clone, {path: ONE}, "half of it")
    moved = onto(clone, found, profile)
    assert statuses(moved) == {"one": "partly"}
    assert "+    c = 30\n" in text_of(moved, "one") and "a = 10" not in text_of(moved, "one").split("@@")[-1]


def test_one_conflict_and_nothing_is_written(tmp_path: Path, clone: Path, profile: Profile) -> None:
    path = ROOT + "srt/a.py"
    found = patchset(
        tmp_path,
        {
            "one": [change(path, A, ONE)],
            "v": [change(ROOT + "version.py", FILES[ROOT + "version.py"], "x = 1\n")],
        },
    )
    commit(clone, {path: A.replace("a = 1", "a = 2")}, "clash")
    moved = onto(clone, found, profile)
    assert statuses(moved) == {"one": "conflict", "v": "clean"}
    assert not moved.ready and moved.files == {}


def test_a_person_resolves_by_editing_the_files(tmp_path: Path, clone: Path, profile: Profile) -> None:
    path = ROOT + "srt/a.py"
    found = patchset(tmp_path, {"one": [change(path, A, ONE)], "two": [change(path, ONE, TWO)]})
    clash = A.replace("a = 1", "a = 2")
    commit(clone, {path: clash}, "clash")
    moved = onto(clone, found, profile)
    assert statuses(moved)["one"] == "conflict" and not moved.ready
    sources = Sources(moved.plan.tree)
    sources.stack(found)
    work = work_files(state_of(found, moved.plan, "HEAD", [], [], []), moved.plan, sources)
    marked = work[f"rebase/one/{path}"]
    assert b"<<<<<<< " in marked and b"    a = 10\n" in marked and b"    a = 2\n" in marked
    folder = tmp_path / "edited"
    (folder / path).parent.mkdir(parents=True)
    (folder / path).write_bytes(marked)
    with pytest.raises(UserError, match="a conflict marker is left") as failed:
        onto(clone, found, profile, given={"one": given_by(found, "one", folder, profile, "edited")})
    assert failed.value.code == "P065" and failed.value.place == f"edited/{path}:5"
    (folder / path).write_text(clash.replace("a = 2", "a = 12"))
    moved = onto(clone, found, profile, given={"one": given_by(found, "one", folder, profile, "edited")})
    assert statuses(moved)["one"] == "clean"
    assert moved.plan.entries[0].outcome.note == "resolved by a person"


def test_a_diff_is_a_resolution_too_and_is_recorded(tmp_path: Path, clone: Path, profile: Profile) -> None:
    path = ROOT + "srt/a.py"
    found = patchset(tmp_path, {"one": [change(path, A, ONE)]})
    clash = A.replace("a = 1", "a = 2")
    commit(clone, {path: clash}, "clash")
    solved = clash.replace("a = 2", "a = 12")
    diff = tmp_path / "solved.patch"
    diff.write_bytes(write_diff([change(path, clash, solved)]))
    moved = onto(clone, found, profile, given={"one": given_by(found, "one", diff, profile, "solved.patch")})
    assert moved.ready and moved.plan.files == {path: solved.encode()}
    record = json.loads(moved.files["rebase.json"] or b"")
    assert record["patches"][0]["resolved"] == [
        {"path": path, "before": blob_id(clash.encode()), "after": blob_id(solved.encode())}
    ]
    diff.write_bytes(write_diff([change(path, A, solved)]))
    with pytest.raises(UserError, match="does not fit"):
        onto(clone, found, profile, given={"one": given_by(found, "one", diff, profile, "solved.patch")})
    folder = tmp_path / "same" / path
    folder.parent.mkdir(parents=True)
    folder.write_text(clash)
    with pytest.raises(UserError, match="changes nothing"):
        same = given_by(found, "one", tmp_path / "same", profile, "same")
        onto(clone, found, profile, given={"one": same})


def test_a_continued_rebase_refuses_another_base(tmp_path: Path, clone: Path, profile: Profile) -> None:
    path = ROOT + "srt/a.py"
    found = patchset(tmp_path, {"one": [change(path, A, ONE)]})
    commit(clone, {path: A.replace("a = 1", "a = 2")}, "clash")
    moved = onto(clone, found, profile)
    with pytest.raises(UserError, match="no rebase was begun"):
        read_state(found)
    state = state_of(found, moved.plan, "HEAD", [], [], [])
    assert state.open == ("one",) and state.onto == git(clone, "rev-parse", "HEAD")
    check_state(state, moved.plan.tree, found)
    with pytest.raises(UserError, match="one was changed since"):
        check_state(msgspec.structs.replace(state, patches={"one": "0"}), moved.plan.tree, found)
    commit(clone, {path: A}, "back")
    other = CommitTree(GitRepo.find(clone) or pytest.fail(""), "HEAD")
    with pytest.raises(UserError, match="another tree now"):
        check_state(state, other, found)


def test_a_wheel_as_base_keeps_the_names_of_the_repository_and_what_it_lacks(
    tmp_path: Path, profile: Profile
) -> None:
    path, test = ROOT + "srt/a.py", "test/test_a.py"
    tested = change(test, FILES[test], "def test():\n    assert 2\n")
    found = patchset(tmp_path, {"one": [change(path, A, ONE), tested]})
    wheel = tmp_path / "wheel"
    for name, text in {"version.py": '__version__ = "1.1"\n', "srt/a.py": "import re\n" + A}.items():
        (wheel / "sglang" / name).parent.mkdir(parents=True, exist_ok=True)
        (wheel / "sglang" / name).write_text(text)
    moved = rebase(found, FolderTree(wheel), profile)
    assert moved.ready
    changes = {c.path: c for c in parse_patch(moved.files["patches/one.patch"] or b"", "one").changes}
    assert set(changes) == {path, test}
    assert changes[path].old_blob == blob_id(("import re\n" + A).encode())
    assert changes[test].old_blob == tested.old_blob


def test_both_sides_marks_only_where_they_meet() -> None:
    base = b"1\n2\n3\n4\n5\n6\n7\n"
    ours = b"0\n1\n2\nthree\n4\n5\n6\n7\n"
    theirs = b"1\n2\nTHREE\n4\n5\n6\n7\n8\n"
    both = both_sides(base, ours, theirs, ("new base", "patch"))
    assert both.marked == 1
    assert both.data == (
        b"0\n1\n2\n<<<<<<< new base\nthree\n||||||| before both\n3\n=======\nTHREE\n>>>>>>> patch\n"
        b"4\n5\n6\n7\n8\n"
    )
    assert both_sides(base, ours, base, ("a", "b")).data == ours
    assert both_sides(base, base, theirs, ("a", "b")).data == theirs
    assert both_sides(base, ours, ours, ("a", "b")).data == ours


def test_names_leave_the_order_and_nothing_else_changes() -> None:
    text = "title: x\norder:\n  # first\n  - one\n  - two   # why\npolicy: {}\n"
    assert without(text, ["two"], "p") == "title: x\norder:\n  # first\n  - one\npolicy: {}\n"
    assert without("order: [one, two] # x\n", ["one"], "p") == "order: [two] # x\n"
    assert without("order:\n  - one\n", ["one"], "p") == "order: []\n"
    with pytest.raises(UserError, match="cannot be changed"):
        without("order:\n  - one\n", ["two"], "p")


STRUCTURAL = """\
title: Another constant
why: {kind: local-only, reason: a test}
edits:
  - set-default:      # of the function
      in: sglang.srt.a.first   # where it was
      name: size
      was: "1"
      to: "2"
"""


def test_a_structural_patch_gets_the_new_name_of_its_place(
    tmp_path: Path, clone: Path, profile: Profile
) -> None:
    text = A.replace("def first():", "def first(size=1):")
    commit(clone, {ROOT + "srt/a.py": None, ROOT + "srt/deep/b.py": text}, "moved")
    found = patchset(tmp_path, {"one": [change(ROOT + "srt/a.py", A, ONE)]})
    (found.folder / "patches" / "one.patch").unlink()
    (found.folder / "patches" / "one.yaml").write_text(STRUCTURAL)
    found = load_patchset(found.folder)
    moved = onto(clone, found, profile)
    assert statuses(moved) == {"one": "moved"} and moved.rewritten == ("one",)
    wanted = STRUCTURAL.replace("in: sglang.srt.a.first ", "in: sglang.srt.deep.b.first ")
    assert (moved.files["patches/one.yaml"] or b"").decode() == wanted
    assert moved.again is not None and moved.again.entries[0].outcome.status == "clean"


def test_a_resolution_on_a_wheel_is_named_as_it_lies_there_and_an_empty_one_says_how_to_retire(
    tmp_path: Path, profile: Profile
) -> None:
    path = ROOT + "srt/a.py"
    found = patchset(tmp_path, {"one": [change(path, A, ONE)]})
    wheel = tmp_path / "wheel"
    (wheel / "sglang/srt").mkdir(parents=True)
    (wheel / "sglang/version.py").write_text("v = 1\n")
    (wheel / "sglang/srt/a.py").write_text(A.replace("a = 1", "a = 2"))
    work = found.folder / "rebase/one"
    (work / path).parent.mkdir(parents=True)
    shown = f"{found.place}/rebase/one"
    (work / path).write_text("<<<<<<< x\n=======\n>>>>>>> y\n")
    with pytest.raises(UserError) as failed:
        given_by(found, "one", work, profile, shown)(FolderTree(wheel))
    assert failed.value.place == f"{shown}/{path}:1"
    (work / path).write_text(A.replace("a = 1", "a = 2"))
    with pytest.raises(UserError, match="of one changes nothing") as failed:
        given_by(found, "one", work, profile, shown)(FolderTree(wheel))
    assert failed.value.hints[0].startswith(f"patches rebase {found.typed} --continue --retire one ")


def test_a_patch_is_retired_in_the_middle_of_a_rebase(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from auditor.cli.clickrun import run
    from auditor.cli.groups import patches

    monkeypatch.setenv("SGLANG_AUDITOR_CACHE_DIR", str(tmp_path / "cache"))
    path = ROOT + "srt/a.py"
    found = patchset(tmp_path, {"one": [change(path, A, ONE)]})
    base = tmp_path / "base"
    for name, text in (("srt/a.py", A.replace("a = 1", "a = 2")), ("version.py", "v = 1\n")):
        (base / ROOT / name).parent.mkdir(parents=True, exist_ok=True)
        (base / ROOT / name).write_text(text)

    def call(*words: object) -> int:
        return run(patches, "patches", ["rebase", str(found.folder), *map(str, words)])

    assert call("--onto", base) == 3
    assert (found.folder / "rebase/one").is_dir()
    for each in (found.folder / "rebase/one").rglob("*.py"):
        each.write_text(A.replace("a = 1", "a = 2"))
    assert call("--continue") == 2
    assert call("--continue", "--retire", "one") == 0
    assert not (found.folder / "rebase").exists()
    assert "one" not in (found.folder / "patchset.yaml").read_text()


def test_what_is_to_be_retired_is_remembered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from auditor.cli.clickrun import run
    from auditor.cli.groups import patches

    monkeypatch.setenv("SGLANG_AUDITOR_CACHE_DIR", str(tmp_path / "cache"))
    first, second = ROOT + "srt/a.py", ROOT + "srt/b.py"
    found = patchset(
        tmp_path, {"one": [change(first, A, ONE)], "two": [change(second, A, A.replace("c = 3", "c = 33"))]}
    )
    base = tmp_path / "base"
    texts = {"srt/a.py": ONE, "srt/b.py": A.replace("c = 3", "c = 4"), "version.py": "v = 1\n"}
    for name, text in texts.items():
        (base / ROOT / name).parent.mkdir(parents=True, exist_ok=True)
        (base / ROOT / name).write_text(text)

    def call(*words: object) -> int:
        return run(patches, "patches", ["rebase", str(found.folder), *map(str, words)])

    assert call("--onto", base, "--retire", "one") == 3
    assert json.loads((found.folder / "rebase/state.json").read_bytes())["retired"] == ["one"]
    for each in (found.folder / "rebase/two").rglob("*.py"):
        each.write_text(A.replace("c = 3", "c = 34"))
    assert call("--continue") == 0
    assert "one" not in (found.folder / "patchset.yaml").read_text()
    assert not (found.folder / "patches/one.patch").exists()


def applied_by_git(clone: Path, found: Rebased, rev: str = "HEAD") -> str:
    """The tree that git itself makes of the rewritten patches."""
    git(clone, "read-tree", rev)
    assert found.again is not None
    for entry in found.again.entries:
        if entry.outcome.status != "upstream":
            subprocess.run(["git", "apply", "--cached", "-"], cwd=clone, input=entry.patch.raw, check=True)
    return git(clone, "write-tree")


def result_of(found: Rebased) -> str:
    return str(json.loads(found.files["patchset.lock"] or b"")["upstreams"]["sglang"]["result"])


def test_git_makes_the_same_tree_of_what_was_written(tmp_path: Path, clone: Path, profile: Profile) -> None:
    a, gone, b, c = ROOT + "srt/a.py", ROOT + "srt/gone.py", ROOT + "srt/b.py", ROOT + "srt/c.py"
    grown = "# renamed\n" + ONE
    rename = replace(change(a, ONE, grown), new_path=b)
    runnable = replace(change(a, A, ONE), old_mode="100644", new_mode="100755")
    remove = replace(change(gone, FILES[gone], None), old_mode="100644")
    fresh = replace(change(c, None, "new = 1\n"), new_mode="100755")
    found = patchset(tmp_path, {"one": [runnable], "two": [rename, fresh], "three": [remove]}, more=MODES)
    commit(clone, {a: A.replace("import os\n", "import os\nimport re\n")}, "later")
    moved = onto(clone, found, profile)
    assert moved.ready and moved.plan.modes == {b: "100755", c: "100755"}
    assert applied_by_git(clone, moved) == result_of(moved)


def test_an_executable_file_stays_executable_where_it_is_renamed(
    tmp_path: Path, clone: Path, profile: Profile
) -> None:
    a, b = ROOT + "srt/a.py", ROOT + "srt/b.py"
    (clone / a).chmod(0o755)
    commit(clone, {a: A}, "runnable")
    found = patchset(tmp_path, {"one": [replace(change(a, A, ONE), new_path=b)]})
    moved = onto(clone, found, profile)
    assert moved.plan.modes == {b: "100755"} and applied_by_git(clone, moved) == result_of(moved)


def test_what_is_upstream_on_top_of_the_stack_is_known_again(
    tmp_path: Path, clone: Path, profile: Profile
) -> None:
    path = ROOT + "srt/a.py"
    both = ONE.replace("c = 3", "c = 30")
    found = patchset(tmp_path, {"one": [change(path, A, ONE)], "two": [change(path, ONE, both)]})
    merged = A.replace("import os\n", "import os\nimport re\n").replace("c = 3", "c = 30")
    commit(clone, {path: merged}, "two (#9)")
    moved = onto(clone, found, profile)
    assert statuses(moved) == {"one": "clean", "two": "upstream"} and moved.again is not None
    assert [e.outcome.status for e in moved.again.entries] == ["clean", "upstream"]
    assert moved.rewritten == ("one", "two")
    assert "-    c = 3\n+    c = 30\n" in text_of(moved, "two")


def test_a_patch_that_was_made_on_a_retired_one_is_carried_on(
    tmp_path: Path, clone: Path, profile: Profile
) -> None:
    path = ROOT + "srt/a.py"
    both = ONE.replace("c = 3", "c = 30")
    found = patchset(tmp_path, {"one": [change(path, A, ONE)], "two": [change(path, ONE, both)]})
    commit(clone, {path: A.replace("a = 1", "a = 2").replace("import os\n", "import re\n")}, "clash")
    moved = onto(clone, found, profile, retire=["one"])
    assert moved.ready and moved.rewritten == ("two",)
    assert applied_by_git(clone, moved) == result_of(moved)


def test_a_guess_waits_until_a_person_accepts_it(tmp_path: Path, clone: Path, profile: Profile) -> None:
    path = ROOT + "srt/a.py"
    mine = A.replace("    b = 2\n", "    b = 2\n    mine(b)\n")
    found = patchset(tmp_path, {"one": [change(path, A, mine)]})
    commit(clone, {path: A.replace("    b = 2\n", "    b = 2\n    theirs(b)\n")}, "same place")
    moved = onto(clone, found, profile)
    assert statuses(moved) == {"one": "look"}
    assert not moved.ready and [entry.name for entry in moved.waiting] == ["one"] and not moved.files
    moved = onto(clone, found, profile, accepted=["one"])
    assert moved.ready and applied_by_git(clone, moved) == result_of(moved)
    assert json.loads(moved.files["rebase.json"] or b"")["patches"][0]["accepted"] is True
