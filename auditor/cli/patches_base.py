"""The options of ``patches`` verbs that may name a tree, and opening it."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import click

from auditor.cli.options import _option
from auditor.cli.request import SOURCE, SPECS, Request, build

if TYPE_CHECKING:
    from auditor.patching.incoming_names import Layout
    from auditor.trees.base import SourceTree

FOLDER = click.option(
    "--folder", metavar="DIR", help="Where patchsets lie, instead of ./patchsets and those of the tool."
)


def base_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Adds the options that name a tree and passes them on as one ``request``."""
    specs = [spec for spec in SPECS if spec.section == SOURCE]
    others = [spec for spec in SPECS if spec.section != SOURCE]

    @functools.wraps(function)
    def wrapper(**words: Any) -> Any:
        ours = {spec.dest: words.pop(spec.dest) for spec in specs}
        # What the other verbs ask for has no meaning here.
        rest: dict[str, Any] = {spec.dest: () if spec.many else None for spec in others}
        rest |= {"against": ("sm_100",), "target": (), "format": "terminal", "color": "auto", "verbose": 0}
        return function(request=build({**rest, **ours}), **words)

    for spec in reversed(specs):
        wrapper = _option(spec, spec.default)(wrapper)
    return wrapper


def is_named(request: Request) -> bool:
    """Whether the options name a tree at all."""
    named = (request.path, request.commit, request.release, request.wheel, request.repo)
    return any(word is not None for word in named) or bool(request.installed) or request.worktree


@contextmanager
def base_tree(request: Request) -> Iterator[SourceTree | None]:
    """The tree that the options name, or None where they name none."""
    from auditor.cli.source import opened

    if not is_named(request):
        yield None
        return
    with opened(request) as tree:
        yield tree


def layout_of(project: str) -> Layout:
    """How the project lies in a repository and when installed."""
    from auditor.patching.incoming_names import Layout
    from auditor.profile import load_profile

    profile = load_profile(project)
    return Layout(tuple(root for root in profile.roots.repository if root), profile.package)
