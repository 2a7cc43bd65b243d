"""A tree, a checkout and a cache of somebody who means harm: nothing runs, hangs or is wrong."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import time
from pathlib import Path

import msgspec
import pytest

from auditor.gates.audit import AuditOptions, audit
from auditor.gates.cache import Asked, kept_report
from auditor.gates.model import Report
from auditor.program.externals import _matched
from auditor.program.values import Unknown
from auditor.reporting import jsonout
from auditor.trees.folder import FolderTree

ROOT = Path(__file__).parents[2]
HEAD = "import os, re\nimport torch\nfrom sglang.srt.cards import is_new\n"
PROJECT = {
    "version.py": '__version__ = "0.5.99"\n',
    "srt/server_args.py": "class ServerArgs:\n    pass\n",
    "srt/cards.py": (
        "import torch\n\n\ndef is_new():\n    return torch.cuda.get_device_capability()[0] >= 12\n"
    ),
    "srt/plain.py": "from sglang.srt.cards import is_new\n\n\ndef f():\n    if is_new():\n        return 1\n",
}


def asked(condition: str, before: str = "") -> str:
    """A module with a gate of its own beside a condition at three places."""
    return (
        f"{HEAD}{before}\nX = {condition}\nif X == 3 and is_new():\n    Y = 1\n\n\n"
        f"def f(x, y={condition}):\n    if {condition}:\n        return 1\n    return {condition}\n\n\n"
        "def g():\n    if is_new():\n        return 1\n"
    )


LOOP = "def w():\n    n = 's'\n    while n:\n        n = n + n\n    return n\n"
#: Name of a module -> its text. The gate of ``g`` must be found in each.
SOURCES = {
    "power": asked("10 ** 10 ** 8"),
    "shift": asked("1 << 10 ** 12"),
    "text": asked("'a' * 10 ** 10"),
    "list_": asked("len([0] * 10 ** 10)"),
    "range_": asked("sum(range(10 ** 12))"),
    "width": asked("'{:>9999999999}'.format(3)"),
    "fwidth": asked("f'{3:>9999999999}'"),
    "just": asked("'a'.ljust(10 ** 10)"),
    "replace": asked("('a' * 10 ** 5).replace('a', 'a' * 10 ** 5)"),
    "bytes_": asked("len(bytes(10 ** 11))"),
    "product": asked("[a for a in range(999) for b in range(999) for c in range(999) for d in range(999)]"),
    "again": asked("re.match('(a+)+$', 'a' * 60 + 'b')"),
    "again2": asked("re.fullmatch('(a|a)*b', 'a' * 60)"),
    "doubling": asked("w()", LOOP),
    "endless": asked("w(0)", "def w(n):\n    return w(n + 1) or w(n)\n"),
    "chain": asked(
        "f30()",
        "def f0():\n    return is_new()\n"
        + "".join(f"def f{i}():\n    return f{i - 1}() or f{i - 1}() and f{i - 1}()\n" for i in range(1, 31)),
    ),
    "code": asked("eval(\"__import__('os').system('touch CANARY')\")", "os.system('touch CANARY')\n"),
}
#: Where the condition is too deep to be followed, what says so is part of the report.
DEEP = {
    "sums": asked("+".join(["1"] * 900)),
    "names": asked("a" + ".b" * 900),
    "calls": asked("a" + "()" * 900),
    "nots": asked("not " * 900 + "a"),
    "nested": asked("g(" * 150 + "1" + ")" * 150),
    "choices": asked(" if a else ".join(["is_new()"] * 900)),
    "lambdas": asked("lambda: " * 900 + "1"),
}
#: These cannot be read: named, and the rest of the tree is as without them.
UNREAD = {
    "parens": asked("(" * 10000 + "1" + ")" * 10000),
    "giant": asked("0x" + "f" * 100000),
    "digits": asked("9" * 5000),
    "nul": asked("is_new()") + "\0\n",
}


def project(folder: Path, sources: dict[str, str]) -> FolderTree:
    for name, text in {**PROJECT, **{f"srt/{n}.py": t for n, t in sources.items()}}.items():
        path = folder / "sglang" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text.encode())
    return FolderTree(folder, label="t")


def audited(tree: FolderTree) -> Report:
    return audit(tree, AuditOptions(targets=("sm_120",), use_cache=False))


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> tuple[Report, Path, float]:
    folder = tmp_path_factory.mktemp("tree")
    before, cwd = time.process_time(), os.getcwd()
    os.chdir(folder)
    try:
        report = audited(project(folder, {**SOURCES, **DEEP, **UNREAD}))
    finally:
        os.chdir(cwd)
    return report, folder, time.process_time() - before


def test_no_source_hangs_the_audit_or_runs(hostile: tuple[Report, Path, float]) -> None:
    report, folder, took = hostile
    assert not list(folder.rglob("CANARY"))
    assert took < 60  # CPU seconds; each of these alone would take years
    assert len(jsonout.dumps(report)) < 5_000_000


@pytest.mark.parametrize("name", [*SOURCES, *DEEP])
def test_a_gate_beside_a_hostile_condition_is_found(hostile: tuple[Report, Path, float], name: str) -> None:
    if name == "choices":  # the statement names `is_new`: nobody knows what it is from there on
        return
    gates = [g for g in hostile[0].gates if g.path.endswith(f"/{name}.py") and g.predicate == "is_new()"]
    assert "g" in [g.symbol for g in gates]


@pytest.mark.parametrize("name", [*DEEP, *UNREAD])
def test_what_is_not_followed_is_named(hostile: tuple[Report, Path, float], name: str) -> None:
    if name in ("sums", "lambdas", "nested"):  # followed all the same
        return
    assert [p.path for p in hostile[0].problems if p.path.endswith(f"/{name}.py")]


def test_the_rest_is_as_without_them(hostile: tuple[Report, Path, float], tmp_path: Path) -> None:
    def plain(report: Report) -> list[bytes]:
        return [msgspec.json.encode(g) for g in report.gates if g.path.endswith(("/plain.py", "/cards.py"))]

    assert plain(hostile[0]) == plain(audited(project(tmp_path, {})))


@pytest.mark.parametrize(
    ("pattern", "text", "open_"),
    [
        ("(a+)+$", "a" * 60 + "b", True),
        ("(a|a)*b", "a" * 60, True),
        ("(?:a{1,9}){1,9}b", "a" * 60, True),
        ("(?x)(a+) #\n+$", "a" * 60 + "b", True),
        (r"(\d+)\.(\d+)", "12.8", False),
        ("sm_?12", "sm_120", False),
    ],
)
def test_patterns_that_could_run_for_ever_stay_open(pattern: str, text: str, open_: bool) -> None:
    answer = _matched("re.match", pattern, text)
    assert isinstance(answer, Unknown) and (answer.truth is None) == open_


# --- what is said beside the reports


def test_foreign_words_beside_reports_command_nothing(
    capsysbinary: pytest.CaptureFixture[bytes],
) -> None:
    from auditor.cli.output import echo, note, write_bytes

    hostile = "0.5\x1b[31m\u202e##[error]y\n::error::x"
    note(hostile)
    echo(hostile)
    data = b'{"name":"##[error]"}\n'
    write_bytes(data, None)
    out, err = capsysbinary.readouterr()
    for said in (out, err):
        assert b"\x1b" not in said and b"##[" not in said and "\u202e".encode() not in said
        assert not [line for line in said.split(b"\n") if line.startswith(b"::")]
    assert msgspec.json.decode(out.split(b"\n", 2)[2]) == msgspec.json.decode(data)


def test_a_quote_that_is_never_closed_costs_nothing() -> None:
    from auditor.program.source import bare

    before = time.process_time()
    for quote in ('"""', "'''", '"', "'"):
        text = f"x = 1  # why\ny = {quote}{'a' * 5000}\n"
        assert bare(text) == text.replace("# why", "")
    assert time.process_time() - before < 5


