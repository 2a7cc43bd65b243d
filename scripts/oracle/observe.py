"""Inside one forked child: import a tree's modules and write down what depends on the GPU.

Looked at are names that a module binds itself (not what it imports), functions that can be called without
arguments and whose name sounds like a question about the machine, plain class attributes, and the questions
of platform objects. A value is kept when it is a bool, int, float, string, None or a tuple of those.
"""

from __future__ import annotations

import ast
import functools
import importlib
import inspect
import os
import re
import signal
import sys
import traceback
import types
from collections.abc import Iterator
from typing import Any

#: Files worth importing: they ask for the capability, or use one of the usual helpers.
WORTH = re.compile(
    rb"get_device_capability|get_device_sm|is_sm_?\d|is_blackwell|is_hopper|is_ampere|is_ada|capability|cuda_arch|"
    rb"get_device_properties|\.is_sm|get_platform\(\)|device_sm|shared_memory_per_block"
)
#: Functions that may be called: questions, not actions.
QUESTION = re.compile(
    r"^_*(is|has|use|should|can|support|supports|require|requires|cutlass|compute|check|need|needs|allow|"
    r"prefer|want|any|will|disable|default|detect|resolve|select|choose|get|num|max|min|auto|deep_?gemm|trtllm|"
    r"flash|marlin|nvfp4|mxfp|fp4|fp8|sm\d|arch|cuda|torch|triton)(_|$)|sm_?\d{2}|blackwell|hopper|capability|"
    r"arch|supported|available|enabled"
)
#: Names that are about the GPU even if all targets agree.
ARCH_NAME = re.compile(
    r"sm_?\d{2,3}|(^|_)sm($|_)|blackwell|hopper|ampere|capabilit|(^|_)arch($|_)|cuda_arch", re.I
)
ACTION = re.compile(
    r"kill|reset|init|set_|monkey|suppress|launch|run|main|destroy|warmup|download|clear|create|build|load|_port|"
    r"_lock|time|stream|memory_capacity|register|patch|install|compile|profil|event_loop|server_args|_ip|host|_pid|"
    r"process|_cls|batch_invariant|git_|transport|benchmark|logger|session|workspace|handle|group|rank|lscpu|numa|cpu|allocator"
)
SKIP = re.compile(
    r"\.(third_party|test|benchmark|bench_\w+|eval|cli|launch_server)(\.|$)|__main__|\.tools\.|^sglang\.(test|check_env)|"
    r"^sglang\.multimodal_gen\.(apps|configs|runtime\.(models|loader|pipelines|pipelines_core|entrypoints|managers))\."
)
#: Text that may be written down: words and flags, not sentences and not paths.
SHORT = re.compile(r"[\w.+=:,<>-]{0,60}")
#: Questions about the vendor: they agree on all targets, and are worth having anyway.
VENDOR_NAME = re.compile(r"^is_(cuda|hip|npu|xpu|cpu|musa|mps|hpu|rocm)(_alike)?\(\)$")
SCALARS = (bool, int, float, str, type(None))


class _Slow(BaseException):
    """A call or an import took too long."""


def _alarm(signum: int, frame: Any) -> None:
    raise _Slow


def modules_worth(root: str) -> list[str]:
    """Dotted names of the files under ``root/sglang`` that mention the GPU's kind, in order."""
    names = []
    for folder, folders, files in os.walk(os.path.join(root, "sglang")):
        folders.sort()
        for file in sorted(files):
            if not file.endswith(".py"):
                continue
            path = os.path.join(folder, file)
            with open(path, "rb") as source:
                if not WORTH.search(source.read()):
                    continue
            dotted = os.path.relpath(path, root)[:-3].replace(os.sep, ".").removesuffix(".__init__")
            if not SKIP.search(dotted) and dotted.replace(".", "").replace("_", "").isalnum():
                names.append(dotted)
    return sorted(names)


def import_all(names: list[str]) -> dict[str, str]:
    """Import each; returns module -> type of the exception for those that could not be."""
    signal.signal(signal.SIGALRM, _alarm)
    failed = {}
    for name in names:
        signal.alarm(60)
        try:
            importlib.import_module(name)
        except (Exception, SystemExit, _Slow) as error:
            failed[name] = f"{type(error).__name__}: {error}"[:200]
            if os.environ.get("ORACLE_DEBUG"):
                traceback.print_exc()
        finally:
            signal.alarm(0)
    return failed


def plain(value: Any) -> bool:
    """Whether a value can be written down as a fact."""
    if isinstance(value, (tuple, list, set, frozenset)):
        return len(value) <= 16 and all(plain(item) for item in value)
    return type(value) in SCALARS and not (isinstance(value, str) and not SHORT.fullmatch(value))


def jsonable(value: Any) -> Any:
    """A value as JSON has it; what has no such form becomes its words."""
    if isinstance(value, (set, frozenset)):
        return sorted(map(jsonable, value), key=repr)
    if isinstance(value, (tuple, list)):
        return [jsonable(item) for item in value]
    if isinstance(value, float) and (value != value or value in (float("inf"), float("-inf"))):
        return repr(value)
    return value


