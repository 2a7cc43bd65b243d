"""Write what SGLang's helpers, aliases and platform objects say on each target, one JSON file per tree.

    python scripts/oracle/helpers.py OUT LABEL=ROOT [LABEL=ROOT ...]

``ROOT`` is the folder that holds ``sglang``. See README.md for the environment this needs and for the
output.
"""

from __future__ import annotations

import json
import os
import sys
from typing import Any

import child
import fake_gpu
import observe

#: The second and third pass see fewer targets, one of each family that SGLang tells apart, to save time.
ABSENT_TARGETS = ("sm_90", "sm_100", "sm_120")
BOARD_TARGETS = ("sm_120",)


def observe_tree(root: str, bound: dict[str, frozenset[str]]) -> dict[str, dict[str, dict[str, Any]]]:
    """Raw answers: condition -> target -> the child's answer."""
    modules = observe.modules_worth(root)

    def work() -> dict[str, Any]:
        failed = observe.import_all(modules)
        values, defined_by = observe.values(bound)
        return {"failed": failed, "values": values, "defined_by": defined_by}

    plan = [("present", target) for target in fake_gpu.TARGETS]
    plan += [("plain", target) for target in BOARD_TARGETS]
    plan += [("absent", target) for target in ABSENT_TARGETS]
    raw: dict[str, dict[str, dict[str, Any]]] = {}
    for condition, target in plan:
        answer = child.in_child(root, target, condition != "absent", condition == "plain", work)
        if "error" in answer:
            print(f"{condition} {target}: {answer['error']}\n{answer.get('trace', '')}", file=sys.stderr)
            continue
        print(
            f"{condition} {target}: {len(answer['result']['values'])} values, "
            f"{len(answer['result']['failed'])} modules left out",
            file=sys.stderr,
        )
        raw.setdefault(condition, {})[target] = answer
    return raw


def table(raw: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """name -> target -> value, for names that every target has."""
    targets = list(raw)
    names = set.intersection(*(set(raw[t]["result"]["values"]) for t in targets))
    return {name: {t: raw[t]["result"]["values"][name] for t in targets} for name in sorted(names)}


def raises(row: dict[str, Any]) -> bool:
    """Whether a helper raises on some target."""
    return any(isinstance(value, dict) for value in row.values())


def differs(row: dict[str, Any]) -> bool:
    """Whether the answers are not the same on every target."""
    return len({json.dumps(value, sort_keys=True) for value in row.values()}) > 1


def relevant(name: str, row: dict[str, Any]) -> bool:
    """Kept: what depends on the target, and yes/no questions that are plainly about it."""
    if raises(row) and not differs(row):
        return False
    last = name.rsplit(".", 1)[-1]
    return differs(row) or (
        bool(observe.ARCH_NAME.search(last) or observe.VENDOR_NAME.search(last))
        and all(isinstance(value, (bool, int)) for value in row.values())
    )


def summarise(
    label: str, raw: dict[str, dict[str, dict[str, Any]]], bound: dict[str, frozenset[str]]
) -> dict[str, Any]:
    """The committed form of the raw answers."""
    present, absent = table(raw["present"]), table(raw["absent"])
    board: set[str] = set()
    for target, answer in raw.get("plain", {}).items():
        other = raw["present"][target]["result"]["values"]
        board |= {n for n, v in answer["result"]["values"].items() if n in other and v != other[n]}
    values: dict[str, Any] = {}
    split: dict[str, Any] = {}
    for name in sorted(set(present) | set(absent)):
        rows = {c: t[name] for c, t in (("absent", absent), ("present", present)) if name in t}
        if name in board or not any(relevant(name, row) for row in rows.values()):
            continue
        if len(rows) == 2 and all(rows["present"][t] == value for t, value in rows["absent"].items()):
            values[name] = rows["present"]
        else:
            split[name] = rows
    kept = set(values) | set(split)
    defined_by = {
        name: owner
        for answer in raw["present"].values()
        for name, owner in answer["result"]["defined_by"].items()
        if name in kept
    }

    def union(condition: str, key: str) -> list[str]:
        return sorted({item for answer in raw[condition].values() for item in answer[key]})

    return {
        "tree": label,
        "targets": list(fake_gpu.TARGETS),
        "conditions": {
            "assumed": {
                "cuda": fake_gpu.CUDA,
                "build": "NVIDIA",
                "devices": 1,
                "os": "Linux x86_64",
                "env": "empty",
            },
            "absent": {
                "packages_missing": union("absent", "refused"),
                "packages_stubbed": union("absent", "stubbed"),
            },
            "present": {
                "packages_missing": union("present", "refused"),
                "packages_stubbed": union("present", "stubbed"),
            },
            "lines_decided_by_a_stub": union("present", "decisions"),
            "modules_left_out": {
                c: sorted({m for answer in raw[c].values() for m in answer["result"]["failed"] if m in bound})
                for c in ("absent", "present")
            },
            "depends_on_the_board": sorted(n for n in board if n in present and differs(present[n])),
        },
        "defined_by": defined_by,
        "values": values,
        "values_by_condition": split,
    }


def dumps(data: dict[str, Any]) -> str:
    """One name a line, sorted: small, and its diffs can be read."""

    def block(value: Any, indent: str) -> str:
        if (
            isinstance(value, dict)
            and not _is_row(value)
            and any(isinstance(v, (dict, list)) for v in value.values())
        ):
            inner = ",\n".join(
                f"{indent} {json.dumps(k)}: {block(value[k], indent + ' ')}" for k in sorted(value)
            )
            return "{\n" + inner + "\n" + indent + "}"
        return json.dumps(value, sort_keys=isinstance(value, dict) and not _is_row(value))

    return block(data, "") + "\n"


def _is_row(value: dict[str, Any]) -> bool:
    return (
        bool(value)
        and set(value) <= set(fake_gpu.TARGETS)
        and not any(isinstance(v, dict) for v in value.values())
    )


def main(arguments: list[str]) -> None:
    """One file per tree, LABEL=ROOT each, in the folder that comes first."""
    out, *trees = arguments
    child.preload()
    for item in trees:
        label, root = item.split("=", 1)
        bound = observe.bindings(root)
        print(f"{label}: {len(bound)} modules", file=sys.stderr)
        data = summarise(label, observe_tree(root, bound), bound)
        with open(os.path.join(out, f"helpers-{label}.json"), "w", encoding="utf-8") as target:
            target.write(dumps(data))


if __name__ == "__main__":
    main(sys.argv[1:])