# --- a cache that somebody damaged


def test_a_cache_with_random_damage_gives_the_same_report(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SGLANG_AUDITOR_CACHE_DIR", str(tmp_path / "cache"))
    question = Asked(("sm_120",), "sm_100", {}, False, "sglang")

    def answer() -> bytes:
        tree = project(tmp_path / "tree", {})
        return kept_report(
            tree, question, encode=jsonout.dumps, decode=lambda data: jsonout.loads(data, "kept")
        )

    right = answer()
    dice = random.Random(7)
    for _ in range(6):
        for path in [p for p in (tmp_path / "cache").rglob("*") if p.is_file()]:
            data = bytearray(path.read_bytes())
            way = dice.randrange(4)
            if way == 0 and data:
                data[dice.randrange(len(data))] ^= 1 << dice.randrange(8)
            elif way == 1:
                del data[dice.randrange(len(data) + 1) :]
            elif way == 2:
                data[dice.randrange(len(data) + 1) :] = dice.randbytes(40)
            path.write_bytes(data)
        assert answer() == right


# --- a checkout whose every file wants to run


@pytest.fixture
def fork(tmp_path: Path) -> Path:
    """A checkout with everything in it that some tool or other would run."""
    folder = tmp_path / "fork"
    project(folder / "python", {})
    python = f"import os\nos.system({f'touch {tmp_path}/CANARY'!r})\n"
    git = folder / ".git"
    for name in (
        "setup.py",
        "conftest.py",
        "sitecustomize.py",
        "usercustomize.py",
        "noxfile.py",
        "ast.py",
        "re.py",
    ):
        for where in (folder, folder / "python", folder / "python/sglang"):
            (where / name).write_text(python)
    (folder / "x.pth").write_text("import os; " + python.splitlines()[1] + "\n")
    (folder / "pyproject.toml").write_text(
        '[build-system]\nrequires = []\nbuild-backend = "setup"\nbackend-path = ["."]\n'
    )
    (folder / ".gitattributes").write_text("* filter=x diff=x merge=x text eol=crlf ident export-subst\n")
    (folder / ".gitmodules").write_text('[submodule "x"]\n\tpath = x\n\turl = ext::sh -c "touch CANARY"\n')
    run = ["git", "-C", str(folder), "-c", "user.name=x", "-c", "user.email=x@x"]
    subprocess.run([*run, "init", "-q"], check=True)
    subprocess.run([*run, "add", "-A"], check=True)
    subprocess.run([*run, "commit", "-qm", "one"], check=True)
    command = f"touch {tmp_path}/CANARY"
    with open(git / "config", "a") as config:
        config.write(
            f"[core]\n\tfsmonitor = {command}\n\tsshCommand = {command}\n\tpager = {command}\n"
            f"\teditor = {command}\n\thooksPath = {folder}/hooks\n\taskPass = {command}\n"
            f'[filter "x"]\n\tclean = {command}\n\tsmudge = {command}\n\tprocess = {command}\n'
            f'\trequired = true\n[diff "x"]\n\ttextconv = {command}\n\tcommand = {command}\n'
            f'[diff]\n\texternal = {command}\n[merge "x"]\n\tdriver = {command}\n'
            f"[gpg]\n\tprogram = {command}\n[commit]\n\tgpgSign = true\n"
            f'[credential]\n\thelper = "!{command}"\n'
            f'[alias]\n\tls-tree = "!{command}"\n\tcat-file = "!{command}"\n'
            f'[remote "origin"]\n\turl = ext::sh -c "{command}"\n\tuploadpack = {command}\n'
            "\tpromisor = true\n"
            "[extensions]\n\tpartialClone = origin\n"
        )
    (folder / "hooks").mkdir()
    for name in (
        "pre-commit",
        "post-checkout",
        "reference-transaction",
        "post-index-change",
        "fsmonitor-watchman",
    ):
        for where in (folder / "hooks", git / "hooks"):
            where.mkdir(exist_ok=True)
            (where / name).write_text(f"#!/bin/sh\n{command}\n")
            (where / name).chmod(0o755)
    return folder


def command(program: str, folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """The real command, started in the hostile checkout as a person would."""
    code = f"import sys; sys.path[0] = {str(ROOT)!r}; from auditor.cli.main import {program} as run"
    code += "; sys.exit(run())"
    env = {**os.environ, "SGLANG_AUDITOR_CACHE_DIR": str(folder.parent / "cache")}
    return subprocess.run(
        [sys.executable, "-c", code, *words], cwd=folder, env=env, capture_output=True, text=True
    )


DIFF = """diff --git a/python/sglang/srt/plain.py b/python/sglang/srt/plain.py
--- a/python/sglang/srt/plain.py
+++ b/python/sglang/srt/plain.py
@@ -3,4 +3,4 @@

 def f():
     if is_new():
-        return 1
+        return 2
"""


@pytest.mark.parametrize(
    "line",
    [
        "audit sglang --target sm_120",
        "audit sglang --commit HEAD --target sm_120 --format json",
        "patches doctor --to .",
        "patches status mine --folder ../ps --to .",
        "patches apply mine --folder ../ps --to . --allow-unknown --allow-dirty --branch b",
        "patches apply mine --folder ../ps --to . --allow-unknown --allow-dirty",
        "patches lock mine --folder ../ps --onto HEAD --clone .",
    ],
)
def test_nothing_of_a_hostile_checkout_runs(fork: Path, line: str) -> None:
    patches = fork.parent / "ps/mine/patches"
    patches.mkdir(parents=True)
    (patches / "one.patch").write_text(f"Subject: One\n---\n{DIFF}")
    (patches.parent / "patchset.yaml").write_text(
        "title: Mine\nupstreams:\n  sglang:\n    url: https://github.com/sgl-project/sglang\norder: [one]\n"
    )
    program, *words = line.split()
    done = command(program, fork, *words)
    assert done.returncode in (0, 2), done.stderr
    assert "Traceback" not in done.stderr and "I001" not in done.stderr
    assert not (fork.parent / "CANARY").exists() and not list(fork.rglob("CANARY"))


def test_the_fixture_does_harm_where_it_is_let(fork: Path) -> None:
    subprocess.run(["git", "-C", str(fork), "status"], capture_output=True)
    assert (fork.parent / "CANARY").exists()
