"""Runs a click command under the rules of :mod:`auditor.cli.run`."""

from __future__ import annotations

import os
from collections.abc import Sequence

import click

from auditor.cli.request import WHICH_TREE
from auditor.cli.run import guarded
from auditor.errors import EXIT_INPUT, EXIT_INTERNAL, EXIT_OK, UserError


def run(command: click.Command, name: str, arguments: Sequence[str]) -> int:
    """Run ``command`` on ``arguments`` and return the exit code; see :func:`auditor.cli.run.guarded`."""
    completion = f"_{name}_COMPLETE".replace("-", "_").upper()
    if os.environ.get(completion):
        return _as_code(command, name, arguments, completion)
    return guarded(lambda: _invoke(command, name, list(arguments)), arguments)


def _invoke(command: click.Command, name: str, arguments: list[str]) -> int:
    try:
        with command.make_context(name, arguments) as ctx:
            result = command.invoke(ctx)
            return result if isinstance(result, int) and not isinstance(result, bool) else EXIT_OK
    except click.exceptions.NoArgsIsHelpError as error:
        click.echo(error.ctx.get_help() if error.ctx else "", err=True)
        return EXIT_INPUT
    except click.exceptions.Exit as error:
        return error.exit_code
    except click.UsageError as error:
        raise _usage(error, name) from error
    except click.ClickException as error:
        raise UserError("U001", error.format_message()) from error
    except click.Abort:
        raise KeyboardInterrupt from None


def _as_code(command: click.Command, name: str, arguments: Sequence[str], completion: str) -> int:
    """Answer a request of the shell's completion. It must never break a prompt, so failures are silent."""
    try:
        command.main(list(arguments), prog_name=name, complete_var=completion)
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else EXIT_OK
    except Exception:
        return EXIT_INTERNAL
    return EXIT_OK


def _usage(error: click.UsageError, name: str) -> UserError:
    path = error.ctx.command_path if error.ctx else name
    fact = error.format_message().rstrip(".")
    hints = [f"{path} --help"]
    if isinstance(error, click.NoSuchOption):
        fact = f"no such option: {error.option_name}"
        hints = [*_near_options(error, path), *hints]
    elif isinstance(error, click.MissingParameter) and isinstance(error.param, click.Option):
        value = error.param.metavar or "VALUE"
        hints = [f"{path} {error.param.opts[-1]} {value}", *hints]
    elif isinstance(error, click.MissingParameter) and error.ctx is not None:
        hints = [*getattr(error.ctx.command, "examples", ())[:1], *hints]
    return UserError("U001", fact[:1].lower() + fact[1:], hints=list(dict.fromkeys(hints)))


def _near_options(error: click.NoSuchOption, path: str) -> list[str]:
    """What was probably meant by an unknown option: the nearest of the verb, the verbs that have it,
    or an argument of the audited server, which is given as an assumption."""
    import difflib

    word = error.option_name.lstrip("-")
    if error.ctx is not None and word in _formats(error.ctx.command):
        to = " --output FILE" if any("--output" in param.opts for param in error.ctx.command.params) else ""
        return [f"{path} --format {word}{to}"]
    if error.ctx is not None and word in WHICH_TREE and _arguments(error.ctx.command):
        return [f"{path} {_arguments(error.ctx.command)}        # these words name the trees"]
    own = {option.lstrip("-"): option for option in error.possibilities or ()}
    near = difflib.get_close_matches(word, own, n=1, cutoff=0.6)
    if near:
        return [f"{path} {own[near[0]]}"]
    ctx = error.ctx
    if ctx is None or len(word) < 2:
        return []
    above = ctx if isinstance(ctx.command, click.Group) else ctx.parent
    while above is not None and error.option_name.startswith("--"):
        if any(f"--{word}" in param.opts for param in above.command.params):
            return [f"{above.command_path} --{word}"]
        having = _verbs_with(above, f"--{word}", ctx.command.name)
        if having:
            return [f"{verb} --{word}" for verb in having[:2]]
        above = above.parent
    if any("--assume" in param.opts for param in ctx.command.params):
        return [f"{path} --assume arg.{word.replace('-', '_')}=VALUE        # an argument of the server"]
    return []


def _arguments(command: click.Command) -> str:
    """What a verb's arguments are called, as its usage shows them; nothing where one option names a tree."""
    if any("--path" in param.opts for param in command.params):
        return " ".join(
            param.make_metavar(click.Context(command))
            for param in command.params
            if isinstance(param, click.Argument)
        )
    return ""


def _formats(command: click.Command) -> tuple[str, ...]:
    """What a verb can print, as ``--format`` takes it; nothing where there is no such option."""
    for param in command.params:
        if "--format" in param.opts and isinstance(param.type, click.Choice):
            return tuple(str(choice) for choice in param.type.choices)
    return ()


def _verbs_with(top: click.Context, option: str, but: str | None) -> list[str]:
    """The verbs of a program that have an option, as they are typed."""
    assert isinstance(top.command, click.Group)
    found = []
    for name in top.command.list_commands(top):
        command = top.command.get_command(top, name)
        if name != but and command is not None and any(option in param.opts for param in command.params):
            found.append(f"{top.command_path} {name}")
    return found
