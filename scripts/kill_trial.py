"""Kill patches for good at random moments of apply and revert, and see whether anything is lost.

    python scripts/kill_trial.py --wheel sglang-0.5.14-*.whl --moments 200

For each way of writing (a folder, staged in a checkout, commits) ten patches over some thirty files are
applied and taken out again on a part of a real wheel. A child does it and is killed with SIGKILL, every
second time with the git that it started. After each, what doctor does must leave every byte, mode, index
entry and the tree of HEAD as before or as after the run, no lock of git, and nothing beside the files.
Exit code 1 where it does not.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import zipfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from auditor.errors import UserError
from auditor.patching.write.gitpart import Step
from auditor.patching.write.operations import at_work, revert, write_steps
from auditor.patching.write.repair import repair
from auditor.patching.write.target import Target, open_target
from auditor.profile import Profile, load_profile

Tell = Callable[[str], None]
Work = Callable[[Tell], None]
WAYS = ("folder", "staged", "commits")
#: Files of the wheel that are unpacked besides those that say which release it is.
PART = 150


def unpack(wheel: Path, folder: Path, dice: random.Random) -> None:
    """A part of a wheel: its metadata, the files that mark the package, and some of its modules."""
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        needed = [n for n in names if ".dist-info/" in n or n.count("/") == 1 and n.endswith(".py")]
        needed += [n for n in names if n.endswith("/srt/server_args.py")]
        modules = sorted(n for n in names if n.endswith(".py") and n not in needed)
        archive.extractall(folder, [*needed, *dice.sample(modules, min(PART, len(modules)))])


def git(root: Path, *words: str) -> str:
    """Output of a git command of the trial itself, with no configuration of this machine."""
    who = {f"GIT_{who}_{what}": "a@b" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
    env = {**os.environ, **who, "GIT_CONFIG_GLOBAL": "/dev/null"}
    done = subprocess.run(["git", *words], cwd=root, env=env, check=True, capture_output=True, text=True)
    return done.stdout.strip()


def steps(target: Target, dice: random.Random) -> list[Step]:
    """Ten patches over some thirty files: changed, removed (no other file names them) and added ones."""
    modules = [path for path in target.tree.blobs() if path.endswith(".py")]
    texts = dict(target.tree.read_many(modules))
    paths = dice.sample(modules, 40)
    now = {path: texts[path] for path in paths}
    words = {path: path.rpartition("/")[2][: -len(".py")].encode() for path in paths}
    unnamed = [p for p in paths if not any(words[p] in text for other, text in texts.items() if other != p)]
    top = paths[0].partition("sglang/")[0]
    out = []
    for number in range(10):
        files: dict[str, bytes | None] = {}
        for path in dice.sample(sorted(now), 4):
            lines = now[path].splitlines(keepends=True)
            lines.insert(dice.randint(0, len(lines)), b"# patch %d\n" % number)
            now[path] = files[path] = b"".join(lines)
        if gone := unnamed.pop() if number % 2 and unnamed else "":
            now.pop(gone)
            files[gone] = None
        files[f"{top}sglang/srt/added/by{number}/new.py"] = b"x = %d\n" % number
        out.append(Step("set", f"p{number}", "0" * 64, "clean", files))
    return out


def killed(work: Work, after: float, late: bool, group: bool) -> bool:
    """Run ``work`` in a child and kill it after some seconds; whether it was done before.

    ``late`` counts the seconds from the first file that is written, else from the start.
    """
    heard, told = os.pipe()
    child = os.fork()
    if child == 0:
        os.setsid()
        try:
            work(lambda _: (os.write(told, b"."), None)[1])
        except BaseException as error:
            said = error.render() if isinstance(error, UserError) else repr(error)
            print(f"! the child failed: {said}", file=sys.stderr, flush=True)
            os._exit(7)
        os._exit(0)
    os.close(told)
    if late:
        os.read(heard, 1)  # or the end of a child that had nothing to write
    time.sleep(after)
    with suppress(ProcessLookupError):  # a group that is only just being made, or done
        (os.killpg if group else os.kill)(child, signal.SIGKILL)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    os.close(heard)
    if not group:
        _wait_for_group(child)  # a git that lives on
    if code not in (0, -signal.SIGKILL):
        raise SystemExit("the child failed by itself")
    return code == 0


def _wait_for_group(group: int) -> None:
    while True:
        try:
            os.killpg(group, 0)
        except (ProcessLookupError, PermissionError):
            return
        time.sleep(0.005)


def snapshot(root: Path, checkout: bool) -> dict[str, tuple[int, bytes]]:
    """path -> (mode, bytes) of everything, folders too; of a checkout also index, tree of HEAD and locks."""
    found: dict[str, tuple[int, bytes]] = {}
    for folder, names, files in os.walk(root):
        if ".git" in names:
            names.remove(".git")
        for name in [*names, *files]:
            path = Path(folder, name)
            if name != ".patches-state" and ".patches-state" not in path.parts:
                data = path.read_bytes() if name in files else b""
                found[path.relative_to(root).as_posix()] = (path.lstat().st_mode, data)
    if checkout:
        found["<index>"] = (0, git(root, "ls-files", "-s").encode())
        found["<tree>"] = (0, git(root, "rev-parse", "HEAD^{tree}").encode())
        found["<changed>"] = (0, git(root, "diff-files", "--name-only").encode())
        locks = sorted(p.as_posix() for p in (root / ".git").rglob("*.lock"))
        found["<locks>"] = (0, "\n".join(locks).encode())
    return found


def trial(root: Path, way: str, moments: int, profile: Profile, dice: random.Random) -> dict[str, int]:
    """The moments of one way of writing; how often which end came. ``SystemExit`` where something is lost."""
    checkout = way != "folder"

    def opened() -> Target:
        return open_target(str(root), None, profile)

    todo = steps(opened(), dice)
    branch = "mine" if way == "commits" else ""

    def apply(tell: Tell) -> None:
        target = opened()
        with at_work(target, 30) as held:
            write_steps(target, held, todo, way=way, branch=branch, progress=tell)

    def take_out(tell: Tell) -> None:
        target = opened()
        with at_work(target, 30) as held:
            revert(target, held, [("set", step.name) for step in todo], progress=tell)

    def leave_branch() -> None:
        if git(root, "symbolic-ref", "HEAD") != "refs/heads/main":
            git(root, "symbolic-ref", "HEAD", "refs/heads/main")
        if git(root, "branch", "--list", branch):
            git(root, "branch", "-q", "-D", branch)

    before = snapshot(root, checkout)
    took = {verb: (60.0, 60.0) for verb in ("apply", "revert")}  # to the first file, and from there on
    runs: list[tuple[str, Work]] = [("apply", apply), ("revert", take_out), ("apply", apply)]
    for name, run in runs:
        steps_at: list[float] = []
        start = time.monotonic()
        run(lambda _: steps_at.append(time.monotonic()))  # noqa: B023
        long = (steps_at[0] - start, time.monotonic() - steps_at[0])
        took[name] = min(took[name], long)  # the first one also imports
        if name == "revert" and way == "commits":
            leave_branch()
    after = snapshot(root, checkout)
    ends: dict[str, int] = {}
    left = {"apply": moments, "revert": moments}
    on = True
    while left["apply"] or left["revert"]:
        verb, work = ("revert", take_out) if on else ("apply", apply)
        if not left[verb]:  # nothing of this verb is left to try: bring it to the other one
            work(lambda _: None)
            if on and way == "commits":
                leave_branch()
            on = not on
            continue
        left[verb] -= 1
        late, group = dice.random() < 0.75, dice.random() < 0.5
        moment = dice.uniform(0, 1.2 * took[verb][1] if late else sum(took[verb]))
        done = killed(work, moment, late, group)
        try:
            how, _ = repair(opened(), 30)
        except UserError as error:
            raise SystemExit(f"{way} {verb} killed after {moment:.3f} s: {error.render()}") from None
        there = opened().state is not None
        if way == "commits" and not there:
            leave_branch()
        now = snapshot(root, checkout)
        good = after if there else before
        if now != good or (done and there == on):
            odd = sorted(k for k in now.keys() | good.keys() if now.get(k) != good.get(k))
            raise SystemExit(f"{way} {verb} killed after {moment:.3f} s, {how or 'whole'}: {odd[:5]}")
        end = f"{verb} {'done before' if done else how or 'not begun'}"
        ends[end] = ends.get(end, 0) + 1
        on = there
    return ends


def main() -> int:
    """Run the trial and print one line a way."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--wheel", type=Path, required=True, help="a release wheel of SGLang")
    parser.add_argument("--moments", type=int, default=200, help="of apply, and as many of revert, a way")
    parser.add_argument("--ways", default=",".join(WAYS), help="which of folder, staged, commits")
    parser.add_argument("--seed", type=int, default=4)
    parser.add_argument("--in", dest="where", type=Path, help="a folder to work in, best on a memory disk")
    words = parser.parse_args()
    profile = load_profile("sglang")
    for way in words.ways.split(","):
        dice = random.Random(f"{way} {words.seed}")
        root = Path(tempfile.mkdtemp(prefix="kill-trial-", dir=words.where))
        try:
            unpack(words.wheel, root / "python" if way != "folder" else root, dice)
            if way != "folder":
                git(root, "init", "-q", "-b", "main")
                git(root, "add", "-A")
                git(root, "commit", "-q", "-m", "start")
            ends = trial(root, way, words.moments, profile, dice)
        finally:
            shutil.rmtree(root, ignore_errors=True)
        told = ", ".join(f"{end} {count}" for end, count in sorted(ends.items()))
        print(f"{way}: {sum(ends.values())} moments, nothing lost; {told}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
