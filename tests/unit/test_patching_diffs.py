"""The reader and the writer of diffs: exact bytes, honest counts, and paths that stay in the tree."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from auditor.errors import UserError
from auditor.patching.diffs import gitbinary
from auditor.patching.diffs.parse import Limits, binary_after, binary_before, parse_patch
from auditor.patching.diffs.write import write_diff, write_patch
from auditor.patching.model import ChangeSet, FileChange

SIMPLE = b"""\
diff --git a/pkg/mod.py b/pkg/mod.py
index 1234567..89abcde 100644
--- a/pkg/mod.py
+++ b/pkg/mod.py
@@ -1,3 +1,3 @@ def f():
 a
-b
+B
 c
"""


def git(folder: Path, *words: str, data: bytes | None = None) -> bytes:
    identity = ["-c", "user.name=T", "-c", "user.email=t@example.org", "-c", "core.autocrlf=false"]
    done = subprocess.run(["git", *identity, *words], cwd=folder, input=data, capture_output=True)
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout


def code_of(data: bytes, **options: object) -> str:
    with pytest.raises(UserError) as caught:
        parse_patch(data, "x.patch", **options)  # type: ignore[arg-type]
    assert caught.value.place is None or caught.value.place.startswith("x.patch")
    return caught.value.code


def replaced(*pairs: tuple[bytes, bytes]) -> bytes:
    data = SIMPLE
    for old, new in pairs:
        assert old in data
        data = data.replace(old, new)
    return data


def test_simple() -> None:
    (change,) = parse_patch(SIMPLE).changes
    assert (change.old_path, change.new_path) == ("pkg/mod.py", "pkg/mod.py")
    assert (change.old_blob, change.new_blob, change.new_mode) == ("1234567", "89abcde", "100644")
    (hunk,) = change.hunks
    assert hunk.old() == [b"a\n", b"b\n", b"c\n"]
    assert hunk.new() == [b"a\n", b"B\n", b"c\n"]
    assert hunk.section == "def f():"
    assert write_diff((change,)) == SIMPLE


LINE = st.one_of(
    st.binary(max_size=6).map(lambda raw: raw.replace(b"\n", b"")),
    st.sampled_from(
        [b"x\r", b"-- ", b"--- a", b"+++ b", b"@@ -1 +1 @@", b"\\ No", b"", b"\xff\xfe", b"\x0c"]
    ),
)
CONTENT = st.builds(
    lambda lines, tail: b"\n".join(lines) + (b"\n" if tail and lines else b""),
    st.lists(LINE, max_size=12),
    st.booleans(),
)


@settings(
    max_examples=40,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(before=CONTENT, after=CONTENT, context=st.integers(0, 3), new=st.booleans())
@example(before=b"$\x0b\n\n\0", after=b"\n", context=0, new=False)  # a vertical tab is no space to git
@example(before=b"$\xff\xfe\n\n\0", after=b"\n", context=0, new=False)  # what stands around need not be UTF-8
def test_any_bytes_survive(
    tmp_path_factory: pytest.TempPathFactory, before: bytes, after: bytes, context: int, new: bool
) -> None:
    """What git writes for two contents is read, and written again to the same bytes."""
    folder = tmp_path_factory.mktemp("pair")
    old = folder / "old"
    if not new:
        old.write_bytes(before)
    (folder / "new").write_bytes(after)
    words = ["git", "diff", "--no-index", "--text", "--full-index", f"-U{context}", "--no-color"]
    made = subprocess.run(
        [*words, "/dev/null" if new else "old", "new"], cwd=folder, capture_output=True
    ).stdout.replace(b"a/old", b"a/new")
    if not made or b"\n@@ " not in made:
        return
    found = parse_patch(made, allow=["markers"])
    assert write_diff(found.changes) == made
    (change,) = found.changes
    if new:
        assert b"".join(change.hunks[0].new()) == after
    elif context == 3 and len(before.split(b"\n")) < 4:
        assert b"".join(change.hunks[0].old()) == before


def test_a_repository_with_everything(tmp_path: Path) -> None:
    """Renames, copies, modes, binary files, odd names: our diff of it makes the same tree."""
    git(tmp_path, "init", "-q")
    blob = bytes(range(256)) * 40
    (tmp_path / "plain.py").write_bytes(b"one\ntwo\n" * 20)
    (tmp_path / "crlf.py").write_bytes(b"one\r\ntwo\r\nthree")
    (tmp_path / "kernel.bin").write_bytes(blob)
    (tmp_path / "gone.bin").write_bytes(blob[::-1])
    (tmp_path / "run.sh").write_bytes(b"#!/bin/sh\n")
    (tmp_path / "with blank.py").write_bytes(b"x\n")
    (tmp_path / 'üml"aut.py').write_bytes(b"y\n")
    (tmp_path / "empty").write_bytes(b"")
    git(tmp_path, "add", "-A")
    git(tmp_path, "commit", "-qm", "base")
    git(tmp_path, "mv", "plain.py", "moved.py")
    (tmp_path / "moved.py").write_bytes(b"one\ntwo\n" * 20 + b"three\n")
    (tmp_path / "copy.py").write_bytes(b"one\ntwo\n" * 20)
    (tmp_path / "crlf.py").write_bytes(b"one\r\nTWO\r\nthree\n")
    (tmp_path / "kernel.bin").write_bytes(blob + b"\0more")
    (tmp_path / "fresh.bin").write_bytes(blob[:999])
    (tmp_path / "gone.bin").unlink()
    (tmp_path / "run.sh").chmod(0o755)
    (tmp_path / "with blank.py").write_bytes(b"X\n")
    (tmp_path / 'üml"aut.py').write_bytes(b"Y")
    (tmp_path / "empty").unlink()
    (tmp_path / "none").write_bytes(b"")
    git(tmp_path, "add", "-A")
    wanted = git(tmp_path, "write-tree")
    made = git(tmp_path, "diff", "--cached", "--binary", "-M", "-C", "--find-copies-harder")
    found = parse_patch(made, allow=["modes"])
    by_path = {change.path: change for change in found.changes}
    assert by_path["moved.py"].old_path == "plain.py" and not by_path["moved.py"].copied
    assert by_path["copy.py"].copied
    assert by_path["run.sh"].new_mode == "100755"
    assert binary_after(by_path["kernel.bin"], blob) == blob + b"\0more"
    assert binary_before(by_path["kernel.bin"], blob + b"\0more") == blob
    assert by_path["fresh.bin"].binary == blob[:999]
    assert by_path["gone.bin"].new_path is None
    assert by_path["none"].old_path == "empty"
    git(tmp_path, "reset", "-q", "--hard")
    git(tmp_path, "apply", "--index", data=write_diff(found.changes))
    assert git(tmp_path, "write-tree") == wanted
    assert write_diff(parse_patch(write_diff(found.changes), allow=["modes"]).changes) == write_diff(
        found.changes
    )


@given(st.binary(max_size=300), st.binary(max_size=300))
def test_literals(old: bytes, new: bytes) -> None:
    change = FileChange("k.bin", "k.bin", binary=new, binary_old=old)
    if old != new:
        (again,) = parse_patch(write_diff((change,))).changes
        assert (again.binary, again.binary_old) == (new, old)


def test_delta_for_another_base_is_refused() -> None:
    change = FileChange("k.bin", "k.bin", old_blob="e69de29", delta=b"\x03\x01\x01x")
    with pytest.raises(UserError, match="not the file"):
        binary_after(change, b"abc")
    with pytest.raises(UserError, match="another size"):
        gitbinary.apply_delta(b"ab", b"\x03\x01\x01x", 10)
    assert gitbinary.apply_delta(b"abc", b"\x03\x03\x91\x01\x02\x01x", 10) == b"bcx"
    with pytest.raises(UserError, match="at most"):
        gitbinary.apply_delta(b"abc", b"\x03\xff\xff\xff\x7f", 10)


def test_mail() -> None:
    mail = (
        b"From 0123456789012345678901234567890123456789 Mon Sep 17 00:00:00 2001\n"
        b"From: =?UTF-8?q?J=C3=B6rg?= <j@example.org>\nDate: Tue, 3 Mar 2026 10:00:00 +0100\n"
        b"Subject: [PATCH 2/3] Keep the\n narrow test\n\nWhy it is so.\n\nUpstream-Status: Pending\n"
        b"Signed-off-by: J <j@example.org>\n---\n pkg/mod.py | 2 +-\n 1 file changed\n\n"
        + SIMPLE
        + b"-- \n2.39.5\n\n"
    )
    found = parse_patch(mail)
    assert found.subject == "Keep the narrow test"
    assert found.author == "Jörg <j@example.org>"
    assert found.body == "Why it is so.\n\nSigned-off-by: J <j@example.org>"
    assert ("Upstream-Status", "Pending") in found.headers
    assert found.commit == "0123456789012345678901234567890123456789"
    assert found.changes == parse_patch(SIMPLE).changes
    for mbox in (False, True):
        again = parse_patch(write_patch(found, mbox=mbox))
        assert (again.subject, again.body, again.author, again.date) == (
            found.subject, found.body, found.author, found.date
        )  # fmt: skip
        assert ("Upstream-Status", "Pending") in again.headers
        assert write_patch(again, mbox=mbox) == write_patch(found, mbox=mbox)


def test_prose_fields_and_git_show() -> None:
    dep3 = b"Description: Short words\n Long words,\n .\n two paragraphs\nForwarded: no\n---\n" + SIMPLE
    found = parse_patch(dep3)
    assert (found.subject, found.body) == ("Short words", "Long words,\n\ntwo paragraphs")
    assert ("Forwarded", "no") in found.headers
    shown = b"commit 0123456789\nAuthor: A <a@b>\nDate:   x\n\n    Title\n    \n    More\n\n" + SIMPLE
    found = parse_patch(shown)
    assert (found.subject, found.body, found.commit) == ("Title", "More", "0123456789")
    found = parse_patch(b"# What this is for\n\nBecause of --- this.\n\n" + SIMPLE)
    assert (found.subject, found.body) == ("What this is for", "Because of --- this.")


def test_prose_cannot_end_the_head() -> None:
    body = "first\n---\n ---\n--- a/x\n+++ b/x\n@@ -1 +1 @@\ndiff --git a/x b/x\nFrom here\nIndex: y"
    written = write_patch(ChangeSet(parse_patch(SIMPLE).changes, subject="S", body=body))
    again = parse_patch(written)
    assert again.body == body
    assert write_patch(again) == written


def test_crlf() -> None:
    assert parse_patch(SIMPLE.replace(b"\n", b"\r\n")).changes == parse_patch(SIMPLE).changes
    content = replaced((b" a\n", b" a\r\n"), (b"-b\n", b"-b\r\n"), (b"+B\n", b"+B\r\n"), (b" c\n", b" c\r\n"))
    (change,) = parse_patch(content).changes
    assert change.hunks[0].old() == [b"a\r\n", b"b\r\n", b"c\r\n"]


def test_plain() -> None:
    plain = b"".join(SIMPLE.splitlines(keepends=True)[2:])
    stamped = plain.replace(b"mod.py\n", b"mod.py\t2026-01-02 10:00:00.000000000 +0100\n")
    blank = plain.replace(b"mod.py\n", b"mod.py 2026-01-02 10:00:00\n")
    backup = plain.replace(b"--- a/pkg/mod.py", b"--- pkg/mod.py.bak").replace(b"+++ b/", b"+++ ")
    folders = plain.replace(b"--- a/", b"--- one/old/").replace(b"+++ b/", b"+++ one/new/")
    for data, path in ((plain, "pkg/mod.py"), (stamped, "pkg/mod.py"), (blank, "pkg/mod.py"),
                       (backup, "pkg/mod.py"), (folders, "pkg/mod.py")):  # fmt: skip
        (change,) = parse_patch(data).changes
        assert (change.old_path, change.new_path) == (path, path)
    gone = b"--- a/x.py\t2026-01-02 10:00:00\n"
    gone += b"+++ b/x.py\t1970-01-01 00:00:00.000000000 +0000\n@@ -1 +0,0 @@\n-x\n"
    assert parse_patch(gone).changes[0].new_path is None
    absolute = plain.replace(b"--- a/", b"--- /opt/").replace(b"+++ b/", b"+++ /opt/")
    assert code_of(absolute) == "P004"
    assert parse_patch(absolute, strip=2).changes[0].path == "pkg/mod.py"


def test_git_without_prefix() -> None:
    data = SIMPLE.replace(b"a/pkg", b"pkg").replace(b"b/pkg", b"pkg")
    assert parse_patch(data).changes[0].path == "pkg/mod.py"
    assert parse_patch(SIMPLE.replace(b"a/", b"i/").replace(b"b/", b"w/")).changes[0].path == "pkg/mod.py"
    assert parse_patch(SIMPLE, strip=2).changes[0].path == "mod.py"


@pytest.mark.parametrize(
    "path",
    ["../x.py", "pkg/../../x.py", "/etc/x", "pkg//x.py", "./x.py", ".git/config", "pkg/.GIT/hooks/x",
     ".git /x", ".git./x", "git~1/x", "GIT~1/x", ".g\u200cit/x", ".git::$INDEX_ALLOCATION/x", "C:/x", "a\\b"],
)  # fmt: skip
def test_paths_that_leave_the_tree(path: str) -> None:
    data = SIMPLE.replace(b"pkg/mod.py", path.encode())
    assert code_of(data) == "P004"
    renamed = b"diff --git a/ok b/no\nsimilarity index 100%%\nrename from ok\nrename to %s\n" % path.encode()
    assert code_of(renamed) == "P004"


def test_control_characters_in_names() -> None:
    for octal in (rb"\001", rb"\033", rb"\n", rb"\177"):
        data = SIMPLE.replace(b"a/pkg/mod.py", b'"a/m%s"' % octal)
        assert code_of(data.replace(b"b/pkg/mod.py", b'"b/m%s"' % octal)) == "P004"
    assert code_of(SIMPLE.replace(b"pkg/mod.py", b"m\xff.py")) == "P004"


@pytest.mark.parametrize(
    ("old", "new", "code"),
    [
        (b"@@ -1,3 +1,3 @@", b"@@ -1,9 +1,3 @@", "P002"),
        (b"@@ -1,3 +1,3 @@", b"@@ -1,999999999 +1,999999999 @@", "P002"),
        (b"@@ -1,3 +1,3 @@", b"@@ -1,2 +1,2 @@", "P002"),
        (b"@@ -1,3 +1,3 @@", b"@@ -0,3 +1,3 @@", "P002"),
        (b"@@ -1,3 +1,3 @@", b"@@ nonsense @@", "P002"),
        (b"-b\n", b"-b\n\\ No newline at end of file\n", "P002"),
        (b"-b\n+B\n", b" b\n x\n", "P002"),
        (b" c\n", b"", "P002"),
        (b"+B\n", b"+<<<<<<< HEAD\n", "P006"),
        (b"+B\n", b"+>>>>>>> theirs\r\n", "P006"),
        (b"index 1234567..89abcde 100644", b"index 1,2..3", "P009"),
        (b"index 1234567..89abcde 100644", b"old mode 100644\nnew mode 100755", "P005"),
        (b"index 1234567..89abcde 100644", b"new file mode 120000", "P005"),
        (b"index 1234567..89abcde 100644", b"index 1234567..89abcde 160000", "P005"),
        (b"index 1234567..89abcde 100644", b"new file mode 100644", "P002"),
        (b"+++ b/pkg/mod.py", b"+++ b/pkg/other.py", "P002"),
        (b"index 1234567..89abcde 100644", b"indx 1234567..89abcde 100644", "P002"),
        (b"@@ -1,3 +1,3 @@ def f():\n", b"", "P002"),
    ],
)
def test_patches_that_lie(old: bytes, new: bytes, code: str) -> None:
    assert code_of(replaced((old, new))) == code


def test_other_inputs() -> None:
    assert code_of(b"") == "P001"
    assert code_of(b"just words\n") == "P001"
    assert code_of("diff".encode("utf-16")) == "P001"
    assert code_of(b"\x1b[1mdiff --git a/x b/x\x1b[m\n") == "P001"
    assert code_of(b"*** a\n--- b\n***************\n") == "P001"
    assert code_of(b"diff --cc x\nindex 1,2..3\n") == "P009"
    assert code_of(SIMPLE + SIMPLE) == "P008"
    assert code_of(SIMPLE, limits=Limits(size=10)) == "P003"
    assert code_of(SIMPLE, limits=Limits(lines=2)) == "P003"
    assert code_of(b"diff --git a/x b/x\nindex 1234567..89abcde\nBinary files a/x and b/x differ\n") == "P007"
    assert code_of(SIMPLE[: SIMPLE.index(b" a\n")]) == "P002"
    assert code_of(SIMPLE + b"@@ -3,2 +3,2 @@\n c\n-d\n+e\n") == "P002"  # overlaps


def test_a_bomb_is_refused_before_it_grows() -> None:
    import zlib

    from auditor.patching.diffs.gitbinary import _LETTERS  # the same letters that the reader uses

    packed = zlib.compress(b"\0" * 5_000_000)
    import base64

    body = b""
    for at in range(0, len(packed), 52):
        part = packed[at : at + 52]
        body += (
            _LETTERS[len(part) - 1 : len(part)] + base64.b85encode(part + b"\0" * (-len(part) % 4)) + b"\n"
        )
    head = b"diff --git a/k b/k\nnew file mode 100644\nindex 0000000..1234567\nGIT binary patch\n"
    assert code_of(head + b"literal 10\n" + body + b"\n") == "P007"
    assert code_of(head + b"literal 5000000\n" + body + b"\n", limits=Limits(binary=1000)) == "P003"


@pytest.mark.parametrize(
    "head",
    [b"Subject: " + b"[PATCH " * 100_000, b"Subject: " + b"=?utf-8?q?a?= " * 50_000, b"Re: " * 200_000,
     b"Subject: x\n" + b" y\n" * 100_000, b"a" * 900_000],
)  # fmt: skip
def test_no_prose_takes_long(head: bytes) -> None:
    import time

    start = time.process_time()
    assert parse_patch(head + b"\n\n" + SIMPLE).changes == parse_patch(SIMPLE).changes
    assert time.process_time() - start < 5


@pytest.mark.parametrize(
    "data",
    [b"--- a/" + b" " * 3_000_000 + b"\n+++ b/x\n@@ -1 +1 @@\n-a\n+b\n", b"diff --git a/" + b" " * 3_000_000,
     b"[" * 2_000_000],
)  # fmt: skip
def test_too_much_of_one_thing(data: bytes) -> None:
    assert code_of(data) == "P003"


@pytest.mark.parametrize(
    "data",
    [
        b"diff --git a/g b/g\nnew file mode 100644",
        b"diff --git a/g b/g\nnew file mode 100644\nindex 0000000..1234567\n",
        b"diff --git a/g b/g\ndeleted file mode 100644\n",
        b"diff --git a/g b/g\nindex 1234567..89abcde 100644\n",
        b"@@ -1 +1 @@\n-a\n+b\n" + SIMPLE,
        SIMPLE + b"\\iff --git a/g b/g\nindex 1234567..89abcde\n--- a/g\n+++ b/g\n@@ -1 +1 @@\n-a\n+b\n",
    ],
)
def test_cut_off_or_damaged(data: bytes) -> None:
    assert code_of(data) == "P002"


def test_an_empty_file_is_whole() -> None:
    new = b"diff --git a/g b/g\nnew file mode 100644\nindex 0000000..e69de29\n"
    assert parse_patch(new).changes[0].old_path is None
    gone = b"diff --git a/g b/g\ndeleted file mode 100644\nindex e69de29..0000000\n"
    assert parse_patch(gone).changes[0].new_path is None


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_damage_is_an_error_or_a_patch_never_a_crash(data: st.DataObject) -> None:
    lines = SIMPLE.split(b"\n")
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, len(lines) - 1))
        junk = st.sampled_from(
            [b"", b"+", b"-", b" ", b"\\ No", b"junk", b"@@ -1 +1 @@", b"rename from x", b"--- a/x"]
        )
        lines[at : at + data.draw(st.integers(0, 2))] = data.draw(st.lists(junk, max_size=2))
        if not lines:
            return
    try:
        found = parse_patch(b"\n".join(lines))
    except UserError as error:
        assert error.code.startswith("P00")
    else:
        assert parse_patch(write_diff(found.changes), allow=["modes"]).changes


def test_a_diff_as_an_attachment() -> None:
    mail = (
        b"From: A <a@b>\nSubject: [PATCH] x\nMIME-Version: 1.0\n"
        b'Content-Type: multipart/mixed; boundary="----2.39.5"\n\n'
        b"This is a multi-part message in MIME format.\n------2.39.5\nContent-Type: text/plain\n\nText\n---\n"
        b"------2.39.5\nContent-Type: text/x-patch; name=x.patch\n\n" + SIMPLE + b"------2.39.5--\n"
    )
    assert parse_patch(mail).changes == parse_patch(SIMPLE).changes


def test_crlf_with_the_last_line_end_lost() -> None:
    assert parse_patch(SIMPLE.replace(b"\n", b"\r\n")[:-2]).changes == parse_patch(SIMPLE).changes


def test_quoted_printable_mail() -> None:
    import quopri

    mail = b"From: A <a@b>\nSubject: [PATCH] x\nContent-Transfer-Encoding: quoted-printable\n\n"
    data = mail + quopri.encodestring(b"text\n---\n" + SIMPLE.replace(b"+B", b"+B=\xc3\xa9"))
    assert parse_patch(data).changes[0].hunks[0].new()[1] == b"B=\xc3\xa9\n"


def test_a_missing_last_line_end_of_the_patch_itself() -> None:
    """Only the mark says that a file ends without a newline; a patch that was cut by a paste does not."""
    assert parse_patch(SIMPLE[:-1]).changes == parse_patch(SIMPLE).changes
