"""Which class serves a model, in which file, and what it builds."""

from __future__ import annotations

import ast
import difflib
import re
from collections.abc import Iterable, Iterator
from os.path import commonprefix
from typing import Any

from auditor.errors import UserError
from auditor.gates.path.model import Layer, Model, ModelClass, Place
from auditor.profile import Profile, compile_patterns
from auditor.program.classes import ClassInfo
from auditor.program.source import Irregular
from auditor.program.syntax import source_of
from auditor.program.values import ClassRef, Function, Map, Seq, V

#: Parts of parts are followed this deep; deeper ones belong to libraries of layers.
_DEPTH = 6
#: Methods that a constructor calls on its own object and that are read too, at most.
_HELPERS = 40
#: A table of classes with more rows than this holds alternatives, not what a model is built of.
_ROWS = 4
#: Letters that the name of a checkpoint and that of its class must begin with alike to be told as near.
_BEGINNING = 5
_RETURNS_CLASS = re.compile(r"^[ \t]+return _?[A-Z]\w*[ \t]*(?:#.*)?$", re.M)
_NAME = re.compile(r"[A-Za-z_]\w*")


def entries(program: Any, profile: Profile) -> dict[str, str]:
    """Architecture name -> path of its module, from the text of every entry assignment."""
    models = profile.models
    if models is None:
        return {}
    wanted = compile_patterns(models.folders)
    head = re.compile(rf"^{re.escape(models.entry)}(?:\s*:[^=\n]+)?\s*\+?=\s*".encode(), re.M)
    needle = models.entry.encode()
    out: dict[str, str] = {}
    for path in sorted(program.paths):
        if not wanted.match(profile.below_root(path)):
            continue
        data = program.files[path]
        if needle not in data:
            continue
        for match in head.finditer(data):
            for name in _NAME.findall(_right_side(data, match.end())):
                out.setdefault(name, path)
    return out


def _right_side(data: bytes, start: int) -> str:
    """The text of an assignment's value: one line, or to the bracket that closes it. Without comments."""
    depth, end = 0, start
    text = data[start : start + 20_000].decode("utf-8", "replace")
    out = []
    for line in text.split("\n"):
        code = line.partition("#")[0]
        out.append(code)
        depth += sum(code.count(c) for c in "([{") - sum(code.count(c) for c in ")]}")
        end += len(line) + 1
        if depth <= 0:
            break
    return " ".join(out)


def find_model(program: Any, profile: Profile, name: str) -> Model:
    """The model of that name. UserError U014, with near names, where the tree has none."""
    known = entries(program, profile)
    if name not in known:
        near = difflib.get_close_matches(name, sorted(known), n=3, cutoff=0.6)
        near += [k for k in sorted(known) if k.lower() == name.lower() and k not in near]
        near = near or _called(name, known) or sorted(known)[:1]
        hints = [f"audit path --model {n}" for n in near]
        folder = profile.models.folders[0] if profile.models else ""
        raise UserError(
            "U014",
            f"no model class {name!r} among the {len(known):,} of this tree; "
            "the class of a checkpoint stands in its config.json under architectures",
            place=folder or None,
            hints=hints,
        )
    main = _class(program, known[name], name)
    infos = {other: _info(program, path, other) for other, path in known.items() if other.startswith(name)}
    variants = [other for other in sorted(known) if other != name and other.startswith(name)]
    layers, own = _layers(program, profile, infos[name])
    return Model(
        main=main,
        variants=tuple(_class(program, known[other], other) for other in variants),
        layers=layers,
        classes=own,
    )


def _called(name: str, known: Iterable[str]) -> list[str]:
    """Classes whose names begin as a checkpoint is called: ``org/Llama-3-8B`` begins as LlamaFor… does.
    Those with the longest common beginning, shortest first."""

    def plain(text: str) -> str:
        return re.sub(r"[^a-z0-9]", "", text.rpartition("/")[2].lower())

    lengths = {other: len(commonprefix([plain(name), plain(other)])) for other in known}
    longest = max(lengths.values(), default=0)
    if longest < _BEGINNING:
        return []
    return sorted((n for n, length in lengths.items() if length == longest), key=lambda n: (len(n), n))[:3]


def _info(program: Any, path: str, name: str) -> ClassInfo | None:
    module = program.module(program.paths[path])
    if module is None:
        return None
    value = program.global_value(module, name)
    return value.one.info if value is not None and isinstance(value.one, ClassRef) else None


def _class(program: Any, path: str, name: str) -> ModelClass:
    info = _info(program, path, name)
    named = _named_at(program, name, path)
    if info is None:
        return ModelClass(name=name, place=Place(path, 1), lines=_lines(program, path), named_at=named)
    place = class_place(info)
    return ModelClass(
        name=name,
        place=place,
        lines=_lines(program, place.path),
        bases=tuple(base.name for base in info.mro()[1:]),
        named_at=named,
    )


def class_place(info: ClassInfo) -> Place:
    """Where a class is defined: the line of its ``class`` statement."""
    try:
        line = info.node().lineno
    except Irregular:
        line = info.segment.start
    return Place(info.module.path, line, info.qualname)


def _lines(program: Any, path: str) -> int:
    data: bytes = program.files[path]
    return data.count(b"\n") + (not data.endswith(b"\n") and bool(data))


