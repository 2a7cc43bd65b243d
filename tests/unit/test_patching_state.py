"""Deltas, the record, and the law: applied and taken back, every byte, mode and index entry is as before."""

from __future__ import annotations

import os
import random
import shutil
import subprocess
import tempfile
from pathlib import Path

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from auditor.errors import UserError
from auditor.patching.diffs.delta import delta, redo, undo
from auditor.patching.write.gitpart import Step
from auditor.patching.write.operations import at_work, revert, write_steps
from auditor.patching.write.state import SCHEMA, Applied, Base, State, decode, encode, how_it_stands
from auditor.patching.write.target import open_target
from auditor.patching.write.unapply import take_back
from auditor.profile import load_profile

LINES = st.lists(
    st.sampled_from([b"a\n", b"b\n", b"\n", b"x = 1\n", b"\xff\xfe\n", b"c\r\n", b"\0\n"]), max_size=12
)
CONTENT = st.builds(lambda lines, last: b"".join(lines) + last, LINES, st.sampled_from([b"", b"no end"]))
MAYBE = st.one_of(st.none(), CONTENT)


@given(MAYBE, MAYBE)
def test_a_delta_leads_both_ways(old: bytes | None, new: bytes | None) -> None:
    change = msgspec.json.decode(msgspec.json.encode(delta("p", old, new)), type=type(delta("p", old, new)))
    assert redo(change, old) == new
    assert undo(change, new) == old


@given(CONTENT, CONTENT, st.integers(1, 9))
def test_on_other_bytes_it_is_exact_or_refuses(old: bytes, new: bytes, more: int) -> None:
    change = delta("p", old, new)
    other = b"".join(b"line %d\n" % n for n in range(more)) + new
    try:
        back = undo(change, other)
    except ValueError:
        return
    assert (
        back == other.replace(new, old, 1)
        or back == other[: len(other) - len(new)] + old
        or len(change.hunks) != 1
    )


def test_a_hunk_that_stands_twice_is_refused() -> None:
    old, new = b"a\nb\nc\n", b"a\nB\nc\n"
    with pytest.raises(ValueError, match="at 2 places"):
        undo(delta("p", old, new), new + new)
    with pytest.raises(ValueError, match="nowhere"):
        undo(delta("p", old, new), b"a\nBB\nc\n")
    with pytest.raises(ValueError, match="gone"):
        undo(delta("p", old, new), None)
    with pytest.raises(ValueError, match="changed since it was added"):
        undo(delta("p", None, new), b"other\n")
    with pytest.raises(ValueError, match="that was not"):
        undo(delta("p", old, None), b"other\n")


def test_a_record_says_what_is_there() -> None:
    one = delta("f", b"1\n", b"2\n", 0o644, 0o644)
    state = State(
        SCHEMA, "sglang", "folder", Base("b", "t"), "r", (Applied("s", "one", "0", "clean", (one,)),)
    )
    assert decode(encode(state).encode(), "x") == state
    assert how_it_stands(state, {"f": one.new}) == {"f": "applied"}
    assert how_it_stands(state, {"f": one.old}) == {"f": "as before"}
    assert how_it_stands(state, {}) == {"f": "changed"}
    for bad in (b"", b"{", b'{"schema": 1}', encode(state).replace('"schema": 1', '"schema": 2').encode()):
        with pytest.raises(UserError) as caught:
            decode(bad, "x")
        assert caught.value.code == "P047"
    damaged = State(
        SCHEMA, "sglang", "folder", state.base, "r",
        (Applied("s", "one", "0", "clean", (msgspec.structs.replace(one, old="0" * 40),)),),
    )  # fmt: skip
    with pytest.raises(UserError) as caught:
        take_back(damaged, [("s", "one")], lambda path: (b"2\n", 0o644))
    assert caught.value.code == "P053" and "damaged" in caught.value.fact


