"""Edits of conditions: narrow, widen, one more arm, a guard around a statement."""

from __future__ import annotations

import ast
import re

from auditor import pytext
from auditor.patching.edits import model
from auditor.patching.edits.found import Found, ancestors, every, holes, inside, miscounted
from auditor.patching.edits.miss import Miss
from auditor.patching.edits.source import (
    PySource,
    Splice,
    dedented,
    expression,
    reindented,
    same,
    statements,
)
from auditor.patching.edits.tree import Place
from auditor.queries.shape import shape

#: The longest line that formatters leave whole.
WIDTH = 88
_LOOSE = (ast.IfExp, ast.Lambda, ast.NamedExpr, ast.Yield, ast.YieldFrom)


def condition(place: Place, edit: model.Narrow | model.Widen) -> list[Splice]:
    """``C and X`` or ``C or X`` for every ``C`` that has no ``X`` yet."""
    narrow = isinstance(edit, model.Narrow)
    word, kind = ("and", ast.And) if narrow else ("or", ast.Or)
    extra = expression(edit.with_)
    todo: list[ast.expr] = []
    there: list[ast.AST] = []
    for found in inside(place, every(place, edit.at), edit.within):
        node = _test(place.source, found.node)
        if _has(place.source, node, kind, extra):
            there.append(node)
        elif node not in todo:
            todo.append(node)
    known = {id(up) for node in (*todo, *there) for up in (node, *ancestors(place.source, node))}
    there += _longer(place, edit, kind, extra, known)
    if len(todo) + len(there) != edit.count:
        seen = [Found(node, {}) for node in (*todo, *there)]
        raise miscounted(place, edit.at, seen, edit.within, edit.count)
    return [_joined(place.source, node, word, kind, extra, edit.with_.strip()) for node in todo]


_MANY, _ONE = "hole_many_", "hole_one_"


def _plain(text: str) -> ast.AST:
    """A pattern with its holes as plain names."""
    plain = re.sub(r"\$\.\.\.([A-Z]\w*)?", lambda hit: _MANY + (hit[1] or ""), text.strip("\n").rstrip())
    node: ast.AST = pytext.parse(re.sub(r"\$([A-Z_]\w*)", _ONE + r"\1", plain)).body[0]
    return node.value if isinstance(node, ast.Expr) else node


def _holed(node: ast.AST) -> str:
    """The text of a pattern again."""
    return ast.unparse(node).replace(_MANY, "$...").replace(_ONE, "$")


def _flat(node: ast.expr, kind: type[ast.boolop]) -> list[ast.expr]:
    """What is joined with one word, brackets or not."""
    if isinstance(node, ast.BoolOp) and isinstance(node.op, kind):
        return [inner for value in node.values for inner in _flat(value, kind)]
    return [node]


def _longer(
    place: Place, edit: model.Narrow | model.Widen, kind: type[ast.boolop], extra: ast.expr, known: set[int]
) -> list[ast.AST]:
    """Conditions with all that the pattern asks for and ``extra``: what this edit makes, in any order.

    A pattern with a chain or a whole test does not fit the longer one any more.
    """
    pattern = _plain(edit.at)
    if isinstance(pattern, (ast.If, ast.While, ast.IfExp, ast.Assert)):
        test = pattern.test
        pattern.test = ast.Name(f"{_ONE}_", ast.Load())
        candidates = [_test(place.source, found.node) for found in every(place, _holed(pattern))]
    elif isinstance(pattern, ast.BoolOp) and isinstance(pattern.op, kind):
        test = pattern
        walked = (node for scope in place.scopes for node in ast.walk(scope))
        chains = [node for node in walked if isinstance(node, ast.BoolOp) and isinstance(node.op, kind)]
        candidates = [node for node in chains if place.source.parents.get(node) not in chains]
    else:
        return []
    wanted = [_holed(each) for each in _flat(test, kind)]
    out: list[ast.AST] = []
    for node in candidates:
        operands = _flat(node, kind)
        more = all(any(same(each, operand) for operand in operands) for each in _flat(extra, kind))
        if more and id(node) not in known and all(_one_fits(place.source, operands, w) for w in wanted):
            out.append(node)
    return [found.node for found in inside(place, [Found(node, {}) for node in out], edit.within)]


def _one_fits(source: PySource, operands: list[ast.expr], text: str) -> bool:
    if re.fullmatch(r"\$\w+", text):
        return True
    return any(shape(text).could_match(each) and holes(source, each, text) is not None for each in operands)


def _test(source: PySource, node: ast.AST) -> ast.expr:
    if isinstance(node, (ast.If, ast.While, ast.IfExp, ast.Assert)):
        return node.test
    if isinstance(node, ast.expr):
        return node
    raise Miss("P075", f"line {node.lineno} of {source.path} is no condition")  # type: ignore[attr-defined]


def _has(source: PySource, node: ast.expr, kind: type[ast.boolop], extra: ast.expr) -> bool:
    """Whether a condition is joined with ``extra`` already, itself or as an operand."""
    top = node
    while isinstance(parent := source.parents.get(top), ast.BoolOp) and isinstance(parent.op, kind):
        top = parent
    operands = _flat(top, kind)
    return all(any(same(each, operand) for operand in operands) for each in _flat(extra, kind))