def _named_at(program: Any, name: str, own: str) -> tuple[Place, ...]:
    """Where the name stands in quotes: configuration code that treats the model specially."""
    out = []
    pattern = re.compile(rb"[\"']" + name.encode() + rb"[\"']")
    needle = name.encode()
    for path, data in sorted(program.files.items()):
        if path != own and needle in data:
            out += [Place(path, data.count(b"\n", 0, m.start()) + 1) for m in pattern.finditer(data)]
    return tuple(out)


def _built(info: ClassInfo, program: Any) -> Iterator[tuple[ClassInfo, Place]]:
    """Classes of the tree that the constructors of a class call, methods they use for that included."""
    queue: list[Function] = []
    for base in info.mro():
        base.load()
        if "__init__" in base.functions:
            queue.append(base.functions["__init__"])
    seen: set[int] = set()
    while queue:
        function = queue.pop(0)
        if id(function.segment) in seen:
            continue
        seen.add(id(function.segment))
        try:
            body: Any = function.segment.node()
        except Irregular:
            continue
        frame = program.module_frame(function.module)
        for node in sorted(_used(body), key=lambda n: (n.lineno, n.col_offset)):
            place = Place(function.module.path, node.lineno, function.qualname)
            if isinstance(node, ast.Call):
                if isinstance(node.func, ast.Call):
                    # get_class(config)(...): every class that the function may return
                    for one in _returned_classes(program, node.func, frame):
                        yield one, place
                    continue
                text = source_of(node.func)
                if isinstance(node.func, ast.Name) and not text[:1].isupper():
                    for one in _returned_classes(program, node, frame):
                        yield one, place
                if text.startswith("self."):
                    helper = info.find(text[5:])
                    if helper is not None and isinstance(helper[1], Function) and len(seen) < _HELPERS:
                        queue.append(helper[1])
                continue
            # A class that is called, or handed on to whatever calls it.
            if not source_of(node).rpartition(".")[2].lstrip("_")[:1].isupper():
                continue
            value: V = program.ev(node, frame)
            held: Any = value.one
            if isinstance(held, Map):
                several = list(held.items.values())
                if len(several) > _ROWS:
                    continue
            else:
                several = list(held.items) if isinstance(held, Seq) else [held]
            for one in several:
                if isinstance(one, ClassRef):
                    yield one.info, place


def _used(node: ast.AST) -> Iterator[ast.expr]:
    """Calls and names of a function that are evaluated when it runs: no annotations, no type tests."""
    for name, value in ast.iter_fields(node):
        if name in ("annotation", "returns"):
            continue
        for child in value if isinstance(value, list) else [value]:
            if not isinstance(child, ast.AST):
                continue
            if isinstance(child, ast.Call):
                if isinstance(child.func, ast.Name) and child.func.id in ("isinstance", "issubclass"):
                    continue
                yield child
            if isinstance(child, (ast.Name, ast.Attribute)) and isinstance(child.ctx, ast.Load):
                yield child
                if isinstance(child, ast.Attribute):
                    continue
            yield from _used(child)


def _returned_classes(program: Any, call: ast.Call, frame: Any) -> Iterator[ClassInfo]:
    value: V = program.ev(call.func, frame)
    if not isinstance(value.one, Function):
        return
    function = value.one
    if not _RETURNS_CLASS.search(function.segment.text or ""):
        return
    try:
        node: Any = function.segment.node()
    except Irregular:
        return
    inner = program._entry(function, node, None)
    for child in ast.walk(node):
        if isinstance(child, (ast.Import, ast.ImportFrom)):
            program.block([child], inner)
    returns = [n for n in ast.walk(node) if isinstance(n, ast.Return)]
    for child in sorted(returns, key=lambda n: n.lineno):
        if isinstance(child.value, (ast.Name, ast.Attribute)):
            found: V = program.ev(child.value, inner)
            if isinstance(found.one, ClassRef):
                yield found.one.info


def _layers(
    program: Any, profile: Profile, start: ClassInfo | None
) -> tuple[tuple[Layer, ...], tuple[Layer, ...]]:
    """Layers from outside the models' folders, and the model's own parts, in order of discovery."""
    if start is None or profile.models is None:
        return (), ()
    inside = compile_patterns(profile.models.folders)
    seen: set[str] = set()
    layers: dict[str, Layer] = {}
    own: dict[str, Layer] = {}
    queue = [(start, 0)]
    while queue:
        info, depth = queue.pop(0)
        if info.fullname in seen:
            continue
        seen.add(info.fullname)
        for built, where in _built(info, program):
            place = class_place(built)
            layer = Layer(built.name, place, info.name, where, profile.area(place.path))
            if not inside.match(profile.below_root(built.module.path)):
                if _is_layer(built):
                    layers.setdefault(built.fullname, layer)
            elif built.fullname not in own:
                own[built.fullname] = layer
                if depth < _DEPTH:
                    queue.append((built, depth + 1))
    # What the start chooses a backend for comes first; the rest keeps the order in which it is built.
    start_areas = (
        {*profile.start.attention.areas, *profile.start.experts.areas} if profile.start is not None else set()
    )
    ordered = sorted(layers.values(), key=lambda layer: layer.area not in start_areas)
    return tuple(ordered), tuple(own.values())


def _is_layer(info: ClassInfo) -> bool:
    """Whether instances compute something: a ``forward`` here or in a base."""
    return any(info.find(name) is not None for name in ("forward", "__call__"))
