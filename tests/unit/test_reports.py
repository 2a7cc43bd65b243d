"""The committed audits are whole, are listed, and hold facts only."""

from __future__ import annotations

import gzip
import re
from pathlib import Path

import pytest

from auditor.history.baseline import loads

ROOT = Path(__file__).parents[2] / "reports"
FILES = sorted((ROOT / "facts").glob("*.json.gz"))


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_a_committed_audit_is_whole_and_holds_facts_only(path: Path) -> None:
    data = gzip.decompress(path.read_bytes())
    kept = loads(data, path.name)
    assert kept.report.targets == ("sm_120", "sm_121") and len(kept.report.gates) > 300
    assert not any(gate.arms for gate in kept.report.gates)
    for word in (rb"/(?:home|root|work)/", rb'"""', rb"Copyright"):
        assert not re.search(word, data), word


def test_the_index_lists_every_file_there_is() -> None:
    index = (ROOT / "README.md").read_text()
    links = set(re.findall(r"\]\(((?:facts|diffs)/[^)]+)\)", index))
    there = {
        path.relative_to(ROOT).as_posix()
        for folder in ("facts", "diffs")
        for path in (ROOT / folder).iterdir()
    }
    assert links == there and len(FILES) >= 8
    assert sum(path.stat().st_size for path in ROOT.rglob("*") if path.is_file()) < 6_000_000


def test_what_is_fetched_for_the_reports_is_what_they_are_made_of() -> None:
    top = ROOT.parent
    made = re.search(r"^reports: RELEASES = (.+)$", (top / "Makefile").read_text(), re.MULTILINE)
    assert made is not None
    text = (top / "scripts" / "reports.py").read_text()
    first, last = re.search(r'f"0\.5\.\{number\}" for number in range\((\d+), (\d+)\)', text).groups()  # type: ignore[union-attr]
    assert made[1].split() == [f"0.5.{number}" for number in range(int(first), int(last))]
