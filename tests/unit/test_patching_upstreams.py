"""One patchset for several upstreams: planned together, written to all targets or none, taken back as one."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from auditor.cli.clickrun import run
from auditor.cli.groups import patches as group
from auditor.cli.patches import target as patches_target
from auditor.patching.write import disk, together
from auditor.trees import cache

ENGINE = {
    "sglang/version.py": "__version__ = '1.2.3'\n",
    "sglang/srt/server_args.py": "".join(f"line_{n} = {n}\n" for n in range(30)),
    "sglang/srt/a.py": "one = 1\ntwo = 2\nthree = 3\n",
}
KERNELS = {
    "flashinfer/__init__.py": "from .gate import admits\n",
    "flashinfer/gate.py": "limit = 90\n\n\ndef admits(x):\n    return x >= limit\n",
}
SHARED = "int lanes() { return 32; }\n"


def put(root: Path, files: dict[str, str]) -> None:
    for path, text in files.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text)


def git(root: Path, *args: str) -> str:
    env = {**os.environ, "GIT_CONFIG_GLOBAL": "/dev/null"}
    env |= {f"GIT_{who}_{what}": "a@b" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
    done = subprocess.run(["git", *args], cwd=root, env=env, check=True, capture_output=True, text=True)
    return done.stdout.strip()


def commit(root: Path, files: dict[str, str]) -> Path:
    put(root, files)
    if not (root / ".git").exists():
        git(root, "init", "-q", "-b", "main")
    git(root, "add", "-A")
    git(root, "commit", "-q", "-m", "next")
    return root


def metadata(name: str, version: str) -> dict[str, str]:
    text = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
    return {f"{name.replace('-', '_')}-{version}.dist-info/METADATA": text}


def site(root: Path) -> Path:
    """One site-packages with both upstreams."""
    put(root, {**ENGINE, **KERNELS, "flashinfer/data/csrc/lanes.cu": SHARED})
    put(root, metadata("sglang", "1.2.3") | metadata("flashinfer-python", "0.7.0"))
    return root


def change(path: str, text: str, old: str, new: str, head: str = "") -> str:
    """A diff of one line, with a head."""
    lines = text.split("\n")
    at = lines.index(old)
    body = "".join(f" {line}\n" for line in lines[max(at - 2, 0) : at]) + f"-{old}\n+{new}\n"
    after = [line for line in lines[at + 1 : at + 3] if line]
    body += "".join(f" {line}\n" for line in after)
    count, first = min(at, 2) + 1 + len(after), max(at - 2, 0) + 1
    return (
        f"Subject: change {path}\n{head}---\ndiff --git a/{path} b/{path}\n--- a/{path}\n+++ b/{path}\n"
        f"@@ -{first},{count} +{first},{count} @@\n{body}"
    )


def engine(old: str, new: str, head: str = "", *, was: str = ENGINE["sglang/srt/a.py"]) -> str:
    return change("python/sglang/srt/a.py", was, old, new, head)


def kernels(old: str, new: str, head: str = "") -> str:
    head = f"X-Project: flashinfer\n{head}"
    return change("flashinfer/gate.py", KERNELS["flashinfer/gate.py"], old, new, head)


def patchset(place: Path, patches: dict[str, str]) -> Path:
    folder = place / "patchsets/mine"
    put(folder, {f"patches/{name}.patch": text for name, text in patches.items()})
    put(
        folder,
        {
            "patchset.yaml": "title: Both\nupstreams:\n  sglang: {}\n  flashinfer:\n"
            "    url: https://example.org/flashinfer\n    distributions: [flashinfer-python]\n"
            "    places: {csrc: flashinfer/data/csrc}\n"
            f"order: [{', '.join(patches)}]\n"
        },
    )
    return folder


BOTH = {
    "arg": engine("two = 2", "two = 22"),
    "gate": kernels("limit = 90", "limit = 120", "X-Requires: arg\n"),
    "last": engine("three = 3", "three = 33", "X-Requires: gate\n", was="one = 1\ntwo = 22\nthree = 3\n"),
}


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SGLANG_AUDITOR_CACHE_DIR", str(tmp_path / "cache"))
    patches_target._clones.clear()
    return tmp_path


class Said:
    def __init__(self, code: int, out: str, err: str) -> None:
        self.code, self.out, self.err = code, out, err

    def json(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.out)
        return found


Cli = Callable[..., Said]


@pytest.fixture
def cli(place: Path, capfdbinary: pytest.CaptureFixture[bytes]) -> Cli:
    def call(*words: str) -> Said:
        code = run(group, "patches", list(words))
        out, err = capfdbinary.readouterr()
        return Said(code, out.decode(), err.decode())

    return call


def snapshot(root: Path) -> dict[str, tuple[int, bytes]]:
    return {
        p.relative_to(root).as_posix(): (p.stat().st_mode, p.read_bytes())
        for p in sorted(root.rglob("*"))
        if p.is_file() and ".git" not in p.parts
    }


def two_clones(place: Path) -> tuple[Path, Path]:
    one = commit(place / "engine", {f"python/{path}": text for path, text in ENGINE.items()})
    two = commit(place / "kernels", {**KERNELS, "csrc/lanes.cu": SHARED, "pyproject.toml": ""})
    return one, two


def test_a_site_packages_gets_both_and_gives_both_back(place: Path, cli: Cli) -> None:
    patchset(place, BOTH)
    root = site(place / "site")
    before = snapshot(root)
    done = cli("apply", "mine", "--to", "site", "--no-audit")
    assert done.code == 0, done.err
    assert "written to 2 targets in one transaction" in done.out
    assert "sglang: written and read back: 1 file," in done.out
    assert "flashinfer: written and read back: 1 file," in done.out
    assert "flashinfer has no profile: nothing of it is audited" in done.out
    assert (root / "sglang/srt/a.py").read_text() == "one = 1\ntwo = 22\nthree = 33\n"
    assert (root / "flashinfer/gate.py").read_text().startswith("limit = 120\n")
    again = cli("apply", "mine", "--to", "site", "--no-audit")
    assert again.code == 0 and "is on site already" in again.out
    told = cli("status", "mine", "--to", "site", "--format", "json")
    rows = {row["upstream"]: row for row in told.json()["upstreams"]}
    assert told.code == 0
    assert [(p["name"], p["status"]) for p in rows["sglang"]["patches"]] == [
        ("arg", "applied"), ("last", "applied"),
    ]  # fmt: skip
    assert [(p["name"], p["status"]) for p in rows["flashinfer"]["patches"]] == [("gate", "applied")]
    whole = cli("doctor", "--to", "site")
    assert whole.code == 0 and "flashinfer: 1 patch, 1 file: every byte" in whole.out
    back = cli("revert", "mine", "--to", "site")
    assert back.code == 0, back.err
    assert snapshot(root) == before


def test_one_that_does_not_go_keeps_every_target_as_it_was(place: Path, cli: Cli) -> None:
    patchset(
        place, BOTH | {"gate": kernels("limit = 90", "limit = 120").replace("-limit = 90", "-limit = 7")}
    )
    root = site(place / "site")
    before = snapshot(root)
    done = cli("apply", "mine", "--to", "site", "--no-audit")
    assert done.code == 3 and "nothing was written" in done.out
    assert "next: patches explain mine gate --to flashinfer=site" in done.out
    assert snapshot(root) == before


@pytest.mark.parametrize("way", ["commits", "staged", "mixed"])
def test_checkouts_and_folders_together(place: Path, cli: Cli, way: str) -> None:
    patchset(place, BOTH)
    one, two = two_clones(place)
    if way == "mixed":
        two = site(place / "site")
    words = ["--to", f"sglang={one.name}", "--to", f"flashinfer={two.name}", "--no-audit"]
    words += ["--branch", "mine"] if way == "commits" else []
    before = snapshot(one), snapshot(two), git(one, "ls-files", "-s")
    done = cli("apply", "mine", *words)
    assert done.code == 0, done.err
    assert (one / "python/sglang/srt/a.py").read_text() == "one = 1\ntwo = 22\nthree = 33\n"
    assert (two / "flashinfer/gate.py").read_text().startswith("limit = 120\n")
    if way == "commits":
        assert git(one, "log", "--format=%s", "main..mine").count("change") == 2
        assert git(two, "log", "--format=%s", "main..mine").count("change") == 1
    alone = cli("revert", "mine", "--to", one.name)
    assert alone.code == 2 and "was written to flashinfer too" in alone.err
    assert f"patches revert mine --to {one.name} --to flashinfer={two.name}" in alone.err
    back = cli("revert", "mine", "--to", one.name, "--to", f"flashinfer={two.name}")
    assert back.code == 0, back.err
    assert (snapshot(one), snapshot(two), git(one, "ls-files", "-s")) == before


def test_what_is_not_said_is_asked_for(place: Path, cli: Cli) -> None:
    patchset(place, BOTH)
    one, _ = two_clones(place)
    half = cli("apply", "mine", "--to", "engine")
    assert half.code == 2 and "error[P049]: mine has patches for flashinfer too" in half.err
    assert "--to sglang=engine --to flashinfer=PATH" in half.err
    same = cli("apply", "mine", "--to", "sglang=engine", "--to", "sglang=kernels")
    assert same.code == 2 and "U005" in same.err
    odd = cli("apply", "mine", "--to", "torch=engine")
    assert odd.code == 2 and "no upstream 'torch'" in odd.err
    assert not git(one, "status", "--porcelain")
    # one upstream on purpose: what needs a patch of the other is not tried
    only = cli("apply", "mine", "--to", "engine", "--upstream", "sglang", "--no-audit")
    assert only.code == 3 and "it needs gate (not chosen)" in only.out
    only = cli("apply", "mine", "arg", "--to", "engine", "--no-audit")
    assert only.code == 0, only.err + only.out
    for verb in ("rebase", "export"):
        words = ("--onto", "main") if verb == "rebase" else ()
        said = cli(verb, "mine", *words)
        assert said.code == 2 and "has patches for sglang and flashinfer" in said.err, verb


def test_a_folder_that_is_elsewhere_when_installed(place: Path, cli: Cli) -> None:
    lanes = change(
        "csrc/lanes.cu", SHARED, SHARED.strip(), "int lanes() { return 64; }", "X-Project: flashinfer\n"
    )
    patchset(place, {"lanes": lanes})
    site(place / "site")
    two_clones(place)
    for target, path in (("site", "flashinfer/data/csrc/lanes.cu"), ("kernels", "csrc/lanes.cu")):
        done = cli("apply", "mine", "--to", target)
        assert done.code == 0, done.err
        assert "return 64" in (place / target / path).read_text()


def lanes_patch() -> str:
    new = "int lanes() { return 64; }"
    return change("csrc/lanes.cu", SHARED, SHARED.strip(), new, "X-Project: flashinfer\n")


@pytest.mark.parametrize("form", [(), ("--squash",)])
def test_what_is_exported_from_an_installed_copy_has_the_paths_of_the_repository(
    place: Path, cli: Cli, form: tuple[str, ...]
) -> None:
    patchset(place, {"lanes": lanes_patch()})
    site(place / "site")
    two_clones(place)
    given = []
    for base in ("site", "kernels"):
        out = place / f"out-{base}"
        done = cli("export", "mine", *form, "--upstream", "flashinfer", "--onto", f"flashinfer={base}",
                   "--output", str(out))  # fmt: skip
        assert done.code == 0, done.err
        files = [out] if out.is_file() else sorted(out.rglob("*.patch"))
        text = b"".join(file.read_bytes() for file in files)
        assert b"a/csrc/lanes.cu" in text and b"flashinfer/data" not in text
        given.append(text[text.index(b"diff --git") :].partition(b"\n-- \n")[0])
    assert given[0] == given[1]


def test_a_source_export_without_git_is_no_installed_copy(place: Path, cli: Cli) -> None:
    patchset(place, {"lanes": lanes_patch()})
    put(place / "export", {**KERNELS, "csrc/lanes.cu": SHARED, "pyproject.toml": "", "notes/a.txt": "a\n"})
    before = snapshot(place / "export")
    to = ("--to", "flashinfer=export")
    done = cli("apply", "mine", *to, "--allow-unknown")
    assert done.code == 0, done.out + done.err
    assert "return 64" in (place / "export/csrc/lanes.cu").read_text()
    assert cli("revert", "mine", *to).code == 0
    assert snapshot(place / "export") == before
    put(place / "export", metadata("flashinfer-python", "0.7.0"))  # metadata beside it: it is installed
    done = cli("apply", "mine", *to)
    assert done.code == 3 and "flashinfer/data/csrc/lanes.cu" in done.out


def test_the_lock_holds_both_and_each_is_held_to_it(place: Path, cli: Cli) -> None:
    patchset(place, BOTH)
    one, two = two_clones(place)
    base = ("--onto", "sglang=main", "--onto", "flashinfer=main")
    near = ("--clone", "sglang=engine", "--clone", "flashinfer=kernels")
    half = cli("lock", "mine", "--onto", "main", *near, "--no-audit")
    assert half.code == 2 and "there is no base for flashinfer" in half.err
    made = cli("lock", "mine", *base, *near, "--no-audit")
    assert made.code == 0, made.err
    lock = json.loads((place / "patchsets/mine/patchset.lock").read_bytes())
    assert list(lock["upstreams"]) == ["sglang", "flashinfer"]
    assert [(p["name"], p["project"]) for p in lock["patches"]] == [
        ("arg", "sglang"), ("gate", "flashinfer"), ("last", "sglang"),
    ]  # fmt: skip
    assert cli("lock", "mine", "--check", *near, "--no-audit").code == 0
    both = ("--to", "sglang=engine", "--to", "flashinfer=kernels")
    put(two, {"flashinfer/other.py": "x = 1\n"})
    commit(two, {})
    other = cli("apply", "mine", *both, "--frozen", "--no-audit")
    assert other.code == 1 and "the base is" in other.err
    assert not git(one, "status", "--porcelain")
    git(two, "reset", "-q", "--hard", "HEAD^")
    done = cli("apply", "mine", *both, "--frozen", "--no-audit")
    assert done.code == 0, done.err
    fine = cli("verify", "mine", *both)
    assert fine.code == 0 and "✓ flashinfer: 1 file is what the lock of mine says" in fine.out
    (two / "flashinfer/gate.py").write_text("limit = 1\n")
    wrong = cli("verify", "mine", *both)
    assert wrong.code == 1 and "✗ flashinfer: flashinfer/gate.py is another file" in wrong.out
    assert "✓ sglang" in wrong.out


def test_one_upstream_is_rebased_and_the_other_stays_locked(place: Path, cli: Cli) -> None:
    folder = patchset(place, BOTH)
    _, two = two_clones(place)
    near = ("--clone", "sglang=engine", "--clone", "flashinfer=kernels")
    cli("lock", "mine", "--onto", "sglang=main", "--onto", "flashinfer=main", *near, "--no-audit")
    before = json.loads((folder / "patchset.lock").read_bytes())
    shifted = {"flashinfer/gate.py": "import os\nimport sys\n\n" + KERNELS["flashinfer/gate.py"]}
    commit(two, shifted)
    done = cli("rebase", "mine", "--onto", "flashinfer=main", "--clone", "kernels", "--no-audit")
    assert done.code == 0, done.out + done.err
    assert "rewritten   gate" in done.out
    after = json.loads((folder / "patchset.lock").read_bytes())
    assert after["upstreams"]["sglang"] == before["upstreams"]["sglang"]
    assert after["upstreams"]["flashinfer"]["tree"] != before["upstreams"]["flashinfer"]["tree"]
    assert [p["name"] for p in after["patches"]] == ["arg", "gate", "last"]
    assert cli("lock", "mine", "--check", *near, "--no-audit").code == 0


def test_the_pages_that_only_tell(place: Path, cli: Cli) -> None:
    patchset(place, BOTH)
    two_clones(place)
    near = ("--clone", "sglang=engine", "--clone", "flashinfer=kernels")
    one = cli("status", "mine", "--onto", "main", *near)
    assert one.code == 0 and "note: 1 patch for flashinfer not looked at: --onto flashinfer=…" in one.out
    both = cli("status", "mine", "--onto", "main", "--onto", "flashinfer=main", *near)
    assert both.code == 0 and "mine on sglang" in both.out and "mine on flashinfer" in both.out
    table = cli("status", "mine", "--matrix", "main,main", "--matrix", "flashinfer=main", *near)
    assert table.out.index("sglang:") < table.out.index("last") < table.out.index("flashinfer:")
    assert table.code == 0 and "gate" in table.out[table.out.index("flashinfer:") :]
    shown = cli("show", "mine")
    assert "gate  flashinfer" in shown.out and "for flashinfer" in shown.out
    mails = cli("export", "mine", "--upstream", "flashinfer")
    assert mails.code == 0 and "gate.py" in mails.out and "a.py" not in mails.out
    why = cli("explain", "mine", "gate", "--onto", "flashinfer=main", "--clone", "kernels")
    assert why.code == 0, why.err


def test_an_environment_is_searched_by_the_distributions(place: Path, cli: Cli) -> None:
    patchset(place, BOTH)
    root = site(place / "env/lib/python3.11/site-packages")
    put(root, {"flashinfer_python-0.7.0.dist-info/top_level.txt": "flashinfer\n"})
    before = snapshot(root)
    done = cli("apply", "mine", "--installed", "env", "--no-audit")
    assert done.code == 0, done.err
    assert "written to 2 targets in one transaction" in done.out
    assert (root / "flashinfer/gate.py").read_text().startswith("limit = 120\n")
    assert cli("status", "mine", "--installed", "env").out.count(" applied") == 3
    assert cli("doctor", "--installed", "env").code == 0
    back = cli("revert", "mine", "--installed", "env")
    assert back.code == 0 and snapshot(root) == before
    (root / "flashinfer_python-0.7.0.dist-info").rename(root / "other-0.7.0.dist-info")
    gone = cli("apply", "mine", "--installed", "env", "--no-audit")
    assert gone.code == 2 and "error[P049]" in gone.err and "--to flashinfer=PATH" in gone.err
    assert (root / "sglang/srt/a.py").read_text() == ENGINE["sglang/srt/a.py"]


def test_a_diff_is_taken_in_for_one_of_the_upstreams(place: Path, cli: Cli) -> None:
    folder = patchset(place, {"arg": BOTH["arg"]})
    (place / "fix.diff").write_text(
        change("flashinfer/gate.py", KERNELS["flashinfer/gate.py"], "limit = 90", "limit = 1")
    )
    lost = cli("import", "fix.diff", "--into", "mine", "--append", "--upstream", "torch")
    assert lost.code == 2 and "has no upstream 'torch'" in lost.err
    done = cli("import", "fix.diff", "--into", "mine", "--append", "--upstream", "flashinfer")
    assert done.code == 0, done.err
    assert b"X-Project: flashinfer" in next(folder.glob("patches/fix*")).read_bytes()
    site(place / "site")
    assert "written to 2 targets" in cli("apply", "mine", "--to", "site", "--no-audit").out


def test_what_nobody_can_check_is_said(place: Path, cli: Cli) -> None:
    stated = kernels("limit = 90", "limit = 120", "X-Verify: predicate flashinfer.gate.x sm_120=true\n")
    patchset(place, {"gate": stated})
    site(place / "site")
    done = cli("apply", "mine", "--to", "site")
    assert done.code == 0, done.err
    assert "note: what gate states for flashinfer was NOT checked: flashinfer has no profile" in done.out
    lint = cli("lint", "mine")
    assert "verify is never checked: flashinfer has no profile to audit it by" in lint.out + lint.err


@pytest.mark.parametrize(
    ("row", "wrong"),
    [
        ("{package: ../up}", "no name of a package"),
        ("{root: /etc}", "no folder below the top"),
        ("{places: {csrc: other/csrc}}", "does not lie in the package"),
    ],
)
def test_a_row_that_leads_out_of_the_tree(place: Path, cli: Cli, row: str, wrong: str) -> None:
    folder = patchset(place, {"gate": BOTH["gate"].replace("X-Requires: arg\n", "")})
    path = folder / "patchset.yaml"
    text = path.read_text()
    at, end = text.index("  flashinfer:"), text.index("order:")
    path.write_text(f"{text[:at]}  flashinfer: {row}\n{text[end:]}")
    site(place / "site")
    done = cli("apply", "mine", "--to", "site")
    assert done.code == 2 and "P021" in done.err and wrong in done.err
    assert (place / "site/flashinfer/gate.py").read_text() == KERNELS["flashinfer/gate.py"]


# Killed


def killed_at(work: Callable[[], int], at: int) -> bool:
    """Run ``work`` in a child that dies before its ``at``-th change of the disk; whether it lived."""
    child = os.fork()
    if child == 0:
        seen = 0
        try:
            os.fsync = lambda fd: None  # matters for power, not for kill, and costs
            for name in ("rename", "replace", "unlink", "mkdir", "rmdir", "fchmod"):
                real = getattr(os, name)

                def call(*args: object, _real: Any = real, **kwargs: Any) -> Any:
                    nonlocal seen
                    seen += 1
                    if seen == at:
                        os._exit(9)
                    return _real(*args, **kwargs)

                setattr(os, name, call)
            code = work()
        except BaseException:
            os._exit(7)
        os._exit(0 if code == 0 else 8)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    assert code in (0, 9), code
    return code == 0


def quiet(*words: str) -> int:
    sys.stdout = sys.stderr = open(os.devnull, "w", encoding="utf-8")
    return run(group, "patches", list(words))


@pytest.mark.parametrize("form", ["site", "apart", "mixed"])
def test_killed_at_any_step_all_are_as_before_or_all_are_complete(place: Path, cli: Cli, form: str) -> None:
    patchset(place, BOTH)
    if form == "site":
        roots = [site(place / "site")]
        to = ["--to", "site"]
    elif form == "apart":
        roots = [site(place / "one"), site(place / "two")]
        to = ["--to", "sglang=one", "--to", "flashinfer=two"]
    else:
        roots = [two_clones(place)[0], site(place / "two")]
        to = ["--to", "sglang=engine", "--to", "flashinfer=two"]

    def whole() -> list[Any]:
        git_index = [git(root, "ls-files", "-s") for root in roots if (root / ".git").exists()]
        return [*(snapshot(root) for root in roots), *git_index]

    def doctor(which: int) -> Said:
        """From either end: the journals name each other."""
        return cli("doctor", *to[which % 2 * 2 % len(to) :][:2], "--format", "json")

    apply = ("apply", "mine", *to, "--no-audit")
    revert = ("revert", "mine", *to)
    before = whole()
    assert cli(*apply).code == 0
    complete = [
        {p: f for p, f in part.items() if ".patches-state" not in p} for part in whole()[: len(roots)]
    ]
    assert cli(*revert).code == 0 and whole() == before
    stride = {"apart": 1, "site": 4, "mixed": 7}[form]
    for words, other in ((apply, revert), (revert, apply)):
        if words is revert:
            assert cli(*apply).code == 0
        ends: dict[str, int] = {}
        at = 0
        while True:
            at += stride
            assert at < 300
            lived = killed_at(lambda words=words: quiet(*words), at)
            said = [doctor(end).json() for end in (at, at + 1)]
            assert "repaired" not in said[1] or "repaired" not in said[0]  # one repairs all of them
            how = next((each["repaired"]["how"] for each in said if "repaired" in each), "")
            ends[how] = ends.get(how, 0) + 1
            now = whole()
            bare = [
                {p: f for p, f in part.items() if ".patches-state" not in p} for part in now[: len(roots)]
            ]
            assert now == before or bare == complete, (form, words[0], at, how)
            assert not [
                p for root in roots for p in root.rglob("*") if p.name in ("journal", together.COMPLETE)
            ]
            moved = (bare == complete) == (words is apply)
            if lived:
                assert moved
                break
            if moved:
                assert cli(*other).code == 0
        assert ends["put back"] >= 1 and ends.get("finished", 0) >= (stride == 1), (words[0], ends)


def test_a_disk_that_is_full_in_the_last_target_leaves_the_first_as_it_was(
    place: Path, cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    patchset(place, BOTH)
    roots = [site(place / "one"), site(place / "two")]
    before = [snapshot(root) for root in roots]
    real = disk.Root.put

    def full(self: disk.Root, path: str, token: str) -> None:
        if path == "flashinfer/gate.py":
            raise OSError(28, "No space left on device", path)
        real(self, path, token)

    monkeypatch.setattr(disk.Root, "put", full)
    done = cli("apply", "mine", "--to", "sglang=one", "--to", "flashinfer=two", "--no-audit")
    assert done.code == 2 and "no space left" in done.err
    assert [snapshot(root) for root in roots] == before


def test_a_target_that_is_gone_is_not_guessed(place: Path, cli: Cli) -> None:
    patchset(place, BOTH)
    for name in ("one", "two"):
        site(place / name)
    words = ("apply", "mine", "--to", "sglang=one", "--to", "flashinfer=two", "--no-audit")
    before = snapshot(place / "two")
    journal = place / "two/.patches-state.flashinfer/journal"
    at = 1
    while not journal.exists():
        assert not killed_at(lambda: quiet(*words), at)
        if not journal.exists() and (place / "one/.patches-state/journal").exists():
            cli("doctor", "--to", "one")
        at += 1
    (place / "one").rename(place / "away")
    said = cli("doctor", "--to", "two")
    assert said.code == 3 and "error[P048]" in said.err
    (place / "away").rename(place / "one")
    assert cli("doctor", "--to", "two").code == 0
    assert snapshot(place / "two") == before


def test_cache_is_that_of_the_test(place: Path) -> None:
    assert str(cache.cache_dir()).startswith(str(place)), sys.path
