"""Replaces functions of the project by patched ones when the project loads its plugins, and proves it.

Nothing is done on a GPU that the patches are not for. Where something is not as it was when the package was
made, the process ends: the project itself only logs what goes wrong in a plugin, and would go on unpatched.
"""

from __future__ import annotations
import __future__

import hashlib
import importlib
import importlib.abc
import importlib.machinery
import importlib.metadata
import importlib.util
import json
import logging
import os
import pathlib
import sys
import types
from typing import Any

logger = logging.getLogger(__name__)
_HERE = pathlib.Path(__file__).parent
_PLAN: dict[str, Any] = json.loads((_HERE / "plan.json").read_text(encoding="utf-8"))
#: ``off``: the plugin does nothing. ``warn``: what is wrong is logged, and nothing is replaced.
SWITCH: str = _PLAN["switch"]


class NotInForce(SystemExit):
    """The patches are not in force. No ``Exception``, because those are only logged; exit code 1."""


class _Wrong(Exception):
    pass


def start() -> None:
    """What the project calls when it loads its plugins."""
    mode = os.environ.get(SWITCH, "").strip().lower()
    if mode in ("off", "0", "false", "no"):
        logger.warning("%s: off, because %s=%s", _PLAN["name"], SWITCH, mode)
        return
    try:
        if _is_for_this_gpu():
            _install()
    except Exception as error:
        _fail(error, mode)


def _fail(error: Exception, mode: str) -> None:
    text = f"{_PLAN['name']}: the patches are not in force: {error}"
    if not isinstance(error, _Wrong):
        text = f"{_PLAN['name']}: the patches are not in force: {type(error).__name__}: {error}"
    if mode == "warn":
        logger.error("%s", text)
        return
    raise NotInForce(f"{text}\nSet {SWITCH}=off to start without them.") from error


def _is_for_this_gpu() -> bool:
    """Whether one of the devices is one that the patches are for."""
    wanted = _PLAN["capabilities"]
    if wanted is None:
        return True
    import torch

    if not torch.cuda.is_available() or getattr(torch.version, "hip", None):
        return False
    found = [list(torch.cuda.get_device_capability(i)) for i in range(torch.cuda.device_count())]
    if any(capability in wanted for capability in found):
        return True
    logger.info("%s: nothing to do on this GPU", _PLAN["name"])
    return False


def _variant() -> dict[str, Any]:
    version = importlib.metadata.version(_PLAN["distribution"])
    variants: dict[str, dict[str, Any]] = _PLAN["versions"]
    if version not in variants:
        proven = ", ".join(variants)
        raise _Wrong(f"{_PLAN['distribution']} is {version}; they were made for {proven}")
    return variants[version]


class _Finder(importlib.abc.MetaPathFinder):
    """Finds the modules that the patches add, under the names that they have in a patched tree."""

    def __init__(self, modules: dict[str, str]) -> None:
        self.modules = modules

    def find_spec(
        self, fullname: str, path: object = None, target: object = None
    ) -> importlib.machinery.ModuleSpec | None:
        """The import system asks this for every module."""
        if fullname not in self.modules:
            return None
        return importlib.util.spec_from_file_location(fullname, _HERE / self.modules[fullname])


#: What is to be found in its place once all hooks are applied: (owner, attribute, ours, what was there).
_expected: list[tuple[Any, str, Any, Any]] = []
_finders: list[_Finder] = []


def _install() -> None:
    variant = _variant()
    todo = []
    for module in variant["modules"]:
        if not _is_patched(module):
            todo.append(module)
    registry = _resolve(_PLAN["registry"])
    kind = _resolve(_PLAN["kind"])
    apply = getattr(registry, _PLAN["apply"])
    new = {name: file for name, file in variant["new"].items() if not _there(name)}
    if not todo and not new:
        logger.info("%s: the installed copy is patched already", _PLAN["name"])
        return
    finder = _Finder(new)
    sys.meta_path.insert(0, finder)
    _finders.append(finder)
    for module in todo:
        _add_names(module)
    for module in todo:
        for owner, attribute, function, was in _hooks_of(module):
            getattr(registry, _PLAN["register"])(f"{owner}.{attribute}", function, kind)
            _expected.append((owner, attribute, function, was))

    def proven(cls: object, *args: Any, **words: Any) -> Any:
        out = apply(*args, **words)
        try:
            assert_in_force()
        except _Wrong as error:
            _fail(error, os.environ.get(SWITCH, "").strip().lower())
        logger.info("%s: in force, %d functions replaced", _PLAN["name"], len(_expected))
        return out

    setattr(registry, _PLAN["apply"], classmethod(proven))


