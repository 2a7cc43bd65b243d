"""When to use colour, how wide a page is, and where text goes."""

from __future__ import annotations

import os
from typing import IO, TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from rich.console import Console

#: Width of a page that is not shown on a terminal, so that files and logs do not depend on one.
PLAIN_WIDTH = 110


def use_color(choice: str, stream: IO[Any]) -> bool:
    """Whether to colour ``stream``. ``choice`` is auto, always or never.

    With auto: ``NO_COLOR`` (not empty) says no; then ``FORCE_COLOR`` (not empty, not 0) says yes; then a
    terminal gets colour unless ``TERM=dumb``.
    """
    if choice == "always":
        return True
    if choice == "never" or os.environ.get("NO_COLOR"):
        return False
    if os.environ.get("FORCE_COLOR", "0") not in ("", "0"):
        return True
    return is_terminal(stream) and os.environ.get("TERM") != "dumb"


def is_terminal(stream: IO[Any]) -> bool:
    """Whether a person watches ``stream``."""
    try:
        return stream.isatty()
    except (ValueError, AttributeError):  # closed, or not there at all
        return False


class Plain:
    """What our own pages need of a rich console where there is neither colour nor a terminal.

    Importing rich costs more than reading a whole cached report, and a file or a pipe has no use for it.
    """

    is_terminal = False
    color_system = None

    def __init__(self, file: IO[str], width: int) -> None:
        self.file = file
        self.width = width
        self.encoding = (getattr(file, "encoding", None) or "utf-8").lower()

    def print(self, *texts: object, **_style: object) -> None:
        """The texts as they are."""
        self.file.write(" ".join(str(text) for text in texts) + "\n")


def page_console(stream: IO[str], choice: str = "auto") -> Console:
    """:func:`console`, or its cheap stand-in for pages that are written as plain lines anyway."""
    if use_color(choice, stream) or is_terminal(stream):
        return console(stream, choice)
    return cast("Console", Plain(stream, _columns()))


def console(stream: IO[str], choice: str = "auto") -> Console:
    """A rich console on ``stream``: terminal width on a terminal, else ``$COLUMNS`` or a fixed width."""
    from rich.console import Console

    class Piped(Console):
        def on_broken_pipe(self) -> None:
            # Rich would end the process here, and with its own exit code.
            raise BrokenPipeError

    color = use_color(choice, stream)
    terminal = is_terminal(stream)
    width = None if terminal else _columns()
    return Piped(
        file=stream,
        force_terminal=color,
        force_interactive=False,
        no_color=not color,
        color_system=("auto" if terminal and os.environ.get("TERM") != "dumb" else "standard")
        if color
        else None,
        width=width,
        highlight=False,
        emoji=False,
        markup=False,
        legacy_windows=False,
    )


def _columns() -> int:
    try:
        return max(40, int(os.environ["COLUMNS"]))
    except (KeyError, ValueError):
        return PLAIN_WIDTH
