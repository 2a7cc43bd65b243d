"""Runs CMake files over a tree, three-valued, without CMake: which libraries come out, built for what.

A condition nobody can decide from the tree and the assumptions runs both ways, and what differs afterwards is
unknown with the condition as its reason. Commands that have no part in sources, flags and targets are passed
over. Everything is bounded: steps, nesting, sizes.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Iterable

from auditor.gates.model import Problem
from auditor.native.cmake import parse as cmake
from auditor.native.cmake.build import MAX_ITEMS, MAX_TEXT, TOP, Build, Fatal, Return
from auditor.native.cmake.commands import HANDLERS, add_library
from auditor.native.cmake.parse import Arg, Command
from auditor.native.cmake.truth import Condition
from auditor.native.cmake.values import FALSE, TRUE, Item, Truth, Value, merged, text_of, union, unknown

#: Commands that are run at most, loops and calls included.
STEPS = 60_000
DEPTH = 40
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
            self.env[name] = (Item(self.outer(folder), "", 0),)

    @staticmethod
    def outer(path: str) -> str:
        return TOP + path if path else TOP.rstrip("/")

    def run(self, path: str) -> Build:
        """The build that a ``CMakeLists.txt`` describes. Never raises for what the file says."""
        try:
            self.file(path)
        except Fatal:
            pass
        except Return:
            pass
        self.build.flags = self.env.get("CMAKE_CUDA_FLAGS", ())
        self.build.architectures = self.env.get("CMAKE_CUDA_ARCHITECTURES")
        return self.build

    # files and blocks

    def problem(self, line: int, message: str) -> None:
        found = Problem(self.path, line, message)
        if found not in self.build.problems:
            self.build.problems.append(found)

    def file(self, path: str) -> None:
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
        self.env["CMAKE_CURRENT_LIST_DIR"] = (Item(self.outer(posixpath.dirname(path)), path, 0),)
        self.env["CMAKE_CURRENT_LIST_FILE"] = (Item(self.outer(path), path, 0),)
        self.depth += 1
        try:
            self._block(commands)
        except Return:
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
                raise Fatal
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
        elif handler := HANDLERS.get(command.name):
            handler(self, command, self.expanded(command.args))
        elif command.name.endswith(("_add_library", "_add_module", "_add_extension")):
            add_library(self, command, self.expanded(command.args))

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
            except Fatal:
                if self.steps > STEPS:
                    raise
                continue
            except Return:
                returned = True
            ends.append(self.env)
        if not ends:
            raise Fatal
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
        except Return:
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
