"""Work in processes of their own, for compilers that may crash or never end.

A worker takes one job after the other. One that dies or takes too long costs its job alone: the answer says
so and another worker goes on. What workers print is thrown away, so that a page is never disturbed.
"""

from __future__ import annotations

import multiprocessing
import os
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from typing import Any, TypeVar

J = TypeVar("J")
R = TypeVar("R")


@dataclass(frozen=True)
class Lost:
    """A job without an answer, and why."""

    why: str


#: Bytes of memory (as addresses) that a worker may have: what is unrolled without end stops there.
_MEMORY = 12 << 30
#: Seconds for a worker to be there.
_START_S = 120.0


@dataclass
class _Worker:
    """``until`` is when it is given up: it has to say that it is ready, then to answer its job."""

    process: Any
    pipe: Connection
    until: float
    job: int = -1
    ready: bool = False


def run_all(
    work: Callable[[J], R],
    jobs: Sequence[J],
    *,
    environment: dict[str, str | None],
    count: int,
    limit_s: float,
    done: Callable[[int], None] = lambda number: None,
) -> list[R | Lost]:
    """What ``work`` (a function of a module) gives for every job, in their order.

    ``environment`` is set (None: unset) in the workers before anything is imported there. ``limit_s`` is for
    one job, in seconds. ``done`` is told how many jobs are through.
    """
    answers: list[R | Lost | None] = [None] * len(jobs)
    left = list(range(len(jobs)))[::-1]
    through = 0
    workers: list[_Worker] = []
    try:
        while left or any(worker.job >= 0 for worker in workers):
            while left and len(workers) < min(count, len(jobs)):
                workers.append(_start(work, environment))
            for worker in workers:
                if left and worker.job < 0:
                    worker.job = left.pop()
                    if worker.ready:
                        worker.until = time.monotonic() + limit_s
                    with suppress(OSError):  # died before: noticed below
                        worker.pipe.send(jobs[worker.job])
            busy = [worker for worker in workers if worker.job >= 0]
            soonest = min(worker.until for worker in busy) - time.monotonic()
            ready = wait([worker.pipe for worker in busy], max(0.0, soonest))
            for worker in busy:
                if worker.pipe in ready:
                    found = _answer(worker)
                    if not worker.ready and not isinstance(found, Lost):
                        worker.ready = True
                        worker.until = time.monotonic() + limit_s
                        continue
                elif time.monotonic() >= worker.until:
                    found = Lost(f"not done after {limit_s:g} seconds")
                else:
                    continue
                answers[worker.job] = found
                worker.job = -1
                through += 1
                done(through)
                if isinstance(found, Lost):
                    _end(worker)
                    workers.remove(worker)
    finally:
        for worker in workers:
            _end(worker)
    return [answer if answer is not None else Lost("never started") for answer in answers]


def _start(work: Callable[[Any], Any], environment: dict[str, str | None]) -> _Worker:
    context = multiprocessing.get_context("spawn")  # a fork of a process with threads may hang
    ours, theirs = context.Pipe()
    process = context.Process(target=_serve, args=(theirs, work, environment), daemon=True)
    process.start()
    theirs.close()
    return _Worker(process, ours, time.monotonic() + _START_S)


def _serve(pipe: Connection, work: Callable[[Any], Any], environment: dict[str, str | None]) -> None:
    for name, value in environment.items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value
    _limited()
    nothing = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(nothing, stream)
    with suppress(EOFError, OSError, KeyboardInterrupt):
        pipe.send("ready")
        while True:
            job = pipe.recv()
            try:
                answer = work(job)
            except (Exception, MemoryError) as error:  # noqa: BLE001 - of a compiler: it costs the job alone
                answer = Lost(f"{type(error).__name__}: {error}"[:200])
            pipe.send(answer)


def _limited() -> None:
    """No more than ``_MEMORY``, and no files of memory left behind by a crash."""
    try:
        import resource
    except ImportError:  # no Unix
        return
    for what, most in ((resource.RLIMIT_AS, _MEMORY), (resource.RLIMIT_CORE, 0)):
        with suppress(OSError, ValueError):
            hard = resource.getrlimit(what)[1]
            resource.setrlimit(what, (most if hard == resource.RLIM_INFINITY else min(most, hard), hard))


def _answer(worker: _Worker) -> Any:
    try:
        return worker.pipe.recv()
    except (EOFError, OSError):
        worker.process.join(5)
        code = worker.process.exitcode
        ended = f"by signal {-code}" if code is not None and code < 0 else f"with exit code {code}"
        return Lost(f"the compiler's process ended {ended}")


def _end(worker: _Worker) -> None:
    worker.pipe.close()
    worker.process.kill()
    worker.process.join(5)
