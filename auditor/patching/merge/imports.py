"""Imports, merged as the sets they are: which names of which module a block imports."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import dataclass

from auditor.patching.merge.statements import Statement, Token
from auditor.patching.merge.tokens import Group, Splice, TokenMerge, norm, tree

#: Module as written (``..a.b``; "" for ``import x``), name, what it is called here ("" for the name itself).
Import = tuple[str, str, str]

_WIDTH = 88


def is_import(statement: Statement) -> bool:
    """Whether a statement is an import that names what it imports."""
    return isinstance(statement.node, (ast.Import, ast.ImportFrom)) and all(
        alias.name != "*" for alias in statement.node.names
    )


def imported(statements: Sequence[Statement]) -> dict[Import, Statement]:
    """Every import of some statements -> the statement it stands in."""
    out: dict[Import, Statement] = {}
    for statement in statements:
        node = statement.node
        if not is_import(statement) or not isinstance(node, (ast.Import, ast.ImportFrom)):
            continue
        module = "." * node.level + (node.module or "") if isinstance(node, ast.ImportFrom) else ""
        for alias in node.names:
            renamed = alias.asname if alias.asname and alias.asname != alias.name else ""
            out.setdefault((module, alias.name, renamed or ""), statement)
    return out


def bound(item: Import) -> str:
    """The name that an import binds."""
    module, name, renamed = item
    return renamed or (name if module else name.split(".")[0])


@dataclass
class ImportEdit:
    """New names for, and names to take out of, one ``from`` import of ours."""

    statement: Statement
    add: list[Import]
    remove: list[Import]

    def splices(self) -> list[Splice]:
        """The change to ours; an import that loses all its names goes."""
        statement = self.statement
        data = statement.source.data
        node = statement.node
        assert isinstance(node, (ast.Import, ast.ImportFrom))
        here = list(imported([statement]))
        left = [item for item in here if item not in self.remove]
        if not left and not self.add:
            return [Splice(statement.start, statement.end, b"")]
        items = tree(statement.tokens)
        group = items[-1] if isinstance(items[-1], Group) else None
        if group is None or b"#" not in data[group.start : group.end]:
            return [Splice(statement.start, statement.end, self._written(left))]
        merge = TokenMerge(data, data, data)
        keys = [norm(element) for element in group.elements]
        for item in self.remove:
            key = _tokens(item)
            if key in keys:
                merge.remove(group, keys.index(key))
        ordered = keys == sorted(keys) or keys == sorted(keys, key=lambda k: k[0].lower())
        for item in self.add:
            text = _text(item)
            at = len(keys)
            if ordered:
                at = sum(1 for key in keys if key < _tokens(item))
            merge.insert(group, at, [text])
        return merge.splices

    def _written(self, left: list[Import]) -> bytes:
        """The whole statement, on one line if it fits."""
        statement = self.statement
        names = left + self.add
        was = [item[1] for item in imported([statement])]
        if was == sorted(was):
            names.sort(key=lambda item: item[1])
        elif was == sorted(was, key=str.lower):
            names.sort(key=lambda item: item[1].lower())
        texts = [_text(item) for item in names]
        line = statement.source.data[statement.start : statement.end]
        indent = line[: len(line) - len(line.lstrip(b" \t"))]
        end = b"\r\n" if line.endswith(b"\r\n") else b"\n"
        if not names[0][0]:
            return indent + b"import " + b", ".join(texts) + end
        head = indent + b"from " + names[0][0].encode() + b" import "
        tail = _comment(statement)
        if b"\n" not in line.strip() and len(head) + len(b", ".join(texts)) <= _WIDTH:
            return head + b", ".join(texts) + tail + end
        body = b"".join(indent + b"    " + text + b"," + end for text in texts)
        return head + b"(" + tail + end + body + indent + b")" + end


def _comment(statement: Statement) -> bytes:
    """The comment behind a one-line import, with the blanks before it."""
    last: Token = statement.tokens[-1]
    rest = statement.source.data[last.end : statement.end].rstrip(b"\r\n")
    return rest if rest.strip() else b""


def _text(item: Import) -> bytes:
    _, name, renamed = item
    return (f"{name} as {renamed}" if renamed else name).encode()


def _tokens(item: Import) -> tuple[bytes, ...]:
    _, name, renamed = item
    return (name.encode(), b"as", renamed.encode()) if renamed else (name.encode(),)
