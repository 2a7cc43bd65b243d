"""The page of an audit, as a browser shows it: filter, open, link, keys; and what it may never do."""

from __future__ import annotations

import re
from pathlib import Path

import msgspec
import pytest
from browser import HOSTILE, facts, policy, toured
from sample_report import gate, sample

from auditor.gates.model import VERDICTS, Finding, Gate, Report
from auditor.history.pasts import Event, Pasts
from auditor.reporting.html.audit import page


def test_everything_of_the_report_is_in_it_once() -> None:
    report = sample()
    data = page(report, ("toy",))
    found = facts(data)
    assert [row.get("id") for row in found["rows"] if row.get("id")].count("a1b2c3") == 1
    assert {row["id"] for row in found["rows"] if "id" in row} == {g.id for g in report.gates}
    assert found["shown"] == ["sm_120", "sm_121"]
    assert found["targets"] == ["sm_100", "sm_120", "sm_121"]
    assert page(report, ("toy",)) == data
    assert len(set(found["texts"])) == len(found["texts"])


def test_verdicts_weigh_what_they_weigh_everywhere() -> None:
    # JSON sorts the keys of objects: an order has to be a list
    assert [verdict for verdict, *_ in facts(page(sample(), ()))["verdicts"]] == list(VERDICTS)


def test_nothing_is_fetched_and_only_its_own_script_may_run() -> None:
    data = page(sample(), ("toy",), url="https://github.com/o/toy")
    assert re.fullmatch(
        r"default-src 'none'; style-src 'sha256-[\w+/=]+'; script-src 'sha256-[\w+/=]+'", policy(data)
    )
    assert not re.search(r'(?:src|href)\s*=\s*"', data.decode())


def hostile() -> Report:
    report = sample()
    bad = gate("ee", f"a/{HOSTILE}.py", 3, HOSTILE, HOSTILE, "tff", ("blocked", "blocked"), area=HOSTILE)
    told = Finding("x/y", "", "e.py", 1, HOSTILE, {"sm_120": "blocked"}, "error", HOSTILE, detail=(HOSTILE,))
    tree = msgspec.structs.replace(report.tree, label=HOSTILE)
    return msgspec.structs.replace(
        report, gates=(*report.gates, bad), findings=(*report.findings, told), tree=tree
    )


HOSTILE_PAST = Pasts({"ee": [Event(HOSTILE, HOSTILE, HOSTILE, HOSTILE, HOSTILE)]}, ((HOSTILE, HOSTILE),))


def test_hostile_text_cannot_end_its_element() -> None:
    text = page(hostile(), (HOSTILE,), past=HOSTILE_PAST, url=HOSTILE).decode()
    assert text.count("</script>") == 2
    assert "<img" not in text and "\x1b" not in text


TOUR = """
told.first = number();
told.chips = [...document.querySelectorAll(".chip")].map(c => c.textContent);
chip("missed-variant"); told.missed = rows().map(r => r.id); told.hash0 = location.hash;
told.pressed = [...document.querySelectorAll('.chip[aria-pressed="true"]')].length;
chip("everything"); set("k", "all"); told.all = number();
told.rows = rows().length;
document.querySelector("p.end button").click(); told.more = rows().length;
set("q", "query.shape"); told.found = rows().map(r => r.id);
const open = rows()[0].querySelector("button.open");
open.click();
told.detail = detail() && detail().innerText;
told.chain = [...document.querySelectorAll(".chain .node > code")].map(c => c.textContent);
told.links = [...document.querySelectorAll(".detail a")].map(a => a.href);
told.hash = location.hash;
open.focus(); press("Escape"); told.closed = detail() === null && document.activeElement === open;
set("q", "zzz"); const none = document.querySelector(".none");
told.none = none.hidden ? "" : none.textContent;
document.querySelector(".none button").click(); told.again = number();
document.querySelector('th[data-sort="place"] button').click();
told.sorted = rows().slice(0, 2).map(r => r.querySelector("code").textContent);
rows()[0].querySelector("button.open").focus();
press("ArrowDown");
told.moved = document.activeElement.closest("tr").id === rows()[1].id;
document.activeElement.blur();
press("/", document); told.slash = document.activeElement.name;
location.hash = "#v=*&g=d4e5f6"; await wait();
told.linked = document.querySelector("#g-d4e5f6").dataset.open === "yes"
  && document.activeElement.closest("tr").id;
location.hash = "#v=nonsense&a=nonsense"; await wait(); told.wrong = number();
"""
PAST = Pasts(
    {"a1b2c3": [Event("c7397de57" + "0" * 31, "2026-06-19", "28231", "Use it (#28231)", "sm_120: no → yes")]},
    (("a sweep", "nothing seen"),),
)


