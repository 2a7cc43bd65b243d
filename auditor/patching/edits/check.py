"""What is wrong with the edits of a patch before any tree is seen, with the places in its file."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import Any

from auditor.errors import UserError
from auditor.patching.diffs.paths import check_path
from auditor.patching.edits import model
from auditor.patching.edits.schema import mismatches, read_schema
from auditor.patching.edits.source import call_parts, expression, statements
from auditor.queries.shape import PatternError, shape
from auditor.yamlio import Document

_PATTERNS = ("at", "before", "after", "find", "call", "within", "was", "has", "lacks")
_ONE_OF: dict[type[model.Strict], tuple[str, ...]] = {
    model.InsertArm: ("before", "after"),
    model.Insert: ("before", "after", "at"),
    model.AddMember: ("name", "call"),
    model.NativeText: ("before", "after"),
    model.Sign: ("has", "lacks", "gone"),
    model.Require: ("has", "lacks", "gone"),
}


def check_edits(edits: tuple[model.Edit, ...], document: Document, code: str = "P022") -> None:
    """UserError at the first mistake, at its line."""
    for index, edit in enumerate(edits):
        for field, fact in _edit(edit):
            raise document.error(fact, "edits", index, *field, code=code)


def check_settled(rows: tuple[model.Settled, ...], document: Document, code: str = "P022") -> None:
    """UserError at the first mistake in ``settled:``, at its line."""
    for index, row in enumerate(rows):
        for field, fact in _problems(row):
            raise document.error(fact, "settled", index, *field, code=code)


def _edit(edit: model.Edit) -> Iterator[tuple[tuple[str | int, ...], str]]:
    kinds = edit.kinds()
    if len(kinds) != 1:
        fact = f"one edit is one of {', '.join(model.KINDS)}"
        yield (), fact + (f"; this is {' and '.join(kinds)}" if kinds else "; this is none")
        return
    for field, fact in _problems(edit.body()):
        yield (kinds[0], *field), fact


def _problems(body: model.Strict) -> Iterator[tuple[tuple[str | int, ...], str]]:
    """(field, fact) of every mistake in one edit."""
    values = {spelled(name): getattr(body, name) for name in body.__struct_fields__}
    group = _ONE_OF.get(type(body))
    if group and sum(bool(values[name]) for name in group) != 1:
        yield (), f"one of {', '.join(group)} says where"
    for name, value in values.items():
        if isinstance(value, model.Strict):
            for where, fact in _problems(value):
                yield (name, *where), fact
        if isinstance(value, tuple):
            for index, item in enumerate(value):
                if isinstance(item, model.Strict):
                    for where, fact in _edit(item) if isinstance(item, model.Edit) else _problems(item):
                        yield (name, index, *where), fact
    yield from _paths(values)
    yield from _python(body, values)
    yield from _content(body, values)


def spelled(name: str) -> str:
    """A field as it is written in YAML."""
    return name.rstrip("_").replace("_", "-")


def _paths(values: dict[str, Any]) -> Iterator[tuple[tuple[str | int, ...], str]]:
    for name in ("path", "from"):
        if values.get(name):
            try:
                check_path(values[name], None)
            except UserError as error:
                yield (name,), str(error)
    where = values.get("in", "")
    if "/" in where or where.endswith(".py"):
        try:
            check_path(where.partition(":")[0], None)
        except UserError as error:
            yield ("in",), str(error)
    elif where and not all(part.isidentifier() for part in where.split(".")):
        yield ("in",), f"{where!r} is neither package.module.symbol nor path/to/file.py:symbol"


def _python(body: model.Strict, values: dict[str, Any]) -> Iterator[tuple[tuple[str | int, ...], str]]:
    if isinstance(
        body, (model.EditText, model.NativeText, model.SetKey, model.DeleteFile, model.ReplaceFile)
    ):
        return
    for name in _PATTERNS:
        text = values.get(name)
        if not isinstance(text, str) or not text or (name == "at" and isinstance(body, model.Insert)):
            continue
        if name == "was" and (text == "absent" or text.strip() == "$_"):
            continue
        try:
            shape(text)
        except PatternError as error:
            yield (name,), str(error)
    for name in _expressions(body):
        text = values.get(name)
        if isinstance(text, str) and text:
            try:
                expression(text)
            except SyntaxError as error:
                yield (name,), f"not a Python expression: {error.msg}"
    for name in ("code", "then", "import", "implementation", "fake", "wrapper"):
        if isinstance(values.get(name), str) and values[name]:
            try:
                if not statements(values[name]):
                    yield (name,), "no statement in it"
            except SyntaxError as error:
                yield (name,), f"not Python: {error.msg} (line {error.lineno})"


def _expressions(body: model.Strict) -> tuple[str, ...]:
    if isinstance(body, model.Replace):
        return ()  # may be a statement, and hold metavariables
    if isinstance(body, model.AddMember):
        return ("member", "key", "value")
    return ("with", "if", "to", "as", "when", "off")


def _content(body: model.Strict, values: dict[str, Any]) -> Iterator[tuple[tuple[str | int, ...], str]]:
    if isinstance(body, model.AddImport):
        parsed = _statements(body.import_)
        if len(parsed) != 1 or not isinstance(parsed[0], (ast.Import, ast.ImportFrom)):
            yield ("import",), "not one import statement"
        elif any(alias.name == "*" for alias in parsed[0].names):
            yield ("import",), "an edit names what it imports"
    elif isinstance(body, (model.Replace, model.Narrow, model.Widen)):
        yield from _changes_nothing(body)
    elif isinstance(body, (model.SetDefault, model.SetConstant, model.SetArgument)):
        if body.to.strip() == body.was.strip():
            yield ("to",), "changes nothing: `was` and `to` are the same"
    elif isinstance(body, model.SetCall):
        try:
            call_parts(body.call)
        except SyntaxError:
            yield ("call",), "a pattern of a call has the form `name(…)`"
    elif isinstance(body, model.AddMember):
        given = [name for name in ("member", "members", "key") if values[name]]
        if len(given) != 1:
            yield (), "one of member, members and key says what is added"
        if bool(body.key) != bool(body.value):
            yield (), "key and value go together"
        if body.call and not body.argument:
            yield ("call",), "argument says which one of the call"
        if body.before and body.after:
            yield (), "one of before and after says where"
        for index, text in enumerate(body.members):
            try:
                expression(text)
            except SyntaxError as error:
                yield ("members", index), f"not a Python expression: {error.msg}"
    elif isinstance(body, model.DeclareFlag):
        if not body.name.isidentifier():
            yield ("name",), f"{body.name!r} is no name"
    elif isinstance(body, model.EditText):
        yield from _text(body)
    elif isinstance(body, model.AddToList):
        if (body.member is None) == (not body.members):
            yield (), "one of member and members says what is added"
    elif isinstance(body, model.RegisterKernel):
        yield from _kernel(body)
    elif isinstance(body, model.Variant):
        if not body.edits and not body.when:
            yield (), "a variant without edits says by `when` in which form nothing is to be done"
        if any(edit.one_of is not None for edit in body.edits):
            yield ("edits",), "a variant holds plain edits, no further variants"


def _statements(text: str) -> list[ast.stmt]:
    try:
        return statements(text)
    except SyntaxError:
        return []


def _changes_nothing(
    body: model.Replace | model.Narrow | model.Widen,
) -> Iterator[tuple[tuple[str | int, ...], str]]:
    at = body.find if isinstance(body, model.Replace) else body.at
    if " ".join(at.split()) == " ".join(body.with_.split()):
        yield ("with",), "changes nothing: it is the pattern itself"
    if isinstance(body, model.Replace):
        try:
            new = shape(body.with_)  # so that the edit can find itself done
        except PatternError as error:
            yield ("with",), str(error)
            return
        try:
            unknown = new.holes - shape(at).holes
        except PatternError:
            return
        for name in sorted(unknown):
            yield ("with",), f"${name} is not in `find`"


def _text(body: model.EditText) -> Iterator[tuple[tuple[str | int, ...], str]]:
    anchors = [bool(body.find), bool(body.before), bool(body.after)]
    if sum(anchors) != 1:
        yield (), "one of find, before and after says where"
    elif body.find and (body.with_ is None or body.insert):
        yield (), "find goes with `with`"
    elif not body.find and (body.with_ is not None or not body.insert):
        yield (), "before and after go with `insert`"
    elif body.find and body.find == body.with_:
        yield ("with",), "changes nothing: it is what `find` has"


def _kernel(body: model.RegisterKernel) -> Iterator[tuple[tuple[str | int, ...], str]]:
    if body.native is None:
        for name in ("schema", "implementation", "fake"):
            if not getattr(body, name):
                yield (), f"a custom operator needs `{name}`"
    elif not body.wrapper and not body.fake:
        yield (), "a native operator needs `wrapper` or `fake` in Python"
    elif not body.native.definition.insert and not body.schema:
        yield ("schema",), "a definition is written from the schema; give it, or `insert`"
    if body.native is not None and body.native.header is not None and not body.native.header.insert:
        yield ("native", "header"), "a declaration in C++ has to be given: `insert`"
    if body.through == "project" and (body.native is not None or body.device != "CUDA"):
        yield ("through",), "the project's function registers Python functions for CUDA"
    if body.expose and not body.wrapper:
        yield ("expose",), "only `wrapper` can be exposed"
    if body.jit is not None:
        yield from _jit(body.jit)
    if '"' in body.schema or "\\" in body.schema or "\n" in body.schema:
        yield ("schema",), "a schema is one line without quotes"
    elif body.schema:
        yield from _signatures(body)
    yield from _sites(body)


def _sites(body: model.RegisterKernel) -> Iterator[tuple[tuple[str | int, ...], str]]:
    for index, site in enumerate(body.dispatch):
        here = f"{site.in_}.".startswith(f"{body.in_}.")
        module = body.in_.partition(":")[0].removesuffix(".py").replace("/", ".").rpartition(".")[2]
        if not here and not any(module in line for line in site.imports):
            fact = f"the operator is there once {body.in_} is imported: list that in `imports`"
            yield ("dispatch", index), fact
        names = [body.operator.partition("::")[2]]
        texts = (body.implementation, body.wrapper)
        names += [node.name for text in texts for node in _functions(text)]
        names += [text for text in texts if text.isidentifier()]
        names += [name for line in site.imports if module in line for name in _imported(line)]
        used = {node.id for node in ast.walk(_parsed(site.code)) if isinstance(node, ast.Name)}
        used |= {node.attr for node in ast.walk(_parsed(site.code)) if isinstance(node, ast.Attribute)}
        if not used & set(names):
            yield ("dispatch", index, "code"), f"it uses none of {', '.join(dict.fromkeys(names))}"


def _imported(line: str) -> list[str]:
    nodes = [node for node in _statements(line) if isinstance(node, (ast.Import, ast.ImportFrom))]
    return [(alias.asname or alias.name).partition(".")[0] for node in nodes for alias in node.names]


def _signatures(body: model.RegisterKernel) -> Iterator[tuple[tuple[str | int, ...], str]]:
    """Implementation and fake implementation take what the schema says."""
    try:
        schema = read_schema(body.schema)
    except ValueError as error:
        yield ("schema",), str(error)
        return
    for name in ("implementation", "fake"):
        if getattr(body, name).isidentifier():
            continue  # a function of the module: held against the schema where the module is
        functions = list(_functions(getattr(body, name)))
        if len(functions) == 1:
            typed = body.through == "project" and name == "implementation"
            for fact in mismatches(schema, functions[0], typed=typed):
                yield (name,), fact
        elif functions or getattr(body, name):
            yield (name,), "one function, without further statements"


def _jit(jit: model.Jit) -> Iterator[tuple[tuple[str | int, ...], str]]:
    try:
        check_path(jit.source, None)
    except UserError as error:
        yield ("jit", "source"), str(error)
    if jit.suffix not in ("", "a", "f"):
        yield ("jit", "suffix"), "an architecture has the suffix a or f, or none"
    if '"' in jit.function or "\n" in jit.function:
        yield ("jit", "function"), "the name of a C++ function, without quotes"
    if jit.arguments:
        try:
            call = expression(f"f({jit.arguments})")
        except SyntaxError as error:
            yield ("jit", "arguments"), f"not arguments of a call: {error.msg}"
            return
        if isinstance(call, ast.Call) and call.args:
            yield ("jit", "arguments"), "further arguments are given by name"


def _functions(text: str) -> Iterator[ast.FunctionDef]:
    for node in _statements(text) if text else ():
        if isinstance(node, ast.FunctionDef):
            yield node


def _parsed(text: str) -> ast.Module:
    return ast.Module(body=_statements(text), type_ignores=[])
