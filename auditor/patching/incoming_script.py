"""Scripts that replace text in files, read as data where they are plain; never run.

A small, bounded reading of the script's syntax follows constants, paths, the text read from a path, and
``replace`` on it, through straight code, loops over literals and the script's own functions. Whatever else would
change a file is reported with its line. The replacements are made on the base in memory, with the counts that
the script itself asks for, and become a diff.
"""

from __future__ import annotations

import ast
import textwrap
from dataclasses import dataclass, field, replace
from typing import Any

from auditor.errors import UserError
from auditor.patching.incoming import Imported, Incoming, Options, Row, _matches, patch_name
from auditor.patching.linediff import file_change
from auditor.patching.model import ChangeSet
from auditor.trees.base import SourceTree
from auditor.trees.overlay import OverlayTree

_STEPS = 20_000
_DEPTH = 12


@dataclass(frozen=True)
class _Unknown:
    """A value that the script only knows when it runs."""


_UNKNOWN = _Unknown()


@dataclass(frozen=True)
class _Path:
    """A path; ``parts`` are what is known at its end."""

    parts: tuple[str, ...]


@dataclass(frozen=True)
class _Content:
    """The text of a file, with the replacements made so far."""

    path: _Path
    edits: tuple[_Edit, ...] = ()


@dataclass(frozen=True)
class _Edit:
    old: str
    new: str
    count: int  # -1: all
    line: int


@dataclass(frozen=True)
class _Function:
    node: ast.FunctionDef


@dataclass
class _Found:
    """What a script does to files: each file's edits in order, expected counts, and what is not plain."""

    writes: list[_Content] = field(default_factory=list)
    counts: dict[tuple[_Path, str], int] = field(default_factory=dict)
    dark: dict[int, str] = field(default_factory=dict)  # line -> what stands there


def take_script(text: str, label: str, base: SourceTree, options: Options) -> Imported:
    """The patch that a replacing script makes of the base.

    UserError P037 (not a script that can be read as data), P038 (an anchor that the base does not have, or has
    another number of times than the script says).
    """
    found = read_script(text, label)
    if not found.writes:
        lines = ", ".join(f"line {line}: {what}" for line, what in sorted(found.dark.items())[:3])
        raise UserError(
            "P037",
            f"no plain replacement in this script{f' ({lines})' if lines else ''}",
            place=label,
            hints=["run it yourself in a checkout, then patches import the output of git diff"],
        )
    after: dict[str, str] = {}
    notes, left_out, excluded = [], [], []
    replaced = 0
    for content in found.writes:
        path = _resolve(content.path, base, label)
        if _matches(path, options.exclude):
            excluded.append(path)
            continue
        text_now = after.get(path)
        if text_now is None:
            try:
                text_now = base.read(path).decode("utf-8")
            except UnicodeDecodeError:
                raise UserError("P037", f"{path} is not UTF-8", place=label) from None
        for edit in content.edits:
            text_now = _made(edit, text_now, path, content.path, found, label, notes)
            replaced += 1
        after[path] = text_now
    changes = []
    for path, new in sorted(after.items()):
        change = file_change(path, base.read(path), new.encode())
        if change is not None:
            changes.append(change)
    left_out += [
        f"line {line}: {what}: not plain, and not taken" for line, what in sorted(found.dark.items())
    ]
    if not changes:
        row = Row(label, excluded=tuple(excluded), left_out=tuple(left_out), notes=("it changes nothing",))
        return Imported([], [row], base)
    module = ast.get_docstring(ast.parse(text)) or ""
    name = patch_name(label, "")
    title = module.split("\n")[0].rstrip(".") or name.replace("-", " ").capitalize()
    notes.insert(0, f"{replaced} replacements of a script, made on the base")
    patch = Incoming(name, ChangeSet(tuple(changes), subject=title, body=module.partition("\n")[2].strip()))
    row = Row(
        label, name, title, tuple(change.path for change in changes),
        sum(len(change.hunks) for change in changes), len(changes), tuple(excluded), tuple(left_out), tuple(notes),
    )  # fmt: skip
    tree = OverlayTree(base, {path: new.encode() for path, new in after.items()})
    return Imported([patch], [row], tree)


