"""The scorer must punish what is wrong and forgive only what the key says may be read two ways."""

from __future__ import annotations

import importlib.util
import json
import re
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]
KEYS = ROOT / "tests" / "keys" / "735a256"


def _load() -> ModuleType:
    spec = importlib.util.spec_from_file_location("score_script", ROOT / "scripts" / "score.py")
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


S = _load()
WORD = {"T": "true", "F": "false", "U": "unknown"}


def gate(
    line: int, truth: str, kind: str = "if", path: str = "python/pkg/a.py", **more: Any
) -> dict[str, Any]:
    cells = dict(zip(S.TARGETS, (WORD[c] for c in truth), strict=True))
    return {
        "path": path,
        "line": line,
        "end_line": line,
        "kind": kind,
        "truth": cells,
        "scope": "arch",
        **more,
    }


def key(line: int, truth: str, kind: str = "if", **more: Any) -> dict[str, Any]:
    return {"path": "pkg/a.py", "line": line, "kind": kind, "cond": "c", "truth": truth, **more}


def test_right_answers_score_full_marks() -> None:
    got = S.score([gate(3, "FFFFTTFFF")], [key(3, "FFFFTTFFF")], {})
    assert (got.recall, got.precision, got.agree, got.wrong) == (1.0, 1.0, 9, [])


def test_a_missed_gate_and_an_extra_one() -> None:
    got = S.score([gate(9, "TTTTTTTTT")], [key(3, "FFFFTTFFF")], {})
    assert (got.recall, got.precision, got.extra) == (0.0, 0.0, 1)
    assert got.missed == ["pkg/a.py:3 if c"]


def test_extra_gates_count_only_in_covered_files_and_not_on_neutral_lines() -> None:
    gates = [gate(3, "FFFFTTFFF"), gate(8, "UUUUUUUUU"), gate(8, "UUUUUUUUU", path="python/pkg/b.py")]
    got = S.score(gates, [key(3, "FFFFTTFFF")], {"pkg/a.py": {8}})
    assert (got.extra, got.neutral, got.precision) == (0, 1, 1.0)


def test_a_wrong_decided_value_is_named_and_unknown_is_only_counted() -> None:
    got = S.score([gate(3, "FFFFTTFUT")], [key(3, "FFFFTTFTF")], {})
    assert got.wrong == ["pkg/a.py:3 if sm_121: key F, report T"]
    assert (got.unknown_where_decided, got.decided_cells) == (1, 9)
    assert got.unknown_share == pytest.approx(1 / 9)


def test_deciding_where_the_key_is_unknown_is_counted_apart() -> None:
    got = S.score([gate(3, "FFFFTTFFF")], [key(3, "FFFFUUFFF")], {})
    assert (got.wrong, got.decided_where_unknown) == ([], 2)


def test_the_second_reading_may_be_unknown_but_not_contradicted() -> None:
    entry = key(3, "UUUUUUUUU", **{"or": "FFFFTTTTT"})
    assert S.score([gate(3, "UUUUUUUUU")], [entry], {}).wrong == []
    assert S.score([gate(3, "FFFFTTTTT")], [entry], {}).agree == 9
    assert S.score([gate(3, "FFFFTTTTF")], [entry], {}).wrong == ["pkg/a.py:3 if sm_121: key T, report F"]


def test_two_gates_on_one_line_are_told_apart_by_their_values() -> None:
    gates = [gate(3, "FFFFTTFFF", "ifexp"), gate(3, "FFFFFFFTT", "ifexp")]
    got = S.score(gates, [key(3, "FFFFFFFTT", "ifexp"), key(3, "FFFFTTFFF", "ifexp")], {})
    assert (got.found, got.wrong) == (2, [])


def test_an_elif_reported_as_if_is_found_but_an_if_is_no_argument() -> None:
    assert S.score([gate(3, "TTTTTTTTT", "if")], [key(3, "TTTTTTTTT", "elif")], {}).found == 1
    assert S.score([gate(3, "TTTTTTTTT", "argument")], [key(3, "TTTTTTTTT", "if")], {}).found == 0


def test_vendor_gates_are_not_scored() -> None:
    assert S.score([gate(5, "TTTTTTTTT", scope="platform")], [key(3, "TTTTTTTTT")], {}).extra == 0


def test_the_command_says_what_is_wrong_and_fails(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "gates.jsonl").write_text(json.dumps(key(3, "TTTTTTTTT")) + "\n", encoding="utf-8")
    report = tmp_path / "report.json"
    report.write_text(json.dumps({"gates": [gate(3, "TTTTTTTTF")]}), encoding="utf-8")
    assert S.main([str(report), "--key", str(tmp_path)]) == 1
    assert "wrong  pkg/a.py:3 if sm_121: key T, report F" in capsys.readouterr().out
    report.write_text("{}", encoding="utf-8")
    assert S.main([str(report), "--key", str(tmp_path)]) == 2


def test_the_committed_key_is_well_formed() -> None:
    gates, neutral = S.load_key(KEYS)
    assert len(gates) >= 330
    assert len({g["path"] for g in gates}) >= 40
    places = [(g["path"], g["line"], g["col"], g["kind"], g["cond"]) for g in gates]
    assert len(places) == len(set(places))
    assert places == sorted(places, key=lambda p: p[:4])
    for g in gates:
        assert re.fullmatch("[TFU]{9}", g["truth"]), g
        assert ("U" in g["truth"]) == ("why" in g), g
        if "or" in g:
            assert all(s in (o, "U") or s == o for s, o in zip(g["truth"], g["or"], strict=True)), g
        assert g["line"] not in neutral.get(g["path"], set()), g


def test_the_committed_facts_name_every_tree() -> None:
    facts = yaml.safe_load((KEYS.parent / "facts.yaml").read_text(encoding="utf-8"))
    trees = set(facts["trees"])
    assert len(trees) == 10
    assert set(facts["pins"]) == trees
    assert set(facts["deepgemm_gate"]["by_tree"]) == trees
    assert set(facts["forced_flags_sm120_deepseek_v4"]["by_tree"]) == trees
    assert set(facts["disaggregation"]["transfer_backend_default"]) == trees
