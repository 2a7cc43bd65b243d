"""Compare an audit report with an answer key that was written by reading.

``python scripts/score.py report.json [--key tests/keys/735a256] [--list]`` prints recall, precision in the
files the key covers, truth agreement, every decided value that is wrong, and the unknown share; with
``--list`` also the gates that were missed or are not in the key. Exit code 1 if a decided value is wrong.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

TARGETS = ("sm_80", "sm_86", "sm_89", "sm_90", "sm_100", "sm_103", "sm_110", "sm_120", "sm_121")
LETTER = {"true": "T", "false": "F", "unknown": "U"}
#: Kinds that name the same point from two sides: a value that is assigned, returned or passed on.
VALUE_KINDS = frozenset({"assign", "return", "argument", "ifexp", "table"})
TEST_KINDS = frozenset({"if", "elif"})


@dataclass
class Score:
    """Counts over one key; ``cells`` are (gate, target) pairs."""

    key_gates: int = 0
    found: int = 0
    extra: int = 0
    neutral: int = 0
    agree: int = 0
    wrong: list[str] = field(default_factory=list)
    unknown_where_decided: int = 0
    decided_cells: int = 0
    decided_where_unknown: int = 0
    missed: list[str] = field(default_factory=list)
    extras: list[str] = field(default_factory=list)

    @property
    def recall(self) -> float:
        return self.found / self.key_gates if self.key_gates else 1.0

    @property
    def precision(self) -> float:
        named = self.found + self.extra
        return self.found / named if named else 1.0

    @property
    def agreement(self) -> float:
        """Right cells among those that the key decides and the report decides."""
        decided = self.agree + len(self.wrong)
        return self.agree / decided if decided else 1.0

    @property
    def unknown_share(self) -> float:
        return self.unknown_where_decided / self.decided_cells if self.decided_cells else 0.0


def load_key(folder: Path) -> tuple[list[dict[str, Any]], dict[str, set[int]]]:
    """The gates of a key and its neutral lines. Raises OSError or ValueError if the files are not a key."""
    lines = (folder / "gates.jsonl").read_text(encoding="utf-8").splitlines()
    gates = [json.loads(line) for line in lines if line.strip()]
    neutral_file = folder / "neutral.json"
    raw = json.loads(neutral_file.read_text(encoding="utf-8")) if neutral_file.exists() else {}
    return gates, {path: set(numbers) for path, numbers in raw.items()}


def package_path(path: str) -> str:
    """A report's path from the package root: a commit has ``python/`` before it, a wheel has not."""
    return path.removeprefix("python/")


def _fits(key: dict[str, Any], gate: dict[str, Any]) -> int:
    """How well a reported gate answers a key entry of the same file: 0 not at all, 3 exactly."""
    if gate["line"] == key["line"]:
        if gate["kind"] == key["kind"]:
            return 3
        for group in (VALUE_KINDS, TEST_KINDS):
            if gate["kind"] in group and key["kind"] in group:
                return 2
        return 0
    inside = gate["line"] <= key["line"] <= gate.get("end_line", gate["line"])
    return 1 if inside and gate["kind"] == key["kind"] and gate["line"] + 12 >= key["line"] else 0


def _letters(gate: dict[str, Any]) -> str:
    return "".join(LETTER[gate["truth"].get(target, "unknown")] for target in TARGETS)


def _distance(key: dict[str, Any], gate: dict[str, Any]) -> int:
    """Cells that contradict: it tells several gates on one line apart without forgiving any."""
    want = key.get("or") or key["truth"]
    return sum(w != "U" and g != "U" and w != g for w, g in zip(want, _letters(gate), strict=True))


def _match(keys: list[dict[str, Any]], gates: list[dict[str, Any]]) -> dict[int, int]:
    """Pair key entries with reported gates of one file, one to one, the best fit first."""
    pairs = []
    for i, key in enumerate(keys):
        for j, gate in enumerate(gates):
            fit = _fits(key, gate)
            if fit:
                pairs.append((-fit, _distance(key, gate), i, j))
    taken: dict[int, int] = {}
    used: set[int] = set()
    for _, _, i, j in sorted(pairs):
        if i not in taken and j not in used:
            taken[i] = j
            used.add(j)
    return taken


