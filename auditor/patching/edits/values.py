"""Edits of values: a default, a constant, an argument, a call target, members of a literal."""

from __future__ import annotations

import ast
import re
from collections.abc import Sequence

from auditor import pytext
from auditor.patching.edits import model
from auditor.patching.edits.found import Found, every, inside, miscounted
from auditor.patching.edits.items import insert_item
from auditor.patching.edits.miss import Miss
from auditor.patching.edits.source import PySource, Splice, call_parts, expression, same
from auditor.patching.edits.tree import Place
from auditor.queries.pattern import match, parse_segment

ABSENT = "absent"
_WRAPPERS = {"list", "set", "tuple", "frozenset", "dict", "OrderedDict", "MappingProxyType"}
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


def _value_splice(source: PySource, node: ast.expr, edit_to: str, was: str, what: str) -> list[Splice]:
    """The new value of something, where the old one is what the edit expects."""
    to = expression(edit_to)
    if same(node, to):
        return []
    part = parse_segment(source.text(node), expression=True)
    plain = not was.startswith("$") and same(node, expression(was)) if _parses(was) else False
    if not plain and (part is None or was == ABSENT or match_pattern(was, part) is None):
        raise Miss(
            "P077", f"{what} is `{source.shown(node)}`, expected `{was}`", [f"{source.path}:{node.lineno}"]
        )
    start, end = source.span(node)
    text = edit_to.strip()
    if isinstance(to, (ast.Tuple, ast.NamedExpr, ast.Yield)) and not text.startswith("("):
        text = f"({text})"
    return [Splice(start, end, text.encode())]


def match_pattern(text: str, node: object) -> object | None:
    """As :func:`auditor.queries.pattern.match`, with ``$_`` alone for anything."""
    if text.strip() == "$_":
        return {}
    return match(text, node)  # type: ignore[arg-type]


def _parses(text: str) -> bool:
    try:
        expression(text)
    except SyntaxError:
        return False
    return True


def set_default(place: Place, edit: model.SetDefault) -> list[Splice]:
    """A parameter's default, or that of a field in a class body."""
    source = place.source
    if all(isinstance(scope, ast.ClassDef) for scope in place.scopes):
        return set_constant(place, model.SetConstant(in_=edit.in_, name=edit.name, to=edit.to, was=edit.was))
    if len(place.scopes) != 1:
        raise Miss("P071", f"{place.shown()} is defined {len(place.scopes)} times")
    scope = place.scopes[0]
    if not isinstance(scope, _FUNCTIONS):
        raise Miss("P075", f"{place.shown()} is no function and no class")
    what = f"the default of {edit.name} in {place.shown()}"
    arguments = scope.args
    ordered = [*arguments.posonlyargs, *arguments.args]
    defaults: list[ast.expr | None] = [None] * (len(ordered) - len(arguments.defaults))
    defaults += arguments.defaults
    for parameter, value in zip([*ordered, *arguments.kwonlyargs], [*defaults, *arguments.kw_defaults]):
        if parameter.arg != edit.name:
            continue
        if value is not None:
            return _value_splice(source, value, edit.to, edit.was, what)
        if edit.was != ABSENT:
            raise Miss("P077", f"{edit.name} of {place.shown()} has no default", [f"was: {ABSENT}"])
        end = source.span(parameter)[1]
        equals = " = " if parameter.annotation is not None else "="
        return [Splice(end, end, (equals + edit.to.strip()).encode())]
    names = [parameter.arg for parameter in (*ordered, *arguments.kwonlyargs)]
    raise Miss("P070", f"{place.shown()} has no parameter {edit.name}", names[:6])


def set_constant(place: Place, edit: model.SetConstant) -> list[Splice]:
    """The value of the one assignment to a name in a body."""
    node = _assignment(place, edit.name)
    assert node.value is not None
    return _value_splice(place.source, node.value, edit.to, edit.was, f"{edit.name} in {place.shown()}")


