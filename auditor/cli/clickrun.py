"""Runs a click command under the rules of :mod:`auditor.cli.run`."""

from __future__ import annotations

import os
from collections.abc import Sequence

import click

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
        import difflib

        near = difflib.get_close_matches(error.option_name, error.possibilities or (), n=1, cutoff=0.6)
        hints = [*(f"{path} {option}" for option in near), *hints]
    return UserError("U001", fact[:1].lower() + fact[1:], hints=hints)
