"""A lock against an unpacked wheel: what it says where nothing, a part or something else is on it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from test_patching_write import folder, opened

from auditor.cli.clickrun import run
from auditor.cli.groups import patches
from auditor.patching.diffs.lines import file_change
from auditor.patching.diffs.write import write_diff
from auditor.patching.planning.lock import BEFORE, how_it_differs

OLD, ONE, TWO = b"one\ntwo\nthree\n", b"one\ntwo = 2\nthree\n", b"one\ntwo = 2\nthree = 3\n"
Call = Callable[..., tuple[int, str, str]]


@pytest.fixture
def call(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Call:
    monkeypatch.setenv("SGLANG_AUDITOR_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    root = tmp_path / "mine"
    (root / "patches").mkdir(parents=True)
    (root / "patchset.yaml").write_text("title: Mine\nupstreams:\n  sglang: {}\norder: [one, two]\n")
    for name, before, after in (("one", OLD, ONE), ("two", ONE, TWO)):
        change = file_change("python/sglang/srt/a.py", before, after)
        assert change is not None
        text = f"Subject: {name}\n---\n".encode() + write_diff([change])
        (root / f"patches/{name}.patch").write_bytes(text)

    def said(*words: str) -> tuple[int, str, str]:
        code = run(patches, "patches", list(words))
        out, err = capsys.readouterr()
        return code, out, err

    return said


def test_what_a_file_is_of_all_that_were_locked() -> None:
    steps = [("", "a"), ("one", "b"), ("two", "c")]
    assert how_it_differs("c", steps) == ""
    assert how_it_differs("a", steps) == BEFORE
    assert how_it_differs("b", steps) == "is as one leaves it, two is not applied"
    assert how_it_differs("d", steps) == "is another file"
    assert how_it_differs("", steps) == "is missing"
    assert how_it_differs("d", [("", "a"), ("one", "")]) == "is there"
    assert how_it_differs("", [("", ""), ("one", "b")]) == BEFORE


def test_the_verbs_of_a_lock_on_an_unpacked_wheel(tmp_path: Path, call: Call) -> None:
    root = folder(tmp_path)  # its metadata, not its name, says which release it is
    code, out, _ = call("lock", "./mine", "--onto", "unpacked", "--no-audit")
    assert code == 0 and "base    1.2.3  tree " in out
    code, out, _ = call("status", "./mine", "--onto", "unpacked")
    assert code == 0 and out.startswith("mine on sglang 1.2.3 (folder) ")
    assert call("lock", "./mine", "--check", "--onto", "unpacked", "--no-audit")[0] == 0
    code, out, _ = call("verify", "./mine", "--to", "unpacked")
    assert code == 1 and out.splitlines() == [
        "✗ no patch is applied: 1 file is as in the base",
        "unpacked is not what the lock of mine says",
        "next: patches apply ./mine --to unpacked --frozen",
    ]
    assert call("apply", "./mine", "--to", "unpacked", "--frozen", "--no-audit")[0] == 0
    assert call("verify", "./mine", "--to", "unpacked")[0] == 0
    path = root / "sglang/srt/a.py"
    path.write_bytes(TWO + b"edited\n")
    code, out, _ = call("verify", "./mine", "--to", "unpacked")
    assert code == 1 and "✗ sglang/srt/a.py is another file" in out
    code, _, err = call("apply", "./mine", "--to", "unpacked", "--frozen", "--no-audit")
    assert code == 1 and "error[P058]" in err and "was changed since" in err
    path.write_bytes(TWO)
    assert call("revert", "./mine", "two", "--to", "unpacked")[0] == 0
    code, out, _ = call("verify", "./mine", "--to", "unpacked")
    assert code == 1 and "✗ sglang/srt/a.py is as one leaves it, two is not applied" in out
    assert call("revert", "./mine", "--to", "unpacked")[0] == 0 and path.read_bytes() == OLD
    assert opened(root).state is None
