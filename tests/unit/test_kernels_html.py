"""The HTML page of `audit kernels`: every row and proof, nothing from outside, no text as markup."""

from __future__ import annotations

from pathlib import Path

import pytest
from browser import HOSTILE, facts, policy, toured

from auditor.gates.model import Problem
from auditor.native.model import Availability, Cell, Row, Step
from auditor.reporting.html.kernels import page


def found(name: str = "ns::op", reason: str = "lib: 90a") -> Availability:
    cells = {
        "sm_90": Cell("runs", "", (Step("registered", "a.cc", 3),)),
        "sm_120": Cell(
            "not-built", reason, (Step("registered", "a.cc", 3), Step("built for 90a", "b.cmake", 7))
        ),
        "sm_121": Cell(
            "not-built", reason, (Step("registered", "a.cc", 3), Step("built for 90a", "b.cmake", 7))
        ),
    }
    rows = (
        Row(name, "op", "a.cc", 3, cells, schema="op(Tensor a) -> ()", wrappers=("ns.call",)),
        Row("triton::fine", "triton", "t.py", 9, {t: Cell("runs") for t in cells}, area="moe"),
    )
    stats = {"rows": 2, "cells": 6, "decided": 6}
    return Availability(
        "1.0", "t", "sglang", None, tuple(cells), {"cuda": "13.0"}, (), rows, (), (),
        (Problem("x.cu", 1, "braces"),), stats,
    )  # fmt: skip


def test_every_cell_and_step_is_there_once() -> None:
    data = page(found())
    told = facts(data)
    texts = told["texts"]
    row = told["rows"][0]
    assert row["o"] == ["runs", "not-built", "not-built"]
    assert [(names, way, texts[why]) for names, way, why, _ in row["c"]] == [
        (["sm_90"], "runs", ""),
        (["sm_120", "sm_121"], "not-built", "lib: 90a"),
    ]
    assert [(texts[t], texts[p], line) for t, p, line in row["c"][1][3]][1] == ("built for 90a", "b.cmake", 7)
    assert b"x.cu:1 braces" in data and data == page(found())


def test_nothing_is_fetched() -> None:
    data = page(found())
    assert policy(data).startswith("default-src 'none'; style-src 'sha256-") and "unsafe" not in policy(data)
    assert b"<link" not in data and b"<img" not in data


TOUR = """
told.first = rows().map(r => r.id); chip("everything"); told.all = number();
chip("runs"); set("t", "sm_120"); told.on120 = rows().map(r => r.id); set("t", ""); chip("everything");
set("y", "triton"); told.kind = number(); set("y", "");
told.cells = [...rows()[0].querySelectorAll(".cell")].map(c => c.textContent + c.title);
rows()[0].querySelector("button.open").click(); told.detail = detail().innerText; told.hash = location.hash;
location.hash = "#triton::fine"; await wait(); told.linked = document.activeElement.closest("tr").id;
"""


@pytest.mark.parametrize("width", [1200, 500])
def test_a_person_filters_and_opens(tmp_path: Path, width: int) -> None:
    told = toured(page(found()), tmp_path, TOUR, width)
    assert told["first"] == ["g-ns::op"] and told["all"] == 2
    assert told["on120"] == ["g-triton::fine"] and told["kind"] == 1
    assert told["cells"] == ["✓runs", "–not-built", "–not-built"]
    for words in ("– not-built on 120 121", "lib: 90a", "built for 90a", "op(Tensor a) -> ()", "ns.call"):
        assert words in told["detail"], words
    assert "g=ns" in told["hash"] and told["linked"] == "g-triton::fine" and told["wide"] is True


def test_text_of_the_tree_is_no_markup(tmp_path: Path) -> None:
    data = page(found(HOSTILE, HOSTILE), url=HOSTILE)
    assert data.count(b"</script>") == 2 and b"\x1b" not in data and b"<img" not in data
    told = toured(data, tmp_path, 'for (const r of rows()) r.querySelector("button.open").click();')
    assert told["images"] == 0 and told["title"] != "bad"