def _assignment(place: Place, name: str) -> ast.Assign | ast.AnnAssign:
    found: list[ast.Assign | ast.AnnAssign] = []
    names: list[str] = []
    for scope in place.scopes:
        stack = list(reversed(getattr(scope, "body", [])))
        while stack:
            node = stack.pop()
            if isinstance(node, (ast.Assign, ast.AnnAssign)):
                targets = node.targets if isinstance(node, ast.Assign) else [node.target]
                own = [target.id for target in targets if isinstance(target, ast.Name)]
                own += [ast.unparse(target) for target in targets if isinstance(target, ast.Attribute)]
                names += own
                if name in own and node.value is not None:
                    found.append(node)
            elif not isinstance(node, (*_FUNCTIONS, ast.ClassDef)):
                for part in ("finalbody", "orelse", "body"):
                    inner = getattr(node, part, None)
                    stack += reversed(inner) if isinstance(inner, list) else []
    if len(found) == 1:
        return found[0]
    if found:
        lines = [f"line {node.lineno} `{place.source.shown(node)}`" for node in found[:4]]
        raise Miss("P071", f"{name} is assigned {len(found)} times in {place.shown()}, expected 1", lines)
    import difflib

    near = difflib.get_close_matches(name, names, n=3, cutoff=0.5)
    raise Miss("P070", f"{name} is not assigned in {place.shown()}", near)


def set_argument(place: Place, edit: model.SetArgument) -> list[Splice]:
    """One argument of every call that matches."""
    source = place.source
    calls = [each.node for each in inside(place, every(place, edit.call), edit.within)]
    nodes = [node for node in calls if isinstance(node, ast.Call)]
    if len(nodes) != edit.count:
        raise miscounted(place, edit.call, [Found(n, {}) for n in nodes], edit.within, edit.count)
    out: list[Splice] = []
    for node in nodes:
        what = f"argument {edit.argument} at {source.path}:{node.lineno}"
        value = _argument(node, edit.argument)
        if value is not None:
            out += _value_splice(source, value, edit.to, edit.was, what)
        elif edit.was != ABSENT or isinstance(edit.argument, int):
            raise Miss("P077", f"{what} is not given", [source.shown(node)])
        else:
            out += _new_argument(source, node, f"{edit.argument}={edit.to.strip()}")
    return out


def _argument(node: ast.Call, which: str | int) -> ast.expr | None:
    if isinstance(which, int):
        known = which < len(node.args) and not any(isinstance(a, ast.Starred) for a in node.args[: which + 1])
        return node.args[which] if known else None
    return next((each.value for each in node.keywords if each.arg == which), None)


def _new_argument(source: PySource, node: ast.Call, text: str) -> list[Splice]:
    spans = sorted(source.span(each) for each in (*node.args, *node.keywords))
    if len(node.args) == 1 and isinstance(node.args[0], ast.GeneratorExp) and not node.keywords:
        raise Miss("P075", f"the call at {source.path}:{node.lineno} has a generator as its only argument")
    close = source.span(node)[1] - 1
    opening = source.data.index(b"(", source.span(node.func)[1]) + 1
    star = next((i for i, each in enumerate(spans) if source.data[each[0] : each[0] + 2] == b"**"), None)
    return insert_item(source, opening, close, spans, len(spans) if star is None else star, [text.encode()])


def set_call(place: Place, edit: model.SetCall) -> list[Splice]:
    """What is called, by every call that matches."""
    source = place.source
    target = expression(edit.to)
    done, todo = [], []
    for found in inside(place, every(place, edit.call), edit.within):
        if isinstance(found.node, ast.Call):
            todo.append(found.node)
    if len(todo) < edit.count:
        # The pattern names what was called; the same call with the new target is what this edit makes.
        done = [
            each.node
            for each in inside(place, every(place, _retargeted(edit)), edit.within)
            if each.node not in todo
        ]
    if len(todo) + len(done) != edit.count:
        raise miscounted(place, edit.call, [Found(n, {}) for n in todo], edit.within, edit.count)
    out = []
    for node in todo:
        if not same(node.func, target):
            start, end = source.span(node.func)
            out.append(Splice(start, end, edit.to.strip().encode()))
    return out


def _retargeted(edit: model.SetCall) -> str:
    _, arguments = call_parts(edit.call)
    return f"{edit.to.strip()}{arguments}"


def add_member(place: Place, edit: model.AddMember) -> list[Splice]:
    """Members of a literal that it does not have yet."""
    source = place.source
    out: list[Splice] = []
    for literal in _literals(place, edit):
        if isinstance(literal, ast.Dict):
            out += _dict_member(source, literal, edit)
        else:
            out += _members(source, literal, edit)
    return out


