"""The options that every verb shares which audits a tree, and what they come to."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from auditor.cli.command import Option
from auditor.cli.words import AssumptionType, TargetsType, VerdictsType
from auditor.errors import UserError

if TYPE_CHECKING:
    from auditor.gates.model import Report
    from auditor.trees.base import SourceTree

#: What is audited where nothing else is named.
DEFAULT_PROJECT = "sglang"

_SOURCE = "which tree (without any: the clone you are in, else the public repository)"
_QUESTION = "what is asked"
_OUTPUT = "output"


@dataclass(frozen=True)
class Request:
    """What the shared options said. ``None`` means: not given."""

    project: str
    commit: str | None
    release: str | None
    wheel: str | None
    installed: str | None  # "" where no folder was named
    repo: str | None
    worktree: str | None
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
        source("--release", metavar="VERSION", help="A release, fetched once through pip into the cache."),
        source("--wheel", metavar="FILE", help="A wheel file."),
        source(
            "--installed",
            is_flag=False,
            flag_value="",
            metavar="[DIR]",
            help="The installed copy, or the one in this environment's folder; never imported.",
        ),
        source(
            "--repo", metavar="PATH|URL", help="The repository of --commit; a URL is cloned into the cache."
        ),
        source(
            "--worktree",
            is_flag=False,
            flag_value=".",
            metavar="[DIR]",
            help="A working tree as it lies there, uncommitted changes included.",
        ),
        source("--allow-fetch", is_flag=True, help="Let a partial clone fetch the objects it lacks."),
        question(
            "--target",
            "targets",
            type=TargetsType(),
            default=targets,
            show_default=True,
            metavar="LIST",
            help="GPU targets, or all; see `audit targets`.",
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
            help="A fact: cuda=12.8, dep.deep_gemm=absent, env.X=1, arg.Y=auto.",
        ),
        question(
            "--defaults", is_flag=True, help="Take unset arguments and environment as a fresh start does."
        ),
        output(
            "--format",
            type=click.Choice(formats),
            default=formats[0],
            show_default=True,
            help="How to print it.",
        ),
        output("--output", metavar="FILE", help="Write there instead of stdout; whole or not at all."),
        output("--color", type=click.Choice(("auto", "always", "never")), default="auto", help="Colour."),
        output("-v", "--verbose", count=True, help="More: chains and arms; twice for everything."),
        output("-q", "--quiet", is_flag=True, help="Findings only, no chatter."),
        output("--no-cache", is_flag=True, help="Neither read nor write cached facts."),
    ]
    if fail_on:
        verdicts = output(
            "--fail-on",
            type=VerdictsType(),
            multiple=True,
            metavar="VERDICT",
            help="Exit 1 if a target gets this verdict; repeat it, or give a comma list.",
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
            request = Request(
                assumptions=assumptions,
                fail_on=tuple(dict.fromkeys(verdict for group in fail for verdict in group)),
                reference=words.pop("reference")[0],
                use_cache=not words.pop("no_cache"),
                **{name: words.pop(name) for name in _PLAIN},
            )
            _one_source(request)
            return function(request=request, **words)

        for option in reversed(_options(targets, fail_on, formats)):
            wrapper = option(wrapper)
        return wrapper

    return decorate


_PLAIN = (
    "project", "commit", "release", "wheel", "installed", "repo", "worktree", "allow_fetch", "targets",
    "defaults", "format", "verbose", "quiet", "color", "output",
)  # fmt: skip


def _assumptions(pairs: tuple[tuple[str, str], ...]) -> dict[str, str]:
    out: dict[str, str] = {}
    for key, value in pairs:
        if out.get(key, value) != value:
            fact = f"two values for the assumption {key!r}: {out[key]!r} and {value!r}"
            raise UserError("U007", fact, hints=[f"--assume {key}={value}"])
        out[key] = value
    return dict(sorted(out.items()))


def _one_source(request: Request) -> None:
    given = [
        name
        for name in ("commit", "release", "wheel", "installed", "worktree")
        if getattr(request, name) is not None
    ]
    if request.repo is not None and given and given != ["commit"]:
        given.append("repo")
    if len(given) > 1:
        words = " and ".join(f"--{name}" for name in given)
        raise UserError(
            "U005", f"one tree at a time: {words} name different ones", hints=[f"keep --{given[0]} only"]
        )


@contextmanager
def opened(request: Request) -> Iterator[SourceTree]:
    """The tree that the options name. UserError T0nn where there is none."""
    from auditor.cli.progress import Progress
    from auditor.trees.open import TreeSpec, open_tree

    spec = TreeSpec(
        project=request.project,
        commit=request.commit,
        release=request.release,
        wheel=request.wheel,
        installed=request.installed,
        repo=request.repo,
        worktree=request.worktree,
        allow_fetch=request.allow_fetch,
    )
    with Progress(request.quiet) as progress:
        tree = open_tree(spec, progress=progress)
    try:
        yield tree
    finally:
        close = getattr(tree, "close", None)
        if close is not None:
            close()


def audited(tree: SourceTree, request: Request, targets: tuple[str, ...] | None = None) -> Report:
    """The audit of ``tree`` as the options ask for it; ``targets`` overrides theirs."""
    from auditor.cli.progress import Progress
    from auditor.gates.audit import AuditOptions, audit

    options = AuditOptions(
        targets=targets or request.targets,
        reference=request.reference,
        assumptions=request.assumptions,
        defaults=request.defaults,
        use_cache=request.use_cache,
        project=request.project,
    )
    with Progress(request.quiet) as progress:
        return audit(tree, options, progress=progress)