def bindings(root: str) -> dict[str, frozenset[str]]:
    """Dotted module -> names that its own statements assign or define at top level (not imports)."""
    found = {}
    for folder, folders, files in os.walk(os.path.join(root, "sglang")):
        folders.sort()
        for file in sorted(files):
            if file.endswith(".py"):
                path = os.path.join(folder, file)
                dotted = os.path.relpath(path, root)[:-3].replace(os.sep, ".").removesuffix(".__init__")
                if not SKIP.search(dotted):
                    found[dotted] = _bound(path)
    return found


def _bound(path: str) -> frozenset[str]:
    try:
        with open(path, encoding="utf-8") as source:
            tree = ast.parse(source.read())
    except (OSError, SyntaxError, UnicodeDecodeError):
        return frozenset()
    names: set[str] = set()

    def visit(body: list[ast.stmt]) -> None:
        for node in body:
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
                names.add(node.name)
            elif isinstance(node, (ast.Assign, ast.AnnAssign, ast.AugAssign)):
                targets = node.targets if isinstance(node, ast.Assign) else [node.target]
                for target in targets:
                    names.update(part.id for part in ast.walk(target) if isinstance(part, ast.Name))
            else:
                for field in ("body", "orelse", "finalbody"):
                    visit(getattr(node, field, []) or [])
                for handler in getattr(node, "handlers", []) or []:
                    visit(handler.body)

    visit(tree.body)
    return frozenset(names)


def _callable_without_arguments(function: Any, *, method: bool = False) -> bool:
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except (ValueError, TypeError):
        return False
    return all(
        p.default is not p.empty or p.kind in (p.VAR_POSITIONAL, p.VAR_KEYWORD) for p in parameters
    ) and not inspect.iscoroutinefunction(function)


def ask(function: Any) -> tuple[bool, Any]:
    """``(True, value)``; ``(False, {"raises": type})`` when the call fails; else ``(False, None)``."""
    signal.alarm(8)
    try:
        value = function()
    except NotImplementedError:
        return False, {"raises": "NotImplementedError"}
    except (Exception, SystemExit, _Slow) as error:
        return False, {"raises": type(error).__name__}
    finally:
        signal.alarm(0)
    return (True, value) if plain(value) else (False, None)


def _platform_objects() -> Iterator[tuple[str, Any, list[str]]]:
    """(name, object, extra attribute names) of the objects through which trees ask about the machine."""
    for name in ("sglang.srt.platforms", "sglang.multimodal_gen.runtime.platforms"):
        module: Any = sys.modules.get(name)
        try:
            yield f"{name}.current_platform", module.current_platform, []
        except Exception:
            continue
    module = sys.modules.get("sglang.srt.runtime_context")
    if module is not None and hasattr(module, "get_platform"):
        extra = [
            key for table in ("_PLATFORM_PROBES", "_PLATFORM_VALUES") for key in getattr(module, table, {})
        ]
        yield "sglang.srt.runtime_context.get_platform()", module.get_platform(), extra


def values(bound: dict[str, frozenset[str]]) -> tuple[dict[str, Any], dict[str, str]]:
    """Every kept value by name, and for questions of platform objects which class defines the answer."""
    found: dict[str, Any] = {}
    defined_by: dict[str, str] = {}
    for name in sorted(n for n in sys.modules if n.startswith("sglang") and not SKIP.search(n)):
        module = sys.modules[name]
        if module is None or not isinstance(module, types.ModuleType):
            continue
        for attribute in sorted(bound.get(name, ())):
            value = module.__dict__.get(attribute, _Slow)
            if value is _Slow or attribute.startswith("__") or "monotonic" in attribute:
                continue
            key = f"{name}.{attribute}"
            if plain(value):
                found[key] = jsonable(value)
            elif isinstance(value, type):
                if value.__module__ == name:
                    for inner, held in sorted(vars(value).items()):
                        if not inner.startswith("__") and plain(held):
                            found[f"{key}.{inner}"] = jsonable(held)
            elif (
                isinstance(value, (types.FunctionType, functools.partial, type(functools.lru_cache(len))))
                and QUESTION.search(attribute)
                and not ACTION.search(attribute)
                and _callable_without_arguments(value)
            ):
                good, answer = ask(value)
                if good or answer:
                    found[f"{key}()"] = jsonable(answer) if good else answer
    for key, platform, extra in _platform_objects():
        owner = platform if isinstance(platform, type) else type(platform)
        for attribute in sorted(set(dir(owner)) | set(extra)):
            if attribute.startswith("__") or (ACTION.search(attribute) and not ARCH_NAME.search(attribute)):
                continue
            signal.alarm(8)
            try:
                value = getattr(platform, attribute)
            except (Exception, _Slow):
                continue
            finally:
                signal.alarm(0)
            home = next((c for c in owner.__mro__ if attribute in vars(c)), owner)
            if plain(value):
                found[f"{key}.{attribute}"] = jsonable(value)
                defined_by[f"{key}.{attribute}"] = f"{home.__module__}.{home.__qualname__}"
            elif callable(value) and QUESTION.search(attribute) and _callable_without_arguments(value):
                good, answer = ask(value)
                if type(answer).__name__ == "DeviceCapability":
                    good, answer = True, tuple(answer)
                if good or answer:
                    found[f"{key}.{attribute}()"] = jsonable(answer) if good else answer
                    defined_by[f"{key}.{attribute}()"] = f"{home.__module__}.{home.__qualname__}"
    return found, defined_by
