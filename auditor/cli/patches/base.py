"""What the ``patches`` verbs that read or write patchset files share."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

from auditor.cli.command import Option

if TYPE_CHECKING:
    from auditor.patching.incoming.names import Layout
    from auditor.profile import Profile

BASE = "the tree (without it, patches are taken as they are written)"

FOLDER = click.option(
    "--folder", metavar="DIR", help="Where patchsets lie, if not ./patchsets or the tool's."
)


def base_options(name: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """``--base REV`` (or what ``name`` says) and ``--clone PATH``."""

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        function = click.option(
            "--clone",
            cls=Option,
            section=BASE,
            metavar="PATH",
            help="A clone of the upstream to look in; default: one nearby.",
        )(function)
        return click.option(
            name,
            "base",
            cls=Option,
            section=BASE,
            metavar="REV",
            help="A commit of a clone, a release, a wheel file or a folder; nothing is checked out.",
        )(function)

    return decorate


def layout_of(profile: Profile) -> Layout:
    """How the project lies in a repository and when installed."""
    from auditor.patching.incoming.names import Layout

    roots = tuple(root for root in profile.roots.repository if root)
    return Layout(roots, profile.package, tuple(profile.places.items()), profile.is_installed)