@pytest.mark.parametrize("width", [1200, 500])
def test_a_person_filters_opens_and_links(tmp_path: Path, width: int) -> None:
    data = page(sample(), ("toy",), past=PAST, url="https://github.com/o/toy.git")
    told = toured(data, tmp_path, TOUR, width)
    assert told["first"] == 5 and told["all"] == told["again"] == 7
    assert told["missed"] == ["g-d4e5f6"] and told["hash0"] == "#v=missed-variant" and told["pressed"] == 1
    assert told["chips"][0] == "all that differ 5" and told["chips"][-1] == "everything"
    assert told["found"] == ["g-a1b2c3"]
    for words in ("if yes (lines 141–143)", "c7397de57 #28231 2026-06-19 Use it", "sm_120: no → yes"):
        assert words in told["detail"]
    assert "audit gate a1b2c3 --commit 735a256" in told["detail"]
    assert (
        told["chain"]
        == [
            "if query.shape[0] > LARGE_BATCH_THRESHOLD",
            "toy.platform.is_big",
            "toy.platform.capability",
            "torch.cuda.get_device_capability",
        ][: len(told["chain"])]
    )
    assert len(told["chain"]) >= 3
    assert f"https://github.com/o/toy/commit/c7397de57{'0' * 31}" in told["links"]
    assert "https://github.com/o/toy/pull/28231" in told["links"]
    assert "g=a1b2c3" in told["hash"] and "q=query.shape" in told["hash"]
    assert told["closed"] is True and told["none"].startswith("Nothing fits")
    assert told["sorted"] == ["…/toy/args.py:2271", "…/attention/sparse_backend.py:140"]
    assert told["moved"] is True and told["slash"] == "q"
    assert told["linked"] == "g-d4e5f6" and told["wrong"] == 5
    assert told["wide"] is True


def test_a_gate_without_events_says_what_that_means(tmp_path: Path) -> None:
    data = page(sample(), (), past=PAST)
    told = toured(
        data, tmp_path, 'location.hash = "#g=d4e5f6"; await wait(); told.detail = detail().innerText;'
    )
    assert "nothing seen" in told["detail"]
    told = toured(data, tmp_path, 'set("h", "yes"); told.found = rows().map(r => r.id);')
    assert told["found"] == ["g-a1b2c3"]


def test_hostile_text_is_text_in_the_browser_too(tmp_path: Path) -> None:
    open_all = 'chip("everything"); for (const r of rows()) r.querySelector("button.open").click();'
    data = page(hostile(), (HOSTILE,), past=HOSTILE_PAST, url=HOSTILE)
    told = toured(data, tmp_path, open_all + "told.links = document.links.length; told.end = document.title;")
    assert told["images"] == 0 and told["links"] == 0
    assert told["end"] == told["title"] != "bad"


def test_a_full_audit_stays_small_and_shows_a_part_at_a_time(tmp_path: Path) -> None:
    report = sample()
    base: Gate = report.gates[0]
    gates = tuple(
        msgspec.structs.replace(
            base,
            id=f"{n:012x}",
            line=n,
            path=f"python/toy/layers/a{n % 150}.py",
            symbol=f"Backend{n}.forward",
        )
        for n in range(2500)
    )
    data = page(msgspec.structs.replace(report, gates=gates, findings=()), ("toy",))
    assert len(data) < 1_500_000
    tour = """chip("everything"); told.all = number(); told.rows = rows().length;
    document.querySelector("p.end button").click(); told.more = rows().length;"""
    told = toured(data, tmp_path, tour)
    assert told["all"] == 2500
    assert told["rows"] == 40 and told["more"] >= 80  # not all at once: a filter has to answer in a blink


def test_with_many_targets_rows_become_cards_before_words_are_squeezed(tmp_path: Path) -> None:
    report = sample()
    many = msgspec.structs.replace(report, targets=tuple(f"sm_{n}" for n in range(80, 89)))
    tour = """chip("everything");
    told.cards = document.querySelector("table.gates").classList.contains("cards");
    told.main = rows()[0].querySelector(".main").getBoundingClientRect().width;"""
    wide, narrow = (toured(page(many, ()), tmp_path, tour, width) for width in (1300, 900))
    assert (wide["cards"], narrow["cards"]) == (False, True)
    assert wide["main"] >= 250 and narrow["main"] >= 700 and narrow["wide"] is True