def _joined(
    source: PySource, node: ast.expr, word: str, kind: type[ast.boolop], extra: ast.expr, text: str
) -> Splice:
    start, end = source.span(node)
    old = source.data[start:end].decode()
    parent = source.parents[node]
    loose = isinstance(node, _LOOSE) or (isinstance(node, ast.BoolOp) and not isinstance(node.op, kind))
    if loose:
        outer = _own_brackets(source, node, parent)
        if outer is not None:
            start, end = outer
            old = source.data[start:end].decode()
        else:
            old = f"({old})"
    if isinstance(extra, _LOOSE) or (isinstance(extra, ast.BoolOp) and not isinstance(extra.op, kind)):
        text = f"({text})"
    chained = isinstance(parent, ast.BoolOp) and isinstance(parent.op, kind)
    brackets = not chained and not _free(node, parent)
    lines = _own_line(source, node, word, kind), source.data[source.line_start(start) : start].decode()
    newline, step = source.newline.decode(), lines[1][: len(lines[1]) - len(lines[1].lstrip())]
    if lines[0] and not brackets:
        new = f"{old}{newline}{lines[0]}{text}"
    elif (
        brackets and "\n" not in old and len(lines[1]) + len(old) + len(text) + 7 > WIDTH and _opens(lines[1])
    ):
        deeper = f"{newline}{step}    "
        new = f"({deeper}{old}{deeper}{word} {text}{newline}{step})"
    else:
        new = f"({old} {word} {text})" if brackets else f"{old} {word} {text}"
    return Splice(start, end, new.encode())


def _own_line(source: PySource, node: ast.expr, word: str, kind: type[ast.boolop]) -> str:
    """What the last line of a chain begins with, where its operands have a line each: space and word."""
    if not isinstance(node, ast.BoolOp) or not isinstance(node.op, kind):
        return ""
    start, end = source.span(node.values[-1])
    head = source.data[source.line_start(start) : start].decode()
    whole = source.data[slice(*source.span(node))]
    fits = re.fullmatch(rf"[ \t]+{word} ", head) and end == source.span(node)[1]
    return head if fits and b"\\" not in whole and b"#" not in whole else ""


def _opens(head: str) -> bool:
    """Whether nothing but a word that joins stands before a place on its line."""
    return re.fullmatch(r"[ \t]+(?:and |or )?", head) is not None


def _own_brackets(source: PySource, node: ast.expr, parent: ast.AST) -> tuple[int, int] | None:
    """The span with the brackets around a whole test that stands on one line: ``if (a or b):``."""
    if not isinstance(parent, (ast.If, ast.While)) or node is not parent.test:
        return None
    start, end = source.span(node)
    keyword = source.span(parent)[0]
    before = re.fullmatch(rb"(?:el)?if +\(|while +\(", source.data[keyword:start])
    if before and source.data[end : end + 1] == b")" and b"\n" not in source.data[start:end]:
        return start - 1, end + 1
    return None


def _free(node: ast.expr, parent: ast.AST) -> bool:
    """Whether ``and`` or ``or`` may stand in the place of a node without brackets."""
    if isinstance(
        parent, (ast.If, ast.While, ast.Assert, ast.Return, ast.Assign, ast.AnnAssign, ast.keyword)
    ):
        return True
    if isinstance(parent, ast.comprehension):
        return node in parent.ifs
    return isinstance(parent, ast.Call) and node in parent.args


def arm(place: Place, edit: model.InsertArm) -> list[Splice]:
    """An arm before or after the arm whose condition matches."""
    source = place.source
    text = edit.before or edit.after
    test = expression(edit.if_)
    body = statements(edit.then)
    heads: list[ast.If] = []
    for found in inside(place, every(place, text), edit.within):
        head = _arm_of(source, found.node)
        if head is not None and head not in heads:
            heads.append(head)
    there = [head for head in heads if _arm_there(source, head, test, body)]
    todo = [head for head in heads if head not in there]
    if len(heads) != edit.count:
        raise miscounted(place, text, [Found(head, {}) for head in heads], edit.within, edit.count)
    return [_arm_splice(source, head, edit, bool(edit.before)) for head in todo]


def _arm_of(source: PySource, node: ast.AST) -> ast.If | None:
    """The arm of which a node is the condition, or a part of it."""
    if isinstance(node, ast.If):
        return node
    parent = source.parents.get(node)
    while parent is not None and isinstance(node, ast.expr):
        if isinstance(parent, ast.If) and parent.test is node:
            return parent
        node, parent = parent, source.parents.get(parent)
    return None


def chain(source: PySource, head: ast.If) -> list[ast.If]:
    """All arms of the chain that an arm is in."""
    first = head
    while isinstance(parent := source.parents[first], ast.If) and _is_elif(source, parent, first):
        first = parent
    arms = [first]
    while len(arms[-1].orelse) == 1 and isinstance(following := arms[-1].orelse[0], ast.If):
        if not _is_elif(source, arms[-1], following):
            break
        arms.append(following)
    return arms


