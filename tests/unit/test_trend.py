"""Trends from the lines of a sweep: points, tables, pages, and files that are none."""

from __future__ import annotations

import json
import re
from pathlib import Path

import msgspec
import pytest
from browser import HOSTILE, policy, toured
from sample_report import sample

from auditor.cli.groups import audit as audit_group
from auditor.errors import UserError
from auditor.history.sweeping.model import BLIND, SCHEMA, CommitLine, GateChange, GateFact, Head, Setup
from auditor.history.sweeping.trend import Trend, facts, read_sweep, trend
from auditor.reporting.html import trend as trendhtml
from auditor.reporting.html.audit import page


def head(targets: tuple[str, ...] = ("sm_120",), level: str = "quick") -> Head:
    setup = Setup("sglang", level, targets, "sm_100", "13.0", "python", "python/sglang")
    return Head(SCHEMA, "sglang-auditor 0", "a" * 40, "b" * 40, 4, setup, BLIND)


GATE = GateFact("0123456789ab", "python/sglang/a.py", "f<b>", "if", "<script>x</script>")
LINES = [
    CommitLine("1" * 40, "2026-01-03", "1", 3, {"sm_120": {"differs": 1, "undecided": 0}}),
    CommitLine(
        "2" * 40,
        "2026-01-30",
        "",
        4,
        {"sm_120": {"differs": 2, "undecided": 1}},
        changes=(GateChange("added", GATE, {}, {"sm_120": "true"}),),
        moved=2,
    ),
    CommitLine("3" * 40, "2026-01-29", "3", 4, {"sm_120": {"differs": 2, "undecided": 0}}),
    CommitLine("4" * 40, "2026-02-01", "4", 9, {"sm_120": {"differs": 7, "undecided": 0}}, unreadable=1),
]


def written(lines: list[CommitLine], top: Head | None = None) -> bytes:
    rows = [msgspec.json.encode(top or head()), *(msgspec.json.encode(line) for line in lines)]
    return b"\n".join(rows) + b"\n"


def test_a_month_is_what_its_last_commit_says() -> None:
    found = trend(head(), LINES, "month")
    assert [(p.date, p.commits, p.gates, p.targets["sm_120"]["differs"]) for p in found.points] == [
        ("2026-01-29", 3, 4, 2),
        ("2026-02-01", 1, 9, 7),
    ]
    assert found.points[0].changes == {"added": 1, "moved": 2}
    assert found.kinds == ("differs", "undecided") and found.unreadable == 1


def test_the_stretch_is_the_finest_that_fits() -> None:
    assert trend(head(), LINES).by == "commit"
    many = [
        msgspec.structs.replace(LINES[0], date=f"2026-{n // 28 + 1:02d}-{n % 28 + 1:02d}") for n in range(90)
    ]
    assert trend(head(), many).by == "month"
    # commits whose date steps back belong to the day that was reached
    assert [p.commits for p in trend(head(), LINES, "day").points] == [1, 2, 1]