def _made(
    edit: _Edit, text: str, path: str, where: _Path, found: _Found, label: str, notes: list[str]
) -> str:
    place = f"{label}:{edit.line}"
    there = text.count(edit.old) if edit.old else 0
    expected = found.counts.get((where, edit.old))
    if not there:
        fact = f"the text that it replaces is not in {path}"
        if edit.new and edit.new in text:
            fact += ", but what it puts there is: already done?"
        raise UserError("P038", fact, place=place, hints=["name the base that the script was made for"])
    if expected is not None and expected != there:
        raise UserError(
            "P038", f"the script says {expected} times, {path} has the text {there} times", place=place
        )
    if edit.count >= 0 and there > max(edit.count, 1) and expected is None:
        notes.append(
            f"line {edit.line}: {there} places in {path}, the first {edit.count} taken as the script does"
        )
    elif edit.count < 0 and there > 1 and expected is None:
        notes.append(f"line {edit.line}: all {there} places in {path}, as the script does")
    return text.replace(edit.old, edit.new, edit.count)


def _resolve(path: _Path, base: SourceTree, label: str) -> str:
    """The one file of the base whose path ends so. UserError P031."""
    parts = [part for part in path.parts if part not in ("", ".", "/")]
    names = list(base.blobs())
    for start in range(len(parts)):
        end = "/".join(parts[start:])
        found = [name for name in names if name == end or name.endswith("/" + end)]
        exact = [name for name in found if name == end]
        if len(exact or found) == 1:
            return (exact or found)[0]
        if found:
            raise UserError("P031", f"{len(found)} files of the base end in {end}", place=label)
    raise UserError("P031", f"the base has no file {'/'.join(parts)}", place=label)


def read_script(text: str, label: str) -> _Found:
    """What a script would do to files. UserError P037 where it is not Python."""
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise UserError("P037", "not Python that can be parsed", place=label) from None
    reader = _Reader()
    reader.block(tree.body, {}, 0)
    return reader.found


