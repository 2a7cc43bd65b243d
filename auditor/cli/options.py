"""The options that every verb shares which audits a tree, and what they come to."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import click

from auditor.cli.command import Option
from auditor.cli.words import AssumptionType, TargetsType, VerdictsType
from auditor.errors import UserError

#: What is audited where nothing else is named.
DEFAULT_PROJECT = "sglang"

_SOURCE = "which tree (without any: the clone you are in, else the public repository)"
_QUESTION = "what is asked"
_OUTPUT = "output"
_PATH = click.Path()
#: An option whose value may be left out.
_maybe: dict[str, Any] = {"is_flag": False, "flag_value": ""}
_URL = re.compile(r"[a-z][a-z0-9+.-]*://|[\w.-]+@[\w.-]+:")


@dataclass(frozen=True)
class Request:
    """What the shared options said. ``None`` means: not given."""

    project: str
    path: str | None  # a clone, bare repository, folder or wheel on this disk
    commit: str | None
    release: str | None
    wheel: str | None
    installed: bool | str | None  # True where no folder was named
    repo: str | None  # a URL
    worktree: bool
    allow_fetch: bool
    targets: tuple[str, ...]
    reference: str
    assumptions: dict[str, str]
    defaults: bool
    format: str
    verbose: int
    quiet: bool
    color: str
    fail_on: tuple[str, ...]
    output: str | None
    use_cache: bool


def _options(targets: str, fail_on: bool, formats: tuple[str, ...]) -> list[Callable[[Any], Any]]:
    def option(*names: str, section: str, **attrs: Any) -> Callable[[Any], Any]:
        return click.option(*names, cls=Option, section=section, **attrs)

    source = functools.partial(option, section=_SOURCE)
    question = functools.partial(option, section=_QUESTION)
    output = functools.partial(option, section=_OUTPUT)
    out = [
        source("--commit", metavar="REV", help="A commit, tag, branch or A~3; nothing is checked out."),
        source("--path", type=_PATH, help="A clone (or bare one), unpacked folder or wheel file."),
        source(
            "--worktree", metavar="[DIR]", **_maybe, help="Files as they lie in a clone, changes included."
        ),
        source("--release", metavar="VERSION", help="A release, fetched once through pip into the cache."),
        source("--wheel", type=_PATH, metavar="FILE", help="A wheel file."),
        source(
            "--installed",
            metavar="[DIR]",
            **_maybe,
            help="The installed copy, there or in DIR; not imported.",
        ),
        source("--repo", metavar="URL", help="A repository for --commit; its clone is kept cached."),
        source("--allow-fetch", is_flag=True, help="Let a partial clone fetch the objects it lacks."),
        question(
            "--target",
            "targets",
            type=TargetsType(),
            default=targets,
            show_default=True,
            metavar="LIST",
            help="GPU targets, or all.",
        ),
        question(
            "--against",
            "reference",
            type=TargetsType(one=True),
            default="sm_100",
            show_default=True,
            metavar="TARGET",
            help="The target to compare with.",
        ),
        question(
            "--assume",
            "assumptions",
            type=AssumptionType(),
            multiple=True,
            metavar="KEY=VALUE",
            help="A fact: cuda=12.8, dep.NAME=absent, env.X=1 …",
        ),
        question("--defaults", is_flag=True, help="Unset arguments and environment as on a fresh start."),
        output(
            "--format",
            type=click.Choice(formats),
            default=formats[0],
            show_default=True,
            help="How to print it.",
        ),
        output("--output", metavar="FILE", help="Write there; whole or not at all."),
        output("--color", type=click.Choice(("auto", "always", "never")), default="auto", help="Coloured?"),
        output("-v", "--verbose", count=True, help="More: chains and arms; twice for everything."),
        output("-q", "--quiet", is_flag=True, help="Findings only, no chatter."),
        output("--no-cache", is_flag=True, help="Neither read nor write cached facts."),
    ]
    if fail_on:
        verdicts = output(
            "--fail-on",
            type=VerdictsType(),
            multiple=True,
            metavar="LIST",
            help="Exit 1 if a target gets one of these.",
        )
        out.insert(-1, verdicts)
    out.append(source("--project", default=DEFAULT_PROJECT, metavar="NAME", hidden=True, help="The profile."))
    return out


def tree_options(
    *, targets: str = "sm_120", fail_on: bool = False, formats: tuple[str, ...] = ("terminal", "json")
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Decorator: adds the shared options and passes them on as one ``request``."""

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def wrapper(**words: Any) -> Any:
            assumptions = _assumptions(words.pop("assumptions"))
            fail = words.pop("fail_on", ())
            _sources(words)
            request = Request(
                assumptions=assumptions,
                fail_on=tuple(dict.fromkeys(verdict for group in fail for verdict in group)),
                reference=words.pop("reference")[0],
                use_cache=not words.pop("no_cache"),
                **{name: words.pop(name) for name in _PLAIN},
            )
            return function(request=request, **words)

        for option in reversed(_options(targets, fail_on, formats)):
            wrapper = option(wrapper)
        return wrapper

    return decorate


_PLAIN = (
    "project", "path", "commit", "release", "wheel", "installed", "repo", "worktree", "allow_fetch",
    "targets", "defaults", "format", "verbose", "quiet", "color", "output",
)  # fmt: skip


def _assumptions(pairs: tuple[tuple[str, str], ...]) -> dict[str, str]:
    out: dict[str, str] = {}
    for key, value in pairs:
        if out.get(key, value) != value:
            fact = f"two values for the assumption {key!r}: {out[key]!r} and {value!r}"
            raise UserError("U007", fact, hints=[f"--assume {key}={value}"])
        out[key] = value
    return dict(sorted(out.items()))


def _sources(words: dict[str, Any]) -> None:
    """Turn what people write into what :class:`auditor.trees.open.TreeSpec` holds, in place."""
    if words["installed"] == "":
        words["installed"] = True
    local = [words["path"]] if words["path"] is not None else []
    folder = words["worktree"]
    words["worktree"] = folder is not None
    if folder:
        local.append(folder)
    repo = words["repo"]
    if repo is not None and not _URL.match(repo):
        local.append(repo)
        words["repo"] = None
    if len(set(local)) > 1:
        fact = f"{local[0]!r} and {local[1]!r} name two different sources"
        raise UserError("U005", fact, hints=[f"--path {local[0]}"])
    words["path"] = local[0] if local else None