def test_the_table_in_a_terminal(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "s.jsonl"
    file.write_bytes(written(LINES) + b'{"commit":"5')
    assert not audit_group.main(args=["trend", str(file), "--by", "month"], standalone_mode=False)
    out, err = capsys.readouterr()
    assert "cut off" in err
    rows = [re.split(r"\s{2,}", row.strip()) for row in out.splitlines()[-3:]]
    assert rows == [
        ["date", "commit", "gates", "differs", "undecided", "added", "moved"],
        ["2026-01-29", "333333333", "4", "2", "0", "1", "2"],
        ["2026-02-01", "444444444", "9", "7", "0"],
    ]


def test_json_has_every_point(tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    file = tmp_path / "s.jsonl"
    file.write_bytes(written(LINES))
    words = ["trend", str(file), "--by", "commit", "--format", "json"]
    assert not audit_group.main(args=words, standalone_mode=False)
    said = json.loads(capfdbinary.readouterr().out)
    assert [p["commit"][0] for p in said["points"]] == ["1", "2", "3", "4"]
    assert said["range"]["swept"] == 4 and said["level"] == "quick" and said["blind"]
    assert said == json.loads(msgspec.json.encode(facts(trend(head(), LINES, "commit"))))


TWO = {"sm_120": {"differs": 1, "same": 5}, "sm_121": {"blocked": 2, "same": 4}}


def two() -> Trend:
    lines = [CommitLine("1" * 40, "2026-01-03", "", 6, TWO), CommitLine("2" * 40, "2026-01-04", "", 6, TWO)]
    return trend(head(("sm_120", "sm_121"), "full"), lines)


def test_the_page_draws_each_verdict_with_a_line_a_target_and_runs_nothing() -> None:
    page = trendhtml.page(two()).decode()
    # same is in the table, but not drawn
    assert re.findall(r'aria-label="(\w+): 2026-01-03 to 2026-01-04, now ([^"]*)"', page) == [
        ("differs", "sm_120 1 · sm_121 0"),
        ("blocked", "sm_120 0 · sm_121 2"),
    ]
    assert page.count("<polyline") == 4 and ">sm_120 same<" in page
    assert "<script" not in page and "http" not in page.replace("http-equiv", "")
    assert (
        policy(page.encode()).startswith("default-src 'none'; style-src 'sha256-")
        and "script-src" not in page
    )
    assert page == trendhtml.page(two()).decode()


def test_each_chart_has_a_scale_of_its_own() -> None:
    small, large = ({"sm_120": {"differs": n, "undecided": 400}} for n in (1, 3))
    lines = [
        CommitLine("1" * 40, "2026-01-03", "", 9, small),
        CommitLine("2" * 40, "2026-01-04", "", 9, large),
    ]
    drawn = trendhtml.drawn(trend(head(), lines))
    differs, undecided = drawn.split("<figure>")[1:]
    assert re.findall(r'text-anchor="end">([\d,]+)<', differs) == ["0", "1", "2", "3"]
    assert re.findall(r'text-anchor="end">([\d,]+)<', undecided) == ["0", "100", "200", "300", "400"]


def test_one_point_and_zeros_are_drawn() -> None:
    none = CommitLine("1" * 40, "2026-01-03", "", 0, {"sm_120": {"differs": 0, "undecided": 0}})
    drawn = trendhtml.drawn(trend(head(), [none]))
    assert "nan" not in drawn and drawn.count("<polyline") == 2
    assert trendhtml.marks(1) == [0] and trendhtml.marks(2) == [0, 1] and trendhtml.marks(9) == [0, 4, 8]


def test_hostile_text_of_a_sweep_is_text(tmp_path: Path) -> None:
    top = head((HOSTILE,))
    setup = msgspec.structs.replace(top.setup, project=HOSTILE, reference=HOSTILE)
    top = msgspec.structs.replace(top, first=HOSTILE, last=HOSTILE, setup=setup, blind=(HOSTILE,))
    line = CommitLine(HOSTILE, HOSTILE, HOSTILE, 1, {HOSTILE: {"differs": 1, "undecided": 1}})
    for data in (trendhtml.page(trend(top, [line])), page(sample(), (), trend=trend(top, [line]))):
        text = data.decode()
        assert "<img" not in text and "\x1b" not in text and "::error" in text
        seen = toured(data, tmp_path, "told.end = document.title;" if b"<main>" in data else "")
        assert seen["images"] == 0 and seen["title"] != "bad"
    pytest.importorskip("matplotlib")
    odd = msgspec.structs.replace(top, setup=msgspec.structs.replace(setup, targets=("$x_{$", "_hidden")))
    assert trendhtml.picture(trend(odd, [line])).startswith(b"\x89PNG")


def test_the_page_of_an_audit_has_the_trend_too(tmp_path: Path) -> None:
    data = page(sample(), ("toy",), trend=two())
    tour = """const more = document.querySelector("details.more"); more.open = true;
    told.summary = more.querySelector("summary").textContent;
    told.charts = more.querySelectorAll("figure").length; told.rows = rows().length;
    told.tall = more.querySelector("figure svg").getBoundingClientRect().height > 60;"""
    seen = toured(data, tmp_path, tour, 500)
    assert seen["summary"] == "over time: 2026-01-03 to 2026-01-04, 2 commits"
    assert (seen["charts"], seen["tall"], seen["wide"], seen["rows"]) == (2, True, True, 5)


@pytest.mark.parametrize(("most", "step"), [(1, 1), (4, 1), (5, 2), (9, 5), (21, 10), (41, 20), (81, 50)])
def test_steps_of_the_axis(most: int, step: int) -> None:
    assert trendhtml._step(most) == step


def test_a_picture(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    data = trendhtml.picture(trend(head(), LINES))
    assert data.startswith(b"\x89PNG") and data == trendhtml.picture(trend(head(), LINES))


def test_without_matplotlib_one_error(monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(UserError) as caught:
        trendhtml.picture(trend(head(), LINES))
    assert caught.value.code == "U014" and "[plot]" in caught.value.render()


@pytest.mark.parametrize(
    ("data", "code"),
    [
        (b"", "H030"),
        (b"{}\n", "H030"),
        (b"\xff\n", "H030"),
        (written(LINES, msgspec.structs.replace(head(), sweep="9.0")), "H030"),
        (written(LINES).replace(b'"commit":"222', b'"commat":"222'), "H032"),
    ],
)
def test_files_that_are_no_sweep(data: bytes, code: str) -> None:
    with pytest.raises(UserError) as caught:
        read_sweep(data, "f")
    assert caught.value.code == code


def test_a_sweep_without_figures() -> None:
    blank = msgspec.structs.replace(LINES[0], problem="T020: not in it")
    with pytest.raises(UserError) as caught:
        trend(head(), [blank], name="f")
    assert caught.value.code == "H036"