def _judge(key: dict[str, Any], gate: dict[str, Any], where: str, score: Score) -> None:
    got = _letters(gate)
    strict, other = key["truth"], key.get("or", key["truth"])
    for target, want, also, have in zip(TARGETS, strict, other, got, strict=True):
        if want != "U":
            score.decided_cells += 1
            if have == "U":
                score.unknown_where_decided += 1
            elif have in (want, also):
                score.agree += 1
            else:
                score.wrong.append(f"{where} {target}: key {want}, report {have}")
        elif have != "U":
            if also == have:
                score.agree += 1
            elif also != "U":
                score.wrong.append(f"{where} {target}: key {also}, report {have}")
            else:
                score.decided_where_unknown += 1


def score(
    report_gates: list[dict[str, Any]],
    key_gates: list[dict[str, Any]],
    neutral: dict[str, set[int]],
    *,
    scope: str = "arch",
) -> Score:
    """Score a report's gates against a key. Only files that the key names count."""
    by_path: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for gate in report_gates:
        if gate.get("scope", scope) == scope:
            by_path[package_path(gate["path"])].append(gate)
    wanted: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for key in key_gates:
        wanted[key["path"]].append(key)
    result = Score(key_gates=len(key_gates))
    for path in sorted(wanted):
        keys, gates = wanted[path], by_path.get(path, [])
        pairs = _match(keys, gates)
        for i, key in enumerate(keys):
            where = f"{path}:{key['line']} {key['kind']}"
            if i in pairs:
                result.found += 1
                _judge(key, gates[pairs[i]], where, result)
            else:
                result.missed.append(f"{where} {key['cond']}")
        used = set(pairs.values())
        for j, gate in enumerate(gates):
            if j in used:
                continue
            if gate["line"] in neutral.get(path, ()):
                result.neutral += 1
            else:
                result.extra += 1
                result.extras.append(f"{path}:{gate['line']} {gate['kind']} {gate.get('predicate', '')}")
    return result


def describe(result: Score, *, lists: bool = False) -> str:
    """The figures as text, one fact a line."""
    lines = [
        f"gates in the key        {result.key_gates}",
        f"found                   {result.found}  recall {result.recall:.1%}",
        f"not in the key          {result.extra}  precision {result.precision:.1%}  neutral {result.neutral}",
        f"decided right           {result.agree}  agreement {result.agreement:.2%}",
        f"decided wrong           {len(result.wrong)}",
        f"unknown, key decides    {result.unknown_where_decided} of {result.decided_cells} cells"
        f"  {result.unknown_share:.1%}",
        f"decided, key unknown    {result.decided_where_unknown} cells",
    ]
    lines += [f"wrong  {line}" for line in result.wrong]
    if lists:
        lines += [f"missed  {line}" for line in result.missed]
        lines += [f"extra  {line}" for line in result.extras]
    return "\n".join(lines)


def main(argv: list[str] | None = None) -> int:
    """Command line; returns the exit code: 0, 1 if a decided value is wrong, 2 for bad input."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("report", type=Path, help="output of `audit sglang --commit 735a256 --format json`")
    parser.add_argument(
        "--key", type=Path, default=Path(__file__).parent.parent / "tests" / "keys" / "735a256"
    )
    parser.add_argument(
        "--list", action="store_true", help="also print what was missed and what is not in the key"
    )
    args = parser.parse_args(argv)
    try:
        report = json.loads(args.report.read_bytes())
        key_gates, neutral = load_key(args.key)
        result = score(report["gates"], key_gates, neutral)
    except (OSError, ValueError, KeyError) as exc:
        print(f"error: cannot score: {exc!r}", file=sys.stderr)
        return 2
    print(describe(result, lists=args.list))
    return 1 if result.wrong else 0


if __name__ == "__main__":
    sys.exit(main())
