"""Diffs: git's, plain ones, mails. What is read is written and read again, and means the same."""

from __future__ import annotations

import random

from auditor.errors import UserError
from auditor.patching.diffs.lines import file_change
from auditor.patching.diffs.parse import parse_patch
from auditor.patching.diffs.write import write_diff, write_patch
from auditor.patching.sets.header import from_fields, to_fields, with_header

WORDS = (
    b"diff --git a/x b/x\n", b"--- a/x\n", b"+++ b/x\n", b"@@ -1,2 +1,3 @@\n", b"@@ -0,0 +1 @@\n", b"index 0000000..1111111\n",
    b"\\ No newline at end of file\n", b"new file mode 100755\n", b"deleted file mode 100644\n", b"rename from a\n", b"rename to b\n",
    b"copy from a\n", b"similarity index 100%\n", b"GIT binary patch\n", b"literal 5\n", b"delta 3\n", b"zcmV\n", b"old mode 100644\n",
    b"new mode 120000\n", b"/dev/null", b'"a/\\303\\274"', b"From 0000000000000000000000000000000000000000 Mon Sep 17 00:00:00 2001\n",
    b"Subject: [PATCH 1/2] a\n", b"=?utf-8?q?=C3?=", b"Content-Transfer-Encoding: base64\n\n", b"---\n", b"<<<<<<< x\n", b">>>>>>> y\n",
    b"commit 0000000000000000000000000000000000000000\n", b"1970-01-01 00:00:00", b"../", b".git/", b" 100%",
)  # fmt: skip

_TEXT = (
    b"diff --git a/pkg/m.py b/pkg/m.py\nindex 1111111..2222222 100644\n--- a/pkg/m.py\n+++ b/pkg/m.py\n"
    b"@@ -1,3 +1,4 @@ def f():\n a\n-b\n+B\n+B2\n c\n@@ -9 +10 @@\n-y\n\\ No newline at end of file\n+Y\n"
)
_MAIL = (
    b"From 0123456789012345678901234567890123456789 Mon Sep 17 00:00:00 2001\nFrom: A <a@example.invalid>\n"
    b"Date: Mon, 1 Jan 2024 00:00:00 +0000\nSubject: [PATCH] =?UTF-8?q?gate=20f=C3=BCr?= sm_120\n\nWhy.\n\nOrigin: upstream\n"
    b"---\n pkg/m.py | 2 +-\n\n" + _TEXT + b"-- \n2.40\n"
)
_GIT = (
    b"diff --git a/a b/b\nsimilarity index 90%\nrename from a\nrename to b\nindex 1111111..2222222\n--- a/a\n+++ b/b\n@@ -1 +1 @@\n-x\n+y\n"
    b"diff --git a/n b/n\nnew file mode 100755\nindex 0000000..e69de29\n"
    b"diff --git a/gone b/gone\ndeleted file mode 100644\nindex e69de29..0000000\n"
    b'diff --git "a/\\303\\274 x" "b/\\303\\274 x"\nold mode 100644\nnew mode 100755\n'
)
_BINARY = b"".join(
    write_diff([change])
    for change in (
        file_change("i.bin", None, b"\0\1\2\3" * 9),
        file_change("j.bin", b"\0a\0", b"\0b\0"),
        file_change("k.bin", b"\0" * 99, None),
    )
    if change is not None
)
_PLAIN = b"--- old/x.txt\t2024-01-01 00:00:00.0 +0000\n+++ new/x.txt\t2024-01-01 00:00:01.0 +0000\n@@ -1 +1,2 @@\n one\r\n+two\r\n"
SEEDS = (_TEXT, _MAIL, _GIT, _BINARY, _PLAIN, _MAIL + _MAIL.replace(b"pkg/m.py", b"pkg/n.py"))


def generated(rng: random.Random) -> bytes:
    """A right diff of two random files."""
    line = lambda: rng.choice([b"a\n", b"b\n", b"\n", b"x = 1\r\n", b"\xff\n", b"-- \n", b"+++ x\n"])  # noqa: E731
    old = b"".join(line() for _ in range(rng.randrange(12))) + rng.choice([b"", b"end"])
    new = b"".join(part for part in old.splitlines(True) if rng.random() < 0.8) + rng.choice(
        [b"", b"more\n", b"\0"]
    )
    change = file_change(
        rng.choice(["a/b.py", "\u00fc", "a b"]), rng.choice([old, None]), rng.choice([new, None])
    )
    return write_diff([change]) if change is not None else _TEXT


def one_input(data: bytes) -> None:
    for allow in ((), ("modes", "symlinks", "markers")):
        try:
            found = parse_patch(data, "in.patch", allow=allow)
        except UserError:
            if allow:
                raise
            continue
        again = parse_patch(write_diff(found.changes), "again.patch", allow=("modes", "symlinks", "markers"))
        assert write_diff(again.changes) == write_diff(found.changes), "written again it is another"
        header = from_fields(found, "in")
        whole = write_patch(with_header(header, found))
        back = parse_patch(whole, "whole.patch", allow=("modes", "symlinks", "markers"))
        assert to_fields(from_fields(back, "in")) == to_fields(header), "the header reads back as another"
