"""``make bench`` repeats the figures of docs/benchmarks.md: each section of one is there in the other."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts"))

import bench  # noqa: E402
import every_guard  # noqa: E402
from figures import gpu, kills, measure, profile  # noqa: E402
from figures.sections import NAMES, SECTIONS, Section  # noqa: E402
from figures.setting import Setting  # noqa: E402

from auditor.history.model import Change  # noqa: E402

PAGE = (ROOT / "docs" / "benchmarks.md").read_text("utf-8")
ASKED = re.compile(r"--only ([\w,]+)")


def under(heading: str) -> str:
    """What a page says below a heading of the second rank, up to the next one."""
    found = re.search(rf"^## {re.escape(heading)}\n(.*?)(?=^## |\Z)", PAGE, re.M | re.S)
    assert found is not None, f"the page has no section {heading!r}"
    return found[1]


@pytest.mark.parametrize("section", SECTIONS, ids=NAMES)
def test_the_docs_have_each_section_with_its_command_and_its_tables(section: Section) -> None:
    text = under(section.heading)
    assert ASKED.findall(text)[0] == section.name
    for head in section.heads:
        assert measure.row(*head) in text


def test_every_section_that_a_page_names_is_there() -> None:
    pages = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]
    named = {name for page in pages for text in ASKED.findall(_bench_lines(page)) for name in text.split(",")}
    assert named == {*NAMES}


def _bench_lines(page: Path) -> str:
    return "\n".join(line for line in page.read_text("utf-8").splitlines() if "make bench" in line)


def test_every_heading_of_the_page_is_a_section() -> None:
    headings = re.findall(r"^## (.*)$", PAGE, re.M)
    assert [h for h in headings if h not in ("Aims", "How it is measured")] == [s.heading for s in SECTIONS]


def test_every_aim_of_the_page_says_how_it_stands() -> None:
    rows = [line for line in under("Aims").splitlines() if line.startswith("| ")]
    assert rows[0] == measure.row(*bench.AIMS)
    assert len(rows) > 10
    assert all(re.search(r"\| (met|\*\*missed\*\*)[^|]* \|$", line) for line in rows[2:])


def test_what_is_not_there_is_named_and_left_out(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for name in ("BENCH_REPO", "BENCH_WHEELS", "BENCH_AST_GREP"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert bench.main(["--only", "speed,kills", "--only", "patches"]) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert [line.partition(":")[0] for line in said.err.splitlines()] == ["speed", "patches", "kills"]
    assert "--repo CLONE" in said.err and "--wheels FOLDER" in said.err


def test_a_section_has_its_heading_where_it_has_figures() -> None:
    at = Setting(bench.parser().parse_args([]), ROOT)
    some = Section("a", "A", (), "", (), lambda _: iter(["one", "two"]))
    assert list(bench.measured(some, at)) == ["## A", "", "one", "two", ""]
    assert list(bench.measured(some._replace(lines=lambda _: iter(())), at)) == []

    def broken(_: Setting) -> Iterator[str]:
        yield "one"
        raise ValueError("no answer")

    assert list(bench.measured(some._replace(lines=broken), at)) == ["## A", "", "one", ""]
    assert at.wrong == ["a: stopped: ValueError('no answer')"]


def test_a_section_that_is_none_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stop:
        bench.main(["--only", "speed,sped"])
    assert stop.value.code == 2
    assert "no such section: sped" in capsys.readouterr().err


def test_a_command_is_measured_with_its_children() -> None:
    busy = "import subprocess, sys; subprocess.run([sys.executable, '-c', 'sum(range(4_000_000))'])"
    alone = measure.run(measure.Command((sys.executable, "-c", "pass")))
    both = measure.run(measure.Command((sys.executable, "-c", busy)))
    assert (alone.code, both.code) == (0, 0)
    assert both.cpu > 1.5 * alone.cpu
    assert measure.run(measure.Command((sys.executable, "-c", "raise SystemExit(3)"))).code == 3


def test_what_is_measured_lies_in_this_checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "auditor").mkdir()
    (tmp_path / "auditor" / "__init__.py").write_text("raise SystemExit(9)\n")
    out = tmp_path / "out"
    code = "import auditor; print(auditor.__file__)"
    assert measure.run(measure.Command((sys.executable, "-c", code)), out).code == 0
    assert out.read_text().strip() == str(ROOT / "auditor" / "__init__.py")
    (tmp_path / "clone").mkdir()
    at = Setting(bench.parser().parse_args(["--repo", "clone"]), tmp_path)
    assert at.options.repo == str(tmp_path / "clone")


def test_a_table_without_rows_is_none() -> None:
    assert list(measure.table(("a", "b"), [(1, 2)])) == ["| a | b |", "| --- | --- |", "| 1 | 2 |", ""]
    assert list(measure.table(("a", "b"), [])) == []


def test_ratios_are_formed_within_a_round() -> None:
    ours = [measure.Run(2, 4, 1, 0), measure.Run(6, 3, 1, 1), measure.Run(9, 9, 1, 0)]
    base = [measure.Run(1, 1, 1, 0), measure.Run(2, 1, 1, 0), measure.Run(9, 1, 1, 0)]
    assert measure.ratios(ours, base) == [2, 3, 1]
    assert measure.spread(measure.ratios(ours, base)) == "2.00 [1.00-3.00]"
    assert measure.spread([0.5]) == "0.50" and measure.spread([]) == "-"
    assert measure.worst(ours) == 1
    assert measure.worst([*ours, measure.Run(1, 1, 1, -9)]) == -9


def test_the_ends_of_kills_are_counted_by_column() -> None:
    told = "apply complete, killed behind it 3, apply done before 2, apply not begun 1, revert finished 10"
    told += ", revert done before 4, revert put back 7"
    assert kills.counted(told) == {"not begun": 1, "put back": 7, "finished": 10, "done before the kill": 9}


def test_the_tables_of_kernels() -> None:
    row = {"kernel": "merge (HEADS 64, 4 warps)", "shared": 46_080, "registers": 181, "blocks": 2}
    decode = {"layer": "128 window", "heads": 64, "batch": 16, "floor": 0.76}
    decode |= {"theirs": 334.2, "plain": 10.4, "gluon": 8.35}
    indexer = {"layer": "indexer, 8K in a table for 128K", "batch": 4, "plain": 4.2, "floor": 0.36}
    told = {name: 1 for name in ("device", "multiprocessors", "memory GB/s", "torch", "triton")}
    accuracy = [{"path": "plain", "error": 1.66e-3}, {"path": "theirs", "error": 1.0}]
    told |= {"decode": {"sm_120": [row, row], "speed": [decode], "accuracy": accuracy}}
    told |= {"indexer": {"sm_120": [], "speed": [indexer], "accuracy": accuracy}}
    lines = list(gpu.told_of(told))
    assert "| merge (HEADS 64, 4 warps) | 46,080 | 181 | 2 |" in lines
    assert "| 128 window | 64 | 16 | 334 | 10.4 | 8.3 | 32 | 40 | 0.76 | 7 / 9 % |" in lines
    assert "| 8K, 128K | 4 |  | 4.2 |  | 0.36 | 9 % |" in lines
    assert lines.count("| merge (HEADS 64, 4 warps) | 46,080 | 181 | 2 |") == 1
    assert lines[-1] == "Relative error of ours against float64, indexer: 1.66e-03 to 1.66e-03."


def test_the_aims_of_kernels() -> None:
    rows = [
        {"layer": "128 window", "heads": 64, "batch": batch, "theirs": theirs, "plain": 10.0, "gluon": 1.0}
        for batch, theirs in ((1, 80.0), (64, 390.0), (4, 1.0))
    ]
    told = {"device": "X", "decode": {"speed": rows}, "indexer": {"speed": []}}
    assert list(gpu.aims_of(told)) == [
        ("decode, 128 window, 64 heads, batch 1: plain Triton >= 7 times theirs, on X", "8", True),
        ("decode, 128 window, 64 heads, batch 64: plain Triton >= 40 times theirs, on X", "39", False),
    ]


def test_the_alarms_of_a_range_are_counted_by_kind() -> None:
    change = Change("flag", "X | Y", "a.py", 3, before={"sm_120": ""}, after={"sm_120": "declared"})
    quiet = every_guard.Line("b" * 40, 1, "2026-06-17", "11", "s", {"added": 2}, [], 0)
    loud = every_guard.Line("a" * 40, 1, "2026-06-18", "12", "s", {"added": 1, "flag": 4}, [change], 0)
    text = every_guard.table([quiet, loud])
    assert text.startswith("2 guards, 1 tripped, 1 alarms.\n")
    assert "| aaaaaaaaa | #12 | `flag` | a.py:3 | `X \\| Y` | sm_120:  → declared |" in text
    assert text.endswith(
        "| kind | changes | trip |\n| --- | --- | --- |\n| `added` | 3 | 0 |\n| `flag` | 4 | 1 |\n"
    )


def test_no_figure_of_the_page_is_left_out() -> None:
    assert "not part of" not in PAGE


def test_the_parts_of_a_profile_are_functions_of_ours() -> None:
    ours = [part.split(":") for part in profile.PARTS.values() if part[0] not in "</"]
    assert len(ours) >= 6
    for file, name in ours:
        assert (
            f"    def {name}(" in (text := (ROOT / "auditor" / file).read_text()) or f"\ndef {name}(" in text
        )
