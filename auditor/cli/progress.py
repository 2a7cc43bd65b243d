"""A progress line on stderr, for people only: a terminal, not CI, and work that takes a while."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import TracebackType

from auditor.cli.color import is_terminal
from auditor.errors import clean

_DELAY = 0.5  # seconds before anything is shown
_PERIOD = 0.1  # seconds between two drawings
_CELLS = 24


class Progress:
    """Call it with what is going on and how far it is; it draws at most ten times a second.

    ``progress("reading", 120, 2000)`` draws a bar, ``progress("downloading")`` a bare line. Counts may be
    files or bytes. Used as a context manager it wipes its line at the end, whatever the end is.
    """

    def __init__(self, quiet: bool = False) -> None:
        self.enabled = not quiet and wanted()
        self._start = time.monotonic()
        self._last = 0.0
        self._drawn = False

    def __call__(self, what: str, done: int = 0, total: int = 0) -> None:
        if not self.enabled:
            return
        now = time.monotonic()
        if now - self._start < _DELAY or now - self._last < _PERIOD:
            return
        self._last = now
        import shutil

        width = shutil.get_terminal_size().columns - 1
        self._write("\r\x1b[K" + line(clean(what), done, total)[:width])
        self._drawn = True

    @contextmanager
    def waiting(self, what: str) -> Iterator[None]:
        """Show ``what`` while a block runs that reports nothing itself; a thread keeps the seconds going."""
        if not self.enabled:
            yield
            return
        import threading

        done = threading.Event()

        def tick() -> None:
            while not done.wait(_DELAY):
                self(f"{what} ({time.monotonic() - self._start:.0f} s)")

        thread = threading.Thread(target=tick, daemon=True)
        thread.start()
        try:
            yield
        finally:
            done.set()
            thread.join()
            self.close()

    def close(self) -> None:
        """Wipe the line, if there is one."""
        if self._drawn:
            self._write("\r\x1b[K")
            self._drawn = False

    def _write(self, text: str) -> None:
        try:
            sys.stderr.write(text)
            sys.stderr.flush()
        except (OSError, ValueError):
            self.enabled = False

    def __enter__(self) -> Progress:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def wanted() -> bool:
    """Whether somebody watches stderr on a terminal that can redraw a line."""
    return is_terminal(sys.stderr) and not os.environ.get("CI") and os.environ.get("TERM") != "dumb"


def line(what: str, done: int, total: int) -> str:
    """The text of a progress line: words, then a bar and a share where the total is known."""
    if total <= 0:
        return f"{what} {done:,}" if done else f"{what} …"
    share = min(1.0, max(0.0, done / total))
    full = int(share * _CELLS)
    return f"{what} [{'#' * full}{'.' * (_CELLS - full)}] {share:4.0%}"
