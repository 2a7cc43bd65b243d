"""What a reader of foreign bytes may do with any input: read it, or raise one ``UserError``.

Each module in ``parsers/`` is one reader: ``SEEDS`` (small inputs that are right or nearly so), ``WORDS``
(pieces of its language) and ``one_input(data)``. ``try_one`` calls it under the limits and says what went
wrong; the tests, the nightly run (``drive.py``) and the inputs kept in ``crashes/`` all go through it.
"""

from __future__ import annotations

import importlib
import os
import random
import re
import resource
import signal
import sys
import tempfile
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

from auditor.errors import UserError

ROOT = Path(__file__).resolve().parents[2]
CRASHES = Path(__file__).parent / "crashes"
#: CPU seconds for one input, and bytes of address space that it may add.
SECONDS = 10.0
MEMORY = 2 << 30
#: No input is longer: what is over it is the business of the limits of each reader, which have tests.
LONGEST = 1 << 16

_NUMBERS = (
    b"0",
    b"-1",
    b"1",
    b"255",
    b"65536",
    b"2147483648",
    b"18446744073709551616",
    b"1e999",
    b"9" * 5000,
)
_BYTES = (
    b"\0",
    b"\xff",
    b"\r",
    b"\n",
    b"\r\n",
    b"\xef\xbb\xbf",
    b"\xe2\x80\xae",
    b"\xc3",
    b"\\",
    b'"',
    b"'",
    b"\x0c",
)


class Parser(Protocol):
    """One reader. A module is one too."""

    SEEDS: tuple[bytes, ...]
    WORDS: tuple[bytes, ...]

    def one_input(self, data: bytes) -> None:
        """Read the bytes, and check what can be checked of the answer."""


class Fault(Exception):
    """An input that did what no input may. ``kind`` is the same for the same fault."""

    def __init__(self, kind: str, text: str) -> None:
        super().__init__(f"{kind}\n{text}")
        self.kind = kind
        self.text = text


class TooSlow(BaseException):
    """The limit of time; not an ``Exception``, so that no reader takes it for a fault of its input."""


class Outside(BaseException):
    """A write outside of the folder of the harness, or a program or connection that was started."""


def names() -> list[str]:
    """The names of all readers."""
    return sorted(p.stem for p in (Path(__file__).parent / "parsers").glob("*.py") if p.stem != "__init__")


def parser(name: str) -> Any:
    """The module of a reader."""
    return importlib.import_module(f"tests.fuzz.parsers.{name}")


# what is watched

_PLACE = Path(tempfile.mkdtemp(prefix="fuzz-", dir="/dev/shm" if os.path.isdir("/dev/shm") else None))
_WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
_PATH_EVENTS = frozenset(
    "os.mkdir os.rename os.remove os.rmdir os.link os.symlink os.truncate os.chmod os.utime".split()
)
_NEVER = frozenset("subprocess.Popen os.system os.exec os.posix_spawn os.fork socket.connect".split())
_watching: list[frozenset[str]] = []
_hooked = False


def place() -> Path:
    """A folder of this process, in memory where there is such a disk; the only one that may be written to."""
    return _PLACE


def _hook(event: str, args: tuple[Any, ...]) -> None:
    if not _watching:
        return
    if event in _NEVER and event not in _watching[-1]:
        raise Outside(f"{event} {args[0]!r}")
    if event == "open":
        path, mode, flags = args
        writes = bool(set(mode or "") & set("wax+")) or bool((flags or 0) & _WRITES)
        targets = [path] if writes and isinstance(path, (str, bytes)) else []
    elif event in _PATH_EVENTS:
        targets = [a for a in args[:2] if isinstance(a, (str, bytes))]
    else:
        return
    for target in targets:
        full = os.path.normpath(os.path.join(_PLACE, os.fsdecode(target)))
        if full != "/dev/null" and not full.startswith(f"{_PLACE}/") and ".pyc" not in full:
            raise Outside(f"{event} {full}")


