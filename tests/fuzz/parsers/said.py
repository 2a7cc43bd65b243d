"""What git and pip say: logs with subjects and names of files that others chose, refs, a download that failed."""

from __future__ import annotations

import subprocess
from typing import Any

from auditor.errors import UserError
from auditor.trees import between, release, steps, versions
from auditor.trees.git import network_error

_A, _B = "a" * 40, "b" * 40
WORDS = (
    b"\x1e", b"\x1f", b"\x1d", b"\n", b"\r", b"\x85", _A.encode(), b":100644 100755 ", b"R100", b"@@ -1 +1 @@\n", b"diff --git a/a b/a\n", b"+x\n", b"commit ", b"--", b"\x0c",
    b"refs/tags/v0.5.12\n", b"v9" + b"9" * 5000, b"x-1.0-cp311-cp311-manylinux_2_28_x86_64.whl", b"(from versions: 0.1, 0.2)", b"ERROR: ", b"No space left", b"\xff", b":160000 ", b"fatal: ",
)  # fmt: skip
SEEDS = (
    b"a subject (#12)",
    b"dir/a.py",
    b"a\x1eb\x1fc\x1dd",
    b"v0.5.12\nv0.5.13rc1\nnightly\n",
    b"  Skipping link: none: https://x/x-1.0-cp312-cp312-win_amd64.whl\nERROR: Could not find a version (from versions: 0.9, 1.0)\nERROR: No matching distribution found for x\n",
    b"fatal: unable to access 'https://x/': Could not resolve host: x\n",
)  # fmt: skip


class _Repo:
    """Answers as git does: two commits, whose subjects and whose file somebody else named."""

    def __init__(self, subject: bytes, path: bytes) -> None:
        self.subject, self.path = subject, path

    def output(self, *words: str, **_: Any) -> bytes:
        form = next(w.partition("=")[2] for w in words if w.startswith("--format="))
        out = []
        for oid in (_A, _B):
            head = form.replace("%H", oid).replace("%P", "c" * 40).replace("%cs", "2026-01-02")
            for mark, char in (("%x1e", "\x1e"), ("%x1f", "\x1f"), ("%x00", "\0"), ("%n", "\n")):
                head = head.replace(mark, char)
            end = b"\0" if "-z" in words else b"\n"
            raw = b":100644 100644 %s %s M" % (b"1" * 40, b"2" * 40)
            what = (raw + b"\0" if "--raw" in words else b"") + self.path + b"\0" if "-z" in words else b""
            if "--patch" in words:
                what = b"\ndiff --git a/x b/x\n--- a/x\n+++ b/x\n@@ -1 +1 @@\n-x\n+" + self.subject + b"\n"
            text = head.encode().replace(b"%s", self.subject)
            out.append(text + end + what + (end if "-z" in words else b""))
        return b"".join(out)

    def run(self, *_: Any, **__: Any) -> subprocess.CompletedProcess[bytes]:
        return subprocess.CompletedProcess([], 0, self.subject, self.subject)


def one_input(data: bytes) -> None:
    subject = data.replace(b"\n", b" ").replace(b"\0", b" ").strip()
    path = data.replace(b"\0", b"").strip(b"\n") or b"a.py"
    name = path.decode("utf-8", "surrogateescape")
    repo: Any = _Repo(subject, path)
    both = [_A, _B]
    assert [e.oid for e in between.commits_between(repo, "a", "b")] == both
    assert [e.oid for e in between.touched(repo, "a", "b", [name]).get(name, [])] in (both, []), "another"
    assert [e.oid for e, _ in between.line_of_commits(repo, "a", "b", [name])] == both
    assert [e.oid for e, _ in between.changed_lines(repo, "a", "b", name)] == both
    assert [s.entry.oid for s in versions._steps(repo, "b", [name], "")] == both
    line = steps.Line.__new__(steps.Line)
    object.__setattr__(line, "first", "a")
    object.__setattr__(line, "last", "b")
    assert [s.entry.oid for s in steps.steps_of(repo, line, ["python"])] == both
    versions.first_release(repo, "a")
    text = data.decode("utf-8", "replace")
    release._other_builds(text, "x", "1.0")
    for made in (release._pip_error(text, "x", "1.0"), network_error(data, "https://x")):
        raise_as_shown(made)


def raise_as_shown(error: UserError) -> None:
    """What the engine holds against an error that is raised."""
    assert error.fact and "\n" not in error.fact
    assert error.render()
