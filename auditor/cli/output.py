"""Writing what a command has to say: to the terminal, or to a file that is whole or absent."""

from __future__ import annotations

import contextlib
import io
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from auditor.cli.color import console, page_console
from auditor.errors import UserError, shown

if TYPE_CHECKING:
    from rich.console import Console


def write_bytes(data: bytes, output: str | None) -> None:
    """To stdout, or to the file ``output`` (through a temporary neighbour, so nothing is half-written).

    UserError U004 where the file cannot be written.
    """
    if output is None or output == "-":
        sys.stdout.flush()
        # In the log of a CI job ``##[word]`` is a command wherever it stands; in JSON it is written in other
        # words that mean the same.
        sys.stdout.buffer.write(data.replace(b"##[", b"#\\u0023[") if data[:1] == b"{" else data)
        sys.stdout.buffer.flush()
        return
    path = Path(output)
    try:
        if path.exists() and not path.is_file():  # /dev/stdout, a pipe: nothing to replace
            with open(path, "wb") as direct:
                direct.write(data)
            return
        _replace(path.resolve() if path.is_symlink() else path, data)
    except BrokenPipeError:
        raise
    except OSError as error:
        hints = ["--output FILE in a folder that exists and has room"]
        fact = f"cannot write the report: {(error.strerror or str(error)).lower()}"
        raise UserError("U004", fact, place=output, hints=hints) from error


def _replace(path: Path, data: bytes) -> None:
    import tempfile

    handle, temporary = tempfile.mkstemp(prefix=f".{path.name}.", suffix=".tmp", dir=path.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(temporary, _mode(path))
        os.replace(temporary, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise


def _mode(path: Path) -> int:
    """Permissions of the new file: those of the one it replaces, else what the umask allows."""
    try:
        return path.stat().st_mode & 0o777
    except OSError:
        mask = os.umask(0)
        os.umask(mask)
        return 0o666 & ~mask


def render(draw: Callable[[Console], None], output: str | None, color: str, *, rich: bool = False) -> None:
    """Let ``draw`` print on a console, and put the result where ``output`` says.

    ``rich`` says that ``draw`` prints tables and the like, for which a real console is needed.
    """
    make = console if rich else page_console
    if output is None or output == "-":
        draw(make(sys.stdout, color))
        sys.stdout.flush()
        return
    buffer = io.StringIO()
    draw(make(buffer, "always" if color == "always" else "never"))
    write_bytes(buffer.getvalue().encode("utf-8", "backslashreplace"), output)


def note(text: str, quiet: bool = False) -> None:
    """A line of chatter, on stderr so that it never mixes with data."""
    if not quiet:
        sys.stderr.write(shown(text) + "\n")


def echo(text: object = "", *, err: bool = False, nl: bool = True) -> None:
    """Lines that may hold foreign text, as ``click.echo`` prints them."""
    import click

    click.echo(shown(str(text)), err=err, nl=nl)