def _there(name: str) -> bool:
    """Whether the installed copy has a module that the patches add."""
    parent, _, last = name.rpartition(".")
    places = importlib.import_module(parent).__path__
    return any((pathlib.Path(place) / f"{last}.py").is_file() for place in places)


def _is_patched(module: dict[str, Any]) -> bool:
    """Whether the file of a module is the patched one; it has to be that or the one it was made for."""
    spec = importlib.util.find_spec(module["name"])
    origin = spec.origin if spec is not None else None
    if not origin or not os.path.isfile(origin):
        raise _Wrong(f"{module['name']} has no source file")
    with open(origin, "rb") as stream:
        found = hashlib.sha256(stream.read()).hexdigest()
    if found == module["patched"]:
        return True
    if found != module["base"]:
        raise _Wrong(f"{module['name']} is not the file that they were made for")
    return False


def _compiled(file: str, module: dict[str, Any]) -> types.CodeType:
    path = _HERE / file
    flags = __future__.annotations.compiler_flag if module["future"] else 0
    return compile(path.read_bytes(), str(path), "exec", flags=flags, dont_inherit=True)


def _add_names(module: dict[str, Any]) -> None:
    """Give a module the names it gets besides replaced functions."""
    names = vars(importlib.import_module(module["name"]))
    for added in module["added"]:
        if not added["owner"]:
            exec(_compiled(added["file"], module), names)
            continue
        owner = _resolve(f"{module['name']}.{added['owner']}")
        made: dict[str, Any] = {}
        exec(_compiled(added["file"], module), names, made)
        for name, value in made.items():
            setattr(owner, name, value)
            if hasattr(type(value), "__set_name__"):
                type(value).__set_name__(value, owner, name)


def _hooks_of(module: dict[str, Any]) -> list[tuple[str, str, Any, Any]]:
    out = []
    names = vars(importlib.import_module(module["name"]))
    for each in module["replaced"]:
        owner_name, _, attribute = f"{module['name']}.{each['symbol']}".rpartition(".")
        owner = _resolve(owner_name)
        made: dict[str, Any] = {}
        exec(_compiled(each["file"], module), names, made)
        function = made["_bind"](owner) if each["method"] else made[attribute]
        function.__qualname__ = each["symbol"]
        if attribute not in vars(owner):
            setattr(owner, attribute, function)  # it is new: there is nothing to replace
            continue
        was = vars(owner)[attribute]
        out.append((owner_name, attribute, function, getattr(was, "__func__", was)))
    return out


def _resolve(full: str) -> Any:
    """A module, or what is in one, by its full name."""
    parts = full.split(".")
    for size in range(len(parts), 0, -1):
        name = ".".join(parts[:size])
        try:
            found: Any = importlib.import_module(name)
        except ModuleNotFoundError as error:
            if error.name is None or not name.startswith(error.name):
                raise
            continue
        for part in parts[size:]:
            found = getattr(found, part)
        return found
    raise _Wrong(f"there is no {full}")


def assert_in_force() -> None:
    """Every function is replaced, and nobody holds the old one. ``_Wrong`` says which is not."""
    for owner_name, attribute, function, was in _expected:
        owner = _resolve(owner_name)
        now = vars(owner).get(attribute)
        now = getattr(now, "__func__", now)
        if not _leads_to(now, function):
            raise _Wrong(f"{owner_name}.{attribute} is not replaced, or by something else")
        holder = _holder(was)
        if holder:
            raise _Wrong(f"{holder} is still the old {attribute}")


def _holder(was: Any) -> str:
    """Where the old function is still held: a name, an attribute of a class, an item of a table; or ""."""
    inside = f"{_PLAN['package']}."
    for module in list(sys.modules.values()):
        if not isinstance(module, types.ModuleType):
            continue
        for name, value in list(vars(module).items()):
            if value is was:
                return f"{module.__name__}.{name}"
            if not f"{module.__name__}.".startswith(inside):
                continue
            held: list[tuple[Any, Any]] = []
            if isinstance(value, type):
                held = list(vars(value).items())
            elif type(value) is dict:
                held = list(value.items())
            elif type(value) in (list, tuple):
                held = list(enumerate(value))
            for key, each in held:
                if getattr(each, "__func__", each) is was:
                    return f"{module.__name__}.{name}: {key}"
    return ""


def _leads_to(found: Any, function: Any) -> bool:
    """Whether a call of ``found`` comes to ``function``: itself, or what a wrapper has closed over.

    ``__wrapped__`` does not count: it also names what a wrapper replaces.
    """
    todo, seen = [found], set()
    while todo:
        each = todo.pop()
        if each is function:
            return True
        if id(each) in seen or not isinstance(each, types.FunctionType):
            continue
        seen.add(id(each))
        for cell in each.__closure__ or ():
            try:
                todo.append(cell.cell_contents)
            except ValueError:
                pass
    return False
