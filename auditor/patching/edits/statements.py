"""Edits that put statements in: insert before, after or at the ends of a body; replace; import."""

from __future__ import annotations

import ast
import re
import sys

from auditor import pytext
from auditor.patching.edits import model
from auditor.patching.edits.found import Found, ancestors, every, inside, miscounted, substituted
from auditor.patching.edits.items import insert_item
from auditor.patching.edits.miss import Miss
from auditor.patching.edits.source import PySource, Splice, dedented, expression, reindented, same, statements
from auditor.patching.edits.tree import Place
from auditor.queries.shape import shape

_DEFINES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)


def insert(place: Place, edit: model.Insert) -> list[Splice]:
    """Statements beside every statement that holds a match, or at an end of the symbol's body."""
    code = statements(edit.code)
    if edit.at:
        return _at_end(place, edit, code)
    text = edit.before or edit.after
    source = place.source
    nodes: list[ast.stmt] = []
    new = {id(node) for node in _there(source, place, code)}
    for found in inside(place, every(place, text), edit.within):
        if id(found.node) in new or any(id(up) in new for up in ancestors(source, found.node)):
            continue  # the pattern occurs in what was put in
        node = source.statement_of(found.node)
        if node not in nodes:
            nodes.append(node)
    if len(nodes) != edit.count:
        raise miscounted(place, text, [Found(node, {}) for node in nodes], edit.within, edit.count)
    out = []
    for node in nodes:
        block, index = source.block_of(node)
        side = block[:index] if edit.before else block[index + 1 :]
        if not _holds(side, code):
            _check_twins(source, block, code)
            out.append(_beside(source, node, edit.code, before=bool(edit.before)))
    return out


def _there(source: PySource, place: Place, code: list[ast.stmt]) -> list[ast.stmt]:
    """Statements of the place that are those of an edit, in a run."""
    first = ast.dump(code[0])
    out: list[ast.stmt] = []
    for scope in place.scopes:
        for node in ast.walk(scope):
            if type(node) is type(code[0]) and ast.dump(node) == first:
                block, index = source.block_of(node)  # type: ignore[arg-type]
                run = block[index : index + len(code)]
                if len(run) == len(code) and all(same(a, b) for a, b in zip(run, code)):
                    out += run
    return out


def _holds(block: list[ast.stmt], code: list[ast.stmt]) -> bool:
    """Whether statements stand together somewhere in a block."""
    size = len(code)
    return any(
        all(same(a, b) for a, b in zip(block[start : start + size], code))
        for start in range(len(block) - size + 1)
    )


def _check_twins(source: PySource, block: list[ast.stmt], code: list[ast.stmt]) -> None:
    """A function or class that is there under the same name is not defined a second time."""
    names = {node.name: node for node in block if isinstance(node, _DEFINES)}
    for node in code:
        if isinstance(node, _DEFINES) and node.name in names:
            line = names[node.name].lineno
            raise Miss("P077", f"{source.path} defines another {node.name} at line {line}")


def _beside(source: PySource, node: ast.stmt, code: str, *, before: bool) -> Splice:
    indent = source.indent(node)
    start, end = source.statement_start(node), source.span(node)[1]
    stop = source.line_end(end)
    rest = source.data[end:stop].strip()
    if source.text(node).startswith(b"elif"):
        raise Miss("P075", f"line {node.lineno} of {source.path} is an elif: use insert-arm")
    if indent is None or (rest and not rest.startswith(b"#")):
        raise Miss("P075", f"the statement at line {node.lineno} of {source.path} shares its line")
    body = reindented(code, indent, source.newline)
    if before:
        at = _above_comments(source, source.line_start(start), indent)
        return Splice(at, at, body)
    return _after(source, stop, body)


def _after(source: PySource, at: int, body: bytes) -> Splice:
    if not source.data[:at].endswith((b"\n", b"\r")):
        return Splice(at, at, source.newline + body.rstrip(b"\r\n"))
    return Splice(at, at, body)


def _above_comments(source: PySource, at: int, indent: bytes) -> int:
    """The start of the comment lines directly above a line, at the same indentation."""
    while at > 0:
        above = source.line_start(at - 1)
        if not re.match(re.escape(indent) + rb"#", source.data[above:at]):
            break
        at = above
    return at


