"""Where things of the tree are declared, set and read, by name: arguments, flags, imports."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable
from typing import Any

from auditor.gates.path.model import Place, Setting
from auditor.profile import Profile, compile_patterns
from auditor.program.classes import ClassInfo
from auditor.program.source import Irregular
from auditor.program.syntax import source_of
from auditor.program.values import ClassRef


def symbol_at(program: Any, path: str, line: int) -> str:
    """The function or class around a line, qualified within its module; "" at module level."""
    module = program.module(program.paths.get(path, ""))
    if module is None:
        return ""
    names: list[str] = []
    segments = module.segments
    while True:
        inner = [s for s in segments if s.start <= line]
        if not inner or inner[-1].kind not in ("def", "class"):
            return ".".join(names)
        segment = inner[-1]
        if segment.text and line >= segment.start + segment.text.rstrip("\n").count("\n") + 1:
            return ".".join(names)
        names.append(segment.name)
        if segment.kind != "class":
            return ".".join(names)
        try:
            segments = segment.members()
        except Irregular:
            return ".".join(names)


def readers(program: Any, names: Iterable[str]) -> dict[str, list[Place]]:
    """Every line of the tree's Python files that reads one of the flags, in order of paths and lines.

    A flag is read as an attribute (``flags.NAME.get()``) or by a text that is just its name; calls that set
    it or ask whether it is set, comments and messages do not count.
    """
    wanted = sorted(set(names))
    out: dict[str, list[Place]] = {name: [] for name in wanted}
    if not wanted:
        return out
    needles = [name.encode() for name in wanted]
    pattern = re.compile(
        rb"\b(?:" + b"|".join(re.escape(n) for n in sorted(needles, key=len, reverse=True)) + rb")\b"
    )
    for path in sorted(program.paths):
        data = program.files[path]
        if not any(needle in data for needle in needles):
            continue
        for match in pattern.finditer(data):
            before = data[data.rfind(b"\n", 0, match.start()) + 1 : match.start()]
            after = data[match.end() : match.end() + 40]
            if b"#" in before or not _is_read(before, after):
                continue
            line = data.count(b"\n", 0, match.start()) + 1
            place = Place(path, line, symbol_at(program, path, line))
            known = out[match[0].decode()]
            if not known or known[-1] != place:
                known.append(place)
    return out


_NOT_A_READ = re.compile(rb"\s*\.\s*(?:set|is_set|clear|unset|override)\b|\s*=[^=]")


def _is_read(before: bytes, after: bytes) -> bool:
    last = before[-1:]
    if last in (b'"', b"'"):
        return after.startswith(last)
    inside_text = before.count(b'"') % 2 or before.count(b"'") % 2
    return last == b"." and not inside_text and not _NOT_A_READ.match(after)


def _class(program: Any, module_name: str, name: str) -> ClassInfo | None:
    module = program.module(module_name)
    if module is None:
        return None
    value = program.global_value(module, name)
    return value.one.info if value is not None and isinstance(value.one, ClassRef) else None


def asked_for(program: Any, path: str, line: int, name: str) -> bool:
    """Whether the statement on a line stands under a condition that asks for ``name``."""
    module = program.module(program.paths.get(path, ""))
    if module is None:
        return False
    for node in _around(module.segments, line):
        for test in ast.walk(node):
            if not isinstance(test, ast.If) or not test.body[0].lineno <= line <= (test.end_lineno or line):
                continue
            if re.search(rf"\b{re.escape(name)}\b", source_of(test.test)):
                return True
    return False


def _around(segments: list[Any], line: int) -> list[ast.stmt]:
    """The statements of the innermost function or module part around a line."""
    inner = [s for s in segments if s.start <= line]
    if not inner:
        return []
    try:
        return _around(inner[-1].members(), line) if inner[-1].kind == "class" else list(inner[-1].nodes())
    except Irregular:
        return []


class Arguments:
    """Fields of the server's arguments: their defaults, wherever a release declares them."""

    def __init__(self, program: Any, profile: Profile) -> None:
        self.program = program
        self.profile = profile
        self._fields: dict[str, Setting] = {}
        for symbol in profile.arguments:
            info = _class(program, symbol.module, symbol.symbol)
            if info is not None:
                for name, node, owner in info.record_fields():
                    self._take(name, node, owner.module.path, owner.qualname)
        self._folders = compile_patterns(tuple(f for s in profile.arguments for f in s.folders))

    def _take(self, name: str, node: ast.AnnAssign, path: str, symbol: str) -> None:
        value = None if node.value is None else _default(node.value)
        if self._fields.get(name, Setting(name, None)).place is None:
            self._fields[name] = Setting(name, value, Place(path, node.lineno, symbol))

    def get(self, name: str) -> Setting:
        """The default of an argument as Python writes it, and where it stands."""
        if name not in self._fields:
            self._fields[name] = Setting(name, None)
            self._search(name)
        return self._fields.get(name, Setting(name, None))

    def _search(self, name: str) -> None:
        needle = re.compile(rf"^[ \t]+{re.escape(name)}[ \t]*:".encode(), re.M)
        for path in sorted(self.program.paths):
            if not self._folders.match(self.profile.below_root(path)):
                continue
            if not needle.search(self.program.files[path]):
                continue
            module = self.program.module(self.program.paths[path])
            for segment in module.segments if module is not None else ():
                if segment.kind != "class":
                    continue
                info = ClassInfo(module, segment.name, segment.name, segment, self.program)
                info.load()
                if name in info.fields:
                    self._take(name, info.fields[name], path, segment.name)
                    return


def _default(node: ast.expr) -> str:
    """``field(default=X)`` as X; everything else as written."""
    if isinstance(node, ast.Call):
        for keyword in node.keywords:
            if keyword.arg in ("default", "default_factory"):
                return source_of(keyword.value)
    return source_of(node)


def flag_defaults(program: Any, profile: Profile, names: Iterable[str]) -> dict[str, Setting]:
    """The defaults of environment flags and the lines that declare them."""
    wanted = set(names)
    out: dict[str, Setting] = {}
    for symbol in profile.flags:
        info = _class(program, symbol.module, symbol.symbol)
        if info is None:
            continue
        for owner in info.mro():
            owner.load()
            for node in owner.statements:
                target = node.targets[0] if isinstance(node, ast.Assign) else getattr(node, "target", None)
                value = getattr(node, "value", None)
                if not isinstance(target, ast.Name) or target.id not in wanted or value is None:
                    continue
                if isinstance(value, ast.Call):
                    keywords = [k.value for k in value.keywords if k.arg == "default"]
                    given = [*value.args[:1], *keywords]
                    text = source_of(given[0]) if given else None
                else:
                    text = source_of(value)
                place = Place(owner.module.path, node.lineno, owner.qualname)
                out.setdefault(target.id, Setting(target.id, text, place))
    return out


def imports_of(program: Any, profile: Profile, folders: tuple[str, ...], module: str) -> tuple[Place, ...]:
    """Import statements of an outside module in some folders."""
    inside = compile_patterns(folders)
    pattern = re.compile(
        rf"^[ \t]*(?:from|import)[ \t]+{re.escape(module)}(?:\.[\w.]+)?(?=[ \t,\n])".encode(), re.M
    )
    out = []
    for path in sorted(program.paths):
        if inside.match(profile.below_root(path)) and module.encode() in program.files[path]:
            data = program.files[path]
            for match in pattern.finditer(data):
                line = data.count(b"\n", 0, match.start()) + 1
                out.append(Place(path, line, symbol_at(program, path, line)))
    return tuple(out)
