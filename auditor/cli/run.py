"""Turns everything that can end a command into one message and an exit code."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from auditor.cli.color import use_color
from auditor.cli.streams import STDOUT
from auditor.errors import EXIT_INPUT, EXIT_INTERNAL, EXIT_INTERRUPT, EXIT_OK, UserError

#: Old logs beyond this many are removed when a new one is written.
_LOGS_KEPT = 20


def guarded(work: Callable[[], int], arguments: Sequence[str]) -> int:
    """Do ``work`` and return its exit code. Prints, never exits, never raises.

    Expected failures are shown as code, fact, place and hints; anything else leaves a log in the cache
    folder and ends in exit code 4. ``arguments`` are the words typed, for the log and the choice of colour.
    """
    import warnings

    # What Python has to say of an audited file (an escape that means nothing) is no word of ours.
    warnings.filterwarnings("ignore", category=SyntaxWarning)
    warnings.filterwarnings("ignore", category=DeprecationWarning)
    try:
        with _ended_as_interrupted():
            code = work()
            sys.stdout.flush()
        return code
    except UserError as error:
        from auditor.cli.again import with_the_rest

        _show(with_the_rest(error, arguments), arguments)
        return error.exit_code
    except KeyboardInterrupt:
        _say("interrupted")
        return EXIT_INTERRUPT
    except BrokenPipeError:
        # The reader (head, less) has seen enough. Point stdout elsewhere, or the final flush complains.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        return EXIT_OK
    except MemoryError:
        _show(UserError("I002", "out of memory"), arguments)
        return EXIT_INTERNAL
    except RecursionError:
        # What follows sources, patches and lists calls itself; where it can, it says so with the place.
        _show(UserError("I003", "something in the input is nested too deeply to be followed"), arguments)
        return EXIT_INPUT
    except OSError as error:
        # What library code did not turn into its own message: no space, no permission, too many files.
        if error.filename is None and error.errno is None:
            return _internal(arguments)
        _show(_os_error(error), arguments)
        return EXIT_INPUT
    except Exception:
        return _internal(arguments)


@contextmanager
def _ended_as_interrupted() -> Iterator[None]:
    """A request to end (``kill``, a closed terminal) is an interrupt: what is half done is put away first."""
    import signal

    def interrupted(_number: int, _frame: object) -> None:
        if os.getpid() != own:  # a child that was forked from here ends as it would have
            os._exit(EXIT_INTERRUPT)
        raise KeyboardInterrupt

    own = os.getpid()
    names = ("SIGTERM", "SIGHUP")
    numbers = [getattr(signal, name) for name in names if hasattr(signal, name)]
    taken = []
    try:
        for number in numbers:
            if signal.getsignal(number) is signal.SIG_DFL:
                signal.signal(number, interrupted)
                taken.append(number)
    except ValueError:  # not the main thread: somebody else decides what a signal means
        pass
    try:
        yield
    finally:
        for number in taken:
            signal.signal(number, signal.SIG_DFL)


def _os_error(error: OSError) -> UserError:
    import errno

    hints: list[str] = []
    if error.filename == STDOUT:
        return UserError("U003", f"cannot write to {STDOUT}: {(error.strerror or str(error)).lower()}")
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        hints = ["audit cache clear"]
    elif error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
        hints = ["set SGLANG_AUDITOR_CACHE_DIR to a folder you can write to"]
    place = str(error.filename) if error.filename is not None else None
    return UserError("U003", (error.strerror or str(error)).lower(), place=place, hints=hints)


def _wanted_color(arguments: Sequence[str]) -> str:
    """The value of ``--color``, read from the raw words: an error may come before they are parsed."""
    for at, word in enumerate(arguments):
        if word.startswith("--color="):
            return word.partition("=")[2]
        if word == "--color" and at + 1 < len(arguments):
            return arguments[at + 1]
    return "auto"


def _say(text: str) -> None:
    try:
        sys.stderr.write(text + "\n")
        sys.stderr.flush()
    except OSError:
        pass  # nobody listens


def _show(error: UserError, arguments: Sequence[str]) -> None:
    lines = error.render().split("\n")
    if use_color(_wanted_color(arguments), sys.stderr):
        head, _, fact = lines[0].partition(": ")
        lines[0] = f"\x1b[1;31m{head}\x1b[0m: \x1b[1m{fact}\x1b[0m"
        lines[1:] = [
            "\x1b[36mhelp\x1b[0m" + line[4:] if line.startswith("help: ") else line for line in lines[1:]
        ]
    _say("\n".join(lines))


def _internal(arguments: Sequence[str]) -> int:
    """An exception nobody expected: one line on the terminal, the rest in a log."""
    import traceback

    kind, value, _trace = sys.exc_info()
    text = "".join(traceback.format_exception(value))
    last = traceback.extract_tb(value.__traceback__ if value else None)
    where = f"{os.path.basename(last[-1].filename)}:{last[-1].lineno}" if last else None
    fact = f"internal error: {kind.__name__ if kind else 'unknown'}: {value}".split("\n")[0]
    try:
        log = _write_log(text, arguments)
        hint = f"report it with the text of {log}"
    except OSError as failed:
        _say(text.rstrip())
        hint = f"report it with the text above (no log: {failed.strerror})"
    _show(UserError("I001", fact, place=where, hints=[hint]), arguments)
    return EXIT_INTERNAL


def _write_log(text: str, arguments: Sequence[str]) -> str:
    import platform
    import shlex
    import time

    from auditor import __version__
    from auditor.trees.cache import ready_cache_dir, write_whole

    folder = ready_cache_dir() / "logs"
    folder.mkdir(exist_ok=True)
    for old in sorted(folder.glob("error-*.log"))[: -(_LOGS_KEPT - 1)]:
        old.unlink(missing_ok=True)
    path = folder / f"error-{time.strftime('%Y%m%d-%H%M%S')}-{time.time_ns() % 10**9:09}.log"
    head = [
        f"sglang-auditor {__version__}",
        f"Python {platform.python_version()} on {platform.system()} {platform.machine()}",
        "command: " + shlex.join([os.path.basename(sys.argv[0]), *arguments]),
    ]
    body = "\n".join([*head, "", text])
    home = os.path.expanduser("~")
    if len(home) > 1:  # the log is meant to be pasted: do not tell the user's name
        body = body.replace(home, "~")
    write_whole(path, body.encode("utf-8", "backslashreplace"))
    return str(path)
