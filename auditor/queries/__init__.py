"""Queries: named patterns with a meaning, as data. See ``docs/queries.md``.

The names below are the room's door; each is imported on first use, so that a cached audit pays for none.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from auditor.queries.load import lint, lint_folder, load_files, load_queries, pack_digest
    from auditor.queries.model import Query

__all__ = ["Query", "lint", "lint_folder", "load_files", "load_queries", "pack_digest"]

_HOME = {
    "Query": "model",
    "lint": "load",
    "lint_folder": "load",
    "load_files": "load",
    "load_queries": "load",
    "pack_digest": "load",
}


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"auditor.queries.{_HOME[name]}"), name)
