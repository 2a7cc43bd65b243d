"""The pages of predicates and of one gate."""

from __future__ import annotations

import io
import re
import sys
from pathlib import Path

import msgspec
import pytest
from rich.console import Console

sys.path.insert(0, str(Path(__file__).parent))
from sample_report import sample  # noqa: E402

from auditor.gates.model import Predicate, Report  # noqa: E402
from auditor.reporting.pages import local_name, meaning, render_gate, render_predicates  # noqa: E402


def _console(width: int = 80) -> Console:
    return Console(file=io.StringIO(), width=width, color_system=None)


def _predicates(report: Report, width: int = 80, **how: object) -> str:
    console = _console(width)
    render_predicates(report, console, **how)  # type: ignore[arg-type]
    return console.file.getvalue()  # type: ignore[attr-defined,no-any-return]


def _gate(report: Report, index: int, width: int = 80, **how: object) -> str:
    console = _console(width)
    render_gate(report, report.gates[index], console, **how)  # type: ignore[arg-type]
    return console.file.getvalue()  # type: ignore[attr-defined,no-any-return]


def test_predicates() -> None:
    page = _predicates(sample())
    assert re.search(r"^ +100 120 121$", page, re.MULTILINE)
    assert re.search(r"^ +12  is_big +✓   ·   ·   sm_100$", page, re.MULTILINE)
    assert re.search(r"^ +30  sm +100 120 121$", page, re.MULTILINE)
    assert re.search(r"ENABLED +\?   ·   \?   depends on dep\.deep$", page, re.MULTILINE)
    assert page.count("python/toy/platform.py") == 1
    assert all(len(line) <= 80 for line in page.splitlines())


def test_predicates_limited_quiet_and_verbose() -> None:
    report = sample()
    page = _predicates(report, predicates=report.predicates[:1], quiet=True, verbose=1)
    assert "ENABLED" not in page and "735a256" not in page
    assert "from     toy.platform.capability ← torch.cuda.get_device_capability" in page
    assert "read by  3 gates" in page


def test_a_long_value_is_cut_until_asked_for() -> None:
    report = sample()
    long = msgspec.structs.replace(report.predicates[1], value={"sm_100": "'abcdefghijklmnop'"})
    report = msgspec.structs.replace(report, predicates=(long,))
    assert "'abcdefg…" in _predicates(report)
    assert "'abcdefghijklmnop'" not in _predicates(report)
    assert "sm_100 'abcdefghijklmnop'" in _predicates(report, verbose=1)


@pytest.mark.parametrize(
    ("name", "path", "local"),
    [
        ("toy.a.f", "python/toy/a.py", "f"),
        ("toy.a.C.f", "toy/a.py", "C.f"),
        ("toy.a.f", "toy/a/__init__.py", "f"),
        ("elsewhere.f", "toy/a.py", "elsewhere.f"),
    ],
)
def test_local_name(name: str, path: str, local: str) -> None:
    assert local_name(Predicate(name, path, 1, "function", {})) == local


@pytest.mark.parametrize(
    ("values", "words"), [("tt", "always"), ("ff", "never"), ("tf", "sm_1"), ("tu", "depends on x")]
)
def test_meaning(values: str, words: str) -> None:
    truth = {"t": "true", "f": "false", "u": "unknown"}
    item = Predicate(
        "a.b",
        "a.py",
        1,
        "function",
        {"sm_1": truth[values[0]], "sm_2": truth[values[1]]},
        unknown_because=("x",),
    )  # type: ignore[arg-type, dict-item]
    assert meaning(item, ("sm_1", "sm_2")) == words


def test_gate() -> None:
    page = _gate(sample(), 0)
    assert page.startswith("toy.layers.attention.sparse_backend.SparseAttentionBackend.forward_extend\n")
    assert "place     python/toy/layers/attention/sparse_backend.py:140-143" in page
    assert "  reached   yes     yes     ?\n" in page
    assert "verdict   same sm_100 · unguarded sm_120 sm_121" in page
    assert "depends on arg.chunked_prefill_size, call query.shape" in page
    assert "toy.platform.is_big  platform.py:12: yes sm_100 · no sm_120 sm_121" in page
    assert "arm       if yes (lines 141-143): call sparse_prefill_kernel; return out" in page
    assert "fix       patches show sparse-prefill-guard" in page
    assert all(len(line) <= 80 for line in page.splitlines())


def test_gate_on_a_narrow_terminal() -> None:
    page = " ".join(_gate(sample(), 1, 34).split())
    assert "value yes sm_120 · no sm_100 sm_121 reached yes sm_100 sm_120 sm_121" in page


def test_who_reads_a_gate() -> None:
    report = sample()
    spot = msgspec.structs.replace(report.predicates[0], path=report.gates[1].path, line=report.gates[1].line)
    report = msgspec.structs.replace(report, predicates=(spot,))
    assert "read by   6 gates in 4 files: sparse_backend.py:140, " in _gate(report, 1, 120)


def test_foreign_text_is_cleaned() -> None:
    report = sample()
    evil = "x\x1b[2Jy\u202e"
    bad = msgspec.structs.replace(
        report.gates[0], predicate=evil, symbol=evil, path=evil, unknown_because=(evil,)
    )
    item = msgspec.structs.replace(report.predicates[0], name=evil, path=evil)
    report = msgspec.structs.replace(report, gates=(bad,), predicates=(item,))
    pages = _gate(report, 0) + _predicates(report, verbose=1)
    assert "\x1b" not in pages and "\u202e" not in pages
