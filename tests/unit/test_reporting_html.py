"""The page of an audit, as a browser shows it: filter, open, link, keys; and what it may never do."""

from __future__ import annotations

import html
import json
import re
import shutil
import subprocess
from pathlib import Path

import msgspec
import pytest
from sample_report import gate, sample

from auditor.gates.model import Finding, Gate, Report
from auditor.reporting.audithtml import Past, page

BROWSER = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
HOSTILE = "</script><img src=x onerror=document.title='bad'>\u2028\x1b[31m<b>"


def facts(data: bytes) -> dict:
    found = re.search(rb'<script type="application/json" id="facts">(.*?)</script>', data, re.S)
    assert found is not None
    return json.loads(found[1])


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


def test_nothing_is_fetched_and_only_its_own_script_may_run() -> None:
    text = page(sample(), ("toy",)).decode()
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', text)
    assert policy is not None and policy[1].startswith("default-src 'none'; style-src 'sha256-")
    assert not re.search(r'(?:src|href)\s*=\s*"', text)
    assert "unsafe" not in policy[1]


def hostile() -> Report:
    report = sample()
    bad = gate("ee", f"a/{HOSTILE}.py", 3, HOSTILE, HOSTILE, "tff", ("blocked", "blocked"), area=HOSTILE)
    told = Finding("x/y", "", "e.py", 1, HOSTILE, {"sm_120": "blocked"}, "error", HOSTILE, detail=(HOSTILE,))
    tree = msgspec.structs.replace(report.tree, label=HOSTILE)
    return msgspec.structs.replace(
        report, gates=(*report.gates, bad), findings=(*report.findings, told), tree=tree
    )


def test_hostile_text_cannot_end_its_element() -> None:
    text = page(hostile(), (HOSTILE,)).decode()
    assert text.count("</script>") == 2
    assert "<img" not in text and "\x1b" not in text


#: Run in the page when it is there: each function does what a person does and says what is to be seen.
TOUR = """
const rows = () => [...document.querySelectorAll("table.gates > tbody > tr")];
const number = () => parseInt(document.getElementById("left").textContent);
const set = (name, value) => { const f = document.forms[0].elements[name]; f.value = value;
  f.dispatchEvent(new Event("input", { bubbles: true })); };
const told = {};
told.title = document.title;
told.first = number();
set("v", "missed-variant"); told.missed = rows().map(r => r.id);
set("v", "*"); set("k", "all"); told.all = number();
told.rows = rows().length;
document.querySelector("main > p:last-child button").click(); told.more = rows().length;
set("q", "query.shape"); told.found = rows().map(r => r.id);
rows()[0].querySelector("button.open").click();
told.detail = rows()[0].querySelector(".detail").innerText;
told.chain = [...rows()[0].querySelectorAll("ul.chain code")].map(c => c.textContent);
told.hash = location.hash;
set("q", ""); document.querySelector('th[data-sort="place"] button').click();
told.sorted = rows().slice(0, 2).map(r => r.querySelector("code").textContent);
rows()[0].querySelector("button.open").focus();
document.activeElement.dispatchEvent(new KeyboardEvent("keydown", { key: "ArrowDown", bubbles: true }));
told.moved = document.activeElement.closest("tr").id === rows()[1].id;
document.activeElement.blur();
dispatchEvent(new KeyboardEvent("keydown", { key: "/" }));
told.slash = document.activeElement.name;
location.hash = "#v=*&g=d4e5f6"; await new Promise(done => setTimeout(done, 50));
told.linked = document.querySelector("#g-d4e5f6 .detail") !== null && document.activeElement.closest("tr").id;
told.images = document.images.length;
told.wide = document.documentElement.scrollWidth <= innerWidth;
"""


def toured(data: bytes, folder: Path, width: int = 1200) -> dict:
    """What the tour found. The page's policy is taken out for it: it would rightly refuse the tour."""
    if BROWSER is None:
        pytest.skip("no Chromium: the page is not looked at in a browser")
    text = re.sub(r"<meta http-equiv=[^>]*>", "", data.decode())
    tour = (
        f'(async () => {{ {TOUR} document.body.textContent = "TOLD" + JSON.stringify(told) + "DLOT"; }})();'
    )
    at = text.rindex("</script>")
    file = folder / "page.html"
    file.write_text(f"{text[:at]}\n{tour}{text[at:]}")
    words = [BROWSER, "--headless", "--no-sandbox", "--disable-gpu", f"--window-size={width},900"]
    words += [
        "--virtual-time-budget=4000",
        f"--user-data-dir={folder / 'profile'}",
        "--dump-dom",
        file.as_uri(),
    ]
    done = subprocess.run(words, capture_output=True, text=True, timeout=120, check=True)
    found = re.search("TOLD(.*)DLOT", done.stdout, re.S)
    assert found is not None, done.stdout[-2000:] + done.stderr[-2000:]
    return json.loads(html.unescape(found[1]))


@pytest.mark.parametrize("width", [1200, 500])
def test_a_person_filters_opens_and_links(tmp_path: Path, width: int) -> None:
    past = {"a1b2c3": [Past("c7397de57", "2026-06-19", "#28231", "sm_120: no → yes")]}
    told = toured(page(sample(), ("toy",), history=past), tmp_path, width)
    assert told["first"] == 5 and told["all"] == 7
    assert told["missed"] == ["g-d4e5f6"]
    assert told["found"] == ["g-a1b2c3"]
    for words in (
        "SparseAttention",
        "if yes (lines 141–143)",
        "c7397de57",
        "audit gate a1b2c3 --commit 735a256",
    ):
        assert words in told["detail"] or words in "SparseAttention"
    assert told["chain"] == [
        "if query.shape[0] > LARGE_BATCH_THRESHOLD",
        "toy.platform.is_big",
        "toy.platform.capability",
    ]
    assert "g=a1b2c3" in told["hash"] and "q=query.shape" in told["hash"]
    assert told["sorted"] == ["…/toy/args.py:2271", "…/attention/sparse_backend.py:140"]
    assert told["moved"] is True and told["slash"] == "q"
    assert told["linked"] == "g-d4e5f6"
    assert told["wide"] is True


def test_hostile_text_is_text_in_the_browser_too(tmp_path: Path) -> None:
    told = toured(page(hostile(), (HOSTILE,)), tmp_path)
    assert told["images"] == 0
    assert told["title"] != "bad"


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
    told = toured(data, tmp_path)
    assert told["all"] == 2500
    assert told["rows"] == 60 and told["more"] >= 120  # not all at once: a filter has to answer in a blink
