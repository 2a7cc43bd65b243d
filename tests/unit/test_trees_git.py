"""Commits and working trees, on small repositories made here."""

from __future__ import annotations

import hashlib
import os
import subprocess
from pathlib import Path

import pytest

from auditor.errors import UserError
from auditor.trees.commit import CommitTree, parse_tree_listing
from auditor.trees.git import GitRepo
from auditor.trees.gitchild import git_environment
from auditor.trees.names import blob_id
from auditor.trees.open import TreeSpec, open_tree
from auditor.trees.worktree import WorktreeTree

MARKERS = ("python/proj/core.py", "proj/core.py")


def git(folder: Path, *args: str, when: int = 1_750_000_000) -> str:
    env = {k: v for k, v in os.environ.items() if not k.startswith("GIT_")}
    stamp = f"{when} +0200"
    env.update(
        GIT_AUTHOR_NAME="a",
        GIT_AUTHOR_EMAIL="a@example.org",
        GIT_COMMITTER_NAME="c",
        GIT_COMMITTER_EMAIL="c@example.org",
        GIT_AUTHOR_DATE=stamp,
        GIT_COMMITTER_DATE=stamp,
        GIT_CONFIG_GLOBAL="/dev/null",
        GIT_CONFIG_NOSYSTEM="1",
        LC_ALL="C",
    )
    done = subprocess.run(["git", *args], cwd=folder, env=env, check=True, capture_output=True)
    return done.stdout.decode().strip()


def write(folder: Path, path: str, data: bytes) -> None:
    place = folder / path
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_bytes(data)