def _at_end(place: Place, edit: model.Insert, code: list[ast.stmt]) -> list[Splice]:
    source = place.source
    if len(place.scopes) != edit.count:
        raise Miss("P071", f"{place.shown()} is defined {len(place.scopes)} times, expected {edit.count}")
    out = []
    for scope in place.scopes:
        body: list[ast.stmt] = getattr(scope, "body", [])
        if not isinstance(scope, (ast.Module, *_DEFINES)):
            raise Miss("P075", f"{place.shown()} has no body")
        if _holds(body, code):
            continue
        _check_twins(source, body, code)
        out.append(_body_splice(source, scope, body, edit, code))
    return out


def _body_splice(
    source: PySource, scope: ast.AST, body: list[ast.stmt], edit: model.Insert, code: list[ast.stmt]
) -> Splice:
    if not body:
        return Splice(len(source.data), len(source.data), reindented(edit.code, b"", source.newline))
    indent = source.indent(body[0])
    if indent is None:
        raise Miss("P075", f"the body at line {body[0].lineno} of {source.path} shares its line")
    gap = b""
    if isinstance(code[0] if edit.at == "end" else code[-1], _DEFINES) or (
        edit.at == "end" and isinstance(body[-1], _DEFINES)
    ):
        gap = source.newline * (2 if isinstance(scope, ast.Module) else 1)
    text = reindented(edit.code, indent, source.newline)
    if edit.at == "end":
        return _after(source, source.line_end(source.span(body[-1])[1]), gap + text)
    skip = 0
    while skip < len(body) and _preamble(body[skip], skip):
        skip += 1
    if skip == 0:
        at = _above_comments(source, source.line_start(source.statement_start(body[0])), indent)
        if isinstance(scope, ast.Module):  # the first comments are those of the file
            at = source.line_start(source.statement_start(body[0]))
        return Splice(at, at, text + gap)
    return _after(source, source.line_end(source.span(body[skip - 1])[1]), gap + text)


def _preamble(node: ast.stmt, index: int) -> bool:
    """A docstring, or an import that has to be first."""
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
        return index == 0 and isinstance(node.value.value, str)
    return isinstance(node, ast.ImportFrom) and node.module == "__future__"


def replace(place: Place, edit: model.Replace) -> list[Splice]:
    """One expression or simple statement for another, at every match that is not part of a new one."""
    source = place.source
    done = inside(place, every(place, edit.with_), edit.within) if _pattern(edit.with_) else []
    new = {id(found.node) for found in done}
    todo = []
    for found in inside(place, every(place, edit.find), edit.within):
        if id(found.node) in new or any(id(up) in new for up in ancestors(source, found.node)):
            continue
        todo.append(found)
    if len(todo) + len(done) != edit.count and len(todo) != edit.count:
        raise miscounted(place, edit.find, todo, edit.within, edit.count)
    if not todo:
        return []
    return [_replaced(source, found, edit.with_) for found in todo]


def _pattern(text: str) -> bool:
    try:
        shape(text)
    except ValueError:
        return False
    return True


def _replaced(source: PySource, found: Found, text: str) -> Splice:
    node = found.node
    start, end = source.span(node)
    new = substituted(text, found.holes)
    if isinstance(node, ast.expr):
        value = expression(new)
        loose = isinstance(
            value,
            (
                ast.BoolOp,
                ast.BinOp,
                ast.UnaryOp,
                ast.Compare,
                ast.IfExp,
                ast.Lambda,
                ast.NamedExpr,
                ast.Await,
            ),
        )
        parent = source.parents[node]
        new = new.strip()
        if loose and not _plain_place(node, parent) and not _bracketed(new):
            new = f"({new})"
        return Splice(start, end, new.encode())
    indent = source.indent(node)
    if not isinstance(node, ast.stmt) or hasattr(node, "body") or indent is None:
        raise Miss("P075", f"line {node.lineno} of {source.path} is no simple statement on its own line")  # type: ignore[attr-defined]
    body = reindented(dedented(new), indent, source.newline)
    return Splice(start, end, body[len(indent) :].rstrip(b"\r\n"))


def _bracketed(text: str) -> bool:
    try:
        node = pytext.parse_expression(text)
    except SyntaxError:
        return False
    return text.startswith("(") and node.col_offset > 0 and (node.end_col_offset or 0) < len(text.encode())


def _plain_place(node: ast.expr, parent: ast.AST) -> bool:
    """Whether any expression may stand there without brackets."""
    if isinstance(
        parent, (ast.If, ast.While, ast.Assert, ast.Return, ast.Assign, ast.AnnAssign, ast.keyword)
    ):
        return True
    if isinstance(parent, (ast.List, ast.Set, ast.Dict, ast.Expr, ast.AugAssign, ast.arguments)):
        return True
    return isinstance(parent, ast.Call) and node in parent.args


