"""Killed for good at any moment, a target is as before or complete, and ``doctor`` says which.

On a tree of real size: an unpacked release wheel where one is at hand, else as many made-up files.
``PATCHING_KILL_MOMENTS`` sets how many moments are tried for each way of writing (few by default).
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import time
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from auditor.patching.write.gitpart import Step
from auditor.patching.write.operations import at_work, revert, write_steps
from auditor.patching.write.repair import repair
from auditor.patching.write.target import Target, open_target
from auditor.profile import load_profile

pytestmark = pytest.mark.slow

MOMENTS = int(os.environ.get("PATCHING_KILL_MOMENTS", "6"))
ROOT = Path(__file__).parents[2]


def unpacked(folder: Path, top: str) -> None:
    """A package of real size below ``folder / top``."""
    wheels = Path(os.environ.get("SGLANG_AUDITOR_WHEELS") or ROOT / ".cache" / "wheels")
    found = sorted(wheels.glob("sglang-0.5.14-*.whl")) if wheels.is_dir() else []
    if found:
        with zipfile.ZipFile(found[0]) as archive:
            archive.extractall(folder / top)
        return
    for number in range(2500):
        path = folder / top / f"sglang/srt/part{number % 50}/module{number}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("".join(f"value_{n} = {n * number}\n" for n in range(number % 400)))
    (folder / top / "sglang/version.py").write_text('__version__ = "0.5.14"\n')
    info = folder / top / "sglang-0.5.14.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: sglang\nVersion: 0.5.14\n")


def git(root: Path, *args: str) -> str:
    who = {f"GIT_{who}_{what}": "a@b" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
    env = {**os.environ, **who, "GIT_CONFIG_GLOBAL": "/dev/null"}
    done = subprocess.run(["git", *args], cwd=root, env=env, check=True, capture_output=True, text=True)
    return done.stdout.strip()


def steps(target: Target, seed: int) -> list[Step]:
    """Ten patches over some thirty files: changed, removed and added ones."""
    dice = random.Random(seed)
    blobs = target.tree.blobs()
    paths = dice.sample([path for path in blobs if path.endswith(".py")], 40)
    now = {path: data for path, data in target.tree.read_many(paths)}
    out = []
    for number in range(10):
        files: dict[str, bytes | None] = {}
        for path in dice.sample(paths, 4):
            if now.get(path) is None:
                continue
            lines = (now[path] or b"").splitlines(keepends=True)
            lines.insert(dice.randint(0, len(lines)), b"# patch %d\n" % number)
            now[path] = files[path] = b"".join(lines)
        gone = dice.choice([path for path in paths if now.get(path) is not None])
        now[gone] = files[gone] = None
        top = paths[0].partition("sglang/")[0]
        files[f"{top}sglang/srt/added/by{number}/new.py"] = b"x = %d\n" % number
        out.append(Step("set", f"p{number}", "0" * 64, "clean", files))
    return out


def killed(work: Callable[[], None], after: float) -> bool:
    """Run ``work`` in a child and kill it after some seconds; whether it was done before."""
    child = os.fork()
    if child == 0:
        try:
            work()
        except BaseException:
            os._exit(7)
        os._exit(0)
    time.sleep(after)
    os.kill(child, signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    code = os.waitstatus_to_exitcode(status)
    assert code in (0, -signal.SIGKILL), code
    return code == 0


def snapshot(root: Path, checkout: bool) -> dict[str, tuple[int, int, bytes]]:
    """path -> (mode, size, bytes) of everything but caches of bytes that did not change in size."""
    found: dict[str, tuple[int, int, bytes]] = {}
    for folder, names, files in os.walk(root):
        if ".git" in names:
            names.remove(".git")
        for name in [*names, *files]:
            path = os.path.join(folder, name)
            facts = os.lstat(path)
            data = b""
            if name.endswith(".py"):
                with open(path, "rb") as file:
                    data = file.read()
            found[os.path.relpath(path, root)] = (facts.st_mode, facts.st_size * (name in files), data)
    if checkout:
        found["<index>"] = (0, 0, git(root, "ls-files", "-s").encode())
        found["<tree>"] = (0, 0, git(root, "rev-parse", "HEAD^{tree}").encode())
        found["<changed>"] = (0, 0, git(root, "diff-files", "--name-only").encode())
    return found


@pytest.mark.parametrize("way", ["folder", "staged", "commits"])
def test_killed_at_random_moments(tmp_path: Path, way: str) -> None:
    checkout = way != "folder"
    unpacked(tmp_path, "python" if checkout else "")
    if checkout:
        git(tmp_path, "init", "-q", "-b", "main")
        git(tmp_path, "add", "-A")
        git(tmp_path, "commit", "-q", "-m", "start")
    profile = load_profile("sglang")

    def opened() -> Target:
        return open_target(str(tmp_path), None, profile)

    todo = steps(opened(), 7)
    names = [("set", step.name) for step in todo]

    def apply() -> None:
        target = opened()
        with at_work(target, 30) as root:
            write_steps(target, root, todo, way=way, branch="mine" if way == "commits" else "")

    def take_out() -> None:
        target = opened()
        with at_work(target, 30) as root:
            revert(target, root, names)

    def leave_branch() -> None:
        if git(tmp_path, "symbolic-ref", "HEAD") != "refs/heads/main":
            git(tmp_path, "symbolic-ref", "HEAD", "refs/heads/main")
            git(tmp_path, "branch", "-q", "-D", "mine")

    before = snapshot(tmp_path, checkout)
    start = time.monotonic()
    apply()
    long = time.monotonic() - start
    after = snapshot(tmp_path, checkout)
    assert before != after
    dice = random.Random(f"{way} {MOMENTS}")
    ends: dict[str, int] = {}
    on = True
    for number in range(MOMENTS):
        moment = dice.uniform(0, 1.2 * long)
        done = killed(take_out if on else apply, moment)
        how, _ = repair(opened(), 30)
        there = opened().state is not None
        if way == "commits" and on and not there:
            leave_branch()
        now = snapshot(tmp_path, checkout)
        assert now == (after if there else before), (number, moment, how, done)
        end = f"{'revert' if on else 'apply'}: {how or 'nothing to repair'}"
        ends[end] = ends.get(end, 0) + 1
        on = there
    print(way, MOMENTS, ends)