@pytest.fixture(scope="module")
def clone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three commits: v0.1.0, one after it, and v0.2.0 at the tip of main. Not to be changed by tests."""
    folder = tmp_path_factory.mktemp("clone")
    git(folder, "init", "-q", "-b", "main")
    write(folder, "python/proj/core.py", b"one = 1\n")
    write(folder, "python/proj/text.py", b"# caf\xc3\xa9\r\n")
    write(folder, "python/proj/empty.py", b"")
    write(folder, "python/proj-extra/a.py", b"a\n")
    os.symlink("core.py", folder / "python/proj/link.py")
    os.symlink(".", folder / "python/loop")
    git(folder, "add", ".")
    git(folder, "commit", "-qm", "first")
    git(folder, "tag", "-a", "v0.1.0", "-m", "first release")
    write(folder, "python/proj/core.py", b"one = 2\n")
    git(folder, "commit", "-qam", "second", when=1_750_100_000)
    write(folder, "python/proj/more.py", b"more\n")
    git(folder, "add", ".")
    git(folder, "commit", "-qm", "third", when=1_750_200_000)
    git(folder, "tag", "v0.2.0")
    git(folder, "tag", "nightly-20250701")
    return folder


def opened(spec: TreeSpec, **more: object):
    keys: dict = {"distribution": "proj", "default_url": None, "marker": MARKERS, **more}
    return open_tree(spec, **keys)


def failure(spec: TreeSpec, **more: object) -> UserError:
    with pytest.raises(UserError) as caught:
        tree = opened(spec, **more)
        list(tree.read_many(tree.blobs()))
    assert "\n" not in caught.value.fact
    assert caught.value.exit_code == 2
    assert caught.value.hints
    return caught.value


@pytest.fixture(autouse=True)
def own_cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SGLANG_AUDITOR_CACHE_DIR", str(tmp_path_factory.mktemp("cache")))


# commits


def test_a_commit_is_read_without_links_and_in_path_order(clone: Path) -> None:
    tree = opened(TreeSpec(path=str(clone), commit="v0.1.0"))
    blobs = tree.blobs()
    assert list(blobs) == [
        "python/proj-extra/a.py",
        "python/proj/core.py",
        "python/proj/empty.py",
        "python/proj/text.py",
    ]
    assert blobs["python/proj/core.py"] == blob_id(b"one = 1\n")
    assert blobs["python/proj/empty.py"] == "e69de29bb2d1d6434b8b29ae775ad8c2e48c5391"
    assert tree.read("python/proj/text.py") == b"# caf\xc3\xa9\r\n"
    with pytest.raises(KeyError):
        tree.read("python/proj/link.py")


@pytest.mark.parametrize("rev", ["main", "HEAD", "v0.2.0", "refs/tags/v0.2.0", "HEAD~0", "{oid}", "{short}"])
def test_every_spelling_of_a_revision_names_the_same_tree(clone: Path, rev: str) -> None:
    oid = git(clone, "rev-parse", "main")
    tree = opened(TreeSpec(path=str(clone), commit=rev.format(oid=oid, short=oid[:7])))
    assert tree.info().commit == oid
    assert tree.info().content_id == git(clone, "rev-parse", "main^{tree}")


def test_a_relative_revision_and_its_facts(clone: Path) -> None:
    info = opened(TreeSpec(path=str(clone), commit="main~1")).info()
    assert info.commit == git(clone, "rev-parse", "main~1")
    assert (info.kind, info.label, info.version) == ("commit", info.commit[:7], None)
    assert info.date == "2025-06-16"  # 18:53:20 UTC, 20:53:20 where it was committed
    assert info.describe == "main, after 0.1.0 and before 0.2.0"
    assert info.dirty is False


def test_a_tagged_commit_knows_its_release(clone: Path) -> None:
    info = opened(TreeSpec(path=str(clone), commit="v0.1.0")).info()
    assert (info.version, info.describe) == ("0.1.0", "main, release 0.1.0")


def test_the_day_is_the_committers_own(tmp_path: Path) -> None:
    git(tmp_path, "init", "-q")
    write(tmp_path, "proj/core.py", b"x")
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "-qm", "late", when=1_750_024_000)  # 21:46:40 UTC on the 15th, 23:46:40 there
    git(tmp_path, "commit", "-q", "--allow-empty", "-m", "later", when=1_750_030_000)  # 23:26:40 UTC
    assert opened(TreeSpec(path=str(tmp_path), commit="HEAD~1")).info().date == "2025-06-15"
    assert opened(TreeSpec(path=str(tmp_path), commit="HEAD")).info().date == "2025-06-16"


def test_bare_shallow_and_linked_repositories_give_the_same_tree(clone: Path, tmp_path: Path) -> None:
    expected = dict(opened(TreeSpec(path=str(clone), commit="main")).blobs())
    git(tmp_path, "clone", "-q", "--bare", str(clone), "bare.git")
    git(tmp_path, "clone", "-q", "--depth=1", clone.as_uri(), "shallow")
    git(tmp_path / "bare.git", "worktree", "add", "-q", str(tmp_path / "linked"), "main")
    for place in ("bare.git", "shallow", "linked", "linked/python/proj"):
        tree = opened(TreeSpec(path=str(tmp_path / place), commit="HEAD"))
        assert dict(tree.blobs()) == expected, place
        assert tree.read("python/proj/core.py") == b"one = 2\n"
    assert opened(TreeSpec(path=str(tmp_path / "bare.git"))).info().kind == "commit"
    error = failure(TreeSpec(path=str(tmp_path / "shallow"), commit="HEAD~1"))
    assert error.code == "T002"
    assert "--unshallow" in error.hints[0]
    error = failure(TreeSpec(path=str(tmp_path / "shallow"), commit=git(clone, "rev-parse", "main~1")))
    assert error.code == "T002"
    assert "--unshallow" in error.hints[0]


def test_many_files_are_streamed_in_the_order_asked_for(tmp_path: Path) -> None:
    """More files than requests may be in flight, some larger than any pipe: a deadlock would hang here."""
    git(tmp_path, "init", "-q")
    contents = {f"proj/f{n:04}.py": b"%d\n" % n * (1 + 40_000 * (n % 97 == 0)) for n in range(700)}
    contents["proj/core.py"] = b"x"
    for path, data in contents.items():
        write(tmp_path, path, data)
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "-qm", "many")
    tree = opened(TreeSpec(path=str(tmp_path), commit="HEAD"))
    order = sorted(contents, key=lambda p: blob_id(p.encode()))
    assert [(p, contents[p]) for p in order] == list(tree.read_many(order))
    # A reader that stops early, and one that reads another file in between, must not disturb the next.
    for path, data in tree.read_many(order):
        assert tree.read("proj/core.py") == b"x"
        assert data == contents[path]
        if path == order[9]:
            break
    assert list(tree.read_many(order[5:7])) == [(p, contents[p]) for p in order[5:7]]


def test_names_that_are_not_text(tmp_path: Path) -> None:
    git(tmp_path, "init", "-q")
    for name in (b"proj/core.py", b"proj/caf\xe9.py", b"proj/new\nline.py", b"proj/tab\t.py"):
        place = os.path.join(os.fsencode(tmp_path), name)
        os.makedirs(os.path.dirname(place), exist_ok=True)
        with open(place, "wb") as file:
            file.write(name)
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "-qm", "names")
    expected = {"proj/caf\\xe9.py", "proj/core.py", "proj/new\nline.py", "proj/tab\t.py"}
    commit = opened(TreeSpec(path=str(tmp_path), commit="HEAD"))
    work = opened(TreeSpec(path=str(tmp_path)))
    assert set(commit.blobs()) == expected
    assert commit.blobs() == work.blobs()
    assert work.info().dirty is False
    for tree in (commit, work):
        assert tree.read("proj/caf\\xe9.py") == b"proj/caf\xe9.py"
        assert tree.read("proj/new\nline.py") == b"proj/new\nline.py"
        "".join(tree.blobs()).encode()  # can be written to a report


def test_submodules_are_left_out() -> None:
    listing = b"160000 commit " + b"a" * 40 + b"\tsub\0" + b"100755 blob " + b"b" * 40 + b"\trun.sh\0"
    assert parse_tree_listing(listing) == {"run.sh": "b" * 40}


# what goes wrong


@pytest.mark.parametrize("rev", ["", "-h", "--all", "a\0b", "a\nb", "a\x7f"])
def test_words_that_cannot_be_revisions(clone: Path, rev: str) -> None:
    assert failure(TreeSpec(path=str(clone), commit=rev)).code == "T015"


def test_an_unknown_name_suggests_what_is_near(clone: Path) -> None:
    error = failure(TreeSpec(path=str(clone), commit="mian"))
    assert error.code == "T002"
    assert "did you mean main?" in error.hints
    error = failure(TreeSpec(path=str(clone), commit="0.1.0"))
    assert error.hints[0] == "did you mean v0.1.0?"
    assert any("--release 0.1.0" in hint for hint in error.hints)
    error = failure(TreeSpec(path=str(clone), commit="f" * 40))
    assert any("fetch origin " + "f" * 40 in hint for hint in error.hints)
    assert failure(TreeSpec(path=str(clone), commit="main:python")).code == "T002"


def test_an_ambiguous_abbreviation_lists_the_commits(tmp_path: Path) -> None:
    git(tmp_path, "init", "-q")
    tree = git(tmp_path, "write-tree")
    seen: dict[str, str] = {}
    clash = ""
    for number in range(4000):
        who = f"a <a@example.org> {number} +0000"
        raw = f"tree {tree}\nauthor {who}\ncommitter {who}\n\nx\n"
        oid = hashlib.sha1(b"commit %d\0" % len(raw) + raw.encode()).hexdigest()
        if oid[:4] in seen:
            clash = oid[:4]
            for text in (seen[clash], raw):
                done = subprocess.run(
                    ["git", "hash-object", "-t", "commit", "-w", "--stdin"],
                    input=text.encode(),
                    cwd=tmp_path,
                    check=True,
                    capture_output=True,
                )
                assert done.stdout.decode().startswith(clash)
            break
        seen[oid[:4]] = raw
    error = failure(TreeSpec(path=str(tmp_path), commit=clash))
    assert error.code == "T003"
    assert error.place is not None and error.place.count(clash) == 2


def test_not_a_repository_not_the_project_not_there(tmp_path: Path) -> None:
    write(tmp_path, "plain/a.py", b"")
    assert failure(TreeSpec(path=str(tmp_path / "plain"), commit="HEAD")).code == "T001"
    assert failure(TreeSpec(path=str(tmp_path / "plain"))).code == "T004"
    assert failure(TreeSpec(path=str(tmp_path / "nothing"))).code == "T001"
    assert failure(TreeSpec(path="a\0b")).code == "T015"
    git(tmp_path, "init", "-q", "other")
    assert failure(TreeSpec(path=str(tmp_path / "other"), commit="HEAD")).code == "T002"
    assert failure(TreeSpec(path=str(tmp_path / "other"))).code == "T004"


def test_a_damaged_repository_is_one_error(clone: Path, tmp_path: Path) -> None:
    git(tmp_path, "clone", "-q", "--no-local", str(clone), "c")
    oid = blob_id(b"one = 2\n")
    for pack in (tmp_path / "c/.git/objects/pack").glob("*.pack"):
        git(tmp_path / "c", "init", "-q", "--bare", "../dst")
        with open(pack, "rb") as file:
            subprocess.run(["git", "unpack-objects", "-q"], stdin=file, cwd=tmp_path / "dst", check=True)
    git(tmp_path / "dst", "update-ref", "refs/heads/main", git(clone, "rev-parse", "main"))
    (tmp_path / "dst/objects" / oid[:2] / oid[2:]).unlink()
    error = failure(TreeSpec(path=str(tmp_path / "dst"), commit="main"))
    assert error.code == "T005"
    assert "python/proj/core.py" in error.fact


# partial clones


@pytest.fixture
def partial(clone: Path, tmp_path: Path) -> Path:
    git(clone, "config", "uploadpack.allowFilter", "true")
    git(clone, "config", "uploadpack.allowAnySHA1InWant", "true")
    git(tmp_path, "clone", "-q", "--bare", "--filter=blob:none", clone.as_uri(), "partial.git")
    return tmp_path / "partial.git"


def packs(repo: Path) -> list[str]:
    return sorted(os.listdir(repo / "objects/pack"))


def test_a_partial_clone_never_fetches_by_itself(partial: Path) -> None:
    before = packs(partial)
    error = failure(TreeSpec(path=str(partial), commit="main"))
    assert error.code == "T005"
    assert "7 objects" in error.fact  # five files and what two links say
    assert "--allow-fetch" in error.hints[0]
    assert packs(partial) == before


def test_a_partial_clone_fetches_once_when_allowed(clone: Path, partial: Path) -> None:
    expected = opened(TreeSpec(path=str(clone), commit="main"))
    before = packs(partial)
    tree = opened(TreeSpec(path=str(partial), commit="main", allow_fetch=True))
    assert list(tree.read_many(expected.blobs())) == list(expected.read_many(expected.blobs()))
    assert len(set(packs(partial)) - set(before)) <= 4  # one pack with its index files, not one a file
    again = opened(TreeSpec(path=str(partial), commit="main"))
    assert again.read("python/proj/core.py") == b"one = 2\n"


def test_a_partial_clone_whose_remote_is_gone(clone: Path, partial: Path, tmp_path: Path) -> None:
    git(partial, "remote", "set-url", "origin", (tmp_path / "gone").as_uri())
    error = failure(TreeSpec(path=str(partial), commit="main", allow_fetch=True))
    assert error.code == "T010"


# working trees


@pytest.fixture
def work(clone: Path, tmp_path: Path) -> Path:
    git(tmp_path, "clone", "-q", str(clone), "work")
    return tmp_path / "work"


def test_a_clean_working_tree_has_the_ids_of_its_commit(work: Path) -> None:
    tree = opened(TreeSpec(path=str(work)))
    assert dict(tree.blobs()) == dict(opened(TreeSpec(path=str(work), commit="HEAD")).blobs())
    info = tree.info()
    assert (info.kind, info.dirty, info.commit) == ("worktree", False, git(work, "rev-parse", "HEAD"))
    assert info.label == f"working tree on {info.commit[:7]}"
    assert tree.local_path("python/proj/core.py") == str(work / "python/proj/core.py")
    assert tree.local_path("python/proj/none.py") is None


def test_changed_new_ignored_and_deleted_files(work: Path) -> None:
    clean = opened(TreeSpec(path=str(work))).info()
    write(work, "python/proj/core.py", b"one = 3\n")
    write(work, "python/proj/new.py", b"new\n")
    write(work, "python/proj/gone.pyc", b"no")
    write(work, ".gitignore", b"*.pyc\n")
    (work / "python/proj/more.py").unlink()
    git(work, "init", "-q", "python/nested")
    tree = opened(TreeSpec(path=str(work)))
    blobs = tree.blobs()
    assert tree.read("python/proj/core.py") == b"one = 3\n"
    assert blobs["python/proj/core.py"] == blob_id(b"one = 3\n")
    assert "python/proj/new.py" in blobs
    assert not {"python/proj/gone.pyc", "python/proj/more.py", "python/proj/link.py"} & set(blobs)
    assert tree.info().dirty is True
    assert tree.info().label.endswith("with uncommitted changes")
    assert tree.info().content_id != clean.content_id


def test_a_staged_change_is_a_change(work: Path) -> None:
    write(work, "python/proj/core.py", b"one = 3\n")
    git(work, "add", ".")
    assert opened(TreeSpec(path=str(work))).info().dirty is True


def test_a_sparse_checkout_is_not_a_deletion(work: Path) -> None:
    git(work, "sparse-checkout", "set", "python/proj")
    tree = opened(TreeSpec(path=str(work)))
    assert "python/proj-extra/a.py" not in tree.blobs()
    assert tree.info().dirty is False
    assert tree.info().notes == ("1 files are outside the sparse checkout and were not read",)


def test_crlf_checkout_is_read_as_it_is_and_is_not_dirty(clone: Path, tmp_path: Path) -> None:
    git(tmp_path, "clone", "-q", "-c", "core.autocrlf=true", str(clone), "crlf")
    tree = opened(TreeSpec(path=str(tmp_path / "crlf")))
    assert tree.read("python/proj/core.py") == b"one = 2\r\n"
    assert tree.blobs()["python/proj/core.py"] == blob_id(b"one = 2\r\n")
    assert tree.info().dirty is False


def test_nothing_outside_is_read_through_a_link(work: Path, tmp_path: Path) -> None:
    write(tmp_path, "secret/core.py", b"secret\n")
    for file in (work / "python/proj-extra").iterdir():
        file.unlink()
    (work / "python/proj-extra").rmdir()
    (tmp_path / "secret/a.py").write_bytes(b"secret\n")
    os.symlink(tmp_path / "secret", work / "python/proj-extra")
    tree = opened(TreeSpec(path=str(work)))
    assert "python/proj-extra/a.py" not in tree.blobs()
    assert tree.info().dirty is True


def test_a_fifo_does_not_block(work: Path) -> None:
    (work / "python/proj/more.py").unlink()
    os.mkfifo(work / "python/proj/more.py")
    assert "python/proj/more.py" not in opened(TreeSpec(path=str(work))).blobs()


def test_nothing_a_repository_configures_is_run(work: Path, tmp_path: Path) -> None:
    """Hooks, filters, file system monitors and ssh commands of a foreign repository stay unused."""
    trap = tmp_path / "ran"
    script = tmp_path / "trap.sh"
    script.write_text(f'#!/bin/sh\necho "$0" >> {trap}\ncat\n')
    script.chmod(0o755)
    for key in (
        "core.fsmonitor",
        "core.pager",
        "core.sshCommand",
        "filter.x.clean",
        "filter.x.smudge",
        "filter.x.process",
        "diff.x.textconv",
        "diff.external",
        "core.alternateRefsCommand",
        "alias.ls-files",
    ):
        git(work, "config", key, str(script))
    write(work, ".gitattributes", b"* filter=x diff=x\n")
    hooks = work / ".git/hooks"
    hooks.mkdir(exist_ok=True)
    for hook in ("post-index-change", "post-checkout", "reference-transaction"):
        (hooks / hook).write_text(script.read_text())
        (hooks / hook).chmod(0o755)
    index = (work / ".git/index").read_bytes()
    os.utime(work / "python/proj/core.py", (1, 1))
    for spec in (TreeSpec(path=str(work)), TreeSpec(path=str(work), commit="HEAD")):
        tree = opened(spec)
        tree.info()
        assert tree.read("python/proj/core.py") == b"one = 2\n"
    assert not trap.exists()
    assert (work / ".git/index").read_bytes() == index


def test_the_callers_git_variables_do_not_matter(
    work: Path, clone: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = opened(TreeSpec(path=str(work))).info()
    monkeypatch.setenv("GIT_DIR", str(tmp_path / "elsewhere"))
    monkeypatch.setenv("GIT_INDEX_FILE", str(tmp_path / "index"))
    monkeypatch.setenv("GIT_WORK_TREE", str(tmp_path))
    monkeypatch.setenv("GIT_CONFIG_COUNT", "1")
    monkeypatch.setenv("GIT_CONFIG_KEY_0", "core.bare")
    monkeypatch.setenv("GIT_CONFIG_VALUE_0", "nonsense")
    assert opened(TreeSpec(path=str(work))).info() == expected
    assert "GIT_DIR" not in git_environment()


def test_no_git_at_all(clone: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nonexistent")
    assert failure(TreeSpec(path=str(clone), commit="HEAD")).code == "T013"


def children() -> set[str]:
    listing = Path(f"/proc/self/task/{os.getpid()}/children")
    return set(listing.read_text().split()) if listing.exists() else set()


def test_interrupted_reads_leave_no_child(clone: Path) -> None:
    before = children()
    repo = GitRepo.find(clone)
    assert repo is not None
    tree = CommitTree(repo, "main")
    with pytest.raises(KeyboardInterrupt):
        for _ in tree.read_many(tree.blobs()):
            raise KeyboardInterrupt
    repo.close()
    assert children() <= before


def test_a_bare_repository_has_no_working_tree(clone: Path, tmp_path: Path) -> None:
    git(tmp_path, "clone", "-q", "--bare", str(clone), "bare.git")
    repo = GitRepo.find(tmp_path / "bare.git")
    assert repo is not None
    with pytest.raises(UserError) as caught:
        WorktreeTree(repo)
    assert caught.value.code == "T001"
    assert failure(TreeSpec(path=str(tmp_path / "bare.git"), worktree=True)).code == "T001"


# the real history


HISTORY = os.environ.get("SGLANG_AUDITOR_HISTORY", "")


@pytest.mark.history
@pytest.mark.skipif(not HISTORY, reason="SGLANG_AUDITOR_HISTORY does not name a clone of SGLang")
def test_the_real_history() -> None:
    tree = open_tree(
        TreeSpec(path=HISTORY, commit="735a256"),
        distribution="sglang",
        default_url=None,
        marker="python/sglang/srt/server_args.py",
    )
    info = tree.info()
    assert info.commit == "735a256f989211bed0d4a15c7f215521e2c61d8c"
    assert info.content_id == "8fbb2b30c3a92aac485df3a63c9beaf37a75579c"
    assert info.date == "2026-06-17"
    sources = [p for p in tree.blobs() if p.startswith("python/") and p.endswith(".py")]
    assert len(sources) == 2393
    assert sum(len(data) for _, data in tree.read_many(sources)) == 32_909_380


def test_a_shallow_clone_on_this_disk_is_no_remote(clone: Path, tmp_path: Path) -> None:
    # Git 2.39 never ends when it clones one with a filter, so it is not asked to.
    git(tmp_path, "clone", "-q", "--depth=1", clone.as_uri(), "shal low")
    place = tmp_path / "shal low"
    error = failure(TreeSpec(repo=place.as_uri(), commit="HEAD"))
    assert (error.code, error.place) == ("T015", str(place))
    assert error.hints == (f"--path '{place}'",)
