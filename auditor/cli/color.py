"""When to use colour, how wide a page is, and where text goes."""

from __future__ import annotations

import os
from typing import IO, TYPE_CHECKING, Any

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
    except ValueError:  # closed
        return False


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
