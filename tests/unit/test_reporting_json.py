"""The published JSON: its schema, its order and its bytes.

After a wanted change of the form: python scripts/pages.py
"""

from __future__ import annotations

import json
import random
import sys
from pathlib import Path

import jsonschema
import msgspec
import pytest

sys.path.insert(0, str(Path(__file__).parent))
from sample_report import sample  # noqa: E402

from auditor.errors import UserError  # noqa: E402
from auditor.reporting import jsonout  # noqa: E402
from auditor.reporting.schema import audit_schema  # noqa: E402

SCHEMA = Path(__file__).parents[2] / "reports" / "schema" / "audit-1.json"


def test_the_committed_schema_is_the_one_of_the_models() -> None:
    assert json.loads(SCHEMA.read_bytes()) == json.loads(audit_schema())
    assert SCHEMA.read_bytes() == audit_schema()


def test_the_schema_is_a_schema_and_reports_fit_it() -> None:
    schema = json.loads(audit_schema())
    jsonschema.Draft202012Validator.check_schema(schema)
    validator = jsonschema.Draft202012Validator(schema)
    data = json.loads(jsonout.dumps(sample()))
    validator.validate(data)
    for path, value in (
        (("gates", 0, "verdict", "sm_120"), "perhaps"),
        (("gates", 0, "truth", "sm_120"), "maybe"),
        (("gates", 0, "scope"), "cpu"),
        (("findings", 0, "severity"), "fatal"),
        (("schema_version",), "2.0"),
        (("targets", 0), "120"),
    ):
        wrong = json.loads(jsonout.dumps(sample()))
        spot = wrong
        for step in path[:-1]:
            spot = spot[step]
        spot[path[-1]] = value
        assert not validator.is_valid(wrong), path
    for field in (
        "tree",
        "targets",
        "reference",
        "assumptions",
        "predicates",
        "gates",
        "findings",
        "$schema",
    ):
        wrong = {key: value for key, value in data.items() if key != field}
        assert not validator.is_valid(wrong), field
    data["added_later"] = 1
    assert validator.is_valid(data)


def test_the_fields_of_a_gate_and_a_finding() -> None:
    data = json.loads(jsonout.dumps(sample()))
    assert list(data)[:2] == ["$schema", "schema_version"]
    assert data["tree"]["kind"] == "commit"
    (gate,) = [item for item in data["gates"] if item["id"] == "a1b2c3"]
    assert gate.keys() >= {
        "id", "path", "module", "line", "end_line", "symbol", "kind", "via", "roots", "predicate", "truth",
        "reached", "unknown_because", "arms", "verdict",
    }  # fmt: skip
    assert gate["truth"] == {"sm_100": "unknown", "sm_120": "unknown", "sm_121": "unknown"}
    for finding in data["findings"]:
        assert finding.keys() >= {"query", "gate", "path", "line", "symbol", "verdict", "severity", "message"}


def test_order_does_not_depend_on_the_order_things_were_found_in() -> None:
    report = sample()
    expected = jsonout.dumps(report)
    for seed in range(5):
        dice = random.Random(seed)

        def shuffled(entries: tuple) -> tuple:  # type: ignore[type-arg]
            return tuple(dice.sample(entries, len(entries)))  # noqa: B023

        gates = tuple(
            msgspec.structs.replace(item, truth=dict(shuffled(tuple(item.truth.items()))))
            for item in shuffled(report.gates)
        )
        other = msgspec.structs.replace(
            report, gates=gates, findings=shuffled(report.findings), predicates=shuffled(report.predicates)
        )
        assert jsonout.dumps(other) == expected
    lines = [(item["path"], item["line"]) for item in json.loads(expected)["gates"]]
    assert lines == sorted(lines)


def test_one_entry_a_line() -> None:
    text = jsonout.dumps(sample()).decode()
    assert sum(line.startswith('{"id":') for line in text.splitlines()) == len(sample().gates)
    assert text.endswith("\n}\n")
    empty = msgspec.structs.replace(sample(), gates=(), findings=(), predicates=(), problems=())
    assert json.loads(jsonout.dumps(empty))["gates"] == []


def test_read_back() -> None:
    first = jsonout.dumps(sample())
    assert jsonout.dumps(jsonout.loads(first, "a.json")) == first
    assert jsonout.loads(first.replace(b'"tool":', b'"new":1,"tool":'), "a.json").project == "toy"


@pytest.mark.parametrize("data", [b"", b"[]", b"{}", b"\xff", b'{"$schema":1}'])
def test_what_is_not_a_report(data: bytes) -> None:
    with pytest.raises(UserError) as caught:
        jsonout.loads(data, "a.json")
    assert (caught.value.code, caught.value.place) == ("U013", "a.json")


def test_another_major_version_is_refused() -> None:
    data = jsonout.dumps(sample()).replace(b'"schema_version":"1.0"', b'"schema_version":"2.0"')
    with pytest.raises(UserError) as caught:
        jsonout.loads(data, "a.json")
    assert "2.0" in caught.value.fact
