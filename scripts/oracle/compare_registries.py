"""Compare what the audit says of a tree's kernel registry with what the tree answered when it ran.

    python scripts/oracle/compare_registries.py KEY ROOT

``KEY`` is a ``registries-LABEL.json``, ``ROOT`` the folder that holds ``sglang``. Prints every contradiction,
then how many answers agree and how many are left open. Exit code 1 for a contradiction or a missing row.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from auditor.arch import load_targets
from auditor.native.registry.rows import NO_WORD, registry_rows
from auditor.profile import load_profile


def main(key: str, root: str) -> int:
    """Compare a key with the registries of a tree; 1 where they contradict."""
    held = json.loads(Path(key).read_text(encoding="utf-8"))
    base = Path(root)
    files = {p.relative_to(base).as_posix(): p.read_bytes() for p in sorted(base.rglob("*.py"))}
    wrong, agreed, left_open = compare(held, files)
    for line in wrong:
        print(line)
    print(f"{agreed} answers agree, {left_open} are left open, {len(wrong)} contradict")
    return 1 if wrong else 0


def compare(held: dict[str, Any], files: dict[str, bytes]) -> tuple[list[str], int, int]:
    """Contradictions, and how many answers agree and are left open. ``files`` are those of the package."""
    truth, left_out = held["rows"], {line.split(":")[0] for line in held["left_out"]}
    targets = tuple(load_targets())
    rows, problems = registry_rows(files, "", load_profile("sglang"), targets)
    modules = {row.name: row.path[:-3].replace("/", ".").removesuffix(".__init__") for row in rows}
    claims = {row.name: row for row in rows if modules[row.name] not in left_out}
    wrong: list[str] = [f"no row for {name}" for name in sorted(set(truth) - set(claims))]
    wrong += [f"{name} is registered by no run" for name in sorted(set(claims) - set(truth))]
    agreed = left_open = 0
    for name, row in sorted(truth.items()):
        if name not in claims:
            continue
        for target in targets:
            cell = claims[name].cells[target]
            eligible, picked = at(row["eligible"], target), at(row["picked"], target)
            said_eligible = {"runs": True, "raises": False}.get(cell.outcome)
            if cell.reason.startswith("not declared for it"):
                said_eligible = False
            if NO_WORD in cell.reason:
                said_eligible = True
            said_picked = said(cell.reason)
            for what, claim, fact in (("eligible", said_eligible, eligible), ("picked", said_picked, picked)):
                if what == "picked":
                    fact = fact if isinstance(fact, bool) else {"ValueError": "raises"}.get(fact, fact)
                    if isinstance(fact, str) and fact.startswith("forward_"):
                        fact = False
                    if fact == "_forward_backend_dynamic":
                        fact = None
                if claim is None:
                    left_open += fact is not None
                elif claim == fact:
                    agreed += 1
                else:
                    wrong.append(f"{name} {target}: {what} is {fact!r}, the audit says {cell.reason!r}")
    wrong += [f"{problem.path}:{problem.line} {problem.message}" for problem in problems]
    return wrong, agreed, left_open


def at(value: Any, target: str) -> Any:
    """A value that may be the same on all targets."""
    return value[target] if isinstance(value, dict) else value


def said(reason: str) -> Any:
    """What a cell says of the choice: True, False, "raises", or None where it is open."""
    if "naming it raises" in reason:
        return "raises"
    if "picked is open" in reason or "picked is left to" in reason:
        return None
    return " is picked" not in reason


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
