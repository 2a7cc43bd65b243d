"""The commands of CMake that have a part in sources, flags and targets."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from auditor.gates.model import Tri
from auditor.native.cmake.build import MAX_ITEMS, TOP, Fatal, Return, Target
from auditor.native.cmake.parse import Command
from auditor.native.cmake.values import Item, Value, merged, text_of

if TYPE_CHECKING:
    from auditor.native.cmake.eval import Evaluator


def _set(run: Evaluator, command: Command, args: list[Item]) -> None:
    if not args or args[0].text.startswith("ENV{"):
        return
    name, values = args[0].text, args[1:]
    if values and values[-1].text == "PARENT_SCOPE":
        value = tuple(values[:-1])
        if run.parent is not None:
            run.parent[name] = value
        return
    words = [item.text for item in values]
    if "CACHE" in words:
        at = words.index("CACHE")
        if name in run.env and "FORCE" not in words[at:]:
            return
        values = values[:at]
    if not values and "CACHE" not in words:
        run.env.pop(name, None)
        if command.args[1:]:
            run.env[name] = ()
        return
    if name in run.given:
        return
    if run.env.get("CMAKE_CUDA_FLAGS") is not None or name != "CMAKE_CUDA_FLAGS":
        run.env[name] = tuple(values[:MAX_ITEMS])
    else:
        # What the caller's environment adds is nothing; said once in the documentation.
        run.env[name] = tuple(
            item._replace(text=item.text.replace("${CMAKE_CUDA_FLAGS}", "")) for item in values
        )


def _unset(run: Evaluator, command: Command, args: list[Item]) -> None:
    if args:
        run.env.pop(args[0].text, None)


def _option(run: Evaluator, command: Command, args: list[Item]) -> None:
    if args and args[0].text not in run.env:
        default = args[2] if len(args) > 2 else Item("OFF", run.path, command.line)
        run.env[args[0].text] = (default,)


def _list(run: Evaluator, command: Command, args: list[Item]) -> None:
    if len(args) < 2:
        return
    verb, name, items = args[0].text.upper(), args[1].text, args[2:]
    value = run.env.get(name, ())
    if verb == "APPEND":
        run.env[name] = (*value, *items)[:MAX_ITEMS]
    elif verb == "PREPEND":
        run.env[name] = (*items, *value)[:MAX_ITEMS]
    elif verb == "REMOVE_ITEM":
        gone = {item.text for item in items if not item.open}
        unsure = merged(*(item.open for item in items))
        kept = tuple(item for item in value if item.text not in gone)
        if unsure:
            kept = tuple(item._replace(when="unknown", because=unsure) for item in kept)
        run.env[name] = kept
    elif verb == "REMOVE_DUPLICATES":
        run.env[name] = tuple({item.text: item for item in reversed(value)}.values())[::-1]
    elif verb in ("SORT", "REVERSE"):
        pass
    elif verb in ("FILTER", "TRANSFORM", "REMOVE_AT", "INSERT", "POP_BACK", "POP_FRONT"):
        why = (f"list({verb}) ({run.path}:{command.line})",)
        run.env[name] = tuple(item._replace(when="unknown", because=why) for item in value)
    elif items:
        _opaque(run, command, items[-1].text)


def _opaque(run: Evaluator, command: Command, name: str) -> None:
    """A variable that a command sets to something not known here."""
    why = (f"{name} is set by {command.name} ({run.path}:{command.line})",)
    run.env[name] = (Item(f"${{{name}}}", run.path, command.line, open=why),)


def _string(run: Evaluator, command: Command, args: list[Item]) -> None:
    if len(args) < 2:
        return
    verb = args[0].text.upper()
    texts = [None if item.open or item.when != "true" else item.text for item in args]
    known = None not in texts
    if verb == "APPEND":
        old = run.env.get(args[1].text, ())
        value, _why = text_of(old)
        if value is not None and known and len(old) <= 1:
            joined = value + "".join(item.text for item in args[2:])
            run.env[args[1].text] = (Item(joined, run.path, command.line, because=run.trail),)
        else:
            run.env[args[1].text] = (*old, *args[2:])
        return
    if verb in ("TOUPPER", "TOLOWER", "STRIP") and len(args) >= 3 and known:
        text = args[1].text
        text = text.upper() if verb == "TOUPPER" else text.lower() if verb == "TOLOWER" else text.strip()
        run.env[args[2].text] = (Item(text, run.path, command.line),)
        return
    if verb == "REPLACE" and len(args) >= 5 and known:
        joined = "".join(item.text for item in args[4:]).replace(args[1].text, args[2].text)
        run.env[args[3].text] = (Item(joined, run.path, command.line),)
        return
    place = {"REGEX": 4 if len(args) > 1 and args[1].text.upper() == "REPLACE" else 3, "REPLACE": 3}
    at = place.get(verb, 3 if verb in ("FIND", "SUBSTRING") else 1 if verb == "CONCAT" else 2)
    if at < len(args):
        _opaque(run, command, args[at].text)


def _include(run: Evaluator, command: Command, args: list[Item]) -> None:
    if not args:
        return
    path = run.tree_path(args[0].text)
    if path is not None and path in run.paths:
        run.file(path)
    elif args[0].text.startswith(TOP) or "/" in args[0].text:
        name = args[0].text.removeprefix(TOP).lstrip("/")
        run.problem(command.line, f"includes a file that is not in this tree: {name}")


def _add_subdirectory(run: Evaluator, command: Command, args: list[Item]) -> None:
    folder = run.tree_path(args[0].text) if args else None
    if folder is None or f"{folder}/CMakeLists.txt" not in run.paths:
        return
    outer, parent = run.env, run.parent
    run.env, run.parent = dict(outer), outer
    run.env["CMAKE_CURRENT_SOURCE_DIR"] = (Item(run.outer(folder), run.path, command.line),)
    try:
        run.file(f"{folder}/CMakeLists.txt")
    finally:
        run.env, run.parent = outer, parent


def _file_command(run: Evaluator, command: Command, args: list[Item]) -> None:
    if len(args) < 2:
        return
    verb = args[0].text.upper()
    if verb not in ("GLOB", "GLOB_RECURSE"):
        if verb in ("READ", "STRINGS", "SHA256", "MD5") and len(args) > 2:
            _opaque(run, command, args[2].text)
        return
    name = args[1].text
    found: list[Item] = []
    for item in args[2:]:
        if item.text in ("CONFIGURE_DEPENDS", "RELATIVE", "LIST_DIRECTORIES"):
            continue
        pattern = run.tree_path(item.text)
        if pattern is None:
            found.append(
                item._replace(
                    open=merged(item.open, (f"files outside the tree ({run.path}:{command.line})",))
                )
            )
            continue
        deep = verb == "GLOB_RECURSE"
        folder = posixpath.dirname(pattern)
        for path in run.paths:
            if path.startswith(folder) and _globbed(path, pattern, deep):
                found.append(Item(TOP + path, run.path, command.line, because=run.trail))
    run.env[name] = tuple(sorted(found, key=lambda item: item.text))[:MAX_ITEMS]


def _globbed(path: str, pattern: str, deep: bool) -> bool:
    folder, _, name = pattern.rpartition("/")
    if deep:
        return path.startswith(f"{folder}/") and fnmatchcase(posixpath.basename(path), name)
    return path.count("/") == pattern.count("/") and fnmatchcase(path, pattern)


_KINDS = {
    "STATIC",
    "SHARED",
    "MODULE",
    "OBJECT",
    "INTERFACE",
    "EXCLUDE_FROM_ALL",
    "WITH_SOABI",
    "THIN_LTO",
    "OPT_SIZE",
}
_KINDS |= {"NO_EXTRAS", "NB_STATIC", "STABLE_ABI", "LTO", "SYSTEM", "UNKNOWN", "IMPORTED", "GLOBAL"}


def add_library(run: Evaluator, command: Command, args: list[Item]) -> None:
    """A library target: ``add_library``, ``Python_add_library``, ``pybind11_add_module`` and the like."""
    if not args:
        return
    if any(item.text in ("IMPORTED", "ALIAS", "INTERFACE") for item in args[1:3]):
        return
    name = args[0].text
    sources: list[Item] = []
    skip = False
    for item in args[1:]:
        if skip:
            skip = False
        elif item.text == "USE_SABI":
            # Takes one argument, which may be an empty variable: then the next word is a keyword.
            skip = "SABI" in item.text and not _empty_after(command)
        elif item.text not in _KINDS and not item.text.startswith("${SKBUILD_SABI"):
            sources.append(item)
    when: Tri = "unknown" if run.doubt else "true"
    because = run.doubt or run.trail
    folder = run.tree_path(".") or ""
    target = Target(name, run.path, command.line, folder, when, because, sources)
    target.options = list(run.build.options)
    target.definitions = list(run.build.definitions)
    architectures = run.env.get("CMAKE_CUDA_ARCHITECTURES")
    if architectures is not None:
        target.properties["CUDA_ARCHITECTURES"] = architectures
    old = run.build.targets.get(name)
    if old is not None and old.when == "unknown" and when == "unknown":
        target.sources = [*old.sources, *(item for item in target.sources if item not in old.sources)]
    run.build.targets[name] = target


def _empty_after(command: Command) -> bool:
    """Whether the word after USE_SABI is a keyword already."""
    words = [arg.text for arg in command.args]
    at = words.index("USE_SABI") if "USE_SABI" in words else -1
    return at + 1 < len(words) and words[at + 1] in _KINDS


def _target_list(which: str) -> Callable[[Evaluator, Command, list[Item]], None]:
    def handle(run: Evaluator, command: Command, args: list[Item]) -> None:
        target = run.build.targets.get(args[0].text) if args else None
        if target is None:
            return
        words = ("PRIVATE", "PUBLIC", "INTERFACE", "BEFORE", "FILE_SET", "AFTER")
        getattr(target, which).extend(run.marked(item for item in args[1:] if item.text not in words))

    return handle


def _directory_list(which: str) -> Callable[[Evaluator, Command, list[Item]], None]:
    def handle(run: Evaluator, command: Command, args: list[Item]) -> None:
        getattr(run.build, which).extend(run.marked(args))

    return handle


def _set_target_properties(run: Evaluator, command: Command, args: list[Item]) -> None:
    words = [item.text for item in args]
    if "PROPERTIES" not in words:
        return
    at = words.index("PROPERTIES")
    pairs = args[at + 1 :]
    for target in (run.build.targets.get(word) for word in words[:at]):
        if target is None:
            continue
        for key, value in zip(pairs[::2], pairs[1::2]):
            _property(run, target, key.text, (value,), append=False)


def _property(run: Evaluator, target: Target, key: str, value: Value, append: bool) -> None:
    value = tuple(run.marked(value))
    old = target.properties.get(key, ())
    if key == "CUDA_ARCHITECTURES":
        value = tuple(item._replace(text=text) for item in value for text in item.text.split(";") if text)
        if run.doubt and old and not append:
            old = tuple(item._replace(when="unknown", because=run.doubt) for item in old)
            append = True
    target.properties[key] = (*old, *value) if append else value


def _set_property(run: Evaluator, command: Command, args: list[Item]) -> None:
    words = [item.text for item in args]
    if "PROPERTY" not in words or words[:1] != ["TARGET"]:
        if words[:1] == ["SOURCE"] and any(re.search("gencode|CUDA_ARCH", word) for word in words):
            run.problem(command.line, "architectures of single source files are not followed")
        return
    at = words.index("PROPERTY")
    append = any(word in ("APPEND", "APPEND_STRING") for word in words[1:at])
    for word in words[1:at]:
        target = run.build.targets.get(word)
        if target is None or at + 1 >= len(words):
            continue
        key = words[at + 1]
        if key in ("COMPILE_OPTIONS", "COMPILE_FLAGS"):
            target.options.extend(run.marked(args[at + 2 :]))
        elif key == "COMPILE_DEFINITIONS":
            target.definitions.extend(run.marked(args[at + 2 :]))
        else:
            _property(run, target, key, tuple(args[at + 2 :]), append)


def _source_properties(run: Evaluator, command: Command, args: list[Item]) -> None:
    if any(re.search("gencode|CUDA_ARCH", item.text) for item in args):
        run.problem(command.line, "architectures of single source files are not followed")


def _install(run: Evaluator, command: Command, args: list[Item]) -> None:
    words = [item.text for item in args]
    if words[:1] != ["TARGETS"]:
        return
    at = next(
        (i for i, word in enumerate(words) if i and word in ("LIBRARY", "DESTINATION", "RUNTIME", "ARCHIVE")),
        None,
    )
    if at is None or "DESTINATION" not in words:
        return
    start = words.index("LIBRARY") if "LIBRARY" in words else 0
    try:
        place = words[words.index("DESTINATION", start) + 1]
    except (ValueError, IndexError):
        return
    for word in words[1:at]:
        if word in run.build.targets:
            run.build.targets[word].destination = place


def _find_package(run: Evaluator, command: Command, args: list[Item]) -> None:
    if args and args[0].text not in run.build.packages:
        run.build.packages.append(args[0].text)


def _fetched(run: Evaluator, command: Command, args: list[Item]) -> None:
    if args:
        run.build.outside.setdefault(args[0].text, (run.path, command.line))


def _outputs(run: Evaluator, command: Command, args: list[Item]) -> None:
    words = [item.text for item in args]
    for i, word in enumerate(words[:-1]):
        if word in ("OUTPUT_VARIABLE", "RESULT_VARIABLE", "ERROR_VARIABLE"):
            _opaque(run, command, words[i + 1])


def _first_output(run: Evaluator, command: Command, args: list[Item]) -> None:
    if args and args[0].text not in run.env:
        _opaque(run, command, args[0].text)


def _math(run: Evaluator, command: Command, args: list[Item]) -> None:
    if len(args) > 1:
        _opaque(run, command, args[1].text)


def _message(run: Evaluator, command: Command, args: list[Item]) -> None:
    if args and args[0].text == "FATAL_ERROR":
        if not run.doubt:
            run.problem(command.line, "the configuration stops here under these assumptions")
        raise Fatal


def _return(run: Evaluator, command: Command, args: list[Item]) -> None:
    raise Return


HANDLERS: dict[str, Callable[[Evaluator, Command, list[Item]], None]] = {
    "set": _set,
    "unset": _unset,
    "option": _option,
    "list": _list,
    "string": _string,
    "include": _include,
    "add_subdirectory": _add_subdirectory,
    "file": _file_command,
    "add_library": add_library,
    "cuda_add_library": add_library,
    "target_sources": _target_list("sources"),
    "target_compile_options": _target_list("options"),
    "target_compile_definitions": _target_list("definitions"),
    "add_compile_options": _directory_list("options"),
    "add_compile_definitions": _directory_list("definitions"),
    "add_definitions": _directory_list("options"),
    "set_target_properties": _set_target_properties,
    "set_property": _set_property,
    "set_source_files_properties": _source_properties,
    "install": _install,
    "find_package": _find_package,
    "fetchcontent_declare": _fetched,
    "execute_process": _outputs,
    "find_program": _first_output,
    "find_library": _first_output,
    "find_path": _first_output,
    "find_file": _first_output,
    "get_filename_component": _first_output,
    "get_target_property": _first_output,
    "get_property": _first_output,
    "get_directory_property": _first_output,
    "math": _math,
    "message": _message,
    "return": _return,
}
