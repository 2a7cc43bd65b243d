"""The recorded answers of the developers' oracle are well formed. That they are true is not tested here."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

FOLDER = Path(__file__).parents[1] / "keys" / "oracle"
FILES = sorted(FOLDER.glob("*.json"))
TARGETS = ["sm_80", "sm_86", "sm_89", "sm_90", "sm_100", "sm_103", "sm_110", "sm_120", "sm_121"]
ABSOLUTE = re.compile(r'"(/|[A-Za-z]:\\)|/(tmp|home|root|usr)/')


def _load(path: Path) -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return loaded


def test_there_is_data() -> None:
    assert FILES


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_small_and_without_machine_paths(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert len(text) < 300_000
    assert not ABSOLUTE.search(text)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_head(path: Path) -> None:
    data = _load(path)
    kind, _, label = path.stem.rpartition("-")
    assert kind in ("helpers", "registries", "server-args")
    assert data["tree"] == label
    assert data["targets"] == TARGETS
    assert data["conditions"]["assumed"]["cuda"] == "13.0"


@pytest.mark.parametrize(
    "path", [p for p in FILES if p.stem.startswith("helpers")], ids=lambda path: path.stem
)
def test_helpers(path: Path) -> None:
    data = _load(path)
    values, split = data["values"], data["values_by_condition"]
    assert not set(values) & set(split)
    assert list(values) == sorted(values)
    for row in values.values():
        assert set(row) == set(TARGETS)
    for rows in split.values():
        assert set(rows) <= {"absent", "present"}
        assert all(set(row) <= set(TARGETS) for row in rows.values())
    # facts that a faked capability cannot get wrong
    assert values["sglang.srt.utils.common.get_device_sm()"] == {
        t: int(t.removeprefix("sm_")) for t in TARGETS
    }
    sm120 = values["sglang.srt.utils.common.is_sm120_supported()"]
    assert [t for t in TARGETS if sm120[t]] == ["sm_120", "sm_121"]


@pytest.mark.parametrize(
    "path", [p for p in FILES if p.stem.startswith("server-args")], ids=lambda path: path.stem
)
def test_server_args(path: Path) -> None:
    data = _load(path)
    assert {"DeepseekV4ForCausalLM", "GptOssForCausalLM", "LlamaForCausalLM"} <= set(data["models"])
    for model in data["models"].values():
        assert set(model) == {"same", "by_target"}
        assert set(model["by_target"]) == set(TARGETS)
        for row in model["by_target"].values():
            assert not set(row) & set(model["same"]) or "raises" in row
            assert all(re.match(r"(args|env|user_value_kept)\.\w+$|raises$|raised_in$", key) for key in row)


@pytest.mark.parametrize(
    "path", [p for p in FILES if p.stem.startswith("registries")], ids=lambda path: path.stem
)
def test_registries(path: Path) -> None:
    rows = _load(path)["rows"]
    assert list(rows) == sorted(rows)
    for name, row in rows.items():
        assert re.fullmatch(r"[\w.]+\[\w+\]", name)
        assert set(row) == {"eligible", "picked"}
        for value in row.values():
            assert not isinstance(value, dict) or set(value) == set(TARGETS)
