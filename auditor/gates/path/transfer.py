"""How prefill and decode servers hand over their cache, and what has to be installed for it."""

from __future__ import annotations

import ast
from typing import Any

from auditor.gates.path.model import ByHand, DeviceCheck, Disaggregation, Place, Setting
from auditor.gates.path.packages import Requirement, normal_name
from auditor.gates.path.places import Arguments, flag_defaults, imports_of, symbol_at
from auditor.profile import Profile, Transfer, compile_patterns


def disaggregation(
    program: Any, profile: Profile, arguments: Arguments, stated: list[Requirement], chosen: str | None
) -> Disaggregation:
    """Section 6. ``chosen`` is the backend that the start ends with, where that is known."""
    start = profile.start
    assert start is not None
    transfer = start.transfer
    default = arguments.get(transfer.argument)
    flags = flag_defaults(program, profile, transfer.flags)
    asked = {item.name for item in stated}
    by_hand: list[ByHand] = []
    for backend, packages in transfer.backends.items():
        for package in packages:
            if normal_name(package.name) in asked:
                continue
            places = tuple(
                place
                for module in package.modules
                for place in imports_of(program, profile, transfer.folders, module)
            )
            if places:
                by_hand.append(ByHand(backend, package.name, f"pip install {package.name}", places))
    advice = ""
    if transfer.advice in transfer.backends:
        option = "--" + transfer.argument.replace("_", "-")
        installs = [entry.install for entry in by_hand if entry.backend == transfer.advice]
        advice = " · ".join([*installs, f"{option} {transfer.advice}"])
    return Disaggregation(
        transfer=Setting(transfer.argument, chosen or default.value, default.place),
        flags=tuple(flags.get(name, Setting(name, None)) for name in transfer.flags if name in flags),
        checks=tuple(_checks(program, profile, transfer)),
        by_hand=tuple(by_hand),
        advice=advice,
    )


def _checks(program: Any, profile: Profile, transfer: Transfer) -> list[DeviceCheck]:
    """Conditions on the transfer backend under which the network device is looked at."""
    modules = [symbol.module for symbol in profile.arguments]
    folders = compile_patterns(tuple(folder for symbol in profile.arguments for folder in symbol.folders))
    argument, device = transfer.argument.encode(), transfer.device.encode()
    out = []
    for path, name in sorted(program.paths.items()):
        if name not in modules and not folders.match(profile.below_root(path)):
            continue
        data = program.files[path]
        if argument not in data or device not in data:
            continue
        module = program.module(name)
        if module is None:
            continue
        for node in _ifs(module, transfer):
            names = _compared(node.test, transfer.argument)
            if names is not None and any(_reads(s, transfer.device) for s in node.body):
                out.append(
                    DeviceCheck(names, Place(path, node.lineno, symbol_at(program, path, node.lineno)))
                )
    return out


def _ifs(module: Any, transfer: Transfer) -> list[ast.If]:
    """The ``if`` statements of functions whose text holds both arguments."""
    from auditor.program.source import Irregular

    found: list[ast.If] = []
    queue = list(module.segments)
    while queue:
        segment = queue.pop(0)
        text = segment.text or ""
        if text and (transfer.argument not in text or transfer.device not in text):
            continue
        try:
            if segment.kind == "class":
                queue += segment.members()
            elif segment.kind == "def":
                found += [n for n in ast.walk(segment.node()) if isinstance(n, ast.If)]
        except Irregular:
            continue
    return found


def _compared(test: ast.expr, argument: str) -> tuple[str, ...] | None:
    """The values that a condition compares an argument with for equality, None where it does not."""
    out: list[str] = []
    for node in ast.walk(test):
        if not isinstance(node, ast.Compare) or len(node.ops) != 1:
            continue
        left = node.left
        name = left.attr if isinstance(left, ast.Attribute) else getattr(left, "id", "")
        if name != argument or not isinstance(node.ops[0], (ast.Eq, ast.In)):
            continue
        out += [
            child.value
            for child in ast.walk(node.comparators[0])
            if isinstance(child, ast.Constant) and isinstance(child.value, str)
        ]
    return tuple(out) or None


def _reads(statement: ast.stmt, name: str) -> bool:
    """Whether a call is given the argument's value."""
    for call in ast.walk(statement):
        if isinstance(call, ast.Call):
            given = [*call.args, *(keyword.value for keyword in call.keywords)]
            if any(_is(node, name) for value in given for node in ast.walk(value)):
                return True
    return False


def _is(node: ast.AST, name: str) -> bool:
    if isinstance(node, ast.Attribute):
        return node.attr == name and isinstance(node.ctx, ast.Load)
    return isinstance(node, ast.Name) and node.id == name