@contextmanager
def _limits(seconds: float, allowed: frozenset[str]) -> Iterator[None]:
    global _hooked
    if not _hooked:
        sys.addaudithook(_hook)
        _hooked = True

    def late(*_: Any) -> None:
        raise TooSlow

    before = signal.signal(signal.SIGVTALRM, late)
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    pages = int(Path("/proc/self/statm").read_text().split()[0]) if sys.platform == "linux" else 0
    if pages:
        resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + MEMORY, hard))
    os.environ["SGLANG_AUDITOR_CACHE_DIR"] = str(_PLACE / "cache")
    signal.setitimer(signal.ITIMER_VIRTUAL, seconds)
    cwd = os.getcwd()
    os.chdir(_PLACE)
    _watching.append(allowed)
    try:
        yield
    finally:
        _watching.pop()
        os.chdir(cwd)
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)
        if pages:
            resource.setrlimit(resource.RLIMIT_AS, (soft, hard))


def try_one(target: Parser, data: bytes, seconds: float = SECONDS) -> None:
    """One input under the limits. ``Fault`` for all but an answer or a ``UserError`` that can be shown."""
    try:
        with _limits(seconds, getattr(target, "STARTS", frozenset())):
            target.one_input(data)
    except UserError as error:
        shown = error.render()
        if not re.fullmatch(r"[A-Z]\d{3}", error.code) or not error.fact or "\n" in error.fact:
            raise Fault(f"an error that cannot be shown: {error.code}", shown) from None
        if re.search(r"Traceback \(most|<auditor\.| object at 0x", shown):
            raise Fault(f"an error that shows its insides: {error.code}", shown) from None
    except (Exception, TooSlow, Outside) as error:
        raise Fault(
            f"{type(error).__name__} in {_where(error)}", "".join(traceback.format_exception(error)[-12:])
        ) from None


def _where(error: BaseException) -> str:
    frames = traceback.extract_tb(error.__traceback__)
    ours = [f for f in frames if "/auditor/" in f.filename] or frames
    last = ours[-1]
    return f"{last.filename.rpartition('/auditor/')[2]}:{last.name}"


# inputs


def mutated(rng: random.Random, base: bytes, target: Parser) -> bytes:
    """``base`` with a few changes of the kinds that upset readers."""
    data = bytearray(base)
    for _ in range(1 + rng.randrange(5)):
        at = rng.randrange(len(data) + 1)
        end = min(len(data), at + 1 + _length(rng, 10))
        form = rng.randrange(11)
        if form == 0:
            data[at:at] = rng.choice(target.WORDS or _BYTES)
        elif form == 1:
            data[at:end] = rng.choice(target.WORDS or _BYTES)
        elif form == 2:
            data[at:at] = rng.choice(_BYTES)
        elif form == 3:
            del data[at:end]
        elif form == 4:
            data[at:at] = bytes(data[at:end]) * (1 + rng.randrange(3))
        elif form == 5 and data:
            data[min(at, len(data) - 1)] ^= 1 << rng.randrange(8)
        elif form == 6:
            found = list(re.finditer(rb"\d+", bytes(data[:4096])))
            if found:
                one = rng.choice(found)
                data[one.start() : one.end()] = rng.choice(_NUMBERS)
        elif form == 7:
            del data[at:]
        elif form == 8:
            other = rng.choice(target.SEEDS)
            start = rng.randrange(len(other) + 1)
            data[at:end] = other[start : start + 1 + _length(rng, 50)]
        elif form == 9:
            lines = bytes(data).split(b"\n")
            one, two = rng.randrange(len(lines)), rng.randrange(len(lines))
            lines[one], lines[two] = lines[two], lines[one]
            data = bytearray(b"\n".join(lines))
        else:
            word = rng.choice(target.WORDS or _BYTES)
            data[at:at] = word * rng.choice((2, 50, 1500))
    return bytes(data[:LONGEST])


def _length(rng: random.Random, mean: int) -> int:
    return int(min(rng.expovariate(1 / mean), 40 * mean))


def made(rng: random.Random, target: Parser) -> bytes:
    """An input: a seed, what the reader's own generator makes, either of them changed, or noise."""
    form = rng.randrange(20)
    if form == 0:
        return bytes(rng.randrange(256) for _ in range(rng.randrange(200)))
    generate = getattr(target, "generated", None)
    base = generate(rng) if generate is not None and form % 2 else rng.choice(target.SEEDS)
    return base[:LONGEST] if form == 1 else mutated(rng, base, target)


def files_below(folder: Path, pattern: str, most: int, size: int = 6000) -> tuple[bytes, ...]:
    """Some of the project's own files as seeds, small ones first."""
    found = sorted((p.stat().st_size, str(p)) for p in folder.rglob(pattern))
    step = max(1, len(found) // most)
    return tuple(Path(name).read_bytes() for length, name in found[::step] if length <= size)[:most]
