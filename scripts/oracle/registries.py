"""Write what SGLang's kernel registry says on each target: what is eligible, and which one is picked.

    python scripts/oracle/registries.py OUT LABEL=ROOT [LABEL=ROOT ...]

``ROOT`` is the folder that holds ``sglang``. See README.md for the environment this needs.
"""

from __future__ import annotations

import importlib
import json
import os
import re
import sys
from functools import partial
from typing import Any

import child
import fake_gpu

_REGISTERS = re.compile(r"^(?:\w+\s*=\s*)?register_(?:kernel|fused_op)\(", re.M)


def registering(root: str) -> list[str]:
    """Modules below ``sglang`` that register something when they are imported."""
    out = []
    for folder, _dirs, names in os.walk(os.path.join(root, "sglang")):
        for name in names:
            path = os.path.join(folder, name)
            if not name.endswith(".py") or "/test" in path:
                continue
            with open(path, encoding="utf-8") as source:
                if _REGISTERS.search(source.read()):
                    module = os.path.relpath(path, root)[:-3].replace(os.sep, ".")
                    out.append(module.removesuffix(".__init__"))
    return sorted(out)


def ask(modules: list[str]) -> dict[str, Any]:
    """Every implementation: whether it is eligible, and what its operator picks."""
    failed = []
    for module in modules:
        try:
            importlib.import_module(module)
        except Exception as error:  # noqa: BLE001 - listed
            failed.append(f"{module}: {type(error).__name__}")
    from sglang.kernels.registry import registry
    from sglang.kernels.selector import select_kernel
    from sglang.kernels.spec import PlatformInfo

    platform = PlatformInfo.detect()
    rows = {}
    for spec in registry.all_specs():
        name = f"{spec.op}[{spec.backend.value}]"
        rows[name] = {"eligible": spec.is_available(platform), "picked": picked(spec, select_kernel)}
    return {"rows": rows, "failed": failed}


def picked(spec: Any, select: Any) -> Any:
    """Whether this implementation is the one that is used, or the name of what is done instead."""
    module, _, attr = spec.target.partition(":")
    if "." in attr:
        owner = getattr(importlib.import_module(module), attr.split(".")[0])
        if hasattr(owner, "dispatch_forward"):
            try:
                used = owner.dispatch_forward().__name__
            except Exception as error:  # noqa: BLE001 - recorded
                return type(error).__name__
            return True if used == attr.split(".")[-1] else used
    try:
        return select(spec.op).target == spec.target
    except (KeyError, ValueError) as error:
        return type(error).__name__


def main(arguments: list[str]) -> None:
    """One file per tree, LABEL=ROOT each, in the folder that comes first."""
    out, *trees = arguments
    child.preload()
    for item in trees:
        label, root = item.split("=", 1)
        modules = registering(root)
        table: dict[str, dict[str, dict[str, Any]]] = {}
        failed: set[str] = set()
        for target in fake_gpu.TARGETS:
            answer = child.in_child(root, target, True, False, partial(ask, modules))
            if "error" in answer:
                sys.exit(f"{label} {target}: {answer['error']}\n{answer.get('trace', '')}")
            failed |= set(answer["result"]["failed"])
            for name, row in answer["result"]["rows"].items():
                for key, value in row.items():
                    table.setdefault(name, {}).setdefault(key, {})[target] = value
        lines = [
            f"  {json.dumps(name)}: {json.dumps(_short(row), sort_keys=True)}"
            for name, row in sorted(table.items())
        ]
        facts = {
            "tree": label,
            "targets": list(fake_gpu.TARGETS),
            "conditions": {"assumed": {"cuda": fake_gpu.CUDA}},
            "left_out": sorted(failed),
        }
        head = json.dumps(facts)[1:-1]
        with open(os.path.join(out, f"registries-{label}.json"), "w", encoding="utf-8") as target_file:
            target_file.write("{" + head + ', "rows": {\n' + ",\n".join(lines) + "\n}}\n")
        print(f"{label}: {len(table)} implementations, {len(failed)} modules left out", file=sys.stderr)


def _short(row: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """One value where all targets agree."""
    out: dict[str, Any] = {}
    for key, each in row.items():
        values = {json.dumps(v) for v in each.values()}
        out[key] = (
            next(iter(each.values())) if len(values) == 1 and set(each) == set(fake_gpu.TARGETS) else each
        )
    return out


if __name__ == "__main__":
    main(sys.argv[1:])