def add_import(place: Place, edit: model.AddImport) -> list[Splice]:
    """An import at the top of a module, or of a function."""
    source = place.source
    wanted = statements(edit.import_)[0]
    assert isinstance(wanted, (ast.Import, ast.ImportFrom))
    if len(place.scopes) != 1:
        raise Miss("P071", f"{place.shown()} is defined {len(place.scopes)} times")
    scope = place.scopes[0]
    body: list[ast.stmt] = getattr(scope, "body", [])
    bound = {name: node for node in body for name in _bound(node)}
    missing: list[ast.alias] = []
    for alias in wanted.names:
        name = alias.asname or (
            alias.name if isinstance(wanted, ast.ImportFrom) else alias.name.split(".")[0]
        )
        node = bound.get(name)
        if node is not None and _brings(node, wanted, alias):
            continue
        if node is not None and not (isinstance(wanted, ast.Import) and isinstance(node, ast.Import)):
            raise Miss(
                "P077",
                f"{name} is something else in {place.shown()}",
                [f"line {node.lineno} `{source.shown(node)}`"],
            )
        missing.append(alias)
    if not missing:
        return []
    if isinstance(wanted, ast.ImportFrom):
        joined = _into_existing(source, body, wanted, missing)
        if joined:
            return joined
        text = f"from {'.' * wanted.level}{wanted.module or ''} import {', '.join(map(ast.unparse, missing))}"
    else:
        text = f"import {', '.join(map(ast.unparse, missing))}"
    return [_new_import(source, scope, body, wanted, text)]


def _bound(node: ast.stmt) -> list[str]:
    if isinstance(node, ast.Import):
        return [alias.asname or alias.name.split(".")[0] for alias in node.names]
    if isinstance(node, ast.ImportFrom):
        return [alias.asname or alias.name for alias in node.names]
    if isinstance(node, _DEFINES):
        return [node.name]
    if isinstance(node, (ast.Assign, ast.AnnAssign)):
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        return [target.id for target in targets if isinstance(target, ast.Name)]
    return []


def _brings(node: ast.stmt, wanted: ast.Import | ast.ImportFrom, alias: ast.alias) -> bool:
    if isinstance(node, ast.ImportFrom) and isinstance(wanted, ast.ImportFrom):
        if (node.module, node.level) != (wanted.module, wanted.level):
            return False
    elif not (isinstance(node, ast.Import) and isinstance(wanted, ast.Import)):
        return False
    return any((each.name, each.asname) == (alias.name, alias.asname) for each in node.names)


def _into_existing(
    source: PySource, body: list[ast.stmt], wanted: ast.ImportFrom, missing: list[ast.alias]
) -> list[Splice]:
    """The names put into an import from the same module, in order where that one is in order."""
    for node in body:
        if not isinstance(node, ast.ImportFrom) or (node.module, node.level) != (wanted.module, wanted.level):
            continue
        if node.names[0].name == "*" or len(missing) != 1:
            continue
        start, end = source.span(node)
        text = source.data[start:end]
        if not text.endswith(b")") and b"\\" in text:
            continue
        spans = [source.span(alias) for alias in node.names]
        names = [alias.name for alias in node.names]
        new = missing[0]
        index = len(names)
        for order in (str, str.lower, _case_order):
            keyed = [order(name) for name in names]
            if keyed == sorted(keyed):
                index = sum(key <= order(new.name) for key in keyed)
                break
        close = end - 1 if text.endswith(b")") else end
        opening = source.data.index(b"(", start) + 1 if text.endswith(b")") else spans[0][0]
        return insert_item(source, opening, close, spans, index, [ast.unparse(new).encode()])
    return []


def _case_order(name: str) -> str:
    """As isort puts names: constants, classes, functions."""
    rank = "0" if name.isupper() else "1" if name[:1].isupper() else "2"
    return rank + name.lower()


