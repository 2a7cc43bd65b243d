"""Entry points. Answers ``--help`` and ``--version`` before anything heavy is imported."""

from __future__ import annotations

import os
import sys
from typing import TextIO

from auditor.cli.streams import ready_streams
from auditor.cli.table import AUDIT, PATCHES, UMBRELLA, Program, help_text
from auditor.errors import EXIT_INPUT, EXIT_INTERRUPT, EXIT_OK


def _program(program: Program) -> int:
    with ready_streams():
        try:
            return _run(program, sys.argv[1:])
        except KeyboardInterrupt:  # while the modules of a verb are imported; later, `guarded` says it
            sys.stderr.write("interrupted\n")
            return EXIT_INTERRUPT


def _run(program: Program, arguments: list[str]) -> int:
    completing = f"_{program.name}_COMPLETE".replace("-", "_").upper()
    if completing not in os.environ:
        quick = _quick(program, arguments)
        if quick is not None:
            # A line without any word asked for nothing: the help goes where errors go, and scripts notice.
            return _print(
                quick, sys.stdout if arguments else sys.stderr, EXIT_OK if arguments else EXIT_INPUT
            )
    inner = program is UMBRELLA and arguments[:1] == [AUDIT.name]
    words = arguments[1:] if inner else arguments
    if (inner or program.projects) and words and words[0] in AUDIT.project_names():
        from auditor.cli.audit.quick import request_of

        request = request_of(words[0], words[1:])
        if request is not None:
            from auditor.cli.audit.report import audit_project
            from auditor.cli.run import guarded

            return guarded(lambda: audit_project(request), arguments)
    from auditor.cli import groups
    from auditor.cli.clickrun import run

    return run(groups.group_of(program), program.name, arguments)


def _quick(program: Program, arguments: list[str]) -> str | None:
    """The answer to a line that needs no verb, or None."""
    if not arguments or arguments in (["--help"], ["-h"]):
        return help_text(program)
    if arguments in (["--version"], ["-V"]):
        from auditor import __version__

        return f"sglang-auditor {__version__}\n"
    return None


def _print(text: str, stream: TextIO, code: int) -> int:
    """Print at once, so that a closed pipe is seen here and not while the interpreter shuts down."""
    try:
        stream.write(text)
        stream.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
    except OSError as error:
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())  # or the last flush fails once more
        sys.stderr.write(f"error[U003]: cannot write: {(error.strerror or str(error)).lower()}\n")
        return EXIT_INPUT
    return code


def audit() -> int:
    """The ``audit`` command; returns the exit code."""
    return _program(AUDIT)


def patches() -> int:
    """The ``patches`` command; returns the exit code."""
    return _program(PATCHES)


def umbrella() -> int:
    """The ``sglang-auditor`` command; returns the exit code."""
    return _program(UMBRELLA)


if __name__ == "__main__":
    sys.exit(umbrella())
