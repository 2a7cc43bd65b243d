"""The terminal report: what it says, at two widths, and that nothing in it can break the terminal.

After a wanted change of wording: UPDATE_GOLDEN=1 pytest THIS_FILE, then read the diff.
"""

from __future__ import annotations

import io
import os
import re
import sys
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

sys.path.insert(0, str(Path(__file__).parent))
from sample_report import gate, sample  # noqa: E402

from auditor.errors import UserError  # noqa: E402
from auditor.gates.model import Finding, Report  # noqa: E402
from auditor.reporting import terminal  # noqa: E402
from auditor.reporting.items import MEANING, differing, items  # noqa: E402
from auditor.reporting.text import Page, Span, clean, short_paths, wrap  # noqa: E402

GOLDEN = Path(__file__).parent / "reporting_golden"


def _console(width: int = 80, encoding: str = "utf-8", **more: object) -> Console:
    stream = io.TextIOWrapper(io.BytesIO(), encoding=encoding, newline="\n", write_through=True)
    settings: dict[str, object] = {"file": stream, "width": width, "color_system": None, "highlight": False}
    return Console(**{**settings, **more})  # type: ignore[arg-type]


def _text(report: Report, console: Console, **how: object) -> str:
    terminal.render(report, console, **how)  # type: ignore[arg-type]
    return console.file.buffer.getvalue().decode(console.encoding)  # type: ignore[attr-defined]


def _page(report: Report, width: int = 80, **how: object) -> str:
    return _text(report, _console(width), **how)


@pytest.mark.parametrize(
    ("name", "width", "how"),
    [
        ("80.txt", 80, {}),
        ("200.txt", 200, {}),
        ("80-v.txt", 80, {"verbose": 1}),
        ("48-q.txt", 48, {"quiet": True}),
    ],
)
def test_golden(name: str, width: int, how: dict[str, object]) -> None:
    page = _page(sample(), width, **how)
    path = GOLDEN / name
    if os.environ.get("UPDATE_GOLDEN"):
        path.write_text(page, encoding="utf-8")
    assert page == path.read_text(encoding="utf-8")
    assert all(len(line) <= width for line in page.splitlines() if "audit " not in line)
    assert not any(line != line.rstrip() for line in page.splitlines())


def test_worst_first() -> None:
    page = _page(sample())
    places = [
        page.index(f"\n{verdict} ") for verdict in ("unguarded", "missed-variant", "env-forced", "fallback")
    ]
    assert places == sorted(places)


def test_a_query_replaces_the_generic_finding() -> None:
    assert "the generic rule" not in _page(sample(), verbose=1)
    assert [item.path for item in items(sample())].count("python/toy/layers/attention/sparse_backend.py") == 1


def test_counts() -> None:
    report = sample()
    assert differing(report, "sm_120", "sm_100") == 3
    # gate 1: reached differs, gate 2: value differs
    assert differing(report, "sm_121", "sm_120") == 2
    unreached = dict.fromkeys(("sm_100", "sm_120", "sm_121"), "false")
    dead = gate("e", "python/toy/a.py", 1, "f", "x", "tft", ("same", "same"), reached=unreached)
    assert differing(msgspec.structs.replace(report, gates=(dead,)), "sm_120", "sm_100") == 0


def test_quiet_is_findings_only() -> None:
    page = _page(sample(), quiet=True)
    assert page.startswith("unguarded")
    assert "next:" not in page and "assuming" not in page


def test_verbose_lists_what_is_the_same_and_the_vendor_gates() -> None:
    page = _page(sample(), verbose=1)
    assert "pick_two" in page and "is_hip()" in page
    assert "pick_two" not in _page(sample()) and "is_hip()" not in _page(sample())
    assert "and 1 vendor gate, -v lists them" in _page(sample())
    assert "unknown  arg.chunked_prefill_size, call query.shape" in page


def test_long_groups_are_cut() -> None:
    gates = tuple(
        gate(f"{n:06x}", "python/toy/a.py", n + 1, f"f{n:02}", "x()", "tff", ("fallback", "fallback"))
        for n in range(40)
    )
    report = msgspec.structs.replace(sample(), gates=gates, findings=(), problems=())
    page = _page(report)
    assert "f11" in page and "f12" not in page
    assert "… 28 more (-v shows all)" in page
    assert "f39" in _page(report, verbose=1)
    # One line more than the limit is shown instead of a line that says so.
    assert "more (-v" not in _page(msgspec.structs.replace(report, gates=gates[:13]))


def test_what_was_not_looked_at_stands_in_the_head() -> None:
    report = sample()
    message = "calls of compiled kernels are not judged: nothing is known of toy==9"
    told = Finding("", "", "METADATA", 3, "", dict.fromkeys(report.targets, "undecided"), "note", message)
    page = _page(msgspec.structs.replace(report, findings=(*report.findings, told)))
    assert page.index(message[:40]) < page.index("undecided ") < page.rindex(message[:40])
    assert message[:40] not in _page(report)


def test_nothing_to_say() -> None:
    report = msgspec.structs.replace(sample(), gates=(), findings=(), problems=())
    page = _page(report)
    assert "0 gates" in page
    assert "nothing differs from sm_100 on sm_120, sm_121" in page
    assert "audit gate" not in page


def test_only_the_reference() -> None:
    page = _page(msgspec.structs.replace(sample(), targets=("sm_100",)))
    assert "5 gates\n" in page and "differs" not in page.splitlines()[3]


