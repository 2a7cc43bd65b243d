"""Runs CMake files over a tree, three-valued, without CMake: which libraries come out, built for what.

A condition nobody can decide from the tree and the assumptions runs both ways, and what differs afterwards is
unknown with the condition as its reason. Commands that have no part in sources, flags and targets are passed
over. Everything is bounded: steps, nesting, sizes.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase

from auditor.gates.model import Problem, Tri
from auditor.native import cmake
from auditor.native.cmake import Arg, Command
from auditor.native.cmake_truth import Condition
from auditor.native.cmake_values import FALSE, TRUE, Item, Truth, Value, merged, text_of, union, unknown

#: Commands that are run at most, loops and calls included.
STEPS = 60_000
#: Items that one variable holds at most.
MAX_ITEMS = 20_000
#: Characters of one value; longer ones are not known.
MAX_TEXT = 200_000
DEPTH = 40
#: How the top of the tree is called in values: no relative path starts with it.
TOP = "/\x00"

_REFERENCE = re.compile(r"\$\{([^${}]*)\}")
_ESCAPE = re.compile(r"\\([^A-Za-z0-9;])|\\([trn])|\\;")
#: Set by CMake itself on the machines that the audited build runs on.
_FIXED = {
    "UNIX": "1",
    "LINUX": "1",
    "WIN32": "",
    "APPLE": "",
    "MSVC": "",
    "CMAKE_SYSTEM_NAME": "Linux",
    "CMAKE_HOST_SYSTEM_NAME": "Linux",
    "CMAKE_BUILD_TYPE": "Release",
    "CMAKE_CUDA_COMPILER_ID": "NVIDIA",
}


@dataclass
class Target:
    """A library as the build files describe it."""

    name: str
    path: str
    line: int
    folder: str
    when: Tri = "true"
    because: tuple[str, ...] = ()
    sources: list[Item] = field(default_factory=list)
    options: list[Item] = field(default_factory=list)
    definitions: list[Item] = field(default_factory=list)
    properties: dict[str, Value] = field(default_factory=dict)
    destination: str = ""


@dataclass
class Build:
    """What running the build files gave."""

    targets: dict[str, Target] = field(default_factory=dict)
    files: list[str] = field(default_factory=list)  # read, in order
    outside: dict[str, tuple[str, int]] = field(default_factory=dict)  # trees fetched at build time
    packages: list[str] = field(default_factory=list)  # find_package
    flags: Value = ()  # CMAKE_CUDA_FLAGS at the end
    architectures: Value | None = None  # CMAKE_CUDA_ARCHITECTURES at the end
    options: list[Item] = field(default_factory=list)  # add_compile_options and the like
    definitions: list[Item] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)


class _Return(Exception):
    pass


class _Fatal(Exception):
    pass


class Evaluator:
    """One run. ``read`` gives the text of a file of the tree or None; ``paths`` are all its paths.

    ``given`` are variables known beforehand (assumptions), which nothing in the tree overrides by ``option``.
    """

    def __init__(
        self, read: Callable[[str], str | None], paths: Iterable[str], given: dict[str, str], folder: str
    ) -> None:
        self.read = read
        self.paths = paths
        self.build = Build()
        self.steps = 0
        self.path = ""
        self.trail: tuple[str, ...] = ()
        self.doubt: tuple[str, ...] = ()
        self.depth = 0
        self.given = given
        self.functions: dict[str, tuple[Command, str]] = {}
        self.env: dict[str, Value] = {}
        self.parent: dict[str, Value] | None = None
        self.parsed: dict[str, list[Command]] = {}
        self.own: set[str] = set()  # names that some command of the files read so far sets
        for name, text in {**_FIXED, **given}.items():
            self.env[name] = (Item(text, "", 0),) if text else ()
        for name in ("PROJECT_SOURCE_DIR", "CMAKE_SOURCE_DIR", "CMAKE_CURRENT_SOURCE_DIR"):
            self.env[name] = (Item(self._outer(folder), "", 0),)

    @staticmethod
    def _outer(path: str) -> str:
        return TOP + path if path else TOP.rstrip("/")

    def run(self, path: str) -> Build:
        """The build that a ``CMakeLists.txt`` describes. Never raises for what the file says."""
        try:
            self._file(path)
        except _Fatal:
            pass
        except _Return:
            pass
        self.build.flags = self.env.get("CMAKE_CUDA_FLAGS", ())
        self.build.architectures = self.env.get("CMAKE_CUDA_ARCHITECTURES")
        return self.build

    # files and blocks

    def problem(self, line: int, message: str) -> None:
        found = Problem(self.path, line, message)
        if found not in self.build.problems:
            self.build.problems.append(found)

    def _file(self, path: str) -> None:
        commands = self.parsed.get(path)
        if commands is None:
            text = self.read(path)
            if text is None:
                return
            commands, faults = cmake.read(text)
            self.parsed[path] = commands
            self.own |= set(_assigned(commands))
            self.build.files.append(path)
            self.build.problems += [Problem(path, fault.line, fault.message) for fault in faults]
        if self.depth >= DEPTH:
            self.problem(1, f"{path}: files include each other more than {DEPTH} deep")
            return
        before, self.path = self.path, path
        listing = self.env.get("CMAKE_CURRENT_LIST_DIR"), self.env.get("CMAKE_CURRENT_LIST_FILE")
        self.env["CMAKE_CURRENT_LIST_DIR"] = (Item(self._outer(posixpath.dirname(path)), path, 0),)
        self.env["CMAKE_CURRENT_LIST_FILE"] = (Item(self._outer(path), path, 0),)
        self.depth += 1
        try:
            self._block(commands)
        except _Return:
            pass
        finally:
            self.depth -= 1
            self.path = before
            for name, value in zip(("CMAKE_CURRENT_LIST_DIR", "CMAKE_CURRENT_LIST_FILE"), listing):
                if value is not None:
                    self.env[name] = value

    def _block(self, commands: list[Command]) -> None:
        for command in commands:
            self.steps += 1
            if self.steps > STEPS:
                self.problem(command.line, f"stopped after {STEPS:,} steps: the rest is not read")
                raise _Fatal
            self._command(command)

    def _command(self, command: Command) -> None:
        if command.name == "if":
            self._if(command)
        elif command.name in ("foreach", "while"):
            self._loop(command)
        elif command.name in ("function", "macro"):
            if command.args:
                self.functions[command.args[0].text.lower()] = (command, self.path)
        elif command.name == "block":
            self._block(command.body)
        elif command.name in self.functions:
            self._call(command)
        elif handler := _HANDLERS.get(command.name):
            handler(self, command, self.expanded(command.args))
        elif command.name.endswith(("_add_library", "_add_module", "_add_extension")):
            _add_library(self, command, self.expanded(command.args))

    def _if(self, command: Command) -> None:
        waiting = [command, *command.branches]
        trail, doubt = self.trail, self.doubt
        try:
            self._branches(waiting)
        finally:
            self.trail, self.doubt = trail, doubt

    def _branches(self, waiting: list[Command]) -> None:
        """Runs the first true branch; from an unknown one on, everything that may run, side by side."""
        for index, branch in enumerate(waiting):
            truth = TRUE if branch.name == "else" else self.truth(branch.args)
            text = _shown(branch.args)
            if truth.value == "false":
                continue
            if truth.value == "true":
                self.trail = (*self.trail, text) if text else self.trail
                self._block(branch.body)
                return
            self._split(waiting[index:], truth, f"{text} ({self.path}:{branch.line})")
            return

    def _split(self, waiting: list[Command], truth: Truth, reason: str) -> None:
        before = dict(self.env)
        functions = dict(self.functions)
        why = merged((reason,), truth.why)
        doubt = self.doubt
        self.doubt = merged(doubt, why)
        ends: list[dict[str, Value]] = []
        returned = False
        for work in (lambda: self._block(waiting[0].body), lambda: self._branches(waiting[1:])):
            self.env = dict(before)
            try:
                work()
            except _Fatal:
                if self.steps > STEPS:
                    raise
                continue
            except _Return:
                returned = True
            ends.append(self.env)
        if not ends:
            raise _Fatal
        self.env = ends[0] if len(ends) == 1 else _joined(ends, reason)
        self.functions = {**functions, **self.functions}
        self.doubt = merged(doubt, why) if returned else doubt

    def _loop(self, command: Command) -> None:
        if command.name == "while":
            truth = self.truth(command.args)
            if truth.value != "false":
                self._split(
                    [command], unknown("while"), f"while {_shown(command.args)} ({self.path}:{command.line})"
                )
            return
        args = self.expanded(command.args)
        if not args:
            return
        name, rest = args[0].text, args[1:]
        words = [item.text for item in rest]
        if words[:1] == ["IN"]:
            items: list[Item] = []
            mode = ""
            for item in rest[1:]:
                if item.text in ("LISTS", "ITEMS", "ZIP_LISTS"):
                    mode = item.text
                elif mode == "ITEMS":
                    items.append(item)
                else:
                    value = self.value(item.text)
                    items += (self.missing(item.text, command.line),) if value is None else value
        elif words[:1] == ["RANGE"]:
            items = [Item("", self.path, command.line, open=("foreach RANGE",))]
        else:
            items = rest
        for item in items[:MAX_ITEMS]:
            if item.when == "unknown":
                self.env[name] = (item._replace(when="true"),)
                once = Command("if", [], command.line, command.body)
                self._split(
                    [once], Truth("unknown", item.because), f"foreach {name} ({self.path}:{command.line})"
                )
            else:
                self.env[name] = (item,)
                self._block(command.body)

    def _call(self, command: Command) -> None:
        definition, path = self.functions[command.name]
        if self.depth >= DEPTH:
            self.problem(command.line, f"{command.name} calls itself more than {DEPTH} deep")
            return
        args = self.expanded(command.args)
        names = [arg.text for arg in definition.args[1:]]
        outer, parent = self.env, self.parent
        scoped = definition.name == "function"
        if scoped:
            self.env = dict(outer)
            self.parent = outer
        bound: dict[str, Value] = {name: (args[i],) if i < len(args) else () for i, name in enumerate(names)}
        bound |= {"ARGV": tuple(args), "ARGN": tuple(args[len(names) :])}
        bound |= {f"ARGV{i}": (item,) for i, item in enumerate(args[:20])}
        bound["ARGC"] = (Item(str(len(args)), self.path, command.line),)
        saved = {name: self.env.get(name) for name in bound}
        self.env.update(bound)
        self.depth += 1
        before, self.path = self.path, path
        try:
            self._block(definition.body)
        except _Return:
            pass
        finally:
            self.depth -= 1
            self.path = before
            if scoped:
                self.env, self.parent = outer, parent
            else:
                for name, value in saved.items():
                    if value is None:
                        self.env.pop(name, None)
                    else:
                        self.env[name] = value

    # values

    def value(self, name: str) -> Value | None:
        """What a variable holds; None for one that nothing in the tree sets.

        One that only branches set which were not taken is empty, as CMake has it.
        """
        value = self.env.get(name)
        return () if value is None and name in self.own else value

    def missing(self, name: str, line: int) -> Item:
        """An item for a variable that nothing in the tree sets."""
        return Item(f"${{{name}}}", self.path, line, open=(f"${{{name}}} is not set in this tree",))

    def _text(self, text: str, line: int) -> Value:
        """The value of text with references. Items of a list that stands in the text keep their place."""
        for _ in range(20):
            parts: list[Item] = [Item("", self.path, line, because=self.trail)]
            end = 0
            found = False
            for match in _REFERENCE.finditer(text):
                name = match[1]
                value = self.value(name)
                if value is None and name:
                    value = (self.missing(name, line),)
                found = True
                parts[-1] = _plus(parts[-1], text[end : match.start()])
                end = match.end()
                if value:
                    first = value[0]
                    head = parts.pop()
                    parts.append(_glue(head, first))
                    parts += value[1:]
            if not found:
                return (parts[0]._replace(text=_unescaped(text)),)
            parts[-1] = _plus(parts[-1], text[end:])
            return tuple(parts[:MAX_ITEMS])
        return (Item(text, self.path, line),)

    def expanded(self, args: list[Arg]) -> list[Item]:
        """The arguments as a command gets them: references replaced, unquoted lists split."""
        out: list[Item] = []
        for arg in args:
            if arg.kind == "bracket":
                out.append(Item(arg.text, self.path, arg.line, because=self.trail))
                continue
            for item in self._text(_flat(arg.text, self), arg.line):
                if ";" in item.text and arg.kind == "plain" and "$<" not in item.text:
                    out += [item._replace(text=part) for part in item.text.split(";") if part]
                elif item.text or arg.kind == "quoted":
                    out.append(item)
        self.steps += len(out) // 16
        return out[:MAX_ITEMS]

    def plain(self, arg: Arg) -> tuple[str | None, tuple[str, ...]]:
        """One argument as one string, or None with reasons."""
        if arg.kind == "bracket":
            return arg.text, ()
        return text_of(self._text(_flat(arg.text, self), arg.line))

    def truth(self, args: list[Arg]) -> Truth:
        """The value of a condition."""
        return Condition(args, self.value, self.plain, self._has_target).value()

    def _has_target(self, name: str) -> Truth:
        target = self.build.targets.get(name)
        if target is None:
            return unknown(f"target {name} is not made in this tree") if "::" in name else FALSE
        return TRUE if target.when == "true" else Truth("unknown", target.because)

    def marked(self, items: Iterable[Item]) -> list[Item]:
        """The items as they go into a target here: in doubt where this point is."""
        if not self.doubt:
            return list(items)
        return [
            item._replace(
                when="unknown", because=merged(self.doubt, item.because if item.when == "unknown" else ())
            )
            for item in items
        ]

    def tree_path(self, text: str) -> str | None:
        """The path in the tree of a value that names a file, or None where it lies outside."""
        if "${" in text:
            return None
        if not text.startswith(TOP.rstrip("/")):
            folder = self.env["CMAKE_CURRENT_SOURCE_DIR"][0].text
            text = f"{folder}/{text}"
        if text.startswith("/") and not text.startswith(TOP):
            return None
        path = posixpath.normpath(text[len(TOP) :].lstrip("/"))
        return None if path.startswith("../") else ("" if path == "." else path)


def _assigned(commands: list[Command]) -> Iterable[str]:
    """The names that commands of a file set, whichever branch they are on."""
    for command in commands:
        if command.args:
            if command.name in ("set", "option"):
                yield command.args[0].text
            elif command.name in ("list", "file") and len(command.args) > 1:
                yield command.args[1].text
        yield from _assigned(command.body)
        yield from _assigned(command.branches)


def _flat(text: str, run: Evaluator) -> str:
    """References inside the name of a reference (``${A_${B}}``) replaced, innermost first."""
    for _ in range(10):
        inner = re.search(r"\$\{[^${}]*(\$\{[^${}]*\})", text)
        if inner is None:
            return text
        name = inner[1][2:-1]
        value, _why = text_of(run.env.get(name, ()))
        text = text[: inner.start(1)] + (value or f"\x01{name}") + text[inner.end(1) :]
    return text


def _unescaped(text: str) -> str:
    if "\\" not in text:
        return text
    return _ESCAPE.sub(lambda m: m[1] or {"t": "\t", "r": "\r", "n": "\n"}.get(m[2] or "", m[0]), text)


def _plus(item: Item, text: str) -> Item:
    if len(item.text) + len(text) > MAX_TEXT:
        return item._replace(open=merged(item.open, ("a value that is too long",)))
    return item._replace(text=item.text + _unescaped(text)) if text else item


def _glue(head: Item, item: Item) -> Item:
    if not head.text:
        return item
    if len(head.text) + len(item.text) > MAX_TEXT:
        return head._replace(open=merged(head.open, ("a value that is too long",)))
    return item._replace(text=head.text + item.text, open=merged(head.open, item.open))


def _joined(ends: list[dict[str, Value]], reason: str) -> dict[str, Value]:
    out: dict[str, Value] = {}
    for name in dict.fromkeys(key for end in ends for key in end):
        values = [end.get(name) for end in ends]
        if all(value is values[0] for value in values):
            assert values[0] is not None
            out[name] = values[0]
            continue
        have = [value for value in values if value is not None]
        if len(have) < len(values) and not any(have):
            out[name] = (Item("", "", 0, "unknown", (reason,), (reason,)),)
            continue
        joined = union([value or () for value in values], reason)
        if not joined or (len(have) < len(values)):
            joined = tuple(
                item._replace(when="unknown", because=merged(item.because, (reason,))) for item in joined
            )
        out[name] = joined
    return out


def _shown(args: list[Arg]) -> str:
    """A condition for people: ``CUDA_VERSION VERSION_GREATER 12.8``."""
    words = [re.sub(r"^\$\{(\w+)\}$", r"\1", arg.text) if arg.kind != "paren" else arg.text for arg in args]
    return " ".join(words).replace("( ", "(").replace(" )", ")")


# the commands that matter


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
        run._file(path)
    elif args[0].text.startswith(TOP) or "/" in args[0].text:
        name = args[0].text.removeprefix(TOP).lstrip("/")
        run.problem(command.line, f"includes a file that is not in this tree: {name}")


def _add_subdirectory(run: Evaluator, command: Command, args: list[Item]) -> None:
    folder = run.tree_path(args[0].text) if args else None
    if folder is None or f"{folder}/CMakeLists.txt" not in run.paths:
        return
    outer, parent = run.env, run.parent
    run.env, run.parent = dict(outer), outer
    run.env["CMAKE_CURRENT_SOURCE_DIR"] = (Item(run._outer(folder), run.path, command.line),)
    try:
        run._file(f"{folder}/CMakeLists.txt")
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


def _add_library(run: Evaluator, command: Command, args: list[Item]) -> None:
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
        raise _Fatal


def _return(run: Evaluator, command: Command, args: list[Item]) -> None:
    raise _Return


_HANDLERS: dict[str, Callable[[Evaluator, Command, list[Item]], None]] = {
    "set": _set,
    "unset": _unset,
    "option": _option,
    "list": _list,
    "string": _string,
    "include": _include,
    "add_subdirectory": _add_subdirectory,
    "file": _file_command,
    "add_library": _add_library,
    "cuda_add_library": _add_library,
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


def copied(build: Build) -> Build:
    """A build whose lists can be changed."""
    return replace(build, targets=dict(build.targets), problems=list(build.problems))
