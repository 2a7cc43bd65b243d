"""Random trees and diffs against git: where git says yes the bytes are the same; the rest is a merge or said.

``FUZZ_DIFFS=5000 pytest tests/unit/test_apply_fuzz.py`` runs more; ``FUZZ_FROM`` is the first seed.
"""

from __future__ import annotations

import os
import random
import sys
from pathlib import Path

import pytest

from auditor.patching.diffs.parse import OPT_IN, parse_patch
from auditor.patching.model import ChangeSet, FileChange, Hunk

sys.path.insert(0, str(Path(__file__).parent))
import apply_fuzz  # noqa: E402

CASES = int(os.environ.get("FUZZ_DIFFS", "60"))
FIRST = int(os.environ.get("FUZZ_FROM", "0"))
WAYS = ((), ("-U1",), ("-U6", "--no-renames"), ("-C", "-C", "--find-copies-harder"))


@pytest.mark.parametrize("options", WAYS, ids=" ".join)
def test_git_apply_and_ours_agree(options: tuple[str, ...], tmp_path: Path) -> None:
    rng = random.Random(FIRST)
    words = []
    for case in apply_fuzz.cases(rng, CASES // len(WAYS), tmp_path, *options):
        word, fault = apply_fuzz.judged(case, tmp_path / "target")
        assert not fault, f"{word}, case {case.number}\n{fault}"
        words.append(word)
    assert any("clean" in word and "git yes" in word for word in words)


def test_git_am_and_ours_agree(tmp_path: Path) -> None:
    for case in apply_fuzz.cases(random.Random(FIRST), max(6, CASES // 10), tmp_path):
        word, fault = apply_fuzz.mailed(case, tmp_path / "target")
        assert not fault, f"{word}, case {case.number}\n{fault}"


# what was found, as single cases

_ENDS = b"""\
diff --git a/a b/a
--- a/a
+++ b/a
@@ -1,2 +1,2 @@
 x
-y
+y
\\ No newline at end of file
"""


def carried(raw: bytes, ours: dict[str, bytes], base: dict[str, bytes]) -> tuple[str, dict[str, bytes]]:
    """The status, and the tree afterwards."""
    trees = [{path: (data, "100644") for path, data in tree.items()} for tree in (ours, base)]
    known = {apply_fuzz.blob_id(data): data for data in base.values()}
    outcome, made = apply_fuzz.by_us(parse_patch(raw, "x", allow=OPT_IN), trees[0], known)
    return outcome.status, {path: data for path, (data, _) in made.items()}


def test_a_last_line_without_an_end_stays_the_last_one() -> None:
    assert carried(_ENDS, {"a": b"x\ny\n"}, {}) == ("clean", {"a": b"x\ny"})
    assert carried(_ENDS, {"a": b"x\ny\nz\n"}, {})[0] == "conflict"
    blob = apply_fuzz.blob_id(b"x\ny\n")
    named = _ENDS.replace(b"--- a/a", f"index {blob}..{'1' * 40} 100644\n--- a/a".encode())
    status, made = carried(named, {"a": b"x\ny\nz\n"}, {"a": b"x\ny\n"})
    assert (status, made) == ("conflict", {"a": b"x\ny\nz\n"})


def test_an_empty_file_is_not_found_again_by_its_content() -> None:
    raw = b"diff --git a/p/__init__.py b/p/__init__.py\ndeleted file mode 100644\nindex e69de29bb2d1d6434b8b29ae775ad8c2e48c5391..0000000000000000000000000000000000000000\n"
    status, made = carried(raw, {"q/__init__.py": b"", "r.txt": b""}, {"p/__init__.py": b""})
    assert (status, sorted(made)) == ("upstream", ["q/__init__.py", "r.txt"])


def test_what_a_patch_names_is_not_where_another_of_its_files_went() -> None:
    text = b"".join(b"a line %d\n" % n for n in range(9))
    blob = apply_fuzz.blob_id(text)
    gone = b"".join(b"-" + line for line in text.splitlines(True))
    raw = (
        f"diff --git a/old.txt b/old.txt\ndeleted file mode 100644\nindex {blob}..{'0' * 40}\n--- a/old.txt\n+++ /dev/null\n@@ -1,9 +0,0 @@\n".encode()
        + gone
        + f"diff --git a/new.txt b/new.txt\nnew file mode 100644\nindex {'0' * 40}..{blob}\n--- /dev/null\n+++ b/new.txt\n@@ -0,0 +1,9 @@\n".encode()
        + gone.replace(b"-a", b"+a")
    )
    assert carried(raw, {"new.txt": text}, {"old.txt": text}) == ("upstream", {"new.txt": text})


def test_a_binary_change_carries_its_mode_and_its_new_name() -> None:
    old, new = b"\0one\0", b"\0two\0"
    change = FileChange(
        "a.bin", "b.bin", (), apply_fuzz.blob_id(old), apply_fuzz.blob_id(new), "100644", "100755", new, old
    )
    ours = {"a.bin": (old, "100644")}
    outcome, made = apply_fuzz.by_us(ChangeSet((change,)), ours, {})
    assert (outcome.status, made) == ("clean", {"b.bin": (new, "100755")})


def test_hunks_that_would_glue_two_lines_do_not_fit() -> None:
    from auditor.patching.port.hunks import apply_hunks

    hunk = Hunk(1, 1, ((" ", b"x\n"), ("-", b"y\n"), ("+", b"y")))
    assert apply_hunks([b"x\n", b"y\n", b"z\n"], [hunk]) is None
    found = apply_hunks([b"x\n", b"y\n"], [hunk])
    assert found is not None and found.lines == [b"x\n", b"y"]