class _Reader:
    """Walks statements in order. Both arms of an ``if`` are read; a loop over literals is unrolled."""

    def __init__(self) -> None:
        self.found = _Found()
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
            self.counted(node.test, env, depth)
            first = self.block(node.body, env, depth)
            return self.block(node.orelse, env, depth) or first
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
            if isinstance(env.get(node.target.id), _Content):
                self.dark(node)
            env[node.target.id] = _UNKNOWN
        elif isinstance(node, (ast.While, ast.ClassDef)):
            self.block(node.body, dict(env), depth)
        return None

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
            return node.value
        if isinstance(node, ast.Name):
            return env.get(node.id, _UNKNOWN)
        if isinstance(node, (ast.Tuple, ast.List)):
            return tuple(self.value(each, env, depth) for each in node.elts)
        if isinstance(node, ast.Dict):
            keys = [self.value(key, env, depth) if key else _UNKNOWN for key in node.keys]
            values = [self.value(each, env, depth) for each in node.values]
            return {key: each for key, each in zip(keys, values) if isinstance(key, (str, int, _Path))}
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
            return _Path(()) if isinstance(holder, _Path) and node.attr == "parent" else _UNKNOWN
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
        return _Path(tuple(text.split("/")[1:])) if text.startswith("/") else _UNKNOWN

    def operation(self, node: ast.BinOp, env: dict[str, Any], depth: int) -> Any:
        left, right = self.value(node.left, env, depth), self.value(node.right, env, depth)
        if isinstance(node.op, ast.Add) and isinstance(left, str) and isinstance(right, str):
            return left + right
        if isinstance(node.op, ast.Add) and isinstance(left, tuple) and isinstance(right, tuple):
            return left + right
        if isinstance(node.op, ast.Mult) and isinstance(left, str) and isinstance(right, int):
            return left * right if 0 <= right <= 1000 else _UNKNOWN
        if isinstance(node.op, ast.Div) and isinstance(right, (str, _Path)):
            return _joined(left, right)
        return _UNKNOWN

    def call(self, node: ast.Call, env: dict[str, Any], depth: int) -> Any:
        arguments = [self.value(each, env, depth) for each in node.args]
        named = {each.arg: self.value(each.value, env, depth) for each in node.keywords if each.arg}
        name = node.func.id if isinstance(node.func, ast.Name) else ""
        if isinstance(env.get(name), _Function):
            return self.enter(env[name].node, arguments, named, env, depth)
        if name in ("Path", "PosixPath", "str", "PurePath") and arguments:
            return arguments[0] if isinstance(arguments[0], _Path) else _joined(_UNKNOWN, *arguments)
        if name == "open" and arguments:
            mode = arguments[1] if len(arguments) > 1 else named.get("mode", "r")
            path = _as_path(arguments[0])
            return _Handle(path, isinstance(mode, str) and "r" not in mode) if path else _UNKNOWN
        if name == "len":
            return _UNKNOWN
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
            return _Content(path) if isinstance(path, _Path) and path.parts else _UNKNOWN
        if name in ("write_text", "write_bytes", "write"):
            return self.written(node, holder, arguments)
        if name == "count" and isinstance(holder, _Content) and arguments and isinstance(arguments[0], str):
            return _Count(holder.path, arguments[0])
        if name == "replace" and isinstance(holder, _Content):
            limit = arguments[2] if len(arguments) > 2 else named.get("count", -1)
            if (
                all(isinstance(each, str) for each in arguments[:2])
                and len(arguments) > 1
                and isinstance(limit, int)
            ):
                edit = _Edit(arguments[0], arguments[1], limit, node.lineno)
                return replace(holder, edits=(*holder.edits, edit))
            self.dark(node)
            return _UNKNOWN
        if name == "items" and isinstance(holder, dict):
            return tuple(holder.items())
        if name in ("strip", "lstrip", "rstrip", "encode", "decode", "lower", "upper", "resolve", "absolute"):
            if isinstance(holder, str) and name in ("strip", "lstrip", "rstrip"):
                if all(isinstance(each, str) for each in arguments):
                    return getattr(holder, name)(*arguments)
            return holder if isinstance(holder, (_Path, _Content)) and name not in ("strip",) else (
                holder if isinstance(holder, str) and name in ("encode", "decode") else _UNKNOWN
            )  # fmt: skip
        if name == "joinpath":
            return _joined(holder, *arguments)
        return _UNKNOWN

    def written(self, node: ast.Call, holder: Any, arguments: list[Any]) -> Any:
        path = holder.path if isinstance(holder, _Handle) else holder
        content = arguments[0] if arguments else _UNKNOWN
        if isinstance(content, _Content):
            if isinstance(path, _Path) and path != content.path:
                self.dark(node)  # another file than the one it was read from
            elif content.edits:
                self.found.writes.append(content)
        elif isinstance(path, _Path) or isinstance(holder, _Handle):
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
class _Handle:
    path: _Path
    writing: bool = False


@dataclass(frozen=True)
class _Count:
    path: _Path
    text: str


def _as_path(value: Any) -> _Path | None:
    if isinstance(value, _Path):
        return value
    return _Path(tuple(value.split("/"))) if isinstance(value, str) else None


def _joined(*pieces: Any) -> Any:
    """The end of a joined path that is known; unknown where its last piece is."""
    parts: tuple[str, ...] = ()
    for piece in pieces:
        path = _as_path(piece)
        parts = (*parts, *path.parts) if path is not None else ()
    return _Path(parts) if parts else _UNKNOWN
