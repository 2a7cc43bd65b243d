"""What the head of a file in a patch says about names, modes and content: read, or refused with why."""

from __future__ import annotations

import base64
import zlib

import pytest

from auditor.errors import UserError
from auditor.patching.diffs.parse import binary_after, binary_before, parse_patch
from auditor.trees.names import blob_id

HUNK = "@@ -1 +1 @@\n-a\n+b\n"
NEW = "@@ -0,0 +1 @@\n+b\n"
OLD = "@@ -1 +0,0 @@\n-a\n"

READ = [
    # plain diffs
    (f"--- x.py.orig\n+++ x.py\n{HUNK}", ("x.py", "x.py")),
    (f"--- a/p/x.py\n+++ b/p/x.py\n{HUNK}", ("p/x.py", "p/x.py")),
    (f"--- /dev/null\n+++ b/x.py\n{NEW}", (None, "x.py")),
    (f"--- a/x.py\n+++ /dev/null\n{OLD}", ("x.py", None)),
    (
        f"--- p/x.py\t1970-01-01 00:00:00 +0000\n+++ p/x.py\t2026-01-01 00:00:00 +0000\n{NEW}",
        (None, "p/x.py"),
    ),
    (
        f"--- p/x.py\t2026-01-01 00:00:00 +0000\n+++ p/x.py\t1970-01-01 00:00:00 +0000\n{OLD}",
        ("p/x.py", None),
    ),
    # git: without `new file mode`
    (f"diff --git a/x b/x\n--- /dev/null\n+++ b/x\n{NEW}", (None, "x")),
    (f"diff --git a/x b/x\n--- a/x\n+++ /dev/null\n{OLD}", ("x", None)),
    # git with and without a/ and b/
    (f"diff --git x y\nsimilarity index 90%\nrename from x\nrename to y\n--- x\n+++ y\n{HUNK}", ("x", "y")),
    ("diff --git a/e b/e\nnew file mode 100644\nindex 0000000..e69de29\n", (None, "e")),
]


@pytest.mark.parametrize("text, paths", READ)
def test_names(text: str, paths: tuple[str | None, str | None]) -> None:
    (change,) = parse_patch(text.encode()).changes
    assert (change.old_path, change.new_path) == paths


REFUSED = [
    (f"--- /dev/null\n+++ /dev/null\n{HUNK}", "P002", "neither a file before nor one after"),
    (
        f"diff --git a/x b/x\n--- /dev/null\n+++ /dev/null\n{HUNK}",
        "P002",
        "both sides are /dev/null",
    ),
    (f"--- x.py\n+++ y.py\n{HUNK}", "P002", "that are not one file without their first 0 parts"),
    (
        "diff --git a/x y b/x z\nold mode 100644\nnew mode 100755\n",
        "P002",
        "the names in this line can be read in more than one way",
    ),
    (
        f"diff --git a/x b/x\nnew file mode 100644\ndeleted file mode 100644\n--- a/x\n+++ b/x\n{HUNK}",
        "P002",
        "x is new and deleted at once",
    ),
    (
        f"diff --git a/x b/x\nnew file mode 100600\n--- /dev/null\n+++ b/x\n{NEW}",
        "P005",
        "mode 100600 is not one of a file: 100644 or 100755",
    ),
    (
        f"diff --git a/x b/x\ndeleted file mode 100644\n--- a/x\n+++ /dev/null\n{HUNK}",
        "P002",
        "x is deleted, but lines of it are kept or added",
    ),
    (
        f"diff --git a/x b/x\nnew file mode 100644\n--- /dev/null\n+++ b/x\n{HUNK}",
        "P002",
        "x is new, but lines of it are kept or removed",
    ),
    (
        f"diff --git a/x b/x\nnew file mode 100644\n--- /dev/null\n+++ b/x\n{NEW}@@ -0,0 +2 @@\n+c\n",
        "P002",
        "",
    ),
    (f"--- a/x\n+++ b/x\n{HUNK}" * 2, "P008", "x is changed twice in one patch, in lines 1 and 6"),
    (
        f"--- a/x\n+++ /dev/null\n{OLD}diff --git a/x b/y\nrename from x\nrename to y\n",
        "P008",
        "x is changed twice in one patch",
    ),
    (
        f"diff --git a/x b/y\nrename from x\nrename to y\n--- a/x\n+++ b/x\n{HUNK}",
        "P002",
        "two names of one side, y and x",
    ),
    (
        f"diff --git a/x b/y\nrename from x\nrename to y\ndiff --git a/x b/x\n--- a/x\n+++ b/x\n{HUNK}",
        "P008",
        "x is changed twice in one patch",
    ),
]


@pytest.mark.parametrize("text, code, fact", REFUSED)
def test_refused(text: str, code: str, fact: str) -> None:
    with pytest.raises(UserError) as error:
        parse_patch(text.encode(), "my.patch")
    assert error.value.code == code and fact in error.value.fact, error.value.fact
    assert (error.value.place or "").startswith("my.patch:")


def _block(kind: str, data: bytes) -> str:
    """A block of git's binary form."""
    packed = zlib.compress(data)
    lines = []
    for at in range(0, len(packed), 52):
        part = packed[at : at + 52]
        sign = chr(ord("A") + len(part) - 1) if len(part) <= 26 else chr(ord("a") + len(part) - 27)
        lines.append(sign + base64.b85encode(part + bytes(-len(part) % 4)).decode())
    return "\n".join([f"{kind} {len(data)}", *lines, "", ""])


BEFORE, AFTER = b"\0before", b"\0after!"
DELTA = bytes([7, 7, 7]) + AFTER  # 7 bytes before, 7 after, which are given
BACK = bytes([7, 7, 7]) + BEFORE


def _binary(first: str, second: str, old: bytes = BEFORE, new: bytes = AFTER, head: str = "") -> bytes:
    text = f"diff --git a/x b/x\n{head}index {blob_id(old)}..{blob_id(new)} 100644\nGIT binary patch\n"
    return (text + first + second).encode()


def test_binary_sides_and_their_deltas() -> None:
    (both,) = parse_patch(_binary(_block("delta", DELTA), _block("delta", BACK))).changes
    assert binary_after(both, BEFORE) == AFTER and binary_before(both, AFTER) == BEFORE
    for call, other in ((binary_after, AFTER), (binary_before, BEFORE)):
        with pytest.raises(UserError, match="x is not the file that the binary delta was made for"):
            call(both, other)
    with pytest.raises(UserError, match="no binary content for x"):
        binary_after(both, None)
    with pytest.raises(UserError, match="the binary change of x cannot be reversed"):
        binary_before(both, None)
    (mixed,) = parse_patch(_binary(_block("delta", DELTA), _block("literal", BEFORE))).changes
    assert (mixed.binary, mixed.binary_old) == (AFTER, BEFORE)  # the delta is worked out against the literal
    assert binary_before(mixed, None) == BEFORE and binary_after(mixed, None) == AFTER


def test_binary_content_that_is_not_what_is_named() -> None:
    for text, fact in (
        (
            _binary(_block("literal", b"\0other"), _block("literal", BEFORE)),
            "the binary content is not the blob",
        ),
        (
            _binary(_block("delta", DELTA), "", head="new file mode 100644\n")
            .replace(blob_id(BEFORE).encode(), b"0" * 40)
            .replace(b" 100644\nGIT", b"\nGIT"),
            "a new file as a delta against nothing",
        ),
    ):
        with pytest.raises(UserError) as error:
            parse_patch(text, "my.patch")
        assert error.value.code == "P007" and fact in error.value.fact
