"""Statements: blocks, assignments and what each kind of statement is run by."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable
from typing import Any

from auditor.program.frames import Frame
from auditor.program.loops import Loops
from auditor.program.syntax import as_load, dotted, short
from auditor.program.values import (
    Function,
    Map,
    Partial,
    Seq,
    Unknown,
    V,
    all_reasons,
    unknown,
)

_SIMPLE = (ast.Assign, ast.AugAssign, ast.Expr)
_NAMES = re.compile(r"[A-Za-z_]\w*")


class Flow(Loops):
    """The part of the evaluator that runs statements."""

    def __init__(self) -> None:
        super().__init__()
        self._stmt: dict[type, Callable[[Any, Frame], None]] = {
            ast.Assign: self._assign_stmt,
            ast.AnnAssign: self._annassign,
            ast.AugAssign: self._augassign,
            ast.Expr: self._expr_stmt,
            ast.If: self._if,
            ast.For: self._for,
            ast.AsyncFor: self._for,
            ast.While: self._while,
            ast.Return: self._return,
            ast.Raise: self._raise,
            ast.Assert: self._assert,
            ast.Import: self._import,
            ast.ImportFrom: self._import_from,
            ast.FunctionDef: self._def,
            ast.AsyncFunctionDef: self._def,
            ast.ClassDef: self._class,
            ast.Try: self._try,
            ast.With: self._with,
            ast.AsyncWith: self._with,
            ast.Global: self._global,
            ast.Nonlocal: self._global,
            ast.Delete: self._delete,
            ast.Pass: self._pass,
            ast.Break: self._leave_loop,
            ast.Continue: self._leave_loop,
            ast.Match: self._match,
        }
        for extra in ("TryStar", "TypeAlias"):
            kind = getattr(ast, extra, None)
            if kind is not None:
                self._stmt[kind] = self._try if extra == "TryStar" else self._pass
        self._memo: dict[Any, V] = {}
        self._running: set[Any] = set()
        self._effects: dict[Any, dict[tuple[str, str], V]] = {}
        self._comebacks: dict[Any, tuple[int, int, set[int], bool]] = {}

    def block(self, body: list[ast.stmt], fr: Frame) -> None:
        """Run statements in order; dead code is still visited while something records."""
        for i, statement in enumerate(body):
            if not fr.may and fr.recorder is None:
                return
            fr.statement = (body, i)
            if fr.text is not None and isinstance(statement, _SIMPLE) and self._beside(statement, fr):
                continue
            self._stmt[type(statement)](statement, fr)

    def _beside(self, node: Any, fr: Frame) -> bool:
        """Pass over a plain statement that cannot have to do with the GPU: it calls something with
        arguments and neither its text nor its names lead to a root. What it binds is unknown."""
        value = node.value
        if isinstance(value, (ast.Await, ast.Starred)):
            value = value.value
        if not (
            (isinstance(value, ast.Call) and (value.args or value.keywords))
            or isinstance(value, (ast.Subscript, ast.BinOp, ast.ListComp, ast.DictComp))
        ):
            return False
        first, lines = fr.text  # type: ignore[misc]
        text = "\n".join(lines[node.lineno - first : (node.end_lineno or node.lineno) - first + 1])
        if self.hot_pattern().search(text) or (self._check_text and self._check_text.search(text)):
            return False
        frame: Frame | None = fr
        while frame is not None:
            if any(name in text for name in frame.marked):
                return False
            frame = frame.parent
        fr.raises += 1
        for key in [k for k in fr.env if "." in k] if fr.heads or "@" in text else ():
            if key.split(".", 1)[0] in text:
                del fr.env[key]
        for name in _NAMES.findall(text):
            given = fr.env.get(name)
            if given is not None and type(given.one) in (Seq, Map):
                self.touch_value(given, fr)  # what is called may change a container it is given
        if isinstance(node, ast.Expr):
            return True
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        for target in targets:
            name = dotted(target)
            self.assign(target, V(unknown(f"value {name or short(target, 30)}")), fr, node)
        return True

    def _pass(self, node: Any, fr: Frame) -> None:
        return

    def _global(self, node: Any, fr: Frame) -> None:
        fr.globals.update(node.names)

    def _delete(self, node: ast.Delete, fr: Frame) -> None:
        fr.fail()  # what is not there cannot be deleted
        for target in node.targets:
            name = dotted(target)
            if name:
                fr.heads.add(name.split(".", 1)[0])
                self._havoc(name, fr)
                fr.env[name] = V(unknown(f"deleted {name}"))
            elif isinstance(target, ast.Subscript):
                self.touch_value(self.ev(target.value, fr), fr)

    def _expr_stmt(self, node: ast.Expr, fr: Frame) -> None:
        if isinstance(node.value, ast.Constant):
            return
        value = self.ev(node.value, fr)
        if isinstance(value.one, Unknown) and "exit" in value.one.reasons:
            fr.thrown |= fr.may
            self._stop(fr)

    def _stop(self, fr: Frame) -> None:
        fr.may = fr.must = fr.stay = 0

    def _assign_stmt(self, node: ast.Assign, fr: Frame) -> None:
        value = self.ev(node.value, fr)
        if value.roots or fr.late:
            self.record_value("assign", node, node.value, value, fr)
        for target in node.targets:
            self.assign(target, value, fr, node)

    def _annassign(self, node: ast.AnnAssign, fr: Frame) -> None:
        if node.value is None:
            return
        value = self.ev(node.value, fr)
        if value.roots or fr.late:
            self.record_value("assign", node, node.value, value, fr)
        self.assign(node.target, value, fr, node)

    def _augassign(self, node: ast.AugAssign, fr: Frame) -> None:
        load = ast.copy_location(ast.BinOp(as_load(node.target), node.op, node.value), node)
        value = self.ev(load, fr)
        self.touch_value(self.ev(load.left, fr), fr)
        self.assign(node.target, value, fr, node)

    def assign(self, target: ast.expr, value: V, fr: Frame, node: ast.stmt | None = None) -> None:
        if isinstance(target, ast.Name):
            self._bind(target.id, value, fr, target)
        elif isinstance(target, ast.Attribute):
            key = dotted(target)
            if key is None:
                self.ev(target.value, fr)
                return
            self._havoc(key, fr)
            fr.heads.add(key.split(".", 1)[0])
            fr.env[key] = value
            if value.roots:
                fr.marked.add(key)
            if fr.this is not None and key.startswith(fr.this + ".") and key.count(".") == 1:
                self._write_field(target.attr, value, fr)
        elif isinstance(target, (ast.Tuple, ast.List)):
            if not all(isinstance(s, Seq) and len(s.items) == len(target.elts) for s in value.scalars()):
                fr.fail()  # too many or too few of them
            for i, item in enumerate(target.elts):
                if isinstance(item, ast.Starred):
                    self.assign(
                        item.value, V(Unknown(all_reasons(value) or frozenset({"unpacking"}))), fr, node
                    )
                    for rest in target.elts[i + 1 :]:
                        self.assign(
                            rest, V(Unknown(all_reasons(value) or frozenset({"unpacking"}))), fr, node
                        )
                    break
                self.assign(item, self._map(value, lambda s, i=i: self._unpacked(s, i)), fr, node)  # type: ignore[misc]
        elif isinstance(target, ast.Subscript):
            base = dotted(target.value)
            self.ev(target.slice, fr)
            self.touch_value(self.ev(target.value, fr), fr)
            if base is not None and base in fr.env:
                fr.env[base] = V(unknown(f"{base} is changed in place"))
        elif isinstance(target, ast.Starred):
            self.assign(target.value, value, fr, node)

    def _bind(self, name: str, value: V, fr: Frame, node: ast.AST) -> None:
        self._havoc(name, fr)
        if name in fr.loose:
            value = V(Unknown(all_reasons(value) | {f"nonlocal {name}"}), value.roots, value.via)
        fr.env[name] = value
        if value.roots or (type(value.one) is Function and value.one.name == "<lambda>"):
            fr.marked.add(name)
        if fr.kind == "module":
            fr.module.imported.discard(name)
            line = getattr(node, "lineno", 1)
            fr.module.places.setdefault(name, (line, "constant"))
            scalar = value.one
            if isinstance(scalar, Partial) and scalar.name is None:
                scalar.name = f"{fr.module.name}.{name}"
            elif isinstance(scalar, Function) and scalar.name == "<lambda>":
                scalar.name = name
                scalar.qualname = name

    def _write_field(self, name: str, value: V, fr: Frame) -> None:
        before = fr.writes.get(name)
        if before is None or value.roots or not before.roots:
            fr.writes[name] = value  # of several arms the one that asks the GPU tells more
        if fr.fields is not None:
            fr.fields[name] = value
