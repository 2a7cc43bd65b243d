"""Arguments that are written on every GPU before an arm of one family that only acts on "auto".

Such an arm is a write that 12.x comes to, the reference does not, and that stands under a test for "auto".
It cannot act once another function has written the argument, for the same models and on all GPUs.
Conditions that name different constants for the same thing exclude each other. Which function runs first
is not worked out: model hooks run before what holds for all models.
"""

from __future__ import annotations

import re
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

from auditor.queries.engine import Match, module_name

NO_VALUE = (frozenset({"auto"}), frozenset({None}))


def run(context) -> list[Match]:
    tool = _sibling("defaults.py")
    words = tuple(context.query.words)
    calls: dict[str, tuple[str, ...]] = {}
    walks = {}
    functions = {
        (gate.path, gate.module, gate.symbol)
        for gate in context.gates
        if gate.symbol and _differs(gate, context) and _handles_arguments(gate.module)
    }
    root = context.profile.root_of(context.tree.blobs()) if context.profile else ""
    for path, data in context.files_with(*words, within=r"server_args|/arg_groups", pieces=True):
        module = module_name(path, root)
        if not _handles_arguments(module):
            continue
        asked = {symbol for where, _, symbol in functions if where == path}
        lines = data.splitlines()
        spoken = _spoken(lines, words)
        for name, line in spoken.items():
            symbol = next((s for s in sorted(asked) if s.rsplit(".", 1)[-1] == name), name)
            walk = tool.walked(context, path, module, symbol, line, frozenset(words))
            if walk is None:
                continue
            calls |= {called: models for called, models in walk.calls.items() if called not in calls}
            walks[path, name] = walk
    return list(_pairs(context, walks, calls, words))


def _pairs(context, walks, calls, words):
    reference = context.reference
    arms, blind = [], []
    for (path, name), walk in sorted(walks.items()):
        for write in walk.writes:
            if write.argument not in words:
                continue
            models = write.place.models or calls.get(name, ())
            mine = {t for t in walk.targets if t.startswith("sm_12") and write.reach[t] != "false"}
            waits = any(n == write.argument and values in NO_VALUE for n, values in write.place.facts)
            if mine and write.reach[reference] == "false" and waits:
                arms.append((path, name, write, models, mine))
            elif "false" not in write.reach.values() and write.value != "auto":
                blind.append((path, name, walk, write, models))
    for path, name, walk, write, models in blind:
        if not models:
            continue
        waiting = [
            entry
            for entry in arms
            if entry[2].argument == write.argument
            and (path, name) != entry[:2]
            and (not entry[3] or set(entry[3]) & set(models))
            and not _exclude(write.place.facts, entry[2].place.facts, write.argument)
        ]
        if any(entry[3] for entry in waiting):  # an arm for this model says more than one for all
            waiting = [entry for entry in waiting if entry[3]]
        for arm_path, arm_name, arm, _, mine in waiting:
            same = arm.value == write.value
            yield Match(
                path,
                write.line,
                walk.symbol,
                module=walk.module,
                captures={
                    "ARGUMENT": write.argument,
                    "VALUE": write.value,
                    "MODELS": ", ".join(models[:3]),
                    "ARM": f"{arm_path.rsplit('/', 1)[-1]}:{arm.line} ({arm_name})",
                    "WANTED": arm.value + (" (the same value)" if same else ""),
                },
                # what is set is what the arm would have set: only the arm is idle
                verdict=dict.fromkeys(sorted(mine), "dead-arm" if same else "wrong-default"),
            )


def _exclude(left, right, argument: str) -> bool:
    """Whether two sets of facts cannot hold together."""
    for name, values in left:
        for other, others in right:
            if name == other != argument and not values & others:
                return True
    return False


def _spoken(lines: list[bytes], words: tuple[str, ...]) -> dict[str, int]:
    """Functions that write one of the arguments: name -> a line inside."""
    wrote = re.compile(rf"""\b({"|".join(words)})\b["']?\]?\s*(=(?!=)|:\s*["'])""".encode())
    head = re.compile(rb"\s*(?:async\s+)?def\s+(\w+)")
    out: dict[str, int] = {}
    name = None
    for number, line in enumerate(lines, 1):
        found = head.match(line)
        if found:
            name = found[1].decode()
        elif name and name not in out and wrote.search(line):
            out[name] = number
    return out


def _handles_arguments(module: str) -> bool:
    return "server_args" in module or ".arg_groups" in module


def _differs(gate, context) -> bool:
    mine = gate.truth.get(context.reference)
    return any(value != mine for target, value in gate.truth.items() if target.startswith("sm_12"))


def _sibling(name: str):
    spec = spec_from_file_location(
        "auditor_query_" + name.removesuffix(".py"), Path(__file__).with_name(name)
    )
    assert spec and spec.loader
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
