"""The HTML page of `audit kernels`: every row and proof, nothing from outside, no text as markup."""

from __future__ import annotations

from html.parser import HTMLParser

from auditor.gates.model import Problem
from auditor.native.model import Availability, Cell, Row, Step
from auditor.reporting.kernelshtml import page

EVIL = '<script>alert(1)</script>"\x1b[31m'


class Tags(HTMLParser):
    """The elements of a page with their attributes, and its text."""

    def __init__(self, data: bytes) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.feed(data.decode())

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.text += data


def shown(name: str = "ns::op", reason: str = "lib: 90a") -> tuple[bytes, Tags]:
    cells = {
        "sm_90": Cell("runs", "", (Step("registered", "a.cc", 3),)),
        "sm_120": Cell(
            "not-built", reason, (Step("registered", "a.cc", 3), Step("built for 90a", "b.cmake", 7))
        ),
    }
    row = Row(name, "op", "a.cc", 3, cells, schema="op(Tensor a) -> ()")
    stats = {"rows": 1, "cells": 2, "decided": 2}
    found = Availability(
        "1.0", "t", "sglang", None, ("sm_90", "sm_120"), {"cuda": "13.0"}, (), (row,), (), (),
        (Problem("x.cu", 1, "braces"),), stats,
    )  # fmt: skip
    data = page(found)
    return data, Tags(data)


def test_every_cell_and_step_is_there() -> None:
    data, tags = shown()
    cells = [(a["class"], a["title"]) for tag, a in tags.tags if tag == "td" and "title" in a]
    assert cells == [("cell runs", "runs: "), ("cell not-built", "not-built: lib: 90a")]
    assert "built for 90a" in tags.text and "b.cmake:7" in tags.text and "x.cu:1 braces" in tags.text
    (row,) = [a for tag, a in tags.tags if tag == "tr" and "id" in a]
    assert (row["id"], row["data-ways"], row["data-kind"]) == ("ns::op", "runs not-built", "op")
    assert page.__doc__ and data == shown()[0]


def test_nothing_is_fetched() -> None:
    _, tags = shown()
    assert not [tag for tag, attrs in tags.tags if tag in ("link", "img", "iframe") or attrs.get("src")]


def test_text_of_the_tree_is_no_markup() -> None:
    data, tags = shown(EVIL, EVIL)
    assert sum(tag == "script" for tag, _ in tags.tags) == 1
    assert b"\x1b" not in data and "alert(1)" in tags.text