def _literals(place: Place, edit: model.AddMember) -> Sequence[ast.expr]:
    if edit.name:
        value = _assignment(place, edit.name).value
        assert value is not None
        return [_literal(place.source, value, f"{edit.name} in {place.shown()}")]
    found = inside(place, every(place, edit.call), edit.within)
    calls = [each.node for each in found if isinstance(each.node, ast.Call)]
    if len(calls) != edit.count:
        raise miscounted(place, edit.call, found, edit.within, edit.count)
    out = []
    for call in calls:
        which = int(edit.argument) if re.fullmatch("[0-9]{1,4}", edit.argument) else edit.argument
        value = _argument(call, which)
        what = f"argument {edit.argument} at {place.path}:{call.lineno}"
        if value is None:
            raise Miss("P070", f"{what} is not given", [place.source.shown(call)])
        out.append(_literal(place.source, value, what))
    return out


def _literal(source: PySource, node: ast.expr, what: str) -> ast.expr:
    """The literal that a value is, or that a call like ``frozenset([...])`` is made from."""
    if isinstance(node, (ast.List, ast.Set, ast.Tuple, ast.Dict)):
        return node
    if isinstance(node, ast.Call) and len(node.args) == 1 and not node.keywords:
        name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        if name in _WRAPPERS:
            return _literal(source, node.args[0], what)
    raise Miss("P075", f"{what} is no literal with members: `{source.shown(node)}`")


def _index(source: PySource, items: Sequence[ast.expr], edit: model.AddMember) -> int:
    """Where new members go."""
    text = edit.before or edit.after
    if not text:
        return len(items)
    for index, item in enumerate(items):
        part = parse_segment(source.text(item), expression=True)
        if part is not None and match_pattern(text, part) is not None:
            return index if edit.before else index + 1
    raise Miss("P071", f"no member `{text}`", [f"`{source.shown(item, 30)}`" for item in items[:4]])


def _members(source: PySource, node: ast.expr, edit: model.AddMember) -> list[Splice]:
    assert isinstance(node, (ast.List, ast.Set, ast.Tuple))
    if edit.key:
        raise Miss("P075", f"`{source.shown(node)}` has no keys")
    texts = [edit.member] if edit.member else list(edit.members)
    new = [text for text in texts if not any(same(expression(text), item) for item in node.elts)]
    if not new:
        return []
    start, end = source.span(node)
    bare = isinstance(node, ast.Tuple) and not _bracketed(source.text(node))
    opening, close = (start, end) if bare else (start + 1, end - 1)
    spans = [source.span(item) for item in node.elts]
    out = [each.strip().encode() for each in new]
    if isinstance(node, ast.Tuple) and not spans and len(new) == 1:
        out[0] += b","
    return insert_item(source, opening, close, spans, _index(source, node.elts, edit), out)


def _bracketed(text: bytes) -> bool:
    """Whether the first and the last byte of a tuple are its brackets, and not those of its items."""
    if not (text.startswith(b"(") and text.endswith(b")")):
        return False
    try:
        pytext.parse_expression(b"(" + text[1:-1] + b"\n)")
    except SyntaxError:
        return False
    return True


def _dict_member(source: PySource, node: ast.Dict, edit: model.AddMember) -> list[Splice]:
    if not edit.key:
        raise Miss("P075", f"`{source.shown(node)}` has keys; the edit gives none")
    key, value = expression(edit.key), expression(edit.value)
    spans, keys = [], []
    for each, item in zip(node.keys, node.values):
        start, end = source.span(item)
        if each is None:
            start = source.data.rindex(b"**", 0, start)
        else:
            start = source.span(each)[0]
            if same(each, key):
                if same(item, value):
                    return []
                raise Miss(
                    "P077",
                    f"the key {edit.key} is `{source.shown(item)}` already",
                    [f"{source.path}:{item.lineno}"],
                )
        spans.append((start, end))
        keys.append(each if each is not None else item)
    start, end = source.span(node)
    text = f"{edit.key.strip()}: {edit.value.strip()}".encode()
    return insert_item(source, start + 1, end - 1, spans, _index(source, keys, edit), [text])
