"""The work of a sweep: its tasks one after the other, in processes, or on the machines of a Dask cluster."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from auditor.errors import UserError
from auditor.history.sweeping.model import CommitLine
from auditor.history.sweeping.sweep import Plan, Task, encoded, quick_lines, repo_of

#: Seconds between two looks at whether a scheduler is still there.
_LOOK_S = 5.0
#: Seconds for a scheduler to answer at first.
_CONNECT_S = 15.0
#: Tasks handed out ahead of the one whose lines are written, per process.
_AHEAD = 2


def lines_of(task: Task) -> Iterator[CommitLine]:
    """The lines of a task, of whichever level. UserError."""
    if task.setup.level == "quick":
        yield from quick_lines(task)
    else:
        yield full_line(task)


def full_line(task: Task) -> CommitLine:
    """One commit by its whole audit; reports are kept in the cache as those of ``audit PROJECT`` are."""
    from auditor.gates.cache import Asked, kept_report
    from auditor.gates.model import VERDICTS
    from auditor.reporting import jsonout
    from auditor.trees.between import log_entry
    from auditor.trees.commit import CommitTree

    setup = task.setup
    repo = repo_of(task)
    entry = log_entry(repo, task.line.last)
    asked = Asked(setup.targets, setup.reference, setup.assumptions, setup.defaults, setup.project)

    def decoded(data: bytes) -> Any:
        return jsonout.loads(data, "a kept report")

    try:
        data = kept_report(CommitTree(repo, entry.oid), asked, encode=jsonout.dumps, decode=decoded)
    except UserError as error:
        if error.code != "T020":
            raise
        return CommitLine(entry.oid, entry.date, entry.pr, 0, {}, problem=f"{error.code}: {error.fact}")
    report = decoded(data)
    targets: dict[str, dict[str, int]] = {}
    for name in setup.targets:
        counts = dict.fromkeys(VERDICTS, 0)
        for gate in report.gates:
            counts[gate.verdict[name]] += 1
        for finding in report.findings:
            verdict = finding.verdict.get(name)
            if not finding.gate and verdict in counts:
                counts[verdict] += 1
        targets[name] = {verdict: count for verdict, count in counts.items() if count}
    return CommitLine(
        entry.oid, entry.date, entry.pr, len(report.gates), targets, unreadable=len(report.problems)
    )


def packed(task: Task) -> tuple[str, Any]:
    """The lines of a task in bytes, or what stopped it: an exception of ours does not travel as it is."""
    try:
        return "lines", [encoded(line) for line in lines_of(task)]
    except UserError as error:
        return "error", (error.code, error.fact, error.place, error.hints)


def here(tasks: Sequence[Task], told: Plan, done: int) -> Iterator[bytes]:
    """One after the other, each line as soon as it is there."""
    for task in tasks:
        quick = task.setup.level == "quick"
        lines = quick_lines(task, told.learned, told.steps[done:]) if quick else lines_of(task)
        for number, line in enumerate(lines):
            if not number:
                gc.freeze()  # what was learned and the first tree stay to the end
            yield encoded(line)


def in_processes(tasks: Sequence[Task], jobs: int) -> Iterator[bytes]:
    """In some processes, in order. UserError H035 where one of them died."""
    import multiprocessing
    from concurrent.futures import ProcessPoolExecutor
    from concurrent.futures.process import BrokenProcessPool

    context = multiprocessing.get_context("spawn")
    pool = ProcessPoolExecutor(min(jobs, len(tasks)), mp_context=context)
    try:
        yield from _in_order(
            tasks, lambda task: pool.submit(packed, task), jobs * _AHEAD, lambda f: f.result()
        )
    except BrokenProcessPool:
        fact = "a process of the sweep died (out of memory?); what was done is in the file"
        raise UserError("H035", fact, hints=["the same line again goes on", "--jobs 1"]) from None
    finally:
        pool.shutdown(wait=False, cancel_futures=True)


def on_cluster(tasks: Sequence[Task], address: str) -> Iterator[bytes]:
    """On a Dask cluster, in order. UserError H034 where there is none or it went away, U014 without Dask."""
    try:
        from distributed import Client
    except ImportError:
        hints = ["pip install 'sglang-auditor[cluster]'"]
        raise UserError("U014", "--scheduler needs Dask, which is not installed", hints=hints) from None
    import logging

    for name in [n for n in logging.root.manager.loggerDict if n.partition(".")[0] == "distributed"]:
        logging.getLogger(name).setLevel(logging.CRITICAL)  # one clear error, not its traces
    try:
        client = Client(address, timeout=_CONNECT_S, set_as_default=False)
    except (OSError, ValueError, TimeoutError) as error:
        words = str(error).strip().splitlines()
        fact = f"no Dask scheduler answers at {address}" + (f": {words[0]}" if words else "")
        raise UserError("H034", fact, hints=["--scheduler tcp://HOST:8786", "--jobs 2"]) from None
    try:
        workers = len(client.scheduler_info()["workers"])
        if not workers:
            raise UserError(
                "H034", f"the scheduler at {address} has no workers", hints=["dask worker ADDRESS"]
            )

        def submit(task: Task) -> Any:
            return client.submit(packed, task, pure=False, retries=2)

        yield from _in_order(tasks, submit, max(8, workers * 4), lambda f: _result(f, client, address))
    finally:
        _close(client)


def _result(future: Any, client: Any, address: str) -> Any:
    """The result of a future, or UserError H034 once the scheduler is gone or the workers keep dying."""
    from concurrent.futures import CancelledError

    import distributed

    while True:
        try:
            return future.result(timeout=_LOOK_S)
        except (TimeoutError, distributed.TimeoutError):
            if client.status == "running":
                continue
            words = "the scheduler went away"
        except CancelledError:
            words = "the scheduler went away"
        except UserError:
            raise
        except Exception as error:  # noqa: BLE001 - whatever a worker or the wire gave
            kind = type(error).__name__
            words = (
                "workers keep dying" if kind == "KilledWorker" else f"{kind}: {error}".splitlines()[0][:200]
            )
        fact = f"{words} ({address}); what was done is in the file"
        raise UserError("H034", fact, hints=["the same line again goes on", "--jobs 2"]) from None


def _close(client: Any) -> None:
    try:
        client.close(timeout=2)
    except Exception:  # noqa: BLE001 - it is gone
        pass


def _in_order(
    tasks: Sequence[Task],
    submit: Callable[[Task], Any],
    ahead: int,
    result: Callable[[Any], tuple[str, Any]],
) -> Iterator[bytes]:
    waiting: list[Any] = []
    left = list(tasks)[::-1]
    while left or waiting:
        while left and len(waiting) < ahead:
            waiting.append(submit(left.pop()))
        what, given = result(waiting.pop(0))
        if what == "error":
            code, fact, place, hints = given
            raise UserError(code, fact, place=place, hints=hints)
        yield from given
