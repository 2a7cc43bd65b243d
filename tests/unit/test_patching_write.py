"""Writing to targets: all or nothing, read back, and taken back to the very bytes."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from auditor.errors import UserError
from auditor.patching.write import disk, journal
from auditor.patching.write.gitpart import Step
from auditor.patching.write.operations import at_work, revert, write_steps
from auditor.patching.write.repair import repair
from auditor.patching.write.target import Target, open_target
from auditor.profile import load_profile

FILES = {
    "sglang/version.py": b"__version__ = '1.2.3'\n",
    "sglang/srt/server_args.py": b"".join(b"line %d\n" % n for n in range(60)),
    "sglang/srt/a.py": b"one\ntwo\nthree\n",
    "sglang/srt/tool.sh": b"#!/bin/sh\nexit 0\n",
}


def put(root: Path, files: dict[str, bytes]) -> None:
    for path, data in files.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_bytes(data)


def folder(tmp_path: Path) -> Path:
    root = tmp_path / "unpacked"
    put(root, FILES)
    (root / "sglang/srt/tool.sh").chmod(0o755)
    put(root, {"sglang-1.2.3.dist-info/METADATA": b"Metadata-Version: 2.1\nName: sglang\nVersion: 1.2.3\n"})
    return root


def git(root: Path, *args: str) -> str:
    who = {"GIT_AUTHOR_NAME": "A", "GIT_AUTHOR_EMAIL": "a@b", "GIT_COMMITTER_NAME": "A"}
    env = {**os.environ, **who, "GIT_COMMITTER_EMAIL": "a@b", "GIT_CONFIG_GLOBAL": "/dev/null"}
    return subprocess.run(
        ["git", *args], cwd=root, env=env, check=True, capture_output=True, text=True
    ).stdout.strip()


def clone(tmp_path: Path) -> Path:
    root = tmp_path / "clone"
    put(root, {f"python/{path}": data for path, data in FILES.items()})
    put(root, {"README.md": b"hello\n"})
    (root / "python/sglang/srt/tool.sh").chmod(0o755)
    git(root, "init", "-q", "-b", "main")
    git(root, "add", "-A")
    git(root, "commit", "-q", "-m", "start")
    return root


def opened(root: Path) -> Target:
    return open_target(str(root), None, load_profile("sglang"))


def snapshot(root: Path) -> dict[str, tuple[int, bytes]]:
    """path -> (mode, bytes) of everything there, folders included; git's own folder left out."""
    found: dict[str, tuple[int, bytes]] = {}
    for path in sorted(root.rglob("*")):
        name = path.relative_to(root).as_posix()
        if name.split("/")[0] == ".git":
            continue
        found[name] = (path.lstat().st_mode, path.read_bytes() if path.is_file() else b"")
    return found


def lines(data: bytes, at: int, new: bytes) -> bytes:
    parts = data.splitlines(keepends=True)
    parts[at] = new
    return b"".join(parts)


def steps(top: str) -> list[Step]:
    args = FILES["sglang/srt/server_args.py"]
    once = lines(args, 5, b"changed by one\n")
    return [
        Step("set", "one", "1" * 64, "clean", {f"{top}sglang/srt/server_args.py": once}),
        Step(
            "set",
            "two",
            "2" * 64,
            "moved",
            {
                f"{top}sglang/srt/server_args.py": lines(once, 50, b"changed by two\n"),
                f"{top}sglang/srt/new/deep/kernel.py": b"pass\n",
                f"{top}sglang/srt/a.py": None,
            },
            {f"{top}sglang/srt/new/deep/kernel.py": "100755"},
            message="Add a kernel\n\nBecause.",
            author="Some One <some@one>",
            date="1700000000 +0100",
        ),
    ]


def write(target: Target, todo: list[Step], way: str, branch: str = "") -> str:
    with at_work(target) as root:
        return write_steps(target, root, todo, way=way, branch=branch).result


def take(target: Target, *names: str) -> None:
    with at_work(target) as root:
        revert(target, root, [("set", name) for name in names])


