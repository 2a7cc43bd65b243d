"""Baselines and exceptions: kept whole or refused, and never quietly out of date."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
import pytest
from sample_report import sample

from auditor.errors import UserError
from auditor.history.baseline import Baseline, baseline, dumps, loads
from auditor.history.diff import compare, kernel_changes
from auditor.history.exceptions import apply, expired, load_exceptions
from auditor.history.flags import Flag
from auditor.history.guard import tripping
from auditor.history.model import Change
from auditor.native.model import Availability, Cell, Row, Step
from auditor.reporting.items import items

FLAGS = (Flag("TOY_A", "Bool(True)", "python/toy/environ.py", 3),)


def kernels() -> Availability:
    cell = Cell("not-built", "ops: 90a", (Step("built for 90a", "CMakeLists.txt", 3),))
    row = Row("toy::op", "op", "csrc/op.cc", 4, {"sm_120": cell, "sm_121": cell})
    return Availability("1.0", "t", "toy", None, ("sm_120", "sm_121"), {}, (), (row,), (), (), (), {})


def kept() -> Baseline:
    return baseline(sample(), kernels(), FLAGS)


def test_a_baseline_is_read_back_as_it_was_written_and_compares_as_the_tree_did() -> None:
    data = dumps(kept())
    again = loads(data, "known.json")
    assert loads(data.replace(b"\n", b"\r\n"), "known.json") == again  # a checkout with Windows line ends
    assert again == kept() and dumps(again) == data
    assert compare(again.report, sample()).changes == ()
    assert again.kernels is not None
    assert kernel_changes(again.kernels, kernels(), ("sm_120",)) == []
    assert json.loads(data)["flags"][0]["name"] == "TOY_A"
    assert len(data) < len(dumps(Baseline("1.0", "t", sample(), kernels(), FLAGS)))


@pytest.mark.parametrize(
    ("change", "code"),
    [
        (lambda d: d[: len(d) // 2], "H003"),
        (lambda d: d[:-2], "H003"),
        (lambda d: d.replace(b'"line":140', b'"line":141'), "H003"),
        (lambda d: d.replace(b"baseline:1", b"baseline:7"), "H002"),
        (lambda d: b"{}", "H004"),
        (lambda d: b"", "H004"),
        (lambda d: b"\xff" * 300, "H004"),
    ],
)
def test_what_was_cut_edited_or_is_of_another_schema_is_refused(change, code: str) -> None:
    with pytest.raises(UserError) as caught:
        loads(change(dumps(kept())), "known.json")
    assert caught.value.code == code
    assert caught.value.hints and "audit baseline write known.json" in caught.value.hints[0]


def test_every_single_byte_matters(tmp_path: Path) -> None:
    data = dumps(kept())
    for at in range(0, len(data), 97):
        with pytest.raises(UserError):
            loads(data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :], "known.json")


ENTRY = """
exceptions:
  - gate: d4e5f6
    verdict: missed-variant
    targets: [sm_121]
    reason: 12.1 has no such kernel
    evidence: https://example.org/1
    until: "0.9"
"""


def written(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "deliberate.yaml"
    path.write_text(text)
    return path


def test_a_deliberate_verdict_is_left_out_and_named(tmp_path: Path) -> None:
    report = apply(sample(), load_exceptions(written(tmp_path, ENTRY)))
    assert "d4e5f6" in {item.gate.id for item in items(sample()) if item.gate}
    assert "d4e5f6" not in {item.gate.id for item in items(report) if item.gate}
    (accepted,) = report.accepted
    assert (accepted.gate, accepted.targets, accepted.until) == ("d4e5f6", ("sm_121",), "0.9")
    assert len(report.findings) == len(sample().findings) - 1


def test_a_finding_without_a_gate_is_named_by_query_and_symbol(tmp_path: Path) -> None:
    text = ENTRY.replace(
        "gate: d4e5f6", "query: arguments/forced-flag\n    symbol: ServerArguments.__post_init__"
    )
    text = text.replace("missed-variant", "env-forced").replace("    targets: [sm_121]\n", "")
    report = apply(sample(), load_exceptions(written(tmp_path, text)))
    assert all(finding.query != "arguments/forced-flag" for finding in report.findings)
    assert report.accepted[0].targets == ("sm_120", "sm_121")


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("d4e5f6", "ffffff", "fits nothing: gate ffffff is not missed-variant"),
        ("verdict: missed-variant", "verdict: blocked", "fits nothing: gate d4e5f6 is not blocked"),
        ('"0.9"', '"0.5.13"', "expired with 0.5.13"),
    ],
)
def test_an_entry_that_fits_nothing_or_has_expired_is_an_error(
    tmp_path: Path, old: str, new: str, words: str
) -> None:
    with pytest.raises(UserError) as caught:
        apply(sample(), load_exceptions(written(tmp_path, ENTRY.replace(old, new))))
    assert caught.value.code == "H011" and words in caught.value.fact
    assert str(caught.value.place).endswith("deliberate.yaml:3")


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("    reason: 12.1 has no such kernel\n", "", "`reason` is missing"),
        ("gate: d4e5f6", "gate: d4e5f6\n    query: a/b", "names a gate, or a query"),
        ("gate: d4e5f6", "query: a/b", "names the symbol too"),
        ("missed-variant", "mised", "unknown verdict"),
        ('"0.9"', '"soon"', "not a version"),
        ("reason:", "reasons:", "unknown field"),
    ],
)
def test_a_file_that_is_not_one_says_where(tmp_path: Path, old: str, new: str, words: str) -> None:
    with pytest.raises(UserError) as caught:
        load_exceptions(written(tmp_path, ENTRY.replace(old, new)))
    assert caught.value.code == "H010" and words in caught.value.fact
    assert "deliberate.yaml:" in str(caught.value.place)


def test_when_a_tree_is_past_a_version() -> None:
    tree = sample().tree  # after 0.5.13 and before 0.5.14
    assert expired("0.5.13", tree) and not expired("0.5.14", tree)
    release = msgspec.structs.replace(tree, version="0.5.14", describe=None)
    assert expired("0.5.14", release) and not expired("0.5.15", release)
    assert not expired("0.1", msgspec.structs.replace(tree, describe=None))


def test_a_deliberate_gate_does_not_trip_the_guard() -> None:
    change = Change("outcome", "c", "a.py", 1, gate="aa", before={"sm_120": "no"}, after={"sm_120": "yes"})
    diff = msgspec.structs.replace(compare(sample(), sample()), changes=(change,))
    assert tripping(diff) == (change,)
    assert tripping(diff, deliberate={"aa"}) == ()
    assert tripping(diff, kinds={"outcome"}, deliberate={"bb"}) == (change,)
