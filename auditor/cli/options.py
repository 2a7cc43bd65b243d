"""The shared options of :mod:`auditor.cli.request`, as click knows them."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import click

from auditor.cli.command import Option
from auditor.cli.request import SPECS, WHICH_TREE, Request, Spec, build
from auditor.cli.words import AssumptionType, TargetsType, VerdictsType

__all__ = ["Request", "tree_options"]


def _attributes(spec: Spec) -> dict[str, Any]:
    kinds: dict[str, dict[str, Any]] = {
        "text": {},
        "file": {"type": click.Path()},
        "maybe": {"is_flag": False, "flag_value": ""},  # the value may be left out
        "flag": {"is_flag": True},
        "count": {"count": True},
        "choice": {"type": click.Choice(spec.choices)},
        "targets": {"type": TargetsType()},
        "target": {"type": TargetsType(one=True)},
        "assumption": {"type": AssumptionType()},
        "verdicts": {"type": VerdictsType()},
    }
    return kinds[spec.kind]


def _option(spec: Spec, default: Any) -> Callable[[Any], Any]:
    attrs = _attributes(spec)
    if default is not None:
        attrs["default"] = default
        attrs["show_default"] = True
    if spec.many:
        attrs["multiple"] = True
    return click.option(
        *spec.names,
        spec.dest,
        cls=Option,
        section=spec.section,
        help=spec.help,
        metavar=spec.metavar,
        hidden=spec.hidden,
        **attrs,
    )


def tree_options(
    *,
    targets: str | None = None,
    fail_on: bool = False,
    exceptions: bool = False,
    history: bool = False,
    project: str | None = None,
    formats: tuple[str, ...] = (),
    trees_are_words: bool = False,
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Decorator: adds the shared options and passes them on as one ``request``.

    ``targets`` and ``project`` replace a default; ``fail_on``, ``exceptions``, ``history``: whether these
    make sense; ``formats`` are further values of ``--format``. ``trees_are_words``: the verb's arguments say
    which trees, so options may say where these are only, not which.
    """
    defaults = {"target": targets, "project": project}

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        left_out = {"fail_on": not fail_on, "exceptions": not exceptions, "history": not history}
        left_out |= dict.fromkeys(WHICH_TREE, trees_are_words)
        specs = [spec for spec in SPECS if not left_out.get(spec.dest)]
        specs = [s._replace(choices=(*s.choices, *formats)) if s.dest == "format" else s for s in specs]

        @functools.wraps(function)
        def wrapper(**words: Any) -> Any:
            ours = dict.fromkeys(WHICH_TREE) | {spec.dest: words.pop(spec.dest) for spec in specs}
            return function(request=build(ours), **words)

        for spec in reversed(specs):
            wrapper = _option(spec, defaults.get(spec.dest) or spec.default)(wrapper)
        return wrapper

    return decorate
