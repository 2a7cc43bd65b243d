"""Click groups that import a verb's module only when that verb is typed."""

from __future__ import annotations

import importlib
from typing import Any

import click

from auditor.cli.table import AUDIT, PATCHES, PROJECT, UMBRELLA, Program, Verb, help_text
from auditor.errors import UserError


class LazyGroup(click.Group):
    """Verbs come from a :class:`Program` table; ``--help`` prints the same page as the fast path does."""

    def __init__(self, program: Program, **attrs: Any) -> None:
        super().__init__(name=program.name, context_settings={"help_option_names": ["-h", "--help"]}, **attrs)
        self.program = program

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Names for shell completion: projects first, then verbs."""
        return [*self.program.project_names(), *self.program.verbs]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command of a verb or of a project; None for an unknown word."""
        if cmd_name in self.program.verbs:
            return _load(self.program.verbs[cmd_name])
        if cmd_name in self.program.project_names():
            make = _load(PROJECT)
            assert callable(make)
            command = make(cmd_name)
            assert isinstance(command, click.Command)
            return command
        return None

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """As click does, but an unknown word is answered with the nearest known one."""
        word = args[0]
        if ctx.resilient_parsing or word.startswith("-") or self.get_command(ctx, word) is not None:
            return super().resolve_command(ctx, args)
        kind = "project or verb" if self.program.projects else "verb"
        raise unknown_verb(ctx, word, self.list_commands(ctx), kind)

    def get_help(self, ctx: click.Context) -> str:
        """The page of the whole program."""
        return help_text(self.program, ctx.command_path).rstrip("\n")

    def shell_complete(
        self, ctx: click.Context, incomplete: str
    ) -> list[click.shell_completion.CompletionItem]:
        """Verbs with the question each answers; no verb's module is imported for that."""
        rows = {name: PROJECT.question for name in self.program.project_names()}
        rows |= {name: verb.question for name, verb in self.program.verbs.items()}
        if incomplete.startswith("-"):
            return click.Command.shell_complete(self, ctx, incomplete)
        return [
            click.shell_completion.CompletionItem(name, help=text)
            for name, text in rows.items()
            if name.startswith(incomplete)
        ]


def unknown_verb(ctx: click.Context, word: str, known: list[str], kind: str = "verb") -> UserError:
    """The error for a word that is no verb, with the nearest verb as something to type."""
    import difflib

    near = difflib.get_close_matches(word, known, n=1, cutoff=0.5)
    hints = [*(f"{ctx.command_path} {name}" for name in near), f"{ctx.command_path} --help"]
    if word in ("help", "version"):
        hints = [f"{ctx.command_path} --{word}"]
    return UserError("U002", f"no such {kind}: {word!r}", hints=hints)


def _load(verb: Verb) -> Any:
    module, _, attribute = verb.where.partition(":")
    return getattr(importlib.import_module(module), attribute)


def _version(ctx: click.Context, _param: click.Parameter, value: bool) -> None:
    if value and not ctx.resilient_parsing:
        from auditor import __version__

        click.echo(f"sglang-auditor {__version__}")
        ctx.exit()


def _group(program: Program) -> LazyGroup:
    version = click.Option(
        ["-V", "--version"],
        is_flag=True,
        expose_value=False,
        is_eager=True,
        callback=_version,
        help="The version",
    )
    return LazyGroup(program, params=[version], no_args_is_help=True)


audit = _group(AUDIT)
patches = _group(PATCHES)
umbrella = _group(UMBRELLA)


def group_of(program: Program) -> LazyGroup:
    """The click group of one of the programs in :mod:`auditor.cli.table`."""
    return {AUDIT.name: audit, PATCHES.name: patches, UMBRELLA.name: umbrella}[program.name]