def test_a_folder_gets_the_patches_and_gives_them_back(tmp_path: Path) -> None:
    root = folder(tmp_path)
    before = snapshot(root)
    result = write(opened(root), steps(""), "folder")
    assert (root / "sglang/srt/server_args.py").read_bytes().splitlines()[5] == b"changed by one"
    assert (root / "sglang/srt/server_args.py").read_bytes().splitlines()[50] == b"changed by two"
    assert (root / "sglang/srt/new/deep/kernel.py").stat().st_mode & 0o100
    assert not (root / "sglang/srt/a.py").exists()
    target = opened(root)
    assert target.tree.info().content_id == result
    assert target.state is not None and [p.name for p in target.state.patches] == ["one", "two"]
    take(target, "one", "two")
    assert snapshot(root) == before


def test_one_patch_is_taken_out_from_under_another(tmp_path: Path) -> None:
    root = folder(tmp_path)
    before = snapshot(root)
    write(opened(root), steps(""), "folder")
    take(opened(root), "one")
    found = (root / "sglang/srt/server_args.py").read_bytes().splitlines()
    assert found[5] == b"line 5" and found[50] == b"changed by two"
    take(opened(root), "two")
    assert snapshot(root) == before


def test_a_patch_on_the_same_lines_has_to_go_first(tmp_path: Path) -> None:
    root = folder(tmp_path)
    path = "sglang/srt/a.py"
    todo = [
        Step("set", "one", "1" * 64, "clean", {path: b"one\nTWO\nthree\n"}),
        Step("set", "two", "2" * 64, "clean", {path: b"one\nTWO!\nthree\n"}),
    ]
    write(opened(root), todo, "folder")
    before = snapshot(root)
    with pytest.raises(UserError) as caught:
        take(opened(root), "one")
    assert caught.value.code == "P053" and caught.value.exit_code == 3
    assert caught.value.hints == ("patches revert set two",)
    assert snapshot(root) == before


def test_edits_made_since_stay_when_a_patch_goes(tmp_path: Path) -> None:
    root = folder(tmp_path)
    write(opened(root), steps(""), "folder")
    place = root / "sglang/srt/server_args.py"
    place.write_bytes(b"by hand\n" + place.read_bytes())
    take(opened(root), "one", "two")
    assert place.read_bytes() == b"by hand\n" + FILES["sglang/srt/server_args.py"]


@pytest.mark.parametrize("way", ["staged", "commits"])
def test_a_checkout(tmp_path: Path, way: str) -> None:
    root = clone(tmp_path)
    before, index = snapshot(root), git(root, "ls-files", "-s")
    start = git(root, "rev-parse", "HEAD")
    result = write(opened(root), steps("python/"), way, "mine" if way == "commits" else "")
    assert git(root, "status", "--porcelain") == (
        "" if way == "commits" else git(root, "status", "--porcelain")
    )
    assert git(root, "diff-files") == ""
    if way == "commits":
        assert git(root, "symbolic-ref", "HEAD") == "refs/heads/mine"
        assert git(root, "rev-parse", "HEAD^{tree}") == result
        assert git(root, "rev-parse", "HEAD~2") == start
        assert git(root, "log", "-1", "--format=%an <%ae> %ad", "--date=raw") == (
            "Some One <some@one> 1700000000 +0100"
        )
        message = git(root, "log", "-1", "--format=%B")
        assert message.startswith("Add a kernel\n\nBecause.\n\nPatch-Name: two\nPatch-Set: set\n")
        assert git(root, "fsck", "--strict") == ""
        assert git(root, "for-each-ref", "refs/patches-state") == ""
    else:
        assert git(root, "rev-parse", "HEAD") == start
        assert git(root, "write-tree") == result
    take(opened(root), "one", "two")
    assert snapshot(root) == before
    assert git(root, "ls-files", "-s") == index
    assert git(root, "diff-files") == "" and git(root, "diff-index", "--cached", start) == ""
    if way == "commits":
        assert git(root, "rev-parse", "HEAD^{tree}") == git(root, "rev-parse", f"{start}^{{tree}}")


