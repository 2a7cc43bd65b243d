"""Which commit made a change, and kernels that stand elsewhere now."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from auditor.history.diff import kernel_changes
from auditor.history.model import Change
from auditor.history.words import names_it, short_name
from auditor.native.model import Availability, Cell, Row
from auditor.trees.between import changed_lines
from auditor.trees.git import GitRepo

TARGETS = ("sm_90", "sm_120")


def rows(*names: str, kind: str = "triton", path: str = "a.py", **cells: tuple[str, str]) -> tuple[Row, ...]:
    """Rows whose targets get what ``cells`` says (outcome, reason), unknown otherwise."""
    told = {target: Cell(*cells.get(target, ("unknown", "unchecked"))) for target in TARGETS}
    return tuple(Row(name, kind, path, 1, told) for name in names)


def availability(*of: Row) -> Availability:
    return Availability("1.0", "t", "example", None, TARGETS, {}, (), of, (), (), (), {})


def changes(old: tuple[Row, ...], new: tuple[Row, ...]) -> list[Change]:
    return kernel_changes(availability(*old), availability(*new), TARGETS)


@pytest.mark.parametrize(
    ("name", "short"),
    [
        ("sgl_kernel::fwd", "fwd"),
        ("jit::hicache_staged", "hicache_staged"),
        ("triton::file.f", "f"),
        ("area.op[backend]", "op"),
        ("kernels::op[a.b]", "op"),
    ],
)
def test_short_names(name: str, short: str) -> None:
    assert short_name(name) == short


def test_a_kernel_in_another_file_has_moved() -> None:
    (one,) = changes(rows("triton::old.f", path="old.py"), rows("triton::new.f", path="new.py"))
    assert (one.kind, one.what, one.old_what) == ("moved", "triton::new.f", "triton::old.f")
    assert (one.path, one.old_path, one.before) == ("new.py", "old.py", {})


def test_a_kernel_that_moved_and_changed_is_told_once() -> None:
    (one,) = changes(rows("triton::old.f", sm_120=("runs", "")), rows("triton::new.f"))
    assert (one.kind, one.before, one.after) == ("kernel", {"sm_120": "runs"}, {"sm_120": "unknown"})


def test_two_of_the_same_name_are_not_taken_for_each_other() -> None:
    found = changes(rows("triton::a.f", "triton::b.f"), rows("triton::c.f"))
    assert sorted((c.kind, c.what) for c in found) == [
        ("kernel", "triton::a.f"),
        ("kernel", "triton::b.f"),
        ("kernel", "triton::c.f"),
    ]


def test_backends_and_kinds_are_kept_apart() -> None:
    found = changes(rows("x.f[aot]", kind="registry"), rows("y.f[jit]", kind="registry"))
    assert [c.kind for c in found] == ["kernel", "kernel"]
    found = changes(rows("jit::f", kind="jit"), rows("sgl_kernel::f", kind="op"))
    assert [c.kind for c in found] == ["kernel", "kernel"]


def test_reasons_that_differ_are_told_per_target() -> None:
    new = rows("jit::f", kind="jit", sm_90=("runs", "compiled for 9.0"), sm_120=("runs", "compiled for 12.0"))
    (one,) = changes((), new)
    assert one.why == "sm_90: compiled for 9.0; sm_120: compiled for 12.0"
    (one,) = changes((), rows("jit::f", kind="jit", sm_90=("runs", "same"), sm_120=("runs", "same")))
    assert one.why == "same"


def test_a_name_is_looked_for_as_a_whole_word() -> None:
    gate = Change("kernel", "sgl_kernel::moe_fused_gate", "a.cc", 1)
    assert names_it(gate, '  m.def("moe_fused_gate(Tensor a) -> ()");')
    assert not names_it(gate, '  m.def("kimi_k2_moe_fused_gate(Tensor a) -> ()");')
    assert names_it(Change("outcome", "cap() > 9", "a.py", 1), "    if cap() > 9:")
    assert names_it(Change("outcome", "cap() > 9", "a.py", 1, old_what="cap() == 8"), "    if cap() == 8:")


def test_lines_of_each_commit(tmp_path: Path) -> None:
    def git(*words: str) -> str:
        given = ["git", "-C", str(tmp_path), "-c", "user.name=n", "-c", "user.email=n@example.org", *words]
        return subprocess.run(given, check=True, capture_output=True, text=True).stdout.strip()

    git("init", "-q", ".")
    oids = []
    for text in ("--- a\n+++ b\nfirst\n", "first\nsecond\n", "second\n"):
        (tmp_path / "f.txt").write_text(text)
        git("add", "f.txt")
        git("commit", "-q", "-m", "one (#7)")
        oids.append(git("rev-parse", "HEAD"))
    repo = GitRepo.at(tmp_path)
    assert repo is not None
    found = changed_lines(repo, oids[0], oids[2], "f.txt")
    assert [(entry.oid, entry.pr, text.split("\n")) for entry, text in found] == [
        (oids[2], "7", ["first"]),
        (oids[1], "7", ["--- a", "+++ b", "second"]),
    ]


def test_two_of_one_name_that_both_moved_are_told_apart_by_their_folders() -> None:
    found = changes(
        rows("triton::lora.ops.up.f", "triton::temp.ops.up.f"), rows("triton::gemm.up.f", "triton::temp.up.f")
    )
    assert [(c.kind, c.old_what, c.what) for c in found] == [
        ("moved", "triton::lora.ops.up.f", "triton::gemm.up.f"),
        ("moved", "triton::temp.ops.up.f", "triton::temp.up.f"),
    ]
