"""A file that grows line by line: one writer at a time, and a run that was killed costs the line in work."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from auditor.errors import UserError


class LineFile:
    """The lines that are there, and a place to append. Use :func:`line_file`."""

    def __init__(self, path: Path, file: BinaryIO) -> None:
        self.path = path
        self._file = file
        data = file.read()
        whole, _, rest = data.rpartition(b"\n")
        self.lines: list[bytes] = whole.split(b"\n") if whole else []
        #: Whether the end of the file was a line that was never finished.
        self.cut = bool(rest)
        self._end = len(data) - len(rest)

    def drop_last(self) -> None:
        """Forget the last line."""
        self._end -= len(self.lines.pop()) + 1

    def replace(self, lines: list[bytes]) -> None:
        """Put other lines in the place of all that are there, at once: a run that is killed meanwhile leaves
        the old ones. UserError U004 where that fails.
        """
        import fcntl
        import tempfile

        try:
            with contextlib.ExitStack() as undo:
                handle, name = tempfile.mkstemp(dir=self.path.parent, prefix=f".{self.path.name}.")
                undo.callback(Path(name).unlink, missing_ok=True)
                file = os.fdopen(handle, "r+b")
                fcntl.flock(file, fcntl.LOCK_EX)
                os.fchmod(handle, os.fstat(self._file.fileno()).st_mode & 0o777)
                file.write(b"".join(line + b"\n" for line in lines))
                file.flush()
                os.fsync(handle)
                os.replace(name, self.path.resolve())
                undo.pop_all()
        except OSError as error:
            raise _unwritable(self.path, error) from None
        self._file.close()
        self._file, self.lines, self.cut, self._end = file, list(lines), False, -1

    def close(self) -> None:
        """Let go of the file, and of the lock."""
        self._file.close()

    def append(self, line: bytes) -> None:
        """Write a line (without its end). UserError U004 where that fails."""
        try:
            if self._end >= 0:
                self._file.truncate(self._end)
                self._file.seek(self._end)
                self._end = -1
            self._file.write(line + b"\n")
            self._file.flush()
        except OSError as error:
            raise _unwritable(self.path, error) from None


@contextmanager
def line_file(name: str) -> Iterator[LineFile]:
    """Open a file to append lines to it, made where it is not there.

    UserError H033 while another process writes it, U004 where it cannot be written.
    """
    import fcntl

    path = Path(name)
    try:
        if path.exists() and not path.is_file():
            raise UserError("U004", "not a file that lines can be appended to", place=name, hints=_HINTS)
        handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
    except OSError as error:
        raise _unwritable(path, error) from None
    with os.fdopen(handle, "r+b") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)  # gone with the process, however it ends
        except BlockingIOError:
            fact = "another sweep is writing this file"
            hints = ["wait for it, or --output ANOTHER"]
            raise UserError("H033", fact, place=name, hints=hints) from None
        except OSError as error:
            raise _unwritable(path, error) from None
        lines = LineFile(path, file)
        try:
            yield lines
        finally:
            lines.close()


_HINTS = ("--output FILE in a folder that exists and has room",)


def _unwritable(path: Path, error: OSError) -> UserError:
    fact = f"cannot write the sweep: {(error.strerror or str(error)).lower()}"
    return UserError("U004", fact, place=str(path), hints=_HINTS)
