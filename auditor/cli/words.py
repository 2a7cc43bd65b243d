"""Types of words on the command line, with their shell completion. Nothing here needs a tree."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import click
from click.shell_completion import CompletionItem as Item

from auditor.cli.request import assumption_value, targets_value, verdicts_value
from auditor.data import data_root
from auditor.errors import UserError

#: Families of assumptions that can be completed; the names behind them depend on the tree.
ASSUMPTIONS = ("arg.", "cmake.", "cuda=", "dep.", "env.", "machine=", "model=")


def _starting(words: Iterable[str], incomplete: str) -> list[Item]:
    return [Item(word) for word in words if word.startswith(incomplete)]


def _after_comma(words: Iterable[str], incomplete: str) -> list[Item]:
    """Completions of the last word of a comma list; words already there are not offered again."""
    before, comma, last = incomplete.rpartition(",")
    used = set(before.split(","))
    return [Item(before + comma + word) for word in words if word.startswith(last) and word not in used]


class TargetsType(click.ParamType):
    """A comma list of GPU targets, or ``all``; becomes a tuple of names. ``one`` allows a single one."""

    name = "targets"

    def __init__(self, one: bool = False) -> None:
        self.one = one

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str, ...]:
        """Names as :func:`auditor.arch.parse_targets` gives them. UserError E001 for an unknown one."""
        if isinstance(value, tuple):
            return value
        return targets_value(value, (param.opts[0] if param else "--against") if self.one else None)

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[Item]:
        """Known targets, and ``all``."""
        from auditor.arch import load_targets

        words = [*load_targets(), *(() if self.one else ("all",))]
        return _starting(words, incomplete) if self.one else _after_comma(words, incomplete)


class VerdictsType(click.ParamType):
    """A comma list of verdicts; becomes a tuple."""

    name = "verdicts"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str, ...]:
        """The names, checked. UserError U006 for an unknown one."""
        return value if isinstance(value, tuple) else verdicts_value(value)

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[Item]:
        """The verdicts, worst first."""
        from auditor.gates.model import VERDICTS

        return _after_comma(VERDICTS, incomplete)


class AssumptionType(click.ParamType):
    """``KEY=VALUE``; becomes a pair. What a key means is the evaluator's business."""

    name = "assumption"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str, str]:
        """Key and value, without surrounding blanks. UserError U007 for a key or value nobody asks for."""
        return value if isinstance(value, tuple) else assumption_value(value)

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[Item]:
        """The families of keys."""
        return _starting(ASSUMPTIONS, incomplete)


class QueryType(click.ParamType):
    """The id of a query: its path below ``queries/`` without the ending."""

    name = "query"

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[Item]:
        """The shipped queries, from the file names alone."""
        return _starting(query_ids(), incomplete)


def query_ids() -> tuple[str, ...]:
    """Ids of the shipped queries, sorted, without reading one of them."""
    top = os.path.join(data_root(), "queries")
    found = []
    for folder, folders, names in os.walk(top):
        folders[:] = sorted(name for name in folders if not (folder == top and name == "profiles"))
        base = os.path.relpath(folder, top).replace(os.sep, "/")
        prefix = "" if base == "." else base + "/"
        found += [prefix + name[:-5] for name in names if name.endswith(".yaml") and prefix]
    return tuple(sorted(found))


class PatchsetType(click.ParamType):
    """The name of a patchset, or a folder that is one."""

    name = "patchset"

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[Item]:
        """Patchsets that are here and those that come with the tool."""
        from auditor.patching.sets.patchset import list_patchsets

        return _starting((name for name, _ in list_patchsets()), incomplete)


class PatchType(click.ParamType):
    """The name of a patch of the patchset that stands before it."""

    name = "patch"

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[Item]:
        """The patches of that patchset, in its order, without those that are typed already."""
        from auditor.patching.sets.patchset import find_patchset, load_outline

        folder = ctx.params.get("folder")
        where = Path(folder) if folder else None
        try:
            found = load_outline(find_patchset(ctx.params["patchset"], where), where)
        except (KeyError, TypeError, UserError):
            return []
        given = ctx.params.get(param.name or "") or ()
        typed = {given} if isinstance(given, str) else set(given)
        return _starting((name for name in found.file.order if name not in typed), incomplete)


class EditType(click.ParamType):
    """A kind of structural edit."""

    name = "edit"

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[Item]:
        """All kinds."""
        from auditor.patching.edits.model import KINDS

        return _starting(KINDS, incomplete)
