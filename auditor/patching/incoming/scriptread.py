"""What a script that replaces text would do to files, found by reading its syntax; it is never run.

A small, bounded walk follows constants, paths, the text read from a path, and ``replace`` on it, through
straight code, loops over literals and the script's own functions. Whatever else would change a file is kept
with its line.
"""

from __future__ import annotations

import ast
import textwrap
from dataclasses import dataclass, field, replace
from typing import Any

from auditor import pytext
from auditor.errors import UserError

_STEPS = 20_000
_DEPTH = 12
_LONGEST = 1_000_000  # characters of a text
_MOST = 10_000  # members of a list


@dataclass(frozen=True)
class _Unknown:
    """A value that the script only knows when it runs."""


_UNKNOWN = _Unknown()


@dataclass(frozen=True)
class ScriptPath:
    """A path; ``parts`` are what is known at its end."""

    parts: tuple[str, ...]


@dataclass(frozen=True)
class ScriptText:
    """The text of a file, with the replacements made so far."""

    path: ScriptPath
    edits: tuple[Replacement, ...] = ()


@dataclass(frozen=True)
class Replacement:
    """One ``replace`` of a script; ``count`` is -1 where it means all."""

    old: str
    new: str
    count: int  # -1: all
    line: int


@dataclass(frozen=True)
class _Function:
    node: ast.FunctionDef


@dataclass
class Script:
    """What a script does to files: each file's edits in order, expected counts, and what is not plain."""

    writes: list[ScriptText] = field(default_factory=list)
    counts: dict[tuple[ScriptPath, str], int] = field(default_factory=dict)
    dark: dict[int, str] = field(default_factory=dict)  # line -> what stands there
    notes: dict[int, str] = field(default_factory=dict)


def read_script(text: str, label: str) -> Script:
    """What a script would do to files. UserError P037 where it is not Python."""
    try:
        tree = pytext.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise UserError("P037", "not Python that can be parsed", place=label) from None
    reader = _Reader()
    try:
        reader.block(tree.body, {}, 0)
    except RecursionError:
        raise UserError("P037", "nested too deeply to be read", place=label) from None
    if reader.steps > _STEPS:
        raise UserError("P037", "too long to be read as data", place=label)
    return reader.found


