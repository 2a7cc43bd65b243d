"""Compare what `audit predicates` claims with what the oracle recorded.

    audit predicates --release 0.5.14 --format json > claims.json
    python scripts/oracle/compare.py tests/keys/oracle/helpers-0.5.14.json claims.json

Prints one line per contradiction and per name the audit does not list, then the counts; exit code 1 if
anything contradicts. A name whose value depends on optional packages agrees when it matches either condition;
parts of a tuple that the audit leaves open match anything. Runs in any Python, without the throw-away
environment.
"""

from __future__ import annotations

import ast
import json
import sys
from typing import Any


def rows(oracle: dict[str, Any]) -> list[tuple[str, list[dict[str, Any]]]]:
    """(name, one row per condition under which it was observed)."""
    found = [(name, [row]) for name, row in oracle["values"].items()]
    found += [(name, list(by.values())) for name, by in oracle["values_by_condition"].items()]
    return sorted(found, key=lambda item: item[0])


def find(predicates: dict[str, Any], oracle: dict[str, Any], name: str) -> dict[str, Any] | None:
    """The audit's predicate for a recorded name: by its own name, or by the class that defines it."""
    plain = name.removesuffix("()")
    owner = oracle["defined_by"].get(name, "")
    found: dict[str, Any] | None = predicates.get(plain) or predicates.get(
        f"{owner}.{plain.rsplit('.', 1)[1]}"
    )
    return found


def claim(predicate: dict[str, Any], target: str, like: Any) -> Any:
    """What the audit decided for a target in the shape of ``like``, or None where it left it open."""
    if isinstance(like, bool):
        return {"true": True, "false": False}.get(predicate["truth"].get(target, "unknown"))
    try:
        value = ast.literal_eval(predicate.get("value", {}).get(target, "None").replace("?", "..."))
    except (ValueError, SyntaxError):
        return None
    return None if value is ... else value


def matches(said: Any, real: Any) -> bool:
    """Equal, where an open part of a tuple (an ellipsis) equals anything."""
    if isinstance(said, (tuple, list)) and isinstance(real, list):
        return len(said) == len(real) and all(map(matches, said, real))
    return said is ... or bool(said == real)


def main(record: str, claims: str) -> int:
    """Compare one record with one report; 1 where they contradict."""
    with open(record, encoding="utf-8") as source:
        oracle = json.load(source)
    with open(claims, encoding="utf-8") as source:
        predicates = {item["name"]: item for item in json.load(source)["predicates"]}
    agree = undecided = wrong = missing = 0
    for name, conditions in rows(oracle):
        predicate = find(predicates, oracle, name)
        if predicate is None:
            missing += 1
            print(f"not listed: {name}")
            continue
        for target in oracle["targets"]:
            real = [row[target] for row in conditions if target in row]
            real = [value for value in real if not isinstance(value, dict)]
            if not real:
                continue
            said = claim(predicate, target, real[0])
            if said is None and real[0] is not None:
                undecided += 1
            elif any(matches(said, value) for value in real):
                agree += 1
            else:
                wrong += 1
                print(f"contradiction: {name} {target}: audit {said!r}, oracle {real}")
    print(f"{agree} agree, {undecided} left open, {wrong} contradict, {missing} names not listed")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
