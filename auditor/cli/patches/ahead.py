"""Work that is done ahead in processes of its own: it leaves answers in the cache, and nothing else.

Whoever asks afterwards does the same work again and finds it done. So what comes out cannot depend on whether
this ran, came to its end, or failed.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import TypeVar

T = TypeVar("T")

#: Processes at most, the asking one included: each may hold 200 MiB.
_MOST = 4
#: Fewer questions are not worth a process.
_FEWEST = 4


@contextmanager
def ahead(items: Sequence[T], work: Callable[[T], object]) -> Iterator[None]:
    """While the block runs and takes ``items`` in their order, others work on the later ones.

    Each process takes a stretch: neighbours have most in common. Only on Linux, where processes can fork.
    """
    count = min(_cores(), _MOST, len(items) // 2)
    if sys.platform != "linux" or len(items) < _FEWEST or count < 2:
        yield
        return
    import multiprocessing

    context = multiprocessing.get_context("fork")
    cuts = [len(items) * n // count for n in range(count + 1)]
    parts = [items[low:high] for low, high in zip(cuts[1:], cuts[2:])]
    helpers = [context.Process(target=_all, args=(part, work), daemon=True) for part in parts]
    try:
        with suppress(OSError):  # no more processes allowed: then it is done by the one that asks
            for helper in helpers:
                helper.start()
        yield
    finally:
        for helper in helpers:
            if helper.pid is not None:
                helper.terminate()
                helper.join()


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _all(items: Sequence[T], work: Callable[[T], object]) -> None:
    import signal

    signal.signal(signal.SIGINT, signal.SIG_IGN)  # whoever asked ends this one
    with suppress(BaseException):  # what is wrong with it, the one that asks says
        for item in items:
            work(item)