class _Reader:
    """Walks statements in order. Both arms of an ``if`` are read; a loop over literals is unrolled."""

    def __init__(self) -> None:
        self.found = Script()
        self.steps = 0

    def dark(self, node: ast.AST) -> None:
        line = getattr(node, "lineno", 0)
        self.found.dark.setdefault(line, " ".join(ast.unparse(node).split())[:80])

    def block(self, body: list[ast.stmt], env: dict[str, Any], depth: int) -> Any:
        result: Any = None
        for statement in body:
            self.steps += 1
            if self.steps > _STEPS:
                return result
            value = self.statement(statement, env, depth)
            result = value if value is not None else result
        return result

    def statement(self, node: ast.stmt, env: dict[str, Any], depth: int) -> Any:
        if isinstance(node, ast.Assign):
            value = self.value(node.value, env, depth)
            for target in node.targets:
                self.bind(target, value, env)
        elif isinstance(node, ast.AnnAssign) and node.value is not None:
            self.bind(node.target, self.value(node.value, env, depth), env)
        elif isinstance(node, ast.FunctionDef):
            env[node.name] = _Function(node)
        elif isinstance(node, ast.Expr):
            self.value(node.value, env, depth)
        elif isinstance(node, ast.Return):
            return self.value(node.value, env, depth) if node.value else None
        elif isinstance(node, ast.Assert):
            self.counted(node.test, env, depth)
        elif isinstance(node, ast.If):
            return self.branch(node, env, depth)
        elif isinstance(node, ast.For):
            self.loop(node, env, depth)
        elif isinstance(node, ast.With):
            for item in node.items:
                value = self.value(item.context_expr, env, depth)
                if item.optional_vars is not None:
                    self.bind(item.optional_vars, value, env)
            return self.block(node.body, env, depth)
        elif isinstance(node, ast.Try):
            self.block([*node.body, *node.orelse, *node.finalbody], env, depth)
        elif isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Name):
            if isinstance(env.get(node.target.id), ScriptText):
                self.dark(node)
            env[node.target.id] = _UNKNOWN
        elif isinstance(node, ast.ClassDef):
            names = [each.target for each in node.body if isinstance(each, ast.AnnAssign)]
            env[node.name] = _Record(tuple(name.id for name in names if isinstance(name, ast.Name)))
        elif isinstance(node, ast.While):
            self.block(node.body, dict(env), depth)
        return None

    def branch(self, node: ast.If, env: dict[str, Any], depth: int) -> Any:
        """Both arms. Replacements that only a condition of the run decides about are not taken."""
        self.counted(node.test, env, depth)
        arms = []
        for body in (node.body, node.orelse):
            inner = dict(env)
            writes = len(self.found.writes)
            value = self.block(body, inner, depth)
            changed = [each for name, each in inner.items() if each != env.get(name)]
            edited = any(isinstance(each, ScriptText) and each.edits for each in changed)
            arms.append((inner, value, edited, len(self.found.writes) > writes))
        (first, value, edited, wrote), (second, other, edited_too, wrote_too) = arms
        plain = self.about_text(node.test, env)
        if (edited and edited_too) or ((edited or edited_too) and not plain):
            self.dark(node)
            return value if value is not None else other
        if (wrote or wrote_too) and not plain:
            self.found.notes.setdefault(node.lineno, "it writes under a condition, taken as true")
        env.update({**first, **second} if edited_too else {**second, **first})
        return value if value is not None else other

    def about_text(self, test: ast.expr, env: dict[str, Any]) -> bool:
        """Whether a condition only asks what a text holds, or whether the script is the main program."""
        names = {each.id for each in ast.walk(test) if isinstance(each, ast.Name)}
        return "__name__" in names or any(isinstance(env.get(name), (ScriptText, _Count)) for name in names)

    def bind(self, target: ast.expr, value: Any, env: dict[str, Any]) -> None:
        if isinstance(target, ast.Name):
            env[target.id] = value
        elif isinstance(target, (ast.Tuple, ast.List)):
            values = value if isinstance(value, (tuple, list)) else []
            for at, each in enumerate(target.elts):
                self.bind(each, values[at] if at < len(values) else _UNKNOWN, env)

    def loop(self, node: ast.For, env: dict[str, Any], depth: int) -> None:
        items = self.value(node.iter, env, depth)
        if isinstance(items, dict):
            items = tuple(items)
        if isinstance(items, (tuple, list)):
            for item in items:
                if self.steps > _STEPS:
                    return
                self.bind(node.target, item, env)
                self.block(node.body, env, depth)
        else:
            self.bind(node.target, _UNKNOWN, env)
            self.block(node.body, env, depth)

    def counted(self, test: ast.expr, env: dict[str, Any], depth: int) -> None:
        """``text.count(OLD) == N`` (or ``!= N`` before a raise) says how often an anchor has to be there."""
        for node in ast.walk(test):
            if not isinstance(node, ast.Compare) or len(node.ops) != 1:
                continue
            if not isinstance(node.ops[0], (ast.Eq, ast.NotEq)):
                continue
            call = self.value(node.left, env, depth)
            number = self.value(node.comparators[0], env, depth)
            if isinstance(call, _Count) and isinstance(number, int) and not isinstance(number, bool):
                self.found.counts[call.path, call.text] = number

    def value(self, node: ast.expr, env: dict[str, Any], depth: int) -> Any:
        self.steps += 1
        if self.steps > _STEPS or depth > _DEPTH:
            return _UNKNOWN
        if isinstance(node, ast.Constant):
            if isinstance(node.value, bytes):
                try:
                    return node.value.decode("utf-8")
                except UnicodeDecodeError:
                    return _UNKNOWN
            return node.value
        if isinstance(node, ast.Name):
            return env.get(node.id, _UNKNOWN)
        if isinstance(node, (ast.Tuple, ast.List)):
            return tuple(self.value(each, env, depth) for each in node.elts)
        if isinstance(node, ast.Dict):
            keys = [self.value(key, env, depth) if key else _UNKNOWN for key in node.keys]
            values = [self.value(each, env, depth) for each in node.values]
            return {key: each for key, each in zip(keys, values) if isinstance(key, (str, int, ScriptPath))}
        if isinstance(node, ast.JoinedStr):
            parts = [
                self.value(each.value if isinstance(each, ast.FormattedValue) else each, env, depth)
                for each in node.values
            ]
            return "".join(parts) if all(isinstance(part, str) for part in parts) else self.tail(parts)
        if isinstance(node, ast.BinOp):
            return self.operation(node, env, depth)
        if isinstance(node, ast.Subscript):
            holder, key = self.value(node.value, env, depth), self.value(node.slice, env, depth)
            try:
                return holder[key]
            except (TypeError, KeyError, IndexError):
                return _UNKNOWN
        if isinstance(node, ast.Attribute):
            holder = self.value(node.value, env, depth)
            if isinstance(holder, dict) and node.attr in holder:
                return holder[node.attr]
            return ScriptPath(()) if isinstance(holder, ScriptPath) and node.attr == "parent" else _UNKNOWN
        if isinstance(node, ast.Call):
            return self.call(node, env, depth)
        return _UNKNOWN

    def tail(self, parts: list[Any]) -> Any:
        """An f-string whose beginning is unknown may still be a path with a known end."""
        known: list[str] = []
        for part in reversed(parts):
            if not isinstance(part, str):
                break
            known.insert(0, part)
        text = "".join(known)
        return ScriptPath(tuple(text.split("/")[1:])) if text.startswith("/") else _UNKNOWN

    def operation(self, node: ast.BinOp, env: dict[str, Any], depth: int) -> Any:
        left, right = self.value(node.left, env, depth), self.value(node.right, env, depth)
        if isinstance(node.op, ast.Add) and isinstance(left, str) and isinstance(right, str):
            return left + right if len(left) + len(right) <= _LONGEST else _UNKNOWN
        if isinstance(node.op, ast.Add) and isinstance(left, tuple) and isinstance(right, tuple):
            return left + right if len(left) + len(right) <= _MOST else _UNKNOWN
        if isinstance(node.op, ast.Mult) and isinstance(left, str) and isinstance(right, int):
            return left * right if 0 <= right * len(left) <= _LONGEST else _UNKNOWN
        if isinstance(node.op, ast.Div) and isinstance(right, (str, ScriptPath)):
            return _joined(left, right)
        return _UNKNOWN

    def call(self, node: ast.Call, env: dict[str, Any], depth: int) -> Any:
        arguments = [self.value(each, env, depth) for each in node.args]
        named = {each.arg: self.value(each.value, env, depth) for each in node.keywords if each.arg}
        name = node.func.id if isinstance(node.func, ast.Name) else ""
        if isinstance(env.get(name), _Function):
            return self.enter(env[name].node, arguments, named, env, depth)
        if isinstance(env.get(name), _Record):
            return {**dict(zip(env[name].fields, arguments)), **named}
        if name in ("Path", "PosixPath", "str", "PurePath") and arguments:
            return arguments[0] if isinstance(arguments[0], ScriptPath) else _joined(_UNKNOWN, *arguments)
        if name == "open" and arguments:
            path = _as_path(arguments[0])
            return _Handle(path) if path else _UNKNOWN
        if not isinstance(node.func, ast.Attribute):
            return _UNKNOWN
        return self.method(node, node.func, arguments, named, env, depth)

    def method(
        self,
        node: ast.Call,
        function: ast.Attribute,
        arguments: list[Any],
        named: dict[str, Any],
        env: dict[str, Any],
        depth: int,
    ) -> Any:
        holder = self.value(function.value, env, depth)
        name = function.attr
        dotted = ast.unparse(function)
        if dotted in ("os.path.join", "posixpath.join"):
            return _joined(*arguments)
        if dotted in ("pathlib.Path",) and arguments:
            return _joined(_UNKNOWN, *arguments)
        if dotted in ("textwrap.dedent", "dedent") and arguments and isinstance(arguments[0], str):
            return textwrap.dedent(arguments[0])
        if dotted.startswith(("re.sub", "re.subn", "shutil.", "os.rename", "os.replace", "os.remove",
                              "subprocess.", "os.system")):  # fmt: skip
            self.dark(node)
            return _UNKNOWN
        if name in ("read_text", "read_bytes", "read"):
            path = holder.path if isinstance(holder, _Handle) else holder
            return ScriptText(path) if isinstance(path, ScriptPath) and path.parts else _UNKNOWN
        if name in ("write_text", "write_bytes", "write"):
            return self.written(node, holder, arguments)
        if name == "count" and isinstance(holder, ScriptText) and arguments and isinstance(arguments[0], str):
            return _Count(holder.path, arguments[0])
        if name == "replace" and isinstance(holder, ScriptText):
            limit = arguments[2] if len(arguments) > 2 else named.get("count", -1)
            if (
                all(isinstance(each, str) for each in arguments[:2])
                and len(arguments) > 1
                and isinstance(limit, int)
            ):
                edit = Replacement(arguments[0], arguments[1], limit, node.lineno)
                return replace(holder, edits=(*holder.edits, edit))
            self.dark(node)
            return _UNKNOWN
        if name == "items" and isinstance(holder, dict):
            return tuple(holder.items())
        if name == "get" and isinstance(holder, dict) and arguments:
            return holder.get(arguments[0], arguments[1] if len(arguments) > 1 else None)
        if name in ("strip", "lstrip", "rstrip", "encode", "decode", "lower", "upper", "resolve", "absolute"):
            if isinstance(holder, str) and name in ("strip", "lstrip", "rstrip"):
                if all(isinstance(each, str) for each in arguments):
                    return getattr(holder, name)(*arguments)
            return holder if isinstance(holder, (ScriptPath, ScriptText)) and name not in ("strip",) else (
                holder if isinstance(holder, str) and name in ("encode", "decode") else _UNKNOWN
            )  # fmt: skip
        if name == "joinpath":
            return _joined(holder, *arguments)
        return _UNKNOWN

    def written(self, node: ast.Call, holder: Any, arguments: list[Any]) -> Any:
        path = holder.path if isinstance(holder, _Handle) else holder
        content = arguments[0] if arguments else _UNKNOWN
        if isinstance(content, ScriptText):
            if isinstance(path, ScriptPath) and path != content.path:
                self.dark(node)  # another file than the one it was read from
            elif content.edits:
                self.found.writes.append(content)
        elif isinstance(path, ScriptPath) or isinstance(holder, _Handle):
            self.dark(node)
        return None

    def enter(
        self,
        node: ast.FunctionDef,
        arguments: list[Any],
        named: dict[str, Any],
        env: dict[str, Any],
        depth: int,
    ) -> Any:
        inner = dict(env)
        names = [each.arg for each in (*node.args.posonlyargs, *node.args.args)]
        defaults = node.args.defaults
        for name, default in zip(names[len(names) - len(defaults) :], defaults):
            inner[name] = self.value(default, env, depth + 1)
        for each, only in zip(node.args.kwonlyargs, node.args.kw_defaults):
            inner[each.arg] = self.value(only, env, depth + 1) if only else _UNKNOWN
        for name in names[: len(names) - len(defaults)]:
            inner[name] = _UNKNOWN
        inner.update(zip(names, arguments))
        inner.update(named)
        return self.block(node.body, inner, depth + 1)


@dataclass(frozen=True)
class _Record:
    """A class of the script with annotated fields, used to hold data."""

    fields: tuple[str, ...]


@dataclass(frozen=True)
class _Handle:
    path: ScriptPath


@dataclass(frozen=True)
class _Count:
    path: ScriptPath
    text: str


def _as_path(value: Any) -> ScriptPath | None:
    if isinstance(value, ScriptPath):
        return value
    return ScriptPath(tuple(value.split("/"))) if isinstance(value, str) else None


def _joined(*pieces: Any) -> Any:
    """The end of a joined path that is known; unknown where its last piece is."""
    parts: tuple[str, ...] = ()
    for piece in pieces:
        path = _as_path(piece)
        parts = (*parts, *path.parts) if path is not None else ()
    return ScriptPath(parts) if parts else _UNKNOWN
