"""The three standard streams, made such that what they are cannot change what a command answers.

A closed one is opened on nothing: else the next file that is opened gets its number, and what is said to a
person is written into that file. A standard error that takes nothing (a full disk, a closed pipe) is no
reason for another exit code. A standard output that takes nothing is, and the error says which file it was.
"""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

#: What an ``OSError`` of a write to standard output calls its file.
STDOUT = "standard output"


class _Told(io.FileIO):
    """Standard output: an error says what could not be written."""

    def write(self, data: ReadableBuffer, /) -> int:
        try:
            return super().write(data)
        except OSError as error:
            raise OSError(error.errno, error.strerror, STDOUT) from None


class _Unheard(io.FileIO):
    """Standard error: what cannot be said is not said."""

    def write(self, data: ReadableBuffer, /) -> int:
        try:
            return super().write(data)
        except OSError:
            return memoryview(data).nbytes


@contextmanager
def ready_streams() -> Iterator[None]:
    """Standard streams as described above, for as long as a command runs."""
    _open_closed()
    before = sys.stdin, sys.stdout, sys.stderr
    if sys.stdin is None:
        sys.stdin = open(os.devnull, encoding="utf-8")
    sys.stdout = _text(sys.stdout, 1, _Told)
    sys.stderr = _text(sys.stderr, 2, _Unheard)
    try:
        yield
    finally:
        mine = sys.stdout, sys.stderr
        sys.stdin, sys.stdout, sys.stderr = before
        for stream, old, number in zip(mine, before[1:], (1, 2), strict=True):
            if stream is not old:
                _end(stream, number)


def _open_closed() -> None:
    for number in (0, 1, 2):
        try:
            os.fstat(number)
        except OSError:
            # The lowest free number is taken, and those below are open by now.
            os.open(os.devnull, os.O_RDONLY if number == 0 else os.O_WRONLY)


def _text(stream: Any, number: int, kind: type[io.FileIO]) -> Any:
    """The stream over a file of ``kind``, where it is the interpreter's own and not somebody's stand-in."""
    if stream is None:  # the number was closed when the interpreter started; whatever it is now, not this
        return open(os.devnull, "w", encoding="utf-8", errors="backslashreplace")
    own: Any = sys.__stdout__ if number == 1 else sys.__stderr__
    if stream is not own or _number(stream) != number:
        return stream
    with suppress(OSError, ValueError):
        stream.flush()
    raw = kind(number, "wb", closefd=False)
    return io.TextIOWrapper(
        io.BufferedWriter(raw),
        encoding=stream.encoding or "utf-8",
        errors="backslashreplace",
        line_buffering=number == 2 or raw.isatty(),
    )


def _number(stream: Any) -> int:
    try:
        return stream.fileno()
    except (OSError, ValueError):
        return -1


def _end(stream: Any, number: int) -> None:
    """Write what is left; what nobody takes goes nowhere, as the interpreter would try it once more."""
    try:
        stream.flush()
    except (OSError, ValueError):
        nothing = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nothing, number)
        os.close(nothing)
        with suppress(OSError, ValueError):
            stream.flush()