def _new_import(
    source: PySource,
    scope: ast.AST,
    body: list[ast.stmt],
    wanted: ast.Import | ast.ImportFrom,
    text: str,
) -> Splice:
    imports: list[ast.stmt] = []
    for node in body:
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            imports.append(node)
        elif isinstance(node, _DEFINES):
            break
        elif imports and isinstance(scope, _DEFINES):
            break
    plain = [node for node in imports if source.indent(node) is not None and not _shares(source, node)]
    future = [node for node in plain if _preamble(node, 1)]
    if isinstance(wanted, ast.ImportFrom) and wanted.module == "__future__":
        anchor = future[-1] if future else None
    else:
        anchor = _import_anchor(plain, wanted)
    if anchor is not None:
        indent = source.indent(anchor) or b""
        line = indent + text.encode() + source.newline
        if _standard(anchor) and not _standard(wanted):
            line = source.newline + line  # another group than the one above
        return _after(source, source.line_end(source.span(anchor)[1]), line)
    if not body:
        return Splice(len(source.data), len(source.data), text.encode() + source.newline)
    edit = model.Insert(in_="-", at="start", code=text)
    return _body_splice(source, scope, body, edit, statements(text))


def _shares(source: PySource, node: ast.stmt) -> bool:
    end = source.span(node)[1]
    rest = source.data[end : source.line_end(end)].strip()
    return bool(rest) and not rest.startswith(b"#")


def _standard(node: ast.stmt) -> bool:
    """Whether an import is of Python's own library, which has a group of its own."""
    if isinstance(node, ast.ImportFrom):
        return not node.level and (node.module or "").partition(".")[0] in sys.stdlib_module_names
    return isinstance(node, ast.Import) and node.names[0].name.partition(".")[0] in sys.stdlib_module_names


def _import_anchor(imports: list[ast.stmt], wanted: ast.Import | ast.ImportFrom) -> ast.stmt | None:
    """After which import a new one goes: the last of the same package that sorts before it, else the last."""

    def key(node: ast.stmt) -> tuple[int, str]:
        if isinstance(node, ast.ImportFrom):
            return (1, "." * node.level + (node.module or ""))
        assert isinstance(node, ast.Import)
        return (0, node.names[0].name)

    if not imports:
        return None
    kind, name = key(wanted)
    alike = [n for n in imports if key(n)[0] == kind and key(n)[1].split(".")[0] == name.split(".")[0]]
    before = [node for node in alike if key(node)[1] <= name]
    if before:
        return before[-1]
    if kind == 0:
        plain = [node for node in imports if key(node)[0] == 0 and key(node)[1] <= name]
        if plain:
            return plain[-1]
    return imports[-1]


def expose(place: Place, edit: model.AddImport) -> list[Splice]:
    """An import among those through which a module passes names of its package on, in whichever block."""
    wanted = statements(edit.import_)[0]
    assert isinstance(wanted, ast.ImportFrom)
    top = str(wanted.module).partition(".")[0]
    found = [node for node in ast.walk(place.source.tree) if isinstance(node, ast.ImportFrom)]
    known = {(node.module, alias.name) for node in found for alias in node.names}
    if all((wanted.module, alias.name) in known for alias in wanted.names):
        return []
    home = [node for node in found if str(node.module).partition(".")[0] == top and node.names[0].name != "*"]
    if not home:
        return add_import(place, edit)
    blocks = [place.source.block_of(node)[0] for node in home]
    most = max(blocks, key=lambda block: sum(other is block for other in blocks))
    missing = [alias for alias in wanted.names if (wanted.module, alias.name) not in known]
    joined = _into_existing(place.source, most, wanted, missing)
    if joined:
        return joined
    last = max((node for node in home if node in most), key=lambda node: node.lineno)
    return [_beside(place.source, last, edit.import_, before=False)]


def declare_flag(place: Place, edit: model.DeclareFlag) -> list[Splice]:
    """One more flag after the last of a class of flags."""
    source = place.source
    if len(place.scopes) != 1 or not isinstance(place.scopes[0], ast.ClassDef):
        raise Miss("P075", f"{place.shown()} is no class")
    value = expression(edit.as_)
    last: ast.stmt | None = None
    for node in place.scopes[0].body:
        if not isinstance(node, (ast.Assign, ast.AnnAssign)) or node.value is None:
            continue
        if edit.name in _bound(node):
            if same(node.value, value):
                return []
            raise Miss(
                "P077",
                f"{edit.name} is declared as `{source.shown(node.value)}`",
                [f"{source.path}:{node.lineno}"],
            )
        if isinstance(node.value, ast.Call):
            last = node
    if last is None:
        raise Miss("P075", f"{place.shown()} holds no flags")
    return [_beside(source, last, f"{edit.name} = {edit.as_.strip()}", before=False)]
