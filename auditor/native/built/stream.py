"""A file that is read once, forwards, in pieces: what has been passed is gone, but for its last bytes."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

#: How much of the end is kept for tables that stand there, bytes.
KEPT = 1 << 20


class Forward:
    """A window on a stream. ``buf[at:]`` is what lies ahead and is in memory already."""

    def __init__(self, chunks: Iterable[bytes]) -> None:
        self._chunks = iter(chunks)
        self._kept: deque[bytes] = deque()
        self._kept_size = 0
        self.buf = b""
        self.at = 0
        self.base = 0  # offset in the file of buf[0]
        self.size = 0  # bytes seen so far; the file's size at the end

    @property
    def offset(self) -> int:
        """Where in the file the reading stands."""
        return self.base + self.at

    def more(self) -> bool:
        """Brings one more piece into the window. False at the end of the file."""
        for chunk in self._chunks:
            if not chunk:
                continue
            self.size += len(chunk)
            self._kept.append(chunk)
            self._kept_size += len(chunk)
            while self._kept_size - len(self._kept[0]) >= KEPT:
                self._kept_size -= len(self._kept.popleft())
            self.base += self.at
            self.buf = self.buf[self.at :] + chunk if self.at < len(self.buf) else chunk
            self.at = 0
            return True
        return False

    def need(self, count: int) -> bool:
        """Whether ``count`` bytes lie ahead; reads on until they do."""
        while len(self.buf) - self.at < count:
            if not self.more():
                return False
        return True

    def passed(self, count: int) -> Iterable[bytes]:
        """Goes ``count`` bytes on, and gives them in pieces; fewer at the end of the file."""
        while count > 0:
            if self.at == len(self.buf) and not self.more():
                return
            piece = self.buf[self.at : self.at + count]
            self.at += len(piece)
            count -= len(piece)
            yield piece

    def tail(self) -> tuple[bytes, int]:
        """The last bytes that were read and their offset in the file."""
        return b"".join(self._kept), self.size - self._kept_size