def test_staged_patches_can_be_added_to_and_committed(tmp_path: Path) -> None:
    root = clone(tmp_path)
    before = snapshot(root)
    write(opened(root), steps("python/")[:1], "staged")
    assert opened(root).dirty() == []
    write(opened(root), steps("python/")[1:], "staged")
    git(root, "commit", "-q", "-m", "kept")
    take(opened(root), "one")
    take(opened(root), "two")
    assert snapshot(root) == before


def count_calls(monkeypatch: pytest.MonkeyPatch, at: int) -> list[str]:
    """Let the process end, without any clean-up, before the ``at``-th call that changes the disk."""
    seen: list[str] = []

    def wrap(owner: object, name: str) -> None:
        real = getattr(owner, name)

        def call(*args: object, **kwargs: object) -> object:
            seen.append(name)
            if len(seen) == at:
                os._exit(9)
            return real(*args, **kwargs)

        monkeypatch.setattr(owner, name, call)

    monkeypatch.setattr(os, "fsync", lambda handle: None)  # matters for power, not for kill, and costs
    for name in ("rename", "replace", "unlink", "mkdir", "rmdir", "fchmod", "fsync"):
        wrap(os, name)
    return seen


def killed_at(work: object, at: int, monkeypatch: pytest.MonkeyPatch) -> bool:
    """Run ``work`` in a child that dies at its ``at``-th change of the disk; whether it lived to the end."""
    child = os.fork()
    if child == 0:
        try:
            count_calls(monkeypatch, at)
            work()  # type: ignore[operator]
        except BaseException:
            os._exit(7)
        os._exit(0)
    _, status = os.waitpid(child, 0)
    code = os.waitstatus_to_exitcode(status)
    assert code in (0, 9), code
    return code == 0