def _is_elif(source: PySource, outer: ast.If, inner: ast.If) -> bool:
    return outer.orelse[:1] == [inner] and source.text(inner).startswith(b"elif")


def _arm_there(source: PySource, head: ast.If, test: ast.expr, body: list[ast.stmt]) -> bool:
    for each in chain(source, head):
        if same(each.test, test):
            if len(each.body) == len(body) and all(same(a, b) for a, b in zip(each.body, body)):
                return True
            raise Miss(
                "P077",
                f"line {each.lineno} of {source.path} has an arm with this condition and other code",
            )
    return False


def _arm_splice(source: PySource, head: ast.If, edit: model.InsertArm, before: bool) -> Splice:
    arms = chain(source, head)
    indent = source.indent(arms[0])
    inner = source.indent(head.body[0])
    if indent is None or inner is None:
        raise Miss("P075", f"the arm at line {head.lineno} of {source.path} is written on one line")
    first = head is arms[0]
    newline = source.newline
    word = b"if " if before and first else b"elif "
    body = reindented(edit.then, inner, newline)
    test = broken(edit.if_, (indent + word).decode(), newline.decode()).encode()
    lines = indent + word + test + b":" + newline + body
    start = source.span(head)[0]
    if not before:
        at = source.line_end(source.span(head.body[-1])[1])
        if not source.data[:at].endswith((b"\n", b"\r")):
            lines = newline + lines
        return Splice(at, at, lines)
    if first:  # the old first arm goes on as an elif
        return Splice(start, start, lines[len(indent) :] + indent + b"el")
    at = source.line_start(start)
    return Splice(at, at, lines)


def broken(text: str, head: str, newline: str) -> str:
    """A condition below ``head``: on one line, or in brackets with its operands on a line each."""
    plain = " ".join(dedented(text).split("\n")).strip()
    flat = " ".join(text.split())
    node = expression(flat)
    long = len(head) + len(flat) + 1 > WIDTH and isinstance(node, ast.BoolOp)
    if not long or not isinstance(node, ast.BoolOp) or not same(node, expression(text)):
        return plain
    parts = []
    for each in node.values:
        one = ast.get_source_segment(f"(\n{flat}\n)", each) or ""
        parts.append(f"({one})" if isinstance(each, (ast.BoolOp, *_LOOSE)) else one)
    word = "and" if isinstance(node.op, ast.And) else "or"
    indent = head[: len(head) - len(head.lstrip())]
    deeper = f"{newline}{indent}    "
    return f"({deeper}{f'{deeper}{word} '.join(parts)}{newline}{indent})"


def guard(place: Place, edit: model.Guard) -> list[Splice]:
    """``if X:`` around statements."""
    source = place.source
    test = expression(edit.if_)
    nodes: list[ast.stmt] = []
    for found in inside(place, every(place, edit.at), edit.within):
        node = source.statement_of(found.node)
        if node not in nodes:
            nodes.append(node)
    if len(nodes) != edit.count:
        raise miscounted(place, edit.at, [Found(node, {}) for node in nodes], edit.within, edit.count)
    out = []
    for node in nodes:
        parent = source.parents[node]
        if isinstance(parent, ast.If) and node in parent.body and same(parent.test, test):
            continue
        out.append(_guarded(source, node, edit.if_))
    return out


def _guarded(source: PySource, node: ast.stmt, test: str) -> Splice:
    indent = source.indent(node)
    start = source.statement_start(node)
    end = source.line_end(source.span(node)[1])
    rest = source.data[source.span(node)[1] : end].strip()
    if indent is None or (rest and not rest.startswith(b"#")):
        raise Miss("P075", f"the statement at line {node.lineno} of {source.path} shares its line")
    if isinstance(node, (ast.Import, ast.ImportFrom, ast.FunctionDef, ast.ClassDef, ast.AsyncFunctionDef)):
        raise Miss("P075", f"line {node.lineno} of {source.path} binds a name that would be missing")
    step = b"\t" if indent.startswith(b"\t") else b"    "
    body = source.data[start:end].decode()
    plain = "\n".join(body.splitlines())
    inner = reindented_block(plain, indent, step, source.newline)
    head = indent + b"if " + " ".join(test.split()).encode() + b":" + source.newline
    return Splice(source.line_start(start), end, head + inner)


def reindented_block(text: str, indent: bytes, step: bytes, newline: bytes) -> bytes:
    """A statement one level deeper; lines inside strings stay as they are."""
    from auditor.patching.edits.source import string_lines

    whole = f"{indent.decode()}{text}"
    inside_string = string_lines("if 1:\n" + whole + "\n") if indent else string_lines(whole + "\n")
    shift = 1 if indent else 0
    out = []
    for number, line in enumerate(whole.split("\n"), 1):
        deeper = line.strip() and number + shift not in inside_string
        out.append((step if deeper else b"") + line.encode() + newline)
    return b"".join(out)