def build(seed: int, top: str) -> tuple[dict[str, tuple[bytes, int]], list[Step]]:
    """A random tree and random patches on it: files changed, added, removed, made executable."""
    dice = random.Random(seed)

    def content() -> bytes:
        lines = [
            dice.choice([b"a\n", b"b = %d\n" % dice.randrange(9), b"\n", b"\xff\n", b"c\r\n"])
            for _ in range(dice.randrange(14))
        ]
        return b"".join(lines) + dice.choice([b"", b"", b"end"])

    names = [f"{top}sglang/srt/{dice.choice('abc')}/{dice.choice('fgh')}{n}.py" for n in range(6)]
    names += [f"{top}sglang/srt/\u00fc {n}.py" for n in range(2)]
    files = {name: (content(), dice.choice([0o644, 0o755, 0o664])) for name in names}
    files[f"{top}sglang/version.py"] = (b"v = 1\n", 0o644)
    now: dict[str, bytes | None] = {name: data for name, (data, _) in files.items()}
    steps = []
    for number in range(dice.randrange(1, 6)):
        out: dict[str, bytes | None] = {}
        modes: dict[str, str] = {}
        for _ in range(dice.randrange(1, 4)):
            kind = dice.choice(["change", "change", "add", "remove", "mode"])
            if kind == "add":
                path = f"{top}sglang/srt/new{dice.randrange(3)}/x/{number}.py"
                out[path] = now[path] = content()
                modes[path] = dice.choice(["100644", "100755"])
                continue
            there = [name for name in names if now[name] is not None]
            if not there:
                continue
            path = dice.choice(there)
            if kind == "remove":
                out[path] = now[path] = None
                modes.pop(path, None)
            else:
                lines = (now[path] or b"").splitlines(keepends=True)
                if kind == "change":
                    lines.insert(dice.randint(0, len(lines)), b"patch %d\n" % number)
                else:
                    modes[path] = dice.choice(["100644", "100755"])
                out[path] = now[path] = b"".join(lines)
        steps.append(Step("set", f"p{number}", "0" * 64, "clean", out, modes))
    return files, steps


def snapshot(root: Path) -> dict[str, tuple[int, bytes]]:
    found = {}
    for path in sorted(root.rglob("*")):
        if ".git" not in path.relative_to(root).parts:
            found[path.relative_to(root).as_posix()] = (
                path.lstat().st_mode,
                path.read_bytes() if path.is_file() else b"",
            )
    return found


def git(root: Path, *args: str) -> str:
    env = {**os.environ, "GIT_CONFIG_GLOBAL": "/dev/null", "GIT_COMMITTER_NAME": "C", "GIT_AUTHOR_NAME": "A"}
    env |= {"GIT_AUTHOR_EMAIL": "a@b", "GIT_COMMITTER_EMAIL": "c@d"}
    return subprocess.check_output(["git", *args], cwd=root, env=env, text=True).strip()


def there_and_back(seed: int, way: str, order: str) -> None:
    top = "" if way == "folder" else "python/"
    files, steps = build(seed, top)
    with tempfile.TemporaryDirectory() as name:
        root = Path(name)
        for path, (data, mode) in files.items():
            (root / path).parent.mkdir(parents=True, exist_ok=True)
            (root / path).write_bytes(data)
            (root / path).chmod(mode)
        if way != "folder":
            git(root, "init", "-q", "-b", "main")
            git(root, "config", "core.autocrlf", "false")
            git(root, "add", "-A")
            git(root, "commit", "-qm", "start")
        index = git(root, "ls-files", "-s") if way != "folder" else ""
        before = snapshot(root)
        profile = load_profile("sglang")

        def opened():  # type: ignore[no-untyped-def]
            return open_target(str(root), None, profile)

        target = opened()
        with at_work(target) as held:
            written = write_steps(target, held, steps, way=way, branch="mine" if way == "commits" else "")
        if way == "commits":
            assert git(root, "rev-parse", "HEAD^{tree}") == written.result
            assert git(root, "status", "--porcelain") == ""
        elif way == "staged":
            assert git(root, "write-tree") == written.result
            assert git(root, "diff-files") == ""
        after = snapshot(root)
        names = [("set", step.name) for step in steps]
        if order == "one by one":
            rounds = [[name] for name in reversed(names)]
        elif order == "all":
            rounds = [names]
        else:
            random.Random(seed).shuffle(names)
            rounds = [[name] for name in names]
        refused: list[tuple[str, str]] = []
        for each in rounds:
            target = opened()
            here = snapshot(root)
            try:
                with at_work(target) as held:
                    revert(target, held, each)
            except UserError as error:
                assert error.code == "P053" and order == "any"
                assert snapshot(root) == here
                refused += each
        if refused:
            target = opened()
            with at_work(target) as held:
                revert(target, held, refused)
        assert after != before or not any(step.files for step in steps) or snapshot(root) == before
        assert snapshot(root) == before
        if way != "folder":
            assert git(root, "ls-files", "-s") == index
            assert git(root, "diff-files") == ""
        assert not (root / ".patches-state").exists()
        assert not (root / ".git/patches-state").exists()
        shutil.rmtree(root / ".git", ignore_errors=True)


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.integers(0, 2**32), st.sampled_from(["all", "one by one", "any"]))
def test_there_and_back_in_a_folder(seed: int, order: str) -> None:
    there_and_back(seed, "folder", order)


@settings(max_examples=6, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.integers(0, 2**32), st.sampled_from(["staged", "commits"]), st.sampled_from(["all", "any"]))
def test_there_and_back_in_a_checkout(seed: int, way: str, order: str) -> None:
    there_and_back(seed, way, order)