@pytest.mark.parametrize("way", ["folder", "commits", "staged"])
def test_killed_at_any_step_it_is_as_before_or_complete(
    tmp_path: Path, way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    top = "" if way == "folder" else "python/"
    root = folder(tmp_path) if way == "folder" else clone(tmp_path)
    branch = "mine" if way == "commits" else ""

    def whole() -> tuple[object, ...]:
        seen: tuple[object, ...] = (snapshot(root),)
        if way != "folder":
            seen += (git(root, "ls-files", "-s"), git(root, "rev-parse", "HEAD^{tree}"))
        return seen

    before = whole()
    ends = {"put back": 0, "finished": 0, "": 0}
    done = False
    at, stride = 0, 1 if way == "folder" else 4  # git is slow to ask
    while not done:
        at += stride
        assert at < 200
        done = killed_at(lambda: write(opened(root), steps(top), way, branch), at, monkeypatch)
        how, _ = repair(opened(root))
        ends[how] += 1
        if how == "finished" or (how == "" and opened(root).state is not None):
            state = opened(root).state
            assert state is not None and len(state.patches) == 2
            take(opened(root), "one", "two")
            if way == "commits":
                git(root, "symbolic-ref", "HEAD", "refs/heads/main")
                git(root, "branch", "-q", "-D", "mine")
        assert whole() == before, (at, how)
    assert ends["put back"] * stride > 10 and ends["finished"] >= 1

    write(opened(root), steps(top), way, branch)
    after = whole()
    done, at = False, 0
    while not done:
        at += stride
        done = killed_at(lambda: take(opened(root), "one", "two"), at, monkeypatch)
        how, _ = repair(opened(root))
        if how == "finished" or opened(root).state is None:
            assert whole() == before
            if way == "commits":
                git(root, "symbolic-ref", "HEAD", "refs/heads/main")
                git(root, "branch", "-q", "-D", "mine")
            if not done:
                write(opened(root), steps(top), way, branch)
        else:
            assert whole() == after, (at, how)


def test_a_failure_in_the_middle_puts_everything_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = folder(tmp_path)
    before = snapshot(root)
    real = disk.Root.put

    def full(self: disk.Root, path: str, token: str) -> None:
        if path.endswith("server_args.py"):
            raise OSError(28, "No space left on device", path)
        real(self, path, token)

    monkeypatch.setattr(disk.Root, "put", full)
    with pytest.raises(UserError) as caught:
        write(opened(root), steps(""), "folder")
    assert caught.value.code == "P043" and "no space" in caught.value.fact
    assert snapshot(root) == before


def test_a_file_changed_meanwhile_is_left_alone(tmp_path: Path) -> None:
    root = folder(tmp_path)
    target = opened(root)
    place = root / "sglang/version.py"  # comes last; other files are in place by then

    def meddle(word: str) -> None:
        if word.startswith("put") and not place.read_bytes().startswith(b"by hand"):
            place.write_bytes(b"by hand\n")

    todo = [*steps(""), Step("set", "zz", "3" * 64, "clean", {"sglang/version.py": b"__version__ = '2'\n"})]
    with pytest.raises(UserError) as caught, at_work(target) as held:
        write_steps(target, held, todo, way="folder", progress=meddle)
    assert caught.value.code == "P044"
    assert place.read_bytes() == b"by hand\n"
    place.write_bytes(FILES["sglang/version.py"])
    assert {k: v[1] for k, v in snapshot(root).items() if v[1]} == {
        **FILES,
        "sglang-1.2.3.dist-info/METADATA": b"Metadata-Version: 2.1\nName: sglang\nVersion: 1.2.3\n",
    }


def test_what_is_not_clean_is_refused(tmp_path: Path) -> None:
    root = clone(tmp_path)
    place = root / "python/sglang/srt/server_args.py"
    place.write_bytes(b"x\n")
    target = opened(root)
    assert target.dirty() == ["python/sglang/srt/server_args.py"]
    with pytest.raises(UserError) as caught:
        write(target, steps("python/"), "staged")
    assert caught.value.code == "P051" and "uncommitted" in caught.value.fact
    git(root, "checkout", "-q", ".")
    (root / "python/sglang/srt/new/deep").mkdir(parents=True)
    (root / "python/sglang/srt/new/deep/kernel.py").write_bytes(b"mine\n")
    with pytest.raises(UserError) as caught:
        write(opened(root), steps("python/"), "staged")
    assert caught.value.code == "P051" and "in the way" in caught.value.fact


def test_no_way_leads_out_through_a_link(tmp_path: Path) -> None:
    root = folder(tmp_path)
    outside = tmp_path / "outside"
    outside.mkdir()
    os.symlink(outside, root / "sglang/srt/link")
    todo = [Step("set", "bad", "1" * 64, "clean", {"sglang/srt/link/x.py": b"x\n"})]
    with pytest.raises(UserError) as caught:
        write(opened(root), todo, "folder")
    assert caught.value.code == "P041"
    os.symlink(tmp_path / "passwd", root / "sglang/srt/name.py")
    todo = [Step("set", "bad", "1" * 64, "clean", {"sglang/srt/name.py": b"x\n"})]
    with pytest.raises(UserError) as caught:
        write(opened(root), todo, "folder")
    assert caught.value.code == "P041"
    assert list(outside.iterdir()) == [] and not (tmp_path / "passwd").exists()


def test_nothing_of_a_hostile_repository_runs(tmp_path: Path) -> None:
    root = clone(tmp_path)
    trap = tmp_path / "trap.sh"
    trap.write_text(f"#!/bin/sh\necho ran >> {tmp_path}/ran\ncat\n")
    trap.chmod(0o755)
    for hook in ("post-index-change", "reference-transaction", "post-checkout", "pre-commit", "post-commit"):
        (root / ".git/hooks").mkdir(exist_ok=True)
        (root / ".git/hooks" / hook).symlink_to(trap)
    (root / ".git/info").mkdir(exist_ok=True)
    (root / ".git/info/attributes").write_text("* filter=bad diff=bad merge=bad\n")
    programs = "core.fsmonitor filter.bad.clean filter.bad.smudge filter.bad.process diff.bad.command"
    for key in (*programs.split(), "diff.external", "core.sshCommand", "core.pager", "gpg.program"):
        git(root, "config", key, str(trap))
    git(root, "config", "filter.bad.required", "true")
    git(root, "config", "commit.gpgsign", "true")
    os.utime(root / "python/sglang/srt/a.py", (1, 1))
    for way, branch in (("staged", ""), ("commits", "mine")):
        target = opened(root)
        assert target.dirty() == []
        write(target, steps("python/"), way, branch)
        take(opened(root), "one", "two")
    assert not (tmp_path / "ran").exists()


def test_two_runs_do_not_meet(tmp_path: Path) -> None:
    root = folder(tmp_path)
    with at_work(opened(root)), pytest.raises(UserError) as caught, at_work(opened(root), 0.1):
        pass
    assert caught.value.code == "P042"


def test_an_unfinished_run_is_told_and_not_built_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = folder(tmp_path)
    assert not killed_at(lambda: write(opened(root), steps(""), "folder"), 12, monkeypatch)
    assert (root / ".patches-state" / journal.JOURNAL).exists()
    with pytest.raises(UserError) as caught:
        write(opened(root), steps(""), "folder")
    assert caught.value.code == "P056"
    assert repair(opened(root)) == ("put back", "apply one, two")
    assert not (root / ".patches-state").exists()


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_target_that_cannot_be_written(tmp_path: Path) -> None:
    root = folder(tmp_path)
    (root / "sglang/srt").chmod(0o555)
    before = snapshot(root)
    with pytest.raises(UserError) as caught:
        write(opened(root), steps(""), "folder")
    assert caught.value.code == "P043"
    assert snapshot(root) == before
    (root / "sglang/srt").chmod(0o755)


def test_an_editable_install_beside_a_copy_is_refused(tmp_path: Path) -> None:
    root = folder(tmp_path)
    (root / "__editable__.sglang-1.2.3.pth").write_text(f"{tmp_path}/elsewhere\n")
    with pytest.raises(UserError) as caught:
        opened(root)
    assert caught.value.code == "P054"


def test_a_wheel_file_is_no_target(tmp_path: Path) -> None:
    wheel = tmp_path / "x.whl"
    wheel.write_bytes(b"PK")
    with pytest.raises(UserError) as caught:
        opened(wheel)
    assert caught.value.code == "P055"


def test_a_checkout_in_the_middle_of_something_is_left_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from auditor.patching.write import checkout

    root = clone(tmp_path)
    (root / ".git/MERGE_HEAD").write_text(git(root, "rev-parse", "HEAD") + "\n")
    with pytest.raises(UserError) as caught:
        write(opened(root), steps("python/"), "staged")
    assert caught.value.code == "P051" and "merge" in caught.value.fact
    (root / ".git/MERGE_HEAD").unlink()
    monkeypatch.setattr(checkout, "_INDEX_PATIENCE", 0.1)
    (root / ".git/index.lock").touch()
    before = snapshot(root)
    with pytest.raises(UserError) as caught:
        write(opened(root), steps("python/"), "staged")
    assert caught.value.code == "P052"
    (root / ".git/index.lock").unlink()
    assert snapshot(root) == before and git(root, "status", "--porcelain") == ""


def test_a_lock_of_ours_that_a_kill_left_is_removed_and_only_ours(tmp_path: Path) -> None:
    from auditor.patching.write.ownindex import own_index
    from auditor.patching.write.repair import repair

    root = clone(tmp_path)
    store = root / ".git/patches-state"
    with pytest.raises(KeyboardInterrupt), own_index(root / ".git", store, 0) as index:
        assert index.read_bytes() == (root / ".git/index").read_bytes()
        words = (root / ".git/index.lock").read_bytes()  # no git can change the index now
        raise KeyboardInterrupt
    assert not (root / ".git/index.lock").exists() and not any(store.iterdir())
    # As SIGKILL leaves it: our lock, and git's on the copy.
    (root / ".git/index.lock").write_bytes(words)
    (store / "index").write_bytes(b"half")
    (store / "index.lock").touch()
    assert repair(opened(root)) == ("", "")
    assert not (root / ".git/index.lock").exists() and not store.exists()
    write(opened(root), steps("python/"), "staged")
    (root / ".git/index.lock").touch()  # somebody else's
    repair(opened(root))
    assert (root / ".git/index.lock").exists()


def test_nothing_but_the_change_itself_takes_the_lock_of_the_index(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from auditor.trees import git as trees_git

    root = clone(tmp_path)
    asked: list[str] = []
    real = trees_git.run_git

    def seen(args: list[str], **how: object) -> object:
        index = how.get("index")
        asked.extend(word for word in args if word in ("write-tree", "update-index") and index is None)
        return real(args, **how)  # type: ignore[arg-type]

    monkeypatch.setattr(trees_git, "run_git", seen)
    write(opened(root), steps("python/"), "staged")
    take(opened(root), "one", "two")
    assert asked == []


def test_a_copied_clone_is_not_dirty_and_is_asked_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import shutil

    from auditor.trees import git as trees_git

    root = clone(tmp_path)
    (root / "link").symlink_to("no/where")
    git(root, "add", "link")
    git(root, "commit", "-qm", "link")
    copy = tmp_path / "copy"
    shutil.copytree(root, copy, symlinks=True)  # the facts in its index are those of other files
    for path in copy.rglob("*.py"):
        os.utime(path, (1, 1))
    os.utime(copy / "link", (1, 1), follow_symlinks=False)
    runs: list[object] = []
    real = trees_git.run_git
    monkeypatch.setattr(trees_git, "run_git", lambda args, **how: runs.append(args) or real(args, **how))
    target = opened(copy)
    assert target.checkout is not None and target.checkout.dirty() == []
    assert len(runs) < 10
    (copy / "link").unlink()
    (copy / "link").symlink_to("else/where")
    assert target.checkout.dirty() == ["link"]
    (copy / "link").unlink()
    (copy / "link").write_text("no/where")
    assert target.checkout.dirty() == ["link"]


def test_commits_on_another_branch_are_not_on_this_one(tmp_path: Path) -> None:
    root = clone(tmp_path)
    before = snapshot(root)
    write(opened(root), steps("python/"), "commits", "mine")
    git(root, "checkout", "-q", "main")
    assert opened(root).state is None and snapshot(root) == before
    write(opened(root), steps("python/"), "commits", "again")
    take(opened(root), "one", "two")
    assert snapshot(root) == before


def test_a_target_is_named_again_as_it_can_be_typed(tmp_path: Path) -> None:
    root = tmp_path / "with blank"
    root.mkdir()
    put(root, FILES)
    assert opened(root).option == f"--to '{root}'"
    site = folder(tmp_path)
    put(site, {"sglang-1.2.3.dist-info/RECORD": b"".join(b"%s,,\n" % path.encode() for path in FILES)})
    assert open_target(None, str(site), load_profile("sglang")).option == f"--installed {site}"


def test_compiled_files_that_hide_a_patch_are_told(tmp_path: Path) -> None:
    import py_compile

    root = folder(tmp_path)
    for mode in (py_compile.PycInvalidationMode.TIMESTAMP, py_compile.PycInvalidationMode.CHECKED_HASH):
        py_compile.compile(str(root / "sglang/version.py"), invalidation_mode=mode)
        assert opened(root).never_checked(["sglang/version.py"]) == []
    hidden = py_compile.PycInvalidationMode.UNCHECKED_HASH
    name = py_compile.compile(str(root / "sglang/version.py"), invalidation_mode=hidden)
    assert opened(root).never_checked(["sglang/version.py", "sglang/srt/tool.sh"]) == [
        os.path.relpath(str(name), root)
    ]