def test_nine_targets_fit_into_words() -> None:
    names = ("sm_80", "sm_86", "sm_89", "sm_90", "sm_100", "sm_103", "sm_110", "sm_120", "sm_121")
    page = _page(msgspec.structs.replace(sample(), targets=names), 80)
    assert "✗ sm_120 sm_121   · sm_80 sm_86 sm_89 sm_90 sm_103 sm_110" in page


def test_ascii_output_has_only_ascii() -> None:
    page = _text(sample(), _console(encoding="ascii"))
    assert page.isascii()
    assert re.search(r"sparse_backend\.py:140 +x +x\n", page)
    assert "x affected   ~ another way, works   ? depends   . as sm_100" in page


def test_colour_changes_nothing_but_escapes() -> None:
    coloured = _text(sample(), _console(force_terminal=True, color_system="standard"))
    assert "\x1b[" in coloured
    assert re.sub(r"\x1b\[[0-9;]*m", "", coloured) == _page(sample())


def test_foreign_text_cannot_send_escapes_or_markup() -> None:
    evil = "[red]x[/red]\x1b[31m\x07\x9b2J\u202egnp\ud800\r\nnext"
    report = sample()
    finding = msgspec.structs.replace(
        report.findings[0], message=evil, symbol=evil, path=evil, area=evil, detail=(evil,), fix=evil
    )
    bad = gate("id", evil, 1, evil, evil, "tff", ("blocked", "blocked"), unknown_because=(evil,), via=(evil,))
    tree = msgspec.structs.replace(report.tree, label=evil, describe=evil)
    report = msgspec.structs.replace(report, findings=(finding,), gates=(bad,), tree=tree, project=evil)
    for console in (_console(), _console(force_terminal=True, color_system="standard")):
        page = _text(report, console, verbose=1)
        left = re.sub(r"\x1b\[[0-9;]*m|\x1b\]8;[^\x1b]*\x1b\\", "", page)
        assert not re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f\u202e]", left)
        assert "[red]x[/red]" in left


class _Tree:
    def local_path(self, path: str) -> str | None:
        return f"/src/a b/{path}" if path.endswith("args.py") else None

    def info(self):  # type: ignore[no-untyped-def]
        from auditor.trees.base import TreeInfo

        return TreeInfo("commit", "735a256", "f" * 40, notes=("from ../toy (no checkout)",))


def test_places_are_links_on_a_terminal_only() -> None:
    tree = _Tree()
    page = _text(sample(), _console(120, force_terminal=True, color_system="standard"), tree=tree)
    assert page.count("\x1b]8;id=") == 1
    assert "file:///src/a%20b/python/toy/args.py" in page
    plain = _page(sample(), 120, tree=tree)
    assert "file://" not in plain
    assert "from ../toy (no checkout)" in plain


@pytest.mark.parametrize(
    ("paths", "expected"),
    [
        (["a/b/x.py"], ["x.py"]),
        (["a/x.py", "b/x.py", "c/y.py"], ["a/x.py", "b/x.py", "y.py"]),
        (["p/__init__.py"], ["p/__init__.py"]),
        (["x.py", "a/x.py"], ["x.py", "a/x.py"]),
        (["a/c/x.py", "b/c/x.py"], ["a/c/x.py", "b/c/x.py"]),
    ],
)
def test_short_paths(paths: list[str], expected: list[str]) -> None:
    assert [short_paths(paths)[path] for path in paths] == expected


@pytest.mark.parametrize(
    ("text", "width", "lines"),
    [
        ("one two three", 8, ["one two", "three"]),
        ("", 10, [""]),
        ("see aaaa/bbbb/cccc.py now", 10, ["see aaaa/", "bbbb/", "cccc.py", "now"]),
        ("a.long_name(other)", 12, ["a.long_name(", "other)"]),
        ("abcdefghij", 4, ["abcd", "efgh", "ij"]),
    ],
)
def test_wrap(text: str, width: int, lines: list[str]) -> None:
    assert wrap(text, width) == lines


@given(st.text(max_size=200), st.integers(1, 40))
def test_wrap_keeps_every_character_and_the_width(text: str, width: int) -> None:
    text = clean(text)
    lines = wrap(text, width)
    assert all(len(line) <= width for line in lines)
    assert "".join("".join(lines).split()) == "".join(text.split())


def test_every_verdict_has_words() -> None:
    from auditor.gates.model import VERDICTS

    assert set(MEANING) == set(VERDICTS)


@pytest.mark.parametrize("color", [None, "standard"])
def test_no_line_begins_as_a_command_to_the_runner_of_a_ci_job(color: str | None) -> None:
    """It takes ``::word::`` at the beginning of a line, spaces apart, and ``##[word]`` anywhere."""
    page = Page(80)
    page.add("    ", Span("::error title=x::a.py:3", "bold"), "  f")
    page.add("  :", Span(":stop-commands::x"))
    page.paragraph("::error::b ##[error]c", indent=4)
    page.add("plain :: text")
    console = _console(force_terminal=color is not None, color_system=color)
    page.write(console)
    printed = console.file.buffer.getvalue().decode()  # type: ignore[attr-defined]
    shown = re.sub("\x1b\\[[0-9;]*m", "", printed).splitlines()
    assert shown == [
        "    : :error title=x::a.py:3  f",
        "  : :stop-commands::x",
        "    : :error::b ## [error]c",
        "plain :: text",
    ]


def test_an_error_says_foreign_text_on_one_line() -> None:
    text = "a\x1b[31m\n::error::b\r##[error]"
    error = UserError("T001", text, place="::error::p" + text, hints=[text])
    assert error.render() == (
        "error[T001]: a?[31m ::error::b ## [error]\n"
        "  : :error::pa?[31m ::error::b ## [error]\n"
        "help: a?[31m ::error::b ## [error]"
    )
