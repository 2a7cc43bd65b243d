"""Python text of others as syntax trees. What cannot be one is a ``SyntaxError``, of whatever kind.

``ast.parse`` has five ways to refuse: syntax, NUL, numbers with thousands of digits, and nesting that
exhausts the parser's stack or Python's own. Numbers that it takes and nobody can print are refused as well.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import ast

#: Decimal ones of that length are refused by the parser; 3,500 hexadecimal digits are 4,214 decimal ones.
_GIANT = re.compile(r"0[xXoObB][0-9a-fA-F_]{3500,}")
_GIANT_BYTES = re.compile(rb"0[xXoObB][0-9a-fA-F_]{3500,}")


def parse(source: str | bytes) -> ast.Module:
    """The statements of a text. ``SyntaxError`` for every text that has none."""
    found: ast.Module = _parsed(source, "exec")
    return found


def parse_expression(source: str | bytes) -> ast.expr:
    """The one expression of a text. ``SyntaxError`` for everything else."""
    found: ast.expr = _parsed(source, "eval").body
    return found


def no_giants(text: str | bytes) -> None:
    """``ValueError`` for a number that nobody can print: more digits than Python turns into text."""
    if len(text) > 3000:
        found = _GIANT.search(text) if isinstance(text, str) else _GIANT_BYTES.search(text)
        if found is not None:
            raise ValueError(f"a number of {len(found[0]):,} digits")


def _parsed(source: str | bytes, mode: str) -> Any:
    import ast

    try:
        no_giants(source)
        return ast.parse(source, mode=mode)
    except (RecursionError, MemoryError):
        raise SyntaxError("is nested too deeply to be parsed") from None
    except ValueError as error:
        raise SyntaxError(str(error)) from None


__all__ = ["no_giants", "parse", "parse_expression"]
